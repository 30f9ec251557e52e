"""Receivers that misbehave: what an attempt is found to be, and what becomes of the delivery."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from invoice_sandbox.webhooks.attempts import Outcome, Outgoing
from invoice_sandbox.webhooks.network import ForbiddenAddressError
from invoice_sandbox.webhooks.sender import Sender
from tests.receivers import (
    Endless,
    Manner,
    Receiver,
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
from tests.scenario_run import advance, register_new, until
from tests.support import PATIENCE, ManualSystemClock, Running, serving

TIMEOUT = 0.4
"""Seconds that a receiver has where its timeout is what is tested. A slow machine may take longer
for what a receiver returns at once, so such a server only shows what ends in a timeout."""

LIMIT = 64 * 1024


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server that waits long for receivers."""
    with serving(receiver_seconds=PATIENCE) as running:
        yield running


@pytest.fixture(scope="module")
def hasty_server() -> Iterator[Running]:
    """A server that does not."""
    with serving(receiver_seconds=TIMEOUT) as running:
        yield running


@contextmanager
def in_new_workspace(server: Running) -> Iterator[httpx.Client]:
    """A client in a new workspace with an invoice that events can be about."""
    with server.client(server.new_workspace()) as client:
        register_new(client)
        yield client


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    with in_new_workspace(server) as client:
        yield client


@pytest.fixture
def hasty(hasty_server: Running) -> Iterator[httpx.Client]:
    """The same, on the hasty server."""
    with in_new_workspace(hasty_server) as client:
        yield client


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def attempt(client: httpx.Client) -> Any:
    """The first attempt of the only delivery."""
    return delivery(client)["attempts"][0]


def outcome(client: httpx.Client) -> tuple[str, int | None, str | None]:
    """Status of the delivery, status of the response, and the error, after one attempt."""
    one = delivery(client)
    assert one["attempt"] == 1
    return one["status"], one["responseStatus"], attempt(client)["error"]


OK = b"HTTP/1.1 200 OK\r\n"

FAULTS: dict[str, tuple[Manner, tuple[str, int | None, str | None]]] = {
    "breaks off": (reset, ("Failed", None, "no_connection")),
    "closes without a word": (raw(b""), ("Failed", None, "no_http")),
    "says something else": (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), ("Failed", None, "no_http")),
    "says nothing sensible": (raw(b"\x00\xff" * 500), ("Failed", None, "no_http")),
    "stops within its head": (raw(b"HTTP/1.1 200 O"), ("Failed", None, "no_http")),
    "stops within its body": (
        raw(OK + b"content-length: 100\r\n\r\nshort"),
        ("Failed", None, "no_http"),
    ),
    "lies about its length": (raw(OK + b"content-length: x\r\n\r\n"), ("Failed", None, "no_http")),
    "has chunks that are none": (
        raw(OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n"),
        ("Failed", None, "no_http"),
    ),
    "has a head without end": (raw(OK + b"a: b\r\n" * 100_000), ("Failed", None, "no_http")),
    "has a status that is none": (raw(b"HTTP/1.1 2000 OK\r\n\r\n"), ("Failed", None, "no_http")),
    "says Continue for ever": (
        raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 3),
        ("Failed", None, "no_http"),
    ),
    "answers and closes": (raw(OK + b"\r\nfine"), ("Delivered", 200, None)),
    "answers in HTTP/1.0": (raw(b"HTTP/1.0 200 OK\r\n\r\n"), ("Delivered", 200, None)),
    "says Continue before it answers": (
        raw(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 0\r\n\r\n"),
        ("Delivered", 200, None),
    ),
    "claims to be compressed": (
        response(200, b"no gzip", content_encoding="gzip"),
        ("Delivered", 200, None),
    ),
    "has a strange Retry-After": (
        raw(b"HTTP/1.1 503 No\r\nretry-after: \xff\xfe\r\ncontent-length: 0\r\n\r\n"),
        ("Failed", 503, None),
    ),
}


