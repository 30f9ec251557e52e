"""YAML and JSON files as plain data, and the line and column of any place in them.

YAML is read with the rules of YAML 1.2 that people expect of it: only ``true`` and ``false`` are
booleans (``NO`` stays Norway, ``on`` stays a key), a date stays the text that was written, and a
key that stands twice is an error instead of a silent loss.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

try:
    from yaml import CSafeLoader as _BaseLoader
except ImportError:  # PyYAML without libyaml: slower, same result
    from yaml import SafeLoader as _BaseLoader  # type: ignore[assignment]


class _Loader(_BaseLoader):
    """SafeLoader with YAML 1.2 scalars, string keys, and no duplicate keys."""

    def construct_document(self, node: yaml.Node) -> Any:
        """Refuse duplicate keys anywhere in the document before building it."""
        _refuse_duplicate_keys(node)
        return super().construct_document(node)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
    for first, resolvers in _BaseLoader.yaml_implicit_resolvers.items()
}
_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_INT = re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$")
_FLOAT = re.compile(
    r"^[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)$"
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, list("tTfF"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))


def _float(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:float", _float)


@dataclass
class DocumentError(Exception):
    """A file that cannot be used: where, what is wrong, and what to do about it.

    ``place`` is ``file``, ``file:line`` or ``file:line:column``, all counted from one.
    """

    place: str
    problem: str
    advice: str = ""

    __hash__ = Exception.__hash__

    def __str__(self) -> str:
        """One line: place, problem, advice."""
        return f"{self.place}: {self.problem}" + (f" ({self.advice})" if self.advice else "")


class _DuplicateKeyError(yaml.MarkedYAMLError):
    pass


def load_document(path: Path) -> Any:
    """The content of a YAML or JSON file (JSON is read as the YAML it is).

    Raises DocumentError when the file is missing, not UTF-8, not YAML, or repeats a key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DocumentError(str(path), "no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(str(path), f"cannot be read: {error}") from None
    return parse_document(text, str(path))


def parse_document(text: str, name: str) -> Any:
    """The content of YAML or JSON ``text``; ``name`` stands for the file in messages."""
    try:
        return _string_keys(yaml.load(text, _Loader))  # noqa: S506  _Loader is a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise DocumentError(place, error.problem or "not YAML") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DocumentError(name, f"not YAML: {reason}") from None


def place_of(path: Path, pointer: Sequence[str | int]) -> str:
    """``file:line:column`` of the place that ``pointer`` names, or of its nearest ancestor."""
    loader = _Loader(path.read_text(encoding="utf-8"))
    try:
        node = loader.get_single_node()
    finally:
        loader.dispose()
    mark = node.start_mark if node else None
    for step in pointer:
        found = _child(node, step)
        if found is None:
            break
        mark, node = found
    return f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)


def pointer_text(pointer: Iterable[str | int]) -> str:
    """The steps as an RFC 6901 JSON Pointer."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in pointer)


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Mark, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key.start_mark, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark, node.value[step]
    return None


def _refuse_duplicate_keys(node: yaml.Node) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[Hashable] = set()
        for key, value in node.value:
            if key.value.__hash__ and key.value in seen:
                raise _DuplicateKeyError(
                    problem=f"the key '{key.value}' stands twice", problem_mark=key.start_mark
                )
            seen.add(key.value if key.value.__hash__ else id(key))
            _refuse_duplicate_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_duplicate_keys(item)


def _string_keys(value: Any) -> Any:
    """JSON knows only string keys; ``200:`` under ``responses`` means ``"200"``."""
    if isinstance(value, dict):
        return {str(key): _string_keys(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_string_keys(child) for child in value]
    return value
