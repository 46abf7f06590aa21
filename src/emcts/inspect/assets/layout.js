// Where the nodes of a tree are drawn: a column for each level, a row for each leaf, a parent beside its first child.

const ROW = 25;
const CHARACTER = 7.3; // the width of one, at the font size of the tree
const LONGEST = 14; // characters of a label in the tree
const GAP = { radius: 12, value: 8 * CHARACTER, line: 16 };

function shortLabel(node) {
  return node.label.length > LONGEST ? `${node.label.slice(0, LONGEST - 1)}…` : node.label;
}

function layout(search, childrenOf) {
  const placed = [];
  const labels = []; // the characters of the longest label of each level
  let rows = 0;
  const stack = [{ node: search.root, starts: false }];
  // Depth first, the best child first: so the path of most visits is the first row.
  while (stack.length) {
    const { node, starts } = stack.pop();
    if (starts) rows += 1;
    placed.push({ node, row: rows });
    labels[node.depth] = Math.max(labels[node.depth] || 0, shortLabel(node).length);
    const children = childrenOf(node);
    for (let i = children.length - 1; i >= 0; i -= 1) stack.push({ node: children[i], starts: i > 0 });
  }
  const lefts = [22];
  for (let depth = 1; depth < labels.length; depth += 1) {
    lefts[depth] = lefts[depth - 1] + 2 * GAP.radius + GAP.value + GAP.line + labels[depth] * CHARACTER;
  }
  placed.forEach((one) => {
    one.x = lefts[one.node.depth];
    one.y = 18 + one.row * ROW;
  });
  return { placed, width: lefts[lefts.length - 1] + 130, height: 36 + rows * ROW };
}

// The fewest visits of the nodes that are shown at first, so that they are at most so many beside the root's children.
function visitsAtFirst(search, most) {
  const visits = search.nodes.filter((node) => node.depth > 1).map((node) => node.visits).sort((a, b) => b - a);
  const room = Math.max(0, most - search.root.children.length);
  return visits.length <= room ? 0 : visits[room] + 1;
}
