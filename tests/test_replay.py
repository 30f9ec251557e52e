"""A replay sends what a bundle recorded to a new workspace, and reports the first difference."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace as changed
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from invoice_sandbox.base.clock import ClockMode, ClockState
from invoice_sandbox.bundles.archive import Bundle, BundleError, read_bundle, write_bundle
from invoice_sandbox.bundles.compare import first_difference
from invoice_sandbox.bundles.environment import Served
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.cli import main
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.replay import replay
from invoice_sandbox.runtime import agenda
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.receivers import Manner, Message, Streams, held, raw, receiving, reset, response
from tests.scenario_run import INVOICE, advance, until
from tests.support import FROZEN, PATIENCE, Running, serving
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


def test_the_same_inputs_give_the_same_run(recorded: Path) -> None:
    found = replay(read_bundle(recorded))
    assert found.difference is None
    assert found.requests > 25
    assert found.notes == ()


def edited(file: Path, target: Path, edit: Callable[[dict[str, bytes]], None]) -> Bundle:
    """The bundle with changed parts."""
    bundle = read_bundle(file)
    parts = dict(bundle.parts)
    edit(parts)
    about = {name: value for name, value in bundle.manifest.items() if name != "parts"}
    write_bundle(target, about, parts)
    return read_bundle(target)


def test_a_replay_names_the_first_member_that_differs(recorded: Path, tmp_path: Path) -> None:
    def edit(parts: dict[str, bytes]) -> None:
        lines = [json.loads(line) for line in parts["inputs.ndjson"].splitlines()]
        one = next(one for one in lines if one["operation"] == "createInvoice")
        one["response"]["body"] = one["response"]["body"].replace('"Registered"', '"Draft"')
        parts["inputs.ndjson"] = b"".join(json.dumps(one).encode() + b"\n" for one in lines)

    found = replay(edited(recorded, tmp_path / "x.zip", edit)).difference
    assert found is not None
    assert (found.member, found.expected, found.actual) == (
        *("/body/data/status", '"Draft"', '"Registered"'),
    )
    assert found.request == "4 (POST /api/invoices)"


def test_a_replay_compares_what_is_left(recorded: Path, tmp_path: Path) -> None:
    def edit(parts: dict[str, bytes]) -> None:
        end = json.loads(parts["end.json"])
        end["records"]["invoices"][-1]["amount"] = 1
        parts["end.json"] = json.dumps(end).encode()

    found = replay(edited(recorded, tmp_path / "x.zip", edit)).difference
    assert found is not None
    assert found.request is None
    assert found.member.startswith("/end/records/invoices/")
    assert found.member.endswith("/amount")


def test_a_replay_opens_no_connection(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even to receivers of a stranger's bundle, whose responses were never recorded."""
    tried: list[Any] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: tried.append(address))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *where, **_: tried.append(where))

    def edit(parts: dict[str, bytes]) -> None:
        parts["outcomes.ndjson"] = b""

    assert replay(read_bundle(recorded)).difference is None
    assert replay(edited(recorded, tmp_path / "x.zip", edit)).difference is not None
    assert tried == []


def test_the_command_says_same_or_what_differs(recorded: Path, tmp_path: Path) -> None:
    same = CliRunner().invoke(main, ["replay", str(recorded)])
    assert same.exit_code == 0
    assert same.output == f"{recorded}: same: 33 requests and what they left\n"
    (tmp_path / "no.zip").write_bytes(b"no")
    unusable = CliRunner().invoke(main, ["replay", str(tmp_path / "no.zip")])
    assert unusable.exit_code == 2
    assert "no bundle" in unusable.output

    def edit(parts: dict[str, bytes]) -> None:
        parts["inputs.ndjson"] = parts["inputs.ndjson"].replace(b'"status": 201', b'"status": 200')

    edited(recorded, tmp_path / "x.zip", edit)
    other = CliRunner().invoke(main, ["replay", str(tmp_path / "x.zip")])
    assert other.exit_code == 1
    assert other.output.splitlines()[1:] == [
        *("  member:   /status", "  expected: 200", "  actual:   201"),
    ]


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("recording.json", b'"settings"', b'"other"'),
        ("recording.json", b'"seed": 5', b'"seed": "five"'),
        ("recording.json", b'"is": "key"', b'"is": []'),
        ("start.json", b'"mode": "frozen"', b'"mode": "backwards"'),
        ("start.json", b'"shift": 0.0', b'"shift": 1e300'),
        ("inputs.ndjson", b'"readings"', b'"left"'),
        ("inputs.ndjson", b'"now": "2', b'"now": "x'),
        ("inputs.ndjson", b'"number"', b'"nr"'),
        ("inputs.ndjson", b'"waits": []', b'"waits": 7'),
        ("inputs.ndjson", b'"waits": []', b'"waits": [["x", "y"]]'),
        ("inputs.ndjson", b'"response": {', b'"response": 7, "other": {'),
        ("end.json", b'"requests"', b'"number"'),
        ("inputs.ndjson", b"{", b"[" * 100_000 + b"{"),
        ("outcomes.ndjson", b'"webhookId"', b'"id"'),
    ],
)
def test_a_malformed_recording_ends_in_one_line(
    recorded: Path, tmp_path: Path, part: str, old: bytes, new: bytes
) -> None:
    def edit(parts: dict[str, bytes]) -> None:
        assert old in parts[part]
        parts[part] = parts[part].replace(old, new, 1)

    with pytest.raises(BundleError) as raised:
        replay(edited(recorded, tmp_path / "x.zip", edit))
    assert "\n" not in str(raised.value)


