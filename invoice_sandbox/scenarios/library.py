"""The scenarios of a project while it is served: files that change are taken over as they are.

Whoever asks for a scenario makes the library look at its folders, at most twice a second. A file
that cannot be used leaves the scenario in force that it told before, and is said once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base.clock import OperatingSystemClock
from invoice_sandbox.openapi.load.documents import DocumentError, place_of
from invoice_sandbox.scenarios.checks import LIFECYCLE, Vocabulary, load_scenario
from invoice_sandbox.scenarios.faults import fault_of
from invoice_sandbox.scenarios.script import Scenario, changed_document, scenario_of
from invoice_sandbox.state import Fault, Record, Transaction, Workspace

LOOK_AFTER: Final = 0.5
"""Real seconds for which the folders are not looked at again."""

SCENARIO_RUNS: Final = "scenario_runs"
"""The collection of records that have a scenario of their own, by the record's id."""

_LOG: Final = logging.getLogger(__name__)
_Stamp = tuple[int, int, int]


def scenario_files(folder: Path) -> list[Path]:
    """The files of a folder that tell scenarios, by name."""
    return [file for file in sorted(folder.glob("*.yaml")) if file.stem != LIFECYCLE]


@dataclass(eq=False)
class Library(Mapping[str, Scenario]):
    """Every scenario by name: those of ``always``, then those of the files in ``folders``.

    A name may stand in one folder only. ``monotonic`` gives real seconds, and ``say`` hears of each
    file that cannot be used. Raises DocumentError when one cannot be used at the beginning.
    """

    folders: Sequence[Path]
    vocabulary: Vocabulary
    always: Mapping[str, Scenario] = field(default_factory=dict)
    monotonic: Callable[[], float] = OperatingSystemClock().monotonic
    say: Callable[[str], None] = _LOG.warning
    _told: dict[Path, Scenario] = field(default_factory=dict)
    _stamps: dict[Path, _Stamp] = field(default_factory=dict)
    _by_name: dict[str, Scenario] = field(default_factory=dict)
    _looked: float = 0.0

    def __post_init__(self) -> None:
        """Read all of them."""
        self._stamps = self._seen()
        for file in self._stamps:
            self._told[file] = self._read(file)
        self._order()

    def __getitem__(self, name: str) -> Scenario:
        """The scenario of that name, as its file tells it now."""
        self._look()
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        """The names."""
        self._look()
        return iter(self._by_name)

    def __len__(self) -> int:
        """How many there are."""
        self._look()
        return len(self._by_name)

    def values(self) -> ValuesView[Scenario]:
        """All of them, as they are told at this moment."""
        self._look()
        return self._by_name.values()

    def _look(self) -> None:
        now = self.monotonic()
        if now - self._looked < LOOK_AFTER:
            return
        self._looked = now
        seen = self._seen()
        if seen == self._stamps:
            return
        before, self._stamps = self._stamps, seen
        for file in before.keys() - seen.keys():
            self._told.pop(file, None)
        for file, stamp in seen.items():
            if before.get(file) != stamp or file not in self._told:
                self._take_over(file)
        self._order()

    def _take_over(self, file: Path) -> None:
        try:
            self._told[file] = self._read(file)
        except (DocumentError, OSError) as error:
            then = "what it told before holds" if file in self._told else "it is left out"
            self.say(f"{error}; {then}")

    def _read(self, file: Path) -> Scenario:
        others = {other.stem: other for other in self._told if other != file}
        if file.stem in others:
            raise DocumentError(
                place_of(file, ("name",)),
                f"there is a scenario '{file.stem}' already",
                f"choose another name than that of {others[file.stem]}",
            )
        return load_scenario(file, self.vocabulary)

    def _order(self) -> None:
        """A new mapping each time: whoever walks through the old one is not disturbed."""
        files = [
            file for folder in self.folders for file in sorted(self._told) if _in(file, folder)
        ]
        told = {self._told[file].name: self._told[file] for file in files}
        self._by_name = {**self.always, **told}

    def _seen(self) -> dict[Path, _Stamp]:
        found = {}
        for folder in self.folders:
            for file in scenario_files(folder):
                try:
                    status = file.stat()
                except OSError:  # gone since it was listed
                    continue
                found[file] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return found


def _in(file: Path, folder: Path) -> bool:
    return file.parent == folder


@dataclass(frozen=True)
class ScenarioResolver:
    """Selects the scenario of a record: the one that the request names, else the record's own,
    else the ``default``, which is the workspace's."""

    scenarios: Mapping[str, Scenario]
    default: Scenario
    named: Scenario | None = None

    def for_new(self, data: Mapping[str, Any]) -> Scenario:
        """The scenario of a record that was just created with ``data``."""
        if self.named is not None:
            return self.named
        own = (one for one in self.scenarios.values() if one.begins and one.begins_with(data))
        return next(own, self.default)

    async def for_record(self, state: Transaction, record_id: str) -> Scenario:
        """The scenario of an existing record."""
        run = await state.get(SCENARIO_RUNS, record_id)
        if run is None:
            return self.default
        return with_conditions(self.scenarios, run["scenario"], run["with"])

    async def assign(self, state: Transaction, record_id: str, scenario: Scenario) -> None:
        """Store the scenario of a record, unless it is the workspace's."""
        if scenario is not self.default:
            run = {"scenario": scenario.name, "with": dict(scenario.conditions)}
            await state.put(SCENARIO_RUNS, record_id, run)


def with_conditions(
    scenarios: Mapping[str, Scenario], name: str, conditions: Mapping[str, Any]
) -> Scenario:
    """The scenario of that name under other conditions; one without steps if it was deleted."""
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
    """The resolver for a workspace, and for a request that may name a scenario."""
    default = with_conditions(scenarios, workspace.scenario, workspace.conditions)
    return ScenarioResolver(scenarios, default, named)


def faults_of(scenario: Scenario, *, only_named: bool = False) -> tuple[Fault, ...]:
    """The faults of a scenario; ``only_named``: they affect only requests that name it."""
    return tuple(
        fault_of(f"flt_{scenario.name}_{number}", body, scenario.name, only_named=only_named)
        for number, body in enumerate(scenario.faults, 1)
    )


def unmet_needs(scenario: Scenario, record: Record) -> str | None:
    """Which need of a scenario the record does not meet, as a clause; None: it meets all."""
    for member, allowed in scenario.needs.items():
        if record.get(member) not in allowed:
            wanted = " or ".join(map(str, allowed))
            return f"{scenario.name} needs {member} {wanted}, but it is {record.get(member)}"
    return None
