"""Whatever is sent: a clear response, soon, never a 5xx; and then the server is as well as before.

Every server here is a process of its own, so that its memory and its log are its own too. The
limits are those of docs/limits.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

from invoice_sandbox.openapi.operation import Contract, Operation
from tests.hostile.cases import GROUPS, HEALTH, Case
from tests.hostile.json_texts import MAY, MUST_ACCEPT, MUST_REJECT
from tests.hostile.wire import Process, Response, Wire, process, request
from tests.support import Running

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


def check_health(server: Process, before: int) -> None:
    assert server.ask("GET", "/api/health").status == 200
    assert "Traceback" not in server.log.read_text()
    assert server.resident() - before < MAX_GROWTH


def talk(wire: Wire, case: Case) -> Iterator[Response]:
    """Send what the case sends, and read one response after the other."""
    wire.send(case.sent)
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


def flood(wire: Wire, sent: bytes) -> None:
    """Send the same again and again until no more is taken."""
    for _ in range(100_000):
        wire.socket.sendall(sent * 100)


def test_a_flood_of_requests_is_cut_off(hostile: Process) -> None:
    """A client that sends without reading does not fill the server's memory."""
    before = hostile.resident()
    with hostile.wire(5) as wire:
        with pytest.raises((TimeoutError, ConnectionError)):
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
