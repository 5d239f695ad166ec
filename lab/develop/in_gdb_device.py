# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs in gdb, which ./pib gdb NODE --device has started: attaches it to the guest's QEMU, and adds commands that print
the objects of its HCAs. The environment variable PIB_GDB has its parameters."""

import json
import os
import pathlib
import re
import sys
import traceback

import gdb

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))    # gdb's Python finds no module of this checkout
from lab.develop import in_gdb_rings
from lab.develop.in_gdb_rings import vector

NEVER = (1 << 64) - 1
# Constants with which memory/key_table.cc scrambles keys.
INDEX_MASK = 0xffffff
FIRST, SECOND = 0x9e3779, 0x85ebcb
DATAGRAMS = ("SMI", "GSI", "UD")
QUIET = ("SIGUSR1", "SIGPIPE")          # signals between QEMU's threads, at which gdb need not stop


def type_of(name):
    return gdb.lookup_type(f"pib::hca::{name}")


# -- the standard library's types ------------------------------------------------

def owned(value):
    """The pointer in a std::unique_ptr: the first pointer among its members and their members."""
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_PTR:
        return value
    if kind.code != gdb.TYPE_CODE_STRUCT:
        return None
    found = (owned(value[field]) for field in kind.fields())
    return next((pointer for pointer in found if pointer is not None), None)


def mapped(value):
    """Key and value of each entry of a std::map, in the order of the tree's nodes in gdb's walk."""
    pair = value.type.strip_typedefs().template_argument(3).template_argument(0)
    nodes = [value["_M_t"]["_M_impl"]["_M_header"]["_M_parent"]]
    while nodes:
        node = nodes.pop()
        if node:
            nodes += [node["_M_right"], node["_M_left"]]
            entry = (node + 1).cast(pair.pointer()).dereference()    # the node's data follows its base class
            yield entry["first"], entry["second"]


def alternative(value, types):
    """The value in a std::variant, whose storage is at its start. types: names of the alternatives."""
    index = int(value["_M_index"])
    return value.address.cast(type_of(types[index]).pointer()).dereference() if index < len(types) else None


# -- the device ------------------------------------------------------------------

def devices():
    """Path in QEMU's object tree and Engine of each HCA."""
    found = []
    hca = gdb.parse_and_eval("pib_hca_devices")["lh_first"]
    while hca:
        core = hca["core"].cast(gdb.lookup_type("PibHcaCore").pointer())
        found.append((hca["path"].string(), owned(core["device"]).dereference()["engine_"]))
        hca = hca["next"]["le_next"]
    return sorted(found, key=lambda one: one[0])


def table(value):
    """Number and object of each entry of a Table."""
    first = int(value["first_"])
    for index, slot in enumerate(vector(value["slots_"])):
        pointer = owned(slot.dereference())
        if pointer:
            yield first + index, pointer.dereference()


def services(engine):
    return engine["transport_"]["services_"]


def qps(engine):
    """All QPs: QP0 and QP1 of the ports, then the others."""
    known = services(engine)["qps_"]
    special = known["special_"]["_M_elems"]
    low, high = special.type.strip_typedefs().range()
    for index in range(low, high + 1):
        pointer = owned(special[index])
        if pointer:
            yield pointer.dereference()
    for _, qp in table(known["qps_"]):
        yield qp


def qps_with(number):
    """Path of the HCA, and QP, of each QP with this number: each HCA may have one."""
    found = [(path, qp) for path, engine in devices() for qp in qps(engine) if int(qp["qpn"]) == number]
    if not found:
        raise gdb.GdbError(f"no QP has the number {number:#x}. The QPs of the devices:  pib-qps")
    return found


# -- words -----------------------------------------------------------------------

def enumerator(value):
    """An enumerator's name in capitals, as the manual has it: QpState::kRts -> RTS, QpType::kXrcTgt -> XRC_TGT."""
    name = str(value).rpartition("::")[2]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removeprefix("k")).upper()


def psn(value):
    return f"{int(value['value_']):#08x}"


def ring(queue):
    """A queue's counters: entries that the device has taken, and entries that it has seen posted."""
    if not queue["present"]:
        return "none"
    return f"{int(queue['consumer'])}/{int(queue['producer'])} of {1 << int(queue['log_depth'])}"


