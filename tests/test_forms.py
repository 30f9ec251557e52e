"""Bodies of any document: forms are read by their schema, and whatever comes gets a response."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invoice_sandbox.openapi.message.multipart import MAX_FIELDS
from tests.cases import in_turn
from tests.toy import serving_contract

URLENCODED = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
TEXT = {"type": "string"}
PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "adult": {"type": "boolean"},
        "tags": {"type": "array", "items": TEXT, "maxItems": 2},
        "scores": {"type": "array", "items": {"type": "integer"}},
        "home": {
            "type": "object",
            "required": ["city"],
            "properties": {"city": TEXT, "zip": {"type": "integer"}},
        },
        "photo": {"type": "string", "format": "binary", "maxLength": 4},
        "code": {"type": ["integer", "string"], "maxLength": 3},
        "friends": {"type": "array", "items": {"$ref": "#/components/schemas/Person"}},
    },
    "additionalProperties": False,
}
PERSON_HERE = {"$ref": "#/components/schemas/Person"}
LISTS = {"type": "object", "properties": {"ids": {"type": "array", "items": {"type": "integer"}}}}
DEEP = {
    "type": "object",
    "required": ["meta"],
    "properties": {"meta": {"type": "object", "properties": {"n": {"type": "integer"}}}},
}
BODIES: dict[str, dict[str, Any]] = {
    "/form": {URLENCODED: {"schema": PERSON_HERE}},
    "/parts": {MULTIPART: {"schema": PERSON_HERE}},
    "/commas": {
        URLENCODED: {"schema": LISTS, "encoding": {"ids": {"style": "form", "explode": False}}}
    },
    "/deep": {
        URLENCODED: {"schema": DEEP, "encoding": {"meta": {"style": "deepObject", "explode": True}}}
    },
    "/spread": {URLENCODED: {"schema": DEEP, "encoding": {"meta": {"explode": True}}}},
    "/pictures": {
        MULTIPART: {
            "schema": {"type": "object", "properties": {"picture": {}, "home": {}}},
            "encoding": {
                "picture": {"contentType": "image/png, image/jpeg"},
                "home": {"contentType": "application/json"},
            },
        }
    },
    "/any": {"*/*": {"schema": PERSON_HERE}},
    "/application": {"application/*": {"schema": PERSON_HERE}},
    "/vendor": {"application/vnd.toy.v2+json": {"schema": PERSON_HERE}},
    "/suffix": {"application/*+json": {"schema": PERSON_HERE}},
    "/ranges": {"application/*": {}, "application/*+json": {"schema": PERSON_HERE}},
    "/json-text": {"text/json": {"schema": PERSON_HERE}},
    "/version": {
        "application/json;version=1": {"schema": {"const": 1}},
        "application/json;version=2": {"schema": {"const": 2}},
    },
    "/charset": {"application/json; charset=utf-8": {"schema": PERSON_HERE}},
    "/text": {"text/plain": {"schema": {"type": "string", "maxLength": 3}}},
    "/number": {"text/plain": {"schema": {"type": "integer"}}},
    "/bytes": {"application/octet-stream": {"schema": {"type": "string", "maxLength": 1}}},
    "/pattern": {
        "application/json": {
            "schema": {"patternProperties": {"^a": {}}, "additionalProperties": False}
        }
    },
    "/both": {"application/json": {"schema": {"const": 1}}, "application/*": {}, "text/plain": {}},
}


def document(bodies: dict[str, dict[str, Any]] = BODIES) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "Bodies", "version": "1"},
        "paths": {
            path: {
                "post": {
                    "requestBody": {"required": True, "content": content},
                    "responses": {"204": {"description": "allowed"}},
                }
            }
            for path, content in bodies.items()
        },
        "components": {"schemas": {"Person": PERSON}},
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serving_contract(tmp_path_factory.mktemp("contract"), document()) as client:
        yield client


def post(client: httpx.Client, path: str, media_type: str | None, body: bytes) -> httpx.Response:
    headers = {} if media_type is None else {"Content-Type": media_type}
    return client.post(path, content=body, headers=headers)


FORMS: dict[str, tuple[str, str, str]] = {
    "a text": ("/form", "name=Ada", ""),
    "no number": ("/form", "name=Ada&age=x", "age must be a whole number"),
    "a missing field": ("/form", "age=36", "name is required"),
    "no field at all": ("/form", "", "name is required"),
    "a field that is not declared": ("/form", "name=Ada&x=1", "undeclared member 'x'"),
    "repeated fields are a list": ("/form", "name=Ada&tags=a&tags=b", ""),
    "a list that is too long": (
        "/form",
        "name=Ada&tags=a&tags=b&tags=c",
        "at most 2 items",
    ),
    "a list of no numbers": ("/form", "name=Ada&scores=1&scores=x", "scores[1] must be"),
    "a text twice": ("/form", "name=Ada&name=Eve", "name is given more than once"),
    "an object as JSON": ("/form", 'name=Ada&home={"city":"X","zip":7}', ""),
    "no JSON": ("/form", "name=Ada&home={", "home cannot be read as JSON"),
    "neither": ("/form", "name=Ada&code=abcd", "code must have at most"),
    "commas between no numbers": ("/commas", "ids=1,x", "ids[1] must be"),
    "brackets around no number": ("/deep", "meta[n]=x", "meta.n must be"),
    "no brackets": ("/deep", "other=1", "meta is required"),
    "members that are no numbers": ("/spread", "n=x", "meta.n must be"),
}


@in_turn("name", FORMS)
def test_a_form_is_validated_against_its_schema(server: httpx.Client, name: str) -> None:
    path, body, problem = FORMS[name]
    response = post(server, path, URLENCODED, body.encode())
    assert response.status_code == (400 if problem else 204), response.text
    assert problem in response.text


PNG = ("a.png", b"\x89PNG", "image/png")
JSON_PART = (None, b'{"city": "X"}', "application/json")
PARTS: dict[str, tuple[str, list[tuple[str, Any]], str]] = {
    "a text": ("/parts", [("name", (None, "Ada"))], ""),
    "repeated parts": (
        "/parts",
        [("name", (None, "A")), ("tags", (None, "a")), ("tags", (None, "b"))],
        "",
    ),
    "a file of any bytes": ("/parts", [("name", (None, "A")), ("photo", PNG)], ""),
    "JSON": ("/parts", [("name", (None, "A")), ("home", JSON_PART)], ""),
    "a list of objects, part by part": (
        "/parts",
        [
            ("name", (None, "A")),
            ("friends", (None, '{"name":"B"}')),
            ("friends", (None, '{"name":"C"}')),
        ],
        "",
    ),
    "a list with an object that lacks a member": (
        "/parts",
        [("name", (None, "A")), ("friends", (None, '{"age":1}'))],
        "friends[0].name is required",
    ),
    "a declared type of a part": ("/pictures", [("picture", PNG)], ""),
    "another type of a part": (
        "/pictures",
        [("picture", ("a.gif", b"GIF", "image/gif"))],
        "picture must be sent as image/png or image/jpeg",
    ),
}


@in_turn("name", PARTS)
def test_parts_are_validated_against_their_schema(server: httpx.Client, name: str) -> None:
    path, parts, problem = PARTS[name]
    response = server.post(path, files=parts)
    assert response.status_code == (400 if problem else 204), response.text
    assert problem in response.text


ADA = b'{"name": "Ada"}'
TYPES: dict[str, tuple[str, str | None, bytes, int]] = {
    "a range takes JSON": ("/application", "application/json", ADA, 204),
    "a range takes a kind of JSON": ("/application", "application/vnd.x+json", ADA, 204),
    "what a range takes is checked": ("/application", "application/json", b"{}", 400),
    "a range takes a form": ("/application", URLENCODED, b"name=Ada", 204),
    "a form in a range is checked": ("/application", URLENCODED, b"age=1", 400),
    "a range takes bytes": ("/application", "application/pdf", b"%PDF", 204),
    "a range does not take all": ("/application", "text/plain", b"x", 415),
    "every range takes JSON": ("/any", "application/json", ADA, 204),
    "every range checks JSON": ("/any", "application/json", b"[]", 400),
    "every range takes an image": ("/any", "image/png", b"\x89", 204),
    "every range takes what has no type": ("/any", None, b"x", 204),
    "a version of a vendor": ("/vendor", "application/vnd.toy.v2+json; charset=utf-8", ADA, 204),
    "another version of a vendor": ("/vendor", "application/vnd.toy.v1+json", ADA, 415),
    "a range of a suffix": ("/suffix", "application/vnd.x+json", ADA, 204),
    "what a range of a suffix takes is checked": ("/suffix", "application/x+json", b"{}", 400),
    "the range of a suffix is more specific": ("/ranges", "application/x+json", b"{}", 400),
    "the range of all types takes the rest": ("/ranges", "application/x", b"{}", 204),
    "a range of a suffix does not take all": ("/suffix", "application/json", ADA, 415),
    "JSON as text": ("/json-text", "text/json", ADA, 204),
    "JSON as text is checked": ("/json-text", "text/json", b"{}", 400),
    "types in capitals": ("/vendor", "Application/Vnd.Toy.V2+JSON", ADA, 204),
    "a parameter that tells the version": ("/version", "application/json; version=2", b"2", 204),
    "the schema of the version": ("/version", 'application/json; version="1"', b"2", 400),
    "no version where one is declared": ("/version", "application/json", b"2", 415),
    "a charset that is declared": ("/charset", "application/json", ADA, 204),
    "a charset that is sent": ("/charset", "application/json;charset=UTF-8", ADA, 204),
    "another charset": ("/charset", "application/json;charset=latin-1", ADA, 415),
    "a text": ("/text", "text/plain", b"abc", 204),
    "a text that is too long": ("/text", "text/plain; charset=utf-8", b"abcd", 400),
    "letters and not bytes": ("/text", "text/plain", "äöü".encode(), 204),
    "a text that is not UTF-8": ("/text", "text/plain", b"\xff", 400),
    "a number as a text": ("/number", "text/plain", b"7", 204),
    "no number as a text": ("/number", "text/plain", b"x", 400),
    "bytes are not looked at": ("/bytes", "application/octet-stream", b"\xff\xff", 204),
    "the most exact type counts": ("/both", "application/json", b"2", 400),
    "a type without a schema": ("/both", "text/plain", b"\xff", 204),
    "a kind of JSON without a schema": ("/both", "application/x+json", b"2", 204),
    "a kind of JSON that is none": ("/both", "application/x+json", b"{", 400),
}


@in_turn("name", TYPES)
def test_the_content_type_reports_how_a_body_is_read(server: httpx.Client, name: str) -> None:
    path, media_type, body, status = TYPES[name]
    assert post(server, path, media_type, body).status_code == status


def test_a_member_whose_name_fits_no_pattern_is_named(server: httpx.Client) -> None:
    response = server.post("/pattern", json={"about": 1, "size": 2})
    assert response.status_code == 400
    assert "a member that is not allowed: size" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("/vendor", "Send 'Content-Type: application/vnd.toy.v2+json'."),
        (
            "/version",
            (
                "Send 'Content-Type: application/json;version=1' or "
                "'Content-Type: application/json;version=2'."
            ),
        ),
    ],
)
def test_an_undeclared_type_of_json_is_rejected_with_those_declared(
    server: httpx.Client, path: str, advice: str
) -> None:
    response = post(server, path, "application/json", ADA)
    assert response.status_code == 415
    assert response.json()["error"]["message"] == f"The body must be JSON in UTF-8. {advice}"


def part(head: bytes, body: bytes = b"x") -> bytes:
    return b"--b\r\n" + head + b"\r\n\r\n" + body + b"\r\n"


NAMED = b'Content-Disposition: form-data; name="name"'
END = b"--b--\r\n"
BOUNDED = f"{MULTIPART}; boundary=b"
HOSTILE: dict[str, tuple[str, str, bytes, str]] = {
    "no boundary": ("/parts", MULTIPART, part(NAMED) + END, "needs a boundary"),
    "an empty boundary": ("/parts", f'{MULTIPART}; boundary=""', END, "needs a boundary"),
    "a boundary of nonsense": ("/parts", f"{MULTIPART}; boundary=\"é\"", END, "needs a boundary"),
    "a huge boundary": ("/parts", f"{MULTIPART}; boundary={'b' * 5000}", END, "needs a boundary"),
    "another boundary": ("/parts", f"{MULTIPART}; boundary=c", part(NAMED) + END, "boundaries"),
    "no parts": ("/parts", BOUNDED, b"", "boundaries"),
    "no end": ("/parts", BOUNDED, part(NAMED), "boundaries"),
    "nothing but the end": ("/parts", BOUNDED, END, "name is required"),
    "no blank line": ("/parts", BOUNDED, b"--b\r\n" + NAMED + b"\r\n" + END, "boundaries"),
    "no disposition": ("/parts", BOUNDED, part(b"X: y") + END, "boundaries"),
    "no name": ("/parts", BOUNDED, part(b"Content-Disposition: form-data") + END, "without a name"),
    "an empty name": (
        "/parts", BOUNDED, part(b'Content-Disposition: form-data; name=""') + END, "without a name"
    ),
    "a part that is not UTF-8": ("/parts", BOUNDED, part(NAMED, b"\xff") + END, "not valid UTF-8"),
    "a head that is not UTF-8": ("/parts", BOUNDED, part(NAMED + b"\xff") + END, "not valid UTF-8"),
    "too many parts": ("/parts", BOUNDED, part(NAMED) * (MAX_FIELDS + 1) + END, "more than 1000"),
    "too many fields": ("/form", URLENCODED, b"name=1&" * (MAX_FIELDS + 1), "more than 1000"),
    "a form that is not UTF-8": ("/form", URLENCODED, b"name=%ff", "not valid UTF-8"),
    "bytes that are not UTF-8": ("/form", URLENCODED, b"name=\xff", "not valid UTF-8"),
    "nothing but separators": ("/form", URLENCODED, b"&" * 100_000, "name is required"),
    "a zero byte": ("/form", URLENCODED, b"name=%00&\0=1", "undeclared member"),
    "half of a pair": ("/form", URLENCODED, b'name=A&home={"city":"\\ud800"}', "surrogate"),
    "deep JSON": ("/form", URLENCODED, b"name=A&home=" + b'{"a":' * 5000, "deep"),
    "a form in brackets": ("/deep", URLENCODED, b"meta" + b"[a]" * 5000 + b"=1", ""),
}  # fmt: skip


@in_turn("name", HOSTILE)
def test_a_body_that_is_no_form_is_rejected_in_the_envelope(
    server: httpx.Client, name: str
) -> None:
    path, media_type, body, problem = HOSTILE[name]
    response = server.post(path, content=body, headers=[(b"Content-Type", media_type.encode())])
    if not problem:
        assert response.status_code == 204
        return
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")
    assert problem in response.json()["error"]["message"]


PIECES = [
    b"--b",
    b"--b--",
    b"\r\n",
    b"\n",
    b"\r",
    NAMED,
    b'; filename="x"',
    b"\xff",
    b"{",
    b"name=",
    b"&",
]


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(body=st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join))
@pytest.mark.parametrize(("path", "media_type"), [("/parts", BOUNDED), ("/form", URLENCODED)])
def test_whatever_comes_is_returned(
    server: httpx.Client, path: str, media_type: str, body: bytes
) -> None:
    assert post(server, path, media_type, body).status_code in {204, 400}
