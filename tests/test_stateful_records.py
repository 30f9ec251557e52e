"""``--stateful``: where requests and responses have the record, its id and its members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from invoice_sandbox.project.loader import load_contract
from tests.test_stateful import (
    FLAG,
    TEXT,
    WHOLE,
    closed,
    collection,
    operation,
    served,
    with_paths,
    written,
)

pytestmark = pytest.mark.slow

TITLE = closed("title", title=TEXT)
THING = closed("id", "title", id=WHOLE, title=TEXT)
OPEN = {name: one for name, one in THING.items() if name != "additionalProperties"}
REFERENCE = closed("id", id=TEXT)


def listed(schema: Any) -> dict[str, Any]:
    return {"type": "array", "items": schema}


def lines(folder: Path, paths: Any) -> list[str]:
    """What is printed of the collections of these paths."""
    return [*load_contract(written(folder, with_paths(paths)), stateful=True).inferred.lines()]


# --- envelopes


def test_a_reference_to_another_record_is_no_envelope(tmp_path: Path) -> None:
    """As of Box's task assignments: ``task`` is none of their names."""
    assignment = closed("id", "task", "user", id=WHOLE, task=REFERENCE, user=REFERENCE)
    sent = closed("task", task=REFERENCE, user=REFERENCE)
    paths = collection("/task_assignments", "id", assignment, sent)
    paths["/task_assignments"]["get"] = operation("list", listed(assignment), "200")
    body = {"task": {"id": "T"}, "user": {"id": "U"}}
    with served(tmp_path, with_paths(paths)) as client:
        made = [client.post("/task_assignments", json=body).json() for _ in range(2)]
        assert made == [{"id": number, **body} for number in (1, 2)]
        assert client.get("/task_assignments").json() == made


def test_the_id_of_a_reference_is_none_of_the_record(tmp_path: Path) -> None:
    record = closed("policy", "user", policy=REFERENCE, user=REFERENCE)
    paths = collection("/policy_assignments", "policy_assignment_id", record, record)
    assert lines(tmp_path, paths) == [
        "Not stateful: POST /policy_assignments: its response has no 'id' that can be new"
    ]


def test_a_member_of_another_record_called_like_the_parameter_is_no_id(tmp_path: Path) -> None:
    parent = {"type": "object", "properties": {"taskId": WHOLE}}
    task = {**OPEN, "properties": {**THING["properties"], "parent": parent}}
    paths = collection("/tasks", "taskId", task, TITLE)
    paths["/tasks"]["get"] = operation("list", listed(task), "200")
    with served(tmp_path, with_paths(paths)) as client:
        assert client.post("/tasks", json={"title": "a"}).json() == {"id": 1, "title": "a"}
        assert client.get("/tasks/1").json() == {"id": 1, "title": "a"}
        assert client.get("/tasks").json() == [{"id": 1, "title": "a"}]


@pytest.mark.parametrize("envelope", ["task", "new_task", "data"])
def test_an_envelope_is_called_like_the_record_or_as_envelopes_are(
    tmp_path: Path, envelope: str
) -> None:
    whole = closed(envelope, "ok", ok=FLAG, **{envelope: THING})
    paths = collection("/tasks", "id", whole, TITLE)
    with served(tmp_path, with_paths(paths)) as client:
        assert client.post("/tasks", json={"title": "a"}).json()[envelope] == {
            "id": 1,
            "title": "a",
        }


ENVELOPES: dict[str, tuple[Any, Any]] = {
    "the id beside it": (closed("id", "data", id=WHOLE, data=TITLE), {"title": "a"}),
    "the id beside it and inside": (
        closed("id", "data", id=WHOLE, data=THING),
        {"id": 1, "title": "a"},
    ),
    "the id as text beside it": (
        closed("id", "data", id=TEXT, data=THING),
        {"id": 1, "title": "a"},
    ),
}


@pytest.mark.parametrize(("response", "data"), ENVELOPES.values(), ids=ENVELOPES)
def test_what_is_posted_is_in_the_envelope_that_is_beside_the_id(
    tmp_path: Path, response: Any, data: Any
) -> None:
    """As of Flask-AppBuilder."""
    paths = collection("/reports", "pk", response, TITLE)
    paths["/reports/{pk}"]["put"] = operation("replace", response, "200", TITLE)
    paths["/reports"]["get"] = operation("list", closed("data", data=listed(THING)), "200")
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/reports", json={"title": "a"}).json()
        assert (str(made["id"]), made["data"]) == ("1", data)
        assert client.get("/reports/1").json() == made
        changed = client.put("/reports/1", json={"title": "b"}).json()
        assert changed == {**made, "data": {**data, "title": "b"}}
        assert client.get("/reports").json() == {"data": [{"id": 1, "title": "b"}]}


def test_a_list_in_an_envelope_has_the_record_as_its_one_item(tmp_path: Path) -> None:
    """As of Zoho."""
    several = closed("data", data=listed(THING))
    paths = collection("/things", "id", closed("data", data=THING), TITLE)
    paths["/things"]["post"] = operation("create", several, "201", TITLE)
    paths["/things/{id}"]["put"] = operation("replace", several, "200", TITLE)
    paths["/things"]["get"] = operation("list", several, "200")
    with served(tmp_path, with_paths(paths)) as client:
        for number, title in enumerate("ab", 1):
            made = client.post("/things", json={"title": title}).json()
            assert made == {"data": [{"id": number, "title": title}]}
        assert client.put("/things/2", json={"title": "c"}).json()["data"][0]["title"] == "c"
        assert client.get("/things/2").json() == {"data": {"id": 2, "title": "c"}}
        assert len(client.get("/things").json()["data"]) == 2


@pytest.mark.parametrize("beside", ["total", "has_more"])
def test_a_page_of_records_is_none_of_them(tmp_path: Path, beside: str) -> None:
    """As of ReadMe's categories, whose path ends with their section."""
    others = dict.fromkeys("abcd", WHOLE)  # so many that no example has the last one
    page = closed("data", data=listed(THING), **others, **{beside: {}})
    paths = collection("/things", "id", page, TITLE)
    paths["/things"]["post"] = operation("create", THING, "201", TITLE)
    assert lines(tmp_path, paths) == [
        "Not stateful: GET /things/{id}: its response cannot have a record with 'id'"
    ]


def test_the_envelope_of_a_request_may_have_a_list_in_the_response(tmp_path: Path) -> None:
    several = closed("account", account=listed(THING))
    paths = collection("/accounts", "id", several, closed("account", account=TITLE))
    paths["/accounts"]["get"] = operation("list", several, "200")
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/accounts", json={"account": {"title": "a"}}).json()
        assert made == {"account": [{"id": 1, "title": "a"}]}
        assert client.get("/accounts").json() == made


@pytest.mark.parametrize("item", [THING, TITLE], ids=["whole records", "records without ids"])
def test_what_takes_several_records_beside_an_option_is_left_out(tmp_path: Path, item: Any) -> None:
    batch = closed("things", things=listed(item), dryRun=FLAG)
    paths = collection("/things", "id", THING, batch)
    paths["/things"]["get"] = operation("list", closed("things", things=listed(THING)), "200")
    assert lines(tmp_path, paths) == ["Not stateful: POST /things: it takes several records"]


# --- parts that the example of the document lacks

OWN_LINE = closed("id", "sku", id=WHOLE, sku=TEXT)
LINES: dict[str, Any] = {
    "a default of the member": {"lines": {**listed(OWN_LINE), "default": []}},
    "an example of the member": {"lines": {**listed(OWN_LINE), "example": []}},
    "null": {"lines": {"anyOf": [{"type": "null"}, listed(OWN_LINE)]}},
    "an object": {"lines": {"anyOf": [{"type": "null"}, OWN_LINE], "default": None}},
    "a map": {"lines": {"type": "object", "additionalProperties": OWN_LINE, "default": {}}},
}
SENT = {"an object": {"sku": "s"}, "a map": {"a": {"sku": "s"}}}


