#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Files of `meson install` for other virtual machine monitors: installs them elsewhere and builds a C program with only
pkg-config's flags. Arguments: the build directory, the value of its option b_sanitize, the C compiler."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
GLUE = HERE.parents[1] / "qemu-hw" / "glue"
BUILD, SANITIZE, *COMPILER = sys.argv[1:]


def run(*argv, **more) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise AssertionError(f"{argv}: {done.stdout}{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--tags", "devel",
            "--destdir", self.root)
        self.pc = next(self.root.rglob("pib-hca-core.pc"))

    def flags(self) -> list[str]:
        """Output of pkg-config, for files below another root than at configuration."""
        path = {"PKG_CONFIG_LIBDIR": str(self.pc.parent), "PKG_CONFIG_SYSROOT_DIR": str(self.root)}
        return run("pkg-config", "--cflags", "--libs", "pib-hca-core",
                   env={**os.environ, **path}).split()

    def test_a_c_program_is_built_and_has_a_device(self):
        program = self.root / "c-device"
        sanitize = [] if SANITIZE == "none" else [f"-fsanitize={SANITIZE}"]
        run(*COMPILER, "-std=gnu11", *sanitize, HERE / "c_device.c", "-o", program, *self.flags())
        self.assertEqual(run(program), "1\n")

    def test_the_glue_finds_its_headers(self):
        """The installed headers have those that the glue includes from outside of its folder."""
        installed = {path.name for path in self.root.rglob("*.h")}
        beside = {path.name for path in GLUE.glob("*.h")}
        for source in GLUE.glob("pib_hca_*.[ch]"):
            for line in source.read_text().splitlines():
                if line.startswith('#include "pib_hca_'):
                    self.assertIn(line.split('"')[1], installed | beside, source.name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
