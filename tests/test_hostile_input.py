"""Whatever is sent: a clear response, soon, never a 5xx; and then the server is as well as before.

Every server here is a process of its own, so that its memory and its log are its own too. The
limits are those of docs/limits.md.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

from invoice_sandbox.openapi.operation import Contract, Operation
from tests.hostile.cases import GROUPS, HEALTH, Case
from tests.hostile.json_texts import MAY, MUST_ACCEPT, MUST_REJECT
from tests.hostile.server import IMPATIENT
from tests.hostile.wire import Process, Response, Wire, process, request
from tests.scenario_run import until
from tests.support import PATIENCE, Running

pytestmark = pytest.mark.process

MEBIBYTE: Final = 1024 * 1024
MAX_GROWTH: Final = 192 * MEBIBYTE
"""What a server may need more after everything in this module than before. The most is needed for
a push of 100,000 ERP items in one body: each is a step, then an entry of the audit log."""

MAX_LEFT: Final = 40 * MEBIBYTE
"""What it may need more when everything was taken back and comes again."""

SIDE_BY_SIDE: Final = 50
NO_JSON: Final = "The body cannot be read as JSON"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The sandbox with its usual patience within a request. In the end it is healthy, quiet, and no
    larger. What explodes takes years; a connection of a test gives up after a minute."""
    log = tmp_path_factory.mktemp("hostile") / "log"
    with process(log, "tests.hostile.server", "patient") as server:
        for path in ("/docs", "/openapi.json", "/api/invoices"):
            server.ask("GET", path)
        before = server.resident()
        yield server
        check_health(server, before)


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The same, with the seconds of patience made short."""
    log = tmp_path_factory.mktemp("impatient") / "log"
    with process(log, "tests.hostile.server", "impatient") as server:
        server.ask("GET", "/openapi.json")
        before = server.resident()
        yield server
        check_health(server, before)


def check_health(server: Process, before: int) -> None:
    assert server.ask("GET", "/api/health").status == 200
    assert "Traceback" not in server.log.read_text()
    assert server.resident() - before < MAX_GROWTH


def talk(wire: Wire, case: Case) -> Iterator[Response]:
    """Send what the case sends, and read one response after the other."""
    wire.send(case.sent)
    if case.half:
        wire.socket.shutdown(socket.SHUT_WR)
    for _ in case.statuses:
        yield wire.response()


CASES: Final = [
    pytest.param(case, id=f"{group}: {name[:60]}")
    for group, cases in GROUPS.items()
    for name, case in cases.items()
]


@pytest.mark.parametrize("case", CASES)
def test_every_request_gets_a_response_as_far_as_a_response_is_possible(
    hostile: Process, case: Case
) -> None:
    with hostile.wire() as wire:
        responses = talk(wire, case)
        for allowed, response in zip(case.statuses, responses, strict=True):
            assert response.status in (allowed if isinstance(allowed, frozenset) else {allowed})
            assert response.envelope_problem() is None
        if case.then == "closed":
            assert wire.is_closed()
        else:
            wire.send(HEALTH)
            assert wire.response().status == 200


def operations_with_a_body(contract: Contract) -> list[Operation]:
    return [
        one
        for one in contract.operations.values()
        if one.body is not None and "application/json" in one.body.checkers
    ]


@pytest.fixture(scope="module")
def targets(server: Running, hostile: Process) -> dict[str, str]:
    """The method and path of each operation with a JSON body, with what stands in its path."""
    project = server.sandbox.engine.project
    inbox = json.loads(hostile.ask("GET", "/sandbox/inbox").body)["data"]["url"]
    token = inbox.rpartition("/")[2]
    found = {}
    for contract in (project.contract, project.control):
        for one in operations_with_a_body(contract):
            path = contract.base_path + one.path
            path = path.replace("{token}", token).replace("{id}", "x").replace("{address}", "x")
            found[one.id] = f"{one.method} {path}"
    return found


def test_every_operation_with_a_body_is_in_the_corpus(
    server: Running, targets: dict[str, str]
) -> None:
    project = server.sandbox.engine.project
    both = (project.contract, project.control)
    ours = {one.id for contract in both for one in operations_with_a_body(contract)}
    assert ours == set(targets)
    assert len(ours) >= 20
    assert not any("{" in target for target in targets.values())


EVERY = 5
"""One in so many texts is sent to an operation: each text comes to many operations, and each
operation reads many of all kinds. All of them read JSON with the same function."""


def shares(
    texts: dict[str, bytes], targets: dict[str, str]
) -> Iterator[tuple[str, str, dict[str, bytes]]]:
    """The operations with their targets, and their part of the texts."""
    for number, (operation, target) in enumerate(targets.items()):
        yield operation, target, dict(islice(texts.items(), number % EVERY, None, EVERY))


def classes(texts: dict[str, bytes], wire: Wire, target: str) -> Iterator[tuple[str, Response]]:
    """Send every text as the body of one operation, over one connection."""
    method, path = target.split()
    for name, text in texts.items():
        wire.send(request(method, path, body=text))
        yield name, wire.response()


def is_no_json(response: Response) -> bool:
    return response.status == 400 and NO_JSON in json.loads(response.body)["error"]["message"]


def test_what_is_no_json_is_rejected_by_every_operation(
    hostile: Process, targets: dict[str, str]
) -> None:
    wrong: dict[str, Any] = {}
    with hostile.wire() as wire:
        for operation, target, part in shares(MUST_REJECT, targets):
            for name, response in classes(part, wire, target):
                if not is_no_json(response) or response.envelope_problem():
                    wrong[f"{operation} {name}"] = (response.status, response.body[:200])
    assert not wrong


def test_what_is_json_is_read_as_json_by_every_operation(
    hostile: Process, targets: dict[str, str]
) -> None:
    wrong: dict[str, Any] = {}
    with hostile.wire() as wire:
        for operation, target, part in shares(MUST_ACCEPT, targets):
            for name, response in classes(part, wire, target):
                fine = response.status < 500 and not is_no_json(response)
                if not fine or response.envelope_problem():
                    wrong[f"{operation} {name}"] = (response.status, response.body[:200])
    assert not wrong


def test_what_json_leaves_open_is_read_as_documented(
    hostile: Process, targets: dict[str, str]
) -> None:
    texts = {name: text for name, (text, _) in MAY.items()}
    wrong: dict[str, Any] = {}
    with hostile.wire() as wire:
        for operation, target, part in shares(texts, targets):
            for name, response in classes(part, wire, target):
                if response.status >= 500 or is_no_json(response) == MAY[name][1]:
                    wrong[f"{operation} {name}"] = (response.status, response.body[:200])
    assert not wrong


AMOUNTS: Final = {
    "a hundred million digits below one": "1e-100000000",
    "close to the smallest decimal": "1e-999999999999999999",
    "a nothing of any size": "0e999999999999",
    "a nothing below zero": "-0e99999999999",
    "200,000 digits": "0." + "1" * 200_000,
    "200,000 digits that an exponent takes back": "1" + "0" * 200_000 + "e-200000",
    "200,000 digits below nothing": "-0." + "1" * 200_000,
    "200,000 digits below nothing, taken back": "-1" + "0" * 200_000 + "e-200000",
    "308 digits below nothing": "-" + "9" * 308,
    "the largest double": "1.7976931348623157e308",
}


@pytest.mark.parametrize("path", ["/api/invoices", "/api/registry/fingerprint", "/api/offers"])
@pytest.mark.parametrize("amount", AMOUNTS.values(), ids=AMOUNTS)
def test_no_number_makes_the_server_count_for_long(
    hostile: Process, path: str, amount: str
) -> None:
    body = (
        f'{{"sellerId":"s","debtorId":"d","invoiceNumber":"n","currency":"EUR","amount":{amount}}}'
    )
    assert hostile.ask("POST", path, body=body.encode()).status < 500


WIDE: Final = {
    "25,000 members": b"{" + b",".join(b'"%d":0' % n for n in range(25_000)) + b"}",
    "80,000 items": b"[" + b",".join([b"{}"] * 80_000) + b"]",
    "one key, 20,000 times": b"{" + b",".join([b'"sellerId":1'] * 20_000) + b"}",
    "a long key": b'{"' + b"k" * 250_000 + b'":1}',
    "invoices that are wrong in many ways": b'{"invoices":[' + b",".join([b"1"] * 100_000) + b"]}",
    "240 levels, many times": b"[" + b",".join([b"[" * 239 + b"]" * 239] * 100) + b"]",
    "only escapes": b'{"sellerId":"' + rb"\u0000" * 40_000 + b'"}',
}


def test_a_large_body_is_judged_soon_by_every_operation(
    hostile: Process, targets: dict[str, str]
) -> None:
    with hostile.wire() as wire:
        for operation, target, part in shares(WIDE, targets):
            for name, response in classes(part, wire, target):
                assert response.status < 500, (operation, name)
                assert response.envelope_problem() is None


BODY: Final = ("Content-Type: application/json", "Content-Length: 1000")


def drip(wire: Wire, data: bytes, pause: float) -> Response:
    """Send a byte now and then until there is a response. Time is what is tested here."""
    for position in range(len(data)):
        wire.send(data[position : position + 1])
        if select.select([wire.socket], [], [], pause)[0]:
            return wire.response()
    pytest.fail("there was no answer")


def test_a_head_must_come_whole_in_its_time(impatient: Process) -> None:
    with impatient.wire() as wire:
        response = drip(wire, HEALTH, IMPATIENT.head / 4)
        assert (response.status, response.envelope_problem()) == (408, None)
        assert wire.is_closed()


def too_late(impatient: Process, body: bytes, pause: float) -> str:
    """The message about a body that comes byte by byte."""
    with impatient.wire() as wire:
        wire.send(request("POST", "/api/invoices", *BODY))
        response = drip(wire, body, pause)
        assert (response.status, response.envelope_problem()) == (408, None)
        assert wire.is_closed()
    return str(json.loads(response.body)["error"]["message"])


def test_a_body_must_not_stop(impatient: Process) -> None:
    """On a machine that stalls just then, the time for the whole body is over too."""
    until(lambda: "0.8 seconds" in too_late(impatient, b"{", PATIENCE), "it is not rejected")


def test_a_body_must_come_whole_in_its_time(impatient: Process) -> None:
    """On a machine that stalls just then, a pause was too long."""
    pause = IMPATIENT.silence / 4
    until(lambda: "1.6 seconds" in too_late(impatient, b" " * 100, pause), "it is not rejected")


SILENT: Final = {
    "nothing at all": (b"", 0),
    "line ends only": (b"\r\n\r\n", 0),
    "a body that nobody reads": (
        request("GET", "/api/health", "Content-Length: 100") + b"some",
        1,
    ),
    "line ends after a request": (HEALTH + b"\r\n", 1),
}


@pytest.mark.parametrize(("sent", "responses"), SILENT.values(), ids=SILENT)
def test_a_client_that_is_silent_is_not_waited_for(
    impatient: Process, sent: bytes, responses: int
) -> None:
    with impatient.wire() as wire:
        wire.send(sent)
        assert [wire.response().status for _ in range(responses)] == [200] * responses
        assert wire.is_closed()


def flood(wire: Wire, sent: bytes) -> None:
    """Send the same again and again until no more is taken."""
    for _ in range(100_000):
        wire.socket.sendall(sent * 100)


def test_a_response_that_nobody_takes_is_given_up(impatient: Process) -> None:
    """The other side of a flood: requests without end from a client that never reads."""
    with impatient.wire() as wire, pytest.raises(ConnectionError):
        flood(wire, request("GET", "/openapi.json"))
    assert impatient.ask("GET", "/api/health").status == 200


@pytest.mark.parametrize("count", [1, 2, 3, 5, 20])
def test_the_last_bytes_of_a_response_are_given_up_too(impatient: Process, count: int) -> None:
    """However little is left when the server has said all that it has to say."""
    before = impatient.sockets()
    closing = request("GET", "/openapi.json", "Connection: close")
    with socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        silent.connect(("127.0.0.1", impatient.port))
        silent.sendall(request("GET", "/openapi.json") * (count - 1) + closing)
        assert silent.recv(1)
        until(lambda: impatient.sockets() <= before, "the connection was not given up")


def test_a_client_that_reads_slowly_gets_all_of_it(impatient: Process) -> None:
    """Unless the machine stalls just then."""

    def gets_all() -> bool:
        with impatient.wire() as wire:
            wire.send(request("GET", "/openapi.json") * 50)
            for _ in range(50):
                time.sleep(IMPATIENT.response / 10)
                try:
                    assert wire.response().status == 200
                except EOFError:
                    return False
        return True

    until(gets_all, "the server has not waited")


def read_slowly(connection: socket.socket, pause: float) -> None:
    """Take a few bytes now and then, for a minute. Time is what is tested here."""
    for _ in range(int(60 / pause)):
        assert connection.recv(1024)
        time.sleep(pause)


def test_a_client_that_reads_without_end_is_given_up(impatient: Process) -> None:
    """A few bytes now and then keep no response going."""
    with socket.socket() as trickle:
        trickle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        trickle.settimeout(PATIENCE)
        trickle.connect(("127.0.0.1", impatient.port))
        trickle.sendall(request("GET", "/openapi.json") * 200)
        with pytest.raises(ConnectionResetError):
            read_slowly(trickle, IMPATIENT.response / 50)


def test_slow_clients_side_by_side_hinder_nobody(impatient: Process) -> None:
    """Slow heads, slow bodies and silence, fifty of each: others are served meanwhile, unless the
    machine stalls just then."""
    until(lambda: is_served_meanwhile(impatient), "somebody had to wait for slow clients")


def is_served_meanwhile(impatient: Process) -> bool:
    before = impatient.resident()
    kinds = [
        (HEALTH[:-2] + b"X: " + b"y" * 15_000, 408),
        (request("POST", "/api/invoices", *BODY) + b"{", 408),
        (request("POST", "/sandbox/faults", *BODY) + b"{", 408),
    ]
    with ExitStack() as stack:
        wires = []
        for sent, status in kinds * SIDE_BY_SIDE:
            wire = stack.enter_context(impatient.wire())
            wire.send(sent)
            wires.append((wire, status))
        assert impatient.ask("GET", "/api/invoices").status == 200
        is_meanwhile = not select.select([wire.socket for wire, _ in wires], [], [], 0)[0]
        assert impatient.resident() - before < 32 * MEBIBYTE
        for wire, status in wires:
            response = wire.response()
            assert (response.status, response.envelope_problem()) == (status, None)
            assert wire.is_closed()
    return is_meanwhile


def test_a_flood_of_requests_waits_outside(hostile: Process) -> None:
    """A client that sends without reading fills the pipes, not the server's memory."""
    before = hostile.resident()
    with hostile.wire(1) as wire:
        with pytest.raises(TimeoutError):
            flood(wire, HEALTH)
        assert hostile.resident() - before < 16 * MEBIBYTE
        assert hostile.ask("GET", "/api/health").status == 200