@pytest.mark.parametrize("name", LINES)
def test_posted_parts_get_what_they_lack_though_the_example_has_none(
    tmp_path: Path, name: str
) -> None:
    """As Pydantic generates it for ``lines: list[Line] = []``."""
    order = closed("id", "lines", id=WHOLE, **LINES[name], note=WHOLE)
    paths = collection("/orders", "id", order, {"type": "object"})
    paths["/orders"]["get"] = operation("list", listed(order), "200")
    sent = SENT.get(name, [{"sku": "s"}, {"sku": "t"}])
    with served(tmp_path, with_paths(paths)) as client:
        # what the response cannot have takes nothing else with it
        made = client.post("/orders", json={"lines": sent, "note": ["no number"]}).json()
        assert without_ids(made["lines"]) == sent
        assert made["lines"] != sent
        assert client.get("/orders/1").json() == made
        assert client.get("/orders").json() == [made]


def without_ids(value: Any) -> Any:
    """A value without members called ``id``."""
    if isinstance(value, list):
        return [without_ids(one) for one in value]
    if isinstance(value, dict):
        return {name: without_ids(one) for name, one in value.items() if name != "id"}
    return value


# --- lists by a member, and several records at once


@pytest.mark.parametrize("has_id", [True, False], ids=["with an id", "a page"])
def test_a_list_by_a_member_is_no_record(tmp_path: Path, has_id: bool) -> None:
    ids = {"id": WHOLE} if has_id else {}
    event = closed(*ids, "type", "text", **ids, type=TEXT, text=TEXT)
    sent = closed("type", "text", type=TEXT, text=TEXT)
    page = closed("total", "events", total=WHOLE, events=listed(event))
    paths = collection("/events", "type", event, sent)
    paths["/events/{type}"]["get"] = operation("ofType", listed(event) if has_id else page, "200")
    paths["/events"]["get"] = operation("list", listed(event), "200")
    found = lines(tmp_path, paths)
    reason = "it lists the records by 'type', which is not their id"
    assert f"Not stateful: GET /events/{{type}}: {reason}" in found
    kept = [one for one in found if one.startswith("Stateful")]
    assert kept == ["Stateful /events: records by 'id': create (create), list (page)"] * has_id


USER = closed("userId", "email", "role", userId=TEXT, email=TEXT, role=TEXT)
BATCHES: dict[str, Any] = {
    "ids": closed("userIds", userIds=listed(TEXT)),
    "members beside another": closed("emails", emails=listed(TEXT), role=TEXT),
    "records beside another": closed(
        "invites", inviter=TEXT, invites=listed(closed(email=TEXT, role=TEXT))
    ),
}


@pytest.mark.parametrize("body", BATCHES.values(), ids=BATCHES)
def test_a_list_with_what_records_have_is_several_of_them(tmp_path: Path, body: Any) -> None:
    paths = collection("/members", "userId", USER, body)
    paths["/members"]["get"] = operation("list", listed(USER), "200")
    assert lines(tmp_path, paths) == ["Not stateful: POST /members: it takes several records"]


# --- responses without the whole record


@pytest.mark.parametrize("message", [FLAG, closed("message", message=TEXT)], ids=["flag", "object"])
@pytest.mark.parametrize("method", ["put", "patch"])
def test_a_change_is_kept_if_its_response_is_no_record(
    tmp_path: Path, method: str, message: Any
) -> None:
    paths = collection("/things", "id", THING, TITLE)
    paths["/things/{id}"][method] = operation("change", message, "200", TITLE)
    with served(tmp_path, with_paths(paths)) as client:
        client.post("/things", json={"title": "a"})
        for title in "bc":
            changed = client.request(method, "/things/1", json={"title": title}).json()
            assert changed in ({"message": "Message"}, True)
            assert client.get("/things/1").json() == {"id": 1, "title": title}


def test_put_makes_and_changes_a_record_if_its_response_is_none(tmp_path: Path) -> None:
    paths = collection("/flags", "id", closed("id", "value", id=TEXT, value=TEXT), {})
    item = paths["/flags/{id}"]
    item["put"] = operation("put", closed("ok", ok=FLAG), "200", closed(value=TEXT))
    del paths["/flags"]
    with served(tmp_path, with_paths(paths)) as client:
        for value in "123":
            assert client.put("/flags/a", json={"value": value}).json().keys() == {"ok"}
            assert client.get("/flags/a").json() == {"id": "a", "value": value}


def test_a_response_without_the_id_has_the_posted_members(tmp_path: Path) -> None:
    """As of Spring Data REST and VMware."""
    part = closed("entity_id", "title", entity_id=WHOLE, title=TEXT)
    paths = collection("/things", "id", OPEN, TITLE)
    paths["/things"]["post"] = operation("create", part, "201", TITLE)
    paths["/things/{id}"]["put"] = operation("replace", TITLE, "200", TITLE)
    with served(tmp_path, with_paths(paths)) as client:
        assert client.post("/things", json={"title": "a"}).json() == {"entity_id": 1, "title": "a"}
        assert client.get("/things/1").json() == {"id": 1, "title": "a"}
        assert client.put("/things/1", json={"title": "b"}).json() == {"title": "b"}
        assert client.get("/things/1").json() == {"id": 1, "title": "b"}


def test_what_a_response_without_the_id_cannot_have_is_kept_for_others(tmp_path: Path) -> None:
    """As of Gitea's files: the response has an object where the text is posted."""
    part = closed("title", title=closed("text", text=TEXT))
    paths = collection("/things", "id", THING, TITLE)
    paths["/things"]["post"] = operation("create", part, "201", TITLE)
    paths["/things"]["get"] = operation("list", listed(THING), "200")
    with served(tmp_path, with_paths(paths)) as client:
        client.post("/things", json={"title": "a"})
        assert client.get("/things").json() == [{"id": 1, "title": "a"}]


def test_what_get_shows_without_the_id_is_the_same_in_the_list(tmp_path: Path) -> None:
    """As of Visma's receipts."""
    receipt = closed("title", "total", title=TEXT, total=WHOLE)
    posted = closed("title", title=TEXT, total={"type": "object"})
    paths = collection("/receipts", "number", receipt, posted)
    paths["/receipts"]["post"] = operation("create", {"type": "object"}, "201", posted)
    items = closed("id", "title", "total", id=TEXT, **receipt["properties"])
    paths["/receipts"]["get"] = operation("list", listed(items), "200")
    with served(tmp_path, with_paths(paths)) as client:
        client.post("/receipts", json={"title": "a", "total": {"value": 2}})
        (one,) = client.get("/receipts").json()
        assert client.get(f"/receipts/{one.pop('id')}").json() == one


# --- alternatives and ids


def test_an_id_may_be_called_like_that_of_what_is_new(tmp_path: Path) -> None:
    """As of VMware's data sources, whose paths end with ``{id}``."""
    source = closed("entity_id", "title", entity_id=TEXT, title=TEXT)
    paths = collection("/sources", "id", source, TITLE)
    paths["/sources"]["get"] = operation("list", listed(source), "200")
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/sources", json={"title": "a"}).json()
        assert client.get(f"/sources/{made['entity_id']}").json() == made
        assert client.get("/sources").json() == [made]


def test_an_id_called_like_the_parameter_goes_before_another_one(tmp_path: Path) -> None:
    """As of Kubernetes, whose ``metadata`` may have other ids."""
    meta = {"type": "object", "properties": {"name": TEXT}}
    whole = {**OPEN, "properties": {**THING["properties"], "metadata": meta}}
    (line,) = lines(tmp_path, collection("/pods", "name", whole, whole))
    assert line.startswith("Stateful /pods: records by 'metadata.name': ")


def test_the_id_is_called_like_the_parameter_though_an_object_about_the_record_has_a_name(
    tmp_path: Path,
) -> None:
    meta = {"type": "object", "properties": {"templateID": TEXT, "name": TEXT}}
    document = {**OPEN, "properties": {**THING["properties"], "meta": meta}}
    paths = collection("/templates", "id", document, TITLE)
    with served(tmp_path, with_paths(paths)) as client:
        assert client.post("/templates", json={"title": "a"}).json() == {"id": 1, "title": "a"}


