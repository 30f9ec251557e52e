"""The drawing of a lifecycle: no line runs behind a state."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise, permutations

import pytest

from invoice_sandbox.console.drawing import HEIGHT, WIDTH, drawing_of
from invoice_sandbox.project.loader import default_project, load_project
from invoice_sandbox.scenarios.lifecycle import Machine, Transition

Point = tuple[float, float]

OPEN = ("Ordered", "Paid", "Packed", "Held", "Sent", "Lost", "Back")
ENDS = ("Done", "Cancelled", "Refunded")
LEADS_ON = [*pairwise(OPEN), ("Sent", "Done"), ("Paid", "Cancelled")]


def order(*pairs: tuple[str, str]) -> Machine:
    """A lifecycle of another project, with these transitions."""
    lines = tuple(Transition(f"{a}-{b}", a, b, None, "") for a, b in pairs)
    return Machine("order", OPEN[0], "", frozenset(ENDS), (*OPEN, *ENDS), lines)


MACHINES: Mapping[str, Machine] = {
    **load_project(default_project()).lifecycle.machines,
    "order": order(*LEADS_ON, ("Back", "Ordered"), ("Ordered", "Refunded"), ("Lost", "Done")),
    "order, from every state to every other": order(
        *LEADS_ON, *(one for one in permutations((*OPEN, *ENDS), 2) if one[0] in OPEN)
    ),
}


def points(path: str) -> Iterator[Point]:
    """Points of a path, close to each other."""
    at = (0.0, 0.0)
    for command, text in re.findall(r"([MLQC])([-\d. ]+)", path):
        numbers = [float(one) for one in text.split()]
        ends = list(zip(numbers[::2], numbers[1::2], strict=True))
        curve = [at, *ends] if command != "M" else ends
        yield from (_on(curve, step / 40) for step in range(41))
        at = ends[-1]


def _on(curve: list[Point], part: float) -> Point:
    while len(curve) > 1:
        curve = [
            (x1 + (x2 - x1) * part, y1 + (y2 - y1) * part) for (x1, y1), (x2, y2) in pairwise(curve)
        ]
    return curve[0]


@pytest.mark.parametrize("name", MACHINES)
def test_no_line_of_a_lifecycle_runs_behind_a_state(name: str) -> None:
    machine = MACHINES[name]
    drawing = drawing_of(machine, machine.initial, machine.legal[machine.initial])
    boxes = {one.name: (one.x, one.y) for one in drawing.states}
    assert len(set(boxes.values())) == len(machine.states)
    assert len(drawing.arrows) >= len(machine.states) - 1
    for arrow in drawing.arrows:
        for x, y in points(arrow.path):
            assert 0 < x < drawing.width
            assert 0 < y < drawing.height
            behind = [
                state
                for state, (left, top) in boxes.items()
                if left < x < left + WIDTH and top < y < top + HEIGHT
            ]
            assert behind == [], f"{arrow.trigger} at {x}, {y}"


@pytest.mark.parametrize("name", MACHINES)
def test_a_line_joins_the_sides_of_its_states(name: str) -> None:
    machine = MACHINES[name]
    drawing = drawing_of(machine, machine.initial, machine.legal[machine.initial])
    boxes = {one.name: (one.x, one.y) for one in drawing.states}
    wanted = {(one.from_, one.to) for one in machine.transitions if one.from_ != one.to}
    sides = {
        (one, (x + right * WIDTH, y))
        for one, (left, top) in boxes.items()
        for right in (0, 1)
        for x, y in [(left, top)]
    }
    found = set()
    for arrow in drawing.arrows:
        (x1, y1), *_, (x2, y2) = points(arrow.path)
        ends = []
        for x, y in ((x1, y1), (x2, y2)):
            [state] = {one for one, (at, top) in sides if at == x and top < y < top + HEIGHT}
            ends.append(state)
        found.add((ends[0], ends[1]))
    assert found == {(a, b) for a, b in wanted if b in boxes}
