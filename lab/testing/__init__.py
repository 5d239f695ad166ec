# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib test: the parts of the suite, their runners, and one result."""
