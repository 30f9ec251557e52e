"""The records that the console shows: ``console`` in ``conventions.yaml``, with operations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.openapi.load.operations import named_operations
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import Project
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.scenarios.lifecycle import Machine


@dataclass(frozen=True)
class Address:
    """An operation with the base path of its contract, and the document of that."""

    base_path: str
    operation: Operation
    document: Mapping[str, Any]

    @property
    def method(self) -> str:
        """The HTTP method."""
        return self.operation.method

    @property
    def label(self) -> str:
        """The action on the record in its path, such as ``accept``."""
        last = self.operation.path.rpartition("/")[2]
        return self.method.lower() if last.startswith("{") else last.replace("-", " ")

    @property
    def declared(self) -> Mapping[str, Any]:
        """The operation as the document declares it."""
        return named_operations(self.document)[self.operation.id][2]

    def fits(self, method: str, path: str) -> bool:
        """True if a request to that path is one to the operation."""
        pattern = re.sub(r"\\{.*?\\}", "[^/]+", re.escape(self.base_path + self.operation.path))
        return self.method == method and re.fullmatch(pattern, path) is not None

    def path(self, record_id: str = "") -> str:
        """The path with ``record_id`` as its parameter."""
        path = re.sub(r"\{[^}]*\}", quote(record_id, safe=""), self.operation.path)
        return self.base_path + path


@dataclass(frozen=True)
class Related:
    """Records that belong to one: ``listed`` and filtered ``by`` a parameter."""

    title: str
    listed: Address
    by: str
    columns: tuple[str, ...]
    machine: Machine | None
    actions: tuple[Address, ...]

    def actions_of(self, row: Mapping[str, Any]) -> list[Address]:
        """The actions that the status of a record allows."""
        if self.machine is None:
            return list(self.actions)
        legal = self.machine.legal.get(str(row.get("status")), ())
        return [action for action in self.actions if action.label in legal]


@dataclass(frozen=True)
class Source:
    """Marks of a timeline: records of a list filtered ``by`` an id, or a ``member`` of an item.

    ``request`` is the path to the member with the id of the request that caused a mark; null: the
    step of the agenda did whose number stands beside it as ``stepNumber``.
    """

    title: str
    address: Address
    by: str | None
    member: str | None
    at: str
    what: str
    request: str | None


@dataclass(frozen=True)
class Records:
    """A type of record: its list, its item, what belongs to it, and its state machine, with the
    operations that make a ``transition`` and that list the legal ``transitions``. ``heading`` is
    the member that names a record on its page, by default its id."""

    title: str
    heading: str
    listed: Address
    item: Address
    columns: tuple[str, ...]
    machine: Machine | None
    transition: Address | None
    transitions: Address | None
    related: tuple[Related, ...]
    timeline: tuple[Source, ...]

    @property
    def name(self) -> str:
        """The title as part of a path."""
        return self.title.lower().replace(" ", "-")

    @cached_property
    def filters(self) -> tuple[str, ...]:
        """The query parameters that filter the list."""
        parameters = self.listed.operation.parameters
        names = [parameter.name for parameter in parameters if parameter.location == "query"]
        return tuple(name for name in names if name not in _PAGING)

    def choices(self, name: str) -> tuple[str, ...]:
        """The values that a filter can have, if they are the states of the machine."""
        return tuple(self.machine.states) if self.machine and name == "status" else ()


_PAGING: Final = frozenset({"limit", "cursor"})


@dataclass(frozen=True)
class Contents:
    """The contents of the console of an engine: records, and by operationId the operations of the
    project's contract and of the control API."""

    engine: Engine
    records: tuple[Records, ...]
    addresses: Mapping[str, Address]
    sign_in: tuple[Address, Sequence[str]] | None

    @classmethod
    def of(cls, engine: Engine) -> Contents:
        """The contents for an engine. Raises ProjectError for an unknown operation or machine."""
        project = engine.project
        addresses = {
            operation.id: Address(contract.base_path, operation, contract.document)
            for contract in (project.control, project.contract)
            for operation in contract.operations.values()
        }
        records = [_records(row, addresses, project) for row in project.conventions.records]
        form = project.conventions.sign_in
        sign_in = None if form is None else (addresses[form["operation"]], form["fields"])
        return cls(engine, tuple(records), addresses, sign_in)


def _records(raw: Mapping[str, Any], addresses: Mapping[str, Address], project: Project) -> Records:
    machines = project.lifecycle.machines
    return Records(
        title=raw["title"],
        heading=raw.get("heading", "id"),
        listed=_known(raw["list"], addresses),
        item=_known(raw["item"], addresses),
        columns=tuple(raw["columns"]),
        machine=_known(raw.get("machine"), machines),
        transition=_known(raw.get("transition"), addresses),
        transitions=_known(raw.get("transitions"), addresses),
        related=tuple(_related(row, addresses, machines) for row in raw.get("related", ())),
        timeline=tuple(_source(row, addresses) for row in raw.get("timeline", ())),
    )


def _related(
    row: Mapping[str, Any], addresses: Mapping[str, Address], machines: Mapping[str, Machine]
) -> Related:
    return Related(
        title=row["title"],
        listed=_known(row["list"], addresses),
        by=row["by"],
        columns=tuple(row["columns"]),
        machine=_known(row.get("machine"), machines),
        actions=tuple(_known(name, addresses) for name in row.get("actions", ())),
    )


def _source(row: Mapping[str, Any], addresses: Mapping[str, Address]) -> Source:
    return Source(
        title=row["title"],
        address=_known(row["operation"], addresses),
        by=row.get("by"),
        member=row.get("member"),
        at=row["at"],
        what=row["what"],
        request=row.get("request"),
    )


def _known(name: str | None, known: Mapping[str, Any]) -> Any:
    """Return the operation or machine of that name; None for none. Raises ProjectError."""
    if name is None:
        return None
    if name not in known:
        advice = suggestion(name, known)
        raise ProjectError(f"conventions.yaml: console: unknown name '{name}'. {advice}")
    return known[name]
