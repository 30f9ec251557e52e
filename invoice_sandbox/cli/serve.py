"""``invoice-sandbox serve``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from invoice_sandbox.openapi.load.operations import CONSOLE, DOCS
from invoice_sandbox.settings import ENVIRONMENT_PREFIX, FLAG, SETTINGS, Settings, read_settings

if TYPE_CHECKING:
    from invoice_sandbox.runtime.engine import Engine

log = logging.getLogger("invoice_sandbox.serve")
log.setLevel(logging.INFO)


def _setting_options(command: Callable[..., None]) -> Callable[..., None]:
    for setting in reversed(SETTINGS):
        variable = f"{ENVIRONMENT_PREFIX}_{setting.name.replace('-', '_').upper()}"
        default = f" Default: {setting.default}." if setting.default else ""
        flag: dict[str, Any] = (
            {"is_flag": False, "flag_value": "on"} if setting.metavar == FLAG else {}
        )
        several: dict[str, Any] = (
            {"multiple": True, "callback": _joined} if setting.repeatable else {}
        )
        option = click.option(
            f"--{setting.name}",
            metavar=setting.metavar,
            envvar=variable,
            help=setting.help + default,
            **flag,
            **several,
        )
        command = option(command)
    return command


def _joined(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> str:
    return " ".join(values)


@click.command()
@_setting_options
def serve(**texts: str | None) -> None:
    """Serve the sandbox until it is stopped.

    Prints one line with the URL and the key when it is ready, then a random seed, and where docs
    and API are; with --log json a line of the log, without a key that was given.

    Every option is also an environment variable: --rate-limit is INVOICE_SANDBOX_RATE_LIMIT.
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s"
    )
    settings = read_settings({name.replace("_", "-"): text for name, text in texts.items()})
    # imported here: the help and a mistake in the options need no server
    from invoice_sandbox.http.journaling import MEMBERS, REQUESTS, JsonLines
    from invoice_sandbox.server.serving import serve as serve_forever

    if settings.log == "json":
        for handler in logging.getLogger().handlers:
            handler.setFormatter(JsonLines())
    if settings.log is not None:
        REQUESTS.setLevel(logging.INFO)

    def print_ready(engine: Engine) -> None:
        if settings.log == "json":  # others may read the log, so no key that somebody has chosen
            made = {} if settings.key_given else {"key": settings.key}
            shown = {"passwords": dict(engine.passwords)} if engine.passwords else {}
            members = {"url": engine.url, **made, "seed": engine.seed, **shown}
            log.info("ready", extra={MEMBERS: {**members, **_places(engine)}})
            return
        for line in _ready_lines(engine, settings):
            click.echo(line)

    serve_forever(settings, print_ready)


def _ready_lines(engine: Engine, settings: Settings) -> Iterator[str]:
    from invoice_sandbox.project.inference import NOTHING

    places = _places(engine)
    yield f"Invoice Liquidity Sandbox ready on {engine.url} with key {settings.key}"
    for email, password in engine.passwords.items():
        yield f"Log in as {email} with password {password}"
    if engine.lacks_users:
        yield "No users: 'invoice-sandbox users add EMAIL --role ROLE' adds one"
    if settings.seed is None:
        yield f"Seed {engine.seed}: --seed {engine.seed} gives the same ids again"
    collections = engine.project.conventions.collections
    yield from (f"Stateful {collection}" for collection in collections)
    if settings.stateful and not collections:
        yield NOTHING
    yield f"Console at {places['console']}, docs at {places['docs']}"
    yield f"API at {places['api']}, control API at {places['controlApi']}"


def _places(engine: Engine) -> dict[str, str]:
    """The addresses of what the server serves."""
    url, project = engine.url, engine.project
    return {
        "console": url + CONSOLE,
        "docs": url + DOCS,
        "api": url + project.contract.base_path,
        "controlApi": url + project.control.base_path,
    }
