"""The effect of an action of the console, in a sentence, with what its response shows only once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from invoice_sandbox.console.client import Received
from invoice_sandbox.console.common import client, contents, page_url
from invoice_sandbox.console.deliveries import diagnosis
from invoice_sandbox.webhooks.outbox import DELIVER

_REASONS: Final = 5
"""Different reasons of steps and deliveries that an effect lists."""

Tone = Literal["good", "warn", "bad"]


@dataclass(frozen=True)
class Effect:
    """The effect of a request. ``tone`` is ``warn`` if it was carried out and something failed,
    ``bad`` if it was rejected; ``reasons`` are those of what failed; ``problems`` those of the
    members of the body, by pointer; ``link`` is the page of what was created, ``undo`` the path
    that restores what was before."""

    tone: Tone
    text: str
    reasons: Sequence[str] = ()
    secrets: Mapping[str, str] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    link: str | None = None
    undo: str | None = None


def effect_of(method: str, path: str, received: Received) -> Effect:
    """The effect of a request, from its response."""
    if not received.is_success:
        text = received.problem or f"The response was {received.status}."
        return Effect("bad", text, problems=_problems(received))
    match received.data:
        case {"from": str(), "now": str(now), "happened": list(happened)} as data:
            return _of_advance(now, str(data["mode"]), data["from"], happened)
        case {"attempts": list()} as delivery:
            return _of_delivery(delivery)
        case {"webhookFired": True, "delivery": {"attempts": list()} as delivery}:
            return _of_delivery(delivery)
        case {"webhookFired": False}:
            return Effect("warn", "Nothing was sent: register an endpoint, or enable one.")
        case {"armed": str(armed), "next": str(following)}:
            return Effect("good", f"{armed} {following}")
        case {"name": str(name), "dropped": int(dropped), "continuing": int(continuing)}:
            return _of_scenario(name, dropped, continuing)
    return _of_any(method, path, received)


def _of_delivery(delivery: Mapping[str, Any]) -> Effect:
    tone: Tone = "good" if delivery["status"] == "Delivered" else "warn"
    return Effect(tone, diagnosis(delivery), link=page_url(f"/webhooks/{delivery['id']}"))


def _of_scenario(name: str, cancelled: int, continuing: int) -> Effect:
    sentences = [
        f"{name} is the scenario of every new record.",
        _counted("{} step was cancelled", "{} steps were cancelled", cancelled),
        _counted(
            "{} run goes on with another scenario", "{} runs go on with other scenarios", continuing
        ),
    ]
    return Effect("good", " ".join(filter(None, sentences)))


def _of_any(method: str, path: str, received: Received) -> Effect:
    """The effect of an operation that no other function knows: its summary, and what it
    made."""
    data = received.data if isinstance(received.data, Mapping) else {}
    name = data.get("id") or data.get("name") or ""
    text = f"{_summary(method, path)}: done. {name}".strip()
    return Effect("good", text, secrets=_secrets(data), link=_page_of(path, str(name)))


def _of_advance(now: str, mode: str, start: str, happened: Sequence[Mapping[str, Any]]) -> Effect:
    attempts = [entry for entry in happened if entry["do"] == DELIVER]
    steps = [entry for entry in happened if entry["do"] != DELIVER]
    done = Counter(entry["do"] for entry in steps if entry["outcome"] == "done")
    sentences = [
        f"Moved to {_time(now)}." if now != start else f"The clock is {mode} at {_time(now)}.",
        _counted("{} step ran", "{} steps ran", done.total(), done),
        _counted("{} step skipped", "{} steps skipped", _count(steps, "skipped")),
        _counted("{} step failed", "{} steps failed", _count(steps, "failed")),
        _counted("{} webhook delivered", "{} webhooks delivered", _count(attempts, "done")),
        _counted("{} delivery failed", "{} deliveries failed", _count(attempts, "failed")),
    ]
    if not happened and now != start:
        sentences.append("Nothing was due.")
    reasons = Counter(f"{entry['do']}: {entry['reason']}" for entry in happened if entry["reason"])
    lines = [f"{count} times {text}" for text, count in reasons.most_common(_REASONS)]
    tone: Tone = "warn" if _count(happened, "failed") else "good"
    return Effect(tone, " ".join(filter(None, sentences)), lines)


def _count(entries: Sequence[Mapping[str, Any]], outcome: str) -> int:
    return sum(entry["outcome"] == outcome for entry in entries)


def _counted(one: str, several: str, number: int, parts: Mapping[str, int] | None = None) -> str:
    """A sentence such as ``2 steps ran: 2 approve.``; empty for none."""
    if number == 0:
        return ""
    listed = ", ".join(f"{count} {name}" for name, count in (parts or {}).items())
    return f"{(one if number == 1 else several).format(number)}{f': {listed}' if listed else ''}."


def _time(instant: str) -> str:
    return instant.replace("T", " ").removesuffix("Z")


def _summary(method: str, path: str) -> str:
    """The summary of the operation at an address; the address where there is none."""
    bare = path.partition("?")[0]
    found = [address for address in contents().addresses.values() if address.fits(method, bare)]
    # of /webhooks/test and /webhooks/{id}, the one without a parameter
    best = min(found, key=lambda address: address.operation.path.count("{"), default=None)
    return f"{method} {path}" if best is None else str(best.declared.get("summary", best.label))


def _secrets(data: Mapping[str, Any]) -> dict[str, str]:
    """The members of a response that are secrets, which no later response shows."""
    is_secret = contents().engine.journal.redactor.is_secret_name
    return {name: text for name, text in data.items() if isinstance(text, str) and is_secret(name)}


def _page_of(path: str, record_id: str) -> str | None:
    """The page of a record that was created by a request to the path of its list."""
    for records in contents().records:
        if records.listed.path() == path and record_id:
            return page_url(f"/records/{records.name}/{record_id}")
    return None


def _problems(received: Received) -> dict[str, str]:
    """The reasons of a rejection by the pointer of the member, as the journal explains them."""
    request_id = received.headers.get("x-request-id", "")
    entries = client().get("/sandbox/requests", {"id": request_id}).rows if request_id else []
    return dict(_pointers(entries))


def _pointers(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        for problem in entry["why"].get("problems", ()):
            yield problem["pointer"], problem["problem"]
