"""YAML and JSON files as plain data, and the line and column of any place in them.

A file that is valid JSON is read as JSON, whatever its name.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Final

import orjson

from invoice_sandbox.openapi.load.text import (
    MAX_LEVELS,
    MAX_VALUES,
    DocumentError,
    alike,
    finite,
    line_and_column,
    place_of_step,
    steps_to,
)

MAX_FILE_BYTES: Final = 64 * 1024 * 1024
_CHUNK: Final = 1024 * 1024


def load_document(path: Path) -> Any:
    """The content of a YAML or JSON file.

    Raises DocumentError when the file is missing, not UTF-8 or UTF-16, not YAML, or repeats a key.
    """
    return document_of(str(path), read_text(path))


def document_of(name: str, text: str) -> Any:
    """The same for the ``text`` of the file ``name``."""
    return parse_text(text, name)


def readable_document(name: str, text: str) -> tuple[Any, list[tuple[tuple[str | int, ...], str]]]:
    """The same as far as JSON can represent it, with the faults of ``parse_yaml``."""
    try:
        return document_of(name, text), []
    except UnrepresentableError as error:
        try:
            document, others = readable_document(name, _TEXT.sub(_representable, text))
        except DocumentError:
            raise error from None
        for one in _unrepresentable(text, name):
            others.append((steps_to(one.place), f"{one.problem}, and read as {one.meant}"))
        return document, others
    except DocumentError as error:
        from invoice_sandbox.openapi.load.yaml_12 import parse_yaml

        faults: list[tuple[tuple[str | int, ...], str]] = []
        with suppress(DocumentError):
            document = parse_yaml(text, name, faults)
            if error.problem.startswith(_NOT_JSON) and isinstance(document, dict):
                clause = f"{error.problem}; this file is read as YAML"
                faults.append((steps_to(error.place), clause))
            if faults:
                return document, faults
        raise


def read_text(path: Path) -> str:
    """The text of a file; that of a pipe, which can be read once only, is kept.

    Raises DocumentError when it is missing or not UTF-8, nor UTF-16 by its first bytes.
    """
    return _text_of_pipe(path, path.stat().st_ino) if path.is_fifo() else _text_of(path)


@lru_cache(maxsize=4)
def _text_of_pipe(path: Path, _number: int) -> str:
    return _text_of(path)


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            chunks = iter(partial(file.read, _CHUNK), b"")
            content = b"".join(islice(chunks, MAX_FILE_BYTES // _CHUNK + 1))
        if len(content) > MAX_FILE_BYTES:
            raise DocumentError(str(path), f"larger than {MAX_FILE_BYTES:,} bytes")
        is_wide = content.startswith((BOM_UTF16_LE, BOM_UTF16_BE))  # as PowerShell writes files
        text = content.decode("utf-16" if is_wide else "utf-8-sig")
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise DocumentError(str(path), "no such file") from None
    except UnicodeDecodeError as error:
        before = content[: error.start].decode(error.encoding, errors="replace").lstrip("\ufeff")
        place = f"{path}{line_and_column(before, len(before))}"
        raise DocumentError(place, f"cannot be read: it is not {error.encoding.upper()}") from None
    except OSError as error:
        raise DocumentError(str(path), f"cannot be read: {error.strerror}") from None


def parse_text(text: str, name: str) -> Any:
    """The content of YAML or JSON ``text``; ``name`` stands for the file in messages.

    What starts like JSON is read as JSON, ten times as fast; as YAML only if it is none and its
    name does not promise JSON. Raises DocumentError.
    """
    if Path(name).suffix == ".json":
        return _parse_json(text, name)
    if text.lstrip().startswith("{"):
        try:
            return _parse_json(text, name)
        except UnrepresentableError:
            raise
        except DocumentError:
            pass
    try:
        return _parse_yaml(text, name)
    except DocumentError as error:
        if error.advice or Path(name).suffix in {".yaml", ".yml"}:
            raise
        raise replace(error, advice="it must be YAML or JSON") from None


def _parse_yaml(text: str, name: str) -> Any:
    from invoice_sandbox.openapi.load.yaml_12 import parse_yaml  # PyYAML is slow to import

    return parse_yaml(text, name)


def place_of(path: Path, pointer: Sequence[str | int]) -> str:
    """``file:line:column`` of the place that ``pointer`` names, or of its closest ancestor."""
    return Places().of(path, pointer)


class Places:
    """Finds lines and columns, and reads every file once: for many questions at a time."""

    def __init__(self) -> None:
        """Nothing has been read."""
        self._texts: dict[str, str] = {}
        self._nodes: dict[str, Any] = {}
        self._inside: dict[tuple[str, int], _Inside] = {}
        self._not_json = set[str]()

    def know(self, name: str, text: str) -> None:
        """Take ``text`` for what is in ``name``, which may be no file here."""
        self._texts[name] = text

    def of(self, name: str | Path, pointer: Sequence[str | int]) -> str:
        """``name:line:column`` of the place that ``pointer`` names, or of its closest ancestor.

        The name alone, if the file cannot be read.
        """
        name = str(name)
        if pointer and place_of_step(pointer[-1]):
            return f"{name}{place_of_step(pointer[-1])}"
        try:
            if name not in self._texts:
                self._texts[name] = read_text(Path(name))
            return f"{name}{self._mark(name, pointer)}"
        except (DocumentError, ValueError, RecursionError):
            return name

    def _mark(self, name: str, pointer: Sequence[str | int]) -> str:
        text = self._texts[name]
        if text.lstrip().startswith("{") and name not in self._not_json:
            try:
                return line_and_column(text, self._json_offset(name, pointer))
            except (ValueError, RecursionError):  # it is the flow style of YAML
                self._not_json.add(name)
        from invoice_sandbox.openapi.load import yaml_12

        if name not in self._nodes:
            self._nodes[name] = yaml_12.composed(text)
        return yaml_12.line_and_column(self._nodes[name], pointer)

    def _json_offset(self, name: str, pointer: Sequence[str | int]) -> int:
        """Where the place is: a member's key, an item's value. ValueError: no JSON."""
        text = self._texts[name]
        mark = value = _after_space(text, 0)
        for step in pointer:
            if (name, value) not in self._inside:
                self._inside[name, value] = _Inside(_json_children(text, value))
            found = self._inside[name, value].at(str(step))
            if found is None:
                break
            mark, value = found
        return mark


def pointer_text(pointer: Iterable[str | int]) -> str:
    """The steps as an RFC 6901 JSON Pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in pointer)


