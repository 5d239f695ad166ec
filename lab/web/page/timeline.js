// SPDX-License-Identifier: GPL-2.0-or-later
// The time line: marks of events, and a cursor for the shown moment.

import {clock, draw, make} from "./format.js";
import {Press} from "./press.js";

const HEIGHT = 26;
const STEPS = 1000;
const APART = 3;                // pixels; marks of one kind that are nearer are joined
const MOST_IN_TITLE = 12;       // limit of events in a mark's tooltip
const LEAST_S = 60;             // shortest shown period
// By kind of event: class, shape and height of the mark. Kinds differ in shape as well as in colour.
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
                ["mended", "route again"], ["completion", "failed request"], ["event", "HCA event"],
                ["refused", "refused command"]];

/** Moves a vertical line to x; null hides it. */
function line(element, x) {
  element.style.display = x === null ? "none" : "";
  element.setAttribute("x1", x ?? 0);
  element.setAttribute("x2", x ?? 0);
}

function words(events) {
  const found = events.slice(-MOST_IN_TITLE).map((event) => `${clock(event.at)}  ${event.text}`);
  return [...(events.length > found.length ? [`${events.length - found.length} more before`] : []), ...found].join("\n");
}

export class Timeline {
  constructor(root, store) {
    this.store = store;
    for (const name of ["marks", "cursor", "clock", "live", "mark", "compare", "kinds"]) {
      this[name] = root.querySelector(`#${name}`);
    }
    this.press = new Press(this.marks);
    this.paths = new Map();     // marks by the number of their first event
    this.pin = draw("line", {class: "k-pin", y1: 0, y2: HEIGHT});
    this.here = draw("line", {class: "k-moment", y1: 0, y2: HEIGHT});
    this.marks.append(this.pin, this.here);
    this.marks.addEventListener("click", ({target}) => {
      const mark = target.closest(".mark");
      if (mark) {
        store.showEvent(Number(mark.dataset.at));
      }
    });
    for (const name of ["events", "time", "moment"]) {
      store.addEventListener(name, () => this.press.change(() => this.draw()));
    }
    this.cursor.addEventListener("input", () => this.moved());
    this.live.addEventListener("click", () => store.show(null));
    this.mark.addEventListener("click", () => this.remember());
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

  /** Shows the moment of the cursor. The cursor's right end means live. */
  moved() {
    const [begin, end] = this.span();
    const part = Number(this.cursor.value) / STEPS;
    this.store.show(part >= 1 ? null : begin + part * (end - begin));
  }

  remember() {
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
    this.place(this.groups((end - begin) * APART / width), x);
    line(this.pin, store.mark === null ? null : x(store.mark));
    line(this.here, x(this.shown()));
    this.show(begin, end);
  }

  /** Groups events of one kind that are close in time; each group has one mark. apart: seconds; it changes by doubling,
   * so that most groups stay the same as time passes. */
  groups(apart) {
    const step = 2 ** Math.ceil(Math.log2(apart));
    return Map.groupBy(this.store.events, ({kind, at}) => `${kind} ${Math.floor(at / step)}`).values();
  }

  /** Draws the marks. There may be thousands, so it changes only those that differ. */
  place(groups, x) {
    const before = this.paths;
    this.paths = new Map();
    for (const events of groups) {
      const [{number, kind}] = events;
      const last = events[events.length - 1];
      const mark = before.get(number) ?? this.newMark(kind);
      before.delete(number);
      this.paths.set(number, mark);
      const left = Math.round(x(last.at));
      if (mark.left !== left) {
        mark.left = left;
        mark.path.setAttribute("transform", `translate(${left} ${mark.y})`);
      }
      if (mark.last !== last.number) {
        mark.last = last.number;
        mark.title.textContent = words(events);
        mark.path.dataset.at = last.at;
      }
    }
    before.forEach(({path}) => path.remove());
  }

  newMark(kind) {
    const [className, shape, y] = KINDS[kind] ?? KINDS.event;
    const title = draw("title");
    const path = draw("path", {class: `mark ${className}`, d: shape}, title);
    this.marks.insertBefore(path, this.pin);
    return {path, title, y};
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
