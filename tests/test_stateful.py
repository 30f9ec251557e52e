"""``--stateful``: collections that a document implies keep what is posted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from invoice_sandbox.cli import main
from invoice_sandbox.project.fitting import at_steps, placed
from invoice_sandbox.project.loader import load_contract, load_project
from invoice_sandbox.settings import SettingError, read_settings
from invoice_sandbox.state.memory import MemoryTransaction
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


def test_instants_of_a_list_stand_in_the_order_of_the_document(tmp_path: Path) -> None:
    instant = {"type": "string", "format": "date-time", "readOnly": True}
    names = ["updatedAt", "createdAt", "modified", "created", "updated", "creation", "modifiedAt"]
    pet = {"type": "object", "properties": {"id": WHOLE, **dict.fromkeys(names, instant)}}
    content = document(WHOLE, listed={"type": "array", "items": pet})
    content["paths"]["/o/{owner}/pets"]["post"]["responses"] = shown(pet, "201")
    content["paths"]["/o/{owner}/pets/{petId}"]["get"]["responses"] = shown(pet)
    with served(tmp_path, content) as client:
        client.post("/o/1/pets", json={"name": "Rex"})
        (found,) = client.get("/o/1/pets").json()
        assert [one for one in found if one in names] == names


def test_a_list_may_be_in_an_object_with_its_length(tmp_path: Path) -> None:
    items = {"type": "array", "items": {"type": "object"}}
    properties = {"items": items, "total": {"type": "integer"}}
    listed = {"type": "object", "required": ["items", "total"], "properties": properties}
    with served(tmp_path, document({"type": "string"}, listed=listed)) as client:
        created = client.post("/o/1/pets", json={"name": "Rex"}).json()
        assert client.get("/o/1/pets").json() == {"items": [created], "total": 1}


def test_what_a_response_cannot_have_is_as_in_the_document(tmp_path: Path) -> None:
    content = document({"type": "string"})
    post = content["paths"]["/o/{owner}/pets"]["post"]
    post["requestBody"] = media({"type": "object"})
    with served(tmp_path, content) as client:
        created = client.post("/o/1/pets", json={"name": 5, "born": 1999})
        assert (created.status_code, created.json()["born"]) == (201, 1999)
        assert isinstance(created.json()["name"], str)
        assert client.get(f"/o/1/pets/{created.json()['id']}").json() == created.json()
        assert client.get("/o/1/pets").json() == [created.json()]


@pytest.mark.parametrize(("declared", "status"), [("410", 410), ("400", 400), (None, 404)])
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE"])
def test_an_item_that_is_gone_is_an_error_whatever_is_declared(
    tmp_path: Path, method: str, declared: str | None, status: int
) -> None:
    content = document({"type": "string"})
    for one in ("get", "put", "patch", "delete"):
        responses = content["paths"]["/o/{owner}/pets/{petId}"][one]["responses"]
        del responses["404"]
        responses |= {declared: {"description": "none"}} if declared else {}
    body = None if method in {"GET", "DELETE"} else {"name": "Max"}
    with served(tmp_path, content) as client:
        created = client.post("/o/1/pets", json={"name": "Rex"}).json()
        at = f"/o/1/pets/{created['id']}"
        assert client.get(at).json() == created
        client.delete(at)
        for key in (created["id"], "none"):
            gone = client.request(method, f"/o/1/pets/{key}", json=body)
            assert gone.status_code == status
            problem = f"There is no record with this petId. Check '{key}'"
            assert problem in gone.headers.get("x-sandbox-error", gone.text)


@pytest.mark.parametrize("sent", [{}, {"id": "7"}])
def test_an_id_that_is_text_may_be_a_number_in_the_path(tmp_path: Path, sent: Any) -> None:
    content = document({"type": "string"})
    item = content["paths"]["/o/{owner}/pets/{petId}"]
    item["parameters"][1]["schema"] = {"type": "integer"}
    content["paths"]["/o/{owner}/pets"]["post"]["requestBody"] = media({})
    with served(tmp_path, content) as client:
        pets = [client.post("/o/1/pets", json=one).json() for one in (sent, {"id": "08"}, {})]
        assert pets[0]["id"] == sent.get("id", "1")
        for pet in pets:
            assert client.get(f"/o/1/pets/{int(pet['id'])}").json() == pet
        assert client.delete(f"/o/1/pets/{pets[0]['id']}").status_code == 204
        assert client.get("/o/1/pets").json() == pets[1:]


def test_an_id_of_the_type_that_the_path_has_goes_before_a_number_as_text(tmp_path: Path) -> None:
    """As GitHub's GPG keys, whose ``key_id`` is text."""
    key = closed("id", "key_id", id=WHOLE, key_id=TEXT)
    content = with_paths(collection("/gpg-keys", "gpg_key_id", key, closed(name=TEXT)))
    content["paths"]["/gpg-keys/{gpg_key_id}"]["parameters"][0]["schema"] = WHOLE
    (found,) = load_contract(written(tmp_path, content), stateful=True).inferred.collections
    assert found.identity == "id"


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "required": [*required], "properties": properties}
    return {**schema, "additionalProperties": False}


TEXT = {"type": "string"}
NULLABLE = {"type": ["string", "null"]}
WHOLE = {"type": "integer"}
FLAG = {"type": "boolean"}


def operation(name: str, response: Any, status: str, body: Any = None) -> dict[str, Any]:
    taken = {"requestBody": media(body)} if body else {}
    return {"operationId": name, "responses": shown(response, status), **taken}


def collection(
    path: str, item: str, response: Any, body: Any, *, create: str = "create"
) -> dict[str, Any]:
    """Two paths with one collection: it can be created and read."""
    given = {"name": item, "in": "path", "required": True, "schema": TEXT}
    get = {"parameters": [given], "get": operation(f"{create}d", response, "200")}
    made = operation(create, response, "201", body)
    return {path: {"post": made}, f"{path}/{{{item}}}": get}


def with_paths(paths: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "Toy", "version": "1.0.0"}, "paths": paths}


THING = closed("id", "title", id=WHOLE, title=TEXT)
NOTES: dict[str, tuple[Any, Any, Any]] = {
    "a number": (WHOLE, 1, 2),
    "a text": (TEXT, "1", "2"),
    "true or false": (FLAG, False, False),
    "a message": (closed("message", message=TEXT), {"message": "Message"}, {"message": "Message"}),
    "an id with another name": (
        closed("entity_id", "location", entity_id=WHOLE, location=TEXT),
        {"entity_id": 1},
        {"entity_id": 2},
    ),
    "an id with a name": (
        closed("thing_id", thing_id=TEXT, ok={"const": True}),
        {"thing_id": "1"},
        {"thing_id": "2"},
    ),
    "an envelope": (
        {"properties": {"code": {"const": 0}, "data": WHOLE}, "required": ["code", "data"]},
        {"code": 0, "data": 1},
        {"code": 0, "data": 2},
    ),
    "anything": ({}, {"id": 1, "title": "A"}, {"id": 2, "title": "B"}),
    "an open object": ({"type": "object"}, {"id": 1, "title": "A"}, {"id": 2, "title": "B"}),
}


@pytest.mark.parametrize(("response", "first", "second"), NOTES.values(), ids=NOTES)
def test_what_is_posted_is_kept_if_the_response_is_something_else(
    tmp_path: Path, response: Any, first: Any, second: Any
) -> None:
    paths = collection("/things", "id", THING, closed("title", title=TEXT))
    paths["/things"]["post"] = operation("create", response, "201", closed("title", title=TEXT))
    paths["/things"]["get"] = operation("list", {"type": "array", "items": THING}, "200")
    with served(tmp_path, with_paths(paths)) as client:
        made = [client.post("/things", json={"title": one}) for one in "AB"]
        assert [one.status_code for one in made] == [201, 201]
        for body, expected in zip((one.json() for one in made), (first, second), strict=True):
            subset = {**body, **expected} if isinstance(body, dict) else expected
            assert body == subset
        records = [{"id": 1, "title": "A"}, {"id": 2, "title": "B"}]
        assert client.get("/things").json() == records
        assert client.get("/things/2").json() == records[1]


def test_a_location_names_what_a_message_does_not(tmp_path: Path) -> None:
    paths = collection("/things", "id", THING, closed("title", title=TEXT))
    message = closed("message", message=TEXT)
    paths["/things"]["post"] = operation("create", message, "201", closed("title", title=TEXT))
    found = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred
    assert [*found.lines()] == [
        "Not stateful: POST /things: its response has no 'id' that can be new"
    ]
    declared = paths["/things"]["post"]["responses"]["201"]
    declared["headers"] = {"Location": {"schema": TEXT}}
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/things", json={"title": "A"})
        assert made.json() == {"message": "Message"}
        assert client.get(made.headers["location"]).json() == {"id": 1, "title": "A"}


AMOUNT = closed("Amount", "Currency", Amount=TEXT, Currency=TEXT)
CONSENT = closed(
    "ConsentId", "Status", "Initiation", ConsentId=TEXT, Status=TEXT, Initiation=AMOUNT
)
CONSENTS = collection(
    "/payment-consents",
    "ConsentId",
    closed("Data", "Risk", Data=CONSENT, Risk=closed(Code=TEXT), Links=closed("Self", Self=TEXT)),
    closed("Data", "Risk", Data=closed(ReadRefund=TEXT, Initiation=AMOUNT), Risk=closed(Code=TEXT)),
)
"""As UK Open Banking's payment initiation: an envelope of closed objects, beside others."""


def test_what_is_posted_in_an_envelope_is_kept_at_its_place(tmp_path: Path) -> None:
    pounds = {"Amount": "165.88", "Currency": "GBP"}
    sent = {"Data": {"ReadRefund": "Yes", "Initiation": pounds}, "Risk": {"Code": "Other"}}
    with served(tmp_path, with_paths(CONSENTS)) as client:
        first, second = (client.post("/payment-consents", json=sent).json() for _ in range(2))
        assert first["Data"]["ConsentId"] != second["Data"]["ConsentId"]
        assert (first["Data"]["Initiation"], first["Risk"]) == (pounds, {"Code": "Other"})
        assert {*first} == {"Data", "Risk", "Links"}
        for one in (first, second):
            assert client.get(f"/payment-consents/{one['Data']['ConsentId']}").json() == one
        assert client.get("/payment-consents/none").status_code == 404


def test_a_record_may_have_lists_of_lists_without_end(tmp_path: Path) -> None:
    nested = {"type": "array", "items": {"$ref": "#/components/schemas/Nested"}}
    given = {"$ref": "#/components/schemas/Tree"}
    tree = closed("id", id=TEXT, nested=nested, trees={"type": "array", "items": given})
    content = with_paths(collection("/trees", "id", given, given))
    content["components"] = {"schemas": {"Nested": nested, "Tree": tree}}
    sent = {"id": "oak", "nested": [[], [[[]]]], "trees": [{"id": "elm", "trees": []}]}
    with served(tmp_path, content) as client:
        assert client.post("/trees", json=sent).json() == sent
        assert client.get("/trees/oak").json() == sent


def test_an_envelope_is_not_put_into_itself(tmp_path: Path) -> None:
    inside = {"type": "object", "properties": {"ConsentId": TEXT, "Amount": TEXT}}
    whole = {"type": "object", "properties": {"Data": inside}}
    with served(tmp_path, with_paths(collection("/consents", "id", whole, whole))) as client:
        created = client.post("/consents", json={"Data": {"Amount": "165.88"}}).json()
        key = created["Data"].pop("ConsentId")
        assert created == {"Data": {"Amount": "165.88"}}
        assert client.get(f"/consents/{key}").json()["Data"]["Amount"] == "165.88"


@pytest.mark.parametrize("beside", [{}, {"notify": FLAG}], ids=["alone", "called like the record"])
@pytest.mark.parametrize("within", ["", "data"], ids=["record", "envelope"])
def test_a_request_may_have_an_envelope_that_the_response_has_not(
    tmp_path: Path, within: str, beside: Any
) -> None:
    """As Magento's ``group``, or YNAB's ``transaction``."""
    content = document(WHOLE, wrapper=within)
    sent = {"group": {"type": "object", "properties": {"name": TEXT, "note": TEXT}}, **beside}
    body = media({"type": "object", "properties": sent})
    paths = content["paths"] = json.loads(json.dumps(content["paths"]).replace("pets", "groups"))
    for method in ("put", "patch"):
        paths["/o/{owner}/groups/{petId}"][method]["requestBody"] = body
    paths["/o/{owner}/groups"]["post"]["requestBody"] = body
    others = dict.fromkeys(beside, True)

    def record(reply: httpx.Response) -> Any:
        return reply.json()[within] if within else reply.json()

    with served(tmp_path, content) as client:
        created = client.post("/o/1/groups", json={"group": {"name": "a"}, **others})
        assert (record(created)["name"], "group" in record(created)) == ("a", False)
        at = f"/o/1/groups/{record(created)['id']}"
        assert client.get(at).json() == created.json()
        for method, name in (("PUT", "b"), ("PATCH", "c")):
            changed = client.request(method, at, json={"group": {"name": name}, **others})
            assert record(changed) == {**record(created), "name": name}
        assert client.get("/o/1/groups").json() == [record(changed)]
        bare = record(client.post("/o/1/groups", json={"name": "d"}))
        assert bare["name"] == "d"


