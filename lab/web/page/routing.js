// SPDX-License-Identifier: GPL-2.0-or-later
// Views of the subnet manager's routing: the balance of routes at one moment, and a comparison of two moments.

import {ask} from "./api.js";
import {byName, clock, count, draw, make, table} from "./format.js";

const MOST_ROWS = 200;
const MOST_BUSY = 60;
const MOST_BINS = 12;
const [WIDTH, HEIGHT] = [380, 130];
const BOTTOM = HEIGHT - 18;     // y of the bars' bottom

export const balance = {
  load: ({moment}) => ask("balance", moment === null ? {} : {at: moment}),

  show: (store, {engine, links, loops, lids}, pane) => {
    const between = links.filter(([id]) => store.links.has(id)
      && [store.links.get(id).a, store.links.get(id).b].every((guid) => store.nodes.get(guid).kind === "switch"));
    const most = between.reduce((high, [, , number]) => Math.max(high, number), 1);
    const use = new Map();
    between.forEach(([id, , number]) => use.set(id, Math.max(use.get(id) ?? 0, number / most)));
    pane.mark(use, new Set(loops.flatMap(({circle, others}) => [...circle, ...others]).map(([id]) => id)));
    const rows = [...between].sort((one, other) => other[2] - one[2]).slice(0, MOST_BUSY);
    return [make("h2", {}, `Routing balance${engine ? `, ${engine}` : ""}`),
      make("p", {class: "about"}, "Routes of all pairs of hosts by the forwarding tables"
        + `${store.moment === null ? "" : ` of ${clock(store.moment)}`}: how many use a link between switches, in one `
        + "direction. The map shows busier links wider."),
      partial(lids),
      between.length ? histogram([{name: "now", numbers: between.map(([, , number]) => number)}])
        : make("p", {class: "note"}, "The forwarding tables are empty, or there is one switch only."),
      make("h3", {}, `Credit loops: ${loops.length}`),
      make("p", {class: "note"}, loops.length
        ? "These links, dashed on the map, can wait for each other's buffers in a circle if all packets are on one VL. "
          + "Each waits for the next, and the last for the first:"
        : "No circle of links can wait for each other's buffers."),
      ...loops.flatMap((loop) => circle(store, loop, pane)),
      make("h3", {}, "Links with most routes"),
      table(["link, direction", "routes"], rows.map(([id, out, number]) => [
        pane.to("link", id, direction(store, id, out), {through: true}), number]))].filter(Boolean);
  },
};

/** The list of the links of a credit loop, in the order in which packets would pass them. */
function circle(store, {circle: hops, others}, pane) {
  return [make("ol", {class: "hops"}, hops.map(([id, out]) => make("li", {},
    pane.to("link", id, store.links.has(id) ? direction(store, id, out) : id)))),
  others.length ? make("p", {class: "note"},
    `Further links and directions in circles with these: ${count(others.length)}.`) : null].filter(Boolean);
}

/** A note that only some routes were followed, because the fabric is large; null if all were. */
export function partial([followed, all]) {
  return followed === all ? null : make("p", {class: "note", "data-key": "partial"}, `Only the routes to ${count(followed)}`
    + ` of ${count(all)} LIDs, chosen at random: the fabric is large. The numbers count these routes, and differ by chance.`);
}

/** The comparison of two moments, for example before and after a change of the routing engine. */
export function rerouted(store, begin, end, {known, names, before, after, switches, links, differing}, pane) {
  const name = (id) => store.nodes.get(id)?.name ?? names[id] ?? id;
  const changed = Object.entries(switches).sort(([first], [second]) => byName(name(first), name(second)));
  const forgotten = begin < known ? [make("p", {class: "note"},
    `Some forwarding tables from before ${clock(known)} are not kept any more: their oldest known ones stand for them.`,
  )] : [];
  if (!changed.length) {
    return [make("h3", {}, "Routing"), make("p", {class: "note"}, "The forwarding tables are the same."), ...forgotten];
  }
  const [one, other] = [[before, begin], [after, end]].map(([{engine}, at]) => (
    `${engine ? `${engine}, ` : ""}${clock(at)}`));
  const figures = {links: "links between switches with routes", most: "most routes through one", least: "fewest",
                   mean: "mean", loops: "credit loops"};
  return [make("h3", {}, `Switches with other forwarding tables: ${changed.length}`), ...forgotten,
    table(["switch", "LIDs with another port"],
      changed.slice(0, MOST_ROWS).map(([id, lids]) => [store.nodes.has(id) ? pane.to("node", id, name(id)) : name(id),
                                                       lids])),
    make("h3", {}, "Routing balance"),
    table(["", one, other],
      Object.entries(figures).map(([key, text]) => [text, count(before[key]), count(after[key])])),
    partial(before.lids) ?? partial(after.lids),
    before.counts.length && after.counts.length
      ? histogram([{name: one, numbers: before.counts}, {name: other, numbers: after.counts}]) : null,
    make("h3", {}, `Links with more or fewer routes: ${differing}`),
    table(["link, direction", one, other], links.filter(([id]) => store.links.has(id)).slice(0, MOST_ROWS)
      .map(([id, out, first, second]) => [pane.to("link", id, direction(store, id, out), {through: true}), first,
                                          second]))].filter(Boolean);
}

function direction(store, id, out) {
  const link = store.links.get(id);
  const ends = [store.endName(link.a, link.a_port), store.endName(link.b, link.b_port)];
  return (out ? ends : ends.reverse()).join(" → ");
}

// -- histograms

/** A histogram. series: one or two {name, numbers}; the second is filled. */
function histogram(series) {
  const all = series.flatMap(({numbers}) => numbers);
  const least = all.reduce((one, other) => Math.min(one, other));     // Math.min(...all) could have too many arguments
  const most = all.reduce((one, other) => Math.max(one, other));
  const bins = Math.min(MOST_BINS, most - least + 1);
  const size = (most - least + 1) / bins;
  const filled = series.map(({numbers}) => inBins(numbers, least, size, bins));
  const highest = Math.max(...filled.flat());
  const across = (WIDTH - 8) / bins;
  const own = Math.min(60, across - 2) / series.length;
  const bars = filled.flatMap((heights, one) => heights.flatMap((number, bin) => bar(
    {number, x: 5 + bin * across + one * own, width: own, high: number / highest * (BOTTOM - 22),
     kind: series.length > 1 && !one ? "first" : null})));
  const places = filled[0].map((_number, bin) => draw("text", {
    x: 5 + bin * across + own * series.length / 2, y: HEIGHT - 5, "text-anchor": "middle"},
  String(Math.ceil(least + bin * size))));
  const svg = draw("svg", {class: "curve histogram", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `Histogram: routes of a link in one direction, from ${count(least)} to ${count(most)}`},
  ...bars, ...places);
  svg.style.height = `${HEIGHT}px`;
  return make("div", {}, svg, make("p", {class: "note"}, "Across: routes through a link. Upwards: number of links.",
    series.length > 1 ? ` Outlined: ${series[0].name}; filled: ${series[1].name}.` : ""));
}

function inBins(numbers, least, size, bins) {
  const filled = Array(bins).fill(0);
  numbers.forEach((number) => {
    filled[Math.min(bins - 1, Math.floor((number - least) / size))] += 1;
  });
  return filled;
}

function bar({number, x, width, high, kind}) {
  return [draw("rect", {...(kind ? {class: kind} : {}), x, y: BOTTOM - high, width, height: high}),
          draw("text", {x: x + width / 2, y: BOTTOM - 4 - high, "text-anchor": "middle"},
            number ? String(number) : "")];
}
