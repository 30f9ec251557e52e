"""The page on the domain model: its diagram and its ledgers are those of the code."""

from __future__ import annotations

import re

from domain import ledger as books
from tests.cases import in_turn
from tests.domain_docs import ACCOUNTS, PAGE, purchase, with_generated


def test_the_diagram_and_the_ledgers_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text()
    assert with_generated(page) == page, "run python -m tests.domain_docs"


@in_turn("account", ACCOUNTS)
def test_the_page_explains_every_account(account: str) -> None:
    assert f"`{account}`" in PAGE.read_text().partition("At any time")[0]


def test_the_figures_of_the_example_are_those_of_the_offer() -> None:
    example = purchase()
    net_proceeds = books.pay_out(books.open_ledger(example)).figures["netProceeds"]
    amounts = (example.face_value, example.advance, net_proceeds)
    text = re.sub(r"\s+", " ", PAGE.read_text())
    for amount in amounts:
        assert f"{amount:,.2f}" in text.partition("**Paid")[0]
