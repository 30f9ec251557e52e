"""``--stateful``: collections that a document implies keep what is posted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from invoice_sandbox.cli import main
from invoice_sandbox.project.loader import load_contract, load_project
from invoice_sandbox.settings import SettingError, read_settings
from tests.support import FROZEN, serving

pytestmark = pytest.mark.slow


def media(schema: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def shown(schema: Any, status: str = "200") -> dict[str, Any]:
    return {status: {"description": "ok", **media(schema)}, "404": {"description": "none"}}


def document(identity: Any, *, listed: Any = None, wrapper: str = "") -> dict[str, Any]:
    """Pets, below owners."""
    pet: Any = {
        "type": "object",
        "required": ["id", "name", "born"],
        "properties": {"id": identity, "name": {"type": "string"}, "born": {"type": "integer"}},
    }
    body = {"type": "object", "properties": {"name": {"type": "string"}}}
    one = {"required": [wrapper], "properties": {wrapper: pet}} if wrapper else pet
    names = [
        {"name": name, "in": "query", "schema": {"type": "integer"}} for name in ("limit", "page")
    ]
    path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in ("owner", "petId")
    ]
    every = listed or {"type": "array", "items": pet}
    item = {
        "get": {"operationId": "getPet", "responses": shown(one)},
        "put": {"operationId": "putPet", "requestBody": media(body), "responses": shown(one)},
        "patch": {"operationId": "patchPet", "requestBody": media(body), "responses": shown(one)},
        "delete": {
            "operationId": "deletePet",
            "responses": {"204": {"description": "gone"}, "404": {"description": "none"}},
        },
    }
    pets = {
        "get": {"operationId": "listPets", "parameters": names, "responses": shown(every)},
        "post": {
            "operationId": "createPet",
            "requestBody": media(body),
            "responses": shown(one, "201"),
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Toy", "version": "1.0.0"},
        "paths": {
            "/o/{owner}/pets": {**pets, "parameters": path[:1]},
            "/o/{owner}/pets/{petId}": {**item, "parameters": path},
        },
    }


def written(folder: Path, content: Any) -> Path:
    file = folder / "api.json"
    file.write_text(json.dumps(content))
    return file


@contextmanager
def served(folder: Path, content: Any) -> Iterator[httpx.Client]:
    settings = replace(FROZEN, contract=written(folder, content), stateful=True)
    with serving(settings) as running, running.client() as client:
        yield client


IDS = {
    "text": {"type": "string"},
    "uuid": {"type": "string", "format": "uuid"},
    "number": {"type": "integer"},
    "digits": {"type": "string", "pattern": "^[0-9]+$"},
}


@pytest.mark.parametrize("wrapper", ["", "pet"])
@pytest.mark.parametrize("identity", IDS.values(), ids=IDS)
def test_what_is_posted_is_kept_changed_and_deleted(
    tmp_path: Path, identity: Any, wrapper: str
) -> None:
    def pet(reply: httpx.Response) -> Any:
        return reply.json()[wrapper] if wrapper else reply.json()

    with served(tmp_path, document(identity, wrapper=wrapper)) as client:
        created = client.post("/o/1/pets", json={"name": "Rex"})
        assert (created.status_code, pet(created)["name"]) == (201, "Rex")
        other = pet(client.post("/o/1/pets", json={"name": "Max"}))
        at = f"/o/1/pets/{pet(created)['id']}"
        assert pet(client.get(at)) == pet(created)
        assert pet(client.patch(at, json={"name": "Rexy"})) == {**pet(created), "name": "Rexy"}
        assert pet(client.put(at, json={"name": "Kim"}))["name"] == "Kim"
        assert pet(client.get(at))["name"] == "Kim"
        assert client.delete(at).status_code == 204
        assert client.get(at).status_code == 404
        assert client.delete(at).status_code == 404
        assert client.get("/o/1/pets").json() == [other]


def test_a_list_is_that_of_its_owner_in_pages(tmp_path: Path) -> None:
    with served(tmp_path, document({"type": "string"})) as client:
        for number in range(5):
            client.post("/o/1/pets", json={"name": str(number)})
        assert client.get("/o/2/pets").json() == []
        found = client.get("/o/1/pets", params={"limit": 2, "page": 2}).json()
        assert [one["name"] for one in found] == ["2", "3"]


def test_a_list_may_be_in_an_object_with_its_length(tmp_path: Path) -> None:
    items = {"type": "array", "items": {"type": "object"}}
    properties = {"items": items, "total": {"type": "integer"}}
    listed = {"type": "object", "required": ["items", "total"], "properties": properties}
    with served(tmp_path, document({"type": "string"}, listed=listed)) as client:
        created = client.post("/o/1/pets", json={"name": "Rex"}).json()
        assert client.get("/o/1/pets").json() == {"items": [created], "total": 1}


def test_a_record_that_the_contract_does_not_allow_is_not_kept(tmp_path: Path) -> None:
    content = document({"type": "string"})
    post = content["paths"]["/o/{owner}/pets"]["post"]
    post["requestBody"] = media({"type": "object"})
    with served(tmp_path, content) as client:
        assert client.post("/o/1/pets", json={"name": 5}).status_code == 201
        assert client.get("/o/1/pets").json() == []


def test_an_operation_that_declares_no_404_is_left_out(tmp_path: Path) -> None:
    content = document({"type": "string"})
    del content["paths"]["/o/{owner}/pets/{petId}"]["get"]["responses"]["404"]
    (found,) = load_contract(written(tmp_path, content), stateful=True).collections
    assert "getPet" not in str(found)
    assert str(found).startswith("/o/{owner}/pets: records by 'id': createPet (create)")


def test_init_writes_the_collections_as_handlers(tmp_path: Path) -> None:
    file = written(tmp_path, document({"type": "string"}))
    run = CliRunner().invoke(
        main, ["init", str(tmp_path / "pets"), "--contract", str(file), "--stateful"]
    )
    assert "Stateful /o/{owner}/pets" in run.output
    assert "createPet" in load_project(tmp_path / "pets").handlers
    assert "Begin with `handlers/collections.py`" in (tmp_path / "pets" / "README.md").read_text()
    with serving(replace(FROZEN, project=tmp_path / "pets")) as running, running.client() as client:
        created = client.post("/o/1/pets", json={"name": "Rex"}).json()
        assert client.get(f"/o/1/pets/{created['id']}").json() == created


def test_stateful_is_for_a_contract() -> None:
    with pytest.raises(SettingError, match="--stateful needs --contract"):
        read_settings({"stateful": "on"})


def test_null_is_a_value_for_put(tmp_path: Path) -> None:
    content = document({"type": "string"})
    item = content["paths"]["/o/{owner}/pets/{petId}"]
    for method in ("put", "get"):
        item[method]["responses"] = shown({"properties": {"id": {"type": "string"}}})
    item["put"]["requestBody"] = media({})
    with served(tmp_path, content) as client:
        at = f"/o/1/pets/{client.post('/o/1/pets', json={'name': 'Rex'}).json()['id']}"
        assert client.put(at, json={"chip": None}).json()["chip"] is None
        assert client.get(at).json()["chip"] is None


def test_a_record_may_be_created_by_its_own_name_without_a_body_in_return(tmp_path: Path) -> None:
    content = document({"type": "string"})
    post = content["paths"]["/o/{owner}/pets"]["post"]
    post["responses"] = {"201": {"description": "made"}}
    post["requestBody"] = media({})
    with served(tmp_path, content) as client:
        assert client.post("/o/1/pets", json={"id": "rex", "name": "Rex"}).content == b""
        assert client.get("/o/1/pets/rex").json()["name"] == "Rex"


def test_a_post_that_only_declares_errors_makes_no_collection(tmp_path: Path) -> None:
    content = document({"type": "string"})
    content["paths"]["/o/{owner}/pets"]["post"]["responses"] = {"405": {"description": "never"}}
    assert load_contract(written(tmp_path, content), stateful=True).collections == ()