def test_a_record_has_what_is_required_though_the_example_has_no_record(tmp_path: Path) -> None:
    """As the tweets of X: GET may have only errors."""
    tweet = closed("id", "text", "edits", id=TEXT, text=TEXT, edits={"type": "array"})
    tweet["example"] = {"id": "1", "text": "without what is required"}
    found = {"type": "object", "properties": {"data": tweet, "errors": {"type": "array"}}}
    paths = collection("/tweets", "id", found, {"type": "object"})
    made = closed("data", data=closed("id", id=TEXT, text=TEXT))
    paths["/tweets"]["post"] = operation("create", made, "201", closed(text=TEXT))
    with served(tmp_path, with_paths(paths)) as client:
        created = client.post("/tweets", json={"text": "hello"}).json()["data"]
        read = client.get(f"/tweets/{created['id']}").json()
        assert {name: read["data"][name] for name in ("id", "text")} == created
        assert isinstance(read["data"]["edits"], list)


def test_a_member_of_a_record_is_no_envelope_though_it_is_called_like_one(tmp_path: Path) -> None:
    """As the accounts of Apideck: what responds to POST has the id only."""
    parent = {"type": "object", "properties": {"id": TEXT, "name": TEXT}}
    properties = {"id": TEXT, "name": TEXT, "parent_account": parent}
    account = {"type": "object", "properties": properties}
    paths = collection("/accounts", "id", closed("data", data=account), account)
    made = closed("data", data=closed("id", id=TEXT))
    paths["/accounts"]["post"] = operation("create", made, "201", account)
    with served(tmp_path, with_paths(paths)) as client:
        first = client.post("/accounts", json={"name": "a"}).json()["data"]["id"]
        child = {"name": "b", "parent_account": {"id": first}}
        second = client.post("/accounts", json=child).json()["data"]["id"]
        assert first != second
        assert client.get(f"/accounts/{first}").json()["data"]["name"] == "a"
        assert client.get(f"/accounts/{second}").json()["data"] == {**child, "id": second}


def test_a_member_that_the_record_has_is_no_envelope_of_a_request(tmp_path: Path) -> None:
    owner = {"type": "object", "properties": {"name": TEXT}}
    shown = {"type": "object", "properties": {"id": WHOLE, "name": TEXT, "owner": owner}}
    sent = {"type": "object", "properties": {"owner": owner}}
    with served(tmp_path, with_paths(collection("/owners", "id", shown, sent))) as client:
        created = client.post("/owners", json={"owner": {"name": "a"}}).json()
        assert created["owner"] == {"name": "a"}
        assert created.get("name") != "a"


@pytest.mark.parametrize("shown_address", [{}, {"address": None}], ids=["absent", "null"])
def test_a_member_that_a_response_cannot_have_takes_no_others_with_it(
    tmp_path: Path, shown_address: Any
) -> None:
    """As the addresses of checks that an API of payments sends."""
    address = {**closed("city", "street", city=TEXT, street=TEXT), "type": ["object", "null"]}
    required = ["id", "payee", *shown_address]
    check = closed(*required, id=TEXT, payee=TEXT, note=TEXT, address=address)
    check["example"] = {"id": "chk_1", "payee": "Example Ltd", **shown_address}
    body = {"type": "object", "properties": {"address": {"type": "object"}}}
    content = with_paths(collection("/checks", "id", closed("data", data=check), body))
    with served(tmp_path, content) as client:
        sent = {"payee": "Ann", "note": "n", "address": {}}
        created = client.post("/checks", json=sent).json()["data"]
        assert created.pop("id")
        assert created == {"payee": "Ann", "note": "n", **shown_address}


def test_the_id_is_that_of_the_record_and_not_of_something_inside(tmp_path: Path) -> None:
    kind = closed("guid", guid=TEXT)
    activity = {"type": "object", "properties": {"activityType": kind, "note": TEXT, "guid": TEXT}}
    activity["example"] = {"activityType": {"guid": "phone"}}
    paths = collection("/activities", "guid", activity, activity)
    paths["/activities"]["get"] = operation("all", {"type": "array", "items": activity}, "200")
    with served(tmp_path, with_paths(paths)) as client:
        sent = {"activityType": {"guid": "phone"}, "note": "a"}
        first, second = (client.post("/activities", json=sent).json() for _ in range(2))
        assert first["guid"] != second["guid"]
        assert client.get(f"/activities/{first['guid']}").json() == {**sent, "guid": first["guid"]}
        assert client.get("/activities").json() == [first, second]


ISSUE = {
    "type": "object",
    "required": ["id", "number", "title", "assignees"],
    "properties": {
        "id": {"type": "integer"},
        "number": {"type": "integer"},
        "title": TEXT,
        "assignees": {"type": "array", "items": {"type": "object", "required": ["login"]}},
    },
    "example": {"id": 1, "number": 1347, "title": "Found a bug", "assignees": [{"login": "hub"}]},
}
LINK = '<https://api.github.com/resource?page=2>; rel="next"'


def issues() -> dict[str, Any]:
    body = {"type": "object", "properties": {"title": TEXT, "assignees": {"type": "array"}}}
    paths = collection("/issues", "issue_number", ISSUE, body)
    listed = operation("list", {"type": "array", "items": ISSUE}, "200")
    listed["responses"]["200"]["headers"] = {"Link": {"example": LINK, "schema": TEXT}}
    made = paths["/issues"]["post"]["responses"]["201"]
    made["headers"] = {"Location": {"example": "https://api.github.com/1347", "schema": TEXT}}
    listed["parameters"] = [
        {"name": name, "in": "query", "schema": {"type": "integer"}}
        for name in ("page", "per_page")
    ]
    paths["/issues"]["get"] = listed
    return with_paths(paths)


def test_the_id_is_the_member_that_the_parameter_names_and_counts_up(tmp_path: Path) -> None:
    with served(tmp_path, issues()) as client:
        sent = {"title": "Broken", "assignees": ["octocat"]}
        for number in (1, 2):
            created = client.post("/issues", json=sent)
            assert created.headers["location"] == f"{client.base_url}/issues/{number}"
            issue = {"id": number, "number": number, "title": "Broken"}
            assert created.json() == {**issue, "assignees": [{"login": "hub"}]}
            assert client.get(f"/issues/{number}").json() == created.json()
        assert client.get("/issues/1347").status_code == 404


