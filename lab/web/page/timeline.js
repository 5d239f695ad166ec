// SPDX-License-Identifier: GPL-2.0-or-later
// The time line: marks of events, and a cursor for the moment that is shown.

import {clock, draw, make} from "./format.js";
import {Press} from "./press.js";
import {renew} from "./renew.js";

const HEIGHT = 26;
const STEPS = 1000;
const APART = 3;                // pixels; nearer marks of one kind are one
const MOST_IN_TITLE = 12;       // events of a mark
const LEAST_S = 60;             // shortest time that is shown
// Kinds of events: class, shape and height of the mark. Shapes differ as well as colours.
const KINDS = {
  up: ["k-up", "M0 -5 L5 4 L-5 4 Z", 6], down: ["k-down", "M0 5 L5 -4 L-5 -4 Z", 20],
  fault: ["k-fault", "M0 -6 L6 0 L0 6 L-6 0 Z", 20], trap: ["k-down", "M-5 -5 H5 V5 H-5 Z", 20],
  sm: ["k-sm", "M0 -6 L2 -2 L6 -2 L3 1 L4 6 L0 3 L-4 6 L-3 1 L-6 -2 L-2 -2 Z", 13],
  state: ["k-sm", "M-1.5 -5 H1.5 V5 H-1.5 Z", 13], node: ["k-node", "M0 -4 A4 4 0 1 0 .1 -4 Z", 13],
  completion: ["k-qp", "M-5 -2 H-2 V-5 H2 V-2 H5 V2 H2 V5 H-2 V2 H-5 Z", 6],
  event: ["k-qp", "M-4 -4 H4 V4 H-4 Z", 6], refused: ["k-qp", "M-5 -5 H-3 L5 3 V5 H3 L-5 -3 Z", 6],
  cut: ["k-qp", "M-6 -2 H-1 V2 H-6 Z M1 -2 H6 V2 H1 Z", 13], mended: ["k-qp", "M-6 -2 H6 V2 H-6 Z", 13],
};
const LEGEND = [["up", "link up"], ["down", "link down"], ["fault", "fault"], ["trap", "link error"],
                ["state", "port state"], ["sm", "subnet manager"], ["node", "node"], ["cut", "connection cut"],
                ["mended", "way again"], ["completion", "failed request"], ["event", "HCA event"],
                ["refused", "refused command"]];

export class Timeline {
  constructor(root, store) {
    this.store = store;
    for (const name of ["marks", "cursor", "clock", "live", "mark", "compare", "kinds"]) {
      this[name] = root.querySelector(`#${name}`);
    }
    this.press = new Press(this.marks);
    for (const name of ["events", "time", "moment"]) {
      store.addEventListener(name, () => this.press.change(() => this.draw()));
    }
    this.cursor.addEventListener("input", () => this.moved());
    this.live.addEventListener("click", () => store.show(null));
    this.mark.addEventListener("click", () => this.pin());
    this.compare.addEventListener("click", () => store.choose("comparison", "",
      {begin: store.mark, end: this.shown()}));
    this.kinds.append(...LEGEND.map(([kind, text]) => make("li", {}, draw("svg", {viewBox: "-7 -7 14 14"},
      draw("path", {class: KINDS[kind][0], d: KINDS[kind][1]})), text)));
  }

  span() {
    const {began, now, events} = this.store;
    const first = Math.min(began || now, events[0]?.at ?? now);
    return [Math.min(first, now - LEAST_S), now];
  }

  shown() {
    return this.store.moment ?? this.store.now;
  }

  /** The right end of the cursor's way is live. */
  moved() {
    const [begin, end] = this.span();
    const part = Number(this.cursor.value) / STEPS;
    this.store.show(part >= 1 ? null : begin + part * (end - begin))
      .catch((error) => this.store.setTrouble(error.message));
  }

  pin() {
    this.store.mark = this.shown();
    this.compare.disabled = false;
    this.draw();
  }

  draw() {
    const {store} = this;
    if (!store.now) {
      return;
    }
    const [begin, end] = this.span();
    const width = this.marks.clientWidth;
    const x = (at) => 6 + (width - 12) * (at - begin) / (end - begin);
    const marks = [...Map.groupBy(store.events, ({kind, at}) => `${kind} ${Math.round(x(at) / APART)}`).values()]
      .map((events) => this.markOf(events, x));
    const line = (at, className) => draw("line", {class: className, x1: x(at), x2: x(at), y1: 0, y2: HEIGHT});
    renew(this.marks, [...marks, ...(store.mark === null ? [] : [line(store.mark, "k-pin")]),
                       line(this.shown(), "k-moment")]);
    this.show(begin, end);
  }

  /** Of events of one kind that have one place. */
  markOf(events, x) {
    const [{number, kind}] = events;
    const {at} = events[events.length - 1];
    const [className, path, y] = KINDS[kind] ?? KINDS.event;
    const words = events.slice(-MOST_IN_TITLE).map((event) => `${clock(event.at)}  ${event.text}`);
    if (events.length > words.length) {
      words.unshift(`${events.length - words.length} more before`);
    }
    return draw("path", {class: `mark ${className}`, "data-key": number, d: path,
                         transform: `translate(${x(at).toFixed(1)} ${y})`, onclick: () => this.store.show(at + 0.05)},
      draw("title", {}, words.join("\n")));
  }

  show(begin, end) {
    const {moment} = this.store;
    const part = moment === null ? 1 : (moment - begin) / (end - begin);
    this.cursor.value = String(Math.max(0, Math.min(STEPS - (moment === null ? 0 : 1), Math.round(part * STEPS))));
    this.cursor.setAttribute("aria-valuetext", moment === null ? "live" : clock(moment));
    this.clock.textContent = clock(this.shown());
    this.live.setAttribute("aria-pressed", String(moment === null));
  }
}
