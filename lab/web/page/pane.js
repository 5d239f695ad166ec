// SPDX-License-Identifier: GPL-2.0-or-later
// The pane with details of the chosen object. Each kind of object has a view: {load, show}. load() queries the server,
// periodically while the page is live; show() makes elements from the answer. ofMoment names the parts of a view that
// follow the time line's cursor, where the other parts show the present.

import {clock, make} from "./format.js";
import {Press} from "./press.js";
import {renew} from "./renew.js";
import {bundle, comparison, explanation, overview, why} from "./overview.js";
import {link} from "./link.js";
import {host, qp} from "./hca.js";
import {balance} from "./routing.js";
import {fabricSwitch} from "./switch.js";

const VIEWS = {overview, bundle, comparison, explanation, why, balance, link, host, switch: fabricSwitch, qp};
const AGAIN = new Set(["link", "host", "switch", "qp"]);        // views that are loaded periodically
const BETWEEN_MS = 1000;

export class Pane {
  constructor(element, store, stage) {
    this.element = element;
    this.store = store;
    this.stage = stage;
    this.turn = 0;              // number of the choice; answers to earlier choices are dropped
    this.asking = false;
    this.shown = "";            // key of the object that the pane shows
    this.parts = new Map();     // last values of part(), by key, as JSON
    this.press = new Press(element);
    store.addEventListener("chosen", () => this.begin());
    store.addEventListener("moment", () => this.again());
    for (const name of ["fabric", "changes", "events", "loads"]) {
      store.addEventListener(name, () => this.kind() === "overview" && this.showAll({}));
    }
    setInterval(() => this.tick(), BETWEEN_MS);
  }

  kind() {
    const {chosen, nodes} = this.store;
    if (chosen?.kind !== "node") {
      return chosen?.kind ?? "overview";
    }
    return nodes.get(chosen.id)?.kind === "switch" ? "switch" : "host";
  }

  tick() {
    if (!this.asking && !document.hidden && this.store.moment === null && AGAIN.has(this.kind())) {
      this.again();
    }
  }

  begin() {
    this.turn += 1;
    this.asking = false;
    this.press.forget();
    this.element.scrollTop = 0;
    this.again();
  }

  async again() {
    const {turn, store: {moment}} = this;
    const view = VIEWS[this.kind()];
    this.asking = true;
    let data = null;
    try {
      data = this.missing() ?? (view.load ? await view.load(this.store) : {});
    } catch (error) {
      data = {failure: error.message};
    }
    if (turn === this.turn && moment === this.store.moment) {
      this.asking = false;
      this.showAll(data);
    }
  }

  /** The content for a chosen object that is not in the shown fabric; null if the object is there. */
  missing() {
    const {chosen, nodes, links, moment} = this.store;
    const known = {node: nodes, qp: nodes, link: links}[chosen?.kind];
    return !known || known.has(chosen.id) ? null : {heading: "Not there", failure: moment === null
      ? "It is not in the fabric any more. The time line leads to moments when it was."
      : `It was not in the fabric at the cursor's moment, ${clock(moment)}.`};
  }

  /** The object may leave the fabric before its answer comes, or while a press postpones the change. */
  showAll(data) {
    this.press.change(() => this.change(this.missing() ?? data));
  }

  change(data) {
    const focus = this.focusKey();
    const {id = "", qpn = "", about = ""} = this.store.chosen ?? {};
    const shown = [this.kind(), id, qpn, about].join(" ");
    if (this.shown === shown && !data.failure) {
      renew(this.element, this.content(data));
    } else {
      this.shown = data.failure ? "" : shown;
      this.parts.clear();
      this.element.replaceChildren(...this.content(data));
    }
    this.restore(focus);
  }

  content(data) {
    const close = this.kind() === "overview" ? null : make("button", {
      type: "button", class: "close", "data-key": "close", "aria-label": "Close", title: "Close (Escape)",
      onclick: () => this.store.choose(null)}, "×");
    const content = data.failure
      ? [make("h2", {}, data.heading ?? "No answer"), make("p", {class: "error", role: "alert"}, data.failure)]
      : VIEWS[this.kind()].show(this.store, data, this);
    return [close, this.readNote(data), ...content].filter(Boolean);
  }

  /** A note, while a past moment is shown, that the object's state was read at another time, data.read. */
  readNote({read}) {
    const {moment} = this.store;
    return moment === null || !read ? null : make("p", {id: "read", class: "past", role: "note"},
      `State of ${clock(read)}. From the cursor's moment, ${clock(moment)}: `
      + `${VIEWS[this.kind()].ofMoment}.`);
  }

  /** The key of the focused element; null if the focus is outside of the pane. */
  focusKey() {
    return this.element.contains(document.activeElement) ? document.activeElement.dataset.key ?? "" : null;
  }

  /** If the focused element is gone, focuses another element with its key, or else the pane, so that the Tab key
   * continues from there. */
  restore(key) {
    if (key !== null && !this.element.contains(document.activeElement)) {
      const button = key ? this.element.querySelector(`[data-key="${CSS.escape(key)}"]`) : null;
      (button ?? this.element).focus({preventScroll: true});
    }
  }

  /** An element that is expensive to build. It is built again only if its value has changed. */
  part(key, value, build) {
    const version = JSON.stringify(value);
    const same = this.parts.get(key) === version && this.element.querySelector(`[data-key="${key}"]`) !== null;
    this.parts.set(key, version);
    return make("div", {"data-key": key, "data-same": same}, same ? [] : build());
  }

  /** A button that chooses a link, node or QP. */
  to(kind, id, text, more = {}) {
    return make("button", {type: "button", class: "go", "data-key": `${kind} ${id} ${more.qpn ?? ""}`, onclick: () => {
      this.store.choose(kind, id, more);
      if (kind === "node") {
        this.stage.show(id);
      }
    }}, text);
  }

  /** A button that shows a section of the documentation, for example about a status or an event. */
  explained(section, text = "Explain") {
    const {store} = this;
    return make("button", {
      type: "button", class: "go explain", "data-key": `explain ${section}`, "aria-label": `Explain ${section}`,
      onclick: () => store.choose("explanation", section, {from: store.chosen})}, text);
  }

  /** Marks links on the map. use: by link a value from 0 to 1; loops: links of credit loops. */
  mark(use, loops = new Set()) {
    this.stage.painter.marked = use;
    this.stage.painter.loops = loops;
    this.stage.painter.refresh();
  }
}
