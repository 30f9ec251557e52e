"""Assignment policy placeholders: six countries, and a polite 200 for everything else."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.cases import in_turn

DISCLAIMER = "Sandbox placeholder, not legal advice"
ASSIGNABLE = {"Yes", "WithNotice", "WithRegistration", "Restricted", "Unknown"}
EFFECTS = {"Overridden", "OverriddenForB2B", "OverriddenForSmeSuppliers", "Effective", "Unknown"}
COUNTRIES: dict[str, tuple[str, str | None]] = {
    "DE": ("Yes", "OverriddenForB2B"),
    "FR": ("Yes", None),
    "GB": ("Yes", "OverriddenForSmeSuppliers"),
    "IN": ("WithRegistration", None),
    "NL": ("Yes", "Overridden"),
    "US": ("Yes", "Overridden"),
}
UNKNOWN = {
    "no country": "ZZ",
    "another country": "CH",
    "three letters": "DEU",
    "one letter": "D",
    "a number": "49",
    "a word": "germany",
    "a space": " ",
    "a letter that grows in capitals": "\u00df",
    "a dotless i": "\u0131n",
    "dots": "..%2e",
    "a null": "\0",
    "an attribute": "__class__",
    "a long one": "x" * 2000,
}


def rules(client: httpx.Client, country: str) -> Any:
    response = client.get(f"/api/assignment-rules/{quote(country, safe='')}")
    assert response.status_code == 200, response.text
    return response.json()["data"]


@in_turn("country", COUNTRIES)
def test_a_known_country_has_every_member(client: httpx.Client, country: str) -> None:
    rule = rules(client, country)
    assert (rule["country"], rule["supported"], rule["placeholder"]) == (country, True, True)
    assert rule["disclaimer"] == DISCLAIMER
    assert rule["assignable"] in ASSIGNABLE
    assert rule["banOnAssignment"]["effect"] in EFFECTS
    assert {"requiredForValidity", "requiredForDischarge", "form"} <= rule["debtorNotice"].keys()
    assert {"required", "registry"} <= rule["registration"].keys()
    assert rule["references"]
    assert all(isinstance(one, str) for one in rule["references"])
    assert len(rule["asOf"]) == len("2026-11-01")


@in_turn(("country", "assignable", "effect"), [(name, *row) for name, row in COUNTRIES.items()])
def test_the_placeholders_are_those_of_the_table(
    client: httpx.Client, country: str, assignable: str, effect: str | None
) -> None:
    rule = rules(client, country)
    assert rule["assignable"] == assignable
    assert effect in {None, rule["banOnAssignment"]["effect"]}


def test_the_german_placeholder_is_the_published_example(client: httpx.Client) -> None:
    rule = rules(client, "DE")
    assert rule["banOnAssignment"]["note"]
    assert rule["debtorNotice"] == {
        "requiredForValidity": False,
        "requiredForDischarge": True,
        "form": "Written",
    }
    assert rule["registration"] == {"required": False, "registry": None}
    assert (rule["references"], rule["asOf"]) == (["HGB 354a"], "2026-11-01")


def test_the_french_notice_is_the_dailly_form_and_india_registers(client: httpx.Client) -> None:
    assert rules(client, "FR")["debtorNotice"]["form"] == "DaillyNotification"
    india = rules(client, "IN")["registration"]
    assert (india["required"], india["registry"]) == (True, "CERSAI")
    assert rules(client, "NL")["asOf"] == "2025-07-01"


def test_uk_is_another_word_for_gb(client: httpx.Client) -> None:
    assert rules(client, "UK") == rules(client, "uk") == rules(client, "GB")


@pytest.mark.parametrize("country", ["de", "De", "gB", "fr"])
def test_case_does_not_matter(client: httpx.Client, country: str) -> None:
    assert rules(client, country) == rules(client, country.upper())


@in_turn("country", UNKNOWN.values(), ids=UNKNOWN)
def test_any_other_code_is_not_supported(client: httpx.Client, country: str) -> None:
    rule = rules(client, country)
    assert (rule["supported"], rule["placeholder"]) == (False, True)
    assert (rule["assignable"], rule["disclaimer"]) == ("Unknown", DISCLAIMER)


def test_the_response_names_the_country_that_was_asked_for(client: httpx.Client) -> None:
    assert rules(client, "ch")["country"] == "CH"
