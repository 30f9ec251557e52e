"""The common part of all pages: their blueprint, the visitor's client, and JSON as text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from flask import Blueprint, current_app, g
from markupsafe import Markup, escape

from invoice_sandbox.base import jsonio
from invoice_sandbox.openapi.load.operations import CONSOLE

if TYPE_CHECKING:
    from invoice_sandbox.console.client import Client, Received
    from invoice_sandbox.console.records import Contents

pages: Final = Blueprint("console", __name__)

JOURNAL: Final = 200
"""Entries of the journal that a page reads."""

_LARGE: Final = 10**15
"""A number that is shown as it was sent."""


def client() -> Client:
    """The client of the visitor."""
    found: Client = g.client
    return found


def contents() -> Contents:
    """The contents of the console."""
    found: Contents = current_app.config["CONTENTS"]
    return found


def page_url(path: str = "") -> str:
    """The URL of a page of the console, by its path below that of the console."""
    return f"{contents().engine.public_path}{CONSOLE}{path}"


def request_page(request_id: str) -> str:
    """The page of an entry of the journal."""
    return page_url(f"/requests/{request_id}")


def pretty(value: Any) -> str:
    """JSON on several lines; a text that is JSON is formatted, any other text stays."""
    if isinstance(value, str):
        try:
            value = jsonio.loads(value.encode())
        except ValueError:
            return str(value)
    return jsonio.dumps_pretty(value).decode()


def day_or_time(at: str, now: str) -> str:
    """An instant as a date, or as a time if it is on the day of another one."""
    return at[11:19] if at[:10] == now[:10] else at[:10]


def shown(value: Any) -> str:
    """A value in the cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return jsonio.dumps(value).decode().strip('"')


def prose(text: str) -> Markup:
    """A text of a contract, in which what stands between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704  escaped


def figure(value: Any) -> str:
    """A value in a table in which a number has commas, and two decimals unless it has more."""
    is_number = isinstance(value, (int, Decimal)) and not isinstance(value, bool)
    if not is_number or not abs(value) < _LARGE:
        return shown(value)
    if isinstance(value, Decimal) and value == round(value, 2):
        return f"{value:,.2f}"
    return f"{value:,}"


def error_message(entry: Mapping[str, Any]) -> str:
    """The message of the error that a response in the journal has; empty if it has none."""
    body = jsonio.parsed(entry["response"]["body"])
    error = body.get("error", {}) if isinstance(body, Mapping) else {}
    return str(error.get("message", "")) if isinstance(error, Mapping) else ""


def curl(method: str, path: str, headers: Mapping[str, str], body: str | None) -> str:
    """A request as a command. The key is a variable, because the journal does not have it."""
    how = "" if method == "GET" else f"-X {method} "
    parts = [f"curl {how}{shlex.quote(contents().engine.url + path)}"]
    parts.append('-H "Authorization: Bearer $SANDBOX_API_KEY"')
    parts += [f"-H {shlex.quote(f'{name}: {text}')}" for name, text in headers.items()]
    if body is not None:
        parts.append(f"--data-raw {shlex.quote(body)}")
    return " \\\n  ".join(parts)


def next_cursor(received: Received) -> str | None:
    """The cursor of the next page of a list; None: this is the last one."""
    for part in received.headers.get("link", "").split(","):
        target, _, relation = part.partition(";")
        if 'rel="next"' in relation:
            parameters = parse_qs(urlsplit(target.strip(" <>")).query)
            return parameters.get("cursor", [None])[0]
    return None
