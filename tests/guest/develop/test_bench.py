# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands of a driver writer's bench as a user types them: ./pib up --driver, driver --watch and provider."""
import contextlib
import pathlib
import shutil
import signal
import subprocess

import pytest

import as_written
from lab.base import paths
from rdma import DEVICE, wait_until

LAB = "test-bench"
MINE = pathlib.Path(__file__).parent / "drivers" / "probe_only"
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module", name="bench")
def guest_that_was_booted_with_another_driver(tmp_path_factory):
    """A directory with ./pib and copies of driver, provider and interface. Its lab has one guest, vm0."""
    home = tmp_path_factory.mktemp("bench")
    for name in ("guest-driver", "guest-provider", "hw-interface"):
        shutil.copytree(paths.ROOT / name, home / name)
    shutil.copytree(MINE, home / "mine")
    program = as_written.make_program(home, LAB)
    try:
        as_written.run(home, "./pib up -n 1 --driver mine")
        yield home
    finally:
        subprocess.run([program, "down"], check=True, timeout=as_written.LIMIT_S)


def replace(file, old, new):
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def in_guest(home, line):
    return as_written.run(home, f"./pib exec vm0 -- {line}")


@contextlib.contextmanager
def watching(home, command):
    """Runs ./pib COMMAND --watch during the block; yields a function that waits for a text in new output."""
    file = home / "said"
    with open(file, "wb") as out:
        process = subprocess.Popen([home / "pib", *command.split(), "--watch"], cwd=home, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=subprocess.STDOUT)
        place = 0

        def look(text):
            nonlocal place
            said = file.read_text(errors="replace")
            assert process.poll() is None, said
            found = said.find(text, place)
            place = max(place, found + len(text) if found >= 0 else 0)
            return found >= 0

        def wait_for(text):
            wait_until(lambda: look(text), text, as_written.LIMIT_S)
        try:
            yield wait_for
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(as_written.LIMIT_S)


def test_guests_are_booted_with_another_driver(bench):
    assert "probe_only has found the HCA" in in_guest(bench, "dmesg")
    assert DEVICE not in in_guest(bench, "ls /sys/class/infiniband || true")


def test_a_driver_is_exchanged_at_each_save(bench):
    source = bench / "guest-driver" / "main.c"
    begin = "pib_hca_module_init(void)\n{\n\tint ret;\n"
    with watching(bench, "driver guest-driver") as wait_for:
        wait_for("waiting for changes")
        replace(source, begin, begin + '\tpr_info("the first save\\n");\n')
        wait_for("the first save")
        wait_for("waiting for changes")
        replace(source, "the first save", "the second save\\n\";")     # does not compile
        wait_for("main.c:")
        wait_for("waiting for changes")
        replace(source, "the second save\\n\";", "the third save")
        wait_for("the third save")
        wait_for("waiting for changes")
    assert DEVICE in in_guest(bench, "ls /sys/class/infiniband")


def test_a_provider_is_exchanged_for_programs_that_start_later(bench):
    as_written.run(bench, "./pib driver vm0")
    source = bench / "guest-provider" / "pib.c"
    begin = "\tdev->page_size = sysconf(_SC_PAGESIZE);\n"
    replace(source, begin, begin + '\tputs("a provider of mine");\n')
    replace(source, "#include <stdlib.h>\n", "#include <stdio.h>\n#include <stdlib.h>\n")
    assert "libpib" in as_written.run(bench, "./pib provider guest-provider vm0")
    assert "a provider of mine" in in_guest(bench, "ibv_devinfo")
    as_written.run(bench, "./pib provider vm0")
    said = in_guest(bench, "ibv_devinfo")
    assert "a provider of mine" not in said and DEVICE in said
