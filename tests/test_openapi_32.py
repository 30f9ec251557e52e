"""Documents of OpenAPI 3.2 are served: what is new in it is read, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from invoice_sandbox.openapi.diff import differences
from invoice_sandbox.project.loader import load_contract
from tests.cases import in_turn
from tests.test_any_document import written
from tests.toy import serving_contract

pytestmark = pytest.mark.slow

OWN = "https://files.example/openapi"


def responding(word: str, **members: Any) -> dict[str, Any]:
    """An operation with one response, which has no description: 3.2 requires none."""
    schema = {"$ref": f"{OWN}#/components/schemas/Word"}
    return {
        "responses": {"200": {"content": {"text/plain": {"schema": schema, "example": word}}}},
        **members,
    }


def query_string(media_type: str, schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters of an operation whose whole query is of a media type."""
    content = {media_type: {"schema": schema}}
    return [{"name": "filter", "in": "querystring", "required": True, "content": content}]


FILTER = {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}}
BODY = {"required": True, "content": {"application/json": {"$ref": "#/components/mediaTypes/Find"}}}
DOCUMENT: dict[str, Any] = {
    "openapi": "3.2.0",
    "$self": OWN,
    "info": {"title": "Files", "version": "1"},
    "servers": [{"url": "/v1", "name": "files"}],
    "tags": [
        {"name": "files", "summary": "Files", "kind": "nav"},
        {"name": "search", "parent": "files", "kind": "nav"},
    ],
    "paths": {
        "/files": {
            "get": responding("listed", parameters=query_string("application/json", FILTER)),
            "query": responding("found", requestBody=BODY, tags=["search"]),
        },
        "/files/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {}}],
            "get": responding(
                "shown", parameters=query_string("application/x-www-form-urlencoded", FILTER)
            ),
            "additionalOperations": {"COPY": responding("copied", operationId="copyFile")},
        },
    },
    "components": {
        "schemas": {"Word": {"type": "string"}},
        "mediaTypes": {"Find": {"schema": FILTER}},
    },
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of the document."""
    with serving_contract(tmp_path_factory.mktemp("files"), DOCUMENT) as client:
        yield client


REQUESTS: dict[str, tuple[str, str, Any, int, str]] = {
    "QUERY": ("QUERY", "/v1/files", {"size": 1}, 200, "found"),
    "QUERY with a wrong body": ("QUERY", "/v1/files", {"size": "a"}, 400, "size"),
    "another method": ("COPY", "/v1/files/7", None, 200, "copied"),
    "a method that is not declared": ("MOVE", "/v1/files/7", None, 405, "MOVE"),
    "a query of JSON": ("GET", "/v1/files?%7B%22size%22%3A1%7D", None, 200, "listed"),
    "a query of JSON with &": ("GET", "/v1/files?{%22size%22:1,%22a&b=%22:2}", None, 200, "listed"),
    "a query of wrong JSON": ("GET", "/v1/files?%7B%22size%22%3Anull%7D", None, 400, "filter"),
    "no query": ("GET", "/v1/files", None, 400, "filter is required"),
    "a query that is a form": ("GET", "/v1/files/7?size=1&other=x", None, 200, "shown"),
    "a query that is a wrong form": ("GET", "/v1/files/7?size=a", None, 400, "size"),
}


@in_turn(("method", "path", "body", "status", "text"), REQUESTS.values(), ids=REQUESTS)
def test_what_is_new_is_served(
    client: httpx.Client, method: str, path: str, body: Any, status: int, text: str
) -> None:
    response = client.request(method, path, json=body)
    assert response.status_code == status, response.text
    assert text in response.text


def test_allow_lists_the_new_methods(client: httpx.Client) -> None:
    assert client.options("/v1/files").headers["allow"] == "GET, HEAD, OPTIONS, QUERY"
    assert client.options("/v1/files/7").headers["allow"] == "GET, HEAD, OPTIONS, COPY"


def test_the_document_is_served_as_it_is(client: httpx.Client) -> None:
    served = client.get("/openapi.json").json()
    assert (served["openapi"], served["$self"]) == ("3.2.0", OWN)
    assert served["tags"] == DOCUMENT["tags"]
    assert "COPY" in served["paths"]["/files/{id}"]["additionalOperations"]


def test_a_page_of_the_console_has_the_new_operations(client: httpx.Client) -> None:
    page = client.get("/console/contract")
    assert page.status_code == 200
    assert "copyFile" in page.text


def test_an_operation_that_is_gone_is_a_difference() -> None:
    item = dict(DOCUMENT["paths"]["/files/{id}"])
    del item["additionalOperations"]
    next_version = DOCUMENT | {"paths": DOCUMENT["paths"] | {"/files/{id}": item}}
    found = [str(difference) for difference in differences(DOCUMENT, next_version)]
    assert len(found) == 1
    assert "copyFile" in found[0]


def test_what_a_version_does_not_have_is_an_error_in_it(tmp_path: Path) -> None:
    older = written(tmp_path, DOCUMENT | {"openapi": "3.1.0"})
    with pytest.raises(Exception, match="the member 'query' is unexpected"):
        load_contract(older)
    wrong = DOCUMENT["paths"]["/files/{id}"] | {"additionalOperations": {"COPY": {"wrong": 1}}}
    document = DOCUMENT | {"paths": {"/files/{id}": wrong}}
    with pytest.raises(Exception, match="additionalOperations/COPY/wrong: the member 'wrong'"):
        load_contract(written(tmp_path, document))
