"""The parts of a ``multipart/form-data`` body (RFC 7578), by Werkzeug's decoder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.openapi.message.media_types import is_json, parse

MAX_FIELDS: Final = 1000
"""Fields, or parts, of one form."""

_MAX_BOUNDARY: Final = 200


class FormError(ValueError):
    """A body that is not the form that its content type declares; the message is a clause."""


@dataclass(frozen=True)
class Part:
    """One field as it was sent. ``text`` is decoded, ``raw`` is not; ``media_type`` is
    that of a part of a multipart body, if it has one."""

    name: str
    text: str
    raw: str
    media_type: str = ""


def read_multipart(raw: bytes, content_type: str) -> list[Part]:
    """Return the parts of a body. Raises FormError."""
    from werkzeug.exceptions import RequestEntityTooLarge  # Werkzeug is slow to import
    from werkzeug.http import parse_options_header
    from werkzeug.sansio.multipart import MultipartDecoder

    boundary = parse_options_header(content_type)[1].get("boundary", "")
    if not boundary or not boundary.isascii() or len(boundary) > _MAX_BOUNDARY:
        raise FormError("the body needs a boundary, which its content type must declare")
    decoder = MultipartDecoder(boundary.encode(), max_parts=MAX_FIELDS)
    decoder.receive_data(raw)
    decoder.receive_data(None)
    try:
        return list(_parts(decoder))
    except RequestEntityTooLarge:
        raise FormError(f"the body has more than {MAX_FIELDS} fields") from None
    except FormError:
        raise
    except UnicodeError:
        raise FormError("the body is not valid UTF-8") from None
    except ValueError:
        raise FormError("the body does not consist of parts between its boundaries") from None


def _parts(decoder: Any) -> Iterator[Part]:
    """Yield the parts, of which each is followed by its bytes. Raises ValueError, UnicodeError."""
    from werkzeug.sansio.multipart import Data, Epilogue, Field, File

    head: Field | File | None = None
    data = bytearray()
    while not isinstance(event := decoder.next_event(), Epilogue):
        if isinstance(event, Field | File):
            head, data = event, bytearray()
        elif isinstance(event, Data) and head is not None:
            data += event.data
            if not event.more_data:
                yield _part(head.name, head.headers, bytes(data), is_file=isinstance(head, File))


def _part(name: str, headers: Any, data: bytes, *, is_file: bool) -> Part:
    if not name:
        raise FormError("the body has a part without a name")
    declared = parse(headers.get("content-type", ""))
    has_text = is_json(declared.name) or (not is_file and declared.name[:5] in {"", "text/"})
    text = data.decode() if has_text else data.decode("latin-1")
    return Part(name, text, text, declared.name)