@pytest.mark.parametrize("keyword", ["const", "enum"])
def test_the_alternative_is_that_of_the_posted_constant(tmp_path: Path, keyword: str) -> None:
    def kind(name: str, **members: Any) -> dict[str, Any]:
        own = {"const": name} if keyword == "const" else {"enum": [name]}
        return closed("id", "type", *members, id=WHOLE, event=TEXT, type=own, **members)

    record = {"oneOf": [kind("webhook", url=TEXT), kind("email", userId=TEXT)]}
    sent = closed("type", type={"enum": ["webhook", "email"]}, url=TEXT, event=TEXT)
    paths = collection("/channels", "id", record, sent)
    paths["/channels"]["get"] = operation("list", listed(record), "200")
    with served(tmp_path, with_paths(paths)) as client:
        email = client.post("/channels", json={"type": "email", "event": "e"}).json()
        assert email == {"id": 1, "type": "email", "event": "e", "userId": email["userId"]}
        other = {"type": "webhook", "event": "e", "url": "u"}
        hook = client.post("/channels", json=other).json()
        assert hook == {"id": 2, **other}
        assert client.get("/channels").json() == [email, hook]


NONE = [(WHOLE, 0), (TEXT, ""), (TEXT, "00000000-0000-0000-0000-000000000000")]


@pytest.mark.parametrize(("identity", "none"), NONE, ids=["0", "empty", "zeros"])
def test_an_id_of_zeros_that_is_posted_is_none(tmp_path: Path, identity: Any, none: Any) -> None:
    """As clients of ASP.NET send it."""
    thing = closed("id", "title", id=identity, title=TEXT)
    paths = collection("/things", "id", thing, thing)
    with served(tmp_path, with_paths(paths)) as client:
        made = [client.post("/things", json={"id": none, "title": one}).json() for one in "ab"]
        assert [one["title"] for one in made] == ["a", "b"]
        assert none not in {one["id"] for one in made}
        assert client.get(f"/things/{made[0]['id']}").json() == made[0]


# --- parts of records


ANYTHING = {"type": ["object", "array"]}
OWN = {"$ref": "#/components/schemas/Line"}
KIND = {"$ref": "#/components/schemas/Kind"}
PARTS = {
    "Line": closed("id", "sku", id=WHOLE, sku=TEXT),
    "Kind": closed("id", "type", id=TEXT, type={"enum": ["folder"]}),
}
BEFORE = dict.fromkeys(("note", "number", "status", "other"), TEXT)


def with_parts(record: Any) -> dict[str, Any]:
    """A document of orders like this, which can be changed and replaced."""
    paths = collection("/orders", "id", record, {"type": "object"})
    for method in ("patch", "put"):
        paths["/orders/{id}"][method] = operation(method, record, "200", ANYTHING)
    return {**with_paths(paths), "components": {"schemas": PARTS}}


def test_posted_parts_are_kept_wherever_they_are_declared(tmp_path: Path) -> None:
    """Behind more members than an example has."""
    lines, sent = [{"sku": "a"}, {"sku": "b"}], {"note": "n", "kind": {"id": "K"}}
    record = closed("id", id=WHOLE, **BEFORE, lines=listed(OWN), kind=KIND)
    explained = {"X-Sandbox-Explain": "1"}
    with served(tmp_path, with_parts(record)) as client:
        response = client.post("/orders", json={**sent, "lines": lines}, headers=explained)
        assert "hints" not in response.headers["x-sandbox-explain"]
        made = response.json()
        number = made["lines"][0]["id"]
        whole = {"lines": [{**one, "id": number + at} for at, one in enumerate(lines)]}
        assert made == {"id": 1, "note": "n", "kind": {"id": "K", "type": "folder"}, **whole}
        assert client.get("/orders/1").json() == made
        changed = client.patch("/orders/1", json={"lines": [{"sku": "c"}, {"sku": 5}]})
        assert [one["sku"] for one in changed.json()["lines"]] == ["c", "5"]
        more = [*changed.json()["lines"], {"sku": "d"}]
        found = client.patch("/orders/1", json={"lines": more}).json()["lines"]
        assert found[:2] == more[:2]
        assert len({one["id"] for one in found}) == 3


@pytest.mark.parametrize(
    "identity",
    [WHOLE, TEXT, {**TEXT, "format": "uuid"}, {**TEXT, "pattern": "^L[0-9]{4}$"}],
    ids=["number", "text", "uuid", "pattern"],
)
def test_the_items_of_a_posted_list_have_different_ids(tmp_path: Path, identity: Any) -> None:
    """If the schema allows an id like the generated one."""
    line = closed("id", id=identity)
    record = closed("id", "lines", id=WHOLE, lines=listed(line))
    with served(tmp_path, with_parts(record)) as client:
        made = client.post("/orders", json={"lines": [{}, {}, {}]}).json()
        assert len(made["lines"]) == 3
        ids = {one["id"] for one in made["lines"]}
        assert len(ids) == (1 if "pattern" in identity else 3)
        assert client.get("/orders/1").json() == made


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
@pytest.mark.parametrize("first", [0, 1], ids=["null last", "null first"])
@pytest.mark.parametrize("before", [{}, BEFORE], ids=["first", "behind others"])
def test_a_posted_part_that_may_be_null_is_kept(
    tmp_path: Path, before: Any, first: int, keyword: str
) -> None:
    alternatives = [KIND, {"type": "null"}, KIND][first : first + 2]
    record = {**OPEN, "properties": {"id": WHOLE, **before, "kind": {keyword: alternatives}}}
    record |= {"required": ["id"]}
    with served(tmp_path, with_parts(record)) as client:
        made = client.post("/orders", json={"mine": 1, "kind": {"id": "A"}}).json()
        assert made == {"id": 1, "mine": 1, "kind": {"id": "A", "type": "folder"}}
        for name, one in (("B", {}), ("C", {"kind": None}), ("D", {}), ("E", {})):
            if one:
                assert client.patch("/orders/1", json=one).json() == {**made, **one}
            sent = {"kind": {"id": name}}
            method = "PUT" if name == "E" else "PATCH"
            changed = client.request(method, "/orders/1", json=sent).json()
            assert changed["kind"] == {"id": name, "type": "folder"}
            assert client.get("/orders/1").json() == changed


def test_a_part_that_is_new_with_a_change_gets_what_it_lacks(tmp_path: Path) -> None:
    record = closed("id", id=WHOLE, **BEFORE, lines=listed(OWN), kind=KIND)
    with served(tmp_path, with_parts(record)) as client:
        client.post("/orders", json={"lines": [{"id": 5, "sku": "a"}]})
        changed = client.put("/orders/1", json={"kind": {"id": "B"}, "lines": [{"sku": "b"}]})
        assert changed.json()["lines"] == [{"sku": "b", "id": 5}]
        client.put("/orders/1", json={"note": "n", "lines": []})
        changed = client.patch("/orders/1", json={"kind": {"id": "A"}}).json()
        assert changed == {"id": 1, "note": "n", "lines": [], "kind": {"id": "A", "type": "folder"}}
        changed = client.patch("/orders/1", json={"lines": [{"sku": "a"}]}).json()
        assert changed["lines"][0]["sku"] == "a"


# --- ids, instants, and what is gone


@pytest.mark.parametrize(
    ("sent", "shown", "other"),
    [({"type": "integer"}, TEXT, "7"), (TEXT, WHOLE, 7)],
    ids=["a number as text", "text as a number"],
)
def test_a_posted_id_may_be_of_another_type(
    tmp_path: Path, sent: Any, shown: Any, other: Any
) -> None:
    taken = closed("title", id=sent, title=TEXT)
    paths = collection(
        "/things", "id", {**THING, "properties": {"id": shown, "title": TEXT}}, taken
    )
    paths["/things"]["post"]["responses"]["409"] = {"description": "There is one."}
    posted = 7 if other == "7" else "7"
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/things", json={"id": posted, "title": "a"})
        assert made.json() == client.get("/things/7").json() == {"id": other, "title": "a"}
        assert client.post("/things", json={"id": posted, "title": "b"}).status_code == 409


