"""Strings that a pattern matches.

Patterns are ECMA-262 regular expressions and are parsed here: rstr picks from an unordered set (so
its result depends on PYTHONHASHSEED), exrex draws from the global random source and is AGPL, and
the parser of ``re`` is private and not ECMA-262.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from random import Random
from typing import Final

_TRIES: Final = 40
_MAX_LENGTH: Final = 50_000
_OPEN_END: Final = 1 << 20


class PatternError(ValueError):
    """A pattern that this module cannot produce text for; the message says why."""


def matching(pattern: str, min_length: int, rng: Random) -> Iterator[str]:
    """Texts for ``pattern``; later ones are longer and use more characters.

    Raises PatternError.
    """
    node = _parsed(pattern)
    spreads = (2, 0, min_length, 2 * min_length + 6, 12)
    for attempt in range(_TRIES):
        draw = _Draw(rng, spreads[attempt % len(spreads)], readable=attempt < _TRIES // 2)
        text = node(draw)
        yield text
        if len(text) < min_length:  # only helps where the pattern is not anchored
            filler = "x" * (min_length - len(text))
            yield from (text + filler, filler + text)


@dataclass
class _Draw:
    """One run through a pattern: how far open repeats go, and what the groups captured."""

    rng: Random
    spread: int
    readable: bool
    groups: dict[int, str] = field(default_factory=dict)
    left: int = _MAX_LENGTH

    def spend(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise PatternError("the pattern needs a text that is too long")


_Node = Callable[[_Draw], str]
_Ranges = list[range]

_DIGIT: Final = [range(0x30, 0x3A)]
_WORD: Final = [*_DIGIT, range(0x41, 0x5B), range(0x5F, 0x60), range(0x61, 0x7B)]
_SPACE: Final = [range(0x20, 0x21), range(0x09, 0x0E), range(0xA0, 0xA1)]
_CLASSES: Final = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_POOL: Final = "".join(
    chr(code)
    for code in chain(
        range(0x20, 0x7F),
        range(0xA1, 0x250),
        range(0x370, 0x460),
        range(0x5D0, 0x5EB),
        range(0x4E00, 0x4E40),
    )
    if unicodedata.category(chr(code)) != "Cn"
)
_PROPERTIES: Final = {
    "Letter": "L",
    "Alphabetic": "L",
    "Alpha": "L",
    "Uppercase_Letter": "Lu",
    "Uppercase": "Lu",
    "Lowercase_Letter": "Ll",
    "Lowercase": "Ll",
    "Number": "N",
    "Decimal_Number": "Nd",
    "Punctuation": "P",
    "Symbol": "S",
    "Separator": "Z",
    "Han": "CJK",
}


@lru_cache(maxsize=256)
def _parsed(pattern: str) -> _Node:
    parser = _Parser(pattern)
    node = parser.alternation()
    if parser.rest:
        raise PatternError(f"the pattern {pattern!r} has an unmatched ')'")
    return node


class _Parser:
    """Reads one pattern from left to right; every method returns what it read as a node."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.groups = 0

    @property
    def rest(self) -> str:
        return self.pattern[self.at :]

    def take(self, length: int = 1) -> str:
        text = self.pattern[self.at : self.at + length]
        if len(text) < length:
            raise PatternError(f"the pattern {self.pattern!r} ends too early")
        self.at += length
        return text

    def take_if(self, text: str) -> bool:
        found = self.pattern.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def take_match(self, expression: str) -> re.Match[str] | None:
        match = re.compile(expression).match(self.pattern, self.at)
        self.at = match.end() if match else self.at
        return match

    def alternation(self) -> _Node:
        branches = [self.sequence()]
        while self.take_if("|"):
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else lambda draw: draw.rng.choice(branches)(draw)

    def sequence(self) -> _Node:
        nodes: list[_Node] = []
        while self.rest and self.rest[0] not in "|)":
            nodes.append(self.repeated(self.atom()))
        return lambda draw: "".join([node(draw) for node in nodes])

    def repeated(self, node: _Node) -> _Node:
        match = self.take_match(r"(?:([*+?])|\{(\d+)(,?)(\d*)\})[?+]?")
        if match is None:
            return node
        sign, low, comma, high = match.groups()
        if sign:
            least, most = int(sign == "+"), 1 if sign == "?" else _OPEN_END
        else:
            least = int(low)
            most = int(high) if high else (_OPEN_END if comma else least)
        return lambda draw: _repeat(draw, node, least, most)

    def atom(self) -> _Node:
        char = self.take()
        if char == "(":
            return self.group()
        if char == "[":
            return _chosen(self.char_class())
        if char == ".":
            return _chosen(_inverted([range(0x0A, 0x0B), range(0x0D, 0x0E)]))
        if char in "^$":
            return _nothing
        return self.escape() if char == "\\" else _literal(char)

    def group(self) -> _Node:
        if self.take_match(r"\?(?:[=!]|<[=!])"):  # a look-around is left to the validator
            self._closed()
            return _nothing
        if not self.take_match(r"\?P?<\w+>") and self.take_match(r"\?[a-z-]*:?"):
            return self._closed()
        self.groups += 1
        return _captured(self.groups, self._closed())

    def _closed(self) -> _Node:
        node = self.alternation()
        if not self.take_if(")"):
            raise PatternError(f"the pattern {self.pattern!r} has an unmatched '('")
        return node

    def escape(self) -> _Node:
        if match := self.take_match(r"[1-9]\d?"):
            number = int(match[0])
            return lambda draw: draw.groups.get(number, "")
        if self.take_match(r"[bBAzZ]"):
            return _nothing
        return _chosen(self.escaped())

    def escaped(self) -> _Ranges:
        """The characters of an escape, in a class or outside one."""
        if match := self.take_match(r"([pP])\{(?:\w+=)?(\w+)\}"):
            ranges = _with_property(match[2])
            return _inverted(ranges) if match[1] == "P" else ranges
        if match := self.take_match(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]+)\}"):
            return _only(int(match[1] or match[2] or match[3], 16))
        if match := self.take_match(r"c([A-Za-z])"):
            return _only(ord(match[1]) % 32)
        char = self.take()
        if char.lower() in _CLASSES:
            ranges = _CLASSES[char.lower()]
            return _inverted(ranges) if char.isupper() else ranges
        return _only(ord(_CONTROLS.get(char, char)))

    def char_class(self) -> _Ranges:
        negated = self.take_if("^")
        ranges: _Ranges = []
        while not self.take_if("]"):
            first = self.class_member()
            if self.rest[:1] == "-" and self.rest[1:2] != "]" and len(first) == len(first[0]) == 1:
                self.take()
                first = [range(first[0].start, self.class_member()[0].stop)]
            ranges += first
        return _inverted(ranges) if negated else ranges

    def class_member(self) -> _Ranges:
        char = self.take()
        if char != "\\":
            return _only(ord(char))
        return _only(0x08) if self.take_if("b") else self.escaped()


