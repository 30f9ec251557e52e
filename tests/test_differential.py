"""The comparison with an earlier version finds what differs, and knows only its own reasons."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.differential.__main__ import Difference, Response, compared, differences, reason_for
from tests.differential.generate import Generator, Request

GET = Request("getInvoice", "GET", "/api/invoices/1", {}, b"")


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, []),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ["/a/*/b"]),
        ({"a": 1}, {"a": 1, "b": None}, ["/b"]),
        ({"a": [1]}, {"a": [1, 2]}, ["/a"]),
        ({"a": 1}, {"a": True}, ["/a"]),
        ({"a": 10000}, {"a": 10000.0}, ["/a"]),
    ],
    ids=["same", "value", "member", "length", "type", "digits"],
)
def test_a_difference_is_named_by_its_pointer(before: Any, after: Any, found: list[str]) -> None:
    assert list(differences(before, after)) == found


@pytest.mark.parametrize(
    ("after", "what"),
    [
        (Response(404, "application/json", {}), "status 200 -> 404"),
        (Response(200, "text/plain", {}), "media type application/json -> text/plain"),
        (Response(200, "application/json", {"data": 1}), "/data"),
    ],
)
def test_what_has_no_reason_is_reported(after: Response, what: str) -> None:
    found = list(compared(GET, Response(200, "application/json", {}), after))
    assert [one.what for one in found] == [what]
    assert reason_for(found[0]) is None


def test_a_reason_is_that_of_an_operation_and_a_member() -> None:
    nothing = Response(200, "", None)
    listed = Request("listPartners", "GET", "/api/partners", {}, b"")
    assert reason_for(Difference(listed, "/data", nothing, nothing)) is not None
    assert reason_for(Difference(GET, "/data", nothing, nothing)) is None
    assert reason_for(Difference(listed, "/data/*/status", nothing, nothing)) is None


def test_requests_derive_from_the_seed_and_use_ids_that_were_shown() -> None:
    some, same, other = (Generator(Random(seed)) for seed in (1, 1, 2))  # noqa: S311  for no secret
    for generator in (some, same, other):
        generator.learn(Request("", "POST", "/api/invoices", {}, b""), {"data": {"id": "inv_1"}})
    requests = [some.next() for _ in range(300)]
    assert requests == [same.next() for _ in range(300)]
    assert requests != [other.next() for _ in range(300)]
    assert any(one.target == "/api/invoices/inv_1" for one in requests)
    assert len({one.operation for one in requests}) == 25
