"""Lifecycles: what the shipped file says, the errors of a wrong file, and how steps are taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.scenarios.lifecycle import (
    SCHEMA,
    Machine,
    load_lifecycle,
)

SCENARIOS = Path(__file__).parents[1] / "scenarios"
SHIPPED = load_lifecycle(SCENARIOS / "lifecycle.yaml")

TRIPLES = """
(none) Registered invoice.registered
Registered VerificationPending invoice.verification_started
Registered DuplicateSuspected invoice.duplicate_suspected
Registered Withdrawn invoice.withdrawn
Registered Expired invoice.expired
VerificationPending DuplicateSuspected invoice.duplicate_suspected
VerificationPending Verified invoice.verified
VerificationPending OnHold invoice.held
VerificationPending VerificationFailed invoice.verification_failed
VerificationPending Disputed invoice.disputed
VerificationPending Withdrawn invoice.withdrawn
VerificationFailed VerificationPending invoice.verification_started
VerificationFailed Rejected invoice.rejected
VerificationFailed Withdrawn invoice.withdrawn
OnHold VerificationPending invoice.hold_released
OnHold Rejected invoice.rejected
OnHold Withdrawn invoice.withdrawn
DuplicateSuspected VerificationPending invoice.duplicate_cleared
DuplicateSuspected Rejected invoice.rejected
DuplicateSuspected Withdrawn invoice.withdrawn
Verified FinancingRequested financing_request.created
Verified Disputed invoice.disputed
Verified Withdrawn invoice.withdrawn
Verified Expired invoice.expired
FinancingRequested Offered offer.received
FinancingRequested Verified financing_request.declined
FinancingRequested Verified financing_request.cancelled
FinancingRequested Disputed invoice.disputed
FinancingRequested Withdrawn invoice.withdrawn
FinancingRequested Expired invoice.expired
Offered Offered offer.received
Offered OfferAccepted offer.accepted
Offered FinancingRequested offer.expired
Offered FinancingRequested offer.withdrawn
Offered FinancingRequested offer.declined
Offered Disputed invoice.disputed
Offered Withdrawn invoice.withdrawn
Offered Expired invoice.expired
OfferAccepted Funded invoice.funded
OfferAccepted PartiallyFunded invoice.partially_funded
OfferAccepted FinancingRequested offer.withdrawn
OfferAccepted Disputed invoice.disputed
PartiallyFunded Funded invoice.funded
PartiallyFunded PartiallyPaid invoice.partially_paid
PartiallyFunded Paid invoice.paid
PartiallyFunded Overdue invoice.overdue
PartiallyFunded Disputed invoice.disputed
Funded PartiallyPaid invoice.partially_paid
Funded Paid invoice.paid
Funded Overdue invoice.overdue
Funded Disputed invoice.disputed
PartiallyPaid PartiallyPaid invoice.partially_paid
PartiallyPaid Paid invoice.paid
PartiallyPaid Overdue invoice.overdue
PartiallyPaid Defaulted invoice.defaulted
PartiallyPaid Disputed invoice.disputed
Overdue PartiallyPaid invoice.partially_paid
Overdue Paid invoice.paid
Overdue Defaulted invoice.defaulted
Overdue Disputed invoice.disputed
PartiallyFunded Defaulted invoice.defaulted
Funded Defaulted invoice.defaulted
PartiallyPaid Defaulted invoice.defaulted
Overdue Defaulted invoice.defaulted
Defaulted Recourse invoice.recourse_invoked
Defaulted WrittenOff invoice.written_off
Defaulted Paid invoice.paid
Defaulted Defaulted invoice.partially_paid
Recourse Repurchased invoice.repurchased
Recourse WrittenOff invoice.written_off
Recourse Paid invoice.paid
Recourse Recourse invoice.partially_paid
Paid Settled invoice.settled
PartiallyFunded Settled invoice.settled
Funded Settled invoice.settled
PartiallyPaid Settled invoice.settled
Overdue Settled invoice.settled
Paid previous invoice.payment_returned
PartiallyPaid previous invoice.payment_returned
Overdue Overdue invoice.payment_returned
Defaulted Defaulted invoice.payment_returned
Recourse Recourse invoice.payment_returned
Disputed previous invoice.dispute_resolved
Disputed Rejected invoice.rejected
Disputed Recourse invoice.recourse_invoked
"""
STATES = {
    "financing-request": "Submitted Routed OffersReceived OfferAccepted PartiallyFunded Funded"
    " Closed NoMatch Declined Cancelled Expired",
    "offer": "Received Accepted Declined Expired Withdrawn Superseded",
}
TERMINAL = {
    "invoice": "Settled Repurchased WrittenOff Rejected Withdrawn Expired",
    "financing-request": "Closed NoMatch Declined Cancelled Expired",
    "offer": "Declined Expired Withdrawn Superseded",
}
INVOICE = SHIPPED.machines["invoice"]


def test_an_invoice_has_exactly_the_85_transitions() -> None:
    created = ("(none)", INVOICE.initial, INVOICE.created)
    moves = [(one.from_, one.to, one.event) for one in INVOICE.transitions]
    expected = [tuple(line.split()) for line in TRIPLES.strip().splitlines()]
    assert len(expected) == 85
    assert sorted([created, *moves], key=str) == sorted(expected, key=str)


def test_an_invoice_has_23_states() -> None:
    assert len(INVOICE.states) == len(set(INVOICE.states)) == 23


@pytest.mark.parametrize("name", STATES)
def test_requests_and_offers_have_exactly_their_states(name: str) -> None:
    assert set(SHIPPED.machines[name].states) == set(STATES[name].split())


@pytest.mark.parametrize("name", TERMINAL)
def test_every_machine_has_exactly_its_end_states(name: str) -> None:
    machine = SHIPPED.machines[name]
    assert machine.terminal == set(TERMINAL[name].split())
    assert {state for state in machine.states if not machine.legal[state]} == machine.terminal


def test_there_are_32_types_of_an_invoice_and_eleven_others() -> None:
    recorded = {INVOICE.created, *(one.event for one in INVOICE.transitions)}
    assert len(recorded) == 32
    assert SHIPPED.events.keys() - recorded == {
        "invoice.action_required",
        "invoice.credit_note_applied",
        "invoice.payment_misdirected",
        "invoice.payment_unapplied",
        "invoice.assignment_notice_sent",
        "invoice.assignment_acknowledged",
        "invoice.screening_hit",
        "invoice.screening_cleared",
        "financing_request.routed",
        "offer.superseded",
        "webhook_endpoint.disabled",
    }


def test_a_type_is_recorded_by_one_machine_only() -> None:
    """Else one act would report the same thing to a client twice."""
    recorded = [
        {one.event for one in machine.transitions if one.event}
        for machine in SHIPPED.machines.values()
    ]
    assert sum(map(len, recorded)) == len(set().union(*recorded))


def test_the_usual_way_of_an_invoice_leads_to_its_settlement() -> None:
    status = INVOICE.initial
    to_the_offer = ("start-verification", "verify", "request-financing", "receive-offer")
    for trigger in (*to_the_offer, "accept-offer", "fund", "pay", "settle"):
        status = INVOICE.step(status, trigger).to
    assert status == "Settled"


# The format ------------------------------------------------------------------------------------

EXAMPLE_LIFECYCLE = """\
machines:
  door:
    initial: Open
    created: door.made
    terminal: [Gone]
    transitions:
      - trigger: shut
        from: [Open]
        to: Shut
        event: door.shut
        description: Somebody shuts it.
      - trigger: block
        from: [Open, Shut]
        to: Blocked
        description: Something stands in the way.
      - trigger: unblock
        from: [Blocked]
        to: previous
        description: The way is free again.
      - trigger: remove
        from: [Shut]
        to: Gone
        event: door.removed
        description: It is taken off its hinges.