def test_what_comes_again_takes_no_more_memory(hostile: Process) -> None:
    """What a request leaves is bounded, or given back by a reset."""
    left = []
    for _ in range(2):
        for case in (case for cases in GROUPS.values() for case in cases.values()):
            with hostile.wire() as wire:
                assert all(response.status < 500 for response in talk(wire, case))
        with hostile.wire() as wire:
            for target in ("POST /api/connectors/erp/invoices", "POST /api/invoices"):
                assert all(response.status < 500 for _, response in classes(WIDE, wire, target))
        assert hostile.ask("POST", "/sandbox/reset", body=b"{}").status == 200
        left.append(hostile.resident())
    assert left[-1] - left[0] < MAX_LEFT


CATASTROPHIC: Final = {
    "nested repeats": r"^(a+)+$",
    "nested repeats, nothing anchored": r"(a+)+b",
    "the same twice": r"(a|a)*b",
    "twice or once": r"^(a|aa)+$",
    "many wild cards": r"^(.*a){12}c$",
    "wild cards in classes": r"^(([a-z])+.)+[A-Z]([a-z])+$",
    "nested repeats ahead": r"^(?=(a+)+$)a*$",
    "nested repeats, not behind": r"(a*)*(?<!c)b",
    "the same again": r"^(a+)+\1$",
}