def test_a_new_number_takes_few_lookups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the next ones are ids of records: they were posted in reverse."""
    lookups = list[str]()
    get = MemoryTransaction.get

    async def counted(self: MemoryTransaction, collection: str, key: str) -> Any:
        lookups.append(key)
        return await get(self, collection, key)

    monkeypatch.setattr(MemoryTransaction, "get", counted)
    content = issues()
    post = content["paths"]["/issues"]["post"]
    post["requestBody"]["content"]["application/json"]["schema"] = {}
    with served(tmp_path, content) as client:
        for number in range(64, 0, -1):
            before = len(lookups)
            assert client.post("/issues", json={"number": number}).json()["number"] == number
            assert len(lookups) - before < 20
        new = client.post("/issues", json={}).json()["number"]
        assert client.get(f"/issues/{new}").json()["number"] == new > 64


def test_the_link_of_a_list_leads_to_its_next_page(tmp_path: Path) -> None:
    with served(tmp_path, issues()) as client:
        for _ in range(3):
            client.post("/issues", json={"title": "Broken"})
        page = client.get("/issues", params={"per_page": 2})
        following = page.links["next"]["url"]
        assert following.startswith(str(client.base_url))
        last = client.get(following)
        assert [one["number"] for one in (*page.json(), *last.json())] == [1, 2, 3]
        assert "next" not in last.links
        assert "link" not in client.get("/issues").headers


def test_a_slug_is_made_of_the_name_that_was_posted(tmp_path: Path) -> None:
    team = {"type": "object", "required": ["slug", "name"], "properties": {"slug": TEXT}}
    body = {"type": "object", "properties": {"name": TEXT}}
    with served(tmp_path, with_paths(collection("/teams", "team_slug", team, body))) as client:
        teams = [client.post("/teams", json={"name": "Justice Ligüe!"}).json() for _ in range(2)]
        assert [one["slug"] for one in teams] == ["justice-ligue", "justice-ligue-2"]
        assert client.get("/teams/justice-ligue").json() == teams[0]


RESOURCE = {"type": "object", "properties": {"gid": {**TEXT, "pattern": "^1[0-9]{9}$"}}}
USER = {"allOf": [RESOURCE, {"type": "object"}]}
TASK = {
    "allOf": [
        {"type": "object", "properties": dict.fromkeys("abcdef", TEXT)},
        {"properties": {"user": USER, "due": TEXT}},
        RESOURCE,
    ],
    "example": {"due": "today", "user": {"gid": "1000000000"}},
}


def test_the_id_is_found_where_the_schema_declares_it(tmp_path: Path) -> None:
    """Examples and generated values lack it; the posted user has another form."""
    body = {"type": "object", "required": ["data"]}
    whole = {"type": "object", "properties": {"data": TASK}}
    with served(tmp_path, with_paths(collection("/tasks", "task_gid", whole, body))) as client:
        sent = {"data": {"a": "Write", "user": "1000000001"}}
        tasks = [client.post("/tasks", json=sent).json()["data"] for _ in range(2)]
        assert tasks[0]["gid"] != tasks[1]["gid"]
        assert (tasks[0]["a"], tasks[0]["user"]) == ("Write", {"gid": "1000000000"})
        assert client.get(f"/tasks/{tasks[0]['gid']}").json()["data"] == tasks[0]


@pytest.mark.parametrize(
    ("extra", "note", "is_kept"), [(40, 0, True), (60, 0, False), (6, 20_000, False)]
)
def test_a_response_is_corrected_in_few_rounds(
    tmp_path: Path, extra: int, note: int, is_kept: bool
) -> None:
    thing = closed("id", id=TEXT, name=TEXT, note=TEXT)
    sent = {"name": "Rex", "note": "x" * note, **{f"extra{n}": n for n in range(extra)}}
    things = with_paths(collection("/things", "thingId", thing, {"type": "object"}))
    with served(tmp_path, things) as client:
        created = client.post("/things", json=sent).json()
        assert (created["name"] == "Rex") == is_kept
        assert client.get(f"/things/{created['id']}").json() == created


EXPLAIN = {"X-Sandbox-Explain": "1"}
STATE = {**TEXT, "enum": ["open", "closed", "merged"], "example": "closed"}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_value_that_a_response_cannot_have_stays_as_it_was_and_is_reported(
    tmp_path: Path, method: str
) -> None:
    thing = closed("id", "name", "state", id=TEXT, name=TEXT, state=STATE, note=TEXT)
    content = with_paths(collection("/things", "thingId", thing, {"type": "object"}))
    change = operation("change", thing, "200", {"type": "object"})
    content["paths"]["/things/{thingId}"][method.lower()] = change
    with served(tmp_path, content) as client:
        sent = {"name": "a", "state": "merged", "note": "n"}
        created = client.post("/things", json=sent, headers=EXPLAIN)
        assert "hints" not in created.headers["x-sandbox-explain"]
        at = f"/things/{created.json()['id']}"
        wrong = {"name": "b", "state": "weird", "note": [5], "unknown": 1}
        changed = client.request(method, at, json=wrong, headers=EXPLAIN)
        assert changed.json() == {**created.json(), "name": "b"}
        hint = "the response cannot have '/state', '/note' as sent, so it has other values"
        assert hint in changed.headers["x-sandbox-explain"]
        assert client.get(at).json() == changed.json()


LEVEL = {**WHOLE, "maximum": 9, "example": 7}


@pytest.mark.parametrize("within", [(), ("data",)])
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_value_that_a_response_cannot_have_adds_no_member(
    tmp_path: Path, method: str, within: tuple[str, ...]
) -> None:
    kind = {"enum": ["big", "small"], "example": "big"}
    thing = closed("id", "name", id=WHOLE, name=TEXT, level=LEVEL, kind=kind)
    thing = thing if not within else closed("data", data=thing)
    content = with_paths(collection("/things", "thingId", thing, {"type": "object"}))
    change = operation("change", thing, "200", {"type": "object"})
    content["paths"]["/things/{thingId}"][method.lower()] = change
    with served(tmp_path, content) as client:
        created = client.post("/things", json=placed({}, within, {"name": "a"})).json()
        assert {*at_steps(created, within)} == {"id", "name"}
        at = f"/things/{at_steps(created, within)['id']}"
        sent = placed({}, within, {"name": "b", "level": 50, "kind": 7})
        changed = client.request(method, at, json=sent, headers=EXPLAIN)
        assert changed.json() == placed(created, (*within, "name"), "b")
        pointers = ("".join(f"/{one}" for one in (*within, name)) for name in ("level", "kind"))
        hint = f"cannot have '{next(pointers)}', '{next(pointers)}' as sent"
        assert hint in changed.headers["x-sandbox-explain"]
        assert client.get(at).json() == changed.json()


def test_put_leaves_out_what_was_not_sent_and_keeps_what_is_required(tmp_path: Path) -> None:
    thing = closed("id", "made", id=TEXT, made=WHOLE, note=TEXT)
    content = with_paths(collection("/things", "thingId", thing, {"type": "object"}))
    put = operation("change", thing, "200", {"type": "object"})
    content["paths"]["/things/{thingId}"]["put"] = put
    with served(tmp_path, content) as client:
        created = client.post("/things", json={"made": 1971, "note": "n"}).json()
        changed = client.put(f"/things/{created['id']}", json={})
        assert changed.json() == {"id": created["id"], "made": 1971}


def test_a_range_of_media_types_has_records_as_well(tmp_path: Path) -> None:
    content = json.loads(json.dumps(things({})).replace("application/json", "*/*"))
    content["paths"]["/things"]["post"]["requestBody"] = media({"type": "object"})
    with served(tmp_path, content) as client:
        created = client.post("/things", json={"name": 5})
        assert (created.status_code, created.json()["id"]) == (201, 1)
        assert created.headers["content-type"] == "application/json"
        assert isinstance(created.json()["name"], str)
        assert client.get("/things").json() == {"data": [created.json()]}


HAL = "application/hal+json"
SEGMENT = closed("segmentId", "name", segmentId=TEXT, name=TEXT)
LINKS = closed("self", self=TEXT)
RESOURCE = closed(
    *("segmentId", "name", "value", "_links"),
    **dict.fromkeys(("segmentId", "name", "value"), TEXT),
    _links=LINKS,
)


def segments(first: str = HAL) -> dict[str, Any]:
    """Segments, in JSON of two media types with different schemas; one of them is declared first.
    As of ConfigCat."""
    content = with_paths(collection("/segments", "segmentId", {}, {"type": "object"}))
    every, item = content["paths"].values()
    every["get"] = operation("list", {}, "200")
    item["put"] = operation("replace", {}, "200", {"type": "object"})
    item["patch"] = operation("change", {}, "200", {"type": "object"})
    item["delete"] = operation("remove", {}, "200")
    for path in (every, item):
        for method in path.keys() - {"parameters"}:
            one = path[method]["responses"]["201" if method == "post" else "200"]
            is_list = path is every and method == "get"
            schemas = {HAL: RESOURCE, "application/json": SEGMENT}
            one["content"] = {
                name: {"schema": {"type": "array", "items": schemas[name]} if is_list else schema}
                for name, schema in sorted(schemas.items(), key=lambda known: known[0] != first)
            }
    return content


ACCEPTED = {
    "": "application/json",
    "*/*": "application/json",
    "text/html": "application/json",
    "application/json": "application/json",
    HAL: HAL,
    f"application/json;q=0.5, {HAL}": HAL,
}


@pytest.mark.parametrize("first", [HAL, "application/json"])
@pytest.mark.parametrize("accept", ACCEPTED)
def test_a_record_is_in_the_json_media_type_that_the_client_accepts(
    tmp_path: Path, first: str, accept: str
) -> None:
    with served(tmp_path, segments(first)) as client:
        client.headers["Accept"] = accept
        sent = {"name": "n", "value": "v"}
        responses = [client.post("/segments", json=sent)]
        at = f"/segments/{responses[0].json()['segmentId']}"
        responses += [client.get(at), client.get("/segments"), client.put(at, json=sent)]
        responses += [client.patch(at, json={"name": "n"}), client.delete(at)]
    assert [one.status_code for one in responses] == [201, 200, 200, 200, 200, 200]
    assert {one.headers["content-type"] for one in responses} == {ACCEPTED[accept]}
    bodies = [one.json()[0] if isinstance(one.json(), list) else one.json() for one in responses]
    assert all(one == bodies[0] for one in bodies)
    is_hal = ACCEPTED[accept] == HAL
    assert (bodies[0]["name"], bodies[0].get("value")) == ("n", "v" if is_hal else None)
    assert ("_links" in bodies[0]) == is_hal


def test_a_record_may_be_read_in_another_media_type_than_it_was_posted_in(tmp_path: Path) -> None:
    with served(tmp_path, segments()) as client:
        posted = client.post("/segments", json={"name": "n", "value": "v"}).json()
        at = f"/segments/{posted['segmentId']}"
        assert client.get(at).json() == posted
        assert client.get(at, headers={"Accept": HAL}).json()["value"] == "v"
        (listed,) = client.get("/segments", headers={"Accept": HAL}).json()
        assert (listed["segmentId"], listed["value"]) == (posted["segmentId"], "v")


@pytest.mark.parametrize("options", [["--stateful"], []])
def test_a_handler_that_init_writes_is_in_the_media_type_of_its_schema(
    tmp_path: Path, options: list[str]
) -> None:
    file, folder = written(tmp_path, segments()), tmp_path / "segments"
    CliRunner().invoke(main, ["init", str(folder), "--contract", str(file), *options])
    with serving(replace(FROZEN, project=folder)) as running, running.client() as client:
        made = client.post("/segments", json={"name": "n", "value": "v"})
        at = f"/segments/{made.json()['segmentId']}"
        responses = [made, client.get(at), client.get("/segments")]
        assert [one.status_code for one in responses] == [201, 200, 200]
        assert {one.headers["content-type"] for one in responses} == {"application/json"}
        hal = client.get("/segments", headers={"Accept": HAL})
        assert (hal.status_code, hal.headers["content-type"]) == (200, HAL)
        assert "_links" in hal.json()[0]


def test_a_response_without_a_body_is_one_whatever_is_declared_for_it(tmp_path: Path) -> None:
    content = things({})
    put = operation("change", {}, "204", {"type": "object"})
    content["paths"]["/things/{thingId}"]["put"] = put
    with served(tmp_path, content) as client:
        client.post("/things", json={"name": "a"})
        changed = client.put("/things/1", json={"name": "b"})
        assert (changed.status_code, changed.content) == (204, b"")
        assert client.get("/things/1").json() == {"id": 1, "name": "b"}


def test_it_is_reported_that_a_response_is_an_example(tmp_path: Path) -> None:
    content = things({})
    made = content["paths"]["/things"]["post"]["responses"]["201"]["content"]
    made["application/json"]["schema"]["properties"]["id"] = {"enum": [1]}
    gone = {"type": "object", "example": {"note": "gone"}}
    content["paths"]["/things/{thingId}"]["delete"] = operation("remove", gone, "200")
    with served(tmp_path, content) as client:
        client.post("/things", json={"name": "a"})
        shown = client.post("/things", json={"name": "b"}, headers=EXPLAIN)
        assert "the response is the example of the" in shown.headers["x-sandbox-explain"]
        removed = client.delete("/things/1", headers=EXPLAIN)
        assert removed.json() == {"note": "gone"}
        assert "hints" not in removed.headers["x-sandbox-explain"]
        client.post("/things", json={"name": "a"})
        assert "hints" not in client.get("/things/1", headers=EXPLAIN).headers["x-sandbox-explain"]


@pytest.mark.parametrize(("declared", "status"), [("409", 409), ("422", 422), (None, 201)])
def test_a_second_record_with_the_same_id_is_a_conflict_if_that_is_declared(
    tmp_path: Path, declared: str | None, status: int
) -> None:
    content = document({"type": "string"})
    post = content["paths"]["/o/{owner}/pets"]["post"]
    post["requestBody"] = media({})
    post["responses"] |= {declared: {"description": "known"}} if declared else {}
    with served(tmp_path, content) as client:
        first = client.post("/o/1/pets", json={"id": "rex", "name": "Rex"})
        second = client.post("/o/1/pets", json={"id": "rex", "name": "Max"})
        assert (first.status_code, second.status_code) == (201, status)
        name = "Max" if declared is None else "Rex"
        assert client.get("/o/1/pets/rex").json()["name"] == name
        assert client.post("/o/2/pets", json={"id": "rex"}).status_code == 201


def test_an_id_may_have_to_match_a_pattern(tmp_path: Path) -> None:
    identity = {"type": "string", "pattern": "^pay_[0-9a-f]{10}$"}
    with served(tmp_path, document(identity)) as client:
        pets = [client.post("/o/1/pets", json={"name": "Rex"}).json() for _ in range(2)]
        assert pets[0]["id"] != pets[1]["id"]
        assert client.get(f"/o/1/pets/{pets[0]['id']}").json() == pets[0]


def test_what_cannot_be_read_back_is_left_out_with_the_reason(tmp_path: Path) -> None:
    paths = collection("/labels", "label", {"type": "array"}, {"type": "object"})
    paths |= collection("/notes", "noteId", closed("text", text=TEXT), closed(), create="note")
    found = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred
    assert [*found.lines()] == [
        "Not stateful: POST /labels: its response has no 'id' that can be new",
        "Not stateful: POST /notes: its response has no 'id' that can be new",
    ]


def test_init_writes_the_collections_as_handlers(tmp_path: Path) -> None:
    content = document({"type": "string"})
    content["paths"]["/o/{owner}/pets/{petId}"]["delete"]["operationId"] = "del"
    file = written(tmp_path, content)
    run = CliRunner().invoke(
        main, ["init", str(tmp_path / "pets"), "--contract", str(file), "--stateful"]
    )
    assert "Stateful /o/{owner}/pets" in run.output
    assert "createPet" in load_project(tmp_path / "pets").handlers
    assert "Begin with `handlers/collections.py`" in (tmp_path / "pets" / "README.md").read_text()
    with serving(replace(FROZEN, project=tmp_path / "pets")) as running, running.client() as client:
        created = client.post("/o/1/pets", json={"name": "Rex"}).json()
        at = f"/o/1/pets/{created['id']}"
        assert client.get(at).json() == created
        client.delete(at)
        assert client.get(at).status_code == 404


@pytest.mark.parametrize(
    "names",
    [
        ("2nd pet!", "größe", "1st", "\ufb01t", "_own", "!"),
        ("pets_2", "pets", "Pets", "PETS", "import", "Import"),
        ("ListSnapshots", "create_snapshot", "GetClock", "setClock", "faults", "DeleteFault"),
    ],
    ids=["no names of functions", "equal ones", "like those of the control API"],
)
def test_init_writes_a_handler_for_every_operation_whatever_its_name(
    tmp_path: Path, names: Sequence[str]
) -> None:
    content = document({"type": "string"})
    every = [one for path in content["paths"].values() for one in path.values()]
    for one, name in zip([it for it in every if isinstance(it, dict)], names, strict=True):
        one["operationId"] = name
    folder, file = tmp_path / "pets", written(tmp_path, content)
    run = CliRunner().invoke(main, ["init", str(folder), "--contract", str(file), "--stateful"])
    assert run.exit_code == 0, run.output
    assert "WARNING" not in run.stderr
    assert {*load_project(folder).handlers} == {*names}
    with serving(replace(FROZEN, project=folder)) as running, running.client() as client:
        created = client.post("/o/1/pets", json={"name": "Rex"}).json()
        at = f"/o/1/pets/{created['id']}"
        assert client.get("/o/1/pets").json() == [created]
        assert client.patch(at, json={"name": "Max"}).json() == {**created, "name": "Max"}
        assert client.put(at, json={"name": "Kim"}).json()["name"] == "Kim"
        assert client.get(at).json()["name"] == "Kim"
        assert client.delete(at).status_code == 204
        assert "now" in client.get("/sandbox/clock").json()["data"]


@pytest.mark.parametrize(("number", "is_reported"), [(201, True), (200, False)])
def test_init_reports_that_it_takes_long(tmp_path: Path, number: int, is_reported: bool) -> None:
    names = [f"name{one}" for one in range(number)]
    paths = {f"/{name}": {"get": operation(name, TEXT, "200")} for name in names}
    file = written(tmp_path, with_paths(paths))
    command = ["init", str(tmp_path / "many"), "--contract", str(file), "--stateful"]
    run = CliRunner().invoke(main, command)
    assert ("Trying the collections of 201 operations" in run.stderr) == is_reported


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


def test_null_is_a_value_for_patch_where_the_response_can_have_it(tmp_path: Path) -> None:
    content, anything = document(TEXT), {"type": "object"}
    pet = closed("id", "chip", "name", id=TEXT, chip=NULLABLE, name=TEXT, tag=NULLABLE, note=TEXT)
    content["paths"]["/o/{owner}/pets"]["post"] |= operation("createPet", pet, "201", anything)
    item = content["paths"]["/o/{owner}/pets/{petId}"]
    item["get"] |= operation("getPet", pet, "200")
    item["patch"] |= operation("changePet", pet, "200", anything)
    sent = dict.fromkeys(("chip", "name", "tag", "note"), "a")
    with served(tmp_path, content) as client:
        at = f"/o/1/pets/{client.post('/o/1/pets', json=sent).json()['id']}"
        changed = client.patch(at, json=dict.fromkeys(sent)).json()
        assert {**changed, "id": ""} == {"id": "", "chip": None, "name": "a", "tag": None}
        assert client.get(at).json() == changed


def test_a_record_may_be_created_by_its_own_name_without_a_body_in_return(tmp_path: Path) -> None:
    content = document({"type": "string"})
    post = content["paths"]["/o/{owner}/pets"]["post"]
    post["responses"] = {"201": {"description": "made"}}
    post["requestBody"] = media({})
    with served(tmp_path, content) as client:
        assert client.post("/o/1/pets", json={"id": "rex", "name": "Rex"}).content == b""
        assert client.get("/o/1/pets/rex").json()["name"] == "Rex"


TAX = {"taxCode": TEXT, "rate": {"type": "number"}}
WITHOUT_GET: dict[str, tuple[Any, Any, str]] = {
    "a list": ({"type": "array", "items": closed(**TAX)}, closed(**TAX), "taxCode"),
    "a list in an object": (
        closed(all={"type": "array", "items": closed(**TAX)}),
        {"type": "object"},
        "taxCode",
    ),
    "a request": ({"type": "array"}, closed(**TAX), "taxCode"),
    "a request in capitals": ({"type": "array"}, closed(TaxCode=TEXT), "TaxCode"),
}


@pytest.mark.parametrize(("listed", "sent", "name"), WITHOUT_GET.values(), ids=WITHOUT_GET)
def test_the_id_that_no_response_shows_alone_is_in_the_list_or_in_what_is_posted(
    tmp_path: Path, listed: Any, sent: Any, name: str
) -> None:
    content = with_paths(collection("/taxes", "taxCode", {}, sent))
    item = content["paths"]["/taxes/{taxCode}"]
    del item["get"]
    item["delete"] = {"operationId": "remove", "responses": {"204": {"description": "gone"}}}
    content["paths"]["/taxes"]["post"]["responses"] = {"201": {"description": "made"}}
    content["paths"]["/taxes"]["get"] = operation("list", listed, "200")
    item["parameters"] = [{"name": "taxCode", "in": "path", "required": True, "schema": TEXT}]

    def codes() -> list[str]:
        body = client.get("/taxes").json()
        return [one[name] for one in (body if isinstance(body, list) else body["all"])]

    with served(tmp_path, content) as client:
        for code in ("a", "b"):
            assert client.post("/taxes", json={name: code}).status_code == 201
        assert codes() == ["a", "b"]
        assert client.delete("/taxes/a").status_code == 204
        assert codes() == ["b"]
        assert client.delete("/taxes/a").status_code == 404


def test_what_can_only_be_posted_and_deleted_is_left_out_if_a_get_cannot_show_it(
    tmp_path: Path,
) -> None:
    content = with_paths(collection("/taxes", "taxCode", closed(state=TEXT), closed(**TAX)))
    content["paths"]["/taxes"]["post"]["responses"] = {"201": {"description": "made"}}
    item = content["paths"]["/taxes/{taxCode}"]
    item["delete"] = {**item["get"], "operationId": "remove"}
    (line,) = load_contract(written(tmp_path, content), stateful=True).inferred.lines()
    assert line == (
        "Not stateful: GET /taxes/{taxCode}: its response cannot have a record with 'taxCode'"
    )
    del item["get"]
    (line,) = load_contract(written(tmp_path, content), stateful=True).inferred.lines()
    assert line == "Stateful /taxes: records by 'taxCode': create (create), remove (delete)"


def test_a_post_that_only_declares_errors_makes_no_collection(tmp_path: Path) -> None:
    content = document({"type": "string"})
    content["paths"]["/o/{owner}/pets"]["post"]["responses"] = {"405": {"description": "never"}}
    (line,) = load_contract(written(tmp_path, content), stateful=True).inferred.lines()
    assert line == "Not stateful: POST /o/{owner}/pets: it declares errors only"


def things(listed: Any, **positions: Any) -> dict[str, Any]:
    """Things with numbers, in a list with this body and these query parameters."""
    thing = closed("id", "name", id={"type": "integer"}, name=TEXT)
    paths = collection("/things", "thingId", thing, closed(name=TEXT))
    every = closed(*listed, data={"type": "array", "items": thing}, **listed)
    paths["/things"]["get"] = operation("list", every, "200")
    paths["/things"]["get"]["parameters"] = [
        {"name": name, "in": "query", "schema": one}
        for name, one in {"limit": {"type": "integer"}, **positions}.items()
    ]
    return with_paths(paths)


def pages_of_two(client: httpx.Client, parameter: str, cursor: Any) -> list[Any]:
    """The pages that a client reads with this parameter as ``cursor`` finds it in each."""
    found: list[Any] = []
    query: dict[str, Any] = {"limit": 2}
    while len(found) < 5:
        found.append(client.get("/things", params=query).json())
        query[parameter] = cursor(found[-1])
        if not query[parameter]:
            break
    return found


@pytest.mark.parametrize(
    ("listed", "parameter", "schema", "cursor", "more"),
    [
        (
            {"next_cursor": NULLABLE, "has_more": FLAG},
            *("cursor", TEXT, lambda one: one["next_cursor"], lambda one: one["has_more"]),
        ),
        (
            {"nextPageToken": TEXT, "isTruncated": FLAG},
            *("pageToken", TEXT, lambda one: one["nextPageToken"], lambda one: one["isTruncated"]),
        ),
        (
            {"paging": closed("hasMore", next=WHOLE, hasMore=FLAG)},
            *("offset", WHOLE, lambda one: one["paging"].get("next")),
            lambda one: one["paging"]["hasMore"],
        ),
        (
            {"cursor": closed("next", "has_next", next=NULLABLE, has_next=FLAG)},
            *("cursor", TEXT, lambda one: one["cursor"]["next"]),
            lambda one: one["cursor"]["has_next"],
        ),
        (
            {"has_more": FLAG},
            *("starting_after", WHOLE, lambda one: one["has_more"] and one["data"][-1]["id"]),
            lambda one: one["has_more"],
        ),
    ],
    ids=["cursor", "token", "offset", "object", "record"],
)
def test_the_body_of_a_list_leads_to_its_next_page(
    tmp_path: Path, listed: Any, parameter: str, schema: Any, cursor: Any, more: Any
) -> None:
    with served(tmp_path, things(listed, **{parameter: schema})) as client:
        for number in range(5):
            client.post("/things", json={"name": str(number)})
        found = pages_of_two(client, parameter, cursor)
        ids = [[one["id"] for one in page["data"]] for page in found]
        assert ids == [[1, 2], [3, 4], [5]]
        assert [more(page) for page in found] == [True, True, False]
        assert not more(client.get("/things").json())
        if schema == TEXT:
            unknown = client.get("/things", params={parameter: "Next cursor", "limit": 2}).json()
            assert (unknown["data"], more(unknown)) == ([], False)


def test_the_body_of_a_list_counts_its_pages_and_has_the_url_of_the_next(tmp_path: Path) -> None:
    uri = {"type": ["string", "null"], "format": "uri", "example": "https://a.example/?page=9"}
    meta = closed("page", "total_pages", "total", page=WHOLE, total_pages=WHOLE, total=WHOLE)
    listed = {"meta": meta, "next_page": {"type": ["integer", "null"]}, "next": uri}
    with served(tmp_path, things(listed, page=WHOLE)) as client:
        for number in range(3):
            client.post("/things", json={"name": str(number)})
        first = client.get("/things", params={"limit": 2}).json()
        assert first["meta"] == {"page": 1, "total_pages": 2, "total": 3}
        assert first["next_page"] == 2
        last = client.get(first["next"]).json()
        assert last["meta"]["page"] == 2
        assert (last["next_page"], last["next"], len(last["data"])) == (None, None, 1)


def test_a_position_with_too_many_digits_is_the_end_of_a_list(tmp_path: Path) -> None:
    with served(tmp_path, things({"has_more": FLAG}, cursor=TEXT)) as client:
        client.post("/things", json={"name": "a"})
        page = client.get("/things", params={"cursor": "9" * 5000})
        assert (page.status_code, page.json()) == (200, {"data": [], "has_more": False})


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (closed("id", "deleted", id=WHOLE, deleted=FLAG), {"id": 2, "deleted": True}),
        (closed("deleted", deleted=FLAG), {"deleted": True}),
        (closed("id", "name", id=WHOLE, name=TEXT), {"id": 2, "name": "b"}),
    ],
    ids=["mark", "only a mark", "record"],
)
def test_the_response_to_a_deletion_is_about_the_record(
    tmp_path: Path, gone: Any, expected: Any
) -> None:
    content = things({})
    content["paths"]["/things/{thingId}"]["delete"] = operation("remove", gone, "200")
    with served(tmp_path, content) as client:
        for name in "ab":
            client.post("/things", json={"name": name})
        assert client.delete("/things/2").json() == expected
        assert client.get("/things/2").status_code == 404


def test_a_deletion_shows_the_id_as_id_whatever_the_record_calls_it(tmp_path: Path) -> None:
    product = closed("productId", "name", productId=WHOLE, name=TEXT)
    paths = collection("/products", "productId", product, closed(name=TEXT))
    gone = closed("id", "deleted", id=WHOLE, deleted=FLAG)
    paths["/products/{productId}"]["delete"] = operation("remove", gone, "200")
    with served(tmp_path, with_paths(paths)) as client:
        for name in "ab":
            client.post("/products", json={"name": name})
        assert client.delete("/products/2").json() == {"id": 2, "deleted": True}


def test_what_is_posted_in_other_letters_is_what_the_response_calls_the_same(
    tmp_path: Path,
) -> None:
    """As Twilio's forms."""
    call = closed("sid", "to", "friendly_name", sid=TEXT, to=TEXT, friendly_name=TEXT)
    paths = collection("/calls", "Sid", call, closed(To=TEXT, FriendlyName=TEXT))
    paths["/calls/{Sid}"]["post"] = operation("change", call, "200", closed(FriendlyName=TEXT))
    for path in paths.values():
        taken = path["post"]["requestBody"]["content"]
        taken["application/x-www-form-urlencoded"] = taken.pop("application/json")
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/calls", data={"To": "+1", "FriendlyName": "a"}).json()
        assert made == {"sid": made["sid"], "to": "+1", "friendly_name": "a"}
        client.post(f"/calls/{made['sid']}", data={"FriendlyName": "b"})
        assert client.get(f"/calls/{made['sid']}").json() == {**made, "friendly_name": "b"}


