"""YAML files by the core schema of YAML 1.2, read and written.

- Only ``true`` and ``false`` are booleans; ``NO`` and ``on`` are text.
- ``0o17`` is 15, ``012`` is 12, ``1_000`` is text, and a date is text.
- Values that JSON cannot represent (``.inf``) and duplicate keys are errors, or faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NoReturn

import yaml

from invoice_sandbox.openapi.load import text as texts
from invoice_sandbox.openapi.load.text import (
    MAX_LEVELS,
    MAX_VALUES,
    DocumentError,
    alike,
    finite,
)

try:
    from yaml import CSafeLoader as _BaseLoader
except ImportError:  # PyYAML without libyaml: slower, same result
    from yaml import SafeLoader as _BaseLoader  # type: ignore[assignment]


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


def _add_resolvers(class_: Any) -> None:
    class_.add_implicit_resolver(_TAG + "bool", _BOOL, list("tTfF"))
    class_.add_implicit_resolver(_TAG + "int", _INT, list("-+0123456789"))
    class_.add_implicit_resolver(_TAG + "float", _FLOAT, list("-+.0123456789"))


_add_resolvers(_Loader)


Fault = tuple[tuple[str | int, ...], str]
"""The steps to a value that is read otherwise than it is written, and a clause that says how."""


def parse_yaml(text: str, name: str, faults: list[Fault] | None = None) -> Any:
    """The content of YAML ``text``; ``name`` stands for the file in messages.

    With ``faults``, what JSON cannot represent and what is nested too deeply is left out, of
    duplicate keys the last one counts, and of documents the first one: they get all of that. Raises
    DocumentError.
    """
    try:
        _reject_depth(text, name, MAX_LEVELS if faults is None else _MOST_LEVELS)
        _reject_size(text, name)
        found = _roots(text)
        for one in found[1:]:
            if faults is None:
                raise _at(name, one.start_mark, "another document: a file may have one")
            faults.append(((_written(one),), "this is ignored: a file may have one document"))
        return _Builder(name, faults).value(next(iter(found), None))
    except yaml.MarkedYAMLError as error:
        if (whole := _with_whole_letters(text)) != text:
            return parse_yaml(whole, name, faults)
        mark = error.problem_mark or error.context_mark
        advice = _NO_TABS if mark and text[mark.index : mark.index + 1] == "\t" else ""
        raise _at(name, mark, error.problem or "", advice) from None
    except RecursionError:
        problem = "nested too deeply, or an alias stands inside itself"
        raise DocumentError(f"{name}:1:1", problem) from None
    except yaml.reader.ReaderError as error:
        strange = yaml.reader.Reader.NON_PRINTABLE.search(text)  # its position counts bytes
        place = f"{name}{texts.line_and_column(text, strange.start() if strange else 0)}"
        raise DocumentError(place, f"not YAML: {error.reason}") from None
    except yaml.YAMLError as error:
        raise DocumentError(name, f"not YAML: {' '.join(str(error).split())}") from None


def _reject_size(text: str, name: str) -> None:
    """Raise DocumentError for a text with too many values, before their nodes take memory."""
    marks = sum(map(text.count, "\n,[{"))
    if marks > MAX_VALUES:
        events = islice(yaml.parse(text, Loader=_Loader), 2 * MAX_VALUES)
        if sum(isinstance(one, yaml.NodeEvent) for one in events) > MAX_VALUES:
            raise DocumentError(name, f"holds more than {MAX_VALUES:,} values")


def composed(text: str) -> yaml.Node | None:
    """The nodes of the first document of YAML ``text``; None if it is none."""
    try:
        return next(iter(_roots(text)), None)
    except yaml.YAMLError:
        whole = _with_whole_letters(text)
        return composed(whole) if whole != text else None


def _with_whole_letters(text: str) -> str:
    """A text in which the two halves of a letter, as JSON escapes them, are one, as in YAML."""

    def whole(found: re.Match[str]) -> str:
        letter = json.loads('"' + found[0] + '"')
        return f"\\U{ord(letter):08x}"

    return _HALVES.sub(whole, text)


_HALVES: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")


def line_and_column(node: yaml.Node | None, pointer: Sequence[str | int]) -> str:
    """``:line:column`` of the place below ``node`` that ``pointer`` names, or of its closest
    ancestor."""
    mark = node.start_mark if node else None
    for step in pointer:
        found = _child(node, step)
        if found is None:
            break
        mark, node = found
    return f":{mark.line + 1}:{mark.column + 1}" if mark else ":1:1"


def _child(node: yaml.Node | None, step: str | int) -> tuple[yaml.Mark, yaml.Node] | None:
    """Where the step leads to: the last one of its name counts. Its name may be written
    otherwise."""
    if isinstance(node, yaml.MappingNode):
        for key, value in reversed(node.value):
            if _step(key) == str(step):
                return key.start_mark, value
        for key, value in node.value:
            if alike(_step(key)) == alike(step):
                return key.start_mark, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark, node.value[step]
    return None


def _step(key: yaml.Node) -> str:
    """The step to the value of a key; of one that is no text, where it is written."""
    return str(key.value) if isinstance(key, yaml.ScalarNode) else _written(key)


def _written(node: yaml.Node) -> str:
    return texts.step_to(node.start_mark.line + 1, node.start_mark.column + 1)


class _LeftOutError(Exception):
    pass


@dataclass
class _Builder:
    """Turns composed nodes into plain data, and counts them: an alias may repeat a lot."""

    name: str
    faults: list[Fault] | None = None
    nodes: int = 0
    pointer: tuple[str | int, ...] = ()

    def value(self, node: yaml.Node | None) -> Any:
        """What ``node`` stands for: None, bool, int, float, str, list or dict."""
        if node is None:
            return None
        self.nodes += 1
        if self.nodes > MAX_VALUES:
            raise _at(self.name, node.start_mark, "the document grows too large by its aliases")
        if isinstance(node, yaml.CollectionNode) and len(self.pointer) >= MAX_LEVELS:
            return self.leave_out(node, _TOO_DEEP)
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            items = enumerate(node.value)
            return [value for index, item in items for value in self.below(index, item)]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            return self.scalar(node)
        return self.leave_out(node, f"the tag '{node.tag}' has no place in JSON")

    def below(self, step: str | int, node: yaml.Node) -> list[Any]:
        """The value of a member or an item; none if it is left out."""
        if self.faults is None:
            return [self.value(node)]
        around, self.pointer = self.pointer, (*self.pointer, step)
        try:
            return [self.value(node)]
        except _LeftOutError:
            return []
        finally:
            self.pointer = around

    def leave_out(self, node: yaml.Node, problem: str) -> NoReturn:
        """Raise DocumentError, or make it a fault and raise _LeftOutError."""
        if self.faults is None or not self.pointer:
            raise _at(self.name, node.start_mark, problem)
        self.faults.append((self.pointer, f"this is ignored: {problem}"))
        raise _LeftOutError

    def ignore(self, key: yaml.Node, problem: str) -> None:
        """Raise DocumentError, or make it a fault."""
        if self.faults is None:
            raise _at(self.name, key.start_mark, problem)
        self.faults.append(((*self.pointer, _step(key)), f"this is ignored: {problem}"))

    def mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        """The members, in order, those merged by ``<<`` first; keys are the text as written."""
        members: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.ignore(key, "a key must be text")
                continue
            if key.tag == _TAG + "merge":
                merged = child.value if isinstance(child, yaml.SequenceNode) else [child]
                for one in reversed(merged):
                    if isinstance(one, yaml.MappingNode):
                        members.update(self.mapping(one))
                    else:
                        self.ignore(key, "'<<' must name an object, or a list of objects")
                continue
            if key.value in own:
                problem = f"duplicate key '{key.value}'"
                if self.faults is None:
                    raise _at(self.name, key.start_mark, problem)
                at = (*self.pointer, key.value)
                self.faults.append((at, f"{problem}: the last one counts"))
            for value in self.below(key.value, child):
                own[key.value] = value
        return {**members, **own}

    def scalar(self, node: yaml.ScalarNode) -> Any:
        """A scalar by its tag, which the rules above or the document itself have given it."""
        try:
            return _SCALARS[node.tag](node.value)
        except ValueError:
            expected = node.tag.removeprefix(_TAG)
            self.leave_out(node, f"'{node.value[:40]}' is not a valid {expected}")


def _bool(text: str) -> bool:
    if not _BOOL.fullmatch(text):
        raise ValueError
    return text.lower() == "true"


def _int(text: str) -> int:
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


_SCALARS: Final[Mapping[str, Callable[[str], Any]]] = {
    _TAG + "str": str,
    _TAG + "null": lambda _: None,
    _TAG + "bool": _bool,
    _TAG + "int": _int,
    _TAG + "float": finite,
    _TAG + "merge": str,
}


def _roots(text: str) -> list[yaml.Node]:
    """The documents of a text, without empty ones."""
    try:
        found = _composed_by(_Loader(text))
    except yaml.composer.ComposerError as error:
        if "duplicate anchor" not in (error.context or ""):
            raise
        found = _composed_by(_Composer(_Loader(text)))
    return [one for one in found if one is not None and one.tag != f"{_TAG}null"]


def _composed_by(composer: Any) -> list[yaml.Node | None]:
    found = list[yaml.Node | None]()
    try:
        while composer.check_node():
            found.append(composer.get_node())
    finally:
        composer.dispose()
    return found


class _Composer(yaml.composer.Composer):
    """What PyYAML composes more slowly, and of several anchors with one name an alias means the
    last one before it (YAML 1.2, section 7.1), which PyYAML rejects."""

    def __init__(self, loader: Any) -> None:
        """``loader`` has the events, and the rules for scalars."""
        super().__init__()
        for name in _OF_LOADERS:
            setattr(self, name, getattr(loader, name))

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Forget the anchor of that name before, if there is one."""
        composer: Any = self
        if not composer.check_event(yaml.AliasEvent):
            self.anchors.pop(composer.peek_event().anchor, None)
        return super().compose_node(parent, index)


