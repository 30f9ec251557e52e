"""``invoice-sandbox fuzz``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.base.errors import UserError
from invoice_sandbox.cli.options import (
    CONNECTION,
    FAILED,
    FILE,
    FOLDER,
    OneOf,
    WholeNumber,
    checked,
    options,
)
from invoice_sandbox.control.client import SandboxError, checked_key, checked_url
from invoice_sandbox.fuzzing import command
from invoice_sandbox.settings import ENVIRONMENT_PREFIX


def _seconds(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        seconds = int(parse_duration(text).total_seconds())
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if seconds < 1:
        raise click.BadParameter("must be at least a second, PT1S")
    return seconds


_WRITTEN: Final = click.Path(dir_okay=False, writable=True, path_type=Path)
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "--url": {
        "metavar": "URL",
        "envvar": f"{ENVIRONMENT_PREFIX}_URL",
        "show_envvar": True,
        "callback": lambda _context, _parameter, text: text and checked(checked_url, text),
        "help": "Fuzz the server at this URL. Default: start one.",
    },
    "--key": {
        **CONNECTION["--key"],
        "callback": lambda _context, _parameter, text: checked(checked_key, text),
        "help": "API key of that server; the fuzzed workspaces are created from its workspace.",
    },
    "--contract contracts": {
        "type": OneOf(["api", "sandbox"]),
        "multiple": True,
        "help": "Only this contract: the API or its control API. Default: both.",
    },
    "--operation operations": {
        "metavar": "NAME",
        "multiple": True,
        "help": "Only this operationId. Repeatable.",
    },
    "--seed": {
        "type": WholeNumber(0, 2**32 - 1),
        "metavar": "N",
        "default": 7,
        "show_default": True,
        "help": "The same seed sends the same requests.",
    },
    "--max-examples": {
        "type": WholeNumber(1),
        "metavar": "N",
        "default": 30,
        "show_default": True,
        "help": "Generated requests per operation and phase, and sequences of requests.",
    },
    "--time seconds": {
        "metavar": "DURATION",
        "callback": _seconds,
        "help": "Stop after this time, such as PT5M.",
    },
    "--project": {
        "metavar": "DIR",
        "type": FOLDER,
        "help": "Project that the started server serves. Default: the bundled one.",
    },
    "--document": {
        "metavar": "FILE",
        "type": FILE,
        "help": "OpenAPI file that the started server serves from its examples.",
    },
    "--junit": {"metavar": "FILE", "type": _WRITTEN, "help": "Write a JUnit XML report."},
    "--json as_json": {"metavar": "FILE", "type": _WRITTEN, "help": "Write a JSON report."},
    "--table": {"is_flag": True, "help": "Print the number of responses by operation and status."},
    "--keep": {
        "is_flag": True,
        "help": "Keep the fuzzed workspaces on the server of --url.",
    },
}


@click.command()
@options(_OPTIONS)
def fuzz(
    contracts: tuple[str, ...],
    seconds: int | None,
    project: Path | None,
    junit: Path | None,
    as_json: Path | None,
    table: bool,
    **plan: Any,
) -> None:
    """Send thousands of generated requests and judge the responses.

    Schemathesis generates valid requests, invalid ones, and sequences that follow links. It works
    in two new workspaces, which are deleted afterwards; neither may read the data of the other.
    The state is restored before each request, so that a finding can be reproduced. Status 1 when
    there is a finding, and when an operation never succeeded or rejected a valid key.
    Needs, in a checkout of the sandbox: pip install '.[fuzz]'

    \b
    invoice-sandbox fuzz
    invoice-sandbox fuzz --contract api --operation createInvoice --seed 1 --max-examples 200
    invoice-sandbox fuzz --url http://127.0.0.1:8080 --time PT5M --junit fuzz.xml
    invoice-sandbox fuzz --document my-api.yaml
    """
    started = {"--project": project, "--document": plan["document"]}
    for name in [name for name, value in started.items() if value is not None]:
        if plan["url"] is not None:
            raise click.UsageError(f"{name} cannot be used with --url, whose server has started")
    if project is not None and plan["document"] is not None:
        raise click.UsageError("--document cannot be used with --project")
    if plan["keep"] and plan["url"] is None:
        raise click.UsageError("--keep needs --url; a started server stops at the end")
    made = command.Plan(
        **plan, seconds=seconds, folder=project, contracts=contracts or tuple(command.CONTRACTS)
    )
    try:
        passed = command.fuzz(made, junit=junit, json=as_json, with_table=table)
    except SandboxError as error:
        raise UserError(str(error)) from None
    except KeyboardInterrupt:
        click.echo("Stopped; there is no result.", err=True)
        sys.exit(command.INTERRUPTED)
    sys.exit(0 if passed else FAILED)
