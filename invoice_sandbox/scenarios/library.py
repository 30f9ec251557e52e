"""The scenarios of a project, reloaded when their files change, and the scenario of each record.

The library checks its folders when a scenario is requested, at most twice a second. When a changed
file has an error, the library logs it once and keeps the previous version of the scenario.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct

from invoice_sandbox.base.clock import OperatingSystemClock
from invoice_sandbox.openapi.load.documents import place_of
from invoice_sandbox.openapi.load.text import DocumentError, reject_all
from invoice_sandbox.scenarios.checks import LIFECYCLE, Vocabulary, load_scenario
from invoice_sandbox.scenarios.faults import fault_of
from invoice_sandbox.scenarios.script import START, Scenario, changed_document, scenario_of
from invoice_sandbox.state import Fault, Record, Transaction, Workspace

CHECK_INTERVAL: Final = 0.5
"""Real seconds between two checks of the folders."""

SCENARIO_RUNS: Final = "scenario_runs"
"""The collection of records that have a scenario of their own, by the record's id."""

BEGUN_RUNS: Final = "begun_runs"
"""The collection of the runs that the scenario of the workspace began, by the record's id. They go
on when another scenario is chosen."""

_LOG: Final = logging.getLogger(__name__)
_Stamp = tuple[int, int, int]


def scenario_files(folder: Path) -> list[Path]:
    """Return the scenario files of a folder, by name; also those that should end in ``.yaml``."""
    files = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
    return [file for file in files if file.name != f"{LIFECYCLE}.yaml"]


@dataclass(eq=False)
class Library(Mapping[str, Scenario]):
    """Every scenario by name: those of ``always``, then those of the files in ``folders``.

    A name may occur in one folder only. ``monotonic`` returns real seconds; ``log`` receives a
    message for each file with an error. Raises DocumentError with all errors of the first load.
    """

    folders: Sequence[Path]
    vocabulary: Vocabulary
    always: Mapping[str, Scenario] = field(default_factory=dict)
    monotonic: Callable[[], float] = OperatingSystemClock().monotonic
    log: Callable[[str], None] = _LOG.warning
    _loaded: dict[Path, Scenario] = field(default_factory=dict)
    _stamps: dict[Path, _Stamp] = field(default_factory=dict)
    _by_name: dict[str, Scenario] = field(default_factory=dict)
    _called: frozenset[str] = frozenset()
    _beginning: Sequence[Scenario] = ()
    _checked_at: float = 0.0

    def __post_init__(self) -> None:
        """Load all files."""
        self._stamps = self._stamps_now()
        errors = []
        for file in self._stamps:
            try:
                self._loaded[file] = self._read(file)
            except DocumentError as error:
                errors.append(error)
        reject_all("scenarios", errors)
        self._index()

    def __getitem__(self, name: str) -> Scenario:
        """Return the scenario of that name, from its present file."""
        self._refresh()
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        self._refresh()
        return iter(self._by_name)

    def __len__(self) -> int:
        """Return the number of scenarios."""
        self._refresh()
        return len(self._by_name)

    def has_calls(self, operation_id: str) -> bool:
        """True if any scenario had steps for requests to the operation at the last request."""
        return operation_id in self._called

    def beginning(self) -> Sequence[Scenario]:
        """Return the scenarios that new records may get automatically, as of the last request."""
        return self._beginning

    def values(self) -> ValuesView[Scenario]:
        """Return all scenarios."""
        self._refresh()
        return self._by_name.values()

    def _refresh(self) -> None:
        now = self.monotonic()
        if now - self._checked_at < CHECK_INTERVAL:
            return
        self._checked_at = now
        seen = self._stamps_now()
        if seen == self._stamps:
            return
        before, self._stamps = self._stamps, seen
        for file in before.keys() - seen.keys():
            self._loaded.pop(file, None)
        for file, stamp in seen.items():
            if before.get(file) != stamp or file not in self._loaded:
                self._reload(file)
        self._index()

    def _reload(self, file: Path) -> None:
        try:
            self._loaded[file] = self._read(file)
        except (DocumentError, OSError) as error:
            then = "the previous version stays" if file in self._loaded else "the file is ignored"
            self.log(f"{error}; {then}")

    def _read(self, file: Path) -> Scenario:
        others = {other.stem: other for other in self._loaded if other != file}
        if file.stem in others:
            raise DocumentError(
                place_of(file, ("name",)),
                f"the name '{file.stem}' is used twice, also in {others[file.stem]}",
                "choose another name",
            )
        scenario = load_scenario(file, self.vocabulary)
        for other, loaded in self._loaded.items():
            if other != file and scenario.begins and scenario.begins == loaded.begins:
                raise same_beginning(file, loaded.name)
        return scenario

    def _index(self) -> None:
        """Build a new mapping, so that an iteration over the old one is not affected."""
        files = sorted(self._loaded, key=lambda file: (self.folders.index(file.parent), file))
        loaded = {self._loaded[file].name: self._loaded[file] for file in files}
        self._by_name = {**self.always, **loaded}
        self._beginning = [scenario for scenario in self._by_name.values() if scenario.begins]
        self._called = frozenset(
            step.call for scenario in self._by_name.values() for step in scenario.calls
        )

    def _stamps_now(self) -> dict[Path, _Stamp]:
        stamps = {}
        for folder in self.folders:
            for file in scenario_files(folder):
                try:
                    status = file.stat()
                except OSError:  # gone since it was listed
                    continue
                stamps[file] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return stamps


