"""Bodies of forms: from their fields to the JSON value that their schema describes.

Read are ``application/x-www-form-urlencoded`` and ``multipart/form-data`` (RFC 7578). A file is a
string in which each character stands for one byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote_plus

from invoice_sandbox.openapi.message.media_types import MULTIPART, URLENCODED, is_json, parse
from invoice_sandbox.openapi.message.parameters import Candidates, reader
from invoice_sandbox.openapi.message.parts import FormError, Part, read_urlencoded
from invoice_sandbox.openapi.message.styles import DEEP, FORM, Given, Style
from invoice_sandbox.openapi.message.texts import Shape, TextError, read_json, read_text
from invoice_sandbox.openapi.schema.compile import Checker, Schemas

_STYLED: Final = ("style", "explode", "allowReserved")


@dataclass(frozen=True)
class _Styled:
    """A field that is written in a style of parameters."""

    name: str
    style: Style
    candidates: Candidates
    checker: Checker

    def owns(self, name: str, shape: Shape) -> bool:
        """Whether the field ``name`` is part of this one."""
        if self.style.style == DEEP:
            return name == self.name or name.startswith(f"{self.name}[")
        if self.style.is_spread and "object" in shape.types:
            return name in shape.members
        return name == self.name

    def value(self, given: Given) -> list[Any]:
        """The value, in a list; the list is empty when nothing was sent. Raises FormError."""
        try:
            candidates = self.candidates(given)
        except TextError as error:
            raise FormError(f"{self.name} {error}") from None
        valid = [one for one in candidates if self.checker.is_valid(one)]
        return (valid or candidates)[:1]


@dataclass(frozen=True)
class Form:
    """The fields that a schema describes. ``content_types`` are those that a field may have, where
    the contract declares it."""

    shape: Shape
    checker: Checker
    styled: tuple[_Styled, ...] = ()
    content_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def read(self, raw: bytes, content_type: str) -> Any:
        """The object that a body stands for; of two readings the valid one. Raises FormError."""
        parts = _READERS[parse(content_type).name](raw, content_type)
        first = self._object(parts, literally=False)
        if self.checker.is_valid(first):
            return first
        second = self._object(parts, literally=True)
        return second if self.checker.is_valid(second) else first

    def _object(self, parts: Sequence[Part], *, literally: bool) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for styled in self.styled:
            shape = self.shape.member(styled.name)
            own = [part for part in parts if styled.owns(part.name, shape)]
            parts = [part for part in parts if not styled.owns(part.name, shape)]
            for found in styled.value(Given([(part.name, part.raw) for part in own])):
                value[styled.name] = found
        groups: dict[str, list[Part]] = {}
        for part in parts:
            groups.setdefault(part.name, []).append(part)
        for name, some in groups.items():
            value[name] = self._field(name, some, literally=literally)
        return value

    def _field(self, name: str, parts: Sequence[Part], *, literally: bool) -> Any:
        for part in parts:
            self._check_content_type(name, part)
        shape = self.shape.member(name)
        if "array" not in shape.types:
            if len(parts) > 1:
                raise FormError(f"{name[:60]} is given more than once")
            return self._value(name, parts[0], shape, literally=literally)
        if len(parts) == 1 and self._is_json(name, parts[0], shape):
            whole = _json(parts[0])
            return whole if isinstance(whole, list) else [whole]
        return [
            self._value(name, part, shape.item(index), literally=literally)
            for index, part in enumerate(parts)
        ]

    def _value(self, name: str, part: Part, shape: Shape, *, literally: bool) -> Any:
        if self._is_json(name, part, shape):
            return _json(part)
        return read_text(part.text, shape.types, literally=literally)

    def _is_json(self, name: str, part: Part, shape: Shape) -> bool:
        """Whether the field is JSON: by its own account, else by the contract's, else because an
        object is wanted."""
        if part.media_type:
            return is_json(part.media_type)
        declared = self.content_types.get(name)
        if declared is not None:
            return all(is_json(one) for one in declared)
        return "object" in shape.types and part.text.lstrip()[:1] in {"{", "["}

    def _check_content_type(self, name: str, part: Part) -> None:
        declared = self.content_types.get(name)
        if declared is None or not part.media_type:
            return
        if not any(parse(one).covers(parse(part.media_type)) for one in declared):
            raise FormError(f"{name[:60]} must be sent as {' or '.join(declared)}")


def compile_form(
    media_type: str, media: Mapping[str, Any], checker: Checker, schemas: Schemas, place: str
) -> Form:
    """The form that a Media Type Object describes. Raises SchemaError."""
    shape = Shape(media.get("schema", True), schemas)
    encodings: Mapping[str, Mapping[str, Any]] = media.get("encoding", {})
    styled = []
    for name, encoding in encodings.items():
        if not any(word in encoding for word in _STYLED):
            continue
        style_name = encoding.get("style", FORM)
        explode = bool(encoding.get("explode", style_name == FORM))
        decode = unquote_plus if media_type == URLENCODED else str
        style, member = Style(name, style_name, explode, decode), shape.member(name)
        others = shape.members.keys() - {name}
        member_checker = schemas.checker(member.schema, f"{place}, {name}")
        styled.append(_Styled(name, style, reader(style, member, others), member_checker))
    content_types = {
        name: tuple(one.strip().lower() for one in encoding["contentType"].split(","))
        for name, encoding in encodings.items()
        if "contentType" in encoding
    }
    return Form(shape, checker, tuple(styled), content_types)


def _multipart(raw: bytes, content_type: str) -> list[Part]:
    from invoice_sandbox.openapi.message.multipart import (
        read_multipart,  # Werkzeug is slow to import
    )

    return read_multipart(raw, content_type)


def _json(part: Part) -> Any:
    try:
        return read_json(part.text)
    except TextError as error:
        raise FormError(f"{part.name[:60]} {error}") from None


_READERS: Final[Mapping[str, Callable[[bytes, str], list[Part]]]] = {
    URLENCODED: read_urlencoded,
    MULTIPART: _multipart,
}
