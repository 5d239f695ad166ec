// SPDX-License-Identifier: GPL-2.0-or-later
// Curves over time as SVG: one or two lines. The second line is dashed.

import {clock, draw, make} from "./format.js";

const WIDTH = 380;
const HEIGHT = 74;
const LEFT = 4;
const TOP = 14;
const BOTTOM = 60;

function line(times, values, most, className) {
  const [begin, end] = [times[0], times[times.length - 1]];
  const points = times.map((at, number) => {
    const x = LEFT + (WIDTH - 2 * LEFT) * (end > begin ? (at - begin) / (end - begin) : 1);
    const y = BOTTOM - (BOTTOM - TOP) * (most ? values[number] / most : 0);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return draw("polyline", {class: className, points: points.join(" ")});
}

/** An SVG curve. lines: [{name, values}], at most two; text: formats a value; now: a moment to mark, or null. */
export function curve(title, times, lines, text, now = null) {
  if (times.length < 2) {
    return make("p", {class: "note"}, `${title}: two readings are needed`);
  }
  const most = Math.max(...lines.flatMap(({values}) => values));
  const last = lines.map(({name, values}) => `${name} ${text(values[values.length - 1])}`).join(", ");
  const svg = draw("svg", {class: "curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
                           "aria-label": `${title}: now ${last}; most ${text(most)}`},
    draw("line", {class: "axis", x1: LEFT, x2: WIDTH - LEFT, y1: BOTTOM, y2: BOTTOM}),
    ...lines.map(({values}, number) => line(times, values, most, number ? "two" : "one")),
    draw("text", {x: LEFT, y: 10}, `${title}: ${last}`),
    draw("text", {x: WIDTH - LEFT, y: 10, "text-anchor": "end"}, `most ${text(most)}`),
    draw("text", {x: LEFT, y: HEIGHT - 2}, clock(times[0])),
    draw("text", {x: WIDTH - LEFT, y: HEIGHT - 2, "text-anchor": "end"}, clock(times[times.length - 1])));
  const [begin, end] = [times[0], times[times.length - 1]];
  if (now !== null && now >= begin && now <= end) {
    const x = LEFT + (WIDTH - 2 * LEFT) * (now - begin) / (end - begin || 1);
    svg.append(draw("line", {class: "now", x1: x, x2: x, y1: TOP, y2: BOTTOM}));
  }
  return svg;
}
