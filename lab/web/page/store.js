// SPDX-License-Identifier: GPL-2.0-or-later
// The state of the page: the fabric, its loads, events, the shown moment, and the chosen object.

import {SILENT, ask, refusal} from "./api.js";

const AGAIN_MS = 5000;          // pause before a refused stream is opened again

// Members of a node by which the map places and names it.
const PLACING = ["name", "kind", "pod", "leaf", "level", "x", "y"];

/** since: time of the event that made these nodes and links; 0: they are current. */
function structure({nodes, links, sm_lid: smLid}, since = 0) {
  return {nodes: new Map(nodes.map((node) => [node.id, node])), links: new Map(links.map((link) => [link.id, link])),
          smLid, since};
}

export class Store extends EventTarget {
  constructor() {
    super();
    this.live = structure({nodes: [], links: [], sm_lid: 0});
    this.use(this.live);        // nodes, links and smLid: those that are shown
    this.loads = {};
    this.events = [];
    this.runs = {};             // by guest, or "" for the switches: [last event before, time] of each new run
    this.began = 0;             // time of the oldest moment that the server knows
    this.now = 0;
    this.moment = null;         // the shown moment of the past; null: live
    this.answered = null;       // the last moment that the server has answered for
    this.mark = null;           // the moment to compare with
    this.chosen = null;         // {kind: "node" | "link" | "qp" | …, id}
    this.path = {there: new Map(), back: new Map()};        // route of the chosen QP: direction by link
    this.eventStop = "";        // key of the event to which the Tab key leads in a list of events
    this.trouble = "";
  }

  tell(name) {
    this.dispatchEvent(new Event(name));
  }

  /** Opens the stream of events. The browser reopens it after a failure, but not if the server has refused it. */
  connect() {
    const stream = new EventSource("events");
    const on = (name, take) => stream.addEventListener(name, (event) => take(JSON.parse(event.data)));
    on("fabric", (fabric) => this.takeFabric(fabric));
    on("changes", (changes) => this.takeChanges(changes));
    on("loads", (loads) => this.takeLoads(loads));
    on("runs", (runs) => this.takeRuns(runs));
    on("events", (events) => this.takeEvents(events));
    on("trouble", ({text}) => this.setTrouble(text));
    stream.addEventListener("error", () => {
      if (stream.readyState === EventSource.CLOSED) {
        this.refused();
      } else {
        this.setTrouble(SILENT);
      }
    });
  }

  async refused() {
    this.setTrouble(await refusal() || "The server has no room for another page: close one.");
    setTimeout(() => this.connect(), AGAIN_MS);
  }

  setTrouble(text) {
    this.trouble = text;
    this.tell("trouble");
  }

  /** Takes the present nodes and links. While the page shows a past moment, it keeps showing those of that moment. */
  takeFabric(fabric) {
    this.live = structure(fabric);
    if (this.moment === null) {
      this.use(this.live);
      this.tell("fabric");
    } else {
      this.show(this.moment);
    }
  }

  use(shown) {
    this.shown = shown;
    [this.nodes, this.links, this.smLid] = [shown.nodes, shown.links, shown.smLid];
    this.readLids();
    this.around = new Map([...this.nodes.keys()].map((id) => [id, []]));
    for (const link of this.links.values()) {
      this.around.get(link.a)?.push(link);
      this.around.get(link.b)?.push(link);
    }
  }

  takeChanges({nodes, links, sm_lid: smLid}) {
    const {live} = this;
    const moved = nodes.some((node) => PLACING.some((key) => live.nodes.get(node.id)[key] !== node[key]));
    nodes.forEach((node) => Object.assign(live.nodes.get(node.id), node));
    links.forEach((link) => Object.assign(live.links.get(link.id), link));
    live.smLid = smLid;
    if (this.shown === live) {
      this.smLid = smLid;
      this.readLids();
      this.tell(moved ? "fabric" : "changes");
    }
  }

  readLids() {
    this.byLid = new Map([...this.nodes.values()].flatMap((node) => node.lids.map((lid) => [lid, node])));
  }