def test_nobody_waits_for_what_a_replay_never_gets_to(recorded: Path, tmp_path: Path) -> None:
    """It would take two seconds for each of these."""

    def edit(parts: dict[str, bytes]) -> None:
        first, *others = map(json.loads, parts["inputs.ndjson"].splitlines())
        first["waits"] = [[1_000_000 + place, first["ended"], None] for place in range(2_000)]
        lines = (json.dumps(one) for one in (first, *others))
        parts["inputs.ndjson"] = "".join(f"{line}\n" for line in lines).encode()

    assert replay(edited(recorded, tmp_path / "x.zip", edit)).difference is None


def test_a_recording_of_too_many_requests_is_not_replayed(recorded: Path, tmp_path: Path) -> None:
    def edit(parts: dict[str, bytes]) -> None:
        parts["inputs.ndjson"] = b"{}\n" * 5_001

    with pytest.raises(BundleError, match="a recording has at most 5,000 requests"):
        replay(edited(recorded, tmp_path / "x.zip", edit))


def test_a_bundle_without_its_beginning_is_not_replayed(recorded: Path, tmp_path: Path) -> None:
    bundle = read_bundle(recorded)
    write_bundle(tmp_path / "x.zip", {"replayable": False, "reason": "gone"}, bundle.parts)
    with pytest.raises(BundleError, match="cannot be replayed: gone"):
        replay(read_bundle(tmp_path / "x.zip"))


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    """A server whose clock follows real time."""
    with serving(changed(SENDING, clock=ClockState("live"), seed=6)) as server:
        yield server


def test_a_live_run_replays_without_waiting(live: Running, tmp_path: Path) -> None:
    with live.client() as client:
        invoice = client.post("/api/invoices", json=INVOICE).json()["data"]
        for _ in range(4):
            live.system_clock.pass_seconds(3)
            status = client.get(f"/api/invoices/{invoice['id']}").json()["data"]["status"]
        assert status == "Offered"
        client.get("/api/offers", headers={"X-Request-Id": "mine"})
    save_bundle(ControlClient(live.url, DEMO_KEY), tmp_path / "live.zip")
    found = replay(read_bundle(tmp_path / "live.zip"))
    assert found.difference is None
    assert (found.with_end, found.notes) == (True, ())


def test_what_only_looks_changes_nothing(live: Running, tmp_path: Path) -> None:
    """The console, and reading by the control API, are in no recording."""
    key = live.new_workspace(seed=9)
    with live.client(key) as client, live.client(None) as browser:
        origin = {"Origin": live.url}
        browser.post("/console/sign-in", data={"key": key}, headers=origin)
        client.post("/api/invoices", json=INVOICE)
        live.system_clock.pass_seconds(0.1)
        assert client.get("/sandbox/users").status_code == 200
        live.system_clock.pass_seconds(0.1)
        assert "Sign out" in browser.get("/console/records/invoices").text
    save_bundle(ControlClient(live.url, key), tmp_path / "x.zip")
    bundle = read_bundle(tmp_path / "x.zip")
    assert len(bundle.lines("inputs.ndjson")) == 1
    assert replay(bundle).difference is None


