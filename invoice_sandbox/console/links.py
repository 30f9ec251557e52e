"""Ids as links: to their object where the id shows its type, else to the page that finds it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from flask import redirect
from markupsafe import Markup, escape

from invoice_sandbox.console.common import client, contents, page_url, pages, pretty

if TYPE_CHECKING:
    from werkzeug.wrappers import Response as Redirect

_ID: Final = re.compile(r"\b[a-z]+_sandbox_(?:[a-z2-7]{8}_\d{4,}|[0-9A-Z]{26})\b")
"""Such as ``inv_sandbox_k2v5q7xa_0001`` and ``req_sandbox_01M7YQ1WE00CMTVAXC8FJJVNF7``."""

_PAGES: Final = {"req": "/requests/", "dlv": "/webhooks/", "acr": "/acceptance/"}
"""The pages of the objects that every project has, by the beginning of their ids."""


def linked(value: Any) -> Markup:
    """A value as text, in which every id is a link to its object."""
    text, parts, end = pretty(value) if not isinstance(value, str) else value, [], 0
    for found in _ID.finditer(text):
        parts += [escape(text[end : found.start()]), _link(found[0])]
        end = found.end()
    return Markup("").join([*parts, escape(text[end:])])


def _link(name: str) -> Markup:
    below = _PAGES.get(name.partition("_")[0], "/find/")
    return Markup('<a href="{}">{}</a>').format(page_url(f"{below}{name}"), name)


@pages.get("/find/<name>")
def find(name: str) -> Redirect:
    """The page of the object with an id; of one that is unknown, the requests that have its id."""
    return redirect(page_url(_place(name)), 303)


def _place(name: str) -> str:
    place = _record(name) or _of_webhooks(name)
    if place is not None:
        return place
    for event in client().get("/sandbox/event-log", {"subject": name, "limit": 1}).rows:
        for subject in event["subjects"]:  # it may be on the page of another record
            place = _record(subject)
            if place is not None:
                return f"{place}#{quote(name)}"
    return f"/requests?{urlencode({'text': name})}"


def _record(name: str) -> str | None:
    """The page of a record of any type."""
    for records in contents().records:
        if client().get(records.item.path(name)).is_success:
            return f"/records/{records.name}/{quote(name, safe='')}"
    return None


def _of_webhooks(name: str) -> str | None:
    """The deliveries to an endpoint, or of an event."""
    for member in ("endpointId", "eventId"):
        if client().get("/sandbox/deliveries", {member: name, "limit": 1}).rows:
            return f"/webhooks?{urlencode({member: name})}"
    return None
