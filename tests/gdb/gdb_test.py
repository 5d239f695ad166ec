#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of ./pib gdb NODE --device, in gdb, at the devices of gdb_target.cc. Arguments: that program, gdb."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "lab" / "develop" / "in_gdb_device.py"
# QEMU's list of devices is not in the program: the script's function finds the devices of the program instead.
DEVICES = ("devices = lambda: [(f'device {number}', "
           "(gdb.parse_and_eval('&watched').cast(type_of('Device').pointer().pointer()) + number)"
           ".dereference().dereference()['engine_']) for number in range(2)]")
PROGRAMS = []
CANNOT_ATTACH = "ptrace: "
SKIPPED = 77                    # meson's exit status of a skipped test


class Target:
    """The program, stopped by gdb for each session."""

    def __init__(self):
        self.process = subprocess.Popen([PROGRAMS[0]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.known = json.loads(self.process.stdout.readline())

    def gdb(self, *commands):
        """Status and output of a gdb that runs the script and then the commands."""
        words = [word for command in (f"python {DEVICES}", *commands) for word in ("-ex", command)]
        parameters = json.dumps({"pid": self.process.pid, "advice": ""})
        done = subprocess.run([PROGRAMS[1], "-q", "-nx", "-batch", "-x", SCRIPT, *words], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "PIB_GDB": parameters, "DEBUGINFOD_URLS": ""})
        return done.returncode, done.stdout

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.kill()     # a leak checker cannot run in a process that was traced
        self.process.wait()


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.target = Target()
        cls.addClassCleanup(cls.target.end)

    def said(self, *commands):
        status, said = self.target.gdb(*commands)
        self.assertEqual(status, 0, said)
        return said

    def of_device(self, number, said):
        """Lines about a device."""
        found = re.search(rf"^device {number}: \d+\n((?:  .*\n)*)", said, re.MULTILINE)
        self.assertIsNotNone(found, said)
        return found[1].splitlines()

    def test_objects_are_listed(self):
        known = self.target.known
        said = self.said("pib-qps", "pib-cqs", "pib-eqs", "pib-srqs", "pib-mrs")
        self.assertRegex(said, rf"\n  qp {known['qpn']:#x} RC RTS .* sq 3/3 of 32 rq 0/0 of 32 window 1\n")
        self.assertRegex(said, rf"\n  cq {known['cqn']} eq .* producer 2 consumer \d+ armed NONE ")
        self.assertRegex(said, rf"\n  eq {known['eqn']} vector 0 ")
        self.assertRegex(said, rf"\n  mr {known['key']:#x} region ")
        self.assertRegex(self.said(f"pib-qp {known['qpn']}"), r"\n  request 2: RDMA_WRITE psn .* started 1 ")

    def test_the_earliest_timer_is_that_of_the_host(self):
        """The host's timer may be earlier, but not without an adversary: see Engine::settle()."""
        said = self.said("pib-timers")
        lines = self.of_device(1, said)
        times = [int(found[1]) for line in lines if (found := re.search(r" at (\d+) ns", line))]
        self.assertEqual(min(times), self.target.known["timers"][1], said)
        self.assertIn(f"  the host's timer is set to {self.target.known['timers'][1]} ns", lines)

    def test_each_timer_has_a_line(self):
        said = self.said("pib-timers")
        first, second = (self.of_device(number, said) for number in range(2))
        paced = [line for line in first if re.fullmatch(r"  port 1 paced packet at \d+ ns", line)]
        self.assertEqual(len(paced), 1, said)
        for kind in (r"port 1 goes down", r"send doorbell of qp 0x\w+", r"receive doorbell of qp 0x\w+",
                     r"kick of uar 0", r"interrupt of vector \d+", r"strict: eq \d+"):
            self.assertTrue(any(re.fullmatch(rf"  {kind} at \d+ ns", line) for line in second), f"{kind}:\n{said}")

    def test_rings_are_decoded(self):
        known = self.target.known
        said = self.said(f"pib-ring sq {known['qpn']}", f"pib-ring rq {known['qpn']} 2", f"pib-ring cq {known['cqn']}")
        self.assertRegex(said, rf"device 0: sq {known['qpn']}: 32 entries\n    0: opcode = RDMA_WRITE .*\n"
                               r"    1: opcode = RDMA_WRITE .*\n    2: opcode = RDMA_WRITE .* length = 0x100000 .*\n"
                               r"  \* 3: opcode = RDMA_READ .* remote_addr = ")
        self.assertRegex(said, rf"device 0: rq {known['qpn']}: 32 entries\n  \* 1: num_sge = 0x1 .*\n"
                               r"  \* 2: num_sge = 0x1 .* length = 0x1000 ")
        self.assertRegex(said, rf"device 0: cq {known['cqn']}: 256 entries\n    0: qpn {known['qpn']} .*\n"
                               rf"    1: qpn {known['qpn']} wqe_counter 1 opcode RDMA_WRITE timestamp ")

    def test_a_ring_without_a_pointer_does_not_hide_that_of_another_device(self):
        eqn = self.target.known["eqn"]
        status, said = self.target.gdb(f"pib-ring eq {eqn} 1")
        self.assertEqual(status, 1, said)
        self.assertRegex(said, rf"device 0: eq {eqn}: \d+ entries\n  \* \d+: type COMMAND number ")
        self.assertRegex(said, r"device 1: the device has no pointer to this ring, as with .* adversary=")

    def test_rings_that_do_not_exist_are_reported(self):
        for ring, why in (("cq 0xfffff", "no cq has the number"), ("sq 0xfffff", "no QP has the number"),
                          ("wq 1", "Usage: pib-ring")):
            status, said = self.target.gdb(f"pib-ring {ring}")
            self.assertEqual(status, 1, said)
            self.assertIn(why, said)


def may_attach():
    target = Target()
    try:
        return CANNOT_ATTACH not in target.gdb()[1]
    finally:
        target.end()


if __name__ == "__main__":
    PROGRAMS = [sys.argv.pop(1), sys.argv.pop(1)]
    if not may_attach():
        print("gdb may not look into other processes here")
        sys.exit(SKIPPED)
    unittest.main()
