// SPDX-License-Identifier: GPL-2.0-or-later
// Views of a host (for a guest its HCA's QPs, CQs and memory regions), and of a QP with its route through the fabric.

import {ask} from "./api.js";
import {clock, count, duration, hex, make, table} from "./format.js";
import {outstanding, posted, requests, waiting} from "./requests.js";
import {inPlaceOf} from "./search.js";
import {chart, joined} from "./sequence.js";
import {bar, eventList, state} from "./label.js";

const KINDS = {guest: "Guest", phantom: "Phantom host", host: "Host"};

export const host = {
  ofMoment: "the states of its links",

  load: async (store) => {
    const node = store.nodes.get(store.chosen.id);
    return node.guest && store.isThere(node.id) && !store.isFormer(node.guest) ? ask("hca", {node: node.id}) : {};
  },

  show: (store, hca, pane) => {
    const node = store.nodes.get(store.chosen.id);
    const links = store.around.get(node.id) ?? [];
    return [
      make("h2", {}, `${KINDS[node.kind]} ${node.name}`),
      make("p", {class: "about"}, `GUID ${node.id}, port GUID ${node.port_guids.join(", ")}, `
        + `LID ${node.lids.join(", ") || "none"}${inPlaceOf(node)}`
        + `${node.sm ? ", subnet manager" : ""}${hca.state ? `, virtual machine ${hca.state}` : ""}`),
      node.description !== node.name ? make("p", {class: "about"}, node.description) : null,
      table(["port", "link", "state"], links.map((link) => [String(link.b === node.id ? link.b_port : link.a_port),
        pane.to("link", link.id, store.linkName(link)), state({...link, ...store.condition(link)})])),
      ...(hca.qps ? objects(store, node, hca, pane) : [make("p", {class: "note"}, !store.isThere(node.id)
        ? "It is not in the fabric any more, and its objects are not kept." : node.guest && store.isFormer(node.guest)
        ? "The guest has started anew since then, and the objects of that run are not kept." : node.kind === "phantom"
        ? "The switch process answers for this host's subnet management. It has no QPs."
        : "It is not a guest of this lab, or its QEMU does not answer, so its objects are not known. ./pib status "
          + "shows what runs.")]),
      make("h3", {}, "Events"),
      eventList(store, store.eventsOf((event) => store.nodeOf(event) === node.id
        || links.some((link) => link.id === event.link)), pane, 30)].filter(Boolean);
  },
};

function objects(store, node, hca, pane) {
  const more = ({count: all, entries}) => all > entries.length ? `, the first ${entries.length} are shown` : "";
  return [
    make("h3", {}, `Queue pairs, ${hca.qps.count}${more(hca.qps)}`),
    table(["QP", "state", "to", "PSN window", "sends waiting", "receives", "retries left"],
      hca.qps.entries.map((one) => [
        make("span", {}, pane.to("qp", node.id, hex(one.qpn), {qpn: one.qpn}), ` ${one.type}`), qpState(one),
        target(store, one), psns(one), outstanding(one), one.srq ? `SRQ ${hex(one.srq)}` : posted(one.rq),
        retries(one)]), true),
    make("h3", {}, `Completion queues, ${hca.cqs.count}${more(hca.cqs)}`),
    table(["CQ", "depth", "CQEs written", "armed", "error"], hca.cqs.entries.map((one) => [hex(one.cqn), one.depth,
      one.producer, one.armed, overrun(one) ? bar(1, "full") : one.error ? "yes" : ""])),
    make("p", {class: "note"}, "The device reads a CQ's consumer counter only when the CQ looks full. How full a CQ is, "
      + "is therefore known only if it has failed because it was full."),
    make("h3", {}, `Memory regions and windows, ${hca.mrs.count}${more(hca.mrs)}`),
    table(["kind", "key", "length", "access"], hca.mrs.entries.map((one) => [
      one.kind, String(one.key), Number(one.length), rights(one.access)]), true),
    make("h3", {}, "Last failures"),
    hca.failures.length ? table(["time", "QP or object", "failure"], [...hca.failures].reverse().slice(0, 50).map(
      (one) => [clock(one.at), one.kind === "completion" ? pane.to("qp", node.id, hex(one.qpn), {qpn: one.qpn})
        : one.port ? `port ${one.port}` : String(one.number), failure(one, pane)])) : make("p", {class: "note"}, "None."),
    hca.failures.length ? whyButton(store, node.guest) : null,
    make("h3", {}, "Counters"),
    table(["counter", "value"], Object.entries(hca.counters))];
}