def qp_line(qp):
    return (f"qp {int(qp['qpn']):#x} {enumerator(qp['type'])} {enumerator(qp['state'])} pd {int(qp['pd'])} "
            f"send_cq {int(qp['send_cq'])} recv_cq {int(qp['recv_cq'])} srq {int(qp['srq'])} "
            f"sq {ring(qp['sq'])} rq {ring(qp['rq'])} window {int(qp['window']['count_'])}")


def cq_line(number, cq):
    return (f"cq {number} eq {int(cq['eqn'])} uar {int(cq['uar'])} depth {1 << int(cq['log_depth'])} "
            f"producer {int(cq['producer'])} consumer {int(cq['consumer'])} armed {enumerator(cq['arm'])} "
            f"error {int(cq['error'])} users {int(cq['users'])}")


def eq_line(number, eq):
    return (f"eq {number} vector {int(eq['vector'])} depth {1 << int(eq['log_depth'])} producer {int(eq['producer'])} "
            f"consumer {int(eq['consumer'])} armed {int(eq['armed'])} async {int(eq['async'])} "
            f"users {int(eq['users'])}")


def srq_line(number, srq):
    return (f"srq {number} pd {int(srq['pd'])} limit {int(srq['limit'])} error {int(srq['error'])} "
            f"users {int(srq['users'])} queue {ring(srq['queue'])}")


def scrambled(index):
    mixed = index * FIRST & INDEX_MASK
    return (mixed ^ mixed >> 12) * SECOND & INDEX_MASK


def key_of(number):
    """Computes the same as the device's KeyTable::key_of(). gdb does not call that function, because a call lets QEMU
    run, and crashes some versions of gdb."""
    return scrambled(number) << 8


def mr_line(number, entry):
    found = alternative(entry, ("MemoryRegion", "MemoryWindow"))
    key = key_of(number) | int(found["key"])
    if found.type.name.endswith("MemoryWindow"):
        return (f"mr {key:#x} window type {int(found['type'])} pd {int(found['pd'])} bound {int(found['bound'])} "
                f"addr {int(found['addr']):#x} length {int(found['length'])} access {int(found['access']):#x} "
                f"qp {int(found['qpn']):#x}")
    kinds = ("region", "fast", "physical", "on-demand")
    return (f"mr {key:#x} {kinds[int(found['memory']['_M_index'])]} pd {int(found['pd'])} "
            f"iova {int(found['iova']):#x} length {int(found['length'])} access {int(found['access']):#x} "
            f"windows {int(found['windows'])}")


def timer_lines(timers, what):
    """Lines for the entries of a Timers. what: describes an entry by its id."""
    entries = sorted((int(entry["deadline_ns"]), int(entry["id"])) for entry in vector(timers["heap_"]))
    return [f"{what(number)} at {at} ns" for at, number in entries]


def moments(what, *values):
    """Lines for moments that are set: neither 0 nor NEVER."""
    return [f"{what} at {at} ns" for at in map(int, values) if at not in (0, NEVER)]


def port_timers(ports):
    """Moments at which ports send their traps again, send paced packets, and go down in an adversarial device; moments
    of the PMA's samples."""
    for number, attrs in enumerate(vector(ports["sma_"]["node_"]["ports"]), 1):
        yield from moments(f"port {number} trap", *(trap["due_ns"] for trap in vector(attrs["traps"]["pending"])))
    for number, view in enumerate(vector(ports["views_"]), 1):
        port = view.dereference().cast(type_of("HcaPort").pointer()).dereference()
        yield from moments(f"port {number} paced packet", port["egress_"]["paced_until_ns_"])
        yield from moments(f"port {number} goes down", *sorted(int(at.dereference())
                                                               for at in vector(port["flaps_"]["moments_"])))
    sampling = ports["pma_"]["sampling_"]
    ends = {"STARTED": "begin_ns", "RUNNING": "end_ns"}
    if end := ends.get(enumerator(sampling["status"])):
        yield from moments("samples", sampling[end])


def strict_timers(strict):
    """Moments at which a strict device looks again whether an EQ has been served. strict: nullptr if the device is not
    strict."""
    for eqn, waiting in mapped(strict["unserved_"]) if strict else ():
        yield from moments(f"strict: eq {int(eqn)}", waiting["deadline_ns"])


def doorbell(number):
    """Describes an entry of Doorbells::late_, by its id."""
    return f"{'send' if number % 2 else 'receive'} doorbell of qp {number // 2:#x}"


