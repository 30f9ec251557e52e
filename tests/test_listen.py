"""``invoice-sandbox listen``: real processes, a real receiver, and connections that break."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import queue
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import httpx
import pytest
from click.testing import CliRunner

from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.cli import main
from invoice_sandbox.cli.receiver import Message, checked_target
from invoice_sandbox.cli.receiver import Receiver as LocalReceiver
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.cases import in_turn
from tests.certificates import tls_of
from tests.receivers import (
    Receiver,
    calling,
    deliveries,
    delivery,
    endpoint,
    free_port,
    hang,
    held,
    raw,
    receiving,
    reset,
    response,
    subscribe,
    trigger,
)
from tests.scenario_run import until
from tests.support import FROZEN, PATIENCE, Running, serving
from tests.test_control_commands import run

COMMAND = Path(sys.executable).with_name("invoice-sandbox")
INVOICE = "inv_sandbox_0003"
PATIENT_COMMAND = """
from invoice_sandbox.cli import listen, main
listen._SECONDS_TO_FINISH = 60
main()
"""
"""The command, with time to finish on a machine that stalls."""

READY = re.compile(r"Ready: \S+ -> (\S+), endpoint (\S+), signing secret (whsec_\S+)$")


# --- processes


@dataclass
class Process:
    """A command that runs. Its lines are read as they come."""

    popen: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    _coming: queue.Queue[str] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """End it, and read what it has said, whatever state it is in."""
        self.popen.kill()
        self._reader.join(PATIENCE)

    def expect(self, pattern: str | re.Pattern[str]) -> re.Match[str]:
        """The next line that matches."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._coming.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"no line like {pattern}; there were {self.lines}")
            if found := re.search(pattern, line):
                return found

    def end(self, name: signal.Signals) -> int:
        """Its exit code after a signal."""
        self.popen.send_signal(name)
        return self.popen.wait(PATIENCE)

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self.lines.append(line.rstrip("\n"))
            self._coming.put(line)


@contextmanager
def process(*words: str, program: Sequence[str | Path] = (COMMAND,)) -> Iterator[Process]:
    """A command, and what it says on stdout and stderr."""
    env = {name: text for name, text in os.environ.items() if "INVOICE_SANDBOX" not in name}
    with subprocess.Popen(
        [sys.executable, "-W", "error", *program, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=env,
    ) as popen:
        running = Process(popen)
        try:
            yield running
        finally:
            running.kill()


@contextmanager
def sandbox(port: int, *words: str) -> Iterator[Process]:
    """A server that is ready to respond."""
    fixed = ("--seed", "7", "--clock", "frozen", "--scenario", "manual", "--rate-limit", "off")
    with process("serve", "--port", str(port), *fixed, *words) as server:
        server.expect(" ready on ")
        yield server


@contextmanager
def listening(url: str, target: str, *words: str) -> Iterator[tuple[Process, str]]:
    """A listener that is ready, and its signing secret."""
    words = ("listen", "--url", url, "--forward-to", target, *words)
    with process(*words, program=("-c", PATIENT_COMMAND)) as listener:
        yield listener, listener.expect(READY)[3]


def client_of(url: str, key: str = DEMO_KEY) -> httpx.Client:
    return httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE, trust_env=False
    )


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def running(port: int) -> Iterator[Running]:
    """A server of the test's own."""
    settings = replace(FROZEN, port=port)
    with serving(settings, real_time=True, receiver_seconds=PATIENCE) as running:
        yield running


@pytest.fixture
def url(running: Running) -> str:
    return running.url


@pytest.fixture
def client(url: str) -> Iterator[httpx.Client]:
    with client_of(url) as client:
        yield client


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def fire(client: httpx.Client, kind: str = "invoice.verified") -> str:
    """The id of an event that is due for delivery."""
    return str(trigger(client, kind, invoiceId=INVOICE)["id"])


def settle(client: httpx.Client, by: str = "PT0S") -> None:
    """Wait until all that is due was attempted."""
    assert client.post("/sandbox/clock/advance", json={"by": by}).is_success


