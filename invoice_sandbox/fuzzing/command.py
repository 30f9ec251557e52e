"""A fuzzing run: create workspaces, run Schemathesis on them, judge the responses."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from invoice_sandbox.base.errors import UserError, suggestion
from invoice_sandbox.control.client import ControlClient, SandboxError, path
from invoice_sandbox.fuzzing.contract import (
    Contract,
    contract_of,
    credential_headers,
)
from invoice_sandbox.fuzzing.display import showing
from invoice_sandbox.fuzzing.reports import Result, as_json, as_junit, as_text
from invoice_sandbox.fuzzing.runs import Run, run
from invoice_sandbox.fuzzing.server import Server, serving
from invoice_sandbox.fuzzing.verdict import Outcome, findings, table

CONTRACTS: Final = {"api": "/openapi.json", "sandbox": "/sandbox/openapi.json"}
"""The contracts of a server, and their paths."""

INTERRUPTED: Final = 130
_TERMINATED: Final = 143
_MISSING: Final = "fuzzing needs Schemathesis; install it with: pip install 'schemathesis>=4.32,<5'"

_SENDING: Final = """
The workspaces of these requests are deleted. To send a request yourself, start
'invoice-sandbox serve --clock frozen --rate-limit off' and fuzz it with --url and --keep."""


@dataclass(frozen=True)
class Plan:
    """What to fuzz, and how. Without ``url`` a server is started, which serves ``folder`` or
    ``document``. No ``operations`` means all."""

    url: str | None
    key: str = field(repr=False)
    seed: int
    max_examples: int
    seconds: int | None
    contracts: tuple[str, ...]
    operations: tuple[str, ...]
    folder: Path | None
    document: Path | None
    keep: bool

    def again(self, contract: str) -> list[str]:
        """The command that fuzzes one contract with all of its operations in the same way."""
        given = {
            "url": self.url,
            "project": self.folder,
            "document": self.document,
            "contract": contract,
            "seed": self.seed,
            "max-examples": self.max_examples,
            "time": None if self.seconds is None else f"PT{self.seconds}S",
        }
        options = [f"--{name}={value}" for name, value in given.items() if value is not None]
        return ["invoice-sandbox", "fuzz", *options]


@dataclass(frozen=True)
class Part:
    """One contract of the run; ``of`` is the number of contracts."""

    name: str
    contract: Contract
    document: dict[str, Any]
    of: int


def check_installed() -> None:
    """Raise SandboxError when Schemathesis is not installed."""
    if find_spec("schemathesis") is None:
        raise SandboxError(_MISSING)


def fuzz(plan: Plan, *, junit: Path | None, json: Path | None, with_table: bool) -> bool:
    """Fuzz, print the findings and write the reports. Returns whether there are no findings.

    Raises SandboxError or UserError. The workspaces are always deleted, unless the plan keeps them.
    """
    check_installed()
    for file in (json, junit):
        if file is not None and not file.absolute().parent.is_dir():
            raise UserError(f"{file}: there is no folder '{file.parent}'")
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _end)
    results = []
    with ExitStack() as stack:
        server = stack.enter_context(_server(plan))
        control = ControlClient(server.url, server.key)
        documents = {name: control.whole("GET", CONTRACTS[name]) for name in plan.contracts}
        chosen = _chosen(plan, documents)
        for name, contract in chosen.items():
            result = _fuzz(plan, server, Part(name, contract, documents[name], len(chosen)))
            if with_table:
                click.echo(f"{table(contract, result.calls)}\n")
            click.echo(as_text(result))
            results.append(result)
    if not plan.keep and any(finding.requests for one in results for finding in one.findings):
        click.echo(_SENDING)
    if json is not None:
        json.write_text(as_json(results, seed=plan.seed, max_examples=plan.max_examples))
    if junit is not None:
        junit.write_text(as_junit(results), encoding="utf-8")
    return not any(result.findings for result in results)


def _end(*_: object) -> None:
    sys.exit(_TERMINATED)


@contextmanager
def _server(plan: Plan) -> Iterator[Server]:
    if plan.url is not None:
        yield Server(plan.url, plan.key)
        return
    served = {"project": plan.folder, "contract": plan.document}
    with serving({name: str(one) for name, one in served.items() if one}) as server:
        yield server


def _chosen(plan: Plan, documents: Mapping[str, dict[str, Any]]) -> dict[str, Contract]:
    """The contracts to fuzz, each with the operations to fuzz. Raises click.BadParameter."""
    whole = {name: contract_of(document) for name, document in documents.items()}
    known = [operation for contract in whole.values() for operation in contract]
    unknown = [name for name in plan.operations if name not in known]
    if unknown:
        advice = suggestion(unknown[0], known)
        problem = f"unknown operation '{unknown[0]}'; {advice}"
        raise click.BadParameter(problem, param_hint="'--operation'")
    chosen = {
        name: {one: contract[one] for one in contract if one in (plan.operations or known)}
        for name, contract in whole.items()
    }
    return {name: contract for name, contract in chosen.items() if contract}


def _fuzz(plan: Plan, server: Server, part: Part) -> Result:
    with (
        _workspaces(plan, server) as keys,
        tempfile.TemporaryDirectory() as directory,
        showing(part.name) as display,
    ):
        order = Run(
            url=server.url,
            contract=CONTRACTS[part.name],
            credentials={key: credential_headers(part.document, key) for key in keys},
            seed=plan.seed,
            max_examples=plan.max_examples,
            seconds=None if plan.seconds is None else max(1, plan.seconds // part.of),
            operations=tuple(part.contract) if plan.operations else (),
            has_links=any(one.linked_from & set(part.contract) for one in part.contract.values()),
        )
        logged_before = len(server.log())  # by other parts
        recorded = run(order, Path(directory), display)
    log = server.log()[logged_before:]
    outcome = Outcome(recorded.exit_code, recorded.output, server.exit_code(), log)
    found = findings(part.contract, recorded.calls, recorded.findings, outcome)
    again, chosen = plan.again(part.name), order.operations
    return Result(part.name, part.contract, recorded.calls, found, again, chosen)


@contextmanager
def _workspaces(plan: Plan, server: Server) -> Iterator[Sequence[str]]:
    """The keys of two new workspaces, so that one can try to read the data of the other."""
    control = ControlClient(server.url, server.key)
    keys = []
    with ExitStack() as stack:
        for seed in (plan.seed, plan.seed + 1):
            made = control.ask("POST", "/workspaces", {"seed": seed, "clock": "frozen"})
            keys.append(made["key"])
            if plan.keep:
                click.echo(f"Kept: workspace {made['id']} with key {made['key']}")
            else:
                stack.callback(_delete, control, made["id"])
        yield keys


def _delete(control: ControlClient, workspace: str) -> None:
    try:
        control.ask("DELETE", path("/workspaces/{id}", id=workspace))
    except SandboxError as error:
        click.echo(f"Workspace {workspace} could not be deleted: {error}", err=True)
