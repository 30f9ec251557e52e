"""A story rehearsed on the lifecycle before it is served: does every step have its moment?

Every way that the story can go is followed on the machine, with what clients may do in between.
Actions are not done; only what they may pull and record counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from graphlib import CycleError, TopologicalSorter
from typing import Final

from invoice_sandbox.openapi.schema.file_schema import FileProblem, Pointer, suggestion
from invoice_sandbox.scenarios.actions import Action, Trigger
from invoice_sandbox.scenarios.lifecycle import IllegalMove, Machine
from invoice_sandbox.scenarios.script import NOW, START, Reaction, Scenario

_MOST_POSITIONS: Final = 20_000
_MOST_RUNS: Final = 5_000
_MOST_PENDING: Final = 6
"""How often one step is held to be set off before it comes: once more would tell nothing new."""

_MOST_TIMES: Final = 2
"""How often a way tells one step: often enough to see that the story goes round."""


@dataclass(frozen=True)
class SimulatedStep:
    """Something that happens on the way of a story: ``at`` so long after its beginning, ``do``.

    ``step`` is the step of the story; None where a client pulls the trigger ``do``, whenever it
    likes. ``status`` is how the thing stands afterwards, ``events`` are the kinds recorded. What is
    not ``possible`` is left out, because the thing stands elsewhere by then. Where the story leaves
    open how a step ends, ``others`` are the other statuses it may lead to; ``usual`` is False for
    an end that the action does not name first.
    """

    at: timedelta
    step: Reaction | None
    do: str
    before: str
    status: str
    events: tuple[str, ...] = ()
    possible: bool = True
    usual: bool = True
    others: tuple[str, ...] = ()


Run = tuple[SimulatedStep, ...]


@dataclass(frozen=True)
class _Position:
    """Where the thing stands, and what is still to come: time from now, and which step."""

    status: str
    previous: str | None
    pending: tuple[tuple[timedelta, int], ...] = ()


class _Simulation:
    """All ways that a story can go."""

    def __init__(self, scenario: Scenario, machine: Machine, actions: Mapping[str, Action]) -> None:
        self.scenario = scenario
        self.machine = machine
        self.actions = actions
        self.steps = {step.index: step for step in scenario.steps}
        self.due: set[int] = set()
        self.done: set[int] = set()
        self.blocked: dict[int, str] = {}
        self.recorded: set[str] = set()
        self.step_views: set[_Position] = set()
        self.at_once: dict[_Position, set[_Position]] = {}

    def play(self, status: str) -> None:
        """Follow the story that begins in a status, then what clients cause on the way."""
        self._follow(self._after(_Position(status, None), START))
        followed: set[_Position] = set()
        while waiting := {replace(scene, pending=()) for scene in self.step_views} - followed:
            for scene in sorted(waiting, key=lambda one: (one.status, str(one.previous))):
                followed.add(scene)
                for there, kind in self._by_clients(scene):
                    self._follow(self._after(there, kind))

    @property
    def is_too_large(self) -> bool:
        """Whether there are more step_views than were followed."""
        return len(self.step_views) >= _MOST_POSITIONS

    def main_run(self) -> Run:
        """The way on which most of the story comes about, the first one of several."""
        begin = self._after(_Position(_beginnings(self.scenario, self.machine)[0], None), START)
        ways: list[Run] = []
        waiting: list[tuple[_Position, Run]] = [(begin, ())]
        for _ in range(_MOST_RUNS):
            if not waiting:
                break
            scene, told = waiting.pop()
            further = list(self._further(scene, told))
            waiting += reversed(further)
            ways += [] if further else [told]
        best = max(ways, key=lambda way: (_due(way), -_left_out(way) - _unusual(way)), default=())
        as_good = [way for way in ways if _merits(way) == _merits(best)]
        return tuple(_with_others(best, index, as_good) for index in range(len(best)))

    def _further(self, scene: _Position, told: Run) -> Iterator[tuple[_Position, Run]]:
        """How a way can go on: by its next step, else by what a client may do to reach one."""
        if not scene.pending:
            yield from self._through_clients(scene, told)
            return
        (wait, index), *_ = scene.pending
        step = self.steps[index]
        if sum(one.step == step for one in told) >= _MOST_TIMES:
            return
        now = _elapsed(told) + wait
        for number, (_, there) in enumerate(self._next(scene)):
            moved, kind = self._what_moved(scene, there, step)
            moment = SimulatedStep(
                at=now,
                step=step,
                do=self.named(step),
                before=scene.status,
                status=there.status,
                # What an action may record besides its move, it need not record.
                events=self.actions[step.do].events if kind is None else (kind,),
                possible=moved or not self.pulled(step),
                usual=number == 0,
            )
            yield there, (*told, moment)

    def _what_moved(
        self, here: _Position, there: _Position, step: Reaction
    ) -> tuple[bool, str | None]:
        for one, kind in self._moves(replace(here, pending=()), self.pulled(step)):
            if (one.status, one.previous) == (there.status, there.previous):
                return True, kind
        return False, None

    def _through_clients(self, scene: _Position, told: Run) -> Iterator[tuple[_Position, Run]]:
        """The shortest way of clients' moves to an event that a step still waits for."""
        seen = {one.step.index for one in told if one.step is not None}
        wanted = {step.on for step in self.steps.values() if step.index not in seen}
        ways: list[tuple[_Position, Run]] = [(scene, told)]
        been = {scene.status}
        for here, so_far in ways:  # grows while it is walked through
            for trigger in self.machine.by_clients:
                for there, kind in self._moves(here, (trigger,)):
                    now = _elapsed(told)
                    events = () if kind is None else (kind,)
                    moment = SimulatedStep(now, None, trigger, here.status, there.status, events)
                    if kind in wanted:
                        yield self._after(there, kind), (*so_far, moment)
                        return
                    if there.status not in been:
                        been.add(there.status)
                        ways.append((there, (*so_far, moment)))

    def named(self, step: Reaction) -> str:
        """What a step does: the trigger that it is told to pull, else its action."""
        for name, parameter in self.actions[step.do].parameters.items():
            if parameter.type is Trigger and name in step.arguments:
                return str(step.arguments[name])
        return step.do

    def _follow(self, scene: _Position) -> None:
        waiting = [scene]
        while waiting and len(self.step_views) < _MOST_POSITIONS:
            here = waiting.pop()
            if here in self.step_views:
                continue
            self.step_views.add(here)
            for wait, there in self._next(here):
                if wait == NOW:
                    self.at_once.setdefault(here, set()).add(there)
                waiting.append(there)

    def _next(self, scene: _Position) -> Iterator[tuple[timedelta, _Position]]:
        if not scene.pending:
            return
        (wait, index), *rest = scene.pending
        left = replace(scene, pending=tuple((at - wait, other) for at, other in rest))
        step = self.steps[index]
        self.due.add(index)
        pulled = self.pulled(step)
        if not pulled:
            self.done.add(index)
        moves = list(self._moves(left, pulled))
        if pulled and not moves:
            self.blocked.setdefault(index, scene.status)
        if moves:
            self.done.add(index)
        for there, kind in moves or [(left, None)]:
            for event in (kind, *self.actions[step.do].events):
                there = self._after(there, event)  # noqa: PLW2901  one event after the other
            yield wait, there

    def pulled(self, step: Reaction) -> tuple[str, ...]:
        action = self.actions[step.do]
        named = [
            str(step.arguments[name])
            for name, parameter in action.parameters.items()
            if parameter.type is Trigger and name in step.arguments
        ]
        return (*action.triggers, *named)

    def _moves(
        self, scene: _Position, triggers: tuple[str, ...]
    ) -> Iterator[tuple[_Position, str | None]]:
        for trigger in triggers:
            try:
                move = self.machine.step(scene.status, trigger, scene.previous)
            except IllegalMove:
                continue
            yield replace(scene, status=move.to, previous=scene.status), move.event

    def _by_clients(self, scene: _Position) -> Iterator[tuple[_Position, str | None]]:
        return self._moves(scene, self.machine.by_clients)

    def _after(self, scene: _Position, kind: str | None) -> _Position:
        """The scene once an event has set off what follows it."""
        if kind is None:
            return scene
        if kind != START:
            self.recorded.add(kind)
        added = [
            (step.otherwise + step.after, step.index)
            for step in self.scenario.by_event.get(kind, ())
            if sum(index == step.index for _, index in scene.pending) < _MOST_PENDING
        ]
        return replace(scene, pending=tuple(sorted([*scene.pending, *added])))


