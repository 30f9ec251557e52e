"""A public URL with a path: everything works below it, also if no proxy takes the path off."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from urllib.parse import urljoin, urlsplit

import httpx
import pytest

from invoice_sandbox.base.ids import new_key
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.receivers import deliveries, subscribe, trigger
from tests.scenario_run import advance, data, register_new
from tests.support import FROZEN, PATIENCE, serving
from tests.test_control_commands import run

PUBLIC = "https://gateway.example/mock"
_ADDRESS = re.compile(r'(?:href|src|action|hx-get|sse-connect)="([^"#]+)[^"]*"')


@pytest.fixture(scope="module")
def key() -> str:
    return new_key()


@pytest.fixture(scope="module")
def address(key: str) -> Iterator[str]:
    """The address of the server on this machine, where nothing takes a path off."""
    settings = replace(FROZEN, public_url=PUBLIC, key=key, key_given=True)
    with serving(settings) as running:
        yield f"http://127.0.0.1:{running.port}"


@pytest.fixture(params=["", "/mock"], ids=["taken off", "left on"])
def client(address: str, key: str, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """A client of a proxy that takes the path off, and of one that does not."""
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(
        base_url=f"{address}{request.param}", headers=headers, timeout=PATIENCE
    ) as client:
        yield client


def test_every_address_of_every_page_is_below_the_path(address: str, key: str) -> None:
    with httpx.Client(base_url=address, timeout=PATIENCE) as visitor:
        form = {"key": key}
        origin = {"Origin": "https://gateway.example"}
        signed_in = visitor.post("/mock/console/sign-in", data=form, headers=origin)
        assert signed_in.headers["location"] == "/mock/console"
        assert "Path=/mock/console" in signed_in.headers["set-cookie"]
        cookie = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
        assert visitor.get("/mock/").headers["location"] == "/mock/console"
        seen, left = set[str](), ["/mock/console", "/mock/docs"]
        while left and len(seen) < 60:
            path = left.pop(0)
            response = visitor.get(path, headers=cookie)
            assert response.status_code in {200, 303, 308, 405}, path  # 405: of a form
            seen.add(path)
            if "html" in response.headers["content-type"]:
                found = [unescape(one) for one in _ADDRESS.findall(response.text)]
                paths = [urljoin(path, one) for one in found if not urlsplit(one).scheme]
                assert all(one.startswith("/mock/") for one in paths), (path, paths)
                is_page = [one for one in paths if "/call" not in one and "/events" not in one]
                left += [one for one in dict.fromkeys(is_page) if one not in {*seen, *left}]
        assert len(seen) > 30


def test_the_api_works_below_the_path(client: httpx.Client) -> None:
    register_new(client)
    page = client.get("/api/invoices", params={"limit": 1})
    assert page.headers["link"].startswith("</mock/api/invoices?limit=1&cursor=")
    assert client.get("/openapi.json").json()["servers"][0]["url"].startswith(PUBLIC)
    inbox = data(client.get("/sandbox/inbox"))["url"]
    assert inbox.startswith(f"{PUBLIC}/sandbox/inbox/")
    endpoint = subscribe(client, inbox)
    trigger(client)
    advance(client, by="PT0S")
    mine = [one for one in deliveries(client) if one["endpointId"] == endpoint["id"]]
    assert {one["status"] for one in mine} == {"Delivered"}


def test_the_command_line_takes_a_url_with_a_path(address: str, key: str) -> None:
    found = run(f"clock --url {address}/mock --key {key}")
    assert found.exit_code == 0, found.stderr
    assert found.stdout.startswith("frozen at")
    wrong = run(f"clock --url {address}/mock?x=1 --key {DEMO_KEY}")
    assert "must have no query" in wrong.stderr
