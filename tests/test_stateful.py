"""``--stateful``, and ``collections:`` of ``conventions.yaml``, keep what is posted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from click.testing import CliRunner

from invoice_sandbox.cli import main
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.inference import NOTHING
from invoice_sandbox.project.loader import load_contract, load_project
from invoice_sandbox.settings import SettingError, read_settings
from tests.support import FROZEN, serving

PAGE: Final = (Path(__file__).parents[1] / "docs" / "stateful.md").read_text()
NOW: Final = "2026-11-23T09:30:00Z"


def content(schema: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def response(schema: Any, status: str = "200") -> dict[str, Any]:
    return {status: {"description": "ok", **content(schema)}}


def parameter(name: str, place: str = "query", schema: Any = None) -> dict[str, Any]:
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, "schema": schema or {"type": "string"}, **required}


PET: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "string"},
        "name": {"type": "string"},
        "kind": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
GONE: Final[dict[str, Any]] = {"responses": {"204": {"description": "gone"}}}


def document(
    pet: Any = PET,
    *,
    shown: Any = None,
    listed: Any = None,
    sent: Any = True,
    base: str = "/pets",
    item: str = "/pets/{petId}",
    query: tuple[Any, ...] = (),
    errors: tuple[str, ...] = (),
    others: Mapping[str, Any] | None = None,
    on_item: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A document with pets: ``pet`` is a record, ``shown`` and ``listed`` the responses with it."""
    shown = shown or pet
    declared = {one: {"description": "an error"} for one in errors}
    names = re.findall(r"{(\w+)}", item)
    body = {"requestBody": content(sent)}
    above = [parameter(name, "path") for name in names[: base.count("{")]]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pets", "version": "1"},
        "paths": {
            base: {
                "parameters": above,
                "post": {**body, "responses": response(shown, "201") | declared},
                "get": {
                    "parameters": [*query],
                    "responses": response(listed or {"type": "array", "items": pet}),
                },
            },
            item: {
                "parameters": [parameter(name, "path") for name in names],
                "get": {"responses": response(shown) | declared},
                "put": {**body, "responses": response(shown)},
                "patch": {**body, "responses": response(shown)},
                "delete": GONE,
            }
            | dict(on_item or {}),
            **(others or {}),
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


def collections(folder: Path, content: Any) -> list[str]:
    project = load_contract(written(folder, content), stateful=True)
    return [str(one) for one in project.conventions.collections]


def with_members(**properties: Any) -> dict[str, Any]:
    """A pet with further members, which are all required."""
    return {
        **PET,
        "required": [*dict.fromkeys(("id", *properties))],
        "properties": {**PET["properties"], **properties},
    }


def test_what_is_posted_is_read_listed_changed_and_deleted(tmp_path: Path) -> None:
    with served(tmp_path, document()) as client:
        made = client.post("/pets", json={"name": "Rex", "kind": "dog"})
        assert made.status_code == 201
        pet = made.json()
        assert pet == {"id": pet["id"], "name": "Rex", "kind": "dog"}
        at = f"/pets/{pet['id']}"
        assert client.get(at).json() == pet
        assert client.get("/pets").json() == [pet]
        assert client.patch(at, json={"kind": "cat"}).json() == {**pet, "kind": "cat"}
        assert client.put(at, json={"name": "Tom"}).json() == {"id": pet["id"], "name": "Tom"}
        assert client.delete(at).status_code == 204
        assert client.get(at).status_code == client.delete(at).status_code == 404
        assert client.get("/pets").json() == []


def test_null_removes_a_member_unless_the_response_can_have_it(tmp_path: Path) -> None:
    pet = with_members(name={"type": "string"}, owner={"type": ["string", "null"]})
    with served(tmp_path, document(pet)) as client:
        made = client.post("/pets", json={"name": "Rex", "kind": "dog", "owner": "Ada"}).json()
        changed = client.patch(f"/pets/{made['id']}", json={"kind": None, "owner": None})
        assert changed.json() == {"id": made["id"], "name": "Rex", "owner": None}


def test_records_belong_to_what_their_path_begins_with(tmp_path: Path) -> None:
    content = document(base="/owners/{owner}/pets", item="/owners/{owner}/pets/{petId}")
    with served(tmp_path, content) as client:
        pet = client.post("/owners/a b/pets", json={"name": "Rex"}).json()
        assert client.get("/owners/a b/pets").json() == [pet]
        assert client.get("/owners/c/pets").json() == []
        assert client.get(f"/owners/c/pets/{pet['id']}").status_code == 404


IDS = {
    "a number": ({"type": "integer"}, {"type": "integer"}, {}, 1),
    "a number as text": ({"type": "string", "pattern": "^[0-9]+$"}, None, {}, "1"),
    "a number in the path": ({"type": ["integer", "string"]}, {"type": "integer"}, {}, 1),
    "the posted one": ({"type": "string"}, None, {"id": "rex"}, "rex"),
    "not a posted one that is no text or number": (
        {"type": ["boolean", "integer"]},
        None,
        {"id": True},
        1,
    ),
    "not a posted one that the path cannot have": (
        {"type": "string"},
        {"type": "string", "maxLength": 3},
        {"id": "too long"},
        "1",
    ),
}


@pytest.mark.parametrize(("schema", "in_path", "sent", "key"), IDS.values(), ids=IDS)
def test_the_id_is_the_first_that_responses_and_paths_allow(
    tmp_path: Path, schema: Any, in_path: Any, sent: Any, key: Any
) -> None:
    content = document(with_members(id=schema))
    content["paths"]["/pets/{petId}"]["parameters"] = [parameter("petId", "path", in_path)]
    with served(tmp_path, content) as client:
        assert client.post("/pets", json={"name": "Rex", **sent}).json()["id"] == key
        assert client.get(f"/pets/{key}").json()["name"] == "Rex"


def test_an_id_is_generated_for_its_schema(tmp_path: Path) -> None:
    pattern = "^pet_[a-z]{12}$"
    with served(
        tmp_path, document(with_members(id={"type": "string", "pattern": pattern}))
    ) as pets:
        keys = {pets.post("/pets", json={"name": name}).json()["id"] for name in "abc"}
        assert len(keys) == 3
        assert all(re.match(pattern, key) for key in keys)


NAMES = {
    "called like the parameter": ("petId", "petId"),
    "in other letters": ("petId", "pet_id"),
    "called like its last word": ("pet_number", "number"),
    "id": ("pet", "id"),
}


@pytest.mark.parametrize(("in_path", "member"), NAMES.values(), ids=NAMES)
def test_the_id_is_the_member_that_the_parameter_names(
    tmp_path: Path, in_path: str, member: str
) -> None:
    pet = {"type": "object", "required": [member], "properties": {member: {"type": "integer"}}}
    with served(tmp_path, document(pet, item=f"/pets/{{{in_path}}}")) as client:
        assert client.post("/pets", json={}).json() == client.get("/pets/1").json() == {member: 1}


def test_a_number_that_was_posted_is_not_made_again(tmp_path: Path) -> None:
    with served(tmp_path, document(with_members(id={"type": "integer"}))) as client:
        keys = [client.post("/pets", json=sent).json()["id"] for sent in ({"id": 2}, {}, {})]
        assert keys == [2, 3, 4]


CONFLICTS = {"declared": (("409",), 409), "not declared": ((), 201)}


@pytest.mark.parametrize(("declared", "status"), CONFLICTS.values(), ids=CONFLICTS)
def test_a_second_record_with_an_id_is_a_conflict_if_that_is_declared(
    tmp_path: Path, declared: tuple[str, ...], status: int
) -> None:
    with served(tmp_path, document(errors=declared)) as client:
        assert client.post("/pets", json={"id": "a", "name": "Rex"}).status_code == 201
        assert client.post("/pets", json={"id": "a", "name": "Tom"}).status_code == status
        assert client.get("/pets/a").json()["name"] == ("Tom" if status == 201 else "Rex")


@pytest.mark.parametrize("is_sent_in_it", [True, False])
def test_the_record_may_be_in_the_one_member_that_has_the_id(
    tmp_path: Path, is_sent_in_it: bool
) -> None:
    shown = {"properties": {"ok": {"const": True}, "pet": PET}, "required": ["ok", "pet"]}
    listed = {"properties": {"pets": {"type": "array", "items": PET}}, "required": ["pets"]}
    with served(tmp_path, document(shown=shown, listed=listed)) as client:
        sent = {"name": "Rex"}
        body = client.post("/pets", json={"pet": sent} if is_sent_in_it else sent).json()
        assert body == {"ok": True, "pet": {"id": body["pet"]["id"], "name": "Rex"}}
        assert client.get("/pets").json() == {"pets": [body["pet"]]}


REQUIRED = {
    "the default": ({"enum": ["a", "b"], "default": "b"}, "b"),
    "the first of an enum": ({"enum": ["a", "b"]}, "a"),
    "the time of the clock": ({"type": "string", "format": "date-time"}, NOW),
    "the value of the example": ({"type": "integer", "examples": [7]}, 7),
}


@pytest.mark.parametrize(("schema", "value"), REQUIRED.values(), ids=REQUIRED)
def test_a_required_member_that_nobody_sent(tmp_path: Path, schema: Any, value: Any) -> None:
    with served(tmp_path, document(with_members(state=schema))) as client:
        pet = client.post("/pets", json={"name": "Rex"}).json()
        assert pet["state"] == value
        assert client.get("/pets").json() == [pet]


def test_parts_of_a_record_have_what_is_required_in_them(tmp_path: Path) -> None:
    line = {
        "required": ["id", "unit"],
        "properties": {"id": {"type": "integer"}, "unit": {"enum": ["kg"]}, "count": True},
    }
    pet = with_members(food={"type": "array", "items": line, "minItems": 1})
    with served(tmp_path, document(pet)) as client:
        pet = client.post("/pets", json={"food": [{"count": 2}]}).json()
        assert pet["food"] == [{"id": pet["food"][0]["id"], "unit": "kg", "count": 2}]


def test_get_may_show_the_record_or_something_else(tmp_path: Path) -> None:
    gone = {"required": ["id", "deleted"], "properties": {"deleted": {"const": True}}}
    content = document(with_members(state={"enum": ["a", "b"]}))
    item = content["paths"]["/pets/{petId}"]
    item["get"]["responses"] = response({"anyOf": [gone, with_members(state=True)]})
    with served(tmp_path, content) as client:
        pet = client.post("/pets", json={"name": "Rex"}).json()
        assert pet == {"id": pet["id"], "name": "Rex", "state": "a"}
        assert client.get(f"/pets/{pet['id']}").json() == pet


def test_a_response_shows_what_it_declares_and_nothing_write_only(tmp_path: Path) -> None:
    secret = {"type": "string", "writeOnly": True}
    content = document(with_members(pin=secret), sent={"properties": {"password": secret}})
    with served(tmp_path, content) as client:
        sent = {"name": "Rex", "pin": "1", "password": "2", "undeclared": "3"}
        pet = client.post("/pets", json=sent).json()
        assert pet == {"id": pet["id"], "name": "Rex"} == client.get(f"/pets/{pet['id']}").json()


def test_a_member_that_the_response_cannot_have_is_left_out(tmp_path: Path) -> None:
    with served(tmp_path, document()) as client:
        pet = client.post("/pets", json={"name": "Rex", "kind": 5, "tags": ["a"]}).json()
        assert pet == {"id": pet["id"], "name": "Rex", "tags": ["a"]}


def test_what_one_of_several_alternatives_requires_is_as_in_the_example(tmp_path: Path) -> None:
    pet = {**PET, "anyOf": [{"required": ["kind"]}, {"required": ["tags"]}]}
    with served(tmp_path, document(pet)) as client:
        made = client.post("/pets", json={"name": "Rex"})
        assert made.json()["name"] == "Rex"
        assert made.json().keys() & {"kind", "tags"}


def test_a_list_has_the_records_with_the_value_of_a_member(tmp_path: Path) -> None:
    several = parameter("name", schema={"type": "array", "items": {"type": "string"}})
    with served(tmp_path, document(query=(parameter("kind"), several))) as client:
        for name, kind in (("Rex", "dog"), ("Tom", "cat"), ("Ida", "dog")):
            client.post("/pets", json={"name": name, "kind": kind})

        def names(query: str) -> list[str]:
            return [one["name"] for one in client.get(f"/pets?{query}").json()]

        assert names("kind=dog") == ["Rex", "Ida"]
        assert names("kind=dog&name=Rex") == ["Rex"]
        assert names("name=Rex&name=Tom") == ["Rex", "Tom"]
        assert names("kind=bird") == []


LISTED: Final = {
    "required": ["pets", "total", "hasMore", "nextCursor"],
    "properties": {
        "pets": {"type": "array", "items": PET},
        "total": {"type": "integer", "default": 9},
        "hasMore": {"type": "boolean"},
        "nextCursor": {"type": ["string", "null"], "examples": ["abc"]},
    },
}


@pytest.mark.parametrize("start", ["offset", "cursor"])
def test_a_list_has_pages_that_end(tmp_path: Path, start: str) -> None:
    query = (parameter("limit"), parameter(start))
    with served(tmp_path, document(listed=LISTED, query=query)) as client:
        for name in "abc":
            client.post("/pets", json={"name": name})
        first = client.get("/pets?limit=2").json()
        assert [pet["name"] for pet in first.pop("pets")] == ["a", "b"]
        assert first == {"total": 3, "hasMore": True, "nextCursor": "2"}
        last = client.get(f"/pets?limit=2&{start}=2").json()
        assert [pet["name"] for pet in last.pop("pets")] == ["c"]
        assert last == {"total": 3, "hasMore": False, "nextCursor": None}
        assert len(client.get("/pets?limit=none").json()["pets"]) == 3


def test_a_verb_shows_the_record(tmp_path: Path) -> None:
    path = [parameter("petId", "path")]
    others = {
        "/pets/{petId}/feed": {"parameters": path, "post": {"responses": response(PET)}},
        "/pets/{petId}/photo": {
            "parameters": path,
            "get": {"responses": response({"required": ["id"], "properties": {"id": True}})},
        },
    }
    content = document(others=others)
    assert collections(tmp_path, content) == [
        "/pets by 'id': create, list, get, replace, change, delete, show"
    ]
    with served(tmp_path, content) as client:
        pet = client.post("/pets", json={"name": "Rex"}).json()
        assert client.post(f"/pets/{pet['id']}/feed").json() == pet
        assert client.post("/pets/unknown/feed").status_code == 404
        assert client.get("/pets/unknown/photo").status_code == 200


def test_put_without_201_makes_nothing(tmp_path: Path) -> None:
    with served(tmp_path, document()) as client:
        assert client.put("/pets/a", json={"name": "Rex"}).status_code == 404


def test_paths_may_end_with_a_slash(tmp_path: Path) -> None:
    with served(tmp_path, document(base="/pets/", item="/pets/{petId}/")) as client:
        pet = client.post("/pets/", json={"name": "Rex"}).json()
        assert client.get(f"/pets/{pet['id']}/").json() == pet
        assert client.get("/pets/").json() == [pet]


def test_an_envelope_called_like_the_parameter_is_not_the_id(tmp_path: Path) -> None:
    shown = {"required": ["pet"], "properties": {"pet": PET}}
    with served(tmp_path, document(shown=shown, item="/pets/{pet}")) as client:
        made = client.post("/pets", json={"name": "Rex"}).json()
        assert client.get(f"/pets/{made['pet']['id']}").json() == made


@pytest.mark.parametrize("key", ["204", "default"])
def test_a_post_may_declare_no_content_or_the_default_only(tmp_path: Path, key: str) -> None:
    pet = with_members(id={"type": "integer"})
    made = document(pet)
    made["paths"]["/pets"]["post"]["responses"] = response(pet, key)
    with served(tmp_path, made) as client:
        reply = client.post("/pets", json={"name": "Rex"})
        assert reply.status_code == (204 if key == "204" else 200)
        assert client.get("/pets/1").json()["name"] == "Rex"


def test_post_makes_an_item_below_an_item(tmp_path: Path) -> None:
    path = [parameter(name, "path") for name in ("petId", "part")]
    others = {"/pets/{petId}/{part}": {"parameters": path, "get": {"responses": response(PET)}}}
    content = document(others=others, on_item={"post": {"responses": response(PET)}})
    for method in ("put", "patch"):
        del content["paths"]["/pets/{petId}"][method]
    assert collections(tmp_path, content) == [
        "/pets by 'id': create, list, get, delete",
        "/pets/{petId} by 'id': create, get",
    ]


def test_a_declared_location_leads_to_the_record(tmp_path: Path) -> None:
    content = document()
    made = content["paths"]["/pets"]["post"]["responses"]["201"]
    made["headers"] = {"Location": {"schema": {"type": "string"}}}
    with served(tmp_path, content) as client:
        reply = client.post("/pets", json={"name": "Rex"})
        assert client.get(reply.headers["location"]).json() == reply.json()


def test_a_list_that_is_posted_is_not_kept(tmp_path: Path) -> None:
    with served(tmp_path, document()) as client:
        assert client.post("/pets", json=[{"name": "Rex"}]).status_code == 201
        assert client.get("/pets").json() == []


def test_what_no_response_can_have_is_not_kept_and_that_is_reported(tmp_path: Path) -> None:
    fixed = {"enum": [{"id": "x", "name": "Fixed"}], **PET}
    content = document(fixed, listed={"type": "array", "items": PET})
    with served(tmp_path, content) as client:
        assert client.post("/pets", json={"name": "Rex"}).json() == {"id": "x", "name": "Fixed"}
        assert client.get("/pets").json() == []
        entry, *_ = client.get("/sandbox/requests?operation=post_pets").json()["data"]
        assert entry["why"]["hints"] == [
            "nothing was kept: the body is a list, or the responses cannot have it"
        ]


NO_COLLECTION = {
    "no item": {"/pets": {"post": {"responses": response(PET, "201")}}},
    "an item without an id": document({"properties": {"name": {"type": "string"}}})["paths"],
    "two members with an id": document(shown={"properties": {"a": PET, "b": PET}})["paths"],
    "no GET of an item": {
        **document()["paths"],
        "/pets/{petId}": {"parameters": [parameter("petId", "path")], "delete": GONE},
    },
    "no JSON": {
        **document()["paths"],
        "/pets": {"post": {"responses": {"200": {"description": "", "content": {"text/csv": {}}}}}},
    },
}


@pytest.mark.parametrize("paths", NO_COLLECTION.values(), ids=NO_COLLECTION)
def test_what_is_no_collection(tmp_path: Path, paths: Any) -> None:
    assert collections(tmp_path, {**document(), "paths": paths}) == []


def test_an_operation_with_another_response_is_left_to_the_document(tmp_path: Path) -> None:
    content = document(
        listed={"type": "object"},
        on_item={
            "delete": {
                "responses": {
                    "200": {
                        "description": "",
                        "content": {"text/plain": {"schema": {"type": "string"}}},
                    }
                }
            }
        },
    )
    assert collections(tmp_path, content) == ["/pets by 'id': create, get, replace, change"]


def test_stateful_is_for_a_contract() -> None:
    with pytest.raises(SettingError, match="--stateful needs --contract"):
        read_settings({"stateful": "on"})


DRAFT: Final = {
    "type": "object",
    "required": ["number"],
    "properties": {"number": {"type": "integer"}, "title": {"type": "string"}},
}
IN_ENVELOPE: Final = {
    "required": ["draft", "author"],
    "properties": {"draft": DRAFT, "author": {**DRAFT, "const": {"number": 7}}},
}
DRAFTS: Final[dict[str, Any]] = {
    "openapi": "3.1.0",
    "info": {"title": "Drafts", "version": "1"},
    "paths": {
        "/drafts/save": {
            "post": {
                "operationId": "saveDraft",
                "requestBody": content(True),
                "responses": response(IN_ENVELOPE),
            }
        },
        "/drafts/search": {
            "get": {
                "operationId": "findDrafts",
                "responses": response({"type": "array", "items": DRAFT}),
            }
        },
        "/drafts/{key}": {
            "parameters": [parameter("key", "path")],
            "get": {"operationId": "readDraft", "responses": response(IN_ENVELOPE)},
        },
        "/drafts/{key}/drop": {
            "parameters": [parameter("key", "path")],
            "post": {"operationId": "dropDraft", **GONE},
        },
    },
}
"""A document whose collection is the one that the page names."""


def project(folder: Path, conventions: str, content: Any = DRAFTS) -> Path:
    (folder / "openapi").mkdir()
    (folder / "openapi" / "openapi.yaml").write_text(json.dumps(content))
    (folder / "conventions.yaml").write_text(conventions)
    return folder


def of_the_page() -> str:
    found = re.search(r"<!-- conventions -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_conventions_name_the_collections_that_the_rule_does_not_find(tmp_path: Path) -> None:
    assert collections(tmp_path, DRAFTS) == []
    settings = replace(FROZEN, project=project(tmp_path, of_the_page()))
    with serving(settings) as running, running.client() as client:
        made = client.post("/drafts/save", json={"draft": {"title": "A"}}).json()
        assert made == {"draft": {"number": 1, "title": "A"}, "author": {"number": 7}}
        assert client.get("/drafts/1").json() == made
        assert client.get("/drafts/search").json() == [made["draft"]]
        assert client.post("/drafts/1/drop").status_code == 204
        assert client.get("/drafts/1").status_code == 404


WRONG = {
    "an unknown key": ("    find: findDrafts\n", r"4:5: unknown key 'find'"),
    "an unknown operation": ("    list: findDraft\n", r"4:\d+: there is no operation 'findDraft'"),
    "no operation that makes records": ("  - get: readDraft\n", r"4:\d+: .*'create'"),
    "no operation that shows a record": ("  - create: saveDraft\n", r"4:\d+: .*'get'"),
    "an item without an id in its path": (
        "  - {create: saveDraft, get: findDrafts}\n",
        r"4:\d+: /drafts/save and /drafts/search are not of one collection",
    ),
    "paths that do not belong together": (
        "  - {create: saveDraft, get: readNote}\n",
        r"4:\d+: /drafts/save and /notes/\{note\}/\{key\} are not of one collection",
    ),
}


@pytest.mark.parametrize(("lines", "problem"), WRONG.values(), ids=WRONG)
def test_a_wrong_collection_is_reported_with_its_place(
    tmp_path: Path, lines: str, problem: str
) -> None:
    note: dict[str, Any] = {"get": {"operationId": "readNote", **GONE}}
    note["parameters"] = [parameter(one, "path") for one in ("note", "key")]
    paths = {**DRAFTS["paths"], "/notes/{note}/{key}": note}
    conventions = f"collections:\n  - create: saveDraft\n    get: readDraft\n{lines}"
    folder = project(tmp_path, conventions, {**DRAFTS, "paths": paths})
    with pytest.raises(ProjectError, match=rf"conventions\.yaml:{problem}"):
        load_project(folder)


def test_init_names_the_collections(tmp_path: Path) -> None:
    file, folder = written(tmp_path, document()), tmp_path / "pets"
    command = ["init", str(folder), "--contract", str(file), "--stateful"]
    made = CliRunner().invoke(main, command)
    line = "/pets by 'id': create, list, get, replace, change, delete"
    assert f"Stateful {line}\n" in made.output
    assert [str(one) for one in load_project(folder).conventions.collections] == [line]


def test_init_reports_that_a_document_has_no_collection(tmp_path: Path) -> None:
    file = written(tmp_path, {**DRAFTS})
    command = ["init", str(tmp_path / "drafts"), "--contract", str(file), "--stateful"]
    assert f"{NOTHING}\n" in CliRunner().invoke(main, command).output


def test_a_handler_replaces_an_operation_and_may_use_the_collection(tmp_path: Path) -> None:
    folder = project(tmp_path, of_the_page())
    (folder / "handlers").mkdir()
    (folder / "handlers" / "__init__.py").touch()
    (folder / "handlers" / "drafts.py").write_text(
        "def save_draft(call):\n"
        "    call.body['draft']['title'] += '!'\n"
        "    return call.collection.create(call)\n"
    )
    with serving(replace(FROZEN, project=folder)) as running, running.client() as client:
        client.post("/drafts/save", json={"draft": {"title": "A"}})
        assert client.get("/drafts/1").json()["draft"]["title"] == "A!"
