"""Problems of values, in words that do not repeat the value, because it may be a secret.

What is almost a known word, or a duration, is none, and is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import is_almost_duration, unsupported_reason
from invoice_sandbox.base.errors import MOST_LISTED, did_you_mean
from invoice_sandbox.openapi.load.documents import pointer_text


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a value.

    ``member`` names the place in the value as people write it (``items[0].amount``; empty for
    the value itself), ``text`` is a clause such as ``must be a number``, ``schema_path`` is the
    JSON Pointer of the keyword that was violated, and ``pointer`` that of the place in the value.
    ``typed`` is the value, if it may be repeated.
    """

    member: str
    text: str
    schema_path: str
    pointer: str = ""
    typed: str = ""

    @property
    def keyword(self) -> str:
        """The keyword that was violated."""
        return self.schema_path.rpartition("/")[2]

    @property
    def clause(self) -> str:
        """The text with the value, if it may be repeated: ``'verfy' is unknown; did you …``."""
        return f"'{self.typed}' {self.text}" if self.typed else self.text

    def label(self, whole: str) -> str:
        """The member, with the value if it may be repeated; ``whole`` names the value itself."""
        return f"{self.member or whole}" + (f" '{self.typed}'" if self.typed else "")

    @property
    def is_undeclared(self) -> bool:
        """True if there is a member that is not declared, and no other is allowed."""
        return self.text.startswith(_UNDECLARED)

    @property
    def undeclared(self) -> str | None:
        """The name of that member, or the beginning of a long one."""
        return self.text.removeprefix(_UNDECLARED) if self.is_undeclared else None

    @property
    def is_missing(self) -> bool:
        """True if the member is required and missing."""
        return self.text == _REQUIRED

    def sentence(self, whole: str) -> str:
        """``amount must be a number``; ``whole`` stands for the value itself."""
        return f"{self.label(whole)} {self.text}"


def problem_of(
    error: jsonschema_rs.ValidationError, pattern_examples: Mapping[str, str]
) -> Problem:
    """The problem of a failed validation; ``pattern_examples`` are texts that match, by pattern."""
    return next(problems_of(error, pattern_examples))


def problems_of(
    error: jsonschema_rs.ValidationError, pattern_examples: Mapping[str, str]
) -> Iterator[Problem]:
    """The problems of a failed validation: one, or those of the closest of several alternatives."""
    closest = _closest_alternative(error)
    if closest is not None:
        for inner in closest:
            yield from problems_of(inner, pattern_examples)
        return
    place = [*error.instance_path, *_missing(error)]
    text, typed = _wording(error, pattern_examples)
    yield Problem(
        member=_member(place),
        text=text,
        typed=typed,
        schema_path=_in_contract(error.schema_path),
        pointer=pointer_text(
            [short_name(step) if isinstance(step, str) else step for step in place]
        ),
    )


def is_missing(error: jsonschema_rs.ValidationError) -> bool:
    """True if a failed validation is about a missing member."""
    required = jsonschema_rs.ValidationErrorKind.Required
    return isinstance(error.kind, required) or bool(_needed(error))


def _closest_alternative(
    error: jsonschema_rs.ValidationError,
) -> Sequence[jsonschema_rs.ValidationError] | None:
    """Return the errors by the alternative of ``oneOf`` or ``anyOf`` that is closest to the value.

    That is one whose constants it has, such as a discriminator, and of
    whose members it lacks the fewest. None where all of them are far.
    """
    kinds = jsonschema_rs.ValidationErrorKind
    if not isinstance(error.kind, kinds.OneOfNotValid | kinds.AnyOf):
        return None
    if _exclusive(error.kind) or _needed(error):
        return None
    depth = len(error.instance_path)
    branches = [branch for branch in error.kind.context if branch]
    close = [branch for branch in branches if not any(_is_at_odds(each, depth) for each in branch)]
    if not close and len({branch[0].message for branch in branches}) == 1:
        return branches[0][:1]
    return min(close, key=_distance) if close else None


def _exclusive(kind: Any) -> list[str]:
    """The members of which a value has all, though each alternative of ``oneOf`` forbids another
    one of them and finds nothing else wrong."""
    names = []
    for branch in kind.context:
        match [error.kind for error in branch]:
            case [jsonschema_rs.ValidationErrorKind.Not(schema={"required": [str(name)]})]:
                names.append(name)
            case _:
                return []
    return names


def _needed(error: jsonschema_rs.ValidationError) -> list[str]:
    """The members of which a value has none, though each alternative requires another one of them
    and finds nothing else wrong."""
    names = []
    for branch in getattr(error.kind, "context", ()):
        if len(branch) != 1 or branch[0].instance_path != error.instance_path:
            return []
        names += _missing(branch[0]) or [""]
    return names if len(set(names)) > 1 and all(names) else []


def _distance(branch: Sequence[jsonschema_rs.ValidationError]) -> tuple[int, int]:
    return sum(len(_missing(error)) for error in branch), len(branch)


