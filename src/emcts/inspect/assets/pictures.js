// The pictures of states: an image, a cell of a grid, or text.

function pictureOf(picture, grid, trail, alt) {
  if (picture === null || picture === undefined) return null;
  if (picture.kind === "image") {
    return el("img", { src: `data:image/png;base64,${picture.png}`, alt, width: picture.width, height: picture.height });
  }
  if (picture.kind === "cell" && grid) return gridPicture(grid, picture.cell, trail, alt);
  return el("pre", {}, picture.text);
}

function gridPicture(grid, cell, trail, alt) {
  const { rows, columns } = grid;
  const absent = [];
  grid.absent.forEach((line, r) => {
    let c = 0;
    while (c < columns) {
      let end = c;
      while (end < columns && line[end] === 0) end += 1;
      if (end > c) absent.push(svg("rect", { x: c, y: r, width: end - c, height: 1, fill: "var(--line)" }));
      c = end + 1;
    }
  });
  return svg("svg", { viewBox: `-0.5 -0.5 ${columns + 1} ${rows + 1}`, role: "img", "aria-label": alt },
    absent, marks(cell, trail, Math.max(rows, columns)));
}

// The way so far as a line, and the cell of the agent as a ring.
function marks(cell, trail, size) {
  const points = (trail || []).map(([r, c]) => `${c + 0.5},${r + 0.5}`).join(" ");
  const found = [svg("polyline", {
    points, style: `fill:none;stroke:#d55e00;stroke-width:${Math.max(0.25, size / 90)};stroke-linejoin:round`,
  })];
  if (cell) {
    const place = { cx: cell[1] + 0.5, cy: cell[0] + 0.5, r: Math.max(0.42, size / 38) };
    found.push(svg("circle", { ...place, style: `fill:#ffffff;stroke:#d55e00;stroke-width:${Math.max(0.22, size / 70)}` }));
  }
  return found;
}

function placeOf(move) {
  return move.picture && move.picture.kind === "cell" ? move.picture.cell : null;
}

function trailOf(moves, until) {
  return moves.slice(0, until + 1).map(placeOf).filter((cell) => cell !== null);
}