def test_an_instant_of_the_server_is_not_changed_by_a_client(tmp_path: Path) -> None:
    instant = {"type": "string", "format": "date-time", "readOnly": True}
    record = closed("id", "createdAt", id=WHOLE, note=TEXT, createdAt=instant, updatedAt=instant)
    early = {"createdAt": "2001-01-01T00:00:00Z", "updatedAt": "2001-01-01T00:00:00Z"}
    with served(tmp_path, with_parts(record)) as client:
        made = client.post("/orders", json=early).json()
        client.post("/sandbox/clock/advance", json={"by": "PT1H"}).raise_for_status()
        for method, body in (
            ("PATCH", early),
            ("PUT", early),
            ("PATCH", [{"op": "replace", "path": "/createdAt", "value": early["createdAt"]}]),
        ):
            changed = client.request(method, "/orders/1", json=body).json()
            assert changed["createdAt"] == made["createdAt"] > "2026"
            assert changed["updatedAt"] > made["updatedAt"]


def test_what_was_deleted_is_shown_beside_the_mark(tmp_path: Path) -> None:
    whole = closed("data", "deleted", data=THING, deleted=FLAG)
    paths = collection("/things", "id", THING, TITLE)
    paths["/things/{id}"]["delete"] = operation("remove", whole, "200")
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/things", json={"title": "a"}).json()
        assert client.delete("/things/1").json() == {"data": made, "deleted": True}


def test_a_change_of_what_has_no_id_in_its_body_finds_nothing(tmp_path: Path) -> None:
    paths = collection("/things", "id", THING, TITLE)
    paths["/things"]["put"] = operation("replace", OPEN, "200", {**OPEN, "required": []})
    with served(tmp_path, with_paths(paths)) as client:
        response = client.put("/things", json={"title": "a"})
        assert response.status_code == 404
        assert "Check the value" in response.headers["x-sandbox-error"]


# --- what has a line


@pytest.mark.parametrize("item", ["({key})", "('{key}')", "(ID={key})"])
def test_items_of_odata_have_a_line(tmp_path: Path, item: str) -> None:
    paths = collection("/things", "key", THING, TITLE)
    paths[f"/things{item}"] = paths.pop("/things/{key}")
    line = f"Not stateful: GET /things{item}: items of OData are not inferred"
    assert lines(tmp_path, paths) == [line]
    paths["/things"]["get"] = operation("list", listed(THING), "200")
    assert lines(tmp_path, paths)[1:] == [line]


def test_a_list_of_what_has_its_items_below_others_has_a_line(tmp_path: Path) -> None:
    paths = collection("/articles/{article}/comments", "comment", THING, TITLE)
    given = {"name": "article", "in": "path", "required": True, "schema": TEXT}
    for one in paths.values():
        one["parameters"] = [*one.get("parameters", ()), given]
    paths["/comments"] = {"get": operation("every", closed(comments=listed(THING)), "200")}
    paths["/others"] = {"get": operation("others", closed(comments=listed(THING)), "200")}
    paths["/new/comments"] = {"get": operation("new", closed(comments=listed(TITLE)), "200")}
    path = "/articles/{article}/comments"
    assert lines(tmp_path, paths)[1:] == [
        f"Not stateful: GET /comments: the records of {path} are kept for each parent"
    ]


# --- what was posted, and nothing else


def test_what_satisfies_several_alternatives_is_kept_as_one(tmp_path: Path) -> None:
    """Of which a ``oneOf`` allows one: the item has another form in GET."""
    whole = {**OPEN, "required": ["id", "title", "tags"]}
    whole["properties"] = {**OPEN["properties"], "tags": listed(TEXT)}
    paths = collection("/things", "id", whole, {"type": "object"})
    paths["/things/{id}"]["get"] = operation("get", {"oneOf": [whole, OPEN]}, "200")
    with served(tmp_path, with_paths(paths)) as client:
        assert client.post("/things", json={"title": "mine"}).json()["title"] == "mine"
        assert client.get("/things/1").json()["title"] == "mine"


SECRET = {**TEXT, "writeOnly": True}
SECRETS: dict[str, Any] = {
    "of any name": {"additionalProperties": SECRET},
    "of some names": {"patternProperties": {"^K": SECRET}},
    "in an object": {"additionalProperties": {"properties": {"value": SECRET}}},
    "of other names": {"unevaluatedProperties": SECRET},
    "beside others": {"dependentSchemas": {"Key": {"properties": {"Key": SECRET}}}},
    "on a condition": {"if": {}, "then": {"properties": {"Key": SECRET}}},
    "or null": {"properties": {"Key": {"anyOf": [SECRET, {"type": "null"}]}}},
    "of two forms": {"properties": {"Key": {"oneOf": [SECRET, {**SECRET, "type": "integer"}]}}},
    "beside what is its own alternative": {
        "properties": {"Key": SECRET, "Other": {"$ref": "#/components/schemas/Again"}}
    },
}
AGAIN = {"anyOf": [{"$ref": "#/components/schemas/Again"}, SECRET]}


@pytest.mark.parametrize("schema", SECRETS.values(), ids=SECRETS)
def test_no_response_has_a_secret_of_a_map(tmp_path: Path, schema: Any) -> None:
    record = closed("id", id=WHOLE, secrets={"type": "object", **schema})
    paths = collection("/things", "id", record, {**record, "required": []})
    paths["/things"]["get"] = operation("list", listed(record), "200")
    own: Any = {"value": "hunter2"} if "value" in str(schema) else "hunter2"
    content = {**with_paths(paths), "components": {"schemas": {"Again": AGAIN}}}
    with served(tmp_path, content) as client:
        made = client.post("/things", json={"secrets": {"Key": own, "Other": "x"}})
        assert made.status_code == 201
        for shown in (made, client.get("/things/1"), client.get("/things")):
            assert "secrets" in shown.text
            assert "hunter2" not in shown.text


LISTED_SECRETS: dict[str, tuple[Any, Any, Any]] = {
    "items": ({"items": SECRET}, ["hunter2"], []),
    "the first item": (
        {"prefixItems": [{"properties": {"pin": SECRET}}]},
        [{"pin": "hunter2", "name": "a"}, {"name": "b"}],
        [{"name": "a"}, {"name": "b"}],
    ),
    "an item": (
        {"contains": {"properties": {"pin": SECRET}}},
        [{"pin": "hunter2", "name": "a"}],
        [{"name": "a"}],
    ),
    "other items": (
        {"prefixItems": [TEXT], "unevaluatedItems": {"properties": {"pin": SECRET}}},
        ["a", {"pin": "hunter2"}],
        ["a", {}],
    ),
}


@pytest.mark.parametrize(("schema", "sent", "shown"), LISTED_SECRETS.values(), ids=LISTED_SECRETS)
def test_no_response_has_a_secret_of_a_list(
    tmp_path: Path, schema: Any, sent: Any, shown: Any
) -> None:
    record = closed("id", id=WHOLE, secrets={"type": "array", **schema})
    paths = collection("/things", "id", record, {**record, "required": []})
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/things", json={"secrets": sent})
        assert made.json()["secrets"] == client.get("/things/1").json()["secrets"] == shown


@pytest.mark.parametrize("wrapper", ["", "thing"])
def test_what_post_declares_as_write_only_is_secret_for_patch_too(
    tmp_path: Path, wrapper: str
) -> None:
    sent: dict[str, Any] = {**TITLE, "properties": {"title": TEXT, "pin": SECRET}}
    sent = closed(thing=sent) if wrapper else sent
    paths = collection("/things", "id", OPEN, sent)
    change = operation("change", OPEN, "200", {"type": ["object", "array"]})
    paths["/things/{id}"]["patch"] = change
    secret = {"title": "a", "pin": "hunter2"}
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/things", json={wrapper: secret} if wrapper else secret)
        merged = client.patch("/things/1", json={"pin": "hunter2"})
        patched = client.patch(
            "/things/1", json=[{"op": "add", "path": "/pin", "value": "hunter2"}]
        )
        for one in (made, merged, patched, client.get("/things/1")):
            assert one.json() == {"id": 1, "title": "a"}


