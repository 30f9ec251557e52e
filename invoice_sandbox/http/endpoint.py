"""An operation as it is compiled at the start, before any request comes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.security import BASIC, MUTUAL_TLS, Scheme, advice, challenges
from invoice_sandbox.project.conventions import Conventions

_READING = frozenset({"GET", "HEAD"})
_REPORTS = frozenset({"reportMessageResponse"})
"""The operation by which a listener reports. The deliveries have limits of their own."""


@dataclass(frozen=True, eq=False)
class Gate:
    """Whom an operation admits.

    ``schemes`` are those that the operation declares, by name, in the order of the document;
    ``requirements`` are alternatives, each with the names of all schemes that it requires, none: it
    is public. ``is_open``: a document without keys of its own, where a caller may be unknown.
    ``is_counted``: its requests count for their caller; ``counts_family``: for their workspace.
    """

    schemes: Sequence[tuple[str, Scheme]]
    requirements: Sequence[frozenset[str]]
    scopes: tuple[str, ...]
    is_optional: bool
    is_open: bool
    is_counted: bool
    counts_family: bool
    has_basic: bool
    advice: str
    challenges: tuple[tuple[str, str], ...]

    @cached_property
    def is_public(self) -> bool:
        """True if nobody has to say who is calling."""
        return not self.requirements and not self.is_open


def gate_of(contract: Contract, operation: Operation, *, is_control: bool, is_open: bool) -> Gate:
    """Return whom an operation admits."""
    security = operation.security
    names = {alternative.scheme for alternative in security.alternatives}
    schemes = [
        (name, scheme)
        for name, scheme in contract.schemes.items()
        if name in names and scheme.location != MUTUAL_TLS
    ]
    known = {name for name, _ in schemes}
    is_change = operation.method not in _READING and operation.id not in _REPORTS
    return Gate(
        schemes=schemes,
        requirements=[
            frozenset(part.scheme for part in requirement if part.scheme in known)
            for requirement in security.requirements
        ],
        scopes=security.scopes,
        is_optional=security.optional,
        is_open=is_open,
        is_counted=not is_control and bool(security.requirements),
        counts_family=is_change or not is_control,
        has_basic=any(scheme.location == BASIC for _, scheme in schemes),
        advice=advice(security, contract.schemes),
        challenges=challenges(security, contract.schemes),
    )


@dataclass(frozen=True, eq=False)
class Reading:
    """The reading of requests. ``locations`` are those of the parameters, ``headers`` the declared
    ones by their names in lower case, ``query`` the names of query parameters (None: any).
    ``is_idempotent``: an ``Idempotency-Key`` is honoured."""

    locations: tuple[str, ...]
    headers: Mapping[str, str]
    query: frozenset[str] | None
    has_cookie_lists: bool
    is_idempotent: bool


def reading_of(operation: Operation, *, has_handler: bool) -> Reading:
    """Return how the requests of an operation are read.

    An ``Idempotency-Key`` is honoured for a POST of a known caller, if a handler carries it out. A
    public operation, such as to log in, is carried out every time.
    """
    parameters = operation.parameters
    return Reading(
        locations=tuple(dict.fromkeys(parameter.location for parameter in parameters)),
        headers={
            parameter.name.lower(): parameter.name
            for parameter in parameters
            if parameter.location == "header"
        },
        query=_query_names(operation),
        has_cookie_lists=any(
            parameter.location == "cookie" and parameter.in_many for parameter in parameters
        ),
        is_idempotent=operation.method == "POST"
        and not operation.security.optional
        and has_handler,
    )


def _query_names(operation: Operation) -> frozenset[str] | None:
    names: list[str] = []
    for parameter in operation.parameters:
        if parameter.location != "query":
            continue
        if parameter.members is None:
            return None
        names += [parameter.name, *parameter.members]
    return frozenset(names)


@dataclass(frozen=True, eq=False)
class Endpoint:
    """An operation, and what carries it out.

    ``function`` is a handler of the project or, ``is_control_function``, one of the control API,
    which works on whole workspaces and not in one transaction; None: the contract shows the
    response. ``raw_parameters`` are the path parameters that are read from the path as it was sent,
    ``secrets`` those of the path that are declared as secrets.
    """

    contract: Contract
    operation: Operation
    is_control: bool
    function: Callable[[Any], Any] | None
    is_control_function: bool
    conventions: Conventions
    gate: Gate
    reading: Reading
    raw_parameters: frozenset[str]
    secrets: frozenset[str]


def endpoint_of(
    contract: Contract,
    operation: Operation,
    function: Callable[[Any], Any],
    *,
    conventions: Conventions,
    handlers: Collection[str] = (),
    functions: Collection[str] = (),
    is_control: bool = False,
) -> Endpoint:
    """Return an operation with what carries it out: one of the ``handlers`` of the project, or of
    the ``functions`` of the control API. Any other ``function`` shows what the contract has."""
    is_carried_out = operation.id in functions or operation.id in handlers
    declared, is_open = operation.parameters, conventions.access == "any"
    return Endpoint(
        contract,
        operation,
        is_control,
        function=function if is_carried_out else None,
        is_control_function=operation.id in functions,
        conventions=conventions,
        gate=gate_of(contract, operation, is_control=is_control, is_open=is_open),
        reading=reading_of(operation, has_handler=operation.id in handlers),
        raw_parameters=frozenset(each.name for each in declared if each.in_raw_path),
        secrets=frozenset(
            each.name for each in declared if each.secret and each.location == "path"
        ),
    )
