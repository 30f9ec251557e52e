"""Which scenario holds: how one is chosen, for what, and what becomes of the one before."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.cases import in_turn
from tests.scenario_run import advance, choose, now, offers, register, run_to_end, status
from tests.support import Running

GET = "/api/invoices"
LATE, DEFAULT = "sim_debtor_late", "sim_debtor_default"


def put(client: httpx.Client, name: str, **members: Any) -> httpx.Response:
    """The response to a choice."""
    return client.put("/sandbox/scenario", json={"name": name, **members})


def message(response: httpx.Response, status: int) -> str:
    """What a rejection says."""
    assert response.status_code == status, response.text
    assert response.json()["error"]["code"] == "invalid_request"
    return str(response.json()["error"]["message"])


def in_store(client: httpx.Client, invoice: Any | None = None) -> list[str | None]:
    """The scenarios that still have something in store for one invoice, or for all."""
    due = client.get("/sandbox/agenda").json()["data"]["due"]
    wanted = None if invoice is None else invoice["id"]
    return sorted(
        {one["scenario"] for one in due if one["scenario"] and wanted in {None, one["subject"]}}
    )


def current(client: httpx.Client) -> list[str]:
    """The scenarios that the workspace says are in force."""
    listed = client.get("/sandbox/scenarios").json()["data"]
    return [one["name"] for one in listed if one["current"]]


def named(name: str) -> dict[str, str]:
    return {"X-Sandbox-Scenario": name}


# For what


def test_of_a_workspace_it_holds_for_what_is_new_from_then_on(client: httpx.Client) -> None:
    before = register(client)
    choose(client, "invoice-expires")
    after = register(client, invoiceNumber="STORY-2")
    assert (in_store(client, before), in_store(client, after)) == ([], ["invoice-expires"])
    assert current(client) == ["invoice-expires"]


def test_of_an_invoice_it_holds_for_that_one_alone(client: httpx.Client) -> None:
    first, second = register(client), register(client, invoiceNumber="STORY-2")
    choose(client, "invoice-expires", first)
    assert (in_store(client, first), in_store(client, second)) == (["invoice-expires"], [])
    assert current(client) == ["manual"]


def test_of_a_magic_id_it_holds_for_every_invoice_that_has_it(client: httpx.Client) -> None:
    first = register(client, debtorId=LATE)
    second = register(client, debtorId=DEFAULT)
    assert in_store(client, first) == ["late-payment"]
    assert in_store(client, second) == ["default-recourse"]


def test_a_request_of_no_workspace_may_name_one_that_exists(server: Running) -> None:
    with server.client(None) as anyone:
        assert anyone.get("/api/health", headers=named("kyb-hold")).status_code == 200
        assert "'kyb-hol'" in message(anyone.get("/api/health", headers=named("kyb-hol")), 400)


def test_of_a_request_it_holds_for_the_invoice_that_it_makes(client: httpx.Client) -> None:
    first = register(client, "invoice-expires")
    second = register(client, invoiceNumber="STORY-2")
    assert (in_store(client, first), in_store(client, second)) == (["invoice-expires"], [])
    advance(client, "PT2S")  # later requests need not name it again
    assert status(client, first) == "Verified"


# Which one, when there are several


def test_the_request_comes_before_the_magic_id_before_the_workspace(client: httpx.Client) -> None:
    choose(client, "invoice-expires")
    by_request = register(client, "partial-funding", debtorId=LATE, invoiceNumber="R")
    by_magic_id = register(client, debtorId=LATE, invoiceNumber="M")
    by_workspace = register(client, invoiceNumber="W")
    assert [in_store(client, one) for one in (by_request, by_magic_id, by_workspace)] == [
        ["partial-funding"],
        ["late-payment"],
        ["invoice-expires"],
    ]


@pytest.mark.parametrize("before", ["partial-funding", None])
def test_the_choice_for_an_invoice_replaces_any_scenario_that_it_had(
    client: httpx.Client, before: str | None
) -> None:
    choose(client, "invoice-expires")
    invoice = register(client, before, debtorId=LATE)
    choose(client, "offer-expires", invoice)
    assert in_store(client, invoice) == ["offer-expires"]
    run_to_end(client)
    assert [one["status"] for one in offers(client, invoice)] == ["Expired"]


def test_cancelled_steps_and_continuing_runs_are_counted(client: httpx.Client) -> None:
    def counts(name: str, **members: Any) -> tuple[int, int]:
        chosen = put(client, name, **members).json()["data"]
        return chosen["dropped"], chosen["continuing"]

    assert counts("auto-progress") == (0, 0)
    invoices = [register(client, invoiceNumber=number) for number in "ABC"]
    assert counts("auto-progress") == (0, 0)
    assert counts("late-payment", invoiceId=invoices[0]["id"]) == (4, 0)
    choose(client, "offer-expires", invoices[1])
    assert counts("manual") == (0, 1), "that of C, which has no scenario of its own"
    assert counts("manual", endRuns=True) == (4, 0)
    assert counts("happy-path", endRuns=True) == (0, 0)


def test_the_workspace_does_not_come_between_an_invoice_and_its_own_scenario(
    client: httpx.Client,
) -> None:
    invoice = register(client)
    choose(client, "withdrawn-after-accept", invoice)
    choose(client, "partial-funding")
    run_to_end(client)
    assert [one["status"] for one in offers(client, invoice)] == ["Withdrawn"]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [({}, 401), (named("manual"), 200), (named("key-revoked-midflow"), 200)],
)
def test_the_request_comes_before_the_workspace_where_a_step_goes_with_it(
    server: Running, client: httpx.Client, headers: dict[str, str], expected: int
) -> None:
    invoice = register(client)
    key = client.post("/api/developer/api-keys", json={"scopes": ["invoices:read"]}).json()["data"]
    choose(client, "key-revoked-midflow", reads=1)
    with server.client(key["secret"]) as polling:
        path = f"{GET}/{invoice['id']}"
        assert polling.get(path, headers=headers).status_code == 200
        assert polling.get(path, headers=headers).status_code == expected


def test_an_invoice_with_a_scenario_of_its_own_is_read_in_that_scenario_only(
    server: Running, client: httpx.Client
) -> None:
    own, other = register(client), register(client, invoiceNumber="STORY-2")
    choose(client, "manual", own)
    key = client.post("/api/developer/api-keys", json={"scopes": ["invoices:read"]}).json()["data"]
    choose(client, "key-revoked-midflow", reads=1)
    with server.client(key["secret"]) as polling:
        for invoice, expected in ((own, 200), (own, 200), (other, 200), (own, 401)):
            assert polling.get(f"{GET}/{invoice['id']}").status_code == expected


# Conditions


def test_a_choice_may_change_conditions_for_its_invoice_only(client: httpx.Client) -> None:
    first, second = register(client), register(client, invoiceNumber="STORY-2")
    choose(client, "competing-offers", first, decision="PT1H")
    choose(client, "competing-offers", second)
    advance(client, "PT1H")
    assert (status(client, first), status(client, second)) == ("OfferAccepted", "Offered")


def test_the_response_shows_the_conditions_that_hold(client: httpx.Client) -> None:
    shown = put(client, "partial-funding", **{"with": {"percent": 10}}).json()["data"]
    every = {"businessDays": False, "dates": True}
    assert shown["conditions"] == {**every, "percent": 10, "rest": "P1D"}


@in_turn(
    ("name", "conditions", "expected"),
    [
        ("partial-funding", {"procent": 10}, "partial-funding has no condition 'procent'"),
        ("manual", {"delay": "PT1S"}, "manual has no condition 'delay' (known: dates,"),
        ("manual", {"dates": "no"}, """condition 'dates' must be like False, not "no"."""),
        ("partial-funding", {"percent": "1"}, """condition 'percent' must be like 40, not "1"."""),
        ("partial-funding", {"percent": True}, "condition 'percent' must be like 40, not true"),
        ("partial-funding", {"percent": 0.5}, "condition 'percent' must be like 40, not 0.5"),
        ("partial-funding", {"rest": 1}, "condition 'rest' must be like 'P1D', not 1"),
        ("partial-funding", {"rest": "soon"}, "condition 'rest': 'soon' must be a duration"),
        ("rate-limited", {"rejections": 0}, "condition 'rejections': "),
        ("slow-api", {"delay": "P1D"}, "condition 'delay': "),
        (
            "late-payment",
            {"late": "P120D"},
            "conditions, late: 'P120D' is more than P90D. After day 90 the invoice is in default",
        ),
        ("key-revoked-midflow", {"reads": 0}, "condition 'reads': "),
    ],
)
def test_conditions_that_a_scenario_cannot_have_are_rejected(
    client: httpx.Client, name: str, conditions: dict[str, Any], expected: str
) -> None:
    assert message(put(client, name, **{"with": conditions}), 409).startswith(expected)
    assert current(client) == ["manual"]


def test_an_unknown_condition_gets_similar_names(client: httpx.Client) -> None:
    response = put(client, "partial-funding", **{"with": {"procent": 10}})
    assert "percent" in message(response, 409).replace("procent", "")


# Rejected choices


def test_an_unknown_scenario_is_rejected(client: httpx.Client) -> None:
    assert "name" in message(put(client, "partial-fundings"), 400)


def test_an_unknown_scenario_in_a_request_gets_similar_names(
    client: httpx.Client,
) -> None:
    said = message(client.get(GET, headers=named("rate-limitd")), 400)
    assert "'rate-limitd'" in said
    assert "rate-limited" in said


def test_an_unknown_invoice_is_rejected(client: httpx.Client) -> None:
    response = put(client, "offer-expires", invoiceId="inv_sandbox_none")
    assert response.status_code == 404
    problem = response.json()["error"]["message"]
    assert problem.startswith("No record with this id can run a scenario. Check 'inv_sandbox_none'")
    assert response.json()["error"]["code"] == "resource_not_found"


def test_an_invoice_that_does_not_meet_the_needs_is_rejected_saying_which(
    client: httpx.Client,
) -> None:
    invoice = register(client)
    path = f"/sandbox/invoices/{invoice['id']}/transition"
    assert client.post(path, json={"trigger": "withdraw"}).status_code == 200
    said = message(put(client, "offer-expires", invoiceId=invoice["id"]), 409)
    assert said.startswith(
        "offer-expires needs status Registered or VerificationPending or Verified or "
        "FinancingRequested, but it is Withdrawn"
    )


@pytest.mark.parametrize("name", ["slow-api", "rate-limited", "scope-missing", "maintenance-5xx"])
def test_a_scenario_that_alters_responses_cannot_be_that_of_one_invoice(
    client: httpx.Client, name: str
) -> None:
    invoice = register(client)
    assert message(put(client, name, invoiceId=invoice["id"]), 409).startswith(
        f"{name} injects faults"
    )


def test_a_rejected_choice_changes_nothing(client: httpx.Client) -> None:
    invoice = register(client, "invoice-expires")
    for body in ({"name": "rate-limited"}, {"name": "offer-expires", "with": {"x": 1}}):
        response = client.put("/sandbox/scenario", json={**body, "invoiceId": invoice["id"]})
        assert response.status_code == 409
    assert in_store(client, invoice) == ["invoice-expires"]


# What becomes of the scenario before


def test_runs_under_way_go_on_with_the_scenario_that_began_them(client: httpx.Client) -> None:
    choose(client, "offer-expires")
    invoice = register(client)
    advance(client, "PT2S")
    choose(client, "happy-path")
    later = register(client, invoiceNumber="LATER")
    advance(client, "PT10S")
    assert (status(client, invoice), status(client, later)) == ("Offered", "Offered")
    assert in_store(client) == ["offer-expires"]
    run_to_end(client)
    assert [item["status"] for item in offers(client, invoice)] == ["Expired"]


def test_events_go_on_to_schedule_steps_of_the_scenario_that_began_a_run(
    client: httpx.Client,
) -> None:
    choose(client, "partial-funding")
    invoice = register(client)
    advance(client, "PT10S")
    choose(client, "manual")
    [offer] = offers(client, invoice)
    assert client.post(f"/sandbox/offers/{offer['id']}/accept").is_success
    due = client.get("/sandbox/agenda").json()["data"]["due"]
    assert ("pay-out", "partial-funding") in [(item["do"], item["scenario"]) for item in due]


def test_ended_runs_leave_cancelled_steps_with_the_reason_and_the_request(
    client: httpx.Client,
) -> None:
    choose(client, "invoice-expires")
    invoice = register(client)
    advance(client, "PT1S")
    ended = put(client, "manual", endRuns=True)
    assert in_store(client) == []
    done = client.get("/sandbox/agenda").json()["data"]["done"]
    found = [item for item in done if item["outcome"] == "cancelled"]
    assert found
    for item in found:
        assert item["requestId"] == ended.headers["x-request-id"]
        assert item["reason"].startswith("manual was chosen. The step was due at 202")
        assert (item["at"], item["subject"]) == (now(client), invoice["id"])
    assert run_to_end(client) == []
    assert status(client, invoice) != "Expired"


def test_a_choice_for_an_invoice_shows_the_steps_that_it_cancels(client: httpx.Client) -> None:
    choose(client, "invoice-expires")
    invoice = register(client)
    choose(client, "manual", invoice)
    done = client.get("/sandbox/agenda").json()["data"]["done"]
    assert {item["outcome"] for item in done} == {"cancelled"}


def test_faults_of_deliveries_are_those_of_the_scenario_that_was_chosen(
    client: httpx.Client,
) -> None:
    choose(client, "invoice-expires")
    register(client)
    choose(client, "webhook-duplicate")
    client.post("/api/webhooks", json={"url": inbox(client)["url"], "events": ["*"]})
    advance(client, "PT2S")
    assert any(message["duplicate"] for message in inbox(client)["messages"])


def inbox(client: httpx.Client) -> Any:
    return client.get("/sandbox/inbox").json()["data"]


def test_invoices_with_a_scenario_of_their_own_keep_it(client: httpx.Client) -> None:
    choose(client, "invoice-expires")
    invoices = [
        register(client, debtorId=LATE, invoiceNumber="M"),
        register(client, "offer-expires", invoiceNumber="R"),
        register(client, invoiceNumber="W"),
    ]
    chosen = register(client, invoiceNumber="I")
    choose(client, "partial-funding", chosen)
    choose(client, "manual")
    assert [in_store(client, one) for one in (*invoices, chosen)] == [
        ["late-payment"],
        ["offer-expires"],
        ["invoice-expires"],
        ["partial-funding"],
    ]


def test_the_choice_for_one_invoice_drops_nothing_of_the_others(client: httpx.Client) -> None:
    choose(client, "invoice-expires")
    first, second = register(client), register(client, invoiceNumber="STORY-2")
    choose(client, "manual", first)
    assert (in_store(client, first), in_store(client, second)) == ([], ["invoice-expires"])


def test_the_faults_of_the_scenario_before_are_gone_and_injected_ones_are_not(
    client: httpx.Client,
) -> None:
    choose(client, "scope-missing")
    assert client.post("/sandbox/faults", json={"kind": "status", "status": 418}).is_success
    choose(client, "rate-limited")
    listed = client.get("/sandbox/faults").json()["data"]
    assert sorted(one["status"] for one in listed) == [418, 429]
    choose(client, "manual")
    assert [client.get("/api/offers").status_code for _ in range(2)] == [418, 200]


# Requests that name a scenario with faults


def responses(client: httpx.Client, times: int, name: str = "rate-limited") -> list[int]:
    """What so many requests get that name the scenario."""
    return [client.get(GET, headers=named(name)).status_code for _ in range(times)]


def test_faults_of_requests_are_counted_in_the_workspace(
    server: Running, client: httpx.Client
) -> None:
    key = client.post("/api/developer/api-keys", json={"scopes": ["invoices:read"]}).json()["data"]
    with server.client(key["secret"]) as other:
        assert responses(client, 2) == [429, 429]
        assert responses(other, 2) == [429, 200]
    assert responses(client, 1) == [200]


def test_they_are_counted_afresh_when_a_scenario_is_chosen(client: httpx.Client) -> None:
    assert responses(client, 4) == [429, 429, 429, 200]
    choose(client, "auto-progress")
    assert responses(client, 4) == [429, 429, 429, 200]


def test_they_are_counted_afresh_when_the_workspace_is_reset(client: httpx.Client) -> None:
    assert responses(client, 4) == [429, 429, 429, 200]
    assert client.post("/sandbox/reset").is_success
    assert responses(client, 4) == [429, 429, 429, 200]


def test_faults_of_one_scenario_do_not_use_up_those_of_another(client: httpx.Client) -> None:
    assert responses(client, 2, "maintenance-5xx") == [503, 503]
    assert responses(client, 4, "rate-limited") == [429, 429, 429, 200]
    assert responses(client, 2, "maintenance-5xx") == [500, 200]


def test_faults_of_a_request_are_listed_before_one_is_injected(client: httpx.Client) -> None:
    """What was deleted from the list does not come back with the next request."""
    assert client.get(GET, headers=named("slow-api")).is_success
    (listed,) = client.get("/sandbox/faults").json()["data"]
    assert listed["operation"] == "createInvoice"
    assert client.delete(f"/sandbox/faults/{listed['id']}").is_success
    assert client.get(GET, headers=named("slow-api")).is_success
    assert client.get("/sandbox/faults").json()["data"] == []


def test_the_control_endpoints_take_no_scenario_from_a_request(client: httpx.Client) -> None:
    for name in ("rate-limited", "no-such-scenario"):
        assert client.get("/sandbox/scenarios", headers=named(name)).status_code == 200
        assert client.put(
            "/sandbox/scenario", json={"name": "manual"}, headers=named(name)
        ).is_success
    assert responses(client, 4) == [429, 429, 429, 200]


# One workspace and another


@pytest.mark.parametrize("name", ["rate-limited", "scope-missing", "maintenance-5xx"])
def test_a_choice_alters_no_responses_of_another_workspace(
    server: Running, client: httpx.Client, name: str
) -> None:
    choose(client, name)
    assert client.get("/api/offers", headers=named(name)).status_code >= 400
    with server.client(server.new_workspace()) as other:
        assert other.get("/api/offers").status_code == 200


def test_a_choice_begins_nothing_in_another_workspace(
    server: Running, client: httpx.Client
) -> None:
    choose(client, "invoice-expires")
    with server.client(server.new_workspace()) as other:
        assert in_store(other, register(other)) == []
        assert current(other) == ["manual"]


def test_an_invoice_of_another_workspace_cannot_be_chosen_for(
    server: Running, client: httpx.Client
) -> None:
    invoice = register(client)
    with server.client(server.new_workspace(seed=99)) as other:
        assert put(other, "invoice-expires", invoiceId=invoice["id"]).status_code == 404
    assert in_store(client, invoice) == []
