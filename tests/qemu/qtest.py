# SPDX-License-Identifier: GPL-2.0-or-later
"""A QEMU without a guest: the qtest and QMP protocols, and enough PCI to reach a device's BARs."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PIB_BUILD", ROOT / "build"))
PRELOAD = BUILD / "qemu-hw" / "glue" / "libpib-hca.so"

ECAM = 0xB0000000  # where these tests put q35's memory-mapped configuration space
BAR_BASE = 0xC0000000
HALT = b"\xfa\xf4\xeb\xfd"  # cli; hlt; jmp to hlt: at the reset vector, 16 bytes below the end
COMMAND_MEMORY = 0x2
COMMAND_MASTER = 0x4


def qemu_command(*arguments):
    return ["qemu-system-x86_64", "-machine", "q35", "-nodefaults", "-display", "none", *arguments]


def environment(preload=(), more=None):
    return {**os.environ, **(more or {}), "LD_PRELOAD": ":".join(map(str, (*preload, PRELOAD)))}


def run_qemu(*arguments, timeout=60):
    """Runs a QEMU that ends by itself: a refused command line, or a help text."""
    return subprocess.run(qemu_command(*arguments), env=environment(), capture_output=True,
                          text=True, timeout=timeout, stdin=subprocess.DEVNULL, check=False)


class Qtest:
    """A running QEMU that obeys the qtest protocol; use as a context manager.

    Debian leaves out the qtest accelerator. The protocol works with any: the processor
    is emulated, and the firmware it starts halts it, so that only the test acts.
    """

    def __init__(self, *arguments, preload=(), variables=None):
        self.folder = tempfile.mkdtemp(prefix="pib-qtest-")
        firmware = pathlib.Path(self.folder, "halt")
        firmware.write_bytes(HALT.rjust(0x10000 - 0x10 + len(HALT), b"\0").ljust(0x10000, b"\0"))
        listener = self._listen("qtest")
        qmp_listener = self._listen("qmp")
        self.process = subprocess.Popen(
            qemu_command("-accel", "tcg", "-bios", str(firmware), "-m", "256M",
                         "-qtest", f"unix:{self.folder}/qtest", "-qtest-log", "none",
                         "-qmp", f"unix:{self.folder}/qmp", *arguments),
            env=environment(preload, variables), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.stream = self._accept(listener)
        self.qmp_stream = self._accept(qmp_listener)
        self.qmp_stream.readline()
        self.qmp("qmp_capabilities")
        self._map_configuration_space()

    def _listen(self, name):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{self.folder}/{name}")
        listener.listen(1)
        listener.settimeout(60)
        return listener

    @staticmethod
    def _accept(listener):
        connection, _ = listener.accept()
        connection.settimeout(300)  # a QEMU that hangs fails its test
        listener.close()
        return connection.makefile("rw", encoding="ascii", newline="\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends QEMU; fails if it has crashed before."""
        try:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
            _, self.stderr = self.process.communicate(timeout=60)
        finally:
            self.process.kill()
            shutil.rmtree(self.folder, ignore_errors=True)
        assert self.process.returncode == 0, f"QEMU ended with {self.process.returncode}: {self.stderr}"

    def command(self, *words):
        self.stream.write(" ".join(str(word) for word in words) + "\n")
        self.stream.flush()
        while True:
            answer = self.stream.readline().split()
            assert answer, "QEMU closed the qtest connection"
            if answer[0] != "IRQ":
                assert answer[0] == "OK", f"{words}: {answer}"
                return answer[1:]

    def qmp(self, name, /, **arguments):
        """The answer's `return`, or its `error`, as a dictionary."""
        self.qmp_stream.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.qmp_stream.flush()
        while True:
            line = self.qmp_stream.readline()
            assert line, "QEMU closed the QMP connection"
            answer = json.loads(line)
            if "return" in answer or "error" in answer:
                return answer

    def read(self, address, size):
        return int(self.command(f"read{'?bw?l???q'[size]}", hex(address))[0], 16)

    def write(self, address, value, size):
        self.command(f"write{'?bw?l???q'[size]}", hex(address), hex(value))

    def read_memory(self, address, length):
        return bytes.fromhex(self.command("read", hex(address), length)[0][2:])

    def write_memory(self, address, data):
        self.command("write", hex(address), len(data), "0x" + data.hex())

    def _map_configuration_space(self):
        # PCIEXBAR of the q35 host bridge, through the legacy ports.
        self.command("outl", "0xcf8", hex(0x80000060))
        self.command("outl", "0xcfc", hex(ECAM | 1))

    def pci(self, slot, function=0, bus=0):
        return PciFunction(self, ECAM + (bus << 20 | slot << 15 | function << 12))


class PciFunction:
    """One function's configuration space and, after map_bars(), its BARs."""

    def __init__(self, qtest, config):
        self.qtest = qtest
        self.config = config
        self.bars = {}

    def config_read(self, offset, size=4):
        return self.qtest.read(self.config + offset, size)

    def config_write(self, offset, value, size=4):
        self.qtest.write(self.config + offset, value, size)

    def bar_size(self, number):
        offset = 0x10 + 4 * number
        self.config_write(offset, 0xFFFFFFFF)
        self.config_write(offset + 4, 0xFFFFFFFF)
        mask = self.config_read(offset + 4) << 32 | (self.config_read(offset) & ~0xF)
        return (1 << 64) - mask

    def map_bars(self, base=BAR_BASE):
        """BAR0, BAR2 and BAR4 as 64-bit BARs, 16 MiB apart; memory decoding and bus mastering on."""
        for index, number in enumerate((0, 2, 4)):
            self.bars[number] = base + index * 0x1000000
            self.config_write(0x10 + 4 * number, self.bars[number])
            self.config_write(0x14 + 4 * number, 0)
        self.config_write(0x04, COMMAND_MEMORY | COMMAND_MASTER, 2)
        return self

    def capability(self, wanted):
        offset = self.config_read(0x34, 1)
        for _ in range(48):
            if offset == 0:
                return None
            if self.config_read(offset, 1) == wanted:
                return offset
            offset = self.config_read(offset + 1, 1)
        return None

    def read(self, bar, offset, size=4):
        return self.qtest.read(self.bars[bar] + offset, size)

    def write(self, bar, offset, value, size=4):
        self.qtest.write(self.bars[bar] + offset, value, size)