def test_a_date_is_no_position_and_an_object_may_have_one(tmp_path: Path) -> None:
    content = things({}, after={**TEXT, "format": "date-time"})
    page = {"type": "object", "properties": {"number": WHOLE, "size": WHOLE}}
    given = {"name": "page", "in": "query", "style": "deepObject", "schema": page}
    content["paths"]["/things"]["get"]["parameters"].append(given)
    with served(tmp_path, content) as client:
        for name in "abc":
            client.post("/things", json={"name": name})
        every = client.get("/things", params={"after": "2026-01-01T00:00:00Z"}).json()
        assert len(every["data"]) == 3
        second = client.get("/things?page[number]=2&page[size]=2").json()
        assert [one["id"] for one in second["data"]] == [3]


@pytest.mark.parametrize(
    ("style", "query"),
    [
        ({}, "page={}&size=2&sort=name"),
        ({"style": "deepObject"}, "pageable[page]={}&pageable[size]=2&pageable[sort]=name"),
    ],
    ids=["exploded", "deep"],
)
def test_the_page_may_be_asked_for_in_members_of_one_parameter(
    tmp_path: Path, style: Any, query: str
) -> None:
    """As Spring's ``Pageable``."""
    page = {"page": {**WHOLE, "minimum": 0}, "size": WHOLE, "sort": TEXT}
    content = things({"number": WHOLE, "totalPages": WHOLE, "last": FLAG, "nextUrl": TEXT})
    given = {"name": "pageable", "in": "query", "schema": closed(**page), **style}
    content["paths"]["/things"]["get"]["parameters"] = [given]
    with served(tmp_path, content) as client:
        for name in "abc":
            client.post("/things", json={"name": name})
        pages = [client.get("/things?" + query.format(number)).json() for number in range(2)]
        assert [[one["id"] for one in every["data"]] for every in pages] == [[1, 2], [3]]
        facts = [(one["number"], one["totalPages"], one["last"]) for one in pages]
        assert facts == [(0, 2, False), (1, 2, True)]
        assert client.get(pages[0]["nextUrl"]).json() == pages[1]


@pytest.mark.parametrize("name", ["total_entries", "itemCount", "articlesCount", "total_articles"])
def test_the_length_of_a_list_may_be_called_like_its_records(tmp_path: Path, name: str) -> None:
    """As Hetzner's, and as those of others."""
    articles = {"type": "array", "items": {"type": "object"}}
    listed = closed("articles", name, articles=articles, **{name: {**WHOLE, "example": 57}})
    article = closed("id", id=WHOLE)
    paths = collection("/articles", "articleId", article, {"type": "object"})
    paths["/articles"]["get"] = operation("list", listed, "200")
    with served(tmp_path, with_paths(paths)) as client:
        created = client.post("/articles", json={}).json()
        assert client.get("/articles").json() == {"articles": [created], name: 1}


def user_paths() -> dict[str, Any]:
    """Users with members of the server, secrets, and one that nobody has to send."""
    moment = {**TEXT, "format": "date-time"}
    secret = {**TEXT, "writeOnly": True}
    keys = {"type": "array", "items": {"properties": {"label": TEXT, "secret": secret}}}
    instants = {"createdAt": moment, "modified_at": {**moment, "readOnly": True}}
    user = {
        "type": "object",
        "required": ["id", "name", "createdAt", "plan", "password"],
        "properties": {
            "id": TEXT,
            "name": TEXT,
            "age": WHOLE,
            "plan": TEXT,
            "born": moment,
            "password": secret,
            "keys": keys,
            "note": TEXT,
            **instants,
        },
        "example": {
            "id": "u",
            "name": "Ann",
            "age": 90,
            "plan": "free",
            "password": "example",
            "createdAt": "2001-01-01T00:00:00Z",
            "modified_at": "2001-01-01T00:00:00Z",
        },
    }
    paths = collection("/users", "userId", user, {"type": "object"})
    paths["/users"]["get"] = operation("list", {"type": "array", "items": user}, "200")
    for name in ("put", "patch"):
        paths["/users/{userId}"][name] = operation(name, user, "200", {"type": "object"})
    return paths


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with served(tmp_path_factory.mktemp("users"), with_paths(user_paths())) as client:
        yield client


def test_a_member_that_nobody_sent_is_shown_if_it_is_required_or_of_the_server(
    users: httpx.Client,
) -> None:
    created = users.post("/users", json={"name": "Rex"}).json()
    assert {*created} == {"id", "name", "plan", "createdAt", "modified_at"}
    assert created["plan"] == "free"
    older = users.post("/users", json={"name": "Rex", "age": 3}).json()
    changed = users.put(f"/users/{older['id']}", json={"name": "Max"}).json()
    assert {*changed} == {*created}
    assert changed in users.get("/users").json()


def test_an_item_of_a_list_has_no_members_that_nobody_sent(tmp_path: Path) -> None:
    paths = user_paths()
    listed = json.loads(json.dumps(paths["/users"]["get"]))
    item = listed["responses"]["200"]["content"]["application/json"]["schema"]["items"]
    item["required"].append("tag")
    item["properties"]["tag"] = TEXT
    item["example"]["tag"] = "new"
    paths["/users"]["get"] = listed
    with served(tmp_path, with_paths(paths)) as client:
        created = client.post("/users", json={"name": "Rex"}).json()
        (shown,) = client.get("/users").json()
        assert {*shown} == {*created, "tag"}


