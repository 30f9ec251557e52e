"""What we rely on in the canonical form of jsonschema-rs, which its authors may still change."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import Containment, Satisfiability


def form(schema: Any, **resources: Any) -> CanonicalSchema:
    return jsonschema_rs.canonicalize(
        schema,
        draft=jsonschema_rs.Draft202012,
        validate_formats=True,
        retriever=lambda uri: resources[uri.rpartition("/")[2]],
    )


INT, TEXT = {"type": "integer"}, {"type": "string"}
A = {"type": "object", "properties": {"a": INT}, "required": ["a"]}
B = {"type": "object", "properties": {"b": TEXT}, "required": ["b"]}

SAME: dict[str, tuple[Any, Any]] = {
    "allOf is worked out": (
        {"allOf": [{**INT, "minimum": 1}, {"maximum": 9}]},
        {**INT, "minimum": 1, "maximum": 9},
    ),
    "the order of alternatives says nothing": ({"anyOf": [A, B]}, {"anyOf": [B, A]}),
    "prose says nothing": ({**INT, "title": "t", "default": 1, "x-a": 1}, INT),
    "a condition is two alternatives": (
        {"if": INT, "then": {"minimum": 1}, "else": TEXT},
        {"anyOf": [{**INT, "minimum": 1}, TEXT]},
    ),
    "unevaluated members are decided": (
        {**A, "unevaluatedProperties": False},
        {**A, "additionalProperties": False},
    ),
    "what is required is allowed": (
        {**A, "dependentSchemas": {"a": {"required": ["b"]}}},
        {**A, "required": ["a", "b"]},
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_two_spellings_of_a_schema_have_the_same_form(name: str) -> None:
    first, second = (form(one) for one in SAME[name])
    assert first == second
    assert hash(first) == hash(second)


@pytest.mark.parametrize(
    ("first", "second", "covers"),
    [
        pytest.param({**TEXT, "maxLength": 8}, {**TEXT, "maxLength": 5}, Containment.YES, id="yes"),
        pytest.param({**TEXT, "maxLength": 5}, {**TEXT, "maxLength": 8}, Containment.NO, id="no"),
        pytest.param({"enum": [1, 2]}, {"const": 1}, Containment.YES, id="constants"),
        pytest.param({"type": "number"}, INT, Containment.YES, id="types"),
        pytest.param(A, {"allOf": [A, B]}, Containment.YES, id="objects"),
    ],
)
def test_a_schema_that_allows_more_covers_the_other(
    first: Any, second: Any, covers: Containment
) -> None:
    assert form(first).covers(form(second)) == covers


def test_patterns_are_never_said_to_cover_each_other_wrongly() -> None:
    narrow, wide = form({**TEXT, "pattern": "^a$"}), form({**TEXT, "pattern": "^[ab]$"})
    assert narrow.covers(wide) != Containment.YES


def test_what_no_value_satisfies_is_false_with_a_place_and_a_reason() -> None:
    schema = {**A, "properties": {"a": {**INT, "minimum": 5, "maximum": 4}}}
    assert form(schema).satisfiability() == Satisfiability.NO
    assert form(schema).kind == canonical.CanonicalKind.FALSE
    assert "/properties/a" in canonical.find_unsatisfiable(schema)


def test_a_reference_stays_one_and_is_looked_up_once_when_needed() -> None:
    asked: list[str] = []

    def retrieve(uri: str) -> Any:
        asked.append(uri)
        return {"properties": {"next": {"$ref": "schema:/node"}}, "type": "object"}

    found = jsonschema_rs.canonicalize({"$ref": "schema:/node"}, retriever=retrieve)
    view = found.view()
    assert isinstance(view, canonical.ReferenceView)
    target = found.definition(view.uri)
    assert target is not None
    inner = target.view()
    assert isinstance(inner, canonical.ObjectView)
    assert isinstance(inner.properties["next"].view(), canonical.ReferenceView)
    assert asked == ["schema:/node"]


def test_a_schema_that_requires_itself_without_end_is_false() -> None:
    node = {"type": "object", "required": ["n"], "properties": {"n": {"$ref": "schema:/node"}}}
    assert form({"$ref": "schema:/node"}, node=node).satisfiability() == Satisfiability.NO


def test_sets_of_values_can_be_intersected_and_subtracted() -> None:
    assert form(INT).intersect(form({"minimum": 3})) == form({**INT, "minimum": 3})
    assert form({"enum": ["a", "b"]}).subtract(form({"const": "a"})) == form({"const": "b"})


def test_what_the_form_does_not_support_is_kept_as_it_is() -> None:
    schema = {"allOf": [{"contains": INT}, {"contains": TEXT}], "unevaluatedItems": False}
    view = form(schema).view()
    assert isinstance(view, canonical.RawView)
    assert view.reason == canonical.RawReason.UNMODELED


def test_values_are_compared_as_json_schema_compares_them() -> None:
    text = canonical.json.to_string
    assert text({"a": 1, "b": 1.0}) == text({"b": 1, "a": 1.0})
    assert text(True) != text(1)


def test_a_form_can_be_written_as_a_schema_that_means_the_same() -> None:
    written: Any = form({"allOf": [A, B]}).to_json_schema()
    is_valid = jsonschema_rs.Draft202012Validator(written).is_valid
    assert [is_valid(one) for one in ({"a": 1, "b": "x"}, {"a": 1})] == [True, False]
    assert json.loads(json.dumps(written)) == written