def same_beginning(file: Path, other: str) -> DocumentError:
    """Return the error of the scenario in ``file``, which new records begin beside another."""
    problem = f"'{other}' begins with the same members"
    return DocumentError(place_of(file, ("begins",)), problem, "choose another value")


class Beginning(NamedTuple):
    """The scenario of a new record, those that start ``beside`` it, now or with a later event, and
    those that would begin with the record, too, but cannot be combined with it."""

    scenario: Scenario
    beside: tuple[Scenario, ...] = ()
    left_out: tuple[Scenario, ...] = ()


class ScenarioResolver(Struct, eq=False):
    """Selects the scenario of a record: the one that the request names, else the record's own,
    else the ``default``, which is the workspace's."""

    scenarios: Mapping[str, Scenario]
    default: Scenario
    named: Scenario | None = None

    def has_calls(self, operation_id: str) -> bool:
        """True if steps of some scenario may run with a request to the operation."""
        return not isinstance(self.scenarios, Library) or self.scenarios.has_calls(operation_id)

    def for_new(self, data: Mapping[str, Any]) -> Beginning:
        """Return the scenarios of a record that was just created with ``data``.

        Of several that begin with it the first is the record's, unless it joins later than another.
        """
        members = data.items()
        matching = [
            other for other in _beginning(self.scenarios) if other.begins.items() <= members
        ]
        if self.named is not None:
            left_out = tuple(other for other in matching if other.name != self.named.name)
            return Beginning(self.named, left_out=left_out)
        if not matching:
            return Beginning(self.default)
        first, *others = sorted(matching, key=lambda scenario: scenario.joins not in {START, ""})
        beside: list[Scenario] = []
        for scenario in others:
            if all(_compose(scenario, known) for known in (first, *beside)):
                beside.append(scenario)
        left_out = tuple(scenario for scenario in others if scenario not in beside)
        return Beginning(first, tuple(beside), left_out)

    def for_record(self, state: Transaction, record_id: str) -> Scenario:
        """Return the scenario of an existing record: its own, or the one that began its run."""
        return self.running(state, record_id)[0]

    def running(self, state: Transaction, record_id: str) -> list[Scenario]:
        """Return the scenario of an existing record, then those that started beside it."""
        begun = state.get(BEGUN_RUNS, record_id)
        if begun is None or state.get(SCENARIO_RUNS, record_id) is not None:
            return self.in_force(state, record_id)
        return [with_conditions(self.scenarios, begun["scenario"], begun["with"])]

    def in_force(self, state: Transaction, record_id: str) -> list[Scenario]:
        """Return the scenarios whose faults, and whose steps before requests, hold for an existing
        record: its own and those beside it, or else that of the workspace."""
        run = state.get(SCENARIO_RUNS, record_id)
        if run is None:
            return [self.default]
        own = with_conditions(self.scenarios, run["scenario"], run["with"])
        names = (beside["scenario"] for beside in run.get("beside", ()) if beside["started"])
        return [own, *(self.scenarios.get(name) or Scenario(name) for name in names)]

    def join(self, state: Transaction, record_id: str, event_type: str) -> list[Scenario]:
        """Return the scenarios that start with this event beside that of the record."""
        run = state.get(SCENARIO_RUNS, record_id) or {}
        rows, joining = [], []
        for row in run.get("beside", ()):
            scenario = None if row["started"] else self.scenarios.get(row["scenario"])
            if scenario is not None and scenario.joins == event_type:
                joining.append(scenario)
            rows.append({**row, "started": row["started"] or scenario in joining})
        if joining:
            state.put(SCENARIO_RUNS, record_id, {**run, "beside": rows})
        return joining

    def name_among(self, state: Transaction, values: Iterable[Any]) -> str | None:
        """Return the scenario's name of the first value that is the id of a record with its own."""
        for value in values:
            run = state.get(SCENARIO_RUNS, value) if isinstance(value, str) else None
            if run is not None:
                return str(run["scenario"])
        return None

    def assign(self, state: Transaction, record_id: str, beginning: Beginning) -> None:
        """Store the scenarios of a record; a run of the workspace's if it has steps."""
        scenario = beginning.scenario
        run: Record = {"scenario": scenario.name, "with": dict(scenario.conditions)}
        if scenario is self.default and not beginning.beside:
            if scenario.steps:
                state.put(BEGUN_RUNS, record_id, {"id": record_id, **run})
            return
        if beginning.beside:
            run["beside"] = [
                {"scenario": other.name, "started": False} for other in beginning.beside
            ]
        state.put(SCENARIO_RUNS, record_id, run)


