"""Parameters of any document: every location, style and shape, as OpenAPI 3.1 distinguishes them.

Each row is an operation of its own, whose parameter allows one value only: a request succeeds
when its text was read as that value, and is rejected otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from invoice_sandbox.openapi.load.pointers import ContractError
from invoice_sandbox.openapi.message.parameters import Parameter, query_of
from invoice_sandbox.openapi.message.styles import Given
from invoice_sandbox.openapi.operation import compile_contract
from tests.cases import in_turn
from tests.toy import serving_contract

COLORS = ["blue", "black", "brown"]
RGB = {"R": 100, "G": 200, "B": 150}
TEXT = {"type": "string"}
LIST = {"type": "array", "items": TEXT}
OBJECT = {"type": "object", "properties": {name: {"type": "integer"} for name in "RGB"}}
SHAPES: dict[type, dict[str, Any]] = {str: TEXT, list: LIST, dict: OBJECT}


class Row(NamedTuple):
    """What is sent, where, in which style, and the value that it stands for."""

    location: str
    style: str | None
    explode: bool | None
    sent: str
    value: Any
    schema: dict[str, Any] | None = None
    more: dict[str, Any] = {}  # noqa: RUF012 - a tuple's default is never changed

    def parameter(self) -> dict[str, Any]:
        reported = {"style": self.style, "explode": self.explode}
        schema = SHAPES.get(type(self.value), {}) if self.schema is None else self.schema
        return {
            "name": "color",
            "in": self.location,
            "required": True,
            "schema": {**schema, "const": self.value},
            **{name: one for name, one in reported.items() if one is not None},
        } | self.more


EXAMPLES = [
    Row("path", "matrix", False, ";color", ""),
    Row("path", "matrix", False, ";color=blue", "blue"),
    Row("path", "matrix", False, ";color=blue,black,brown", COLORS),
    Row("path", "matrix", False, ";color=R,100,G,200,B,150", RGB),
    Row("path", "matrix", True, ";color", ""),
    Row("path", "matrix", True, ";color=blue", "blue"),
    Row("path", "matrix", True, ";color=blue;color=black;color=brown", COLORS),
    Row("path", "matrix", True, ";R=100;G=200;B=150", RGB),
    Row("path", "label", False, ".", ""),
    Row("path", "label", False, ".blue", "blue"),
    Row("path", "label", False, ".blue,black,brown", COLORS),
    Row("path", "label", False, ".R,100,G,200,B,150", RGB),
    Row("path", "label", True, ".", ""),
    Row("path", "label", True, ".blue", "blue"),
    Row("path", "label", True, ".blue.black.brown", COLORS),
    Row("path", "label", True, ".R=100.G=200.B=150", RGB),
    Row("path", "simple", False, "blue", "blue"),
    Row("path", "simple", False, "blue,black,brown", COLORS),
    Row("path", "simple", False, "R,100,G,200,B,150", RGB),
    Row("path", "simple", True, "blue", "blue"),
    Row("path", "simple", True, "blue,black,brown", COLORS),
    Row("path", "simple", True, "R=100,G=200,B=150", RGB),
    Row("header", "simple", False, "", ""),
    Row("header", "simple", False, "blue", "blue"),
    Row("header", "simple", False, "blue,black,brown", COLORS),
    Row("header", "simple", False, "R,100,G,200,B,150", RGB),
    Row("header", "simple", True, "blue,black,brown", COLORS),
    Row("header", "simple", True, "R=100,G=200,B=150", RGB),
    *(
        Row(location, "form", explode, sent, value)
        for location in ("query", "cookie")
        for explode, sent, value in (
            (False, "color=", ""),
            (False, "color=blue", "blue"),
            (False, "color=blue,black,brown", COLORS),
            (False, "color=R,100,G,200,B,150", RGB),
            (True, "color=", ""),
            (True, "color=blue", "blue"),
            (True, "color=blue&color=black&color=brown", COLORS),
            (True, "R=100&G=200&B=150", RGB),
        )
    ),
    Row("query", "spaceDelimited", False, "color=blue%20black%20brown", COLORS),
    Row("query", "spaceDelimited", False, "color=R%20100%20G%20200%20B%20150", RGB),
    Row("query", "pipeDelimited", False, "color=blue%7Cblack%7Cbrown", COLORS),
    Row("query", "pipeDelimited", False, "color=R%7C100%7CG%7C200%7CB%7C150", RGB),
    Row("query", "deepObject", True, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150", RGB),
]
"""The table "Style Examples" of OpenAPI 3.1.1, cell by cell; a cell that it leaves out is none."""

NUMBERS = {"type": "array", "items": {"type": "integer"}}
ANY_OF = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
SORTS = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
}
NESTED = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": TEXT},
        "owner": {"type": "object", "properties": {"age": {"type": "integer"}}},
    },
}
JSON = {"application/json": {"schema": {"const": {"a": [1]}}}}

CORNERS = {
    # Spellings of other versions of the specification, and of real clients.
    "a label of OpenAPI 3.0": Row("path", "label", False, ".blue.black.brown", COLORS),
    "pipes as they are": Row("query", "pipeDelimited", False, "color=blue|black|brown", COLORS),
    "plus signs for spaces": Row("query", "spaceDelimited", False, "color=blue+black", COLORS[:2]),
    "plain brackets": Row("query", "deepObject", True, "color[R]=1&color[G]=2", {"R": 1, "G": 2}),
    "two headers are one list": Row("header", None, None, "blue, black\nbrown", COLORS),
    "a list of one cookie": Row("cookie", "form", True, "color=blue", ["blue"]),
    "a list of many cookies": Row("cookie", "form", True, "color=blue; color=red", ["blue", "red"]),
    "a cookie in quotation marks": Row("cookie", "form", None, 'color="a; b"', "a; b"),
    # Delimiters within a value.
    "a comma in a path": Row("path", None, None, "a%2Cb,c", ["a,b", "c"]),
    "a slash in a path": Row("path", None, None, "a%2Fb,c", ["a/b", "c"]),
    "a comma in a query": Row("query", None, False, "color=a%2Cb,c", ["a,b", "c"]),
    "an equals sign": Row("query", None, None, "color=a=b", "a=b"),
    "an encoded name": Row("query", None, None, "%63olor=x", "x"),
    "letters beyond ASCII": Row("path", None, None, "caf%C3%A9", "café"),
    "what is encoded twice is decoded once": Row("path", None, None, "a%252Cb", "a%2Cb"),
    "headers are not encoded": Row("header", None, None, "a%2Cb", "a%2Cb"),
    "a plus is a space": Row("query", None, None, "color=a+b", "a b"),
    "reserved characters": Row(
        "query",
        None,
        None,
        "color=/?:@!$'()*,;=[]+",
        "/?:@!$'()*,;=[]+",
        None,
        {"allowReserved": True},
    ),
    # Types.
    "true": Row("query", None, None, "color=true", True, {"type": "boolean"}),
    "numbers in a list": Row("query", None, None, "color=1&color=2", [1, 2], NUMBERS),
    "no numbers": Row("query", None, False, "color=", [], NUMBERS),
    "an integer or null": Row("query", None, None, "color=7", 7, {"type": ["integer", "null"]}),
    "null": Row("query", None, None, "color=null", None, {"type": ["integer", "null"]}),
    "text stays null": Row("query", None, None, "color=null", "null", {"type": ["string", "null"]}),
    "the number of two": Row("query", None, None, "color=7", 7, ANY_OF),
    "the text of two": Row("query", None, None, "color=7", "7", ANY_OF),
    "a list of a list or a text": Row("query", None, None, "color=a&color=b", ["a", "b"], SORTS),
    "types by reference": Row(
        "query", None, None, "color=7", 7, {"$ref": "#/components/schemas/N"}
    ),
    # What OpenAPI leaves open.
    "brackets in brackets": Row(
        "query",
        "deepObject",
        True,
        "color[owner][age]=3&color[tags][]=a&color[tags][]=b",
        {"owner": {"age": 3}, "tags": ["a", "b"]},
        NESTED,
    ),
    "numbered brackets": Row(
        "query", "deepObject", True, "color[1]=b&color[0]=a", ["a", "b"], LIST
    ),
    # Names, content, empty values.
    "JSON in a query": Row(
        "query", None, None, "color=%7B%22a%22:%5B1%5D%7D", None, None, {"content": JSON}
    ),
    "an empty value that is allowed": Row(
        "query", None, None, "color", 7, {"type": "integer"}, {"allowEmptyValue": True}
    ),
}
REJECTED = {
    "no sign of the style": (Row("path", "label", None, "blue", "blue"), "must begin with '.'"),
    "another name": (Row("path", "matrix", None, ";colour=a", "a"), "must be written as ;color="),
    "a member without a value": (Row("path", None, False, "R,100,G", RGB), "name,value"),
    "no equals sign": (Row("path", None, True, "R,100", RGB), "name=value"),
    "a list as two texts": (Row("query", None, False, "color=a&color=b", ["a"]), "more than once"),
    "a member twice": (Row("query", None, True, "R=1&R=2", RGB), "R more than once"),
    "a member in two ways": (
        Row("query", "deepObject", True, "color[R]=1&color[R][x]=1", RGB), "in two ways"
    ),
    "no JSON": (Row("query", None, None, "color={", None, None, {"content": JSON}), "as JSON"),
    "no number in a list": (
        Row("query", None, False, "color=1,x", [1], None, {"schema": NUMBERS}),
        "color[1] must be a whole number",
    ),
    "no number in an object": (
        Row("query", "deepObject", True, "color[R]=x", RGB, None, {"schema": OBJECT}),
        "color.R must be a whole number",
    ),
    "an empty value": (Row("query", None, None, "color", 7, {"type": "integer"}), "a whole number"),
    "nothing at all": (Row("query", "deepObject", True, "colour[R]=1", RGB), "color is required"),
    "invalid UTF-8": (Row("query", None, None, "color=%ff", "x"), "not valid UTF-8"),
}  # fmt: skip
ROWS = {
    **{f"{one.location} {one.style} {one.explode} {one.sent}": one for one in EXAMPLES},
    **CORNERS,
    **{name: row for name, (row, _) in REJECTED.items()},
}
PATHS = {name: f"/row{number}" for number, name in enumerate(ROWS)}


def operation(*parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "parameters": list(parameters),
        "responses": {"204": {"description": "as it was meant"}},
    }


def document(paths: dict[str, Any]) -> dict[str, Any]:
    numbers = {"type": "object", "properties": {"n": {"$ref": "#/components/schemas/N"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Parameters", "version": "1"},
        "paths": paths,
        "components": {"schemas": {"N": {"type": "integer"}, "O": numbers}},
    }


def served(name: str, row: Row) -> tuple[str, dict[str, Any]]:
    parameter = row.parameter()
    if "content" in parameter:
        del parameter["schema"]
    suffix = "/{color}" if row.location == "path" else ""
    return PATHS[name] + suffix, {"get": operation(parameter)}


NAMES = ("user-id", "user.id", "1", "café")
"""Names of path parameters that are no identifiers."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    paths = dict(served(name, row) for name, row in ROWS.items())
    paths["/mixed/{first}-{second}.txt"] = {
        "get": operation(
            {
                "name": "first",
                "in": "path",
                "required": True,
                "schema": {**LIST, "const": ["a", "b"]},
            },
            {"name": "second", "in": "path", "required": True, "schema": {**TEXT, "const": "c d"}},
        )
    }
    paths["/beside"] = {
        "get": operation(
            {"name": "color", "in": "cookie", "schema": {**TEXT, "const": "a; b"}},
            {"name": "color", "in": "query", "schema": {**LIST, "const": ["a", "b"]}},
        )
    }
    for number, name in enumerate(NAMES):
        declared = {"name": name, "in": "path", "required": True, "schema": {"const": 7}}
        paths[f"/named/{number}/{{{name}}}"] = {"get": operation(declared)}
    paths["/ignored"] = {
        "get": operation(
            *(
                {"name": name, "in": "header", "required": True, "schema": {"const": "never"}}
                for name in ("Accept", "content-type", "Authorization")
            )
        )
    }
    with serving_contract(tmp_path_factory.mktemp("contract"), document(paths)) as client:
        yield client


