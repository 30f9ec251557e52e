"""Scenarios run to their end: what tests do with a scenario, and how they write down what came."""

from __future__ import annotations

from typing import Any, NamedTuple

import httpx

from invoice_sandbox.base.clock import instant_text, parse_duration, parse_instant
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.project.api import EVENTS
from tests.support import FROZEN, Running

START = parse_instant("2026-11-21T09:30:00Z")
"""Where the clock of a new workspace stands."""

INVOICE = {
    "sellerId": "org_seller_acme",
    "debtorId": "org_debtor_globex",
    "invoiceNumber": "STORY-1",
    "amount": 10000,
    "currency": "EUR",
    "issueDate": "2026-11-01",
    "dueDate": "2027-01-20",
}
assert FROZEN.clock.mode == "frozen", "a story is told on a clock that only a test moves"


class Line(NamedTuple):
    """One event of a story: when, which kind, and the status that the event's thing has then."""

    at: str
    kind: str
    status: str


def lines(table: str) -> list[Line]:
    """What a table expects, one event a line: ``P1DT2S invoice.hold_released VerificationPending``.

    The time counts from START; an instant may stand there as well.
    """
    rows = (row.split() for row in table.splitlines() if row.strip())
    return [Line(_instant(at), kind, status) for at, kind, status in rows]


def _instant(text: str) -> str:
    return instant_text(START + parse_duration(text)) if text.startswith("P") else text


def choose(client: httpx.Client, name: str, invoice: Any = None, **conditions: Any) -> None:
    """Put a scenario in force: for the workspace, or for one invoice."""
    body: dict[str, Any] = {"name": name}
    body |= {} if invoice is None else {"invoiceId": invoice["id"]}
    body |= {"with": conditions} if conditions else {}
    answer = client.put("/sandbox/scenario", json=body)
    assert answer.status_code == 200, answer.text


def register(client: httpx.Client, scenario: str | None = None, **members: Any) -> Any:
    """A new invoice as it was registered, by a request that may name its scenario."""
    headers = {} if scenario is None else {"X-Sandbox-Scenario": scenario}
    answer = client.post("/api/invoices", json={**INVOICE, **members}, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


def advance(client: httpx.Client, by: str) -> list[Any]:
    """Let virtual time pass, and give what was done on the way."""
    answer = client.post("/sandbox/clock/advance", json={"by": by})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["data"]["happened"])


def play(client: httpx.Client, most: int = 30) -> list[Any]:
    """Move the clock from step to step until nothing is in store, and give what was done."""
    done: list[Any] = []
    for _ in range(most):
        due = client.get("/sandbox/agenda").json()["data"]["due"]
        if not due:
            return done
        answer = client.post("/sandbox/clock/advance", json={"to": due[-1]["at"]})
        assert answer.status_code == 200, answer.text
        done += answer.json()["data"]["happened"]
    raise AssertionError(f"the story is not over: {due}")


def skipped(done: list[Any]) -> list[str]:
    """The actions of the steps that were not done, with their reasons."""
    return [f"{one['do']}: {one['reason']}" for one in done if one["outcome"] != "done"]


def run_verification(client: httpx.Client, invoice: Any) -> Any:
    """The answer to a verification run."""
    answer = client.post("/api/verification/run", json={"invoiceId": invoice["id"]})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def findings(verification: Any) -> dict[str, tuple[str, str | None]]:
    """State and detail of the items that neither passed nor do not apply, by their codes."""
    good = {"Passed", "NotApplicable"}
    rows = [one for one in verification["checklist"] if one["state"] not in good]
    return {one["code"]: (one["state"], one.get("detail")) for one in rows}


def status(client: httpx.Client, invoice: Any) -> str:
    """The status of an invoice."""
    return str(client.get(f"/api/invoices/{invoice['id']}").json()["data"]["status"])


def fingerprint(client: httpx.Client, **members: Any) -> Any:
    """What the registry tells of an invoice that may not be in it yet."""
    answer = client.post("/api/registry/fingerprint", json={**INVOICE, **members})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def offers(client: httpx.Client, invoice: Any) -> list[Any]:
    """The offers on an invoice, the first one first."""
    listed = client.get("/api/offers", params={"invoiceId": invoice["id"]})
    return list(reversed(listed.json()["data"]))


def requests(client: httpx.Client, invoice: Any) -> list[Any]:
    """The financing requests for an invoice, the first one first."""
    listed = client.get("/api/financing-requests").json()["data"]
    return [one for one in reversed(listed) if invoice["id"] in one["invoiceIds"]]


def story(server: Running, client: httpx.Client, invoice: Any) -> list[Line]:
    """All events about an invoice and its financing requests, in order.

    The audit log must tell of the same moves of the invoice, at the same instants.
    """
    told = [
        Line(one["timestamp"], one["type"], one["data"]["status"])
        for one in _events(server, client)
        if invoice["id"] in _subjects(one["data"])
    ]
    audited = iter(_audited(client, invoice))
    line = next(audited, None)
    for index, one in enumerate(told):
        if line is not None and (line.at, line.kind) == (one.at, one.kind):
            told[index] = line  # what is told may be an offer; how the invoice stands is audited
            line = next(audited, None)
    assert line is None
    return told


def _subjects(data: Any) -> tuple[Any, ...]:
    return (data.get("id"), data.get("invoiceId"), *data.get("invoiceIds", ()))


def _audited(client: httpx.Client, invoice: Any) -> list[Line]:
    log = client.get("/api/audit-log", params={"targetId": invoice["id"]}).json()["data"]
    return [
        Line(one["occurredAt"], one["action"], one["metadata"]["to"])
        for one in reversed(log)
        if "to" in one["metadata"]
    ]


def _events(server: Running, client: httpx.Client) -> list[Any]:
    """Every event of the workspace, the first one first."""

    async def read() -> list[Any]:
        store = server.sandbox.engine.store
        key = client.headers["Authorization"].removeprefix("Bearer ")
        credential = await store.credential(key_digest(key))
        assert credential is not None
        async with store.transaction(credential.workspace_id) as state:
            page = await state.page(EVENTS, limit=100_000)
        return [one["payload"] for one in reversed(page.records)]

    return list(server.run(read()))
