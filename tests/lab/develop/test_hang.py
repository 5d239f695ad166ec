# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether a guest's kernel hangs, by looks at its processors."""

import itertools
import types

import pytest

from lab.base import ui
from lab.develop import exchange, hang

REGISTERS = ("RIP={address:016x} RFL={flags:08x} [-------] CPL={level} II=0 A20=1 SMM=0 HLT={halted}\n"
             "ES =0000 0000000000000000 ffffffff 00cff300 DPL=3 DS   [-WA]\n")
KERNEL, MODULE, PROGRAM = 0xffffffff8a001000, 0xffffffffc0a31010, 0x7f0012345678
ON, OFF = 0x246, 0x046


def said(*processors) -> str:
    """An answer to "info registers -a" for processors as (address, flags, level, halted). The monitor writes CR, LF."""
    return "\n".join(f"\nCPU#{number}\nRAX=0000000000000000 RBX=0000000000000000 RCX=0000000000000000\n"
                     + REGISTERS.format(address=address, flags=flags, level=level, halted=halted)
                     for number, (address, flags, level, halted) in enumerate(processors)).replace("\n", "\r\n")


def test_registers_of_each_processor_are_read():
    text = said((KERNEL, OFF, 0, 0), (PROGRAM, ON, 3, 0), (KERNEL, ON, 0, 1))
    assert hang.looks(text, {0: 1.5, 1: 2.5, 2: 3.5}) == {
        0: hang.Look(1.5, KERNEL, OFF, True), 1: hang.Look(2.5, PROGRAM, ON, False),
        2: hang.Look(3.5, KERNEL, ON, False)}


def test_a_processor_without_a_known_thread_is_left_out():
    assert list(hang.looks(said((KERNEL, ON, 0, 0), (KERNEL, ON, 0, 0)), {1: 0.0})) == [1]


class Guest:
    """A guest whose processors have one second of processor time between two looks, or `rate`."""

    def __init__(self, monkeypatch, states, rate=1.0):
        self.states, self.seconds = itertools.cycle(states), itertools.count(0, rate)
        monkeypatch.setattr(hang, "LOOK_S", 0)
        monkeypatch.setattr(hang.vm, "monitor_command", lambda *_: [{"cpu-index": 0, "thread-id": 7}])
        monkeypatch.setattr(hang.vm, "monitor_line", lambda *_: said(next(self.states)))
        monkeypatch.setattr(hang.process, "thread_cpu_s", lambda thread: next(self.seconds) if thread == 7 else None)

    def stuck(self, looks=100) -> bool:
        processors = hang.Processors(lambda: "monitor")
        return any(processors.stuck() for _ in range(looks))


@pytest.mark.parametrize("states", [
    [(KERNEL, ON, 0, 0), (KERNEL + 16, ON, 0, 0)],                              # waits for a lock
    [(KERNEL, OFF, 0, 0), (KERNEL + 0x10000, OFF, 0, 0)],                       # never permits interrupts
    [(MODULE, ON, 0, 0), (MODULE + 0x4000, ON, 0, 0), (KERNEL, OFF, 0, 0)],     # a loop of a module, with interrupts
])
def test_a_processor_that_works_at_one_place_is_stuck(monkeypatch, states):
    assert Guest(monkeypatch, states).stuck()


@pytest.mark.parametrize("states", [
    [(KERNEL, ON, 0, 0), (KERNEL + 0x1000, ON, 0, 0)],      # moves
    [(KERNEL, ON, 0, 1)],                                   # sleeps
    [(PROGRAM, ON, 3, 0)],                                  # runs a program
    [(MODULE, ON, 0, 0)] * 7 + [(KERNEL, ON, 0, 1)],        # a module that sleeps now and then
])
def test_a_processor_that_goes_on_is_not_stuck(monkeypatch, states):
    assert not Guest(monkeypatch, states).stuck()


def test_a_guest_without_processor_time_is_not_stuck(monkeypatch):
    """The host is busy with something else, or the guest was stopped."""
    assert not Guest(monkeypatch, [(KERNEL, OFF, 0, 0)], rate=0.01).stuck()


def test_a_stuck_processor_is_looked_at_anew_if_the_guest_answers(monkeypatch):
    Guest(monkeypatch, [(MODULE, ON, 0, 0)])
    processors = hang.Processors(lambda: "monitor")
    found = []
    for _ in range(40):
        found.append(processors.stuck())
        if found[-1]:
            processors.forget()
    assert 2 <= sum(found) <= 40 / hang.LEAST_LOOKS


@pytest.mark.parametrize("after, hangs", [((MODULE + 8, ON, 0, 0), True), ((PROGRAM, ON, 3, 0), False)])
def test_a_slow_guest_whose_processor_has_moved_gets_no_nmi(monkeypatch, after, hangs):
    """The guest does not answer in time because the host is busy."""
    guest, asked = Guest(monkeypatch, [(MODULE, ON, 0, 0)]), []

    def no_answer(*_):
        guest.states = itertools.repeat(after)
        asked.append("answer")
        return False

    def interrupt(*_):
        asked.append("nmi")
        raise ui.LabError("hangs")
    monkeypatch.setattr(exchange, "answers", no_answer)
    monkeypatch.setattr(exchange, "_interrupt", interrupt)
    monkeypatch.setattr(exchange, "_explain_hang", lambda *_: None)
    monkeypatch.setattr(exchange, "LIMIT_S", 2)
    lab = types.SimpleNamespace(monitor=lambda _: "monitor", alive=lambda _: True)
    watch, running = types.SimpleNamespace(check=lambda: None), types.SimpleNamespace(poll=lambda: None)
    with pytest.raises(ui.LabError):
        exchange._wait(lab, types.SimpleNamespace(name="vm0"), running, watch)
    assert asked == (["answer", "nmi"] if hangs else ["answer"])


def test_a_qemu_that_does_not_answer_is_no_hang(monkeypatch):
    def broken(*_):
        raise ui.LabError("no answer")
    guest = Guest(monkeypatch, [(KERNEL, OFF, 0, 0)])
    monkeypatch.setattr(hang.vm, "monitor_line", broken)
    assert not guest.stuck()
