# SPDX-License-Identifier: GPL-2.0-or-later
"""The ground of all rooms."""