def test_the_server_sets_when_a_record_was_made_and_changed(users: httpx.Client) -> None:
    before = users.get("/sandbox/clock").json()["data"]["now"]
    made = users.post("/users", json={"name": "a", "modified_at": "1999-01-01T00:00:00Z"}).json()
    assert (made["createdAt"], made["modified_at"]) == (before, before)
    users.post("/sandbox/clock/advance", json={"by": "P1D"})
    now = users.get("/sandbox/clock").json()["data"]["now"]
    assert now > before
    at = f"/users/{made['id']}"
    for method in ("PATCH", "PUT"):
        changed = users.request(method, at, json={"name": "b"}).json()
        assert (changed["createdAt"], changed["modified_at"]) == (before, now)
    sent = {"name": "a", "createdAt": "1999-01-01T00:00:00Z"}
    assert users.post("/users", json=sent).json()["createdAt"] == sent["createdAt"]
    assert users.get(at).json() == changed


def test_what_is_write_only_is_never_shown(users: httpx.Client) -> None:
    sent = {"name": "a", "password": "hunter2", "keys": [{"label": "k", "secret": "hunter2"}]}
    made = users.post("/users", json=sent)
    assert made.json()["keys"] == [{"label": "k"}]
    at = f"/users/{made.json()['id']}"
    every = [made, *(users.request(method, at, json=sent) for method in ("PUT", "PATCH"))]
    every += [users.get(at), users.get("/users")]
    assert not any(word in one.text for one in every for word in ("hunter2", "password"))


def test_what_only_a_request_declares_as_write_only_is_never_shown(tmp_path: Path) -> None:
    body = {"type": "object", "properties": {"pin": {**TEXT, "writeOnly": True}}}
    content = with_paths(collection("/cards", "cardId", {"type": "object"}, body))
    with served(tmp_path, content) as client:
        created = client.post("/cards", json={"pin": "4711", "name": "a"}).json()
        assert created["name"] == "a"
        assert "pin" not in created
        assert "pin" not in client.get(f"/cards/{created['id']}").json()


def secret_members(*secret: str, **others: Any) -> dict[str, Any]:
    """A schema with two members, of which some are ``writeOnly``."""
    own = {one: {**TEXT, "writeOnly": one in secret} for one in ("name", "pin")}
    return closed("name", **others, **own)


def configs(*, wrapped: str = "", listed: Any = None) -> dict[str, Any]:
    """Configurations whose request has members that are ``writeOnly``, and the response not, as
    Jira has them. The response to PUT has no body."""
    sent = secret_members("name", "pin")
    sent = closed(**{wrapped: sent}) if wrapped else sent
    config = secret_members("pin", id=WHOLE)
    paths = collection("/configs", "configId", config, sent)
    items = {"type": "array", "items": listed or secret_members("name", "pin")}
    paths["/configs"]["get"] = operation("list", closed(values=items, total=WHOLE), "200")
    paths["/configs/{configId}"]["put"] = {
        "operationId": "put",
        "requestBody": media(sent),
        "responses": {"204": {"description": "ok"}},
    }
    return with_paths(paths)


@pytest.mark.parametrize("wrapped", ["", "config"])
def test_what_is_write_only_in_the_request_alone_is_kept_if_the_response_declares_it(
    tmp_path: Path, wrapped: str
) -> None:
    def body(name: str) -> dict[str, Any]:
        record = {"name": name, "pin": "4711"}
        return {wrapped: record} if wrapped else record

    with served(tmp_path, configs(wrapped=wrapped)) as client:
        assert client.post("/configs", json=body("a")).json() == {"id": 1, "name": "a"}
        client.post("/configs", json=body("b"))
        assert client.put("/configs/1", json=body("c")).status_code == 204
        assert client.get("/configs/1").json() == {"id": 1, "name": "c"}
        assert client.get("/configs").json() == {"values": [{}, {}], "total": 2}


def test_what_a_request_declares_as_write_only_is_kept_if_only_get_declares_it(
    tmp_path: Path,
) -> None:
    content = configs(listed=closed(id=WHOLE, name=TEXT))
    content["paths"]["/configs"]["post"]["responses"] = shown(closed("id", id=WHOLE), "201")
    with served(tmp_path, content) as client:
        sent = {"name": "a", "pin": "4711"}
        assert client.post("/configs", json=sent).json() == {"id": 1}
        assert client.get("/configs/1").json() == {"id": 1, "name": "a"}
        assert client.get("/configs").json()["values"] == [{"id": 1, "name": "a"}]
        assert client.put("/configs/1", json={**sent, "name": "b"}).status_code == 204
        assert client.get("/configs/1").json() == {"id": 1, "name": "b"}


def test_what_one_response_declares_as_write_only_is_not_in_that_one(tmp_path: Path) -> None:
    content = configs()
    own = content["paths"]["/configs/{configId}"]["get"]["responses"]["200"]["content"]
    own["application/json"]["schema"] = secret_members("name", id=WHOLE)
    with served(tmp_path, content) as client:
        assert client.post("/configs", json={"name": "hunter2"}).json()["name"] == "hunter2"
        assert client.get("/configs/1").json() == {"id": 1}


def test_what_the_response_declares_as_write_only_is_in_no_other_response(tmp_path: Path) -> None:
    content = configs()
    post, get = content["paths"]["/configs"]["post"], content["paths"]["/configs/{configId}"]["get"]
    post["requestBody"] = media({"type": "object"})
    get["responses"] = shown({"type": "object", "properties": {"id": WHOLE, "name": TEXT}})
    with served(tmp_path, content) as client:
        client.post("/configs", json={"name": "a", "pin": "4711"})
        assert client.get("/configs/1").json() == {"id": 1, "name": "a"}


def test_a_list_has_an_item_for_each_record_whatever_it_can_show_of_it(tmp_path: Path) -> None:
    listed = closed(name={**TEXT, "maxLength": 12}, note=TEXT)
    with served(tmp_path, configs(listed=listed)) as client:
        client.post("/configs", json={"name": "too long for lists"})
        client.post("/configs", json={"name": "b"})
        page = client.get("/configs").json()
        assert page == {"values": [{}, {"name": "b"}], "total": 2}


def customers(**methods: Any) -> dict[str, Any]:
    """Customers that are posted as forms, as Stripe has them."""
    extra = {"type": "object", "additionalProperties": TEXT}
    customer = closed("id", "name", id=TEXT, name=NULLABLE, metadata=extra)
    form = {"type": "object", "properties": {"name": TEXT, "metadata": extra}}
    paths = collection("/customers", "customer", customer, form)
    item = paths["/customers/{customer}"]
    item |= {name: operation(name, customer, "200", form) for name in ("post", *methods)}
    text = json.dumps(paths)
    paths = json.loads(text)
    encoding = {"metadata": {"style": "deepObject", "explode": True}}
    for one in (paths["/customers"]["post"], paths["/customers/{customer}"]["post"]):
        media_type = {"schema": form, "encoding": encoding}
        one["requestBody"] = {"content": {"application/x-www-form-urlencoded": media_type}}
    return with_paths(paths)


def test_a_form_that_is_posted_to_an_item_changes_it(tmp_path: Path) -> None:
    with served(tmp_path, customers()) as client:
        sent = {"name": "Ann", "metadata[a]": "1"}
        created = client.post("/customers", data=sent).json()
        assert (created["name"], created["metadata"]) == ("Ann", {"a": "1"})
        at = f"/customers/{created['id']}"
        changed = client.post(at, data={"name": "Bob", "metadata[b]": "2"}).json()
        assert changed == {**created, "name": "Bob", "metadata": {"a": "1", "b": "2"}}
        assert client.get(at).json() == changed
        assert client.post("/customers/none", data=sent).status_code == 404


@pytest.mark.parametrize(
    ("gone", "method", "reason"),
    [("", "put", "the path has PUT for that"), ("get", "delete", "the path has no GET")],
)
def test_a_post_to_an_item_that_is_no_change_is_reported(
    tmp_path: Path, gone: str, method: str, reason: str
) -> None:
    content = customers(**{method: {}})
    content["paths"]["/customers/{customer}"].pop(gone, None)
    *_, line = load_contract(written(tmp_path, content), stateful=True).inferred.lines()
    post = "Not stateful: POST /customers/{customer}: it is no change of a record"
    assert line == f"{post}: {reason}"


@pytest.mark.parametrize("about", ["metadata", "sys"])
def test_an_id_may_be_in_an_object_about_the_record(tmp_path: Path, about: str) -> None:
    """As Kubernetes has it, whose schemas require nothing."""
    named = {"type": "object", "properties": {"name": TEXT, "note": TEXT}}
    thing = {"type": "object", "properties": {"data": {"type": "object"}, about: named}}
    content = with_paths(collection("/things", "name", thing, thing))
    rest = {"type": "object", "properties": {"items": {"type": "array", "items": thing}}}
    content["paths"]["/things"]["get"] = operation("list", rest, "200")
    for method in ("put", "patch"):
        change = operation(method, thing, "200", thing)
        content["paths"]["/things/{name}"][method] = change
    content["paths"]["/things/{name}"]["delete"] = operation("remove", thing, "200")
    with served(tmp_path, content) as client:
        sent = {"data": {"a": "1"}, about: {"name": "rex", "note": "n"}}
        assert client.post("/things", json=sent).json() == sent
        other = client.post("/things", json={"data": {"a": "2"}}).json()
        assert client.get("/things/rex").json() == sent
        assert client.get("/things").json()["items"] == [sent, other]
        assert client.get(f"/things/{other[about]['name']}").json() == other
        changed = client.patch("/things/rex", json={about: {"name": "max", "note": "m"}}).json()
        assert changed == {**sent, about: {"name": "rex", "note": "m"}}
        replaced = client.put("/things/rex", json={"data": {"a": "3"}}).json()
        assert replaced == {"data": {"a": "3"}, about: {"name": "rex"}}
        assert client.delete("/things/rex").json() == replaced
        assert client.get("/things").json()["items"] == [other]


def test_it_is_reported_that_a_document_has_no_collection(tmp_path: Path) -> None:
    file = written(tmp_path, with_paths({"/things": {"get": operation("list", {}, "200")}}))
    expected = [
        "Not stateful: no path with POST has a path with one more parameter below it, or a list"
    ]
    assert [*load_contract(file, stateful=True).inferred.lines()] == expected
    assert [*load_contract(file).inferred.lines()] == []


@pytest.mark.parametrize(
    ("headers", "listed", "first"),
    [
        ({}, closed(), "Not stateful: POST /things: no response shows the 'id' of a new record"),
        ({"Location": {"schema": TEXT}}, closed(), "Stateful /things: records by 'id'"),
        ({}, {"type": "array"}, "Stateful /things: records by 'id'"),
    ],
)
def test_a_collection_whose_ids_no_client_learns_is_left_out(
    tmp_path: Path, headers: Any, listed: Any, first: str
) -> None:
    content = with_paths(collection("/things", "thingId", {"type": "object"}, {"type": "object"}))
    things = content["paths"]["/things"]
    things["post"]["responses"] = {"201": {"description": "made", "headers": headers}}
    things["get"] = operation("list", listed, "200")
    found = load_contract(written(tmp_path, content), stateful=True).inferred
    assert next(found.lines()).startswith(first)


def test_instants_are_those_of_the_operation_that_shows_them(tmp_path: Path) -> None:
    """As GitHub's variables: POST and PATCH return nothing of the record."""
    moment = {**TEXT, "format": "date-time", "example": "2001-01-01T00:00:00Z"}
    instants = {"created_at": moment, "updated_at": moment}
    thing = closed("name", *instants, name=TEXT, **instants)
    content = with_paths(collection("/things", "name", thing, {"properties": {"name": TEXT}}))
    content["paths"]["/things"]["get"] = operation("list", closed(things={"items": thing}), "200")
    content["paths"]["/things"]["post"]["responses"] = shown(closed(), "201")
    content["paths"]["/things/{name}"]["patch"] = operation("patch", {}, "204", {})
    with served(tmp_path, content) as client:
        assert client.post("/things", json={"name": "a"}).json() == {}
        created = client.get("/things/a").json()
        now = client.get("/sandbox/clock").json()["data"]["now"]
        assert [created[one] for one in instants] == [now, now]
        client.post("/sandbox/clock/advance", json={"by": "P1D"})
        assert client.patch("/things/a", json={}).content == b""
        changed = client.get("/things/a").json()
        assert changed["created_at"] == now < changed["updated_at"]
        assert client.get("/things").json()["things"] == [changed]


JOB = closed("id", "status", id=TEXT, status={**TEXT, "enum": ["queued", "running", "done"]})


def jobs() -> dict[str, Any]:
    """Jobs whose POST shows nothing; their list and their items have examples that differ."""
    content = with_paths(collection("/jobs", "jobId", JOB, {"type": "object"}))
    listed = closed("items", items={"type": "array", "items": JOB})
    content["paths"]["/jobs"]["get"] = operation("list", listed, "200")
    location = {"headers": {"Location": {"schema": TEXT}}}
    content["paths"]["/jobs"]["post"]["responses"] = {"202": {"description": "ok", **location}}
    put = {"responses": {"204": {"description": "ok"}}, "requestBody": media({"type": "object"})}
    item = content["paths"]["/jobs/{jobId}"]
    item["put"] = {"operationId": "put", **put}
    for one, status in ((item["get"], "done"), (content["paths"]["/jobs"]["get"], "queued")):
        job = {"id": "j", "status": status}
        body = one["responses"]["200"]["content"]["application/json"]
        body["example"] = {"items": [job]} if status == "queued" else job
    return content


