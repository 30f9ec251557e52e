"""Objects for a canonical form, member by member."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any, Final

from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import CanonicalKind

from invoice_sandbox.openapi.schema import strings
from invoice_sandbox.openapi.schema.canonical import any_value, checker, matches, type_alone
from invoice_sandbox.openapi.schema.values import (
    MAX_ITEMS,
    RETRIES,
    RICH_DEPTH,
    Attempt,
    DeadEndError,
    Place,
    is_wanted,
)

_MAX_SPARE: Final = 60


def object_value(run: Attempt, _form: CanonicalSchema, view: Any, place: Place) -> dict[str, Any]:
    builder = _ObjectBuilder(run, view, place, run.applicable(place.written))
    for name in builder.view.required:
        builder.add(name)
    for name in builder.optional_names():
        builder.try_to_add(name)
    for violation in builder.view.violations:
        builder.violate(violation)
    least = builder.view.min_properties or 0
    for name in islice(builder.spare_names(), least + _MAX_SPARE):
        if len(builder.value) >= least:
            break
        builder.try_to_add(name)
    if len(builder.value) < least:
        raise place.fail(f"no {least} members were found")
    return builder.in_order()


class _ObjectBuilder:
    """The members of one object, added one by one."""

    def __init__(
        self, run: Attempt, view: Any, place: Place, written: list[Mapping[str, Any]]
    ) -> None:
        """``written`` are the schemas that may be about the object."""
        self.run, self.view, self.place, self.written = run, view, place, written
        self.properties: Any = view.properties  # made anew at each access
        self.value: dict[str, Any] = {}

    def form(self, name: str) -> CanonicalSchema:
        """What the value of the member ``name`` has to satisfy."""
        found = [self.properties[name]] if name in self.properties else []
        for pattern, form in self.view.pattern_properties.items():
            if matches(pattern, name):
                found.append(form)
        if not found and self.view.additional_properties is not None:
            found = [self.view.additional_properties]
        together = any_value()
        for form in found:
            together = together.intersect(form) if together.kind != CanonicalKind.TRUE else form
        return together

    def add(self, name: str, form: CanonicalSchema | None = None) -> None:
        """Add the member. Raises DeadEndError."""
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
        if names is not None and not checker(names)(name):
            return
        with suppress(DeadEndError):
            self.add(name)

    @cached_property
    def declared(self) -> list[str]:
        """The names of declared members, in the order in which they are written."""
        names = self.view.property_names
        enumerated = names.view() if names is not None else None
        listed = enumerated.values if isinstance(enumerated, canonical.EnumView) else []
        sure = _declared(self.run.applicable(self.place.written, ("allOf",)))
        own = {*sure, *self.properties, *listed}
        known = [*_declared(self.written), *self.properties, *listed]
        return [name for name in dict.fromkeys(known) if name in own]

    def optional_names(self) -> list[str]:
        """Those of the declared members that this attempt adds."""
        if self.place.depth >= RICH_DEPTH:
            return []
        names = [
            name
            for name in self.declared
            if name not in self.value and is_wanted(self.run, self.form(name), self.place)
        ]
        return names[: self.run.style.most]

    def spare_names(self) -> Iterator[str]:
        """Names of further members, to reach minProperties."""
        yield from self.declared
        for pattern in self.view.pattern_properties:
            wanted = strings.Wanted(words="member", patterns=[pattern], vary=True)
            yield from strings.candidates(wanted, self.run.rng)
        if self.view.property_names is not None:
            names = self.view.property_names.intersect(type_alone("string"))
            place = replace(self.place, written=(), vary=True)
            for _ in range(RETRIES):
                yield self.run.build(names, place.below((), "propertyNames"))
        yield from (f"member{number}" for number in range(1, MAX_ITEMS))

    def violate(self, violation: Any) -> None:
        """Add a member that breaks what a negated schema requires of members."""
        form = None
        if isinstance(violation, canonical.NameFailsView):
            names = type_alone("string").subtract(violation.schema)
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
        for name in (f"member{number}" for number in range(MAX_ITEMS)):
            if name not in violation.names and not any(
                matches(one, name) for one in violation.patterns
            ):
                yield name

    def in_order(self) -> dict[str, Any]:
        """The members in the order of the schema, those that it does not declare last."""
        order = [*self.declared, *self.value]
        return {name: self.value[name] for name in order if name in self.value}


def _declared(written: Sequence[Mapping[str, Any]]) -> list[str]:
    found = [one.get("properties") for one in written]
    return [name for one in found if isinstance(one, Mapping) for name in one]
