# SPDX-License-Identifier: GPL-2.0-or-later
"""64-bit Arm: compiles everything for it and runs the unit tests there."""