def test_a_value_that_nobody_sent_is_the_same_in_all_responses(tmp_path: Path) -> None:
    with served(tmp_path, jobs()) as client:
        at = client.post("/jobs", json={}).headers["location"]
        assert client.get("/jobs").json()["items"] == [client.get(at).json()]
        sent = {"status": "running"}
        at = client.post("/jobs", json=sent).headers["location"]
        assert client.get(at).json()["status"] == "running"
        assert client.put(at, json={}).status_code == 204
        assert client.get("/jobs").json()["items"][1] == client.get(at).json()
        assert client.get(at).json()["status"] == "running"


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
def test_a_record_has_no_required_members_of_what_it_is_not(tmp_path: Path, keyword: str) -> None:
    """As Stripe's customers, which may be deleted ones."""
    live: Any = {"type": "object", "required": ["id", "name"]}
    live["properties"] = {"id": TEXT, "name": TEXT, "deleted": FLAG}
    mark = {"id": TEXT, "deleted": {"enum": [True]}}
    gone = {"type": "object", "required": [*mark], "properties": mark}
    content = with_paths(collection("/things", "thingId", live, {"type": "object"}))
    get = operation("created", {keyword: [gone, live]}, "200")
    content["paths"]["/things/{thingId}"]["get"] = get
    with served(tmp_path, content) as client:
        created = client.post("/things", json={"name": "a"}).json()
        assert {*created} == {"id", "name"}
        assert client.get(f"/things/{created['id']}").json() == created


def below(path: str, item: str, record: Any) -> dict[str, Any]:
    """A collection below the items of another one, with a list."""
    paths = collection(path, item, record, {"type": "object"}, create=f"create{item}")
    listed = closed("items", items={"type": "array", "items": record})
    paths[path]["get"] = operation(f"list{item}", listed, "200")
    given = {"in": "path", "required": True, "schema": WHOLE}
    names = [one[1:-1] for one in path.split("/") if one.startswith("{")]
    for one in paths.values():
        one.setdefault("parameters", []).extend({"name": name, **given} for name in names)
    paths[f"{path}/{{{item}}}"]["put"] = operation(f"put{item}", record, "200", {"type": "object"})
    return paths


def tickets(member: str, parameter: str, identity: Any = WHOLE) -> dict[str, Any]:
    """Tickets with comments, which have notes."""
    ticket = closed("id", id=WHOLE, name=TEXT)
    comment = closed("id", id=WHOLE, text=TEXT, **{member: identity})
    note = closed("id", id=WHOLE)
    paths = collection("/tickets", "ticketId", ticket, {"type": "object"}, create="ticket")
    gone = {"204": {"description": "gone"}, "404": {"description": "none"}}
    paths["/tickets/{ticketId}"]["delete"] = {"operationId": "drop", "responses": gone}
    paths["/tickets/{ticketId}"]["parameters"][0]["schema"] = WHOLE
    at = f"/tickets/{{{parameter}}}/comments"
    return with_paths(
        {
            **paths,
            **below(at, "commentId", comment),
            **below(f"{at}/{{commentId}}/notes", "noteId", note),
        }
    )


@pytest.mark.parametrize("identity", [WHOLE, TEXT], ids=["number", "text"])
@pytest.mark.parametrize(
    ("member", "parameter"),
    [("ticketId", "ticketId"), ("ticket_id", "id"), ("ticketId", "ticket"), ("ticket", "ticket")],
)
def test_a_record_has_the_id_of_what_it_belongs_to(
    tmp_path: Path, member: str, parameter: str, identity: Any
) -> None:
    with served(tmp_path, tickets(member, parameter, identity)) as client:
        number = [client.post("/tickets", json={}).json()["id"] for _ in range(3)][-1]
        at, key = f"/tickets/{number}/comments", number if identity == WHOLE else str(number)
        created = client.post(at, json={"text": "a"}).json()
        assert created[member] == key
        assert client.put(f"{at}/{created['id']}", json={"text": "b"}).json()[member] == key
        other = 77 if identity == WHOLE else "77"
        assert client.post(at, json={member: other}).json()[member] == other


def given(path: str, *names: str, **operations: Any) -> dict[str, Any]:
    """A path whose parameters have these names."""
    own = [{"name": one, "in": "path", "required": True, "schema": WHOLE} for one in names]
    return {path.format(*(f"{{{one}}}" for one in names)): {"parameters": own, **operations}}


def test_paths_may_have_other_names_for_the_same_parameter(tmp_path: Path) -> None:
    order = closed("id", "text", "userId", id=WHOLE, text=TEXT, userId=WHOLE)
    orders = {"type": "array", "items": order}
    empty = {status: {"description": "no body"} for status in ("204", "404")}
    gone = {"operationId": "delUser", "responses": empty}
    ungone = {**gone, "operationId": "delOrder"}
    body, text = closed("title", title=TEXT), closed("text", text=TEXT)
    change = operation("putOrder", order, "200", text)
    paths = {
        **given("/users", post=operation("addUser", THING, "201", body)),
        **given("/users/{}", "userId", get=operation("getUser", THING, "200")),
        **given("/users/{}", "id", put=operation("putUser", THING, "200", body), delete=gone),
        **given("/users/{}/orders", "id", post=operation("addOrder", order, "201", text)),
        **given("/users/{}/orders", "user", get=operation("listOrders", orders, "200")),
        **given("/users/{}/orders/{}", "userId", "id", get=operation("getOrder", order, "200")),
        **given("/users/{}/orders/{}", "u", "o", put=change, delete=ungone),
    }
    found = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred
    assert [[*one.operations.values()] for one in found.collections] == [
        ["addUser", "getUser", "putUser", "delUser"],
        ["addOrder", "listOrders", "getOrder", "putOrder", "delOrder"],
    ]
    with served(tmp_path, with_paths(paths)) as client:
        assert [client.post("/users", json={"title": one}).json()["id"] for one in "AB"] == [1, 2]
        assert client.put("/users/2", json={"title": "C"}).json() == {"id": 2, "title": "C"}
        assert client.get("/users/2").json() == {"id": 2, "title": "C"}
        absent = client.put("/users/9", json={"title": "C"})
        assert absent.status_code == 404
        made = [client.post("/users/2/orders", json={"text": one}) for one in "xy"]
        second = {"id": 2, "text": "y", "userId": 2}
        assert [one.json() for one in made] == [{"id": 1, "text": "x", "userId": 2}, second]
        assert client.get("/users/2/orders/2").json() == second
        changed = client.put("/users/2/orders/2", json={"text": "z"}).json()
        assert changed == (second := {**second, "text": "z"})
        assert client.delete("/users/2/orders/1").status_code == 204
        assert client.get("/users/2/orders").json() == [second]
        assert client.get("/users/1/orders").json() == []
        assert client.get("/users/1/orders/2").status_code == 404
        assert client.post("/users/9/orders", json={"text": "z"}).status_code == 404
        assert client.delete("/users/2").status_code == 204
        assert client.get("/users/2").status_code == 404
        assert client.get("/users/2/orders/2").status_code == 404


def test_an_id_can_be_in_each_path_of_the_item(tmp_path: Path) -> None:
    thing = closed("id", "title", id=TEXT, title=TEXT)
    paths = collection("/things", "thingId", thing, closed("title", title=TEXT))
    deleted = {"operationId": "del", "responses": {"204": {"description": "gone"}}}
    with served(tmp_path, with_paths({**paths, **given("/things/{}", "id", delete=deleted)})) as to:
        made = to.post("/things", json={"title": "a"}).json()
        assert made["id"].isdecimal()
        assert to.delete(f"/things/{made['id']}").status_code == 204
        assert to.get(f"/things/{made['id']}").status_code == 404


@pytest.mark.parametrize(
    ("sent", "schema", "kept"),
    [
        ("12.5", TEXT, "12.5"),
        ("-3", TEXT, "-3"),
        ("123456789012345678901.10", TEXT, "123456789012345678901.10"),
        ('"4"', WHOLE, 4),
        ('"-0.25"', {"type": "number"}, -0.25),
        ('"4 pieces"', {"const": 7}, 7),
        ('"0x4"', {"const": 7}, 7),
        ("4", {**TEXT, "pattern": "^[a-z]+$", "example": "four"}, "four"),
        ('"4"', {**WHOLE, "minimum": 5, "example": 7}, 7),
        ("true", {**TEXT, "example": "yes"}, "yes"),
        ('"2"', {**FLAG, "example": True}, True),
    ],
)
def test_a_number_is_kept_as_the_text_that_a_response_requires(
    tmp_path: Path, sent: str, schema: Any, kept: Any
) -> None:
    """And a text as the number. As Pydantic has a Decimal: a request may have either."""
    thing = closed("id", "value", id=WHOLE, value=schema)
    paths = collection("/things", "id", thing, {"type": "object", "properties": {"value": True}})
    with served(tmp_path, with_paths(paths)) as client:
        as_json = {"Content-Type": "application/json"}
        made = client.post("/things", content=f'{{"value": {sent}}}', headers=as_json)
        assert (made.status_code, made.json()) == (201, {"id": 1, "value": kept})
        assert client.get("/things/1").json() == made.json()


def test_a_response_may_be_a_list_of_the_one_record(tmp_path: Path) -> None:
    """As those of Supabase."""
    title, one = closed("title", title=TEXT), {"type": "array", "items": THING, "maxItems": 1}
    paths = collection("/things", "id", one, title)
    item = paths["/things/{id}"]
    item["get"]["responses"] = shown(THING)
    item["patch"] = operation("change", one, "200", title)
    item["delete"] = operation("del", one, "200")
    paths["/things"]["get"] = operation("list", {"type": "array", "items": THING}, "200")
    found = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred
    assert [{*one.operations} for one in found.collections] == [
        {"create", "page", "get", "change", "delete"}
    ]
    with served(tmp_path, with_paths(paths)) as client:
        thing, other = {"id": 1, "title": "a"}, {"id": 1, "title": "b"}
        assert client.post("/things", json={"title": "a"}).json() == [thing]
        assert client.get("/things/1").json() == thing
        assert client.get("/things").json() == [thing]
        assert client.patch("/things/1", json={"title": "b"}).json() == [other]
        assert client.get("/things/1").json() == other
        assert client.delete("/things/1").json() == [other]
        assert client.get("/things/1").status_code == 404


def test_a_list_that_cannot_have_one_record_is_none_of_it(tmp_path: Path) -> None:
    two = {"type": "array", "items": THING, "minItems": 2}
    paths = collection("/things", "id", two, closed("title", title=TEXT))
    paths["/things/{id}"]["get"]["responses"] = shown(THING)
    paths["/things"]["get"] = operation("list", {"type": "array", "items": THING}, "200")
    with served(tmp_path, with_paths(paths)) as client:
        assert len(client.post("/things", json={"title": "a"}).json()) == 2
        assert client.get("/things").json() == [{"id": 1, "title": "a"}]


SEVERAL = {
    "a list": lambda thing: {"type": "array", "items": thing},
    "a list in an object": lambda thing: closed(items={"type": "array", "items": thing}),
}


@pytest.mark.parametrize("several", SEVERAL.values(), ids=SEVERAL)
def test_what_takes_several_records_is_left_out(tmp_path: Path, several: Any) -> None:
    paths = collection("/things", "id", several(THING), several(THING))
    paths["/things/{id}"]["get"]["responses"] = shown(THING)
    paths["/things"]["get"] = operation("list", several(THING), "200")
    found = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred
    assert [*found.lines()] == ["Not stateful: POST /things: it takes several records"]


def test_names_of_several_records_are_no_record(tmp_path: Path) -> None:
    names, tag = {"type": "array", "items": TEXT}, closed("name", name=TEXT)
    paths = collection("/tags", "name", {"type": "array", "items": tag}, closed(tags=names))
    paths["/tags/{name}"]["get"]["responses"] = shown(tag)
    found = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred
    assert [*found.lines()] == ["Not stateful: POST /tags: it takes several records"]
    paths["/tags"]["post"]["requestBody"] = media(closed(tags=names, name=TEXT))
    found = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred
    assert [one.path for one in found.collections] == ["/tags"]


def test_a_value_beside_metadata_with_the_id_is_no_id(tmp_path: Path) -> None:
    """As a PriorityClass of Kubernetes."""
    known = closed("metadata", "value", metadata=closed("name", name=TEXT), value=WHOLE)
    paths = collection("/classes", "name", known, known)
    with served(tmp_path, with_paths(paths)) as client:
        sent = {"metadata": {"name": "high"}, "value": 1000}
        assert client.post("/classes", json=sent).json() == sent
        assert client.get("/classes/high").json() == sent


def test_a_record_may_have_a_list_of_others_like_it(tmp_path: Path) -> None:
    part = closed(title=TEXT)
    parts = {"type": "array", "items": part}
    for sent in (closed(title=TEXT, parts=parts), closed(parts=parts)):
        thing = closed("id", id=WHOLE, title=TEXT, parts=parts, main=part)
        paths = collection("/things", "id", thing, sent)
        found = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred
        assert [one.path for one in found.collections] == ["/things"]


@pytest.mark.parametrize(
    "file",
    [{**TEXT, "format": "binary"}, {"contentMediaType": "image/png"}],
    ids=["format", "media type"],
)
@pytest.mark.parametrize("is_list", [False, True])
def test_a_file_is_in_no_response_that_does_not_declare_it(
    tmp_path: Path, file: Any, is_list: bool
) -> None:
    form = closed(title=TEXT, raw=TEXT, file={"type": "array", "items": file} if is_list else file)
    open_thing: dict[str, Any] = {**THING, "additionalProperties": {}}
    for response, names in (
        (open_thing, {"id", "title", "raw"}),
        (closed(*THING["required"], **THING["properties"], file=True), {"id", "title", "file"}),
    ):
        paths = collection("/things", "id", response, form)
        paths["/things"]["post"]["requestBody"] = {
            "content": {"multipart/form-data": {"schema": form}}
        }
        with served(tmp_path, with_paths(paths)) as client:
            sent: Any = {"data": {"title": "a", "raw": "b"}, "files": {"file": ("a.png", b"c")}}
            made = client.post("/things", **sent).json()
            assert made.keys() == names
            assert client.get("/things/1").json() == made


