"""Texts and numbers that satisfy a few schemas together, for generated values."""

from __future__ import annotations

import re
import string
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from math import ceil, floor
from random import Random
from re import _constants, _parser  # the parse tree of a pattern, which has no public name
from typing import Any, Final
from uuid import UUID

from jsonschema_rs import Draft202012Validator

Schemas = Sequence[Mapping[str, Any]]

_LONGEST: Final = 1_000_000
_TRIES: Final = 40
_INSTANT: Final = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
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
    texts = [text for name in formats for text in _of_format(name, number, random)]
    texts += [_of_length(f"{words} {number}" if number else words, least, most)]
    is_valid = _checker(schemas)
    like = (text for pattern in patterns for text in texts_like(pattern, random, least))
    for text in chain(texts, like):
        if is_valid(text):
            return text
    bounds = {"pattern": patterns, "format": formats, "minLength": least, "maxLength": most}
    wanted = ", ".join(f"{key} {value}" for key, value in bounds.items() if value)
    raise NoScalarError(f"no text was found for {wanted}")


def number_for(schemas: Schemas, whole: bool, random: Random) -> int | float:
    """Return a multiple of the roundest step that has one in the bounds. Raises NoScalarError."""
    steps = [Fraction(1, 10**digits) for digits in range(1 if whole else 16)]
    multiples = [Fraction(str(multiple)) for multiple in said(schemas, "multipleOf")]
    if multiples:
        step = max(multiples)
        steps = [step * step.denominator if whole else step]
    for step in steps:
        low, high = _multiples(schemas, step)
        if low <= high:
            value = step * random.randint(low, high)
            return int(value) if value.denominator == 1 else float(value)
    raise NoScalarError("no number was found between its bounds")


def said(schemas: Schemas, keyword: str) -> list[Any]:
    """Return the values that the schemas have for a keyword."""
    return [schema[keyword] for schema in schemas if keyword in schema]


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


def _checker(schemas: Schemas) -> Callable[[Any], bool]:
    keywords = ("pattern", "format", "minLength", "maxLength")
    parts = [{key: schema[key] for key in keywords if key in schema} for schema in schemas]
    try:
        return Draft202012Validator({"allOf": [{}, *parts]}, validate_formats=True).is_valid
    except ValueError as error:
        raise NoScalarError(str(error).splitlines()[0]) from None


def _multiples(schemas: Schemas, step: Fraction) -> tuple[int, int]:
    """Return the least and greatest n for which n * step is within the bounds; 100 from an end
    that is open."""
    lows = [ceil(bound / step) for bound in _bounds(schemas, "minimum")]
    lows += [floor(bound / step) + 1 for bound in _bounds(schemas, "exclusiveMinimum")]
    highs = [floor(bound / step) for bound in _bounds(schemas, "maximum")]
    highs += [ceil(bound / step) - 1 for bound in _bounds(schemas, "exclusiveMaximum")]
    if lows:
        return max(lows), min(highs, default=max(lows) + 99)
    high = min(highs, default=100)
    return min(1 if high > 0 else high - 99, high), high


def _bounds(schemas: Schemas, keyword: str) -> list[Fraction]:
    """Return the bounds exactly."""
    return [Fraction(str(bound)) for bound in said(schemas, keyword)]


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


@lru_cache(maxsize=256)
def _parsed(pattern: str) -> Any:
    """Return the parse tree of an ECMA-262 pattern, as far as Python writes patterns alike."""
    text = re.sub(r"\(\?<(?=\w)", "(?P<", pattern)
    try:
        with warnings.catch_warnings(action="ignore"):  # of what later versions may read otherwise
            return _parser.parse(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise NoScalarError(
            f"no text can be generated for the pattern {pattern}: {error}"
        ) from None


_PRINTABLE: Final = "".join(map(chr, range(0x20, 0x7F)))
_WORD: Final = string.ascii_letters + string.digits + "_"
_CATEGORIES: Final = {
    _constants.CATEGORY_DIGIT: string.digits,
    _constants.CATEGORY_NOT_DIGIT: string.ascii_letters,
    _constants.CATEGORY_SPACE: " ",
    _constants.CATEGORY_NOT_SPACE: _WORD,
    _constants.CATEGORY_WORD: _WORD,
    _constants.CATEGORY_NOT_WORD: " -.",
}
"""Some characters of each category."""


@dataclass
class _Draw:
    """One text for a pattern: how far open repeats go, and how many nodes are left until repeats
    end."""

    random: Random
    spread: int
    readable: bool
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
            return self.sequence(value[3])
        if name.endswith("_REPEAT"):
            least, most, inner = value
            more = self.random.randint(0, max(0, min(int(most) - least, self.spread)))
            text = ""
            for _ in range(least + more):
                if self.left <= 0:
                    break
                text += self.sequence(inner)
            return text
        return ""

    def _one_of(self, characters: str) -> str:
        if not characters:
            raise NoScalarError("the pattern has a class with no characters")
        plain = [letter for letter in characters if letter.isascii() and letter.isalnum()]
        return self.random.choice(plain if self.readable and plain else characters)


def _characters(items: Sequence[tuple[Any, Any]]) -> str:
    """Return characters of a class."""
    found = ""
    for operation, value in items:
        if operation == _constants.LITERAL:
            found += chr(value)
        elif operation == _constants.RANGE:
            found += "".join(map(chr, range(value[0], min(value[1], value[0] + 127) + 1)))
        elif operation == _constants.CATEGORY:
            found += _CATEGORIES[value]
    if (_constants.NEGATE, None) in items:
        return "".join(letter for letter in _PRINTABLE if letter not in found)
    return found
