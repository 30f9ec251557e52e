"""Country codes as people write them."""

from __future__ import annotations

from typing import Final

_ALIASES: Final = {"UK": "GB"}


def country_code(text: str) -> str:
    """``de`` is DE, and UK is taken for GB; what is not ASCII stays as it is."""
    code = text.upper() if text.isascii() else text
    return _ALIASES.get(code, code)