def test_a_workspace_with_acceptance_runs_replays(tmp_path: Path) -> None:
    """Bundles of runs are in no bundle, and their time is that of the machine."""
    body: dict[str, Any] = {
        "plan": "x",
        "state": "running",
        "verdict": None,
        "waitingFor": None,
        "checks": [],
    }
    with serving(SENDING, real_time=True) as server, server.client() as client:
        run = client.post("/sandbox/acceptance/runs", json=body).json()["data"]
        place = f"/sandbox/acceptance/runs/{run['id']}"
        zipped = {"Content-Type": "application/octet-stream"}
        assert client.put(f"{place}/bundle", content=b"x", headers=zipped).status_code == 200
        assert client.put(place, json=body).status_code == 200
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "x.zip")
    found = replay(read_bundle(tmp_path / "x.zip"))
    assert (found.requests, found.difference, found.with_end) == (2, None, True)


AUTHORIZATIONS = [
    *("", "Bearer", "bearer", "Basic", "Token", "Bearer unknown", "Bearer two words", "Token x"),
    *(
        "Basic  ",
        "Basic {{sandbox-secret-99}}",
        "Basic {{sandbox-secret-0}}",
        "{{sandbox-secret-9}}",
    ),
    *("Basic !", "Basic dXNlcjpwYXNz", f"Token {DEMO_KEY}", DEMO_KEY, f"bearer {DEMO_KEY}"),
]


def test_whatever_is_sent_as_a_credential_gets_the_same_error_again(tmp_path: Path) -> None:
    with serving(changed(SENDING, rate_limit=500)) as server, server.client(None) as client:
        client.get("/sandbox/clock")  # counts in the window of the rate limit, and is no input
        for value in AUTHORIZATIONS:
            headers = {"Authorization": value, "X-API-Key": DEMO_KEY, "Cookie": "a; ils_session=;"}
            client.post("/sandbox/reset", headers=headers)
            for name in headers:
                client.get("/api/invoices?key=&token=x", headers={name: headers[name]})
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "x.zip")
    found = replay(read_bundle(tmp_path / "x.zip"))
    assert found.requests > 2 * len(AUTHORIZATIONS)
    assert (found.difference, found.with_end) == (None, True)


def test_a_run_on_the_machine_s_clock_replays_to_the_millisecond(tmp_path: Path) -> None:
    """Its steps run between requests, and during those that take long."""
    settings = changed(SENDING, clock=ClockState("live"), seed=7, rate_limit=1_000)
    with serving(settings, real_time=True) as server, server.client() as client:
        with receiving(response(503), response()) as receiver:
            client.post("/api/webhooks", json={"url": receiver.url, "events": ["*"]})
            for operation, delay in (("listInvoices", "PT0.4S"), ("getInvoice", "PT0.04S")):
                slow = {"kind": "latency", "delay": delay, "operation": operation, "count": None}
                client.post("/sandbox/faults", json=slow)
            made = client.post("/api/invoices", json=INVOICE).json()["data"]
            threads = [Thread(target=client.get, args=["/api/invoices"]) for _ in range(3)]
            for thread in threads:
                thread.start()
            while client.get(f"/api/invoices/{made['id']}").json()["data"]["status"] != "Verified":
                client.get("/api/invoices", headers={"X-Sandbox-Scenario": "unknown"})
            client.post("/sandbox/clock/advance", json={"by": "PT10S"})
            for thread in threads:
                thread.join()
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "live.zip")
    bundle = read_bundle(tmp_path / "live.zip")
    found = replay(bundle)
    assert (found.difference, found.with_end, found.notes) == (None, True, ())
    headers = [dict(one["response"]["headers"]) for one in bundle.lines("inputs.ndjson")]
    assert sum("ratelimit" in one for one in headers) > 10


def test_steps_that_ran_while_a_body_arrived_run_before_its_request(tmp_path: Path) -> None:
    settings = changed(SENDING, clock=ClockState("live"), seed=6)
    with serving(settings) as server, server.client() as client:
        workspace = client.get("/sandbox/workspaces").json()["data"][0]["id"]
        made = client.post("/api/invoices", json=INVOICE).json()["data"]
        before = server.run(server.store.contents(workspace)).requests
        body = json.dumps({"invoiceIds": [made["id"]]}).encode()
        connection = HTTPConnection(server.url.removeprefix("http://"), timeout=PATIENCE)
        headers = {"Authorization": f"Bearer {DEMO_KEY}", "Content-Length": str(len(body)), **JSON}
        connection.request("POST", "/api/financing-requests", None, headers)
        while server.run(server.store.contents(workspace)).requests == before:
            pass
        server.system_clock.pass_seconds(3)
        assert client.get(f"/api/invoices/{made['id']}").json()["data"]["status"] == "Verified"
        connection.send(body)
        assert connection.getresponse().status == 201
        connection.close()
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "live.zip")
    assert replay(read_bundle(tmp_path / "live.zip")).difference is None


