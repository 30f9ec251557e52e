"""A valid value for a JSON Schema, for an operation that has no handler and no example.

The canonical form of jsonschema-rs has no applicators to satisfy: intersections, conditions,
negations and unevaluated members are worked out, and what no value satisfies is ``false``. A value
is built for that form; the examples, titles and the order of members come from the schema as it is
written. The first value that the validator of the whole schema accepts is the result.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import islice
from math import ceil, floor, lcm
from random import Random
from typing import Any, Final
from urllib.parse import quote, unquote

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import CanonicalKind

from invoice_sandbox.openapi.load.model import SCHEMA, Node, node
from invoice_sandbox.openapi.schema import strings

Schema = Mapping[str, Any] | bool
Resolve = Callable[[str], Schema]

_ATTEMPTS: Final = 60
_STEPS: Final = 10_000
_STEPS_OF_ATTEMPT: Final = 2_500
_RICH_DEPTH: Final = 5
_DEEPEST: Final = 40
_RETRIES: Final = 30
_MOST_ITEMS: Final = 1_000
_LONGEST: Final = 1_000_000
_MOST_SPARE: Final = 60
_FEW: Final = 3
_ADDRESS: Final = "schema:/"
_TYPES: Final = ("string", "integer", "number", "boolean", "object", "array", "null")


class CannotGenerate(ValueError):  # noqa: N818 - the name is part of the interface
    """No valid value was found; the message says where in the schema, why, and what to do."""


class _DeadEndError(Exception):
    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(f"{pointer}: {reason}")


class _ExhaustedError(_DeadEndError):
    """The attempt took too many steps; no other choice is tried in it."""


@dataclass(frozen=True)
class _Style:
    """How one attempt makes its choices; the numbers are probabilities."""

    optional: float
    annotated: float
    few: bool = False
    vary: bool = False


_STYLES: Final = (
    _Style(optional=1, annotated=1, few=True),
    _Style(optional=0, annotated=0),
    _Style(optional=1, annotated=0),
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
    form = _sources(resolve).canonical(schema)
    failure = "# (the whole schema): no candidate satisfied all its keywords together"
    left = _STEPS
    for attempt in range(_ATTEMPTS):
        rng = _random(seed, attempt)
        style = _STYLES[attempt] if attempt < len(_STYLES) else _varied(rng)
        run = _Run(rng, replace(style, annotated=0) if invent else style, resolve)
        run.left = granted = min(left, _STEPS_OF_ATTEMPT)
        try:
            value = run.build(form, _Place((schema,), vary=style.vary))
            if is_valid(value):
                return value
        except _DeadEndError as error:
            failure = str(error)
        left -= granted - run.left
        if left <= 0:
            break
    raise _cannot(failure)


def _cannot(failure: str) -> CannotGenerate:
    return CannotGenerate(f"{failure}; add an example to the operation or the schema")


def _random(seed: int | str, attempt: int) -> Random:
    digest = hashlib.sha256(f"{seed!r}/{attempt}".encode()).digest()
    return Random(int.from_bytes(digest))  # noqa: S311 - examples, not secrets


def _varied(rng: Random) -> _Style:
    return _Style(
        optional=rng.choice((0, 0.3, 0.7, 1)),
        annotated=rng.choice((0, 0.5, 0.9)),
        vary=rng.random() < 0.8,
    )


class _Sources:
    """Gives the canonical form every schema under an address of its own, when it is needed."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._known: dict[str, Any] = {}
        self._forms: dict[str, CanonicalSchema] = {}

    def canonical(self, schema: Schema) -> CanonicalSchema:
        """The canonical form of ``schema``. Raises CannotGenerate if no value satisfies it."""
        addressed = self.addressed(schema)
        key = json.dumps(addressed, default=str)
        if key not in self._forms:
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            self._forms[key] = self._worked_out(addressed)
        return self._forms[key]

    def _worked_out(self, addressed: Any) -> CanonicalSchema:
        try:
            form = _canonical(addressed, self.retrieve)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            problem = str(error).splitlines()[0]
            raise _cannot("#: " + (problem.rpartition(_MISSING)[2] or problem)) from None
        if form.satisfiability() == canonical.Satisfiability.NO:
            raise _cannot(self._conflict(addressed))
        return form

    def retrieve(self, uri: str) -> Any:
        """The schema at an address given here. Raises LookupError."""
        if uri not in self._known:
            reference = unquote(uri.removeprefix(_ADDRESS))
            try:
                self._known[uri] = self.addressed(self._resolve(reference))
            except (LookupError, ValueError) as error:
                official = reference[reference.find(_OFFICIAL) :]
                if not official.startswith(_OFFICIAL):
                    problem = f"the reference {reference} is not resolved: {error}"
                    raise LookupError(_MISSING + problem) from None
                self._known[uri] = {"$ref": official}
        return self._known[uri]

    def addressed(self, schema: Schema) -> Any:
        """A copy of ``schema`` whose references are full addresses."""
        return self._addressed(node(schema, SCHEMA))

    def _addressed(self, here: Node) -> Any:
        written = here.copy(self._addressed)
        if not here.is_schema:
            return written
        if here.reference is not None:
            written["$ref"] = _ADDRESS + quote(here.reference, safe="")
        return {key: value for key, value in written.items() if key not in _IDENTITY}

    def _conflict(self, addressed: Any) -> str:
        """The deepest place where no value satisfies a schema, and the keywords that conflict."""
        reasons = canonical.find_unsatisfiable(
            addressed,
            draft=jsonschema_rs.Draft202012,
            validate_formats=True,
            retriever=self.retrieve,
        )
        literal = canonical.UnsatisfiableReason.Literal
        conflicts = [one for one, why in reasons.items() if not isinstance(why, literal)]
        pointer = max(conflicts, key=len, default="")
        reason: Any = reasons.get(pointer)
        causes = getattr(reason, "causes", [getattr(reason, "cause", None)])
        words = ", ".join(word for cause in causes if cause for word in cause.keywords)
        return f"#{pointer}: its keywords exclude each other{words and f' ({words})'}"