def pattern_document() -> dict[str, Any]:
    """For each pattern a body, a response, and a parameter of every kind that must match it."""
    paths: dict[str, Any] = {}
    for number, pattern in enumerate(CATASTROPHIC.values()):
        schema = {"type": "string", "pattern": pattern}
        media = {"content": {"application/json": {"schema": schema}}}
        responses = {"responses": {"200": {"description": "Fine.", **media}}}
        post = {"requestBody": {"required": True, **media}, **responses}
        anywhere = [{"name": "text", "in": place, "schema": schema} for place in PLACES]
        in_path = {"name": "text", "in": "path", "required": True, "schema": schema}
        paths[f"/{number}"] = {
            "post": {"operationId": f"post{number}", **post},
            "get": {"operationId": f"get{number}", "parameters": anywhere, **responses},
        }
        one = {"operationId": f"one{number}", "parameters": [in_path], **responses}
        paths[f"/{number}/{{text}}"] = {"get": one}
    return {"openapi": "3.1.0", "info": {"title": "Patterns", "version": "1"}, "paths": paths}


PLACES: Final = ("query", "header", "cookie")


@pytest.fixture(scope="module")
def patterned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server of a contract whose patterns make engines that backtrack explode."""
    folder = tmp_path_factory.mktemp("patterns")
    contract, log = folder / "openapi.json", folder / "log"
    contract.write_text(json.dumps(pattern_document()))
    command = ("invoice_sandbox", "serve", "--port", "0", "--contract", str(contract))
    with process(log, *command, "--rate-limit", "off") as server:
        yield server
        assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("number", range(len(CATASTROPHIC)), ids=CATASTROPHIC)
def test_no_pattern_of_a_contract_takes_long(patterned: Process, number: int) -> None:
    path, long = f"/{number}", "a" * 15_000 + "!"
    requests = {
        "a body": request("POST", path, body=b'"' + b"a" * 50_000 + b'!"'),
        "a body of spaces": request("POST", path, body=b'"' + b" " * 50_000 + b'"'),
        "a path": request("GET", f"{path}/{long}"),
        "a query": request("GET", f"{path}?text={long}"),
        "a header": request("GET", path, f"text: {long}"),
        "a cookie": request("GET", path, f"Cookie: text={long}"),
    }
    for place, sent in requests.items():
        with patterned.wire() as wire:
            wire.send(sent)
            response = wire.response()
            assert (response.status, response.envelope_problem()) == (400, None), place
    assert patterned.ask("GET", path).status == 200  # generated, and checked by the pattern


def test_a_pattern_that_cannot_be_read_is_named_at_the_start(tmp_path: Path) -> None:
    schema = {"type": "string", "pattern": "((a{1,100}){1,100}){1,100}"}
    parameter = {"name": "greedy", "in": "query", "schema": schema}
    responses = {"200": {"description": "Fine."}}
    search = {"operationId": "search", "parameters": [parameter], "responses": responses}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Patterns", "version": "1"},
        "paths": {"/": {"get": search}},
    }
    contract, log = tmp_path / "openapi.json", tmp_path / "log"
    contract.write_text(json.dumps(document))
    command = ("invoice_sandbox", "serve", "--port", "0", "--contract", str(contract))
    with process(log, *command) as server:
        assert server.ask("GET", "/?greedy=a").status == 200
    assert f"{contract}:1:" in log.read_text()
    assert "pattern" in log.read_text()
    assert "Traceback" not in log.read_text()
