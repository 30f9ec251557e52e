"""The transition endpoint: every move of an invoice, and what its request and offers make of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from domain.lifecycle import GUARDS
from domain.transitions import FOLLOWING
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.project.api import EVENTS
from invoice_sandbox.scenarios.lifecycle import Transition, load_lifecycle
from invoice_sandbox.state import Transaction
from tests.cases import in_turn
from tests.scenario_run import INVOICE, register_new, status, transition
from tests.support import Running

ROOT = Path(__file__).parents[1]
MACHINES = load_lifecycle(ROOT / "scenarios" / "lifecycle.yaml").machines
MACHINE = MACHINES["invoice"]
TRIGGERS = tuple(dict.fromkeys(one.trigger for one in MACHINE.transitions))


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[httpx.Client]:
    """One workspace for all tests of this module; each has an invoice of its own."""
    with server.client(server.new_workspace()) as client:
        yield client


def driven(client: httpx.Client, *triggers: str, without_recourse: bool = False) -> str:
    """The id of a new invoice after ``triggers``."""
    invoice_id = register_new(client)
    for trigger in triggers:
        if without_recourse and trigger == "request-financing":
            body = {"invoiceId": invoice_id, "recoursePreference": "NonRecourse"}
            assert client.post("/api/financing-requests", json=body).status_code == 201
            continue
        response = transition(client, invoice_id, trigger)
        assert response.status_code == 200, response.text
    return invoice_id


TO_FUNDED = (
    *("start-verification", "verify", "request-financing", "receive-offer"),
    *("accept-offer", "fund"),
)
FORBIDDEN = {"uphold-dispute-after-funding", "write-off"}
"""What an invoice that was never funded, or was sold with recourse, cannot do."""


def ways() -> dict[str, tuple[str, ...]]:
    """The fewest triggers that lead from the registration to each state."""
    found: dict[str, tuple[str, ...]] = {MACHINE.initial: ()}
    waiting = [MACHINE.initial]
    for state in waiting:
        for trigger in MACHINE.legal[state]:
            to = MACHINE.step(state, trigger, MACHINE.initial).to
            if to not in found and (trigger not in FORBIDDEN or state == "Recourse"):
                found[to] = (*found[state], trigger)
                waiting.append(to)
    return found


WAYS = ways()
UNPAID = {state for state, way in WAYS.items() if not {"pay", "pay-partially"} & set(way)}
"""The statuses that an invoice reaches without a payment, so that none can be returned."""


def way_to(state: str, trigger: str) -> tuple[str, ...]:
    """The fewest triggers after which ``trigger`` is possible in a state."""
    if trigger == "uphold-dispute-after-funding":
        return (*TO_FUNDED, "dispute")
    if trigger == "return-payment" and state in UNPAID:
        return (*TO_FUNDED, "pay-partially", *WAYS[state][len(TO_FUNDED) :])
    return WAYS[state]


def held(*triggers: str) -> str:
    """The status after ``triggers``."""
    previous, status = MACHINE.initial, MACHINE.initial
    for trigger in triggers:
        previous, status = status, MACHINE.step(status, trigger, previous).to
    return status


def requests(client: httpx.Client, invoice_id: str) -> list[Any]:
    listed = client.get("/api/financing-requests").json()["data"]
    return [one for one in listed if invoice_id in one["invoiceIds"]]


def offers(client: httpx.Client, invoice_id: str) -> list[Any]:
    listed = client.get("/api/offers", params={"invoiceId": invoice_id})
    return list(listed.json()["data"])


def audited(client: httpx.Client, target_id: str) -> list[Any]:
    """The audit events about something, newest first."""
    log = client.get("/api/audit-log", params={"targetId": target_id})
    return list(log.json()["data"])


def recorded(server: Running, client: httpx.Client, subject: str) -> list[str]:
    """The kinds of the domain events about something, newest first."""
    found = server.records(client, EVENTS)
    return [one["type"] for one in found if subject in about(one["payload"])]


def about(event: Any) -> list[str]:
    """The ids of what an event is about: an invoice's move may be about its offer or request."""
    data = event["data"]
    if event["type"] not in {one.event for one in MACHINE.transitions}:
        return [data["id"]]
    return [data.get("invoiceId") or data["id"], *data.get("invoiceIds", [])]


