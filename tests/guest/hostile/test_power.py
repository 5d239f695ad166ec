# SPDX-License-Identifier: GPL-2.0-or-later
"""Loss of power: under traffic a random process of a lab is killed, or stopped and continued, again and again. The
other processes go on, and ./pib up or ./pib reboot brings back what has ended."""
import dataclasses
import os
import pathlib
import random
import signal
import time

import pytest

import labs
from lab.base import ui
from lab.fabric import cluster, up
from lab.fabric.wanted import Wanted
from rdma import kernel_complaints, resources, wait_active, wait_until
from traffic import begin_transfer, end_transfer, goes_on, received

pytestmark = pytest.mark.nightly

ROUNDS = int(os.environ.get("PIB_POWER_ROUNDS", "1000"))
SEED = int(os.environ.get("PIB_POWER_SEED", "0")) or random.SystemRandom().randrange(1, 2 ** 32)
NAME = "test-power"
# Requests are repeated for more than half a minute, so that traffic survives each stop.
PATIENT = "-u 20"
MOST_DELAY_S, MOST_STOP_S = 2, 3
KILLS, STOPS = "kills", "stops"
# Weights of the kinds of harm; guests take the longest to come back.
HARM = {(KILLS, "vm0"): 1, (KILLS, "vm1"): 1, (KILLS, "switch"): 3, (KILLS, cluster.HUB): 2,
        (STOPS, "vm0"): 3, (STOPS, "vm1"): 3, (STOPS, "switch"): 4, (STOPS, cluster.HUB): 1}


@dataclasses.dataclass
class Round:
    """One loss of power."""
    number: int
    harm: str
    name: str
    delay_s: float
    stop_s: float
    reboots: bool       # a killed guest comes back by ./pib reboot, not by ./pib up

    def __str__(self):
        return f"round {self.number} {self.harm} {self.name}"


def rounds():
    draw = random.Random(SEED)
    for number in range(1, ROUNDS + 1):
        harm, name = draw.choices(list(HARM), list(HARM.values()))[0]
        yield Round(number, harm, name, draw.uniform(0, MOST_DELAY_S), draw.uniform(0, MOST_STOP_S),
                    draw.random() < 0.5)


class Power:
    """A lab whose processes lose their power, and the traffic between its guests."""

    def __init__(self, lab, wanted):
        self.lab, self.wanted = lab, wanted
        self.idle = {node.name: resources(node) for node in self.nodes()}
        self.descriptors = {}       # number in a switch process that serves all guests, by its PID
        self.traffic = []           # programs

    def nodes(self):
        return [self.lab.node(name) for name in self.lab.nodes()]

    def pids(self):
        return {name: running.pid for name, running in self.lab.running().items()}

    def begin(self):
        """Begins traffic, unless it goes on."""
        if not self.traffic:
            wait_active(*self.nodes())
            self.check_switch()
            self.traffic = begin_transfer(*self.nodes(), PATIENT)

    def end(self, *nodes):
        """Ends the traffic. The guests `nodes` still run; they keep nothing of the connection."""
        end_transfer(self.traffic, *nodes)
        self.traffic = []
        for node in nodes:
            wait_until(lambda node=node: resources(node) == self.idle[node.name], f"{node.name}'s objects to be freed")
            assert kernel_complaints(node) == []

    def check_traffic(self):
        goes_on(self.traffic[1], lambda: received(self.nodes()[0]))

    def check_switch(self):
        """A switch that serves the same guests has as many descriptors as before."""
        pid = self.pids()["switch"]
        count = self.descriptors.setdefault(pid, descriptors(pid))
        wait_until(lambda: descriptors(pid) <= count, f"the switch to close descriptors; it had {count}")

    def stop(self, one):
        """Stops a process and continues it; the traffic goes on."""
        pid = self.pids()[one.name]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(one.stop_s)
        os.kill(pid, signal.SIGCONT)
        self.check_traffic()

    def kill(self, one):
        """Kills a process and brings it back. No other process ends or begins anew, and the traffic goes on if it is
        neither that of a guest nor of the switch."""
        before = self.pids()
        os.kill(before[one.name], signal.SIGKILL)
        wait_until(lambda: one.name not in self.pids(), f"{one.name} to end")
        assert self.pids() == {name: pid for name, pid in before.items() if name != one.name}
        if one.name in self.idle:
            self.end(*(node for node in self.nodes() if node.name != one.name))
        if one.name in self.idle and one.reboots:
            up.reboot(self.lab, one.name)
        else:
            up.boot(self.lab, self.wanted)
        after = self.pids()
        assert after.keys() == before.keys()
        assert {name for name in after if after[name] != before[name]} == {one.name}
        if one.name == cluster.HUB:
            self.check_traffic()
        elif self.traffic:
            self.end(*self.nodes())


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


@pytest.fixture(scope="module")
def power():
    wanted = Wanted(2, labs.hca_options())
    with labs.booted(NAME, 2) as lab:
        yield Power(lab, wanted)
        sockets, ran = lab.sockets(), lab.running().values()
        lab.down()
        assert not sockets.exists() and not any(running.alive() for running in ran)


def test_processes_lose_their_power_at_random_moments(power):
    print(f"again: PIB_POWER_ROUNDS={ROUNDS} PIB_POWER_SEED={SEED}")
    for one in rounds():
        power.begin()
        time.sleep(one.delay_s)
        ui.say(str(one))
        if one.harm == KILLS:
            power.kill(one)
        else:
            power.stop(one)
    power.end(*power.nodes())
