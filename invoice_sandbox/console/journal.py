"""The pages of the journal: a list of requests, and why the open one got its response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from flask import render_template, request

from invoice_sandbox.console.client import Received, is_repeated
from invoice_sandbox.console.common import (
    JOURNAL,
    client,
    contents,
    curl,
    error_message,
    next_cursor,
    pages,
)
from invoice_sandbox.console.topics import REQUESTS
from invoice_sandbox.runtime.redaction import REDACTED

_FILTERS: Final = ("operation", "method", "status", "failed", "text", "fault")
_LIST: Final = "/sandbox/requests"


@pages.get("/requests")
def requests() -> str:
    """The journal, newest first."""
    return _page(None, None)


@pages.get("/requests/<request_id>")
def one_request(request_id: str) -> str:
    """The same, with one request and its response."""
    return _page(request_id, client().get(_LIST, {"id": request_id}))


def _page(request_id: str | None, found: Received | None) -> str:
    filters = {name: request.args[name] for name in _FILTERS if request.args.get(name)}
    place = {"cursor": request.args["cursor"]} if request.args.get("cursor") else {}
    entry = None if found is None else next(iter(found.rows), None)
    received = client().get(_LIST, {"limit": JOURNAL, "messages": "false", **filters, **place})
    return render_template(
        "requests.html",
        page="requests",
        topics=(REQUESTS,),
        received=received,
        older=next_cursor(received),
        filters=filters,
        query=f"?{urlencode({**filters, **place})}" if filters or place else "",
        beside=_beside(received.rows, request_id, filters) if request_id else {},
        request_id=request_id,
        entry=entry,
        message="" if entry is None else error_message(entry),
        facts={} if entry is None else _facts(entry),
        repeated=_headers(entry) if entry is not None and _is_whole(entry) else None,
        curl="" if entry is None else _command(entry),
        operations=sorted(contents().engine.project.contract.operations),
    )


def _beside(rows: list[Any], request_id: str, filters: Mapping[str, str]) -> dict[str, str]:
    """The ids of the requests after and before one, and of the failed one before it, by the key
    that opens them."""
    ids = [entry["requestId"] for entry in rows]
    place = ids.index(request_id) if request_id in ids else 0
    next_ = {**filters, "cursor": request_id, "limit": 1, "messages": "false"}
    before, failed = (
        client().get(_LIST, {**next_, **more}).rows for more in ({}, {"failed": "true"})
    )
    found = {"k": ids[place - 1] if place else None, "j": _id(before), "e": _id(failed)}
    return {key: name for key, name in found.items() if name}


def _id(rows: list[Any]) -> str | None:
    return rows[0]["requestId"] if rows else None


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
