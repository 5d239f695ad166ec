# SPDX-License-Identifier: GPL-2.0-or-later
"""The lab: dependencies, guest images, virtual machines and tests behind ./pib."""
