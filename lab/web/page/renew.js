// SPDX-License-Identifier: GPL-2.0-or-later
// Gives an element new content and keeps the nodes that are in both, so that a button stays the same one between a
// press and its release, and keeps the focus, and a field keeps what a user has typed.

import {takeListeners} from "./format.js";

/** wanted: nodes. Old and new nodes of one key are the same one; others are by kind, in their order. */
export function renew(parent, wanted) {
  const kept = same([...parent.childNodes], wanted);
  const stay = new Set(kept.values());
  [...parent.childNodes].filter((node) => !stay.has(node)).forEach((node) => node.remove());
  let next = parent.firstChild;
  for (const node of wanted) {
    const old = kept.get(node);
    if (old && old === next) {
      next = next.nextSibling;
    } else {
      parent.insertBefore(old ?? node, next);
    }
    if (old) {
      become(old, node);
    }
  }
}

/** The old node of each new one that has any. */
function same(old, wanted) {
  const found = new Map();
  const free = Map.groupBy(old, keyOf);
  for (const node of wanted) {
    const one = free.get(keyOf(node))?.shift();
    if (one) {
      found.set(node, one);
    }
  }
  return found;
}

/** A row is the one of its first button. */
function keyOf(node) {
  const row = node.nodeName === "LI" || node.nodeName === "TR";
  const keyed = row ? node.querySelector("[data-key]") : node;
  return `${node.nodeName} ${keyed?.dataset?.key ?? node.id ?? ""}`;
}

/** An element with data-own changes its attributes and content itself. A new one with data-same has no content, because
 * that of the old one is still right. */
function become(old, node) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== node.data) {
      old.data = node.data;
    }
  } else if (old.dataset.own === undefined && node.dataset.same === undefined) {
    attributes(old, node);
    takeListeners(old, node);
    renew(old, [...node.childNodes]);
  }
}

function attributes(old, node) {
  for (const {name, value} of [...node.attributes]) {
    if (old.getAttribute(name) !== value) {
      if (name === "style") {
        old.style.cssText = value;      // the Content-Security-Policy allows no attribute
      } else {
        old.setAttribute(name, value);
      }
    }
  }
  for (const {name} of [...old.attributes]) {
    if (!node.hasAttribute(name)) {
      old.removeAttribute(name);
    }
  }
}
