// SPDX-License-Identifier: GPL-2.0-or-later
// Views of the whole fabric: an overview, the links of an edge, a comparison of two moments, the output of ./pib why.

import {ask} from "./api.js";
import {vlsInWords} from "./edges.js";
import {byName, clock, make, octets, table} from "./format.js";
import {eventList, state} from "./label.js";
import {rerouted} from "./routing.js";

const BUSIEST = 8;
const MOST_ROWS = 200;

export const overview = {
  show: (store, _data, pane) => {
    const links = [...store.links.values()];
    const states = new Map();
    links.forEach((link) => {
      const now = store.condition(link);
      const name = now.cable === false ? "cable pulled" : now.state;
      states.set(name, (states.get(name) ?? 0) + 1);
    });
    const wrong = links.filter((link) => store.condition(link).state !== "Active" || store.condition(link).faults);
    const kinds = {};
    store.nodes.forEach((node) => {
      kinds[node.kind] = (kinds[node.kind] ?? 0) + 1;
    });
    const manager = [...store.nodes.values()].find((node) => node.sm);
    return [
      make("h2", {}, "Overview"),
      make("p", {class: "about"}, store.smLid ? `Subnet manager at LID ${store.smLid}${manager ? ", " : ""}`
        : "There is no subnet manager: links stay in Initialize, and no data moves.",
      manager && store.smLid ? pane.to("node", manager.id, manager.name) : ""),
      table(["nodes", ""], Object.entries(kinds).map(([kind, number]) => [kind, number])),
      table(["links", ""], [...states]),
      ...busiest(store, pane),
      ...(wrong.length ? [make("h3", {}, `Links that are not Active, or have faults: ${wrong.length}`),
        table(["link", "state", "faults"], wrong.sort((one, other) => byName(one.id, other.id)).slice(0, MOST_ROWS)
          .map((link) => [pane.to("link", link.id, store.linkName(link)), state({...link, ...store.condition(link)}),
                          store.condition(link).faults ? "injected" : ""]))] : []),
      make("h3", {}, "Events"),
      eventList(store, store.moment === null ? store.events : store.events.filter((event) => event.at <= store.moment),
        pane)];
  },
};

function busiest(store, pane) {
  const loads = Object.entries(store.loads).filter(([id]) => store.links.has(id))
    .sort(([, one], [, other]) => Math.max(other[0], other[1]) - Math.max(one[0], one[1])).slice(0, BUSIEST);
  if (!loads.length) {
    return [make("p", {class: "note"}, "No link carries traffic.")];
  }
  return [make("h3", {}, "Busiest links"), table(["link", "there", "back", "load", "VL"], loads.map(([id, load]) => {
    const [out, back, , vlsOut, vlsBack] = load;
    const link = store.links.get(id);
    const share = link.capacity ? Math.max(out, back) / link.capacity : 0;
    return [pane.to("link", id, store.linkName(link)), octets(out), octets(back), `${(share * 100).toFixed(1)} %`,
            vlsInWords(out > back ? vlsOut : vlsBack)];
  }))];
}

export const bundle = {
  show: (store, _data, pane) => {
    const links = store.chosen.id.split(" ").map((id) => store.links.get(id)).filter(Boolean);
    return [make("h2", {}, `${links.length} links`),
      table(["link", "state", "out", "in"], links.map((link) => {
        const [out, back] = store.loads[link.id] ?? [0, 0];
        return [pane.to("link", link.id, store.linkName(link)), state({...link, ...store.condition(link)}), octets(out),
                octets(back)];
      }))];
  },
};

export const why = {
  load: (store) => ask("why", store.chosen.about ? {about: store.chosen.about} : {}),

  show: (store, {lines, nothing, error}, pane) => [
    make("h2", {}, `What went wrong${store.chosen.about ? ` with ${store.chosen.about}` : ""}`),
    make("p", {class: "about"}, `As ./pib why ${store.chosen.about ?? ""} says it, newest last.`),
    error ? make("p", {class: "error", role: "alert"}, error) : null,
    lines.length ? make("ol", {class: "events"}, lines.map((line) => whyLine(line, pane)))
      : error ? null : make("p", {class: "note"}, nothing),
    store.chosen.about ? make("button", {type: "button", onclick: () => store.choose("why", "", {about: ""})},
      "The whole fabric") : null].filter(Boolean),
};

/** A line of ./pib why, with a button for the section of its explanation, which the end of the line names. */
function whyLine(line, pane) {
  const [, text, section] = /^(.*\S)\s+\[[^\]#]*#([^\]]+)\]$/.exec(line) ?? [null, line, null];
  return make("li", {}, text, section ? [" ", pane.explained(section)] : null);
}

export const explanation = {
  load: (store) => ask("explanation", {section: store.chosen.id}),

  show: (store, {title, lines}) => {
    const {from} = store.chosen;
    return [make("h2", {}, title), make("ul", {}, lines.map((line) => make("li", {}, line))),
      make("p", {class: "note"}, "From docs/troubleshooting.md."),
      make("button", {type: "button", "data-key": "back",
                      onclick: () => store.choose(from.kind, from.id, from)}, "Back")];
  },
};

export const comparison = {
  load: async (store) => {
    const moments = {begin: store.chosen.begin, end: store.chosen.end};
    const [found, routing] = await Promise.all([ask("compare", moments), ask("rerouted", moments)]);
    return {...found, routing};
  },

  show: (store, {begin, end, links, names, routing}, pane) => {
    const name = (id) => store.links.has(id) ? pane.to("link", id, store.linkName(store.links.get(id))) : names[id] ?? id;
    const changed = Object.entries(links).filter(([, {states}]) => states[0] !== states[1]);
    const moved = Object.entries(links).map(([id, {grown}]) => [id, grown])
      .filter(([, grown]) => grown.out !== undefined)
      .sort(([, one], [, other]) => other.out + other.in - one.out - one.in);
    const bad = moved.filter(([, grown]) => grown.discards || grown.errors);
    return [make("h2", {}, `${clock(begin)} and ${clock(end)} compared`),
      make("h3", {}, `Links whose state differs: ${changed.length}`),
      changed.length ? table(["link", clock(begin), clock(end)], changed.map(([id, {states}]) => [name(id), ...states]))
        : make("p", {class: "note"}, "None."),
      make("h3", {}, `Links that discarded packets or had errors in between: ${bad.length}`),
      bad.length ? table(["link", "discards", "errors"],
        bad.map(([id, grown]) => [name(id), grown.discards, grown.errors]))
        : make("p", {class: "note"}, "None."),
      ...rerouted(store, begin, end, routing, pane),
      make("h3", {}, "Octets moved in between"),
      moved.length ? table(["link", "out", "in"],
        moved.slice(0, MOST_ROWS).map(([id, grown]) => [name(id), grown.out, grown.in]))
        : make("p", {class: "note"}, "None."),
      make("h3", {}, "Events in between"),
      eventList(store, store.events.filter(({at}) => at >= begin && at <= end), pane)];
  },
};
