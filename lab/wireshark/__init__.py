# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib wireshark: the running fabric's ports in Wireshark and tshark."""
