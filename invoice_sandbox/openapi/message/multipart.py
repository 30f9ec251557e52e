"""The parts of a ``multipart/form-data`` body (RFC 7578), by Werkzeug's decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.http import parse_options_header
from werkzeug.sansio.multipart import Data, Epilogue, Field, File, MultipartDecoder

from invoice_sandbox.openapi.message.media_types import is_json, parse
from invoice_sandbox.openapi.message.parts import MAX_FIELDS, FormError, Part

_MAX_BOUNDARY: Final = 200


def read_multipart(raw: bytes, content_type: str) -> list[Part]:
    """The parts of a body. Raises FormError."""
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


def _parts(decoder: MultipartDecoder) -> Iterator[Part]:
    """The parts, of which each is followed by its bytes. Raises ValueError, UnicodeError."""
    head: Field | File | None = None
    data = bytearray()
    while not isinstance(event := decoder.next_event(), Epilogue):
        if isinstance(event, Field | File):
            head, data = event, bytearray()
        elif isinstance(event, Data) and head is not None:
            data += event.data
            if not event.more_data:
                yield _part(head, bytes(data))


def _part(head: Field | File, data: bytes) -> Part:
    if not head.name:
        raise FormError("the body has a part without a name")
    declared = parse(head.headers.get("content-type", ""))
    has_text = is_json(declared.name) or (
        isinstance(head, Field) and declared.name[:5] in {"", "text/"}
    )
    text = data.decode() if has_text else data.decode("latin-1")
    return Part(head.name, text, text, declared.name)
