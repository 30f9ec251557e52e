"""Starting data: what ships is sound, and what is wrong is said with its place."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from handlers._offers import Terms, price
from invoice_sandbox.contract.documents import DocumentError
from invoice_sandbox.contract.schemas import Schemas
from invoice_sandbox.fixtures import fixture_problems, load_fixtures
from invoice_sandbox.project import default_project, merged_document

SHIPPED = default_project() / "fixtures"
SCHEMAS = Schemas(merged_document(default_project()))
FIXTURES = load_fixtures(SHIPPED, SCHEMAS)
KINDS = sorted(FIXTURES)


def ids(kind: str) -> set[str]:
    return {record["id"] for record in FIXTURES[kind]}


def test_everything_that_ships_fits() -> None:
    assert list(fixture_problems(SHIPPED, SCHEMAS)) == []


def test_every_file_has_a_schema_beside_it_and_tells_editors_so() -> None:
    for file in SHIPPED.glob("*.yaml"):
        assert (SHIPPED / f"{file.stem}.schema.json").exists()
        first = file.read_text().splitlines()[0]
        assert first == f"# yaml-language-server: $schema={file.stem}.schema.json"


def test_what_is_referred_to_is_there() -> None:
    for invoice in FIXTURES["invoices"]:
        assert {invoice["sellerId"], invoice["debtorId"]} <= ids("organisations")
    for request in FIXTURES["financing_requests"]:
        assert set(request["invoiceIds"]) <= ids("invoices")
        assert set(request["routedPartnerIds"]) <= ids("partners")
    for offer in FIXTURES["offers"]:
        assert offer["financingRequestId"] in ids("financing_requests")
        assert offer["invoiceId"] in ids("invoices")
        assert offer["partnerId"] in ids("partners")


@pytest.mark.parametrize("offer", FIXTURES["offers"], ids=lambda offer: str(offer["id"]))
def test_the_figures_of_an_offer_follow_from_its_rates(offer: dict[str, Any]) -> None:
    terms = Terms(
        Decimal(offer["advanceRate"]),
        Decimal(offer["discountFee"]["annualRate"]),
        Decimal(offer["serviceFee"]["rate"]),
    )
    face, tenor = Decimal(offer["faceValue"]), offer["discountFee"]["tenorDays"]
    figures = price(face, offer["currency"], tenor, terms)
    assert [offer["advanceAmount"], offer["reserveAmount"], offer["netProceeds"]] == [
        figures.advance,
        figures.reserve,
        figures.net_proceeds,
    ]
    assert offer["discountFee"]["amount"] == figures.discount_fee
    assert offer["serviceFee"]["amount"] == figures.service_fee


def test_the_worked_figures_of_ten_thousand_euros_are_among_them() -> None:
    worked = FIXTURES["offers"][0]
    assert (worked["faceValue"], worked["netProceeds"]) == (10000, Decimal("8347.50"))


def test_there_are_no_endpoints_no_deliveries_and_no_secret_but_the_public_password() -> None:
    assert not {"webhook_endpoints", "deliveries"} & set(KINDS)
    assert {user["password"] for user in FIXTURES["users"]} == {"demo-password"}
    assert all("secret" not in record for kind in KINDS for record in FIXTURES[kind])


def test_six_countries_and_a_partner_that_takes_everything() -> None:
    assert ids("assignment_rules") == {"GB", "DE", "FR", "IN", "NL", "US"}
    assert any(partner["mandate"] == {} for partner in FIXTURES["partners"])


USERS = (SHIPPED / "users.yaml").read_text()
INVOICES = (SHIPPED / "invoices.yaml").read_text()
BROKEN: dict[str, tuple[str, str, str, str]] = {
    "unknown key": (
        "users",
        USERS.replace("displayName: Demo Seller", "displyName: Demo Seller"),
        ":8:5",
        "unknown key 'displyName' (did you mean displayName?)",
    ),
    "misspelt word": (
        "users",
        USERS.replace("role: demo_seller", "role: demo_selller"),
        ":7:5",
        "'role' cannot be 'demo_selller' (did you mean demo_seller?)",
    ),
    "wrong type": ("users", USERS.replace("Demo Seller", "5"), ":8:5", "must be of type string"),
    "missing member": ("users", USERS.replace("    role: demo_seller\n", ""), ":4:5", "'role'"),
    "no id": ("users", "records:\n  - email: a@demo.example\n", ":2:5", "a record needs an 'id'"),
    "an id twice": ("misc", "records:\n  - id: a\n  - id: a\n", ":3:5", "'a' stands twice"),
    "no list": ("misc", "records: 7\n", "", "'records', a list"),
    "not a date": (
        "invoices",
        INVOICES.replace("issueDate: 2026-10-01", "issueDate: 2026-13-01", 1),
        ":13:5",
        "'issueDate' does not satisfy format",
    ),
    "unknown schema of the contract": (
        "misc",
        "schema: Invoce\nrecords: []\n",
        ":1:1",
        "the contract has no schema Invoce",
    ),
    "refused by the contract": (
        "misc",
        "schema: Invoice\nrecords:\n  - id: inv_1\n",
        ":3:5",
        "registryId is required",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for file in SHIPPED.glob("*.schema.json"):
        (tmp_path / file.name).write_text(file.read_text())
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "text", "place", "problem"),
    [pytest.param(*row, id=name) for name, row in BROKEN.items()],
)
def test_what_is_wrong_is_said_with_its_place(
    folder: Path, kind: str, text: str, place: str, problem: str
) -> None:
    file = folder / f"{kind}.yaml"
    file.write_text(text)
    found = list(fixture_problems(folder, SCHEMAS))
    assert any(where == f"{file}{place}" and problem in what for where, what in found), found
    with pytest.raises(DocumentError):
        load_fixtures(folder, SCHEMAS)


def test_a_schema_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "users.yaml").write_text(USERS)
    (folder / "users.schema.json").write_text("{")
    with pytest.raises(DocumentError, match=r"users\.schema\.json: not a JSON Schema"):
        list(fixture_problems(folder, SCHEMAS))
