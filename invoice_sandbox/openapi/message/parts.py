"""The fields of a form as they were sent, and those of ``application/x-www-form-urlencoded``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

MAX_FIELDS: Final = 1000
"""Fields, or parts, of one form."""


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


def read_urlencoded(raw: bytes, _content_type: str) -> list[Part]:
    pairs = [pair for pair in raw.split(b"&") if pair]
    if len(pairs) > MAX_FIELDS:
        raise FormError(f"the body has more than {MAX_FIELDS} fields")
    return [_pair(pair) for pair in pairs]


def _pair(pair: bytes) -> Part:
    name, _, raw = pair.partition(b"=")
    try:
        texts = [unquote_to_bytes(one.replace(b"+", b" ")).decode() for one in (name, raw)]
        return Part(texts[0], texts[1], raw.decode())
    except UnicodeDecodeError:
        raise FormError("the body is not valid UTF-8") from None