_sources = lru_cache(maxsize=16)(_Sources)
_MOST_FORMS: Final = 256
_MISSING: Final = "reference: "
_OFFICIAL: Final = "https://json-schema.org/draft/"
_IDENTITY: Final = frozenset(
    {"$id", "$anchor", "$dynamicAnchor", "$schema", "$defs", "definitions"}
)


def _canonical(schema: Any, retriever: Callable[[str], Any] | None = None) -> CanonicalSchema:
    return jsonschema_rs.canonicalize(
        schema, draft=jsonschema_rs.Draft202012, validate_formats=True, retriever=retriever
    )


@cache
def _of_any_value() -> CanonicalSchema:
    return _canonical({})


@cache
def _of_type_alone(name: str) -> CanonicalSchema:
    return _canonical({"type": name})


@lru_cache(maxsize=1024)
def _checker(form: CanonicalSchema) -> Callable[[Any], bool]:
    schema: Any = form.to_json_schema()
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True).is_valid


def _accepts(form: CanonicalSchema, value: Any) -> bool:
    """Whether ``form`` allows the value, as far as that is seen without what it contains."""
    return form.kind not in _LEAVES or _checker(form)(value)


_LEAVES: Final = (
    *(CanonicalKind.STRING, CanonicalKind.INTEGER, CanonicalKind.NUMBER, CanonicalKind.MULTI_TYPE),
    *(CanonicalKind.CONST, CanonicalKind.ENUM, CanonicalKind.TRUE, CanonicalKind.FALSE),
)


