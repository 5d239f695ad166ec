# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts a module of this checkout from any working directory:

    python3 -I -B CHECKOUT/lab/start.py MODULE [ARGUMENT…]

Python then imports modules only from this checkout and from its own directories, since -I also ignores PYTHONPATH.
PYTHONPATH itself is not an alternative: it cannot contain a path with a colon, and every program that the module starts
would inherit it."""

import pathlib
import runpy
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
del sys.argv[0]
try:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
except KeyboardInterrupt:       # modules are still being imported: main() reports an interrupt itself
    print("pib: interrupted", file=sys.stderr)
    sys.exit(128 + signal.SIGINT)
