# SPDX-License-Identifier: GPL-2.0-or-later
"""Booted guests for tests. One boot serves the whole session; PIB_TEST_NODES sets how
many, PIB_TEST_KEEP=1 leaves them running afterwards (./pib down does not see them:
they live in a run directory of their own, so that a user's lab is not disturbed)."""

import dataclasses
import os
import subprocess
import time

import pytest

from lab import cluster, paths, remote, subnet, up

DEFAULT_NODES = 2
COMMAND_S = 180


@dataclasses.dataclass
class Output:
    """Result of a command in a guest."""
    rc: int
    out: str
    err: str


class Node:
    """A guest, as tests see it."""

    def __init__(self, way: remote.Remote):
        self.remote = way
        self.name = way.name

    def run(self, *command: str, stdin: bytes | None = None, check: bool = True,
            timeout_s: float = COMMAND_S) -> Output:
        """Runs a command (one word: a line for the guest's shell). With check, a status
        other than 0 fails the test and shows the output."""
        done = self.remote.run(list(command), stdin=stdin, timeout_s=timeout_s)
        output = Output(done.returncode, done.stdout.decode(errors="replace"),
                        done.stderr.decode(errors="replace"))
        if check and output.rc:
            pytest.fail(f"{self.name}: {' '.join(command)}: status {output.rc}\n"
                        f"{output.out}\n{output.err}", pytrace=False)
        return output

    def start(self, *command: str) -> subprocess.Popen:
        """Starts a command; its output (both streams) is read with communicate()."""
        return self.remote.start(list(command), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def wait_listen(self, port: int) -> None:
        self.run("/usr/local/lib/lab/wait-listen", str(port))

    def ports(self) -> list[subnet.Port]:
        return subnet.ports_of(self.remote)

    @property
    def port(self) -> subnet.Port:
        """The first InfiniBand port."""
        return self.ports()[0]


class Lab:
    """The running guests and the switch between them."""

    def __init__(self, running: cluster.Cluster):
        self.cluster = running
        self.nodes = [Node(running.node(name)) for name in running.nodes()]

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    def wait_active(self) -> None:
        subnet.wait_active(self.cluster)


def wait_until(what: str, condition, limit_s: float = COMMAND_S) -> None:
    """Polls; a limit that is only there to end a broken run."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"not within {limit_s:.0f} s: {what}", pytrace=False)
        time.sleep(0.2)


@pytest.fixture(scope="session")
def lab():
    running = cluster.Cluster(paths.RUN / "test")
    try:
        up.boot(running, int(os.environ.get("PIB_TEST_NODES", DEFAULT_NODES)))
        yield Lab(running)
    finally:
        if not os.environ.get("PIB_TEST_KEEP"):
            running.down()


@pytest.fixture(autouse=True)
def quiet_kernel(request):
    """No test may leave a kernel warning behind in a guest."""
    if "lab" not in request.fixturenames:
        yield
        return
    nodes = request.getfixturevalue("lab").nodes
    yield
    for node in nodes:
        bad = node.run("dmesg --level=emerg,alert,crit,err,warn | "
                       "grep -E 'WARNING:|BUG:|Oops|general protection|lockdep|Call Trace'; "
                       "dmesg --clear", check=False).out
        assert not bad, f"{node.name}: kernel complains:\n{bad}"
