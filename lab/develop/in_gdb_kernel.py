# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs in gdb, which ./pib gdb NODE has started: connects it to the guest's kernel, with the symbols of kernel and
modules, and adds commands. The environment variable PIB_GDB has its parameters."""

import json
import os
import pathlib
import sys
import traceback

import gdb

SEGMENTS = {                    # segment that follows the control segment of a send WQE, by opcode
    "PIB_HCA_WQE_RDMA_WRITE": "rdma", "PIB_HCA_WQE_RDMA_WRITE_WITH_IMM": "rdma", "PIB_HCA_WQE_RDMA_READ": "rdma",
    "PIB_HCA_WQE_ATOMIC_WRITE": "rdma", "PIB_HCA_WQE_CMP_SWAP": "atomic", "PIB_HCA_WQE_FETCH_ADD": "atomic",
    "PIB_HCA_WQE_MASKED_CMP_SWAP": "atomic", "PIB_HCA_WQE_MASKED_FETCH_ADD": "atomic",
    "PIB_HCA_WQE_LOCAL_INV": "key", "PIB_HCA_WQE_REG_MR": "reg"}
DATAGRAMS = ("IB_QPT_SMI", "IB_QPT_GSI", "IB_QPT_UD")
PATIENCE_S = 600
FREED = (".init",)              # prefixes of sections that the kernel frees after the module's initialization


def quoted(path):
    """A file's name as an argument of a command."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def struct(name):
    return gdb.lookup_type(f"struct {name}")


