"""Routing: Connexion finds the operation of every request and calls what responds to it.

Connexion's ``RoutingMiddleware`` stands before everything else. It gets the documents that are
served. Its Resolver finds the function of each operationId. The operations that it makes are
registered with the router of this module, because Starlette's contradicts OpenAPI: it takes the
first path that matches, rejects a parameter of another type by 404, redirects, and decodes slashes.

A path without parameters goes before templates, and has its own methods only. HEAD is served where
GET is. ``%2F`` does not separate segments. Every parameter is text.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from invoice_sandbox.base.errors import reject
from invoice_sandbox.http.endpoint import Endpoint
from invoice_sandbox.http.request import Receive, Reply, Request, Scope, Send
from invoice_sandbox.openapi.load.operations import named_operations, path_names
from invoice_sandbox.openapi.load.pointers import dereference
from invoice_sandbox.openapi.operation import Contract, Operation

with warnings.catch_warnings():
    # Connexion imports what Starlette and jsonschema deprecate, which we cannot fix here.
    warnings.simplefilter("ignore")
    from connexion.http_facts import METHODS
    from connexion.middleware.routing import RoutingAPI, RoutingMiddleware, RoutingOperation
    from connexion.resolver import Resolver
    from connexion.spec import OpenAPISpecification

_METHODS: Final = ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "QUERY")
"""In the order of ``Allow``."""


@dataclass(frozen=True)
class Page:
    """A document, or a page for people, at ``path``; ``below``: also at every path below it."""

    path: str
    respond: Callable[[Request], Awaitable[Reply]]
    methods: tuple[str, ...] = ("GET",)
    below: bool = False


@dataclass(frozen=True)
class Unrouted:
    """A path without the method of the request. ``methods`` are those of the path, in the order of
    ``Allow``; an unknown path has none, but ``meant`` may be one that is like it."""

    methods: tuple[str, ...] = ()
    meant: str = ""


Target = Endpoint | Page | Unrouted
"""The target of a request."""

Leaf = Callable[[Target, Scope, Receive, Send], Awaitable[None]]
"""Responds to a request for a target. ``scope["path_params"]`` has the texts of the parameters in
the path, ``scope["extensions"]["connexion_routing"]`` the operationId and the base path."""


class Routing(RoutingMiddleware):  # type: ignore[misc]  # Connexion ships no types
    """Connexion's routing, the ASGI entry of every HTTP request.

    What is added first goes before the rest. ``public_path`` is the path that the public URL of the
    server ends in; a proxy may take it off, or not.
    """

    def __init__(self, leaf: Leaf, public_path: str = "") -> None:
        super().__init__(partial(leaf, Unrouted()))
        self._public_path = public_path
        self._leaf = leaf
        self.router = _Router(leaf)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route a request, whose path may begin with that of the public URL."""
        begin = self._public_path
        if begin and scope["type"] == "http" and scope["path"].startswith(f"{begin}/"):
            raw: bytes = scope.get("raw_path") or b""
            path = {"path": scope["path"][len(begin) :], "raw_path": raw[len(quote(begin)) :]}
            scope = {**scope, **path}
        await super().__call__(scope, receive, send)

    def add_contract(
        self,
        contract: Contract,
        function_of: Callable[[str], Any],
        endpoint_of: Callable[[Contract, Operation, Any], Endpoint],
    ) -> None:
        """Route the operations of a contract.

        ``function_of`` returns the function of an operationId, ``endpoint_of`` the endpoint of an
        operation with its function.
        """
        self.add_api(
            _Specification(contract.document),
            base_path=contract.base_path,
            resolver=Resolver(function_of),
            endpoint_of=lambda name, function: endpoint_of(
                contract, contract.operations[name], function
            ),
        )

    def add_api(self, specification: OpenAPISpecification, **options: Any) -> None:
        """Add an API with a router that keeps to OpenAPI."""
        _API(specification, self._leaf, self.router.new_table(), **options)

    def add_pages(self, pages: Iterable[Page]) -> None:
        """Route pages."""
        table = self.router.new_table()
        for page in pages:
            operation = RoutingOperation(None, partial(self._leaf, page))
            for method in page.methods:
                table.add("", page.path, method, operation, below=page.below)


