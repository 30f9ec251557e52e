"""Texts and numbers that satisfy a few schemas together, for generated values."""

from __future__ import annotations

import re
import string
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from math import ceil, floor, lcm
from random import Random
from re import _constants, _parser  # the parse tree of a pattern, which has no public name
from typing import Any, Final
from uuid import UUID

from jsonschema_rs import Draft202012Validator

Schemas = Sequence[Mapping[str, Any]]

_LONGEST: Final = 1_000_000
_TRIES: Final = 40
_INSTANT: Final = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
"""Generated dates and times are this instant, or some days after it where values differ."""


class NoScalarError(ValueError):
    """No text or number was found; the message says for which keywords."""


def text_for(schemas: Schemas, name: str, number: int, random: Random) -> str:
    """Return a text for all the schemas; ``name`` is that of its member.

    Texts of another ``number`` differ. Raises NoScalarError.
    """
    least, most = at_least(schemas, "minLength"), at_most(schemas, "maxLength", _LONGEST)
    if least > _LONGEST:
        raise NoScalarError(f"it needs a text of more than {_LONGEST:,} characters")
    formats = [*said(schemas, "format"), *said(schemas, "contentEncoding")]
    patterns = said(schemas, "pattern")
    words = next(iter(said(schemas, "title")), "") or _words(name) or "text"
    texts = [text for one in formats for text in _of_format(one, number, random)]
    texts += [_of_length(f"{words} {number}" if number else words, least, most)]
    is_valid = _checker((*patterns,), (*said(schemas, "format"),), least, most)
    like = (text for one in patterns for text in texts_like(one, random, least))
    for text in chain(texts, like):
        if is_valid(text):
            return text
    bounds = {"pattern": patterns, "format": formats, "minLength": least, "maxLength": most}
    wanted = ", ".join(f"{key} {value}" for key, value in bounds.items() if value)
    raise NoScalarError(f"no text was found for {wanted}")


