// The numbers of one node, as text.

function detailsOf(node, state, search) {
  const { beta } = search.record;
  const isRoot = node === search.root;
  const rows = [
    ["q", shown(state.q)],
    ["std", shown(state.std)],
    [`q + ${shown(beta)} · std`, shown(score(state.q, state.std, beta))],
    ["visits", String(state.visits)],
    ["prior", isRoot ? "–" : shown(node.prior)],
    ["reward", isRoot ? "–" : shown(node.reward)],
    ["reward variance", isRoot ? "–" : shown(node.rewardVariance)],
    ["discount", isRoot ? "–" : shown(node.discount)],
  ];
  const path = [];
  for (let one = node; one.above !== null; one = one.above) path.unshift(one.label);
  const title = isRoot ? "The root" : `Node ${node.index}: ${path.join(" › ")}`;
  return el("div", { id: "details", "aria-live": "polite" },
    el("h3", { style: "overflow-wrap:anywhere" }, title),
    el("dl", { class: "details" }, rows.map(([name, text]) =>
      el("div", { "data-field": name }, el("dt", {}, name), el("dd", {}, text)))));
}
