# SPDX-License-Identifier: GPL-2.0-or-later
"""64-bit Arm: everything compiled for it, and the unit tests run there."""