def test_a_request_that_waited_for_others_does_so_again(tmp_path: Path) -> None:
    """The clock is moved after the request that arrived later."""
    settings = changed(SENDING, clock=ClockState("live"), seed=8)
    with serving(settings, real_time=True) as server, server.client() as client:
        made = client.post("/api/invoices", json=INVOICE).json()["data"]
        lock = server.sandbox.engine.agenda.lock(server.sandbox.engine.first_workspace)
        server.run(lock.acquire())
        advancing = Thread(target=advance, args=[client], kwargs={"by": "P1D"})
        advancing.start()
        until(lambda: lock.queued == 1, "the advance waits")
        before = client.get("/sandbox/clock").json()["data"]["now"]
        assert client.get(f"/api/invoices/{made['id']}").json()["data"]["status"] == "Registered"
        server.loop.call_soon_threadsafe(lock.release)
        advancing.join()
        assert client.get("/sandbox/clock").json()["data"]["now"][:10] > before[:10]
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "live.zip")
    assert replay(read_bundle(tmp_path / "live.zip")).difference is None


@pytest.mark.parametrize("mode", ["live", "frozen"])
def test_an_advance_that_gave_up_on_a_receiver_does_not_wait_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: ClockMode
) -> None:
    settings, gate = changed(SENDING, clock=ClockState(mode)), Event()
    with (
        serving(settings, real_time=True) as server,
        server.client() as client,
        receiving(held(gate)) as receiver,
    ):
        client.post("/api/webhooks", json={"url": receiver.url, "events": ["*"]})
        client.post("/api/invoices", json=INVOICE)
        with monkeypatch.context() as patient:
            patient.setattr(agenda, "PATIENCE", 0.3)
            assert advance(client, by="PT10S")["pending"]
        client.get("/api/offers")
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "x.zip")
        gate.set()
    assert replay(read_bundle(tmp_path / "x.zip")).difference is None


@pytest.mark.parametrize("mode", ["live", "frozen"])
def test_requests_that_came_between_the_steps_of_an_advance_do_so_again(
    tmp_path: Path, mode: ClockMode
) -> None:
    with serving(
        changed(SENDING, clock=ClockState(mode), rate_limit=None), real_time=True
    ) as server:
        with server.client() as client:
            for number in range(80):
                body = {**INVOICE, "invoiceNumber": f"MANY-{number}"}
                client.post("/api/invoices", json=body)
            advancing = Thread(target=advance, args=[client], kwargs={"by": "P3D"})
            advancing.start()
            while advancing.is_alive():  # what is rejected does not wait for due steps
                client.post("/api/invoices", json={})
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "many.zip")
    bundle = read_bundle(tmp_path / "many.zip")
    instants = {one["at"][:19] for one in bundle.lines("inputs.ndjson") if one["status"] == 400}
    assert len(instants) > 1
    found = replay(bundle)
    assert (found.difference, found.with_end, found.notes) == (None, True, ())


def test_a_receiver_may_call_the_sandbox_during_an_advance(tmp_path: Path) -> None:
    with serving(SENDING, real_time=True) as server, server.client() as client:
        with receiving() as receiver:

            def calling(_: Message) -> Manner:
                async def manner(message: Message, streams: Streams) -> None:
                    headers = {"Authorization": f"Bearer {DEMO_KEY}"}
                    async with httpx.AsyncClient(
                        base_url=server.url, headers=headers, timeout=PATIENCE
                    ) as own:
                        await own.post("/api/financing-requests", json=message.event["data"])
                    await response()(message, streams)

                return manner

            receiver.responds_by(calling)
            client.post("/api/webhooks", json={"url": receiver.url, "events": ["invoice.*"]})
            client.post("/api/invoices", json=INVOICE)
            client.post("/sandbox/clock/advance", json={"by": "PT10S"})
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "x.zip")
    bundle = read_bundle(tmp_path / "x.zip")
    ends = [one["operation"] for one in bundle.lines("inputs.ndjson")]
    assert ends.index("advanceClock") == len(ends) - 1  # it contained the others
    assert replay(bundle).difference is None


