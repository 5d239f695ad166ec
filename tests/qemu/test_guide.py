# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of docs/user-guide.md, section 4: a switch and a virtual machine without the lab."""
import pathlib
import re
import signal
import subprocess

from qtest import BUILD
from support import eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]


def commands(folder):
    """The commands for a switch, a machine and the switch's status, with the sockets and the disk in this folder."""
    text = (ROOT / "docs" / "user-guide.md").read_text()
    block = re.search(r"^```sh\n(build/fabric-switch/pib-switch .*?)^```", text, re.MULTILINE | re.DOTALL)[1]
    for was, now in (("/tmp/", f"{folder}/"), ("$PWD/build/", f"{BUILD}/"), ("build/fabric", f"{BUILD}/fabric"),
                     ("disk.qcow2", f"{folder}/disk.qcow2")):
        assert was in block
        block = block.replace(was, now)
    return block.replace("\\\n", "").splitlines()


def test_a_machine_joins_a_switch_without_the_lab(tmp_path):
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", tmp_path / "disk.qcow2", "1M"], check=True)
    switch, machine, look = commands(tmp_path)
    running = []

    def looked():
        done = subprocess.run(["sh", "-c", look], capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""
    try:
        running.append(subprocess.Popen(["sh", "-c", f"exec {switch.rstrip(' &')}"]))
        assert eventually(looked) and "LinkUp" not in looked()
        preload, _, program = machine.partition(" ")
        # A QEMU with GTK opens its window only where there is a desktop.
        running.append(subprocess.Popen(["sh", "-c", f"{preload} exec {program} -display none"]))
        assert eventually(lambda: "vm pib-hca port 1" in looked()), looked()
        assert "Initialize LinkUp" in looked()
    finally:
        for one in running:
            one.send_signal(signal.SIGTERM)
            one.wait()
