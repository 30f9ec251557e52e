"""Random walks over HTTP keep the books, the events and the audit log right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.scenario_run import advance, choose, data, move, offers, recorded_events, register
from tests.support import Running
from tests.walks import LIFECYCLE, MACHINE, READY, walk_once, walking_server

WALKS = 40
SEEN_SELDOM = 8
"""Types of events that few of so many walks record."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def walked() -> Iterator[Running]:
    with walking_server() as server:
        yield server


def test_random_walks_break_nothing_and_get_everywhere(walked: Running) -> None:
    types, statuses = set[str](), Counter[int]()
    for seed in range(WALKS):
        walk, seen = walk_once(walked, seed)
        types |= seen
        statuses += walk.statuses
    assert len(LIFECYCLE.events.keys() - types) <= SEEN_SELDOM
    assert statuses[200] + statuses[201] > statuses.total() / 2


def test_an_accepted_invoice_that_is_credited_in_full_is_withdrawn(walked: Running) -> None:
    with walked.client(walked.new_workspace()) as client:
        invoice = register(client)
        move(client, invoice, *READY, "accept-offer")
        choose(client, "credit", invoice, percent=100)
        advance(client, "PT1S")
        assert [one["type"] for one in recorded_events(walked, client)][-3:] == [
            "invoice.credit_note_applied",
            "offer.withdrawn",
            "invoice.withdrawn",
        ]
        now = data(client.get(f"/api/invoices/{invoice['id']}"))["status"]
        assert now in MACHINE.terminal
        assert offers(client, invoice)[0]["status"] == "Withdrawn"
