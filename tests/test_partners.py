"""Demo partners and their mandates: every filter gives its reason, and routing is always a 200."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from domain.exposure import Exposure, exposure_of, with_exposure
from domain.routing import Deal, judge
from tests.cases import in_turn
from tests.scenario_run import data, move, register

ROUTE = "/api/partners/route"
ALDER, BIRCH, CEDAR = "ptn_sandbox_alder", "ptn_sandbox_birch", "ptn_sandbox_cedar"
FIR = "ptn_sandbox_fir"
FILTERS = [
    *("currency", "amount", "tenor", "sellerCountry", "debtorCountry"),
    *("debtorSector", "product", "recourse", "disclosure"),
    *("debtorLimit", "debtorConcentration", "netProceeds", "requestedAmount", "requestedCurrency"),
    "neededBy",
]
MANDATE_MEMBERS = {
    *("currencies", "sellerCountries", "debtorCountries", "minAmount", "maxAmount"),
    *("minTenorDays", "maxTenorDays", "products", "recourse", "disclosure"),
    *("excludedSectors", "debtorConcentrationMax", "debtorLimitRequired"),
}


def registered(client: httpx.Client, **members: Any) -> str:
    """The id of a new invoice on a debtor without an organisation, unless another is named."""
    return str(register(client, **{"debtorId": "org_debtor_nobody_knows", **members})["id"])


def route(client: httpx.Client, **body: Any) -> Any:
    response = client.post(ROUTE, json=body)
    assert response.status_code == 200, response.text
    return response.json()["data"]


def verdict(routing: Any, partner: str) -> Any:
    """Passed filters, and failed ones with their reasons, of one partner that was asked."""
    (row,) = (
        one for one in routing["matched"] + routing["unmatched"] if one["partnerId"] == partner
    )
    failed = row.get("failedFilters", [])
    return row["passedFilters"], {one["filter"]: one["reason"] for one in failed}


def asked(routing: Any) -> set[str]:
    return {one["partnerId"] for one in routing["matched"] + routing["unmatched"]}


def test_the_configured_partners_are_listed_with_their_demo_mandates(client: httpx.Client) -> None:
    partners = client.get("/api/partners").json()["data"]
    assert {ALDER, BIRCH, CEDAR} <= {one["id"] for one in partners}
    assert len(partners) >= 4
    for partner in partners:
        assert (partner["demo"], partner["status"]) == (True, "Active")
        assert {"id", "name", "type", "mandate"} <= partner.keys()
        assert partner["mandate"].keys() <= MANDATE_MEMBERS


@in_turn("due", ["0311-08-09", "2099-12-31", "9999-12-31"])
@in_turn("amount", [1.7976931348623157e308, -1.7e308])
def test_an_invoice_of_the_largest_amounts_is_routed(
    client: httpx.Client, amount: float, due: str
) -> None:
    """Its interest is no number that a double can hold."""
    routing = route(client, invoiceId=registered(client, amount=amount, dueDate=due))
    assert len(asked(routing)) >= 4


def test_partners_come_in_pages(client: httpx.Client) -> None:
    everything = [one["id"] for one in client.get("/api/partners").json()["data"]]
    first = client.get("/api/partners", params={"limit": 1})
    assert [one["id"] for one in first.json()["data"]] == everything[:1]
    assert first.headers["X-Total-Count"] == str(len(everything))
    second = client.get(first.links["next"]["url"]).json()["data"]
    assert [one["id"] for one in second] == everything[1:2]


def test_a_routing_reports_what_was_routed_and_that_no_live_network_was_asked(
    client: httpx.Client,
) -> None:
    invoice = registered(client)
    routing = route(client, invoiceId=invoice)
    assert routing["routingId"].startswith("rte_sandbox_")
    assert (routing["invoiceId"], routing["liveNetwork"]) == (invoice, False)
    assert routing["demoMandates"] is True
    assert routing.keys() == {
        *("routingId", "invoiceId", "matched", "unmatched", "liveNetwork", "demoMandates")
    }


def test_a_partner_that_fits_has_passed_every_filter(client: httpx.Client) -> None:
    routing = route(client, invoiceId=registered(client), debtorCountry="DE", sellerCountry="DE")
    assert verdict(routing, ALDER) == (FILTERS, {})
    assert ALDER in {one["partnerId"] for one in routing["matched"]}


def test_a_partner_that_does_not_fit_reports_which_filters_failed_and_why(
    client: httpx.Client,
) -> None:
    passed, failed = verdict(route(client, invoiceId=registered(client)), BIRCH)
    assert failed["debtorCountry"] == "COUNTRY_NOT_ELIGIBLE"
    assert failed["product"] == "PRODUCT_NOT_OFFERED"
    assert sorted([*passed, *failed]) == sorted(FILTERS)


OUTSIDE_ALDER: dict[str, tuple[dict[str, Any], str, str]] = {
    "currency": ({"currency": "USD"}, "currency", "CURRENCY_NOT_ELIGIBLE"),
    "too little": ({"amount": 499.99}, "amount", "AMOUNT_OUT_OF_RANGE"),
    "too much": ({"amount": 250000.01}, "amount", "AMOUNT_OUT_OF_RANGE"),
    "far too much": ({"amount": 1e300}, "amount", "AMOUNT_OUT_OF_RANGE"),
    "too soon": ({"dueDate": "2026-12-07"}, "tenor", "TENOR_OUT_OF_RANGE"),
    "too late": ({"dueDate": "2027-05-23"}, "tenor", "TENOR_OUT_OF_RANGE"),
    "past due": ({"dueDate": "2026-11-03"}, "tenor", "TENOR_OUT_OF_RANGE"),
}


@in_turn(("members", "name", "reason"), OUTSIDE_ALDER.values(), ids=OUTSIDE_ALDER)
def test_an_invoice_outside_a_mandate_fails_that_filter_only(
    client: httpx.Client, members: dict[str, Any], name: str, reason: str
) -> None:
    routing = route(client, invoiceId=registered(client, **members), debtorCountry="DE")
    assert verdict(routing, ALDER)[1] == {name: reason}


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"amount": 500}, id="least amount"),
        pytest.param({"amount": 250000}, id="greatest amount"),
        pytest.param({"dueDate": "2026-12-08"}, id="shortest tenor"),
        pytest.param({"dueDate": "2027-05-22"}, id="longest tenor"),
        pytest.param({"currency": "eur"}, id="currency in lower case"),
    ],
)
def test_the_bounds_of_a_mandate_belong_to_it(
    client: httpx.Client, members: dict[str, Any]
) -> None:
    routing = route(client, invoiceId=registered(client, **members), debtorCountry="DE")
    assert verdict(routing, ALDER)[1] == {}


MANDATE: dict[str, Any] = {
    "currencies": ["EUR"],
    "sellerCountries": ["DE"],
    "debtorCountries": ["DE", "FR"],
    "minAmount": Decimal(500),
    "maxAmount": Decimal(1000),
    "minTenorDays": 15,
    "maxTenorDays": 180,
    "products": ["Factoring"],
    "recourse": ["Recourse"],
    "disclosure": ["Disclosed"],
    "excludedSectors": ["Retail"],
    "debtorLimitRequired": True,
    "debtorConcentrationMax": Decimal("0.3"),
}
PRICING = {name: Decimal("0.5") for name in ("annualRate", "serviceFeeRate", "advanceRate")}
PRICING["serviceFeeRate"] = Decimal("0.01")
PARTNER: dict[str, Any] = {
    "id": "ptn",
    "mandate": MANDATE,
    "pricing": PRICING,
    "debtorLimits": [
        {"debtorId": "org", "currency": currency, "amount": Decimal(1500)}
        for currency in ("EUR", "GBP")
    ],
    "portfolio": [{"currency": currency, "amount": Decimal(3000)} for currency in ("EUR", "GBP")],
}
DEAL = Deal("EUR", Decimal(750), 60, "DE", "FR", "Trade", debtor_id="org")
CHANGES: dict[str, tuple[dict[str, Any], tuple[str, str] | None]] = {
    "nothing": ({}, None),
    "currency": ({"currency": "GBP"}, ("currency", "CURRENCY_NOT_ELIGIBLE")),
    "less": ({"amount": Decimal("499.99")}, ("amount", "AMOUNT_OUT_OF_RANGE")),
    "more": ({"amount": Decimal("1000.01")}, ("amount", "AMOUNT_OUT_OF_RANGE")),
    "sooner": ({"tenor_days": 14}, ("tenor", "TENOR_OUT_OF_RANGE")),
    "later": ({"tenor_days": 181}, ("tenor", "TENOR_OUT_OF_RANGE")),
    "seller": ({"seller_country": "FR"}, ("sellerCountry", "COUNTRY_NOT_ELIGIBLE")),
    "debtor": ({"debtor_country": "GB"}, ("debtorCountry", "COUNTRY_NOT_ELIGIBLE")),
    "sector": ({"debtor_sector": "Retail"}, ("debtorSector", "SECTOR_EXCLUDED")),
    "product": ({"product": "ReverseFactoring"}, ("product", "PRODUCT_NOT_OFFERED")),
    "recourse": ({"recourse": "NonRecourse"}, ("recourse", "RECOURSE_NOT_OFFERED")),
    "the same recourse": ({"recourse": "Recourse"}, None),
    "disclosure": ({"disclosure": "Confidential"}, ("disclosure", "DISCLOSURE_NOT_OFFERED")),
    "a debtor without limit": ({"debtor_id": "x"}, ("debtorLimit", "DEBTOR_LIMIT_MISSING")),
    "several invoices beyond the limit": (
        {"debtor_total": Decimal(1501), "request_total": Decimal(9000)},
        ("debtorLimit", "DEBTOR_LIMIT_EXCEEDED"),
    ),
    "too large a share": (
        {"debtor_total": Decimal(1500), "request_total": Decimal(1500)},
        ("debtorConcentration", "DEBTOR_CONCENTRATION_TOO_HIGH"),
    ),
    "the whole invoice": ({"requested_amount": Decimal(750)}, None),
    "more than the invoice": (
        {"requested_amount": Decimal("750.01")},
        ("requestedAmount", "REQUESTED_AMOUNT_ABOVE_INVOICE"),
    ),
    "the same currency": ({"requested_currency": "EUR"}, None),
    "another currency": (
        {"requested_currency": "USD"},
        ("requestedCurrency", "CURRENCY_DIFFERS_FROM_INVOICE"),
    ),
}


@in_turn(("changes", "failed"), CHANGES.values(), ids=CHANGES)
def test_each_filter_looks_at_its_own_member_of_the_mandate(
    changes: dict[str, Any], failed: tuple[str, str] | None
) -> None:
    judged = judge(PARTNER, replace(DEAL, **changes))
    assert judged.failed == (() if failed is None else (failed,))
    assert {*judged.passed, *(name for name, _ in judged.failed)} == set(FILTERS)


REQUESTED = {"requested_amount", "requested_currency"}


@in_turn("changes", [row[0] for row in CHANGES.values() if not row[0].keys() & REQUESTED])
def test_a_mandate_that_says_nothing_takes_everything(changes: dict[str, Any]) -> None:
    assert judge({**PARTNER, "mandate": {}}, replace(DEAL, **changes)).failed == ()


def test_no_partner_takes_what_would_pay_the_seller_nothing() -> None:
    partner = {**PARTNER, "mandate": {}}
    failed = (("netProceeds", "NET_PROCEEDS_NOT_POSITIVE"),)
    assert judge(partner, replace(DEAL, tenor_days=720)).failed == failed
    assert judge(partner, replace(DEAL, amount=Decimal("0.004"))).failed == failed


def test_no_partner_takes_what_is_past_due() -> None:
    judged = judge({**PARTNER, "mandate": {}}, replace(DEAL, tenor_days=-1))
    assert judged.failed == (("tenor", "TENOR_OUT_OF_RANGE"),)


EXPOSED = {
    "within the limit": (Exposure(Decimal(750), Decimal(750)), None),
    "beyond the limit": (Exposure(Decimal(751), Decimal(9000)), "DEBTOR_LIMIT_EXCEEDED"),
    "too large a share": (
        Exposure(Decimal(750), Decimal(0)),
        "DEBTOR_CONCENTRATION_TOO_HIGH",
    ),
}


@pytest.mark.parametrize(("exposure", "reason"), EXPOSED.values(), ids=EXPOSED)
def test_what_is_financed_already_counts(exposure: Exposure, reason: str | None) -> None:
    portfolio = [{"currency": "EUR", "amount": Decimal(4000)}]
    judged = judge({**PARTNER, "portfolio": portfolio}, DEAL, exposure)
    assert [found for _, found in judged.failed] == ([] if reason is None else [reason])


@pytest.mark.parametrize(("financed", "is_within"), [("200.00", True), ("200.01", False)])
def test_a_debtor_may_have_just_its_share(financed: str, is_within: bool) -> None:
    """Of 3 in 10: 300 with the deal, beside 700 of others."""
    partner = {"mandate": {"debtorConcentrationMax": Decimal("0.3")}, "pricing": PRICING}
    portfolio = [{"currency": "EUR", "amount": Decimal(700)}]
    exposure = Exposure(Decimal(financed), Decimal(financed))
    deal = replace(DEAL, amount=Decimal(100))
    judged = judge({**partner, "id": "ptn", "portfolio": portfolio}, deal, exposure)
    assert ("debtorConcentration" in judged.passed) == is_within


def test_a_debtor_that_is_unknown_is_in_germany(client: httpx.Client) -> None:
    invoice = registered(client)
    assert verdict(route(client, invoiceId=invoice), ALDER)[1] == {}
    british = route(client, invoiceId=invoice, debtorCountry="GB")
    assert verdict(british, ALDER)[1] == {"debtorCountry": "COUNTRY_NOT_ELIGIBLE"}


def test_the_country_of_a_known_debtor_comes_from_its_organisation(client: httpx.Client) -> None:
    known = route(client, invoiceId=registered(client, debtorId="org_debtor_globex"))
    assert verdict(known, ALDER)[1] == {}


def test_a_country_is_the_same_in_lower_case(client: httpx.Client) -> None:
    invoice = registered(client)
    failed = verdict(route(client, invoiceId=invoice, debtorCountry="gb"), BIRCH)[1]
    assert "debtorCountry" not in failed


def test_routing_takes_the_newest_invoice_of_the_client_by_default(client: httpx.Client) -> None:
    registered(client)
    newest = registered(client, invoiceNumber="ROU-2")
    assert route(client)["invoiceId"] == newest


def test_without_an_invoice_a_synthetic_one_is_routed(client: httpx.Client) -> None:
    routing = route(client)
    assert routing["invoiceId"] is None
    assert verdict(routing, ALDER)[1] == {}


def test_a_financing_request_is_routed_with_its_invoice_and_its_options(
    client: httpx.Client,
) -> None:
    invoice = registered(client)
    client.post("/api/verification/run", json={"invoiceId": invoice})
    options = {"product": "InvoiceDiscounting", "disclosure": "Confidential"}
    body = {"invoiceId": invoice, "recoursePreference": "NonRecourse", **options}
    request = client.post("/api/financing-requests", json=body).json()["data"]
    registered(client, invoiceNumber="ROU-2")
    routing = route(client, financingRequestId=request["id"])
    assert routing["invoiceId"] == invoice
    assert verdict(routing, ALDER)[1].keys() == {"product", "recourse", "disclosure"}


def test_a_partner_that_quotes_only_when_named_matches_only_then(client: httpx.Client) -> None:
    registered(client)
    assert verdict(route(client), CEDAR)[1] == {"invitation": "QUOTES_ONLY_WHEN_NAMED"}
    named = route(client, partnerIds=[CEDAR])
    assert (asked(named), verdict(named, CEDAR)[1]) == ({CEDAR}, {})


class Kept:
    """The state of a workspace, as far as exposure needs it."""

    def __init__(self) -> None:
        self.records: dict[str, Any] = {}

    def get(self, _collection: str, key: str) -> Any:
        return self.records.get(key)

    def put(self, _collection: str, key: str, record: Any) -> None:
        self.records[key] = record


def test_a_space_in_a_currency_or_a_debtor_mixes_up_no_exposure() -> None:
    context: Any = SimpleNamespace(state=Kept())
    offer = {"partnerId": FIR, "faceValue": 100}
    for currency, debtor in (("EUR", "A"), ("EUR A", "B")):
        invoice = {"currency": currency, "debtorId": debtor}
        with_exposure(context, invoice, "accept-offer", offer)
    expected = Exposure(Decimal(100), Decimal(100))
    assert exposure_of(context, FIR, "EUR", "A") == expected
    assert exposure_of(context, FIR, "EUR A", "B") == expected


def test_every_configured_partner_matches_or_has_a_reason(client: httpx.Client) -> None:
    registered(client)
    routing = route(client)
    assert asked(routing) == {one["id"] for one in client.get("/api/partners").json()["data"]}
    assert all(one["failedFilters"] for one in routing["unmatched"])


def finance(client: httpx.Client, *triggers: str, **members: Any) -> Any:
    """An invoice that Fir finances, moved on by ``triggers``."""
    invoice = registered(client, **members)
    client.post("/api/verification/run", json={"invoiceId": invoice})
    body = {"invoiceId": invoice, "partnerIds": [FIR]}
    assert client.post("/api/financing-requests", json=body).json()["data"]["status"] == "Routed"
    move(client, invoice, "receive-offer", "accept-offer", "fund", *triggers)
    return invoice


BY_FIR = {"debtorId": "org_debtor_initech"}
ACCEPT = "accept-offer"


def test_a_debtor_without_a_limit_does_not_match(client: httpx.Client) -> None:
    without, with_limit = registered(client), registered(client, **BY_FIR)
    failed = verdict(route(client, invoiceId=without), FIR)[1]
    assert failed == {"debtorLimit": "DEBTOR_LIMIT_MISSING"}
    assert verdict(route(client, invoiceId=with_limit), FIR)[1] == {}


@pytest.mark.parametrize(
    ("triggers", "failed"),
    [
        pytest.param((), {"debtorLimit": "DEBTOR_LIMIT_EXCEEDED"}, id="funded"),
        pytest.param(("pay-partially",), {"debtorLimit": "DEBTOR_LIMIT_EXCEEDED"}, id="part paid"),
        pytest.param(("pay",), {}, id="paid"),
        pytest.param(
            ("pay", "return-payment"), {"debtorLimit": "DEBTOR_LIMIT_EXCEEDED"}, id="returned"
        ),
        pytest.param(("pay", "settle"), {}, id="settled"),
        pytest.param(
            ("become-overdue", "default", "invoke-recourse", "repurchase"), {}, id="bought back"
        ),
    ],
)
def test_the_limit_counts_what_is_financed_until_it_is_paid(
    client: httpx.Client, triggers: tuple[str, ...], failed: dict[str, str]
) -> None:
    finance(client, *triggers, **BY_FIR, amount=200000)
    other = registered(client, **BY_FIR, invoiceNumber="ROU-2", amount=200001)
    found = verdict(route(client, invoiceId=other), FIR)[1]
    assert {name: reason for name, reason in found.items() if name == "debtorLimit"} == failed


def test_the_concentration_counts_what_is_financed(client: httpx.Client) -> None:
    """A fifth of the partner's million and of both invoices is less than both."""
    finance(client, **BY_FIR, amount=130000)
    other = registered(client, **BY_FIR, invoiceNumber="ROU-2", amount=125000)
    failed = verdict(route(client, invoiceId=other), FIR)[1]
    assert failed == {"debtorConcentration": "DEBTOR_CONCENTRATION_TOO_HIGH"}
    less = registered(client, **BY_FIR, invoiceNumber="ROU-3", amount=120000)
    assert verdict(route(client, invoiceId=less), FIR)[1] == {}


