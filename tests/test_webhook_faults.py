"""Receivers that misbehave: what an attempt is found to be, and what becomes of the delivery."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.certificates import tls_of
from tests.receivers import (
    Endless,
    Manner,
    Receiver,
    deliveries,
    delivery,
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
from tests.support import PATIENCE, Running, serving

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
    "breaks off": (reset, ("Failed", None, "reset")),
    "closes without a word": (raw(b""), ("Failed", None, "no_http")),
    "says something else": (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), ("Failed", None, "no_http")),
    "stops within its body": (
        raw(OK + b"content-length: 100\r\n\r\nshort"),
        ("Failed", None, "no_http"),
    ),
    "has chunks that are none": (
        raw(OK + b"transfer-encoding: chunked\r\n\r\nzz\r\n"),
        ("Failed", None, "no_http"),
    ),
    "has a head without end": (raw(OK + b"a: b\r\n" * 100_000), ("Failed", None, "no_http")),
    "says Continue for ever": (
        raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 3),
        ("Failed", None, "no_http"),
    ),
    "answers and closes": (raw(OK + b"\r\nfine"), ("Delivered", 200, None)),
    "says Continue before it answers": (
        raw(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 0\r\n\r\n"),
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


def deliver_at_last(client: httpx.Client) -> None:
    """Attempt it on schedule until the receiver, which now responds at once, did so in time."""

    def is_delivered() -> bool:
        advance(client, by="PT5M")
        return bool(delivery(client)["status"] == "Delivered")

    until(is_delivered, "it is delivered")


def test_a_port_on_which_nobody_listens_has_refused(client: httpx.Client) -> None:
    subscribe(client, f"http://127.0.0.1:{free_port()}")
    trigger(client)
    advance(client, by="PT0S")
    assert outcome(client) == ("Failed", None, "refused")


def test_a_name_that_leads_nowhere_is_not_found(client: httpx.Client) -> None:
    subscribe(client, "https://partner.invalid/hooks")
    trigger(client)
    advance(client, by="PT0S")
    assert outcome(client) == ("Failed", None, "name_not_found")


def test_a_certificate_that_is_not_trusted_is_named(
    client: httpx.Client, certificate: Path
) -> None:
    with receiving(tls=tls_of(certificate)) as receiver:
        subscribe(client, receiver.url)
        trigger(client)
        advance(client, by="PT0S")
    assert outcome(client) == ("Failed", None, "tls_failed")
    assert attempt(client)["reason"] == "self-signed certificate"
    assert receiver.messages == []


def test_a_name_below_localhost_is_this_machine(client: httpx.Client, receiver: Receiver) -> None:
    subscribe(client, f"http://app.localhost:{receiver.port}/h")
    trigger(client)
    advance(client, by="PT0S")
    assert outcome(client) == ("Delivered", 200, None)


def test_a_redirect_leads_nowhere(client: httpx.Client, receiver: Receiver) -> None:
    with receiving() as other:
        receiver.responses(response(307, location=other.url))
        subscribe(client, receiver.url)
        trigger(client)
        advance(client, by="PT0S")
        assert outcome(client) == ("Failed", 307, None)
        assert other.messages == []


# Bodies


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


def test_a_body_that_trickles_ends_in_a_timeout(hasty: httpx.Client, receiver: Receiver) -> None:
    receiver.responses(Endless(b"x", 0.05), response())
    subscribe(hasty, receiver.url)
    trigger(hasty)
    advance(hasty, by="PT0S")
    assert outcome(hasty) == ("Failed", None, "timeout")
    deliver_at_last(hasty)


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
