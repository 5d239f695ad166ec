// SPDX-License-Identifier: GPL-2.0-or-later
// The page: connects its parts.

import {SECOND_PATTERN, draw, make, vlColour, vlDashes} from "./format.js";
import {PATTERNS} from "./paint.js";
import {Pane} from "./pane.js";
import {Search} from "./search.js";
import {Stage} from "./stage.js";
import {Store} from "./store.js";
import {Timeline} from "./timeline.js";

const element = (id) => document.getElementById(id);
const store = new Store();
const stage = new Stage(element("stage"), store);
const pane = new Pane(element("pane"), store, stage);
const search = new Search(element("query"), element("results"), store, stage);
const timeline = new Timeline(document.querySelector("footer"), store);

function summary() {
  const nodes = [...store.nodes.values()];
  const switches = nodes.filter((node) => node.kind === "switch").length;
  const links = [...store.links.values()];
  const active = links.filter((link) => store.condition(link).state === "Active").length;
  const manager = nodes.find((node) => node.sm);
  const text = `${switches} switch${switches === 1 ? "" : "es"}, ${nodes.length - switches} hosts, ${active} of `
    + `${links.length} links Active, ${store.smLid ? `SM at LID ${store.smLid}${manager ? ` (${manager.name})` : ""}`
      : "no subnet manager"}`;
  if (element("summary").textContent !== text) {
    element("summary").textContent = text;
  }
}

function legend() {
  const line = (attributes, ...more) => draw("svg", {width: 48, height: 12, "aria-hidden": "true"},
    draw("line", {x1: 1, x2: 47, y1: 6, y2: 6, "stroke-width": 2, ...attributes}), ...more);
  const colour = (name) => `var(--${name})`;
  const dashes = (lengths) => (lengths.length ? {"stroke-dasharray": lengths.join(" ")} : {});
  const cross = draw("path", {d: "M20 2l8 8M20 10l8-8", fill: "none", stroke: colour("bad"), "stroke-width": 2});
  const load = (vl) => line({stroke: vlColour(vl), ...dashes(vlDashes(vl)), "stroke-width": 5});
  const states = {Active: ["wire", "Active, no load"], Armed: ["warn", "Armed"], Initialize: ["warn", "Initialize"],
                  Down: ["bad", "Down", cross], "not there": ["warn", "not there at the moment that is shown"]};
  const rows = [
    ...Object.entries(PATTERNS).map(([state, lengths]) => {
      const [name, text, ...more] = states[state];
      return [line({stroke: colour(name), ...dashes(lengths), "data-state": state}, ...more), text];
    }),
    [load(0), "load, moving with the packets on the busiest links; wider: more. The colour is that of the VL"],
    [load(SECOND_PATTERN), `the same on VL ${SECOND_PATTERN} to 15: the colours begin again, with double dashes`],
    [line({stroke: colour("wire")}, draw("path", {d: "M24 0l6 11h-12z", fill: colour("mark")})), "faults are injected"],
    [draw("svg", {width: 48, height: 12}, ...[0, 1, 2, 3, 4, 5, 6, 7].map((vl) => draw("rect", {
      x: vl * 6, y: 1, width: 5, height: 10, fill: vlColour(vl)}))),
     "VL 0 to 7, and VL 8 to 15 (15: management); the overview and the label of a link name the VL"],
    [make("span", {}, "★"), "subnet manager"]];
  element("legend-lines").append(...rows.flatMap(([sign, text]) => [make("dt", {}, sign), make("dd", {}, text)]));
}

function trouble() {
  if (element("trouble").textContent !== store.trouble) {       // screen readers read it out again if it is set again
    element("trouble").textContent = store.trouble;
    element("trouble").hidden = !store.trouble;
  }
}

function keys(event) {
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    element("query").focus();
  } else if (event.key === "Escape" && store.chosen) {
    store.choose(null);
  }
}

for (const name of ["fabric", "changes", "moment"]) {
  store.addEventListener(name, summary);
}
store.addEventListener("trouble", trouble);
store.addEventListener("loads", () => store.trouble && store.setTrouble(""));
store.addEventListener("chosen", () => store.chosen?.kind !== "balance" && pane.mark(new Map()));
element("unfold").addEventListener("click", (event) => {
  const open = event.currentTarget.textContent === "Open all";
  event.currentTarget.textContent = open ? "Fold all" : "Open all";
  stage.foldAll(open);
});
element("fit").addEventListener("click", () => stage.fit());
element("balance").addEventListener("click", () => store.choose("balance", ""));
element("why").addEventListener("click", () => store.choose("why", "", {about: ""}));
addEventListener("keydown", keys);
legend();
store.connect();
// For tests and the browser's console.
globalThis.pib = {store, stage, pane, search, timeline};
