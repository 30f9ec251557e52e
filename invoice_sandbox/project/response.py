"""The response of a handler."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Response(Struct, frozen=True):
    """``data`` goes into the success envelope, unless it is ``bare``: then it is the whole body.

    ``status`` is the contract's own unless given, and so is ``media_type``, which must be JSON:
    ``application/json`` if that is declared. Bytes are the whole body as they are, of a declared
    ``media_type``. ``hints`` explain it in the journal and the log.
    """

    data: Any
    headers: tuple[tuple[str, str], ...] = ()
    status: int | None = None
    bare: bool = False
    hints: tuple[str, ...] = ()
    media_type: str | None = None
