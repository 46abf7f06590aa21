// The searches of a move side by side: what each makes of the actions of the root.

const ROWS = 8;
const PRIOR = 2; // the column that a phone has no room for

function card(search, chosen, onChoose) {
  const { record } = search;
  const { root, beta } = record;
  const actions = root.labels.map((_, action) => action).filter((action) => root.legal[action] || root.visits[action] > 0);
  actions.sort((a, b) => root.visits[b] - root.visits[a] || (root.q[b] ?? -Infinity) - (root.q[a] ?? -Infinity) || a - b);
  const shownActions = actions.slice(0, ROWS);
  if (record.action !== null && !shownActions.includes(record.action)) shownActions.push(record.action);
  const head = ["action", "visits", "prior", "q ± std", `q ${beta < 0 ? "−" : "+"} ${shown(Math.abs(beta))}·std`];
  const rows = shownActions.map((action) => {
    const cells = [
      (action === record.action ? "▸ " : "") + root.labels[action],
      String(root.visits[action]),
      shown(root.prior[action], 3),
      withStd(root.q[action], root.std[action]),
      shown(score(root.q[action], root.std[action], beta), 3),
    ];
    return el("tr", { class: action === record.action ? "taken" : null, "data-action": action },
      cells.map((text, i) => el("td", { class: i === PRIOR ? "wide" : null }, text)));
  });
  const rest = actions.length - shownActions.length;
  const takes = record.action === null ? "" : `, takes ${root.labels[record.action]}`;
  return el("div", { class: chosen ? "card chosen" : "card", "data-beta": beta },
    el("button", { type: "button", "aria-pressed": String(chosen), onclick: onChoose },
      `${record.name}${takes}`),
    el("table", {}, el("thead", {}, el("tr", {}, head.map((text, i) => el("th", { scope: "col", class: i === PRIOR ? "wide" : null }, text)))),
      el("tbody", {}, rows)),
    el("p", { class: "faint", style: "margin:4px 0 0" },
      `value ${withStd(root.value, root.value_std)}, ${record.simulations} simulations`,
      rest > 0 ? `, ${rest} more actions` : ""));
}
