"""``--stateful``: the pages of a list, as the document declares them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from invoice_sandbox.openapi.load.operations import path_names
from invoice_sandbox.project.loader import load_contract
from tests.test_stateful import (
    FLAG,
    NULLABLE,
    TEXT,
    WHOLE,
    closed,
    collection,
    operation,
    pages_of_two,
    served,
    things,
    with_paths,
    written,
)

pytestmark = pytest.mark.slow


def ids(page: httpx.Response) -> list[int]:
    return [one["id"] for one in page.json()["data"]]


def with_five(client: httpx.Client) -> httpx.Client:
    for name in "abcde":
        client.post("/things", json={"name": name})
    return client


def listing(content: Any) -> Any:
    return content["paths"]["/things"]["get"]


def test_the_default_of_a_page_size_applies(tmp_path: Path) -> None:
    content = things({}, per_page={**WHOLE, "default": 2}, page=WHOLE)
    with served(tmp_path, content) as client:
        with_five(client)
        assert ids(client.get("/things")) == [1, 2]
        assert ids(client.get("/things", params={"page": 3})) == [5]
        assert ids(client.get("/things", params={"per_page": 3})) == [1, 2, 3]
        assert ids(client.get("/things", params={"limit": 4})) == [1, 2, 3, 4]


def test_the_default_of_a_page_size_hides_nothing_that_nobody_can_ask_for(tmp_path: Path) -> None:
    with served(tmp_path, things({}, per_page={**WHOLE, "default": 2}, token=TEXT)) as client:
        with_five(client)
        assert ids(client.get("/things")) == [1, 2, 3, 4, 5]
        assert ids(client.get("/things", params={"per_page": 3})) == [1, 2, 3]


@pytest.mark.parametrize(("asked", "expected"), [("", [1, 2]), ("page[size]=3", [1, 2, 3])])
def test_the_default_of_a_page_size_may_be_in_an_object(
    tmp_path: Path, asked: str, expected: list[int]
) -> None:
    properties = {"number": WHOLE, "size": {**WHOLE, "default": 2}}
    content = things({})
    given = {"in": "query", "style": "deepObject", "schema": {"properties": properties}}
    listing(content)["parameters"].append({"name": "page", **given})
    listing(content)["responses"]["200"]["headers"] = {"Link": {"schema": TEXT}}
    with served(tmp_path, content) as client:
        first = with_five(client).get(f"/things?{asked}")
        assert ids(first) == expected
        assert ids(client.get(first.links["next"]["url"]))[0] == expected[-1] + 1


def test_a_list_has_no_more_records_than_its_schema_allows(tmp_path: Path) -> None:
    content = things({"next_page": {"type": ["integer", "null"]}}, page=WHOLE)
    response = listing(content)["responses"]["200"]["content"]["application/json"]
    response["schema"]["properties"]["data"]["maxItems"] = 2
    with served(tmp_path, content) as client:
        pages = [with_five(client).get("/things", params={"limit": 9})]
        while pages[-1].json()["next_page"]:
            pages.append(client.get("/things", params={"page": pages[-1].json()["next_page"]}))
        assert [ids(one) for one in pages] == [[1, 2], [3, 4], [5]]


def linked(schema: Any = TEXT, **header: Any) -> dict[str, Any]:
    content = things({}, page=WHOLE, archived={"type": "boolean"})
    link = {"schema": schema, **header}
    listing(content)["responses"]["200"]["headers"] = {"Link": link}
    return content


def test_a_link_without_an_example_leads_to_every_page(tmp_path: Path) -> None:
    with served(tmp_path, linked()) as client:
        first = with_five(client).get("/things", params={"limit": 2, "archived": True})
        second = client.get(first.links["next"]["url"])
        last = client.get(first.links["last"]["url"])
        assert [ids(one) for one in (first, second, last)] == [[1, 2], [3, 4], [5]]
        assert ["prev" in one.links for one in (first, second, last)] == [False, True, True]
        assert ["next" in one.links for one in (first, second, last)] == [True, True, False]
        assert ids(client.get(second.links["prev"]["url"])) == [1, 2]
        assert ids(client.get(last.links["first"]["url"])) == [1, 2]
        beyond = client.get("/things", params={"limit": 2, "page": 9})
        assert ids(beyond) == []
        assert ids(client.get(beyond.links["prev"]["url"])) == [5]


def test_a_link_that_the_document_does_not_allow_is_left_out(tmp_path: Path) -> None:
    with served(tmp_path, linked({**TEXT, "maxLength": 9})) as client:
        page = with_five(client).get("/things", params={"limit": 2})
        assert (ids(page), "link" in page.headers) == ([1, 2], False)


@pytest.mark.parametrize(("required", "relations"), [(True, {"first", "last"}), (False, set())])
def test_a_link_of_an_only_page_is_there_if_it_is_required(
    tmp_path: Path, required: bool, relations: set[str]
) -> None:
    with served(tmp_path, linked(required=required)) as client:
        assert {*with_five(client).get("/things").links} == relations


REQUIRED = {**TEXT, "minLength": 1, "example": "1"}


@pytest.mark.parametrize(
    ("parameter", "schema", "listed"),
    [
        ("cursor", TEXT, {"next_cursor": REQUIRED}),
        ("page", WHOLE, {"next_page": {**WHOLE, "example": 1}}),
        ("starting_after", WHOLE, {"cursor": {**WHOLE, "example": 1}}),
    ],
    ids=["text", "number", "record"],
)
def test_a_cursor_that_must_not_be_empty_leads_to_an_empty_page_in_the_end(
    tmp_path: Path, parameter: str, schema: Any, listed: Any
) -> None:
    (member,) = listed
    with served(tmp_path, things(listed, **{parameter: schema})) as client:
        with_five(client)
        found = pages_of_two(client, parameter, lambda page: page["data"] and page[member])
        assert [[one["id"] for one in page["data"]] for page in found] == [[1, 2], [3, 4], [5], []]
        assert found[-1][member] == found[-2][member]


QLDB = {**TEXT, "pattern": "^[A-Za-z-0-9+/=]+$", "minLength": 4, "maxLength": 1024}
APPSYNC = {**TEXT, "pattern": r"[\\S]+", "minLength": 1, "maxLength": 65536}
"""Tokens of Amazon's documents: the first may be a date, the second has a backslash or an S."""
PREFIXED = {**TEXT, "pattern": "^c_[a-z0-9]+$"}


