"""The command line. Each command is one function; this is the list of them."""

from __future__ import annotations

import click

from invoice_sandbox import __version__
from invoice_sandbox.cli import control as levers
from invoice_sandbox.cli import quality as proof
from invoice_sandbox.cli import scenarios as stories
from invoice_sandbox.cli import serving, webhooks


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="invoice-sandbox")
def main() -> None:
    """A sandbox of the Invoice Liquidity API, served from its OpenAPI 3.1 contract.

    Start it with 'invoice-sandbox serve', then follow the printed address. The other commands pull
    the levers of a server that is running: time, scenarios, faults, webhooks, workspaces.

    \b
    invoice-sandbox serve --clock frozen
    invoice-sandbox clock advance P3D
    invoice-sandbox requests --status 400
    """


for _command in (
    serving.serve,
    serving.contract,
    serving.init,
    stories.scenarios,
    levers.clock,
    levers.agenda,
    levers.workspace,
    levers.reset,
    levers.snapshot,
    levers.scenario,
    levers.fault,
    levers.requests,
    levers.inbox,
    webhooks.listen,
    webhooks.trigger,
    proof.coverage,
    proof.fuzz,
):
    main.add_command(_command)