def everything(server: Running, client: httpx.Client, invoice_id: str) -> list[Any]:
    return [
        client.get(f"/api/invoices/{invoice_id}").json()["data"],
        requests(client, invoice_id),
        offers(client, invoice_id),
        audited(client, invoice_id),
        recorded(server, client, invoice_id),
    ]


# The invoice alone ------------------------------------------------------------------------------


def test_registering_writes_one_audit_event_and_one_domain_event(
    server: Running, client: httpx.Client
) -> None:
    invoice_id = register_new(client)
    assert status(client, invoice_id) == MACHINE.initial
    assert [one["action"] for one in audited(client, invoice_id)] == [MACHINE.created]
    assert recorded(server, client, invoice_id) == [MACHINE.created]


@in_turn(
    "one", MACHINE.transitions, ids=[f"{one.from_} {one.trigger}" for one in MACHINE.transitions]
)
@pytest.mark.slow
def test_every_transition_writes_one_audit_event_and_one_domain_event(
    server: Running, client: httpx.Client, one: Transition
) -> None:
    way = way_to(one.from_, one.trigger)
    without_recourse = (one.from_, one.trigger) == ("Defaulted", "write-off")
    invoice_id = driven(client, *way, without_recourse=without_recourse)
    before = len(audited(client, invoice_id)), len(recorded(server, client, invoice_id))
    response = transition(client, invoice_id, one.trigger)
    assert response.status_code == 200, response.text
    assert response.json()["data"]["status"] == held(*way, one.trigger)
    assert response.json()["data"] == client.get(f"/api/invoices/{invoice_id}").json()["data"]
    (entry,) = audited(client, invoice_id)[: -before[0]]
    assert entry["action"] == one.event
    assert (entry["metadata"]["from"], entry["metadata"]["to"]) == (
        one.from_,
        held(*way, one.trigger),
    )
    new = recorded(server, client, invoice_id)[: -before[1]]
    of_offers = {"offer.expired", "offer.declined", "offer.withdrawn", "offer.superseded"}
    assert [kind for kind in new if kind not in of_offers or kind == one.event] == [one.event]


@in_turn("state", MACHINE.states)
@pytest.mark.slow
def test_a_trigger_that_the_status_does_not_allow_is_409_and_changes_nothing(
    server: Running, client: httpx.Client, state: str
) -> None:
    invoice_id = driven(client, *WAYS[state])
    before = everything(server, client, invoice_id)
    forbidden = FORBIDDEN if state in {"Defaulted", "Disputed"} else set()
    forbidden = forbidden | {"return-payment"} if state in UNPAID else forbidden
    possible = [one for one in MACHINE.legal[state] if one not in forbidden]
    legal = ", ".join(possible) or "none, this is an end state"
    for trigger in set(TRIGGERS) - set(possible) - FORBIDDEN - {"return-payment"}:
        response = transition(client, invoice_id, trigger)
        assert (response.status_code, response.json()["error"]["code"]) == (409, "invalid_request")
        message = response.json()["error"]["message"]
        assert f"{invoice_id} is {state}, so '{trigger}' is not possible" in message
        assert f"Possible now: {legal}." in message
    assert everything(server, client, invoice_id) == before


