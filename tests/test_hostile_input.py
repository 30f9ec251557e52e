"""Whatever is sent: a clear response, soon, never a 5xx; and then the server is as well as before.

The server is a process of its own, so that its memory and its log are its own too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import httpx
import pytest

from invoice_sandbox.http import read
from invoice_sandbox.openapi.operation import Contract, Operation
from tests.attack.corpus import JSON_TEXTS, REQUESTS, Case
from tests.attack.costs import ATTACKS, cost
from tests.attack.wire import Process, Response, Wire, process, request
from tests.cases import in_turn
from tests.support import Running

pytestmark = pytest.mark.process

MEBIBYTE: Final = 1024 * 1024
HEALTH: Final = request("GET", "/api/health")
NO_JSON: Final = "The body cannot be read as JSON"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server that is healthy and quiet in the end, and hardly larger."""
    log = tmp_path_factory.mktemp("hostile") / "log"
    command = ("invoice_sandbox", "serve", "--port", "0", "--rate-limit", "off")
    with process(log, *command) as server:
        for path in ("/docs", "/openapi.json", "/api/invoices"):
            server.ask("GET", path)
        before = server.resident()
        yield server
        assert server.ask("GET", "/api/health").status == 200
        assert "Traceback" not in log.read_text()
        assert server.resident() - before < 128 * MEBIBYTE


@in_turn("case", REQUESTS.values(), ids=REQUESTS)
def test_every_request_gets_its_response(hostile: Process, case: Case) -> None:
    with hostile.wire() as wire:
        wire.send(case.sent)
        for statuses in case.statuses:
            response = wire.response()
            assert response.status in statuses
            assert response.envelope_problem() is None
        if case.closes:
            assert wire.is_closed()
        else:
            wire.send(HEALTH)
            assert wire.response().status == 200


@pytest.fixture(scope="module")
def targets(server: Running, hostile: Process) -> list[tuple[str, str]]:
    """The method and path of each operation with a JSON body, with what stands in its path."""
    project = server.sandbox.engine.project
    inbox = json.loads(hostile.ask("GET", "/sandbox/inbox").body)["data"]["url"]
    token = inbox.rpartition("/")[2]
    found = []
    for contract in (project.contract, project.control):
        for operation in operations_with_a_body(contract):
            path = contract.base_path + operation.path.replace("{token}", token)
            found.append((operation.method, path.replace("{id}", "x").replace("{address}", "x")))
    assert len(found) >= 20
    assert not any("{" in path for _, path in found)
    return found


def operations_with_a_body(contract: Contract) -> Iterator[Operation]:
    for operation in contract.operations.values():
        if operation.body is not None and "application/json" in operation.body.checkers:
            yield operation


def is_no_json(response: Response) -> bool:
    return response.status == 400 and NO_JSON in json.loads(response.body)["error"]["message"]


EVERY: Final = 15
"""One in so many texts is sent to an operation: all of them read JSON with the same function."""


def test_every_operation_reads_json_to_the_letter(
    hostile: Process, targets: list[tuple[str, str]]
) -> None:
    wrong: dict[str, Any] = {}
    with hostile.wire() as wire:
        for number, (method, path) in enumerate(targets):
            for name in list(JSON_TEXTS)[number % EVERY :: EVERY]:
                is_read, text = JSON_TEXTS[name]
                wire.send(request(method, path, body=text))
                response = wire.response()
                is_fine = response.status < 500 and response.envelope_problem() is None
                if not is_fine or is_no_json(response) == is_read:
                    wrong[f"{path} {name}"] = (response.status, response.body[:200])
    assert not wrong


LARGE: Final = {
    "25,000 members": b"{" + b",".join(b'"%d":0' % n for n in range(25_000)) + b"}",
    "one key, 20,000 times": b"{" + b",".join([b'"sellerId":1'] * 20_000) + b"}",
    "240 levels, many times": b"[" + b",".join([b"[" * 239 + b"]" * 239] * 100) + b"]",
    **{
        f"an amount of {amount[:20]}": b'{"sellerId":"s","debtorId":"d","invoiceNumber":"n",'
        b'"currency":"EUR","amount":' + amount.encode() + b"}"
        for amount in (
            *("1e-999999999999999999", "-0e99999999999"),
            *("0." + "1" * 200_000, "1" + "0" * 200_000 + "e-200000"),
        )
    },
}


@in_turn("body", LARGE.values(), ids=LARGE)
def test_a_large_body_is_judged_by_every_operation(
    hostile: Process, targets: list[tuple[str, str]], body: bytes
) -> None:
    with hostile.wire() as wire:
        for method, path in targets:
            wire.send(request(method, path, body=body))
            response = wire.response()
            assert response.status < 500, path
            assert response.envelope_problem() is None


def test_a_flood_of_requests_is_cut_off(hostile: Process) -> None:
    """A client that sends without reading does not fill the server's memory."""
    before = hostile.resident()
    with hostile.wire(5) as wire:
        with suppress(TimeoutError, ConnectionError):
            while True:
                wire.socket.sendall(HEALTH * 100)
        assert hostile.resident() - before < 16 * MEBIBYTE
        assert hostile.ask("GET", "/api/health").status == 200


@pytest.mark.parametrize("name", ["MAX_PAUSE", "MAX_SECONDS"])
def test_a_body_must_come_in_its_time(
    monkeypatch: pytest.MonkeyPatch, client: httpx.Client, name: str
) -> None:
    monkeypatch.setattr(read, name, 0.2)
    with Wire(client.base_url.port or 0) as wire:
        wire.send(request("POST", "/api/invoices", "Content-Length: 1000") + b"{")
        response = wire.response()
        assert (response.status, response.envelope_problem()) == (408, None)
        assert "within 0.2 seconds" in json.loads(response.body)["error"]["message"]
        assert wire.is_closed()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["130,000 pushed items"])
def test_an_attack_keeps_others_waiting_no_longer_than_allowed(name: str) -> None:
    """``make attack`` runs all of them. Up to three times, as the machine may stall."""
    attack = next(one for one in ATTACKS if one.name == name)
    assert not all(cost(attack, 1).broke for _ in range(3))


CATASTROPHIC: Final = {
    "nested repeats": r"^(a+)+$",
    "twice or once": r"^(a|aa)+$",
    "many wild cards": r"^(.*a){12}c$",
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
        places = ("query", "header", "cookie")
        anywhere = [{"name": "text", "in": place, "schema": schema} for place in places]
        in_path = {"name": "text", "in": "path", "required": True, "schema": schema}
        paths[f"/{number}"] = {
            "post": {"operationId": f"post{number}", **post},
            "get": {"operationId": f"get{number}", "parameters": anywhere, **responses},
        }
        one = {"operationId": f"one{number}", "parameters": [in_path], **responses}
        paths[f"/{number}/{{text}}"] = {"get": one}
    return {"openapi": "3.1.0", "info": {"title": "Patterns", "version": "1"}, "paths": paths}


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
    backtracks = "\\" in [*CATASTROPHIC.values()][number]  # it takes as long as it may, each time
    places = ("a body",) if backtracks else requests
    for place in places:
        with patterned.wire() as wire:
            wire.send(requests[place])
            response = wire.response()
            assert (response.status, response.envelope_problem()) == (400, None), place
