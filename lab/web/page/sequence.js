// SPDX-License-Identifier: GPL-2.0-or-later
// A message sequence chart: a line for each end of a connection, an arrow for each packet. NAKs are dashed. A row with
// text marks the place of missing packets.

import {clock, count, draw, hex, make} from "./format.js";

const WIDTH = 388;
const ROW = 21;
const TOP = 26;
const LEFT = 66;                // x of the first end's line
const RIGHT = WIDTH - 40;
const MOST = 40;                // limit of drawn packets, the newest ones

/** Adds the packets of a later answer to a recording. missed: number of packets that the server has not kept. */
export function joined(before, more) {
  if (before?.began !== more.began) {
    return more;
  }
  return {...more, messages: [...before.messages, ...more.messages].slice(-MOST), missed: before.missed + more.missed};
}

/** Messages, and the number of packets that are missing before a message. */
function withGaps(messages) {
  return messages.flatMap((one, at) => {
    const missing = at ? one.number - messages[at - 1].number - 1 : 0;
    return missing ? [{missing}, one] : [one];
  });
}

/** Draws the chart. names: those of both ends. */
export function chart(names, {began, messages, next, missed, lost, lids}) {
  if (!messages.length) {
    return make("p", {class: "note"}, `Recording since ${clock(began)}: no packet yet.`);
  }
  const shown = withGaps(messages.slice(-MOST));
  const height = TOP + ROW * shown.length + 8;
  const svg = draw("svg", {class: "sequence", viewBox: `0 0 ${WIDTH} ${height}`, role: "img",
                           "aria-label": `${messages.length} packets between ${names.join(" and ")}`},
    ...[LEFT, RIGHT].map((x) => draw("line", {class: "life", x1: x, x2: x, y1: TOP - 8, y2: height})),
    ...[[LEFT, "middle"], [RIGHT, "end"]].map(([x, anchor], end) => draw("text", {
      x: anchor === "end" ? WIDTH - 2 : x, y: 11, "text-anchor": anchor}, names[end])),
    ...shown.flatMap((one, row) => (one.missing ? gap(one.missing, TOP + ROW * row + 12)
      : arrow(one, lids.includes(one.slid), TOP + ROW * row + 12, shown[0].at))));
  svg.style.height = `${height}px`;
  return make("div", {}, svg,
    make("p", {class: "note"}, `${count(next)} packets since ${clock(began)}`
      + `${next > messages.length ? `, the last ${messages.length} are drawn` : ""}`
      + `${missed ? `; ${count(missed)} came too fast for this page` : ""}`
      + `${lost ? `; the switch lost ${count(lost)} more` : ""}.`));
}

function gap(missing, y) {
  return [draw("text", {class: "refused", x: (LEFT + RIGHT) / 2, y: y + 1, "text-anchor": "middle"},
    `${count(missing)} packets are not shown`)];
}

function arrow(one, forward, y, began) {
  const [from, to] = forward ? [LEFT, RIGHT] : [RIGHT, LEFT];
  const tip = forward ? to - 8 : to + 8;
  const kind = one.answer.includes("NAK") ? "refused" : one.answer ? "answer" : "request";
  const about = one.answer && !one.name.includes("RESPONSE") ? one.answer : one.name.replace(/^\w+ /, "");
  const text = `${about}  ${hex(one.psn)}${one.ack_request ? "  A" : ""}`;
  return [draw("text", {class: "time", x: LEFT - 6, y: y + 3, "text-anchor": "end"},
    `${((one.at - began) * 1000).toFixed(3)}`),
  draw("line", {class: kind, x1: from, x2: tip, y1: y, y2: y}),
  draw("path", {class: kind, d: `M${to} ${y}L${tip} ${y - 4}V${y + 4}Z`}),
  draw("text", {class: kind, x: (LEFT + RIGHT) / 2, y: y - 3, "text-anchor": "middle"}, text,
    draw("title", {}, `${one.name}, PSN ${hex(one.psn)}, to QP ${hex(one.qpn)}, ${one.octets} octets`
      + `${one.ack_request ? ", AckReq" : ""}${one.solicited ? ", solicited" : ""}`
      + `${one.answer ? `, ${one.answer}` : ""}`))];
}