GUARDED: dict[str, tuple[bool, tuple[str, ...], str, str]] = {
    # without recourse, what happened before: the impossible trigger, and why
    "recourse before funding": (
        False,
        (*TO_FUNDED[:-1], "dispute"),
        "uphold-dispute-after-funding",
        "Disputed and was not funded",
    ),
    "rejection after funding": (
        False,
        (*TO_FUNDED, "dispute"),
        "uphold-dispute-before-funding",
        "Disputed and was funded",
    ),
    "rejection after a part": (
        False,
        (*TO_FUNDED[:-1], "fund-partially", "pay-partially", "dispute"),
        "uphold-dispute-before-funding",
        "Disputed and was funded",
    ),
    "write-off with recourse": (
        False,
        (*TO_FUNDED, "become-overdue", "default"),
        "write-off",
        "Defaulted and was sold with recourse",
    ),
    "the return of no payment": (
        False,
        (*TO_FUNDED, "become-overdue"),
        "return-payment",
        "Overdue and has no payment to return",
    ),
    "recourse without recourse": (
        True,
        (*TO_FUNDED, "become-overdue", "default"),
        "invoke-recourse",
        "Defaulted and was sold without recourse",
    ),
}


@pytest.mark.parametrize(
    ("without_recourse", "way", "trigger", "why"), GUARDED.values(), ids=GUARDED
)
def test_a_trigger_that_the_history_of_the_invoice_does_not_allow_is_409(
    client: httpx.Client, without_recourse: bool, way: tuple[str, ...], trigger: str, why: str
) -> None:
    invoice_id = driven(client, *way, without_recourse=without_recourse)
    before = status(client, invoice_id)
    response = transition(client, invoice_id, trigger)
    assert response.status_code == 409
    message = response.json()["error"]["message"]
    assert f"is {why}, so '{trigger}' is not possible" in message
    assert trigger not in message.partition("Possible now")[2]
    assert status(client, invoice_id) == before


def test_nothing_unfunded_reaches_recourse_paid_or_settled() -> None:
    """Over every situation of the machine: a status, the one before it, and whether funded."""
    waiting = [(MACHINE.initial, MACHINE.initial, False)]
    seen = set(waiting)
    for before, state, funded in waiting:
        assert funded or state not in {"Recourse", "Paid", "Settled", "Repurchased", "WrittenOff"}
        record = {"status": state, "previousStatus": before}
        for trigger in MACHINE.legal[state]:
            guard = GUARDS.get(trigger)
            if guard is None or guard.holds(record):
                to = MACHINE.step(state, trigger, before).to
                there = (state, to, funded or trigger in {"fund", "fund-partially"})
                waiting += [there] if there not in seen else []
                seen.add(there)


def test_a_failed_repurchase_may_be_written_off(client: httpx.Client) -> None:
    invoice_id = driven(client, *WAYS["Recourse"])
    assert transition(client, invoice_id, "write-off").json()["data"]["status"] == "WrittenOff"


DISPUTABLE = [one.from_ for one in MACHINE.transitions if one.trigger == "dispute"]


@in_turn("state", DISPUTABLE)
def test_a_resolved_dispute_leaves_everything_as_it_was(client: httpx.Client, state: str) -> None:
    invoice_id = driven(client, *WAYS[state])
    before = requests(client, invoice_id), offers(client, invoice_id)
    transition(client, invoice_id, "dispute")
    assert transition(client, invoice_id, "resolve-dispute").json()["data"]["status"] == state
    assert (requests(client, invoice_id), offers(client, invoice_id)) == before


# The contract -----------------------------------------------------------------------------------


def test_the_triggers_of_the_control_api_are_the_triggers_of_an_invoice(server: Running) -> None:
    document = server.sandbox.engine.project.control.document
    words = document["components"]["schemas"]["Transition"]["properties"]["trigger"]["enum"]
    assert words == list(TRIGGERS)


WRONG: dict[str, Any] = {
    "an unknown word": {"trigger": "explode"},
    "a word in another case": {"trigger": "Pay"},
    "no word": {},
    "a number": {"trigger": 1},
    "one member too many": {"trigger": "pay", "reason": "x"},
    "no object": ["pay"],
}


