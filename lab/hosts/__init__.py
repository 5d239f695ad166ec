# SPDX-License-Identifier: GPL-2.0-or-later
"""Labs over several hosts: libvirt runs the guests there, and switches that TLS joins."""