def test_what_post_alone_declares_is_in_no_other_response(tmp_path: Path) -> None:
    """A key is shown once, and so are warnings beside it."""
    made: dict[str, Any] = {**OPEN, "required": ["id", "title", "secret"]}
    made["properties"] = {**OPEN["properties"], "secret": TEXT, "hint": TEXT}
    sent = closed("title", title=TEXT, hint=SECRET)
    response: dict[str, Any] = {"type": "object", "required": ["data", "notes"]}
    response["properties"] = {"data": made, "notes": listed(TEXT)}
    paths = collection("/things", "id", response, {**sent, "additionalProperties": True})
    shown_later = {"type": "object", "properties": {"data": OPEN}}
    paths["/things/{id}"]["get"] = operation("get", shown_later, "200")
    paths["/things"]["get"] = operation(
        "list", {"type": "object", "properties": {"data": listed(OPEN)}}, "200"
    )
    thing = {"id": 1, "title": "a", "more": 1}
    with served(tmp_path, with_paths(paths)) as client:
        first = client.post("/things", json={"title": "a", "hint": "h", "more": 1}).json()
        assert first["data"] == {**thing, "secret": "Secret", "hint": "h"}
        assert first["notes"] == ["Notes"]
        assert client.get("/things/1").json() == {"data": thing}
        assert client.get("/things").json() == {"data": [thing]}


def test_what_a_response_requires_without_declaring_it_is_shown(tmp_path: Path) -> None:
    made = {**OPEN, "properties": {**OPEN["properties"], "secret": TEXT}, "required": ["secret"]}
    later = {**OPEN, "required": ["id", "secret"]}
    paths = collection("/things", "id", made, TITLE)
    paths["/things/{id}"]["get"] = operation("get", later, "200")
    paths["/things"]["get"] = operation("list", listed(later), "200")
    with served(tmp_path, with_paths(paths)) as client:
        thing = client.post("/things", json={"title": "a"}).json()
        assert thing["secret"] == "Secret"
        assert client.get("/things/1").json() == thing
        assert client.get("/things").json() == [thing]


@pytest.mark.parametrize("other", [{"additionalProperties": TEXT}, {"patternProperties": {"": {}}}])
def test_a_response_that_declares_all_names_shows_what_others_declare(
    tmp_path: Path, other: Any
) -> None:
    paths = collection("/things", "id", OPEN, TITLE)
    any_name = {"type": "object", "properties": {"id": WHOLE}, **other}
    paths["/things/{id}"]["get"] = operation("get", any_name, "200")
    with served(tmp_path, with_paths(paths)) as client:
        client.post("/things", json={"title": "a"})
        assert client.get("/things/1").json() == {"id": 1, "title": "a"}


def test_a_whole_number_is_an_id_however_it_is_written(tmp_path: Path) -> None:
    number = {"type": "number"}
    record = closed("id", id=number, title=TEXT)
    paths = collection("/things", "id", record, closed(id=number, title=TEXT))
    given = paths["/things/{id}"]["parameters"]
    given[0]["schema"] = number
    notes = operation("notes", listed(THING), "200")
    notes["responses"]["404"] = {"description": "none"}
    note = operation("note", THING, "201", TITLE)
    note["responses"]["404"] = {"description": "none"}
    paths["/things/{id}/notes"] = {"parameters": given, "get": notes, "post": note}
    with served(tmp_path, with_paths(paths)) as client:
        assert client.post("/things", content='{"id": 1.0, "title": "a"}', headers=JSON).json() == {
            "id": 1,
            "title": "a",
        }
        assert [client.get(one).status_code for one in ("/things/1", "/things/1.0")] == [200, 200]
        client.post("/things/1.0/notes", json={"title": "n"})
        assert [one["title"] for one in client.get("/things/1/notes").json()] == ["n"]
        assert client.get("/things/2/notes").status_code == 404
        assert client.get("/things/2").status_code == 404


JSON = {"Content-Type": "application/json"}


def test_the_id_may_be_that_of_the_one_item_of_a_list(tmp_path: Path) -> None:
    account = closed(AccountID=TEXT, title=TEXT)
    response = closed("Id", Id=TEXT, Accounts=listed(account))
    paths = collection("/Accounts", "AccountID", response, TITLE)
    paths["/Accounts"]["get"] = operation("list", response, "200")
    with served(tmp_path, with_paths(paths)) as client:
        made = [client.post("/Accounts", json={"title": one}).json() for one in "ab"]
        every = [one["Accounts"][0] for one in made]
        assert client.get("/Accounts").json()["Accounts"] == every
        assert client.get(f"/Accounts/{every[1]['AccountID']}").json() == made[1]
        assert [one["title"] for one in every] == ["a", "b"]


def test_an_id_with_the_name_of_the_parameter_may_be_in_two_envelopes(tmp_path: Path) -> None:
    thing = closed("thingId", thingId=TEXT, title=TEXT)
    response = closed("result", result=closed("thing", thing=thing))
    with served(tmp_path, with_paths(collection("/things", "thingId", response, TITLE))) as client:
        made = client.post("/things", json={"title": "a"}).json()
        own = made["result"]["thing"]
        assert own["title"] == "a"
        assert client.get(f"/things/{own['thingId']}").json() == made


def test_null_is_kept_by_a_patch_that_shows_nothing(tmp_path: Path) -> None:
    record = closed("id", id=WHOLE, title={"type": ["string", "null"]})
    paths = collection("/things", "id", record, TITLE)
    gone = {"operationId": "change", "responses": {"204": {"description": "changed"}}}
    body = {"content": {"application/json": {"schema": {"type": "object"}}}}
    paths["/things/{id}"]["patch"] = {**gone, "requestBody": body}
    with served(tmp_path, with_paths(paths)) as client:
        client.post("/things", json={"title": "a"})
        assert client.patch("/things/1", json={"title": None}).status_code == 204
        assert client.get("/things/1").json() == {"id": 1, "title": None}


@pytest.mark.parametrize("is_required", [False, True])
def test_a_secret_of_one_alternative_is_none_of_another(
    tmp_path: Path, *, is_required: bool
) -> None:
    """Environment variables, which are plain or secret."""
    needed = ["type", "value"] if is_required else ["type"]
    plain = {**closed(*needed, type={"const": "plain"}, value=TEXT), "additionalProperties": True}
    secret: dict[str, Any] = {"type": "object", "required": ["type"]}
    secret["properties"] = {"type": {"enum": ["secret", "hidden"]}, "value": SECRET}
    either = {"oneOf": [plain, secret]}
    record = {"allOf": [{**OPEN, "required": ["id"]}, either]}
    with served(tmp_path, with_paths(collection("/things", "id", record, either))) as client:
        client.post("/things", json={"type": "plain", "value": "visible"})
        client.post("/things", json={"type": "hidden", "value": "hunter2"})
        assert client.get("/things/1").json()["value"] == "visible"
        assert "hunter2" not in client.get("/things/2").text


def test_members_of_parts_have_the_names_of_the_response(tmp_path: Path) -> None:
    line = closed("unit_price", unit_price={"type": "number"}, tax_rates=listed(TITLE))
    record = closed("id", id=WHOLE, line_items=listed(line), ship_to=closed(street_name=TEXT))
    sent = {
        "lineItems": [{"unitPrice": 1.5, "taxRates": [{"title": "t"}]}],
        "shipTo": {"streetName": "s"},
    }
    with served(tmp_path, with_parts(record)) as client:
        made = client.post("/orders", json=sent).json()
        assert made == {
            "id": 1,
            "line_items": [{"unit_price": 1.5, "tax_rates": [{"title": "t"}]}],
            "ship_to": {"street_name": "s"},
        }


