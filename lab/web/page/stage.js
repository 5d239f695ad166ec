// SPDX-License-Identifier: GPL-2.0-or-later
// The map: buttons for nodes over a canvas with edges. Zooms, drags, folds and chooses by pointer or keyboard.

import {condition, distance, edges, vlsInWords} from "./edges.js";
import {Folds, layout} from "./layout.js";
import {byName, make, octets} from "./format.js";
import {Painter} from "./paint.js";
import {renew} from "./renew.js";

const LEAST_SCALE = 0.08;
const MOST_SCALE = 4;
const NEAR = 7;                 // distance in pixels at which the pointer hits an edge
const LEGEND = 36;              // height of the folded legend, which items must not reach
const SAME_ROW = 30;
const STEP = 1.25;              // factor of the zoom by a key
const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};

/** The id of the fold that an item opens or closes; "" if it has none. */
function foldOf({id, kind, hosts, leaf, pod}) {
  return kind === "pod" || hosts ? id : leaf || pod || "";
}

export class Stage {
  constructor(element, store) {
    this.element = element;
    this.store = store;
    this.layer = element.querySelector("#nodes");
    this.badges = element.querySelector("#badges");
    this.tip = element.querySelector("#tip");
    this.painter = new Painter(element.querySelector("#links"), store);
    this.view = this.painter.view;
    this.folds = new Folds();
    this.items = new Map();
    this.buttons = new Map();
    this.focus = "";            // id of the item that the Tab key reaches
    this.own = false;           // whether the user has moved the view
    store.addEventListener("fabric", () => this.arrange());
    store.addEventListener("path", () => this.showPath());
    for (const name of ["changes", "loads", "chosen"]) {
      store.addEventListener(name, () => this.refresh());
    }
    this.listen();
  }

