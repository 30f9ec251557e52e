"""Starting data: what ships is sound, and what is wrong is said with its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import invoice_sandbox
from domain.fingerprint import fingerprint, registry_keys
from domain.pricing import price, terms_of
from domain.routing import Deal, judge
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.schema.compile import Schemas
from invoice_sandbox.project.contracts import merged_document
from invoice_sandbox.project.fixtures import fixture_errors, load_fixtures
from invoice_sandbox.project.loader import default_project
from tests.cases import in_turn

PROJECT = default_project()
SHIPPED = PROJECT / "fixtures"
CONTRACT = merged_document(PROJECT)
SCHEMAS = Schemas(CONTRACT)
FIXTURES = load_fixtures(SHIPPED, SCHEMAS)
KINDS = sorted(FIXTURES)
NOW = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
DIGITS = {"EUR": 2, "GBP": 2, "USD": 2, "JPY": 0, "BHD": 3}
MACHINES = {"invoices": "invoice", "financing_requests": "financing-request", "offers": "offer"}
FINANCED = ("OfferAccepted", "Funded", "Overdue", "Paid", "Settled")

INVOICES = {record["id"]: record for record in FIXTURES["invoices"]}
REQUESTS = {record["id"]: record for record in FIXTURES["financing_requests"]}
PARTNERS = {record["id"]: record for record in FIXTURES["partners"]}
ORGANISATIONS = {record["id"]: record for record in FIXTURES["organisations"]}

each_offer = pytest.mark.parametrize("offer", FIXTURES["offers"], ids=lambda one: str(one["id"]))
each_request = pytest.mark.parametrize(
    "request_", FIXTURES["financing_requests"], ids=lambda one: str(one["id"])
)


def ids(kind: str) -> set[str]:
    return {record["id"] for record in FIXTURES[kind]}


def day(instant: str) -> date:
    return datetime.fromisoformat(instant).date()


def invoice_of(request: dict[str, Any]) -> dict[str, Any]:
    (invoice_id,) = request["invoiceIds"]
    return INVOICES[invoice_id]


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in ``value``, however deep."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from objects(one)


def test_everything_that_ships_fits() -> None:
    assert list(fixture_errors(SHIPPED, SCHEMAS)) == []


@in_turn("kind", KINDS)
def test_every_file_reports_what_it_is_and_where_its_schema_stands(kind: str) -> None:
    editor, purpose, *_ = (SHIPPED / f"{kind}.yaml").read_text(encoding="utf-8").splitlines()
    assert editor == f"# yaml-language-server: $schema={kind}.schema.json"
    assert purpose.startswith("# ")
    assert (SHIPPED / f"{kind}.schema.json").exists()


@in_turn("kind", KINDS)
def test_a_schema_describes_every_member_and_allows_no_other(kind: str) -> None:
    schema = load_document(SHIPPED / f"{kind}.schema.json")
    for one in objects(schema):
        if one.get("type") == "object":
            assert one["additionalProperties"] is False
            assert all("description" in member for member in one["properties"].values())


@pytest.mark.parametrize("kind", MACHINES)
def test_the_statuses_of_a_schema_are_those_of_the_lifecycle(kind: str) -> None:
    machine = load_document(PROJECT / "scenarios" / "lifecycle.yaml")["machines"][MACHINES[kind]]
    schema = load_document(SHIPPED / f"{kind}.schema.json")
    record = schema["properties"]["records"]["items"]["properties"]
    reached = {one["to"] for one in machine["transitions"]} - {"previous"}
    known = {machine["initial"], *machine["terminal"], *reached}
    assert set(record["status"]["enum"]) == known


@pytest.mark.parametrize("kind", ["users", "api_keys"])
def test_the_scopes_of_a_schema_are_those_of_the_contract(kind: str) -> None:
    create = CONTRACT["paths"]["/api/developer/api-keys"]["post"]["requestBody"]["content"]
    served = create["application/json"]["schema"]["properties"]["scopes"]["items"]["enum"]
    schema = load_document(SHIPPED / f"{kind}.schema.json")
    record = schema["properties"]["records"]["items"]["properties"]
    assert record["scopes"]["items"]["enum"] == served


def test_what_is_referred_to_is_there() -> None:
    for invoice in FIXTURES["invoices"]:
        assert {invoice["sellerId"], invoice["debtorId"]} <= ids("organisations")
    for request in FIXTURES["financing_requests"]:
        assert set(request["invoiceIds"]) <= ids("invoices")
        assert set(request["routedPartnerIds"]) <= ids("partners")
    for offer in FIXTURES["offers"]:
        request = REQUESTS[offer["financingRequestId"]]
        assert [offer["invoiceId"]] == request["invoiceIds"]
        assert offer["partnerId"] in request["routedPartnerIds"]


@pytest.mark.parametrize("kind", ["invoices", "financing_requests", "offers"])
def test_records_stand_oldest_first_and_none_comes_from_the_future(kind: str) -> None:
    times = [datetime.fromisoformat(record["createdAt"]) for record in FIXTURES[kind]]
    assert times == sorted(times)
    assert times[-1] < NOW
    assert [record["id"] for record in FIXTURES[kind]] == sorted(ids(kind))


def test_the_first_invoice_can_be_financed_and_the_second_can_be_verified() -> None:
    first, second, *_ = FIXTURES["invoices"]
    assert (first["id"], first["status"]) == ("inv_sandbox_0001", "Verified")
    assert (second["id"], second["status"]) == ("inv_sandbox_0002", "Registered")


def test_invoices_are_at_many_points_of_their_life_and_in_many_currencies() -> None:
    assert {invoice["status"] for invoice in FIXTURES["invoices"]} >= {
        *("Registered", "VerificationPending", "OnHold", "DuplicateSuspected", "Verified"),
        *("FinancingRequested", "Offered", "Withdrawn", *FINANCED),
    }
    assert {invoice["currency"] for invoice in FIXTURES["invoices"]} == set(DIGITS)


@in_turn("invoice", FIXTURES["invoices"], ids=lambda one: str(one["id"]))
def test_the_dates_of_an_invoice_fit_its_status(invoice: dict[str, Any]) -> None:
    issued, due = (date.fromisoformat(invoice[name]) for name in ("issueDate", "dueDate"))
    assert issued <= day(invoice["createdAt"]) < due
    if invoice["status"] == "Overdue":
        assert due < NOW.date() <= due + timedelta(days=90)
    elif invoice["status"] not in {"Paid", "Settled"}:
        assert due > NOW.date()


def test_an_invoice_equals_or_resembles_another_only_where_it_is_suspected() -> None:
    seen: set[str] = set()
    for invoice in FIXTURES["invoices"]:
        keys = {fingerprint(invoice), *registry_keys(invoice).similar}
        assert bool(keys & seen) == (invoice["status"] == "DuplicateSuspected")
        seen |= keys


def test_an_invoice_has_a_request_once_it_was_financed_and_not_before() -> None:
    requested = {invoice["id"] for invoice in map(invoice_of, FIXTURES["financing_requests"])}
    for invoice in FIXTURES["invoices"]:
        wanted = invoice["status"] in {"FinancingRequested", "Offered", *FINANCED}
        assert (invoice["id"] in requested) == wanted


STATUS_OF_INVOICE = {
    "Routed": {"FinancingRequested"},
    "OffersReceived": {"Offered"},
    "OfferAccepted": {"OfferAccepted"},
    "Funded": {"Funded", "Overdue", "Paid"},
    "Closed": {"Settled"},
}
STATUSES_OF_OFFERS = {
    "Routed": set[str](),
    "OffersReceived": {"Received"},
    "OfferAccepted": {"Accepted", "Superseded"},
    "Funded": {"Accepted", "Superseded"},
    "Closed": {"Accepted", "Superseded"},
}


@each_request
def test_request_invoice_and_offers_are_at_the_same_point(request_: dict[str, Any]) -> None:
    status = request_["status"]
    offers = [one for one in FIXTURES["offers"] if one["financingRequestId"] == request_["id"]]
    count = Counter(one["status"] for one in offers)
    assert invoice_of(request_)["status"] in STATUS_OF_INVOICE[status]
    assert set(count) <= STATUSES_OF_OFFERS[status]
    assert count["Accepted"] == (status in {"OfferAccepted", "Funded", "Closed"})
    assert bool(offers) == (status != "Routed")


@each_request
def test_a_request_asks_for_its_share_of_the_invoice(request_: dict[str, Any]) -> None:
    invoice = invoice_of(request_)
    assert request_["currency"] == invoice["currency"]
    assert invoice["createdAt"] < request_["createdAt"]
    wanted = Decimal(invoice["amount"]) * request_["requestedAdvanceRate"]
    assert request_["requestedAmount"] == rounded(wanted, invoice["currency"])


@each_request
def test_a_request_went_to_the_partners_whose_mandates_match(request_: dict[str, Any]) -> None:
    invoice = invoice_of(request_)
    seller, debtor = (ORGANISATIONS[invoice[name]] for name in ("sellerId", "debtorId"))
    due = date.fromisoformat(invoice["dueDate"])
    deal = Deal(
        currency=invoice["currency"],
        amount=Decimal(invoice["amount"]),
        tenor_days=(due - day(request_["createdAt"])).days,
        seller_country=seller["country"],
        debtor_country=debtor["country"],
        debtor_sector=debtor["sector"],
        product=request_["product"],
        recourse=request_["recoursePreference"],
        disclosure=request_["disclosure"],
    )
    asked = [one for one in FIXTURES["partners"] if not one.get("onlyWhenNamed")]
    matched = [one["id"] for one in asked if not judge(one, deal).failed]
    assert request_["routedPartnerIds"] == matched


def rounded(amount: Decimal, currency: str) -> Decimal:
    return amount.quantize(Decimal(1).scaleb(-DIGITS[currency]), ROUND_HALF_EVEN)


@each_offer
def test_the_figures_of_an_offer_follow_from_its_rates(offer: dict[str, Any]) -> None:
    currency, face = offer["currency"], Decimal(offer["faceValue"])
    discount, service = offer["discountFee"], offer["serviceFee"]
    advance = rounded(face * offer["advanceRate"], currency)
    interest = advance * discount["annualRate"] * discount["tenorDays"] / 360
    assert offer["advanceAmount"] == advance
    assert offer["reserveAmount"] == face - advance
    assert discount["amount"] == rounded(interest, currency)
    assert service["amount"] == rounded(face * service["rate"], currency)
    assert offer["netProceeds"] == advance - discount["amount"] - service["amount"]


@each_offer
def test_an_offer_is_what_its_partner_would_quote_that_day(offer: dict[str, Any]) -> None:
    invoice = INVOICES[offer["invoiceId"]]
    made = datetime.fromisoformat(offer["createdAt"])
    tenor = (date.fromisoformat(invoice["dueDate"]) - made.date()).days
    terms = terms_of(PARTNERS[offer["partnerId"]], {}, invoice)
    figures = price(Decimal(invoice["amount"]), invoice["currency"], tenor, terms)
    assert (offer["faceValue"], offer["currency"]) == (invoice["amount"], invoice["currency"])
    assert offer["discountFee"]["tenorDays"] == tenor
    assert offer["netProceeds"] == figures.net_proceeds
    open_end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    end = open_end if offer["status"] == "Received" else made + timedelta(hours=72)
    assert datetime.fromisoformat(offer["validUntil"]) == end
    assert offer["noticeOfAssignmentRequired"] == (offer["disclosure"] == "Disclosed")


def test_an_offer_that_can_still_be_accepted_has_not_run_out() -> None:
    for offer in FIXTURES["offers"]:
        if offer["status"] == "Received":
            assert datetime.fromisoformat(offer["validUntil"]) > NOW


def test_there_are_no_endpoints_no_deliveries_and_no_secret_but_the_public_password() -> None:
    secret = ("secret", "password", "token", "digest", "key")
    assert not {"webhooks", "webhook_endpoints", "endpoints", "deliveries"} & set(KINDS)
    assert {user["password"] for user in FIXTURES["users"]} == {"demo-password"}
    named = {key for one in objects(FIXTURES) for key in one if key.lower().endswith(secret)}
    assert named == {"password"}


USERS = (SHIPPED / "users.yaml").read_text(encoding="utf-8")
INVOICE_FILE = (SHIPPED / "invoices.yaml").read_text(encoding="utf-8")
Found = list[tuple[str, str]]


def users(old: str, new: str) -> str:
    assert old in USERS
    return USERS.replace(old, new, 1)


def invoices(old: str, new: str) -> str:
    assert old in INVOICE_FILE
    return INVOICE_FILE.replace(old, new, 1)


BROKEN: dict[str, tuple[str, str, Found]] = {
    "unknown key": (
        "users",
        users("displayName: Demo Seller", "displyName: Demo Seller"),
        [
            (":4:5", "an item of 'records' has no 'displayName'"),
            (":8:5", "unknown key 'displyName' (did you mean displayName?)"),
        ],
    ),
    "misspelt status": (
        "invoices",
        invoices("status: Verified", "status: Verifed"),
        [(":7:5", "'status' cannot be 'Verifed' (did you mean Verified?)")],
    ),
    "an id twice": (
        "misc",
        "records:\n  - id: a\n  - id: a\n",
        [(":3:5", "duplicate id 'a'")],
    ),
    "not a date": (
        "invoices",
        invoices("issueDate: 2026-10-03", "issueDate: 2026-13-01"),
        [(":13:5", "'issueDate' does not satisfy format: \"date\"")],
    ),
    "unknown schema of the contract": (
        "misc",
        "schema: Invoce\nrecords: []\n",
        [(":1:1", "the contract has no schema Invoce")],
    ),
    "refused by the contract": (
        "misc",
        "schema: Invoice\nrecords:\n  - {id: i, status: Paid, sellerId: s, amount: x}\n",
        [
            (":3:5", "registryId is required"),
            (":3:5", "debtorId is required"),
            (":3:5", "invoiceNumber is required"),
            (":3:5", "currency is required"),
            (":3:5", "amount must be a number"),
        ],
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in SHIPPED.glob("*.schema.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


@pytest.mark.parametrize(("kind", "text", "expected"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_is_reported_once_with_its_place(
    folder: Path, kind: str, text: str, expected: Found
) -> None:
    file = folder / f"{kind}.yaml"
    file.write_text(text, encoding="utf-8")
    lines = [f"{file}{place}: {problem}" for place, problem in expected]
    assert sorted(map(str, fixture_errors(folder, SCHEMAS))) == sorted(lines)


def test_all_problems_of_all_files_are_reported_at_once(folder: Path) -> None:
    for name, text in {"a": "records: [", "b": "records: 7", "c": "records: [{id: x}, {}]"}.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    errors = fixture_errors(folder, SCHEMAS)
    assert [Path(error.place.split(":")[0]).name for error in errors] == [
        "a.yaml",
        "b.yaml",
        "c.yaml",
    ]
    with pytest.raises(DocumentError) as rejected:
        load_fixtures(folder, SCHEMAS)
    assert str(rejected.value).splitlines()[1:] == [str(error) for error in errors]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ('{"type": "objct"}', "'objct' is not valid under any of the given schemas"),
        ('{"properties": {"records": {"items": 5}}}', "5 is not of type 'object', 'boolean'"),
        ('{"type": ', "Expecting value: line 1 column 10 (char 9)"),
    ],
)
def test_a_schema_that_is_none_is_reported(folder: Path, schema: str, reason: str) -> None:
    (folder / "misc.schema.json").write_text(schema)
    (folder / "misc.yaml").write_text("records: [{id: a}]")
    (error,) = fixture_errors(folder, SCHEMAS)
    assert str(error) == f"{folder}/misc.schema.json: not a JSON Schema: {reason}"


SHIPPED_SCHEMAS = [
    *SHIPPED.glob("*.schema.json"),
    *Path(invoice_sandbox.__file__).parent.rglob("*.schema.json"),
]


@pytest.mark.parametrize("file", SHIPPED_SCHEMAS, ids=lambda file: file.name)
def test_the_schemas_that_ship_are_valid(file: Path) -> None:
    Draft202012Validator.check_schema(load_document(file))


def test_amounts_are_decimals_as_in_a_request(folder: Path) -> None:
    (folder / "misc.yaml").write_text("records: [{id: a, amount: 0.1}]", encoding="utf-8")
    assert load_fixtures(folder, SCHEMAS) == {"misc": [{"id": "a", "amount": Decimal("0.1")}]}
