# SPDX-License-Identifier: GPL-2.0-or-later
"""The connection manager over IPoIB addresses."""

import subprocess

from lab import measure

LIMIT_S = 150


def pair(server, client, server_line: str, client_line: str) -> str:
    """Runs a server and, until one succeeds, clients: rdma_cm's listeners are in no
    table that shows them, so asking is the only way to wait. The client's output."""
    program = server_line.split()[0]
    serving = server.start([f"exec timeout {LIMIT_S} {server_line}"], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        done = client.run([f"for i in $(seq 60); do timeout {LIMIT_S} {client_line} && exit 0; "
                           "sleep 0.5; done; exit 1"], timeout_s=3 * LIMIT_S)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        text, _ = serving.communicate(timeout=LIMIT_S + 30)
        assert serving.returncode == 0, text.decode()
        return done.stdout.decode()
    finally:
        server.run(["pkill", "-x", program])
        serving.wait(timeout=60)


def test_rping_verifies_its_data(vm0, vm1, addresses):
    pair(vm0, vm1, f"rping -s -a {addresses[0]} -S 4096 -C 50",
         f"rping -c -a {addresses[0]} -V -C 50 -S 4096")


def test_perftest_connects_through_rdma_cm(vm0, vm1, addresses):
    line = "ib_send_bw -R -s 4096 -n 200"
    text = pair(vm0, vm1, line, f"{line} {addresses[0]}")
    assert measure.columns(text, 4096)[3] > 0