def adversary_timers(engine):
    """Lines for the commands, events, doorbells and interrupts that an adversarial device delays."""
    yield from moments("command", engine["commands_"]["pace_"]["until_ns_"])
    yield from moments("events", engine["eqs_"]["delay_"]["until_ns_"])
    yield from timer_lines(engine["objects_"]["doorbells"]["late_"], doorbell)
    yield from timer_lines(engine["objects_"]["shadow_doorbells"]["late_"], "kick of uar {}".format)
    adversity = owned(engine["adversity_"])
    if adversity:
        late = adversity["host_"]["late_"]["_M_elems"]
        low, high = late.type.strip_typedefs().range()
        for number in range(low, high + 1):
            yield from moments(f"interrupt of vector {number}", late[number])


def timers_of(engine):
    waiting = {int(qp["qpn"]): enumerator(qp["req"]["timer"]) for qp in qps(engine)}
    lines = [f"{line} ({waiting.get(int(line.split()[1], 0), '?')})"
             for line in timer_lines(services(engine)["timers_"], "qp {:#x}".format)]
    at = int(engine["deadline_ns_"])
    return [*lines, *timer_lines(engine["cqs_"]["timers_"], "cq {:#x}".format), *port_timers(engine["ports_"]),
            *strict_timers(owned(engine["strict_"])), *adversary_timers(engine),
            "the host's timer is " + ("off" if at == NEVER else f"set to {at} ns")]


# -- commands --------------------------------------------------------------------

class Listing(gdb.Command):
    """Prints lines about each HCA, after its path in QEMU's object tree."""

    def __init__(self, name, about, lines):
        self.__doc__ = f"{name}: {about}"
        self.lines = lines
        super().__init__(name, gdb.COMMAND_DATA)

    def invoke(self, _argument, _from_tty):
        for path, engine in devices():
            lines = list(self.lines(engine))
            print("\n".join([f"{path}: {len(lines)}", *(f"  {line}" for line in lines)]), flush=True)


LISTINGS = (
    ("pib-qps", "the QPs, each with the numbers of WQEs that it has taken from its rings, and that were posted",
     lambda engine: map(qp_line, qps(engine))),
    ("pib-cqs", "the CQs", lambda engine: [cq_line(*one) for one in table(engine["cqs_"]["cqs_"])]),
    ("pib-eqs", "the EQs", lambda engine: [eq_line(*one) for one in table(engine["eqs_"]["eqs_"])]),
    ("pib-srqs", "the SRQs", lambda engine: [srq_line(*one) for one in table(engine["srqs_"]["srqs_"])]),
    ("pib-mrs", "the memory protection table: regions and windows by key",
     lambda engine: [mr_line(*one) for one in table(engine["mpt_"]["keys_"]["keys_"])]),
    ("pib-timers", "deadlines of QPs, CQs, ports, strict checks and an adversary, on the device's clock", timers_of),
)


class Qp(gdb.Command):
    """pib-qp NUMBER: all of one QP, with the send requests that are not completed."""

    def __init__(self):
        super().__init__("pib-qp", gdb.COMMAND_DATA)

    def invoke(self, argument, _from_tty):
        if not argument:
            raise gdb.GdbError("Usage: pib-qp NUMBER, for example: pib-qp 0x40")
        found = qps_with(number_of(argument))
        for path, qp in found:
            more = [] if enumerator(qp["type"]) in DATAGRAMS else self.connection(qp)
            print("\n".join([f"{path}: {qp_line(qp)}", *more, *self.window(qp["window"])]))
        # For expressions of the user, such as: print $qp->attr
        gdb.set_convenience_variable("qp", found[0][1].address)

    @staticmethod
    def connection(qp):
        ours, theirs, attr = qp["req"], qp["resp"], qp["attr"]
        yield (f"  requester: una {psn(ours['una'])} cursor {psn(ours['cursor'])} sent_end {psn(ours['sent_end'])} "
               f"next {psn(ours['next'])} retries_left {int(ours['retries_left'])} "
               f"rnr_retries_left {int(ours['rnr_retries_left'])} timer {enumerator(ours['timer'])}")
        yield (f"  responder: expected_psn {psn(theirs['expected_psn'])} msn {int(theirs['msn']):#x} "
               f"message {enumerator(theirs['message'])} received {int(theirs['received'])} "
               f"nak_sent {int(theirs['nak_sent'])}")
        yield (f"  path: port {int(attr['port'])} dest_qpn {int(attr['dest_qpn']):#x} dlid {int(attr['av']['dlid'])} "
               f"sl {int(attr['av']['sl'])} path_mtu {128 << int(attr['path_mtu'])}")

    @staticmethod
    def window(window):
        first, requests = int(window["head_"]), list(vector(window["requests_"]))
        for place in range(int(window["count_"])):
            request = requests[(first + place) % len(requests)].dereference()
            yield (f"  request {int(request['counter'])}: {enumerator(request['wqe']['opcode'])} "
                   f"psn {psn(request['psn_first'])} packets {int(request['packets'])} "
                   f"started {int(request['started'])} status {enumerator(request['error']['status'])}")


