"""What a document declares as ``format: password`` is in no journal, wherever it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.toy import serving_contract

SECRET = "hush-hush-0123456789"
PASSWORD = {"type": "string", "format": "password"}
FILTER = {"type": "object", "properties": {"pw": PASSWORD, "q": {"type": "string"}}}


def parameter(name: str, place: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, **more}


DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Secrets", "version": "1"},
    "paths": {
        "/things/{tok}": {
            "post": {
                "parameters": [
                    parameter("tok", "path", PASSWORD),
                    parameter("X-Hdr", "header", PASSWORD),
                    parameter("zz", "query", PASSWORD),
                    parameter("password", "query", FILTER, style="deepObject"),
                ],
                "requestBody": {"content": {"application/json": {"schema": FILTER}}},
                "responses": {"204": {"description": "ok"}},
            }
        }
    },
}

SENT: dict[str, dict[str, Any]] = {
    "a path": {"url": f"/things/{SECRET}"},
    "a header": {"url": "/things/t", "headers": {"X-Hdr": SECRET}},
    "a query": {"url": "/things/t", "params": {"zz": SECRET}},
    "an object in a query": {"url": "/things/t", "params": {"password[pw]": SECRET}},
    "a member with a short name": {"url": "/things/t", "json": {"pw": SECRET, "q": "x"}},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server that takes secrets."""
    with serving_contract(tmp_path_factory.mktemp("secrets"), DOCUMENT) as one:
        yield one


@pytest.mark.parametrize("sent", SENT.values(), ids=SENT)
def test_a_declared_secret_is_in_no_journal(client: httpx.Client, sent: dict[str, Any]) -> None:
    assert client.post(**sent).status_code == 204
    journal = client.get("/sandbox/requests", params={"limit": 1})
    assert journal.json()["data"][0]["status"] == 204
    assert SECRET not in journal.text