def test_what_belongs_to_items_that_are_only_changed_does_not_need_them(tmp_path: Path) -> None:
    title = closed("title", title=TEXT)
    paths = {
        **given("/users/{}", "id", get=operation("getUser", THING, "200")),
        **collection("/users/{id}/things", "thingId", THING, title),
    }
    paths["/users/{id}"]["put"] = operation("putUser", THING, "200", title)
    for path in ("/users/{id}/things", "/users/{id}/things/{thingId}"):
        own = {"name": "id", "in": "path", "required": True, "schema": WHOLE}
        paths[path].setdefault("parameters", []).append(own)
    with served(tmp_path, with_paths(paths)) as client:
        assert client.post("/users/7/things", json={"title": "a"}).status_code == 201
        assert client.get("/users/7").status_code == 404
    paths["/users/{id}"]["put"] = operation("putUser", THING, "201", title)
    with served(tmp_path, with_paths(paths)) as client:
        assert client.post("/users/7/things", json={"title": "a"}).status_code == 404


def test_items_elsewhere_may_be_known_by_their_examples(tmp_path: Path) -> None:
    bare = {"type": "object", "example": {"id": "N_1", "name": "x", "orgId": "1"}}
    paths = {
        **given("/orgs/{}/nets", "orgId", post=operation("add", bare, "201", {"type": "object"})),
        **given("/nets/{}", "netId", get=operation("get", bare, "200")),
    }
    paths["/nets/{netId}"]["parameters"][0]["schema"] = TEXT
    paths["/nets/{netId}"]["put"] = operation("put", bare, "200", {"type": "object"})
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/orgs/1/nets", json={"name": "a"}).json()
        assert client.get(f"/nets/{made['id']}").json() == made
        other = {"type": "object", "example": {"id": "N_1", "other": "x"}}
        paths["/nets/{netId}"]["get"]["responses"] = shown(other)
        found = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred
        assert not any(one.items for one in found.collections)


def test_what_puts_a_record_may_have_another_name_for_its_id(tmp_path: Path) -> None:
    put = operation("put", THING, "201", closed("title", title=TEXT))
    paths = {
        **given("/things/{}", "thingId", get=operation("get", THING, "200")),
        **given("/things/{}", "id", put=put),
    }
    with served(tmp_path, with_paths(paths)) as client:
        thing = {"id": 7, "title": "a"}
        assert client.put("/things/7", json={"title": "a"}).json() == thing
        assert client.get("/things/7").json() == thing


def test_items_with_paths_of_their_own_share_parameters_by_their_names(tmp_path: Path) -> None:
    made, text = operation("add", THING, "201", closed("title", title=TEXT)), "/posts/{}/of/{}"
    paths = {
        **given("/posts/{}/of/{}/notes", "post", "user", post=made),
        **given("/of/{}/notes/{}", "user", "id", get=operation("get", THING, "200")),
    }
    with served(tmp_path, with_paths(paths)) as client:
        note = client.post(f"{text.format(7, 8)}/notes", json={"title": "a"}).json()
        assert client.get(f"/of/8/notes/{note['id']}").json() == note
        assert client.get(f"/of/7/notes/{note['id']}").status_code == 404


def test_a_record_is_there_as_long_as_what_it_belongs_to(tmp_path: Path) -> None:
    content = tickets("ticketId", "id")
    del content["paths"]["/tickets/{id}/comments"]["get"]["responses"]["404"]
    with served(tmp_path, content) as client:
        at = "/tickets/1/comments"
        assert client.post(at, json={}).status_code == 404
        client.post("/tickets", json={})
        client.post("/tickets", json={})
        for ticket in (1, 2):
            comments = f"/tickets/{ticket}/comments"
            assert client.post(comments, json={}).json()["id"] == 1
            assert client.post(f"{comments}/1/notes", json={}).status_code == 201
        assert client.post(f"{at}/9/notes", json={}).status_code == 404
        assert client.delete("/tickets/1").status_code == 204
        assert client.get(f"{at}/1").status_code == 404
        assert client.get(f"{at}/1/notes").status_code == 404
        assert client.get(f"{at}/1/notes/1").status_code == 404
        assert client.get(at).json() == {"items": []}
        assert client.get("/tickets/2/comments/1/notes/1").status_code == 200


def test_put_makes_a_record_if_it_declares_201(tmp_path: Path) -> None:
    content = things({})
    thing = closed("id", "name", id=WHOLE, name=TEXT)
    put = operation("put", thing, "201", {"type": "object"})
    content["paths"]["/things/{thingId}"]["put"] = put
    put["responses"] |= shown(thing, "200")
    with served(tmp_path, content) as client:
        created = client.put("/things/7", json={"name": "a"})
        assert (created.status_code, created.json()) == (201, {"id": 7, "name": "a"})
        changed = client.put("/things/7", json={"name": "b"})
        assert (changed.status_code, changed.json()) == (200, {"id": 7, "name": "b"})
        assert client.get("/things").json()["data"] == [changed.json()]
        assert client.put("/things/text", json={"name": "b"}).json()["id"] != "text"


def settings(**members: Any) -> dict[str, Any]:
    """Settings that are made by PUT only."""
    setting = closed("value", value=TEXT, **members)
    paths = collection("/settings", "key", setting, {})
    item = paths["/settings/{key}"]
    item["put"] = operation("put", setting, "200", {"type": "object"})
    item["delete"] = {"operationId": "drop", "responses": {"204": {"description": "gone"}}}
    listed = {"type": "array", "items": setting}
    paths["/settings"] = {"get": operation("list", listed, "200")}
    paths["/profile"] = {
        "get": operation("profile", setting, "200"),
        "put": operation("putProfile", setting, "200", {"type": "object"}),
    }
    return with_paths(paths)


def test_items_without_post_are_made_by_put(tmp_path: Path) -> None:
    with served(tmp_path, settings(key=TEXT)) as client:
        assert client.get("/settings/a").status_code == 404
        made = client.put("/settings/a", json={"value": "1"})
        assert (made.status_code, made.json()) == (200, {"key": "a", "value": "1"})
        assert client.get("/settings/a").json() == made.json()
        assert client.get("/settings").json() == [made.json()]
        assert client.put("/settings/a", json={"value": "2"}).json()["value"] == "2"
        assert client.delete("/settings/a").status_code == 204
        assert client.get("/settings").json() == []


def test_what_put_changes_and_is_not_kept_is_reported(tmp_path: Path) -> None:
    found = load_contract(written(tmp_path, settings()), stateful=True).inferred
    assert [*found.lines()] == [
        "Not stateful: GET /settings: its response cannot have a record with 'id'",
        "Not stateful: PUT /profile: the last segment of the path is no id",
    ]


def test_the_id_in_a_list_is_called_as_those_of_the_other_collections(tmp_path: Path) -> None:
    """As Asana's ``gid``, which no path names in a list alone."""
    content = messages(lambda one: closed(data={"type": "array", "items": one}))
    text = json.dumps(content).replace('"id"', '"gid"')
    other = collection("/rooms", "roomGid", closed(gid=TEXT), {"type": "object"})
    content = json.loads(text)
    content["paths"] |= other
    with served(tmp_path, content) as client:
        room = client.post("/rooms", json={}).json()["gid"]
        created = client.post(f"/rooms/{room}/messages", json={"text": "x"}).json()
        assert client.get(f"/rooms/{room}/messages").json() == {"data": [created]}


def messages(listed: Any, *, shown: Any = None) -> dict[str, Any]:
    """Messages of a room, in a list, without a path of their own."""
    message = closed("id", "text", id=WHOLE, text=TEXT)
    post = operation("send", shown or message, "201", closed(text=TEXT))
    post["responses"]["201"]["headers"] = {"Location": {"schema": TEXT}}
    room = {"name": "room", "in": "path", "required": True, "schema": TEXT}
    get = operation("list", listed(message), "200")
    return with_paths({"/rooms/{room}/messages": {"parameters": [room], "get": get, "post": post}})


def test_what_is_posted_to_a_list_whose_items_have_no_path_is_in_it(tmp_path: Path) -> None:
    content = messages(lambda one: {"type": "array", "items": one})
    with served(tmp_path, content) as client:
        created = [client.post("/rooms/a/messages", json={"text": text}) for text in "xy"]
        assert client.get("/rooms/a/messages").json() == [one.json() for one in created]
        assert [one.json() for one in created] == [{"id": 1, "text": "x"}, {"id": 2, "text": "y"}]
        assert client.get("/rooms/b/messages").json() == []
        assert "location" not in created[0].headers


@pytest.mark.parametrize("posted", [None, closed("sent", sent=FLAG)], ids=["nothing", "a flag"])
@pytest.mark.parametrize("wrapper", ["", "messages"])
def test_a_client_may_learn_the_id_from_the_list_alone(
    tmp_path: Path, posted: Any, wrapper: str
) -> None:
    def listed(one: Any) -> Any:
        items = {"type": "array", "items": one}
        return closed(**{wrapper: items}) if wrapper else items

    content = messages(listed, shown=posted)
    response = content["paths"]["/rooms/{room}/messages"]["post"]["responses"]["201"]
    del response["headers"]
    if posted is None:
        del response["content"]
    with served(tmp_path, content) as client:
        for text in "xy":
            assert client.post("/rooms/a/messages", json={"text": text}).status_code == 201
        shown = client.get("/rooms/a/messages").json()
        assert (shown[wrapper] if wrapper else shown) == [
            {"id": 1, "text": "x"},
            {"id": 2, "text": "y"},
        ]


@pytest.mark.parametrize(
    ("listed", "posted", "lines"),
    [
        (
            lambda _: closed(messages={"type": "array", "items": closed(text=TEXT)}),
            None,
            ["GET /rooms/{room}/messages: its response cannot have a record with 'id'"],
        ),
        (
            lambda one: closed(pinned={"type": "array", "items": one}),
            None,
            ["no path with POST has a path with one more parameter below it, or a list"],
        ),
    ],
    ids=["no id in the list", "another list"],
)
def test_a_list_that_cannot_have_what_is_posted_is_left_out(
    tmp_path: Path, listed: Any, posted: Any, lines: list[str]
) -> None:
    file = written(tmp_path, messages(listed, shown=posted))
    found = load_contract(file, stateful=True).inferred
    assert [*found.lines()] == [f"Not stateful: {one}" for one in lines]


def with_put_above(body: Any) -> dict[str, Any]:
    """PUT on the path of the collection, as the Petstore has it."""
    pet = closed("id", "name", id=WHOLE, name=TEXT)
    paths = collection("/pets", "petId", pet, closed(name=TEXT))
    paths["/pets"]["put"] = operation("put", pet, "200", body)
    return with_paths(paths)


def test_put_without_an_id_in_the_path_changes_the_record_that_its_body_names(
    tmp_path: Path,
) -> None:
    with served(tmp_path, with_put_above(closed(id=WHOLE, name=TEXT))) as client:
        created = [client.post("/pets", json={"name": name}).json() for name in ("Rex", "Max")]
        changed = {**created[1], "name": "Kim"}
        assert client.put("/pets", json=changed).json() == changed
        assert client.get(f"/pets/{changed['id']}").json() == changed
        assert client.get(f"/pets/{created[0]['id']}").json() == created[0]
        assert client.put("/pets", json={"id": 9, "name": "Kim"}).status_code == 404
        assert client.put("/pets", json={"name": "Kim"}).status_code == 404


def test_operations_about_a_whole_collection_are_named(tmp_path: Path) -> None:
    content = with_put_above(closed(name=TEXT))
    gone = {"operationId": "clear", "responses": {"204": {"description": "gone"}}}
    content["paths"]["/pets"] |= {"patch": operation("all", TEXT, "200"), "delete": gone}
    content["paths"]["/pets/{petId}"]["put"] = operation("put one", closed(name=TEXT), "200")
    lines = [*load_contract(written(tmp_path, content), stateful=True).inferred.lines()]
    assert lines[-3:] == [
        f"Not stateful: {method} /pets: it is not about one record"
        for method in ("PUT", "DELETE", "PATCH")
    ]
    with served(tmp_path, content) as client:
        pet = client.post("/pets", json={"name": "Rex"}).json()
        assert client.delete("/pets").status_code == 204
        assert client.get(f"/pets/{pet['id']}").json() == pet


def test_a_post_of_a_text_makes_a_record_of_the_example(tmp_path: Path) -> None:
    pet = closed("id", "name", id=WHOLE, name=TEXT)
    paths = collection("/pets", "petId", pet, None)
    paths["/pets"]["post"]["requestBody"] = {"content": {"text/plain": {"schema": TEXT}}}
    with served(tmp_path, with_paths(paths)) as client:
        headers = {"Content-Type": "text/plain"}
        first, second = (client.post("/pets", content="Rex", headers=headers) for _ in range(2))
        assert [one.json()["id"] for one in (first, second)] == [1, 2]
        assert client.get("/pets/2").json() == second.json()


def test_put_whose_path_and_body_have_no_id_is_left_out(tmp_path: Path) -> None:
    file = written(tmp_path, with_put_above(closed(name=TEXT)))
    *_, last = load_contract(file, stateful=True).inferred.lines()
    assert last == "Not stateful: PUT /pets: its path has no id, and its body no 'id'"