def simulate(
    scenario: Scenario, machine: Machine, actions: Mapping[str, Action]
) -> Iterator[FileProblem]:
    """Endless circles, else every step that never comes, or never can be done when it comes.

    Where a story may also be begun later, some of it must be possible from there.
    """
    begun: dict[str, _Simulation] = {}
    for status in _beginnings(scenario, machine):
        begun[status] = _Simulation(scenario, machine, actions)
        begun[status].play(status)
    rehearsals = list(begun.values())
    if any(one.is_too_large for one in rehearsals):
        text = "the story can go too many ways to be checked"
        yield FileProblem(("steps",), text, "tell it with fewer steps")
    elif any(_goes_in_circles(one.at_once) for one in rehearsals):
        text = "the story goes in circles without any time passing"
        yield FileProblem(("steps",), text, "let some pass, such as PT1S")
    else:
        yield from _vain_needs(scenario, begun)
        yield from _vain_steps(rehearsals[0])


def _vain_needs(scenario: Scenario, begun: Mapping[str, _Simulation]) -> Iterator[FileProblem]:
    for status, rehearsal in list(begun.items())[1:]:
        moving = {index for index, step in rehearsal.steps.items() if rehearsal.pulled(step)}
        if moving and not moving & rehearsal.done:
            place = ("needs", "status", list(scenario.needs["status"]).index(status))
            text = f"nothing of the story is possible for a thing that is {status}"
            yield FileProblem(place, text, "take it away")