def test_a_list_that_is_posted_beside_objects_has_no_effect(tmp_path: Path) -> None:
    paths = collection("/things", "id", THING, {"oneOf": [TITLE, listed(TITLE)]})
    paths["/things"]["get"] = operation("list", listed(THING), "200")
    explained = {"X-Sandbox-Explain": "1"}
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/things", json=[{"title": "a"}, {"title": "b"}], headers=explained)
        assert "nothing was kept: a list was posted" in made.headers["x-sandbox-explain"]
        assert client.get("/things").json() == []
        client.post("/things", json={"title": "a"})
        assert client.get("/things").json() == [{"id": 1, "title": "a"}]


@pytest.mark.parametrize(
    ("kind", "key", "path"),
    [(TEXT, "dir/a.txt", "dir%2Fa.txt"), ({"type": "number"}, 1.5, "1.5")],
    ids=["a slash", "a fraction"],
)
def test_a_posted_id_is_kept(tmp_path: Path, kind: Any, key: Any, path: str) -> None:
    record = closed("id", id=kind, title=TEXT)
    paths = collection("/things", "id", record, record)
    paths["/things/{id}"]["parameters"][0]["schema"] = kind
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/things", json={"id": key, "title": "a"}).json()
        assert made == client.get(f"/things/{path}").json() == {"id": key, "title": "a"}


def test_what_a_response_declares_is_no_secret_there(tmp_path: Path) -> None:
    """Members of any name are no declaration of one that is secret."""
    shown = closed("id", id=WHOLE, tags={"type": "object", "additionalProperties": TEXT})
    shown["additionalProperties"] = TEXT
    sent = closed(password=SECRET, tags={"type": "object", "additionalProperties": SECRET})
    with served(tmp_path, with_paths(collection("/things", "id", shown, sent))) as client:
        made = client.post("/things", json={"password": "hunter2", "tags": {"a": "b"}}).json()
        assert made == {"id": 1, "tags": {"a": "b"}}


def test_secrets_are_found_where_a_schema_is_one_of_its_own_alternatives(tmp_path: Path) -> None:
    itself = {"$ref": "#/components/schemas/Loop"}
    record = {**closed("id", id=WHOLE, key=SECRET), "anyOf": [itself, {"type": "object"}]}
    record |= {"required": []}
    document = with_paths(collection("/things", "id", OPEN, itself))
    document["components"] = {"schemas": {"Loop": record}}
    with served(tmp_path, document) as client:
        made = client.post("/things", json={"key": "hunter2"})
        assert made.status_code == 201
        assert "hunter2" not in made.text


# --- paths at which the sandbox has pages of its own


def docs_and_things() -> dict[str, Any]:
    """Things, and what has the paths of the sandbox's own pages."""
    docs = collection("/docs", "id", THING, TITLE, create="createDoc")
    docs["/docs"]["get"] = operation("listDocs", listed(THING), "200")
    file = {"get": operation("getFile", {"type": "object"}, "200")}
    return {**collection("/things", "id", THING, TITLE), **docs, "/openapi.json": file}


def test_what_is_behind_the_own_pages_of_the_sandbox_is_in_no_collection(tmp_path: Path) -> None:
    reason = "the sandbox has pages of its own at this path"
    assert lines(tmp_path, docs_and_things()) == [
        "Stateful /things: records by 'id': create (create), created (get)",
        f"Not stateful: GET /docs: {reason}",
        f"Not stateful: GET /docs/{{id}}: {reason}",
        f"Not stateful: GET /openapi.json: {reason}",
    ]


def test_below_a_base_path_the_sandbox_has_no_pages_of_its_own(tmp_path: Path) -> None:
    content = {**with_paths(docs_and_things()), "servers": [{"url": "/v1"}]}
    found = load_contract(written(tmp_path, content), stateful=True).inferred
    assert [one.path for one in found.collections] == ["/things", "/docs"]
    assert not found.left_out


# --- an operation is in one collection


def snippets(*, has_list: bool) -> dict[str, Any]:
    """As Bitbucket's: in all workspaces, or in one, whose path has items below it."""
    paths = collection("/snippets/{workspace}", "id", THING, TITLE, create="createInOne")
    given = {"name": "workspace", "in": "path", "required": True, "schema": TEXT}
    for one in paths.values():
        one["parameters"] = [*one.get("parameters", ()), given]
    paths["/snippets/{workspace}"]["get"] = operation("listOne", listed(THING), "200")
    every = {"post": operation("create", THING, "201", TITLE)}
    every |= {"get": operation("list", listed(THING), "200")} if has_list else {}
    return {"/snippets": every, **paths}


IN_ONE = (
    "Stateful /snippets/{workspace}: records by 'id': "
    "createInOne (create), listOne (page), createInOned (get)"
)


@pytest.mark.parametrize("is_reversed", [False, True], ids=["above first", "below first"])
def test_a_list_with_items_below_it_is_no_item(tmp_path: Path, is_reversed: bool) -> None:
    paths = snippets(has_list=False)
    paths = dict(reversed(paths.items())) if is_reversed else paths
    line = "Not stateful: POST /snippets: GET /snippets/{workspace} is a list and no item of it"
    assert lines(tmp_path, paths) == [IN_ONE, line]
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/snippets/X", json={"title": "a"}).json()
        assert client.get("/snippets/X").json() == [made]
        assert client.get("/snippets/X/1").json() == made
        assert client.get("/snippets/Y").json() == []


def test_what_has_a_list_below_it_may_be_a_list_as_well(tmp_path: Path) -> None:
    above = "Stateful /snippets: records by 'id': create (create), list (page)"
    assert lines(tmp_path, snippets(has_list=True)) == [IN_ONE, above]


def test_a_change_of_an_item_makes_no_records_below_it(tmp_path: Path) -> None:
    paths = snippets(has_list=False)
    paths["/snippets/{workspace}"]["get"] = operation("get", THING, "200")
    paths["/snippets/{workspace}"]["post"] = operation("change", THING, "200", TITLE)
    assert lines(tmp_path, paths) == [
        "Stateful /snippets: records by 'id': create (create), get (get), change (change)",
        "Not stateful: GET /snippets/{workspace}/{id}: POST /snippets/{workspace} is a change",
    ]


@pytest.mark.parametrize("status", ["200", "201"])
def test_what_is_posted_to_an_item_may_be_an_item_below_it(tmp_path: Path, status: str) -> None:
    paths = snippets(has_list=False)
    workspace = closed("id", id=TEXT) if status == "200" else THING
    paths["/snippets"]["post"] = operation("create", workspace, "201", workspace)
    paths["/snippets/{workspace}"]["get"] = operation("get", workspace, "200")
    paths["/snippets/{workspace}"]["post"] = operation("createInOne", THING, status, TITLE)
    assert lines(tmp_path, paths) == [
        "Stateful /snippets: records by 'id': create (create), get (get)",
        "Stateful /snippets/{workspace}: records by 'id': createInOne (create), createInOned (get)",
    ]


def test_what_is_posted_elsewhere_has_items_at_one_path(tmp_path: Path) -> None:
    paths = collection("/articles/{article}/comments", "comment", THING, TITLE)
    item = paths.pop("/articles/{article}/comments/{comment}")
    given = {"name": "article", "in": "path", "required": True, "schema": TEXT}
    paths["/articles/{article}/comments"]["parameters"] = [given]
    other = {**item, "get": operation("other", THING, "200")}
    paths |= {"/comments/{comment}": item, "/new/comments/{comment}": other}
    assert lines(tmp_path, paths) == [
        "Stateful /articles/{article}/comments: records by 'id': create (create), created (get)"
    ]


def test_init_writes_each_handler_once(tmp_path: Path) -> None:
    content = written(tmp_path, with_paths(snippets(has_list=True)))
    found = load_contract(content, stateful=True).inferred
    names = [name for name, _ in found.handlers()]
    assert len(names) == len({*names}) == 5


