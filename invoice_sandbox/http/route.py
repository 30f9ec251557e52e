"""Stage 2, route: from a path and a method to an endpoint or a page, or to 404 and 405.

Connexion resolves every operation to the function that carries it out (``resolution``). What it
found is kept, because importing it takes longer than the rest of the start, and fills the route
table here.

A path without parameters goes before those with some, and has its own methods only. HEAD is not
GET. An encoded slash does not separate segments, and no request is redirected.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import quote, unquote

from invoice_sandbox.base.errors import reject
from invoice_sandbox.http.pipeline import Endpoint, OperationStages, Reply, Request, RoutedRequest
from invoice_sandbox.http.read import check_length
from invoice_sandbox.openapi.load.operations import path_names
from invoice_sandbox.openapi.operation import Contract

_METHODS: Final = ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE")
"""In the order of ``Allow``."""


def resolved_operations(
    contract: Contract, resolve: Callable[[str], Any]
) -> list[tuple[str, str, str, Any]]:
    """Path, method, operationId and function of every operation, as Connexion resolves them.

    ``resolve`` returns the function of an operationId.
    """
    from invoice_sandbox.http.resolution import resolved

    return resolved(_paths(contract), contract.base_path, resolve)


def _paths(contract: Contract) -> dict[str, Any]:
    """The part of the document that Connexion needs: paths, methods and operationIds.

    Connexion follows every ``$ref`` that it sees, to files and over the network: it sees none.
    """
    paths: dict[str, Any] = {}
    for operation in contract.operations.values():
        item = paths.setdefault(operation.path, {})
        item[operation.method.lower()] = {"operationId": operation.id, "responses": {}}
    return {"openapi": contract.document["openapi"], "paths": paths}


_MOST_LETTERS: Final = 10**9


@dataclass(frozen=True)
class PathTemplate:
    """A path with parameters, cut into segments; each is its literal texts, percent-decoded, around
    parameters."""

    segments: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, path: str) -> PathTemplate:
        """The template that a path of an OpenAPI document is."""
        segments = (re.split(r"\{[^}]*\}", one) for one in path.split("/"))
        return cls(tuple(tuple(map(unquote, one)) for one in segments))

    @property
    def rank(self) -> list[int]:
        """For each segment 0 for a word, else the more the fewer letters are beside parameters."""
        return [0 if len(one) == 1 else _MOST_LETTERS - sum(map(len, one)) for one in self.segments]

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


@dataclass(frozen=True)
class Page:
    """A public target beside the operations: a document, or a page for people."""

    respond: Callable[[Request], Awaitable[Reply]]
    methods: tuple[str, ...] = ("GET", "HEAD")


Target = Endpoint | Page


@dataclass
class _Node:
    """A place in the tree: the segments that may follow it."""

    words: dict[str, _Node] = field(default_factory=dict)
    patterns: dict[tuple[str, ...], _Node] = field(default_factory=dict)
    leaf: _Leaf | None = None
    is_open: bool = False

    def child(self, literals: tuple[str, ...]) -> _Node:
        """The node behind one more segment of a template."""
        if len(literals) == 1:
            return self.words.setdefault(literals[0], _Node())
        return self.patterns.setdefault(literals, _Node())

    def follow(self, segment: str, texts: list[str], found: list[_Place]) -> None:
        """Add every node that a segment of a path leads to, with the parameters so far."""
        if self.is_open:
            found.append((self, texts))
        word = self.words.get(segment)
        if word is not None:
            found.append((word, texts))
        for literals, node in self.patterns.items():
            more = segment_texts(literals, segment)
            if more is not None:
                found.append((node, texts + more))


_Place = tuple[_Node, list[str]]


@dataclass
class _Leaf:
    """The end of a template: its targets by method, with the names of the parameters."""

    template: PathTemplate
    rank: tuple[list[int], int]
    methods: dict[str, tuple[Target, list[str]]] = field(default_factory=dict)


_End = tuple[_Leaf, list[str]]
"""Where a path leads, with the texts of its parameters."""


class RouteTable:
    """Routes of one document: a tree of segments, and the paths without parameters by themselves.

    Looking up a path visits no node twice.
    """

    def __init__(self) -> None:
        self._root: _Node = _Node()
        self._concrete: dict[tuple[str, ...], _Leaf] = {}
        self._count = 0

    def add(
        self, base_path: str, path: str, method: str, target: Target, *, below: bool = False
    ) -> None:
        """Register a target. With ``below`` it also has every path below this one."""
        own = PathTemplate.of(path)
        template = PathTemplate(
            (*((unquote(word),) for word in base_path.split("/")), *own.segments[1:])
        )
        node = self._root
        for literals in template.segments:
            node = node.child(literals)
        self._count += 1
        node.leaf = node.leaf or _Leaf(template, (template.rank, self._count))
        node.leaf.methods.setdefault(method, (target, path_names(path)))
        if below:
            node.is_open = True
        if all(len(one) == 1 for one in template.segments):
            self._concrete[tuple(one[0] for one in template.segments)] = node.leaf

    def find(self, segments: Sequence[str]) -> list[_End]:
        """The ends that a path leads to, the most exact first, each with its parameters."""
        concrete = self._concrete.get(tuple(segments))
        if concrete is not None:
            return [(concrete, [])]
        reached: list[_Place] = [(self._root, [])]
        for segment in segments:
            places, reached = reached, []
            for node, texts in places:
                node.follow(segment, texts, reached)
            if not reached:
                return []
        ends = [(node.leaf, texts) for node, texts in reached if node.leaf is not None]
        return sorted(ends, key=lambda end: end[0].rank) if len(ends) > 1 else ends


class Router:
    """Finds what a request is for, in one or more tables; the first that has it counts."""

    def __init__(self, tables: Sequence[RouteTable]) -> None:
        self._tables = tables

    def targets(self, request: Request) -> dict[str, Target]:
        """The targets at the path of the request, by method."""
        found: dict[str, Target] = {}
        for leaf, _ in self._leaves(request):
            for method, (target, _) in leaf.methods.items():
                found.setdefault(method, target)
        return found

    async def __call__(self, request: Request) -> RoutedRequest | Reply:
        """The request with its operation and body, or the response of what needs no operation.

        Raises ApiError 404, 405, and 413 for the length that a body is declared to have.
        """
        for leaf, texts in self._leaves(request):
            if request.method not in leaf.methods:
                continue
            target, names = leaf.methods[request.method]
            if isinstance(target, Page):
                return await target.respond(request)
            request.trace.endpoint = target
            path_texts = request.trace.path_texts = dict(zip(names, texts, strict=True))
            if target.raw_parameters:
                path_texts = path_texts | _texts_as_sent(request, target, leaf.template, names)
            if target.operation.body is not None:
                await check_length(request, target.operation.body)
            return RoutedRequest(request, target, path_texts)
        return _without_target(request, self.targets(request))

    def _leaves(self, request: Request) -> Sequence[_End]:
        """The ends of the path, the most exact first, those of the first table before others."""
        segments = _segments(_path_as_sent(request))
        return [end for table in self._tables for end in table.find(segments)]


def _texts_as_sent(
    request: Request, endpoint: Endpoint, template: PathTemplate, names: Sequence[str]
) -> dict[str, str]:
    """The parameters in which delimiters are looked for before they are decoded."""
    pairs = zip(template.segments, request.url.split("/"), strict=True)
    texts = template.texts([unquote(sent) if len(one) == 1 else sent for one, sent in pairs])
    if texts is None:  # what is literal beside a parameter was sent encoded
        texts = [quote(request.trace.path_texts[name]) for name in names]
    given = zip(names, texts, strict=True)
    return {name: text for name, text in given if name in endpoint.raw_parameters}


def _without_target(request: Request, targets: Mapping[str, object]) -> Reply:
    allowed = ", ".join(sorted(targets, key=_METHODS.index))
    if not allowed:
        raise reject("unknown_path")
    if request.method == "OPTIONS":
        return Reply(204, headers=(("Allow", allowed),))
    raise reject("method_not_allowed", ("Allow", allowed), method=request.method, allowed=allowed)


def _path_as_sent(request: Request) -> str | bytes:
    """The path; as bytes if some of its characters are encoded."""
    raw: bytes = request.scope.get("raw_path") or b""
    return raw if b"%" in raw else request.path


def _segments(path: str | bytes) -> list[str]:
    if isinstance(path, str):
        return path.split("/")
    return [unquote(one) for one in path.decode("latin-1").split("/")]


def operation_routes(
    contract: Contract, stages: OperationStages, *, is_control: bool
) -> RouteTable:
    """The table of a contract: every operation with its stages.

    Its last stage is the function that Connexion resolved.
    """
    table = RouteTable()
    operations = contract.operations
    for path, method, name, function in resolved_operations(
        contract, lambda name: stages.respond(contract, operations[name])
    ):
        operation = operations[name]
        endpoint = Endpoint(
            contract,
            operation,
            is_control,
            raw_parameters=frozenset(one.name for one in operation.parameters if one.in_raw_path),
            secrets=frozenset(
                one.name for one in operation.parameters if one.secret and one.location == "path"
            ),
            admit=stages.admit(contract, operation),
            read=stages.read(operation),
            respond=function,
        )
        table.add(contract.base_path, path, method, endpoint)
    return table


def page_routes(pages: Mapping[str, Page], below: Mapping[str, Page]) -> RouteTable:
    """The table of pages with their methods; those of ``below`` also have all paths below."""
    table: RouteTable = RouteTable()
    for path, page in (*pages.items(), *below.items()):
        for method in page.methods:
            table.add("", path, method, page, below=path in below)
        table.add("", path, "OPTIONS", Page(partial(_methods, page)), below=path in below)
    return table


async def _methods(page: Page, _request: Request) -> Reply:
    return Reply(204, headers=(("Allow", ", ".join((*page.methods, "OPTIONS"))),))
