"""Passwords of users, of which only a hash is kept.

The hash is scrypt of the standard library (RFC 7914), so it needs no other package. Its parameters
are those that OWASP recommends for 16 MiB of memory, and they are part of the text.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import Final

_COST, _BLOCKS, _PARALLEL = 14, 8, 5
_MAX_MEMORY: Final = 64 * 1024 * 1024
_LENGTH: Final = 32
_FORM: Final = re.compile(
    r"\$scrypt\$ln=(1[0-5]),r=8,p=([1-9])\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})"
)


def hash_password(password: str, *, cost: int = _COST, parallel: int = _PARALLEL) -> str:
    """A hash of ``password`` with a random salt, as ``$scrypt$ln=14,r=8,p=5$SALT$HASH``."""
    salt = secrets.token_bytes(16)
    found = _scrypt(password, salt, cost, parallel)
    return f"$scrypt$ln={cost},r={_BLOCKS},p={parallel}${_text(salt)}${_text(found)}"


def is_password_hash(text: str) -> bool:
    """Whether ``text`` is a hash as ``hash_password`` makes it, within its bounds of memory."""
    return _FORM.fullmatch(text) is not None


def password_matches(password: str, hashed: str) -> bool:
    """Whether ``hashed`` is a hash of ``password``. It takes about 0.2 s of CPU time."""
    form = _FORM.fullmatch(hashed)
    if form is None:
        return False
    cost, parallel, salt, expected = form.groups()
    found = _scrypt(password, base64.b64decode(f"{salt}=="), int(cost), int(parallel))
    return hmac.compare_digest(_text(found), expected)


def _scrypt(password: str, salt: bytes, cost: int, parallel: int) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "replace"),
        salt=salt,
        n=1 << cost,
        r=_BLOCKS,
        p=parallel,
        maxmem=_MAX_MEMORY,
        dklen=_LENGTH,
    )


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode().rstrip("=")
