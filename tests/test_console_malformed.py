"""Malformed cookies and forms: a page with its reason, never an error of the server."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final
from urllib.parse import quote, urlencode

import httpx
import pytest

from invoice_sandbox.console.visitor import COOKIE
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.support import PATIENCE, Running

SESSION: Final = "ils_session"
DEEP: Final = "[" * 1_200 + "]" * 1_200
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1.5, "", "text", "\ud800", "\u0000", "\r\nSet-Cookie: a=b", "\u202e"),
    *([], {}, [None], [[]], [[1, 2]], ["key"], [["key", None]], [[["key"], DEMO_KEY]], {"a": "b"}),
    *([["key", "\ud800"]], [["key", "\u00e9"]], [["key", "x" * 100_000]], [["key", DEMO_KEY, 1]]),
    *([{"key": 1}], [["session", {}]], [["nobody", ""]], [["key", "a\r\nb"]]),
)
TEXTS: Final = (
    *("", "%", "=", "====", "not base64!", "\x80\xff", "a" * 5_000, "9" * 4_000, "-1", "0", "1e9"),
    *(
        "..",
        "//evil.example",
        "/console\r\nX: y",
        "/console/\x00",
        "javascript:alert(1)",
        "{",
        DEEP,
    ),
    *("null", "[1]", '{"a":1}', '"\\ud800"', "/%63onsole/call", "/sandbox/clock", "/api/invoices"),
)
NAMES: Final = (
    *(
        "method",
        "path",
        "body",
        "raw",
        "back",
        "key",
        "identity",
        "header.",
        "header.a b",
        "field.",
    ),
    *("field.a", "field.a.b", "field.a.b.c", "field..", f"field.{'a.' * 1_200}", "header.host"),
)


@pytest.fixture(scope="module")
def visitor(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(
        base_url=server.url, timeout=PATIENCE, transport=server.connections
    ) as client:
        yield client


def cookie(random: Random) -> str:
    """The header with a malformed cookie of one of the console's names, or with both."""
    values = []
    for name in random.choice([(COOKIE,), (SESSION,), (COOKIE, SESSION)]):
        value = json.dumps(random.choice(VALUES)) if random.random() < 0.8 else DEEP
        coded = base64.urlsafe_b64encode(value.encode()).decode()
        text = random.choice([coded, coded.rstrip("="), coded[:-3], quote(random.choice(TEXTS))])
        values.append(f"{name}={text[:8_000]}")
    return "; ".join(values)


def with_cookie(visitor: httpx.Client, random: Random) -> httpx.Response:
    path = random.choice(["", "/requests", "/webhooks", "/scenario", "/sign-in"])
    return visitor.get(f"/console{path}", headers={"Cookie": cookie(random)})


def with_form(visitor: httpx.Client, random: Random) -> httpx.Response:
    path = random.choice(["/call", "/call", "/call", "/sign-in", "/switch", "/sign-out"])
    form = {"method": "POST", "path": "/sandbox/clock/advance", "back": "/console"}
    for _ in range(random.randint(1, 3)):
        form[random.choice(NAMES)] = random.choice(TEXTS)
    content = urlencode(form, errors="surrogatepass")
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    if random.random() < 0.3:
        headers["Cookie"] = cookie(random)
    return visitor.post(f"/console{path}", content=content, headers=headers)


def with_query(visitor: httpx.Client, random: Random) -> httpx.Response:
    path = random.choice(
        ["requests", "webhooks", "scenario", "records/invoices", "contract/schema"]
    )
    names = ("text", "operation", "status", "search", "name", "about", "page", "cursor", "pointer")
    query = {random.choice(names): random.choice(TEXTS) for _ in range(2)}
    return visitor.get(f"/console/{path}?{urlencode(query, errors='surrogatepass')}")


@pytest.mark.parametrize("ask", [with_cookie, with_form, with_query])
def test_malformed_input_is_never_an_error_of_the_server(
    visitor: httpx.Client, ask: Callable[[httpx.Client, Random], httpx.Response]
) -> None:
    random = Random(ask.__name__)  # noqa: S311  no secret
    for number in range(200):
        response = ask(visitor, random)
        sent = response.request
        assert response.status_code < 500, (number, sent.url, sent.headers, sent.content[:300])
        assert len(response.headers.get("set-cookie", "")) < 8_000
        assert "x" not in response.headers or response.headers["x"] != "y"


def test_a_field_below_a_text_is_named(visitor: httpx.Client) -> None:
    form = {
        "method": "POST",
        "path": "/sandbox/clock/advance",
        "body": '{"by": "P1D"}',
        "field.by.days": "1",
    }
    page = visitor.post("/console/call", data=form)
    assert page.status_code == 400
    assert "There is no field by.days. Nothing was sent." in page.text
