// Curves over simulations: q of each action of the root with a band of one std, and its visits.

const CURVES = 6;

// On a phone the drawing is narrower, so that its text is not smaller.
function chartSize() {
  return { width: window.innerWidth < 600 ? 340 : 560, height: 230, left: 52, right: 92, top: 10, bottom: 30 };
}

function drawCurves(record, simulation) {
  const all = rootCurves(record);
  if (record.growth === null) {
    return [el("p", { class: "faint" },
      "How q and visits developed was not recorded with this search. To see it, search with ",
      el("code", {}, "loop_fn=recorder"), " and give ", el("code", {}, "growth=recorder.growth"), " to the page.")];
  }
  const tried = all.filter((curve) => curve.visits[curve.visits.length - 1] > 0);
  tried.sort((a, b) => b.visits[b.visits.length - 1] - a.visits[a.visits.length - 1] || a.action - b.action);
  const curves = tried.slice(0, CURVES);
  const left = tried.length - curves.length;
  const parts = [
    chart("q of each action, ± one std", curves, simulation, (curve) => curve.q, (curve) => curve.std),
    chart("visits of each action", curves, simulation, (curve) => curve.visits, null),
  ];
  const more = left > 0 ? `The ${CURVES} actions of most visits; ${left} more were tried.` : "";
  return [el("div", { class: "halves" }, parts), el("p", { class: "faint" }, more)];
}

function chart(title, curves, simulation, valueOf, stdOf) {
  const { width, height, left, right, top, bottom } = chartSize();
  const steps = curves.length ? valueOf(curves[0]).length : 1;
  const bands = curves.flatMap((curve) => valueOf(curve).flatMap((value, i) => {
    const std = stdOf === null || value === null ? 0 : stdOf(curve)[i] || 0;
    return value === null ? [] : [value - std, value + std];
  }));
  let low = Math.min(...bands, stdOf === null ? 0 : Infinity), high = Math.max(...bands);
  if (!(high > low)) { low -= 0.5; high += 0.5; }
  const x = (i) => left + ((width - left - right) * i) / Math.max(1, steps);
  const y = (value) => top + ((height - top - bottom) * (high - value)) / (high - low);
  const drawn = curves.map((curve, k) => curvePaths(valueOf(curve), stdOf && stdOf(curve), k, x, y, curves.length > 3 ? 0.09 : 0.17));
  const ends = curves.map((curve) => y(valueOf(curve)[steps - 1]));
  const labels = spread(ends, 14, top + 4, height - bottom).map((at, k) =>
    svg("text", { x: width - right + 14, y: at + 4, style: `fill:${LINES[k]}` }, shortName(curves[k].label)));
  const leaders = spread(ends, 14, top + 4, height - bottom).map((at, k) =>
    svg("path", { class: "grid", d: `M${width - right + 1} ${ends[k]}L${width - right + 12} ${at}` }));
  const now = x(simulation);
  return el("figure", { class: "chart", style: "margin:0" },
    el("figcaption", {}, el("h3", {}, title)),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}, over ${steps} simulations` },
      ticks(low, high).map((tick) => [
        svg("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }),
        svg("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, shown(tick, 3)),
      ]).flat(),
      ticks(0, steps).filter((tick) => Number.isInteger(tick)).map((tick) =>
        svg("text", { x: x(tick), y: height - bottom + 18, "text-anchor": "middle" }, String(tick))),
      svg("path", { class: "axis", d: `M${left} ${top}V${height - bottom}H${width - right}` }),
      svg("text", { x: width - right + 14, y: height - 12, style: "fill:var(--faint)" }, "simulations"),
      drawn.map((one) => one.band), drawn.map((one) => one.line), leaders, labels,
      svg("line", { class: "now", x1: now, x2: now, y1: top, y2: height - bottom })));
}

function curvePaths(values, stds, k, x, y, opacity) {
  let line = "", upper = "", lower = "";
  values.forEach((value, i) => {
    if (value === null) return;
    const std = stds === null ? 0 : stds[i] || 0;
    const start = line === "" ? "M" : "L";
    line += `${start}${x(i + 1).toFixed(1)} ${y(value).toFixed(1)}`;
    upper += `${start}${x(i + 1).toFixed(1)} ${y(value + std).toFixed(1)}`;
    lower = `L${x(i + 1).toFixed(1)} ${y(value - std).toFixed(1)}${lower}`;
  });
  const style = `fill:none;stroke:${LINES[k]};stroke-width:2.2;stroke-dasharray:${DASHES[k] || "none"}`;
  return {
    band: stds === null || line === "" ? null : svg("path", { d: `${upper}${lower}Z`, style: `fill:${LINES[k]};opacity:${opacity}` }),
    line: svg("path", { d: line, style, class: "curve" }),
  };
}

// Moves label positions apart until none overlaps, in their order.
function spread(positions, gap, low, high) {
  const order = positions.map((at, k) => [at, k]).sort((a, b) => a[0] - b[0]);
  let last = -Infinity;
  for (const one of order) { one[0] = Math.max(one[0], last + gap, low); last = one[0]; }
  let limit = high;
  for (const one of [...order].reverse()) { one[0] = Math.min(one[0], limit); limit = one[0] - gap; }
  const found = [];
  order.forEach(([at, k]) => { found[k] = at; });
  return found;
}

function ticks(low, high) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 3));
  const size = [1, 2, 5, 10].map((one) => one * step).find((one) => (high - low) / one <= 5);
  const found = [];
  for (let i = Math.ceil(low / size - 1e-9); i * size <= high + size * 1e-9; i += 1) {
    found.push(Number((i * size).toPrecision(12)));
  }
  return found;
}

function shortName(label) {
  return label.length > 10 ? `${label.slice(0, 9)}…` : label;
}
