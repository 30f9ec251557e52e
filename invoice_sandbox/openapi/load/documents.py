"""YAML and JSON files as plain data, and the line and column of any place in them.

YAML is read by the core schema of YAML 1.2:

- Only ``true`` and ``false`` are booleans; ``NO`` and ``on`` are text.
- ``0o17`` is 15, ``012`` is 12, ``1_000`` is text, and a date is text.
- Values that JSON cannot represent (``.inf``) and duplicate keys are errors.

A file that is valid JSON is read as JSON, whatever its name.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

try:
    from yaml import CSafeLoader as _BaseLoader
except ImportError:  # PyYAML without libyaml: slower, same result
    from yaml import SafeLoader as _BaseLoader  # type: ignore[assignment]

_MAX_LEVELS: Final = 256
_MAX_NODES: Final = 1_000_000


class _Loader(_BaseLoader):
    """Composes nodes whose plain scalars are read by the rules of YAML 1.2."""


_TAG: Final = "tag:yaml.org,2002:"
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":null", ":merge"))]
    for first, resolvers in _BaseLoader.yaml_implicit_resolvers.items()
}
_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_INT = re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
_FLOAT = re.compile(
    r"^(?:[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_Loader.add_implicit_resolver(_TAG + "bool", _BOOL, list("tTfF"))
_Loader.add_implicit_resolver(_TAG + "int", _INT, list("-+0123456789"))
_Loader.add_implicit_resolver(_TAG + "float", _FLOAT, list("-+.0123456789"))


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


def load_document(path: Path) -> Any:
    """The content of a YAML or JSON file.

    Raises DocumentError when the file is missing, not UTF-8, not YAML, or repeats a key.
    """
    return parse_text(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a file. Raises DocumentError when it is missing or not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DocumentError(str(path), "no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(str(path), f"cannot be read: {error}") from None


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
        except DocumentError:
            return parse_document(text, name)
    return parse_document(text, name)


def parse_document(text: str, name: str) -> Any:
    """The content of YAML ``text``; ``name`` stands for the file in messages."""
    try:
        _reject_depth(text, name)
        return _Builder(name).value(_root(text))
    except yaml.MarkedYAMLError as error:
        raise _at(name, error.problem_mark or error.context_mark, error.problem or "") from None
    except RecursionError:
        raise DocumentError(name, "nested too deeply, or an alias stands inside itself") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise DocumentError(f"{name}:{line}", f"not YAML: {error.reason}") from None
    except yaml.YAMLError as error:
        raise DocumentError(name, f"not YAML: {' '.join(str(error).split())}") from None


def place_of(path: Path, pointer: Sequence[str | int]) -> str:
    """``file:line:column`` of the place that ``pointer`` names, or of its closest ancestor."""
    return Places().of(path, pointer)


class Places:
    """Finds lines and columns, and reads every file once: for many questions at a time."""

    def __init__(self) -> None:
        """Nothing has been read."""
        self._texts: dict[str, str] = {}
        self._nodes: dict[str, yaml.Node | None] = {}

    def know(self, name: str, text: str) -> None:
        """Take ``text`` for what is in ``name``, which may be no file here."""
        self._texts[name] = text

    def of(self, name: str | Path, pointer: Sequence[str | int]) -> str:
        """``name:line:column`` of the place that ``pointer`` names, or of its closest ancestor.

        The name alone, if the file cannot be read.
        """
        name = str(name)
        try:
            if name not in self._texts:
                self._texts[name] = Path(name).read_text(encoding="utf-8-sig")
            return f"{name}{self._mark(name, pointer)}"
        except (OSError, ValueError, RecursionError, yaml.YAMLError):
            return name

    def _mark(self, name: str, pointer: Sequence[str | int]) -> str:
        text = self._texts[name]
        if text.lstrip().startswith("{"):
            with suppress(ValueError, RecursionError):  # else it is the flow style of YAML
                return _line_and_column(text, _json_offset(text, pointer))
        if name not in self._nodes:
            self._nodes[name] = _root(text)
        node = self._nodes[name]
        mark = node.start_mark if node else None
        for step in pointer:
            found = _child(node, step)
            if found is None:
                break
            mark, node = found
        return f":{mark.line + 1}:{mark.column + 1}" if mark else ""


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


def _line_and_column(text: str, offset: int) -> str:
    line, start = text.count("\n", 0, offset) + 1, text.rfind("\n", 0, offset) + 1
    return f":{line}:{offset - start + 1}"


def _json_offset(text: str, pointer: Sequence[str | int]) -> int:
    """Where in JSON ``text`` the place is: a member's key, an item's value. ValueError: no JSON.

    What lies beside the way is skipped by the decoder in C: nothing is composed.
    """
    mark = value = _after_space(text, 0)
    for step in pointer:
        found = _json_child(text, value, step)
        if found is None:
            break
        mark, value = found
    return mark


def _json_child(text: str, start: int, step: str | int) -> tuple[int, int] | None:
    """Offsets of the key and the value of a member, or twice that of an item."""
    opening = text[start : start + 1]
    if opening not in ("{", "["):
        return None
    at, index = _after_space(text, start + 1), 0
    while text[at : at + 1] not in ("}", "]"):
        value, is_it = at, index == step
        if opening == "{":
            key, end = _DECODER.raw_decode(text, at)
            value, is_it = _after_space(text, end, ":"), key == str(step)
        if is_it:
            return at, value
        _, at = _DECODER.raw_decode(text, value)
        at, index = _after_space(text, at, ","), index + 1
    return None


_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\r\n]*")


def _after_space(text: str, at: int, mark: str = "") -> int:
    found = _SPACE.match(text, at)
    at = found.end() if found else at
    return _after_space(text, at + 1) if mark and text[at : at + 1] == mark else at


@dataclass
class _Builder:
    """Turns composed nodes into plain data, and counts them: an alias may repeat a lot."""

    name: str
    nodes: int = 0

    def value(self, node: yaml.Node | None) -> Any:
        """What ``node`` stands for: None, bool, int, float, str, list or dict."""
        if node is None:
            return None
        self.nodes += 1
        if self.nodes > _MAX_NODES:
            raise _at(self.name, node.start_mark, "the document grows too large by its aliases")
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item) for item in node.value]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            return self.scalar(node)
        raise _at(self.name, node.start_mark, f"the tag '{node.tag}' has no place in JSON")

    def mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        """The members, in order, those merged by ``<<`` first; keys are the text as written."""
        members: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _at(self.name, key.start_mark, "a key must be text")
            if key.tag == _TAG + "merge":
                merged = child.value if isinstance(child, yaml.SequenceNode) else [child]
                for one in reversed(merged):
                    if not isinstance(one, yaml.MappingNode):
                        text = "'<<' must name an object, or a list of objects"
                        raise _at(self.name, key.start_mark, text)
                    members.update(self.mapping(one))
                continue
            if key.value in own:
                raise _at(self.name, key.start_mark, f"duplicate key '{key.value}'")
            own[key.value] = self.value(child)
        return {**members, **own}

    def scalar(self, node: yaml.ScalarNode) -> Any:
        """A scalar by its tag, which the rules above or the document itself have given it."""
        try:
            return _SCALARS[node.tag](node.value)
        except ValueError:
            expected = node.tag.removeprefix(_TAG)
            raise _at(
                self.name, node.start_mark, f"'{node.value[:40]}' is not a valid {expected}"
            ) from None


def _bool(text: str) -> bool:
    if not _BOOL.fullmatch(text):
        raise ValueError
    return text.lower() == "true"


def _float(text: str) -> float:
    number = float(text)  # which reads 'nan' and 'inf', but not with the point of YAML
    if not math.isfinite(number):
        raise ValueError
    return number


def _int(text: str) -> int:
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


_SCALARS: Final[Mapping[str, Callable[[str], Any]]] = {
    _TAG + "str": str,
    _TAG + "null": lambda _: None,
    _TAG + "bool": _bool,
    _TAG + "int": _int,
    _TAG + "float": _float,
    _TAG + "merge": str,
}


def _root(text: str) -> yaml.Node | None:
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _at(name: str, mark: Any, problem: str) -> DocumentError:
    place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    return DocumentError(place, problem or "not YAML")


class _RepeatedKeyError(Exception):
    pass


def _parse_json(text: str, name: str) -> Any:
    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise _RepeatedKeyError
        return found

    def number(digits: str) -> float:
        try:
            return _float(digits)
        except ValueError:
            raise DocumentError(name, f"'{digits[:40]}' is not a valid float") from None

    def constant(word: str) -> Any:
        raise DocumentError(name, f"not JSON: {word} has no place in it")

    try:
        return json.loads(
            text, object_pairs_hook=members, parse_float=number, parse_constant=constant
        )
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno}:{error.colno}"
        raise DocumentError(place, f"not JSON: {error.msg}") from None
    except _RepeatedKeyError:
        return parse_document(text, name)  # which reports the place
    except RecursionError:
        raise DocumentError(name, "nested too deeply") from None
    except ValueError as error:
        raise DocumentError(name, f"not JSON: {error}") from None


def _reject_depth(text: str, name: str) -> None:
    """Deep nesting ends the process inside libyaml's composer; nobody writes 256 levels.

    Counting exactly means reading the document twice, so only one that might be deep is counted.
    """
    if text.count("[") + text.count("{") <= _MAX_LEVELS and not _DEEP_BLOCK.search(text):
        return
    level = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            level += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            level -= 1
        if level > _MAX_LEVELS:
            problem = f"nested too deeply: more than {_MAX_LEVELS} levels"
            raise _at(name, event.start_mark, problem)


_DEEP_BLOCK: Final = re.compile(rf"^(?:[ ]{{{_MAX_LEVELS}}}|[ ]*(?:[-?][ ]+){{100}})", re.MULTILINE)
