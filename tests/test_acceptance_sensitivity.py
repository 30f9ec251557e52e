"""The faulty proxy of ``acceptance sensitivity``: what faults do to real messages, and what the
command says."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.acceptance.faults import FAULTS, Fault
from invoice_sandbox.acceptance.proxy import Interference, Proxy
from invoice_sandbox.cli import main
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.acceptance.page import POWER_PAGE
from tests.acceptance.selftest import FOLDER
from tests.cases import in_turn
from tests.support import Running, serving

CLIENT = f"{sys.executable} -S -E {FOLDER / 'client.py'}"
PLAN = """\
name: plan
purpose: A client registers an invoice with a key.
capabilities: {idempotency: It sends keys., webhooks: It receives webhooks.}
checks:
  - id: keys
    level: must
    proves: The client repeats a request with its key.
    specification: Limits
    cases:
      - task:
          name: register
          invoice:
            sellerId: org_seller_acme
            debtorId: org_debtor_globex
            invoiceNumber: A-1
            amount: 10
            currency: EUR
            issueDate: '2026-11-01'
            dueDate: '2027-01-30'
        setup:
          - send: POST /sandbox/faults
            body: {operation: createInvoice, kind: status, status: 503, when: before}
        controls: [{request: createInvoice, atLeast: 1}]
        rules: [{that: Both have one key., request: createInvoice, same: idempotencyKey}]
"""


@dataclass
class Api:
    """A server that keeps what it gets, and responds with these statuses one after the other."""

    statuses: list[int] = field(default_factory=list)
    got: list[tuple[str, str, dict[str, str], str]] = field(default_factory=list)

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        """Keep the request, and respond."""
        body = handler.rfile.read(int(handler.headers["content-length"] or 0)).decode()
        headers = {name.lower(): text for name, text in handler.headers.items()}
        self.got.append((handler.command, handler.path, headers, body))
        handler.send_response(self.statuses.pop(0) if self.statuses else 200)
        for name, text in {"Retry-After": "2", "Link": "<next>", "Content-Length": "4"}.items():
            handler.send_header(name, text)
        handler.end_headers()
        handler.wfile.write(b"abcd")


@pytest.fixture(scope="module")
def listening() -> Iterator[ThreadingHTTPServer]:
    """A server for ``api`` of every test."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Respond."""
            self.server.api.respond(self)  # type: ignore[attr-defined]

        do_GET = do_POST  # noqa: N815 - the name is that of the library

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


Sent = tuple[str, str, dict[str, str], str]
POST: Sent = ("POST", "/things", {"Idempotency-Key": "k"}, '{"a": 1.234}')
GET: Sent = ("GET", "/things", {}, "")
MESSAGE: Sent = ("POST", "/", {"webhook-id": "m", "webhook-signature": "v1,x v1,y"}, "{}")


def behind(fault: Fault, port: int, *sent: Sent) -> tuple[list[Any], int]:
    """The responses to requests behind a fault, None if there was none, and its effects."""
    proxy = Proxy(0, "127.0.0.1", port, Interference(fault))
    seen: list[Any] = []
    for method, path, headers, body in sent:
        connection = HTTPConnection("127.0.0.1", proxy.server_port, timeout=10)
        try:
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            seen.append((response.status, response.headers["Retry-After"], response.read()))
        except (HTTPException, OSError):
            seen.append(None)
        finally:
            connection.close()
    proxy.shutdown()
    proxy.server_close()
    return seen, proxy.work.effects


def named(name: str) -> Fault:
    """A fault of the table."""
    return next(fault for fault in FAULTS if fault.name == name)


@in_turn(
    ("name", "sent", "member", "expected"),
    [
        ("drops-keys", [POST], "key", [None]),
        ("fixes-the-key", [POST, POST], "key", ["fixed", "fixed"]),
        ("changes-amounts", [POST], "body", ['{"a": 11.234}']),
        ("rounds-amounts", [POST], "body", ['{"a": 1.23}']),
        ("changes-repetitions", [POST, POST], "body", ['{"a": 1.234}', '{"a": 11.234}']),
        ("repeats-writes", [POST, GET], "method", ["POST", "POST", "GET"]),
        ("responds-to-writes", [POST, GET], "method", ["GET"]),
        ("reads-from-memory", [GET, GET, POST], "method", ["GET", "POST"]),
        ("swallows-pages", [GET], "path", ["/things?limit=5"]),
        ("reads-one-signature", [MESSAGE], "signature", ["v1,x"]),
        ("rejects-copies", [MESSAGE, MESSAGE], "method", ["POST"]),
        ("acknowledges-without-delivering", [MESSAGE], "method", []),
        ("accepts-unsigned-messages", [MESSAGE, POST], "method", ["POST"]),
    ],
)
def test_what_the_server_gets_behind_a_fault(
    listening: ThreadingHTTPServer, name: str, sent: list[Sent], member: str, expected: list[Any]
) -> None:
    listening.api = api = Api()  # type: ignore[attr-defined]
    _, effects = behind(named(name), listening.server_port, *sent)
    names = {"key": "idempotency-key", "signature": "webhook-signature"}
    found = [
        {"method": method, "path": path, "body": body}.get(
            member, headers.get(names.get(member, ""))
        )
        for method, path, headers, body in api.got
    ]
    assert found == expected
    assert effects > 0