def number_of(word):
    return int(gdb.parse_and_eval(word))


def in_tables(kind, of_engine):
    """Returns a function that finds objects by their number, in each HCA that has one. kind: as in the command that
    lists all objects, pib-KINDs."""
    def find(number):
        found = [(path, one) for path, engine in devices() for at, one in table(of_engine(engine)) if at == number]
        if not found:
            raise gdb.GdbError(f"no {kind} has the number {number}. All that exist:  pib-{kind}s")
        return found
    return find


# For each kind of ring, two functions: the first takes an object's number and returns (path of an HCA, object) pairs,
# the second takes such an object and returns its Ring, or None if there is no such queue.
RINGS = {
    "sq": (qps_with, lambda qp: in_gdb_rings.send_ring(qp, enumerator(qp["type"]))),
    "rq": (qps_with, in_gdb_rings.receive_ring),
    "srq": (in_tables("srq", lambda engine: engine["srqs_"]["srqs_"]), in_gdb_rings.srq_ring),
    "cq": (in_tables("cq", lambda engine: engine["cqs_"]["cqs_"]), in_gdb_rings.cq_ring),
    "eq": (in_tables("eq", lambda engine: engine["eqs_"]["eqs_"]), in_gdb_rings.eq_ring),
}


class RingCommand(gdb.Command):
    """pib-ring sq|rq|srq|cq|eq NUMBER [COUNT]: the last entries of a ring in the guest's memory, by default 16. Entries
    that the other side has not taken have a star. sq and rq take a QP's number."""

    def __init__(self):
        super().__init__("pib-ring", gdb.COMMAND_DATA)

    def invoke(self, argument, _from_tty):
        words = argument.split()
        if len(words) not in (2, 3) or words[0] not in RINGS:
            raise gdb.GdbError("Usage: pib-ring sq|rq|srq|cq|eq NUMBER [COUNT], for example: pib-ring sq 0x40")
        most = number_of(words[2]) if words[2:] else in_gdb_rings.MOST
        find, ring_of = RINGS[words[0]]
        errors = []
        for path, found in find(number_of(words[1])):
            try:
                ring = ring_of(found)
                entries = [f"{1 << ring.log_depth} entries", *ring.lines(most)] if ring else ["none"]
                print("\n".join([f"{path}: {words[0]} {words[1]}: {entries[0]}", *entries[1:]]), flush=True)
            except gdb.GdbError as error:       # the other HCAs may have pointers to their rings
                errors.append(f"{path}: {error}")
        if errors:
            raise gdb.GdbError("\n".join(errors))


# -- start -----------------------------------------------------------------------

def attach(parameters):
    try:
        gdb.execute(f"attach {parameters['pid']}", to_string=True)
    except gdb.error as error:
        leave(f"{error} {parameters['advice']}")
    try:
        gdb.lookup_type("PibHcaCore")
    except gdb.error:
        leave("the device has no debug symbols. Install them:  apt-get install qemu-pib-hca-dbgsym   or take a "
              "checkout, which has them")


def leave(why):
    print(f"pib: {why}", file=sys.stderr, flush=True)
    gdb.execute("quit 1")


def start(parameters):
    for setting in ("confirm off", "pagination off", "debuginfod enabled off", "print thread-events off"):
        gdb.execute(f"set {setting}")
    for signal in QUIET:
        gdb.execute(f"handle {signal} nostop noprint pass", to_string=True)
    attach(parameters)
    for listing in LISTINGS:
        Listing(*listing)
    Qp()
    RingCommand()


try:
    start(json.loads(os.environ["PIB_GDB"]))
except gdb.error:       # otherwise gdb would continue with the next command
    traceback.print_exc()
    gdb.execute("quit 1")
