"""A replay sends the requests of a bundle to a new workspace, and prints every difference."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.base.errors import UserError
from invoice_sandbox.bundles.archive import Bundle, BundleError, read_bundle, write_bundle
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.cli import main
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.replay import LIVE, Served, replay
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.receivers import raw, receiving, reset, response
from tests.scenario_run import INVOICE, until
from tests.support import FROZEN, serving
from tests.test_bundles import use

pytestmark = pytest.mark.slow

JSON = {"Content-Type": "application/json"}
SENDING = changed(FROZEN, scenario="auto-progress", seed=5, rate_limit=120)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a workspace with every kind of secret, faults, a receiver that fails first, and
    keys that are revoked."""
    file = tmp_path_factory.mktemp("replay") / "bug.zip"
    manners = [response(503, retry_after="120"), reset, raw(b"nothing"), response(200, b"thanks")]
    with (
        serving(SENDING, real_time=True) as server,
        server.client() as client,
        receiving(*manners) as receiver,
    ):
        use(server, DEMO_KEY)
        client.post("/api/webhooks", json={"url": receiver.url, "events": ["invoice.*"]})
        for fault in (
            {"kind": "reset", "when": "after", "operation": "createInvoice"},
            {"kind": "status", "status": 503, "operation": "createInvoice", "probability": 0.5},
            {"kind": "latency", "delay": "PT0.2S", "operation": "listInvoices"},
            {"kind": "truncate", "operation": "getInvoice"},
            {"kind": "drip", "delay": "PT0.2S", "operation": "listOffers"},
        ):
            assert client.post("/sandbox/faults", json=fault).status_code == 201
        for number in range(4):
            body = {**INVOICE, "invoiceNumber": f"REP-{number}"}
            headers = {"Idempotency-Key": f"key-{number // 2}"}
            with suppress(httpx.TransportError):  # the connection is reset once
                client.post("/api/invoices", json=body, headers=headers)
        client.post("/sandbox/clock/advance", json={"by": "PT1H"})
        made = client.post("/api/developer/api-keys", json={"name": "gone"}).json()["data"]
        client.delete(f"/api/developer/api-keys?id={made['id']}")
        client.get("/api/invoices", headers={"Authorization": f"Bearer {made['secret']}"})
        client.get("/api/invoices", headers={"Authorization": "Basic dXNlcjpwYXNz"})
        with server.client(None) as browser:
            login = {"email": "seller@demo.example", "password": "demo-password"}
            browser.post("/api/auth/login", json=login)
            assert browser.get("/api/auth/session").status_code == 200
            assert browser.get("/api/health").status_code == 200
            browser.post("/api/auth/logout", json={})
        snapshot = client.post("/sandbox/snapshots").json()["data"]["id"]
        client.post("/api/connectors/erp/invoices", content=b"{not json", headers=JSON)
        client.post(f"/sandbox/snapshots/{snapshot}/restore", json={})
        client.post("/sandbox/reset", json={})
        client.post("/api/invoices", json=INVOICE, headers={"Prefer": "code=409"})
        client.post("/sandbox/clock/advance", json={"by": "P40D"})
        assert client.get("/api/invoices").json()["data"]
        save_bundle(ControlClient(server.url, DEMO_KEY), file)
    return file


def test_the_same_requests_give_the_same_bytes(recorded: Path) -> None:
    replayed = replay(read_bundle(recorded))
    assert replayed.differences == ()
    assert replayed.requests > 25
    assert replayed.notes == ()


def edited(file: Path, target: Path, edit: Callable[[dict[str, bytes]], None]) -> Bundle:
    """The bundle with changed parts."""
    bundle = read_bundle(file)
    parts = dict(bundle.parts)
    edit(parts)
    about = {name: value for name, value in bundle.manifest.items() if name != "parts"}
    write_bundle(target, about, parts)
    return read_bundle(target)


def changed_lines(
    parts: dict[str, bytes], name: str, change: Callable[[dict[str, Any]], None]
) -> None:
    """Change every line of a part."""
    lines = [json.loads(line) for line in parts[name].splitlines()]
    for line in lines:
        change(line)
    parts[name] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_a_replay_names_every_member_that_differs(recorded: Path, tmp_path: Path) -> None:
    def change(entry: dict[str, Any]) -> None:
        body = entry["response"]["body"]
        for header in entry["response"]["headers"]:
            header[1] = re.sub(";t=[0-9]+$", ";t=99", header[1])  # real time is not compared
        if entry["operation"] == "createInvoice" and entry["status"] == 201:
            entry["response"]["body"] = body.replace('"Registered"', '"Draft"')
            entry["response"]["headers"].append(["x-more", "1"])
        if entry["operation"] == "logout":
            entry["response"]["body"] = body.replace(":", ": ")

    def edit(parts: dict[str, bytes]) -> None:
        changed_lines(parts, "journal.ndjson", change)
        end = json.loads(parts["end.json"])
        end["records"]["invoices"][-1]["amount"] = 1
        parts["end.json"] = json.dumps(end).encode()

    found = replay(edited(recorded, tmp_path / "x.zip", edit)).differences
    assert [(one.request, one.member, one.expected, one.actual) for one in found[:4]] == [
        ("4 (POST /api/invoices)", "/headers/x-more", '"1"', "missing"),
        ("4 (POST /api/invoices)", "/body/data/status", '"Draft"', '"Registered"'),
        ("17 (POST /api/invoices)", "/headers/x-more", '"1"', "missing"),
        ("17 (POST /api/invoices)", "/body/data/status", '"Draft"', '"Registered"'),
    ]
    assert [(one.request, one.member.rpartition("/")[2]) for one in found[4:]] == [
        ("26 (POST /api/auth/logout)", "body"),  # only its spaces differ
        (None, "amount"),
    ]


