"""A valid value for a JSON Schema, for an operation that has no handler and no example.

The canonical form of jsonschema-rs has no applicators to satisfy: intersections, conditions,
negations and unevaluated members are worked out, and what no value satisfies is ``false``. A value
is built for that form; the examples, titles and the order of members come from the schema as it is
written. The first value that the validator of the whole schema accepts is the result.

What is here beside the canonical form, and what goes wrong without it: subtraction that stops at
large forms (one response of GitHub's document takes 0.9 s instead of 0.07 s), forms level by level
(twice the CPU time for Stripe's), the alternatives as written and conjunctions of references (6 of
10 bodies with a discriminator have no value), violations and contained items (7 schemas of
tests/test_generate.py have none), the repeat without unsupported keywords (3 of the JSON Schema
suite).
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from random import Random
from typing import Any, Final

from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import CanonicalKind

from invoice_sandbox.openapi.schema.canonical import (
    IDENTITY,
    CannotGenerate,
    Resolve,
    Schema,
    Sources,
    accepts,
    any_value,
    cannot,
    canonical_form,
    plain_form,
    sources_of,
    supported,
    type_alone,
    without,
)
from invoice_sandbox.openapi.schema.objects import object_value
from invoice_sandbox.openapi.schema.values import (
    DeadEndError,
    ExhaustedError,
    Place,
    Style,
    array_value,
    number_value,
    string_value,
)

__all__ = ["CannotGenerate", "generate"]

_ATTEMPTS: Final = 60
_STEPS: Final = 10_000
_STEPS_OF_ATTEMPT: Final = 2_500
_DEEPEST: Final = 40
_MAX_SPARE: Final = 60
_FEW: Final = 3
_TYPES: Final = ("string", "integer", "number", "boolean", "object", "array", "null")


_STYLES: Final = (
    Style(optional=1, annotated=1, most=12),
    Style(optional=1, annotated=1, most=3),
    Style(optional=0, annotated=0),
    Style(optional=1, annotated=0),
)


def generate(
    schema: Schema,
    *,
    resolve: Resolve,
    is_valid: Callable[[Any], bool],
    seed: int | str,
    invent: bool = False,
) -> Any:
    """A JSON value (dict, list, str, int, float, bool or None) that ``is_valid`` accepts.

    ``resolve`` returns the schema that a ``$ref`` names (LookupError or ValueError if none).
    Examples and defaults of the schema are used unless ``invent``. The same schema and seed give
    the same value in every process. Raises CannotGenerate when no valid value is found within a
    bounded number of attempts.
    """
    try:
        return _generated(schema, sources_of(resolve, True), is_valid, seed, invent, len(_STYLES))
    except CannotGenerate:  # perhaps only for what is not seen level by level
        return _generated(schema, sources_of(resolve, False), is_valid, seed, invent, _ATTEMPTS)


def _generated(
    schema: Schema,
    sources: Sources,
    is_valid: Callable[[Any], bool],
    seed: int | str,
    invent: bool,
    attempts: int,
) -> Any:
    form = sources.canonical(schema)
    failure = "# (the whole schema): no candidate satisfied all its keywords together"
    left = _STEPS
    for attempt in range(attempts):
        rng = _random(seed, attempt)
        style = _STYLES[attempt] if attempt < len(_STYLES) else _varied(rng)
        run = _Run(rng, replace(style, annotated=0) if invent else style, sources)
        run.left = granted = min(left, _STEPS_OF_ATTEMPT)
        try:
            value = run.build(form, Place((schema,), vary=style.vary))
            if is_valid(value):
                return value
        except (DeadEndError, ExhaustedError) as error:
            failure = str(error)
        left -= granted - run.left
        if left <= 0:
            break
    raise cannot(failure)


def _random(seed: int | str, attempt: int) -> Random:
    digest = hashlib.sha256(f"{seed!r}/{attempt}".encode()).digest()
    return Random(int.from_bytes(digest))  # noqa: S311 - examples, not secrets


def _varied(rng: Random) -> Style:
    return Style(
        optional=rng.choice((0, 0.3, 0.7, 1)),
        annotated=rng.choice((0, 0.5, 0.9)),
        vary=rng.random() < 0.8,
    )


@dataclass
class _Run:
    """One attempt: its random source, its style and the steps it may still take."""

    rng: Random
    style: Style
    sources: Sources
    left: int = _STEPS_OF_ATTEMPT

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def build(self, form: CanonicalSchema, place: Place) -> Any:
        """A value for ``form``. Raises DeadEndError when no choice leads to one."""
        self.left -= 1
        if self.left < 0:
            raise ExhaustedError(f"{place.pointer}: it branches too much to find a value")
        if place.depth > _DEEPEST:
            raise place.fail(f"it requires a value nested more than {_DEEPEST} levels deep")
        form = self.sources.opened(form)
        if self.chance(self.style.annotated):
            given = [one for one in self._annotated(place.written, 0) if accepts(form, one)]
            if given:
                return copy.deepcopy(self.rng.choice(given) if place.vary else given[0])
        view = form.view()
        if type(view) in _COMPOUND:
            for branch, narrowed in self.chosen(form, place):
                try:
                    return self.build(narrowed, replace(place, written=(branch,)))
                except DeadEndError:
                    continue
        return _BUILDERS[type(view)](self, form, view, place)

    def chosen(
        self, form: CanonicalSchema, place: Place
    ) -> Iterator[tuple[Schema, CanonicalSchema]]:
        """The alternatives in the order in which they are written, with the form of each."""
        schema = next((one for one in self.applicable(place.written, ()) if _choices(one)), None)
        branches = list(_choices(schema)) if schema is not None else []
        if place.vary or self.style.vary:
            self.rng.shuffle(branches)
        for branch in branches:
            try:
                narrowed = form.intersect(self.sources.canonical(branch))
            except ValueError:  # nothing satisfies it, or the result is not supported
                continue
            if not self.recurs(narrowed, place):
                beside = {key: one for key, one in (schema or {}).items() if key not in _CHOICES}
                alone = beside.keys() <= _HARMLESS | {"discriminator"}
                yield branch if alone else {"allOf": [branch, beside]}, narrowed

    def _annotated(self, written: Sequence[Schema], depth: int) -> Iterator[Any]:
        """Examples and defaults; those of a part only where there is nothing but that part."""
        for schema in written:
            if not isinstance(schema, Mapping) or depth > _FEW:
                continue
            examples = schema.get("examples", [])
            yield from examples if isinstance(examples, list) else []
            yield from (schema[key] for key in ("example", "default") if key in schema)
            if schema.keys() <= _HARMLESS | {"$ref"} and "$ref" in schema:
                yield from self._annotated([self.follow(schema["$ref"])], depth + 1)
            elif schema.keys() <= _HARMLESS | {"allOf"} and len(schema.get("allOf", ())) == 1:
                yield from self._annotated(schema["allOf"], depth + 1)

    def follow(self, reference: str) -> Schema:
        try:
            return self.sources.resolve(reference)
        except (LookupError, ValueError):  # the canonical form has reported it
            return True

    def applicable(
        self, written: Sequence[Schema], keys: Sequence[str] = ("allOf", "anyOf", "oneOf")
    ) -> list[Mapping[str, Any]]:
        """Every schema as written that may be about the same value, the closest first."""
        found: list[Mapping[str, Any]] = []
        waiting = list(written)
        while waiting and len(found) < _MAX_SPARE:
            schema = waiting.pop(0)
            if not isinstance(schema, Mapping) or any(schema is one for one in found):
                continue
            found.append(schema)
            if isinstance(schema.get("$ref"), str):
                waiting.append(self.follow(schema["$ref"]))
            for key in keys:
                waiting += schema[key] if isinstance(schema.get(key), list) else []
            waiting += [schema[key] for key in ("then", "else") if key in schema]
        return found

    def first_of(
        self, forms: Sequence[CanonicalSchema], place: Place, *, exclusive: bool = False
    ) -> Any:
        """A value for the first of ``forms`` that has one, none of the others if ``exclusive``.

        Those that lead back come last.
        """
        order = list(forms)
        if place.vary or self.style.vary:
            self.rng.shuffle(order)
        else:
            order.sort(key=_rank)
        failure = place.fail("its keywords exclude each other")
        for form in sorted(order, key=lambda one: self.recurs(one, place)):
            others = [one for one in forms if exclusive and one is not form]
            try:
                return self.build(reduce(without, others, form), place)
            except DeadEndError as error:
                failure = error
        raise failure

    def recurs(self, form: CanonicalSchema, place: Place) -> bool:
        """Whether ``form`` is a reference that the run is inside of."""
        view = self.sources.opened(form).view()
        return isinstance(view, canonical.ReferenceView) and view.uri in place.active


_CHOICES: Final = ("anyOf", "oneOf")
_COMPOUND: Final = (
    *(canonical.AnyOfView, canonical.OneOfView, canonical.AllOfView, canonical.ObjectView),
)


def _choices(schema: Mapping[str, Any]) -> Sequence[Schema]:
    lists = [schema[key] for key in _CHOICES if isinstance(schema.get(key), list)]
    return lists[0] if lists else []


_HARMLESS: Final = IDENTITY | frozenset(
    {"examples", "example", "default", "title", "description", "summary", "deprecated"}
    | {"readOnly", "$comment"}
)


def _rank(form: CanonicalSchema) -> int:
    """Alternatives that say more about their value come first, null last."""
    view = form.view()
    if isinstance(view, canonical.MultiTypeView):
        return 2 + (view.types == ["null"])
    return int(isinstance(view, canonical.ConstView) and view.value is None) * 3


def _anything(run: _Run, _form: CanonicalSchema, _view: Any, place: Place) -> Any:
    return _of_type(run, "string", place)


def _nothing(_run: _Run, _form: CanonicalSchema, _view: Any, place: Place) -> Any:
    raise place.fail("its keywords exclude each other")


def _of_types(run: _Run, _form: CanonicalSchema, view: Any, place: Place) -> Any:
    types = [one for one in _TYPES if one in view.types]
    if "number" in types and "integer" not in types and not place.vary:
        types.insert(types.index("number"), "integer")
    return _of_type(run, run.rng.choice(types) if place.vary else types[0], place)


def _of_type(run: _Run, name: str, place: Place) -> Any:
    """Any value of a type."""
    if name == "null":
        return None
    if name == "boolean":
        return run.chance(0.5) if place.vary else True
    form = plain_form(name)
    view = form.view()
    return _BUILDERS[type(view)](run, form, view, place)


def _group(run: _Run, _form: CanonicalSchema, view: Any, place: Place) -> Any:
    return run.build(view.body.intersect(type_alone(view.type_name)), place)


def _constant(run: _Run, _form: CanonicalSchema, view: Any, place: Place) -> Any:
    values = view.values if isinstance(view, canonical.EnumView) else [view.value]
    value = run.rng.choice(values)
    is_success = value is False and place.pointer.rpartition("/")[2] in _OF_SUCCESS
    return True if is_success and True in values else _plain(value)


_OF_SUCCESS: Final = frozenset({"success", "successful", "succeeded", "ok"})
"""Members that say whether a request was right, which are true in an example."""


def _plain(value: Any) -> Any:
    """What JSON has: a Decimal as a float."""
    return json.loads(json.dumps(value, default=float))


def _one_of(run: _Run, _form: CanonicalSchema, view: Any, place: Place) -> Any:
    return run.first_of(view.branches, place, exclusive=True)


def _any_of(run: _Run, _form: CanonicalSchema, view: Any, place: Place) -> Any:
    return run.first_of(view.branches, place)


def _all_of(run: _Run, form: CanonicalSchema, view: Any, place: Place) -> Any:
    """A conjunction that the canonical form leaves to references: each is followed."""
    together, uris, choices = any_value(), set[str](), [any_value()]
    for branch in view.branches:
        found = branch
        if isinstance(one_of := branch.view(), canonical.OneOfView):
            choices = one_of.branches
            continue
        while isinstance(view := found.view(), canonical.ReferenceView) and view.uri not in uris:
            uris.add(view.uri)
            found = found.definition(view.uri) or found
        together = together.intersect(found)
    if together == form or together.kind == CanonicalKind.ALL_OF:
        view = together.view()
        return run.first_of(view.branches[:1], place)
    forms = [together.intersect(choice) for choice in choices]
    return run.first_of(forms, replace(place, active=place.active | uris), exclusive=True)


def _reference(run: _Run, form: CanonicalSchema, view: Any, place: Place) -> Any:
    target = form.definition(view.uri)
    if target is None or (target == form):
        raise place.fail("a reference leads back to itself")
    return run.build(target, replace(place, active=place.active | {view.uri}))


def _not(run: _Run, _form: CanonicalSchema, _view: Any, place: Place) -> Any:
    """Whether a value is none of the excluded ones is left to the validator."""
    return _of_type(run, run.rng.choice(_TYPES), place)


def _raw(run: _Run, _form: CanonicalSchema, view: Any, place: Place) -> Any:
    """What the canonical form does not support is built without, and left to the validator."""
    retrieve = run.sources.retrieve
    form = canonical_form(supported(view.schema), lambda uri: supported(retrieve(uri)))
    if form.kind == CanonicalKind.RAW:
        raise place.fail("it combines keywords for which no value can be made")
    return run.build(form, place)


_BUILDERS: Final[Mapping[type, Callable[[_Run, CanonicalSchema, Any, Place], Any]]] = {
    canonical.TrueView: _anything,
    canonical.FalseView: _nothing,
    canonical.MultiTypeView: _of_types,
    canonical.TypedGroupView: _group,
    canonical.StringView: string_value,
    canonical.NumberView: number_value,
    canonical.IntegerView: number_value,
    canonical.ArrayView: array_value,
    canonical.ObjectView: object_value,
    canonical.ConstView: _constant,
    canonical.EnumView: _constant,
    canonical.AnyOfView: _any_of,
    canonical.OneOfView: _one_of,
    canonical.AllOfView: _all_of,
    canonical.ReferenceView: _reference,
    canonical.NotView: _not,
    canonical.RawView: _raw,
}
