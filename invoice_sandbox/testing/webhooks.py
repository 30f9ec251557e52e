"""The webhooks that a workspace's own inbox received, for a test to expect."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from invoice_sandbox.control.client import ControlClient, SandboxError

Event = dict[str, Any]

_PAUSE: Final = 0.05
_EVERYTHING: Final = "*"


class NotReceivedError(AssertionError):
    """An expected event did not arrive; the message tells what did."""


class Webhooks:
    """What was delivered to the inbox of a workspace. The inbox is an endpoint for all events."""

    def __init__(self, levers: ControlClient) -> None:
        self._levers = levers
        self._expected: set[str] = set()

    def __repr__(self) -> str:
        return f"Webhooks({self._levers.url!r})"

    @property
    def url(self) -> str:
        """Where the inbox receives."""
        return str(self._levers.ask("GET", "/inbox")["url"])

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Every message of the inbox as it came, genuine or not, the first one first."""
        self._settle()
        return list(reversed(self._levers.ask("GET", "/inbox")["messages"]))

    @property
    def received(self) -> list[Event]:
        """The events that were verified, each once, the first one first."""
        return _genuine(self.messages)

    def expect(self, kind: str, *, timeout: float = 5, **members: Any) -> Event:
        """The first event of that kind that was not expected before.

        ``members`` are those of its ``data``. All that is due now is delivered first. On a frozen
        clock there is nothing to wait for then; on a live one ``timeout`` is waited at most, in
        seconds. Raises NotReceivedError.
        """
        __tracebackhide__ = True
        looks = 1 if self._clock()["mode"] == "frozen" else max(1, round(timeout / _PAUSE))
        messages: list[dict[str, Any]] = []
        for look in range(looks):
            if look:
                threading.Event().wait(_PAUSE)
            messages = self.messages
            for event in _genuine(messages):
                if event["id"] not in self._expected and _fits(event, kind, members):
                    self._expected.add(event["id"])
                    return event
        raise NotReceivedError(self._told(kind, members, messages))

    def to(self, url: str, events: str | list[str] = _EVERYTHING) -> dict[str, Any]:
        """Have events delivered to a receiver of your own too. Its ``secret`` is in the answer.

        An endpoint that cannot be called raises SandboxError.
        """
        wanted = [events] if isinstance(events, str) else events
        endpoint = self._levers.ask(
            "POST", "/webhooks", {"url": url, "events": wanted}, below="/api"
        )
        if endpoint["status"] != "Enabled":
            raise SandboxError(f"{url} cannot be called: {endpoint.get('disabledReason')}")
        return dict(endpoint)

    def forget(self) -> None:
        """Let events that were expected before be expected again."""
        self._expected.clear()

    def _clock(self) -> dict[str, Any]:
        return dict(self._levers.ask("GET", "/clock"))

    def _settle(self) -> None:
        """Return when all that is due now has been delivered."""
        self._levers.ask("POST", "/clock/advance", {"by": "PT0S"})

    def _told(self, kind: str, members: Mapping[str, Any], messages: list[dict[str, Any]]) -> str:
        wanted = ", ".join(f"{name}={value!r}" for name, value in members.items())
        lines = [f"{kind} did not arrive" + (f" with {wanted}" if wanted else "")]
        lines += [self._near(kind), "What did arrive:"]
        lines += [f"  {_line(one, self._expected)}" for one in messages] or ["  nothing"]
        due = self._clock()["nextDue"]
        lines.append(f"Next is due at {due}: advance the clock." if due else "Nothing more is due.")
        return "\n".join(line for line in lines if line)

    def _near(self, kind: str) -> str:
        nobody = ControlClient(self._levers.url, None)  # whose requests are in no journal
        known = nobody.answer("GET", "/openapi.json").get("webhooks", {})
        if kind in known:
            return ""
        near = ", ".join(get_close_matches(kind, known, n=3) or sorted(known))
        return f"The contract has no such event. Near: {near}"


def _genuine(messages: list[dict[str, Any]]) -> list[Event]:
    fresh = (one for one in messages if one["verified"] and not one["duplicate"])
    return [json.loads(one["body"]) for one in fresh]


def _fits(event: Event, kind: str, members: Mapping[str, Any]) -> bool:
    data = event.get("data")
    if event.get("type") != kind or not isinstance(data, dict):
        return False
    return all(name in data and data[name] == value for name, value in members.items())


def _line(message: Mapping[str, Any], expected: set[str]) -> str:
    try:
        event = json.loads(message["body"])
        named = f"{event['type']} {event['id']}"
    except (ValueError, LookupError, TypeError):
        event, named = {}, "something that is no event"
    notes = []
    if not message["verified"]:
        notes.append(f"not verified: {message['problem']}")
    if message["duplicate"]:
        notes.append("a duplicate")
    elif event.get("id") in expected:
        notes.append("expected before")
    return f"{message['receivedAt']} {named}" + (f" ({', '.join(notes)})" if notes else "")
