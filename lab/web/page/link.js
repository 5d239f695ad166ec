// SPDX-License-Identifier: GPL-2.0-or-later
// The view of a link: state, curves of its counters, cable and faults.

import {ask, change} from "./api.js";
import {curve} from "./curves.js";
import {count, hex, make, octets, table} from "./format.js";
import {state} from "./label.js";
import {vlsOfPort} from "./vls.js";
import {partial} from "./routing.js";

const FAULTS = [["drop", "Loss, 0 to 1", 0.01], ["corrupt", "Corruption, 0 to 1", 0.01],
                ["duplicate", "Duplicates, 0 to 1", 0.01], ["reorder", "Reordering, 0 to 1", 0.01],
                ["delay_us", "Delay, µs", 1], ["jitter_us", "Jitter, µs", 1]];
const DONE = {down: "The cable is pulled.", up: "The cable is back.", retrain: "The link retrains."};
const DIRECTIONS = [["both", "both ways"], ["in", "into this port"], ["out", "out of this port"]];

export const link = {
  ofMoment: "the link's state, and the routes through it; its curves mark the moment",

  load: async (store) => {
    const {chosen: {id, through}, moment} = store;
    const question = moment === null ? {link: id} : {link: id, at: moment};
    const [data, pairs] = await Promise.all([ask("link", question), through ? ask("routes", question) : null]);
    return {...data, pairs};
  },

  show: (store, {link: found, ends, curves, connections, pairs}, pane) => {
    const now = {...found, ...store.condition(found)};
    const perSecond = (value) => `${count(value)}/s`;
    const [out, back] = [store.nodes.get(found.a).name, store.nodes.get(found.b).name];
    const one = (title, names, text) => curve(title, curves.at,
      names.map(([name, key]) => ({name, values: curves[key]})), text, store.moment);
    return [
      make("h2", {}, `Link ${store.linkName(found)}`),
      make("p", {class: "about"}, state(now), ` ${found.rate || "no rate"}, MTU ${found.mtu}, ${found.vls} data VLs`,
        found.peer_copy ? ", peer copy" : ""),
      make("p", {}, pane.to("node", found.a, store.nodes.get(found.a).name), " and ",
        pane.to("node", found.b, store.nodes.get(found.b).name)),
      ...(store.isThere(found.id) ? [controls(found), ...users(connections, pane)]
        : [make("p", {class: "note"}, "It is not in the fabric any more.")]),
      make("h3", {}, "Counters over time, by sender"),
      one("Data", [[out, "out"], [back, "in"]], octets),
      one("Packets", [[out, "packets_out"], [back, "packets_in"]], perSecond),
      one("PortXmitWait", [[out, "wait_out"], [back, "wait_in"]], perSecond),
      one("Discards and errors", [["discards", "discards"], ["errors", "errors"]], perSecond),
      onPurpose(ends),
      store.isThere(found.id) ? faultForm(store, found, ends) : null,
      ...Object.entries(ends).flatMap(([end, {vls}]) => vlsOfPort(
        store.endName(found[end], found[`${end}_port`]), vls)),
      ...counters(store, found, ends),
      ...routes(store, found, pairs, pane)].filter(Boolean);
  },
};

/** A list of the connections whose packets pass the link. */
function users({count: number, all, entries}, pane) {
  return [make("h3", {}, `Connections over this link: ${all ? "" : "at least "}${count(number)}`),
    number > entries.length ? make("p", {class: "note"}, `The first ${entries.length} of ${count(number)}:`) : null,
    entries.length ? table(["QP", "of", "to"], entries.map((one) => [
      pane.to("qp", one.node, hex(one.qpn), {qpn: one.qpn}), one.name, one.to]))
      : make("p", {class: "note"}, "No connected QP of this lab's guests sends over it.")];
}

/** A listener that calls work and shows its result. */
function said(work) {
  return async (event) => {
    event.preventDefault();
    const note = document.getElementById("done");
    try {
      tell("note", await work(event), note);
    } catch (error) {
      tell("error", error.message, note);
    }
  };
}

function tell(kind, text, note = document.getElementById("done")) {
  note.textContent = text;
  note.className = kind;
}

function controls(found) {
  const set = (wanted, text) => make("button", {
    type: "button", "data-key": wanted === "retrain" ? wanted : "cable", class: wanted === "up" ? "main" : null,
    onclick: said(async () => {
      await change("link", {link: found.id, end: "a", state: wanted});
      return DONE[wanted];
    })}, text);
  return make("div", {}, make("div", {class: "tools", role: "group", "aria-label": "Cable"},
    found.cable ? [set("down", "Pull the cable"), set("retrain", "Retrain")] : set("up", "Put the cable back")),
  make("p", {id: "done", "data-own": true, role: "status", "aria-live": "polite", class: "note"}));
}