def test_a_replay_opens_no_connection(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even to receivers whose responses are not in the bundle."""
    tried: list[Any] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: tried.append(address))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *where, **_: tried.append(where))

    def edit(parts: dict[str, bytes]) -> None:
        parts["outcomes.ndjson"] = b""

    found = replay(edited(recorded, tmp_path / "x.zip", edit)).differences
    assert '"no_connection"' in [one.actual for one in found]
    assert tried == []


def test_the_command_prints_same_or_every_difference(recorded: Path, tmp_path: Path) -> None:
    same = CliRunner().invoke(main, ["replay", str(recorded)])
    assert same.exit_code == 0
    assert same.output == f"{recorded}: same: 33 requests and what they left\n"
    (tmp_path / "no.zip").write_bytes(b"no")
    unusable = CliRunner().invoke(main, ["replay", str(tmp_path / "no.zip")])
    assert unusable.exit_code == 2
    assert "not a bundle" in unusable.output

    def edit(parts: dict[str, bytes]) -> None:
        parts["journal.ndjson"] = parts["journal.ndjson"].replace(b'"status": 503', b'"status": 7')

    edited(recorded, tmp_path / "x.zip", edit)
    other = CliRunner().invoke(main, ["replay", str(tmp_path / "x.zip")])
    assert other.exit_code == 1
    assert other.output.splitlines() == [
        "request 16 (POST /api/invoices)",
        "  /status: expected 7, actual 503",
        f"{tmp_path / 'x.zip'}: 1 differences in 33 requests and what they left",
    ]


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("recording.json", b'"settings"', b'"other"'),
        ("recording.json", b'"seed": 5', b'"seed": "five"'),
        ("journal.ndjson", b'"receivedAt"', b'"left"'),
        ("journal.ndjson", b'"headers": [[', b'"headers": [[[]],['),
        ("start.json", b'"mode": "frozen"', b'"mode": "odd"'),
        ("outcomes.ndjson", b'"webhookId"', b'"id"'),
        ("end.json", b"{", b"["),
    ],
)
def test_a_malformed_recording_ends_in_one_line(
    recorded: Path, tmp_path: Path, part: str, old: bytes, new: bytes
) -> None:
    def edit(parts: dict[str, bytes]) -> None:
        assert old in parts[part]
        parts[part] = parts[part].replace(old, new)

    with pytest.raises(UserError) as raised:
        replay(edited(recorded, tmp_path / "x.zip", edit))
    assert "\n" not in str(raised.value)


def test_a_bundle_without_its_beginning_is_not_replayed(recorded: Path, tmp_path: Path) -> None:
    bundle = read_bundle(recorded)
    about = {"replayable": False, "reason": "its beginning is gone"}
    write_bundle(tmp_path / "x.zip", about, bundle.parts)
    with pytest.raises(BundleError, match="cannot be replayed: its beginning is gone"):
        replay(read_bundle(tmp_path / "x.zip"))


def test_on_a_live_clock_a_replay_compares_all_but_times(tmp_path: Path) -> None:
    """A scenario goes on between two requests, and an attempt is repeated."""
    settings = changed(SENDING, clock=ClockState("live"), rate_limit=None)
    with (
        serving(settings, real_time=True) as server,
        server.client() as client,
        receiving(response(503), response(200)) as receiver,
    ):
        client.post("/api/webhooks", json={"url": receiver.url, "events": ["invoice.*"]})
        made = client.post("/api/invoices", json=INVOICE).json()["data"]
        until(
            lambda: (
                client.get(f"/api/invoices/{made['id']}").json()["data"]["status"] != "Registered"
            ),
            "time passes",
        )
        client.post("/sandbox/clock/advance", json={"by": "PT10S"})
        assert client.get(f"/api/invoices/{made['id']}").json()["data"]["status"] == "Offered"
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "live.zip")
    replayed = replay(read_bundle(tmp_path / "live.zip"))
    assert (replayed.differences, replayed.notes) == ((), (LIVE,))

    def edit(parts: dict[str, bytes]) -> None:
        parts["journal.ndjson"] = parts["journal.ndjson"].replace(b"Offered", b"Draft")

    found = replay(edited(tmp_path / "live.zip", tmp_path / "x.zip", edit)).differences
    assert [one.actual for one in found[:1]] == ['"Offered"']


def test_secrets_of_the_recording_become_those_of_the_replay(tmp_path: Path) -> None:
    """A file is sent to the address that the replay was given, and a listener is deleted by its
    id, which is random."""
    with serving(SENDING) as server, server.client() as client, server.client(None) as anonymous:
        pdf = {"Content-Type": "application/pdf"}
        for content in (b"%PDF-1.7 text", b"%PDF-1.7 \xff\xfe\0"):
            upload = client.post("/api/storage/invoices/upload-url", json={}).json()["data"]
            assert anonymous.put(upload["url"], content=content, headers=pdf).status_code == 200
        made = client.post("/sandbox/listeners", json={}).json()["data"]
        client.post("/api/webhooks", json={"url": made["url"], "events": ["*"]})
        assert client.delete(f"/sandbox/listeners/{made['id']}").status_code == 200
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "x.zip")
    bundle = read_bundle(tmp_path / "x.zip")
    assert not [name for name, part in bundle.parts.items() if made["token"].encode() in part]
    replayed = replay(bundle)
    assert (replayed.differences, replayed.requests) == ((), 7)


def test_a_body_that_is_not_in_the_bundle_is_sent_as_spaces(tmp_path: Path) -> None:
    with serving(SENDING) as server, server.client() as client:
        upload = client.post("/api/storage/invoices/upload-url", json={}).json()["data"]
        pdf = {"Content-Type": "application/pdf"}
        client.put(upload["url"], content=b"%PDF-1.7 my password is here", headers=pdf)
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "x.zip")
    bundle = read_bundle(tmp_path / "x.zip")
    assert bundle.lines("journal.ndjson")[1]["request"]["bodyBytes"] == 28
    assert "1 request bodies are not in the bundle" in replay(bundle).notes[0]


def test_a_replay_serves_the_contract_that_it_is_given(tmp_path: Path) -> None:
    """Another contract is named, and an operation may have the name of one of the control API."""
    reply = {"201": {"description": ""}}
    names = ("createWorkspace", "createListener", "receiveWebhook")
    paths = {f"/{name}": {"post": {"operationId": name, "responses": reply}} for name in names}
    file = tmp_path / "names.json"
    info = {"title": "Names", "version": "1"}
    file.write_text(json.dumps({"openapi": "3.1.0", "info": info, "paths": paths}))
    settings = changed(FROZEN, contract=file, scenario=None)
    with serving(settings) as server, server.client() as client:
        for name in names:
            assert client.post(f"/{name}").status_code == 201
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "x.zip")
    bundle = read_bundle(tmp_path / "x.zip")
    replayed = replay(bundle, Served(contract=file))
    assert (replayed.differences, replayed.requests) == ((), 3)
    other = replay(bundle)
    assert other.differences
    assert "the contract is another one" in other.notes[0]


def test_a_public_request_belongs_to_the_workspace_that_serves_it(tmp_path: Path) -> None:
    """The health is that of the first workspace, so the replay of another one does not ask."""
    with serving(SENDING) as server, server.client(server.new_workspace(seed=9)) as client:
        client.put("/sandbox/clock", json={"mode": "frozen", "now": "2027-01-01T00:00:00Z"})
        assert client.get("/api/health").status_code == 200
        client.get("/api/partners")
        key = client.headers["authorization"].removeprefix("Bearer ")
        save_bundle(ControlClient(server.url, key), tmp_path / "x.zip")
    bundle = read_bundle(tmp_path / "x.zip")
    shown = [(one["operation"], one["isSentAgain"]) for one in bundle.lines("journal.ndjson")]
    assert shown == [("setClock", True), ("getHealth", False), ("listPartners", True)]
    assert replay(bundle).differences == ()


def test_what_changes_nothing_of_the_api_is_not_sent_again(tmp_path: Path) -> None:
    """Progress of an acceptance run, and a listener that does not exist."""
    run: dict[str, Any] = {
        "plan": "p",
        "state": "running",
        "verdict": None,
        "checks": [],
        "waitingFor": None,
    }
    with serving(SENDING) as server, server.client() as client:
        assert client.post("/sandbox/acceptance/runs", json=run).status_code == 201
        assert client.delete("/sandbox/listeners/nothing").status_code == 404
        client.get("/api/partners")
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "x.zip")
    journal = read_bundle(tmp_path / "x.zip").lines("journal.ndjson")
    assert [(one["operation"], one["isSentAgain"]) for one in journal] == [
        ("createAcceptanceRun", False),
        ("listPartners", True),
    ]
