# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts a module of this checkout, whatever directory one stands in:

    python3 -I -B CHECKOUT/lab/start.py MODULE [ARGUMENT…]

Python then takes modules from this checkout and from its own directories, and from no other: -I ignores PYTHONPATH as
well. To name the checkout in PYTHONPATH would not do: a path with a colon does not fit in it, and every program that
the module starts would inherit it.
"""

import pathlib
import runpy
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
