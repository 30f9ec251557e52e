"""The comparison with an earlier version finds what differs, and knows only its own reasons."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from invoice_sandbox.base.clock import FROZEN_START, ClockState
from invoice_sandbox.settings import Settings
from tests.differential.__main__ import (
    Difference,
    Response,
    Side,
    compared,
    differences,
    judged,
    reason_for,
    run,
)
from tests.differential.generate import Generator, Request
from tests.support import FROZEN, serving

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


@pytest.fixture
def side() -> Iterator[Side]:
    """A new version: the id of a workspace shows how many with its seed were before it."""
    with serving() as running, closing(Side(running.port)) as side:
        yield side


def found_in(side: Side, settings: Settings, requests: int) -> list[Difference]:
    """What is different with other settings."""
    with serving(settings) as running, closing(Side(running.port)) as other:
        return list(run(side, other, requests, 1))


def test_a_version_is_not_different_from_itself(side: Side) -> None:
    """Though secrets, and the ids of requests without a key, are random."""
    assert found_in(side, FROZEN, 80) == []


def test_a_version_with_another_clock_is_different(side: Side) -> None:
    """Also in responses to requests with ids that others have shown."""
    later = ClockState("frozen", FROZEN_START + timedelta(days=1))
    found = {one.name for one in found_in(side, replace(FROZEN, clock=later), 80)}
    assert {"createOffer /data/createdAt", "revokeApiKey /data/revokedAt"} <= found


def test_only_what_has_no_reason_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = Response(200, "", None)
    known = Difference(GET, "/error/message", nothing, nothing)
    assert judged([known, known], 2) == 0
    assert "     2  errors are worded" in capsys.readouterr().out
    assert judged([known, Difference(GET, "/data", nothing, nothing)], 2) == 1
    assert "getInvoice /data" in capsys.readouterr().out
