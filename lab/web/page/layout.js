// SPDX-License-Identifier: GPL-2.0-or-later
// Places nodes on the map. Switches of a tree are in rows by level, the highest level on top. Pods and hosts are folded
// until they are opened. In other fabrics switches are on a ring, at places that Graphviz has found, or in a grid.

import {byName} from "./format.js";

export const SWITCH = {width: 104, height: 40};
export const HOST = {width: 84, height: 28};
const GAP = 12;
const ROW = 130;                // distance of two levels
const NEAR = 100;               // minimum distance of two switches without levels
const MOST_STRETCH = 2.6;       // maximum factor by which the distances of rows are stretched
const POD_WIDTH = 150;
const NARROW = 60;              // minimum width of a switch
const HOST_COLUMNS = 3;
const MOST_IN_LINE = 4;         // limit of hosts in one line
const HOST_COLUMNS_ALONE = 8;    // for the hosts of a single switch
const MOST_ON_RING = 12;
const MANY_SWITCHES = 60;       // with more, pods are folded at first
const MANY_HOSTS = 24;          // with more, hosts are folded at first

export class Folds {
  constructor() {
    this.open = new Set();
    this.begun = false;
  }

  /** Sets the initial folds of a fabric: small fabrics are open. */
  begin(nodes) {
    if (this.begun || !nodes.size) {
      return;
    }
    this.begun = true;
    const all = [...nodes.values()];
    const switches = all.filter((node) => node.kind === "switch");
    if (switches.length <= MANY_SWITCHES) {
      all.forEach((node) => node.pod && this.open.add(node.pod));
    }
    if (all.length - switches.length <= MANY_HOSTS) {
      switches.forEach((node) => this.open.add(node.id));
    }
  }

  all(nodes) {
    nodes.forEach((node) => this.open.add(node.kind === "switch" ? node.id : node.leaf).add(node.pod));
  }

  none() {
    this.open.clear();
  }

  toggle(id) {
    if (!this.open.delete(id)) {
      this.open.add(id);
    }
  }

  /** Opens the folds that hide a node. */
  reveal(node) {
    if (node.pod) {
      this.open.add(node.pod);
    }
    if (node.leaf) {
      this.open.add(node.leaf);
    }
  }

  /** The id of the item that stands for a node. */
  item(node) {
    if (node.pod && !this.open.has(node.pod)) {
      return node.pod;
    }
    return node.leaf && !this.open.has(node.leaf) ? node.leaf : node.id;
  }
}

/** The items by id: {id, kind, node, x, y, width, height, hosts}. hosts: number of hosts below a switch or in a pod. */
export function layout(nodes, links, folds, wide, tall) {
  const items = collect(nodes, folds);
  const switches = [...items.values()].filter((item) => item.level > 0);
  const pods = switches.filter((item) => item.kind === "pod").length;
  const top = Math.max(1, ...switches.map((item) => item.level));
  const flat = top === 1 && hasSideLinks(nodes, links);
  const compact = flat ? SWITCH.width
    : Math.max(NARROW, Math.min(SWITCH.width, (wide - 40) / Math.max(...rowSizes(switches), 1) - GAP));
  for (const item of switches) {
    item.width = item.kind === "pod" ? Math.max(96, Math.min(POD_WIDTH, wide / pods - 3 * GAP)) : compact;
    item.height = SWITCH.height;
    item.alone = switches.length === 1;
  }
  const shaped = flat && placeFlat(switches, links);
  if (!flat) {
    placeTree(switches, top, wide);
  }
  if (!shaped) {
    stretch(switches, wide, tall);
  }
  shorten(switches);
  placeHosts(items);
  return items;
}

/** Stretches the rows if the window is higher than they need. */
function stretch(switches, wide, tall) {
  const across = (key) => {
    const places = switches.map((item) => item[key]);
    return Math.max(...places) - Math.min(...places);
  };
  const deep = Math.max(0, ...switches.map((item) => Math.ceil((item.below?.length ?? 0) / columnsOf(item) || 0)))
    * (HOST.height + 8) + 140;
  const room = Math.max(across("x") + 100, wide) * tall / wide - deep;
  const factor = Math.min(MOST_STRETCH, room / Math.max(across("y"), 1));
  if (switches.length && factor > 1) {
    switches.forEach((item) => {
      item.y *= factor;
    });
  }
}

/** Removes the common prefix of a pod's switches from names that are too long. */
function shorten(switches) {
  const parts = Map.groupBy(switches.filter((item) => item.pod), (item) => item.pod);
  for (const row of parts.values()) {
    const [first] = row;
    const prefix = row.reduce((common, {name}) => {
      let same = 0;
      while (same < common.length && common[same] === name[same]) {
        same += 1;
      }
      return common.slice(0, same);
    }, first.name).replace(/[^-_.]*$/, "");
    row.forEach((item) => {
      item.label = item.name.length * 7 > item.width ? item.name.slice(prefix.length) : item.name;
    });
  }
}

function rowSizes(switches) {
  const sizes = new Map();
  switches.forEach((item) => sizes.set(item.level, (sizes.get(item.level) ?? 0) + 1));
  return sizes.values();
}

function collect(nodes, folds) {
  const items = new Map();
  for (const node of nodes.values()) {
    const id = folds.item(node);
    if (id === node.pod && id) {
      const pod = items.get(id) ?? {id, kind: "pod", node: null, name: id, level: 0, hosts: 0, switches: 0, pod: ""};
      items.set(id, pod);
      pod.level = Math.max(pod.level, node.level);
      pod[node.kind === "switch" ? "switches" : "hosts"] += 1;
    } else if (id === node.id) {
      items.set(id, {id, kind: node.kind, node, name: node.name, level: node.level, hosts: 0, pod: node.pod,
                     leaf: node.leaf, below: []});
    }
  }
  for (const node of nodes.values()) {
    const leaf = node.kind !== "switch" && items.get(node.leaf);
    if (leaf && leaf.kind === "switch") {
      leaf.hosts += 1;
      if (items.has(node.id)) {
        leaf.below.push(items.get(node.id));
      }
    }
  }
  return items;
}

