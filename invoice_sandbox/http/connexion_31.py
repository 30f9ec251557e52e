"""The seam to Connexion: it routes requests by the document; OpenAPI 3.1 is ours until it can.

Connexion 3.3 refuses an OpenAPI 3.1 document and checks bodies as JSON Schema Draft 4, so its
routing is used and its other layers are not. Delete this module the day that upstream speaks 3.1
(spec-first/connexion issue 1396). What it settles, each with a test:

- the document is validated elsewhere, by openapi-spec-validator;
- a path with a final slash is another path (404), not a redirect;
- an unknown path and a wrong method are refusals from our own table, with an exact ``Allow``;
- HEAD is not GET: it is allowed where the contract declares it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final
from urllib.parse import unquote

with warnings.catch_warnings():
    # What Connexion imports is deprecated in Starlette and jsonschema; that is not ours to mend.
    warnings.simplefilter("ignore")
    from connexion.middleware.routing import RoutingMiddleware
    from connexion.resolver import Resolver
    from connexion.spec import OpenAPISpecification

from invoice_sandbox.http import Receive, Scope, Send
from invoice_sandbox.openapi.load.model import METHODS
from invoice_sandbox.openapi.operation import Contract, Operation, path_names

_FOUND: Final = "invoice_sandbox.found"


class _Specification(OpenAPISpecification):  # type: ignore[misc]  # Connexion ships no types
    """A document that has been validated already."""

    @classmethod
    def _validate_spec(cls, spec: Any) -> None:
        """Connexion would ask for 3.0 here."""


@dataclass(frozen=True)
class Match:
    """The operation that a request names, its contract, and its path parameters as text."""

    contract: Contract
    operation: Operation
    path_texts: Mapping[str, str]


class Router:
    """Finds the operation for a request, by Connexion's routing over one or more contracts."""

    def __init__(self, contracts: Sequence[Contract], resolve: Callable[[str], Any]) -> None:
        """``resolve`` gives the function of an operationId, as Connexion's resolver expects."""
        inner = sorted(contracts, key=lambda one: len(one.base_path), reverse=True)
        self._routings = [(contract, _routing(contract, resolve)) for contract in inner]

    async def match(self, scope: Scope) -> Match | None:
        """The operation for the path and method of ``scope``, or None.

        What the contract of the longest base path does not know may be another's.
        """
        for contract, routing in self._routings:
            found = await _match(contract, routing, scope)
            if found is not None:
                return found
        return None

    async def allowed(self, scope: Scope) -> tuple[str, ...]:
        """The methods that the contract declares for the path of ``scope``; empty: no such path."""
        methods = [method.upper() for method in METHODS]
        return tuple([name for name in methods if await self.match({**scope, "method": name})])


def _routing(contract: Contract, resolve: Callable[[str], Any]) -> Any:
    routing = RoutingMiddleware(_note_match)
    routing.add_api(
        _Specification(_routes(contract)),
        base_path=contract.base_path,
        resolver=Resolver(resolve),
    )
    for mount in routing.router.routes:
        mount.app.redirect_slashes = False
    routing.router.redirect_slashes = False
    return routing


async def _match(contract: Contract, routing: Any, scope: Scope) -> Match | None:
    found: list[Scope] = []
    # A fresh scope: Connexion writes into it. `%2F` inside a segment must stay one segment.
    await routing({**scope, "path": _path(scope), _FOUND: found}, _no_receive, _no_send)
    told = found[0]["extensions"]["connexion_routing"] if found else {}
    if told.get("operation_id") is None:
        return None
    operation = contract.operations[told["operation_id"]]
    if operation.method != scope["method"] or _is_another(contract, operation, scope):
        return None
    texts = found[0].get("path_params", {}).values()
    names = path_names(operation.path)
    return Match(contract, operation, dict(zip(names, map(_decoded, texts), strict=True)))


def _is_another(contract: Contract, operation: Operation, scope: Scope) -> bool:
    """Whether the path is one without parameters, which has not that method."""
    path = _path(scope).removeprefix(contract.base_path)
    return operation.path != path and path in contract.document["paths"]


def _routes(contract: Contract) -> dict[str, Any]:
    """The part of the document that routing needs: paths, methods and operationIds.

    Parameters are named by their order: Connexion knows no names such as ``{user.id}``. The first
    path that fits is taken, so those with fewer parameters come first (OpenAPI 3.1.0, Path
    Templating Matching), and HEAD before GET, which stands for it too.
    """
    paths: dict[str, Any] = {}
    for operation in sorted(contract.operations.values(), key=_rank):
        item = paths.setdefault(_numbered(operation.path), {})
        told = {"operationId": operation.id, "responses": {}}
        item.setdefault(operation.method.lower(), told)
    return {
        "openapi": contract.document["openapi"],
        "info": contract.document["info"],
        "paths": paths,
    }


def _rank(operation: Operation) -> tuple[list[int], bool]:
    """For each segment: 0 for a word, 1 for a word with a parameter in it, 2 for a parameter."""
    segments = operation.path.split("/")
    openness = [("{" in one) + (one[:1] == "{" and one[-1:] == "}") for one in segments]
    return openness, operation.method != "HEAD"


def _numbered(template: str) -> str:
    numbers = count(1)
    return re.sub(r"\{[^}]*\}", lambda _: f"{{p{next(numbers)}}}", template)


def _path(scope: Scope) -> str:
    raw: bytes = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return str(scope["path"])
    marked = raw.replace(b"%2f", b"%252F").replace(b"%2F", b"%252F")
    return unquote(marked.decode("latin-1"))


def _decoded(text: str) -> str:
    return text.replace("%2F", "/")


async def _note_match(scope: Scope, _receive: Receive, _send: Send) -> None:
    scope[_FOUND].append(scope)


async def _no_receive() -> Any:
    raise RuntimeError("routing reads no body")


async def _no_send(_message: Any) -> None:
    """Starlette answers a wrong method by itself; the answer of our own table is sent instead."""