@pytest.mark.parametrize(("manner", "expected"), FAULTS.values(), ids=FAULTS)
def test_whatever_a_receiver_does_is_an_outcome(
    client: httpx.Client,
    receiver: Receiver,
    manner: Manner,
    expected: tuple[str, int | None, str | None],
) -> None:
    receiver.responses(manner)
    subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="PT0S")
    assert outcome(client) == expected
    receiver.responses(response())
    advance(client, by="PT5S")
    assert delivery(client)["status"] == "Delivered"
    assert len(set(receiver.ids())) == 1


@pytest.mark.parametrize("manner", [hang, response(delay=TIMEOUT * 2)], ids=["never", "too late"])
def test_a_receiver_that_does_not_respond_in_time_is_a_timeout(
    hasty: httpx.Client, receiver: Receiver, manner: Manner
) -> None:
    receiver.responses(manner)
    subscribe(hasty, receiver.url)
    trigger(hasty)
    advance(hasty, by="PT0S")
    assert outcome(hasty) == ("Failed", None, "timeout")
    receiver.responses(response())
    deliver_at_last(hasty)
    assert len(set(receiver.ids())) == 1


def test_an_advance_waits_no_longer_for_receivers_of_which_none_responds(
    hasty: httpx.Client, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("invoice_sandbox.runtime.agenda.PATIENCE", TIMEOUT * 1.5)
    receiver.responses(hang)
    subscribe(hasty, receiver.url)
    trigger(hasty)
    moved = advance(hasty, by="P2D")
    assert len(moved["happened"]) < 7, "each attempt after the first one took TIMEOUT"


def deliver_at_last(client: httpx.Client) -> None:
    """Attempt it on schedule until the receiver, which now responds at once, did so in time."""

    def is_delivered() -> bool:
        advance(client, by="PT5M")
        return bool(delivery(client)["status"] == "Delivered")

    until(is_delivered, "it is delivered")


def test_a_port_on_which_nobody_listens_is_no_connection(client: httpx.Client) -> None:
    subscribe(client, f"http://127.0.0.1:{free_port()}")
    trigger(client)
    advance(client, by="PT0S")
    assert outcome(client) == ("Failed", None, "no_connection")


def test_a_name_that_leads_nowhere_is_no_connection(client: httpx.Client) -> None:
    subscribe(client, "https://partner.invalid/hooks")
    trigger(client)
    advance(client, by="PT0S")
    assert outcome(client) == ("Failed", None, "no_connection")


def test_tls_to_a_receiver_that_speaks_none_is_a_failure_and_leaves_nothing_open(
    hasty: httpx.Client, receiver: Receiver
) -> None:
    subscribe(hasty, receiver.url.replace("http:", "https:"))
    trigger(hasty)
    advance(hasty, by="PT0S")
    assert outcome(hasty) == ("Failed", None, "timeout")
    gc.collect()  # what was left open would warn now


def test_a_redirect_leads_nowhere(client: httpx.Client, receiver: Receiver) -> None:
    with receiving() as other:
        receiver.responses(response(307, location=other.url))
        subscribe(client, receiver.url)
        trigger(client)
        advance(client, by="PT0S")
        assert outcome(client) == ("Failed", 307, None)
        assert other.messages == []


def test_an_error_of_our_own_is_a_failed_attempt_and_stops_no_lane(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise ValueError("on purpose")

    transport = httpx.MockTransport(fail)
    sender = Sender(
        ManualSystemClock(), lambda: transport, lambda: transport, "http://127.0.0.1:1", 1
    )
    outcome = asyncio.run(sender.send(Outgoing("https://partner.example/", {}, b"{}")))
    assert (outcome.status, outcome.error, outcome.is_success) == (None, "no_connection", False)
    assert "failed by an internal error" in caplog.text


NO_RESPONSE: dict[str, tuple[Exception, str]] = {
    "a forbidden address": (ForbiddenAddressError("10.0.0.1", "private"), "address_not_allowed"),
    "another protocol": (httpx.UnsupportedProtocol("ftp"), "address_not_allowed"),
    "no response in time": (httpx.ReadTimeout("read"), "timeout"),
    "no HTTP": (httpx.RemoteProtocolError("nonsense"), "no_http"),
    "no connection": (httpx.ConnectError("refused"), "no_connection"),
}


@pytest.mark.parametrize(("problem", "error"), NO_RESPONSE.values(), ids=NO_RESPONSE)
def test_an_attempt_without_a_response_names_the_reason(problem: Exception, error: str) -> None:
    def fail(_: httpx.Request) -> httpx.Response:
        raise problem

    transport = httpx.MockTransport(fail)
    sender = Sender(
        ManualSystemClock(), lambda: transport, lambda: transport, "http://127.0.0.1:1", 1
    )
    outcome = asyncio.run(sender.send(Outgoing("https://partner.example/", {}, b"{}")))
    assert (outcome.status, outcome.error, outcome.is_success) == (None, error, False)


def sent_by(transport: httpx.AsyncBaseTransport, timeout: float = 10) -> Outcome:
    """The outcome of a request over this transport."""

    async def send() -> Outcome:
        sender = Sender(
            ManualSystemClock(), lambda: transport, lambda: transport, "http://127.0.0.1:1", timeout
        )
        outcome = await sender.send(Outgoing("https://partner.example/", {}, b"{}"))
        await sender.close()
        return outcome

    return asyncio.run(send())


async def parts(sizes: Sequence[int], read: list[int]) -> AsyncIterator[bytes]:
    """A body in parts, those that were read so far."""
    for size in sizes:
        read.append(size)
        yield b"x" * size


def test_a_connection_may_take_a_part_of_the_timeout() -> None:
    timeouts: list[Any] = []

    def respond(request: httpx.Request) -> httpx.Response:
        timeouts.append(request.extensions["timeout"])
        return httpx.Response(204, content=parts([], []))

    assert sent_by(httpx.MockTransport(respond)).status == 204
    assert timeouts == [{"connect": 4.0, "read": 10, "write": 10, "pool": 10}]


# Bodies


@pytest.mark.parametrize("sizes", [(LIMIT - 1, 1, 1), (LIMIT - 1, 2, 1)])
def test_of_a_body_64_kib_are_read_and_not_a_part_more(sizes: Sequence[int]) -> None:
    read: list[int] = []
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=parts(sizes, read)))
    assert len(sent_by(transport).body) == LIMIT
    assert read == [*sizes[:2]]


