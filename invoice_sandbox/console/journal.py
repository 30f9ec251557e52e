"""The pages of the journal: a list of requests, and why the open one got its response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from flask import render_template, request

from invoice_sandbox.console.client import Received, is_repeated
from invoice_sandbox.console.common import JOURNAL, client, contents, curl, error_message, pages
from invoice_sandbox.console.topics import REQUESTS
from invoice_sandbox.runtime.redaction import REDACTED

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
    filters = {name: request.args[name] for name in _FILTERS if request.args.get(name)}
    entry = None if found is None else next(iter(found.rows), None)
    return render_template(
        "requests.html",
        page="requests",
        topics=(REQUESTS,),
        received=client().get("/sandbox/requests", {"limit": JOURNAL, **filters}),
        filters=filters,
        query=f"?{urlencode(filters)}" if filters else "",
        request_id=request_id,
        entry=entry,
        message="" if entry is None else error_message(entry),
        facts={} if entry is None else _facts(entry),
        repeated=_headers(entry) if entry is not None and _is_whole(entry) else None,
        curl="" if entry is None else _command(entry),
        operations=sorted(contents().engine.project.contract.operations),
    )


def _facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return why a response came, without violations and hints, which are shown before."""
    return {name: value for name, value in entry["why"].items() if name not in _SHOWN_BEFORE}


_SHOWN_BEFORE: Final = frozenset({"problems", "schemaPath", "hints"})


def _is_whole(entry: Mapping[str, Any]) -> bool:
    """True if the journal has all of a request but the credential, so that it can be repeated."""
    sent = entry["request"]
    has_secret = any(REDACTED in text for text in (entry["path"], sent["body"] or ""))
    return "bodyBytes" not in sent and not has_secret


def _headers(entry: Mapping[str, Any]) -> dict[str, str]:
    """The headers that belong to a request, not to its connection or its sender."""
    headers = dict(entry["request"]["headers"])
    if headers.get("accept") == "*/*":  # which is the same as none
        del headers["accept"]
    if entry["request"]["body"] is not None:
        headers.setdefault("content-type", "application/json")
    return {
        name: text for name, text in headers.items() if is_repeated(name, text) and text != REDACTED
    }


def _command(entry: Mapping[str, Any]) -> str:
    return curl(entry["method"], entry["path"], _headers(entry), entry["request"]["body"])
