"""The official test suite, read so that every instance keeps the bytes it is written with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent.parent / "json_schema_suite"
REMOTE: Final = "http://localhost:1234/"
"""Where the suite expects its ``remotes`` folder to be served."""

_TESTS: Final = FOLDER / "tests" / "draft2020-12"
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True)
class Case:
    """One instance, as the bytes of the suite, and whether its group's schema allows it."""

    name: str
    instance: bytes
    valid: bool


@dataclass(frozen=True)
class Group:
    """A schema and the instances that it is tried with. ``file`` names the keyword."""

    file: str
    number: int
    name: str
    schema: Any
    cases: tuple[Case, ...]

    @property
    def id(self) -> str:
        """A name that is no other group's: ``prefixItems_3``."""
        return f"{re.sub('[^A-Za-z]', '_', self.file)}_{self.number}"


def groups() -> list[Group]:
    """Every group of the required part of the suite, in the order of its files."""
    return [
        _group(file.stem, number, text)
        for file in sorted(_TESTS.glob("*.json"), key=lambda one: one.stem.lower())
        for number, text in enumerate(_items(file.read_text(encoding="utf-8")), 1)
    ]


def remotes() -> dict[str, Any]:
    """The schemas that the suite serves from another host, by their address."""
    folder = FOLDER / "remotes"
    return {
        REMOTE + file.relative_to(folder).as_posix(): json.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.rglob("*.json"))
    }


def _group(file: str, number: int, text: str) -> Group:
    members = _members(text)
    cases = tuple(_case(_members(one)) for one in _items(members["tests"]))
    name = json.loads(members["description"])
    return Group(file, number, name, json.loads(members["schema"]), cases)


def _case(members: dict[str, str]) -> Case:
    name, valid = json.loads(members["description"]), json.loads(members["valid"])
    return Case(name, members["data"].encode(), valid)


def _items(text: str) -> list[str]:
    """The items of a JSON array, each as the text that it is written with."""
    position, items = _skip(text, text.index("[") + 1), []
    while text[position] != "]":
        _, end = _DECODER.raw_decode(text, position)
        items.append(text[position:end])
        position = _next(text, end)
    return items


def _members(text: str) -> dict[str, str]:
    """The members of a JSON object by name, each as the text that it is written with."""
    position, members = _skip(text, text.index("{") + 1), {}
    while text[position] != "}":
        name, end = _DECODER.raw_decode(text, position)
        start = _skip(text, _skip(text, end) + 1)
        _, end = _DECODER.raw_decode(text, start)
        members[name] = text[start:end]
        position = _next(text, end)
    return members


def _next(text: str, position: int) -> int:
    """Where the next item begins, or the list ends."""
    position = _skip(text, position)
    return _skip(text, position + 1) if text[position] == "," else position


def _skip(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    assert found is not None
    return found.end()


def schemas_within(schema: Any) -> Iterator[dict[str, Any]]:
    """Every object within ``schema``, itself included, whether it is a schema or not."""
    if isinstance(schema, dict):
        yield schema
    children = schema.values() if isinstance(schema, dict) else schema
    for child in children if isinstance(schema, dict | list) else ():
        yield from schemas_within(child)