@dataclass(frozen=True)
class _Place:
    """Where the run is: the schemas as written, and the references that it is inside of."""

    written: tuple[Schema, ...] = ()
    pointer: str = "#"
    name: str = ""
    depth: int = 0
    active: frozenset[str] = frozenset()
    vary: bool = False

    def below(self, written: Sequence[Schema], step: str, name: str = "") -> _Place:
        pointer = f"{self.pointer}/{step}"
        return replace(
            self,
            written=tuple(written),
            pointer=pointer,
            name=name or self.name,
            depth=self.depth + 1,
        )

    def fail(self, reason: str) -> _DeadEndError:
        return _DeadEndError(self.pointer, reason)


@dataclass
class _Run:
    """One attempt: its random source, its style and the steps it may still take."""

    rng: Random
    style: _Style
    resolve: Resolve
    left: int = _STEPS_OF_ATTEMPT

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def build(self, form: CanonicalSchema, place: _Place) -> Any:
        """A value for ``form``. Raises _DeadEndError when no choice leads to one."""
        self.left -= 1
        if self.left < 0:
            raise _ExhaustedError(place.pointer, "it branches too much to find a value")
        if place.depth > _DEEPEST:
            raise place.fail(f"it requires a value nested more than {_DEEPEST} levels deep")
        if self.chance(self.style.annotated):
            given = [one for one in self._annotated(place.written, 0) if _accepts(form, one)]
            if given:
                return copy.deepcopy(self.rng.choice(given) if place.vary else given[0])
        view = form.view()
        if type(view) in _COMPOUND:
            for branch, narrowed in self.chosen(form, place):
                try:
                    return self.build(narrowed, replace(place, written=(branch,)))
                except _ExhaustedError:
                    raise
                except _DeadEndError:
                    continue
        return _BUILDERS[type(view)](self, form, view, place)

    def chosen(
        self, form: CanonicalSchema, place: _Place
    ) -> Iterator[tuple[Schema, CanonicalSchema]]:
        """The alternatives in the order in which they are written, with the form of each."""
        schema = next((one for one in self.applicable(place.written, ()) if _choices(one)), None)
        branches = list(_choices(schema)) if schema is not None else []
        if place.vary or self.style.vary:
            self.rng.shuffle(branches)
        for branch in branches:
            try:
                narrowed = form.intersect(_sources(self.resolve).canonical(branch))
            except ValueError:  # nothing satisfies it, or the result is not supported
                continue
            if not self.recurs(narrowed, place):
                beside = {key: one for key, one in (schema or {}).items() if key not in _CHOICES}
                yield {"allOf": [branch, beside]}, narrowed

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
            return self.resolve(reference)
        except (LookupError, ValueError):  # the canonical form has reported it
            return True

    def applicable(
        self, written: Sequence[Schema], keys: Sequence[str] = ("allOf", "anyOf", "oneOf")
    ) -> list[Mapping[str, Any]]:
        """Every schema as written that may be about the same value, the closest first."""
        found: list[Mapping[str, Any]] = []
        waiting = list(written)
        while waiting and len(found) < _MOST_SPARE:
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

    def first_of(self, forms: Sequence[CanonicalSchema], place: _Place) -> Any:
        """A value for the first of ``forms`` that has one; those that lead back come last."""
        order = list(forms)
        if place.vary or self.style.vary:
            self.rng.shuffle(order)
        else:
            order.sort(key=_rank)
        failure = place.fail("its keywords exclude each other")
        for form in sorted(order, key=lambda one: self.recurs(one, place)):
            try:
                return self.build(form, place)
            except _ExhaustedError:
                raise
            except _DeadEndError as error:
                failure = error
        raise failure

    def recurs(self, form: CanonicalSchema, place: _Place) -> bool:
        """Whether ``form`` leads back to a reference that the run is inside of."""
        return not place.active.isdisjoint(_references(form))


_CHOICES: Final = ("anyOf", "oneOf")
_COMPOUND: Final = (
    *(canonical.AnyOfView, canonical.OneOfView, canonical.AllOfView, canonical.ObjectView),
)


