"""YAML and JSON files as plain data, and the line and column of any place in them.

A file that is valid JSON is read as JSON, whatever its name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from invoice_sandbox.openapi.load.model import Pointer
from invoice_sandbox.openapi.load.text import DocumentError, finite, line_and_column


def load_document(path: Path) -> Any:
    """Return the content of a YAML or JSON file.

    Raises DocumentError when the file is missing, not UTF-8, not YAML, or repeats a key.
    """
    return parse_text(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Return the text of a file; that of a pipe, which can be read once only, is kept.

    Raises DocumentError when it is missing or not UTF-8.
    """
    return _text_of_pipe(path, path.stat().st_ino) if path.is_fifo() else _text_of(path)


@lru_cache(maxsize=4)
def _text_of_pipe(path: Path, _number: int) -> str:
    return _text_of(path)


def _text_of(path: Path) -> str:
    try:
        content = path.read_bytes()
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise DocumentError(str(path), "no such file") from None
    except UnicodeDecodeError as error:
        before = content[: error.start].decode(errors="replace").lstrip("\ufeff")
        place = f"{path}{line_and_column(before, len(before))}"
        raise DocumentError(place, "cannot be read: it is not UTF-8") from None
    except OSError as error:
        raise DocumentError(str(path), f"cannot be read: {error.strerror}") from None


def parse_text(text: str, name: str) -> Any:
    """Return the content of YAML or JSON ``text``; ``name`` stands for the file in messages.

    What starts like JSON is read as JSON, ten times as fast; as YAML only if it is not JSON and its
    name does not promise JSON. Raises DocumentError.
    """
    suffix = Path(name).suffix
    if suffix == ".json":
        return _parse_json(text, name)
    if text.lstrip().startswith("{"):
        try:
            return _parse_json(text, name)
        except DocumentError:
            pass
    try:
        return _parse_yaml(text, name)
    except DocumentError as error:
        if error.advice or suffix in {".yaml", ".yml"}:
            raise
        raise replace(error, advice="it must be YAML or JSON") from None


def _parse_yaml(text: str, name: str) -> Any:
    from invoice_sandbox.openapi.load.yaml_12 import parse_yaml  # PyYAML is slow to import

    return parse_yaml(text, name)


def _parse_json(text: str, name: str) -> Any:
    try:
        value = json.loads(
            text, object_pairs_hook=_members, parse_float=finite, parse_constant=_reject_constant
        )
        orjson.dumps(value)  # which fails for half of a surrogate pair, and for what is too deep
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno}:{error.colno}"
        raise DocumentError(place, f"not JSON: {error.msg}") from None
    except RecursionError:
        raise DocumentError(name, "nested too deeply") from None
    except (ValueError, TypeError) as error:
        if "64-bit" in str(error):  # an integer that only orjson cannot write
            return value
        _parse_yaml(text, name)  # which reports the place of the same error
        raise DocumentError(name, f"not JSON: {error}") from None
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a duplicate key")
    return members


def _reject_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON value")


def place_of(path: Path, pointer: Sequence[str | int]) -> str:
    """Return ``file:line:column`` of the place that ``pointer`` names, or of its closest
    ancestor."""
    return Places().of(path, pointer)


class Places:
    """Finds lines and columns, and reads every file once: for many questions at a time."""

    def __init__(self) -> None:
        """Nothing has been read."""
        self._texts: dict[str, str] = {}
        self._nodes: dict[str, Any] = {}
        self._children: dict[tuple[str, int], dict[str, tuple[int, int]]] = {}

    def of(self, name: str | Path, pointer: Sequence[str | int]) -> str:
        """Return ``name:line:column`` of the place that ``pointer`` names, or of its closest
        ancestor; the name alone, if the file cannot be read."""
        name = str(name)
        try:
            if name not in self._texts:
                self._texts[name] = read_text(Path(name))
            return f"{name}{self._mark(name, pointer)}"
        except (DocumentError, ValueError, RecursionError):
            return name

    def _mark(self, name: str, pointer: Sequence[str | int]) -> str:
        text = self._texts[name]
        if text.lstrip().startswith("{") and name not in self._nodes:
            try:
                return line_and_column(text, self._json_offset(name, pointer))
            except (ValueError, RecursionError):  # it is the flow style of YAML
                pass
        from invoice_sandbox.openapi.load import yaml_12

        if name not in self._nodes:
            self._nodes[name] = yaml_12.composed(text)
        return yaml_12.line_and_column(self._nodes[name], pointer)

    def _json_offset(self, name: str, pointer: Sequence[str | int]) -> int:
        """Return where the place is: a member's key, an item's value. Raises ValueError."""
        text = self._texts[name]
        mark = value = _after_space(text, 0)
        for step in pointer:
            if (name, value) not in self._children:
                self._children[name, value] = dict(_json_children(text, value))
            found = self._children[name, value].get(str(step))
            if found is None:
                break
            mark, value = found
        return mark


@dataclass(frozen=True)
class Note:
    """Something to report about a place in a document; ``text`` is a clause for people."""

    pointer: Pointer
    text: str

    def error(self, place: Callable[[Pointer], str]) -> DocumentError:
        """Return it as an error; ``place`` locates its pointer."""
        problem = f"{pointer_text(self.pointer)}: {self.text}".removeprefix(": ")
        return DocumentError(place(self.pointer), problem)


def pointer_text(pointer: Iterable[str | int]) -> str:
    """Return the steps as an RFC 6901 JSON Pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in pointer)


def _json_children(text: str, start: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the steps to what is inside of the value at ``start`` of JSON ``text``, with two
    offsets: of the key and the value of a member, or twice that of an item. Raises ValueError.

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


_DECODER: Final = json.JSONDecoder(strict=False)
_SPACE: Final = re.compile(r"[ \t\r\n]*")


def _after_space(text: str, at: int, mark: str = "") -> int:
    found = _SPACE.match(text, at)
    at = found.end() if found else at
    return _after_space(text, at + 1) if mark and text[at : at + 1] == mark else at