def test_a_replay_serves_the_contract_that_it_is_given(tmp_path: Path) -> None:
    pet: dict[str, Any] = {"type": "object"}
    replies = {"200": {"description": "", "content": {"application/json": {"schema": pet}}}}
    read = {"operationId": "getPet", "responses": replies}
    info = {"title": "Pets", "version": "1"}
    document = {"openapi": "3.1.0", "info": info, "paths": {"/pet": {"get": read}}}
    file = tmp_path / "pets.json"
    file.write_text(json.dumps(document))
    settings = changed(FROZEN, contract=file, scenario=None, base_path="/v2")
    with serving(settings) as server, server.client(None) as client:
        assert client.get("/v2/pet").status_code == 200
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "x.zip")
    bundle = read_bundle(tmp_path / "x.zip")
    assert replay(bundle, Served(contract=file)).difference is None
    other = replay(bundle)
    assert other.difference is not None
    assert "the contract is another one" in other.notes[0]


def test_an_operation_may_have_the_name_of_one_of_the_control_api(tmp_path: Path) -> None:
    """Some of those are in no recording."""
    names = ("createWorkspace", "createListener", "deleteListener", "receiveWebhook")
    reply = {"201": {"description": ""}}
    paths = {f"/{one}": {"post": {"operationId": one, "responses": reply}} for one in names}
    info = {"title": "Names", "version": "1"}
    file = tmp_path / "names.json"
    file.write_text(json.dumps({"openapi": "3.1.0", "info": info, "paths": paths}))
    settings = changed(FROZEN, contract=file, scenario=None)
    with serving(settings) as server, server.client() as client:
        for name in names:
            assert client.post(f"/{name}").status_code == 201
        save_bundle(ControlClient(server.url, DEMO_KEY), tmp_path / "x.zip")
    bundle = read_bundle(tmp_path / "x.zip")
    assert [one["operation"] for one in bundle.lines("inputs.ndjson")] == list(names)
    assert replay(bundle, Served(contract=file)).difference is None


@pytest.mark.parametrize(
    ("content", "member"),
    [
        (b"%PDF-1.7 x", "body"),
        (b"%PDF-1.7 \xff\xfe\0", "base64"),
        (b"%PDF-1.7 my password is here", "bodyBytes"),
        (b"%PDF-1.7 \xff whsec_" + b"c2VjcmV0" * 4, "bodyBytes"),
    ],
    ids=["text", "bytes", "text that names a secret", "bytes with a secret"],
)
def test_a_file_is_in_the_bundle_unless_it_may_hold_a_secret(
    live: Running, tmp_path: Path, content: bytes, member: str
) -> None:
    key = live.new_workspace(seed=8)
    with live.client(key) as client:
        upload = client.post("/api/storage/invoices/upload-url", json={}).json()["data"]
        pdf = {"Content-Type": "application/pdf"}
        assert client.put(upload["url"], content=content, headers=pdf).status_code == 200
    save_bundle(ControlClient(live.url, key), tmp_path / "x.zip")
    bundle = read_bundle(tmp_path / "x.zip")
    request = bundle.lines("inputs.ndjson")[1]["request"]
    sent = {"body": content.decode(errors="ignore"), "bodyBytes": len(content)}
    sent["base64"] = base64.b64encode(content).decode()
    assert request[member] == sent[member]
    found = replay(bundle)
    assert found.difference is None
    is_hidden = member == "bodyBytes"
    assert found.with_end is not is_hidden
    assert any("1 bodies are not in the bundle" in one for one in found.notes) is is_hidden


def test_a_public_request_belongs_to_the_workspace_that_serves_it(
    live: Running, tmp_path: Path
) -> None:
    """The health is that of the first workspace, and whoever has an upload address may use it."""
    key = live.new_workspace(seed=9)
    pdf = {"Content-Type": "application/pdf"}
    with live.client(key) as client, live.client(None) as anonymous:
        client.put("/sandbox/clock", json={"mode": "frozen", "now": "2027-01-01T00:00:00Z"})
        assert client.get("/api/health").status_code == 200
        shown = client.get("/sandbox/requests").json()["data"]
        assert [one["path"] for one in shown] == ["/api/health"]
        upload = client.post("/api/storage/invoices/upload-url", json={}).json()["data"]
        assert anonymous.put(upload["url"], content=b"%PDF", headers=pdf).status_code == 200
        client.get("/api/partners")
    save_bundle(ControlClient(live.url, key), tmp_path / "x.zip")
    bundle = read_bundle(tmp_path / "x.zip")
    inputs = bundle.lines("inputs.ndjson")
    operations = [one["operation"] for one in inputs]
    assert operations == ["setClock", "createUploadUrl", "putUpload", "listPartners"]
    logged = [one["readings"][0]["logged"] for one in inputs]
    assert logged == [0, None, None, None]  # only a live clock moves by itself
    assert inputs[-1]["hasWaitedForBody"] is False
    found = replay(bundle)
    assert (found.difference, found.with_end) == (None, True)


