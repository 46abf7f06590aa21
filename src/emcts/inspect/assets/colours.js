// Colours that people with any colour blindness can order (cividis) or tell apart (Okabe and Ito).

const CIVIDIS = [
  [0, 32, 77], [0, 49, 111], [57, 72, 107], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116],
  [195, 179, 105], [225, 204, 85], [255, 233, 69],
];
const LINES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#7a7a7a"];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 2", "1 2"];

function colourOf(share) {
  const at = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(at), CIVIDIS.length - 2);
  return CIVIDIS[low].map((from, i) => Math.round(from + (at - low) * (CIVIDIS[low + 1][i] - from)));
}

function css(rgb) {
  return `rgb(${rgb.join(",")})`;
}

// The range of numbers, and each number's share of it; all the same gets the middle.
function scaleOf(values) {
  const known = values.filter((one) => one !== null && Number.isFinite(one));
  const low = Math.min(...known), high = Math.max(...known);
  const none = known.length === 0;
  return {
    low: none ? null : low,
    high: none ? null : high,
    share: (value) => (high > low ? (value - low) / (high - low) : 0.5),
  };
}

function legend(name, scale) {
  const stops = CIVIDIS.map(css).join(",");
  const bar = el("i", { style: `background:linear-gradient(90deg,${stops})`, "aria-hidden": "true" });
  return el("span", { class: "legend" }, `${name}: ${shown(scale.low)}`, bar, shown(scale.high));
}
