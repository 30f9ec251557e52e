"""``python -m tests.fuzz``: start the server, let Schemathesis at it, judge the answers."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import click
import httpx

from tests.fuzz.calls import AUTHORIZATION_VARIABLE, RECORD_VARIABLE, Call, read
from tests.fuzz.server import COMMAND, NotReadyError, Server, running_server
from tests.fuzz.verdict import Contract, Outcome, complaints, contract_of, server_failed, table

ROOT: Final = Path(__file__).parents[2]

LOG_SHOWN: Final = 20_000
"""How many characters of the end of the server's log are shown."""

FIXED: Final = (
    "--checks=all",
    "--mode=all",
    "--continue-on-failure",
    "--workers=1",
    "--generation-database=none",
    # A generated X-API-Key beside our own key is a second, different credential: a fair 401.
    # The check ignored_auth tries every scheme without a credential and with a wrong one anyway.
    "--generation-with-security-parameters=false",
    # Speed of the machine is not what is being judged.
    "--suppress-health-check=too_slow",
    # The key is a throw-away one, and a masked curl command cannot be run.
    "--output-sanitize=false",
    "--no-color",
)
"""What every run of Schemathesis has in common."""


@click.command()
@click.option("--examples", default=30, show_default=True, help="Examples an operation.")
@click.option("--seed", default=7, show_default=True, help="Same seed, same requests.")
@click.option("--contract", default="/openapi.json", show_default=True, help="Its path.")
@click.option(
    "--seconds",
    type=click.IntRange(min=1),
    help="Fuzz until this time is spent, cutting phases short if need be.",
)
@click.option("--operation", "operations", multiple=True, help="Only this operationId. Repeatable.")
def main(
    examples: int, seed: int, contract: str, seconds: int | None, operations: tuple[str, ...]
) -> None:
    """Fuzz the running sandbox against its own contract; exit 1 when anything is wrong."""
    options = [f"--max-examples={examples}", f"--seed={seed}", _phases(operations)]
    options += [f"--max-time={seconds}"] if seconds else []
    options += [f"--include-operation-id={name}" for name in operations]
    try:
        with running_server() as server:
            chosen = _chosen(_contract(server, contract), operations)
            calls, outcome = _fuzz(server, server.url + contract, options)
    except NotReadyError as error:
        raise click.ClickException(f"The server did not get ready. Its log:\n{error}") from None
    sys.exit(_report(chosen, calls, outcome))


def _phases(operations: tuple[str, ...]) -> str:
    # One operation alone has no links to follow, which Schemathesis takes for an error.
    alone = len(operations) == 1
    return "--phases=examples,coverage,fuzzing" + ("" if alone else ",stateful")


def _contract(server: Server, path: str) -> Contract:
    answer = httpx.get(server.url + path, headers={"Authorization": server.authorizations[0]})
    if not answer.is_success:
        raise click.ClickException(f"GET {path} answered {answer.status_code}, not a contract.")
    document: dict[str, Any] = answer.json()
    return contract_of(document)


def _chosen(contract: Contract, operations: tuple[str, ...]) -> Contract:
    unknown = set(operations) - set(contract)
    if unknown:
        known = ", ".join(contract)
        raise click.BadParameter(f"no operation {', '.join(sorted(unknown))}; there are: {known}")
    return {name: contract[name] for name in operations or contract}


def _fuzz(server: Server, location: str, options: list[str]) -> tuple[list[Call], Outcome]:
    # A directory of its own: what Schemathesis caches there must not steer the next run.
    with tempfile.TemporaryDirectory() as directory:
        record = Path(directory, "calls.ndjson")
        _introduce(server, Path(directory))
        # The origin, because a contract may name servers that are not ours to fuzz.
        own = (f"--origin={server.url}",)
        fuzzer = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "run", location, *FIXED, *own, *options],
            cwd=directory,
            env=_environment(server, record),
            check=False,
        )
        return read(record), Outcome(fuzzer.returncode, server.exit_code(), server.log())


def _introduce(server: Server, directory: Path) -> None:
    """Tell Schemathesis of one user for each workspace: none may read what is another's."""
    users = [
        {"name": f"workspace-{number}", "fixedHeaders": [{"name": "Authorization", "value": text}]}
        for number, text in enumerate(server.authorizations, 1)
    ]
    names = [user["name"] for user in users]
    (directory / "users.json").write_text(json.dumps({"auth": users}))
    (directory / "schemathesis.toml").write_text(
        f"[auth.wfc]\npath = 'users.json'\npeers = {json.dumps(names)}\n"
    )


def _environment(server: Server, record: Path) -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "SCHEMATHESIS_HOOKS": "tests.fuzz.hooks",
        RECORD_VARIABLE: str(record),
        AUTHORIZATION_VARIABLE: "\n".join(server.authorizations),
    }


def _report(contract: Contract, calls: list[Call], outcome: Outcome) -> int:
    click.echo(f"\n{table(contract, calls)}\n")
    if server_failed(outcome):
        click.echo(f"The server's log:\n{outcome.log[-LOG_SHOWN:]}")
    found = complaints(contract, calls, outcome)
    for complaint in found:
        click.echo(f"FAILED  {complaint}")
    if found:
        click.echo(_how_to_reproduce())
        return 1
    click.echo(f"PASSED  {len(calls)} calls of {len(contract)} operations.")
    return 0


def _how_to_reproduce() -> str:
    again = shlex.join(["python", "-m", "tests.fuzz", *sys.argv[1:]])
    serve = shlex.join(["python", *COMMAND[1:]])
    return (
        f"Again: {again}\n"
        "Narrower: the same with --operation ID (repeatable).\n"
        f"One request: its curl command against a server of your own: {serve}"
    )


if __name__ == "__main__":
    main()