// Names of the rights by bit, as in ibv_access_flags. Local read needs none.
const RIGHTS = {0: "local write", 1: "remote write", 2: "remote read", 3: "remote atomic", 4: "window bind",
                5: "zero based", 8: "flush global", 9: "flush persistent"};

/** The names of the rights of a region or window, and their bits. */
function rights(access) {
  const bits = Number(access);
  const names = Object.entries(RIGHTS).filter(([bit]) => bits & 2 ** bit).map(([, name]) => name);
  return `${names.join(", ") || "local read"} (${access})`;
}

/** Whether a CQ had no room for a CQE: then the device has just read the consumer counter. */
function overrun(one) {
  return one.error && waiting(one) >= one.depth;
}

/** Buttons that explain a failure. A port event may name several changes. */
function failure(one, pane) {
  const names = (one.status ?? one.event).split(/[^A-Z0-9_]+/).filter(Boolean);
  return make("span", {}, names.flatMap((name) => [pane.explained(name.toLowerCase(), name), " "]));
}

function whyButton(store, about) {
  return make("p", {}, make("button", {type: "button", "data-key": "why",
                                       onclick: () => store.choose("why", about, {about})}, "Why did this happen?"));
}

function qpState(one) {
  const kind = one.state === "RTS" ? "good" : ["ERR", "SQE"].includes(one.state) ? "bad" : "wait";
  return make("span", {class: `state ${kind}`}, one.state);
}

/** The range of PSNs from the oldest unacknowledged PSN to the PSN of the next new request. */
function psns({requester: own}) {
  return own ? `${hex(own.una)} … ${hex(own.next)}` : "";
}

function retries(one) {
  return one.requester ? `${one.requester.retries_left} of ${one.retry_cnt}` : "";
}

function target(store, one) {
  if (!one.path) {
    return "";
  }
  const node = store.byLid.get(one.path.dlid);
  return `${node ? node.name : `LID ${one.path.dlid}`} ${hex(one.dest_qpn ?? 0)}`;
}

// -- one QP

export const qp = {
  ofMoment: "the routes through the fabric",

  load: async (store) => {
    const {chosen, moment} = store;
    const {id, qpn} = chosen;
    const kept = store.isThere(id) && !store.isFormer(store.nodes.get(id).guest);
    const data = !kept ? {qp: null} : await ask("qp", moment === null ? {node: id, qpn} : {node: id, qpn, at: moment});
    if (data.qp && chosen.chart && moment === null) {
      await record(chosen);
    }
    if (data.qp && store.chosen === chosen) {
      const way = (hops) => JSON.stringify(hops);
      if (way([...store.path.there]) !== way(data.there) || way([...store.path.back]) !== way(data.back)) {
        store.setPath(data.there, data.back);
      }
    }
    return data;
  },

  show: (store, data, pane) => {
    const node = store.nodes.get(store.chosen.id);
    const one = data.qp;
    if (!one) {
      return gone(store, node, pane);
    }
    return [
      make("h2", {}, `QP ${hex(one.qpn)} of ${node.name}`),
      make("p", {class: "about"}, qpState(one), ` ${one.type}, port ${one.port}, send CQ ${hex(one.send_cq)}, `
        + `receive CQ ${hex(one.recv_cq)}`),
      make("p", {}, pane.to("node", node.id, node.name), data.peer ? [" is connected to ",
        pane.to("node", data.peer.node, data.peer.name), " ", data.peer.qp
          ? pane.to("qp", data.peer.node, `QP ${hex(data.peer.qp.qpn)}`, {qpn: data.peer.qp.qpn}) : "(its QP is gone)"]
        : one.path ? " is connected to a host whose objects are not known" : " has no connection"),
      ...(one.requester ? [make("h3", {}, "Requester"), requester(one)] : []),
      ...(one.responder ? [make("h3", {}, "Responder"), table(["expected PSN", "MSN"],
        [[hex(one.responder.expected_psn), String(one.responder.msn)]])] : []),
      ...sequence(store, node, data),
      ...requests([{...data, name: `${node.name} ${hex(one.qpn)}`},
                   {...data.peer, name: `${data.peer?.name} ${hex(one.dest_qpn ?? 0)}`}]),
      ...(one.path ? ways(store, data, pane) : []),
      ...past(store, node, pane)].filter(Boolean);
  },
};

