"""Schemas without applicators: each way to satisfy allOf, oneOf, if, not, ... as flat keywords.

A flat schema is a dict of keywords that all hold at once. It has no applicators but those for
members and items, always says ``enum`` for ``const``, and keeps what cannot be intersected in lists
under the internal keys below.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import gcd, lcm
from typing import Any, Final

import jsonschema_rs

Schema = Mapping[str, Any] | bool
Flat = dict[str, Any]

PATTERNS: Final = "#patterns"
FORMATS: Final = "#formats"
CONTAINS: Final = "#contains"
EXCLUDED: Final = "#excluded"
FRACTION: Final = "#fraction"
REFERENCES: Final = "#references"

TYPES: Final = ("string", "integer", "number", "boolean", "object", "array", "null")
ANNOTATIONS: Final = ("examples", "example", "default")
_HARMLESS: Final = frozenset(
    {*ANNOTATIONS, "type", "title", "description", "summary", "deprecated", "readOnly", "$comment"}
)
_LEAF: Final = (
    *("type", "enum", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems"),
    *("required", "minProperties", "maxProperties", "dependentRequired"),
)
_COPIED: Final = frozenset(
    {
        *_LEAF,
        *ANNOTATIONS,
        *("title", "contentEncoding", "properties", "patternProperties", "additionalProperties"),
        *("propertyNames", "unevaluatedProperties"),
        *("prefixItems", "items", "unevaluatedItems", EXCLUDED, FRACTION),
    }
)
_DEEPEST_NESTING: Final = 40


class ConflictError(Exception):
    """Keywords that no value can satisfy at once; the message says which."""


@dataclass(frozen=True)
class Scope:
    """How choices are made: ``order`` sorts branches, ``exclusive`` makes oneOf shut out the rest.

    ``spend`` is called for each schema that is opened, and may raise to give up. ``opened`` are the
    references already followed for the same value, to notice a loop.
    """

    resolve: Callable[[str], Schema]
    order: Callable[[Sequence[Schema]], Sequence[Schema]]
    spend: Callable[[], None]
    exclusive: bool = False
    opened: tuple[str, ...] = ()

    def follow(self, reference: str) -> Schema:
        """The schema of ``reference``. Raises ConflictError when it cannot be had."""
        try:
            return self.resolve(reference)
        except (LookupError, ValueError) as error:
            raise ConflictError(f"the reference {reference} is not resolved: {error}") from error


def alternatives(schema: Schema, scope: Scope) -> Iterator[Flat]:
    """Each way to satisfy ``schema``, lazily and in the order that ``scope`` prefers.

    Raises ConflictError for a reference that cannot be resolved or refers to itself.
    """
    if isinstance(schema, bool):
        yield from [{}] if schema else []
        return
    scope.spend()
    inner = _opened(schema, scope)
    parts = _parts(schema, inner)
    own = _own_keywords(schema)
    inherits = len(parts) == 1 and own.keys() <= _HARMLESS
    for flat in _combined(own, parts, inner, inherits):
        finished = _finished(flat)
        if finished is not None:
            yield finished


def both(first: Schema, second: Schema) -> Schema:
    """A schema for the values that satisfy ``first`` and ``second``."""
    if first is True or second is False:
        return second
    if second is True or first is False or first == second:
        return first
    return {"allOf": [first, second]}


def member_schema(flat: Flat, name: str) -> Schema:
    """What the value of the member ``name`` has to satisfy."""
    found = [flat["properties"][name]] if name in flat.get("properties", {}) else []
    for pattern, schema in flat.get("patternProperties", {}).items():
        if leaf_accepts({PATTERNS: [pattern]}, name):
            found.append(schema)
    result: Schema = True if found else flat.get("additionalProperties", True)
    for schema in found:
        result = both(result, schema)
    return result


def item_schema(flat: Flat, index: int) -> Schema:
    """What the item at ``index`` has to satisfy, ``contains`` aside."""
    prefix = flat.get("prefixItems", ())
    schema: Schema = prefix[index] if index < len(prefix) else flat.get("items", True)
    return schema


def leaf_accepts(flat: Flat, value: Any) -> bool:
    """Whether ``value`` satisfies the keywords of ``flat`` that look at nothing inside it.

    Raises ConflictError when they are not keywords of JSON Schema 2020-12.
    """
    schema: Flat = {key: flat[key] for key in _LEAF if key in flat}
    patterns = [{"pattern": each} for each in flat.get(PATTERNS, ())]
    formats = [{"format": each} for each in flat.get(FORMATS, ())]
    barred = [{"not": {"enum": flat[EXCLUDED]}}] if EXCLUDED in flat else []
    whole = [{"not": {"type": "integer"}}] if FRACTION in flat else []
    if together := [*patterns, *formats, *barred, *whole]:
        schema["allOf"] = together
    return _compiled(json.dumps(schema, default=float))(value)


@lru_cache(maxsize=1024)
def _compiled(text: str) -> Callable[[Any], bool]:
    try:
        return jsonschema_rs.Draft202012Validator(json.loads(text), validate_formats=True).is_valid
    except ValueError as error:  # such as draft 4's exclusiveMinimum: true
        raise ConflictError(str(error).splitlines()[0]) from None


def identity(value: Any) -> str:
    """Equal for values that JSON Schema calls equal: 1 and 1.0 are, true and 1 are not."""
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str | bool) or value is None:
        return value
    return [str(Fraction(str(value))), "a number"]


def _opened(schema: Mapping[str, Any], scope: Scope) -> Scope:
    if len(scope.opened) > _DEEPEST_NESTING:
        raise ConflictError("the schema is nested too deeply")
    reference = schema.get("$ref")
    if reference in scope.opened:
        raise ConflictError(f"the reference {reference} leads back to itself")
    return replace(scope, opened=(*scope.opened, reference or ""))


def _own_keywords(schema: Mapping[str, Any]) -> Flat:
    own = {key: schema[key] for key in schema if key in _COPIED}
    if isinstance(own.get("type"), str):
        own["type"] = [own["type"]]
    if "const" in schema:
        constant = [schema["const"]]
        own["enum"] = _common(constant, own["enum"]) if "enum" in own else constant
    if "contains" in schema:
        own[CONTAINS] = [{key: schema[key] for key in _CONTAINS_KEYS if key in schema}]
    for key, plural in (("pattern", PATTERNS), ("format", FORMATS), ("$ref", REFERENCES)):
        if key in schema:
            own[plural] = [schema[key]]
    return own


_CONTAINS_KEYS: Final = ("contains", "minContains", "maxContains")


def _parts(schema: Mapping[str, Any], scope: Scope) -> list[Sequence[Schema]]:
    """The choices to make: one schema out of each part has to hold."""
    parts: list[Sequence[Schema]] = [[each] for each in schema.get("allOf", ())]
    if "$ref" in schema:
        parts.append([scope.follow(schema["$ref"])])
    if "anyOf" in schema:
        parts.append(scope.order(schema["anyOf"]))
    if "oneOf" in schema:
        parts.append(scope.order(_one_of(schema["oneOf"], scope.exclusive)))
    if "if" in schema:
        parts.append(scope.order(_conditional(schema)))
    for name, dependent in schema.get("dependentSchemas", {}).items():
        without: Schema = {"properties": {name: False}}
        parts.append(scope.order([without, both({"required": [name]}, dependent)]))
    if "not" in schema:
        parts.append(_negations(schema["not"], scope))
    return parts


def _one_of(branches: Sequence[Schema], exclusive: bool) -> Sequence[Schema]:
    if not exclusive:
        return branches
    others = [[{"not": b} for b in branches if b is not branch] for branch in branches]
    return [{"allOf": [branch, *rest]} for branch, rest in zip(branches, others, strict=True)]


def _conditional(schema: Mapping[str, Any]) -> list[Schema]:
    condition = schema["if"]
    met = {"allOf": [condition, schema.get("then", True)]}
    return [met, {"allOf": [{"not": condition}, schema.get("else", True)]}]


def _combined(
    flat: Flat, parts: Sequence[Sequence[Schema]], scope: Scope, inherits: bool
) -> Iterator[Flat]:
    if not parts:
        yield flat
        return
    for choice in parts[0]:
        try:
            for found in alternatives(choice, scope):
                merged = _merged_or_none(flat, found, inherits)
                if merged is not None:
                    yield from _combined(merged, parts[1:], scope, inherits)
        except ConflictError:
            if len(parts[0]) == 1:
                raise


def _merged_or_none(flat: Flat, found: Flat, inherits: bool) -> Flat | None:
    """An example of a part is no example of the whole, unless there is nothing but that part."""
    if not inherits:
        found = {key: value for key, value in found.items() if key not in ANNOTATIONS}
    try:
        return _merged(flat, found)
    except ConflictError:
        return None


def _finished(flat: Flat) -> Flat | None:
    """``flat`` with unevaluated members and items decided; None if nothing can satisfy it."""
    leftover = flat.pop("unevaluatedProperties", None)
    if leftover is not None:
        flat.setdefault("additionalProperties", leftover)
    leftover = flat.pop("unevaluatedItems", None)
    if leftover is not None and "items" not in flat:
        evaluated = [each["contains"] for each in flat.get(CONTAINS, ())]
        flat["items"] = {"anyOf": [*evaluated, leftover]} if evaluated else leftover
    if "object" in flat.get("type", ()) and "enum" not in flat:
        closed = any(member_schema(flat, name) is False for name in flat.get("required", ()))
        return _without_type(flat, "object") if closed else flat
    return flat


def _without_type(flat: Flat, name: str) -> Flat | None:
    kept = [each for each in flat["type"] if each != name]
    return {**flat, "type": kept} if kept else None


def _merged(first: Flat, second: Flat) -> Flat:
    merged = {**second, **first}
    for key in first.keys() & second.keys() & _RULES.keys():
        merged[key] = _RULES[key](first[key], second[key])
    merged.update(_merged_members(first, second))
    merged.update(_merged_items(first, second))
    return {key: merged[key] for key in [*first, *merged] if key in merged}


def _merged_members(first: Flat, second: Flat) -> Flat:
    rest = (first.get("additionalProperties", True), second.get("additionalProperties", True))
    patterns = [flat.get("patternProperties", {}) for flat in (first, second)]
    names = {**first.get("properties", {}), **second.get("properties", {})}
    merged: Flat = {
        "properties": {n: both(member_schema(first, n), member_schema(second, n)) for n in names},
        "patternProperties": {
            each: both(patterns[0].get(each, rest[0]), patterns[1].get(each, rest[1]))
            for each in {**patterns[0], **patterns[1]}
        },
        "additionalProperties": both(*rest),
    }
    return {key: value for key, value in merged.items() if key in first or key in second}


def _merged_items(first: Flat, second: Flat) -> Flat:
    length = max(len(first.get("prefixItems", ())), len(second.get("prefixItems", ())))
    merged: Flat = {
        "prefixItems": [both(item_schema(first, i), item_schema(second, i)) for i in range(length)],
        "items": both(first.get("items", True), second.get("items", True)),
    }
    return {key: value for key, value in merged.items() if key in first or key in second}


def _common_types(first: list[str], second: list[str]) -> list[str]:
    wide = {*first, *(["integer"] if "number" in first else [])}
    other = {*second, *(["integer"] if "number" in second else [])}
    common = wide & other
    ordered = [each for each in [*first, *second, "integer"] if each in common]
    if not ordered:
        raise ConflictError("its types exclude each other")
    return list(dict.fromkeys(ordered))


def _common(first: list[Any], second: list[Any]) -> list[Any]:
    allowed = {identity(value) for value in second}
    common = [value for value in first if identity(value) in allowed]
    if not common:
        raise ConflictError("its constants exclude each other")
    return common


def _common_multiple(first: Any, second: Any) -> Any:
    one, two = Fraction(str(first)), Fraction(str(second))
    both_ = Fraction(lcm(one.numerator, two.numerator), gcd(one.denominator, two.denominator))
    return int(both_) if both_.denominator == 1 else float(both_)


def _added(first: list[Any], second: list[Any]) -> list[Any]:
    return [*first, *(value for value in second if value not in first)]


def _by_name(join: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
        shared = {name: join(first[name], second[name]) for name in first if name in second}
        return {**first, **second, **shared}

    return merge


_RULES: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "type": _common_types,
    "enum": _common,
    "multipleOf": _common_multiple,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    **dict.fromkeys(("required", PATTERNS, FORMATS, CONTAINS, EXCLUDED, REFERENCES), _added),
    "uniqueItems": lambda first, second: first or second,
    "propertyNames": both,
    "unevaluatedProperties": both,
    "unevaluatedItems": both,
    "dependentRequired": _by_name(_added),
}


def _negations(schema: Schema, scope: Scope) -> list[Schema]:
    """Schemas each of which excludes ``schema``; ``true`` last where only a retry can tell."""
    if isinstance(schema, bool):
        return [not schema]
    known: list[Schema] = []
    for key, negate in _NEGATORS.items():
        if key in schema:
            known += negate(schema[key])
    if "$ref" in schema:
        known.append({"not": scope.follow(schema["$ref"])})
    if "if" in schema:
        met, unmet = {"not": schema.get("then", True)}, {"not": schema.get("else", True)}
        known += _conditional({"if": schema["if"], "then": met, "else": unmet})
    asserted = (
        schema.keys()
        - _NEGATORS.keys()
        - {"$ref", "if", "then", "else", *ANNOTATIONS, "title", "description"}
    )
    return [*known, True] if asserted else known


def _not_type(types: str | list[str]) -> list[Schema]:
    names = {types} if isinstance(types, str) else {*types}
    whole = {"integer", "number"} if names & {"integer", "number"} else set()
    others: Schema = {"type": [each for each in TYPES if each not in names | whole]}
    fraction: Schema = {"type": "number", FRACTION: True}
    return [others, fraction] if "integer" in names and "number" not in names else [others]


def _not_member(properties: Mapping[str, Schema]) -> list[Schema]:
    return [
        {"type": "object", "required": [name], "properties": {name: {"not": schema}}}
        for name, schema in properties.items()
    ]


def _limit(type_name: str, keyword: str, step: int = 0) -> Callable[[Any], list[Schema]]:
    def negate(bound: Any) -> list[Schema]:
        impossible = step < 0 and bound <= 0
        return [] if impossible else [{"type": type_name, keyword: bound + step}]

    return negate


# Each gives schemas that break the keyword; the most telling keywords come first.
_NEGATORS: Final[Mapping[str, Callable[[Any], list[Schema]]]] = {
    "const": lambda value: [{EXCLUDED: [value]}],
    "enum": lambda values: [{EXCLUDED: values}],
    "not": lambda schema: [schema],
    "anyOf": lambda branches: [{"allOf": [{"not": each} for each in branches]}],
    "oneOf": lambda branches: [
        {"allOf": [{"not": each} for each in branches]},
        *({"allOf": list(pair)} for pair in combinations(branches, 2)),
    ],
    "allOf": lambda branches: [{"not": each} for each in branches],
    "properties": _not_member,
    "required": lambda names: [{"type": "object", "properties": {n: False}} for n in names],
    "minimum": _limit("number", "exclusiveMaximum"),
    "maximum": _limit("number", "exclusiveMinimum"),
    "exclusiveMinimum": _limit("number", "maximum"),
    "exclusiveMaximum": _limit("number", "minimum"),
    "minLength": _limit("string", "maxLength", -1),
    "maxLength": _limit("string", "minLength", 1),
    "minItems": _limit("array", "maxItems", -1),
    "maxItems": _limit("array", "minItems", 1),
    "minProperties": _limit("object", "maxProperties", -1),
    "maxProperties": _limit("object", "minProperties", 1),
    "items": lambda each: [{"type": "array", "minItems": 1, "items": {"not": each}}],
    "contains": lambda each: [{"type": "array", "items": {"not": each}}],
    "type": _not_type,
}
