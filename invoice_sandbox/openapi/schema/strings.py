"""Strings for generated examples: by format, by pattern, or a few readable words."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from random import Random
from typing import Final
from uuid import UUID

from invoice_sandbox.openapi.schema.patterns import matching

INSTANT: Final = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
"""Every generated date and time is this instant, or a few days after it when values must differ."""


@dataclass(frozen=True)
class Wanted:
    """What is known about a string: ``words`` is a readable guess, lengths are in characters."""

    words: str
    min_length: int = 0
    max_length: int | None = None
    formats: Sequence[str] = ()
    patterns: Sequence[str] = ()
    vary: bool = False


def candidates(wanted: Wanted, rng: Random) -> Iterator[str]:
    """Strings that may be what is wanted, the most readable first; never more than a few hundred.

    Raises PatternError when a pattern cannot be read.
    """
    number = rng.randint(10, 99)
    for name in wanted.formats:
        yield from _formatted(name, rng, wanted.vary)
    if not wanted.patterns:
        words = f"{wanted.words} {number}" if wanted.vary else wanted.words
        yield _fitted(words, wanted)
    yield from chain.from_iterable(
        matching(each, wanted.min_length, rng) for each in wanted.patterns
    )
    if len(wanted.patterns) > 1:
        together = [matching(each, wanted.min_length, rng) for each in wanted.patterns]
        yield from ("".join(texts) for texts in zip(*together, strict=False))
    for _ in range(4):
        length = max(wanted.min_length, min(8, wanted.max_length or 8))
        yield "".join(rng.choice(string.ascii_lowercase) for _ in range(length))


def _fitted(text: str, wanted: Wanted) -> str:
    while len(text) < wanted.min_length:
        text += f" {text or 'text'}"
    if wanted.max_length is None or len(text) <= wanted.max_length:
        return text
    return text[len(text) - wanted.max_length :] if wanted.vary else text[: wanted.max_length]


def _formatted(name: str, rng: Random, vary: bool) -> Iterator[str]:
    moment = INSTANT + timedelta(days=rng.randint(1, 300)) if vary else INSTANT
    for _ in range(4):
        number = rng.randint(10, 999)
        for template in _FORMATS.get(name, ()):
            if callable(template):
                yield template(rng)
            else:
                yield moment.strftime(template.replace("{n}", str(number)))
        moment = INSTANT + timedelta(days=rng.randint(1, 300), minutes=rng.randint(0, 999))


def _uuid(rng: Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


def _ipv4(rng: Random) -> str:
    return f"192.0.2.{rng.randint(1, 254)}"


def _ipv6(rng: Random) -> str:
    return f"2001:db8::{rng.randint(1, 0xFFFF):x}"


# A template is text for strftime in which {n} stands for a number, or a function of the generator.
_FORMATS: Final[dict[str, Sequence[str | Callable[[Random], str]]]] = {
    "date": ("%Y-%m-%d",),
    "date-time": ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.000Z", "%Y-%m-%dT%H:%M:%S+00:00"),
    "time": ("%H:%M:%SZ", "%H:%M:%S+00:00"),
    "duration": ("P{n}D", "PT1H", "P1D", "P1Y2M{n}DT4H5M6S"),
    "email": ("person{n}@example.com", "a{n}@b.co", "person.with.a.long.name{n}@mail.example.com"),
    "idn-email": ("person{n}@example.com", "a{n}@b.co"),
    "hostname": ("host{n}.example.com", "h{n}.co", "h"),
    "idn-hostname": ("host{n}.example.com", "h{n}.co", "h"),
    "ipv4": (_ipv4, "10.0.0.1", "198.51.100.{n}"),
    "ipv6": (_ipv6, "::1", "2001:0db8:0000:0000:0000:0000:0000:0{n}"),
    "uri": ("https://example.com/{n}", "http://example.com/{n}", "urn:example:{n}", "a:{n}"),
    "uri-reference": ("https://example.com/{n}", "/items/{n}", "/{n}"),
    "iri": ("https://example.com/{n}", "a:{n}"),
    "iri-reference": ("https://example.com/{n}", "/{n}"),
    "uri-template": ("/items/{n}", "/items/{id}", "/{n}"),
    "uuid": (_uuid,),
    "regex": ("^[a-z]{n}$", "a{n}", "a"),
    "json-pointer": ("/items/{n}", "/{n}", ""),
    "relative-json-pointer": ("{n}/items", "0"),
    "byte": ("ZXhhbXBsZQ==", "YQ=="),
    "base64": ("ZXhhbXBsZQ==", "YQ=="),
}
