// SPDX-License-Identifier: GPL-2.0-or-later
// Small elements that several views use.

import {clock, make} from "./format.js";

/** A label for a port state, with a pattern and a colour. */
export function state(link) {
  const kind = link.state === "Active" ? "good" : link.state === "Down" || link.state === "not there" ? "bad" : "wait";
  return make("span", {class: `state ${kind}`}, link.state + (link.cable === false ? ", cable pulled" : ""));
}

/** A bar for a share from 0 to 1, with its text. */
export function bar(share, text) {
  const inner = make("i");
  inner.style.width = `${Math.round(Math.min(1, Math.max(0, share)) * 100)}%`;
  return make("span", {}, make("span", {class: "bar", "aria-hidden": "true"}, inner), ` ${text}`);
}

/** A list of events, newest first. A click on an event shows its moment. The list is one stop of the Tab key: arrow
 * keys go from event to event. */
export function eventList(store, events, pane, most = 60) {
  const shown = [...events].reverse().slice(0, most);
  const stop = shown.find(({number}) => keyOf(number) === store.eventStop) ?? shown[0];
  const rows = shown.map((event) => make("li", {}, make("time", {}, clock(event.at)),
    make("button", {type: "button", class: "go", "data-key": keyOf(event.number), tabindex: event === stop ? "0" : "-1",
                    onclick: () => {
      const node = store.nodeOf(event);
      store.showEvent(event.at);
      if (event.link && store.links.has(event.link)) {
        store.choose("link", event.link);
      } else if (event.qpn && node) {
        store.choose("qp", node, {qpn: event.qpn});
      } else if (node) {
        pane.stage.show(node);
        store.choose("node", node);
      }
    }}, event.text)));
  return rows.length ? make("ol", {
    class: "events", "aria-label": "Events, newest first; arrow keys go from one to the next",
    onfocusin: ({target, currentTarget}) => stopAt(store, currentTarget, target), onkeydown: step}, rows)
    : make("p", {class: "note"}, "Nothing has happened yet.");
}

function keyOf(number) {
  return `event ${number}`;
}

/** Makes a button of a list of events the one to which the Tab key leads. */
function stopAt(store, list, wanted) {
  if (wanted.dataset.key) {
    store.eventStop = wanted.dataset.key;
    list.querySelectorAll("button").forEach((one) => one.setAttribute("tabindex", one === wanted ? "0" : "-1"));
  }
}

const STEPS = {ArrowDown: (at) => at + 1, ArrowUp: (at) => at - 1, Home: () => 0, End: (_at, last) => last};

/** Moves the focus within a list of events. */
function step(event) {
  const buttons = [...event.currentTarget.querySelectorAll("button")];
  const next = buttons[STEPS[event.key]?.(buttons.indexOf(event.target), buttons.length - 1)];
  if (next) {
    event.preventDefault();
    next.focus();
  }
}
