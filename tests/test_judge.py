"""``acceptance judge``: the verdicts that follow from a recording alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace as changed
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.acceptance.reports import SCHEMA
from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.bundles.archive import read_bundle, write_bundle
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.cli import main
from invoice_sandbox.conformance.live import State, live_verdicts
from invoice_sandbox.conformance.observations import Attempt, Observations
from invoice_sandbox.conformance.plan import Plan
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.openapi.schema.file_schema import FileSchema
from tests.cases import in_turn
from tests.receivers import receiving, response
from tests.scenario_run import INVOICE
from tests.support import FROZEN, Running, serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    """A server whose clock follows the time of the test."""
    with serving(changed(FROZEN, clock=ClockState("live"), seed=None)) as server:
        yield server


def judge(*words: object) -> Result:
    """The result of ``acceptance judge``."""
    return CliRunner().invoke(main, ["acceptance", "judge", *map(str, words)])


def verdicts(result: Result) -> dict[str, str]:
    """The verdicts that are not inconclusive, by check."""
    found = [line for line in result.output.splitlines()[:-1] if not line.startswith(" ")]
    lines = [line.split(maxsplit=1) for line in found]
    return {rest.split(":")[0]: word for word, rest in lines if word != "INCONCLUSIVE"}


def conclusive(found: dict[str, str]) -> dict[str, str]:
    """Those that are not inconclusive."""
    return {check: word for check, word in found.items() if word != "INCONCLUSIVE"}


KINDS = {503: "status", 429: "error"}

Use = Callable[[Running, httpx.Client], None]


def fail(client: httpx.Client, count: int, status: int = 503, **members: object) -> None:
    fault = {"operation": "createInvoice", "kind": KINDS[status], "status": status, "count": count}
    assert client.post("/sandbox/faults", json={**fault, **members}).status_code == 201


def repeat(client: httpx.Client, server: Running, waits: list[float], *keys: str) -> None:
    """Send the invoice once for each key, after these waits."""
    for wait, key in zip(waits, keys, strict=True):
        server.system_clock.pass_seconds(wait)
        client.post("/api/invoices", json=INVOICE, headers={"Idempotency-Key": key})


def nothing(_: Running, client: httpx.Client) -> None:
    for number in range(3):  # three different invoices, each with a key of its own
        body = {**INVOICE, "invoiceNumber": f"N-{number}"}
        client.post("/api/invoices", json=body, headers={"Idempotency-Key": str(number)})


def well(server: Running, client: httpx.Client) -> None:
    fail(client, 3, retryAfter=None)
    repeat(client, server, [0, 1, 2, 4], *"aaaa")
    fail(client, 1, 429, retryAfter="PT2S")
    repeat(client, server, [0, 2.1], *"bb")


def new_key(server: Running, client: httpx.Client) -> None:
    fail(client, 1, retryAfter=None)
    repeat(client, server, [0, 1], *"ab")


def early(server: Running, client: httpx.Client) -> None:
    fail(client, 1, 429, retryAfter="PT5S")
    repeat(client, server, [0, 1], *"aa")


def no_backoff(server: Running, client: httpx.Client) -> None:
    fail(client, 4, retryAfter=None)
    repeat(client, server, [0, 1, 1, 1, 1], *"aaaaa")


def same_mistake(_: Running, client: httpx.Client) -> None:
    for _number in range(4):
        client.post("/api/invoices", json={"sellerId": "x"})


def one_key(_: Running, client: httpx.Client) -> None:
    for number in range(2):
        body = {**INVOICE, "invoiceNumber": f"N-{number}"}
        client.post("/api/invoices", json=body, headers={"Idempotency-Key": "a"})


EXPECTED: dict[Use, dict[str, str]] = {
    nothing: {},
    well: {"stable-keys": "PASS", "retry-after": "PASS"},
    new_key: {"stable-keys": "FAIL"},
    one_key: {"distinct-keys": "FAIL", "valid-requests": "FAIL", "rejected-once": "PASS"},
    early: {"stable-keys": "PASS", "retry-after": "FAIL"},
    no_backoff: {"stable-keys": "PASS", "growing-waits": "FAIL"},
    same_mistake: {
        "distinct-keys": "INCONCLUSIVE",
        "rejected-once": "FAIL",
        "valid-requests": "FAIL",
    },
}
EVERYBODY = {"distinct-keys": "PASS", "valid-requests": "PASS", "live-offers": "INCONCLUSIVE"}
"""Verdicts on every client that did something."""


@pytest.mark.parametrize(
    ("use", "expected"), EXPECTED.items(), ids=[one.__name__ for one in EXPECTED]
)
def test_a_recording_is_judged_by_what_it_has_examples_of(
    live: Running, tmp_path: Path, use: Use, expected: dict[str, str]
) -> None:
    key = live.new_workspace()
    with live.client(key) as client:
        use(live, client)
    save_bundle(ControlClient(live.url, key), tmp_path / "x.zip")
    result = judge(tmp_path / "x.zip")
    assert verdicts(result) == conclusive(EVERYBODY | expected)
    assert result.exit_code == 1  # what is inconclusive is not conformant
    if use is well:
        assert judge(tmp_path / "x.zip").output == result.output


def test_the_report_on_a_recording_shows_every_request_once(live: Running, tmp_path: Path) -> None:
    key = live.new_workspace()
    with live.client(key) as client:
        well(live, client)
        assert client.get("/api/partners").is_success  # proves nothing
    save_bundle(ControlClient(live.url, key), tmp_path / "x.zip")
    result = judge(tmp_path / "x.zip", "--out", tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    assert FileSchema.read(SCHEMA).problems(report) == []
    assert [one["id"] for one in report["checks"]] == [
        line.split()[1].strip(":") for line in result.output.splitlines()[:-1]
    ]
    page = (tmp_path / "report.html").read_text()
    ids = re.findall(r' id="([^"]+)"', page)
    assert {*re.findall(r'href="#([^"]+)"', page)} <= {*ids}
    entries = read_bundle(tmp_path / "x.zip").lines("journal.ndjson")
    journal = [one["requestId"] for one in entries if one["isListed"]]
    assert sorted(one for one in ids if one.startswith("req_")) == sorted(journal)


def test_waits_on_a_frozen_clock_are_inconclusive(live: Running, tmp_path: Path) -> None:
    key = live.new_workspace()
    with live.client(key) as client:
        client.put("/sandbox/clock", json={"mode": "frozen"})
        no_backoff(live, client)
    save_bundle(ControlClient(live.url, key), tmp_path / "x.zip")
    expected = EVERYBODY | {"stable-keys": "PASS"}
    assert verdicts(judge(tmp_path / "x.zip")) == conclusive(expected)


@pytest.mark.parametrize("accepts", [True, False])
def test_a_rejected_webhook_counts_between_accepted_ones(
    live: Running, tmp_path: Path, accepts: bool
) -> None:
    """A receiver that rejects everything rejects the forged ones, too. After each forged one comes
    a genuine one."""
    forged = ("bad-signature", "stale-timestamp", "changed-body")
    manners = [response(200), *(response(401), response(200)) * 3] if accepts else [response(401)]
    key = live.new_workspace()
    with live.client(key) as client, receiving(*manners) as receiver:
        client.post("/api/webhooks", json={"url": receiver.url, "events": ["*"]})
        client.put("/sandbox/scenario", json={"name": "manual"})
        event = {"type": "invoice.verified", "invoiceId": "inv_sandbox_0001"}
        client.post("/sandbox/events", json=event)
        client.post("/sandbox/clock/advance", json={"by": "PT1S"})
        (delivery,) = client.get("/api/webhooks").json()["data"]["deliveries"]
        for fault in forged if accepts else forged[:1]:
            client.post(f"/sandbox/deliveries/{delivery['id']}/replay", json={"fault": fault})
            client.post("/sandbox/clock/advance", json={"by": "PT1S"})
    save_bundle(ControlClient(live.url, key), tmp_path / "x.zip")
    found = verdicts(judge(tmp_path / "x.zip"))
    assert found["genuine-events"] == ("PASS" if accepts else "FAIL")
    assert found.get("forged-events") == ("PASS" if accepts else None)


def attempt(number: int, kind: str | None, status: int) -> Attempt:
    """An attempt at this second."""
    at = f"2026-11-21T09:30:{number:02}Z"
    return Attempt(f"dlv_{number}", 1, "order.paid", kind, status, None, at)


FORGED = attempt(5, "bad-signature", 401)
BEFORE, AFTER = attempt(1, None, 200), attempt(9, None, 200)


@in_turn(
    ("attempts", "state"),
    [
        ([BEFORE, FORGED, AFTER], State.KEPT),
        ([BEFORE, FORGED], State.NOT_SEEN),
        ([FORGED, AFTER], State.NOT_SEEN),
        ([FORGED], State.NOT_SEEN),
        ([BEFORE, AFTER], State.NOT_SEEN),
        ([attempt(5, "bad-signature", 200)], State.BROKEN),
    ],
)
def test_what_a_client_rejects_counts_only_while_it_accepts(
    attempts: list[Attempt], state: State
) -> None:
    rule = {"that": "-", "delivery": "*", "kind": "bad-signature", "response": "not-2xx"}
    plan = Plan("p", "P.", (), invariants={"forged": rule})
    (found,) = live_verdicts(plan, Observations((), attempts))
    assert found.state is state


def test_a_hostile_plan_ends_in_one_line(live: Running, tmp_path: Path) -> None:
    file, plan = tmp_path / "x.zip", tmp_path / "plan.yaml"
    save_bundle(ControlClient(live.url, live.new_workspace()), file)
    own = dict(read_bundle(file).parts)
    levels = "".join(
        f"a{one + 1}: &a{one + 1} [{', '.join([f'*a{one}'] * 9)}]\n" for one in range(9)
    )
    for text in ("!!python/object/apply:os.system [id]", "[" * 2_000, "\0", "a: *b"):
        plan.write_text(text)
        result = judge(file, "--plan", plan)
        assert result.exit_code == 2, text[:20]
        assert result.output.startswith("Error: ")
        assert len(result.output.splitlines()) == 1
    plan.write_bytes(b"\xff\xfe")
    assert judge(file, "--plan", plan).exit_code == 2
    bomb = f"a0: &a0 [x, x]\n{levels}".encode()
    write_bundle(file, {"cases": {}}, {**own, "run.json": b"{}", "plan.yaml": bomb})
    result = judge(file)
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)


@pytest.mark.parametrize("run", [b"{}", b"[]", b"null", b'{"checks": [{"id": "nobody"}]}', b"{"])
def test_a_malformed_run_ends_in_one_line(tmp_path: Path, run: bytes) -> None:
    file = tmp_path / "x.zip"
    case = "{task: {name: t}, rules: [{request: '*', atLeast: 1}]}"
    check = f"{{id: c, level: must, proves: P., specification: S, cases: [{case}]}}"
    plan = f"name: x\npurpose: A client.\nchecks: [{check}]\n".encode()
    parts = {"contract.json": b'{"info": {"version": "1"}}', "plan.yaml": plan, "run.json": run}
    write_bundle(file, {"cases": {}}, parts)
    result = judge(file)
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert "run" in result.output
