"""YAML files by the core schema of YAML 1.2, read and written.

- Only ``true`` and ``false`` are booleans; ``NO`` and ``on`` are text.
- ``0o17`` is 15, ``012`` is 12, ``1_000`` is text, and a date is text.
- Values that JSON cannot represent (``.inf``) and duplicate keys are errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from invoice_sandbox.openapi.load import text as texts
from invoice_sandbox.openapi.load.text import MAX_VALUES, DocumentError, finite

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


def parse_yaml(text: str, name: str) -> Any:
    """Return the content of YAML ``text``; ``name`` stands for the file in messages.

    Raises DocumentError.
    """
    try:
        _reject_depth(text, name)
        return _Builder(name).value(yaml.compose(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
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


def composed(text: str) -> yaml.Node | None:
    """Return the nodes of YAML ``text``; None if it is not YAML."""
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError:
        return None


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
    """Return where the step leads to."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == str(step):
                return key.start_mark, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark, node.value[step]
    return None


@dataclass
class _Builder:
    """Turns composed nodes into plain data, and counts them: an alias may repeat a lot."""

    name: str
    nodes: int = 0

    def value(self, node: yaml.Node | None) -> Any:
        """Return what ``node`` stands for: None, bool, int, float, str, list or dict."""
        if node is None:
            return None
        self.nodes += 1
        if self.nodes > MAX_VALUES:
            problem = f"more than {MAX_VALUES:,} values, aliases expanded"
            raise _at(self.name, node.start_mark, problem)
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item) for item in node.value]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            return self.scalar(node)
        raise _at(self.name, node.start_mark, f"the tag '{node.tag}' has no place in JSON")

    def mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        """Return the members in order, those merged by ``<<`` first; keys are the text as
        written."""
        merged: dict[str, Any] = {}
        members: dict[str, Any] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _at(self.name, key.start_mark, "a key must be text")
            if key.tag == _TAG + "merge":
                merged |= self.merged(key, child)
                continue
            if key.value in members:
                raise _at(self.name, key.start_mark, f"duplicate key '{key.value}'")
            members[key.value] = self.value(child)
        return {**merged, **members}

    def merged(self, key: yaml.Node, node: yaml.Node) -> dict[str, Any]:
        """Return the members that ``<<`` names; of a list, those of the first object count."""
        members: dict[str, Any] = {}
        for source in reversed(node.value if isinstance(node, yaml.SequenceNode) else [node]):
            if not isinstance(source, yaml.MappingNode):
                problem = "'<<' must name an object, or a list of objects"
                raise _at(self.name, key.start_mark, problem)
            members |= self.mapping(source)
        return members

    def scalar(self, node: yaml.ScalarNode) -> Any:
        """Return a scalar by its tag, which the rules above or the document itself gave it."""
        try:
            return _SCALARS[node.tag](node.value)
        except ValueError:
            expected = node.tag.removeprefix(_TAG)
            problem = f"'{node.value[:40]}' is not a valid {expected}"
            raise _at(self.name, node.start_mark, problem) from None


def _bool(text: str) -> bool:
    if not _BOOL.fullmatch(text):
        raise ValueError
    return text.lower() == "true"


def _int(text: str) -> int:
    """Return a whole number that can be written in decimal, too. Raises ValueError."""
    number = int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
    str(number)  # Python writes no more than 4,300 digits
    return number


_SCALARS: Final[Mapping[str, Callable[[str], Any]]] = {
    _TAG + "str": str,
    _TAG + "null": lambda _: None,
    _TAG + "bool": _bool,
    _TAG + "int": _int,
    _TAG + "float": finite,
    _TAG + "merge": str,
}


def _at(name: str, mark: Any, problem: str, advice: str = "") -> DocumentError:
    place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
    return DocumentError(place, problem or "not YAML", advice)


_NO_TABS: Final = "this is a tab; YAML indents with spaces"


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


_MAX_LEVELS: Final = 256
_DEEP_BLOCK: Final = re.compile(rf"^(?:[ ]{{{_MAX_LEVELS}}}|[ ]*(?:[-?][ ]+){{100}})", re.MULTILINE)


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
"""Other ends of a line in YAML 1.1."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    strange = not _OTHER_BREAKS.isdisjoint(text)
    style = '"' if strange else "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
_add_resolvers(_Dumper)
