"""What a document declares as ``format: password`` is in no journal, wherever it is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.cases import in_turn
from tests.toy import serving_contract

SECRET = "hush-hush-0123456789"
PASSWORD = {"type": "string", "format": "password"}
MANY = {"type": "array", "items": {"$ref": "#/components/schemas/Password"}}
NAMED = {"type": "object", "additionalProperties": PASSWORD}
DEEP = {"properties": {"codes": MANY, "vault": NAMED, "one": {"anyOf": [MANY, {"type": "null"}]}}}
FILTER = {"type": "object", "properties": {"pw": PASSWORD, "q": {"type": "string"}}}


def parameter(name: str, place: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, **more}


DOCUMENT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Secrets", "version": "1"},
    "components": {"schemas": {"Password": PASSWORD}},
    "paths": {
        "/deep": {
            "post": {
                "parameters": [
                    parameter("exploded", "query", FILTER, style="form", explode=True),
                    parameter("list", "query", MANY),
                ],
                "requestBody": {"content": {"application/json": {"schema": DEEP}}},
                "responses": {"204": {"description": "ok"}},
            }
        },
        "/list": {
            "post": {
                "requestBody": {"content": {"application/json": {"schema": MANY}}},
                "responses": {"204": {"description": "ok"}},
            }
        },
        "/word": {
            "post": {
                "requestBody": {
                    "content": {"application/json": {"schema": {**PASSWORD, "enum": ["winter"]}}}
                },
                "responses": {"204": {"description": "ok"}},
            }
        },
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
        },
    },
}

SENT: dict[str, dict[str, Any]] = {
    "a path": {"url": f"/things/{SECRET}"},
    "a header": {"url": "/things/t", "headers": {"X-Hdr": SECRET}},
    "a query": {"url": "/things/t", "params": {"zz": SECRET}},
    "an object in a query": {"url": "/things/t", "params": {"password[pw]": SECRET}},
    "a list in a body": {"url": "/deep", "json": {"codes": [SECRET]}},
    "a member whose name is not declared": {"url": "/deep", "json": {"vault": {"x": SECRET}}},
    "an alternative": {"url": "/deep", "json": {"one": [SECRET]}},
    "an exploded object in a query": {"url": "/deep", "params": {"pw": SECRET}},
    "a list in a query": {"url": "/deep", "params": {"list": [SECRET, SECRET]}},
    "a body without names": {"url": "/list", "json": [SECRET]},
    "JSON in a query": {"url": "/list", "params": {"x": json.dumps({"pw": SECRET})}, "json": []},
    "a member with a short name": {"url": "/things/t", "json": {"pw": SECRET, "q": "x"}},
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server that takes secrets."""
    with serving_contract(tmp_path_factory.mktemp("secrets"), DOCUMENT) as one:
        yield one


def test_a_secret_that_is_not_allowed_is_not_repeated(client: httpx.Client) -> None:
    response = client.post("/word", json="wintre")
    assert response.status_code == 400
    assert "did you mean winter?" in response.text
    assert "wintre" not in response.text


@in_turn("sent", SENT.values(), ids=SENT)
def test_a_declared_secret_is_in_no_journal(client: httpx.Client, sent: dict[str, Any]) -> None:
    assert client.post(**sent).status_code == 204
    journal = client.get("/sandbox/requests", params={"limit": 1})
    assert journal.json()["data"][0]["status"] == 204
    assert SECRET not in journal.text


USUAL = (
    *("private_key", "secretKey", "jwt", "passphrase", "X-Amz-Signature", "X-Amz-Security-Token"),
    *("db_password", "clientSecret", "webhookSecret", "id_token", "otp", "pin", "cvv"),
    *("session_id", "AccountKey"),
)


@in_turn("name", USUAL)
def test_a_usual_name_of_a_secret_needs_no_declaration(client: httpx.Client, name: str) -> None:
    client.post("/deep", json={"x": [{name: SECRET}]}, params={name: SECRET})
    journal = client.get("/sandbox/requests", params={"limit": 1})
    assert SECRET not in journal.text
    assert journal.json()["data"][0]["request"]["body"].startswith('{"x":[{')
