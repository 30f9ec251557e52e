"""The server's own addresses: what is delivered to them needs no network."""

from __future__ import annotations

import re
from typing import Final

from invoice_sandbox.webhooks.inbox import inbox_url

_TOKEN: Final = re.compile(r"[0-9A-Za-z_-]+")
"""Nothing that would lead elsewhere on the way, such as ``..``."""


def listener_url(url: str, token: str = "") -> str:
    """Where the server at ``url`` takes in what it hands on to a listener."""
    return f"{url}/sandbox/listening/{token}"


def is_own_address(address: object, url: str) -> bool:
    """Whether ``address`` is one at which the server at ``url`` receives webhooks."""
    own = (inbox_url(url), listener_url(url))
    return isinstance(address, str) and any(
        address.startswith(one) and _TOKEN.fullmatch(address[len(one) :]) for one in own
    )