# --- what is forwarded


@pytest.mark.process
def test_the_very_bytes_that_were_signed_arrive(client: httpx.Client, receiver: Receiver) -> None:
    chosen = f"whsec_{base64.b64encode(b'chosen by the test of listen').decode()}"
    words = (f"{receiver.url}/hooks?a=b", "--secret", chosen)
    with listening(str(client.base_url), *words) as (listener, secret):
        assert secret == chosen
        event = fire(client)
        settle(client)
        line = listener.expect(event)[0]
    (message,) = receiver.messages
    assert message.path == "/hooks?a=b"
    assert message.verified(secret)["id"] == message.id == event == line
    sent = delivery(client)["attempts"][-1]["request"]
    assert message.headers.items() >= sent["headers"].items()
    assert sent["bodyDigest"] == f"sha256:{hashlib.sha256(message.body).hexdigest()}"
    assert message.headers["host"] == receiver.url.removeprefix("http://")


@pytest.mark.process
def test_a_line_shows_time_type_id_response_and_duration(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(202), response(500), reset)
    with listening(str(client.base_url), receiver.url) as (listener, _):
        for kind, outcome in (
            ("invoice.verified", "202"),
            ("invoice.paid", "500"),
            ("invoice.overdue", r"reset|no_http"),
        ):
            event = fire(client, kind)
            settle(client)
            instant = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
            listener.expect(rf"^{instant}  {kind}  {event}  ({outcome})  \d+ ms$")


@pytest.mark.process
def test_a_retry_is_marked_and_an_id_that_comes_again_after_a_reset_is_none(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(500), response(200))
    with listening(str(client.base_url), receiver.url) as (listener, _):
        event = fire(client)
        settle(client)
        listener.expect(rf"{event}  500  \d+ ms$")
        client.post("/sandbox/clock/advance", json={"by": "PT1M"}).raise_for_status()
        listener.expect(rf"{event}  200  \d+ ms  retry$")
        assert run("reset", INVOICE_SANDBOX_URL=str(client.base_url)).exit_code == 0
        secret = listener.expect(READY)[3]
        assert fire(client) == event
        settle(client)
        listener.expect(rf"{event}  200  \d+ ms$")
        until(lambda: is_all_delivered(client), "it was lost")
    assert receiver.messages[-1].verified(secret)["id"] == event


@pytest.mark.process
def test_as_json_every_line_is_an_object(client: httpx.Client, receiver: Receiver) -> None:
    words = ("listen", "--url", str(client.base_url), "--forward-to", receiver.url, "--json")
    with process(*words) as listener:
        ready = json.loads(listener.expect("ready").string)
        event = fire(client)
        settle(client)
        reported = json.loads(listener.expect("delivery").string)
    assert ready["forwardTo"] == receiver.url
    assert endpoint(client, ready["endpointId"])["url"].startswith(ready["url"])
    assert receiver.messages[0].verified(ready["secret"])
    assert reported["webhookId"] == event
    assert reported["retry"] is False
    assert (reported["type"], reported["status"], reported["error"]) == (
        "invoice.verified",
        200,
        None,
    )
    assert isinstance(reported["durationMs"], int)


@in_turn(
    ("manner", "status", "body"),
    [
        (response(204), 204, ""),
        (response(201, b"made"), 201, "made"),
        (response(302, b"", location="http://127.0.0.1:1/"), 302, ""),
        (response(404, b"\xff?"), 404, "\ufffd?"),
        (response(500, b"x" * 100_000), 500, "x" * 512),
        (reset, 502, None),
        (raw(b"what?\r\n\r\n"), 502, "no_http"),
        (response(999), 502, "no_http"),
    ],
    ids=["empty", "body", "redirect", "no text", "long", "reset", "no HTTP", "no status"],
)
def test_the_log_shows_what_the_receiver_returned(
    listened: tuple[httpx.Client, Receiver], manner: Any, status: int, body: str | None
) -> None:
    client, receiver = listened
    receiver.responses(manner)
    event = fire(client)
    settle(client)
    (row,) = [one for one in deliveries(client) if one["eventId"] == event]
    attempt = row["attempts"][0]
    assert (attempt["responseStatus"], attempt["error"]) == (status, None)
    assert row["status"] == ("Delivered" if status < 300 else "Failed")
    assert body is None or attempt["response"]["body"] == body