def _vain_steps(rehearsal: _Simulation) -> Iterator[FileProblem]:
    machine = rehearsal.machine
    for index, step in rehearsal.steps.items():
        place: Pointer = ("steps", index)
        if index not in rehearsal.due:
            text = f"this step never comes: nothing before it records '{step.on}'"
            kinds = sorted(rehearsal.recorded)
            advice = suggestion("", kinds) if kinds else "let an earlier step record it"
            yield FileProblem((*place, "on"), text, advice)
        elif index not in rehearsal.done:
            status = rehearsal.blocked[index]
            possible = ", ".join(machine.legal[status]) or "nothing"
            text = f"'{rehearsal.named(step)}' is not possible then: the {machine.name} is {status}"
            yield FileProblem((*place, "do"), text, f"possible: {possible}")


def _beginnings(scenario: Scenario, machine: Machine) -> list[str]:
    """The statuses in which the story may be begun; the first one is where all of it is told."""
    needed = list(scenario.needs.get("status", ()))
    if machine.initial in needed or not needed:
        needed.insert(0, machine.initial)
    return list(dict.fromkeys(needed))


def main_run(scenario: Scenario, machine: Machine | None, actions: Mapping[str, Action]) -> Run:
    """How the story goes if everything in it comes about as far as it can, moment by moment."""
    return () if machine is None else _Simulation(scenario, machine, actions).main_run()


def _elapsed(told: Run) -> timedelta:
    return told[-1].at if told else NOW


def _due(told: Run) -> int:
    return len({one.step.index for one in told if one.step is not None})


def _left_out(told: Run) -> int:
    return sum(not one.possible for one in told)


def _unusual(told: Run) -> int:
    return sum(not one.usual for one in told) + _by_clients(told)


def _by_clients(told: Run) -> int:
    return sum(one.step is None for one in told)


def _merits(told: Run) -> tuple[int, int, int]:
    return _due(told), _left_out(told), _by_clients(told)


def _with_others(best: Run, index: int, ways: Iterable[Run]) -> SimulatedStep:
    """A moment with the statuses that its step leads to on ways that are the same up to it."""
    before = [one.status for one in best[:index]]
    others = {
        way[index].status: None
        for way in ways
        if [one.status for one in way[:index]] == before
        and len(way) > index
        and way[index].step == best[index].step
    }
    others.pop(best[index].status, None)
    return replace(best[index], others=tuple(others))


def _goes_in_circles(at_once: Mapping[_Position, set[_Position]]) -> bool:
    try:
        TopologicalSorter(at_once).prepare()
    except CycleError:
        return True
    return False
