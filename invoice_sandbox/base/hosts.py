"""Names of this machine."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def is_loopback(host: str) -> bool:
    """Return True if a host is this machine only.

    It is a loopback address, without a zone, or ``localhost`` or a name below it (RFC 6761, 6.3).
    """
    name = host.lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        return (address.ipv4_mapped or address).is_loopback
    return address.is_loopback
