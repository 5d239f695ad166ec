# SPDX-License-Identifier: GPL-2.0-or-later
"""The driver in user space compiles on the host, and refuses what it cannot do."""
import pathlib
import shutil
import subprocess

import pytest

from lab import paths


@pytest.fixture(scope="module", name="program")
def compiled(tmp_path_factory):
    place = tmp_path_factory.mktemp("examples")
    shutil.copytree(paths.ROOT / "hw-interface", place / "hw-interface")
    shutil.copytree(paths.ROOT / "examples" / "userspace-driver", place / "examples" / "userspace-driver",
                    ignore=shutil.ignore_patterns("*.o", "userspace-driver"))
    made = subprocess.run(["make", "-C", place / "examples" / "userspace-driver"], capture_output=True, text=True,
                          check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return place / "examples" / "userspace-driver" / "userspace-driver"


def run(program, *words):
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("words", [(), ("none",), ("show", "show"), ("-x", "show")])
def test_a_command_line_that_names_no_scene_gets_the_list(program, words):
    code, said = run(program, *words)
    assert code == 2 and "usage: " in said and "ud-pingpong" in said


@pytest.mark.parametrize("words", [("-n", "0"), ("-n", "-1"), ("-n", "1000001"), ("-s", "x"), ("-s", "1x"), ("-s", "")])
def test_a_number_out_of_range_is_refused(program, words):
    code, said = run(program, *words, "rdma")
    assert code == 1 and f"{words[1]}: expected a number from 1 to " in said


def test_a_machine_without_the_hca_is_told(program):
    functions = pathlib.Path("/sys/bus/pci/devices").glob("*")
    if any((path / "device").read_text().strip() == "0x1b0c" for path in functions):
        pytest.skip("this machine has the device")
    code, said = run(program, "show")
    assert code == 1 and "userspace-driver: " in said