def test_what_is_random_is_not_compared_in_the_beginning_of_a_long_body() -> None:
    def recording(number: int, status: int) -> dict[str, Any]:
        sent = f'"webhook-timestamp":"{number}","webhook-signature":"v1,{number}'
        body = f'[{{"status":{status},"durationMs":{number},"headers":{{{sent}'
        request = {"method": "GET", "target": "/"}
        response = {"headers": [], "body": body}
        one = {"number": 1, "request": request, "status": 200, "response": response}
        return {"inputs": [one], "deliveries": [], "end": {}}

    assert first_difference(recording(1, 200), recording(2, 200)) is None
    found = first_difference(recording(1, 200), recording(2, 503))
    assert found is not None
    assert found.member == "/body"


@pytest.mark.parametrize("length", [10_000, 40_000], ids=["kept whole", "kept compressed"])
def test_all_of_a_long_body_is_compared(live: Running, tmp_path: Path, length: int) -> None:
    """The list begins with what is longer than a bundle shows."""
    key = live.new_workspace(seed=10)
    with live.client(key) as client:
        for number in ("SHORT", "1" * length):
            client.post("/api/invoices", json={**INVOICE, "invoiceNumber": number})
        assert '"SHORT"' in client.get("/api/invoices").text
    save_bundle(ControlClient(live.url, key), tmp_path / "x.zip")
    response = read_bundle(tmp_path / "x.zip").lines("inputs.ndjson")[-1]["response"]
    assert "SHORT" not in response["body"]
    assert replay(read_bundle(tmp_path / "x.zip")).difference is None

    def edit(parts: dict[str, bytes]) -> None:
        first, *others = parts["inputs.ndjson"].splitlines(keepends=True)
        parts["inputs.ndjson"] = b"".join((first.replace(b"10000", b"20000"), *others))

    found = replay(edited(tmp_path / "x.zip", tmp_path / "y.zip", edit)).difference
    assert found is not None
    assert found.request == "3 (GET /api/invoices)"
    assert (found.member, found.expected) == ("/bodyDigest", f'"{response["bodyDigest"]}"')


def long(body: str, digest: Any) -> dict[str, Any]:
    """A recording with one response, whose body is cut."""
    response = {"headers": [], "body": body, "bodyBytes": 9000, "bodyDigest": digest}
    request = {"method": "GET", "target": "/"}
    one = {"number": 1, "request": request, "status": 200, "response": response}
    return {"inputs": [one], "deliveries": [], "end": {}}


@pytest.mark.parametrize("digest", [7, {}, ["x"], "sha256:0"])
def test_a_wrong_digest_of_a_body_is_a_difference(digest: Any) -> None:
    found = first_difference(long("[1", digest), long("[1", "sha256:1"))
    assert found is not None
    assert found.member.startswith("/bodyDigest")


def test_a_difference_in_a_long_body_is_shown_from_shortly_before_it() -> None:
    one, other = (f"[{'0' * 1000}{number}" for number in "12")
    found = first_difference(long(one, "sha256:1"), long(other, "sha256:2"))
    assert found is not None
    assert (found.member, found.expected, found.actual) == (
        *("/body", f'"{"0" * 60}1"', f'"{"0" * 60}2"'),
    )


def test_bodies_with_the_same_digest_are_the_same_wherever_they_are_cut() -> None:
    assert first_difference(long("[1, 2", "sha256:1"), long("[1", "sha256:1")) is None


def test_differences_are_found_in_order() -> None:
    clock = {"clock": {"mode": "frozen"}}
    one = {"start": clock, "end": {**clock, "a": [1, 2]}, "inputs": [], "deliveries": []}
    assert first_difference(one, one) is None
    found = first_difference(one, {**one, "end": {**clock, "a": [1]}})
    assert found is not None
    assert (found.member, found.expected, found.actual) == ("/end/a/1", "2", "missing")