def _json_children(text: str, start: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """The steps to what is inside of the value at ``start`` of JSON ``text``, with two offsets: of
    the key and the value of a member, or twice that of an item. ValueError: no JSON.

    What is between is skipped by the decoder in C: nothing is composed.
    """
    opening = text[start : start + 1]
    if opening not in ("{", "["):
        return
    at, index = _after_space(text, start + 1), 0
    while text[at : at + 1] not in ("}", "]"):
        step, value = str(index), at
        if opening == "{":
            step, end = _DECODER.raw_decode(text, at)
            value = _after_space(text, end, ":")
        yield step, (at, value)
        _, at = _DECODER.raw_decode(text, value)
        at, index = _after_space(text, at, ","), index + 1


@dataclass
class _Inside:
    """What is inside of a value: what was found so far, and the rest."""

    rest: Iterator[tuple[str, tuple[int, int]]]
    found: dict[str, tuple[int, int]] = field(default_factory=dict)

    def at(self, step: str) -> tuple[int, int] | None:
        """The offsets of one step, which may be written otherwise. ValueError: no JSON."""
        while step not in self.found:
            following = next(self.rest, None)
            if following is None:
                known = self.found.items()  # of a list, whose steps are numbers, too
                return next((at for name, at in known if alike(name) == alike(step)), None)
            self.found.setdefault(*following)
        return self.found[step]


_NOT_JSON: Final = "not JSON: "
_INVALID_CONTROL: Final = "Invalid control character"
_DECODER: Final = json.JSONDecoder(strict=False)
_SPACE: Final = re.compile(r"[ \t\r\n]*")


def _after_space(text: str, at: int, mark: str = "") -> int:
    found = _SPACE.match(text, at)
    at = found.end() if found else at
    return _after_space(text, at + 1) if mark and text[at : at + 1] == mark else at


class _NeedsPlaceError(Exception):
    pass


@dataclass
class UnrepresentableError(DocumentError):
    """What JSON cannot have: half of a surrogate pair (RFC 8259, 8.2), NaN, or a control character
    in a text. ``meant`` is what it is read as if it has to be read."""

    meant: str = ""

    __hash__ = Exception.__hash__


_TEXT: Final = re.compile(r'"(?:[^"\\]|\\.)*+"|(?P<word>NaN|-?Infinity)')
"""The texts of JSON, and words outside of them that are no value."""
_CONTROL: Final = re.compile(r"[\x00-\x1f]")
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(?P<half>u[dD][89a-fA-F]\w\w)|.)"
)
"""What a backslash begins in a text: two halves of a letter, one half, or anything else."""