def number_for(schemas: Schemas, whole: bool, number: int, random: Random) -> int | float:
    """Return a number for all the schemas: a multiple of the roundest step of which there is one
    between the bounds; not of 1 if ``number`` is large. Raises NoScalarError."""
    steps = [*_steps(schemas, whole)]
    for step in steps[min(number // 3, len(steps) - 1) :]:
        low, high = _multiples(schemas, step)
        if low <= high:
            value = step * random.randint(low, high)
            return int(value) if value.denominator == 1 else float(value)
    raise NoScalarError("no number was found between its bounds")


def said(schemas: Schemas, keyword: str) -> list[Any]:
    """Return the values that the schemas have for a keyword."""
    return [one[keyword] for one in schemas if keyword in one]


def at_least(schemas: Schemas, keyword: str) -> int:
    """Return the greatest value of a keyword such as ``minItems``."""
    return max(map(int, said(schemas, keyword)), default=0)


def at_most(schemas: Schemas, keyword: str, most: int) -> int:
    """Return the least value of a keyword such as ``maxItems``, and no more than ``most``."""
    return min(map(int, [most, *said(schemas, keyword)]))


def _words(name: str) -> str:
    """``ownerName`` and ``owner_name`` as people write them: ``Owner name``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-\s]+", " ", name).strip().capitalize()


def _of_length(text: str, least: int, most: int) -> str:
    repeated = text + f" {text}" * -(-max(0, least - len(text)) // (len(text) + 1))
    return repeated[-most:] if 0 < most < len(repeated) else repeated[:most]


@lru_cache(maxsize=1024)
def _checker(
    patterns: tuple[str, ...], formats: tuple[str, ...], least: int, most: int
) -> Callable[[Any], bool]:
    parts = [{"pattern": one} for one in patterns] + [{"format": one} for one in formats]
    schema = (
        {"allOf": parts, "minLength": least, "maxLength": most}
        if parts
        else {
            "minLength": least,
            "maxLength": most,
        }
    )
    try:
        return Draft202012Validator(schema, validate_formats=True).is_valid
    except ValueError as error:
        raise NoScalarError(str(error).splitlines()[0]) from None


def _steps(schemas: Schemas, whole: bool) -> Iterator[Fraction]:
    multiples = [Fraction(str(one)) for one in said(schemas, "multipleOf")]
    if multiples:
        scale = lcm(*(one.denominator for one in multiples))
        step = Fraction(lcm(*(int(one * scale) for one in multiples)), scale)
        yield step * step.denominator if whole else step
    else:
        yield from (Fraction(1, 10**digits) for digits in range(1 if whole else 16))


def _multiples(schemas: Schemas, step: Fraction) -> tuple[int, int]:
    """Return the least and greatest n for which n * step is within the bounds; 100 from an end
    that is open."""
    lows = [ceil(one / step) for one in _bounds(schemas, "minimum")]
    lows += [floor(one / step) + 1 for one in _bounds(schemas, "exclusiveMinimum")]
    highs = [floor(one / step) for one in _bounds(schemas, "maximum")]
    highs += [ceil(one / step) - 1 for one in _bounds(schemas, "exclusiveMaximum")]
    if lows:
        return max(lows), min(highs, default=max(lows) + 99)
    high = min(highs, default=100)
    return min(1 if high > 0 else high - 99, high), high


def _bounds(schemas: Schemas, keyword: str) -> list[Fraction]:
    """Return the bounds exactly."""
    return [Fraction(str(one)) for one in said(schemas, keyword)]


# --- formats


def _of_format(name: str, number: int, random: Random) -> Iterator[str]:
    moment = _INSTANT + timedelta(days=number, minutes=number)
    if name == "uuid":
        yield str(UUID(int=random.getrandbits(128), version=4))
    for template in _FORMATS.get(name, ()):
        yield moment.strftime(template.replace("{n}", str(number + 1)))


# A template is text for strftime in which {n} stands for a number; short ones are for maxLength.
_FORMATS: Final[Mapping[str, Sequence[str]]] = {
    "date": ("%Y-%m-%d",),
    "date-time": ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.000Z", "%Y-%m-%dT%H:%M:%S+00:00"),
    "time": ("%H:%M:%SZ", "%H:%M:%S+00:00"),
    "duration": ("P{n}D",),
    "email": ("person{n}@example.com", "a{n}@b.co"),
    "idn-email": ("person{n}@example.com", "a{n}@b.co"),
    "hostname": ("host{n}.example.com", "h{n}.co"),
    "idn-hostname": ("host{n}.example.com", "h{n}.co"),
    "ipv4": ("192.0.2.{n}",),
    "ipv6": ("2001:db8::{n}",),
    "uri": ("https://example.com/{n}", "urn:example:{n}"),
    "uri-reference": ("https://example.com/{n}", "/{n}"),
    "iri": ("https://example.com/{n}", "urn:example:{n}"),
    "iri-reference": ("https://example.com/{n}", "/{n}"),
    "uri-template": ("/items/{n}", "/items/{id}"),
    "regex": ("^[a-z]{n}$",),
    "json-pointer": ("/items/{n}",),
    "relative-json-pointer": ("{n}/items",),
    "byte": ("ZXhhbXBsZQ==",),
    "base64": ("ZXhhbXBsZQ==",),
}


# --- patterns


def texts_like(pattern: str, random: Random, least: int = 0) -> Iterator[str]:
    """Yield texts that a pattern may match; later ones are longer and use more characters.

    What is looked ahead for is left to chance, and to the validator. Raises NoScalarError.
    """
    tree = _parsed(pattern)
    spreads = (2, 0, least, 2 * least + 6, 12)
    for number in range(_TRIES):
        draw = _Draw(random, spreads[number % len(spreads)], number < _TRIES // 2)
        text = draw.sequence(tree)
        yield text
        if len(text) < least:  # only helps where the pattern is not anchored
            yield from (text.ljust(least, "x"), text.rjust(least, "x"))


_PROPERTY: Final = re.compile(r"\\p\{(?:\w+=)?(L|Lu|Ll|N|Nd|Letter|Number)\}")
_LETTERS: Final = {"Lu": "A-Z", "Ll": "a-z", "N": "0-9", "Nd": "0-9", "Number": "0-9"}


@lru_cache(maxsize=256)
def _parsed(pattern: str) -> Any:
    """The parse tree of an ECMA-262 pattern, as far as Python writes patterns alike."""

    def letters(found: re.Match[str]) -> str:
        is_in_class = pattern.rfind("[", 0, found.start()) > pattern.rfind("]", 0, found.start())
        range_ = _LETTERS.get(found[1], "A-Za-z")
        return range_ if is_in_class else f"[{range_}]"

    text = _PROPERTY.sub(letters, pattern)
    text = re.sub(r"\(\?<(?=\w)", "(?P<", text)
    text = re.sub(r"\\u\{([0-9a-fA-F]+)\}", lambda found: re.escape(chr(int(found[1], 16))), text)
    try:
        with warnings.catch_warnings(action="ignore"):  # of what later versions may read otherwise
            return _parser.parse(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise NoScalarError(
            f"no text can be generated for the pattern {pattern}: {error}"
        ) from None


_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))
_CATEGORIES: Final = {
    _constants.CATEGORY_DIGIT: string.digits,
    _constants.CATEGORY_SPACE: " ",
    _constants.CATEGORY_WORD: string.ascii_letters + string.digits + "_",
}
_NEGATED: Final = {
    _constants.CATEGORY_NOT_DIGIT: _constants.CATEGORY_DIGIT,
    _constants.CATEGORY_NOT_SPACE: _constants.CATEGORY_SPACE,
    _constants.CATEGORY_NOT_WORD: _constants.CATEGORY_WORD,
}


@dataclass
class _Draw:
    """One text for a pattern: how far open repeats go, what the groups captured, and how many
    nodes are left until repeats end."""

    random: Random
    spread: int
    readable: bool
    groups: dict[int, str] = field(default_factory=dict)
    left: int = 50_000

    def sequence(self, tree: Iterable[tuple[Any, Any]]) -> str:
        """Return a text for nodes of the parse tree, one after the other."""
        return "".join([self._node(operation, value) for operation, value in tree])

    def _node(self, operation: Any, value: Any) -> str:
        self.left -= 1
        name = str(operation)
        if name == "LITERAL":
            return chr(value)
        if name in {"IN", "NOT_LITERAL", "ANY"}:
            negated = [(_constants.NEGATE, None), (_constants.LITERAL, value or 0x0A)]
            return self._one_of(_characters(value if name == "IN" else negated))
        if name == "BRANCH":
            return self.sequence(self.random.choice(value[1]))
        if name == "SUBPATTERN":
            self.groups[value[0]] = text = self.sequence(value[3])
            return text
        if name.endswith("_REPEAT"):
            least, most, inner = value
            more = self.random.randint(0, max(0, min(int(most) - least, self.spread)))
            text = ""
            for _ in range(least + more):
                if self.left <= 0:
                    break
                text += self.sequence(inner)
            return text
        return self.groups.get(value, "") if name == "GROUPREF" else ""

    def _one_of(self, characters: str) -> str:
        if not characters:
            raise NoScalarError("the pattern has a class with no characters")
        plain = [one for one in characters if one.isascii() and one.isalnum()]
        if self.readable and plain:
            return self.random.choice(plain)
        groups = [string.ascii_lowercase, string.ascii_uppercase, string.digits]
        kinds = [[one for one in characters if one in group] for group in groups]
        kinds += [[one for one in characters if not one.isalnum()], [*characters]]
        return self.random.choice(self.random.choice([one for one in kinds if one]))


def _characters(items: Sequence[tuple[Any, Any]]) -> str:
    """The characters of a class."""
    found = ""
    for operation, value in items:
        if operation == _constants.LITERAL:
            found += chr(value)
        elif operation == _constants.RANGE:
            found += "".join(map(chr, range(value[0], min(value[1], value[0] + 127) + 1)))
        elif operation == _constants.CATEGORY:
            excluded = _CATEGORIES.get(_NEGATED.get(value), "")
            found += _CATEGORIES.get(value) or _without(excluded)
    return _without(found) if (_constants.NEGATE, None) in items else found


def _without(excluded: str) -> str:
    return "".join(one for one in _PRINTABLE if one not in excluded)
