"""Webhook endpoints: what they subscribe to, and which secrets sign what is sent to them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from invoice_sandbox.base.clock import instant_text, parse_instant
from invoice_sandbox.state import Condition, Record, Transaction
from invoice_sandbox.webhooks.signing import placeholder_secret

ENDPOINTS: Final = "webhook_endpoints"
"""The kind under which endpoints are stored, by their id."""

ENABLED: Final = "Enabled"
DISABLED: Final = "Disabled"

BOTH_SIGN: Final = timedelta(hours=24)
"""So much virtual time after a rotation, what is sent is signed with the old secret too."""

_INTERNAL: Final = frozenset({"secret", "previousSecret", "previousSecretUntil", "rotations"})


def published_endpoint(record: Mapping[str, object]) -> Record:
    """An endpoint as lists show it: without its secrets."""
    return {name: value for name, value in record.items() if name not in _INTERNAL}


def subscribes(endpoint: Mapping[str, object], kind: str) -> bool:
    """Whether an endpoint wants events of that kind, and its creator was allowed to read them.

    ``*`` is every kind, ``invoice.*`` every one of that family.
    """
    events, denied = endpoint["events"], endpoint.get("deniedEvents", [])
    wanted = set(_texts(events)) - set(_texts(denied))
    return not wanted.isdisjoint({"*", kind, f"{kind.partition('.')[0]}.*"})


def signing_secrets(endpoint: Mapping[str, str], now: datetime) -> tuple[str, ...]:
    """What signs deliveries to an endpoint: its secret, and for a while the one before it."""
    if is_rotating(endpoint, now):
        return endpoint["secret"], endpoint["previousSecret"]
    return (endpoint["secret"],)


def is_rotating(endpoint: Mapping[str, str], now: datetime) -> bool:
    """Whether the secret before the present one still signs."""
    until = endpoint.get("previousSecretUntil")
    return until is not None and now < parse_instant(until)


def rotated(endpoint: Mapping[str, object], seed: int, now: datetime) -> Record:
    """The endpoint with a new placeholder secret; the old one goes on signing for a day."""
    rotations = int(str(endpoint.get("rotations", 0))) + 1
    return {
        **endpoint,
        "secret": placeholder_secret(seed, f"{endpoint['id']}/{rotations}"),
        "previousSecret": endpoint["secret"],
        "previousSecretUntil": instant_text(now + BOTH_SIGN),
        "rotations": rotations,
    }


async def all_endpoints(state: Transaction, *conditions: Condition) -> list[Record]:
    """Every endpoint that meets the conditions, the oldest first."""
    return list(reversed((await state.page(ENDPOINTS, where=conditions)).records))


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