def _representable(found: re.Match[str]) -> str:
    if found["word"]:
        return "null"
    text = _ESCAPE.sub(lambda one: "\\ufffd" if one["half"] else one[0], found[0])
    return _CONTROL.sub(lambda one: json.dumps(one[0])[1:-1], text)


def _unrepresentable(text: str, name: str) -> Iterator[UnrepresentableError]:
    """An error for each place that JSON cannot have; one for the control characters of a text."""
    for found in _TEXT.finditer(text):
        if found["word"]:
            place = f"{name}{line_and_column(text, found.start())}"
            yield UnrepresentableError(place, f"{found[0]} is no value of JSON", meant="null")
        control = _CONTROL.search(found[0])
        if control is not None:
            place = f"{name}{line_and_column(text, found.start() + control.start())}"
            problem = f"U+{ord(control[0]):04X} in a text is not escaped"
            yield UnrepresentableError(place, problem, meant=json.dumps(control[0])[1:-1])
        for one in _ESCAPE.finditer(found[0]):
            if one["half"]:
                place = f"{name}{line_and_column(text, found.start() + one.start())}"
                yield UnrepresentableError(place, f"{one[0]} is half of a letter", meant="U+FFFD")


def _reject_size(text: str, name: str) -> None:
    """Raise DocumentError for JSON ``text`` of more than MAX_VALUES, which its commas separate."""
    if text.count(",") > MAX_VALUES and _STRING.sub("", text).count(",") > MAX_VALUES:
        raise DocumentError(name, f"holds more than {MAX_VALUES:,} values")


def _is_deep(text: str) -> bool:
    """Whether JSON ``text`` has more than MAX_LEVELS."""
    brackets = _NO_BRACKETS.sub("", _STRING.sub("", text))
    return max(accumulate(map(_LEVEL.__getitem__, brackets)), default=0) > MAX_LEVELS


_LEVEL: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
_NO_BRACKETS: Final = re.compile(r"[^\[\]{}]+")
_STRING: Final = re.compile(r'"(?:[^"\\\n]|\\.)*+"')


def _parse_json(text: str, name: str) -> Any:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise _NeedsPlaceError
        return found

    def number(digits: str) -> float:
        try:
            return finite(digits)
        except ValueError:
            raise _NeedsPlaceError from None

    def constant(_: str) -> Any:
        raise next(_unrepresentable(text, name))

    _reject_size(text, name)
    try:
        value = json.loads(
            text, object_pairs_hook=members, parse_float=number, parse_constant=constant
        )
    except json.JSONDecodeError as error:
        raise _not_json(error, text, name) from None
    except (_NeedsPlaceError, RecursionError):
        for lone in _unrepresentable(text, name):  # which would be no YAML
            raise lone from None
        return _parse_yaml(text, name)  # which reports the place
    except ValueError as error:
        raise DocumentError(name, f"{_NOT_JSON}{error}") from None
    return _checked(value, text, name)


def _not_json(error: json.JSONDecodeError, text: str, name: str) -> DocumentError:
    """The error of a text; what is no JSON for a control character may be YAML, unless its name
    promises JSON."""
    if Path(name).suffix == ".json" and error.msg.startswith(_INVALID_CONTROL):
        for control in _unrepresentable(text, name):
            return control
    return DocumentError(f"{name}:{error.lineno}:{error.colno}", f"{_NOT_JSON}{error.msg}")


def _checked(value: Any, text: str, name: str) -> Any:
    """The ``value`` of JSON, unless it is too deep, or has a text that UTF-8 cannot represent."""
    with suppress(TypeError):
        orjson.dumps(value)  # neither is what orjson writes
        return value
    for error in _unrepresentable(text, name):
        raise error
    return _parse_yaml(text, name) if _is_deep(text) else value
