"""The control function of recordings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final

from invoice_sandbox import __version__
from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import ClockState, reading
from invoice_sandbox.control.acceptance import BUNDLES
from invoice_sandbox.runtime.agenda import STEPS_LOG
from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.runtime.journal import Input
from invoice_sandbox.runtime.recording import Secrets
from invoice_sandbox.runtime.workspaces import BEGINNING
from invoice_sandbox.state import OUTCOMES_LOG, USERS, Contents, Record, Snapshot
from invoice_sandbox.state.credentials import DEMO_KEY_DIGEST
from invoice_sandbox.webhooks.inbox import inbox_token
from invoice_sandbox.webhooks.outbox import DELIVERIES, published_delivery

_JOURNAL: Final = 1000
_INTERNAL: Final = frozenset({USERS, "api_key_digests", "inbox", BUNDLES})
"""Collections that hold nothing but what is secret, in the project, or a bundle itself."""


async def get_recording(call: ControlCall) -> Record:
    """Everything that reproduces the workspace, without secrets."""
    engine, workspace, clock = call.engine, call.workspace, call.engine.system_clock
    start = await engine.store.contents(workspace.id, BEGINNING)
    end = await engine.store.contents(workspace.id)
    recorded = await engine.journal.recorded(workspace.id)
    secrets = await _secrets(call, recorded.inputs)
    clean = engine.journal.redactor.redacted
    inputs = []
    for one in recorded.inputs:
        inputs.append(await _input(call, one, secrets))
        await asyncio.sleep(0)
    journal = await engine.journal.newest(workspace.id, lambda _: True, "", _JOURNAL)
    for place, entry in enumerate(journal.entries):
        journal.entries[place] = _cut(entry, secrets)
        await asyncio.sleep(0)
    outcomes = await engine.store.log(workspace.id, OUTCOMES_LOG)
    taken = next(one for one in await engine.store.snapshots(workspace.id) if one.id == BEGINNING)
    now = reading(clock)
    # The instant is read before the seconds, so each estimate is early by the time in between.
    readings = [now, *(reading for one in recorded.inputs for reading in one.readings)]
    epoch = max(one.now - timedelta(seconds=one.seconds) for one in readings)
    deliveries = (end.records or {}).get(DELIVERIES, ())
    found = {
        "version": __version__,
        "url": engine.url,
        "local": engine.local,
        "workspace": {"id": workspace.id, "seed": workspace.seed, "token": workspace.token},
        "hasDemoKey": DEMO_KEY_DIGEST in secrets.keys,
        "settings": dict(engine.conditions),
        "users": _users_of_file(call),
        "epoch": epoch.isoformat(),
        "created": _created(taken, epoch, inputs),
        "taken": now.seconds,
        "logged": end.logged.get(STEPS_LOG, 0),
        "isComplete": recorded.is_complete and not outcomes.dropped,
        "dropped": journal.dropped,
        "start": _shown(start, taken.clock, clean),
        "end": _shown(end, end.workspace.clock, clean),
        "scenarios": _scenarios(call, end),
        "inputs": inputs,
        "secrets": secrets.sources,
        "journal": journal.entries[::-1],
        "deliveries": [clean(published_delivery(one)) for one in deliveries],
        "outcomes": [clean(one) for one in outcomes.entries],
    }
    masked: Record = jsonio.loads(secrets.masked(jsonio.dumps(found).decode()).encode())
    return masked


async def _secrets(call: ControlCall, inputs: Sequence[Input]) -> Secrets:
    engine = call.engine
    async with engine.store.transaction(call.workspace.id) as state:
        inbox = await inbox_token(state)
    kept = await engine.store.snapshot_credentials(call.workspace.id, BEGINNING)
    keys = {one.digest for one in kept if one.type == "api_key"}
    users = engine.project.fixtures.get(USERS, ())
    public = {str(one["email"]): str(one["password"]) for one in users if "password" in one}
    passwords = {**public, **engine.passwords}
    if _users_of_file(call):
        passwords |= _valid_passwords({str(one["email"]) for one in users}, inputs)
    return Secrets(engine.journal.redactor, keys, passwords, inbox)


def _users_of_file(call: ControlCall) -> list[Record]:
    """The users of ``--users``, without their hashes: a replay gives them passwords of its own."""
    users = call.engine.project.fixtures.get(USERS, ())
    own = [one for one in users if "passwordHash" in one and not call.engine.passwords]
    return [{name: one[name] for name in one if name != "passwordHash"} for one in own]


def _valid_passwords(emails: Collection[str], inputs: Sequence[Input]) -> dict[str, str]:
    """The passwords with which users logged in, by e-mail address."""
    found = {}
    for one in inputs:
        content = one.entry.request_body.content
        if one.entry.status != HTTPStatus.OK or b"password" not in content:
            continue
        with suppress(jsonio.JsonError):
            body = jsonio.loads(content)
            email = str(body.get("email")).lower() if isinstance(body, dict) else ""
            if email in emails and isinstance(body.get("password"), str):
                found[email] = body["password"]
    return found


def _cut(entry: Record, secrets: Secrets) -> Record:
    shown = {name: secrets.shown(entry[name]) for name in ("request", "response")}
    return {**entry, **shown}


async def _input(call: ControlCall, one: Input, secrets: Secrets) -> Record:
    shown = call.engine.journal.redactor.shown(one.entry)
    request, response = secrets.sent(one), secrets.shown(shown["response"])
    body = one.response_body
    if "bodyBytes" in response and body.content:
        found = await asyncio.to_thread(secrets.digest, shown["operation"], body)
        response |= {} if found is None else {"bodyDigest": found}
    return {
        "number": one.number,
        "inJournal": one.in_journal,
        "requestId": shown["requestId"],
        "operation": shown["operation"],
        "at": shown["at"],
        "readings": [
            {"now": it.now.isoformat(), "seconds": it.seconds, "logged": it.logged}
            for it in one.readings
        ],
        "waits": [list(wait) for wait in one.waits],
        "ended": one.readings[0].seconds + one.entry.seconds,
        "hasWaitedForBody": one.has_waited_for_body,
        "client": one.client,
        "request": request,
        "status": shown["status"],
        "response": response,
    }


def _created(taken: Snapshot, epoch: datetime, inputs: list[Record]) -> float:
    """The monotonic second at which the workspace was created, or the first request came: before
    that, a frozen clock shows no difference."""
    if taken.clock.mode == "live":
        return (taken.taken_at - taken.clock.shift - epoch).total_seconds()
    return float(inputs[0]["readings"][0]["seconds"]) if inputs else 0.0


def _shown(contents: Contents, clock: ClockState, clean: Callable[[Any], Any]) -> Record:
    """What a workspace holds. Records without secrets; None: they are too many.

    Reading leaves empty collections, which are not shown: what only looks is not recorded.
    """
    records = {
        name: clean(records)
        for name, records in (contents.records or {}).items()
        if records and name not in _INTERNAL
    }
    return {
        "scenario": contents.workspace.scenario,
        "conditions": dict(contents.workspace.conditions),
        "clock": {
            "mode": clock.mode,
            "at": clock.at.isoformat(),
            "shift": clock.shift.total_seconds(),
        },
        "requests": contents.requests,
        "counters": dict(contents.numbers),
        "records": None if contents.records is None else records,
    }


def _scenarios(call: ControlCall, end: Contents) -> dict[str, Any]:
    """The files of the scenarios in use, as they were read."""
    names = {end.workspace.scenario, *end.workspace.named, call.engine.workspaces.scenario}
    known = call.engine.project.scenarios
    return {name: known[name].document for name in sorted(names) if name in known}
