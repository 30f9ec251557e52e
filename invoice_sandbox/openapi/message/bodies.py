"""Request bodies: which media types an operation takes, and how each is read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from invoice_sandbox.openapi.message.forms import Form, compile_form
from invoice_sandbox.openapi.message.media_types import (
    MULTIPART,
    URLENCODED,
    MediaType,
    declared_for,
    parse,
)
from invoice_sandbox.openapi.message.texts import Shape
from invoice_sandbox.openapi.schema.compile import Checker, Schemas

BODY_LIMIT: Final = 256 * 1024


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

    def declared_for(self, given: MediaType) -> str | None:
        """The declared media type, or range, that a body of this type has, or None."""
        if not given.parameters and given.name in self.checkers:
            return given.name
        return declared_for(self.checkers, given)


def compile_body(raw: Mapping[str, Any], schemas: Schemas, place: str) -> RequestBody:
    """The compiled form of one Request Body Object. Raises SchemaError."""
    content = {media_type.lower(): media for media_type, media in raw.get("content", {}).items()}
    checkers = {
        declared: schemas.checker(media.get("schema", True), place)
        for declared, media in content.items()
    }
    forms = {
        (declared, form): compile_form(form, content[declared], checkers[declared], schemas, place)
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