@in_turn("body", WRONG.values(), ids=WRONG)
def test_anything_but_one_known_trigger_is_400(client: httpx.Client, body: Any) -> None:
    path = f"/sandbox/invoices/{register_new(client)}/transition"
    response = client.post(path, json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")


def test_an_unknown_invoice_is_404(client: httpx.Client) -> None:
    response = transition(client, "inv_sandbox_nowhere_0001", "pay")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "resource_not_found")


CONTROL = {
    "transition": "/sandbox/invoices/inv_sandbox_0001/transition",
    "accept": "/sandbox/offers/off_sandbox_0007/accept",
    "decline": "/sandbox/offers/off_sandbox_0007/decline",
    "withdraw": "/sandbox/offers/off_sandbox_0007/withdraw",
}


@pytest.mark.parametrize("path", CONTROL.values(), ids=CONTROL)
def test_a_key_without_control_of_the_sandbox_is_403(
    server: Running, client: httpx.Client, path: str
) -> None:
    scopes = {"scopes": ["invoices:write", "offers:write", "financing:write"]}
    key = client.post("/api/developer/api-keys", json=scopes).json()["data"]["secret"]
    with server.client(key) as other:
        response = other.post(path, json={"trigger": "dispute"})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "insufficient_scope")
    assert "sandbox:control" in response.json()["error"]["message"]


@pytest.mark.parametrize("path", CONTROL.values(), ids=CONTROL)
def test_an_anonymous_caller_is_401(server: Running, path: str) -> None:
    with server.client(None) as nobody:
        assert nobody.post(path, json={"trigger": "dispute"}).status_code == 401


def examples() -> Iterator[tuple[str, Any]]:
    """What the contract shows: each address with each body, in its order."""
    document = load_document(ROOT / "openapi" / "sandbox.yaml")
    for path, item in document["paths"].items():
        control = item.get("post")
        if control is not None and control["tags"] == ["lifecycle"]:
            (shown,) = control["parameters"][0]["examples"].values()
            content = control.get("requestBody", {}).get("content", {}).get("application/json", {})
            for body in content.get("examples", {"none": {"value": None}}).values():
                yield f"/sandbox{path}".replace("{id}", shown["value"]), body["value"]


def test_every_example_of_the_contract_works_on_the_starting_data(server: Running) -> None:
    with server.client(server.new_workspace()) as fresh:
        responses = [fresh.post(path, json=body) for path, body in examples()]
    assert [item.status_code for item in responses] == [200] * 10


# What belongs to the invoice --------------------------------------------------------------------


def test_what_follows_a_move_is_said_in_words_of_the_machines() -> None:
    requested, offered = MACHINES["financing-request"], MACHINES["offer"]
    assert FOLLOWING.keys() <= set(TRIGGERS)
    for following in FOLLOWING.values():
        assert following.request in {one.trigger for one in requested.transitions}
        words = {following.offer, following.other_offers} - {None}
        assert words <= {one.trigger for one in offered.transitions}


def test_the_trigger_of_one_name_moves_invoice_and_request_alike() -> None:
    """Where both machines know a word, the table passes it on; two are made, not moved."""
    both = {one.trigger for one in MACHINES["financing-request"].transitions} & set(TRIGGERS)
    passed_on = {word for word, following in FOLLOWING.items() if following.request == word}
    assert both - passed_on == {"receive-offer"}


