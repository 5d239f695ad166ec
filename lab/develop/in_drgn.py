# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs with drgn, which ./pib crash has started: opens the dump of a guest, and has commands that show the driver's
objects beside those of the device.

    in_drgn.py DUMP FACTS [COMMAND [ARGUMENT…]]
"""

import json
import pathlib
import sys

import drgn
import drgn.cli
from drgn import cast, container_of
from drgn.helpers.linux import list_for_each_entry, printk, sched
from drgn.helpers.linux.module import for_each_module
from drgn.helpers.linux.pid import for_each_task
from drgn.helpers.linux.xarray import xa_for_each

COUNTERS = 1 << 32
DIFFERS = "  <- differs"


def open_dump(file, facts):
    prog = drgn.Program(drgn.host_platform, vmcoreinfo=facts["notes"])
    prog.set_core_dump(file)
    modules: dict[str, pathlib.Path] = {}
    for directory in reversed(facts["modules"]):        # a module of an earlier directory takes precedence
        modules |= {path.stem.replace("-", "_"): path for path in pathlib.Path(directory).rglob("*.ko")}
    prog.load_debug_info([facts["vmlinux"]])
    loaded = {module.name.string_().decode() for module in for_each_module(prog)}
    prog.load_debug_info([path for name, path in modules.items() if name in loaded])
    return prog


# -- the driver's objects --------------------------------------------------------

def bound(prog):
    """The struct pib_hca_dev of each PCI function that the driver is bound to, by PCI address."""
    try:
        functions = prog["pib_hca_driver"].driver.p.klist_devices.k_list
    except KeyError:
        sys.exit("pib: crash: the guest has not loaded pib_hca, whose objects are shown. With another driver use:  "
                 "python CODE")
    found = {}
    for node in list_for_each_entry("struct device_private", functions.address_of_(), "knode_driver.n_node"):
        function = container_of(node.device, "struct pci_dev", "dev")
        binding = cast("struct pib_hca_binding *", node.device.driver_data)
        if binding and binding.dev:
            found[function.dev.kobj.name.string_().decode()] = binding.dev
    return dict(sorted(found.items()))


def objects(array, kind):
    return {index: cast(f"struct {kind} *", entry) for index, entry in xa_for_each(array.address_of_())}


def word(value, prefix):
    """An enumerator's name without a prefix: IB_QPS_RTS -> RTS."""
    return value.format_(type_name=False).strip("()").removeprefix(prefix)


def number_of(pointer, kind, member, field):
    """The device's number (field) of the driver's object that contains a verbs object (member); 0 for NULL."""
    return container_of(pointer, f"struct {kind}", member).member_(field).value_() if pointer else 0


def driver_qp(qp):
    """A QP of the driver, with the names that device_qp() uses. A process's QP has no counters here, because only the
    process has them."""
    found = {"type": word(qp.ibqp.qp_type, "IB_QPT_"), "state": word(qp.state, "IB_QPS_"),
             "send_cq": number_of(qp.ibqp.send_cq, "pib_hca_cq", "ibcq", "cqn"),
             "recv_cq": number_of(qp.ibqp.recv_cq, "pib_hca_cq", "ibcq", "cqn"),
             "srq": number_of(qp.ibqp.srq, "pib_hca_srq", "ibsrq", "srqn")}
    if not qp.user:
        found |= {"sq depth": qp.sq.depth.value_(), "rq depth": qp.rq.depth.value_(),
                  "sq posted": qp.sq.head.value_(), "rq posted": qp.rq.head.value_()}
    return found


def device_qp(qp):
    """A QP of the device, from its entry in the property `objects`."""
    return {"type": qp["type"], "state": qp["state"], "send_cq": qp["send_cq"], "recv_cq": qp["recv_cq"],
            "srq": qp["srq"], "sq depth": qp["sq"]["depth"], "rq depth": qp["rq"]["depth"],
            "sq posted": qp["sq"]["producer"], "rq posted": qp["rq"]["producer"]}


def driver_cq(cq):
    return {"depth": 1 << cq.log_depth.value_()}


