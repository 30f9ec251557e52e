"""``Prefer`` and ``Accept``: a client chooses among the responses that the contract shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from invoice_sandbox.http.prefer import reply_of
from invoice_sandbox.http.request import Head, Reply, Request
from invoice_sandbox.openapi.responses import ContractResponse
from invoice_sandbox.project.loader import default_project, load_project
from tests.cases import in_turn
from tests.scenario_run import INVOICE
from tests.support import FROZEN, Running, serving
from tests.toy import serving_contract


@pytest.mark.parametrize("status", [204, 205, 304])
def test_a_response_without_a_body_has_none_whatever_is_declared(status: int) -> None:
    request = Request({}, None, "GET", "/", Head(()))  # type: ignore[arg-type]
    reply = reply_of(ContractResponse(status, "application/json", {"n": 1}), request)
    expected = Reply(status)
    assert (reply.body, reply.media_type) == (expected.body, expected.media_type)


NUMBER = {"type": "integer", "minimum": 0, "maximum": 10**9}
RESPONSES = {
    "200": {
        "description": "ok",
        "headers": {
            "X-Made": {"required": True, "schema": {"type": "string", "pattern": "^[a-f]{8}$"}},
            "X-Shown": {"schema": {"type": "integer"}, "example": 7},
            "X-Silent": {"schema": {"type": "string"}},
            "X-List": {"required": True, "schema": {"const": ["a", "b"]}},
            "X-Object": {"required": True, "explode": True, "schema": {"const": {"a": 1}}},
            "X-Json": {"required": True, "content": {"application/json": {"example": {"a": 1}}}},
            "Content-Length": {"required": True, "schema": {"type": "integer"}, "example": 1},
            "X-Request-Id": {"required": True, "schema": {"type": "string"}, "example": "mine"},
        },
        "content": {
            "application/json": {
                "schema": {"type": "object", "required": ["n"], "properties": {"n": NUMBER}},
                "examples": {
                    "five": {"value": {"n": 5}},
                    "six": {"$ref": "#/components/examples/Six"},
                    "wrong": {"value": {"n": "x"}},
                },
            },
            "text/plain": {"schema": {"type": "string"}, "example": "hello"},
        },
    },
    "404": {"description": "none", "content": {"application/json": {"example": {"none": True}}}},
    "409": {"description": "made", "content": {"application/json": {"schema": NUMBER}}},
    "204": {"description": "nothing"},
    "5XX": {"description": "any", "content": {"application/json": {"example": "broken"}}},
}


def operation(responses: dict[str, Any] = RESPONSES, **members: Any) -> dict[str, Any]:
    return {"get": {"operationId": "getThing", "responses": responses, **members}}


def document(paths: dict[str, Any]) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "Preferences", "version": "1"},
        "paths": paths,
        "components": {
            "examples": {"Six": {"value": {"n": 6}}},
            "securitySchemes": {"Key": {"type": "http", "scheme": "bearer"}},
        },
    }


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    limit = {"name": "limit", "in": "query", "schema": NUMBER}
    paths = {"/thing": operation(parameters=[limit])}
    with serving_contract(tmp_path_factory.mktemp("contract"), document(paths)) as client:
        yield client


def ask(client: httpx.Client, *preferences: str, **headers: str) -> httpx.Response:
    given = [("Prefer", one) for one in preferences]
    return client.get("/thing", headers=[*given, *headers.items()])


CHOSEN: dict[str, tuple[tuple[str, ...], int, Any, str]] = {
    "a status": (("code=404",), 404, {"none": True}, "code=404"),
    "a status without content": (("code=204",), 204, None, "code=204"),
    "a status of a range": (("code=503",), 503, "broken", "code=503"),
    "an example": (("example=six",), 200, {"n": 6}, "example=six"),
    "an example and its status": (
        ("code=200, example=six",),
        200,
        {"n": 6},
        "code=200, example=six",
    ),
    "a quoted value": (('example="six"',), 200, {"n": 6}, "example=six"),
    "several headers": (("code=200", "example=six"), 200, {"n": 6}, "code=200, example=six"),
    "white space and capitals": (("CODE  =  404  ;  x=y",), 404, {"none": True}, "code=404"),
    "the first of two": (("code=404, code=503",), 404, {"none": True}, "code=404"),
    "besides preferences of others": (
        ('respond-async, wait=10, x="a,code=503", code=404',),
        404,
        {"none": True},
        "code=404",
    ),
}


@in_turn("name", CHOSEN)
def test_the_preferred_response_is_given_and_reports_so(toy: httpx.Client, name: str) -> None:
    preferences, status, body, applied = CHOSEN[name]
    response = ask(toy, *preferences)
    assert (response.status_code, response.headers["preference-applied"]) == (status, applied)
    assert (response.json() if response.content else None) == body


@in_turn("preference", ["return=minimal", "dynamic=false", "", ",,=;", "code=", '"'])
def test_other_preferences_are_ignored(toy: httpx.Client, preference: str) -> None:
    response = ask(toy, preference)
    assert (response.status_code, response.json()) == (200, {"n": 5})
    assert "preference-applied" not in response.headers


def test_dynamic_makes_a_value_where_else_an_example_is_given(toy: httpx.Client) -> None:
    first, second = (ask(toy, "dynamic=true") for _ in range(2))
    assert first.json()["n"] not in {5, 6}
    assert first.json() == second.json()
    assert first.headers["preference-applied"] == "dynamic=true"


def test_each_status_is_made_for_itself_and_by_the_seed(tmp_path: Path) -> None:
    file = tmp_path / "contract.json"
    file.write_bytes(orjson.dumps(document({"/thing": operation()})))
    made = []
    for seed in (7, 7, 8):
        settings = replace(FROZEN, contract=file, seed=seed)
        with serving(settings) as running, running.client() as client:
            made.append(ask(client, "code=409").json())
    assert made[0] == made[1] != made[2]


REJECTED = {
    "an undeclared status": (
        "code=418",
        "declares no response 418. Declared: 200, 404, 409, 204, 5XX.",
    ),
    "no status": ("code=abc", "not an HTTP status. Declared: 200"),
    "a status beyond all": ("code=999", "not an HTTP status"),
    "an unknown example": ("example=seven", "no example 'seven'. Declared: five, six, wrong."),
    "an example where there is none": ("code=409, example=five", "'five'. None is declared."),
    "an example that is not valid": ("example=wrong", "does not satisfy its own schema"),
}


@in_turn("name", REJECTED)
def test_what_the_contract_does_not_have_is_rejected_and_it_reports_what_it_has(
    toy: httpx.Client, name: str
) -> None:
    preference, message = REJECTED[name]
    response = ask(toy, preference)
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]
    assert "preference-applied" not in response.headers


def test_an_invalid_request_is_rejected_first(toy: httpx.Client) -> None:
    response = toy.get("/thing?limit=x", headers={"Prefer": "code=404"})
    assert response.status_code == 400
    assert "limit must be" in response.text


def test_a_credential_is_asked_for_first(tmp_path: Path) -> None:
    closed = document({"/thing": operation(security=[{"Key": []}])})
    with serving_contract(tmp_path, closed) as client:
        assert ask(client, "code=404", Authorization="").status_code == 401
        assert ask(client, "code=404").status_code == 404


def test_declared_headers_are_sent(toy: httpx.Client) -> None:
    headers = ask(toy).headers
    assert len(headers["x-made"]) == 8
    assert (headers["x-shown"], headers["x-list"], headers["x-object"]) == ("7", "a,b", "a=1")
    assert headers["x-json"] == '{"a":1}'
    assert "x-silent" not in headers
    assert headers["content-length"] == str(len(b'{"n":5}'))
    assert headers.get_list("x-request-id") != ["mine"]
    assert len(headers.get_list("x-request-id")) == 1


ACCEPTED = {
    "anything": ("*/*", 200, "application/json"),
    "text": ("text/plain", 200, "text/plain"),
    "any text": ("text/*", 200, "text/plain"),
    "text rather": ("application/json;q=0.5, text/plain", 200, "text/plain"),
    "all but JSON": ("application/json;q=0, */*", 200, "text/plain"),
    "a browser": ("text/html,application/xhtml+xml,*/*;q=0.8", 200, "application/json"),
    "nothing that is declared": ("image/png", 406, "application/json"),
    "nonsense": (";;;", 406, "application/json"),
    "an empty list": ("", 200, "application/json"),
}


@in_turn("name", ACCEPTED)
def test_the_media_type_is_one_that_the_client_accepts(toy: httpx.Client, name: str) -> None:
    accept, status, media_type = ACCEPTED[name]
    response = ask(toy, Accept=accept)
    assert (response.status_code, response.headers["content-type"]) == (status, media_type)


MEDIA = {
    "any media type is JSON": ("*/*", "application/json", b"7"),
    "any of a kind is JSON": ("application/*", "application/json", b"7"),
    "JSON with a charset": ("application/json; charset=utf-8", None, b"7"),
    "any text": ("text/*", "text/plain", b"7"),
    "a text": ("text/plain", "text/plain", b"7"),
    "a text of another type": ("application/pdf", None, b"7"),
}


@pytest.mark.parametrize("name", MEDIA)
def test_what_gets_a_response_is_of_the_declared_type_or_within_its_range(
    tmp_path: Path, name: str
) -> None:
    declared, media_type, body = MEDIA[name]
    responses = {"200": {"description": "ok", "content": {declared: {"schema": {"const": 7}}}}}
    with serving_contract(tmp_path, document({"/thing": operation(responses)})) as client:
        response = ask(client)
    assert response.content == body
    assert response.headers["content-type"] == (media_type or declared)


def several(*declared: str) -> dict[str, Any]:
    """A document whose operation has a response of these media types: its name."""
    content = {one: {"schema": {"const": one}} for one in declared}
    return document({"/thing": operation({"200": {"description": "ok", "content": content}})})


ORDERS = {
    "JSON of its own name": (("application/hal+json", "application/json"), 1),
    "with a charset": (("application/hal+json", "application/json; charset=utf-8"), 1),
    "other JSON in its order": (("application/hal+json", "application/a+json"), 0),
    "JSON": (("text/plain", "application/hal+json"), 1),
    "no range": (("*/*", "application/hal+json"), 1),
    "others in their order": (("text/plain", "text/a"), 0),
}


@pytest.mark.parametrize("accept", [{}, {"Accept": "*/*"}], ids=["none", "any"])
@pytest.mark.parametrize("name", ORDERS)
def test_a_client_without_a_preference_gets_application_json_before_other_json(
    tmp_path: Path, name: str, accept: dict[str, str]
) -> None:
    declared, expected = ORDERS[name]
    with serving_contract(tmp_path, several(*declared)) as client:
        del client.headers["Accept"]
        response = client.get("/thing", headers=accept)
        assert response.headers["content-type"].startswith(declared[expected])


def test_an_error_gets_a_response_whatever_the_client_accepts(toy: httpx.Client) -> None:
    assert ask(toy, "code=404", Accept="image/png").status_code == 404


def test_it_is_reported_in_the_journal_and_in_the_explanation(toy: httpx.Client) -> None:
    response = ask(toy, "code=404", **{"X-Sandbox-Explain": "1"})
    assert 'preferred="code=404"' in response.headers["x-sandbox-explain"]
    entry = toy.get("/sandbox/requests").json()["data"][0]
    assert (entry["status"], entry["why"]["preferred"]) == (404, "code=404")


# Operations with a handler.

OWN = load_project(default_project()).contract
INVOICES = "/api/invoices"


def test_a_handler_is_not_run(client: httpx.Client) -> None:
    before = client.get(INVOICES).headers["x-total-count"]
    headers = {"Prefer": "code=201", "Idempotency-Key": "preferred"}
    response = client.post(INVOICES, json=INVOICE, headers=headers)
    assert (response.status_code, response.headers["preference-applied"]) == (201, "code=201")
    assert client.get(INVOICES).headers["x-total-count"] == before
    carried_out = client.post(INVOICES, json=INVOICE, headers={"Idempotency-Key": "preferred"})
    assert carried_out.status_code == 201
    assert "idempotent-replayed" not in carried_out.headers


def test_every_declared_status_of_every_operation_can_be_had(server: Running) -> None:
    schemas = 0
    with server.client(server.new_workspace()) as client:
        for one in OWN.operations.values():
            path = one.path.replace("{id}", "inv_1").replace("{country}", "DE")
            needs = one.body is not None and one.body.required
            needs = needs or any(p.required and p.location != "path" for p in one.parameters)
            if needs:
                continue
            for status in filter(str.isdigit, one.responses):
                headers = {"Prefer": f"code={status}"}
                response = client.request(one.method, OWN.base_path + path, headers=headers)
                assert response.status_code == int(status), (one.id, response.text)
                declared = one.response_for(int(status))
                assert declared is not None
                checker = declared.content.get("application/json")
                assert checker is None or checker.is_valid(response.json()), one.id
                schemas += checker is not None
    assert schemas > 50


def test_the_rate_limit_counts_preferred_responses_too() -> None:
    with serving(replace(FROZEN, rate_limit=1)) as running, running.client() as client:
        headers = {"Prefer": "code=200"}
        assert client.get(INVOICES, headers=headers).status_code == 200
        assert client.get(INVOICES, headers=headers).status_code == 429


def test_the_control_endpoints_know_no_preferences(client: httpx.Client) -> None:
    response = client.get("/sandbox/clock", headers={"Prefer": "code=401"})
    assert response.status_code == 200
    assert "preference-applied" not in response.headers
