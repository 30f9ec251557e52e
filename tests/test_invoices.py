"""Invoices: created, listed, read, and never registered twice without notice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.cases import in_turn
from tests.scenario_run import DATED, INVOICE, data, register
from tests.support import FROZEN, Running, serving


def message(response: httpx.Response) -> str:
    assert response.status_code == 400
    return str(response.json()["error"]["message"])


def test_what_was_posted_is_read_back_with_exactly_the_published_members(
    client: httpx.Client,
) -> None:
    created = register(client, amount=12500.5, purchaseOrder="not a member of an invoice")
    assert created == {
        "id": created["id"],
        "registryId": created["registryId"],
        "status": "Registered",
        **DATED,
        "amount": 12500.5,
    }
    assert client.get(f"/api/invoices/{created['id']}").json()["data"] == created
    assert client.get("/api/invoices").json()["data"][0] == created


def test_dates_that_were_not_sent_are_not_made_up(client: httpx.Client) -> None:
    created = data(client.post("/api/invoices", json=INVOICE), 201)
    assert not {"issueDate", "dueDate"} & created.keys()


@pytest.mark.parametrize("name", INVOICE)
def test_a_missing_member_is_named(client: httpx.Client, name: str) -> None:
    body = {key: value for key, value in DATED.items() if key != name}
    for path in ("/api/invoices", "/api/registry/fingerprint"):
        assert message(client.post(path, json=body)).startswith(f"{name} is required.")


def test_all_missing_members_are_named(client: httpx.Client) -> None:
    text = message(client.post("/api/invoices", json={"sellerId": "a"}))
    assert text.startswith("debtorId, invoiceNumber, amount and currency are required. ")


def test_missing_members_are_named_before_others_are_counted(client: httpx.Client) -> None:
    text = message(client.post("/api/invoices", json={"amount": "1", "currency": 7}))
    assert text.startswith(
        "sellerId, debtorId and invoiceNumber are required (and 2 more problems). "
    )


def test_without_a_missing_member_the_first_problem_is_named(client: httpx.Client) -> None:
    body = {**DATED, "amount": "1", "currency": 7}
    text = message(client.post("/api/invoices", json=body))
    assert text.startswith("amount must be a number (and 1 more problem). ")


WRONG = {
    "amount as text": {"amount": "12500.50"},
    "amount null": {"amount": None},
    "amount true": {"amount": True},
    "currency a number": {"currency": 978},
    "seller null": {"sellerId": None},
    "no calendar date": {"dueDate": "2026-02-30"},
    "date in another form": {"dueDate": "30.12.2026"},
    "date null": {"issueDate": None},
}


@in_turn("change", WRONG.values(), ids=WRONG)
def test_a_member_of_the_wrong_type_is_named(client: httpx.Client, change: dict[str, Any]) -> None:
    text = message(client.post("/api/invoices", json={**DATED, **change}))
    assert text.startswith(f"{next(iter(change))} must be")


ALLOWED = {
    "zero": {"amount": 0},
    "negative": {"amount": -5},
    "huge": {"amount": 1e300},
    "any currency": {"currency": "shells"},
    "an empty currency": {"currency": ""},
    "an empty number": {"invoiceNumber": ""},
    "due before it was issued": {"dueDate": "2026-09-03"},
    "due long ago": {"issueDate": "0001-01-01", "dueDate": "0001-01-01"},
    "a very long name": {"sellerId": "x" * 100_000},
}


@pytest.mark.parametrize("change", ALLOWED.values(), ids=ALLOWED)
def test_nothing_that_is_published_is_narrowed(
    client: httpx.Client, change: dict[str, Any]
) -> None:
    assert register(client, **change)["status"] == "Registered"


def test_a_duplicate_is_registered_and_flagged_however_it_is_spelt(client: httpx.Client) -> None:
    first = register(client)
    again = register(client, invoiceNumber=" run-1", currency="eur", dueDate="2027-01-03")
    assert again["status"] == "DuplicateSuspected"
    assert again["currency"] == "eur"
    assert again["id"] != first["id"]


def test_a_similarity_is_reported_and_changes_nothing(client: httpx.Client) -> None:
    first = register(client)
    other = {**DATED, "amount": 99}
    found = client.post("/api/registry/fingerprint", json=other).json()["data"]
    assert found["duplicateRisk"] == "Similar"
    assert found["matches"][0]["registryId"] == first["registryId"]
    assert register(client, amount=99)["status"] == "Registered"


def test_a_fingerprint_registers_nothing(client: httpx.Client) -> None:
    before = client.get("/api/invoices").headers["x-total-count"]
    first = client.post("/api/registry/fingerprint", json=DATED).json()["data"]
    assert first == client.post("/api/registry/fingerprint", json=DATED).json()["data"]
    assert (first["duplicateRisk"], first["registryState"]) == ("None", "RegisteredUnique")
    assert client.get("/api/invoices").headers["x-total-count"] == before


def test_an_exact_match_is_reported_with_its_registration(client: httpx.Client) -> None:
    registered = register(client)
    found = client.post("/api/registry/fingerprint", json=DATED).json()["data"]
    assert (found["duplicateRisk"], found["registryState"]) == ("Exact", "RegisteredDuplicate")
    assert found["matches"] == [
        {
            "matchType": "Exact",
            "registryId": registered["registryId"],
            "ownRegistration": True,
            "matchedState": "RegisteredUnique",
        }
    ]


def test_pages_follow_their_link_newest_first_while_others_create(client: httpx.Client) -> None:
    made = [register(client, invoiceNumber=str(number))["id"] for number in range(5)]
    seen: list[str] = []
    url: str | None = "/api/invoices?limit=2&sellerId=org_seller_acme&status=Registered"
    while url:
        page = client.get(url)
        assert int(page.headers["x-total-count"]) >= 5
        seen += [one["id"] for one in page.json()["data"]]
        register(client, invoiceNumber=f"later {len(seen)}")
        link = page.headers.get("link", "")
        url = link[1 : link.index(">")] if link else None
        assert not link or link.endswith('; rel="next"')
    assert seen[:5] == made[::-1]
    assert len(seen) == len(set(seen))


def test_a_page_is_as_long_as_asked_and_the_last_one_links_nowhere(client: httpx.Client) -> None:
    for number in range(3):
        register(client, sellerId="org_of_three", invoiceNumber=str(number))
    sizes = {}
    for limit in (1, 2, 3, 100):
        page = client.get(f"/api/invoices?sellerId=org_of_three&limit={limit}")
        sizes[limit] = (len(page.json()["data"]), "link" in page.headers)
        assert page.headers["x-total-count"] == "3"
    assert sizes == {1: (1, True), 2: (2, True), 3: (3, False), 100: (3, False)}


@in_turn("limit", ["0", "101", "-1", "abc", "1e1", "99999999999999999999"])
def test_a_limit_outside_1_to_100_is_400(client: httpx.Client, limit: str) -> None:
    assert message(client.get(f"/api/invoices?limit={limit}")).startswith("limit must be")


@pytest.mark.parametrize("cursor", ["nonsense", "", "%C3%A9", "YmVmb3JlOng", "YmVmb3JlOjA"])
def test_a_cursor_that_was_never_given_out_names_an_empty_page(
    client: httpx.Client, cursor: str
) -> None:
    page = client.get(f"/api/invoices?cursor={cursor}")
    assert (page.status_code, page.json()["data"]) == (200, [])
    assert "link" not in page.headers


FILTERS = {
    "status=Registered": ["b", "a"],
    "status=Nothing": [],
    "currency=GBP": ["b"],
    "debtorId=org_debtor_globex&currency=GBP": ["b"],
    "debtorId=nobody": [],
    "sellerId=org_seller_acme&currency=EUR&status=Registered": ["a"],
    "createdFrom=2026-11-23T09:30:00Z": ["b", "a"],
    "createdFrom=2026-11-23": ["b", "a"],
    "createdTo=2026-11-23T10:29:59%2B01:00": [],
    "createdFrom=2026-11-23T09:30:00Z&createdTo=2026-11-23": ["b", "a"],
    "createdFrom=2026-11-23T10:30:00+01:00": ["b", "a"],
    "createdTo=2026-11-23T10:29:59+01:00": [],
    "createdTo=9999-12-31T23:59:59-23:59": ["b", "a"],
}


@pytest.mark.parametrize(("query", "found"), FILTERS.items(), ids=FILTERS)
def test_filters_narrow_a_list(client: httpx.Client, query: str, found: list[str]) -> None:
    mine = {register(client, invoiceNumber="a")["id"]: "a"}
    mine[register(client, invoiceNumber="b", currency="GBP")["id"]] = "b"
    listed = client.get(f"/api/invoices?{query}").json()["data"]
    assert [mine[one["id"]] for one in listed if one["id"] in mine] == found


@pytest.mark.parametrize(
    "filtered", ["invoices?createdFrom", "invoices?createdTo", "audit-log?from"]
)
@pytest.mark.parametrize(
    "bound", ["soon", "2026-02-30", "1700000000", "2026-11-23T09:30:00 01:00", ""]
)
def test_a_bound_that_is_no_time_is_named(client: httpx.Client, filtered: str, bound: str) -> None:
    response = client.get(f"/api/{filtered}={bound}")
    assert response.status_code == 400
    assert filtered.partition("?")[2] in response.json()["error"]["message"]


@in_turn(
    ("wanted", "shown"),
    [
        ("inv_sandbox_none", "'inv_sandbox_none'"),
        ("x" * 64, f"'{'x' * 64}'"),
        ("x" * 65, "the value"),
        ("<script>", "the value"),
        ("a%0Ab", "the value"),
        ("ilk_sandbox_secret", "the value"),
        ("whsec_secret", "the value"),
    ],
)
def test_a_404_names_the_id_if_it_looks_like_one(
    client: httpx.Client, wanted: str, shown: str
) -> None:
    message = client.get(f"/api/invoices/{wanted}").json()["error"]["message"]
    assert message == (
        f"There is no invoice with this id. Check {shown}, and that the credential belongs to the "
        "same workspace."
    )


def test_an_unknown_invoice_is_404(client: httpx.Client) -> None:
    response = client.get("/api/invoices/inv_sandbox_nobody")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "resource_not_found"


def session_of(running: Running) -> list[tuple[bytes, str]]:
    """What a fixed series of requests returns: bodies and request ids."""
    with running.client() as client:
        responses = [
            client.post("/api/invoices", json=DATED),
            client.post("/api/invoices", json=DATED),
            client.post("/api/verification/run"),
            client.post("/api/financing-requests", json={}),
            client.post("/api/offers", json={}),
            client.post("/api/webhooks", json={"url": "https://partner.example/hooks"}),
            client.get("/api/invoices/unknown"),
            client.get("/api/audit-log"),
        ]
        return [(response.content, response.headers["x-request-id"]) for response in responses]


def test_the_same_seed_clock_and_requests_give_the_same_bytes() -> None:
    with serving(FROZEN) as one:
        first = session_of(one)
    with serving(FROZEN) as two:
        assert session_of(two) == first


def test_servers_without_a_seed_share_no_ids() -> None:
    made = []
    for _ in range(2):
        with serving(replace(FROZEN, seed=None)) as running, running.client() as client:
            created = register(client)
            made += [created["id"], created["registryId"]]
    assert len(set(made)) == 4


def test_workspaces_without_a_seed_share_no_ids(server: Running) -> None:
    made = []
    for _ in range(3):
        with server.client(server.new_workspace()) as client:
            made.append(register(client)["id"])
    assert len(set(made)) == 3


def test_workspaces_with_the_same_seed_give_the_same_ids_side_by_side(server: Running) -> None:
    made = []
    for _ in range(2):
        with server.client(server.new_workspace(seed=4711)) as client:
            made.append(register(client)["id"])
            assert client.get("/api/invoices").json()["data"][0]["id"] == made[-1]
    assert made[0] == made[1]
