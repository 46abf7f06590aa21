// The episode as a strip of moves.

function strip(moves, grid, current, onChoose) {
  const buttons = moves.map((move, i) => {
    const label = i + 1 < moves.length || move.action !== undefined
      ? `${i + 1}. ${move.action === undefined || move.action === null ? "" : move.labels[move.action]}`
      : move.over ? "the end" : "…";
    const next = moves[i + 1];
    const paid = next && next.reward ? ` ${next.reward > 0 ? "+" : ""}${shown(next.reward, 2)}` : "";
    return el("button", {
      type: "button", "aria-current": String(i === current), "data-move": i, onclick: () => onChoose(i),
      title: move.sentence || label,
    }, el("span", { class: "thumb" }, pictureOf(move.picture, grid, trailOf(moves, i), `state ${i + 1}`)), label + paid);
  });
  const box = el("div", { class: "strip", role: "group", "aria-label": "moves of the episode", id: "strip" }, buttons);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    onChoose(Math.min(moves.length - 1, Math.max(0, current + step)), true);
  });
  return box;
}
