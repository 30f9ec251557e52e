"""Passwords of users, of which only a hash is kept.

The hash is Argon2id (RFC 9106) with the parameters that OWASP recommends for 19 MiB of memory. They
are part of its text, and no others are accepted: every comparison costs the same.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final

from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.base.rate_limits import RateLimiter

HASHES_PER_WORKSPACE: Final = 120
HASHES_PER_SERVER: Final = 600
"""Passwords that are hashed in a minute, about 40 ms of CPU time each."""

WRONG_PASSWORDS: Final = 10
"""Wrong passwords in a minute for one e-mail address, from one client address."""

WRONG_LOGINS: Final = 60
"""The same for all e-mail addresses: one client cannot use up what a workspace has."""

SIDE_BY_SIDE: Final = 2
"""Passwords that a process hashes at a time, in 19 MiB of memory each."""

_WORKSPACE, _SERVER = "passwords", "passwords of the server"
_WRONG, _CLIENT = "wrong passwords", "wrong logins"

_TIME, _MEMORY, _LANES = 2, 19456, 1
_SALT, _LENGTH = 16, 32
_FORM: Final = re.compile(
    rf"\$argon2id\$v=19\$m={_MEMORY},t={_TIME},p={_LANES}\$[A-Za-z0-9+/]{{22}}\$[A-Za-z0-9+/]{{43}}"
)
_NOBODY: Final = (
    f"$argon2id$v=19$m={_MEMORY},t={_TIME},p={_LANES}"
    "$bm9ib2R5J3Mgc2FsdC4uLg$bm9ib2R5J3MgaGFzaCwgb2Ygbm8gcGFzc3dvcmQuLi4"
)
"""The hash that a password is compared with for an address that no user has."""


def hash_password(password: str) -> str:
    """A hash of ``password`` with a random salt, as ``$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH``.

    It takes about 40 ms of CPU time.
    """
    from argon2.low_level import Type, hash_secret

    return hash_secret(
        _bytes(password), secrets.token_bytes(_SALT), _TIME, _MEMORY, _LANES, _LENGTH, Type.ID
    ).decode()


def is_password_hash(text: str) -> bool:
    """True if ``text`` is a hash as ``hash_password`` makes it."""
    return _FORM.fullmatch(text) is not None


def password_matches(password: str, hashed: str) -> bool:
    """True if ``hashed`` is a hash of ``password``. It takes as long as ``hash_password``."""
    from argon2.exceptions import VerificationError
    from argon2.low_level import Type, verify_secret

    if not is_password_hash(hashed):
        return False
    try:
        return verify_secret(hashed.encode(), _bytes(password), Type.ID)
    except VerificationError:
        return False


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")


class Passwords:
    """Hashes passwords beside the event loop: few at a time, and not many in a minute.

    ``with_public``: a user may have a public password, which is no secret and needs no hash.
    Whatever is hashed takes one of the ``turns``.
    """

    def __init__(self, system_clock: SystemClock, *, with_public: bool) -> None:
        most = {
            _WORKSPACE: HASHES_PER_WORKSPACE,
            _SERVER: HASHES_PER_SERVER,
            _WRONG: WRONG_PASSWORDS,
            _CLIENT: WRONG_LOGINS,
        }
        self._limiter = RateLimiter(most, system_clock)
        self._with_public = with_public
        self.turns = asyncio.Semaphore(SIDE_BY_SIDE)

    def count(self, workspace_id: str) -> None:
        """Count a password that is about to be hashed. Raises ApiError 429."""
        self._limiter.count(_WORKSPACE, workspace_id)
        self._limiter.count(_SERVER, "")

    def attempt(self, workspace_id: str, client: str | None, email: str) -> Callable[[], None]:
        """Count a login as failed; call what it returns if it succeeds. Raises ApiError 429."""
        origin = f"{workspace_id} {client}"
        address = key_digest(email)  # which may be as long as a body
        counted = ((_CLIENT, origin), (_WRONG, f"{origin} {address}"))
        for policy, caller in counted:
            self._limiter.count(policy, caller)
        self.count(workspace_id)

        def succeeded() -> None:
            for policy, caller in counted:
                self._limiter.take_back(policy, caller)

        return succeeded

    async def hashed(self, password: str) -> str:
        """A hash of ``password``."""
        async with self.turns:
            return await asyncio.to_thread(hash_password, password)

    async def matches(self, password: str, hashed: str | None) -> bool:
        """True if ``hashed`` is a hash of ``password``; None takes as long, and is of nobody."""
        async with self.turns:
            same = await asyncio.to_thread(password_matches, password, hashed or _NOBODY)
        return same and hashed is not None

    def matches_public(self, password: str, public: str) -> bool:
        """True if it is the public password of a user."""
        return self._with_public and hmac.compare_digest(_bytes(password), _bytes(public))
