// The live page: moves that are played, and searches that are made, by the local server that the page came from.

class Live {
  constructor(settings) {
    this.settings = settings;
    this.message = el("p", { class: "error", role: "alert", id: "message" });
  }

  async ask(path, body) {
    this.message.textContent = "";
    let answer;
    try {
      const response = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Inspect-Token": this.settings.token },
        body: JSON.stringify(body),
      });
      answer = await response.json();
    } catch (error) {
      answer = { error: `The server does not answer (${error.message}): is it still running?` };
    }
    if (answer.error) this.message.textContent = answer.error;
    return answer.error ? null : answer;
  }

  panel(move, actions, onSearched, onPlayed) {
    const field = (id, value, step) => el("input", { type: "number", id, value, step });
    const beta = field("beta", this.settings.beta, "any");
    const simulations = field("simulations", this.settings.simulations, "1");
    const rule = el("select", { id: "rule" }, this.settings.rules.map((one) =>
      el("option", { value: one, selected: one === this.settings.rule }, one)));
    const busy = el("span", { class: "faint", "aria-live": "polite" });
    const request = async (path, extra, then) => {
      const given = { beta: beta.value, simulations: simulations.value, rule: rule.value };
      Object.assign(this.settings, given);
      busy.textContent = "searching …";
      const answer = await this.ask(path, { actions, ...given, ...extra });
      busy.textContent = "";
      if (answer !== null) then(answer);
    };
    const again = el("button", {
      type: "button", id: "search", disabled: Boolean(move.over), onclick: () => request("/api/search", {}, onSearched),
    }, "Search again");
    const buttons = move.labels.map((label, action) => el("button", {
      type: "button", "data-play": action, disabled: Boolean(move.over) || !move.legal[action],
      onclick: () => request("/api/play", { action }, (answer) => onPlayed(action, answer)),
    }, label));
    return el("section", { class: "panel", id: "live" }, el("h2", {}, "Search this state again, or play on from it"),
      el("div", { class: "row" }, el("label", {}, "beta", beta), el("label", {}, "simulations", simulations),
        el("label", {}, "rule", rule), again, busy),
      el("div", { class: "row", style: "margin-top:8px" }, el("span", {}, "Play:"), buttons),
      this.message);
  }
}