class _API(RoutingAPI):  # type: ignore[misc]  # Connexion ships no types
    """The operations of one document, each with the endpoint that it hands its requests to."""

    def __init__(
        self,
        specification: OpenAPISpecification,
        leaf: Leaf,
        routes: RouteTable,
        *,
        endpoint_of: Callable[[str, Any], Endpoint],
        **options: Any,
    ) -> None:
        self._leaf, self._routes, self._endpoint_of = leaf, routes, endpoint_of
        super().__init__(specification, next_app=leaf, **options)

    def add_paths(self) -> None:
        """Add all operations, also those of methods that Connexion leaves out."""
        super().add_paths()
        for path, item in self.specification["paths"].items():
            for method in item.keys() - METHODS - {"parameters"}:
                self.add_operation(path, method)

    def make_operation(self, operation: Any) -> RoutingOperation:
        """Return Connexion's operation, whose next application is the leaf with the endpoint."""
        endpoint = self._endpoint_of(operation.operation_id, operation.function)
        return RoutingOperation.from_operation(operation, partial(self._leaf, endpoint))

    @staticmethod
    def _framework_path_and_name(operation: Any, path: str) -> tuple[str, str]:
        return path, operation.operation_id

    def _add_operation_internal(
        self, method: str, path: str, operation: RoutingOperation, **_name: Any
    ) -> None:
        self._routes.add(self.base_path, path, method.upper(), operation)


class _Specification(OpenAPISpecification):  # type: ignore[misc]  # Connexion ships no types
    """A document as it is served: valid OpenAPI 3.1 that refers to nothing outside itself.

    Connexion's constructor would copy it, validate it as OpenAPI 3.0
    (https://github.com/spec-first/connexion/issues/1396), and follow every ``$ref`` to files and
    over the network, those in examples and extensions too.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        own = {"components": {}, **document, "paths": _paths(document)}
        self._spec = self._raw_spec = own  # of which Connexion sets the servers
        self._base_uri = ""


def _paths(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the paths with references to path items, parameters, bodies and responses followed.

    Every operation has a name. Its parameters are a list of its own, which Connexion lengthens.
    """
    paths: dict[str, Any] = {}
    for name, (path, method, raw) in named_operations(document).items():
        item = dereference(document, document["paths"][path])
        operations = paths.setdefault(path, {"parameters": item.get("parameters", [])})
        operations[method] = {
            **raw,
            "operationId": name,
            "parameters": [dereference(document, part) for part in raw.get("parameters", [])],
            "requestBody": dereference(document, raw.get("requestBody", {})),
            "responses": {
                status: dereference(document, response)
                for status, response in raw.get("responses", {}).items()
            },
        }
    return paths


_MOST_LETTERS: Final = 10**9


@dataclass(frozen=True)
class PathTemplate:
    """A path with parameters, cut into segments; each is its literal texts, percent-decoded, around
    parameters."""

    segments: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, path: str) -> PathTemplate:
        """The template that a path of an OpenAPI document is."""
        segments = (re.split(r"\{[^}]*\}", segment) for segment in path.split("/"))
        return cls(tuple(tuple(map(unquote, literals)) for literals in segments))

    @property
    def rank(self) -> list[int]:
        """For each segment 0 for a word, else the more the fewer letters are beside parameters."""
        return [
            0 if len(literals) == 1 else _MOST_LETTERS - sum(map(len, literals))
            for literals in self.segments
        ]

    def texts(self, segments: Sequence[str]) -> list[str] | None:
        """The text of each parameter in a path of these ``segments``; None if they do not fit."""
        if len(segments) != len(self.segments):
            return None
        found: list[str] = []
        for literals, segment in zip(self.segments, segments, strict=True):
            texts = segment_texts(literals, segment)
            if texts is None:
                return None
            found += texts
        return found


_WHOLE: Final = ("", "")
"""A segment that is one parameter."""


