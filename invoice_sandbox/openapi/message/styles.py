"""Styles: the texts of lists and objects in a parameter (OpenAPI 3.1, Style Values; RFC 6570).

Delimiters are looked for in the text as it was sent. What they separate is decoded afterwards, so
that an encoded delimiter is part of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from invoice_sandbox.openapi.message.coercion import TextError

Pair = tuple[str, str]
Decode = Callable[[str], str]

FORM: Final = "form"
DEEP: Final = "deepObject"
MAX_LEVELS: Final = 8
"""Brackets behind the name of a ``deepObject``."""


class Given:
    """The names and texts at one place of a request, such as its query, as they were sent.

    ``pairs`` are in order, ``texts`` by name.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs
        self.texts: dict[str, list[str]] = {}
        for name, text in pairs:
            self.texts.setdefault(name, []).append(text)


@dataclass(frozen=True)
class Style:
    """The style of the parameter ``name``. ``decode`` undoes the encoding of one value."""

    name: str
    style: str
    explode: bool
    decode: Decode

    @property
    def is_spread(self) -> bool:
        """True if the members of an object are parameters of their own names."""
        return self.style == DEEP or (self.explode and self.style in _REPEATED)

    def scalar(self, texts: Sequence[str]) -> str:
        """Return the one value. Raises TextError for several, or for another style."""
        if len(texts) > 1:
            raise TextError("is given more than once")
        text = texts[0]
        if self.style in _SIGNS:
            text = self._after_name(text) if self.style == "matrix" else self._bare(text)
        return self.decode(text)

    def items(self, texts: Sequence[str]) -> list[str]:
        """Return the values of a list. Raises TextError."""
        return [self.decode(part) for part in self._parts(texts)]

    def members(self, texts: Sequence[str]) -> list[Pair]:
        """Return the members of an object that stands in one text. Raises TextError."""
        if self.explode and self.style in _EXPLODED_BY:
            delimiter = _EXPLODED_BY[self.style]
            parts = [part.partition("=") for part in self._bare(texts[0]).split(delimiter)]
            if not all(equals for _, equals, _ in parts):
                raise TextError(f"must be written as name=value{delimiter}name=value")
            return [(self.decode(name), self.decode(text)) for name, _, text in parts]
        words = self.items(texts)
        if len(words) % 2:
            raise TextError("must be written as name,value,name,value")
        return list(zip(words[::2], words[1::2], strict=True))

    def _parts(self, texts: Sequence[str]) -> list[str]:
        if self.style == DEEP or (self.style in _REPEATED and self.explode):
            return list(texts)
        if self.style == "simple":
            return [part.strip(" \t") for text in texts for part in text.split(",")]
        if len(texts) > 1:
            raise TextError("is given more than once")
        if self.style == "matrix" and self.explode:
            return [self._after_name(f";{part}") for part in self._bare(texts[0]).split(";")]
        text = self._after_name(texts[0]) if self.style == "matrix" else self._bare(texts[0])
        return text.split(self._delimiter(text))

    def _delimiter(self, text: str) -> str:
        """Return what separates the values: of two spellings, the one that the text uses."""
        spellings = _DELIMITERS[self.style]
        if self.style == "label" and self.explode:
            return "."
        return next((spelling for spelling in spellings if spelling in text), spellings[0])

    def _bare(self, text: str) -> str:
        """Return the text behind the sign that the style begins with."""
        sign = _SIGNS.get(self.style, "")
        if not text.startswith(sign):
            raise TextError(f"must begin with '{sign}'")
        return text[len(sign) :]

    def _after_name(self, text: str) -> str:
        name, _, value = self._bare(text).partition("=")
        if unquote(name) != self.name:
            raise TextError(f"must be written as ;{self.name}=value")
        return value


_SIGNS: Final = {"label": ".", "matrix": ";"}
_REPEATED: Final = frozenset({FORM, "spaceDelimited", "pipeDelimited"})
_EXPLODED_BY: Final = {"simple": ",", "label": ".", "matrix": ";"}
_DELIMITERS: Final = {
    FORM: (",",),
    "simple": (",",),
    "matrix": (",",),
    "label": (",", "."),
    "spaceDelimited": ("%20", "+", " "),
    "pipeDelimited": ("|", "%7C", "%7c"),
}
"""By style, the delimiters of what is not exploded, in every spelling that the specification has
had: OpenAPI 3.0 separates the values of a label by points."""


def bracketed(name: str, given: Given) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield ``("R",), "100"`` of ``color[R]=100`` for the parameter ``color``."""
    start = f"{name}["
    for full, text in given.pairs:
        if full.startswith(start) and full.endswith("]"):
            yield tuple(full[len(start) : -1].split("][", MAX_LEVELS)), text
