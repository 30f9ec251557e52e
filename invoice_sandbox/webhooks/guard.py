"""Which addresses a delivery may go to, as far as the URL alone can tell.

A server that posts to any address it is told can be used to reach what its caller cannot. Names
are resolved, and judged again, when a delivery is sent.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")
_PORTS: Final = frozenset({None, 443, 8443})


def url_problem(url: object, *, local: bool) -> str | None:
    """``url_missing``, ``url_not_allowed``, or None when deliveries may be sent to ``url``.

    Allowed is https on ports 443 and 8443, without user information, to a name or to a globally
    routable address; with ``local``, http or https to a loopback address on any port too.
    """
    if not isinstance(url, str) or not url.strip():
        return "url_missing"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "url_not_allowed"
    if not host or parts.username is not None or parts.scheme not in {"http", "https"}:
        return "url_not_allowed"
    if any(letter <= " " or letter == "\\" for letter in url):
        return "url_not_allowed"
    if _is_loopback(host):
        return None if local else "url_not_allowed"
    if parts.scheme != "https" or port not in _PORTS or not _may_be_public(host):
        return "url_not_allowed"
    return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" if address is None else address.is_loopback


def _may_be_public(host: str) -> bool:
    address = _address(host)
    if isinstance(address, ipaddress.IPv6Address):
        # Other ranges, 6to4 and Teredo can hold any IPv4 address inside.
        embedded = address.sixtofour or address.teredo
        return address in _GLOBAL_UNICAST and address.is_global and not embedded
    if address is not None:
        return address.is_global and not address.is_multicast
    # What a resolver takes for an address in another notation (0x7f.1, 2130706433) is no name.
    last = host.rstrip(".").rpartition(".")[2]
    return not last[:1].isdigit() and last not in {"localhost", "internal", "local"}


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