def test_a_response_is_read_no_further_than_64_kib(
    client: httpx.Client, receiver: Receiver
) -> None:
    body = Endless(b"x" * 10_000, 0.001)
    receiver.responses(body)
    subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="PT0S")
    assert outcome(client) == ("Delivered", 200, None)
    assert attempt(client)["response"]["body"] == "x" * 512
    assert body.is_over.wait(PATIENCE), "the connection was not closed"
    assert body.written < LIMIT + 3_000_000  # what sockets hold besides


def test_a_large_response_that_is_complete_is_a_success(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(200, b"y" * 5_000_000), response())
    subscribe(client, receiver.url)
    for _ in range(2):
        trigger(client)
    advance(client, by="PT0S")
    assert [one["status"] for one in deliveries(client)] == ["Delivered"] * 2


def test_a_body_that_trickles_ends_in_a_timeout(hasty: httpx.Client, receiver: Receiver) -> None:
    receiver.responses(Endless(b"x", 0.05), response())
    subscribe(hasty, receiver.url)
    trigger(hasty)
    advance(hasty, by="PT0S")
    assert outcome(hasty) == ("Failed", None, "timeout")
    deliver_at_last(hasty)


def test_a_receiver_that_does_not_even_take_the_connection_ends_in_a_timeout(
    hasty: httpx.Client,
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
            subscribe(hasty, f"http://127.0.0.1:{port}")
            trigger(hasty)
            advance(hasty, by="PT0S")
        finally:
            for one in waiting:
                one.close()
    assert outcome(hasty) == ("Failed", None, "timeout")


def test_the_time_that_an_attempt_took_is_reported(server: Running, client: httpx.Client) -> None:
    """In real time, which stands still in this test."""
    gate = threading.Event()
    with receiving(held(gate)) as receiver:
        subscribe(client, receiver.url)
        trigger(client)
        until(lambda: len(receiver.messages) == 1, "it is under way")
        server.system_clock.pass_seconds(0.125)
        gate.set()
        advance(client, by="PT0S")
    server.system_clock.pass_seconds(-0.125)
    assert attempt(client)["durationMs"] == delivery(client)["durationMs"] == 125


# What is lost and what is not


def test_a_response_after_the_timeout_is_a_failure_and_the_next_attempt_has_the_same_id(
    hasty: httpx.Client, receiver: Receiver
) -> None:
    """The receiver has processed it, and has to recognise it when it comes again."""
    receiver.responses(response(200, delay=TIMEOUT * 2), response(200))
    subscribe(hasty, receiver.url)
    trigger(hasty)
    deliver_at_last(hasty)
    errors = [one["error"] for one in delivery(hasty)["attempts"]]
    assert (errors[0], errors[-1]) == ("timeout", None)
    assert len(receiver.messages) >= 2
    assert len({(one.id, one.body) for one in receiver.messages}) == 1


@contextmanager
def process(port: int) -> Iterator[subprocess.Popen[str]]:
    """A receiver in a process of its own, which says the id of each message."""
    command = [sys.executable, "-m", "tests.receivers", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as receiver:
        try:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == "ready\n"
            yield receiver
        finally:
            receiver.kill()


@pytest.mark.process
def test_a_receiver_that_is_killed_between_attempts_gets_everything_when_it_is_back(
    client: httpx.Client,
) -> None:
    port = free_port()
    subscribe(client, f"http://127.0.0.1:{port}")
    with process(port) as receiver:
        trigger(client)
        advance(client, by="PT0S")
        receiver.kill()
        assert receiver.stdout is not None
        before = receiver.stdout.read().split()
    for _ in range(3):
        trigger(client)
    advance(client, by="PT5S")
    assert [one["status"] for one in deliveries(client)] == ["Delivered", *["Failed"] * 3]
    errors = {two["error"] for one in deliveries(client)[1:] for two in one["attempts"]}
    assert errors <= {"no_connection", "no_http"}  # the first may have had the old connection
    with process(port) as receiver:
        advance(client, by="PT5M")
        receiver.kill()
        assert receiver.stdout is not None
        after = receiver.stdout.read().split()
    assert before + after == [one["eventId"] for one in deliveries(client)]
    assert {one["status"] for one in deliveries(client)} == {"Delivered"}


def test_a_receiver_that_is_killed_while_it_works_gets_the_message_again(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(reset, response())
    subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="PT5S")
    assert receiver.ids() == [delivery(client)["eventId"]] * 2
    assert delivery(client)["status"] == "Delivered"


def test_a_connection_that_was_kept_and_closed_costs_no_attempt(client: httpx.Client) -> None:
    """A receiver that is restarted has closed the connection of the delivery before."""
    port = free_port()
    subscribe(client, f"http://127.0.0.1:{port}")
    for _ in range(2):
        with receiving(port=port) as receiver:
            trigger(client)
            advance(client, by="PT0S")
            assert len(receiver.messages) == 1
    assert [one["attempt"] for one in deliveries(client)] == [1, 1]


def test_an_endpoint_that_only_hangs_is_disabled_like_any_other(
    hasty: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(hang)
    one = subscribe(hasty, receiver.url, retryProfile="fast")
    trigger(hasty)
    advance(hasty, by="PT2S")
    assert delivery(hasty)["status"] == "Failed"
    receiver.responses(reset)
    advance(hasty, by="P5D")
    assert endpoint(hasty, one["id"])["disabledReason"] == "failing"
    assert delivery(hasty)["status"] == "Exhausted"
