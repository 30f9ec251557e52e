"""A scenario run in one call a step: make invoices, move the clock, read what came about.

What several test modules do with a sandbox is here once, and so is the invoice that they register.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

import httpx
import httpx2

from invoice_sandbox.base.clock import ClockState, instant_text, parse_duration, parse_instant
from invoice_sandbox.base.jsonio import dumps
from invoice_sandbox.project.api import EVENTS
from tests.support import FROZEN, PATIENCE, Running

START: Final = "2026-11-23T09:30:00Z"
"""Where the frozen clock of a new workspace stands."""

START_INSTANT: Final = parse_instant(START)

LIVE: Final = replace(FROZEN, clock=ClockState("live"))

JSON: Final = {"Content-Type": "application/json"}

INVOICE: Final[Mapping[str, Any]] = {
    "sellerId": "org_seller_acme",
    "debtorId": "org_debtor_globex",
    "invoiceNumber": "RUN-1",
    "amount": 10000,
    "currency": "EUR",
}
"""The body of an invoice: what is required, and nothing else."""

DATED: Final = {**INVOICE, "issueDate": "2026-11-03", "dueDate": "2027-01-22"}
"""With both dates, which most scenarios need."""

_NUMBERS: Final = itertools.count(1)

Client = httpx.Client | httpx2.Client
"""One of a test, or that of the plugin."""

Response = httpx.Response | httpx2.Response


def data(response: Response, status: int | None = None) -> Any:
    """The data of a response, which must have this status, or be a success."""
    right = response.is_success if status is None else response.status_code == status
    assert right, f"{response.status_code} {response.text}"
    return response.json()["data"]


def error(response: httpx.Response) -> tuple[int, str]:
    """Status and code of an error response."""
    return response.status_code, response.json()["error"]["code"]


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until something has come true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


# Clock, scenario, snapshots, workspaces


def clock(client: httpx.Client) -> Any:
    return data(client.get("/sandbox/clock"))


def now(client: httpx.Client) -> str:
    """Where the workspace's clock stands."""
    return str(clock(client)["now"])


def set_clock(client: httpx.Client, **body: Any) -> Any:
    return data(client.put("/sandbox/clock", json=body), 200)


def advance(client: httpx.Client, by: str | None = None, **body: Any) -> Any:
    """Move the clock: by a duration, or as ``body`` says."""
    body |= {} if by is None else {"by": by}
    return data(client.post("/sandbox/clock/advance", json=body), 200)


