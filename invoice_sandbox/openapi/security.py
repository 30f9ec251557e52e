"""Who may call: the security schemes of a contract, and what its operations ask of them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

BEARER: Final = "bearer"
BASIC: Final = "basic"
MUTUAL_TLS: Final = "mutualTLS"

_AUTHORIZATION: Final = "authorization"
_REALM: Final = 'realm="sandbox"'


@dataclass(frozen=True)
class Scheme:
    """A way of sending a credential.

    ``location`` is bearer, basic, http (another scheme of the header Authorization, which ``name``
    is), header, cookie, query or mutualTLS; ``name`` is that of the header, cookie or parameter;
    ``written`` is the name of a header as the contract writes it.
    """

    location: str
    name: str
    written: str = field(default="", compare=False)

    @cached_property
    def header(self) -> str:
        """The header that the credential is in; empty if it is in none."""
        if self.location in {"query", MUTUAL_TLS}:
            return ""
        return {"header": self.name, "cookie": "cookie"}.get(self.location, _AUTHORIZATION)

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
        """The way to send a credential, in words for people."""
        words = {
            BEARER: "'Authorization: Bearer <token>'",
            BASIC: "'Authorization: Basic <base64 of user:password>'",
            "http": f"'Authorization: {self.name.capitalize()} <credentials>'",
            "header": f"'{self.written or self.name}: <key>'",
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
        return tuple(
            alternative for requirement in self.requirements for alternative in requirement
        )

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of the first requirement; the same for every other one of an operation."""
        first = self.requirements[0] if self.requirements else ()
        return tuple(scope for alternative in first for scope in alternative.scopes)


@dataclass(frozen=True)
class Carried:
    """Where a request has a key: in its ``headers``, by their names, and in its ``query``."""

    headers: Mapping[str, str] = field(repr=False)
    query: Mapping[str, str] = field(repr=False)


def key_schemes(
    operations: Iterable[Security], schemes: Mapping[str, Scheme]
) -> tuple[Scheme, ...]:
    """Return the schemes by which a request carries a key to each of the operations.

    Of alternatives one that is chosen already is enough; a bearer credential goes before others,
    and a cookie after them, in which a session is expected. An operation is left out if its scheme
    is another one of the header Authorization.
    """
    chosen: list[Scheme] = []
    every = [_alternatives(security, schemes) for security in dict.fromkeys(operations)]
    for alternatives in sorted(every, key=lambda ways: [*map(_preference, ways)][:1] != [0]):
        missing = [[scheme for scheme in way if scheme not in chosen] for way in alternatives]
        if all(missing):
            possible = (way for way in missing if not (_uses_header(way) and _uses_header(chosen)))
            chosen += next(possible, [])
    return tuple(chosen)


def _alternatives(security: Security, schemes: Mapping[str, Scheme]) -> list[list[Scheme]]:
    """Return the schemes of each requirement that a key can satisfy, the best first."""
    ways = [[schemes[each.scheme] for each in requirement] for requirement in security.requirements]
    keys = [[scheme for scheme in way if scheme.location != MUTUAL_TLS] for way in ways]
    return sorted(filter(None, keys), key=_preference)


def _preference(way: Sequence[Scheme]) -> int:
    locations = {scheme.location for scheme in way}
    return 0 if locations == {BEARER} else 2 if "cookie" in locations else 1


def _uses_header(way: Iterable[Scheme]) -> bool:
    """True if one of the schemes needs the header Authorization."""
    return any(_name_of(scheme) == _AUTHORIZATION for scheme in way)


def _name_of(scheme: Scheme) -> str:
    """Return the header of a scheme; nothing for the query."""
    if scheme.location in {BEARER, BASIC, "http"}:
        return _AUTHORIZATION
    return {"header": scheme.name, "cookie": "cookie"}.get(scheme.location, "")


def carried(schemes: Iterable[Scheme], key: str) -> Carried:
    """Return a key as each of the schemes says, and as the control API expects it as well."""
    headers: dict[str, str] = {}
    for scheme in schemes:
        text = {
            BEARER: f"Bearer {key}",
            BASIC: f"Basic {b64encode(f':{key}'.encode()).decode()}",
            "http": f"{scheme.name} {key}",
            "cookie": f"{scheme.name}={key}",
        }.get(scheme.location, key)
        name = _name_of(scheme)
        if name == "cookie" and name in headers:
            text = f"{headers[name]}; {text}"
        if name:
            headers[name] = text
    if _AUTHORIZATION not in headers:
        headers[_AUTHORIZATION] = f"Bearer {key}"
    elif headers[_AUTHORIZATION] != f"Bearer {key}":
        headers.setdefault("x-api-key", key)
    return Carried(headers, {scheme.name: key for scheme in schemes if scheme.location == "query"})


def compile_scheme(raw: Mapping[str, Any]) -> Scheme:
    """The form of one Security Scheme Object. OAuth 2 and OpenID Connect end in a bearer token."""
    if raw["type"] == "apiKey":
        name = raw["name"]
        return Scheme(raw["in"], name.lower() if raw["in"] == "header" else name, name)
    if raw["type"] == MUTUAL_TLS:
        return Scheme(MUTUAL_TLS, "")
    scheme = str(raw["scheme"]).lower() if raw["type"] == "http" else BEARER
    if scheme in {BEARER, BASIC}:
        return Scheme(scheme, _AUTHORIZATION)
    return Scheme("http", scheme)


def compile_security(requirements: Sequence[Mapping[str, Sequence[str]]]) -> Security:
    """Return the form of a list of Security Requirement Objects; an empty one lets everybody in."""
    return Security(
        requirements=tuple(
            tuple(Alternative(scheme, tuple(scopes)) for scheme, scopes in requirement.items())
            for requirement in requirements
            if requirement
        ),
        optional=not requirements or {} in requirements,
    )


def challenges(security: Security, schemes: Mapping[str, Scheme]) -> tuple[tuple[str, str], ...]:
    """Return the ``WWW-Authenticate`` headers of an error. A scheme of HTTP itself goes before the
    others, of which no client knows a challenge."""
    wanted = [schemes[alternative.scheme] for alternative in security.alternatives]
    wanted = [scheme for scheme in wanted if scheme.location != MUTUAL_TLS]
    of_http = [scheme for scheme in wanted if scheme.location in {BEARER, BASIC, "http"}]
    return tuple(
        ("WWW-Authenticate", text)
        for text in dict.fromkeys(scheme.challenge for scheme in of_http or wanted)
    )


def advice(security: Security, schemes: Mapping[str, Scheme]) -> str:
    """Return how to satisfy one of the requirements, in words."""
    return ", or ".join(
        dict.fromkeys(
            " with ".join(schemes[alternative.scheme].advice for alternative in requirement)
            for requirement in security.requirements
        )
    )
