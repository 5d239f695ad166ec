// SPDX-License-Identifier: GPL-2.0-or-later
// Numbers and times as text, and DOM elements from one call.

// Colours of VLs, which colour-blind readers can distinguish. VL 8 to 15 have the same colours with another pattern.
const VL_COLOURS = ["#0072b2", "#e69f00", "#56b4e9", "#c2185b", "#ee6677", "#785ef0", "#1f3b99", "#8c510a"];

/** The colour of a VL. */
export function vlColour(vl) {
  return VL_COLOURS[vl % VL_COLOURS.length];
}

/** The first VL whose load has the colour of a lower VL, and double dashes. */
export const SECOND_PATTERN = VL_COLOURS.length;

/** The dashes of a VL's load. */
export function vlDashes(vl) {
  return vl < SECOND_PATTERN ? [7, 9] : [3, 2, 3, 8];
}

export function octets(rate) {
  const units = ["B/s", "KiB/s", "MiB/s", "GiB/s"];
  let unit = 0;
  for (; rate >= 1024 && unit < units.length - 1; unit += 1) {
    rate /= 1024;
  }
  return `${unit && rate < 100 ? rate.toFixed(1) : Math.round(rate)} ${units[unit]}`;
}

export function count(value) {
  if (value && Math.abs(value) < 10 && !Number.isInteger(value)) {
    return value.toFixed(1);
  }
  return Math.round(value).toLocaleString("en-US");
}

/** A period with three digits, as in ./pib why. */
export function duration(seconds) {
  const [unit, factor] = seconds < 1e-3 ? ["µs", 1e6] : seconds < 1 ? ["ms", 1e3] : ["s", 1];
  return `${Number((seconds * factor).toPrecision(3))} ${unit}`;
}

export function hex(value) {
  return `0x${value.toString(16)}`;
}

const CLOCK = new Intl.DateTimeFormat("en-GB", {timeStyle: "medium"});
const DATE = new Intl.DateTimeFormat("sv-SE", {dateStyle: "short"});    // year-month-day

/** The time of day, with the date if it was not today: a page may be open for days. */
export function clock(seconds, now = Date.now()) {
  const date = DATE.format(seconds * 1000);
  return `${date === DATE.format(now) ? "" : `${date} `}${CLOCK.format(seconds * 1000)}`;
}

const COLLATOR = new Intl.Collator("en", {numeric: true});

export function byName(one, other) {
  return COLLATOR.compare(one, other);
}

/** Makes an HTML element with attributes and children. "on…" attributes are listeners; null and false are left out. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  fill(element, attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Makes an SVG element, as make() does for HTML. */
export function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  fill(element, attributes);
  element.append(...children);
  return element;
}

const LISTENERS = new WeakMap();        // by element: listeners by kind of event

function fill(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) {
      listen(element, key.slice(2), value);
    } else if (value !== null && value !== false && value !== undefined) {
      element.setAttribute(key, value === true ? "" : value);
    }
  }
}

function listen(element, kind, listener) {
  const own = LISTENERS.get(element) ?? new Map();
  LISTENERS.set(element, own);
  if (!own.has(kind)) {
    element.addEventListener(kind, (event) => own.get(kind)?.(event));
  }
  own.set(kind, listener);
}

/** Replaces an element's listeners by the listeners that another element was made with. */
export function takeListeners(element, other) {
  const wanted = LISTENERS.get(other) ?? new Map();
  LISTENERS.get(element)?.forEach((_listener, kind, own) => own.set(kind, wanted.get(kind)));
  wanted.forEach((listener, kind) => listen(element, kind, listener));
}

/** Makes a table. rows: arrays of text, numbers or elements; numbers are aligned to the right. wide: its text would be
 * wider than the pane in one line, so that all cells wrap. */
export function table(headings, rows, wide = false) {
  const cell = (value, tag) => make(tag, {class: typeof value === "number" ? "number" : null},
    typeof value === "number" ? count(value) : value);
  const head = headings.map((text, column) => make("th",
    {scope: "col", class: rows.length && typeof rows[0][column] === "number" ? "number" : null}, text));
  return make("div", {class: wide ? "scroll wide" : "scroll", "data-key": `table ${headings.join()}`}, make("table", {},
    make("thead", {}, make("tr", {}, head)),
    make("tbody", {}, rows.map((row) => make("tr", {}, row.map((value) => cell(value, "td")))))));
}
