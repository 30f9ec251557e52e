"""Whether Prism, as a validating proxy before the sandbox, finds nothing wrong with any response.

The whole flow and every declared rejection go through it. Prism reads a contract of OpenAPI 3.1 as
JSON Schema draft 7 unless the contract names its dialect, so they go through it both ways. That
its silence means something is shown by a contract that no response satisfies.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from tests.interop.checks import PATIENCE, Check, bearer, new_key, rule_of
from tests.interop.node import program
from tests.interop.rejections import allowed, forbidden
from tests.interop.typed import Operation, Response, operations, walk
from tests.receivers import free_port

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_HANGING: Final = 1.0
"""Seconds after which it is taken for granted that Prism will not respond."""


@dataclass(frozen=True)
class Proxy:
    """Prism, listening on ``url``; its log is written to a file."""

    url: str
    log: Path

    def complaints(self) -> list[str]:
        """The lines of the log that are neither of information nor of the start."""
        return re.findall(r"^.*(?:warning|error|fatal).*$", self.log.read_text(), re.MULTILINE)


@contextlib.contextmanager
def prism(contract: Any, sandbox: str, folder: Path, *options: str) -> Iterator[Proxy]:
    """Prism before ``sandbox``, ready, which holds requests and responses to ``contract``."""
    port = free_port()
    file, log = folder / f"prism-{port}.json", folder / f"prism-{port}.log"
    file.write_text(json.dumps(contract))
    command = [*program("prism"), "proxy", file, sandbox, "--port", str(port), *options]
    with (
        log.open("w") as out,
        subprocess.Popen(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT) as running,
    ):
        try:
            proxy = Proxy(f"http://127.0.0.1:{port}", log)
            _wait_for(proxy, running)
            yield proxy
        finally:
            running.kill()


def asking(proxy: Proxy) -> httpx.Client:
    """A client of the API behind a proxy, without credentials."""
    return httpx.Client(base_url=proxy.url, timeout=PATIENCE)


def _wait_for(proxy: Proxy, running: subprocess.Popen[bytes]) -> None:
    retrying = httpx.HTTPTransport(retries=6)  # by and by, in all some 15 seconds
    with httpx.Client(transport=retrying, timeout=PATIENCE) as client:
        try:
            client.get(f"{proxy.url}/api/health")
        except httpx.TransportError:
            reported = f"{running.poll()} {proxy.log.read_text()}"
            raise AssertionError(f"Prism did not become ready: {reported}") from None


@dataclass(frozen=True)
class Stage:
    """The sandbox, a folder with the flow in TypeScript, and the contract."""

    sandbox: str
    folder: Path
    contract: Any
    declared: dict[Operation, set[int]]

    def all_responses(self, proxy: Proxy) -> Iterator[Response]:
        """The responses of the flow, and of what is rejected though the contract allows it."""
        yield from walk(self.folder, proxy.url, self.sandbox)
        with asking(proxy) as api:
            for ask in allowed(self.declared, self.sandbox):
                yield ask.send(api)


def as_served(stage: Stage) -> str:
    """Prism, which turns violations to errors, has no complaint of the flow or of rejections."""
    return _is_silent(stage, stage.contract)


def with_dialect(stage: Stage) -> str:
    """Nor has it when the contract names JSON Schema 2020-12 as its dialect."""
    return _is_silent(stage, {**stage.contract, "jsonSchemaDialect": _DIALECT})


def _is_silent(stage: Stage, contract: Any) -> str:
    with prism(contract, stage.sandbox, stage.folder, "--errors") as proxy:
        responses = list(stage.all_responses(proxy))
        assert not proxy.complaints(), proxy.complaints()
    assert not [one for one in responses if one.violations]
    _check_covered(stage, responses)
    statuses = {(one.operation, one.status) for one in responses}
    declared = f"{len(statuses)} declared ones of {len(stage.declared)} operations"
    return f"{len(responses)} responses, {declared}"


def _check_covered(stage: Stage, responses: list[Response]) -> None:
    """Every operation succeeded, and rejected a request that the contract allows."""
    assert {one.operation for one in responses if one.is_success} == stage.declared.keys()
    rejected = {one.operation for one in responses if not one.is_success}
    assert rejected == stage.declared.keys()
    for one in responses:
        assert one.status in stage.declared[one.operation], one


def broken_requests(stage: Stage) -> str:
    """If a request breaks the contract, Prism complains of the request, never of the response."""
    seen = set()
    with prism(stage.contract, stage.sandbox, stage.folder) as proxy, asking(proxy) as api:
        for ask in forbidden(stage.declared, stage.sandbox):
            response = ask.send(api)
            assert response.violations, f"Prism has no complaint of {ask}"
            for one in json.loads(response.violations):
                assert one["location"][0] == "request", f"{ask}: {one}"
            seen.add((response.operation, response.status))
    return f"{len(seen)} declared answers"


def every_declared_response(stage: Stage) -> str:
    """Both kinds of requests together have every response that the contract declares."""
    asked = [*allowed(stage.declared, stage.sandbox), *forbidden(stage.declared, stage.sandbox)]
    rejections = {(one.operation, one.status) for one in asked}
    declared = {
        (operation, status)
        for operation, statuses in stage.declared.items()
        for status in statuses
        if status >= 400
    }
    assert rejections == declared, sorted(rejections ^ declared)
    return f"{len(declared)} refusals"


def contract_of_nothing(stage: Stage) -> str:
    """Prism complains of every response if the contract is changed so that none satisfies it."""
    with prism(_unsatisfied(stage.contract), stage.sandbox, stage.folder) as proxy:
        responses = list(stage.all_responses(proxy))
    for one in responses:
        locations = [found["location"][0] for found in json.loads(one.violations or "[]")]
        assert "response" in locations, f"Prism has no complaint of {one}"
    return f"{len(responses)} answers"


def _unsatisfied(contract: Any) -> Any:
    changed = json.loads(json.dumps(contract))
    for schema in ("InvoiceResponse", "ObjectResponse", "ListResponse", "ErrorResponse"):
        changed["components"]["schemas"][schema] = {"type": "object", "required": ["nowhere"]}
    return changed


def not_json(stage: Stage) -> str:
    """A body that is not JSON is rejected with 400 here, and never by Prism."""
    headers = bearer(new_key(stage.sandbox)) | {"Content-Type": "application/json"}

    def ask(api: str) -> int:
        url, body = f"{api}/api/invoices", '{"sellerId": '
        return httpx.post(url, content=body, headers=headers, timeout=_HANGING).status_code

    assert ask(stage.sandbox) == 400
    with prism(stage.contract, stage.sandbox, stage.folder) as proxy:
        with contextlib.suppress(httpx.ReadTimeout):
            raise AssertionError(f"Prism answers {ask(proxy.url)}: docs/clients.md says otherwise")
        assert "/api/invoices" not in proxy.log.read_text().partition("listening")[2]
    return f"no answer within {_HANGING:.0f} s"


_CHECKS: Final[tuple[Callable[[Stage], str], ...]] = (
    as_served,
    with_dialect,
    broken_requests,
    every_declared_response,
    contract_of_nothing,
    not_json,
)


def checks(url: str, folder: Path) -> list[Check]:
    """All of them, with the sandbox at ``url``; ``folder`` holds the flow in TypeScript."""
    contract = httpx.get(f"{url}/openapi.json", timeout=PATIENCE).json()
    stage = Stage(url, folder, contract, operations(url))
    return [Check(rule_of(one), partial(one, stage)) for one in _CHECKS]
