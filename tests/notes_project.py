"""A small project for tests of scenarios: notes that are written, and bells that ring later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.scenario_run import data
from tests.support import CONVENTIONS

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
      parameters:
        - {name: limit, in: query, schema: {type: integer}}
        - {name: cursor, in: query, schema: {type: string}}
        - {name: words, in: query, explode: false, schema: {type: array, items: {type: string}}}
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


def write_note(call):
    note = {"id": call.new_id("note"), **call.body, "at": call.timestamp}
    call.state.put("notes", note["id"], note)
    call.emit(call.body.get("event", "note.written"), note)
    for word, after in call.body.get("later", {}).items():
        call.schedule("ring", timedelta(seconds=after), word=word)
    return note


def list_bells(call):
    return call.page("bells")
'''

_ACTIONS = '''
"""What happens to notes by itself."""

import time

from invoice_sandbox.project.api import reject, scenario_action


@scenario_action()
def ring(step, *, word: str = ""):
    _ring(step, word or step.arguments.get("word"))


@scenario_action()
def linger(step, *, word: str = ""):
    time.sleep(0.0005)  # so that others come in between
    _ring(step, word)


@scenario_action(events=("bell.rung",))
def echo(step, *, word: str = ""):
    _ring(step, word)
    step.emit("bell.rung", {"id": step.subject})


@scenario_action()
def mutter(step, *, word: str = ""):
    # As echo, without saying what it records.
    _ring(step, word)
    step.emit("bell.rung", {"id": step.subject})


@scenario_action()
def fail(step, *, word: str = ""):
    _ring(step, word)
    raise ValueError("on purpose")


@scenario_action()
def leave_out(step, *, word: str = ""):
    _ring(step, word)
    raise reject("conflict", problem="The note has moved on", advice="Leave it.")


def _ring(step, word):
    number = step.state.next_number("bell")
    bell = {"at": step.timestamp, "word": word}
    step.state.put("bells", str(number), bell)
'''


_HOOKS = '''
"""What is done when something has failed."""


def on_step_failed(step, action, reason):
    number = step.state.next_number("bell")
    bell = {"at": step.timestamp, "word": f"{action} failed"}
    step.state.put("bells", str(number), bell)
'''


def write_project(folder: Path, **scenarios: str) -> Path:
    """A project in ``folder``: notes are written and bells ring, when the scenarios define it.

    A scenario is a line for each of its steps, such as ``start PT1S ring one``.
    """
    files = {
        "openapi/openapi.yaml": _CONTRACT,
        "conventions.yaml": CONVENTIONS,
        "scenarios/lifecycle.yaml": _LIFECYCLE,
        "handlers/__init__.py": "",
        "handlers/notes.py": _HANDLERS,
        "domain/__init__.py": "",
        "domain/actions.py": _ACTIONS,
        "domain/hooks.py": _HOOKS,
        **{f"scenarios/{name}.yaml": _scenario(name, text) for name, text in scenarios.items()},
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def write_note(client: httpx.Client, **note: Any) -> Any:
    """A new note; ``later`` maps words to the seconds after which they ring."""
    return data(client.post("/notes", json=note), 201)


def bells(client: httpx.Client) -> list[tuple[str, str | None]]:
    """Time of day and word of every bell that rang, in that order."""
    rung = data(client.get("/bells"))
    return [(one["at"][11:-1], one["word"]) for one in reversed(rung)]


def _scenario(name: str, text: str) -> str:
    rows = [line.split() for line in text.strip().splitlines()]
    steps = "".join(
        f"  - {{'on': {on}, after: {after}, do: {do}, with: {{word: {' '.join(word)!r}}}}}\n"
        for on, after, do, *word in rows
    )
    return f"name: {name}\npurpose: For a test.\nsteps:\n{steps or '  []'}\n"
