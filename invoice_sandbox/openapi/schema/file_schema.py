"""Validates YAML files that people write against a JSON Schema: one line per problem."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from jsonschema_rs import Draft202012Validator as Draft202012

from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.openapi.load.documents import place_of
from invoice_sandbox.openapi.load.text import DocumentError

Pointer = tuple[str | int, ...]


# Errors are jsonschema's ValidationError, whose members have no useful types.


@dataclass(frozen=True)
class FileProblem:
    """A place that its schema does not allow, what is wrong there, and perhaps what was meant."""

    pointer: Pointer
    text: str
    advice: str = ""

    def error(self, file: Path) -> DocumentError:
        """The error that has the place in ``file``."""
        return DocumentError(place_of(file, self.pointer), self.text, self.advice)


def check_form(document: Any, file: Path, schema_file: Path) -> None:
    """Raise DocumentError for the first thing in ``file`` that the schema does not allow."""
    for problem in schema_problems(document, schema_file):
        raise problem.error(file)


def schema_problems(document: Any, schema_file: Path) -> Iterator[FileProblem]:
    """Everything in ``document`` that the schema does not allow, in the order of the document.

    Raises DocumentError when the schema itself cannot be read.
    """
    if _is_fine(document, schema_file):
        return
    from jsonschema import Draft202012Validator  # 60 ms, which a file that is fine need not cost

    schema = json.loads(schema_file.read_text(encoding="utf-8"))
    checker = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for error in sorted(checker.iter_errors(document), key=lambda one: _order(one.absolute_path)):
        yield from _WORDING.get(str(error.validator), _other)(error)


def _is_fine(document: Any, schema_file: Path) -> bool:
    try:
        is_valid = _quick_checker(schema_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        reason = str(problem).splitlines()[0]
        raise DocumentError(str(schema_file), f"not a JSON Schema: {reason}") from None
    try:
        return is_valid(document)
    except ValueError:  # keys that are no texts: the other validator reports them
        return False


@lru_cache(maxsize=32)  # one schema for all scenarios of a project
def _quick_checker(schema: str) -> Callable[[Any], bool]:
    checker: Callable[[Any], bool] = Draft202012(json.loads(schema), validate_formats=True).is_valid
    return checker


def _order(path: Iterable[str | int]) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in path]


def _pointer(error: Any) -> Pointer:
    return tuple(error.absolute_path)


def _subject(error: Any) -> str:
    if not error.absolute_path:
        return "the file"
    *parents, last = error.absolute_path
    if isinstance(last, str):
        return f"'{last}'"
    named = next((one for one in reversed(parents) if isinstance(one, str)), None)
    return "an item" if named is None else f"an item of '{named}'"


def _unknown(error: Any) -> Iterator[FileProblem]:
    known = error.schema.get("properties", {})
    patterns = error.schema.get("patternProperties", {})
    for key in error.instance:
        if key not in known and not any(re.search(one, key) for one in patterns):
            yield FileProblem(
                (*_pointer(error), key), f"unknown key '{key}'", suggestion(key, known)
            )


def _missing(error: Any) -> Iterator[FileProblem]:
    missing = next(key for key in error.validator_value if f"'{key}'" in error.message)
    yield FileProblem(_pointer(error), f"{_subject(error)} has no '{missing}'")


def _not_among(error: Any) -> Iterator[FileProblem]:
    text = f"{_subject(error)} cannot be '{error.instance}'"
    yield FileProblem(_pointer(error), text, suggestion(str(error.instance), error.validator_value))


def _wrong_type(error: Any) -> Iterator[FileProblem]:
    wanted = error.validator_value
    types = " or ".join(
        _TYPE_NAMES[type_] for type_ in ([wanted] if isinstance(wanted, str) else wanted)
    )
    yield FileProblem(_pointer(error), f"{_subject(error)} must be {types}")


def _wrong_word(error: Any) -> Iterator[FileProblem]:
    if "title" not in error.schema:
        yield from _other(error)
        return
    is_key = "propertyNames" in error.absolute_schema_path
    pointer = (*_pointer(error), error.instance) if is_key else _pointer(error)
    yield FileProblem(pointer, f"'{error.instance}' must be {error.schema['title']}")


def _empty(error: Any) -> Iterator[FileProblem]:
    yield FileProblem(_pointer(error), f"{_subject(error)} must not be empty")


def _repeated(error: Any) -> Iterator[FileProblem]:
    for index, item in enumerate(error.instance):
        if item in error.instance[:index]:
            text = f"duplicate '{item}' in {_subject(error)}"
            yield FileProblem((*_pointer(error), index), text)


def _other(error: Any) -> Iterator[FileProblem]:
    wanted = json.dumps(error.validator_value)
    text = f"{_subject(error)} does not satisfy {error.validator}: {wanted[:60]}"
    yield FileProblem(_pointer(error), text)


_TYPE_NAMES: Final[Mapping[str, str]] = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
}

_WORDING: Final[Mapping[str, Callable[[Any], Iterator[FileProblem]]]] = {
    "additionalProperties": _unknown,
    "required": _missing,
    "enum": _not_among,
    "type": _wrong_type,
    "pattern": _wrong_word,
    "minItems": _empty,
    "uniqueItems": _repeated,
}
