# SPDX-License-Identifier: GPL-2.0-or-later
"""A guest with two processors: each has a completion vector, whose interrupts have an affinity."""
import re

import pytest

from lab.guests import vm
from labs import booted
from rdma import DEVICE, kernel_complaints, put_program, sh

CPUS = 2
EVENTS = 20


@pytest.fixture(scope="module")
def guest():
    with booted("test-vectors", 1, size=vm.Size(cpus=CPUS)) as running:
        node = running.node("vm0")
        put_program(node, "vectors.py")
        yield node
        assert kernel_complaints(node) == []


def interrupts(node):
    """(number, [count by processor]) of each vector; the first is that of asynchronous events."""
    lines = [line.split() for line in sh(node, "grep pib_hca /proc/interrupts").splitlines()]
    return [(line[0].rstrip(":"), [int(count) for count in line[1:1 + CPUS]]) for line in lines]


def raised(node, vector):
    """Interrupts caused by events of a completion vector, by vector and processor."""
    before = interrupts(node)
    sh(node, f"python3 /tmp/vectors.py {DEVICE} {vector} {EVENTS}")
    return [[now - then for now, then in zip(after[1], earlier[1])]
            for after, earlier in zip(interrupts(node), before)][1:]


def test_a_vector_for_each_processor(guest):
    assert re.search(rf"num_comp_vectors:\s*{CPUS}$", sh(guest, "ibv_devinfo -v"), re.MULTILINE)
    assert len(interrupts(guest)) == 1 + CPUS


@pytest.mark.parametrize("vector", range(CPUS))
def test_an_event_interrupts_the_processor_of_its_vector(guest, vector):
    for cpu in (vector, 1 - vector):
        number = interrupts(guest)[1 + vector][0]
        sh(guest, f"echo {cpu} > /proc/irq/{number}/smp_affinity_list")
        raised(guest, vector)   # a vector moves when it interrupts
        added = raised(guest, vector)
        # One interrupt can report two events, and the kernel has CQs of its own.
        assert added[vector][cpu] > EVENTS // 2 and added[vector][1 - cpu] == 0, added
        assert sum(added[1 - vector]) < EVENTS // 2, added


def test_vectors_are_spread_over_the_processors(guest):
    sh(guest, "pkill -x opensm; modprobe -r ib_ipoib ib_umad rdma_ucm; rmmod pib_hca; modprobe pib_hca")
    lists = [sh(guest, f"cat /proc/irq/{number}/smp_affinity_list").strip()
             for number, _ in interrupts(guest)[1:]]
    assert sorted(lists) == [str(cpu) for cpu in range(CPUS)]
