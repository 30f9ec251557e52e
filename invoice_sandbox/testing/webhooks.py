"""The webhooks in the inbox of a workspace, for a test to expect."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.control.client import ControlClient, SandboxError

__tracebackhide__ = True  # a failed test shows the line that it is about

Event = dict[str, Any]

_MAX_EVENTS: Final = 1000
_PAUSE: Final = 0.05
_EVERYTHING: Final = "*"
_NEVER_RECORDED: Final = (
    "Nothing is due, and no such event was recorded: "
    "emit() in a handler, a step of a scenario or 'invoice-sandbox trigger' records one."
)


class NotReceivedError(AssertionError):
    """An expected event did not arrive; the message lists the events that did."""


class Webhooks:
    """The messages in the inbox of a workspace. The inbox is an endpoint for all events."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control
        self._expected: set[str] = set()

    def __repr__(self) -> str:
        return f"Webhooks({self._control.url!r})"

    @property
    def url(self) -> str:
        """The URL of the inbox."""
        return str(self._control.ask("GET", "/inbox")["url"])

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Every message of the inbox, verified or not, oldest first."""
        self._control.ask("POST", "/clock/advance", {"by": "PT0S"})  # makes all due deliveries
        return list(reversed(self._control.ask("GET", "/inbox")["messages"]))

    @property
    def received(self) -> list[Event]:
        """The verified events without duplicates, oldest first.

        A body without ``id``, ``type`` and ``data`` is the ``data`` of the event that it is about.
        """
        return self._events(self.messages)

    def _events(self, messages: list[dict[str, Any]]) -> list[Event]:
        fresh = [
            message for message in messages if message["verified"] and not message["duplicate"]
        ]
        events = [_event(message, {}) for message in fresh]
        if all(event["type"] for event in events):
            return events
        types = self._types()
        return [_event(message, types) for message in fresh]

    def _types(self) -> dict[str, str]:
        """The types of the recorded events, by the id of their deliveries."""
        recorded = self._control.ask("GET", f"/event-log?limit={_MAX_EVENTS}")
        return {event["id"]: event["type"] for event in recorded}

    def expect(self, event_type: str, *, timeout: float = 5, **members: Any) -> Event:
        """The first event of that type that was not expected before.

        ``members`` are members of its ``data``. Deliveries that are due are made first. On a
        frozen clock that is all; on a live clock it waits for at most ``timeout`` seconds. Raises
        NotReceivedError.
        """
        looks = 1 if self._clock()["mode"] == "frozen" else max(1, round(timeout / _PAUSE))
        messages: list[dict[str, Any]] = []
        for look in range(looks):
            if look:
                threading.Event().wait(_PAUSE)
            messages = self.messages
            for event in self._events(messages):
                if event["id"] not in self._expected and _fits(event, event_type, members):
                    self._expected.add(event["id"])
                    return event
        raise NotReceivedError(self._problem(event_type, members, messages))

    def to(self, url: str, events: str | list[str] = _EVERYTHING) -> dict[str, Any]:
        """Deliver events to a receiver of your own too. Returns the endpoint with its ``secret``.

        Raises SandboxError for a URL that cannot be called.
        """
        wanted = [events] if isinstance(events, str) else events
        body = {"url": url, "events": wanted}
        reply = self._control.whole("POST", self._control.registration_path(), body)
        endpoint = reply.get("data", reply)
        if endpoint.get("status", "Enabled") != "Enabled":
            raise SandboxError(f"{url} cannot be called: {endpoint.get('disabledReason')}")
        return dict(endpoint)

    def forget(self) -> None:
        """Let ``expect`` return events again that it has returned."""
        self._expected.clear()

    def _clock(self) -> dict[str, Any]:
        return dict(self._control.ask("GET", "/clock"))

    def _problem(
        self, event_type: str, members: Mapping[str, Any], messages: list[dict[str, Any]]
    ) -> str:
        wanted = ", ".join(f"{name}={value!r}" for name, value in members.items())
        lines = [f"{event_type} did not arrive" + (f" with {wanted}" if wanted else "")]
        recorded = self._control.ask("GET", f"/event-log?limit={_MAX_EVENTS}")
        same = [event for event in recorded if event["type"] == event_type]
        reason = self._reason(event_type, same)
        lines += [reason, "Received:"]
        types = {event["id"]: event["type"] for event in recorded}
        shown = [_line(message, types, self._expected, members) for message in messages]
        lines += [f"  {line}" for line in shown] or ["  nothing"]
        due = self._clock()["nextDue"]
        if due:
            lines.append(f"The next step is due at {due}; advance the clock.")
        else:
            lines.append("Nothing is due." if reason or same else _NEVER_RECORDED)
        return "\n".join(line for line in lines if line)

    def _reason(self, event_type: str, recorded: list[dict[str, Any]]) -> str:
        """Return why no event of this type can have arrived, if that is known."""
        if any(not event["deliveries"] for event in recorded):
            text = f"{event_type} was recorded, but no endpoint is registered for it"
            if self._control.project.register is None:
                text += "; 'webhooks' of conventions.yaml does not name the operation for the inbox"
            return f"{text}."
        known = self._control.event_types()
        if not known:
            return "The contract declares no webhook events."
        advice = suggestion(event_type, known, where=self._control.lists_events)
        return "" if event_type in known else f"The contract has no event of this type; {advice}"


def _event(message: Mapping[str, Any], types: Mapping[str, str]) -> Event:
    """Return the event that the body is, if it has an id, a type and data, else an event with the
    body as data, of the type that was recorded for the delivery."""
    try:
        body = json.loads(message["body"])
    except ValueError:
        body = None
    match body:
        case {"id": str(), "type": str(), "data": dict()}:
            return dict(body)
    event_id = message["headers"].get("webhook-id", "")
    return {"id": event_id, "type": types.get(event_id), "data": body}


def _fits(event: Event, event_type: str, members: Mapping[str, Any]) -> bool:
    data = event.get("data")
    if event.get("type") != event_type or not isinstance(data, dict):
        return False
    return all(name in data and data[name] == value for name, value in members.items())


def _line(
    message: Mapping[str, Any], types: Mapping[str, str], expected: set[str], wanted: Iterable[str]
) -> str:
    """A message with the ``wanted`` members of its data."""
    event = _event(message, types)
    named = "not an event"
    if event["type"] is not None and isinstance(event["data"], dict):
        had = [f"{name}={event['data'][name]!r}" for name in wanted if name in event["data"]]
        named = " ".join([event["type"], event["id"], *had])
    notes = []
    if not message["verified"]:
        notes.append(f"not verified: {message['problem']}")
    if message["duplicate"]:
        notes.append("duplicate")
    elif event["id"] in expected:
        notes.append("expected before")
    return f"{message['receivedAt']} {named}" + (f" ({', '.join(notes)})" if notes else "")
