# SPDX-License-Identifier: GPL-2.0-or-later
"""Devices recorded in guests under load, and replayed outside of QEMU to the same state."""
import re
import subprocess

import pytest

from lab.develop.replay import program
from labs import booted
from rdma import DEVICE, pair, perftest, wait_active
from traffic import random_traffic, unbind_and_bind

pytestmark = pytest.mark.nightly
CALLS = 2000        # a boot and some traffic make more calls of the device


@pytest.fixture(scope="module", name="recordings")
def recordings_of_guests(tmp_path_factory):
    """The files of vm0 and vm1, whose QEMUs have ended."""
    file = tmp_path_factory.mktemp("recordings") / "run.rec"
    with booted("test-replay", 2, record=file) as running:
        nodes = running.node("vm0"), running.node("vm1")
        wait_active(*nodes)
        random_traffic(*nodes, 16, 21)
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw -c UD", "ib_atomic_bw"):
            perftest(*nodes, f"{program} -n 500 -d {DEVICE} -F")
        line = f"ibv_xsrq_pingpong -n 100 -d {DEVICE}"
        pair(*nodes, line, f"{line} vm0")
        unbind_and_bind(nodes[1], lambda: None)
        wait_active(*nodes)
    return [file.with_stem(f"run-{name}") for name in ("vm0", "vm1")]


def replay(file, *words):
    return subprocess.run([program(), file, *words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("number", [0, 1])
def test_the_whole_life_of_a_device_is_replayed(recordings, number):
    done = replay(recordings[number])
    assert done.returncode == 0, done.stderr
    calls, marks = (int(word) for word in done.stdout.splitlines()[1].split() if word.isdigit())
    assert calls > CALLS and marks > 10


def test_another_device_is_noticed(recordings, tmp_path):
    """The replayed device has a different node GUID from the one that the driver has read."""
    changed = tmp_path / "changed.rec"
    text, count = re.subn(rb"(?<=\nnode-guid=)(\d*)(\d)(?=\n)",
                          lambda found: found[1] + b"%d" % ((int(found[2]) + 5) % 10),
                          recordings[0].read_bytes(), count=1)
    assert count == 1
    changed.write_bytes(text)
    done = replay(changed)
    assert done.returncode == 1 and "this device does something else" in done.stderr, done.stderr


def test_a_port_is_dumped_as_it_was_at_a_time(recordings):
    listed = replay(recordings[0], "--list").stdout.splitlines()
    first = next(line for line in listed if line[0].isdigit()).split()[1]
    early = replay(recordings[0], "--until", f"{float(first) + 1e-6:.9f}", "--dump", "port 1")
    late = replay(recordings[0], "--dump", "port 1")
    assert '"lid":0,' in early.stdout and '"lid":0,' not in late.stdout