def send(client: httpx.Client, target: str, *headers: tuple[str, str]) -> httpx.Response:
    """A GET for exactly this target."""
    return client.get("/", headers=list(headers), extensions={"target": target.encode()})


def ask(client: httpx.Client, name: str) -> httpx.Response:
    row, path = ROWS[name], PATHS[name]
    if row.location == "path":
        return send(client, f"{path}/{row.sent}")
    if row.location == "query":
        return send(client, f"{path}?{row.sent}")
    header = "Cookie" if row.location == "cookie" else "Color"
    return send(client, path, *((header, line) for line in row.sent.split("\n")))


@in_turn("name", [one for one in ROWS if one not in REJECTED])
def test_a_text_is_read_as_the_value_that_it_stands_for(server: httpx.Client, name: str) -> None:
    response = ask(server, name)
    assert response.status_code == 204, response.text


LINKED = [
    name
    for name, row in ROWS.items()
    if name not in REJECTED
    and row.location == "query"
    and row.style in {None, "form"}
    and not isinstance(row.value, dict)
    and "content" not in row.more
]


@pytest.mark.parametrize("name", LINKED)
def test_the_link_of_a_page_repeats_the_values_of_a_query(server: httpx.Client, name: str) -> None:
    row = ROWS[name]
    declared = {**served(name, row)[1]["get"], "operationId": "p"}
    contract = compile_contract(document({"/p": {"get": declared}}))
    query = query_of(contract.operations["p"].parameters, {"color": row.value})
    response = send(server, f"{PATHS[name]}?{query}")
    assert response.status_code == 204, (query, response.text)


