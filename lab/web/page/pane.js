// SPDX-License-Identifier: GPL-2.0-or-later
// The pane with details of the object that is chosen. Each kind of object has a view: {load, show}. load() asks the
// server, again and again while the page is live; show() makes elements of the answer.

import {make} from "./format.js";
import {balance, bundle, comparison, explanation, overview, why} from "./overview.js";
import {link} from "./link.js";
import {host, qp} from "./hca.js";
import {fabricSwitch} from "./switch.js";

const VIEWS = {overview, bundle, comparison, explanation, why, balance, link, host, switch: fabricSwitch, qp};
const AGAIN = new Set(["link", "host", "switch", "qp"]);        // views that are loaded again
const BETWEEN_MS = 1000;

export class Pane {
  constructor(element, store, stage) {
    this.element = element;
    this.store = store;
    this.stage = stage;
    this.turn = 0;              // answers to earlier choices are dropped
    this.asking = false;
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
    if (!this.asking && !this.busy() && !document.hidden && this.store.moment === null && AGAIN.has(this.kind())) {
      this.again(true);
    }
  }

  /** Whether a user is filling in a form, which would lose the focus if the pane were made anew. */
  busy() {
    return this.element.querySelector("form :focus") !== null;
  }

  begin() {
    this.turn += 1;
    this.asking = false;
    this.element.scrollTop = 0;
    this.again();
  }

  /** onceMore: the object is shown already. */
  async again(onceMore = false) {
    const turn = this.turn;
    const view = VIEWS[this.kind()];
    this.asking = true;
    let data = null;
    try {
      data = view.load ? await view.load(this.store) : {};
    } catch (error) {
      data = {failure: error.message};
    }
    if (turn === this.turn) {
      this.asking = false;
      if (!onceMore || !this.busy()) {
        this.showAll(data);
      }
    }
  }

  showAll(data) {
    const view = VIEWS[this.kind()];
    const focus = this.focusKey();
    const scrolled = [...this.element.querySelectorAll(".scroll")].map((part) => part.scrollTop);
    const close = this.kind() === "overview" ? null : make("button", {
      type: "button", class: "close", "aria-label": "Close", title: "Close (Escape)",
      onclick: () => this.store.choose(null)}, "×");
    const content = data.failure
      ? [make("h2", {}, "No answer"), make("p", {class: "error", role: "alert"}, data.failure)]
      : view.show(this.store, data, this);
    this.element.replaceChildren(...[close, ...content].filter(Boolean));
    this.element.querySelectorAll(".scroll").forEach((part, number) => {
      part.scrollTop = scrolled[number] ?? 0;
    });
    this.restore(focus);
  }

  /** Buttons with data-key keep the focus when the pane is made anew. Without the button, the pane itself takes it: the
   * Tab key then goes on from there. null: the focus is elsewhere. */
  focusKey() {
    return this.element.contains(document.activeElement) ? document.activeElement.dataset.key ?? "" : null;
  }

  restore(key) {
    if (key !== null) {
      const button = key ? this.element.querySelector(`[data-key="${CSS.escape(key)}"]`) : null;
      (button ?? this.element).focus({preventScroll: true});
    }
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

  /** A button that explains a status, an event or another section of the documentation. */
  explained(section, text = "Explain") {
    const {store} = this;
    return make("button", {
      type: "button", class: "go explain", "data-key": `explain ${section}`, "aria-label": `Explain ${section}`,
      onclick: () => store.choose("explanation", section, {from: store.chosen})}, text);
  }

  /** The form of a link stays while the link is shown, as a user may be filling it in. */
  keeps(id) {
    return this.kept === id;
  }

  keep(id, form) {
    this.kept = id;
    return form;
  }

  /** Marks links on the map by a use from 0 to 1, and links of credit loops. */
  mark(use, loops = new Set()) {
    this.stage.painter.marked = use;
    this.stage.painter.loops = loops;
    this.stage.painter.refresh();
  }
}