@pytest.mark.parametrize(
    ("parameters", "member", "schema", "token"),
    [
        ({"next_token": QLDB, "NextToken": TEXT}, "NextToken", QLDB, "0002"),
        ({"next_token": QLDB}, "NextToken", QLDB, "0002"),
        ({"NextToken": TEXT}, "NextToken", QLDB, "0002"),
        ({"nextToken": APPSYNC}, "nextToken", APPSYNC, "2"),
        ({"cursor": {**TEXT, "pattern": "^[0-9]{20}$"}}, "next_cursor", TEXT, "2"),
        ({"cursor": PREFIXED}, "next_cursor", TEXT, "2"),
        ({"next_token": PREFIXED, "NextToken": TEXT}, "NextToken", TEXT, "2"),
    ],
    ids=["qldb", "minLength", "of the response", "appsync", "20 digits", "prefix", "one of two"],
)
def test_a_cursor_is_a_position_in_a_form_that_its_schema_allows(
    tmp_path: Path, parameters: dict[str, Any], member: str, schema: Any, token: str
) -> None:
    content = things({member: schema}, **parameters)
    listing(content)["responses"]["200"]["headers"] = {"Link": {"schema": TEXT}}
    body = listing(content)["responses"]["200"]["content"]["application/json"]["schema"]
    body["required"].remove(member)
    with served(tmp_path, content) as client:
        with_five(client)
        found = pages_of_two(client, next(iter(parameters)), lambda page: page.get(member))
        assert [[one["id"] for one in page["data"]] for page in found] == [[1, 2], [3, 4], [5]]
        assert found[0][member].endswith(token)
        first = client.get("/things", params={"limit": 2})
        assert ids(client.get(first.links["next"]["url"])) == [3, 4]


@pytest.mark.parametrize(
    ("parameter", "schema", "expected"),
    [
        (TEXT, {**NULLABLE, "format": "uuid"}, None),
        (TEXT, {**TEXT, "format": "uuid"}, "absent"),
        ({**TEXT, "format": "uuid"}, {**TEXT, "format": "uuid"}, "absent"),
        ({**TEXT, "pattern": "^1[0-9]+$"}, TEXT, "absent"),
    ],
    ids=["null", "absent", "no parameter", "another number"],
)
def test_a_cursor_that_can_be_no_position_is_null_or_absent(
    tmp_path: Path, parameter: Any, schema: Any, expected: str | None
) -> None:
    content = things({"next_cursor": schema}, cursor=parameter)
    body = listing(content)["responses"]["200"]["content"]["application/json"]["schema"]
    body["required"].remove("next_cursor")
    with served(tmp_path, content) as client:
        page = with_five(client).get("/things", params={"limit": 2})
        assert (ids(page), page.json().get("next_cursor", "absent")) == ([1, 2], expected)


def test_pages_count_from_zero_if_that_is_the_default(tmp_path: Path) -> None:
    listed = {"page": WHOLE, "next_page": {"type": ["integer", "null"]}}
    with served(tmp_path, things(listed, page={**WHOLE, "default": 0})) as client:
        first = with_five(client).get("/things", params={"limit": 2})
        last = client.get("/things", params={"limit": 2, "page": 2})
        assert (ids(first), first.json()["page"], first.json()["next_page"]) == ([1, 2], 0, 1)
        assert (ids(last), last.json()["page"], last.json()["next_page"]) == ([5], 2, None)


