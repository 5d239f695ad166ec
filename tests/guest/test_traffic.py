# SPDX-License-Identifier: GPL-2.0-or-later
"""Real RDMA programs between two guests."""

import subprocess

import pytest

from lab import measure

PINGPONG_PORT = 18515


def pingpong(lab, program: str, *options: str) -> None:
    """The verbs examples; -c compares the data."""
    command = ["timeout", "150", program, "-d", lab[0].port.device, *options]
    server = lab[0].start(*command)
    try:
        lab[0].wait_listen(PINGPONG_PORT)
        command[3] = lab[1].port.device
        client = lab[1].run(*command, lab[0].name)
        text, _ = server.communicate(timeout=180)
    except BaseException:
        lab[0].run("pkill", "-x", program, check=False)
        server.communicate(timeout=60)
        raise
    assert server.returncode == 0, text.decode()
    assert "iters in" in client.out and "invalid data" not in client.out + text.decode()


@pytest.mark.parametrize("options", [
    [], ["-e"], ["-g", "0"], ["-s", "1", "-n", "200"], ["-s", "65536", "-n", "200"],
    ["-s", "1048576", "-n", "20", "-e"], ["-m", "256", "-s", "10000", "-n", "200"]],
    ids=lambda options: " ".join(options) or "default")
def test_ibv_rc_pingpong(lab, options):
    pingpong(lab, "ibv_rc_pingpong", "-c", *options)


@pytest.mark.parametrize("options", [[], ["-e"], ["-g", "0"], ["-s", "1", "-n", "200"]],
                         ids=lambda options: " ".join(options) or "default")
def test_ibv_ud_pingpong(lab, options):
    pingpong(lab, "ibv_ud_pingpong", "-c", *(options or ["-s", "2048"]))


PERFTEST = [
    ["ib_write_bw", "-a", "-n", "100"], ["ib_read_bw", "-a", "-n", "100"],
    ["ib_send_bw", "-a", "-n", "100"], ["ib_send_lat", "-n", "500"], ["ib_write_lat", "-n", "500"],
    ["ib_read_lat", "-n", "500"],
    ["ib_atomic_bw", "-A", "CMP_AND_SWAP", "-n", "500"],
    ["ib_atomic_bw", "-A", "FETCH_AND_ADD", "-n", "500"],
    ["ib_send_bw", "-c", "UD", "-n", "500"],
    ["ib_write_bw", "-b", "-n", "200"], ["ib_read_bw", "-b", "-n", "200"],
    ["ib_send_bw", "-b", "-n", "200"], ["ib_send_bw", "-c", "UD", "-b", "-n", "200"],
    ["ib_write_bw", "-e", "-n", "200"], ["ib_read_bw", "-e", "-n", "200"],
    ["ib_send_bw", "-e", "-n", "200"], ["ib_send_lat", "-e", "-n", "200"],
    ["ib_send_bw", "-c", "UD", "-e", "-n", "200"],
    ["ib_write_bw", "-x", "0", "-n", "200"], ["ib_write_bw", "-q", "8", "-n", "200"],
]


@pytest.mark.parametrize("command", PERFTEST, ids=" ".join)
def test_perftest(lab, command):
    text = measure.perftest(lab[0].remote, lab[1].remote, command[0], command[1:],
                            lab[0].port, lab[1].port)
    rows = [line.split() for line in text.splitlines() if line.split() and line.split()[0].isdigit()]
    assert rows, text
    for row in rows:
        assert float(row[3]) > 0, text


def test_rping(lab):
    """rdma_cm over IPoIB addresses; -V compares the data."""
    for number, node in enumerate(lab.nodes[:2]):
        node.run(f"ip link set ib0 up && ip addr replace 10.77.0.{number + 1}/24 dev ib0")
    server = lab[0].start("timeout", "150", "rping", "-s", "-a", "10.77.0.1", "-C", "50")
    try:
        lab[1].run("until ping -c 1 -W 1 10.77.0.1; do sleep 0.5; done")
        lab[1].run("rping", "-c", "-a", "10.77.0.1", "-V", "-C", "50", "-S", "4096")
        server.communicate(timeout=180)
    except (BaseException, subprocess.TimeoutExpired):
        lab[0].run("pkill", "-x", "rping", check=False)
        server.communicate(timeout=60)
        raise
    assert server.returncode == 0
