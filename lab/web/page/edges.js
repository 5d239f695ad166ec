// SPDX-License-Identifier: GPL-2.0-or-later
// Edges between items on the map. An edge is one link, or all links between two items if there are many.

const MOST_PARALLEL = 4;        // with more links between two items, one edge stands for all
const APART = 7;                // distance of parallel edges
const RANK = {"not there": 0, Active: 1, Armed: 2, Initialize: 3, Down: 4};

/** The edges between visible items: {links, along, points, …}. along: by link, whether its end a is at the edge's
 * beginning. */
export function edges(links, nodes, items, folds) {
  const bundles = new Map();
  for (const link of links.values()) {
    const [a, b] = [link.a, link.b].map((guid) => nodes.has(guid) ? folds.item(nodes.get(guid)) : "");
    if (a !== b && items.has(a) && items.has(b)) {
      const key = a < b ? `${a} ${b}` : `${b} ${a}`;
      const bundle = bundles.get(key) ?? {from: items.get(a), to: items.get(b), links: []};
      bundle.links.push(link);
      bundles.set(key, bundle);
    }
  }
  return [...bundles.values()].flatMap((bundle) => lines(bundle, nodes, folds));
}

function lines(bundle, nodes, folds) {
  const folded = bundle.from.kind === "pod" || bundle.to.kind === "pod";
  const parts = folded || bundle.links.length > MOST_PARALLEL ? [bundle.links] : bundle.links.map((link) => [link]);
  return parts.map((links, number) => {
    const side = (number - (parts.length - 1) / 2) * APART;
    const along = new Map(links.map((link) => [link.id, folds.item(nodes.get(link.a)) === bundle.from.id]));
    return {links, along, ...ends(bundle.from, bundle.to, side)};
  });
}

/** The points of an edge, from beginning to end. An edge between items of one row that are not neighbours is an arc
 * around the items in between. */
function ends(from, to, side) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const across = {x: -(to.y - from.y) / length, y: (to.x - from.x) / length};
  const point = (item, other) => {
    const vertical = Math.abs(other.y - item.y) > item.height ? Math.sign(other.y - item.y) * item.height / 2 : 0;
    return {x: item.x + across.x * side, y: item.y + vertical + across.y * side * (vertical ? 0 : 1)};
  };
  const elbow = to.line > 0 ? around(from, to) : from.line > 0 ? around(to, from).reverse() : null;
  if (elbow) {
    return {points: elbow};
  }
  const [begin, end] = [point(from, to), point(to, from)];
  const ofOneLevel = from.level === to.level;
  const level = ofOneLevel && from.y === to.y && Math.abs(to.x - from.x) > 1.9 * (from.width + 12);
  const upright = ofOneLevel && from.x === to.x && Math.abs(to.y - from.y) > 200;
  const bend = level ? {x: 0, y: -40 - length / 12} : upright ? {x: 40 + length / 12, y: 0} : {x: 0, y: 0};
  return {points: level || upright ? arc(begin, {x: (begin.x + end.x) / 2 + bend.x, y: (begin.y + end.y) / 2 + bend.y},
    end) : [begin, end]};
}

function arc(begin, control, end) {
  return Array.from({length: 13}, (_none, step) => {
    const [part, rest] = [step / 12, 1 - step / 12];
    return {x: rest * rest * begin.x + 2 * rest * part * control.x + part * part * end.x,
            y: rest * rest * begin.y + 2 * rest * part * control.y + part * part * end.y};
  });
}

/** Points of an edge to a host in a lower line of hosts: it passes between the hosts of the lines above. */
function around(above, host) {
  const x = host.x - host.width / 2 - 3;
  const y = above.y + above.height / 2;
  return [{x: above.x, y}, {x, y: y + 30}, {x, y: host.y}, {x: x + 3, y: host.y}];
}

/** The worst state of an edge's links, and its load in both directions. share: load as a part of the capacity. */
export function condition(edge, store) {
  const found = {state: "Active", pulled: false, faults: false, there: 0, back: 0, capacity: 0, wait: 0, vlsThere: {},
    vlsBack: {}};
  for (const link of edge.links) {
    const now = store.condition(link);
    found.state = RANK[now.state] > RANK[found.state] ? now.state : found.state;
    found.pulled ||= !now.cable;
    found.faults ||= now.faults;
    found.capacity += link.capacity;
    const load = store.loads[link.id];
    if (load) {
      const [out, back, vlsOut, vlsBack] = edge.along.get(link.id) ? [load[0], load[1], load[3], load[4]]
        : [load[1], load[0], load[4], load[3]];
      found.there += out;
      found.back += back;
      found.wait += load[2];
      addShares(found.vlsThere, vlsOut, out);
      addShares(found.vlsBack, vlsBack, back);
    }
  }
  return found;
}

function addShares(vls, shares, rate) {
  for (const [vl, share] of Object.entries(shares)) {
    vls[vl] = (vls[vl] ?? 0) + share * rate;
  }
}

/** The VL with most of the traffic. */
export function mainVl(vls) {
  return Number(Object.entries(vls).reduce((best, one) => (one[1] > best[1] ? one : best), ["0", 0])[0]);
}

/** The VLs of a load as text, busiest first, for readers who cannot distinguish the colours. */
export function vlsInWords(vls) {
  const all = Object.values(vls).reduce((sum, rate) => sum + rate, 0);
  const parts = Object.entries(vls).filter(([, rate]) => rate > 0).sort(([, one], [, other]) => other - one);
  return parts.length < 2 ? parts.map(([vl]) => `VL ${vl}`).join("")
    : parts.map(([vl, rate]) => `VL ${vl} ${Math.round(100 * rate / all)} %`).join(", ");
}

/** The point of an edge at a part of its length, from 0 (begin) to 1 (end), and the edge's direction there. */
export function pointAt({points}, part) {
  const lengths = points.slice(1).map((point, number) => Math.hypot(point.x - points[number].x,
    point.y - points[number].y));
  let rest = part * lengths.reduce((sum, length) => sum + length, 0);
  let number = 0;
  while (number < lengths.length - 1 && rest > lengths[number]) {
    rest -= lengths[number];
    number += 1;
  }
  const [one, other] = [points[number], points[number + 1]];
  const share = lengths[number] ? rest / lengths[number] : 0;
  return {x: one.x + (other.x - one.x) * share, y: one.y + (other.y - one.y) * share,
          angle: Math.atan2(other.y - one.y, other.x - one.x)};
}

/** Distance of a point from an edge. */
export function distance({points}, x, y) {
  let best = Infinity;
  for (let number = 0; number + 1 < points.length; number += 1) {
    const [one, other] = [points[number], points[number + 1]];
    const [dx, dy] = [other.x - one.x, other.y - one.y];
    const part = Math.max(0, Math.min(1, ((x - one.x) * dx + (y - one.y) * dy) / (dx * dx + dy * dy || 1)));
    best = Math.min(best, Math.hypot(one.x + part * dx - x, one.y + part * dy - y));
  }
  return best;
}
