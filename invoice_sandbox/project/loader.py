"""A project: the folder that is served. Contract, handlers, fixtures, scenarios."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base.errors import UserError, did_you_mean, reject, suggestion
from invoice_sandbox.base.ids import camel_case
from invoice_sandbox.openapi.load.documents import place_of
from invoice_sandbox.openapi.load.pointers import ContractError
from invoice_sandbox.openapi.load.reading import read_contract
from invoice_sandbox.openapi.load.text import DocumentError, reject_all
from invoice_sandbox.openapi.operation import Contract, compile_contract
from invoice_sandbox.project.api import Handler
from invoice_sandbox.project.code import (
    Hooks,
    ProjectError,
    load_actions,
    load_handlers,
    load_hooks,
)
from invoice_sandbox.project.contracts import (
    compile_apart,
    contract_warnings,
    control_contract,
    members_for_tools,
    merged_document,
    project_warnings,
    read_project,
    webhook_place,
)
from invoice_sandbox.project.conventions import FILE as CONVENTIONS_FILE
from invoice_sandbox.project.conventions import Conventions, load_conventions, plain_conventions
from invoice_sandbox.project.fixtures import fixture_errors, load_fixtures
from invoice_sandbox.project.inference import inferred
from invoice_sandbox.project.stateful import Collection
from invoice_sandbox.scenarios.actions import Action
from invoice_sandbox.scenarios.checks import Vocabulary
from invoice_sandbox.scenarios.library import Library
from invoice_sandbox.scenarios.lifecycle import Lifecycle, load_lifecycle
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.settings import default_project as default_project
from invoice_sandbox.state import Transaction

_PARTS: Final = (CONVENTIONS_FILE, "openapi", "handlers", "domain", "fixtures", "scenarios")
_READ: Final = frozenset({".yaml", ".yml", ".json", ".py"})
_MANUAL: Final = Scenario("manual")
_DEFAULT_SCENARIO: Final = "auto-progress"


@dataclass(frozen=True)
class Project:
    """Everything a server needs to know about what it serves.

    ``warnings`` are lines of text: what the contract declares and the sandbox does not support.
    ``plans`` is the folder of its acceptance plans.
    """

    contract: Contract
    control: Contract
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    fixtures: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    hooks: Hooks = field(default_factory=Hooks)
    actions: Mapping[str, Action] = field(default_factory=dict)
    lifecycle: Lifecycle = field(default_factory=lambda: Lifecycle({}, {}))
    scenarios: Mapping[str, Scenario] = field(default_factory=lambda: {_MANUAL.name: _MANUAL})
    warnings: tuple[str, ...] = ()
    conventions: Conventions = field(default_factory=Conventions)
    plans: Path | None = None

    @cached_property
    def control_conventions(self) -> Conventions:
        """The conventions of the control API."""
        return self.conventions.for_control()

    def conventions_of(self, contract: Contract | None) -> Conventions:
        """Return the conventions of one of its contracts."""
        return self.control_conventions if contract is self.control else self.conventions

    @property
    def default_scenario(self) -> str:
        """The scenario of a workspace that asks for none: ``auto-progress``, if there is one."""
        return _DEFAULT_SCENARIO if _DEFAULT_SCENARIO in self.scenarios else _MANUAL.name

    def scenario(self, name: str, place: str) -> Scenario:
        """The scenario that is named at ``place``. Raises ApiError 400, with similar names."""
        found = self.scenarios.get(name)
        if found is None:
            meant = did_you_mean(name, sorted(self.scenarios))
            advice = f"D{meant[1:]} " if meant else ""
            raise reject("unknown_scenario", place=place, name=name[:80], suggestion=advice)
        return found

    @property
    def subject_member(self) -> str | None:
        """Name of the id parameter of scenario subjects, such as ``bookingId``."""
        machine = self.vocabulary.machine
        return None if machine is None else camel_case(machine.name) + "Id"

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Names that its scenarios may reference."""
        return vocabulary_of(self.contract, self.lifecycle, self.actions)

    def record(self, state: Transaction, kind: str, record: Mapping[str, Any]) -> None:
        """Store one fixture record, by the hook ``record_fixture`` if the project has it."""
        if self.hooks.record_fixture is None:
            state.put(kind, record["id"], record)
        else:
            self.hooks.record_fixture(state, kind, record)