def device_cq(cq):
    return {"depth": cq["depth"], "error": cq["error"], "producer": cq["producer"], "consumer": cq["consumer"],
            "armed": cq["armed"]}


# -- beside each other -----------------------------------------------------------

def differ(name, ours, theirs):
    """Whether two values of a field contradict each other. The device reads a receive queue's counter late, so it may
    be behind the driver's but never ahead."""
    if name == "rq posted":
        return (ours - theirs) % COUNTERS >= COUNTERS // 2
    return ours != theirs


def beside(title, ours, theirs):
    """Lines about one object. ours, theirs: the driver's and the device's fields; None: no object of this number."""
    if ours is None or theirs is None:
        return [f"{title}: only the {'device' if ours is None else 'driver'} has it{DIFFERS}"]
    lines = [f"{title}:"]
    for name in {**ours, **theirs}:
        one, other = ours.get(name, "-"), theirs.get(name, "-")
        marked = name in ours and name in theirs and differ(name, one, other)
        lines.append(f"    {name:<10} {one!s:<10} {other!s:<10}{DIFFERS if marked else ''}".rstrip())
    return lines


def compared(kind, driver, device):
    """Lines about all objects of a kind, by number."""
    lines = []
    for number in sorted({*driver, *device}):
        lines += beside(f"{kind} {number:#x}", driver.get(number), device.get(number))
    return lines


def hcas(prog, facts):
    """(PCI address, driver's device, device's objects) of each HCA. Slots and PCI addresses have the same order."""
    found = bound(prog)
    if len(found) != len(facts["hcas"]):
        print(f"the driver has {len(found)} devices and the guest {len(facts['hcas'])} HCAs{DIFFERS}")
    return [(address, dev, entry) for (address, dev), entry in zip(found.items(), facts["hcas"])]


def show(prog, facts, kind, array, struct, ours, theirs):
    """Prints the objects of a kind. array: name of the driver's xarray and of the device's list. ours, theirs:
    functions that return the fields of the driver's and of the device's object."""
    for address, dev, entry in hcas(prog, facts):
        driver = {number: ours(one) for number, one in objects(dev.member_(array), struct).items()}
        device = {one[f"{kind}n"]: theirs(one) for one in entry[array]["entries"]}
        if entry[array]["count"] > len(device):
            print(f"{address}: the device lists {len(device)} of its {entry[array]['count']}; the others seem to be "
                  "missing")
        lines = compared(kind, driver, device)
        count = sum(line.endswith(DIFFERS) for line in lines)
        print("\n".join([f"{address}: driver, device; {count} differences", *lines]))


# -- commands --------------------------------------------------------------------

def qps(prog, facts):
    show(prog, facts, "qp", "qps", "pib_hca_qp", driver_qp, device_qp)


def cqs(prog, facts):
    show(prog, facts, "cq", "cqs", "pib_hca_cq", driver_cq, device_cq)


def dmesg(prog, _facts):
    print(printk.get_dmesg(prog).decode(errors="replace"))


def waiting(prog, _facts):
    for task in for_each_task(prog):
        if sched.task_state_to_char(task) == "D":
            print(f"{task.pid.value_()} {task.comm.string_().decode()}")
            print(prog.stack_trace(task))


COMMANDS = {function.__name__: function for function in (qps, cqs, dmesg, waiting)}    # crash.py describes them


def ready(prog, facts):
    """The commands as functions without arguments, for a session."""
    return {name: (lambda function=function: function(prog, facts)) for name, function in COMMANDS.items()}


def main(words):
    with open(words[1], encoding="utf-8") as file:
        facts = json.load(file)
    name, *code = words[2:] or [""]
    prog = open_dump(words[0], facts)
    if not name:
        drgn.cli.run_interactive(prog, banner_func=lambda banner: f"{banner}\nFunctions of ./pib: "
                                 f"{', '.join(f'{one}()' for one in COMMANDS)}",
                                 globals_func=lambda known: known | ready(prog, facts))
    elif name == "python":
        exec(compile(code[0], "<crash>", "exec"), {"prog": prog, **vars(drgn), **ready(prog, facts)})
    else:
        COMMANDS[name](prog, facts)


if __name__ == "__main__":
    main(sys.argv[1:])