def test_ids_with_slashes_are_those_of_no_path_below(tmp_path: Path) -> None:
    """And what belongs to them is deleted with them."""
    record = closed("id", id=TEXT, title=TEXT)
    steps = [("/a", "x"), ("/a/{x}/b", "y"), ("/a/{x}/b/{y}/b", "z")]
    paths: dict[str, Any] = {}
    for number, (path, item) in enumerate(steps):
        own = collection(path, item, record, record, create=f"make{number}")
        given = [{"name": one, "in": "path", "required": True, "schema": TEXT} for one in "xyz"]
        for at, one in own.items():
            one["parameters"] = [it for it in given if f"{{{it['name']}}}" in at]
        paths |= own
    gone = {"operationId": "delete", "responses": {"204": {"description": "It is gone."}}}
    paths["/a/{x}"]["delete"] = gone
    with served(tmp_path, with_paths(paths)) as client:
        for path, key in (("/a", "p/b/q"), ("/a", "p"), ("/a/p/b", "q")):
            client.post(path, json={"id": key}).raise_for_status()
        for path in ("/a/p%2Fb%2Fq/b", "/a/p/b/q/b"):
            client.post(path, json={"id": "r", "title": path}).raise_for_status()
        assert client.get("/a/p%2Fb%2Fq/b/r").json()["title"] == "/a/p%2Fb%2Fq/b"
        assert client.get("/a/p/b/q/b/r").json()["title"] == "/a/p/b/q/b"
        client.delete("/a/p%2Fb%2Fq").raise_for_status()
        assert client.get("/a/p%2Fb%2Fq/b/r").status_code == 404
        assert client.get("/a/p/b/q/b/r").status_code == 200


TEXTS: dict[str, Any] = {
    "a length": {"minLength": 24, "maxLength": 24},
    "a long text": {"minLength": 200},
    "a short text": {"minLength": 2, "maxLength": 2},
    "a text that is not long": {"maxLength": 20},
    "a beginning": {"pattern": "^cus_"},
    "a length and a beginning": {"pattern": "^c[a-z0-9_]+$", "maxLength": 12},
    "letters": {"pattern": "^[A-Z]{4}$"},
}


@pytest.mark.parametrize("is_in_path", [False, True])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_each_record_has_an_id_of_its_own_that_schemas_allow(
    tmp_path: Path, text: Any, *, is_in_path: bool
) -> None:
    key = TEXT if is_in_path else {**TEXT, **text}
    thing = closed("id", "title", id=key, title=TEXT)
    paths = collection("/things", "id", thing, TITLE)
    paths["/things"]["get"] = operation("list", listed(thing), "200")
    paths["/things/{id}"]["parameters"][0]["schema"] = {**TEXT, **text} if is_in_path else TEXT
    titles = [str(number) for number in range(40)]
    with served(tmp_path, with_paths(paths)) as client:
        made = [client.post("/things", json={"title": one}).json() for one in titles]
        assert len({one["id"] for one in made}) == len(titles)
        assert [one["title"] for one in client.get("/things").json()] == titles
        assert client.get(f"/things/{made[7]['id']}").json() == made[7]


def test_the_few_numbers_that_an_id_can_be_are_all_used(tmp_path: Path) -> None:
    key = {**WHOLE, "minimum": 1000, "maximum": 1003}
    with served(
        tmp_path,
        with_paths(collection("/things", "id", closed("id", "title", id=key, title=TEXT), TITLE)),
    ) as client:
        made = [client.post("/things", json={"title": one}).json() for one in "abcd"]
        assert {one["id"] for one in made} == {1000, 1001, 1002, 1003}


OTHER_IDS: dict[str, tuple[str, str, Any, str]] = {
    "a part with the name of the parameter": (
        "/invoices",
        "invoice",
        closed("id", id=TEXT, title=TEXT, from_invoice=closed("invoice", invoice=TEXT)),
        "id",
    ),
    "the last word of what the record is called": (
        "/promotion_codes",
        "promotion_code",
        closed("id", "code", id=TEXT, code=TEXT, title=TEXT),
        "id",
    ),
    "a part of a list of others": (
        "/templates",
        "template_id",
        closed("id", id=TEXT, versions=listed(closed(template_id=TEXT)), title=TEXT),
        "id",
    ),
    "one or the other": ("/teams", "id_or_name", closed("id", id=TEXT, name=TEXT), "id"),
    "the name of the record and id": (
        "/consents",
        "consent",
        closed("consentId", consentId=TEXT, title=TEXT),
        "consentId",
    ),
    "the last word of the parameter": (
        "/teams",
        "team_slug",
        closed("id", "slug", id=TEXT, slug=TEXT, title=TEXT),
        "slug",
    ),
}


@pytest.mark.parametrize(
    ("path", "parameter", "record", "identity"), OTHER_IDS.values(), ids=OTHER_IDS
)
def test_the_parameter_of_the_path_decides_which_member_is_the_id(
    tmp_path: Path, path: str, parameter: str, record: Any, identity: str
) -> None:
    paths = collection(path, parameter, record, {"type": "object"})
    found = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred
    assert [".".join(one.key) for one in found.collections] == [identity]


def test_a_posted_member_called_like_the_parameter_is_the_id(tmp_path: Path) -> None:
    """As members of a group have it, which are users."""
    user = closed("id", "name", id=TEXT, name=TEXT)
    paths = collection("/groups/{groupId}/members", "userId", user, closed(userId=TEXT))
    item = paths["/groups/{groupId}/members/{userId}"]
    group = {"name": "groupId", "in": "path", "required": True, "schema": TEXT}
    item["parameters"].append(group)
    item["delete"] = {"operationId": "remove", "responses": {"204": {"description": "gone"}}}
    paths["/groups/{groupId}/members"] |= {
        "parameters": [group],
        "get": operation("list", listed(user), "200"),
    }
    with served(tmp_path, with_paths(paths)) as client:
        for one in ("bob", "eve"):
            assert client.post("/groups/1/members", json={"userId": one}).json()["id"] == one
        assert [one["id"] for one in client.get("/groups/1/members").json()] == ["bob", "eve"]
        assert client.delete("/groups/1/members/bob").status_code == 204
        assert [one["id"] for one in client.get("/groups/1/members").json()] == ["eve"]


@pytest.mark.parametrize("key", [TEXT, WHOLE], ids=["a text", "a number"])
@pytest.mark.parametrize(("made", "later"), [("orderId", "id"), ("id", "orderId")])
def test_a_list_has_the_id_by_the_name_that_its_items_have_for_it(
    tmp_path: Path, made: str, later: str, key: Any
) -> None:
    def with_id(name: str) -> dict[str, Any]:
        return {**closed(name, **{name: key}, title=TEXT), "additionalProperties": True}

    paths = collection("/orders", "orderId", with_id(later), TITLE)
    paths["/orders"] |= {
        "post": operation("create", closed(made, **{made: key}), "201", TITLE),
        "get": operation("list", listed(with_id(later)), "200"),
    }
    paths["/orders/{orderId}"]["parameters"][0]["schema"] = key
    with served(tmp_path, with_paths(paths)) as client:
        ids = [client.post("/orders", json={"title": one}).json()[made] for one in "ab"]
        shown = [{"title": one, later: own} for one, own in zip("ab", ids, strict=True)]
        assert client.get("/orders").json() == shown
        assert client.get(f"/orders/{ids[1]}").json() == shown[1]


def test_a_list_that_is_posted_alone_in_an_object_is_of_several_records(tmp_path: Path) -> None:
    record = closed("id", id=WHOLE, ip=TEXT)
    paths = collection("/whitelist", "id", record, closed(ips=listed(closed(ip=TEXT))))
    found = load_contract(written(tmp_path, with_paths(paths)), stateful=True).inferred
    assert [*found.lines()] == ["Not stateful: POST /whitelist: it takes several records"]


@pytest.mark.parametrize("is_patched", [False, True])
@pytest.mark.parametrize("is_declared", [False, True])
def test_what_requests_alone_declare_is_in_no_response_that_declares_the_rest(
    tmp_path: Path, *, is_declared: bool, is_patched: bool
) -> None:
    """Documents of FastAPI have a password that is not ``writeOnly``."""
    sent = {"type": "object", "properties": {"email": TEXT, "password": TEXT}}
    user: dict[str, Any] = {"type": "object", "required": ["id"], "properties": {"id": WHOLE}}
    user["properties"] |= {"email": TEXT} if is_declared else {}
    paths = collection("/users", "id", user, sent)
    paths["/users"]["get"] = operation("list", listed(user), "200")
    if is_patched:
        change = listed({"type": "object", "properties": {"op": TEXT, "path": TEXT}})
        paths["/users/{id}"]["patch"] = operation("patch", user, "200", change)
    posted = {"email": "a@b.c", "password": "hunter2", "more": 1}
    shown = {"id": 1, **posted}
    if is_declared:
        del shown["password"]
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/users", json=posted).json()
        assert made == client.get("/users/1").json() == shown
        assert client.get("/users").json() == [shown]