def test_the_body_of_a_list_leads_back_as_well(tmp_path: Path) -> None:
    uri = {"type": ["string", "null"], "format": "uri", "example": "https://a.example/?page=9"}
    links = closed("first", "last", "next", first=uri, last=uri, prev=uri, next=uri)
    listed = {"links": links, "has_previous": {"type": "boolean"}, "preview": TEXT}
    with served(tmp_path, things(listed, page=WHOLE)) as client:
        first = with_five(client).get("/things", params={"limit": 2}).json()
        assert ("prev" in first["links"], first["has_previous"]) == (False, False)
        last = client.get(first["links"]["last"]).json()
        assert (last["links"]["next"], last["has_previous"]) == (None, True)
        assert ids(client.get(last["links"]["prev"])) == [3, 4]
        assert ids(client.get(last["links"]["first"])) == [1, 2]


def test_a_list_whose_items_have_other_ids_than_the_records_is_left_out(tmp_path: Path) -> None:
    content = things({})
    schema = listing(content)["responses"]["200"]["content"]["application/json"]["schema"]
    schema["properties"]["data"]["items"] = closed("id", id={"type": "object"})
    found = load_contract(written(tmp_path, content), stateful=True).inferred
    assert [*found.left_out] == ["GET /things: its response cannot have a record with 'id'"]


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("entries", {"order": {"by": TEXT}}),
        ("entries", {"included": {"id": WHOLE}, "warnings": {}}),
        ("things", {"data": {"id": WHOLE, "of": TEXT}}),
        ("found", {"links": {}, "data": {"href": TEXT}}),
    ],
    ids=["without an id", "beside related ones", "called like the collection", "with an id"],
)
def test_the_list_with_the_records_is_the_one_that_is_most_like_them(
    tmp_path: Path, name: str, others: Any
) -> None:
    content = things({})
    body = listing(content)["responses"]["200"]["content"]["application/json"]["schema"]
    own = body["properties"].pop("data")
    items = {one: {"type": "object", "properties": of} for one, of in others.items()}
    lists = {one: {"type": "array", "items": of} for one, of in items.items()}
    body |= {"required": [name], "properties": {**lists, name: own}}
    with served(tmp_path, content) as client:
        listed = with_five(client).get("/things", params={"limit": 2}).json()
        assert [one["id"] for one in listed[name]] == [1, 2]
        assert not any(one.get("name") for other in others for one in listed.get(other, ()))


@pytest.mark.parametrize(
    ("position", "size", "places"),
    [
        ("startAt", "maxResults", [0, 2, 4]),
        ("$skip", "$top", [0, 2, 4]),
        ("start", "rows", [0, 2, 4]),
        ("from", "count", [0, 2, 4]),
        ("startIndex", "itemsPerPage", [1, 3, 5]),
        ("pageIndex", "take", [0, 1, 2]),
        ("currentPage", "pageSize", [1, 2, 3]),
        ("pageNo", "results_per_page", [1, 2, 3]),
        ("p", "max", [1, 2, 3]),
        ("page", "maxresults", [1, 2, 3]),
        ("SkipCount", "MaxResultCount", [0, 2, 4]),
        ("page", "first", [1, 2, 3]),
        ("page", "pagelen", [1, 2, 3]),
        ("skipPages", "pageSize", [0, 1, 2]),
    ],
)
def test_parameters_of_a_page_have_many_names_and_a_body_repeats_them(
    tmp_path: Path, position: str, size: str, places: list[int]
) -> None:
    asked = {position: WHOLE} if size == "count" else {position: WHOLE, size: WHOLE}
    content = things(asked, **{position: WHOLE, size: WHOLE})
    with served(tmp_path, content) as client:
        with_five(client)
        pages = [client.get("/things", params={size: 2, position: at}) for at in places]
        assert [ids(one) for one in pages] == [[1, 2], [3, 4], [5]]
        assert [one.json()[position] for one in pages] == places
        assert not asked.get(size) or [one.json()[size] for one in pages] == [2, 2, 2]


@pytest.mark.parametrize(
    ("schema", "positions"),
    [
        ({"default": 1}, [1, 3]),
        ({"minimum": 1}, [1, 3]),
        ({"minimum": 0, "default": 1}, [1, 3]),
        ({"default": 7}, [0, 2]),
    ],
)
def test_records_count_from_the_default_or_the_minimum_of_their_position(
    tmp_path: Path, schema: Any, positions: list[int]
) -> None:
    with served(tmp_path, things({"offset": WHOLE}, offset={**WHOLE, **schema})) as client:
        with_five(client)
        pages = [client.get("/things", params={"limit": 2, "offset": at}) for at in positions]
        assert [(ids(one), one.json()["offset"]) for one in pages] == [
            ([1, 2], positions[0]),
            ([3, 4], positions[1]),
        ]


