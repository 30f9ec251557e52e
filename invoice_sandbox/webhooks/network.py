"""The addresses that deliveries may be sent to.

Without a check, a server that posts to any address can be used to reach networks that its caller
cannot reach. ``url_problem`` checks the URL, ``address_type`` an IP address. ``transport`` resolves
names and checks the result when a delivery is sent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, urlsplit

from invoice_sandbox.base.hosts import is_loopback
from invoice_sandbox.webhooks.inbox import inbox_url

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

PUBLIC: Final = "public"
LOOPBACK: Final = "loopback"

HTTPS_PORTS: Final = frozenset({443, 8443})
"""The ports of receivers that are not on loopback."""

_SPECIAL: Final = tuple(
    (ip_network(network), kind)
    for network, kind in [
        # IANA IPv4 Special-Purpose Address Registry
        ("0.0.0.0/8", "unspecified"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier"),
        ("127.0.0.0/8", LOOPBACK),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmarking"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        # A public address that reaches the host of every virtual machine of a large cloud provider.
        ("168.63.129.16/32", "platform"),
        # IANA IPv6 Special-Purpose Address Registry
        ("::/128", "unspecified"),
        ("::1/128", LOOPBACK),
        ("::/96", "IPv4-compatible"),
        ("::ffff:0:0:0/96", "IPv4-translated"),
        ("64:ff9b::/96", "NAT64"),
        ("64:ff9b:1::/48", "NAT64"),
        ("2001::/32", "Teredo"),
        ("2001::/23", "reserved"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    ]
)
"""The first network that contains an address determines its type."""

_GLOBAL_UNICAST: Final = ip_network("2000::/3")
_ISATAP: Final = frozenset({0x00005EFE, 0x02005EFE})
_LOCAL_NAMES: Final = frozenset({"localhost", "internal", "local"})
_NAME: Final = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.ASCII)
_MAX_NAME_LENGTH: Final = 253

_TOKEN: Final = re.compile(r"[0-9A-Za-z_-]+")
"""The token of an inbox or a listener; no dots or slashes, which could change the path."""


class ForbiddenAddressError(Exception):
    """Deliveries to ``host`` are not allowed: it has an address of the type ``address_type``."""

    def __init__(self, host: str, address_type: str) -> None:
        super().__init__(f"{host} has an address that webhooks must not use ({address_type})")
        self.host = host
        self.address_type = address_type


def listener_url(url: str, token: str = "") -> str:
    """The address of a listener of the server at ``url``."""
    return f"{url}/sandbox/listening/{token}"


def is_own_address(address: object, url: str) -> bool:
    """True if ``address`` is an inbox or a listener of the server at ``url``."""
    begins = (inbox_url(url), listener_url(url))
    return isinstance(address, str) and any(
        address.startswith(begin) and _TOKEN.fullmatch(address[len(begin) :]) for begin in begins
    )


def url_problem(url: object, *, local: bool, opened: Sequence[Network] = ()) -> str | None:
    """``url_missing``, ``url_not_allowed``, or None when deliveries may be sent to ``url``.

    It must be https on port 443 or 8443, without user information, to a name or a globally routable
    address. With ``local``, http and https to a loopback address on any port are allowed too, and
    to the addresses of the ``opened`` networks. A name may have such an address, so with ``opened``
    networks every name is allowed here, and its addresses are checked when a delivery is sent.
    """
    import httpx2  # slow to import, and many servers have no webhooks

    if not isinstance(url, str) or not url.strip():
        return "url_missing"
    if any(letter <= " " or letter == "\\" for letter in url):
        return "url_not_allowed"
    try:
        # Both as written and as sent, because two parsers may find two hosts in one URL.
        readings = urlsplit(url), urlsplit(str(httpx2.URL(url)))
        allowed = all(_is_allowed(reading, local=local, opened=opened) for reading in readings)
    except (ValueError, httpx2.InvalidURL):
        return "url_not_allowed"
    return None if allowed and _is_spelled_plainly(readings[1]) else "url_not_allowed"


def read_address(text: str) -> Address | None:
    """The address in ``text``; None if it is not in the usual notation.

    An IPv4 address mapped into IPv6 is returned as IPv4, because connections use that address. An
    address with a zone is rejected, because it has a meaning on one link only.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        return address
    return None if address.scope_id is not None else address.ipv4_mapped or address


def address_type(address: Address) -> str:
    """``public`` for a globally routable address, else the type of its network.

    IPv6 addresses that contain an IPv4 address (NAT64, 6to4, Teredo, ISATAP, ...) are never public,
    because a gateway decides where they lead.
    """
    for network, kind in _SPECIAL:
        if address in network:
            return kind
    if isinstance(address, IPv6Address):
        if address not in _GLOBAL_UNICAST:
            return "reserved"
        if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP:
            return "ISATAP"
    return PUBLIC if address.is_global else "reserved"


def is_opened(address: Address, opened: Sequence[Network]) -> bool:
    """True if one of the ``opened`` networks contains the address."""
    return any(address in network for network in opened)


def _is_allowed(url: SplitResult, *, local: bool, opened: Sequence[Network]) -> bool:
    host, port = url.hostname or "", url.port
    if not host or url.username is not None or url.scheme not in {"http", "https"} or port == 0:
        return False
    address = read_address(host)
    if (is_loopback(host) and local) or (address is not None and is_opened(address, opened)):
        return True
    if address is None and opened:
        return _is_name(host)
    return url.scheme == "https" and (port or 443) in HTTPS_PORTS and _may_be_public(host)


def _may_be_public(host: str) -> bool:
    address = read_address(host)
    if address is not None:
        return address_type(address) == PUBLIC
    return _is_name(host) and host.rstrip(".").rpartition(".")[2] not in _LOCAL_NAMES


def _is_name(host: str) -> bool:
    # Resolvers accept addresses in other notations (0x7f.1, 2130706433); these are not names.
    return ":" not in host and not host.rstrip(".").rpartition(".")[2][:1].isdigit()


def _is_spelled_plainly(sent: SplitResult) -> bool:
    host = sent.hostname or ""
    if read_address(host) is not None:
        return True
    return len(host) <= _MAX_NAME_LENGTH and _NAME.fullmatch(host) is not None