TO_REQUEST = ("start-verification", "verify", "request-financing")
TO_OFFERS = (*TO_REQUEST, "receive-offer", "receive-offer")
BOTH_EXPIRED = ["Expired", "Expired"]
BOTH_DECLINED = ["Declined", "Declined"]
BOTH_WITHDRAWN = ["Withdrawn", "Withdrawn"]
LIVE = ["Received", "Received"]
ACCEPTED = ["Accepted", "Superseded"]
TOGETHER: dict[str, tuple[tuple[str, ...], str, list[str]]] = {
    # after two offers, the newer first: status of the request, statuses of the offers
    "accept-offer": (TO_OFFERS, "OfferAccepted", ACCEPTED),
    "expire-offers": (TO_OFFERS, "Routed", BOTH_EXPIRED),
    "decline-offer": (TO_OFFERS, "Routed", BOTH_DECLINED),
    "withdraw-offer": (TO_OFFERS, "Routed", BOTH_WITHDRAWN),
    "withdraw": (TO_OFFERS, "Cancelled", BOTH_DECLINED),
    "expire": (TO_OFFERS, "Expired", BOTH_EXPIRED),
    "dispute": (TO_OFFERS, "OffersReceived", LIVE),
    "dispute uphold-dispute-before-funding": (TO_OFFERS, "Cancelled", BOTH_WITHDRAWN),
    "decline-financing": (TO_REQUEST, "Declined", []),
    "cancel-financing": (TO_REQUEST, "Cancelled", []),
    "accept-offer withdraw-offer": (TO_OFFERS, "Routed", ["Withdrawn", "Superseded"]),
    "accept-offer dispute uphold-dispute-before-funding": (
        TO_OFFERS,
        "Cancelled",
        ["Withdrawn", "Superseded"],
    ),
    "accept-offer fund-partially": (TO_OFFERS, "PartiallyFunded", ACCEPTED),
    "accept-offer fund-partially fund": (TO_OFFERS, "Funded", ACCEPTED),
    "accept-offer fund": (TO_OFFERS, "Funded", ACCEPTED),
    "accept-offer fund pay": (TO_OFFERS, "Funded", ACCEPTED),
    "accept-offer fund pay settle": (TO_OFFERS, "Closed", ACCEPTED),
    "accept-offer fund-partially pay settle": (TO_OFFERS, "Closed", ACCEPTED),
    "accept-offer fund become-overdue default invoke-recourse write-off": (
        TO_OFFERS,
        "Closed",
        ACCEPTED,
    ),
    "accept-offer fund dispute uphold-dispute-after-funding repurchase": (
        TO_OFFERS,
        "Closed",
        ACCEPTED,
    ),
}


@in_turn(
    ("way", "triggers", "request_status", "offer_statuses"),
    [(way, words.split(), *rest) for words, (way, *rest) in TOGETHER.items()],
    ids=TOGETHER,
)
def test_request_and_offers_move_with_the_invoice(
    client: httpx.Client,
    way: tuple[str, ...],
    triggers: list[str],
    request_status: str,
    offer_statuses: list[str],
) -> None:
    invoice_id = driven(client, *way, *triggers)
    (request,) = requests(client, invoice_id)
    assert request["status"] == request_status
    assert [one["status"] for one in offers(client, invoice_id)] == offer_statuses


def test_each_record_that_moves_along_writes_one_audit_event(client: httpx.Client) -> None:
    invoice_id = driven(client, *TO_OFFERS)
    (request,), made = requests(client, invoice_id), offers(client, invoice_id)
    before = [len(audited(client, one["id"])) for one in (request, *made)]
    transition(client, invoice_id, "accept-offer")
    new = [
        [entry["action"] for entry in audited(client, one["id"])[:-count]]
        for one, count in zip((request, *made), before, strict=True)
    ]
    assert new == [["financing_request.accept_offer"], ["offer.accept"], ["offer.superseded"]]


def test_financing_that_is_requested_by_the_control_api_is_a_request_with_its_defaults(
    client: httpx.Client,
) -> None:
    invoice_id = driven(client, "start-verification", "verify", "request-financing")
    (request,) = requests(client, invoice_id)
    assert (request["status"], request["requestedAmount"]) == ("Routed", 8500)
    assert request["routedPartnerIds"] == ["ptn_sandbox_alder", "ptn_sandbox_everest"]