_OF_LOADERS: Final = (
    *("check_event", "get_event", "peek_event", "dispose"),
    *("resolve", "descend_resolver", "ascend_resolver"),
)
"""What a composer of PyYAML takes from the rest of its loader."""


def _at(name: str, mark: Any, problem: str, advice: str = "") -> DocumentError:
    place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    return DocumentError(place, problem or "not YAML", advice)


_NO_TABS: Final = "this is a tab; YAML indents with spaces"


def _reject_depth(text: str, name: str, most: int) -> None:
    """Deep nesting ends the process inside libyaml's composer; nobody writes 256 levels.

    Counting exactly means reading the document twice, so only one that might be deep is counted.
    """
    if text.count("[") + text.count("{") <= MAX_LEVELS and not _DEEP_BLOCK.search(text):
        return
    level = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            level += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            level -= 1
        if level > most:
            raise _at(name, event.start_mark, _TOO_DEEP)


_TOO_DEEP: Final = f"nested too deeply: more than {MAX_LEVELS} levels"
_MOST_LEVELS: Final = 4 * MAX_LEVELS
"""Levels of a text that is read up to MAX_LEVELS."""

_DEEP_BLOCK: Final = re.compile(rf"^(?:[ ]{{{MAX_LEVELS}}}|[ ]*(?:[-?][ ]+){{100}})", re.MULTILINE)


def yaml_text(document: Any) -> str:
    """``document`` as YAML, in its own order."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


class _Dumper(yaml.SafeDumper):
    """SafeDumper that indents lists, keeps long texts readable, and repeats instead of aliasing.

    It quotes a text that YAML 1.2 or YAML 1.1 would read as something else: ``'089'``, ``'no'``.
    """

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent the items of a list below its key."""
        _ = indentless
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        """No anchors."""
        _ = data
        return True


_OTHER_BREAKS: Final = frozenset("\r\x85\u2028\u2029")
"""What YAML 1.1 takes for the end of a line."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    strange = not _OTHER_BREAKS.isdisjoint(text)
    style = '"' if strange else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
_add_resolvers(_Dumper)