@pytest.mark.parametrize("others", [{"from": TEXT}, {"from": WHOLE, "to": WHOLE}])
def test_a_range_of_something_else_is_no_position(tmp_path: Path, others: Any) -> None:
    with served(tmp_path, things({}, **others)) as client:
        assert ids(with_five(client).get("/things", params={"from": 4})) == [1, 2, 3, 4, 5]


URI = {**TEXT, "format": "uri", "example": "https://a.example/?page=9"}


@pytest.mark.parametrize("links", ["links", "_links"])
@pytest.mark.parametrize("uri", [URI, TEXT], ids=["example", "generated"])
def test_links_of_a_body_lead_to_its_pages(tmp_path: Path, links: str, uri: Any) -> None:
    names = ("self", "first", "last", "next", "prev")
    listed = {links: closed(pages=closed(**dict.fromkeys(names, uri)))}
    with served(tmp_path, things(listed, page=WHOLE)) as client:
        with_five(client)
        second = client.get("/things", params={"limit": 2, "page": 2}).json()[links]["pages"]
        reached = {name: ids(client.get(second[name])) for name in names}
        assert reached == dict(zip(names, ([3, 4], [1, 2], [5], [5], [1, 2]), strict=True))


def test_links_repeat_what_was_asked_for_as_it_is_declared(tmp_path: Path) -> None:
    names, tag = {"type": "array", "items": TEXT}, {"type": "object", "properties": {"tag": TEXT}}
    content = things({"links": closed(next=URI, self=URI)}, page=WHOLE)
    listing(content)["parameters"] += [
        {"name": "include", "in": "query", "schema": names, "explode": False},
        {"name": "ids", "in": "query", "schema": names},
        {
            "name": "pipes",
            "in": "query",
            "schema": names,
            "style": "pipeDelimited",
            "explode": False,
        },
        {"name": "where", "in": "query", "schema": tag, "explode": False},
        {"name": "filter", "in": "query", "schema": tag, "style": "deepObject"},
        {
            "name": "q",
            "in": "query",
            "content": {"application/json": {"schema": {"type": "object"}}},
        },
        {"name": "flag", "in": "query", "schema": FLAG},
    ]
    asked = "include=a,b%20c&ids=1&ids=x%2Cy&pipes=a%7Cb&where=tag,%C3%A9&filter%5Btag%5D=a%26b"
    asked += "&q=%7B%22a%22%3A%5B1%2Cnull%5D%7D&flag=true"
    with served(tmp_path, content) as client:
        first = with_five(client).get(f"/things?limit=2&{asked}")
        assert first.status_code == 200, first.text
        links = first.json()["links"]
        assert {name: ids(client.get(url)) for name, url in links.items()} == {
            "self": [1, 2],
            "next": [3, 4],
        }
        assert links["next"].endswith(f"/things?limit=2&{asked}&page=2")


def test_a_link_to_the_next_page_may_need_one_to_this_page(tmp_path: Path) -> None:
    """As InfluxDB's: ``links`` is optional, and has to have ``self``."""
    content = things({"links": closed("self", next=URI, prev=URI, self=URI)}, page=WHOLE)
    response = listing(content)["responses"]["200"]["content"]["application/json"]
    response["schema"]["required"].remove("links")
    response["example"] = {"data": []}
    with served(tmp_path, content) as client:
        links = with_five(client).get("/things", params={"limit": 2}).json()["links"]
        assert {name: ids(client.get(url)) for name, url in links.items()} == {
            "self": [1, 2],
            "next": [3, 4],
        }


def test_links_of_a_body_may_be_objects_beside_the_counts(tmp_path: Path) -> None:
    hal = closed("href", href=URI, title=TEXT)
    links = closed("self", "first", "last", self=hal, first=hal, last=hal, next=hal)
    totals = dict.fromkeys(("itemsTotal", "pagesTotal", "pages", "remaining"), WHOLE)
    listed = {"_links": links, "self": URI, **totals}
    with served(tmp_path, things(listed, page=WHOLE)) as client:
        body = with_five(client).get("/things", params={"limit": 2}).json()
        assert [body[one] for one in totals] == [5, 3, 3, 3]
        reached = {name: ids(client.get(one["href"])) for name, one in body["_links"].items()}
        assert reached == {"self": [1, 2], "first": [1, 2], "last": [5], "next": [3, 4]}
        assert ids(client.get(body["self"])) == [1, 2]


def pages(client: httpx.Client, parameter: str, *positions: int) -> list[Any]:
    """Pages of two records."""
    with_five(client)
    return [client.get("/things", params={"limit": 2, parameter: at}) for at in positions]