def happened(moved: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Time of day, action and outcome of each step of an advance."""
    return [(one["at"][11:-1], one["do"], one["outcome"]) for one in moved["happened"]]


def agenda(client: httpx.Client) -> Any:
    return data(client.get("/sandbox/agenda"))


def due(client: httpx.Client) -> list[tuple[str, str]]:
    """Time of day and action of each step of a scenario that is due later."""
    steps = agenda(client)["due"]
    return [(one["at"][11:-1], one["do"]) for one in steps if one["do"] != "pass-date"]


def choose(client: httpx.Client, name: str, invoice: Any = None, **conditions: Any) -> Any:
    """Choose a scenario: for the workspace, or for one invoice."""
    body: dict[str, Any] = {"name": name}
    body |= {} if invoice is None else {"invoiceId": _id(invoice)}
    body |= {"with": conditions} if conditions else {}
    return data(client.put("/sandbox/scenario", json=body), 200)


def replace_runs(client: httpx.Client, name: str) -> Any:
    """Choose a scenario for the workspace, and end the runs under way."""
    body = {"name": name, "endRuns": True}
    return data(client.put("/sandbox/scenario", json=body), 200)


def run_to_end(client: httpx.Client, most: int = 30) -> list[Any]:
    """Move the clock from step to step until nothing is due any more; the steps that were run.

    An invoice without an end waits for its due date, which is no step of the scenario."""
    done: list[Any] = []
    for _ in range(most):
        waiting = [one for one in agenda(client)["due"] if one["do"] != "pass-date"]
        if not waiting:
            return done
        done += advance(client, to=waiting[-1]["at"])["happened"]
    raise AssertionError(f"the scenario has not ended: {waiting}")


def skipped(done: list[Any]) -> list[str]:
    """The actions of the steps that were skipped, with their reasons."""
    return [f"{one['do']}: {one['reason']}" for one in done if one["outcome"] != "done"]


def snapshot(client: httpx.Client) -> str:
    """The id of a new snapshot."""
    return str(data(client.post("/sandbox/snapshots"), 201)["id"])


def restore(client: httpx.Client, snapshot_id: str) -> Any:
    return data(client.post(f"/sandbox/snapshots/{snapshot_id}/restore"), 200)


def make_workspace(client: httpx.Client, **options: Any) -> Any:
    return data(client.post("/sandbox/workspaces", json=options), 201)


@contextmanager
def in_scenario(running: Running, scenario: str, **options: Any) -> Iterator[httpx.Client]:
    """A client in a new workspace with this scenario."""
    with running.client() as first:
        made = make_workspace(first, scenario=scenario, **options)
    with running.client(made["key"]) as client:
        yield client


# Invoices. Where an invoice is asked for, its id will do.


def _id(invoice: Any) -> str:
    return str(invoice["id"] if isinstance(invoice, Mapping) else invoice)


def new_invoice(**members: Any) -> dict[str, Any]:
    """The body of an invoice that no other equals."""
    return {**INVOICE, "invoiceNumber": f"NEW-{next(_NUMBERS)}", **members}


def register(client: Client, scenario: str | None = None, **members: Any) -> Any:
    """The same invoice each time, with both dates, by a request that may name its scenario.

    An amount that is a Decimal is sent digit by digit."""
    headers = JSON if scenario is None else {**JSON, "X-Sandbox-Scenario": scenario}
    body = dumps({**DATED, **members})
    return data(client.post("/api/invoices", content=body, headers=headers), 201)


def verified(client: httpx.Client, **members: Any) -> Any:
    """The same invoice, as it was registered; then it passed its verification."""
    invoice = register(client, **members)
    assert run_verification(client, invoice)["status"] == "Verified"
    return invoice


def register_new(client: Client, **members: Any) -> str:
    """The id of a registered invoice that no other equals."""
    return str(data(client.post("/api/invoices", json=new_invoice(**members)), 201)["id"])


def move(client: httpx.Client, invoice: Any, *triggers: str) -> None:
    """Trigger transitions of an invoice, one after the other."""
    for trigger in triggers:
        data(transition(client, invoice, trigger), 200)


def transition(client: httpx.Client, invoice: Any, trigger: str) -> httpx.Response:
    """The response to one trigger."""
    return client.post(f"/sandbox/invoices/{_id(invoice)}/transition", json={"trigger": trigger})


def status(client: Client, invoice: Any) -> str:
    """The status of an invoice."""
    return str(data(client.get(f"/api/invoices/{_id(invoice)}"))["status"])


def fingerprint(client: httpx.Client, **members: Any) -> Any:
    """What the registry reports of an invoice that may not be in it yet."""
    body = {**DATED, **members}
    return data(client.post("/api/registry/fingerprint", json=body), 200)


def run_verification(client: httpx.Client, invoice: Any) -> Any:
    """The result of a verification run."""
    return data(client.post("/api/verification/run", json={"invoiceId": _id(invoice)}), 200)


def findings(verification: Any) -> dict[str, tuple[str, str | None]]:
    """State and detail of the items that neither passed nor do not apply, by their codes."""
    good = {"Passed", "NotApplicable"}
    rows = [one for one in verification["checklist"] if one["state"] not in good]
    return {one["code"]: (one["state"], one.get("detail")) for one in rows}


def offers(client: Client, invoice: Any) -> list[Any]:
    """The offers on an invoice, the first one first."""
    listed = data(client.get("/api/offers", params={"invoiceId": _id(invoice)}))
    return list(reversed(listed))


def financing_requests(client: httpx.Client, invoice: Any) -> list[Any]:
    """The financing requests for an invoice, the first one first."""
    listed = data(client.get("/api/financing-requests"))
    return [one for one in reversed(listed) if _id(invoice) in one["invoiceIds"]]


# Events


class Event(NamedTuple):
    """When, which type, and the status that what it is about has then."""

    at: str
    type: str
    status: str


def expected(table: str) -> list[Event]:
    """The events of a table, one a line: ``P1DT2S invoice.hold_released VerificationPending``.

    The time counts from START; an instant may stand there as well.
    """
    rows = (row.split() for row in table.splitlines() if row.strip())
    return [Event(_instant(at), type_, status) for at, type_, status in rows]


def _instant(text: str) -> str:
    from_start = text.startswith("P")
    return instant_text(START_INSTANT + parse_duration(text)) if from_start else text


def audited(client: httpx.Client, target_id: str) -> list[tuple[str, str]]:
    """Instant and action of the audit events about something, oldest first."""
    log = data(client.get("/api/audit-log", params={"targetId": target_id}))
    return [(one["occurredAt"], one["action"]) for one in reversed(log)]


def events_about(server: Running, client: httpx.Client, invoice: Any) -> list[Event]:
    """All events about an invoice and its financing requests, in order.

    The audit log must have the same moves of the invoice, at the same instants.
    """
    found = [
        Event(one["timestamp"], one["type"], one["data"]["status"])
        for one in recorded_events(server, client)
        if _id(invoice) in _subjects(one["data"])
    ]
    moves = iter(_audited_moves(client, invoice))
    move_ = next(moves, None)
    for index, one in enumerate(found):
        if move_ is not None and (move_.at, move_.type) == (one.at, one.type):
            found[index] = move_  # an event may be about an offer; the log has the invoice's status
            move_ = next(moves, None)
    assert move_ is None
    return found


def _subjects(about: Any) -> tuple[Any, ...]:
    return (about.get("id"), about.get("invoiceId"), *about.get("invoiceIds", ()))


def _audited_moves(client: httpx.Client, invoice: Any) -> list[Event]:
    log = data(client.get("/api/audit-log", params={"targetId": _id(invoice)}))
    return [
        Event(one["occurredAt"], one["action"], one["metadata"]["to"])
        for one in reversed(log)
        if "to" in one["metadata"]
    ]


def recorded_events(server: Running, client: httpx.Client) -> list[Any]:
    """Every event of the workspace, the first one first. No endpoint lists them, so the store is
    read."""
    return [one["payload"] for one in reversed(server.records(client, EVENTS))]
