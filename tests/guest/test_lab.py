# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab itself: the way into guests, their names, what udev has loaded."""

import hashlib
import random
import subprocess


def test_streams_and_status_are_passed_through(vm0):
    done = vm0.run(["sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")


def test_words_arrive_as_they_are(vm0):
    words = ["a b", "c'd", '"', "$HOME", "*", ""]
    assert vm0.run(["printf", "%s|", *words]).stdout.decode() == "".join(f"{w}|" for w in words)


def test_standard_input_is_binary_safe(vm0):
    data = random.Random(1).randbytes(1 << 20)
    out = vm0.run(["sha256sum"], stdin=data).stdout.decode()
    assert out.split()[0] == hashlib.sha256(data).hexdigest()


def test_commands_run_at_the_same_time(vm0):
    """Each of eight commands waits for all the others to have started."""
    vm0.run(["rm", "-rf", "/tmp/meet"])
    vm0.run(["mkdir", "/tmp/meet"])
    started = [vm0.start([f"touch /tmp/meet/{i}; until [ $(ls /tmp/meet | wc -l) = 8 ]; "
                          "do sleep 0.1; done; echo met"],
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for i in range(8)]
    assert [one.communicate(timeout=120)[0] for one in started] == [b"met\n"] * 8


def test_guests_know_each_other_by_name(nodes):
    for node in nodes:
        for other in nodes:
            assert node.run(["ping", "-c", "1", "-W", "10", other.name]).returncode == 0


def test_udev_has_loaded_the_modules(nodes):
    for node in nodes:
        # Seen by what they make: a kernel may have them built in.
        made = node.run(["ls /dev/infiniband /sys/class/net"]).stdout.decode().split()
        for module, name in (("ib_uverbs", "uverbs0"), ("ib_umad", "issm0"), ("rdma_ucm", "rdma_cm"),
                             ("ib_ipoib", "ib0")):
            assert name in made, f"{module} is not loaded in {node.name}"
