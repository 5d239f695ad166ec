# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab itself: the way into guests, their names, their throw-away disks."""

import hashlib
import random


def test_streams_and_status_are_passed_through(lab):
    result = lab[0].run("sh", "-c", "echo out; echo err >&2; exit 7", check=False)
    assert (result.rc, result.out, result.err) == (7, "out\n", "err\n")


def test_words_arrive_as_they_are(lab):
    words = ["a b", "c'd", '"', "$HOME", "*", ""]
    assert lab[0].run("printf", "%s|", *words).out == "".join(f"{word}|" for word in words)


def test_standard_input_is_binary_safe(lab):
    data = random.Random(1).randbytes(1 << 20)
    assert lab[0].run("sha256sum", stdin=data).out.split()[0] == hashlib.sha256(data).hexdigest()


def test_commands_run_at_the_same_time(lab):
    """Each of eight commands waits for all the others to have started."""
    lab[0].run("rm", "-rf", "/tmp/meet")
    lab[0].run("mkdir", "/tmp/meet")
    started = [lab[0].start("sh", "-c", f"touch /tmp/meet/{i}; "
                            "until [ $(ls /tmp/meet | wc -l) = 8 ]; do sleep 0.1; done; echo met")
               for i in range(8)]
    assert [one.communicate(timeout=120)[0] for one in started] == [b"met\n"] * 8


def test_guests_know_each_other_by_name(lab):
    for node in lab.nodes:
        for other in lab.nodes:
            node.run("ping", "-c", "1", "-W", "10", other.name)


def test_udev_has_loaded_the_modules(lab):
    for node in lab.nodes:
        modules = node.run("lsmod").out
        for name in ("ib_uverbs", "ib_umad", "rdma_ucm", "ib_ipoib"):
            assert f"\n{name} " in modules, f"{name} is not loaded in {node.name}"
        assert "issm0" in node.run("ls", "/dev/infiniband").out
