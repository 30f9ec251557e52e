"""Scenarios simulated on the lifecycle: right orders are accepted, wrong ones reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from invoice_sandbox.project.loader import default_project, load_vocabulary
from invoice_sandbox.scenarios.checks import Vocabulary, load_scenario, scenario_errors
from invoice_sandbox.scenarios.simulation import Run, main_run

HEAD = "name: example\npurpose: For a test.\n"
LINES = 3
"""The first step stands in the line after these."""

TO_OFFER = (
    "start PT1S start-verification",
    "start PT2S finish-verification",
    "start PT4S request-financing",
    "start PT6S make-offer",
)
DUE = "{date: dueDate, else: P60D}"
EXPIRES = f"{{on: {DUE}, after: PT0S, do: transition, with: {{trigger: expire}}}}"


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    """What the shipped scenarios may speak of, read once."""
    return load_vocabulary(default_project())


def written(folder: Path, *steps: str, needs: str = "") -> Path:
    """A file with a step for each line such as ``offer.received PT1M accept-offer``.

    What is no action is a trigger; a line that begins with a brace stands as it is.
    """
    head = HEAD + (f"needs: {{status: {needs}}}\n" if needs else "")
    file = folder / "example.yaml"
    file.write_text(f"{head}steps:\n" + "".join(f"  - {_step(one)}\n" for one in steps))
    return file


def _step(line: str) -> str:
    if line.startswith("{"):
        return line
    on, after, do = line.split()
    if do in _ACTIONS:
        return f"{{on: {on}, after: {after}, do: {do}}}"
    return f"{{on: {on}, after: {after}, do: transition, with: {{trigger: {do}}}}}"


_ACTIONS = load_vocabulary(default_project()).actions


def reported(folder: Path, vocabulary: Vocabulary, *steps: str, needs: str = "") -> list[str]:
    """Everything that the simulation reports of these steps: ``line:column: text``."""
    file = written(folder, *steps, needs=needs)
    return [str(error).removeprefix(f"{file}:") for error in scenario_errors(file, vocabulary)]


# Right orders


RIGHT: dict[str, tuple[str, ...]] = {
    "one after the other": TO_OFFER,
    "a dispute goes back to where it stood": (
        *TO_OFFER,
        "offer.received PT1S dispute",
        "invoice.disputed PT1S resolve-dispute",
        "invoice.dispute_resolved PT1S accept-offer",
    ),
    "after a refusal by chance": (
        *TO_OFFER[:2],
        "invoice.verification_failed P1D start-verification",
        "invoice.held P1D release-hold",
        "invoice.duplicate_suspected P1D clear-duplicate",
    ),
    "by a date": (
        *TO_OFFER,
        "offer.received PT1M accept-offer",
        "offer.accepted PT1M fund",
        f"{{on: {DUE}, after: P1D, do: transition, with: {{trigger: become-overdue}}}}",
        "invoice.overdue P89D default",
        "invoice.defaulted P1D resolve-default",
        "invoice.recourse_invoked P1D repurchase",
    ),
    "round and round, with time passing": (
        *TO_OFFER,
        "offer.received P1D decline-offer",
        "offer.declined P1D make-offer",
    ),
    "what only a client begins": ("offer.received PT1M accept-offer",),
}


@pytest.mark.parametrize("steps", RIGHT.values(), ids=RIGHT)
def test_a_right_order_is_accepted(
    tmp_path: Path, vocabulary: Vocabulary, steps: tuple[str, ...]
) -> None:
    assert reported(tmp_path, vocabulary, *steps) == []


# Illegal orders

NOT_YET = "'{}' is not possible then: the invoice is {} (possible: {})"
REGISTERED = "start-verification, suspect-duplicate, withdraw, expire"
PENDING = "verify, hold, fail-verification, suspect-duplicate, dispute, withdraw"
ILLEGAL: dict[str, tuple[tuple[str, ...], int, str]] = {
    # the steps, the number of the one that is wrong, what is said of it
    "too early": (
        ("start PT1S request-financing", "start PT2S start-verification"),
        1,
        NOT_YET.format("request-financing", "Registered", REGISTERED),
    ),
    "before the verification is over": (
        (*TO_OFFER[:2], "start PT1.5S request-financing"),
        3,
        NOT_YET.format("request-financing", "VerificationPending", PENDING),
    ),
    "before its date": (
        (*TO_OFFER, f"{{on: {DUE}, after: PT0S, do: pay-out}}"),
        5,
        "'pay-out' is not possible then: the invoice is ",
    ),
    "after its date": (
        (*TO_OFFER[:3], "start P61D make-offer", EXPIRES),
        4,
        "'make-offer' is not possible then: the invoice is ",
    ),
}


@pytest.mark.parametrize(("steps", "number", "said"), ILLEGAL.values(), ids=ILLEGAL)
def test_an_illegal_order_is_reported_with_what_is_possible(
    tmp_path: Path, vocabulary: Vocabulary, steps: tuple[str, ...], number: int, said: str
) -> None:
    (found,) = reported(tmp_path, vocabulary, *steps)
    column = _step(steps[number - 1]).index("do: ") + len("  - ") + 1
    assert found.startswith(f"{LINES + number}:{column}: {said}")


# Steps that never come

NEVER = "this step never runs: no earlier step records '{}' ("

UNREACHED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "of an end that is not reached": (
        (*TO_OFFER, "invoice.settled P1D start-verification"),
        5,
        "invoice.settled",
    ),
    "of a move that no client makes": (("invoice.held P1D release-hold",), 1, "invoice.held"),
}


@pytest.mark.parametrize(("steps", "number", "kind"), UNREACHED.values(), ids=UNREACHED)
def test_a_step_that_never_comes_is_reported_with_what_is_recorded(
    tmp_path: Path, vocabulary: Vocabulary, steps: tuple[str, ...], number: int, kind: str
) -> None:
    found = reported(tmp_path, vocabulary, *steps)[0]
    assert found.startswith(f"{LINES + number}:6: {NEVER.format(kind)}")
    known = found.partition(" (known: ")[2].removesuffix(")").split(", ")
    assert kind not in known
    assert set(known) <= vocabulary.lifecycle.events.keys()


# Circles

CIRCLE = "the steps are an endless loop in which no time passes (write 'after: PT1S', for example)"


def test_a_circle_in_which_no_time_passes_is_rejected(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    steps = (*TO_OFFER, "offer.received PT0S decline-offer", "offer.declined PT0S make-offer")
    assert reported(tmp_path, vocabulary, *steps) == [f"3:1: {CIRCLE}"]


def test_a_circle_that_grows_is_rejected_soon(tmp_path: Path, vocabulary: Vocabulary) -> None:
    more = ("offer.received P1D find-similar-invoice", "offer.declined P2D find-similar-invoice")
    steps = (
        *TO_OFFER,
        "offer.received PT0S decline-offer",
        "offer.declined PT0S make-offer",
        *more,
    )
    assert reported(tmp_path, vocabulary, *steps) == [f"3:1: {CIRCLE}"]


def test_an_action_that_sets_itself_off_is_a_circle(tmp_path: Path, vocabulary: Vocabulary) -> None:
    credit = "do: apply-credit-note, with: {percent: 1}}"
    steps = (
        *TO_OFFER,
        "offer.received PT0S accept-offer",
        f"{{on: offer.accepted, after: PT0S, {credit}",
        f"{{on: invoice.credit_note_applied, after: PT0S, {credit}",
    )
    assert reported(tmp_path, vocabulary, *steps) == [f"3:1: {CIRCLE}"]


# Where it begins


def test_a_scenario_may_begin_late_only(tmp_path: Path, vocabulary: Vocabulary) -> None:
    steps = ("start PT1S request-financing", "start PT2S make-offer")
    assert reported(tmp_path, vocabulary, *steps, needs="[Verified]") == []
    assert len(reported(tmp_path, vocabulary, *steps)) == 2


def test_what_is_possible_only_if_it_begins_later_is_rejected(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    steps = (*TO_OFFER[:2], "start PT0S request-financing")
    (said,) = reported(tmp_path, vocabulary, *steps, needs="[Registered, Verified]")
    assert "'request-financing' is not possible then: the invoice is Registered" in said


@pytest.mark.parametrize("status", ["Settled", "DuplicateSuspected", "OnHold"])
def test_a_later_beginning_from_which_nothing_moves_is_rejected(
    tmp_path: Path, vocabulary: Vocabulary, status: str
) -> None:
    (said,) = reported(tmp_path, vocabulary, *TO_OFFER, needs=f"[Registered, {status}]")
    assert said == (f"3:30: no step of the scenario is possible from status '{status}' (remove it)")


# The main way


def way(folder: Path, vocabulary: Vocabulary, *steps: str, needs: str = "") -> Run:
    """How a scenario of these steps goes."""
    scenario = load_scenario(written(folder, *steps, needs=needs), vocabulary)
    return main_run(scenario, vocabulary.machine, vocabulary.actions)
