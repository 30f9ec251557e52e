"""What the sandbox returns to the requests of the benchmark, as stubs of WireMock and MockServer.

A stub compares method, path, query, key and, where all requests of a row have the same, the body.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import orjson

from tests.bench.load import Request

_JSON: Final = "application/json"


@dataclass(frozen=True)
class Stub:
    """A request and the response to it."""

    request: Request
    response: str

    @property
    def key(self) -> str | None:
        """The header with the key."""
        return None if self.request.key is None else f"Bearer {self.request.key}"

    @property
    def body(self) -> str | None:
        """The body that the request must have; None: any."""
        first, second = self.request.body(1), self.request.body(2)
        return first.decode() if first and first == second else None


def responses(port: int, requests: Iterable[Request]) -> list[Stub]:
    """Send the requests to the sandbox. Raises ValueError at another status than theirs."""
    return [Stub(one, _response(port, one)) for one in requests]


def _response(port: int, request: Request) -> str:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": _JSON}
    if request.key is not None:
        headers["Authorization"] = f"Bearer {request.key}"
    connection.request(request.method, request.path, request.body(0), headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    if response.status != request.status:
        raise ValueError(f"{request.path}: {response.status} {text[:200]}")
    return text


def write_wiremock(stubs: Iterable[Stub], folder: Path) -> None:
    """Write the mappings to a root folder of WireMock; those with a body come first."""
    (folder / "mappings").mkdir(parents=True)
    content = {"mappings": [_wiremock(one) for one in stubs]}
    (folder / "mappings" / "stubs.json").write_bytes(orjson.dumps(content))


def _wiremock(stub: Stub) -> dict[str, Any]:
    request: dict[str, Any] = {"method": stub.request.method, "url": stub.request.path}
    if stub.key is not None:
        request["headers"] = {"Authorization": {"equalTo": stub.key}}
    if stub.body is not None:
        request["bodyPatterns"] = [{"equalTo": stub.body}]
    response = {
        "status": stub.request.status,
        "headers": {"Content-Type": _JSON},
        "body": stub.response,
    }
    return {"priority": 2 if stub.body is None else 1, "request": request, "response": response}


def write_mockserver(stubs: Iterable[Stub], file: Path) -> None:
    """Write the expectations to a file that MockServer reads; those with a body come first."""
    file.write_bytes(orjson.dumps([_mockserver(one) for one in stubs]))


def _mockserver(stub: Stub) -> dict[str, Any]:
    path, _, query = stub.request.path.partition("?")
    request: dict[str, Any] = {"method": stub.request.method, "path": path}
    if query:
        name, _, value = query.partition("=")
        request["queryStringParameters"] = {name: [value]}
    if stub.key is not None:
        request["headers"] = {"Authorization": [stub.key]}
    if stub.body is not None:
        request["body"] = {"type": "STRING", "string": stub.body}
    response = {
        "statusCode": stub.request.status,
        "headers": {"Content-Type": [_JSON]},
        "body": stub.response,
    }
    priority = 1 if stub.body is not None else 0
    return {"priority": priority, "httpRequest": request, "httpResponse": response}
