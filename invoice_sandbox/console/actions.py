"""The actions of the console: send a request and show its effect; sign in, switch and sign out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from http.cookies import SimpleCookie
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from flask import Response, g, redirect, render_template, request

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import duration_text
from invoice_sandbox.console.client import Received, is_repeated
from invoice_sandbox.console.common import client, contents, curl, page_url, pages
from invoice_sandbox.console.effects import Effect, effect_of
from invoice_sandbox.console.visitor import (
    COOKIE,
    Identity,
    cookie_text,
    is_secret,
    session_cookie,
)
from invoice_sandbox.openapi.load.operations import CONSOLE

if TYPE_CHECKING:
    from werkzeug.wrappers import Response as Redirect

    from invoice_sandbox.console.records import Address

_SNAPSHOTS: Final = "/sandbox/snapshots"
_MOST_NAMES: Final = 8
_SHOWN: Final = 60
_WORDS: Final = re.compile(
    r"((?P<days>\d{1,6}) ?(?:d|days?))?,? ?((?P<hours>\d{1,6}) ?(?:h|hours?))?,? ?"
    r"((?P<minutes>\d{1,6}) ?(?:m|min|minutes?))?,? ?((?P<seconds>\d{1,6}) ?(?:s|sec|seconds?))?",
    re.ASCII,
)
_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_FIELD: Final = "field."
_HEADER: Final = "header."


@pages.post("/call")
def call() -> Response:
    """Send the request of a form to the API, and show its effect.

    With ``ask``, a question, it is sent only once that is ``confirmed``. With ``undo`` a snapshot
    is taken first, and the panel has a button that restores it.

    ``body`` is JSON; each ``field.NAME`` that is not empty sets a member of it, ``field.with.NAME``
    a member of its member ``with``. ``raw`` is a body that is sent as it is, and
    ``header.NAME`` a header. With ``open`` the page of the request that was sent is the effect.
    """
    form = request.form
    method, path = form.get("method", ""), form.get("path", "")
    body = jsonio.parsed(form.get("body") or "{}")
    is_own = path.startswith("/") and not unquote(path).startswith(CONSOLE)
    if method not in _METHODS or not is_own or not isinstance(body, dict):
        return _not_sent("This form is incomplete. Nothing was sent.")
    for names, text in _fields(form):
        if not _set(body, names, _typed(text)):
            return _not_sent(f"There is no field {'.'.join(names)[:_SHOWN]}. Nothing was sent.")
    if "ask" in form and "confirmed" not in form:
        return _page(render_template("question.html", back=_back()))
    saved = client().send("POST", _SNAPSHOTS, b"") if "undo" in form else None
    if saved is not None and not saved.is_success:
        return _not_sent(f"No snapshot could be taken, so nothing was done. {saved.problem}", 200)
    raw = form.get("raw", "").replace("\r\n", "\n")  # forms are sent with CRLF
    content = raw if "raw" in form else jsonio.dumps(body).decode() if body else ""
    headers = dict(_headers(form))
    received = client().with_headers(headers).send(method, path, content.encode())
    request_id = received.headers.get("x-request-id", "")
    if "open" in form and request_id:
        return _opened(page_url(f"/requests/{quote(request_id, safe='')}"))
    if content:
        headers.setdefault("content-type", "application/json")
    command = curl(method, path, headers, content or None)
    effect = effect_of(method, path, received)
    if saved is not None and received.is_success:
        effect = replace(effect, undo=f"{_SNAPSHOTS}/{saved.data['id']}/restore")
    return _page(shown_effect(effect, received, method, path, command))


def _opened(url: str) -> Response:
    """A redirect to a page, which htmx follows as a browser would."""
    if "HX-Request" in request.headers:
        return Response(headers={"HX-Redirect": url})
    return Response(status=303, headers={"Location": url})


def _not_sent(text: str, status: int = 400) -> Response:
    return _page(shown_effect(Effect("bad", text)), status)


def shown_effect(
    effect: Effect,
    received: Received | None = None,
    method: str = "",
    path: str = "",
    command: str = "",
) -> str:
    """The panel with the effect of a request; without ``received`` nothing was sent."""
    return render_template(
        "panel.html",
        effect=effect,
        received=received,
        method=method,
        path=path,
        command=command,
        typed={name: text for name, text in request.form.items() if name.startswith(_FIELD)},
        key_prefix=contents().engine.project.conventions.key_prefix,
    )


def _page(panel: str, status: int = 200) -> Response:
    """The panel alone; without JavaScript, a page with it."""
    if "HX-Request" in request.headers:
        return Response(panel, status)
    page = render_template("result.html", panel=panel, back=_back(), page="")
    return Response(page, status)


def _back() -> str:
    """The page of the form."""
    target = request.form.get("back", "")
    is_ours = target.startswith(page_url()) and target.isprintable()
    return target if is_ours else page_url()


def _headers(form: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, text in form.items():
        header = name.removeprefix(_HEADER)
        if header != name and is_repeated(header, text):
            yield header, text


def _fields(form: Mapping[str, str]) -> Iterator[tuple[list[str], str]]:
    for name, text in form.items():
        if name.startswith(_FIELD) and text:
            yield name.removeprefix(_FIELD).split("."), text


def _set(body: dict[str, Any], names: Sequence[str], value: Any) -> bool:
    """Set a member of a member; False: something in between is no object, or it is too deep."""
    *outer, last = names
    inner: Any = body
    for name in outer:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            return False
    inner[last] = value
    return len(names) <= _MOST_NAMES


def _typed(text: str) -> Any:
    """Numbers, ``true``, ``false`` and ``null`` as JSON, durations in words as ISO 8601, all else
    as text."""
    value = jsonio.parsed(text)
    if isinstance(value, (int, float)) or text == "null":
        return value
    return duration_of_words(text) or text


def duration_of_words(text: str) -> str | None:
    """The ISO 8601 duration of words such as ``3 days``, ``90s`` or ``1 h 30 min``, or None."""
    found = _WORDS.fullmatch(text.strip().lower())
    if found is None or not any(found.groups()):
        return None
    given = {name: float(number) for name, number in found.groupdict("0").items()}
    return duration_text(timedelta(**given))


# Who visits


@pages.get("/sign-in")
def sign_in_page(problem: str = "") -> str:
    """The page for another key or user."""
    return render_template("sign_in.html", problem=problem, sign_in=contents().sign_in)


@pages.post("/sign-in")
def sign_in() -> str | Redirect:
    """Remember a key, or the session of a user, in a cookie that scripts cannot read."""
    form = contents().sign_in
    if "key" not in request.form and form is not None:
        return _as_user(*form)
    key = request.form.get("key", "").strip()
    if not is_secret(key):
        return sign_in_page("This is not a key.")
    return _holding((Identity("key", key), *_others(key)))


def _as_user(address: Address, fields: Sequence[str]) -> str | Redirect:
    """Open a session with the operation at ``address``."""
    body = jsonio.dumps({name: request.form.get(name, "") for name in fields})
    received = client().as_nobody().send(address.method, address.path(), body)
    cookies = SimpleCookie(received.headers.get("set-cookie", ""))
    name = session_cookie(contents().engine) or ""
    if not received.is_success or name not in cookies:
        return sign_in_page(received.problem)
    session = cookies[name].value
    return _holding((Identity("session", session), *_others(session)))


@pages.post("/switch")
def switch() -> Redirect:
    """Use another of the visitor's keys."""
    held = list(g.visitor.held)
    wanted = request.form.get("identity", "")
    if wanted in map(str, range(len(held))):
        held.insert(0, held.pop(int(wanted)))
    return _holding(held)


@pages.post("/sign-out")
def sign_out() -> Redirect:
    """Forget the key in use."""
    return _holding(g.visitor.held[1:])


def _others(secret: str) -> list[Identity]:
    return [identity for identity in g.visitor.held if identity.secret != secret]


def _holding(held: Sequence[Identity]) -> Redirect:
    response = redirect(page_url(), 303)
    if not held:
        response.delete_cookie(COOKIE, path=page_url())
        return response
    text, secure = cookie_text(held), contents().engine.url.startswith("https:")
    response.set_cookie(
        COOKIE, text, path=page_url(), httponly=True, samesite="Strict", secure=secure
    )
    return response
