"""The command line: ``invoice-sandbox serve`` and ``invoice-sandbox contract``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import click

from invoice_sandbox import __version__
from invoice_sandbox.settings import ENVIRONMENT_PREFIX, SETTINGS, SettingError, read_settings

_FAILED = 1
_MISUSED = 2


class UsableError(click.ClickException):
    """A problem that the user can mend: one line on stderr, exit status 2."""

    exit_code = _MISUSED


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="invoice-sandbox")
def main() -> None:
    """A sandbox of the Invoice Liquidity API, served from its OpenAPI 3.1 contract.

    Start it with 'invoice-sandbox serve', then follow the printed address.
    """


def _setting_options(command: Callable[..., None]) -> Callable[..., None]:
    for setting in reversed(SETTINGS):
        variable = f"{ENVIRONMENT_PREFIX}_{setting.name.replace('-', '_').upper()}"
        option = click.option(
            f"--{setting.name}",
            metavar=setting.metavar,
            envvar=variable,
            help=setting.help + (f" Default: {setting.default}." if setting.default else ""),
        )
        command = option(command)
    return command


@main.command()
@_setting_options
def serve(**texts: str | None) -> None:
    """Serve the sandbox until it is stopped.

    Prints one line, with the address and the key, when it is ready to answer. Every option is an
    environment variable too: --rate-limit is INVOICE_SANDBOX_RATE_LIMIT.
    """
    from invoice_sandbox.project import ProjectError
    from invoice_sandbox.server import serve as serve_forever

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


@main.command()
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
def contract(
    project: Path | None, base: bool, form: str, assumptions: bool, check: Path | None
) -> None:
    """Print the served contract: the published document and this sandbox's assumptions, merged.

    \b
    invoice-sandbox contract --format json > contract.json
    invoice-sandbox contract --assumptions
    invoice-sandbox contract --check next-version.yaml
    """
    from invoice_sandbox import contract_command

    try:
        if check is not None:
            sys.exit(_FAILED if contract_command.check(project, check) else 0)
        if assumptions:
            contract_command.print_assumptions(project)
        else:
            contract_command.print_contract(project, base=base, form=form)
    except contract_command.PROBLEMS as error:
        raise UsableError(str(error)) from None