def _is_at_odds(error: jsonschema_rs.ValidationError, depth: int) -> bool:
    """True if the value has another type, or one of its members has another constant."""
    kinds = jsonschema_rs.ValidationErrorKind
    below = len(error.instance_path) - depth
    kind = error.kind
    is_constant = isinstance(kind, kinds.Constant | kinds.Enum)
    return (below == 0 and isinstance(kind, kinds.Type | kinds.FalseSchema)) or (
        below <= 1 and is_constant
    )


def _in_contract(steps: Sequence[str | int]) -> str:
    """The pointer within the contract; relative to the schema itself if it is no component."""
    names = ["components", "schemas", *steps[1:]] if steps and steps[0] == "$defs" else steps
    return pointer_text(list(names))


def _member(path: Iterable[str | int]) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{short_name(step)}" if text else short_name(step)
    return text


def short_name(name: str) -> str:
    """Return a name of a member for messages, cut."""
    return name if len(name) <= 60 else name[:57] + "..."


def _missing(error: jsonschema_rs.ValidationError) -> list[str]:
    kind = error.kind
    return [kind.property] if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required) else []


_REQUIRED: Final = "is required"
_UNKNOWN: Final = "is unknown"
_UNDECLARED: Final = "has a member that is not allowed: "
_TYPE_NAMES: Final = {
    "string": "a string",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "object": "an object",
    "array": "an array",
    "null": "null",
}
_FORMAT_NAMES: Final = {
    "date": "a date such as 2026-11-23",
    "date-time": "a date and time such as 2026-11-23T09:30:00Z",
}


def _wording(
    error: jsonschema_rs.ValidationError, pattern_examples: Mapping[str, str]
) -> tuple[str, str]:
    """Return what the keyword demands, and the value that failed it if it may be repeated."""
    kinds, value = jsonschema_rs.ValidationErrorKind, error.instance
    if isinstance(value, str):
        match error.kind:
            case kinds.Enum(options=options):
                return _among(options, value)
            case kinds.Pattern(pattern=pattern) if pattern in pattern_examples:
                text = f"must look like {pattern_examples[pattern]}"
                if not pattern.startswith("^P") or not is_almost_duration(value):
                    return text, ""
                return text + unsupported_reason(value), value
    needed = _needed(error)
    if needed:
        return f"must have {' or '.join(map(short_name, needed[:MOST_LISTED]))}", ""
    return _demand(error.kind), ""


def _demand(kind: Any) -> str:
    """Return what the keyword demands of any value."""
    kinds = jsonschema_rs.ValidationErrorKind
    match kind:
        case kinds.Required():
            return _REQUIRED
        case kinds.Type(types=types):
            return "must be " + " or ".join(_TYPE_NAMES.get(name, name) for name in types)
        case kinds.Format(format=name):
            return "must be " + _FORMAT_NAMES.get(name, f"a valid {name}")
        case kinds.Enum(options=options):
            return _listed(options)
        case kinds.Constant(expected_value=expected):
            return f"must be {_shown(expected)}"
        case (
            kinds.AdditionalProperties(unexpected=names)
            | kinds.UnevaluatedProperties(unexpected=names)
        ):
            return _UNDECLARED + short_name(str(names[0]))
        case kinds.FalseSchema() | kinds.Not(schema={}):
            return "is not allowed"
        case kinds.BacktrackLimitExceeded():
            return "is a text for which its pattern cannot be decided"
    return _limit(kind) or f"does not satisfy '{kind.name}'"


def _limit(kind: Any) -> str:
    kinds = jsonschema_rs.ValidationErrorKind
    if isinstance(kind, kinds.OneOfNotValid) and _exclusive(kind):
        return f"must have {' or '.join(reversed(_exclusive(kind)))}, not both"
    if isinstance(kind, kinds.OneOfMultipleValid):
        return "satisfies more than one alternative of 'oneOf'"
    if kind.name in _SIZES:
        bound, unit = _SIZES[kind.name]
        return f"must have at {bound} {kind.value} {unit}" + ("" if kind.value == 1 else "s")
    return f"{_LIMITS[kind.name]} {kind.value}" if kind.name in _LIMITS else ""


def _among(options: Sequence[Any], value: str) -> tuple[str, str]:
    advice = did_you_mean(value, map(str, options))
    if not advice:
        return _listed(options), ""
    start = _UNKNOWN if len(options) > MOST_LISTED else _listed(options)
    return f"{start}; {advice}", value


def _listed(options: Sequence[Any]) -> str:
    if len(options) > MOST_LISTED:
        return f"{_UNKNOWN}; the contract lists all {len(options)}"
    return "must be one of " + ", ".join(map(_shown, options))


def _shown(value: Any) -> str:
    """Return a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else jsonio.dumps(value).decode()


_LIMITS: Final = {
    "minimum": "must be at least",
    "maximum": "must be at most",
    "exclusiveMinimum": "must be greater than",
    "exclusiveMaximum": "must be less than",
    "multipleOf": "must be a multiple of",
    "pattern": "must match the pattern",
}
_SIZES: Final = {
    "minLength": ("least", "character"),
    "maxLength": ("most", "character"),
    "minItems": ("least", "item"),
    "maxItems": ("most", "item"),
    "minProperties": ("least", "member"),
    "maxProperties": ("most", "member"),
}
