// A search as read from the data: its nodes with their children, and their numbers after any simulation.

function readSearch(record) {
  const columns = record.nodes;
  const nodes = columns.index.map((index, i) => ({
    index,
    parent: columns.parent[i],
    action: columns.action[i],
    label: columns.labels[columns.label[i]],
    visits: columns.visits[i],
    q: columns.q[i],
    std: columns.std[i],
    value: columns.value[i],
    valueStd: columns.value_std[i],
    prior: columns.prior[i],
    reward: columns.reward[i],
    rewardVariance: columns.reward_variance[i],
    discount: columns.discount[i],
    children: [],
    above: null,
    depth: 0,
  }));
  const byIndex = new Map(nodes.map((node) => [node.index, node]));
  for (const node of nodes) {
    const above = byIndex.get(node.parent);
    if (above === undefined || node === nodes[0]) continue;
    node.above = above;
    node.depth = above.depth + 1;
    above.children.push(node);
  }
  const better = (a, b) =>
    b.visits - a.visits || score(b.q, b.std, record.beta) - score(a.q, a.std, record.beta) || a.action - b.action;
  nodes.forEach((node) => node.children.sort(better));
  return { record, nodes, byIndex, root: nodes[0], first: firstNodes(record) };
}

// How many nodes there were before the first simulation.
function firstNodes(record) {
  return record.growth === null ? 1 : Math.max(...record.growth.start.nodes) + 1;
}

// Visits, q and std of each node that exists after a simulation, by its index.
function statesAt(search, simulation) {
  const { record, nodes } = search;
  const states = new Map();
  const growth = record.growth;
  const final = simulation >= record.simulations;
  const exact = growth !== null;
  for (const node of nodes) {
    // Before a simulation adds a node its index is free; in a new tree simulation i adds node i.
    const exists = final || node.index < search.first + simulation;
    const moves = exact && (growth.complete || growth.moving.has(node.index));
    if (exists && !(moves && !final)) states.set(node.index, { visits: node.visits, q: node.q, std: node.std });
  }
  if (!exact || final) return states;
  const put = (part, i) => {
    if (search.byIndex.has(part.nodes[i])) {
      states.set(part.nodes[i], { visits: part.visits[i], q: part.q[i], std: part.std[i] });
    }
  };
  growth.start.nodes.forEach((_, i) => put(growth.start, i));
  const end = simulation === 0 ? 0 : growth.ends[simulation - 1];
  for (let i = 0; i < end; i += 1) put(growth, i);
  return states;
}

function prepare(record) {
  if (record.growth !== null && !record.growth.moving) {
    record.growth.moving = new Set([...record.growth.start.nodes, ...record.growth.nodes]);
  }
  return readSearch(record);
}

// For each action of the root: its visits, q and std after each simulation; null before the first visit.
function rootCurves(record) {
  const { growth, root } = record;
  const curves = root.labels.map((label, action) => ({ label, action, visits: [], q: [], std: [] }));
  if (growth === null) return curves;
  const steps = growth.root;
  const last = curves.map(() => ({ visits: 0, q: null, std: null }));
  steps.action.forEach((action, i) => {
    last[action] = { visits: steps.visits[i], q: steps.q[i], std: steps.std[i] };
    curves.forEach((curve, a) => {
      curve.visits.push(last[a].visits);
      curve.q.push(last[a].q);
      curve.std.push(last[a].std);
    });
  });
  return curves;
}
