"""``invoice-sandbox fuzz``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any, Final

import click

from invoice_sandbox.base.errors import UserError
from invoice_sandbox.cli.options import FILE, FOLDER, options
from invoice_sandbox.control.client import SandboxError
from invoice_sandbox.fuzzing import command
from invoice_sandbox.testing.server import Options

_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "--project": {
        "metavar": "DIR",
        "type": FOLDER,
        "help": "Project that the server serves. Default: the bundled one.",
    },
    "--contract": {
        "metavar": "FILE",
        "type": FILE,
        "help": "OpenAPI file that the server serves from its examples.",
    },
    "--control-api": {"is_flag": True, "help": "Fuzz the control API instead."},
}


@click.command(context_settings={"ignore_unknown_options": True})
@options(_OPTIONS)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def fuzz(
    project: Path | None, contract: Path | None, control_api: bool, arguments: tuple[str, ...]
) -> None:
    """Send thousands of generated requests and check the responses, with Schemathesis.

    Starts a server with a frozen clock and passes the ARGUMENTS to 'schemathesis run', whose exit
    status is that of the command. The same seed sends the same requests; --seed is 7 and
    --max-examples is 30 by default.
    Needs, in a checkout of the sandbox: pip install '.[fuzz]'

    \b
    invoice-sandbox fuzz
    invoice-sandbox fuzz --seed 1 --max-examples 200 --report junit
    invoice-sandbox fuzz --include-operation-id createInvoice --phases coverage,fuzzing
    invoice-sandbox fuzz --control-api
    invoice-sandbox fuzz --contract my-api.yaml
    """
    served = Options(
        project=None if project is None else str(project),
        contract=None if contract is None else str(contract),
    )
    fuzzed = command.CONTROL_API if control_api else command.API
    try:
        status = command.fuzz(served, fuzzed, arguments)
    except SandboxError as error:
        raise UserError(str(error)) from None
    if status:
        again = shlex.join(["invoice-sandbox", "fuzz", *sys.argv[2:]])
        click.echo(f"Reproduce with the same requests: {again}", err=True)
    sys.exit(status)
