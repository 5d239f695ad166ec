# SPDX-License-Identifier: GPL-2.0-or-later
"""perftest between two guests: each program with each connection type that it offers, posting with ibv_wr_* and with
ibv_post_send, and with each option that makes it use the HCA in another way. Most combinations run with --nightly only.

perftest uses ibv_wr_* on devices whose part number it knows, on others --use_old_post_send changes nothing;
programs/new_post.c tells it such a number."""
import re

import pytest

from rdma import DEVICE, perftest, perftest_rows

# Transports of each program; DC and SRD are other vendors' transports.
TYPES = {"write": ("RC", "UC", "XRC"), "read": ("RC", "XRC"), "send": ("RC", "UC", "UD", "XRC"),
         "atomic": ("RC", "XRC")}
INLINE = ("write", "send")
FETCH_ADD, CMP_SWAP = "-A FETCH_AND_ADD", "-A CMP_AND_SWAP"
ALL_SIZES = 23


def options(operation, kind, measured):
    """The lines of options of one program and type; each is run with both ways to post."""
    size = "-s 2048" if kind == "UD" else "-s 65536"
    plain = [FETCH_ADD, CMP_SWAP] if operation == "atomic" else ["-s 8" if measured == "lat" else size]
    if operation in INLINE:
        plain.append("-s 64 -I 128")
    if measured == "bw":
        plain.append("-q 16" if operation == "atomic" else f"{size} -q 16")
    if operation == "write":        # perftest does not sleep for completions of WRITEs
        plain.append(f"--write_with_imm {size}")
    elif operation == "send" or measured == "bw":
        plain.append("-e" if operation == "atomic" else f"-e {size}")
    if operation == "send" and kind != "XRC":
        plain.append(f"--use-srq {size}")
    return plain


NIGHTLY = pytest.mark.nightly


def cases(wanted, by_day):
    """Programs and lines of options; those that are not by_day are marked nightly."""
    return [pytest.param(f"ib_{operation}_{measured} -c {kind}", line,
                         marks=[] if by_day(kind, measured, number) else NIGHTLY)
            for operation, kinds in TYPES.items() for kind in kinds for measured in ("bw", "lat")
            for number, line in enumerate(options(operation, kind, measured)) if wanted(line)]


PRELOAD = "env LD_PRELOAD=/usr/local/bin/new-post.so"
SAME_POSTS = re.compile("-e|-q|--use-srq")      # options that do not depend on the way of posting


def run(vm0, vm1, program, options, new_post="OFF"):
    # --no_ddp: perftest then calls no function that only mlx5's library has.
    before, after = (PRELOAD, "--no_ddp") if new_post == "ON" else ("", "--use_old_post_send")
    line = f"{before} {program} {options} {after} -d {DEVICE} -F"
    out = perftest(vm0, vm1, line)
    assert re.search(rf"ibv_wr\* API +: {new_post}\b", out), out
    rows = perftest_rows(out)
    assert rows and all(row[-1] > 0 for row in rows), out
    return rows


# By day: each program with each connection type, and each line of options with one of them.
@pytest.mark.parametrize("program,line", cases(
    wanted=lambda line: True,
    by_day=lambda kind, measured, number: number == 0 or (kind, measured) == ("RC", "bw")))
def test_post_send(vm0, vm1, program, line):
    assert len(run(vm0, vm1, program, f"{line} -n 100")) == 1


@pytest.mark.parametrize("program,line", cases(
    wanted=lambda line: not SAME_POSTS.search(line),
    by_day=lambda kind, measured, number: number == 0 and measured == "bw"))
def test_new_post_send(vm0, vm1, program, line):
    assert len(run(vm0, vm1, program, f"{line} -n 100", "ON")) == 1


@pytest.mark.parametrize("program", [
    pytest.param(f"ib_{operation}_bw -c {kind}", marks=[] if kind == "RC" else NIGHTLY)
    for operation in ("write", "read", "send") for kind in TYPES[operation] if kind != "UD"])
def test_all_sizes(vm0, vm1, program):
    assert len(run(vm0, vm1, program, "-a -n 10")) == ALL_SIZES


@pytest.mark.parametrize("program", ["ib_write_bw", *(pytest.param(program, marks=NIGHTLY) for program in (
    "ib_read_bw", "ib_send_bw", "ib_send_bw -c UD -s 2048", "ib_atomic_bw"))])
def test_128_qps(vm0, vm1, program):
    size = "" if "-s" in program or "atomic" in program else "-s 4096"
    assert len(run(vm0, vm1, program, f"{size} -q 128 -n 20")) == 1


@pytest.mark.parametrize("program", ["ib_write_bw", pytest.param("ib_read_bw", marks=NIGHTLY),
                                     pytest.param("ib_send_bw", marks=NIGHTLY)])
@pytest.mark.parametrize("line", ["-b -s 65536", "-l 16 -s 4096"])
def test_both_directions_and_lists_of_requests(vm0, vm1, program, line):
    extra = "--recv_post_list=16" if "send" in program and "-l" in line else ""
    assert len(run(vm0, vm1, program, f"{line} {extra} -n 512")) == 1