@pytest.mark.parametrize("inside", [False, True], ids=["beside the list", "in an object"])
def test_members_about_a_page_are_those_of_spring_data(tmp_path: Path, inside: bool) -> None:
    numbers = dict.fromkeys(("number", "totalPages", "totalElements"), WHOLE)
    flags = dict.fromkeys(("first", "last", "empty"), FLAG)
    page = {"page": closed(*numbers, **numbers)} if inside else numbers
    listed = {**page, **flags, "numberOfElements": WHOLE}
    with served(tmp_path, things(listed, page={**WHOLE, "default": 0})) as client:
        bodies = [one.json() for one in pages(client, "page", 0, 1, 2, 3)]
        found = [{**one, **one.pop("page", {})} for one in bodies]
        assert [one["number"] for one in found] == [0, 1, 2, 3]
        assert {(one["totalPages"], one["totalElements"]) for one in found} == {(3, 5)}
        assert [one["first"] for one in found] == [True, False, False, False]
        assert [one["last"] for one in found] == [False, False, True, True]
        assert [one["empty"] for one in found] == [False, False, False, True]
        assert [one["numberOfElements"] for one in found] == [2, 2, 1, 0]


def test_members_about_a_page_may_have_a_namespace(tmp_path: Path) -> None:
    listed = {"@odata.nextLink": TEXT, "@odata.count": WHOLE}
    content = things({}, **{"$skip": WHOLE})
    body = listing(content)["responses"]["200"]["content"]["application/json"]["schema"]
    body["properties"] |= listed
    with served(tmp_path, content) as client:
        first = pages(client, "$skip", 0)[0].json()
        assert first["@odata.count"] == 5
        second = client.get(first["@odata.nextLink"]).json()
        last = client.get(second["@odata.nextLink"]).json()
        assert [one["id"] for page in (second, last) for one in page["data"]] == [3, 4, 5]
        assert not last.get("@odata.nextLink")


NULLABLE_WHOLE = {"type": ["integer", "null"]}


def test_the_range_of_a_page_counts_from_one(tmp_path: Path) -> None:
    ends = dict.fromkeys(("from", "to"), NULLABLE_WHOLE)
    with served(tmp_path, things({"meta": closed(*ends, **ends)}, page=WHOLE)) as client:
        found = [one.json()["meta"] for one in pages(client, "page", 1, 3, 4)]
        assert [(one["from"], one["to"]) for one in found] == [(1, 2), (5, 5), (None, None)]


def test_a_member_about_a_page_that_cannot_be_right_is_absent(tmp_path: Path) -> None:
    content = things({}, page=WHOLE)
    body = listing(content)["responses"]["200"]["content"]["application/json"]["schema"]
    body["properties"] |= {
        "total": {"enum": ["many"]},
        "first": {**TEXT, "example": "x"},
        "page": TEXT,
    }
    with served(tmp_path, content) as client:
        found = pages(client, "page", 2)[0].json()
        assert {*found} == {"data", "page"}
        assert found["page"] == "2"


def test_declared_headers_describe_the_page(tmp_path: Path) -> None:
    names = ("X-Total", "X-Total-Count", "X-Total-Pages", "X-Page", "X-Per-Page")
    others = {"X-Next-Page": TEXT, "X-Prev-Page": TEXT, "X-RateLimit-Limit": WHOLE}
    content = things({}, page=WHOLE)
    declared = {**dict.fromkeys(names, WHOLE), **others}
    headers: Any = {name: {"schema": one, "example": "7"} for name, one in declared.items()}
    headers["X-RateLimit-Limit"]["example"] = 60
    listing(content)["responses"]["200"]["headers"] = headers
    with served(tmp_path, content) as client:
        first, _, last = pages(client, "page", 1, 2, 3)
        assert [first.headers[one] for one in names] == ["5", "5", "3", "1", "2"]
        assert (first.headers["x-next-page"], last.headers["x-prev-page"]) == ("2", "2")
        assert "x-prev-page" not in first.headers
        assert "x-next-page" not in last.headers
        assert first.headers["x-ratelimit-limit"] == "60"


def test_an_item_of_a_list_may_have_the_record_in_a_node(tmp_path: Path) -> None:
    thing = closed("id", "name", id=WHOLE, name=TEXT)
    edges = {"type": "array", "items": closed("node", "cursor", node=thing, cursor=TEXT)}
    info = closed("hasNextPage", "endCursor", hasNextPage={"type": "boolean"}, endCursor=NULLABLE)
    content = things({}, after=TEXT)
    body = closed("edges", "pageInfo", edges=edges, pageInfo=info)
    listing(content)["responses"]["200"]["content"]["application/json"]["schema"] = body
    with served(tmp_path, content) as client:
        with_five(client)
        first = client.get("/things", params={"limit": 2}).json()
        nodes = [one["node"] for one in first["edges"]]
        assert nodes == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
        cursors = [one["cursor"] for one in first["edges"]]
        assert first["pageInfo"] == {"hasNextPage": True, "endCursor": cursors[-1]}
        after = client.get("/things", params={"limit": 2, "after": cursors[0]}).json()
        assert [one["node"]["id"] for one in after["edges"]] == [2, 3]


