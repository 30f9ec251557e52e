"""Validates files that people write (scenarios, fixtures, conventions, plans) with ``jsonschema``.

A schema may refer to names that only a project knows, such as its operations: a definition of that
name is replaced by an enumeration of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.openapi.load.documents import Places
from invoice_sandbox.openapi.load.text import DocumentError, in_order, reject_all

Pointer = tuple[str | int, ...]

_MAX_TEXT: Final = 400
_MAX_ADVICE: Final = 1200


@dataclass(frozen=True)
class FileProblem:
    """A place that its schema does not allow, what is wrong there, and perhaps what was meant."""

    pointer: Pointer
    text: str
    advice: str = ""


@dataclass(frozen=True, eq=False)
class FileSchema:
    """A JSON Schema 2020-12 of a type of file, compiled once."""

    file: str
    schema: Mapping[str, Any]

    @classmethod
    def read(cls, file: Path, names: Mapping[str, Collection[str]] | None = None) -> FileSchema:
        """Return the schema in ``file``, whose definitions of ``names`` enumerate these.

        Raises DocumentError when the schema itself cannot be read.
        """
        try:
            schema = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise DocumentError(str(file), f"not a JSON Schema: {reason}") from None
        for name, words in (names or {}).items():
            schema["$defs"][name]["enum"] = list(words)
        return cls(str(file), _inlined(schema, schema.get("$defs", {})))

    @cached_property
    def _validator(self) -> Any:
        from jsonschema import Draft202012Validator  # 60 ms, which not every command needs

        return Draft202012Validator(self.schema, format_checker=Draft202012Validator.FORMAT_CHECKER)

    def problems(self, document: Any, place: Pointer = ()) -> list[FileProblem]:
        """Return everything in ``document``, which is at ``place``, that the schema rejects.

        Raises DocumentError if the schema is not valid itself.
        """
        try:
            errors = list(self._validator.iter_errors(document))
        except Exception as error:  # an invalid schema fails in many ways
            raise self._invalid(error) from None
        problems = (
            problem
            for error in errors
            for problem in _WORDING.get(str(error.validator), _other)(error, _pointer(error, place))
        )
        return list(dict.fromkeys(problems))

    def _invalid(self, cause: Exception) -> DocumentError:
        from jsonschema import SchemaError

        try:
            self._validator.check_schema(self.schema)
        except SchemaError as error:
            cause = error
        reason = getattr(cause, "message", str(cause)).splitlines()[0]
        return DocumentError(self.file, f"not a JSON Schema: {reason}")


def _inlined(schema: Any, definitions: Mapping[str, Any], around: tuple[str, ...] = ()) -> Any:
    """Return the schema with definitions in place of references to them, which validates faster.

    A reference inside of its own definition stays, as does one with more than a description.
    """
    if isinstance(schema, list):
        return [_inlined(item, definitions, around) for item in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref")).removeprefix("#/$defs/")
    if name in definitions and name not in around and schema.keys() <= {"$ref", "description"}:
        return _inlined(definitions[name], definitions, (*around, name))
    return {key: _inlined(member, definitions, around) for key, member in schema.items()}


def located(file: Path, problems: Iterable[FileProblem]) -> list[DocumentError]:
    """Return the problems with their places in ``file``, in its order."""
    places = Places()
    return in_order(
        DocumentError(
            places.of(file, problem.pointer),
            _one_line(problem.text, _MAX_TEXT),
            _one_line(problem.advice, _MAX_ADVICE),
        )
        for problem in problems
    )


def reject_problems(file: Path, problems: Iterable[FileProblem]) -> None:
    """Raise DocumentError with all problems of ``file``, unless there are none."""
    reject_all(file, located(file, problems))


def _one_line(text: str, limit: int) -> str:
    """Return the text in one line, with control characters escaped."""
    shown = "".join(
        letter if letter.isprintable() else repr(letter)[1:-1] for letter in text[:limit]
    )
    return shown if len(text) <= limit else f"{shown}..."


# Errors are jsonschema's ValidationError, whose members have no useful types.


def _pointer(error: Any, place: Pointer) -> Pointer:
    is_key = "propertyNames" in list(error.absolute_schema_path)[-3:-1]
    return (*place, *error.absolute_path, *([error.instance] if is_key else []))


def _subject(pointer: Pointer) -> str:
    """Return what is at ``pointer`` in words: ``'name'``, ``an item of 'steps'``."""
    if not pointer:
        return "the file"
    *parents, last = pointer
    if isinstance(last, str):
        return f"'{last}'"
    list_name = next((parent for parent in reversed(parents) if isinstance(parent, str)), None)
    return "an item" if list_name is None else f"an item of '{list_name}'"


def _unknown_key(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    known = error.schema.get("properties", {})
    patterns = error.schema.get("patternProperties", {})
    for key in error.instance:
        if key not in known and not any(re.search(pattern, key) for pattern in patterns):
            yield FileProblem((*pointer, key), f"unknown key '{key}'", suggestion(key, known))


def _missing_key(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    """Yield all missing keys, though there is an error for each."""
    properties = error.schema.get("properties", {})
    for key in error.validator_value:
        if key not in error.instance:
            declared = properties.get(key)
            title = declared.get("title") if isinstance(declared, dict) else None
            text = f"{_subject(pointer)} has no '{key}'"
            yield FileProblem(pointer, text, f"add {title}" if title else "")


def _needed_key(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    """Yield each key without the key that it depends on."""
    for key, needed in error.validator_value.items():
        for other in needed:
            if key in error.instance and other not in error.instance:
                yield FileProblem((*pointer, key), f"'{key}' needs '{other}'", "add it")


def _alternatives(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    """Report that an object has none of several keys, or more than one."""
    branches = error.validator_value
    if any(branch.keys() != {"required"} for branch in branches):
        yield from _other(error, pointer)
        return
    keys = [key for branch in branches for key in branch["required"]]
    count = "exactly one" if error.validator == "oneOf" else "one"
    yield FileProblem(pointer, f"{_subject(pointer)} must have {count} of {', '.join(keys)}")


def _unknown_name(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    word, known = error.instance, error.validator_value
    if "type" in error.schema and not isinstance(word, str):
        return  # which is reported for the type
    title = error.schema.get("title")
    text = f"there is no {title} '{word}'" if title else f"{_subject(pointer)} cannot be '{word}'"
    yield FileProblem(pointer, text, suggestion(str(word), known))


def _wrong_type(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    types = error.validator_value
    names = [_TYPE_NAMES[name] for name in ([types] if isinstance(types, str) else types)]
    yield FileProblem(pointer, f"{_subject(pointer)} must be {' or '.join(names)}")


def _wrong_text(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    if "title" not in error.schema:
        yield from _other(error, pointer)
        return
    yield FileProblem(pointer, f"'{error.instance}' must be {error.schema['title']}")


def _beyond(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    bound = "least" if error.validator == "minimum" else "most"
    text = f"{_subject(pointer)} must be at {bound} {error.validator_value}"
    yield FileProblem(pointer, text)


def _too_few(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    number = error.validator_value
    clause = "not be empty" if number == 1 else f"have at least {number} items"
    yield FileProblem(pointer, f"{_subject(pointer)} must {clause}")


def _repeated(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    for index, item in enumerate(error.instance):
        if item in error.instance[:index]:
            yield FileProblem((*pointer, index), f"duplicate '{item}' in {_subject(pointer)}")


def _excluded(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    title = error.schema.get("title", "it is excluded")
    yield FileProblem(pointer, f"{_subject(pointer)} is not allowed: {title}", "remove it")


def _other(error: Any, pointer: Pointer) -> Iterator[FileProblem]:
    expected = json.dumps(error.validator_value)
    text = f"{_subject(pointer)} does not satisfy {error.validator}: {expected[:60]}"
    yield FileProblem(pointer, text)


_TYPE_NAMES: Final[Mapping[str, str]] = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
}

_WORDING: Final[Mapping[str, Callable[[Any, Pointer], Iterator[FileProblem]]]] = {
    "additionalProperties": _unknown_key,
    "required": _missing_key,
    "dependentRequired": _needed_key,
    "anyOf": _alternatives,
    "oneOf": _alternatives,
    "enum": _unknown_name,
    "type": _wrong_type,
    "pattern": _wrong_text,
    "minimum": _beyond,
    "maximum": _beyond,
    "minItems": _too_few,
    "uniqueItems": _repeated,
    "not": _excluded,
}
