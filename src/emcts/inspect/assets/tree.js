// The tree: nodes by visits, coloured by a number, edges labelled with actions; a click, a tap or keys select a node.

const SHOWN_AT_FIRST = 60;
const METRICS = {
  score: { name: "score (q + beta · std)", of: (state, beta) => score(state.q, state.std, beta) },
  q: { name: "value q", of: (state) => state.q },
  std: { name: "std", of: (state) => state.std },
};

class TreeView {
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.metric = "score";
    this.zoom = 1;
    this.legend = el("span");
    this.count = el("span", { class: "faint", id: "node-count" });
    this.box = el("div", {
      class: "tree", tabindex: "0", role: "tree", id: "tree", "aria-label": "search tree",
      onkeydown: (event) => this.key(event),
    });
    const metric = el("select", { id: "metric", onchange: (event) => this.colour(event.target.value) },
      Object.entries(METRICS).map(([name, one]) => el("option", { value: name }, one.name)));
    const button = (text, title, act) => el("button", { type: "button", title, onclick: act }, text);
    this.tools = el("div", { class: "row" },
      el("label", {}, "Colour by", metric), this.legend,
      button("All nodes", "open every node (a)", () => this.openAll()),
      button("Main nodes", "open the nodes of most visits (m)", () => this.openMain()),
      button("−", "smaller (-)", () => this.scale(1 / 1.25)),
      button("+", "larger (+)", () => this.scale(1.25)),
      button("Fit", "fit the width (0)", () => this.fit()),
      this.count);
  }

  show(search, selected, simulation) {
    if (search !== this.search) {
      this.search = search;
      this.openings = new Map(); // true: all children, false: none; otherwise those of many visits
      this.fewest = visitsAtFirst(search, SHOWN_AT_FIRST);
    }
    this.selected = selected;
    this.states = statesAt(search, simulation);
    this.draw();
  }

  childrenOf(node) {
    const opening = this.openings.get(node.index);
    if (opening === false) return [];
    if (opening === true || node.depth === 0) return node.children;
    return node.children.filter((child) => child.visits >= this.fewest);
  }

  isOpen(node) {
    return this.childrenOf(node).length === node.children.length;
  }

  draw() {
    const { search } = this;
    const beta = search.record.beta;
    const metric = METRICS[this.metric];
    const finals = search.nodes.map((node) => metric.of(node, beta));
    const scale = scaleOf(finals);
    const { placed, width, height } = layout(search, (node) => this.childrenOf(node));
    const at = new Map(placed.map((one) => [one.node.index, one]));
    const path = new Set();
    for (let node = this.selected; node; node = node.above) path.add(node.index);
    const edges = [], nodes = [];
    const rootVisits = this.states.get(search.root.index).visits;
    for (const one of placed) {
      const state = this.states.get(one.node.index);
      if (state === undefined) continue;
      if (one.node.above !== null) edges.push(this.edge(one, at.get(one.node.above.index), state, path));
      nodes.push(this.node(one, state, metric.of(state, beta), scale, rootVisits));
    }
    const drawing = svg("svg", {
      width: width * this.zoom, height: height * this.zoom, viewBox: `0 0 ${width} ${height}`,
      role: "presentation", "data-nodes": this.states.size,
    }, edges, nodes);
    this.size = { width, height };
    this.box.replaceChildren(drawing);
    this.box.setAttribute("aria-activedescendant", `node-${this.selected.index}`);
    this.legend.replaceChildren(legend(metric.name.split(" (")[0], scale));
    const total = search.record.total_nodes;
    const drawn = nodes.length === this.states.size ? "all drawn" : `${nodes.length} drawn`;
    const kept = search.nodes.length === total ? "" : ` (of ${total}, the others are not on this page)`;
    this.count.textContent = `${this.states.size} nodes${kept}, ${drawn}`;
  }

  edge(one, above, state, path) {
    const from = above.x + GAP.radius + GAP.value;
    const label = shortLabel(one.node);
    const to = one.x - GAP.radius - label.length * CHARACTER - 3;
    const middle = from + Math.min(GAP.line, to - from) * 0.6;
    const curve = one.y === above.y
      ? `M${from} ${one.y}H${one.x}`
      : `M${above.x} ${above.y}M${from} ${above.y}C${middle} ${above.y} ${from} ${one.y} ${to} ${one.y}H${one.x}`;
    const share = state.visits / Math.max(1, this.states.get(this.search.root.index).visits);
    const on = path.has(one.node.index) ? " on" : "";
    return svg("g", {},
      svg("path", { class: `edge${on}`, d: curve, "stroke-width": 1 + 5 * share }),
      svg("text", { class: "edge-label", x: one.x - GAP.radius, y: one.y + 4, "text-anchor": "end" }, label));
  }

  node(one, state, value, scale, rootVisits) {
    const { node } = one;
    const closed = !this.isOpen(node);
    const hidden = node.children.filter((child) => !this.childrenOf(node).includes(child));
    const fill = value === null ? "none" : css(colourOf(scale.share(value)));
    const toggle = (event) => { event.stopPropagation(); this.toggle(node); };
    const parts = [
      svg("circle", { cx: one.x, cy: one.y, r: 3.5 + 7.5 * Math.sqrt(state.visits / rootVisits), fill }),
      svg("text", { x: one.x + GAP.radius, y: one.y + 4, class: "edge-label" }, shown(value, 3)),
    ];
    if (closed) {
      const x = one.x + GAP.radius + (shown(value, 3).length + 0.7) * CHARACTER;
      parts.push(svg("text", { x, y: one.y + 4, class: "more", onclick: toggle }, `+${hidden.reduce((sum, child) => sum + 1 + descendants(child), 0)}`));
    }
    return svg("g", {
      class: node === this.selected ? "node on" : "node", id: `node-${node.index}`, "data-index": node.index,
      role: "treeitem", "aria-level": node.depth + 1, "aria-selected": String(node === this.selected),
      "aria-expanded": node.children.length ? String(!closed) : null,
      "aria-label": `${node.label}, ${state.visits} visits, q ${withStd(state.q, state.std)}`,
      onclick: () => this.onSelect(node), ondblclick: toggle,
      onpointerenter: (event) => { if (event.pointerType === "mouse") this.onSelect(node, true); },
      onpointerleave: (event) => { if (event.pointerType === "mouse") this.onSelect(null, true); },
    }, parts);
  }

  toggle(node) {
    if (!node.children.length) return;
    this.openings.set(node.index, !this.isOpen(node));
    this.draw();
  }

  colour(metric) {
    this.metric = metric;
    this.draw();
  }

  openAll() {
    this.search.nodes.forEach((node) => this.openings.set(node.index, true));
    this.draw();
  }

  openMain() {
    this.openings.clear();
    this.draw();
  }

  scale(factor) {
    this.zoom = Math.min(4, Math.max(0.1, this.zoom * factor));
    this.draw();
  }

  fit() {
    this.zoom = Math.min(1.5, Math.max(0.1, (this.box.clientWidth - 8) / this.size.width));
    this.draw();
  }

  key(event) {
    const { key } = event;
    const node = this.selected;
    const visible = [...this.box.querySelectorAll("[data-index]")].map((one) => Number(one.dataset.index));
    const place = visible.indexOf(node.index);
    const go = (index) => { if (index !== undefined) this.select(this.search.byIndex.get(index)); };
    const acts = {
      ArrowDown: () => go(visible[place + 1]),
      ArrowUp: () => go(visible[place - 1]),
      ArrowRight: () => (node.children.length && !this.isOpen(node) ? this.toggle(node) : go(visible[place + 1])),
      ArrowLeft: () => (node.children.length && this.isOpen(node) ? this.toggle(node) : node.above && go(node.above.index)),
      Home: () => go(visible[0]),
      End: () => go(visible[visible.length - 1]),
      Enter: () => this.toggle(node),
      a: () => this.openAll(),
      m: () => this.openMain(),
      "+": () => this.scale(1.25),
      "-": () => this.scale(1 / 1.25),
      0: () => this.fit(),
    };
    if (!(key in acts) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[key]();
  }

  select(node) {
    this.onSelect(node);
    const found = this.box.querySelector(`#node-${node.index}`);
    if (found) found.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

function descendants(node) {
  return node.children.reduce((sum, child) => sum + 1 + descendants(child), 0);
}
