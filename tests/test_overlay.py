"""The overlay is applied as OpenAPI Overlay 1.0.0 says, and what does not fit is an error."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from invoice_sandbox.openapi.load.overlay import (
    OverlayError,
    assumptions,
    overlay_problems,
)
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.project.contracts import merged_document
from tests.cases import in_turn
from tests.overlays import apply_overlay

Action = dict[str, Any]


def overlay(*actions: Any) -> dict[str, Any]:
    """An overlay document with these actions."""
    return {
        "overlay": "1.0.0",
        "info": {"title": "Toy", "version": "1"},
        "actions": list(actions),
    }


def update(target: str, value: Any) -> Action:
    """An action that merges ``value`` into what ``target`` names."""
    return {"target": target, "update": value}


def remove(target: str) -> Action:
    """An action that removes what ``target`` names."""
    return {"target": target, "remove": True}


def copied(target: str, source: str) -> Action:
    """An action that merges what ``source`` names into what ``target`` names."""
    return {"target": target, "copy": source}


APPLIED: dict[str, tuple[Any, list[Action], Any]] = {
    "a new member is added": ({"a": 1}, [update("$", {"b": 2})], {"a": 1, "b": 2}),
    "null is a value like any other": ({"a": 1}, [update("$", {"a": None})], {"a": None}),
    "objects are merged recursively": (
        {"a": {"b": {"c": 1, "d": 1}}},
        [update("$", {"a": {"b": {"c": 2}}})],
        {"a": {"b": {"c": 2, "d": 1}}},
    ),
    "an array target gets one more item": ({"a": [1]}, [update("$.a", 2)], {"a": [1, 2]}),
    "an array appended to an array is one item": (
        {"a": [1]},
        [update("$.a", [2, 3])],
        {"a": [1, [2, 3]]},
    ),
    "arrays inside an update are concatenated": (
        {"a": {"tags": [1]}},
        [update("$.a", {"tags": [2, 1]})],
        {"a": {"tags": [1, 2, 1]}},
    ),
    "every match of the target is updated": (
        {"a": {"x": {}, "y": {}}},
        [update("$.a.*", {"z": 1})],
        {"a": {"x": {"z": 1}, "y": {"z": 1}}},
    ),
    "a filter chooses": (
        {"a": [{"n": "x"}, {"n": "y"}]},
        [update("$.a[?@.n == 'y']", {"z": 1})],
        {"a": [{"n": "x"}, {"n": "y", "z": 1}]},
    ),
    "a member is removed": ({"a": 1, "b": 2}, [remove("$.a")], {"b": 2}),
    "an array item is removed": ({"a": [1, 2, 3]}, [remove("$.a[1]")], {"a": [1, 3]}),
    "remove wins over update": ({"a": 1}, [{**remove("$.a"), "update": {}}], {}),
    "remove: false leaves the update": ({}, [{**update("$", {"a": 1}), "remove": False}], {"a": 1}),
    "an object is copied": (
        {"a": {"x": [1]}, "b": {"y": 2}},
        [copied("$.b", "$.a")],
        {"a": {"x": [1]}, "b": {"y": 2, "x": [1]}},
    ),
    "what is around is copied": (
        {"a": {"b": {}}},
        [copied("$.a.b", "$")],
        {"a": {"b": {"a": {"b": {}}}}},
    ),
    "a value is copied into an array": (
        {"a": [1], "b": 2},
        [copied("$.a", "$.b")],
        {"a": [1, 2], "b": 2},
    ),
    "update wins over copy": ({"a": 1}, [{**copied("$", "$"), **update("$", {"a": 2})}], {"a": 2}),
    "the last of two updates wins": (
        {},
        [update("$", {"a": 1}), update("$", {"a": 2})],
        {"a": 2},
    ),
}


@in_turn(
    ("document", "actions", "expected"),
    [pytest.param(*row, id=name) for name, row in APPLIED.items()],
)
def test_actions_change_the_document(document: Any, actions: list[Action], expected: Any) -> None:
    assert apply_overlay(document, overlay(*actions)) == expected


def test_the_documents_that_come_in_are_left_as_they_were() -> None:
    document = {"a": {"b": [1]}, "c": 1}
    changes = overlay(update("$.a", {"b": [{"d": 1}]}), update("$.a.b", 3), remove("$.c"))
    before = copy.deepcopy((document, changes))
    apply_overlay(document, changes)
    assert (document, changes) == before


def test_copies_share_nothing() -> None:
    merged = apply_overlay({"x": {}, "y": {"list": [1]}}, overlay(copied("$.x", "$.y")))
    merged["x"]["list"].append(2)
    assert merged["y"] == {"list": [1]}


def test_two_targets_of_one_update_share_nothing() -> None:
    merged = apply_overlay({"x": {}, "y": {}}, overlay(update("$.*", {"list": [1]})))
    merged["x"]["list"].append(2)
    assert merged["y"] == {"list": [1]}


REJECTED: dict[str, tuple[Any, str]] = {
    "target matches nothing": (update("$.nothing", {}), "matches nothing in the contract"),
    "removal of nothing": (remove("$.a[7]"), "matches nothing in the contract"),
    "not JSONPath": (update("paths.x", {}), "not an RFC 9535 JSONPath"),
    "unfinished JSONPath": (update("$.a[", {}), "not an RFC 9535 JSONPath"),
    "root removal": (remove("$"), "the root of the contract cannot be removed"),
    "a primitive cannot be updated": (update("$.s", 2), "must be an object or an array"),
    "a copy of nothing": (copied("$.o", "$.none"), "'copy' selects 0 values of the contract"),
    "a copy of several values": (copied("$.o", "$.*"), "'copy' selects 4 values of the contract"),
    "a copy that is not JSONPath": (copied("$.o", "a"), "or 'copy', is not an RFC 9535 JSONPath"),
    "an object takes only an object": (update("$.o", 2), "must be an object or an array"),
}


@in_turn(("action", "reason"), [pytest.param(*row, id=name) for name, row in REJECTED.items()])
def test_an_action_that_does_not_fit_is_an_error(action: Any, reason: str) -> None:
    document = {"a": [1], "s": 1, "o": {}}
    with pytest.raises(OverlayError, match=reason) as caught:
        apply_overlay(document, overlay(update("$", {"b": 1}), action))
    assert caught.value.action == 1
    assert str(caught.value).startswith("action 2 (")


def test_all_problems_are_found_at_once_and_what_fits_is_applied() -> None:
    document: dict[str, Any] = {}
    actions = [update("$.x", {}), update("$", {"a": 1}), update("$.y", {})]
    problems = list(overlay_problems(document, overlay(*actions)))
    assert [problem.action for problem in problems] == [0, 2]
    assert document == {"a": 1}


def test_assumptions_are_the_actions_in_order() -> None:
    first = {**update("$.a", {}), "x-gap": "Gap", "description": "Why"}
    table = assumptions(overlay(first, update("$.b", {})))
    assert [(one.target, one.gap, one.reason) for one in table] == [
        ("$.a", "Gap", "Why"),
        ("$.b", "", ""),
    ]


OPENAPI = 'openapi: 3.1.0\ninfo:\n  title: Toy\n  version: "1"\npaths: {}\n'
HEAD = "overlay: 1.0.0\ninfo: {title: Toy, version: '1'}\nactions:\n"


def project(folder: Path, overlay_text: str, openapi_text: str = OPENAPI) -> Path:
    """A project folder that consists of a contract and an overlay."""
    (folder / "openapi").mkdir()
    (folder / "openapi" / "openapi.yaml").write_text(openapi_text)
    (folder / "openapi" / "overlay.yaml").write_text(overlay_text)
    return folder


NEEDS_UPDATE = r"an item of 'actions' has no 'update' \(add it, or 'remove: true'\)"
PLACES: dict[str, tuple[str, str, str]] = {
    "wrong version": ("overlay: 2.0.0\nactions: []\n", "overlay.yaml:1:1", "Overlay 1.0"),
    "no actions": ("overlay: 1.0.0\n", "overlay.yaml:1:1", "the file has no 'actions'"),
    "neither update nor remove": (HEAD + "  - target: $\n", "overlay.yaml:4:5", NEEDS_UPDATE),
    "not YAML": (HEAD + "  - target: [\n", "overlay.yaml:5:1", "expected"),
    "invalid after the merge": (
        HEAD + "  - target: $.info\n    update: {license: {}}\n",
        "overlay.yaml:",
        "/info/license",
    ),
}


@pytest.mark.parametrize(
    ("text", "place", "problem"), [pytest.param(*row, id=name) for name, row in PLACES.items()]
)
def test_an_error_of_the_overlay_names_its_line_and_column(
    tmp_path: Path, text: str, place: str, problem: str
) -> None:
    with pytest.raises(DocumentError, match=problem) as caught:
        merged_document(project(tmp_path, text))
    assert caught.value.place.startswith(str(tmp_path / "openapi" / place))


def test_an_error_of_the_published_contract_is_not_blamed_on_the_overlay(tmp_path: Path) -> None:
    text = HEAD + "  - target: $.info\n    update: {summary: x}\n"
    folder = project(tmp_path, text, OPENAPI.replace("  title: Toy\n", ""))
    with pytest.raises(DocumentError, match="title") as caught:
        merged_document(folder)
    assert caught.value.place == f"{folder / 'openapi' / 'openapi.yaml'}:2:1"


def test_a_project_without_an_overlay_serves_what_is_published(tmp_path: Path) -> None:
    folder = project(tmp_path, "")
    (folder / "openapi" / "overlay.yaml").unlink()
    assert merged_document(folder)["info"] == {"title": "Toy", "version": "1"}
