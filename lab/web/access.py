# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks of each request: the token in its path, and headers that another web site's page cannot have."""

import hmac
import ipaddress
import secrets
import socket
import urllib.parse

TOKEN_BYTES = 24


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def split_token(path: str) -> tuple[str, str]:
    """("TOKEN", "rest") of "/TOKEN/rest"."""
    first, _, rest = path.removeprefix("/").partition("/")
    return first, rest


def token_is(given: str, token: str) -> bool:
    """Compares in a time that tells nothing of the token."""
    return hmac.compare_digest(given.encode(), token.encode())


def host_allowed(header: str) -> bool:
    """Addresses and this host's own names. A page of another site that has its name changed to this address still
    sends its own name."""
    try:
        name = urllib.parse.urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return name in ("localhost", socket.gethostname().lower(), socket.getfqdn().lower())


def origin_allowed(origin: str | None, host: str) -> bool:
    """A program other than a browser sends no Origin."""
    return origin is None or origin == f"http://{host}"
