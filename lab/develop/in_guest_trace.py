# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs in a guest, as root: makes ftrace record the calls of the HCA's driver and other events, and reads the HCA's
clock, so that the guest's times can be converted to it.

    in_guest_trace.py begin [EVENT…]        EVENT: as for set_event, such as irq:* or sched:sched_switch
    in_guest_trace.py end

Prints one line of JSON; `end` prints what was recorded after it."""

import ctypes
import json
import mmap
import os
import pathlib
import sys
import time

TRACING = pathlib.Path("/sys/kernel/tracing")
DEVICES = pathlib.Path("/sys/bus/pci/devices")
HCA = ("0x1234", "0x1b0c")      # PIB_HCA_PCI_VENDOR_ID, PIB_HCA_PCI_DEVICE_ID
CLOCK = 0x40                    # PIB_HCA_REG_CLOCK
TRIES = 50
KIB, DEFAULT_KIB = 8192, 1408   # ftrace's buffer for each processor
ON = {"funcgraph-abstime": 1, "funcgraph-cpu": 1, "funcgraph-proc": 1, "funcgraph-overhead": 0, "funcgraph-irqs": 1}
DEFAULT = {"funcgraph-abstime": 0, "funcgraph-cpu": 1, "funcgraph-proc": 0, "funcgraph-overhead": 1,
           "funcgraph-irqs": 1}


def hca():
    for device in sorted(DEVICES.iterdir()):
        if tuple((device / name).read_text().strip() for name in ("vendor", "device")) == HCA:
            return device
    sys.exit("the guest has no HCA. What runs:  ./pib status")


def clock(device):
    """A reading of the HCA's clock: (guest's time before, HCA's clock, guest's time after), in nanoseconds. It is the
    one with the shortest interval of several tries."""
    registers = os.open(device / "resource0", os.O_RDWR)
    try:
        mapped = mmap.mmap(registers, mmap.PAGESIZE)
    except OSError:
        sys.exit("the guest's kernel lets no program read the HCA's registers. Boot it with iomem=relaxed on its "
                 "command line")
    register = ctypes.c_uint64.from_buffer(mapped, CLOCK)
    found = [(time.monotonic_ns(), register.value, time.monotonic_ns()) for _ in range(TRIES)]
    return min(found, key=lambda one: one[2] - one[0])


def put(name, value):
    try:
        (TRACING / name).write_text(f"{value}\n")
    except OSError as error:
        sys.exit(f"the guest's kernel refuses {value} for {TRACING / name}: {error.strerror}. "
                 "Boot Debian's:  ./pib up --kernel debian")


def clear():
    """Resets ftrace to the kernel's defaults."""
    put("tracing_on", 0)
    put("current_tracer", "nop")
    put("set_event", "")
    put("set_ftrace_filter", "")
    put("trace_clock", "local")
    put("buffer_size_kb", DEFAULT_KIB)
    put("trace", "")
    put("tracing_on", 1)


def begin(events):
    device = hca()
    driver = device / "driver" / "module"
    if not driver.exists():
        sys.exit("no driver is bound to the HCA, or the kernel has it built in. Load a module")
    module = os.path.basename(os.readlink(driver))
    at = clock(device)
    clear()
    put("tracing_on", 0)
    put("trace_clock", "mono")
    put("buffer_size_kb", KIB)
    put("set_ftrace_filter", f"*:mod:{module}")
    put("current_tracer", "function_graph")
    for option, value in ON.items():
        put(f"options/{option}", value)
    put("set_event", " ".join(events))
    put("tracing_on", 1)
    print(json.dumps({"clock": at, "module": module}))


def overwritten():
    lines = [line for file in TRACING.glob("per_cpu/cpu*/stats") for line in file.read_text().splitlines()]
    return sum(int(line.split(":")[1]) for line in lines if line.startswith("overrun:"))


def end():
    put("tracing_on", 0)
    text = (TRACING / "trace").read_text(errors="replace")
    print(json.dumps({"clock": clock(hca()), "overwritten": overwritten()}))
    sys.stdout.write(text)
    for option, value in DEFAULT.items():
        put(f"options/{option}", value)
    clear()


if __name__ == "__main__":
    if sys.argv[1] == "begin":
        begin(sys.argv[2:])
    else:
        end()
