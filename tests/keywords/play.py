"""Every case of the suite sent to a real server, as a request and as a response."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import httpx
import orjson

from invoice_sandbox.http.handling import ContractViolationError
from tests.keywords.contracts import path, request_contract, write_echo
from tests.keywords.suite import Case, Group
from tests.support import FROZEN, serving

_HEADERS: Final = {"Content-Type": "application/json", "X-Sandbox-Explain": "1"}
_LOGGER: Final = logging.getLogger("invoice_sandbox")


@dataclass(frozen=True)
class Outcome:
    """What became of one case: ``verdict`` is ``allowed``, ``rejected``, or what else happened."""

    group: Group
    case: Case
    verdict: str

    @property
    def right(self) -> bool:
        """Whether the verdict is that of the suite."""
        return self.verdict == ("allowed" if self.case.valid else "rejected")


def as_requests(groups: Sequence[Group], folder: Path) -> list[Outcome]:
    """Each instance as the body of a request: 204, or 400 that names the keyword's place."""
    file = folder / "contract.json"
    file.write_bytes(orjson.dumps(request_contract(groups)))
    with serving(replace(FROZEN, contract=file)) as running, running.client() as client:
        return [
            Outcome(group, case, _of_request(_sent(client, group, case)))
            for group in groups
            for case in group.cases
        ]


def as_responses(groups: Sequence[Group], folder: Path) -> list[Outcome]:
    """Each instance as what a handler returns: 200 with that value, or 500 for a violation."""
    write_echo(folder, groups)
    settings = replace(FROZEN, project=folder)
    with serving(settings) as running, running.client() as client, _violations() as violations:
        return [
            Outcome(group, case, _of_response(_sent(client, group, case), violations, case))
            for group in groups
            for case in group.cases
        ]


def _sent(client: httpx.Client, group: Group, case: Case) -> httpx.Response:
    return client.post(path(group), content=case.instance, headers=_HEADERS)


def _of_request(response: httpx.Response) -> str:
    explained = "schemaPath=" in response.headers["x-sandbox-explain"]
    if response.status_code == 204:
        return "allowed"
    return "rejected" if response.status_code == 400 and explained else _else(response)


def _of_response(response: httpx.Response, violations: list[str], case: Case) -> str:
    reported = len(violations)
    violations.clear()
    if response.status_code == 200 and not reported:
        sent, given = orjson.loads(case.instance), response.json()["data"]
        return "allowed" if sent == given else f"allowed, but answered as {given!r}"
    return "rejected" if response.status_code == 500 and reported == 1 else _else(response)


def _else(response: httpx.Response) -> str:
    return f"{response.status_code} {re.sub(r'req_[A-Za-z0-9_]+', 'req', response.text)[:200]}"


class _Violations(logging.Handler):
    """Collects the contract violations that the server logs."""

    def __init__(self) -> None:
        super().__init__()
        self.reported: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text of a violation; anything else that goes wrong is not one."""
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ContractViolationError):
            self.reported.append(str(error))


@contextmanager
def _violations() -> Iterator[list[str]]:
    """The violations that the server reports, instead of its log on standard error."""
    handler, propagate = _Violations(), _LOGGER.propagate
    _LOGGER.addHandler(handler)
    _LOGGER.propagate = False
    try:
        yield handler.reported
    finally:
        _LOGGER.removeHandler(handler)
        _LOGGER.propagate = propagate