/** Adds the packets since the last answer. The capture in the switch continues in between. If the request fails, the
 * rest of the pane stays. */
async function record(chosen) {
  const {id, qpn, recorded: before} = chosen;
  try {
    const more = await ask("sequence", {node: id, qpn, began: before?.began ?? 0, since: before?.next ?? 0});
    chosen.failed = more.error ?? "";
    chosen.recorded = more.error ? before : joined(before, more);
  } catch (error) {
    chosen.failed = error.message;
  }
}

/** The view of a QP that no longer exists: its events. */
function gone(store, node, pane) {
  return [make("h2", {}, `QP ${hex(store.chosen.qpn)} of ${node.name}`),
    make("p", {}, pane.to("node", node.id, node.name), store.isFormer(node.guest)
      ? " has started anew since then, and the QPs of that run are not kept."
      : " has no QP with this number any more."),
    ...past(store, node, pane)];
}

function past(store, node, pane) {
  const {qpn} = store.chosen;
  return [make("h3", {}, "Events"),
    eventList(store, store.eventsOf((event) => event.qpn === qpn && store.nodeOf(event) === node.id), pane),
    whyButton(store, `${node.guest}:${hex(qpn)}`)];
}

function requester(one) {
  const {una, next, in_window: inWindow, sent_end: end} = one.requester;
  return table(["", ""], [["oldest PSN without an answer", hex(una)], ["first PSN that was never sent", hex(end)],
    ["next PSN of a new request", hex(next)], ["requests in the window", count(inWindow)],
    ["retries left", `${one.requester.retries_left} of ${one.retry_cnt}`],
    ["local ACK timeout", one.timeout ? `${duration(4.096e-6 * 2 ** one.timeout)} = 4.096 µs × 2^${one.timeout}`
      : "none"]]);
}

function sequence(store, node, data) {
  const {chosen} = store;
  const past = store.moment !== null;
  const button = make("button", {
    type: "button", "data-key": "chart", "aria-pressed": String(Boolean(chosen.chart) && !past), disabled: past,
    onclick: ({currentTarget}) => {
      chosen.chart = !chosen.chart;
      chosen.failed = "";
      currentTarget.setAttribute("aria-pressed", String(chosen.chart));
    }}, "Record packets");
  const far = data.peer?.qp ? `${data.peer.name} ${hex(data.peer.qp.qpn)}` : null;
  const names = [`${node.name} ${hex(data.qp.qpn)}`, far ?? (data.qp.path ? `LID ${data.qp.path.dlid}` : "peers")];
  return [make("h3", {}, "Message sequence"), make("p", {}, button),
    chosen.failed ? make("p", {class: "error", role: "alert"}, `No packets are recorded now: ${chosen.failed}`) : null,
    chosen.recorded ? chart(names, chosen.recorded) : make("p", {class: "note"},
      past ? "Packets of the past are not kept: only live ones can be recorded." : chosen.chart ? "Recording…" : "The switch records this QP's packets, both ways, while the button is on.")];
}

function ways(store, data, pane) {
  const list = (hops) => make("ol", {class: "hops"}, hops.map(([id, out]) => {
    const link = store.links.get(id);
    const [from, to] = link ? [store.endName(link.a, link.a_port), store.endName(link.b, link.b_port)] : [id, ""];
    return make("li", {}, pane.to("link", id, out ? `${from} → ${to}` : `${to} → ${from}`), " ",
      link && store.condition(link).state !== "Active" ? state({...link, ...store.condition(link)}) : null);
  }));
  const end = store.nodes.get(data.end)?.name ?? "?";
  const ends = data.complete ? [] : [make("p", {class: "error"}, `The route ends at ${end}: `
    + `no forwarding entry, or no link, leads on to LID ${data.qp.path.dlid}.`)];
  return [make("h3", {}, "Route to the peer"), list(data.there), ...ends,
    ...(data.back.length ? [make("h3", {}, "Route back"), list(data.back)] : [])];
}