@pytest.mark.parametrize("items", [WHOLE, {**TEXT, "maxLength": 5}], ids=["number", "text"])
def test_a_list_without_objects_has_the_ids(tmp_path: Path, items: Any) -> None:
    content = things({}, page=WHOLE)
    body = listing(content)["responses"]["200"]["content"]["application/json"]["schema"]
    body["properties"]["data"]["items"] = items
    thing = closed("id", "name", id=items, name=TEXT)
    post = content["paths"]["/things"]["post"]
    post["responses"]["201"]["content"]["application/json"]["schema"] = thing
    with served(tmp_path, content) as client:
        first, last = pages(client, "page", 1, 3)
        assert [*first.json()["data"], *last.json()["data"]] in ([1, 2, 5], ["1", "2", "5"])


@pytest.mark.parametrize("required", [(), ("url",)], ids=["optional", "required"])
def test_a_list_that_shows_nothing_of_the_records_is_the_example(
    tmp_path: Path, required: tuple[str, ...]
) -> None:
    content = things({}, page=WHOLE)
    body = listing(content)["responses"]["200"]["content"]["application/json"]["schema"]
    body["properties"]["data"]["items"] = closed(*required, url=TEXT)
    (one, line) = load_contract(written(tmp_path, content), stateful=True).inferred.lines()
    assert "(page)" not in one
    assert line == "Not stateful: GET /things: its response cannot have a record with 'id'"


@pytest.mark.parametrize(
    "name", ["pageToken", "page_token", "Marker", "pagination_token", "batch_token"]
)
@pytest.mark.parametrize("is_required", [False, True], ids=["optional", "required"])
def test_a_cursor_may_be_called_like_its_parameter(
    tmp_path: Path, name: str, is_required: bool
) -> None:
    schema = NULLABLE if is_required else TEXT
    content = things({name: schema} if is_required else {}, **{name: TEXT})
    body = listing(content)["responses"]["200"]["content"]["application/json"]["schema"]
    body["properties"][name] = schema
    with served(tmp_path, content) as client:
        with_five(client)
        found = pages_of_two(client, name, lambda one: one.get(name))
        assert [[one["id"] for one in page["data"]] for page in found] == [[1, 2], [3, 4], [5]]


def test_a_token_beside_the_next_one_is_no_other_page(tmp_path: Path) -> None:
    content = things({"marker": TEXT, "nextMarker": NULLABLE}, marker=TEXT)
    body = listing(content)["responses"]["200"]["content"]["application/json"]["schema"]
    body["properties"]["marker"] = {**body["properties"]["marker"], "example": "here"}
    with served(tmp_path, content) as client:
        with_five(client)
        found = pages_of_two(client, "marker", lambda one: one["nextMarker"])
        assert [len(page["data"]) for page in found] == [2, 2, 1]
        assert {page["marker"] for page in found} == {"here"}


@pytest.mark.parametrize("inside", [False, True], ids=["beside the list", "in an object"])
def test_a_url_that_the_example_of_a_list_lacks_leads_to_the_next_page(
    tmp_path: Path, inside: bool
) -> None:
    uri = {"next": {**TEXT, "format": "uri"}}
    others = {"meta": {"type": "object", "properties": uri}} if inside else uri
    content = things({}, cursor=TEXT)
    body = listing(content)["responses"]["200"]["content"]["application/json"]
    body["schema"]["properties"] |= others
    body["example"] = {"data": [{"id": 1, "name": "a"}], **({"meta": {}} if inside else {})}
    with served(tmp_path, content) as client:
        found = [with_five(client).get("/things", params={"limit": 2})]
        while address := {**found[-1].json(), **found[-1].json().get("meta", {})}.get("next"):
            found.append(client.get(address))
        assert [ids(one) for one in found] == [[1, 2], [3, 4], [5]]