def segment_texts(literals: tuple[str, ...], segment: str) -> list[str] | None:
    """The text of each parameter between ``literals``, none of them empty; None if it does not fit.

    The first parameter is as long as possible, then the second. Each literal is looked for once,
    from the end, so the time grows with the length of the segment and not with its square.
    """
    if len(literals) == 1:
        return [] if segment == literals[0] else None
    if literals == _WHOLE:
        return [segment] if segment else None
    first, *inner, last = literals
    if not segment.startswith(first) or not segment.endswith(last):
        return None
    begin, end, found = len(first), len(segment) - len(last), []
    for literal in reversed(inner):
        at = segment.rfind(literal, begin + 1, max(0, end - 1))
        if at < 0:
            return None
        found.append(segment[at + len(literal) : end])
        end = at
    return [segment[begin:end], *reversed(found)] if end > begin else None


@lru_cache(maxsize=1024)
def _template(base_path: str, path: str) -> PathTemplate:
    """Return the template of a path below a base path."""
    words = ((unquote(word),) for word in base_path.split("/"))
    return PathTemplate((*words, *PathTemplate.of(path).segments[1:]))


@dataclass
class _Node:
    """A place in the tree: the segments that may follow it."""

    words: dict[str, _Node] = field(default_factory=dict)
    patterns: dict[tuple[str, ...], _Node] = field(default_factory=dict)
    end: _End | None = None
    is_open: bool = False

    def child(self, literals: tuple[str, ...]) -> _Node:
        """The node behind one more segment of a template."""
        if len(literals) == 1:
            return self.words.setdefault(literals[0], _Node())
        return self.patterns.setdefault(literals, _Node())


_Place = tuple[_Node, list[str]]


class _Route(NamedTuple):
    """An operation of Connexion, where it starts, and the names of the parameters in its path."""

    operation: RoutingOperation
    base_path: str
    names: list[str]


@dataclass
class _End:
    """The end of a template: its routes by method."""

    rank: tuple[list[int], int]
    methods: dict[str, _Route] = field(default_factory=dict)

    def route(self, method: str) -> _Route | None:
        """Return the route of a method; HEAD has that of GET if it has none of its own."""
        found = self.methods.get(method)
        return self.methods.get("GET") if found is None and method == "HEAD" else found


_Match = tuple[_End, list[str]]
"""The end that a path leads to, with the texts of its parameters."""


class RouteTable:
    """Routes of one document: a tree of segments, and the paths without parameters by themselves.

    Looking up a path visits no node twice.
    """

    def __init__(self) -> None:
        self._root: _Node = _Node()
        self._concrete: dict[tuple[str, ...], _End] = {}
        self.words: set[str] | None = set()
        """The beginning of paths; None: anything."""
        self.known: dict[tuple[str, ...], str] = {}
        """The paths without parameters, by how ``_plain`` reads them and their ends."""
        self._count = 0

    def add(
        self,
        base_path: str,
        path: str,
        method: str,
        operation: RoutingOperation,
        *,
        below: bool = False,
    ) -> None:
        """Register an operation. With ``below`` it also has every path below this one."""
        template = _template(base_path, path)
        first = template.segments[1] if len(template.segments) > 1 else ()
        if self.words is not None and len(first) == 1:
            self.words.add(first[0])
        else:
            self.words = None
        node = self._root
        for literals in template.segments:
            node = node.child(literals)
        self._count += 1
        node.end = node.end or _End((template.rank, self._count))
        node.end.methods.setdefault(method, _Route(operation, base_path, path_names(path)))
        if below:
            node.is_open = True
        if all(len(literals) == 1 for literals in template.segments):
            self._concrete[tuple(literals[0] for literals in template.segments)] = node.end
            read = _plain(f"{base_path}{path}")
            for start in range(len(read)):
                self.known.setdefault(read[start:], f"{base_path}{path}")

    def find(self, segments: tuple[str, ...]) -> list[_Match]:
        """The ends that a path leads to, the most exact first, each with its parameters."""
        concrete = self._concrete.get(segments)
        if concrete is not None:
            return [(concrete, [])]
        reached: list[_Place] = [(self._root, [])]
        for segment in segments:
            places, reached = reached, []
            for node, texts in places:
                if node.is_open:
                    reached.append((node, texts))
                word = node.words.get(segment)
                if word is not None:
                    reached.append((word, texts))
                for literals, child in node.patterns.items():
                    more = segment_texts(literals, segment)
                    if more is not None:
                        reached.append((child, texts + more))
            if not reached:
                return []
        ends = [(node.end, texts) for node, texts in reached if node.end is not None]
        return sorted(ends, key=lambda end: end[0].rank) if len(ends) > 1 else ends


