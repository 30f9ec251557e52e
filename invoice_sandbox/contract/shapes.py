"""Is a YAML file what its JSON Schema says? For the files that people write: one line a problem."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.contract.documents import DocumentError

Pointer = tuple[str | int, ...]


# Errors are jsonschema's ValidationError, whose members have no useful types.


@dataclass(frozen=True)
class ShapeProblem:
    """Where a file is not what its schema says, what is wrong there, and perhaps what was meant."""

    pointer: Pointer
    text: str
    advice: str = ""


def shape_problems(document: Any, schema_file: Path) -> Iterator[ShapeProblem]:
    """Everything in ``document`` that the schema refuses, in the order of the document.

    Raises DocumentError when the schema itself cannot be read.
    """
    from jsonschema import Draft202012Validator, SchemaError

    try:
        schema = json.loads(schema_file.read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
    except (OSError, ValueError, SchemaError) as problem:
        reason = str(problem).splitlines()[0]
        raise DocumentError(str(schema_file), f"not a JSON Schema: {reason}") from None
    checker = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    for error in sorted(checker.iter_errors(document), key=lambda one: _order(one.absolute_path)):
        yield from _WORDING.get(str(error.validator), _other)(error)


def _order(path: Iterable[str | int]) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in path]


def _pointer(error: Any) -> Pointer:
    return tuple(error.absolute_path)


def _name(error: Any) -> str:
    last = next(reversed(error.absolute_path), None)
    return f"'{last}'" if isinstance(last, str) else "this"


def _near(word: str, known: Iterable[Any]) -> str:
    words = [str(one) for one in known]
    close = get_close_matches(word, words, n=1)
    return f"did you mean {close[0]}?" if close else "known are " + ", ".join(words)


def _unknown(error: Any) -> Iterator[ShapeProblem]:
    known = error.schema.get("properties", {})
    for key in error.instance:
        if key not in known:
            yield ShapeProblem((*_pointer(error), key), f"unknown key '{key}'", _near(key, known))


def _missing(error: Any) -> Iterator[ShapeProblem]:
    missing = next(key for key in error.validator_value if f"'{key}'" in error.message)
    yield ShapeProblem(_pointer(error), f"'{missing}' is missing")


def _not_among(error: Any) -> Iterator[ShapeProblem]:
    text = f"{_name(error)} cannot be '{error.instance}'"
    yield ShapeProblem(_pointer(error), text, _near(str(error.instance), error.validator_value))


def _wrong_type(error: Any) -> Iterator[ShapeProblem]:
    wanted = error.validator_value
    kinds = " or ".join([wanted] if isinstance(wanted, str) else wanted)
    yield ShapeProblem(_pointer(error), f"{_name(error)} must be of type {kinds}")


def _other(error: Any) -> Iterator[ShapeProblem]:
    wanted = json.dumps(error.validator_value)
    text = f"{_name(error)} does not satisfy {error.validator}: {wanted[:60]}"
    yield ShapeProblem(_pointer(error), text)


_WORDING: Final[Mapping[str, Callable[[Any], Iterator[ShapeProblem]]]] = {
    "additionalProperties": _unknown,
    "required": _missing,
    "enum": _not_among,
    "type": _wrong_type,
}
