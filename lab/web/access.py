# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks of each request: the token in its path, and headers that a page of another web site cannot forge."""

import hmac
import ipaddress
import secrets
import socket
import urllib.parse

TOKEN_BYTES = 24


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


def split_token(path: str) -> tuple[str, str]:
    """Splits "/TOKEN/rest" into ("TOKEN", "rest")."""
    first, _, rest = path.removeprefix("/").partition("/")
    return first, rest


def token_is(given: str, token: str) -> bool:
    """Compares the tokens in constant time, so that the duration reveals nothing."""
    return hmac.compare_digest(given.encode(), token.encode())


def host_allowed(header: str) -> bool:
    """Whether a Host header is an address or one of this host's names. This prevents DNS rebinding: a page whose site's
    name is made to resolve to this address still sends its site's name."""
    try:
        name = urllib.parse.urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        # getfqdn() may ask a name server, which may take seconds, so it comes last.
        return name in ("localhost", socket.gethostname().lower()) or name == socket.getfqdn().lower()


def origin_allowed(origin: str | None, host: str) -> bool:
    """Whether the Origin is this server's. Programs other than browsers send none, which is allowed."""
    return origin is None or origin == f"http://{host}"


def fetch_allowed(site: str | None, destination: str | None) -> bool:
    """Whether the page that causes a request is this server's, by the headers Sec-Fetch-Site and Sec-Fetch-Dest of
    browsers: for an image, a script or a frame of another site's page they send no Origin. Other programs send neither.
    A link on another page is allowed."""
    return site in (None, "same-origin", "none") or destination == "document"
