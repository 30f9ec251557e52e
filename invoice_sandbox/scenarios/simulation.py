"""Simulation of a scenario on the lifecycle, to check that every step can run.

The simulation follows every possible run on the state machine, with all transitions that clients
may cause. It calls no actions, and uses only the triggers and events that they declare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from typing import Final

from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.openapi.schema.file_schema import FileProblem, Pointer
from invoice_sandbox.scenarios.actions import Action, Trigger
from invoice_sandbox.scenarios.lifecycle import IllegalMove, Machine
from invoice_sandbox.scenarios.script import NOW, START, Reaction, Scenario

_MAX_POSITIONS: Final = 20_000
_MAX_RUNS: Final = 5_000
_MAX_PENDING: Final = 6
"""The number of times that a step may be pending at once; more would give no new result."""

_MAX_TIMES: Final = 2
"""The number of times that a step is shown in a run; twice shows that the scenario repeats."""


@dataclass(frozen=True)
class SimulatedStep:
    """A step of a simulated run, ``at`` so long after the start.

    ``step`` is the step of the scenario; None: a client causes the trigger ``do``, at any time.
    ``status`` is the status afterwards, ``events`` are the types recorded. A step that is not
    ``possible`` is skipped, because the record has another status by then. Where the outcome of an
    action is open, ``others`` are the other statuses it may lead to, and ``expected`` is False for
    an outcome that the action does not declare first.
    """

    at: timedelta
    step: Reaction | None
    do: str
    before: str
    status: str
    events: tuple[str, ...] = ()
    possible: bool = True
    expected: bool = True
    others: tuple[str, ...] = ()


Run = tuple[SimulatedStep, ...]


@dataclass(frozen=True)
class _Position:
    """The status, and the pending steps: the time from now, and the index."""

    status: str
    previous: str | None
    pending: tuple[tuple[timedelta, int], ...] = ()


class _Simulation:
    """All possible runs of a scenario."""

    def __init__(self, scenario: Scenario, machine: Machine, actions: Mapping[str, Action]) -> None:
        self.scenario = scenario
        self.machine = machine
        self.actions = actions
        self.steps = {step.index: step for step in scenario.steps}
        self.due: set[int] = set()
        self.done: set[int] = set()
        self.blocked: dict[int, str] = {}
        self.recorded: set[str] = set()
        self.positions: set[_Position] = set()
        self.at_once: dict[_Position, set[_Position]] = {}

    def play(self, status: str) -> None:
        """Follow the scenario from a status, then all transitions that clients may cause."""
        self._follow(self._after(_Position(status, None), START))
        followed: set[_Position] = set()
        while queue := {replace(position, pending=()) for position in self.positions} - followed:
            for position in sorted(queue, key=lambda here: (here.status, str(here.previous))):
                followed.add(position)
                for there, event in self._by_clients(position):
                    self._follow(self._after(there, event))

    @property
    def is_too_large(self) -> bool:
        """True if there are too many positions to follow all of them."""
        return len(self.positions) >= _MAX_POSITIONS

    def main_run(self) -> Run:
        """The run with the most steps; the first of several."""
        begin = self._after(_Position(_start_statuses(self.scenario, self.machine)[0], None), START)
        runs: list[Run] = []
        queue: list[tuple[_Position, Run]] = [(begin, ())]
        for _ in range(_MAX_RUNS):
            if not queue:
                break
            position, run = queue.pop()
            further = list(self._continuations(position, run))
            queue += reversed(further)
            runs += [] if further else [run]
        best = max(runs, key=_rank, default=())
        as_good = [run for run in runs if _score(run) == _score(best)]
        return tuple(_with_others(best, index, as_good) for index in range(len(best)))

    def _continuations(self, position: _Position, run: Run) -> Iterator[tuple[_Position, Run]]:
        """The continuations of a run: its next step, else client transitions that lead to one."""
        if not position.pending:
            yield from self._runs_through_clients(position, run)
            return
        (wait, index), *_ = position.pending
        step = self.steps[index]
        if sum(done.step == step for done in run) >= _MAX_TIMES:
            return
        now = _elapsed(run) + wait
        for number, (_, there) in enumerate(self._next(position)):
            moved, event = self._transition_between(position, there, step)
            step_view = SimulatedStep(
                at=now,
                step=step,
                do=self.named(step),
                before=position.status,
                status=there.status,
                # Events besides that of the transition are optional.
                events=self.actions[step.do].events if event is None else (event,),
                possible=moved or not self.triggers_of(step),
                expected=number == 0,
            )
            yield there, (*run, step_view)

    def _transition_between(
        self, here: _Position, there: _Position, step: Reaction
    ) -> tuple[bool, str | None]:
        for moved, event in self._moves(replace(here, pending=()), self.triggers_of(step)):
            if (moved.status, moved.previous) == (there.status, there.previous):
                return True, event
        return False, None

    def _runs_through_clients(
        self, position: _Position, run: Run
    ) -> Iterator[tuple[_Position, Run]]:
        """The shortest sequence of client transitions to an event that a step still waits for."""
        seen = {done.step.index for done in run if done.step is not None}
        wanted = {step.on for step in self.steps.values() if step.index not in seen}
        runs: list[tuple[_Position, Run]] = [(position, run)]
        visited = {position.status}
        for here, so_far in runs:  # grows during the iteration
            for trigger in self.machine.by_clients:
                for there, event in self._moves(here, (trigger,)):
                    now = _elapsed(run)
                    events = () if event is None else (event,)
                    step_view = SimulatedStep(now, None, trigger, here.status, there.status, events)
                    if event in wanted:
                        yield self._after(there, event), (*so_far, step_view)
                        return
                    if there.status not in visited:
                        visited.add(there.status)
                        runs.append((there, (*so_far, step_view)))

    def named(self, step: Reaction) -> str:
        """Return the trigger in the arguments of a step, else its action."""
        for name, parameter in self.actions[step.do].parameters.items():
            if parameter.type is Trigger and name in step.arguments:
                return str(step.arguments[name])
        return step.do

    def _follow(self, position: _Position) -> None:
        queue = [position]
        while queue and len(self.positions) < _MAX_POSITIONS:
            here = queue.pop()
            if here in self.positions:
                continue
            self.positions.add(here)
            for wait, there in self._next(here):
                if wait == NOW:
                    self.at_once.setdefault(here, set()).add(there)
                queue.append(there)

    def _next(self, position: _Position) -> Iterator[tuple[timedelta, _Position]]:
        if not position.pending:
            return
        (wait, index), *rest = position.pending
        left = replace(position, pending=tuple((at - wait, other) for at, other in rest))
        step = self.steps[index]
        self.due.add(index)
        triggers = self.triggers_of(step)
        if not triggers:
            self.done.add(index)
        moves = list(self._moves(left, triggers))
        if triggers and not moves:
            self.blocked.setdefault(index, position.status)
        if moves:
            self.done.add(index)
        for there, event in moves or [(left, None)]:
            for recorded in (event, *self.actions[step.do].events):
                there = self._after(there, recorded)  # noqa: PLW2901  one event after the other
            yield wait, there

    def triggers_of(self, step: Reaction) -> tuple[str, ...]:
        action = self.actions[step.do]
        named = [
            str(step.arguments[name])
            for name, parameter in action.parameters.items()
            if parameter.type is Trigger and name in step.arguments
        ]
        return (*action.triggers, *named)

    def _moves(
        self, position: _Position, triggers: tuple[str, ...]
    ) -> Iterator[tuple[_Position, str | None]]:
        legal = self.machine.legal.get(position.status, ())
        for trigger in triggers:
            if trigger not in legal:  # as most are: an exception for each would take longer
                continue
            try:
                move = self.machine.step(position.status, trigger, position.previous)
            except IllegalMove:
                continue
            yield replace(position, status=move.to, previous=position.status), move.event

    def _by_clients(self, position: _Position) -> Iterator[tuple[_Position, str | None]]:
        return self._moves(position, self.machine.by_clients)

    def _after(self, position: _Position, event: str | None) -> _Position:
        """The position with the steps that follow an event."""
        if event is None:
            return position
        if event != START:
            self.recorded.add(event)
        added = [
            (step.otherwise + step.after, step.index)
            for step in self.scenario.by_event.get(event, ())
            if sum(index == step.index for _, index in position.pending) < _MAX_PENDING
        ]
        return replace(position, pending=tuple(sorted([*position.pending, *added])))


def simulate(
    scenario: Scenario, machine: Machine, actions: Mapping[str, Action]
) -> Iterator[FileProblem]:
    """Endless loops, else every step that is never due, or never possible when it is due.

    Where a scenario may start in a later status, some of its steps must be possible from there.
    """
    started: dict[str, _Simulation] = {}
    for status in _start_statuses(scenario, machine):
        started[status] = _Simulation(scenario, machine, actions)
        started[status].play(status)
    simulations = list(started.values())
    if any(simulation.is_too_large for simulation in simulations):
        text = "the scenario has too many possible runs to be checked"
        yield FileProblem(("steps",), text, "use fewer steps")
    elif any(_has_endless_loop(simulation.at_once) for simulation in simulations):
        text = "the steps are an endless loop in which no time passes"
        yield FileProblem(("steps",), text, "write 'after: PT1S', for example")
    else:
        yield from _useless_needs(scenario, started)
        yield from _useless_steps(simulations[0])
        yield from _useless_rules(scenario, simulations, machine)


def _useless_needs(scenario: Scenario, started: Mapping[str, _Simulation]) -> Iterator[FileProblem]:
    for status, simulation in list(started.items())[1:]:
        moving = {index for index, step in simulation.steps.items() if simulation.triggers_of(step)}
        if moving and not moving & simulation.done:
            place = ("needs", "status", list(scenario.needs["status"]).index(status))
            text = f"no step of the scenario is possible from status '{status}'"
            yield FileProblem(place, text, "remove it")


def _useless_steps(simulation: _Simulation) -> Iterator[FileProblem]:
    machine = simulation.machine
    for index, step in simulation.steps.items():
        place: Pointer = ("steps", index)
        if index not in simulation.due:
            text = f"this step never runs: no earlier step records '{step.on}'"
            types = sorted(simulation.recorded)
            advice = suggestion("", types) if types else "add a step that records it"
            yield FileProblem((*place, "on"), text, advice)
        elif index not in simulation.done:
            status = simulation.blocked[index]
            possible = ", ".join(machine.legal[status]) or "nothing"
            text = (
                f"'{simulation.named(step)}' is not possible then: the {machine.name} is {status}"
            )
            yield FileProblem((*place, "do"), text, f"possible: {possible}")


def _useless_rules(
    scenario: Scenario, simulations: Iterable[_Simulation], machine: Machine
) -> Iterator[FileProblem]:
    """Rules of ``expects`` about events that the scenario never records."""
    recorded = {machine.created}.union(*(simulation.recorded for simulation in simulations))
    never = {transition.event for transition in machine.transitions} - recorded
    for index, rule in enumerate(scenario.expects):
        for member in ("after", "until", "delivery"):
            if rule.get(member) in never:
                text = f"the scenario never records '{rule[member]}'"
                advice = suggestion("", sorted(map(str, recorded)))
                yield FileProblem(("expects", index, member), text, advice)


def _start_statuses(scenario: Scenario, machine: Machine) -> list[str]:
    """The statuses in which the scenario may start; from the first, every step must run."""
    needed = list(scenario.needs.get("status", ()))
    if machine.initial in needed or not needed:
        needed.insert(0, machine.initial)
    return list(dict.fromkeys(needed))


def main_run(scenario: Scenario, machine: Machine | None, actions: Mapping[str, Action]) -> Run:
    """The run in which the most steps are possible, step by step."""
    return () if machine is None else _Simulation(scenario, machine, actions).main_run()


def _elapsed(run: Run) -> timedelta:
    return run[-1].at if run else NOW


def _score(run: Run) -> tuple[int, int, int]:
    """Return the number of different steps of the scenario, of impossible ones, and of clients'."""
    due = len({done.step.index for done in run if done.step is not None})
    return due, sum(not done.possible for done in run), sum(done.step is None for done in run)


def _rank(run: Run) -> tuple[int, int]:
    due, impossible, by_clients = _score(run)
    return due, -impossible - by_clients - sum(not done.expected for done in run)


def _with_others(best: Run, index: int, runs: Iterable[Run]) -> SimulatedStep:
    """A step with the other statuses that it leads to, in runs that are equal up to it."""
    before = [step.status for step in best[:index]]
    others = {
        other[index].status: None
        for other in runs
        if [step.status for step in other[:index]] == before
        and len(other) > index
        and other[index].step == best[index].step
    }
    others.pop(best[index].status, None)
    return replace(best[index], others=tuple(others))


def _has_endless_loop(at_once: Mapping[_Position, set[_Position]]) -> bool:
    try:
        TopologicalSorter(at_once).prepare()
    except CycleError:
        return True
    return False
