# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds the KASLR offset of a guest's kernel from outside the guest, so it works for a guest that hangs.

The processor's IDTR register gives the interrupt descriptor table, whose first gate has the address of a known
function."""

import pathlib
import re

from lab.base import ui
from lab.build import elf, kernel_symbols
from lab.guests import vm

TABLE = re.compile(r"^IDT= *([0-9a-f]+) ", re.MULTILINE)
WORD = re.compile(r"0x([0-9a-f]{8})\b")
HANDLER = "asm_exc_divide_error"        # function of the table's first gate
ALIGNMENT = 1 << 21                     # KASLR offsets are multiples of this
WORD_SIZE = 4                           # octets of a word


def handler(gate: list[int]) -> int:
    """The address in a gate, which consists of four 32-bit words (AMD64 Architecture vol. 2, 4.8.4)."""
    return gate[0] & 0xffff | gate[1] & 0xffff0000 | gate[2] << 32


def words(monitor: pathlib.Path, address: int, count: int) -> list[int]:
    """32-bit words of the guest's memory, at a virtual address of its kernel."""
    said = vm.monitor_line(monitor, f"x /{count}wx {address:#x}")
    found = [int(word, 16) for line in said.splitlines() for word in WORD.findall(line.partition(":")[2])]
    if len(found) != count:
        raise ui.LabError(f"the guest has no memory at {address:#x} ({said.strip()}): it has not booted yet, a "
                          "program ran whose page table hides the kernel, or the kernel is lost. Try again; if that "
                          "does not help, start it anew:  ./pib reboot NODE")
    return found


def _check_build(monitor: pathlib.Path, kernel: kernel_symbols.Kernel, moved: int) -> None:
    """Checks that the guest runs the kernel of a tree's vmlinux, and not an earlier build. moved: KASLR's offset."""
    wanted = elf.build_id(kernel.vmlinux)
    found = words(monitor, wanted.address + moved, len(wanted.value) // WORD_SIZE)
    if b"".join(word.to_bytes(WORD_SIZE, "little") for word in found) != wanted.value:
        raise ui.LabError(f"the guest runs another build than {kernel.vmlinux}. Boot the present one:  {kernel.again}")


def offset(monitor: pathlib.Path, kernel: kernel_symbols.Kernel) -> int:
    table = TABLE.search(vm.monitor_line(monitor, "info registers"))
    if not table:
        raise ui.LabError("QEMU names no interrupt descriptor table. Is this guest's processor an x86-64?")
    found = handler(words(monitor, int(table[1], 16), 4)) - kernel.address(HANDLER)
    if found < 0 or found % ALIGNMENT:
        raise ui.LabError(f"the guest does not run the Linux {kernel.version} of {kernel.vmlinux}, or has not booted "
                          f"yet. Wait for that, or boot it again with that kernel:  {kernel.again}")
    if kernel.tree:
        _check_build(monitor, kernel, found)
    return found