  listen() {
    const {element} = this;
    element.addEventListener("wheel", (event) => this.wheel(event), {passive: false});
    element.addEventListener("pointerdown", (event) => this.press(event));
    element.addEventListener("pointermove", (event) => this.point(event));
    element.addEventListener("pointerleave", () => this.hoverOver(null));
    element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => {
      if (this.own) {
        this.painter.redraw();
      } else {
        this.arrange();
      }
    }).observe(element);
  }

  // -- placing

  arrange() {
    const {nodes, links} = this.store;
    this.folds.begin(nodes);
    this.items = layout(nodes, links, this.folds, this.element.clientWidth,
      this.element.clientHeight);
    this.painter.edges = edges(links, nodes, this.items, this.folds);
    this.build();
    this.refresh();
    if (!this.own) {
      this.fit();
    }
  }

  /** Builds the items' buttons. Reuses the buttons of items that stay, so that they keep the focus. */
  build() {
    for (const [id, button] of this.buttons) {
      if (!this.items.has(id)) {
        button.remove();
        this.buttons.delete(id);
      }
    }
    if (!this.items.has(this.focus)) {
      this.focus = this.items.keys().next().value ?? "";
    }
    this.items.forEach((item) => this.place(item));
    renew(this.badges, [
      ...[...this.items.values()].filter((item) => item.kind === "switch" && item.hosts).map((item) => this.badge(item)),
      ...[...Map.groupBy(this.items.values(), ({pod}) => pod)].filter(([pod]) => pod)
        .map(([pod, items]) => this.podBadge(pod, items))]);
  }

  /** A button above an opened pod's switches that folds the pod. */
  podBadge(pod, items) {
    const button = make("button", {type: "button", class: "fold", tabindex: -1, "data-key": pod, "aria-expanded": "true",
                                   "aria-label": `Fold ${pod}`, onclick: () => this.turn(pod, items[0])}, `${pod} ▴`);
    const left = Math.min(...items.map(({x, width}) => x - width / 2));
    const right = Math.max(...items.map(({x, width}) => x + width / 2));
    const top = Math.min(...items.map(({y, height}) => y - height / 2));
    Object.assign(button.style, {left: `${(left + right) / 2}px`, top: `${top - 14}px`});
    return button;
  }

  place(item) {
    let button = this.buttons.get(item.id);
    if (!button) {
      button = make("button", {type: "button", "data-id": item.id, onclick: () => this.open(item.id),
                               onfocus: () => this.focusOn(item.id), ondblclick: () => this.toggle(item.id)});
      this.buttons.set(item.id, button);
      this.layer.insertBefore(button, this.badges);
    }
    Object.assign(button.style, {left: `${item.x}px`, top: `${item.y}px`, width: `${item.width}px`,
                                 height: `${item.height}px`});
  }

  badge(item) {
    const open = item.below.length > 0;
    const hosts = `${item.hosts} host${item.hosts === 1 ? "" : "s"}`;
    const button = make("button", {
      type: "button", class: "fold", tabindex: -1, "data-key": item.id, "aria-expanded": String(open),
      "aria-label": `${open ? "Fold" : "Open"} ${hosts} of ${item.name}`, onclick: () => this.toggle(item.id),
    }, item.width < 70 ? `${item.hosts} ${open ? "▴" : "▾"}` : `${hosts} ${open ? "▴" : "▾"}`);
    Object.assign(button.style, {left: `${item.x}px`, top: `${item.y + item.height / 2 + 12}px`});
    return button;
  }

  /** Folds or opens what is below an item, or the pod that the item is a part of. */
  toggle(id) {
    const item = this.items.get(id);
    const fold = item && foldOf(item);
    if (fold) {
      this.turn(fold, item);
    }
  }

  turn(fold, item) {
    const focused = this.layer.contains(document.activeElement);
    this.folds.toggle(fold);
    this.arrange();
    if (focused && !this.layer.contains(document.activeElement)) {
      this.buttons.get(this.standIn(item)).focus({preventScroll: true});
    }
  }

  /** The item that takes over the focus of an item that is no longer shown: the first of an opened pod, or the fold. */
  standIn(item) {
    const inside = [...this.items.values()].filter(({pod}) => pod === item.id)
      .sort((one, other) => other.level - one.level || byName(one.name, other.name));
    return inside[0]?.id ?? [item.id, item.leaf, item.pod].find((id) => this.items.has(id)) ?? this.focus;
  }

  foldAll(open) {
    if (open) {
      this.folds.all(this.store.nodes);
    } else {
      this.folds.none();
    }
    this.arrange();
    this.fit();
  }

  open(id) {
    const item = this.items.get(id);
    if (item.kind === "pod") {
      this.toggle(id);
    } else {
      this.store.choose("node", id);
    }
  }

  // -- appearance

  refresh() {
    const {store} = this;
    const used = new Map();
    for (const edge of this.painter.edges) {
      for (const link of edge.links) {
        const up = store.condition(link).state !== "Down";
        [link.a, link.b].forEach((guid) => used.set(guid, used.get(guid) || up));
      }
    }
    const chosen = store.chosen?.kind === "node" || store.chosen?.kind === "qp" ? store.chosen.id : "";
    const onPath = this.pathItems();
    for (const [id, item] of this.items) {
      this.look(this.buttons.get(id), item, {
        chosen: id === chosen, onpath: onPath.has(id), faint: onPath.size > 0 && !onPath.has(id),
        off: used.get(id) === false, sm: item.node?.sm});
    }
    this.element.classList.toggle("past", store.moment !== null);
    this.painter.refresh();
  }

  pathItems() {
    const {path, links, nodes} = this.store;
    const found = new Set();
    for (const id of [...path.there.keys(), ...path.back.keys()]) {
      const link = links.get(id);
      [link?.a, link?.b].forEach((guid) => nodes.has(guid) && found.add(this.folds.item(nodes.get(guid))));
    }
    return found;
  }

  look(button, item, marks) {
    const names = Object.keys(marks).filter((name) => marks[name]);
    button.className = ["node", item.kind, ...names].join(" ");
    button.tabIndex = item.id === this.focus ? 0 : -1;
    const about = item.kind === "pod" ? `${item.switches} switches, ${item.hosts} hosts`
      : item.node.lids.length ? `LID ${item.node.lids.join(", ")}` : "no LID";
    const short = item.kind === "pod" ? `${item.switches} sw, ${item.hosts} hosts`
      : item.width < 70 ? about.replace("LID ", "").replace("no LID", "–") : about;
    const text = `${item.label ?? item.name}\n${item.kind === "switch" || item.kind === "pod" ? short : ""}`;
    if (button.dataset.text !== text) {
      button.dataset.text = text;
      renew(button, [make("span", {}, item.label ?? item.name),
                     ...(text.endsWith("\n") ? [] : [make("small", {}, short)])]);
    }
    const words = {switch: "switch", pod: "folded pod", guest: "guest", phantom: "phantom host", host: "host"};
    button.setAttribute("aria-label", `${item.name}, ${words[item.kind]}, ${about}${marks.sm ? ", subnet manager" : ""}`
      + `${marks.off ? ", no link is up" : ""}`);
    button.title = `${item.name}\n${words[item.kind]}, ${about}`;
  }

  // -- view

  transform() {
    const {x, y, scale} = this.view;
    this.layer.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    this.painter.redraw();
  }

  fit() {
    this.fitTo([...this.items.values()]);
    this.own = false;
  }

  /** Opens the folds that hide the route of a QP, and shows the whole route. */
  showPath() {
    const {path, links, nodes} = this.store;
    for (const id of [...path.there.keys(), ...path.back.keys()]) {
      const link = links.get(id);
      [link?.a, link?.b].forEach((guid) => nodes.has(guid) && this.folds.reveal(nodes.get(guid)));
    }
    if (path.there.size) {
      this.own = true;
      this.arrange();
      const ids = this.pathItems();
      this.fitTo([...this.items.values()].filter(({id}) => ids.has(id)));
    } else {
      this.refresh();
    }
  }

  fitTo(boxes) {
    const {clientWidth: width} = this.element;
    const height = this.element.clientHeight - LEGEND;
    if (!boxes.length || !width || height <= 0) {
      return;
    }
    const left = Math.min(...boxes.map((box) => box.x - box.width / 2)) - 20;
    const right = Math.max(...boxes.map((box) => box.x + box.width / 2)) + 20;
    const top = Math.min(...boxes.map((box) => box.y - box.height / 2)) - 30;
    const bottom = Math.max(...boxes.map((box) => box.y + box.height / 2)) + 40;
    const scale = Math.max(LEAST_SCALE, Math.min(width / (right - left), height / (bottom - top), 1.4));
    Object.assign(this.view, {scale, x: (width - (left + right) * scale) / 2,
                              y: (height - (top + bottom) * scale) / 2});
    this.transform();
  }

  zoom(factor, x = this.element.clientWidth / 2, y = this.element.clientHeight / 2) {
    const {view} = this;
    const scale = Math.max(LEAST_SCALE, Math.min(MOST_SCALE, view.scale * factor));
    view.x = x - (x - view.x) * scale / view.scale;
    view.y = y - (y - view.y) * scale / view.scale;
    view.scale = scale;
    this.own = true;
    this.transform();
  }

  /** Opens the folds that hide a node, moves the view to it, and focuses it. */
  show(id) {
    const node = this.store.nodes.get(id);
    if (!node) {
      return;
    }
    this.folds.reveal(node);
    this.arrange();
    this.goTo(id);
  }

  /** Focuses an item, and moves the view if the item is outside or too small to read. */
  goTo(id) {
    const item = this.items.get(id);
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    const {view} = this;
    const [x, y] = [item.x * view.scale + view.x, item.y * view.scale + view.y];
    if (view.scale < 0.6 || x < 20 || y < 10 || x > width - 20 || y > height - 10) {
      view.scale = Math.max(view.scale, 0.8);
      Object.assign(view, {x: width / 2 - item.x * view.scale, y: height / 2 - item.y * view.scale});
      this.own = true;
      this.transform();
    }
    this.focusOn(id);
    this.buttons.get(id).focus({preventScroll: true});
  }

  // -- pointer

  wheel(event) {
    event.preventDefault();
    const box = this.element.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 400), event.clientX - box.left, event.clientY - box.top);
  }

  press(event) {
    if (event.button !== 0 || event.target.closest("button, details")) {
      return;
    }
    const begin = {x: event.clientX, y: event.clientY, left: this.view.x, top: this.view.y, moved: false};
    const move = (moved) => {
      const [dx, dy] = [moved.clientX - begin.x, moved.clientY - begin.y];
      begin.moved ||= Math.hypot(dx, dy) > 4;
      if (begin.moved) {
        this.element.classList.add("dragged");
        this.own = true;
        Object.assign(this.view, {x: begin.left + dx, y: begin.top + dy});
        this.transform();
      }
    };
    const end = (ended) => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
      this.element.classList.remove("dragged");
      if (!begin.moved && ended.type === "pointerup") {
        this.take(this.edgeAt(ended));
      }
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
  }

  take(edge) {
    if (!edge) {
      this.store.choose(null);
    } else if (edge.links.length === 1) {
      this.store.choose("link", edge.links[0].id);
    } else {
      this.store.choose("bundle", edge.links.map((link) => link.id).sort(byName).join(" "));
    }
  }

  edgeAt(event) {
    const box = this.element.getBoundingClientRect();
    const x = (event.clientX - box.left - this.view.x) / this.view.scale;
    const y = (event.clientY - box.top - this.view.y) / this.view.scale;
    let best = null;
    let least = NEAR / this.view.scale;
    for (const edge of this.painter.edges) {
      const far = distance(edge, x, y);
      if (far < least) {
        [best, least] = [edge, far];
      }
    }
    return best;
  }

  point(event) {
    if (event.buttons) {
      return;
    }
    const edge = event.target.closest("button, details") ? null : this.edgeAt(event);
    this.hoverOver(edge, event);
  }

  hoverOver(edge, event) {
    this.tip.hidden = !edge;
    if (edge) {
      const box = this.element.getBoundingClientRect();
      this.tip.textContent = this.words(edge);
      this.tip.style.left = `${Math.min(event.clientX - box.left + 14, box.width - 250)}px`;
      this.tip.style.top = `${event.clientY - box.top + 14}px`;
    }
    this.element.style.cursor = edge ? "pointer" : "";
    if (edge !== this.painter.hover) {
      this.painter.hover = edge;
      this.painter.redraw();
    }
  }

  words(edge) {
    const now = condition(edge, this.store);
    const [link] = edge.links;
    const name = edge.links.length > 1 ? `${edge.links.length} links` : this.store.linkName(link);
    const from = edge.along.get(link.id) ? ["→", "←"] : ["←", "→"];
    return `${name}\n${now.state}${now.pulled ? ", cable pulled" : ""}${now.faults ? ", faults are injected" : ""}`
      + `  ${edge.links.length > 1 ? "" : link.rate}`
      + `\n${from[0]} ${octets(now.there)} ${vlsInWords(now.vlsThere)}`
      + `\n${from[1]} ${octets(now.back)} ${vlsInWords(now.vlsBack)}`;
  }

  // -- keyboard

  focusOn(id) {
    const before = this.buttons.get(this.focus);
    if (before) {
      before.tabIndex = -1;
    }
    this.focus = id;
    this.buttons.get(id).tabIndex = 0;
  }

  key(event) {
    const id = event.target.dataset?.id;
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("details")) {
      return;
    }
    if (id && ARROWS[event.key]) {
      this.step(id, ARROWS[event.key]);
    } else if (id && event.key.toLowerCase() === "o") {
      this.toggle(id);
    } else if (event.key === "+" || event.key === "=") {
      this.zoom(STEP);
    } else if (event.key === "-") {
      this.zoom(1 / STEP);
    } else if (event.key === "0") {
      this.fit();
    } else {
      return;
    }
    event.preventDefault();
  }

  /** Focuses the nearest item in a direction: up and down in the next row, left and right in the same row, or in any
   * other row if there is none. */
  step(id, [dx, dy]) {
    const here = this.items.get(id);
    const ahead = [...this.items.values()].map((item) => {
      const [x, y] = [item.x - here.x, item.y - here.y];
      return {id: item.id, along: x * dx + y * dy, aside: Math.abs(x * dy) + Math.abs(y * dx)};
    }).filter(({along}) => along > 1);
    const nextRow = Math.min(...ahead.map(({along}) => along)) + SAME_ROW;
    const near = dx ? ahead.filter(({aside}) => aside < SAME_ROW) : ahead.filter(({along}) => along < nextRow);
    const best = (near.length ? near : ahead).reduce((one, other) => (
      !one || other.along + 2 * other.aside < one.along + 2 * one.aside ? other : one), null);
    if (best) {
      this.goTo(best.id);
    }
  }
}
