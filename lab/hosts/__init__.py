# SPDX-License-Identifier: GPL-2.0-or-later
"""Guests on other hosts, which libvirt runs."""