@in_turn(
    ("name", "statuses", "expected", "number"),
    [
        ("hides-retry-after", [503], (503, None, b"abcd"), 1),
        ("halves-retry-after", [429], (429, "1", b"abcd"), 1),
        ("repeats-at-once", [503, 429, 201], (201, "2", b"abcd"), 3),
        ("repeats-a-rejected-body", [400] * 5, (400, "2", b"abcd"), 3),
        ("takes-failures-for-rejections", [503], (400, None, b"abcd"), 1),
        ("takes-failures-for-successes", [500], (200, None, b"abcd"), 1),
        ("cuts-responses", [201], None, 1),
        ("hides-retry-after", [201], (201, "2", b"abcd"), 1),
    ],
)
def test_what_the_client_gets_behind_a_fault(
    listening: ThreadingHTTPServer, name: str, statuses: list[int], expected: Any, number: int
) -> None:
    listening.api = api = Api([*statuses])  # type: ignore[attr-defined]
    responses, _ = behind(named(name), listening.server_port, POST)
    assert responses == [expected]
    assert len(api.got) == number


def test_a_body_in_chunks_arrives_whole(listening: ThreadingHTTPServer) -> None:
    listening.api = api = Api()  # type: ignore[attr-defined]
    chunked = ("POST", "/things", {"Transfer-Encoding": "chunked"}, "")
    proxy = Proxy(0, "127.0.0.1", listening.server_port, Interference(Fault(name="", that="")))
    connection = HTTPConnection("127.0.0.1", proxy.server_port, timeout=10)
    connection.request(*chunked[:2], iter([b"ab", b"cd"]), chunked[2], encode_chunked=True)
    assert connection.getresponse().status == 200
    assert api.got[0][3] == "abcd"
    connection.close()
    proxy.shutdown()
    proxy.server_close()


def test_there_are_many_faults_with_a_name_and_a_sentence_each() -> None:
    assert len(FAULTS) >= 30
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert [fault.name for fault in FAULTS if not fault.that.endswith(".")] == []


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server for every run."""
    with serving() as running:
        yield running


def measure(server: Running, folder: Path, *words: str, command: str = CLIENT) -> Result:
    """The result of the command with a small plan."""
    (folder / "plan.yaml").write_text(PLAN)
    fixed = ["acceptance", "sensitivity", "--server", server.url, "--key", DEMO_KEY]
    fixed += ["--plan", str(folder / "plan.yaml"), "--declare", "idempotency", "--exec", command]
    return CliRunner().invoke(main, [*fixed, *words])


@pytest.mark.process
def test_what_is_caught_what_is_not_and_what_does_not_apply(
    server: Running, tmp_path: Path
) -> None:
    chosen = ("renews-keys", "rounds-amounts", "changes-amounts", "rejects-messages")
    words = [word for name in chosen for word in ("--only", name)]
    result = measure(server, tmp_path, *words)
    assert sorted(result.output.splitlines()) == sorted(
        [
            "without a fault: no check fails",
            "caught         renews-keys: Every repetition has a new Idempotency-Key. (by keys)",
            (
                "not applicable rounds-amounts: Amounts have two decimals. "
                "(the client sends nothing that it is about)"
            ),
            (
                "not caught     changes-amounts: A digit is put before every amount. "
                "(every check came to PASS)"
            ),
            "not applicable rejects-messages: Every webhook is rejected. (it needs webhooks)",
            "1 of 2 faults caught; 2 not applicable",
        ]
    )
    assert result.exit_code == 1


@pytest.mark.process
def test_the_findings_as_json(server: Running, tmp_path: Path) -> None:
    result = measure(server, tmp_path, "--only", "drops-keys", "--json")
    (found,) = json.loads(result.stdout)
    assert (found["fault"], found["applies"], found["caughtBy"]) == ("drops-keys", True, ["keys"])
    assert result.exit_code == 0


@pytest.mark.process
def test_a_client_that_fails_without_a_fault_shows_nothing(server: Running, tmp_path: Path) -> None:
    result = measure(server, tmp_path, command=f"{CLIENT} --fault new-key-for-each-attempt")
    assert result.exit_code == 2
    assert "the client must be right: without a fault it comes to FAIL in keys: " in result.output


def test_a_fault_that_does_not_exist(server: Running, tmp_path: Path) -> None:
    result = measure(server, tmp_path, "--only", "drop-keys")
    assert result.exit_code == 2
    assert "--only: there is no fault 'drop-keys' (did you mean drops-keys?)" in result.output


def test_the_page_has_every_fault_with_its_sentence() -> None:
    page = POWER_PAGE.read_text()
    assert [one.name for one in FAULTS if f"| `{one.name}` | {one.that} |" not in page] == []
