"""A server and the contract that it serves: ``serve``, ``contract``, ``init``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from invoice_sandbox.cli.options import FAILED, UsableError
from invoice_sandbox.settings import ENVIRONMENT_PREFIX, FLAG, SETTINGS, SettingError, read_settings


def _setting_options(command: Callable[..., None]) -> Callable[..., None]:
    for setting in reversed(SETTINGS):
        variable = f"{ENVIRONMENT_PREFIX}_{setting.name.replace('-', '_').upper()}"
        default = f" Default: {setting.default}." if setting.default else ""
        alone: dict[str, Any] = (
            {"is_flag": False, "flag_value": "on"} if setting.metavar == FLAG else {}
        )
        option = click.option(
            f"--{setting.name}",
            metavar=setting.metavar,
            envvar=variable,
            help=setting.help + default,
            **alone,
        )
        command = option(command)
    return command


@click.command()
@_setting_options
def serve(**texts: str | None) -> None:
    """Serve the sandbox until it is stopped.

    Prints one line, with the address and the key, when it is ready to answer. Every option is an
    environment variable too: --rate-limit is INVOICE_SANDBOX_RATE_LIMIT.
    """
    from invoice_sandbox.project.loader import ProjectError
    from invoice_sandbox.server.serving import serve as serve_forever

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s"
    )
    try:
        settings = read_settings({name.replace("_", "-"): text for name, text in texts.items()})

        def say_ready(url: str) -> None:
            click.echo(f"Invoice Liquidity Sandbox ready on {url} with key {settings.key}")

        serve_forever(settings, say_ready)
    except (SettingError, ProjectError) as error:
        raise UsableError(str(error)) from None


@click.command()
@click.option(
    "--project",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with openapi/, handlers/, fixtures/, scenarios/; by default the one shipped.",
)
@click.option("--base", is_flag=True, help="The published contract alone, without assumptions.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="How to print it.",
)
@click.option("--assumptions", is_flag=True, help="Print what this sandbox assumes, as a table.")
@click.option(
    "--check",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare another version of the published contract with this one; 1 if anything breaks.",
)
@click.option("--json", "as_json", is_flag=True, help="With --check: print JSON.")
@click.option(
    "--limitations",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="List every place of another contract that 'serve --contract' does nothing about.",
)
def contract(
    project: Path | None,
    base: bool,
    form: str,
    assumptions: bool,
    check: Path | None,
    as_json: bool,
    limitations: Path | None,
) -> None:
    """Print the served contract, or compare the next version.

    It is the published document and this sandbox's assumptions, merged.

    \b
    invoice-sandbox contract --format json > contract.json
    invoice-sandbox contract --assumptions
    invoice-sandbox contract --check next-version.yaml
    invoice-sandbox contract --limitations petstore.yaml
    """
    from invoice_sandbox.cli import contract_command

    try:
        if check is not None:
            sys.exit(FAILED if contract_command.check(project, check, as_json=as_json) else 0)
        if limitations is not None:
            contract_command.print_limitations(limitations)
            return
        if assumptions:
            contract_command.print_assumptions(project)
        else:
            contract_command.print_contract(project, base=base, form=form)
    except contract_command.PROBLEMS as error:
        raise UsableError(str(error)) from None


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--contract",
    "file",
    metavar="FILE",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="OpenAPI 3.0 or 3.1 document, YAML or JSON.",
)
@click.option(
    "--allow-remote-refs", is_flag=True, help="Fetch what the contract refers to over http(s)."
)
def init(folder: Path, file: Path, allow_remote_refs: bool) -> None:
    """Write a project around a contract into DIR, ready to be served.

    It has the contract in one file, a handler to start from, and a README.

    \b
    invoice-sandbox init petstore --contract petstore.yaml
    invoice-sandbox serve --project petstore
    """
    from invoice_sandbox.cli import init_command

    try:
        init_command.write_project(folder, file, allow_remote_refs=allow_remote_refs)
    except init_command.PROBLEMS as error:
        raise UsableError(str(error)) from None
