"""Webhook endpoints: their subscriptions and signing secrets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from invoice_sandbox.base.clock import instant_text, parse_instant
from invoice_sandbox.state import Condition, Record, Transaction, check_limit
from invoice_sandbox.webhooks.signing import placeholder_secret

ENDPOINTS: Final = "webhook_endpoints"
"""The collection of endpoints, by id."""

MAX_ENDPOINTS: Final = 100
"""Endpoints of a workspace."""

ENABLED: Final = "Enabled"
DISABLED: Final = "Disabled"

BOTH_SIGN: Final = timedelta(hours=24)
"""Virtual time after a rotation in which the old secret signs as well."""

_INTERNAL: Final = frozenset({"secret", "previousSecret", "previousSecretUntil", "rotations"})


def check_endpoints(state: Transaction) -> None:
    """Raise ApiError 429 if there may be no further endpoint."""
    check_limit("webhook endpoints", MAX_ENDPOINTS, state.count(ENDPOINTS))


def published_endpoint(record: Mapping[str, object]) -> Record:
    """An endpoint as lists show it, without its secrets."""
    return {name: value for name, value in record.items() if name not in _INTERNAL}


def subscribes(endpoint: Record, event_type: str) -> bool:
    """True if an endpoint subscribes to the event type, and its creator may read such events.

    ``*`` matches every type, ``order.*`` every type with that prefix.
    """
    wanted = set(endpoint["events"]) - set(endpoint.get("deniedEvents", []))
    return not wanted.isdisjoint({"*", event_type, f"{event_type.partition('.')[0]}.*"})


def signing_secrets(endpoint: Mapping[str, str], now: datetime) -> tuple[str, ...]:
    """The secrets that sign deliveries: the present one, and after a rotation the old one."""
    if is_rotating(endpoint, now):
        return endpoint["secret"], endpoint["previousSecret"]
    return (endpoint["secret"],)


def is_rotating(endpoint: Mapping[str, str], now: datetime) -> bool:
    """True if the old secret still signs."""
    until = endpoint.get("previousSecretUntil")
    return until is not None and now < parse_instant(until)


def rotated(endpoint: Mapping[str, object], seed: str, now: datetime) -> Record:
    """The endpoint with a new placeholder secret; the old one signs for another day."""
    rotations = int(str(endpoint.get("rotations", 0))) + 1
    return {
        **endpoint,
        "secret": placeholder_secret(seed, f"{endpoint['id']}/{rotations}"),
        "previousSecret": endpoint["secret"],
        "previousSecretUntil": instant_text(now + BOTH_SIGN),
        "rotations": rotations,
    }


def all_endpoints(state: Transaction, *conditions: Condition) -> list[Record]:
    """Every endpoint that meets the conditions, oldest first."""
    return list(state.page(ENDPOINTS, where=conditions, oldest_first=True).records)
