// The page: reads its data, keeps what is chosen, and draws the parts again when that changes.

const PLAY_MS = 90;

async function readData() {
  const text = document.getElementById("data").textContent.trim();
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

class Page {
  constructor(data) {
    this.data = data;
    this.episode = 0;
    this.move = 0;
    this.searches = new Map();
    this.live = data.live ? new Live(data.live) : null;
    this.tree = new TreeView((node, isHover) => this.selectNode(node, isHover));
    this.parts = {};
    for (const name of ["head", "strip", "what", "live", "compare", "tree", "curves"]) {
      this.parts[name] = el("div");
    }
    document.getElementById("app").replaceChildren(...Object.values(this.parts));
    this.head();
    this.choose(0);
  }

  get moves() {
    return this.data.episodes[this.episode].moves;
  }

  get current() {
    return this.moves[this.move];
  }

  searchesOf(move) {
    if (!this.searches.has(move)) this.searches.set(move, (move.searches || []).map(prepare));
    return this.searches.get(move);
  }

  head() {
    const { title, subtitle, notes, episodes } = this.data;
    const select = episodes.length < 2 ? null : el("label", {}, "Episode",
      el("select", { id: "episode", onchange: (event) => { this.episode = Number(event.target.value); this.choose(0); } },
        episodes.map((one, i) => el("option", { value: i }, one.title))));
    this.parts.head.replaceChildren(el("h1", {}, title), el("p", { class: "faint" }, subtitle || ""),
      ...(notes || []).map((note) => el("p", { class: "faint note" }, note)), select || "");
  }

  choose(move, keepFocus = false) {
    this.stop();
    this.move = move;
    const searches = this.searchesOf(this.current);
    this.chosen = searches[this.current.acting || 0] || null;
    this.simulation = this.chosen ? this.chosen.record.simulations : 0;
    this.selected = this.chosen ? this.chosen.root : null;
    this.drawStrip(keepFocus);
    this.drawMove();
  }

  chooseSearch(search) {
    this.stop();
    this.chosen = search;
    this.simulation = search.record.simulations;
    this.selected = search.root;
    this.drawMove();
  }

  drawStrip(keepFocus) {
    const { parts, moves, data, move } = this;
    const old = parts.strip.querySelector(".strip");
    const scrolled = old ? old.scrollLeft : 0;
    const single = moves.length < 2;
    const box = strip(moves, data.grid, move, (i, byKey) => this.choose(i, byKey));
    parts.strip.replaceChildren(...(single ? [] : [el("section", { class: "panel" },
      el("h2", {}, data.episodes[this.episode].title), box)]));
    if (single) return;
    box.scrollLeft = scrolled;
    const button = box.children[move];
    const outside = button.offsetLeft < box.scrollLeft || button.offsetLeft + button.offsetWidth > box.scrollLeft + box.clientWidth;
    if (outside) box.scrollLeft = button.offsetLeft - 40;
    if (keepFocus) button.focus();
  }

  drawMove() {
    this.drawWhat();
    this.drawLive();
    this.drawCompare();
    this.drawTreePanel();
  }

  drawWhat() {
    const { current, data, moves, move } = this;
    const maps = data.maps && data.grid
      ? el("div", {}, el("h2", {}, "Over the whole grid, at this checkpoint"),
        drawMaps(data.maps, data.grid, moves, move, (i) => this.choose(i))) : null;
    const picture = pictureOf(current.picture, data.grid, trailOf(moves, move), `state of move ${move + 1}`);
    const cell = placeOf(current);
    const facts = [
      moves.length > 1 ? `Move ${move + 1}` : "", cell ? `row ${cell[0]}, column ${cell[1]}` : "",
      current.return !== undefined && current.return !== null ? `return so far ${shown(current.return)}` : "",
      current.over ? `the episode is over (${current.over})` : "",
    ].filter(Boolean).join(", ");
    const text = [
      el("p", { class: "sentence", id: "sentence" }, current.sentence || ""),
      current.choices ? el("p", { id: "choices" }, current.choices) : null,
    ];
    const left = facts || picture
      ? el("section", { class: "panel" }, el("p", { class: "faint", id: "facts" }, facts),
        picture ? el("div", { class: "picture" }, picture) : null) : null;
    const right = current.sentence || maps ? el("section", { class: "panel" }, text, maps) : null;
    this.parts.what.replaceChildren(left && right ? el("div", { class: "columns" }, left, right) : left || right || "");
  }

  drawLive() {
    if (this.live === null) return;
    const { current, move } = this;
    const actions = this.moves.slice(0, move).map((one) => one.action);
    this.parts.live.replaceChildren(this.live.panel(current, actions, (answer) => {
      current.searches = [...(current.searches || []), ...answer.searches];
      this.searches.delete(current);
      const searches = this.searchesOf(current);
      this.chooseSearch(searches[searches.length - 1]);
    }, (action, answer) => {
      current.action = action;
      const episode = this.data.episodes[this.episode];
      episode.moves = [...this.moves.slice(0, move + 1), answer];
      episode.title = "An episode that you play";
      this.choose(move + 1);
    }));
  }

  drawCompare() {
    const searches = this.searchesOf(this.current);
    if (!searches.length) return this.parts.compare.replaceChildren();
    const many = searches.length > 1;
    this.parts.compare.replaceChildren(el("section", { class: "panel" },
      el("h2", {}, many ? "The same state, searched with each beta: choose one to see its tree" : "The actions of the root"),
      el("div", { class: "cards" }, searches.map((one) => card(one, one === this.chosen, () => this.chooseSearch(one))))));
  }

  drawTreePanel() {
    const { chosen, parts } = this;
    parts.tree.replaceChildren();
    parts.curves.replaceChildren();
    if (chosen === null) return;
    const most = chosen.record.simulations;
    this.slider = el("input", {
      type: "range", id: "slider", min: 0, max: most, value: most, "aria-label": "simulations so far",
      oninput: (event) => { this.stop(); this.at(Number(event.target.value)); },
    });
    this.clock = el("output", { for: "slider", id: "clock" });
    this.player = el("button", { type: "button", onclick: () => this.play() }, "▶ Grow");
    this.details = el("div");
    const how = chosen.record.growth === null
      ? el("p", { class: "faint" }, "Only the finished tree is known: the slider shows its nodes in their order, with their final numbers.") : null;
    parts.tree.replaceChildren(el("section", { class: "panel" },
      el("h2", {}, `The tree of ${chosen.record.name}`),
      el("div", { class: "row" }, this.player, this.slider, this.clock), how, this.tree.tools, this.tree.box, this.details,
      el("p", { class: "faint" }, "A circle's size is its visits; its number is what it is coloured by. Click or tap a node for its numbers, "
        + "+n opens what is below. Keys: arrows move, Enter opens and closes, a all, m main, + − 0 zoom.")));
    this.at(most);
  }

  at(simulation) {
    const { chosen } = this;
    this.simulation = simulation;
    this.slider.value = String(simulation);
    this.clock.textContent = `${simulation} of ${chosen.record.simulations} simulations`;
    this.tree.show(chosen, this.selected, simulation);
    this.drawDetails(this.selected);
    this.parts.curves.replaceChildren(el("section", { class: "panel" },
      el("h2", {}, `Over the simulations of ${chosen.record.name}`), ...drawCurves(chosen.record, simulation)));
  }

  selectNode(node, isHover = false) {
    if (isHover) return this.drawDetails(node || this.selected);
    this.selected = node;
    this.tree.selected = node;
    this.tree.draw();
    this.drawDetails(node);
  }

  drawDetails(node) {
    const state = this.tree.states.get(node.index);
    if (state === undefined) {
      this.details.replaceChildren(el("p", { class: "faint" }, `Node ${node.index} does not exist yet.`));
    } else {
      this.details.replaceChildren(detailsOf(node, state, this.chosen));
    }
  }

  play() {
    if (this.timer) return this.stop();
    if (this.simulation >= this.chosen.record.simulations) this.at(0);
    this.player.textContent = "⏸ Pause";
    const stride = Math.max(1, Math.round(this.chosen.record.simulations / 120));
    this.timer = setInterval(() => {
      this.at(Math.min(this.chosen.record.simulations, this.simulation + stride));
      if (this.simulation >= this.chosen.record.simulations) this.stop();
    }, PLAY_MS);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    if (this.player) this.player.textContent = "▶ Grow";
  }
}

readData().then((data) => { window.page = new Page(data); }, (error) => {
  document.getElementById("app").replaceChildren(el("p", { class: "error" },
    `The data of this page cannot be read: ${error.message}. A browser from 2023 or later is needed.`));
});
