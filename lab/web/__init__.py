# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib web: the running fabric in a browser."""
