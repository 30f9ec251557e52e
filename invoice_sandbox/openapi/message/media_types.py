"""Media types: the declared one that a message has, or that a client accepts (RFC 9110)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"
URLENCODED: Final = "application/x-www-form-urlencoded"
MULTIPART: Final = "multipart/form-data"

_PART: Final = re.compile(r';\s*([^=;\s]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"\s]*))')
_CONCRETE: Final = {
    "text": "text/plain",
    "image": "image/png",
    "audio": "audio/mpeg",
    "video": "video/mp4",
    "font": "font/woff2",
    "multipart": "multipart/mixed",
}
_JSON: Final = re.compile(r"(?:application|text)/json|[^/;]+/[^/;]+\+json", re.IGNORECASE)
_ABOUT_TEXT: Final = frozenset({"charset", "boundary"})


@dataclass(frozen=True)
class MediaType:
    """``name`` is ``type/subtype`` in lower case; a range has ``*`` in it, such as ``text/*`` or
    ``application/*+json``. ``parameters`` are those that make it another type: neither its charset
    nor its boundary. ``charset`` is empty when it is not declared."""

    name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    charset: str = ""

    def covers(self, other: MediaType) -> bool:
        """True if ``other`` is this type, or one within this range."""
        type_, _, subtype = self.name.partition("/")
        of_type = type_ in {"*", other.name.partition("/")[0]}
        is_range = subtype[:1] == "*" and of_type and other.name.endswith(subtype[1:])
        is_named = self.name == other.name or is_range
        return is_named and self.parameters.items() <= other.parameters.items()

    @property
    def rank(self) -> tuple[int, int, int]:
        """Its rank among others: the larger, the more specific."""
        return (2 - self.name.count("*"), "*+" in self.name, len(self.parameters))


@lru_cache(maxsize=256)
def parse(text: str) -> MediaType:
    """``Application/JSON; charset=utf-8`` is ``application/json`` in the charset ``utf-8``."""
    name, _, rest = text.partition(";")
    parameters = {key.lower(): quoted or plain for key, quoted, plain in _PART.findall(f";{rest}")}
    significant = {key: value for key, value in parameters.items() if key not in _ABOUT_TEXT}
    return MediaType(name.strip().lower(), significant, parameters.get("charset", "").lower())


@lru_cache(maxsize=256)
def is_json(media_type: str) -> bool:
    """True if the media type is JSON: ``application/json``, ``text/json``, or one with the suffix
    ``+json`` (https://mimesniff.spec.whatwg.org/#json-mime-type)."""
    return _JSON.fullmatch(media_type.partition(";")[0].strip()) is not None


def is_text(media_type: str) -> bool:
    """True for ``text/plain``, whose bytes are the characters of a text."""
    return media_type.partition(";")[0].strip() == "text/plain"


def declared_for(declared: Iterable[str], given: MediaType) -> str | None:
    """Return the most exact of the ``declared`` types and ranges that covers ``given``, or None."""
    fitting = [media_type for media_type in declared if parse(media_type).covers(given)]
    return max(fitting, key=lambda media_type: parse(media_type).rank, default=None)


@lru_cache(maxsize=256)
def concrete(declared: str) -> str:
    """Return the type to respond with under a declared type or range: JSON if the range has it."""
    type_, _, subtype = parse(declared).name.partition("/")
    if subtype.startswith("*+"):
        return f"{type_}/vnd.example{subtype[1:]}"
    if subtype != "*":
        return declared
    return JSON if type_ in {"*", "application"} else _CONCRETE.get(type_, f"{type_}/plain")


def json_first(declared: Iterable[str]) -> list[str]:
    """The declared types, the one for a client without a preference first: JSON before others, a
    type before a range, ``application/json`` before other JSON; otherwise in their order."""

    def place(one: str) -> tuple[bool, bool, bool]:
        return not is_json(concrete(one)), "*" in one, parse(one).name != JSON

    return sorted(declared, key=place)


def preferred(declared: Iterable[str], accept: str) -> str | None:
    """The ``declared`` type that an ``Accept`` header likes best; None if it wants none of them.

    Of several that it likes equally, the first.
    """
    ranges = list(_ranges(accept))
    best, liked = None, 0.0
    for media_type in declared:
        quality = _quality(ranges, parse(concrete(media_type)))
        if quality > liked:
            best, liked = media_type, quality
    return best


def _ranges(accept: str) -> Iterator[tuple[MediaType, float]]:
    for text in accept.split(","):
        wanted = parse(text)
        if not wanted.name:
            continue
        weight = wanted.parameters.get("q", "1")
        significant = {key: value for key, value in wanted.parameters.items() if key != "q"}
        yield MediaType(wanted.name, significant), _weight(weight)


def _weight(text: str) -> float:
    return float(text) if re.fullmatch(r"[01](?:\.[0-9]{0,3})?", text, re.ASCII) else 0.0


def _quality(ranges: Iterable[tuple[MediaType, float]], given: MediaType) -> float:
    """Return the weight of the most exact range that covers the type; 0 if there is none."""
    fitting = [(range_.rank, weight) for range_, weight in ranges if range_.covers(given)]
    return max(fitting, default=((0, 0, 0), 0.0))[1]