def test_an_offer_that_is_received_by_the_control_api_is_one_of_the_partner_that_takes_everything(
    client: httpx.Client,
) -> None:
    invoice_id = driven(client, *TO_REQUEST, "receive-offer")
    (request,), (made,) = requests(client, invoice_id), offers(client, invoice_id)
    assert (made["partnerId"], made["status"]) == ("ptn_sandbox_everest", "Received")
    assert made["financingRequestId"] == request["id"]
    assert request["status"] == "OffersReceived"


def test_financing_can_be_asked_for_again_after_it_was_cancelled(client: httpx.Client) -> None:
    invoice_id = driven(client, *TO_REQUEST, "cancel-financing", "request-financing")
    assert [one["status"] for one in requests(client, invoice_id)] == ["Routed", "Cancelled"]


def test_verification_ends_although_it_reports_what_it_said_before(client: httpx.Client) -> None:
    invoice_id = register_new(client, amount=-1)
    first = client.post("/api/verification/run", json={"invoiceId": invoice_id})
    assert first.json()["data"]["status"] == "Failed"
    transition(client, invoice_id, "start-verification")
    client.post("/api/verification/run", json={"invoiceId": invoice_id})
    assert status(client, invoice_id) == "VerificationFailed"


def test_an_offer_is_not_made_by_default_on_an_invoice_that_is_disputed(
    client: httpx.Client,
) -> None:
    able = driven(client, *TO_REQUEST)
    driven(client, *TO_REQUEST, "dispute")
    made = client.post("/api/offers", json={})
    assert (made.status_code, made.json()["data"]["invoiceId"]) == (201, able)


def put(server: Running, client: httpx.Client, **invoice: Any) -> None:
    """Store an invoice as a fixture would, without anything that belongs to it."""

    def store(state: Transaction) -> None:
        state.put("invoices", invoice["id"], invoice)

    server.in_transaction(store, client)


ALONE = ["accept-offer", "expire-offers", "withdraw-offer", "decline-offer", "withdraw", "expire"]


@in_turn("trigger", ALONE)
def test_an_invoice_without_request_and_offers_moves_without_others(
    server: Running, client: httpx.Client, trigger: str
) -> None:
    fixture: dict[str, Any] = {
        **INVOICE,
        "id": f"inv_{trigger}",
        "registryId": "r",
        "invoiceNumber": trigger,
    }
    put(server, client, **fixture, status="Offered")
    response = transition(client, fixture["id"], trigger)
    assert (response.status_code, response.json()["data"]["status"]) == (
        200,
        MACHINE.step("Offered", trigger).to,
    )
    assert (requests(client, fixture["id"]), offers(client, fixture["id"])) == ([], [])


def test_an_offer_on_an_invoice_without_a_request_names_none(
    server: Running, client: httpx.Client
) -> None:
    fixture: dict[str, Any] = {
        **INVOICE,
        "id": "inv_no_request",
        "registryId": "r",
        "invoiceNumber": "NR",
    }
    put(server, client, **fixture, status="FinancingRequested")
    assert transition(client, fixture["id"], "receive-offer").json()["data"]["status"] == "Offered"
    (made,) = offers(client, fixture["id"])
    assert (made["financingRequestId"], made["invoiceId"]) == (None, fixture["id"])


def test_every_starting_invoice_can_do_whatever_its_status_allows(server: Running) -> None:
    project = server.sandbox.engine.project
    (machine,) = (one for one in project.lifecycle.machines.values() if one.name == "invoice")
    for invoice in project.fixtures["invoices"]:
        allowed = {one.trigger for one in machine.transitions if one.from_ == invoice["status"]}
        for trigger in sorted(allowed):
            if trigger == "return-payment":
                continue  # the payments of fixtures are not recorded one by one
            with server.client(server.new_workspace()) as client:
                path = f"/sandbox/invoices/{invoice['id']}/transition"
                response = client.post(path, json={"trigger": trigger})
                assert response.status_code == 200, (invoice["id"], trigger, response.text)