def offered(client: httpx.Client, number: str, amount: int, **members: Any) -> str:
    """The id of an offer of the partner with limits, on an invoice of its own."""
    invoice = registered(client, **{**BY_FIR, "invoiceNumber": number, "amount": amount, **members})
    data(client.post("/api/verification/run", json={"invoiceId": invoice}), 200)
    asked = {"invoiceId": invoice, "partnerIds": [FIR]}
    assert data(client.post("/api/financing-requests", json=asked), 201)["status"] == "Routed"
    body = {"invoiceId": invoice, "partnerId": FIR}
    return str(data(client.post("/api/offers", json=body), 201)["id"])


def accept(client: httpx.Client, offer: str) -> httpx.Response:
    return client.post(f"/sandbox/offers/{offer}/accept")


HIGH, EXCEEDED = "debtorConcentration: DEBTOR_CONCENTRATION_TOO_HIGH", "DEBTOR_LIMIT_EXCEEDED"
LIMITED = {
    # a million besides, of which a fifth may be on a debtor, and a limit of 400,000
    "concentration": ({}, [150000] * 3, [200, 409, 409], HIGH),
    "limit": ({}, [200000, 200001], [200, 409], EXCEEDED),
    "both within": ({}, [120000, 120000], [200, 200], ""),
    # half a million besides, and a limit of 250,000
    "dollars": (
        {"currency": "USD", "debtorId": "org_debtor_stark"},
        [90000, 60000, 30000],
        [200, 409, 200],
        HIGH,
    ),
}