function sorted(items) {
  return [...items].sort((one, other) => byName(one.name, other.name));
}

function hasSideLinks(nodes, links) {
  return [...links.values()].some((link) => nodes.get(link.a)?.kind === "switch"
    && nodes.get(link.b)?.kind === "switch");
}

/** Number of columns for the hosts of a switch. */
function columnsOf(item) {
  const hosts = item.below?.length ?? 0;
  return hosts <= MOST_IN_LINE ? hosts : item.alone ? HOST_COLUMNS_ALONE : HOST_COLUMNS;
}

/** The width of a switch with the hosts below it. */
function span(item) {
  return Math.max(item.width, columnsOf(item) * (HOST.width + 6)) + GAP;
}

// -- trees

function placeTree(switches, top, wide) {
  const parts = new Map();
  for (const item of switches.filter((one) => one.level < top)) {
    const key = item.kind === "pod" ? item.id : item.pod;
    parts.set(key, [...(parts.get(key) ?? []), item]);
  }
  let left = 0;
  for (const [, members] of [...parts].sort(([one], [other]) => byName(one, other))) {
    left += placePart(members, top, left, wide) + 2 * GAP;
  }
  spread(sorted(switches.filter((item) => item.level === top)), 0, Math.max(left - 2 * GAP, 0), 0);
}

/** Places the rows of one pod, or of a tree without pods, from `left` on; returns their width. */
function placePart(members, top, left, wide) {
  const rows = new Map();
  members.forEach((item) => rows.set(item.level, [...(rows.get(item.level) ?? []), item]));
  const lines = [...rows].map(([level, row]) => [level, sorted(row)]);
  const width = Math.max(...lines.map(([, row]) => row.reduce((sum, item) => sum + span(item), 0)));
  const staggered = width > wide * 1.6 && lines.every(([, row]) => row.every((item) => !item.below?.length));
  const across = staggered ? width / 2 : width;
  for (const [level, row] of lines) {
    spread(row, left, across, (top - level) * ROW, staggered && row.length > 8);
  }
  return across;
}

/** Divides the width of a row among its items. In a staggered row items alternate between two lines. */
function spread(row, left, width, y, staggered = false) {
  const lines = staggered ? 2 : 1;
  const need = row.reduce((sum, item) => sum + span(item), 0) / lines;
  const extra = Math.max(0, width - need) / Math.max(row.length, 1);
  let x = left + Math.min(0, width - need) / 2;
  row.forEach((item, number) => {
    const own = span(item) / lines + extra;
    item.x = x + own / 2;
    item.y = y + (staggered && number % 2 ? SWITCH.height + 14 : 0);
    x += own;
  });
}

// -- rings and grids

/** Places switches that form no tree. Returns whether the places come from Graphviz. */
function placeFlat(switches, links) {
  const row = sorted(switches);
  const cell = Math.max(...row.map(span)) + 30;
  const deep = Math.max(...row.map((item) => Math.ceil(item.below.length / columnsOf(item) || 0))) * (HOST.height + 8);
  if (row.length > 2 && row.length <= MOST_ON_RING && isRing(row, links)) {
    const radius = Math.max(150, (cell * row.length) / 5, (deep + 70) * row.length / 6);
    row.forEach((item, number) => {
      const angle = (2 * Math.PI * number) / row.length - Math.PI / 2;
      item.x = radius * 1.3 * Math.cos(angle);
      item.y = radius * Math.sin(angle);
    });
    return false;
  }
  if (row.every(({node}) => node.x !== null)) {
    row.forEach((item) => {
      item.x = item.node.x * cell;
      item.y = item.node.y * (NEAR + deep);
    });
    return true;
  }
  const columns = row.length <= 6 ? row.length : Math.ceil(Math.sqrt(row.length));
  row.forEach((item, number) => {
    item.x = (number % columns) * (cell + 20);
    item.y = Math.floor(number / columns) * (ROW + deep);
  });
  return false;
}

function isRing(row, links) {
  const near = new Map(row.map((item) => [item.id, new Set()]));
  for (const link of links.values()) {
    near.get(link.a)?.add(near.has(link.b) ? link.b : link.a);
    near.get(link.b)?.add(near.has(link.a) ? link.a : link.b);
  }
  return [...near].every(([id, others]) => [...others].filter((other) => other !== id).length === 2);
}

// -- hosts

function placeHosts(items) {
  for (const item of items.values()) {
    const row = sorted(item.below ?? []).sort((one, other) => (other.kind === "guest") - (one.kind === "guest"));
    const columns = columnsOf(item);
    row.forEach((host, number) => {
      Object.assign(host, HOST);
      const line = Math.floor(number / columns);
      const inLine = Math.min(columns, row.length - line * columns);
      host.x = item.x + ((number % columns) - (inLine - 1) / 2) * (HOST.width + 6);
      host.y = item.y + 84 + line * (HOST.height + 8);
      host.line = line;
    });
  }
  let stray = 0;                // number of hosts without a switch so far
  for (const item of items.values()) {
    if (item.x === undefined) {
      Object.assign(item, HOST, {x: stray, y: 3 * ROW});
      stray += HOST.width + GAP;
    }
  }
}