def _choices(schema: Mapping[str, Any]) -> Sequence[Schema]:
    lists = [schema[key] for key in _CHOICES if isinstance(schema.get(key), list)]
    return lists[0] if lists else []


_HARMLESS: Final = _IDENTITY | frozenset(
    {"examples", "example", "default", "title", "description", "summary", "deprecated"}
    | {"readOnly", "$comment"}
)


def _rank(form: CanonicalSchema) -> int:
    """Alternatives that say more about their value come first, null last."""
    view = form.view()
    if isinstance(view, canonical.MultiTypeView):
        return 2 + (view.types == ["null"])
    return int(isinstance(view, canonical.ConstView) and view.value is None) * 3


@lru_cache(maxsize=4096)
def _references(form: CanonicalSchema) -> frozenset[str]:
    """The references that a value of ``form`` cannot do without, but for those behind them."""
    match form.view():
        case canonical.ReferenceView(uri=uri):
            return frozenset({uri})
        case canonical.AnyOfView(branches=parts) | canonical.OneOfView(branches=parts):
            inner = parts
        case canonical.AllOfView(branches=parts):
            inner = parts
        case canonical.TypedGroupView(body=body):
            inner = [body]
        case canonical.ObjectView() as view:
            inner = [form for name, form in view.properties.items() if name in view.required]
        case canonical.ArrayView() as view:
            inner = [_item_form(view, index) for index in range(min(view.min_items or 0, _FEW))]
        case _:
            inner = []
    return frozenset[str]().union(*map(_references, inner))


def _anything(run: _Run, _form: CanonicalSchema, _view: Any, place: _Place) -> Any:
    return _of_type(run, "string", place)


def _nothing(_run: _Run, _form: CanonicalSchema, _view: Any, place: _Place) -> Any:
    raise place.fail("its keywords exclude each other")


def _of_types(run: _Run, _form: CanonicalSchema, view: Any, place: _Place) -> Any:
    types = [one for one in _TYPES if one in view.types]
    if "number" in types and "integer" not in types and not place.vary:
        types.insert(types.index("number"), "integer")
    return _of_type(run, run.rng.choice(types) if place.vary else types[0], place)


def _of_type(run: _Run, name: str, place: _Place) -> Any:
    """Any value of a type."""
    if name == "null":
        return None
    if name == "boolean":
        return run.chance(0.5) if place.vary else True
    return _BY_TYPE[name](run, _of_type_alone(name), _Unconstrained(), place)


@dataclass(frozen=True)
class _Unconstrained:
    """The view of a type without any constraint, which the library does not have."""

    min_length: int | None = None
    max_length: int | None = None
    patterns: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    multiple_of: tuple[int, ...] = ()
    excludes_integers: bool = False
    min_items: int | None = None
    max_items: int | None = None
    distinctness: canonical.Distinctness = canonical.Distinctness.UNCONSTRAINED
    prefix_items: tuple[CanonicalSchema, ...] = ()
    items: CanonicalSchema | None = None
    contains: tuple[canonical.ContainsView, ...] = ()
    min_properties: int | None = None
    max_properties: int | None = None
    required: tuple[str, ...] = ()
    property_names: CanonicalSchema | None = None
    properties: Mapping[str, CanonicalSchema] = field(default_factory=dict)
    pattern_properties: Mapping[str, CanonicalSchema] = field(default_factory=dict)
    additional_properties: CanonicalSchema | None = None
    violations: tuple[canonical.NameFailsView, ...] = ()


def _group(run: _Run, _form: CanonicalSchema, view: Any, place: _Place) -> Any:
    return run.build(view.body.intersect(_of_type_alone(view.type_name)), place)


def _constant(run: _Run, _form: CanonicalSchema, view: Any, _place: _Place) -> Any:
    values = view.values if isinstance(view, canonical.EnumView) else [view.value]
    return _plain(run.rng.choice(values))


def _plain(value: Any) -> Any:
    """What JSON has: a Decimal as a float."""
    return json.loads(json.dumps(value, default=float))


