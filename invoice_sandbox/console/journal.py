"""The pages of the journal: a list of requests, and why the open one got its response."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from flask import render_template, request

from invoice_sandbox.console.client import Received
from invoice_sandbox.console.common import JOURNAL, client, contents, pages

_FILTERS: Final = ("operation", "method", "status", "text", "fault")


@pages.get("/requests")
def requests() -> str:
    """The journal, newest first."""
    return _page(None, None)


@pages.get("/requests/<request_id>")
def one_request(request_id: str) -> str:
    """The same, with one request and its response."""
    received = client().get("/sandbox/requests", {"id": request_id})
    return _page(request_id, received)


def _page(request_id: str | None, found: Received | None) -> str:
    filters = {one: request.args[one] for one in _FILTERS if request.args.get(one)}
    entry = None if found is None else next(iter(found.rows), None)
    return render_template(
        "requests.html",
        page="requests",
        received=client().get("/sandbox/requests", {"limit": JOURNAL, **filters}),
        filters=filters,
        query=f"?{urlencode(filters)}" if filters else "",
        request_id=request_id,
        entry=entry,
        facts={} if entry is None else _facts(entry),
        curl=_curl(entry),
        operations=sorted(contents().engine.project.contract.operations),
    )


def _facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What explains a response, besides the violations, which have a table."""
    return {name: one for name, one in entry["why"].items() if name not in _IN_A_TABLE}


_IN_A_TABLE: Final = frozenset({"problems", "schemaPath"})


def _curl(entry: Mapping[str, Any] | None) -> str:
    """The request as a command. The key is a variable, because the journal does not have it."""
    if entry is None:
        return ""
    parts = [f"curl -X {entry['method']} {shlex.quote(contents().engine.url + entry['path'])}"]
    parts.append('-H "Authorization: Bearer $SANDBOX_API_KEY"')
    if entry["request"]["body"] is not None:
        content_type = dict(entry["request"]["headers"]).get("content-type", "application/json")
        parts.append(f"-H {shlex.quote(f'Content-Type: {content_type}')}")
        parts.append(f"--data-raw {shlex.quote(entry['request']['body'])}")
    return " \\\n  ".join(parts)
