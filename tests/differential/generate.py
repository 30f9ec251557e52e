"""Generated requests: those of the contract's examples, with members, parameters and heads changed.

Everything derives from a seed. Ids are those that earlier responses have shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, NamedTuple

from tests.test_published_contract import ENDPOINTS, JSON, MERGED, Row, operation

_IDS: Final = {
    "invoiceId": "invoices",
    "invoiceIds": "invoices",
    "financingRequestId": "financing-requests",
    "endpointId": "webhooks",
    "partnerId": "partners",
    "id": "api-keys",
}
"""The members and parameters that are ids, and the paths whose records have them."""

_VALUES: Final[Sequence[Any]] = [
    *[None, True, 0, 1, -1, 12500.5, 1e-7, 10**20, 0.1, "", " ", "x" * 300, "é\u200b", "EUR"],
    *["usd", "2026-02-30", "2026-12-01", "2026-12-01T00:00:00Z", [], ["a"], {}, {"a": [{"b": 1}]}],
]
_TEXTS: Final = [
    *[
        "",
        "0",
        "1",
        "-1",
        "2",
        "100",
        "101",
        "abc",
        "Registered",
        "EUR",
        "2026-01-01",
        "%41",
        "null",
    ],
    *[
        "null",
        "a%20b",
        "2030-01-01T00:00:00Z",
        "invoice.registered",
        "org_seller_acme",
        "DE",
        "de",
        "XX",
    ],
]
_HEADS: Final[Sequence[Mapping[str, str]]] = [
    {"Authorization": ""},
    {"Authorization": "Bearer nothing"},
    {"Authorization": "Basic Og=="},
    {"Content-Type": "text/plain"},
    {"Content-Type": "application/json; charset=utf-8"},
    {"Content-Type": ""},
    {"Accept": "text/html"},
    {"Idempotency-Key": "one"},
    {"Idempotency-Key": '"two"'},
    {"Prefer": "code=404"},
    {"X-Sandbox-Scenario": "happy-path"},
]
_BROKEN: Final = [
    *[b"", b"{", b"[]", b"null", b'"text"', b'{"amount": NaN}', b'{"a": "\\ud800"}', b"\xff"],
]


class Request(NamedTuple):
    """A request to an operation. A header with an empty value is not sent."""

    operation: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Generator:
    """Generates requests for one workspace."""

    random: Random
    seen: dict[str, list[str]] = field(default_factory=dict)

    def next(self) -> Request:
        """The next request."""
        row = self.random.choice(ENDPOINTS)
        method, path = row.method.upper(), row.path
        if self._once_in(60):
            method = self.random.choice(("PUT", "PATCH", "HEAD", "OPTIONS", "DELETE"))
        if self._once_in(60):
            path += self.random.choice(("/", "/none", "s"))
        for name in ("id", "country"):
            path = path.replace(f"{{{name}}}", self._text("invoiceId" if name == "id" else name))
        headers: Mapping[str, str] = {}
        if self._once_in(8):
            headers = self.random.choice(_HEADS)
        return Request(row.id, method, path + self._query(row), headers, self._body(row))

    def learn(self, request: Request, body: Any) -> None:
        """Remember the ids in the ``data`` of a response."""
        found = body.get("data") if isinstance(body, dict) else None
        collection = request.target.partition("?")[0].rpartition("/")[2]
        for one in found if isinstance(found, list) else [found]:
            if isinstance(one, dict) and isinstance(one.get("id"), str):
                self.seen.setdefault(collection, []).append(one["id"])

    def _once_in(self, number: int) -> bool:
        return self.random.randrange(number) == 0

    def _id(self, name: str) -> str:
        known = self.seen.get(_IDS.get(name, ""), [])
        return self.random.choice(known) if known and not self._once_in(10) else f"{name}_unknown"

    def _text(self, name: str) -> str:
        if name in _IDS and not self._once_in(10):
            return self._id(name)
        return self.random.choice(_TEXTS)

    def _query(self, row: Row) -> str:
        declared = operation(MERGED, row).get("parameters", ())
        names = [one["name"] for one in declared if one.get("in") == "query"]
        names += ["limit", "cursor"] if row.envelope == "ListResponse" else []
        chosen = [name for name in names if self._once_in(3)]
        if self._once_in(40):
            chosen.append("unknown")
        pairs = [f"{name}={self._text(name)}" for name in chosen]
        return f"?{'&'.join(pairs)}" if pairs else ""

    def _body(self, row: Row) -> bytes:
        content = operation(MERGED, row).get("requestBody", {}).get("content", {}).get(JSON, {})
        examples = [one["value"] for one in content.get("examples", {}).values()]
        if not examples:
            return b""
        if self._once_in(25):
            return self.random.choice(_BROKEN)
        body = self._with_ids(deepcopy(self.random.choice(examples)))
        if self._once_in(2):
            body = self._changed(body)
        return json.dumps(body).encode()

    def _with_ids(self, value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: self._with_ids(one, key) for key, one in value.items()}
        if isinstance(value, list):
            return [self._with_ids(one, name) for one in value]
        if name in _IDS and name != "id":
            return self._id(name)
        if name == "invoiceNumber":
            return f"{value}-{self.random.randrange(40)}"
        return value

    def _changed(self, body: Any) -> Any:
        """The body with one member changed, removed or added, at any depth."""
        if isinstance(body, dict) and body:
            name = self.random.choice(sorted(body))
            if isinstance(body[name], (dict, list)) and not self._once_in(3):
                return {**body, name: self._changed(body[name])}
            if self._once_in(3):
                return {key: one for key, one in body.items() if key != name}
            target = "unknownMember" if self._once_in(6) else name
            return {**body, target: self.random.choice(_VALUES)}
        if isinstance(body, list) and body and not self._once_in(3):
            at = self.random.randrange(len(body))
            return [*body[:at], self._changed(body[at]), *body[at + 1 :]]
        return self.random.choice(_VALUES)
