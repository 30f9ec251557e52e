"""Request bodies: which media types an operation takes, and how forms become JSON values.

Read are ``application/x-www-form-urlencoded`` and ``multipart/form-data`` (RFC 7578). A file is a
string in which each character stands for one byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from invoice_sandbox.openapi.message.coercion import Shape, TextError, read_json, read_text
from invoice_sandbox.openapi.message.media_types import (
    MULTIPART,
    URLENCODED,
    MediaType,
    declared_for,
    is_json,
    parse,
)
from invoice_sandbox.openapi.message.multipart import MAX_FIELDS, FormError, Part, read_multipart
from invoice_sandbox.openapi.message.parameters import Parameter, compile_parameter
from invoice_sandbox.openapi.message.styles import Given
from invoice_sandbox.openapi.schema.compile import Checker, Schemas

BODY_LIMIT: Final = 256 * 1024
_STYLED: Final = frozenset({"style", "explode", "allowReserved"})


@dataclass(frozen=True)
class Form:
    """The fields that a schema describes.

    ``styled`` are those that are written like parameters of a query. ``content_types`` are those
    that a field may have, where the contract declares it.
    """

    shape: Shape
    checker: Checker
    styled: tuple[Parameter, ...] = ()
    content_types: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def read(self, raw: bytes, content_type: str) -> Any:
        """Return the object that a body stands for; of two readings the valid one.

        Raises FormError.
        """
        is_urlencoded = parse(content_type).name == URLENCODED
        parts = read_urlencoded(raw) if is_urlencoded else read_multipart(raw, content_type)
        first = self._object(parts, literally=False)
        if self.checker.is_valid(first):
            return first
        second = self._object(parts, literally=True)
        return second if self.checker.is_valid(second) else first

    def _object(self, parts: Sequence[Part], *, literally: bool) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for parameter in self.styled:
            own = [part for part in parts if _is_of(part.name, parameter)]
            parts = [part for part in parts if part not in own]
            value |= _styled(parameter, own)
        fields: dict[str, list[Part]] = {}
        for part in parts:
            fields.setdefault(part.name, []).append(part)
        for name, own in fields.items():
            value[name] = self._field(name, own, literally=literally)
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
        """True if the field is JSON: by its own type, else by the contract's, else because it
        begins like an object where an object is wanted."""
        if part.media_type:
            return is_json(part.media_type)
        declared = self.content_types.get(name)
        if declared is not None:
            return all(map(is_json, declared))
        return "object" in shape.types and part.text.lstrip()[:1] in {"{", "["}

    def _check_content_type(self, name: str, part: Part) -> None:
        declared = self.content_types.get(name)
        if declared is None or not part.media_type:
            return
        if not any(parse(media_type).covers(parse(part.media_type)) for media_type in declared):
            raise FormError(f"{name[:60]} must be sent as {' or '.join(declared)}")


def _is_of(name: str, parameter: Parameter) -> bool:
    """True for ``meta[a]`` of the ``deepObject`` meta, and for ``a`` of a meta that is exploded."""
    is_bracketed = parameter.other_names and name.startswith(f"{parameter.name}[")
    return name == parameter.name or is_bracketed or name in (parameter.members or ())


def _styled(parameter: Parameter, parts: Sequence[Part]) -> dict[str, Any]:
    """Return the value of a field by its name; nothing if it was not sent. Raises FormError."""
    try:
        candidates = parameter.candidates(Given([(part.name, part.raw) for part in parts]))
    except TextError as error:
        raise FormError(f"{parameter.name} {error}") from None
    valid = [value for value in candidates if parameter.checker.is_valid(value)]
    chosen = (valid or candidates)[:1]
    return {parameter.name: chosen[0]} if chosen else {}


def read_urlencoded(raw: bytes) -> list[Part]:
    """Return the fields of a body. Raises FormError."""
    pairs = [pair for pair in raw.split(b"&") if pair]
    if len(pairs) > MAX_FIELDS:
        raise FormError(f"the body has more than {MAX_FIELDS} fields")
    try:
        return [_pair(pair) for pair in pairs]
    except UnicodeDecodeError:
        raise FormError("the body is not valid UTF-8") from None


def _pair(pair: bytes) -> Part:
    name, _, raw = pair.partition(b"=")
    texts = [unquote_to_bytes(text.replace(b"+", b" ")).decode() for text in (name, raw)]
    return Part(texts[0], texts[1], raw.decode())


def _json(part: Part) -> Any:
    try:
        return read_json(part.text)
    except TextError as error:
        raise FormError(f"{part.name[:60]} {error}") from None


@dataclass(frozen=True)
class RequestBody:
    """``checkers`` by media type or range, ``required`` as declared, ``limit`` in bytes.

    ``forms`` and ``texts`` are those of the media types that are read as such. The limit is
    BODY_LIMIT unless ``x-max-bytes`` declares another.
    """

    required: bool
    checkers: Mapping[str, Checker]
    limit: int
    forms: Mapping[tuple[str, str], Form] = field(default_factory=dict)
    texts: Mapping[str, Shape] = field(default_factory=dict)

    def declared_for(self, media_type: MediaType) -> str | None:
        """Return the declared media type, or range, that a body of this type has, or None."""
        if not media_type.parameters and media_type.name in self.checkers:
            return media_type.name
        return declared_for(self.checkers, media_type)


def compile_body(raw: Mapping[str, Any], schemas: Schemas, place: str) -> RequestBody:
    """Return the compiled form of one Request Body Object. Raises SchemaError."""
    content = {media_type.lower(): media for media_type, media in raw.get("content", {}).items()}
    checkers = {
        declared: schemas.checker(media.get("schema", True), place)
        for declared, media in content.items()
    }
    forms = {
        (declared, form): _form(form, content[declared], checkers[declared], schemas, place)
        for declared in content
        for form in (URLENCODED, MULTIPART)
        if parse(declared).covers(MediaType(form, parse(declared).parameters))
    }
    shapes = {
        declared: Shape(media["schema"], schemas)
        for declared, media in content.items()
        if "schema" in media
    }
    return RequestBody(
        required=bool(raw.get("required", False)),
        checkers=checkers,
        limit=int(raw.get("x-max-bytes", BODY_LIMIT)),
        forms=forms,
        texts=shapes,
    )


def _form(
    media_type: str, media: Mapping[str, Any], checker: Checker, schemas: Schemas, place: str
) -> Form:
    """Return the form that a Media Type Object describes. Raises SchemaError."""
    shape = Shape(media.get("schema", True), schemas)
    encodings: Mapping[str, Mapping[str, Any]] = media.get("encoding", {})
    styled = tuple(
        compile_parameter(
            {**encoding, "name": name, "in": "query", "schema": shape.member(name).schema},
            schemas,
            f"{place}, {name}",
            shape.members.keys() - {name},
        )
        for name, encoding in encodings.items()
        if media_type == URLENCODED and _STYLED & encoding.keys()
    )
    content_types = {
        name: tuple(text.strip().lower() for text in encoding["contentType"].split(","))
        for name, encoding in encodings.items()
        if "contentType" in encoding
    }
    return Form(shape, checker, styled, content_types)
