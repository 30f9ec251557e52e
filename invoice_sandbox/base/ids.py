"""Identifiers. Ids of resources derive from a seed; secrets are random."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
import zlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random
from typing import Final

BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = [first + second for first in _CROCKFORD for second in _CROCKFORD]
"""Two characters for every ten bits."""

_DRAWN: Final = Random(secrets.randbits(256))  # noqa: S311  ids of requests are no secrets
"""Draws what must differ and is not a secret, without a call of the operating system each time."""

if hasattr(os, "register_at_fork"):  # so that two processes do not draw the same
    os.register_at_fork(after_in_child=lambda: _DRAWN.seed(secrets.randbits(256)))

REQUEST_PREFIX: Final = "req_sandbox_"
KEY_PREFIX: Final = "ilk_sandbox_"
"""Of the key of the server; a project may choose another one for the keys that it issues."""

KEY_BODY_LENGTH: Final = 30
KEY_CHECKSUM_LENGTH: Final = 6


def random_seed() -> int:
    """A random seed of a workspace."""
    return secrets.randbits(63)


def seed_token(seed: int) -> str:
    """Eight characters that represent a seed inside ids."""
    digest = hashlib.sha256(f"ids/{seed}".encode()).digest()
    return base64.b32encode(digest).decode()[:8].lower()


def resource_id(prefix: str, token: str, number: int) -> str:
    """``inv_sandbox`` and 7 give ``inv_sandbox_k2v5q7xa_0007``."""
    return f"{prefix}_{token}_{number:04d}"


def seeded_request_id(seed: int, number: int, now: datetime, prefix: str = REQUEST_PREFIX) -> str:
    """A ULID whose random part derives from the workspace's seed."""
    drawn = hashlib.sha256(f"requests/{seed}/{number}".encode()).digest()[:10]
    return prefix + _ulid(now, int.from_bytes(drawn))


def random_request_id(now: datetime, prefix: str = REQUEST_PREFIX) -> str:
    """A ULID for a request without a workspace."""
    return prefix + _ulid(now, _DRAWN.getrandbits(80))


def new_key(prefix: str = KEY_PREFIX) -> str:
    """A new API key: prefix, 30 random Base62 characters, 6 characters of checksum."""
    body = "".join(secrets.choice(BASE62) for _ in range(KEY_BODY_LENGTH))
    return prefix + body + key_checksum(body)


def new_secret() -> str:
    """256 random bits in hex: a session id, or the key of a signature."""
    return secrets.token_hex(32)


def key_checksum(body: str) -> str:
    """CRC-32 of ``body`` as six Base62 characters: a typing error is detected without a look-up."""
    return _digits(zlib.crc32(body.encode("ascii")), BASE62, KEY_CHECKSUM_LENGTH)


def prefix_of_key(key: str) -> str:
    """Return the part of a key before its random characters."""
    return key[: -(KEY_BODY_LENGTH + KEY_CHECKSUM_LENGTH)]


def key_problem(key: str) -> str | None:
    """Return why ``key`` cannot be a sandbox key, without the key; None if it can."""
    body = key.removeprefix(KEY_PREFIX)
    if not key.startswith(KEY_PREFIX):
        return f"a sandbox key begins with {KEY_PREFIX}"
    if len(body) != KEY_BODY_LENGTH + KEY_CHECKSUM_LENGTH or not set(body) <= set(BASE62):
        return f"after {KEY_PREFIX} come 36 characters of 0-9, A-Z, a-z"
    if key_checksum(body[:KEY_BODY_LENGTH]) != body[KEY_BODY_LENGTH:]:
        return "its last six characters are not the checksum of the thirty before them"
    return None


def key_digest(key: str) -> str:
    """SHA-256 of the whole key in hex: the only part of it that is stored."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _ulid(now: datetime, randomness: int) -> str:
    milliseconds = max(0, (now - _EPOCH) // _MILLISECOND)
    high, low, pairs = randomness >> 40, randomness & 0xFFFFFFFFFF, _PAIRS
    return (
        f"{_ulid_time(milliseconds >> 10)}{pairs[milliseconds & 1023]}{pairs[high >> 30]}"
        f"{pairs[high >> 20 & 1023]}{pairs[high >> 10 & 1023]}{pairs[high & 1023]}"
        f"{pairs[low >> 30]}{pairs[low >> 20 & 1023]}{pairs[low >> 10 & 1023]}{pairs[low & 1023]}"
    )


@lru_cache(maxsize=64)  # it is the same for a second
def _ulid_time(seconds: int) -> str:
    return "".join([_PAIRS[seconds >> shift & 1023] for shift in range(30, -1, -10)])


def _digits(number: int, alphabet: str, length: int) -> str:
    text = ""
    for _ in range(length):
        number, digit = divmod(number, len(alphabet))
        text = alphabet[digit] + text
    return text


def camel_case(name: str) -> str:
    """``get_clock`` and ``get-clock`` as ``getClock``."""
    first, *others = re.split("[_-]", name)
    return first + "".join(word.capitalize() for word in others)


def snake_case(name: str) -> str:
    """``listAPIKeys`` and ``listApiKeys`` give ``list_api_keys``."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"\W+", "_", words).lower()