events:
  door.made: A door was made.
  door.shut: A door was shut.
  door.removed: A door was removed.
  door.knocked_at: Somebody knocked.
otherEvents: [door.knocked_at]
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    file = tmp_path / "door.yaml"
    file.write_text(EXAMPLE_LIFECYCLE)
    return load_lifecycle(file).machines["door"]


def move(trigger: str, start: str, to: str) -> str:
    return f"      - {{trigger: {trigger}, from: [{start}], to: {to}, description: x}}\n"


KEBAB = "must be a kebab-case word such as pay-in-full"
NO_PREVIOUS = "must be a word such as InTransit, and not 'previous'"
BROKEN: dict[str, tuple[str, str, str]] = {
    "an unknown key of the file": (
        "otherEvents:",
        "otherEvent:",
        "30:1: unknown key 'otherEvent' (did you mean otherEvents?)",
    ),
    "an unknown key of a transition": (
        "        event: door.shut",
        "        emits: door.shut",
        "10:9: unknown key 'emits' (known: trigger, from, to, event, description)",
    ),
    "missing keys": (
        "        from: [Shut]\n        to: Gone\n",
        "",
        "20:9: an item of 'transitions' has no 'from'",
    ),
    "a text instead of a list": (
        "from: [Blocked]",
        "from: Blocked",
        "17:9: 'from' must be a list",
    ),
    "a trigger in another case": ("unblock\n", "un_block\n", f"16:9: 'un_block' {KEBAB}"),
    "leaving the previous state": (
        "from: [Blocked]",
        "from: [previous]",
        f"17:16: 'previous' {NO_PREVIOUS}",
    ),
    "an unknown terminal state": (
        "terminal: [Gone]",
        "terminal: [Gone, Stolen]",
        "5:22: no transition leads to 'Stolen' (known: Open, Shut, Blocked, Gone)",
    ),
    "an island": (
        "events:\n  door.made",
        f"{move('sail', 'Boat', 'Boat')}{move('sink', 'Boat', 'Gone')}events:\n  door.made",
        "25:39: 'Boat' cannot be reached from 'Open'",
    ),
    "a state without a way to the end": (
        "events:\n  door.made",
        f"{move('lock', 'Shut', 'Locked')}events:\n  door.made",
        "25:39: no terminal state can be reached from 'Locked' (terminal: Gone)",
    ),
    "an exit of a terminal state": (
        "from: [Blocked]",
        "from: [Blocked, Gone]",
        "17:25: 'Gone' is terminal, so it can have no transition",
    ),
    "nothing before the initial state": (
        "from: [Blocked]",
        "from: [Blocked, Open]",
        "17:25: 'Open' is initial, so it has no previous status",
    ),
    "the same move twice": (
        "      - trigger: unblock",
        f"{move('block', 'Shut', 'Open')}      - trigger: unblock",
        "16:33: 'block' from 'Shut' is listed twice",
    ),
    "an undeclared kind": (
        "event: door.removed",
        "event: door.remove",
        "23:9: 'door.remove' is not in 'events' (did you mean door.removed?)",
    ),
    "a kind that nothing records": (
        "otherEvents: [door.knocked_at]\n",
        "",
        "29:3: no machine records 'door.knocked_at' (add it to otherEvents)",
    ),
}