@pytest.mark.parametrize(("members", "amounts", "codes", "reason"), LIMITED.values(), ids=LIMITED)
def test_an_acceptance_keeps_to_the_limits_whatever_was_offered(
    client: httpx.Client, members: dict[str, str], amounts: list[int], codes: list[int], reason: str
) -> None:
    made = [offered(client, f"LIM-{index}", one, **members) for index, one in enumerate(amounts)]
    responses = [accept(client, offer) for offer in made]
    assert [one.status_code for one in responses] == codes
    rejected = [one.json()["error"]["message"] for one in responses if one.is_error]
    assert all(reason in message for message in rejected)


def test_what_the_debtor_pays_makes_room_for_another_acceptance(client: httpx.Client) -> None:
    made = [offered(client, f"LIM-{number}", 150000) for number in range(2)]
    assert [accept(client, offer).status_code for offer in made] == [200, 409]
    second, first = (one["invoiceId"] for one in data(client.get("/api/offers"))[:2])
    rejected = client.post(f"/sandbox/invoices/{second}/transition", json={"trigger": ACCEPT})
    assert rejected.status_code == 409
    move(client, first, "fund", "pay")
    move(client, second, ACCEPT)


def test_only_the_partners_named_are_asked(client: httpx.Client) -> None:
    routing = route(client, partnerIds=[ALDER, "ptn_sandbox_nobody", 7, None])
    assert asked(routing) == {ALDER}