@pytest.fixture(scope="module")
def listened() -> Iterator[tuple[httpx.Client, Receiver]]:
    """A server, a receiver, and a listener between them."""
    with (
        receiving() as receiver,
        serving(real_time=True, receiver_seconds=PATIENCE) as running,
        client_of(running.url) as client,
        listening(running.url, receiver.url),
    ):
        yield client, receiver


@pytest.mark.process
def test_a_receiver_that_hangs_is_reported_before_the_sandbox_gives_up() -> None:
    """Where the machine stalls just then, the report comes too late; not in every attempt."""
    with (
        receiving(hang) as receiver,
        serving(real_time=True, receiver_seconds=2) as running,
        client_of(running.url) as client,
        listening(running.url, receiver.url),
    ):

        def is_reported() -> bool:
            event = fire(client)
            settle(client)
            (row,) = [one for one in deliveries(client) if one["eventId"] == event]
            attempt = row["attempts"][0]
            reported = attempt["response"] and attempt["response"]["body"]
            return (attempt["responseStatus"], reported) == (502, "timeout")

        until(is_reported, "no timeout was reported")


@pytest.mark.process
def test_many_arrive_once_each_and_in_order(client: httpx.Client, receiver: Receiver) -> None:
    """The receiver may call back meanwhile."""
    seen: list[int] = []
    call_back = calling(lambda _: seen.append(client.get("/api/invoices").status_code))
    receiver.responses(call_back, response(200))
    with listening(str(client.base_url), receiver.url) as (_, secret):
        events = [fire(client) for _ in range(100)]
        settle(client)
    assert seen == [200]
    assert receiver.ids() == events
    assert all(message.verified(secret) for message in receiver.messages)
    assert {row["status"] for row in deliveries(client)} == {"Delivered"}


# --- several


@pytest.mark.process
def test_each_listener_gets_what_it_wants(client: httpx.Client) -> None:
    with ExitStack() as stack:
        first, second, third = (stack.enter_context(receiving()) for _ in range(3))
        url = str(client.base_url)
        secrets = [
            stack.enter_context(listening(url, one.url, *words))[1]
            for one, words in (
                (first, ()),
                (second, ("--events", "invoice.*")),
                (third, ("--events", "invoice.verified,offer.received")),
            )
        ]
        wanted = ["invoice.verified", "invoice.paid", "webhook_endpoint.disabled"]
        for kind in wanted:
            trigger(client, kind, **({"invoiceId": INVOICE} if "invoice" in kind else {}))
        settle(client)
        assert first.kinds() == wanted
        assert second.kinds() == wanted[:2]
        assert third.kinds() == wanted[:1]
        assert len(set(secrets)) == 3
        for one, secret in zip((first, second, third), secrets, strict=True):
            assert all(message.verified(secret) for message in one.messages)


# --- what breaks