def test_a_cursor_may_be_a_number_though_its_parameter_is_a_text(tmp_path: Path) -> None:
    """As Box's."""
    with served(tmp_path, things({"next_marker": NULLABLE_WHOLE}, marker=TEXT)) as client:
        with_five(client)
        found = pages_of_two(client, "marker", lambda page: page["next_marker"])
        assert [page["next_marker"] for page in found] == [2, 4, None]
        assert [len(page["data"]) for page in found] == [2, 2, 1]


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ({"start": TEXT}, [3, 4, 5]),
        ({"start": TEXT, "end": TEXT}, [1, 2, 3, 4, 5]),
        ({"start": {**TEXT, "format": "date-time"}}, [1, 2, 3, 4, 5]),
    ],
    ids=["text", "beside an end", "date"],
)
def test_a_start_is_a_position_unless_it_is_that_of_a_range(
    tmp_path: Path, others: Any, expected: list[int]
) -> None:
    asked = "2026-01-01T00:00:00Z" if "format" in others["start"] else "2"
    with served(tmp_path, things({}, **others)) as client:
        assert ids(with_five(client).get("/things", params={"start": asked})) == expected


# --- URLs of paths with encoded parameters


def tasks_of_teams() -> dict[str, Any]:
    """Tasks below teams, in a list with the URL of its next page, and a ``Link`` header."""
    task = closed("id", "title", id=WHOLE, title=TEXT)
    paths = collection("/teams/{team}/tasks", "task", task, closed(title=TEXT))
    given = {"name": "team", "in": "path", "required": True, "schema": TEXT}
    for one in paths.values():
        one["parameters"] = [*one.get("parameters", ()), given]
    uri = {**NULLABLE, "format": "uri"}
    body = closed("data", data={"type": "array", "items": task}, next=uri, self=uri)
    listing = operation("list", body, "200")
    listing["responses"]["200"]["headers"] = {"Link": {"schema": TEXT}}
    names = ("page", "limit")
    listing["parameters"] = [{"name": one, "in": "query", "schema": WHOLE} for one in names]
    paths["/teams/{team}/tasks"]["get"] = listing
    made = paths["/teams/{team}/tasks"]["post"]["responses"]["201"]
    made["headers"] = {"Location": {"schema": TEXT}}
    return with_paths(paths)


@pytest.mark.parametrize("team", ["Blue%20Team", "M%C3%BCller", "a%2Fb", "50%25", "a+b"])
def test_urls_have_the_path_of_the_request_as_it_was_sent(tmp_path: Path, team: str) -> None:
    with served(tmp_path, tasks_of_teams()) as client:
        at = f"{str(client.base_url).rstrip('/')}/teams/{team}/tasks"
        made = [client.post(at, json={"title": title}) for title in "ab"]
        assert [one.headers["Location"] for one in made] == [f"{at}/1", f"{at}/2"]
        assert client.get(made[1].headers["Location"]).json() == made[1].json()
        first = client.get(at, params={"limit": 1})
        assert first.json()["next"] == f"{at}?limit=1&page=2"
        assert first.json()["self"] == f"{at}?limit=1"
        assert first.links["next"]["url"] == first.json()["next"]
        assert ids(client.get(first.json()["next"])) == [2]


def test_a_location_elsewhere_has_parameters_percent_encoded(tmp_path: Path) -> None:
    item = closed("id", "title", id=TEXT, title=TEXT)
    paths = collection("/{team}/posts/{post}/comments", "comment", item, closed("id", id=TEXT))
    paths["/{team}/comments/{comment}"] = paths.pop("/{team}/posts/{post}/comments/{comment}")
    for path, one in paths.items():
        one["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": TEXT}
            for name in path_names(path)
        ]
    made = paths["/{team}/posts/{post}/comments"]["post"]["responses"]["201"]
    made["headers"] = {"Location": {"schema": TEXT}}
    with served(tmp_path, with_paths(paths)) as client:
        response = client.post("/M%C3%BCller%2FX/posts/1/comments", json={"id": "a b"})
        at = f"{str(client.base_url).rstrip('/')}/M%C3%BCller%2FX/comments/a%20b"
        assert response.headers["Location"] == at
        assert client.get(at).json() == response.json()


# --- paging parameters inside of others


def with_parameter(name: str, members: Any, **how: Any) -> Any:
    """Things whose list has one query parameter, an object with these members."""
    content = things({"next": {**NULLABLE, "format": "uri"}})
    schema = {"schema": {"type": "object", "properties": members}}
    how = {"content": {"application/json": schema}} if how.pop("is_json", False) else how | schema
    listing(content)["parameters"] = [{"name": name, "in": "query", **how}]
    return content


@pytest.mark.parametrize("name", ["pageable", "filter", "q"])
def test_the_page_may_be_asked_for_in_json(tmp_path: Path, name: str) -> None:
    """As with the ``content`` of a parameter."""
    page = {"page": {**WHOLE, "minimum": 0}, "size": WHOLE, "word": TEXT}
    with served(tmp_path, with_parameter(name, page, is_json=True)) as client:
        asked = json.dumps({"page": 1, "size": 2, "word": "a"})
        second = with_five(client).get("/things", params={name: asked})
        assert ids(second) == ([3, 4] if name != "q" else [1, 2, 3, 4, 5])
        if name != "q":
            assert ids(client.get(second.json()["next"])) == [5]