function inUse(spec) {
  return FAULTS.filter(([name]) => spec[name] > 0).map(([name, title]) => `${title.split(",")[0]} ${spec[name]}`)
    .concat(spec.vl15 && FAULTS.some(([name]) => spec[name] > 0) ? ["management packets too"] : []).join(", ");
}

function counted({counts}) {
  return Object.entries(counts).filter(([name, value]) => value && name !== "seen")
    .map(([name, value]) => `${count(value)} ${name}`).join(", ");
}

/** A note on packets that the fault stages dropped or corrupted; null if there are none. */
function onPurpose(ends) {
  const all = Object.values(ends).flatMap(({faults}) => [faults.in.counts, faults.out.counts]);
  const sum = (name) => all.reduce((number, counts) => number + (counts[name] ?? 0), 0);
  const text = counted({counts: {dropped: sum("dropped"), corrupted: sum("corrupted")}});
  return text ? make("p", {class: "note", "data-key": "on-purpose"}, `Faults on purpose: ${text} since they were set. `
    + "Dropped packets are not discards of a port; corrupted ones are errors of the receiving port.") : null;
}

function faultForm(store, found, ends) {
  const fields = FAULTS.map(([name, title, step]) => make("label", {}, title, make("input", {
    name, type: "number", min: 0, max: step < 1 ? 1 : 60e6, step: "any", value: 0,
    oninvalid: ({target}) => tell("error", `${title}: ${target.validationMessage}`)})));
  const select = (name, title, options) => make("label", {}, title,
    make("select", {name}, options.map(([value, text]) => make("option", {value}, text))));
  const places = Object.keys(ends).map((end) => [end, store.endName(found[end], found[`${end}_port`])]);
  const send = (faults, form) => change("fault", {
    link: found.id, end: form.elements.end.value, direction: faults ? form.elements.direction.value : "both",
    set: faults ?? {}});
  const form = make("form", {class: "faults", onsubmit: said(async (event) => {
    const data = new FormData(event.target);
    const faults = Object.fromEntries(FAULTS.map(([name]) => [name, Number(data.get(name))])
      .filter(([, value]) => value));
    await send(data.get("vl15") ? {...faults, vl15: true} : faults, event.target);
    return "The faults are set.";
  })}, select("end", "At port", places), select("direction", "Direction", DIRECTIONS), ...fields,
    make("label", {}, "Management packets on VL15", make("select", {name: "vl15"},
      make("option", {value: ""}, "spared"), make("option", {value: "1"}, "included"))),
    make("div", {class: "tools"}, make("button", {type: "submit", class: "main"}, "Set faults"),
      make("button", {type: "button", onclick: said(async (event) => {
        await send(null, event.currentTarget.form);
        return "No fault is injected.";
      })}, "Clear faults")));
  const rows = places.flatMap(([end, name]) => ["in", "out"].map((way) => [end, name, way])
    .filter(([, , way]) => inUse(ends[end].faults[way]) || counted(ends[end].faults[way]))
    .map(([, , way]) => [`${name}, ${way}`, inUse(ends[end].faults[way]) || "none", counted(ends[end].faults[way])]));
  return make("section", {}, make("h3", {}, "Faults on purpose"),
    rows.length ? table(["port and direction", "faults", "packets so far"], rows, true) : null,
    form);
}

function counters(store, found, ends) {
  return Object.entries(ends).flatMap(([end, {counters: values}]) => [
    make("h3", {}, `Counters of ${store.endName(found[end], found[`${end}_port`])}`),
    table(["counter", "value"], Object.entries(values).sort().map(([name, value]) => [name, value]))]);
}

function routes(store, found, pairs, pane) {
  if (!pairs) {
    return [make("p", {}, make("button", {type: "button", "data-key": "through", onclick: () => {
      store.choose("link", found.id, {through: true});
    }}, "Routes through this link"))];
  }
  const [a, b] = [store.nodes.get(found.a).name, store.nodes.get(found.b).name];
  const all = pairs.out + pairs.in;
  return [make("h3", {}, "Routes through this link, by the forwarding tables"),
    make("p", {}, `${count(pairs.out)} pairs from ${a} to ${b}, ${count(pairs.in)} from ${b} to ${a}`),
    partial(pairs.lids),
    all > pairs.pairs.length ? make("p", {class: "note"}, `The first ${pairs.pairs.length} of ${count(all)}:`) : null,
    table(["from", "to", "DLID", "direction"], pairs.pairs.map((pair) => [
      pair.from, pair.to, String(pair.dlid), pair.out ? `to ${b}` : `to ${a}`]))].filter(Boolean);
}