NUMBER: dict[str, Any] = {"type": "number"}
DECIMAL = {"anyOf": [{**TEXT, "pattern": "^[0-9.]+$"}, {"type": "null"}]}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_number_is_a_text_where_only_a_text_is_allowed(tmp_path: Path, method: str) -> None:
    """Neither the record nor the example has a value that shows that."""
    sent = closed(title=TEXT, price=NUMBER, count=TEXT, discount=NUMBER)
    thing = closed("id", id=WHOLE, title=TEXT, price=TEXT, count=WHOLE, discount=DECIMAL)
    paths = collection("/things", "id", thing, sent)
    paths["/things/{id}"][method.lower()] = operation("change", thing, "200", sent)
    with served(tmp_path, with_paths(paths)) as client:
        posted = {"price": 7.5, "count": "4", "discount": 2.5}
        shown = {"price": "7.5", "count": 4, "discount": "2.5"}
        assert client.post("/things", json=posted).json() == {"id": 1, **shown}
        client.post("/things", json={"title": "a"})
        assert client.request(method, "/things/2", json=posted).json().items() >= shown.items()
        assert client.get("/things/2").json().items() >= shown.items()


def test_a_text_that_is_no_number_is_none(tmp_path: Path) -> None:
    day = {**TEXT, "format": "date"}
    sent = closed(title=TEXT, count=TEXT, day=TEXT)
    thing = closed("id", "day", id=WHOLE, title=TEXT, count=WHOLE, day=day)
    with served(tmp_path, with_paths(collection("/things", "id", thing, sent))) as client:
        posted = {"title": "a", "count": "four", "day": "12"}
        made = client.post("/things", json=posted).json()
        assert made["title"] == "a"
        assert isinstance(made["count"], int)
        assert len(made["day"]) == len("2026-01-01")


SECRET_PARTS: dict[str, Any] = {
    "an object": {"type": "object", "properties": {"host": TEXT, "password": TEXT}},
    "a list": {
        "type": "array",
        "items": {"type": "object", "properties": {"host": TEXT, "password": TEXT}},
    },
}


@pytest.mark.parametrize("part", SECRET_PARTS.values(), ids=SECRET_PARTS)
def test_what_only_requests_declare_of_a_part_is_in_no_response(tmp_path: Path, part: Any) -> None:
    host = {"type": "object", "properties": {"host": TEXT}}
    of_part = {"type": "array", "items": host} if "items" in part else host
    thing = {"type": "object", "required": ["id"], "properties": {"id": WHOLE, "part": of_part}}
    sent = {"type": "object", "properties": {"part": part}}
    paths = collection("/things", "id", thing, sent)
    paths["/things"]["get"] = operation("list", listed(thing), "200")
    secret, plain = {"host": "h", "password": "hunter2"}, {"host": "h"}
    posted, shown = ([secret], [plain]) if "items" in part else (secret, plain)
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/things", json={"part": posted}).json()
        assert made == client.get("/things/1").json() == {"id": 1, "part": shown}
        assert client.get("/things").json() == [made]


def test_a_response_with_the_id_alone_shows_no_secret(tmp_path: Path) -> None:
    sent = {"type": "object", "properties": {"id": WHOLE, "email": TEXT, "password": TEXT}}
    user = {"type": "object", "required": ["id"], "properties": {"id": WHOLE, "email": TEXT}}
    only = {"type": "object", "required": ["id"], "properties": {"id": WHOLE}}
    gone = {"type": "object", "properties": {"id": WHOLE, "deleted": FLAG}}
    paths = collection("/users", "id", user, sent)
    paths["/users"]["post"] = operation("create", only, "201", sent)
    paths["/users/{id}"]["delete"] = operation("delete", gone, "200")
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/users", json={"email": "a@b.c", "password": "hunter2"}).json()
        assert made == {"id": 1}
        assert client.get("/users/1").json() == {"id": 1, "email": "a@b.c"}
        assert client.delete("/users/1").json() == {"id": 1, "deleted": True}


def test_a_document_whose_responses_declare_the_id_alone_shows_what_is_posted(
    tmp_path: Path,
) -> None:
    sent = {"type": "object", "properties": {"id": WHOLE, "title": TEXT}}
    only = {"type": "object", "required": ["id"], "properties": {"id": WHOLE}}
    with served(tmp_path, with_paths(collection("/things", "id", only, sent))) as client:
        assert client.post("/things", json={"title": "a"}).json() == {"id": 1, "title": "a"}


def test_a_list_of_itself_has_no_end_of_its_members(tmp_path: Path) -> None:
    tree = {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}
    thing = {"type": "object", "required": ["id"], "properties": {"id": WHOLE, "tree": tree}}
    content = with_paths(collection("/things", "id", thing, thing | {"required": []}))
    with served(tmp_path, {**content, "components": {"schemas": {"Tree": tree}}}) as client:
        made = client.post("/things", json={"tree": [[[]]]}).json()
        assert made == {"id": 1, "tree": [[[]]]}


def test_a_patch_that_leaves_no_object_changes_nothing(tmp_path: Path) -> None:
    paths = collection("/things", "id", THING, TITLE)
    body = {"type": ["object", "array"]}
    paths["/things/{id}"]["patch"] = operation("change", THING, "200", body)
    with served(tmp_path, with_paths(paths)) as client:
        made = client.post("/things", json={"title": "a"}).json()
        patch = [{"op": "replace", "path": "", "value": [1]}]
        assert client.patch("/things/1", json=patch).status_code == 400
        assert client.get("/things/1").json() == made


SEVERAL: dict[str, tuple[Any, Any, bool]] = {
    "a list that the record has, too": (
        closed(title=TEXT, assignees=listed(TEXT)),
        closed("id", id=WHOLE, title=TEXT, assignee=TEXT, assignees=listed(TEXT)),
        False,
    ),
    "ids of others": (closed(title=TEXT, ids=listed(TEXT)), THING, False),
    "a list of what the record has one of": (
        closed(emails=listed(TEXT), role=TEXT),
        closed("id", id=WHOLE, email=TEXT, role=TEXT),
        True,
    ),
}


@pytest.mark.parametrize(("sent", "record", "is_several"), SEVERAL.values(), ids=SEVERAL)
def test_a_list_of_texts_is_of_several_records_if_the_record_has_one_of_them(
    tmp_path: Path, sent: Any, record: Any, *, is_several: bool
) -> None:
    content = with_paths(collection("/things", "id", record, sent))
    found = load_contract(written(tmp_path, content), stateful=True).inferred
    assert [one.path for one in found.collections] == ([] if is_several else ["/things"])


@pytest.mark.parametrize("is_same", [False, True])
def test_items_elsewhere_that_show_another_schema_have_a_line(
    tmp_path: Path, *, is_same: bool
) -> None:
    """As the meetings of Zoom do."""
    other = closed("id", id=WHOLE, title=TEXT, uuid=TEXT)
    user = {"name": "userId", "in": "path", "required": True, "schema": TEXT}
    item = collection("/meetings", "meetingId", THING if is_same else other, None)
    del item["/meetings"]
    path = {
        "parameters": [user],
        "post": operation("plan", THING, "201", TITLE),
        "get": operation("list", listed(THING), "200"),
    }
    content = with_paths({"/users/{userId}/meetings": path, **item})
    lines = [*load_contract(written(tmp_path, content), stateful=True).inferred.lines()]
    apart = "GET /meetings/{meetingId}: it does not show what POST /users/{userId}/meetings does"
    assert lines[1:] == ([] if is_same else [f"Not stateful: {apart}"])