@pytest.mark.parametrize("style", [{}, {"style": "deepObject"}], ids=["exploded", "deep"])
@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"page": 2, "size": 2}, [3, 4]),
        ({"limit": 2, "offset": 3}, [4, 5]),
        ({"pageSize": 2}, [1, 2]),
        ({"cursor": "2", "count": 1}, [3]),
    ],
    ids=lambda one: " and ".join(map(str, one)),
)
@pytest.mark.parametrize("name", ["filter", "options", "query", "listParams"])
def test_the_page_may_be_asked_for_in_a_parameter_for_all_options(
    tmp_path: Path, name: str, members: dict[str, Any], expected: list[int], style: Any
) -> None:
    declared = {one: TEXT if isinstance(value, str) else WHOLE for one, value in members.items()}
    form = "{}={}" if not style else name + "[{}]={}"
    asked = "&".join(form.format(one, value) for one, value in members.items())
    with served(tmp_path, with_parameter(name, declared, **style)) as client:
        assert ids(with_five(client).get(f"/things?{asked}")) == expected


@pytest.mark.parametrize("members", [{"size": 2}, {"count": 2, "from": 2}, {"first": 2}])
def test_what_may_be_a_filter_is_one_among_others(tmp_path: Path, members: Any) -> None:
    declared = dict.fromkeys(members, WHOLE)
    asked = "&".join(f"filter[{one}]={value}" for one, value in members.items())
    with served(tmp_path, with_parameter("filter", declared, style="deepObject")) as client:
        assert ids(with_five(client).get(f"/things?{asked}")) == [1, 2, 3, 4, 5]


POSITIONS = {
    "next_cursor": "next_cursor",
    "start_cursor": "next_cursor",
    "bookmark": "bookmark",
    "next": "next",
    "$skipToken": "skipToken",
    "$skiptoken": "next_cursor",
    "page[after]": "after_cursor",
}


@pytest.mark.parametrize(("asked", "shown"), POSITIONS.items())
def test_a_page_begins_where_the_one_before_says(tmp_path: Path, asked: str, shown: str) -> None:
    content = things({shown: NULLABLE}, **{asked: TEXT}, limit=WHOLE)
    with served(tmp_path, content) as client:
        with_five(client)
        found, page = list[int](), client.get("/things", params={"limit": 2})
        while position := page.json().get(shown):
            found += ids(page)
            page = client.get("/things", params={"limit": 2, asked: position})
        assert [*found, *ids(page)] == [1, 2, 3, 4, 5]


def test_a_page_begins_after_the_record_that_is_asked_for(tmp_path: Path) -> None:
    with served(tmp_path, things({}, since_id=WHOLE, limit=WHOLE)) as client:
        with_five(client)
        assert ids(client.get("/things", params={"limit": 2, "since_id": 3})) == [4, 5]


def test_headers_have_the_numbers_of_pages_where_the_query_has_those_of_records(
    tmp_path: Path,
) -> None:
    content = things({}, offset=WHOLE, limit=WHOLE)
    names = ("X-Page", "X-Next-Page", "X-Prev-Page")
    listing(content)["responses"]["200"]["headers"] = {one: {"schema": WHOLE} for one in names}
    with served(tmp_path, content) as client:
        with_five(client)
        shown = client.get("/things", params={"limit": 2, "offset": 2}).headers
        assert [shown[one] for one in names] == ["2", "3", "1"]


def test_a_header_with_the_next_page_has_the_cursor_where_the_query_has_one(tmp_path: Path) -> None:
    content = things({}, cursor=TEXT, limit=WHOLE)
    listing(content)["responses"]["200"]["headers"] = {"X-Next-Page": {"schema": TEXT}}
    with served(tmp_path, content) as client:
        with_five(client)
        shown = client.get("/things", params={"limit": 3}).headers["X-Next-Page"]
        assert ids(client.get("/things", params={"limit": 3, "cursor": shown})) == [4, 5]


def test_a_page_may_be_asked_for_by_members_of_an_object_as_names(tmp_path: Path) -> None:
    content = things({}, **{"pagination[page]": WHOLE, "paging.pageSize": WHOLE})
    with served(tmp_path, content) as client:
        with_five(client)
        asked = {"pagination[page]": 2, "paging.pageSize": 2}
        assert ids(client.get("/things", params=asked)) == [3, 4]


def test_a_count_beside_a_total_is_that_of_the_page(tmp_path: Path) -> None:
    meta = closed(totalItems=WHOLE, itemCount=WHOLE)
    with served(tmp_path, things({"meta": meta}, page=WHOLE, limit=WHOLE)) as client:
        with_five(client)
        found = client.get("/things", params={"limit": 2, "page": 3}).json()
        assert found["meta"] == {"totalItems": 5, "itemCount": 1}
