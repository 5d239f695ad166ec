// SPDX-License-Identifier: GPL-2.0-or-later
// The view of a switch: ports with queues, forwarding tables.

import {ask} from "./api.js";
import {hex, make, octets, table} from "./format.js";
import {eventList, state} from "./label.js";
import {vlsOfSwitch} from "./vls.js";

export const fabricSwitch = {
  ofMoment: "the states and loads of links, and the LFT",

  load: (store) => {
    const {chosen: {id}, moment} = store;
    return store.isThere(id) ? ask("switch", moment === null ? {node: id} : {node: id, at: moment}) : {};
  },

  show: (store, {switch: about, ports, vls, lft, mft}, pane) => {
    const node = store.nodes.get(store.chosen.id);
    if (!about) {
      return gone(store, node, pane);
    }
    const mine = new Map((store.around.get(node.id) ?? []).map(
      (link) => [link.a === node.id ? link.a_port : link.b_port, link]));
    const used = ports.filter((port) => port.neighbour);
    return [
      make("h2", {}, `Switch ${node.name}`),
      make("p", {class: "about"}, `GUID ${about.guid}, LID ${about.lid || "none"}, `
        + `SM at LID ${about.sm_lid || "none"}, ${used.length} of ${about.ports} ports used, `
        + `${about.held_packets} packets held`),
      node.description !== node.name ? make("p", {class: "about"}, node.description) : null,
      make("h3", {}, "Ports"),
      table(["port", "neighbour", "state", "waiting", "load out", "in"],
        used.map((port) => portRow(store, pane, node, port, mine.get(port.port)))),
      pane.part("vls", vls, () => vlsOfSwitch(vls, (port) => (mine.has(port)
        ? pane.to("link", mine.get(port).id, String(port)) : String(port)))),
      make("h3", {}, `Unicast forwarding (LFT), ${lft.length} entries`),
      lft.length ? pane.part("lft", lft.map(([lid, port]) => [lid, port, store.byLid.get(lid)?.name]),
        () => [table(["DLID", "to", "port"], lft.map(([lid, port]) => lftRow(store, pane, lid, port, mine)))])
        : make("p", {class: "note"}, "Empty: no subnet manager has set it."),
      make("h3", {}, `Multicast forwarding (MFT), ${mft.length} groups`),
      mft.length ? table(["MLID", "ports"], mft.map(([mlid, list]) => [hex(mlid), list.join(", ")]))
        : make("p", {class: "note"}, "Empty."),
      make("h3", {}, "Events"),
      eventList(store, store.eventsOf((event) => event.node === node.id
        || [...mine.values()].some((link) => link.id === event.link)), pane, 20)].filter(Boolean);
  },
};

/** A switch of the past that is not in the fabric any more: its links are known. */
function gone(store, node, pane) {
  const links = store.around.get(node.id) ?? [];
  return [make("h2", {}, `Switch ${node.name}`),
    make("p", {class: "note"}, "It is not in the fabric any more, and its tables are not kept."),
    table(["link", "state"], links.map((link) => [pane.to("link", link.id, store.linkName(link)),
                                                  state({...link, ...store.condition(link)})])),
    make("h3", {}, "Events"), eventList(store, store.eventsOf((event) => event.node === node.id), pane, 20)];
}

function portRow(store, pane, node, port, link) {
  const [out, back] = link && store.loads[link.id] ? (link.a === node.id ? store.loads[link.id]
    : [store.loads[link.id][1], store.loads[link.id][0]]) : [0, 0];
  const far = link ? (link.a === node.id ? store.endName(link.b, link.b_port) : store.endName(link.a, link.a_port))
    : port.neighbour.description;
  return [link ? pane.to("link", link.id, String(port.port)) : String(port.port), far,
          state(link ? {...link, ...store.condition(link)} : port), port.queued_packets,
          out ? octets(out) : "", back ? octets(back) : ""];
}

function lftRow(store, pane, lid, port, links) {
  const target = store.byLid.get(lid);
  const link = links.get(port);
  return [String(lid), target ? pane.to("node", target.id, target.name) : "",
          link ? pane.to("link", link.id, String(port)) : String(port)];
}
