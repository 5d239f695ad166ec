# SPDX-License-Identifier: GPL-2.0-or-later
"""The properties of -device pib-hca that a user can set, and the values that the device accepts. An installed lab lacks
the device's source, so they are listed here; a test compares both."""

import re

Value = int | bool | str

CHOICES: dict[str, tuple[str, ...]] = {
    "link-width": ("1x", "4x", "8x", "12x"),
    "link-speed": ("sdr", "ddr", "qdr", "fdr", "edr", "hdr", "ndr"),
    "mtu": ("256", "512", "1024", "2048", "4096"),
    "vls": ("1", "2", "4", "8", "15"),
    "qpn-reuse": ("round", "lowest", "random"),
    "strict": ("off", "on", "fatal"),
    "doorbells": ("auto", "inline", "eventfd"),
}
RANGES = {"ports": (1, 4), "vectors": (1, 64), "trace-entries": (0, 65536), "poll-us": (0, 2**32 - 1)}
SWITCHES = ("trace-registers", "trace-dma", "trace-interrupts", "inject", "poison-wc", "shuffle-srq", "warnings",
            "shared-memory", "bursts", "peer-copy", "record-payload")
# Properties whose values only the device checks.
TEXTS = ("node-description", "device-memory", "record-limit", "adversary")
# Properties that the lab sets, with other values for each guest.
OF_THE_LAB = ("fabric", "tls-creds", "tls-hostname", "plain-tcp", "node-guid", "port-guid", "record")
NAMES = (*RANGES, *CHOICES, *SWITCHES, *TEXTS)
# QEMU's other words for on and off.
BOOLEANS = {"yes": "on", "true": "on", "y": "on", "no": "off", "false": "off", "n": "off"}
COMMA = re.compile("(?<!,),(?!,)")      # between properties; two commas stand for one in a value


def word(value: Value) -> str:
    """The value as on QEMU's command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def wrong(name: str, value: Value) -> str:
    """The error in a property's value; "" if there is none."""
    if name in OF_THE_LAB:
        return "the lab sets it for each guest"
    if name not in NAMES:
        return f"-device pib-hca has no such property. Properties: {', '.join(NAMES)}"
    if name in SWITCHES:
        return "" if word(value) in ("on", "off") else "expected true or false"
    if name in CHOICES:
        return "" if word(value).lower() in CHOICES[name] else f"{word(value)}: expected one of " \
                                                               f"{', '.join(CHOICES[name])}"
    if name in RANGES:
        least, most = RANGES[name]
        fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return "" if fits else f"{word(value)}: expected {least} to {most}"
    return ""


def _value(name: str, text: str) -> Value:
    """A value of QEMU's command line, as wrong() takes it."""
    if name in RANGES:
        try:
            return int(text, 0)
        except ValueError:
            return text
    return BOOLEANS.get(text, text) if name in SWITCHES else text


def wrong_in(properties: str) -> str:
    """The first error in properties as QEMU's command line has them, such as ports=2,link-speed=hdr; "" if there is
    none."""
    for one in COMMA.split(properties) if properties else []:
        name, sign, text = one.partition("=")
        if reason := wrong(name, _value(name, text)) if sign else "expected NAME=VALUE":
            return f"{name}: {reason}"
    return ""


def _last(properties: str, name: str) -> str:
    """The last value of a property; "" if properties, as QEMU's command line has them, leave it out."""
    found = [text for one in COMMA.split(properties) for key, _, text in [one.partition("=")] if key == name]
    return found[-1] if found else ""


def is_on(properties: str, name: str) -> bool:
    """Whether properties, as QEMU's command line has them, turn this one on. The last value counts."""
    text = _last(properties, name)
    return BOOLEANS.get(text, text) == "on"


def is_strict(properties: str) -> bool:
    """Whether the device checks its driver (strict=on or fatal)."""
    return _last(properties, "strict").lower() in ("on", "fatal")