@pytest.mark.parametrize(
    ("old", "new", "problem"), [pytest.param(*row, id=name) for name, row in BROKEN.items()]
)
def test_a_wrong_file_names_what_is_wrong_and_where(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    assert EXAMPLE_LIFECYCLE.count(old) == 1
    file = tmp_path / "lifecycle.yaml"
    file.write_text(EXAMPLE_LIFECYCLE.replace(old, new))
    with pytest.raises(DocumentError) as caught:
        load_lifecycle(file)
    assert f"{file}:{problem}" in str(caught.value).splitlines()


def test_what_is_no_yaml_has_a_place_too(tmp_path: Path) -> None:
    file = tmp_path / "lifecycle.yaml"
    file.write_text("machines: [\n")
    with pytest.raises(DocumentError, match=r"lifecycle\.yaml:2:1: "):
        load_lifecycle(file)


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for child in schema.values():
            yield from objects(child)


def test_the_schema_is_one_and_leaves_no_object_open() -> None:
    schema = json.loads(SCHEMA.read_text())
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert all(one["additionalProperties"] is not True for one in objects(schema))


def test_an_editor_finds_the_schema() -> None:
    first = (SCENARIOS / "lifecycle.yaml").read_text().partition("\n")[0]
    written = first.removeprefix("# yaml-language-server: $schema=")
    assert (SCENARIOS / written).resolve() == SCHEMA
    assert load_document(SCHEMA)["title"] == "Lifecycle"


# Steps -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED.machines)
@given(data=st.data())
def test_no_walk_ever_leaves_the_declared_states(name: str, data: st.DataObject) -> None:
    machine = SHIPPED.machines[name]
    status, previous = machine.initial, None
    for _ in range(30):
        legal = machine.legal[status]
        assert bool(legal) == (status not in machine.terminal)
        if not legal:
            break
        move = machine.step(status, data.draw(st.sampled_from(legal)), previous)
        assert move.to in machine.states
        assert move.event is None or move.event in SHIPPED.events
        status, previous = move.to, status
