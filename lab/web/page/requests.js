// SPDX-License-Identifier: GPL-2.0-or-later
// The work requests of a connection: for each end the WQEs without a completion, and the last CQEs.

import {count, hex, make, table} from "./format.js";

const WRAP = 2 ** 32;           // counters of queues wrap here

/** Elements about both ends. ends: {name, qp, srq, cqes} of each end; qp: null if it is unknown. */
export function requests(ends) {
  return ends.filter(({qp}) => qp).flatMap(({name, qp, srq, cqes}) => {
    const queue = receiveQueue(qp, srq);
    return [make("h3", {}, `Work requests of ${name}`),
      table(["queue", "depth", "waiting", "completed"], [
        ["send", qp.sq.depth, outstanding(qp), (qp.sq.consumer - window(qp) + WRAP) % WRAP],
        [queue.name, queue.depth, posted(queue), queue.consumer]]),
      wqes(qp.requester?.wqes ?? []), receives(queue, qp.responder), completions(cqes)];
  });
}

/** The queue that a QP takes its receive WQEs from: its SRQ's, if it has one, or its own. */
function receiveQueue(qp, srq) {
  return srq ? {name: `SRQ ${hex(srq.srqn)}`, ...srq.queue} : {name: "receive", ...qp.rq};
}

/** Number of receive WQEs that the device has not taken. */
export function posted(queue) {
  return queue.posted ?? waiting(queue);
}

/** Number of entries of a WQ that the device has not copied yet; of a CQ, the number of CQEs after the consumer counter
 * that the device has read last. */
export function waiting({producer, consumer}) {
  return (producer - consumer + WRAP) % WRAP;
}

/** Number of send requests that are posted and not completed. */
export function outstanding(qp) {
  return waiting(qp.sq) + window(qp);
}

function window(qp) {
  return qp.requester?.in_window ?? 0;
}

function wqes(list) {
  return list.length ? table(["WQE", "operation", "octets", "PSNs", "sent"], list.map((one) => [
    String(one.counter), words(one.opcode), one.bytes, psns(one), one.started ? "yes" : "not yet"]))
    : make("p", {class: "note"}, "No send WQE waits for its completion.");
}

/** The receive WQE that a message fills now, and the next ones. */
function receives({wqes: next = [], ...queue}, responder) {
  const now = responder?.receive;
  const rows = [...(now ? [[String(now.counter), now.bytes, `${count(responder.received)} octets of it are filled`]] : []),
    ...next.map(({counter, bytes, valid}) => [String(counter), valid ? bytes : "", valid ? "waits" : "breaks a rule"])];
  const more = posted(queue) - next.length;
  return rows.length ? make("div", {}, table(["receive WQE", "octets", "state"], rows),
    more > 0 ? make("p", {class: "note"}, `${count(more)} more receive WQEs wait.`) : null)
    : make("p", {class: "note"}, "No receive WQE waits for a message.");
}

function psns({psn, packets}) {
  return packets > 1 ? `${hex(psn)} to ${hex((psn + packets - 1) % 2 ** 24)}` : packets ? hex(psn) : "none";
}

function completions(list) {
  return list.length ? table(["CQE of WQE", "operation", "octets", "status", "age"], [...list].reverse().map((one) => [
    String(one.counter), words(one.opcode), one.bytes, status(one), `${one.age.toFixed(3)} s`]))
    : make("p", {class: "note"}, "No CQE yet.");
}

function words(opcode) {
  return opcode.replaceAll("_", " ");
}

function status({status: name}) {
  const good = name === "IBV_WC_SUCCESS";
  return make("span", {class: `state ${good ? "good" : "bad"}`}, good ? "success" : name.replace("IBV_WC_", ""));
}
