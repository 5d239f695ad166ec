// SPDX-License-Identifier: GPL-2.0-or-later
// Virtual lanes: queues and credits by VL, and the VL tables that the subnet manager has set.

import {count, make, table} from "./format.js";

function listed(entries) {
  return inRuns(entries, (weight) => ` × ${weight}`);
}

/** Text for [VL, value] entries. Successive VLs with the same value are one range. */
function inRuns(entries, text) {
  const runs = [];
  for (const [vl, value] of entries) {
    const last = runs[runs.length - 1];
    if (last?.value === value && vl === last.to + 1) {
      last.to = vl;
    } else {
      runs.push({from: vl, to: vl, value});
    }
  }
  return runs.map(({from, to, value}) => `VL ${from}${to > from ? ` to ${to}` : ""}${text(value)}`).join(", ") || "none";
}

/** The table of one port, with a row for each VL. */
export function vlsOfPort(name, vls) {
  return [
    make("h3", {}, `Virtual lanes of ${name}`),
    table(["VL", "packets waiting", "credits, in blocks of 64 bytes"], vls.by_vl.map((entry) => [
      String(entry.vl), entry.queued_packets, entry.credits === undefined ? "needs none" : count(entry.credits)])),
    make("p", {class: "note"}, `VLArbitration: high priority ${listed(vls.high)}; low priority ${listed(vls.low)}; `
      + `VLHighLimit ${vls.high_limit}.`),
    make("p", {class: "note"}, [...new Set(vls.sl_to_vl.map((row) => row.join(" ")))].map(
      (row) => `SL 0 to 15 use VL ${row}`).join("; or, by input port, "), ".")];
}

/** The table of all ports of a switch, with a row for each port. */
export function vlsOfSwitch(vls, toPort) {
  const with_ = (entries, member) => inRuns(entries.filter((entry) => entry[member])
    .map((entry) => [entry.vl, entry[member]]), (value) => `: ${count(value)}`);
  return [
    make("h3", {}, "Virtual lanes"),
    table(["port", "packets waiting", "credits, in blocks of 64 bytes"], vls.map(({port, by_vl: entries}) => [
      toPort(port), with_(entries, "queued_packets"), with_(entries, "credits")])),
    make("h3", {}, "VLArbitration"),
    table(["port", "high priority", "low priority", "VLHighLimit"], vls.map((one) => [
      toPort(one.port), listed(one.high), listed(one.low), one.high_limit]))];
}