def test_a_cookie_in_quotation_marks_beside_a_list_in_the_query(server: httpx.Client) -> None:
    response = send(server, "/beside?color=a&color=b", ("Cookie", 'color="a; b"'))
    assert response.status_code == 204, response.text


def test_an_optional_cookie_is_validated_where_nothing_else_is_sent(server: httpx.Client) -> None:
    assert send(server, "/beside").status_code == 204
    response = send(server, "/beside", ("Cookie", "color=c"))
    assert (response.status_code, "color must be" in response.text) == (400, True), response.text


UNIONS: dict[str, tuple[dict[str, Any], list[str], Any]] = {
    "a number, of a number or a text": (ANY_OF, ["7"], 7),
    "a text, of a number or a text": (ANY_OF, ["x7"], "x7"),
    "one text, of a text or a list: still a list": (SORTS, ["a"], ["a"]),
    "a list, of a text or a list": (SORTS, ["a", "b"], ["a", "b"]),
    "a number, of a number or null": ({"type": ["integer", "null"]}, ["7"], 7),
    "null, of a number or null": ({"type": ["integer", "null"]}, ["null"], None),
}
"""Schemas that allow several types, with the texts that are sent and the value that is read."""


@in_turn("name", UNIONS)
def test_a_text_is_read_as_the_type_that_fits_where_several_are_allowed(name: str) -> None:
    schema, texts, value = UNIONS[name]
    declared = operation({"name": "color", "in": "query", "schema": schema}) | {"operationId": "p"}
    (parameter,) = compile_contract(document({"/p": {"get": declared}})).operations["p"].parameters
    found = parameter.find(Given([("color", text) for text in texts]))
    assert found is not None
    assert (found.value, type(found.value), found.problem) == (value, type(value), None)