def offset_of(type_, member):
    return next(field.bitpos // 8 for field in type_.fields() if field.name == member)


def container(pointer, type_, member):
    """container_of() of the kernel."""
    return (pointer.cast(gdb.lookup_type("char").pointer()) - offset_of(type_, member)).cast(type_.pointer())


# -- modules ---------------------------------------------------------------------

def loaded_modules():
    """The struct module of each loaded module."""
    head = gdb.parse_and_eval("&modules")
    node = head["next"]
    while node != head:
        yield container(node, struct("module"), "list").dereference()
        node = node["next"]


def sections(module):
    """Name and address of each section of a module, as the kernel shows them in sysfs."""
    attributes = module["sect_attrs"]
    if not attributes:
        return
    group = attributes["grp"]
    known = {field.name for field in group.type.fields()}
    entry = group["bin_attrs" if "bin_attrs" in known or "bin_attrs_new" not in known else "bin_attrs_new"]
    while entry.dereference():
        attribute = entry.dereference()
        yield attribute["attr"]["name"].string(), section_address(attributes, attribute)
        entry += 1


def section_address(attributes, attribute):
    """The address of a section. Older kernels keep it in struct module_sect_attr; newer ones in the attribute's
    `private`."""
    first = attributes["attrs"].type.target()
    if any(field.name == "address" for field in first.fields()):
        return int(container(attribute, first, "battr")["address"])
    return int(attribute["private"])


class Modules(gdb.Command):
    """Load the symbols of the guest's modules at their addresses: those of the HCA's driver and of InfiniBand. Use it
    again after ./pib driver has exchanged a module."""

    def __init__(self, directories):
        super().__init__("pib-modules", gdb.COMMAND_FILES)
        self.files = {}
        for directory in reversed(directories):         # a module of an earlier directory takes precedence
            for file in pathlib.Path(directory).rglob("*.ko"):
                self.files[file.stem.replace("-", "_")] = file
        self.added = []

    def invoke(self, _argument, _from_tty):
        while self.added:
            gdb.execute(f"remove-symbol-file -a {self.added.pop():#x}", to_string=True)
        named = []
        for module in loaded_modules():
            name = module["name"].string()
            if file := self.files.get(name.replace("-", "_")):
                self.add(file, dict(sections(module)))
                named.append(name)
        print("symbols of modules:", " ".join(sorted(named)) or "none", flush=True)

    def add(self, file, places):
        text = places.pop(".text", 0)
        if not text:
            return
        others = " ".join(f"-s {name} {place:#x}" for name, place in places.items() if not name.startswith(FREED))
        gdb.execute(f"add-symbol-file {quoted(file)} {text:#x} {others}", to_string=True)
        self.added.append(text)


# -- work requests ---------------------------------------------------------------

def wqe_at(qp, counter):
    """Address of a send WQE, as the driver's pib_hca_wqe_at() finds it."""
    queue, buffer = qp["sq"], qp["mem"]["buf"]
    if not queue["depth"] or not buffer["chunks"]:
        raise gdb.GdbError("this QP has no send queue in the kernel's memory: it is a process's. Look at it in the "
                           "device:  ./pib gdb NODE --device")
    place = int(queue["offset"]) + ((counter & (int(queue["depth"]) - 1)) << int(queue["log_stride"]))
    shift = int(buffer["chunk_shift"])
    return int(buffer["chunks"][place >> shift]["addr"]) + (place & ((1 << shift) - 1))


def opcode_name(value):
    """The opcode's name in the enumeration of the hardware interface."""
    for field in gdb.lookup_type("enum pib_hca_wqe_opcode").fields():
        if field.enumval == value:
            return field.name
    return f"opcode {value}"


def show(title, address, type_):
    value = gdb.Value(address).cast(type_.pointer()).dereference()
    print(f"{title}: {value.format_string(format='x', repeat_threshold=4)}")
    return address + type_.sizeof


class Wqe(gdb.Command):
    """pib-wqe QP [COUNTER]: print a send WQE of a QP of the kernel, by default the one that was posted last. QP is an
    expression of type struct ib_qp * or struct pib_hca_qp *."""

    def __init__(self):
        super().__init__("pib-wqe", gdb.COMMAND_DATA)

    def invoke(self, argument, _from_tty):
        words = gdb.string_to_argv(argument)
        if not 1 <= len(words) <= 2:
            raise gdb.GdbError("Usage: pib-wqe QP [COUNTER], for example: pib-wqe ibqp")
        pointer = gdb.parse_and_eval(words[0])
        if pointer.type.strip_typedefs().target().unqualified().name == "ib_qp":
            pointer = container(pointer, struct("pib_hca_qp"), "ibqp")
        qp = pointer.dereference()
        head = int(qp["sq"]["head"])
        counter = int(gdb.parse_and_eval(words[1])) if words[1:] else head - 1
        address = wqe_at(qp, counter)
        print(f"QP {int(qp['qpn']):#x} send WQE {counter & 0xffffffff} of {head} posted, at {address:#x}")
        self.show(address, str(qp["ibqp"]["qp_type"]) in DATAGRAMS)

    def show(self, address, is_datagram):
        control = gdb.Value(address).cast(struct("pib_hca_wqe_control").pointer()).dereference()
        opcode = opcode_name(int(control["opcode"]))
        print(f"opcode: {opcode}")
        place = show("control", address, control.type)
        segment = "ud" if is_datagram else SEGMENTS.get(opcode)
        if segment:
            place = show(segment, place, struct(f"pib_hca_wqe_{segment}"))
        if not int(control["inline_length"]):
            for _ in range(int(control["num_sge"])):
                place = show("sge", place, struct("pib_hca_sge"))


# -- start -----------------------------------------------------------------------

def tell(text):
    """Says what the user waits for: a kernel has hundreds of megabytes of symbols."""
    print(f"pib: {text}", file=sys.stderr, flush=True)


def load_scripts(place):
    """Loads the kernel's own gdb scripts, which define lx-ps, lx-dmesg and others."""
    if not place:
        tell("the kernel's tree has no scripts/gdb/vmlinux-gdb.py, so there are no commands lx-…")
        return
    directory = pathlib.Path(place)
    sys.path.insert(0, str(directory))
    file = directory / "vmlinux-gdb.py"
    try:
        exec(compile(file.read_text(), str(file), "exec"), {"gdb": gdb, "sys": sys, "__file__": str(file)})
    except Exception as error:      # pylint: disable=broad-exception-caught  # gdb is of use without them
        tell(f"the kernel's scripts in {place} failed, so commands lx-… may be missing: {type(error).__name__}: "
             f"{error}")


def load_kernel(parameters):
    """Loads the kernel's symbols. gdb keeps an index of them in a directory."""
    first = "" if any(pathlib.Path(parameters["index"]).glob("*")) else "; the first time that takes a minute or two"
    tell(f"reading the symbols of {parameters['vmlinux']}{first}")
    # Until Linux 6.14 per-CPU variables have offsets in each processor's area, so KASLR's offset does not apply to
    # them.
    per_cpu = "-s .data..percpu 0" if parameters["per_cpu_from_0"] else ""
    gdb.execute(f"add-symbol-file {quoted(parameters['vmlinux'])} -o {parameters['offset']:#x} {per_cpu}",
                to_string=True)


def start(parameters):
    # The index cache makes the next start of gdb faster. The long timeout is for QEMU on a busy host. The scripts that
    # a built tree has beside vmlinux are loaded below, when the guest is connected.
    for setting in ("confirm off", "pagination off", "debuginfod enabled off", f"remotetimeout {PATIENCE_S}",
                    f"index-cache directory {parameters['index']}", "index-cache enabled on",
                    "auto-load python-scripts off"):
        gdb.execute(f"set {setting}")
    load_kernel(parameters)
    for inside, source in parameters["sources"].items():
        gdb.execute(f"set substitute-path {quoted(inside)} {quoted(source)}")
    tell("connecting to the guest, which stands still from now on until gdb continues it")
    gdb.execute(f"target remote {parameters['socket']}", to_string=True)
    tell("reading the symbols of its modules")
    Wqe()
    Modules(parameters["modules"]).invoke("", False)
    gdb.execute(f"directory {quoted(parameters['source'])}")
    load_scripts(parameters["scripts"])


try:
    start(json.loads(os.environ["PIB_GDB"]))
except Exception:   # pylint: disable=broad-exception-caught  # gdb would go on with the next command
    traceback.print_exc()
    gdb.execute("quit 1")
