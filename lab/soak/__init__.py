# SPDX-License-Identifier: GPL-2.0-or-later
"""./pib soak: hours of traffic and disturbance, after which nothing may have grown."""
