# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages, processes, locks, directories: modules that all other folders of lab/ use."""
