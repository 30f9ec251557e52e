"""Who may call: the security schemes of a contract, and what its operations ask of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

BEARER: Final = "bearer"
BASIC: Final = "basic"
MUTUAL_TLS: Final = "mutualTLS"

_REALM: Final = 'realm="sandbox"'


@dataclass(frozen=True)
class Scheme:
    """A way of sending a credential.

    ``location`` is bearer, basic, http (another scheme of the header Authorization, which ``name``
    is), header, cookie, query or mutualTLS; ``name`` is that of the header, cookie or parameter.
    """

    location: str
    name: str

    @property
    def challenge(self) -> str:
        """Its challenge in ``WWW-Authenticate`` (RFC 9110, section 11.6.1)."""
        if self.location == "http":
            return f"{self.name.capitalize()} {_REALM}"
        if self.location == BASIC:
            return f'Basic {_REALM}, charset="UTF-8"'
        if self.location == BEARER:
            return f"Bearer {_REALM}"
        return f'ApiKey {_REALM}, in="{self.location}", name="{self.name}"'

    @property
    def advice(self) -> str:
        """How to send a credential, in words for people."""
        words = {
            BEARER: "'Authorization: Bearer <token>'",
            BASIC: "'Authorization: Basic <base64 of user:password>'",
            "http": f"'Authorization: {self.name.capitalize()} <credentials>'",
            "header": f"'{self.name}: <key>'",
            "query": f"the query parameter '{self.name}'",
            "cookie": f"the cookie '{self.name}'",
        }
        return words.get(self.location, "a client certificate")


@dataclass(frozen=True)
class Alternative:
    """A scheme that a request may have to bring, and the scopes that go with it."""

    scheme: str
    scopes: tuple[str, ...]


@dataclass(frozen=True)
class Security:
    """Who may call: who satisfies one of the ``requirements``, by bringing all of its schemes.

    ``optional`` when the contract also allows no credential at all.
    """

    requirements: tuple[tuple[Alternative, ...], ...]
    optional: bool

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        """Every scheme that is asked for, alone or with others."""
        return tuple(one for requirement in self.requirements for one in requirement)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of the first requirement; the same for every other one of an operation."""
        first = self.requirements[0] if self.requirements else ()
        return tuple(scope for one in first for scope in one.scopes)


def compile_scheme(raw: Mapping[str, Any]) -> Scheme:
    """The form of one Security Scheme Object. OAuth 2 and OpenID Connect end in a bearer token."""
    if raw["type"] == "apiKey":
        return Scheme(raw["in"], raw["name"].lower() if raw["in"] == "header" else raw["name"])
    if raw["type"] == MUTUAL_TLS:
        return Scheme(MUTUAL_TLS, "")
    scheme = str(raw["scheme"]).lower() if raw["type"] == "http" else BEARER
    if scheme in {BEARER, BASIC}:
        return Scheme(scheme, "authorization")
    return Scheme("http", scheme)


def compile_security(requirements: Sequence[Mapping[str, Sequence[str]]]) -> Security:
    """The form of a list of Security Requirement Objects; an empty one lets everybody in."""
    return Security(
        requirements=tuple(
            tuple(Alternative(scheme, tuple(scopes)) for scheme, scopes in requirement.items())
            for requirement in requirements
            if requirement
        ),
        optional=not requirements or {} in requirements,
    )


def challenges(security: Security, schemes: Mapping[str, Scheme]) -> tuple[tuple[str, str], ...]:
    """The ``WWW-Authenticate`` headers of an error. A scheme of HTTP itself goes before the
    others, of which no client knows a challenge."""
    wanted = [schemes[one.scheme] for one in security.alternatives]
    wanted = [one for one in wanted if one.location != MUTUAL_TLS]
    of_http = [one for one in wanted if one.location in {BEARER, BASIC, "http"}]
    return tuple(
        ("WWW-Authenticate", text)
        for text in dict.fromkeys(one.challenge for one in of_http or wanted)
    )


def advice(security: Security, schemes: Mapping[str, Scheme]) -> str:
    """How to satisfy one of the requirements, in words."""
    return ", or ".join(
        dict.fromkeys(
            " with ".join(schemes[one.scheme].advice for one in requirement)
            for requirement in security.requirements
        )
    )