def _nothing(_: _Draw) -> str:
    return ""


def _literal(char: str) -> _Node:
    return lambda _: char


def _only(code: int) -> _Ranges:
    return [range(code, code + 1)]


def _inverted(ranges: _Ranges) -> _Ranges:
    return [range(ord(c), ord(c) + 1) for c in _POOL if not any(ord(c) in each for each in ranges)]


def _with_property(name: str) -> _Ranges:
    """The members of a general category or script, among the characters of the pool."""
    short = _PROPERTIES.get(name, name)
    found = [c for c in _POOL if unicodedata.category(c).startswith(short)] or [
        c for c in _POOL if unicodedata.name(c, "").startswith(short.upper())
    ]
    if not found:
        raise PatternError(f"the property \\p{{{name}}} is not known here")
    return [range(ord(c), ord(c) + 1) for c in found]


def _chosen(ranges: _Ranges) -> _Node:
    """One of the characters; every group of characters is equally likely."""
    chars = [chr(code) for each in ranges for code in each[:128]]
    plain = [c for c in chars if c.isascii() and c.isalnum()]
    groups = [
        [c for c in chars if c in string.ascii_lowercase],
        [c for c in chars if c in string.ascii_uppercase],
        [c for c in chars if c in string.digits],
        [c for c in chars if c not in plain and c in string.printable],
    ]
    groups = [group for group in groups if group] or [chars]

    def node(draw: _Draw) -> str:
        draw.spend()
        if not chars:
            raise PatternError("the pattern has a class with no characters")
        return draw.rng.choice((plain or chars) if draw.readable else draw.rng.choice(groups))

    return node


def _captured(number: int, inner: _Node) -> _Node:
    def node(draw: _Draw) -> str:
        draw.groups[number] = inner(draw)
        return draw.groups[number]

    return node


def _repeat(draw: _Draw, node: _Node, least: int, most: int) -> str:
    times = least + draw.rng.randint(0, max(0, min(most - least, draw.spread)))
    parts: list[str] = []
    for _ in range(times):
        draw.spend()
        parts.append(node(draw))
    return "".join(parts)
