// SPDX-License-Identifier: GPL-2.0-or-later
// Draws edges on the canvas. Patterns and marks as well as colours show the state. Load has a width, a colour and
// dashes by VL, and the dashes move in the direction of the packets.

import {condition, mainVl, pointAt} from "./edges.js";
import {SECOND_PATTERN, vlColour, vlDashes} from "./format.js";

const WIDEST = 7;               // width of a full load in a small fabric
const MOST_NUMBERS = 24;         // limit of edges with a number of links, because more numbers would hide the edges
const MOST_MOVING = 200;        // limit of edges with moving dashes, the busiest ones; more are slow without a GPU
const SPEED = 36;               // speed of dashes at full load in pixels per second, in addition to the minimum
/** Dashes of a link, by its state. */
export const PATTERNS = {Active: [], Armed: [8, 4], Initialize: [4, 4], Down: [2, 5], "not there": [1, 9]};

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["wire", "warn", "bad", "accent", "ink", "mark", "paper"]
    .map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

export class Painter {
  constructor(canvas, store) {
    this.canvas = canvas;
    this.still = document.createElement("canvas");      // image of everything that does not move
    this.stale = true;          // the image must be drawn again
    this.store = store;
    this.view = {x: 0, y: 0, scale: 1};
    this.edges = [];
    this.marked = new Map();    // by link: relative number of routes (the routing balance)
    this.loops = new Set();     // links of credit loops
    this.hover = null;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.waiting = false;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.refresh());
  }

  /** Must be called after a change of the fabric, its loads or the choice. */
  refresh() {
    this.colours = colours();
    this.looks = this.edges.map((edge) => ({edge, now: condition(edge, this.store), ...this.choice(edge)}));
    const bundles = this.edges.filter(({links}) => links.length > 1).length;
    this.numbered = bundles <= MOST_NUMBERS;
    this.widest = this.edges.length > 400 ? 2.5 : this.edges.length > 60 ? 4 : WIDEST;
    this.moving = this.looks.some(({now}) => now.there + now.back > 0);
    this.redraw();
  }

  choice(edge) {
    const {chosen, path} = this.store;
    const has = (links) => edge.links.some((link) => links.has(link.id));
    return {chosen: chosen?.kind === "link" && edge.links.some((link) => link.id === chosen.id),
            onPath: has(path.there) || has(path.back),
            faint: path.there.size > 0 && !has(path.there) && !has(path.back)};
  }

  /** Must be called after a change of the view. */
  redraw() {
    this.stale = true;
    this.request();
  }

  request() {
    if (!this.waiting) {
      this.waiting = true;
      requestAnimationFrame((time) => {
        this.waiting = false;
        this.draw(time / 1000);
        if (this.moving && !this.calm.matches && this.store.moment === null && !document.hidden) {
          this.request();
        }
      });
    }
  }

  draw(time) {
    const {canvas, still} = this;
    const dense = devicePixelRatio || 1;
    const [width, height] = [Math.round(canvas.clientWidth * dense), Math.round(canvas.clientHeight * dense)];
    if (canvas.width !== width || canvas.height !== height) {
      [canvas.width, canvas.height, still.width, still.height] = [width, height, width, height];
      this.stale = true;
    }
    if (this.stale) {
      this.stale = false;
      this.drawStill(dense);
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, width, height);
    if (width && height) {
      pen.drawImage(still, 0, 0);
    }
    this.place(pen, dense);
    this.moved.forEach((look) => this.flow(pen, look, time));
    this.signed.forEach((look) => this.signs(pen, look));
  }

  drawStill(dense) {
    const {still, canvas, view} = this;
    const pen = still.getContext("2d");
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, still.width, still.height);
    this.place(pen, dense);
    this.thin = Math.max(1, 0.7 / view.scale);
    const shown = this.looks?.filter(({edge}) => this.inside(edge, canvas.clientWidth, canvas.clientHeight)) ?? [];
    shown.forEach((look) => this.wire(pen, look));
    const share = ({now}) => Math.max(now.there, now.back) / (now.capacity || 1);
    const loaded = shown.filter(({now}) => now.there + now.back > 0).sort((one, other) => share(other) - share(one));
    loaded.slice(MOST_MOVING).forEach((look) => this.flow(pen, look, null));
    this.moved = loaded.slice(0, MOST_MOVING);
    this.signed = shown.filter(({edge, now, onPath}) => onPath || edge.links.length > 1 || now.faults
      || now.state === "Down");
  }

  place(pen, dense) {
    const {view} = this;
    pen.setTransform(dense * view.scale, 0, 0, dense * view.scale, dense * view.x, dense * view.y);
    pen.lineCap = "butt";
  }

  inside({points}, width, height) {
    const {x, y, scale} = this.view;
    const [first, last] = [points[0], points[points.length - 1]];
    const across = [first.x, last.x].map((value) => value * scale + x);
    const down = [first.y, last.y].map((value) => value * scale + y);
    const room = points.length > 2 ? 80 : 10;           // an arc extends beyond its points
    return Math.max(...across) > -room && Math.min(...across) < width + room && Math.max(...down) > -room
      && Math.min(...down) < height + room;
  }

  stroke(pen, {points}, shift = 0) {
    const [first, last] = [points[0], points[points.length - 1]];
    const length = Math.hypot(last.x - first.x, last.y - first.y) || 1;
    const [dx, dy] = [-(last.y - first.y) / length * shift, (last.x - first.x) / length * shift];
    pen.beginPath();
    points.forEach(({x, y}, number) => pen[number ? "lineTo" : "moveTo"](x + dx, y + dy));
    pen.stroke();
  }

  wire(pen, {edge, now, chosen, onPath, faint}) {
    const many = edge.links.length > 1;
    if (chosen || onPath || edge === this.hover) {
      pen.setLineDash([]);
      pen.globalAlpha = 0.35;
      pen.strokeStyle = chosen ? this.colours.accent : this.colours.ink;
      pen.lineWidth = 11 * this.thin;
      this.stroke(pen, edge);
    }
    pen.globalAlpha = faint ? 0.25 : 1;
    pen.setLineDash(PATTERNS[now.state].map((part) => part * this.thin));
    pen.strokeStyle = now.state === "Active" ? this.colours.wire : now.state === "Down" ? this.colours.bad
      : this.colours.warn;
    const use = Math.max(0, ...edge.links.map((link) => this.marked.get(link.id) ?? 0));
    pen.lineWidth = this.thin * (1.2 + (many ? 1.2 : 0) + 7 * use);
    if (use) {
      pen.strokeStyle = this.colours.mark;
    }
    if (edge.links.some(({id}) => this.loops.has(id))) {
      pen.strokeStyle = this.colours.bad;
      pen.setLineDash([12 * this.thin, 5 * this.thin]);
    }
    this.stroke(pen, edge);
    pen.globalAlpha = 1;
  }

  /** Draws the load of an edge. time: phase of the dashes; null: dashes do not move. */
  flow(pen, {edge, now, faint}, time) {
    if (this.marked.size) {
      return;
    }
    pen.globalAlpha = faint ? 0.3 : 1;
    const ways = [[now.there, 1, now.vlsThere], [now.back, -1, now.vlsBack]].filter(([rate]) => rate > 0);
    for (const [rate, way, vls] of ways) {
      const vl = mainVl(vls);
      const dashes = vlDashes(vl);
      pen.strokeStyle = vlColour(vl);
      const share = now.capacity ? Math.min(1, rate / now.capacity) : 0;
      const size = this.thin * (1.5 + (this.widest - 1.5) * Math.sqrt(share));
      pen.lineWidth = size;
      pen.setLineDash(time === null && vl < SECOND_PATTERN ? [] : dashes.map((part) => part * this.thin));
      const moved = this.calm.matches || this.store.moment !== null ? 0 : time * (12 + SPEED * Math.sqrt(share));
      pen.lineDashOffset = -way * (moved % (dashes.reduce((sum, part) => sum + part) * 100)) * this.thin;
      this.stroke(pen, edge, ways.length > 1 ? -way * (size / 2 + 0.8 * this.thin) : 0);
    }
    pen.lineDashOffset = 0;
    pen.globalAlpha = 1;
  }

  /** Draws signs: a cross for a link that is down, a triangle for injected faults, a number of links. */
  signs(pen, {edge, now, faint}) {
    const size = 6 * this.thin;
    const {x, y} = pointAt(edge, 0.5);
    pen.setLineDash([]);
    pen.globalAlpha = faint ? 0.4 : 1;
    this.arrows(pen, edge, size);
    if (now.state === "Down") {
      this.cross(pen, x, y, size);
    }
    if (now.faults) {
      this.triangle(pen, pointAt(edge, 0.38), size);
    }
    if (edge.links.length > 1 && (this.numbered || edge === this.hover)) {
      this.number(pen, pointAt(edge, 0.3), `×${edge.links.length}`);
    }
    pen.globalAlpha = 1;
  }

  /** Draws arrows for the route of the chosen QP, there and back. */
  arrows(pen, edge, size) {
    const {path} = this.store;
    for (const [hops, part, colour] of [[path.there, 0.62, "ink"], [path.back, 0.38, "mark"]]) {
      const link = edge.links.find(({id}) => hops.has(id));
      if (link) {
        const forward = hops.get(link.id) === edge.along.get(link.id);
        const {x, y, angle} = pointAt(edge, forward ? part : 1 - part);
        pen.save();
        pen.translate(x, y);
        pen.rotate(forward ? angle : angle + Math.PI);
        pen.fillStyle = this.colours[colour];
        pen.beginPath();
        pen.moveTo(size * 1.5, 0);
        pen.lineTo(-size, size);
        pen.lineTo(-size, -size);
        pen.fill();
        pen.restore();
      }
    }
  }

  cross(pen, x, y, size) {
    pen.strokeStyle = this.colours.bad;
    pen.lineWidth = 2.4 * this.thin;
    pen.beginPath();
    pen.moveTo(x - size, y - size);
    pen.lineTo(x + size, y + size);
    pen.moveTo(x - size, y + size);
    pen.lineTo(x + size, y - size);
    pen.stroke();
  }

  triangle(pen, {x, y}, size) {
    pen.fillStyle = this.colours.mark;
    pen.beginPath();
    pen.moveTo(x, y - size * 1.3);
    pen.lineTo(x + size * 1.2, y + size);
    pen.lineTo(x - size * 1.2, y + size);
    pen.fill();
  }

  number(pen, {x, y}, text) {
    pen.font = `${10 * this.thin}px system-ui, sans-serif`;
    const width = pen.measureText(text).width + 6 * this.thin;
    pen.fillStyle = this.colours.paper;
    pen.fillRect(x - width / 2, y - 7 * this.thin, width, 14 * this.thin);
    pen.fillStyle = this.colours.ink;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(text, x, y);
  }
}