@in_turn("name", REJECTED)
def test_a_text_that_stands_for_no_value_is_rejected_and_reported_why(
    server: httpx.Client, name: str
) -> None:
    response = ask(server, name)
    assert response.status_code == 400
    assert REJECTED[name][1] in response.json()["error"]["message"]


def test_several_parameters_may_stand_in_one_segment(server: httpx.Client) -> None:
    assert send(server, "/mixed/a,b-c%20d.txt").status_code == 204
    assert send(server, "/mixed/a,b-cd.txt").status_code == 400


def test_the_name_of_a_path_parameter_need_not_be_a_word(server: httpx.Client) -> None:
    for number in range(len(NAMES)):
        assert send(server, f"/named/{number}/7").status_code == 204
        assert send(server, f"/named/{number}/8").status_code == 400


def test_header_parameters_that_say_what_http_says_are_ignored(server: httpx.Client) -> None:
    assert send(server, "/ignored").status_code == 204


def test_what_is_not_declared_is_not_looked_at(server: httpx.Client) -> None:
    assert send(server, f"{PATHS['true']}?color=true&other=%5B").status_code == 204


def test_a_thousand_brackets_are_read_like_one(server: httpx.Client) -> None:
    query = "&".join(f"color[{number}]=1" for number in range(1000))
    assert send(server, f"{PATHS['numbered brackets']}?{query}").status_code == 400