def _compose(scenario: Scenario, other: Scenario) -> bool:
    """True if both scenarios may begin with one record: they begin with different members."""
    return bool(scenario.joins and other.joins) and not scenario.begins.keys() & other.begins.keys()


def _beginning(scenarios: Mapping[str, Scenario]) -> Sequence[Scenario]:
    """Return the scenarios that new records may get automatically."""
    if isinstance(scenarios, Library):
        return scenarios.beginning()
    return [scenario for scenario in scenarios.values() if scenario.begins]


def with_conditions(
    scenarios: Mapping[str, Scenario], name: str, conditions: Mapping[str, Any]
) -> Scenario:
    """Return the scenario of that name under other conditions; if it was deleted, without steps."""
    scenario = scenarios.get(name) or Scenario(name)
    if not conditions:
        return scenario
    known = {key: value for key, value in conditions.items() if key in scenario.conditions}
    if known in ({}, scenario.conditions):
        return scenario
    try:
        return scenario_of(changed_document(scenario, known))
    except ValueError:  # the file has changed since; the condition has another meaning now
        return scenario


def resolver_of(
    scenarios: Mapping[str, Scenario], workspace: Workspace, named: Scenario | None = None
) -> ScenarioResolver:
    """Return the resolver for a workspace, and for a request that may name a scenario."""
    name, conditions = workspace.scenario, workspace.conditions
    if conditions:
        default = with_conditions(scenarios, name, conditions)
    else:
        default = scenarios.get(name) or Scenario(name)
    return ScenarioResolver(scenarios, default, named)


def faults_of(scenario: Scenario, *, only_named: bool = False) -> tuple[Fault, ...]:
    """Return the faults of a scenario; ``only_named``: they affect only requests that name it."""
    return tuple(
        fault_of(f"flt_{scenario.name}_{number}", body, scenario.name, only_named=only_named)
        for number, body in enumerate(scenario.faults, 1)
    )


def unmet_needs(scenario: Scenario, record: Record) -> str | None:
    """Return the first need of a scenario that the record does not meet, as a clause, or None."""
    for member, allowed in scenario.needs.items():
        if record.get(member) not in allowed:
            wanted = " or ".join(map(str, allowed))
            return f"{scenario.name} needs {member} {wanted}, but it is {record.get(member)}"
    return None
