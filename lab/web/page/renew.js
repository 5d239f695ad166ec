// SPDX-License-Identifier: GPL-2.0-or-later
// Gives an element new content but reuses its old nodes where they correspond, so that a button survives between press
// and release and keeps the focus, and a field keeps the user's text.

import {takeListeners} from "./format.js";

/** Replaces the children of parent by the wanted nodes. Old and new nodes correspond by key; nodes without a key by
 * kind and order. */
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

/** Maps new nodes to the corresponding old nodes. */
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

/** The key of a node. The key of a table row is the key of its first button. */
function keyOf(node) {
  const row = node.nodeName === "LI" || node.nodeName === "TR";
  const keyed = row ? node.querySelector("[data-key]") : node;
  return `${node.nodeName} ${keyed?.dataset?.key ?? node.id ?? ""}`;
}

/** Gives an old node the attributes and content of a new one. An element with data-own manages its own content. A new
 * element with data-same is empty: the old content is still valid. */
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
        old.style.cssText = value;      // the Content-Security-Policy forbids style attributes
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