def _one_of(run: _Run, _form: CanonicalSchema, view: Any, place: _Place) -> Any:
    return run.first_of(_exclusive(view.branches), place)


def _exclusive(branches: Sequence[CanonicalSchema]) -> list[CanonicalSchema]:
    """Each branch without what the others allow, so far as the canonical form supports that."""
    found = []
    for index, branch in enumerate(branches):
        for other in [*branches[:index], *branches[index + 1 :]]:
            branch = _without(branch, other)  # noqa: PLW2901 - less with every other branch
        found.append(branch)
    return found


def _any_of(run: _Run, _form: CanonicalSchema, view: Any, place: _Place) -> Any:
    return run.first_of(view.branches, place)


def _all_of(run: _Run, form: CanonicalSchema, view: Any, place: _Place) -> Any:
    """A conjunction that the canonical form leaves to references: each is followed."""
    together, uris, choices = _of_any_value(), set[str](), [_of_any_value()]
    for branch in view.branches:
        found = branch
        if isinstance(one_of := branch.view(), canonical.OneOfView):
            choices = _exclusive(one_of.branches)
            continue
        while isinstance(view := found.view(), canonical.ReferenceView) and view.uri not in uris:
            uris.add(view.uri)
            found = found.definition(view.uri) or found
        together = together.intersect(found)
    if together == form or together.kind == CanonicalKind.ALL_OF:
        view = together.view()
        return run.first_of(view.branches[:1], place)
    forms = [together.intersect(choice) for choice in choices]
    return run.first_of(forms, replace(place, active=place.active | uris))


def _reference(run: _Run, form: CanonicalSchema, view: Any, place: _Place) -> Any:
    target = form.definition(view.uri)
    if target is None or (target == form):
        raise place.fail("a reference leads back to itself")
    return run.build(target, replace(place, active=place.active | {view.uri}))


def _not(run: _Run, _form: CanonicalSchema, _view: Any, place: _Place) -> Any:
    """Whether a value is none of the excluded ones is left to the validator."""
    return _of_type(run, run.rng.choice(_TYPES), place)


def _raw(run: _Run, _form: CanonicalSchema, view: Any, place: _Place) -> Any:
    """What the canonical form does not support is built without, and left to the validator."""
    retrieve = _sources(run.resolve).retrieve
    supported = _canonical(_supported(view.schema), lambda uri: _supported(retrieve(uri)))
    if supported.kind == CanonicalKind.RAW:
        raise place.fail("it combines keywords for which no value can be made")
    return run.build(supported, place)