class _Router:
    """Calls the operation that a path and a method lead to, in place of Starlette's router.

    The operation that fits best is in the first table that has one.
    """

    def __init__(self, leaf: Leaf) -> None:
        self._leaf = leaf
        self._tables: list[RouteTable] = []

    def new_table(self) -> RouteTable:
        """Add a table, behind the others."""
        table = RouteTable()
        self._tables.append(table)
        return table

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the operation with the texts of its parameters, or the leaf with Unrouted."""
        method, segments = scope["method"], _segments(scope)
        word = segments[1] if len(segments) > 1 else ""
        methods: set[str] = set()
        for table in self._tables:
            if table.words is not None and word not in table.words:
                continue
            for end, texts in table.find(segments):
                route = end.route(method)
                if route is not None:
                    await route.operation(_inner(scope, route, texts), receive, send)
                    return
                methods.update(end.methods)
        meant = "" if methods else self._meant(scope["path"])
        target = Unrouted(_allowed(methods), meant)
        await RoutingOperation(None, partial(self._leaf, target))(scope, receive, send)

    def _meant(self, path: str) -> str:
        """Return the known path that is like this one or its beginning; empty if there is none."""
        read = _plain(path)
        for length in range(min(len(read), _MOST_SEGMENTS), 0, -1):
            for table in self._tables:
                known = table.known.get(read[:length])
                if known and length == len(read):
                    return known
                if known and not path.startswith(f"{known}/"):
                    return f"{known}/..."
        return ""


_MOST_SEGMENTS: Final = 8


def _plain(path: str) -> tuple[str, ...]:
    """Return the segments of a path without what is easily mistaken: empty ones, letters in upper
    case, a plural."""
    return tuple(segment.lower().removesuffix("s") for segment in path.split("/") if segment)


def _segments(scope: Scope) -> tuple[str, ...]:
    """Return the decoded segments of a path. ``a%2Fb`` is one."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw:
        return tuple(scope["path"].split("/"))
    return tuple(map(unquote, raw.decode("latin-1").split("/")))


def _inner(scope: Scope, route: _Route, texts: Sequence[str]) -> Scope:
    """Return the scope of what is below a base path, from which Connexion takes both."""
    return {
        **scope,
        "root_path": scope.get("root_path", "") + route.base_path,
        "path_params": dict(zip(route.names, texts, strict=True)),
    }


def _allowed(methods: set[str]) -> tuple[str, ...]:
    """Return the methods of ``Allow``: those that are declared, and those that we respond to."""
    if not methods:
        return ()
    every = methods | {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())
    known = [method for method in _METHODS if method in every]
    return (*known, *sorted(every.difference(known)))


def without_target(request: Request, target: Unrouted) -> Reply:
    """Return the methods of a path without that of the request. Raises ApiError 404, 405."""
    methods = target.methods
    if not methods:
        raise reject(
            "unknown_path", meant=f"; did you mean {target.meant}?" if target.meant else ""
        )
    allowed = ", ".join(methods)
    if request.method == "OPTIONS":
        return Reply(204, headers=(("Allow", allowed),))
    raise reject("method_not_allowed", ("Allow", allowed), method=request.method, allowed=allowed)


def texts_of(request: Request) -> Mapping[str, str]:
    """Return the parameters in the path; those in which delimiters are looked for before they are
    decoded, as they were sent."""
    endpoint, decoded = request.target, request.path_texts
    if not endpoint.raw_parameters:
        return decoded
    template = _template(endpoint.contract.base_path, endpoint.operation.path)
    names = path_names(endpoint.operation.path)
    pairs = zip(template.segments, request.url.split("/"), strict=True)
    sent_segments = [unquote(sent) if len(word) == 1 else sent for word, sent in pairs]
    texts = template.texts(sent_segments)
    if texts is None:  # what is literal beside a parameter was sent encoded
        texts = [quote(decoded[name]) for name in names]
    sent_texts = zip(names, texts, strict=True)
    return {
        **decoded,
        **{name: text for name, text in sent_texts if name in endpoint.raw_parameters},
    }