def test_paths_may_have_an_extension(tmp_path: Path) -> None:
    """As Twilio's."""
    call = closed("sid", "account_sid", sid=TEXT, account_sid=TEXT)
    account = closed("sid", sid=TEXT)
    paths = collection("/Accounts", "Sid", account, {"type": "object"}, create="account")
    paths |= collection("/Accounts/{AccountSid}/Calls", "Sid", call, {"type": "object"})
    above = {"name": "AccountSid", "in": "path", "required": True, "schema": TEXT}
    for path in ("/Accounts/{AccountSid}/Calls", "/Accounts/{AccountSid}/Calls/{Sid}"):
        paths[path].setdefault("parameters", []).append(above)
    paths = {f"{path}.json": one for path, one in paths.items()}
    made = paths["/Accounts/{AccountSid}/Calls.json"]["post"]["responses"]["201"]
    made["headers"] = {"Location": {"schema": TEXT}}
    with served(tmp_path, with_paths(paths)) as client:
        account = client.post("/Accounts.json", json={}).json()
        at = f"/Accounts/{account['sid']}/Calls"
        created = client.post(f"{at}.json", json={})
        assert created.json()["account_sid"] == account["sid"]
        assert client.get(f"{at}/{created.json()['sid']}.json").json() == created.json()
        assert client.get(created.headers["location"]).json() == created.json()
        assert client.post("/Accounts/none/Calls.json", json={}).status_code == 404


@pytest.mark.parametrize(("above", "item"), [("/", "/"), ("/", ""), ("", "/")])
def test_paths_may_end_with_a_slash(tmp_path: Path, above: str, item: str) -> None:
    """As those of Django REST framework, or as FastAPI's, where those of items have none."""
    content = document(WHOLE)
    path, one = content["paths"]
    content["paths"] = {
        f"{path}{above}": content["paths"][path],
        f"{one}{item}": content["paths"][one],
    }
    made = content["paths"][f"{path}{above}"]["post"]["responses"]["201"]
    made["headers"] = {"Location": {"schema": TEXT}}
    lines = [*load_contract(written(tmp_path, content), stateful=True).inferred.lines()]
    assert [one.partition(":")[0] for one in lines] == [f"Stateful /o/{{owner}}/pets{above}"]
    with served(tmp_path, content) as client:
        created = client.post(f"/o/1/pets{above}", json={"name": "Rex"})
        at = f"/o/1/pets/{created.json()['id']}{item}"
        assert created.headers["location"].endswith(at)
        assert client.get(at).json() == created.json()
        assert client.get(f"/o/1/pets{above}").json() == [created.json()]
        assert client.put(at, json={"name": "Kim"}).json()["name"] == "Kim"
        assert client.delete(at).status_code == 204
        assert client.get(f"/o/1/pets{above}").json() == []


def test_items_whose_id_is_not_that_of_the_path_are_not_made_by_put(tmp_path: Path) -> None:
    """As GitHub's collaborators: the path has a name, the response another record's number."""
    found = load_contract(written(tmp_path, settings(id=WHOLE)), stateful=True).inferred
    line = "Not stateful: PUT /settings/{key}: its response has no 'id' that can be new"
    assert next(found.lines()) == line


def accounts(within: str, **statuses: Any) -> dict[str, Any]:
    """Accounts that a JSON Patch changes."""
    account = closed("id", "name", id=WHOLE, name=TEXT, tags={"type": "array"}, note=TEXT)
    secret = {**TEXT, "writeOnly": True}
    account["properties"]["pin"] = secret
    whole = closed(within, **{within: account}) if within else account
    content = with_paths(collection("/accounts", "accountId", whole, {"type": "object"}))
    patch = operation("patch", whole, "200")
    patch["responses"] |= {status: {"description": "no"} for status in statuses.values()}
    steps = {"type": "array", "items": {"type": "object"}}
    patch["requestBody"] = {"content": {"application/json-patch+json": {"schema": steps}}}
    content["paths"]["/accounts/{accountId}"]["patch"] = patch
    return content


@pytest.mark.parametrize("above", ["", "/account"], ids=["of the record", "of the response"])
@pytest.mark.parametrize("within", ["", "account"], ids=["record", "envelope"])
def test_a_json_patch_changes_a_record(tmp_path: Path, within: str, above: str) -> None:
    above = above if within else ""
    with served(tmp_path, accounts(within)) as client:
        sent = {"name": "a", "tags": ["x"], "note": "n"}
        body = {within: sent} if within else sent
        assert client.post("/accounts", json=body).status_code == 201
        steps = [
            {"op": "test", "path": f"{above}/name", "value": "a"},
            {"op": "replace", "path": f"{above}/name", "value": "b"},
            {"op": "add", "path": f"{above}/tags/-", "value": "y"},
            {"op": "remove", "path": f"{above}/note"},
            {"op": "add", "path": f"{above}/pin", "value": "4711"},
        ]
        headers = {"Content-Type": "application/json-patch+json"}
        changed = client.patch("/accounts/1", content=json.dumps(steps), headers=headers)
        record = {"id": 1, "name": "b", "tags": ["x", "y"]}
        assert changed.json() == ({within: record} if within else record)
        assert client.get("/accounts/1").json() == changed.json()


@pytest.mark.parametrize(
    ("declared", "status"), [({"a": "409"}, 409), ({"a": "422"}, 422), ({}, 400)]
)
def test_a_json_patch_that_does_not_apply_changes_nothing(
    tmp_path: Path, declared: Any, status: int
) -> None:
    with served(tmp_path, accounts("", **declared)) as client:
        created = client.post("/accounts", json={"name": "a"}).json()
        steps = [
            {"op": "replace", "path": "/name", "value": "b"},
            {"op": "test", "path": "/note", "value": "n"},
        ]
        headers = {"Content-Type": "application/json-patch+json"}
        rejected = client.patch("/accounts/1", content=json.dumps(steps), headers=headers)
        assert rejected.status_code == status
        reason = rejected.headers.get("x-sandbox-error", rejected.text)
        assert "operation 2 is impossible or fails its test" in reason
        assert client.get("/accounts/1").json() == created


@pytest.mark.parametrize(
    ("keyword", "example"),
    [("anyOf", {"thing": {"id": 8, "kind": "big"}}), ("oneOf", {})],
    ids=["both", "the others"],
)
def test_a_response_has_the_record_and_no_others_beside_it(
    tmp_path: Path, keyword: str, example: Any
) -> None:
    """As DigitalOcean's, which may create several."""
    thing = closed("id", "kind", id=WHOLE, name=TEXT, kind=TEXT)
    both = {"thing": thing, "things": {"type": "array", "items": thing}}
    alternatives = [closed(one, **{one: both[one]}, note=TEXT) for one in both]
    for one in alternatives:
        del one["additionalProperties"]
    response: Any = {"type": "object", keyword: alternatives}
    response["example"] = {**example, "things": [{"id": 9, "kind": "big"}], "note": "n"}
    content = with_paths(collection("/things", "thingId", response, {"type": "object"}))
    with served(tmp_path, content) as client:
        created = client.post("/things", json={"name": "a"}).json()
        assert created == {"thing": {"id": 1, "name": "a", "kind": "big"}, "note": "n"}
        assert client.get("/things/1").json() == created


def test_records_do_not_belong_to_what_their_own_collection_is_called_like(tmp_path: Path) -> None:
    """As Bitbucket's snippets, which may be posted to two paths."""
    thing = closed("id", id=WHOLE)
    paths = collection("/snippets", "workspace", thing, {"type": "object"})
    inner = collection("/snippets/{workspace}", "id", thing, {"type": "object"}, create="inner")
    given = {"name": "workspace", "in": "path", "required": True, "schema": TEXT}
    inner["/snippets/{workspace}"] |= paths["/snippets/{workspace}"]
    inner["/snippets/{workspace}/{id}"]["parameters"].append(given)
    content = with_paths({**paths, **inner})
    with served(tmp_path, content) as client:
        created = client.post("/snippets/none", json={})
        assert created.status_code == 201
        assert client.get(f"/snippets/none/{created.json()['id']}").json() == created.json()


def shallow(parameter: str, method: str) -> dict[str, Any]:
    """Comments that are posted to their article and have paths without it, as Rails calls
    shallow."""
    comment = {**closed("id", id=WHOLE, body=TEXT, article_id=WHOLE), "additionalProperties": True}
    article = closed("id", id=WHOLE, title=TEXT)
    paths = collection("/articles", "id", article, {"type": "object"}, create="article")
    paths["/articles/{id}"]["delete"] = {"operationId": "drop", "responses": {"204": {}}}
    below = collection("/comments", "id", comment, {"type": "object"})
    posted = f"/articles/{{{parameter}}}/comments"
    given = {"name": parameter, "in": "path", "required": True, "schema": WHOLE}
    paths[posted] = {"parameters": [given], **below["/comments"]}
    every = {"type": "array", "items": comment}
    paths[posted]["get"] = operation("listed", every, "200")
    paths["/comments"] = {"get": operation("all", every, "200")}
    item = paths["/comments/{id}"] = below["/comments/{id}"]
    item[method] = operation("changed", comment, "200", {"type": "object"})
    item["delete"] = {"operationId": "gone", "responses": {"204": {}, "404": {}}}
    for one in (paths["/articles/{id}"]["delete"], item["delete"]):
        for response in one["responses"].values():
            response["description"] = "ok"
    return with_paths(paths)


@pytest.mark.parametrize("method", ["put", "patch"])
@pytest.mark.parametrize("parameter", ["article_id", "id"])
def test_items_may_have_paths_without_what_they_are_posted_to(
    tmp_path: Path, parameter: str, method: str
) -> None:
    with served(tmp_path, shallow(parameter, method)) as client:
        for title in "ab":
            client.post("/articles", json={"title": title})
        made = [client.post(f"/articles/{at}/comments", json={"body": "x"}) for at in (1, 2, 2)]
        assert [one.json()["id"] for one in made] == [1, 2, 3]
        assert [one.json().get("article_id") for one in made] == [1, 2, 2]
        assert client.get("/comments/2").json() == made[1].json()
        changed = client.request(method, "/comments/2", json={"body": "y"}).json()
        assert changed == {**made[1].json(), "body": "y"}
        assert client.get("/articles/2/comments").json() == [changed, made[2].json()]
        assert client.get("/articles/1/comments").json() == [made[0].json()]
        assert client.get("/comments").json() == [made[0].json(), changed, made[2].json()]
        assert client.delete("/comments/2").status_code == 204
        assert client.get("/comments/2").status_code == 404
        assert client.get("/articles/2/comments").json() == [made[2].json()]
        assert client.delete("/articles/2").status_code == 204
        assert client.get("/comments").json() == [made[0].json()]
        assert client.get("/comments/3").status_code == 404


def test_the_list_of_all_parents_is_in_the_media_type_that_the_client_accepts(
    tmp_path: Path,
) -> None:
    content = shallow("article_id", "patch")
    listed = content["paths"]["/comments"]["get"]["responses"]["200"]["content"]
    listed[HAL] = listed["application/json"]
    with served(tmp_path, content) as client:
        client.post("/articles", json={"title": "a"})
        made = client.post("/articles/1/comments", json={"body": "x"}).json()
        for accept in (HAL, "application/json"):
            every = client.get("/comments", headers={"Accept": accept})
            assert (every.json(), every.headers["content-type"]) == ([made], accept)


def test_the_place_of_an_item_without_what_it_was_posted_to_is_its_own(tmp_path: Path) -> None:
    content = shallow("article_id", "put")
    location = {"Location": {"schema": {"type": "string", "format": "uri"}}}
    post = content["paths"]["/articles/{article_id}/comments"]["post"]
    post["responses"]["201"]["headers"] = location
    with served(tmp_path, content) as client:
        client.post("/articles", json={"title": "a"})
        made = client.post("/articles/1/comments", json={})
        assert client.get(made.headers["location"]).json() == made.json()


def test_put_makes_an_item_that_was_posted_to_nothing(tmp_path: Path) -> None:
    content = shallow("id", "put")
    put = content["paths"]["/comments/{id}"]["put"]
    put["responses"]["201"] = put["responses"]["200"]
    put["responses"]["404"] = {"description": "none"}
    with served(tmp_path, content) as client:
        made = client.put("/comments/7", json={"body": "x"})
        assert (made.status_code, made.json()) == (201, {"id": 7, "body": "x"})
        assert client.get("/comments").json() == [made.json()]


def test_an_item_with_another_schema_is_none_of_what_is_posted_elsewhere(tmp_path: Path) -> None:
    content = shallow("article_id", "patch")
    other = operation("created", closed("id", id=WHOLE, score=WHOLE), "200")
    content["paths"]["/comments/{id}"]["get"] = other
    (_, one) = load_contract(written(tmp_path, content), stateful=True).inferred.collections
    assert one.operations.keys() == {"create", "page"}


def test_a_map_whose_values_cannot_be_the_id_is_no_record(tmp_path: Path) -> None:
    texts = {"type": "object", "additionalProperties": TEXT}
    paths = collection("/lookup", "rgdId", texts, {"type": "object", "properties": {"a": TEXT}})
    paths["/lookup/{rgdId}"]["parameters"][0]["schema"] = WHOLE
    (line,) = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred.lines()
    assert line == "Not stateful: POST /lookup: no response shows the 'id' of a new record"


def test_a_map_is_no_list_of_records(tmp_path: Path) -> None:
    content = things({})
    body = content["paths"]["/things"]["get"]["responses"]["200"]["content"]["application/json"]
    body["schema"] = {"type": "object", "additionalProperties": WHOLE}
    (one, line) = load_contract(written(tmp_path, content), stateful=True).inferred.lines()
    assert "(page)" not in one
    assert line == "Not stateful: GET /things: its response cannot have a record with 'id'"