def load_project(folder: Path, own_scenarios: Path | None = None) -> Project:
    """Read and check a project folder. Only ``openapi/openapi.yaml`` must be there.

    ``own_scenarios`` is a folder of scenarios besides those of the project. A folder whose files
    have not changed is loaded once per process. Raises ProjectError (with file, line and column
    where there is one).
    """
    contents = (_content(folder, _PARTS), _content(own_scenarios, (".",)))
    return _load_project(folder, own_scenarios, *contents)


def _content(folder: Path | None, parts: Sequence[str]) -> str:
    """Return a digest of every file of a project that is read."""
    if folder is None:
        return ""
    digest = hashlib.sha256()
    for file in sorted((file for part in parts for file in _files(folder / part)), key=str):
        if file.suffix in _READ and file.is_file():
            digest.update(f"{file}\0{file.stat().st_size}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _files(path: Path) -> Iterable[Path]:
    return path.rglob("*.*") if path.is_dir() else [path]


@lru_cache(maxsize=16)  # a test suite starts many servers in one process
def _load_project(
    folder: Path, own_scenarios: Path | None, content: str, _own_content: str
) -> Project:
    project, vocabulary = _load_folder(folder, content)
    try:
        scenarios = _scenarios([folder / "scenarios"], own_scenarios, vocabulary)
    except DocumentError as error:
        raise ProjectError(str(error)) from None
    return replace(project, scenarios=scenarios)


@lru_cache(maxsize=16)  # with other scenarios, the rest is the same
def _load_folder(folder: Path, _content: str) -> tuple[Project, Vocabulary]:
    """Return everything but the scenarios, and the names that they may reference."""
    if not (folder / "openapi" / "openapi.yaml").exists():
        raise ProjectError(
            f"{folder / 'openapi' / 'openapi.yaml'}: no such file, so {folder} is no project; "
            "'invoice-sandbox init DIR --contract FILE' creates one"
        )
    try:
        read = read_project(folder)
        contract = compile_apart(read)
        lifecycle = _load_lifecycle(folder / "scenarios" / "lifecycle.yaml")
        reject_all(folder, _kind_errors(folder, contract, lifecycle))
        actions = load_actions(folder / "domain")
        vocabulary = vocabulary_of(contract, lifecycle, actions)
        machine = vocabulary.machine
        subject = None if machine is None else camel_case(machine.name) + "Id"
        conventions = load_conventions(folder, contract)
        words = {
            "operations": list(contract.operations),
            "events": list(lifecycle.events or contract.webhooks),
            "mode": [conventions.mode],
        }
        named = members_for_tools(contract, conventions, subject)
        part = folder / "openapi" / "sandbox.yaml"
        control = control_contract(subject, words, part, named)
        handlers = _of_collections(conventions.collections) | load_handlers(
            folder / "handlers", [control, contract]
        )
        project = Project(
            contract,
            control,
            handlers,
            fixtures=load_fixtures(folder / "fixtures", contract.schemas),
            hooks=load_hooks(folder / "domain"),
            actions=actions,
            lifecycle=lifecycle,
            warnings=tuple(project_warnings(folder, read, contract, handlers)),
            conventions=conventions,
            plans=folder / "acceptance",
        )
        return project, vocabulary
    except (ContractError, DocumentError) as error:
        raise ProjectError(str(error)) from None


def project_errors(folder: Path, contract: Contract) -> Iterator[UserError]:
    """Yield all that keeps a project from being served with another version of its contract."""
    lifecycle, actions = Lifecycle({}, {}), dict[str, Action]()
    try:
        lifecycle = _load_lifecycle(folder / "scenarios" / "lifecycle.yaml")
        actions = load_actions(folder / "domain")
    except (ProjectError, DocumentError) as error:
        yield error
    yield from _kind_errors(folder, contract, lifecycle)
    yield from fixture_errors(folder / "fixtures", contract.schemas)
    try:
        load_conventions(folder, contract)
    except (ContractError, DocumentError) as error:
        yield error
    try:
        _scenarios([folder / "scenarios"], None, vocabulary_of(contract, lifecycle, actions))
    except DocumentError as error:
        yield error


def load_vocabulary(folder: Path) -> Vocabulary:
    """Return names that the scenarios of a project may reference. Raises ProjectError."""
    try:
        contract = compile_contract(merged_document(folder))
        lifecycle = _load_lifecycle(folder / "scenarios" / "lifecycle.yaml")
        return vocabulary_of(contract, lifecycle, load_actions(folder / "domain"))
    except (ContractError, DocumentError) as error:
        raise ProjectError(str(error)) from None


def load_contract(
    file: Path, own_scenarios: Path | None = None, *, stateful: bool = False
) -> Project:
    """Return a project of one contract file: every operation responds from the contract.

    If it is ``stateful``, the collections that the contract implies keep what is posted. Raises
    ProjectError.
    """
    try:
        read = read_contract(file)
        contract = compile_apart(read)
        scenarios = _scenarios([], own_scenarios, vocabulary_of(contract, Lifecycle({}, {}), {}))
        conventions = plain_conventions(contract)
        words = {"operations": list(contract.operations), "mode": [conventions.mode]}
        named = members_for_tools(contract, conventions, None)
        control = control_contract(None, words, for_tools=named)
        warnings = contract_warnings(read, contract)
        found = inferred(contract) if stateful else ()
        conventions = replace(conventions, collections=found)
        return Project(
            contract,
            control,
            handlers=_of_collections(found),
            scenarios=scenarios,
            warnings=tuple(warnings),
            conventions=conventions,
        )
    except (ContractError, DocumentError) as error:
        raise ProjectError(str(error)) from None


def _of_collections(collections: Iterable[Collection]) -> dict[str, Handler]:
    """Return the handlers of the operations of collections."""
    return {name: handler for each in collections for name, handler in each.handlers().items()}


def vocabulary_of(
    contract: Contract, lifecycle: Lifecycle, actions: Mapping[str, Action]
) -> Vocabulary:
    """Names that scenarios may reference; members are those of all components of the contract."""
    schemas = contract.document.get("components", {}).get("schemas", {}).values()
    objects = [
        schema for schema in schemas if isinstance(schema, Mapping)
    ]  # true and false are schemas too
    members = [member for schema in objects for member in schema.get("properties", {}).items()]
    dates = {name for name, schema in members if _is_date(schema)}
    return Vocabulary(contract, lifecycle, actions, {name for name, _ in members}, dates)


def _is_date(schema: Any) -> bool:
    return isinstance(schema, Mapping) and schema.get("format") in {"date", "date-time"}


def _load_lifecycle(file: Path) -> Lifecycle:
    return load_lifecycle(file) if file.exists() else Lifecycle({}, {})


def _kind_errors(folder: Path, contract: Contract, lifecycle: Lifecycle) -> Iterator[DocumentError]:
    """Yield an error for each kind of event that only one of contract and lifecycle declares.

    A contract without webhooks promises none, and a lifecycle without events records none.
    """
    if not contract.webhooks or not lifecycle.events:
        return
    for kind in contract.webhooks:
        if kind not in lifecycle.events:
            advice = suggestion(kind, lifecycle.events, "declare it in scenarios/lifecycle.yaml")
            problem = f"the webhook '{kind}' is not an event of the lifecycle"
            yield DocumentError(webhook_place(folder / "openapi", kind), problem, advice)
    for kind in lifecycle.events:
        if kind not in contract.webhooks:
            place = place_of(folder / "scenarios" / "lifecycle.yaml", ("events", kind))
            advice = suggestion(kind, contract.webhooks, "add it there")
            yield DocumentError(place, f"'{kind}' is not a webhook of the contract", advice)


def _scenarios(folders: Sequence[Path], own: Path | None, vocabulary: Vocabulary) -> Library:
    """Return the scenarios of these folders, reloaded when files change."""
    every = list(folders)
    if own is not None and own.resolve() not in {folder.resolve() for folder in folders}:
        every.append(own)
    return Library(every, vocabulary, {_MANUAL.name: _MANUAL})
