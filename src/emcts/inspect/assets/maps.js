// Maps of a grid, with the way of the episode and the cell of the move; a click on a cell of it goes to its move.

function drawMaps(maps, grid, moves, current, onChoose) {
  const cell = placeOf(moves[current]);
  const trail = trailOf(moves, moves.length - 1);
  return el("div", { class: "maps" }, Object.entries(maps).map(([name, rows]) => {
    const scale = scaleOf(rows.flat());
    const canvas = el("canvas", { width: grid.columns, height: grid.rows, role: "img", "aria-label": `map of ${name}` });
    paint(canvas, rows, scale);
    const here = cell === null ? "" : `here ${shown(rows[cell[0]][cell[1]], 3)}`;
    const text = el("span", { class: "faint" }, here);
    const box = el("div", { class: "map" }, canvas,
      svg("svg", { viewBox: `0 0 ${grid.columns} ${grid.rows}`, "aria-hidden": "true" },
        marks(cell, trail, Math.max(grid.rows, grid.columns))));
    const at = (event) => {
      const bounds = box.getBoundingClientRect();
      const r = Math.floor(((event.clientY - bounds.top) / bounds.height) * grid.rows);
      const c = Math.floor(((event.clientX - bounds.left) / bounds.width) * grid.columns);
      return [Math.min(grid.rows - 1, Math.max(0, r)), Math.min(grid.columns - 1, Math.max(0, c))];
    };
    box.addEventListener("pointermove", (event) => {
      const [r, c] = at(event);
      text.textContent = `row ${r}, column ${c}: ${shown(rows[r][c], 3)}`;
    });
    box.addEventListener("pointerleave", () => { text.textContent = here; });
    box.addEventListener("click", (event) => {
      const [r, c] = at(event);
      const found = moves.findIndex((move) => { const p = placeOf(move); return p !== null && p[0] === r && p[1] === c; });
      if (found >= 0) onChoose(found);
    });
    return el("div", { "data-map": name }, el("h3", {}, name), box,
      el("div", {}, el("span", { class: "legend" }, shown(scale.low, 3),
        el("i", { style: `width:60px;background:linear-gradient(90deg,${CIVIDIS.map(css).join(",")})` }),
        shown(scale.high, 3))),
      text);
  }));
}

function paint(canvas, rows, scale) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  rows.forEach((row, r) => row.forEach((value, c) => {
    if (value === null) return;
    const at = 4 * (r * canvas.width + c);
    colourOf(scale.share(value)).forEach((part, i) => { image.data[at + i] = part; });
    image.data[at + 3] = 255;
  }));
  context.putImageData(image, 0, 0);
}