def _supported(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_supported(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    rest = {key: value for key, value in schema.items() if key not in _UNSUPPORTED}
    return {key: _supported(value) for key, value in rest.items()}


_UNSUPPORTED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems", "not"})


def _string(run: _Run, form: CanonicalSchema, view: Any, place: _Place) -> str:
    least = view.min_length or 0
    if least > _LONGEST:
        raise place.fail(f"it needs a text of more than {_LONGEST} characters")
    written = run.applicable(place.written)
    title = next((one["title"] for one in written if isinstance(one.get("title"), str)), "")
    encodings = [str(one["contentEncoding"]) for one in written if "contentEncoding" in one]
    wanted = strings.Wanted(
        words=title or _words(place.name) or "text",
        min_length=least,
        max_length=view.max_length,
        formats=[*view.formats, *encodings],
        patterns=view.patterns,
        vary=place.vary,
    )
    try:
        for text in strings.candidates(wanted, run.rng):
            if _accepts(form, text):
                return text
    except strings.PatternError as error:
        raise place.fail(str(error)) from None
    raise place.fail(f"no text was found for {_described(view)}")


def _described(view: Any) -> str:
    facets = {
        "pattern": view.patterns,
        "format": view.formats,
        "minLength": view.min_length,
        "maxLength": view.max_length,
    }
    return ", ".join(f"{name} {value}" for name, value in facets.items() if value)


def _words(name: str) -> str:
    """``debtorName`` and ``debtor_name`` as people write them: ``Debtor name``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-\s]+", " ", name).strip().capitalize()


def _number(run: _Run, form: CanonicalSchema, view: Any, place: _Place) -> int | float:
    """A multiple of the roundest step of which there is one between the bounds."""
    for step in _steps(
        view, whole=form.kind == CanonicalKind.INTEGER or form == _of_type_alone("integer")
    ):
        low, high = _multiples(view, step)
        for _ in range(min(_RETRIES, high - low + 1)):
            value = step * run.rng.randint(low, high)
            plain = int(value) if value.denominator == 1 else float(value)
            if _accepts(form, plain):
                return plain
    raise place.fail("no number was found between its bounds")


def _steps(view: Any, whole: bool) -> Iterator[Fraction]:
    multiples = [Fraction(str(one)) for one in view.multiple_of]

    if multiples:
        scale = lcm(*(one.denominator for one in multiples))
        step = Fraction(lcm(*(int(one * scale) for one in multiples)), scale)
        yield step * step.denominator if whole else step
    elif whole:
        yield Fraction(1)
    else:
        first = int(view.excludes_integers)
        yield from (Fraction(1, 10**digits) for digits in range(first, 16))


def _multiples(view: Any, step: Fraction) -> tuple[int, int]:
    """The least and greatest n for which n * step is within the bounds, at most 100 if open."""
    lows, highs = [], []
    if view.minimum is not None:
        bound = Fraction(str(view.minimum)) / step
        lows = [floor(bound) + 1 if getattr(view, "exclusive_minimum", False) else ceil(bound)]
    if view.maximum is not None:
        bound = Fraction(str(view.maximum)) / step
        highs = [ceil(bound) - 1 if getattr(view, "exclusive_maximum", False) else floor(bound)]
    if lows:
        return lows[0], min(highs, default=lows[0] + 99)
    high = min(highs, default=100)
    return min(1 if high > 0 else high - 99, high), high


def _array(run: _Run, _form: CanonicalSchema, view: Any, place: _Place) -> list[Any]:
    least, most = view.min_items or 0, _MOST_ITEMS if view.max_items is None else view.max_items
    if least > min(most, _MOST_ITEMS):
        raise place.fail(f"it needs {least} items")
    count = max(len(view.prefix_items), 1)
    while count > least and not _is_wanted(run, _item_form(view, count - 1), place):
        count -= 1
    plan = [_item_form(view, index) for index in range(max(least, min(count, most)))]
    taken = 0
    for needed in view.contains:
        if place.vary and run.chance(0.3):
            taken = 0  # one item may match several of them
        taken = _place_contained(run, plan, needed, view, range(taken, most))
    items: list[Any] = []
    is_set = view.distinctness == canonical.Distinctness.ALL_DISTINCT
    seen: set[str] | None = set() if is_set else None
    written = [one["items"] for one in run.applicable(place.written) if "items" in one]
    for index, wanted in enumerate(plan):
        below = place.below(written, "items")
        vary = place.vary or index > len(view.prefix_items)
        items.append(_item(run, wanted, replace(below, vary=vary), seen))
    if view.distinctness == canonical.Distinctness.SOME_REPEATED:
        items = [*items[:1], *items] if items else [None, None]
    return items


def _item_form(view: Any, index: int) -> CanonicalSchema:
    if index < len(view.prefix_items):
        prefix: Sequence[CanonicalSchema] = view.prefix_items
        return prefix[index]
    items: CanonicalSchema | None = view.items
    return _of_any_value() if items is None else items


def _is_wanted(run: _Run, form: CanonicalSchema, place: _Place) -> bool:
    shallow = place.depth < _RICH_DEPTH and not run.recurs(form, place)
    return form.kind != CanonicalKind.FALSE and shallow and run.chance(run.style.optional)


def _place_contained(
    run: _Run, plan: list[CanonicalSchema], needed: Any, view: Any, room: range
) -> int:
    """Makes ``minContains`` items match, the others not if there is a maximum; where it ended."""
    count = 1 if needed.min_contains is None else needed.min_contains
    start = max(room.start, min(len(view.prefix_items), room.stop - count))
    if run.style.vary:
        start = run.rng.randint(room.start, start)
    end = min(start + count, room.stop)
    while len(plan) < end:
        plan.append(_item_form(view, len(plan)))
    for index, form in enumerate(plan):
        if start <= index < end:
            plan[index] = form.intersect(needed.schema)
        elif needed.max_contains is not None:
            plan[index] = _without(form, needed.schema)
    return end


def _without(form: CanonicalSchema, excluded: CanonicalSchema) -> CanonicalSchema:
    try:
        return form.subtract(excluded)
    except canonical.CanonicalizationError:  # left to the validator
        return form


def _item(run: _Run, form: CanonicalSchema, place: _Place, seen: set[str] | None) -> Any:
    """One item; it is none of ``seen``, to which it is added, where items have to differ."""
    for attempt in range(_RETRIES):
        value = run.build(form, replace(place, vary=place.vary or attempt > 0))
        identity = jsonschema_rs.canonical.json.to_string(value)
        if seen is None or identity not in seen:
            if seen is not None:
                seen.add(identity)
            return value
    raise place.fail("no further item was found that differs from the others")


def _object(run: _Run, _form: CanonicalSchema, view: Any, place: _Place) -> dict[str, Any]:
    builder = _ObjectBuilder(run, view, place, run.applicable(place.written))
    for name in builder.view.required:
        builder.add(name)
    for name in builder.optional_names():
        builder.try_to_add(name)
    for violation in builder.view.violations:
        builder.violate(violation)
    least = builder.view.min_properties or 0
    for name in islice(builder.spare_names(), least + _MOST_SPARE):
        if len(builder.value) >= least:
            break
        builder.try_to_add(name)
    if len(builder.value) < least:
        raise place.fail(f"no {least} members were found")
    return builder.in_order()


class _ObjectBuilder:
    """The members of one object, added one by one."""

    def __init__(
        self, run: _Run, view: Any, place: _Place, written: list[Mapping[str, Any]]
    ) -> None:
        """``written`` are the schemas that may be about the object."""
        self.run, self.view, self.place, self.written = run, view, place, written
        self.value: dict[str, Any] = {}

    def form(self, name: str) -> CanonicalSchema:
        """What the value of the member ``name`` has to satisfy."""
        found = [self.view.properties[name]] if name in self.view.properties else []
        for pattern, form in self.view.pattern_properties.items():
            if _matches(pattern, name):
                found.append(form)
        if not found and self.view.additional_properties is not None:
            found = [self.view.additional_properties]
        together = _of_any_value()
        for form in found:
            together = together.intersect(form) if together.kind != CanonicalKind.TRUE else form
        return together

    def add(self, name: str, form: CanonicalSchema | None = None) -> None:
        """Add the member. Raises _DeadEndError."""
        escaped = name.replace("~", "~0").replace("/", "~1")
        written = [
            one["properties"][name]
            for one in self.written
            if isinstance(one.get("properties"), Mapping) and name in one["properties"]
        ]
        below = self.place.below(written, f"properties/{escaped}", name)
        self.value[name] = self.run.build(self.form(name) if form is None else form, below)

    def try_to_add(self, name: str) -> None:
        """Add the member, unless it is there, not allowed, or cannot be had."""
        most = self.view.max_properties
        names = self.view.property_names
        if name in self.value or (most is not None and len(self.value) >= most):
            return
        if names is not None and not _checker(names)(name):
            return
        try:
            self.add(name)
        except _ExhaustedError:
            raise
        except _DeadEndError:
            return

    def declared(self) -> list[str]:
        """The names of declared members, in the order in which they are written."""
        known = _declared(self.written)
        sure = _declared(self.run.applicable(self.place.written, ("allOf",)))
        names = self.view.property_names
        enumerated = names.view() if names is not None else None
        listed = enumerated.values if isinstance(enumerated, canonical.EnumView) else []
        return [
            name
            for name in dict.fromkeys([*known, *self.view.properties, *listed])
            if name in {*sure, *self.view.properties, *listed}
            and self.form(name).kind != CanonicalKind.FALSE
        ]

    def optional_names(self) -> list[str]:
        """Those of the declared members that this attempt adds."""
        if self.place.depth >= _RICH_DEPTH:
            return []
        names = [
            name
            for name in self.declared()
            if name not in self.value and _is_wanted(self.run, self.form(name), self.place)
        ]
        return names[:_FEW] if self.run.style.few else names

    def spare_names(self) -> Iterator[str]:
        """Names of further members, to reach minProperties."""
        yield from self.declared()
        for pattern in self.view.pattern_properties:
            wanted = strings.Wanted(words="member", patterns=[pattern], vary=True)
            yield from strings.candidates(wanted, self.run.rng)
        if self.view.property_names is not None:
            names = self.view.property_names.intersect(_of_type_alone("string"))
            place = replace(self.place, written=(), vary=True)
            for _ in range(_RETRIES):
                yield self.run.build(names, place.below((), "propertyNames"))
        yield from (f"member{number}" for number in range(1, _MOST_ITEMS))

    def violate(self, violation: Any) -> None:
        """Add a member that breaks what a negated schema requires of members."""
        form = None
        if isinstance(violation, canonical.NameFailsView):
            names = _of_type_alone("string").subtract(violation.schema)
            name = self.run.build(names, self.place.below((), "propertyNames"))
        elif isinstance(violation, canonical.PatternValueFailsView):
            wanted = strings.Wanted(words="member", patterns=[violation.pattern])
            name = next(strings.candidates(wanted, self.run.rng))
            form = self.form(name).subtract(violation.schema)
        else:
            name = next(one for one in self.undeclared(violation))
            form = self.form(name).subtract(violation.additional)
        self.add(name, form)

    def undeclared(self, violation: canonical.UndeclaredValueFailsView) -> Iterator[str]:
        """Names that a negated schema does not declare."""
        for name in (f"member{number}" for number in range(_MOST_ITEMS)):
            if name not in violation.names and not any(
                _matches(one, name) for one in violation.patterns
            ):
                yield name

    def in_order(self) -> dict[str, Any]:
        """The members in the order of the schema, those that it does not declare last."""
        order = [*self.declared(), *self.value]
        return {name: self.value[name] for name in order if name in self.value}


def _declared(written: Sequence[Mapping[str, Any]]) -> list[str]:
    found = [one.get("properties") for one in written]
    return [name for one in found if isinstance(one, Mapping) for name in one]


def _matches(pattern: str, name: str) -> bool:
    return _checker(_canonical({"type": "string", "pattern": pattern}))(name)


_BY_TYPE: Final[Mapping[str, Callable[[_Run, CanonicalSchema, Any, _Place], Any]]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "number": _number,
    "integer": _number,
}
_BUILDERS: Final[Mapping[type, Callable[[_Run, CanonicalSchema, Any, _Place], Any]]] = {
    canonical.TrueView: _anything,
    canonical.FalseView: _nothing,
    canonical.MultiTypeView: _of_types,
    canonical.TypedGroupView: _group,
    canonical.StringView: _string,
    canonical.NumberView: _number,
    canonical.IntegerView: _number,
    canonical.ArrayView: _array,
    canonical.ObjectView: _object,
    canonical.ConstView: _constant,
    canonical.EnumView: _constant,
    canonical.AnyOfView: _any_of,
    canonical.OneOfView: _one_of,
    canonical.AllOfView: _all_of,
    canonical.ReferenceView: _reference,
    canonical.NotView: _not,
    canonical.RawView: _raw,
}