def test_at_least_one_partner_takes_everything_and_one_takes_nothing(client: httpx.Client) -> None:
    odd = route(client, invoiceId=registered(client, currency="beads", amount=1))
    usual = route(client, invoiceId=registered(client))
    assert odd["matched"], "one demo partner takes everything"
    assert len(usual["matched"]) >= 2, "two offers compete on the default fixture (section E)"
    assert usual["unmatched"], "one partner never matches (section E)"


STRANGE: dict[str, Any] = {
    "null": None,
    "a number": 7,
    "a large number": 10**40,
    "true": True,
    "an array": [None, 1, {}],
    "an object": {"id": "inv"},
    "an unknown text": "nothing_sandbox_like_0001",
}
MEMBERS = ["invoiceId", "financingRequestId", "partnerIds"]


@in_turn("value", STRANGE.values(), ids=STRANGE)
@in_turn("member", MEMBERS)
def test_a_strange_value_is_ignored(client: httpx.Client, member: str, value: Any) -> None:
    usual, strange = route(client), route(client, **{member: value})
    del usual["routingId"], strange["routingId"]
    assert strange == usual


@in_turn("value", list(STRANGE.values())[:-1], ids=list(STRANGE)[:-1])
@in_turn("member", ["debtorCountry", "sellerCountry"])
def test_a_country_that_is_no_text_is_ignored(
    client: httpx.Client, member: str, value: Any
) -> None:
    usual, strange = route(client), route(client, **{member: value})
    del usual["routingId"], strange["routingId"]
    assert strange == usual


@pytest.mark.parametrize("body", [b"[]", b"null", b"", b"{"], ids=["list", "null", "none", "cut"])
def test_a_body_that_is_no_object_is_400(client: httpx.Client, body: bytes) -> None:
    response = client.post(ROUTE, content=body, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")


def test_routing_changes_no_invoice_and_is_audited(client: httpx.Client) -> None:
    invoice = registered(client)
    before = client.get("/api/invoices").json()
    routing = route(client)
    assert client.get("/api/invoices").json() == before
    events = client.get("/api/audit-log", params={"targetId": routing["routingId"]}).json()["data"]
    assert [(one["action"], one["metadata"]) for one in events] == [
        ("partners.routed", {"invoiceId": invoice})
    ]
