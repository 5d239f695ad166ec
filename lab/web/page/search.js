// SPDX-License-Identifier: GPL-2.0-or-later
// Search by name, GUID, LID or QPN: a combobox with a list of results. The page has all nodes; the server is asked for
// QPs.

import {ask} from "./api.js";
import {byName, hex, make} from "./format.js";

const MOST = 30;

/** Text that names the host of the topology file whose place a guest has taken; "" if its name is the guest's, or there
 * is none. */
export function inPlaceOf({name, place}) {
  return place && place !== name ? `, in the place of ${place}` : "";
}

/** Nodes and links that match a text, best first: an exact LID, names that begin with the text, other matches. */
export function search(store, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) {
    return [];
  }
  const lid = /^(?:lid\s*)?(0x[0-9a-f]+|\d+)$/.exec(wanted);
  const guid = wanted.replace(/^0x/, "").replace(/:/g, "");
  const found = [];
  for (const node of store.nodes.values()) {
    const names = [node.name, node.place].filter(Boolean).map((name) => name.toLowerCase());
    const rank = lid && node.lids.includes(Number(lid[1])) ? 0 : names.includes(wanted) ? 1
      : names.some((name) => name.startsWith(wanted)) ? 2
      : names.some((name) => name.includes(wanted)) || node.description.toLowerCase().includes(wanted) ? 3
        : guid.length > 3 && [node.id, ...node.port_guids].some((one) => one.includes(guid)) ? 4 : null;
    if (rank !== null) {
      found.push({rank, kind: "node", id: node.id, text: node.name,
                  more: `${node.kind}${inPlaceOf(node)}, LID ${node.lids.join(", ") || "none"}, ${node.id}`});
    }
  }
  if (wanted.includes("[")) {
    for (const link of store.links.values()) {
      const name = store.linkName(link);
      if (name.toLowerCase().includes(wanted)) {
        found.push({rank: 2, kind: "link", id: link.id, text: name, more: `link, ${link.state} ${link.rate}`});
      }
    }
  }
  return found.sort((one, other) => one.rank - other.rank || byName(one.text, other.text)).slice(0, MOST);
}

const QP = /^(?:([^\s:]+):)?(?:qp\s*)?(0x[0-9a-f]{1,6}|\d{1,8})$/i;

/** QPs with this number, of one guest or of all: "0x41", "vm1:0x41". */
async function qps(text) {
  const [, guest = "", number] = QP.exec(text.trim()) ?? [];
  if (!number) {
    return [];
  }
  try {
    return (await ask("qps", {guest, qpn: Number(number)})).map(({node, name, qpn, type, state}) => ({
      kind: "qp", id: node, more: `QP, ${type}, ${state}`, text: `${name}:${hex(qpn)}`, qpn}));
  } catch {
    return [];                  // the page reports elsewhere that the server does not answer
  }
}

export class Search {
  constructor(input, list, store, stage) {
    Object.assign(this, {input, list, store, stage, found: [], at: 0, asked: Promise.resolve()});
    input.addEventListener("input", () => this.look());
    input.addEventListener("focus", () => this.look());
    input.addEventListener("blur", () => setTimeout(() => this.close(), 150));
    input.addEventListener("keydown", (event) => this.key(event));
  }

  look() {
    const text = this.input.value;
    this.found = search(this.store, text);
    this.at = 0;
    const asked = qps(text).then((found) => {
      if (this.asked === asked && found.length) {
        this.found = [...this.found, ...found].slice(0, 2 * MOST);
        this.show();
      }
    });
    this.asked = asked;
    this.show();
  }

  show() {
    const nothing = this.input.value.trim() && !this.found.length;
    this.list.replaceChildren(...this.found.map((one, number) => make("li", {
      role: "option", id: `result-${number}`, onpointerdown: (event) => {
        event.preventDefault();
        this.take(one);
      }}, one.text, make("small", {}, one.more))),
    ...(nothing ? [make("li", {role: "option", "aria-disabled": "true"},
      "No node has this name, GUID or LID, and no QP this number")] : []));
    this.list.hidden = !this.found.length && !nothing;
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
    this.point();
  }

  point() {
    [...this.list.children].forEach((row, number) => row.setAttribute("aria-selected", String(number === this.at
      && this.found.length > 0)));
    if (this.found.length) {
      this.input.setAttribute("aria-activedescendant", `result-${this.at}`);
      this.list.children[this.at].scrollIntoView({block: "nearest"});
    } else {
      this.input.removeAttribute("aria-activedescendant");
    }
  }

  close() {
    this.asked = null;          // a later answer does not open the list again
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }

  /** Takes the chosen result, when the server has answered. */
  async enter() {
    const {asked} = this;
    await asked;
    if (this.asked === asked && this.found.length) {
      this.take(this.found[this.at]);
    }
  }

  key(event) {
    const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
    if (step && this.found.length) {
      event.preventDefault();
      this.at = (this.at + step + this.found.length) % this.found.length;
      this.point();
    } else if (event.key === "Enter") {
      event.preventDefault();           // otherwise Enter would press the node that gets the focus
      this.enter();
    } else if (event.key === "Escape") {
      this.input.value = "";
      this.found = [];
      this.close();
      event.stopPropagation();
    }
  }

  take(one) {
    this.close();
    this.input.value = "";
    if (one.kind !== "link") {
      this.stage.show(one.id);
    } else {
      const link = this.store.links.get(one.id);
      [link.a, link.b].forEach((guid) => this.stage.show(guid));
    }
    this.store.choose(one.kind, one.id, one.kind === "qp" ? {qpn: one.qpn} : {});
  }
}
