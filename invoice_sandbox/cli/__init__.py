"""The command line: a module for each subject, imported when one of its commands is used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from http import HTTPStatus
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

from invoice_sandbox import __version__
from invoice_sandbox.base.errors import UserError
from invoice_sandbox.cli.options import Commands
from invoice_sandbox.cli.output import plain
from invoice_sandbox.control.client import SandboxError


class _Place(NamedTuple):
    """The module of a command, and the first sentence of its help."""

    module: str
    summary: str


_COMMANDS: Final = {
    "serve": _Place("serve", "Serve the sandbox until it is stopped."),
    "contract": _Place("contract", "Print the served contract, or compare the next version."),
    "key": _Place("workspace", "Print a new API key for 'serve --key'."),
    "doctor": _Place("doctor", "Check what the sandbox needs on this machine."),
    "init": _Place("init", "Create a project for a contract in DIR."),
    "scenarios": _Place("scenarios", "List, choose and validate scenarios."),
    "clock": _Place("clock", "Show or move the clock of the workspace."),
    "agenda": _Place("clock", "Show due and finished steps."),
    "workspace": _Place("workspace", "Create, list and delete workspaces."),
    "snapshot": _Place("workspace", "Save the workspace and restore it."),
    "reset": _Place("workspace", "Reset the workspace."),
    "fault": _Place("fault", "Inject faults into responses."),
    "transition": _Place("lifecycle", "Move an invoice, or list its legal transitions."),
    "users": _Place("users", "Add, list and disable the users of a workspace."),
    "session": _Place("users", "List sessions of users, or end one."),
    "requests": _Place("requests", "List requests and responses."),
    "listen": _Place("listen", "Forward webhooks to your own receiver, until stopped."),
    "trigger": _Place("webhooks", "Record an event of TYPE and deliver it."),
    "inbox": _Place("webhooks", "Show the inbox."),
    "deliveries": _Place("webhooks", "List webhook deliveries, newest first."),
    "replay": _Place("webhooks", "Replay a delivery, or a bundle."),
    "bundle": _Place("bundle", "Write a workspace to one file, for a bug report."),
    "coverage": _Place("requests", "Show the coverage of the contract."),
    "verdicts": _Place("verdicts", "Judge the client by what it did in the workspace."),
    "acceptance": _Place("acceptance", "Judge a client against an acceptance plan."),
    "mcp": _Place("mcp", "Serve a running sandbox as tools for an agent."),
    "fuzz": _Place("fuzz", "Send thousands of generated requests and check the responses."),
}
"""The help of the whole imports no module of a command."""

_INTERRUPTED: Final = 130


class _Misuse(click.ClickException):
    exit_code = 2


class _Main(Commands):
    """Finds commands by name, and ends each of them in the same way."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"{__name__}.{_COMMANDS[cmd_name].module}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def summaries(self, ctx: click.Context) -> Mapping[str, str]:  # noqa: ARG002
        return {name: place.summary for name, place in _COMMANDS.items()}

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UserError as error:
            raise _Misuse(str(error)) from None
        except OSError as error:
            if error.filename is None:
                raise
            raise _Misuse(f"{error.filename}: {error.strerror}") from None
        except SandboxError as error:
            text = plain(str(error))
            if error.status == HTTPStatus.UNAUTHORIZED:
                text += " Pass a key with --key or INVOICE_SANDBOX_KEY."
            raise click.ClickException(text) from None
        except KeyboardInterrupt:
            sys.exit(_INTERRUPTED)


@click.group(cls=_Main, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="invoice-sandbox")
def main() -> None:
    """A sandbox of the Invoice Liquidity API, served from its OpenAPI 3.1 contract.

    Start the server with 'invoice-sandbox serve'. The other commands control a running server:
    clock, scenarios, faults, webhooks, workspaces.

    \b
    invoice-sandbox serve --clock frozen
    invoice-sandbox clock advance P3D
    invoice-sandbox requests --status 400
    """
