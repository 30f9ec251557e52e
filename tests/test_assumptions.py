"""A reader of the served contract sees what is published and what this sandbox assumes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx

from invoice_sandbox.openapi.load.documents import pointer_text
from tests.overlays import apply_overlay
from tests.test_overlay import overlay, update
from tests.test_published_contract import BASE


def changes(before: Any, after: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place of ``after`` that ``before`` does not have, or has otherwise."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in after.items():
            if key not in before:
                yield (*place, key)
            else:
                yield from changes(before[key], value, (*place, key))
    elif isinstance(before, list) and isinstance(after, list):
        yield from ((*place, index) for index in range(len(before), len(after)))
        for index, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from changes(old, new, (*place, index))
    elif before != after:
        yield place


def is_marked(document: Any, place: tuple[Any, ...]) -> bool:
    """Whether an object at or above ``place`` has an assumption that is about it."""
    here = document
    for depth in range(len(place) + 1):
        rest = pointer_text(place[depth:])[1:]
        notes = here.get("x-assumption", []) if isinstance(here, dict) else []
        if any(
            rest == one or rest.startswith(f"{one}/")
            for note in notes
            for one in note.get("members", [rest])
        ):
            return True
        here = here[place[depth]] if depth < len(place) else None
    return False


def unmarked(document: Any) -> list[str]:
    """What the document has beyond the published contract without an assumption."""
    waiting = [place for place in changes(BASE, document) if "x-assumption" not in place]
    bare = []
    while waiting:
        place = waiting.pop()
        if is_marked(document, place):
            continue
        new = document
        for step in place:
            new = new[step]
        inner = new if isinstance(new, dict) else range(len(new) if isinstance(new, list) else 0)
        waiting += [(*place, one) for one in inner]
        bare += [] if inner else [pointer_text(place)]
    return bare


def test_everything_beyond_the_published_contract_is_marked_where_it_is_served(
    client: httpx.Client,
) -> None:
    served = client.get("/openapi.json").json()
    address_of_this_server = served["servers"].pop(0)
    assert address_of_this_server["url"] == str(client.base_url)
    assert len(list(changes(BASE, served))) > 200
    assert unmarked(served) == []


def test_nothing_that_is_only_published_is_marked(client: httpx.Client) -> None:
    served = client.get("/openapi.json").json()
    notes = [one for one in walked(served) if "x-assumption" in one]
    published = [one for one in walked(BASE) if "x-assumption" in one]
    assert (bool(notes), published) == (True, [])
    for note in (note for one in notes for note in one["x-assumption"]):
        assert note.keys() <= {"assumption", "gap", "members"}
        assert note["gap"]
        assert re.fullmatch(r"\S.*[.!?]", note["assumption"])
    for one in notes:
        for note in one["x-assumption"]:
            for member in note.get("members", []):
                assert found(one, member) is not None


def test_the_control_contract_is_an_assumption_as_a_whole(client: httpx.Client) -> None:
    served = client.get("/sandbox/openapi.json").json()
    (note,) = served["info"]["x-assumption"]
    assert note.keys() == {"assumption", "gap"}
    assert [one for one in walked(served) if "x-assumption" in one] == [served["info"]]


def found(value: Any, pointer: str) -> Any:
    """What a JSON Pointer without its first slash names."""
    for step in pointer.split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def walked(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in ``value``."""
    for one in value.values() if isinstance(value, dict) else value:
        if isinstance(one, dict | list):
            yield from walked(one)
    if isinstance(value, dict):
        yield value


# How actions are shown

GAP = {"description": "It is so. For a reason.", "x-gap": "Gap"}


def shown(document: dict[str, Any], target: str, value: Any) -> Any:
    """``document`` after one assumption."""
    return apply_overlay(document, overlay({**update(target, value), **GAP}))
