"""Help for tests about time: the levers in one call each, and a small project with a story."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from invoice_sandbox.base.clock import ClockState
from tests.support import CONVENTIONS, FROZEN, Running

NOON = "2026-11-21T09:30:00Z"
"""Where a frozen clock begins."""

LIVE = replace(FROZEN, clock=ClockState("live"))

_NUMBERS = itertools.count(1)


def data(answer: httpx.Response, status: int | None = None) -> Any:
    """What an answer holds; it must have this status, or be a success."""
    right = answer.is_success if status is None else answer.status_code == status
    assert right, f"{answer.status_code} {answer.text}"
    return answer.json()["data"]


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a refusal."""
    return answer.status_code, answer.json()["error"]["code"]


# The levers


def clock(client: httpx.Client) -> Any:
    return data(client.get("/sandbox/clock"))


def now(client: httpx.Client) -> str:
    """Where the workspace's clock stands."""
    return str(clock(client)["now"])


def set_clock(client: httpx.Client, **body: Any) -> Any:
    return data(client.put("/sandbox/clock", json=body), 200)


def advance(client: httpx.Client, **body: Any) -> Any:
    return data(client.post("/sandbox/clock/advance", json=body), 200)


def happened(moved: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Time of day, action and outcome of each step of an advance."""
    return [(one["at"][11:-1], one["do"], one["outcome"]) for one in moved["happened"]]


def agenda(client: httpx.Client) -> Any:
    return data(client.get("/sandbox/agenda"))


def due(client: httpx.Client) -> list[tuple[str, str]]:
    """Time of day and action of each step in store."""
    return [(one["at"][11:-1], one["do"]) for one in agenda(client)["due"]]


def choose(client: httpx.Client, scenario: str) -> Any:
    return data(client.put("/sandbox/scenario", json={"name": scenario}), 200)


def snapshot(client: httpx.Client) -> str:
    """The id of a new snapshot."""
    return str(data(client.post("/sandbox/snapshots"), 201)["id"])


def restore(client: httpx.Client, snapshot_id: str) -> Any:
    return data(client.post(f"/sandbox/snapshots/{snapshot_id}/restore"), 200)


def make_workspace(client: httpx.Client, **wishes: Any) -> Any:
    return data(client.post("/sandbox/workspaces", json=wishes), 201)


def until(answer: Callable[[], bool], what: str) -> None:
    """Look again and again, for five seconds at most, whether something has come true."""
    deadline = time.monotonic() + 5
    while not answer():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


# Invoices

INVOICE = {
    "sellerId": "org_seller_acme",
    "debtorId": "org_debtor_globex",
    "amount": 10000,
    "currency": "EUR",
}


def invoice(**members: Any) -> dict[str, Any]:
    """The body of an invoice that no other equals."""
    return {**INVOICE, "invoiceNumber": f"TIME-{next(_NUMBERS)}", **members}


def register(client: httpx.Client, **members: Any) -> str:
    """The id of a new invoice."""
    return str(data(client.post("/api/invoices", json=invoice(**members)), 201)["id"])


def status_of(client: httpx.Client, invoice_id: str) -> str:
    return str(data(client.get(f"/api/invoices/{invoice_id}"))["status"])


def offers_on(client: httpx.Client, invoice_id: str) -> list[Any]:
    return list(data(client.get("/api/offers", params={"invoiceId": invoice_id})))


def pull(client: httpx.Client, invoice_id: str, *triggers: str) -> None:
    for trigger in triggers:
        path = f"/sandbox/invoices/{invoice_id}/transition"
        data(client.post(path, json={"trigger": trigger}), 200)


def told(client: httpx.Client, target_id: str) -> list[tuple[str, str]]:
    """Instant and action of the audit events about something, oldest first."""
    log = data(client.get("/api/audit-log", params={"targetId": target_id}))
    return [(one["occurredAt"], one["action"]) for one in reversed(log)]


# A project with a story of its own

_CONTRACT = """
openapi: 3.1.0
info: {title: Notes, version: "1"}
security: [{key: []}]
paths:
  /notes:
    post:
      operationId: writeNote
      requestBody:
        required: true
        content:
          application/json:
            schema: {type: object}
      responses:
        '201': {$ref: '#/components/responses/Some'}
  /bells:
    get:
      operationId: listBells
      responses:
        '200': {$ref: '#/components/responses/Some'}
components:
  securitySchemes:
    key: {type: http, scheme: bearer}
  responses:
    Some:
      description: What there is.
      content:
        application/json:
          schema: {type: object}
"""

_LIFECYCLE = """
machines:
  note:
    initial: Written
    created: note.written
    terminal: [Filed]
    transitions:
      - trigger: file
        from: [Written]
        to: Filed
        event: note.filed
        description: It is put away.
events:
  note.written: Somebody wrote a note.
  note.filed: A note was put away.
  bell.rung: A bell rang.
otherEvents: [bell.rung]
"""

_HANDLERS = '''
"""Notes that are written and bells that ring."""

from datetime import timedelta


async def write_note(call):
    note = {"id": await call.new_id("note"), **call.body, "at": call.timestamp}
    await call.state.put("notes", note["id"], note)
    await call.emit(call.body.get("event", "note.written"), note)
    for word, after in call.body.get("later", {}).items():
        await call.schedule("ring", timedelta(seconds=after), word=word)
    return note


async def list_bells(call):
    return await call.page("bells")
'''

_ACTIONS = '''
"""What happens to notes by itself."""

import asyncio

from invoice_sandbox.project.api import reject, scenario_action


@scenario_action()
async def ring(step, *, word: str = ""):
    await _ring(step, word or step.arguments.get("word"))


@scenario_action()
async def linger(step, *, word: str = ""):
    await asyncio.sleep(0.002)
    await _ring(step, word)


@scenario_action(events=("bell.rung",))
async def echo(step, *, word: str = ""):
    await _ring(step, word)
    await step.emit("bell.rung", {"id": step.subject})


@scenario_action()
async def mutter(step, *, word: str = ""):
    # As echo, without saying what it records.
    await _ring(step, word)
    await step.emit("bell.rung", {"id": step.subject})


@scenario_action()
async def fail(step, *, word: str = ""):
    await _ring(step, word)
    raise ValueError("on purpose")


@scenario_action()
async def leave_out(step, *, word: str = ""):
    await _ring(step, word)
    raise reject("conflict", problem="The note has moved on", advice="Leave it.")


async def _ring(step, word):
    number = await step.state.next_number("bell")
    bell = {"at": step.timestamp, "word": word}
    await step.state.put("bells", str(number), bell)
'''


def write_project(folder: Path, **stories: str) -> Path:
    """A project in ``folder``: notes are written, bells ring, and each story says when.

    A story is a line for each of its steps, such as ``start PT1S ring one``.
    """
    files = {
        "openapi/openapi.yaml": _CONTRACT,
        "conventions.yaml": CONVENTIONS,
        "scenarios/lifecycle.yaml": _LIFECYCLE,
        "handlers/__init__.py": "",
        "handlers/notes.py": _HANDLERS,
        "domain/__init__.py": "",
        "domain/actions.py": _ACTIONS,
        **{f"scenarios/{name}.yaml": _story(name, text) for name, text in stories.items()},
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@contextmanager
def telling(running: Running, story: str, **wishes: Any) -> Iterator[httpx.Client]:
    """A client in a new workspace in which ``story`` is told."""
    with running.client() as first:
        made = make_workspace(first, scenario=story, **wishes)
    with running.client(made["key"]) as client:
        yield client


def write(client: httpx.Client, **note: Any) -> Any:
    """A new note; ``later`` says which words ring after how many seconds."""
    return data(client.post("/notes", json=note), 201)


def bells(client: httpx.Client) -> list[tuple[str, str | None]]:
    """Time of day and word of every bell that rang, in that order."""
    rung = data(client.get("/bells"))
    return [(one["at"][11:-1], one["word"]) for one in reversed(rung)]


def _story(name: str, text: str) -> str:
    rows = [line.split() for line in text.strip().splitlines()]
    steps = "".join(
        f"  - {{'on': {on}, after: {after}, do: {do}, with: {{word: {' '.join(word)!r}}}}}\n"
        for on, after, do, *word in rows
    )
    return f"name: {name}\npurpose: For a test.\nsteps:\n{steps or '  []'}\n"