class Wire:
    """A connection to a server that can be cut and repaired. ``lost`` are the requests between."""

    def __init__(self, server: int) -> None:
        self._server = server
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.lost: list[bytes] = []
        self._is_cut = False
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def repair(self) -> None:
        """Let connections through again."""
        self._is_cut = False

    def cut(self) -> None:
        """Break every connection, and let no other through."""
        self._is_cut = True
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Break every connection, and take no other."""
        self.cut()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                if self._is_cut:
                    self._lose(ours)
                else:
                    theirs = socket.create_connection(("127.0.0.1", self._server))
                    self._sockets += [ours, theirs]
                    threading.Thread(target=self._pass_on, args=(ours, theirs), daemon=True).start()

    def _lose(self, ours: socket.socket) -> None:
        with ours, suppress(OSError):
            self.lost.append(ours.recv(65536))

    def _pass_on(self, ours: socket.socket, theirs: socket.socket) -> None:
        with ours, theirs, suppress(OSError):
            while True:
                for ready in select.select([ours, theirs], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    (theirs if ready is ours else ours).sendall(data)


@pytest.fixture
def wire(port: int, url: str) -> Iterator[Wire]:
    assert url
    wire = Wire(port)
    yield wire
    wire.close()


def is_connected(running: Running, client: httpx.Client) -> bool:
    """Whether the server has a stream to the listener of the only endpoint."""
    (one,) = client.get("/api/webhooks").json()["data"]["endpoints"]
    listener = running.sandbox.engine.listeners.at(one["url"].rpartition("/")[2])
    assert listener is not None
    return listener.is_connected


@pytest.mark.process
def test_what_was_delivered_to_nobody_comes_after_a_reconnect(
    running: Running, client: httpx.Client, wire: Wire, receiver: Receiver
) -> None:
    with listening(wire.url, receiver.url) as (listener, secret):
        events = [fire(client)]
        settle(client)
        wire.cut()
        listener.expect("^Lost ")
        until(lambda: not is_connected(running, client), "the server has noticed the loss")
        events += [fire(client) for _ in range(5)]
        settle(client)
        assert [row["status"] for row in deliveries(client)] == ["Delivered"] + ["Failed"] * 5
        wire.repair()
        listener.expect("^Reconnected to ")
        for event in events[1:]:
            listener.expect(event)
        until(lambda: is_all_delivered(client), "not all were replayed")
        events.append(fire(client))
        settle(client)
    assert receiver.ids() == events
    assert all(message.verified(secret) for message in receiver.messages)


def is_all_delivered(client: httpx.Client) -> bool:
    return {row["status"] for row in deliveries(client)} == {"Delivered"}


@pytest.mark.parametrize("first", ["the answer", "the connection"])
@pytest.mark.process
def test_a_response_that_was_under_way_is_reported_after_a_reconnect(
    client: httpx.Client, wire: Wire, receiver: Receiver, first: str
) -> None:
    gate = threading.Event()
    receiver.responses(held(gate, then=response(201, b"slowly")))
    with listening(wire.url, receiver.url) as (listener, _):
        fire(client)
        until(lambda: bool(receiver.messages), "nothing came")
        wire.cut()
        listener.expect("^Lost ")
        if first == "the answer":
            gate.set()
            until(lambda: any(b"/responses" in one for one in wire.lost), "it is reported")
        wire.repair()
        listener.expect("^Reconnected to ")
        gate.set()
        settle(client)
        row = delivery(client)
    assert (row["status"], row["attempt"], row["responseStatus"]) == ("Delivered", 1, 201)
    assert len(receiver.messages) == 1, "it was not forwarded twice"


@pytest.mark.process
def test_it_comes_back_when_the_server_does_and_ends_while_it_is_away(
    port: int, receiver: Receiver
) -> None:
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        server = stack.enter_context(sandbox(port))
        listener, _ = stack.enter_context(listening(url, receiver.url))
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
        listener.expect("^Lost ")
        server = stack.enter_context(sandbox(port))
        secret = listener.expect(READY)[3]
        listener.expect("^Reconnected to ")
        with client_of(url) as client:
            event = fire(client)
            settle(client)
            listener.expect(event)
            assert delivery(client)["status"] == "Delivered"
        assert receiver.messages[-1].verified(secret)["id"] == event
        assert server.end(signal.SIGTERM) == 0
        assert len(server.lines) == 3, "an open stream does not hold the server up"
        listener.expect("^Lost ")
        assert listener.end(signal.SIGINT) == 0


@pytest.mark.process
def test_the_end_of_the_workspace_is_its_end(client: httpx.Client, receiver: Receiver) -> None:
    made = client.post("/sandbox/workspaces", json={}).json()["data"]
    words = ("--key", made["key"])
    with (
        listening(str(client.base_url), receiver.url, *words) as (listener, _),
        client_of(str(client.base_url), made["key"]) as own,
    ):
        fire(own)
        settle(own)
        assert client.delete(f"/sandbox/workspaces/{made['id']}").is_success
        listener.expect("^Error: http://[^ ]+: The credential is not valid here")
        assert listener.popen.wait(PATIENCE) == 1


# --- its end


@pytest.mark.process
def test_it_leaves_nothing_behind(client: httpx.Client, receiver: Receiver) -> None:
    with listening(str(client.base_url), receiver.url) as (listener, _):
        fire(client)
        settle(client)
        (mine,) = client.get("/api/webhooks").json()["data"]["endpoints"]
        assert listener.end(signal.SIGTERM) == 0
    removed, *_ = client.get(f"/api/audit-log?targetId={mine['id']}").json()["data"]
    assert removed["action"] == "webhook_endpoint.removed"
    assert removed["actor"]["type"] == "api_key"
    assert removed["context"]["requestId"].startswith("req_")
    left = client.get("/api/webhooks").json()["data"]
    assert (left["endpoints"], len(left["deliveries"])) == ([], 1)
    sent = left["deliveries"][0]["attempts"][0]["request"]["url"]
    assert httpx.post(sent, json={}, trust_env=False, timeout=PATIENCE).status_code == 404
    assert len(listener.lines) == 2


@pytest.mark.process
def test_a_restart_keeps_the_secret_and_deletes_what_was_left(
    client: httpx.Client, receiver: Receiver
) -> None:
    url = str(client.base_url)
    with listening(url, receiver.url) as (listener, secret):
        listener.kill()
        listener.popen.wait(PATIENCE)
    with listening(url, receiver.url) as (_, again):
        event = fire(client)
        settle(client)
        (mine,) = client.get("/api/webhooks").json()["data"]["endpoints"]
    assert again == secret
    assert mine["status"] == "Enabled"
    assert receiver.ids() == [event]
    with listening(url, f"{receiver.url}/other") as (_, other):
        assert other != secret


@pytest.mark.process
def test_another_command_for_the_same_receiver_takes_over(
    client: httpx.Client, receiver: Receiver
) -> None:
    url = str(client.base_url)
    with listening(url, receiver.url) as (first, _), listening(url, receiver.url):
        first.expect("^Another 'listen' forwards to this receiver now")
        assert first.popen.wait(PATIENCE) == 0
        event = fire(client)
        settle(client)
        until(lambda: is_all_delivered(client), "it was lost")
    assert receiver.ids() == [event]


@pytest.mark.parametrize("secret", ["whsec_short", ""])
def test_a_secret_of_another_form_is_misuse(secret: str) -> None:
    ran = CliRunner().invoke(main, ["listen", "--forward-to", "3000", "--secret", secret])
    assert (ran.exit_code, "base64 of 24 to 64 bytes" in ran.stderr) == (2, True)
    assert "whsec_short" not in ran.stderr


@pytest.mark.process
def test_what_is_under_way_gets_a_response_before_it_ends(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(201, delay=0.5))
    with listening(str(client.base_url), receiver.url) as (listener, _):
        fire(client)
        until(lambda: bool(receiver.messages), "nothing came")
        assert listener.end(signal.SIGINT) == 0
    settle(client)
    assert delivery(client)["responseStatus"] == 201
    assert client.get("/api/webhooks").json()["data"]["endpoints"] == []


# --- what cannot begin


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--key ilk_sandbox_unknown", "The credential is not valid here"),
        (
            "--events invoice.verifed",
            "--events: unknown event type 'invoice.verifed'; did you mean invoice.verified?",
        ),
    ],
)
def test_what_the_server_rejects_is_one_line(server: Running, words: str, message: str) -> None:
    key = server.new_workspace()
    line = f"listen --forward-to 3000 --url {server.url} "
    ran = run(line + words, INVOICE_SANDBOX_KEY=key)
    assert (ran.exit_code, message in ran.stderr) == (1, True), ran.output
    assert "Ready" not in ran.stdout
    with server.client(key) as client:
        endpoints = client.get("/api/webhooks").json()["data"]["endpoints"]
    assert endpoints == []


@pytest.mark.process
def test_a_password_in_the_address_is_not_shown(server: Running) -> None:
    target = "http://me:secret@localhost:3000/hooks"
    with listening(server.url, target, "--key", server.new_workspace()) as (listener, _):
        assert "-> http://localhost:3000/hooks, " in listener.lines[0]


@in_turn(
    ("text", "url"),
    [
        ("3000", "http://localhost:3000"),
        ("localhost:3000/hooks", "http://localhost:3000/hooks"),
        ("127.0.0.1:3000", "http://127.0.0.1:3000"),
        ("[::1]:3000/a?b=c", "http://[::1]:3000/a?b=c"),
        ("[::1]/a", "http://[::1]/a"),
        ("localhost/x", "http://localhost/x"),
        ("app:3000", "http://app:3000"),
        ("hooks.example/x", "http://hooks.example/x"),
        ("http://app", "http://app"),
        ("http://localhost/x", "http://localhost/x"),
        ("https://hooks.example/x", "https://hooks.example/x"),
        ("LocalHost:3000/", "http://localhost:3000"),
        ("http://example.com:80/Hooks/", "http://example.com/Hooks/"),
        ("localhost:3000/?x=1", "http://localhost:3000/?x=1"),
    ],
)
def test_where_to_forward_to_may_be_said_briefly(text: str, url: str) -> None:
    assert checked_target(text) == url


@in_turn("text", ["", "0", "99999", "ftp://x", "http://a b", "a:b", "http://x:y", "/hooks", "foo"])
def test_what_is_no_address_is_misuse(text: str) -> None:
    with pytest.raises(click.BadParameter, match="use a port, or a URL"):
        checked_target(text)


# --- the control endpoints


@pytest.fixture
def mine(server: Running) -> Iterator[httpx.Client]:
    """A client in a workspace of its own, on the server that all tests share."""
    with server.client(server.new_workspace()) as client:
        yield client


def opened(client: httpx.Client, **body: Any) -> Any:
    """A listener."""
    made = client.post("/sandbox/listeners", json=body)
    assert made.status_code == 201, made.text
    return made.json()["data"]


@contextmanager
def streaming(client: httpx.Client, listener: Any, **headers: str) -> Iterator[Iterator[str]]:
    """The lines of a stream, the first one read."""
    place = f"/sandbox/listeners/{listener['id']}/stream"
    asked = {"Accept": "text/event-stream", **headers}
    with client.stream("GET", place, headers=asked) as reply:
        assert reply.headers["content-type"] == "text/event-stream"
        lines = reply.iter_lines()
        assert (next(lines), next(lines)) == (": listening", "")
        yield lines


def next_message(lines: Iterator[str]) -> Any:
    return json.loads(next(one for one in lines if one.startswith("data: "))[6:])


def report(client: httpx.Client, listener: Any, number: int, **reported: Any) -> httpx.Response:
    """What the control API returns for a report."""
    place = f"/sandbox/listeners/{listener['id']}/responses"
    return client.post(place, json={"message": number, **reported})


def test_a_token_brings_a_listener_back_and_no_other_workspace_may_use_it(
    server: Running, mine: httpx.Client
) -> None:
    made = opened(mine)
    assert made["id"] == f"lsn_sandbox_{key_digest(made['token'])[:16]}"
    assert opened(mine, token=made["token"]) == made
    with server.client(server.new_workspace()) as other:
        taken = other.post("/sandbox/listeners", json={"token": made["token"]})
        assert taken.status_code == 409
        for method, rest in (("GET", "/stream"), ("DELETE", "")):
            place = f"/sandbox/listeners/{made['id']}{rest}"
            assert other.request(method, place).status_code == 404
        assert report(other, made, 1, status=200).status_code == 404


def test_without_a_stream_it_is_503_and_afterwards_404(mine: httpx.Client) -> None:
    made = opened(mine)
    subscribe(mine, made["url"], events=["*"])
    fire(mine)
    settle(mine)
    assert delivery(mine)["responseStatus"] == 503
    assert mine.delete(f"/sandbox/listeners/{made['id']}").status_code == 200
    assert mine.post(made["url"], json={}).status_code == 404
    assert mine.delete(f"/sandbox/listeners/{made['id']}").status_code == 404


def test_what_waits_is_sent_again_unless_it_was_seen(mine: httpx.Client) -> None:
    made = opened(mine)
    subscribe(mine, made["url"], events=["*"])
    with streaming(mine, made) as lines:
        fire(mine)
        message = next_message(lines)
    with streaming(mine, made) as lines:
        assert next_message(lines) == message
    poll = f"/sandbox/listeners/{made['id']}/stream"
    assert f"id: {message['message']}\n" in mine.get(poll).text
    seen = {"Last-Event-ID": str(message["message"])}
    assert mine.get(poll, headers=seen).text == ": listening\n\n"
    assert report(mine, made, message["message"], status=418, body="tea").status_code == 200
    settle(mine)
    assert delivery(mine)["responseStatus"] == 418
    assert delivery(mine)["attempts"][0]["response"]["body"] == "tea"
    assert report(mine, made, message["message"], status=200).status_code == 404


def test_a_stream_ends_when_another_takes_its_place(mine: httpx.Client) -> None:
    made = opened(mine)
    with streaming(mine, made) as first, streaming(mine, made):
        assert list(first) == [": replaced", ""]


def test_a_stream_ends_when_there_was_nothing_for_so_long(mine: httpx.Client) -> None:
    made = opened(mine)
    place = f"/sandbox/listeners/{made['id']}/stream"
    begun = time.monotonic()
    headers = {"Accept": "text/event-stream"}
    text = mine.get(place, params={"idle": 1}, headers=headers).text
    assert text == ": listening\n\n"
    assert time.monotonic() - begun > 0.9
    assert mine.get(place, params={"idle": 3601}).status_code == 400


@pytest.mark.parametrize(
    "reported",
    [
        {},
        {"status": 200, "error": "x"},
        {"status": 199},
        {"status": 600},
        {"status": 200, "retryAfter": "1\r\nx: y"},
        {"status": 200, "body": "x" * 4097},
        {"status": 200, "other": 1},
    ],
)
def test_a_report_of_another_form_is_rejected(mine: httpx.Client, reported: Any) -> None:
    assert report(mine, opened(mine), 1, **reported).status_code == 400


@pytest.mark.slow
def test_a_new_listener_takes_the_place_of_the_one_unused_for_longest() -> None:
    with serving() as running, running.client() as client:
        made = []
        for _ in range(16):
            running.system_clock.pass_seconds(1)
            made.append(opened(client))
        with streaming(client, made[0]):
            running.system_clock.pass_seconds(1)
            opened(client)
            gone = [client.post(one["url"], json={}).status_code == 404 for one in made[1:]]
            assert gone == [True] + [False] * 14


@pytest.mark.process
def test_when_all_are_connected_it_is_409(mine: httpx.Client) -> None:
    with ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(streaming(mine, opened(mine)))
        assert mine.post("/sandbox/listeners", json={}).status_code == 409


@pytest.mark.parametrize("how", ["variable", "option", "neither"])
def test_a_receiver_with_a_certificate_of_ones_own_is_trusted_if_one_asks_for_it(
    how: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "variable":
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    message = Message(1, {"webhook-id": "evt_1"}, "{}", "invoice.verified")
    with receiving(tls=tls_of(certificate)) as receiver:
        target = f"https://localhost:{receiver.port}/hooks"
        with LocalReceiver(target, certificate if how == "option" else None) as local:
            forwarded = local.deliver(message, PATIENCE)
    if how == "neither":
        expected = "tls_failed", "self-signed certificate"
        assert (forwarded.error, forwarded.reason) == expected
    else:
        assert (forwarded.status, len(receiver.messages)) == (200, 1)


def test_a_file_without_a_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    result = run(f"listen --forward-to 3000 --ca {tmp_path / 'ca.pem'}")
    assert result.exit_code == 2
    assert "ca.pem' has no certificate in PEM" in result.stderr
