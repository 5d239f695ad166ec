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

/** A list of events, newest first. A click on an event shows its moment. */
export function eventList(store, events, pane, most = 60) {
  const rows = [...events].reverse().slice(0, most).map((event) => make("li", {}, make("time", {}, clock(event.at)),
    make("button", {type: "button", class: "go", "data-key": `event ${event.number}`, onclick: () => {
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
  return rows.length ? make("ol", {class: "events"}, rows) : make("p", {class: "note"}, "Nothing has happened yet.");
}