  takeLoads({at, begin, loads}) {
    this.now = at;
    this.began = begin || this.began || at;
    if (this.moment === null) {
      this.loads = loads;
      this.tell("loads");
    }
    this.tell("time");
  }

  takeEvents(events) {
    const known = new Set(this.events.map((event) => event.number));
    this.events = [...this.events, ...events.filter((event) => !known.has(event.number))]
      .sort((one, other) => one.at - other.at).slice(-2000);
    this.tell("events");
  }

  takeRuns(runs) {
    this.runs = runs;
    this.tell("events");
  }

  /** Number of new runs of a guest, or of the switches, until the shown moment. */
  runShown(guest = "") {
    const begins = this.runs[guest] ?? [];
    return begins.filter(([, at]) => this.moment === null || at <= this.moment).length;
  }

  /** Whether a guest, or the switches, have restarted since the shown moment. */
  isFormer(guest = "") {
    return this.runShown(guest) < (this.runs[guest] ?? []).length;
  }

  /** The events for which `good` is true, of the run that is shown: an object of another run may have the same name. */
  eventsOf(good) {
    return this.events.filter((event) => good(event) && this.runShown(event.guest)
      === (this.runs[event.guest] ?? []).filter(([last]) => last < event.number).length);
  }

  // -- the moment

  /** Shows the fabric at a time of the past; null: live. A later call overrides an unfinished one. Without an answer
   * the moment before stays, and the page shows the failure. about: {event: 1} for the first reading after an event. */
  async show(at, about = {}) {
    this.moment = at;
    let past = null;
    try {
      past = at === null ? null : await ask("moment", {at, known: this.shown.since, ...about});
    } catch (error) {
      this.fail(at, error);
      return;
    }
    if (this.moment === at) {
      this.moment = about.event ? Math.max(at, past.at) : at;
      this.take(past);
    }
  }

  /** Shows an event's effects: they are in the reading that comes after it. */
  showEvent(at) {
    return this.show(at, {event: 1});
  }

  fail(at, error) {
    if (this.moment === at) {
      this.moment = this.answered;
      this.setTrouble(error.message);
      this.tell("time");
      this.tell("moment");
    }
  }

  take(past) {
    this.answered = this.moment;
    this.past = past?.links ?? null;
    this.loads = past?.loads ?? this.loads;
    this.useOf(past);
    this.tell("changes");
    this.tell("loads");
    this.tell("time");
    this.tell("moment");
  }

  /** Shows the nodes and links of a moment, if they differ from the shown ones. */
  useOf(past) {
    const next = !past?.since ? this.live : past.fabric ? structure(past.fabric, past.since) : this.shown;
    if (next !== this.shown) {
      this.use(next);
      this.tell("fabric");
    }
  }

  /** Whether the present fabric has a node or link. */
  isThere(id) {
    return this.live.nodes.has(id) || this.live.links.has(id);
  }

  /** A link's state, cable and faults at the shown moment. */
  condition(link) {
    return this.moment !== null && this.past ? this.past[link.id] || {state: "not there", cable: true} : link;
  }

  // -- the choice

  choose(kind, id, more = {}) {
    this.chosen = kind ? {kind, id, ...more} : null;
    this.path = {there: new Map(), back: new Map()};
    this.tell("chosen");
  }

  setPath(there, back) {
    this.path = {there: new Map(there), back: new Map(back)};
    this.tell("path");
  }

  /** The id of the node that an event is about. */
  nodeOf({node, guest, slot}) {
    const found = guest ? [...this.nodes.values()].find((one) => one.guest === guest && one.slot === slot)?.id : node;
    return this.nodes.has(found) ? found : "";
  }

  endName(guid, port) {
    return `${this.nodes.get(guid)?.name ?? guid}[${port}]`;
  }

  linkName(link) {
    return `${this.endName(link.a, link.a_port)} – ${this.endName(link.b, link.b_port)}`;
  }
}