@in_turn(
    "schema",
    [
        OBJECT,
        LIST,
        {"type": "integer", "minimum": 10},
        {"allOf": [{"$ref": "#/components/schemas/Object"}]},
        {"oneOf": [OBJECT, LIST]},
    ],
)
@in_turn(("media_type", "location"), [("application/xml", "query"), ("text/csv", "header")])
def test_a_text_is_not_checked_where_the_schema_allows_none(
    media_type: str, location: str, schema: Any
) -> None:
    parameter = compiled_content({media_type: {"schema": schema}}, location)
    found = parameter.find(Given([("color", "<a>1</a>")]))
    assert found is not None
    assert (found.value, found.problem) == ("<a>1</a>", None)
    assert parameter.find(Given([])) is None


@in_turn("media_type", ["application/xml", "text/csv"])
@in_turn(
    ("schema", "is_valid"),
    [
        ({"type": "string", "maxLength": 1}, False),
        ({"type": ["object", "string"], "maxLength": 1}, False),
        ({"anyOf": [OBJECT, {"enum": ["<b/>"]}]}, False),
        ({"properties": {"a": TEXT}}, True),
        ({}, True),
    ],
)
def test_a_text_is_checked_as_far_as_the_schema_is_for_texts(
    media_type: str, schema: Any, *, is_valid: bool
) -> None:
    parameter = compiled_content({media_type: {"schema": schema}}, "query")
    found = parameter.find(Given([("color", "<a/>")]))
    assert found is not None
    assert (found.problem is None) == is_valid


def compiled_content(content: Any, location: str) -> Parameter:
    """The required parameter ``color`` of this content."""
    color = {"name": "color", "in": location, "required": True, "content": content}
    declared = document({"/p": {"get": operation(color) | {"operationId": "p"}}})
    declared["components"] = {"schemas": {"Object": OBJECT}}
    (parameter,) = compile_contract(declared).operations["p"].parameters
    return parameter


def test_a_style_that_its_location_does_not_have_is_rejected_at_start_up() -> None:
    asked = {"name": "color", "in": "query", "style": "matrix", "schema": TEXT}
    with pytest.raises(ContractError, match="parameter color: the style 'matrix'"):
        compile_contract(document({"/p": {"get": operation(asked)}}))
