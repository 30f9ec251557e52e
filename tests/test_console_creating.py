"""The forms of the console that create something: made of the contract and its examples."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenario_run import data
from tests.test_console import api, key, status_of, visitor
from tests.test_console_actions import panel
from tests.toy import contract, serving_contract

pytestmark = pytest.mark.slow

__all__ = ["api", "key", "visitor"]  # fixtures


def typed(page: httpx.Response) -> dict[str, Any]:
    """The body that a form sends if nobody changes it."""
    form = re.findall(r'<form method="post"[^>]* class="create">(.*?)</form>', page.text, re.DOTALL)
    fields: dict[str, Any] = {}
    for name, text in re.findall(
        r'<input id="[^"]*" name="([^"]*)" value="([^"]*)"', form[0], re.DOTALL
    ):
        fields[name] = unescape(text)
    for name, text in re.findall(r'<textarea[^>]* name="([^"]*)"[^>]*>(.*?)</textarea>', form[0]):
        fields[name] = unescape(text)
    for name, options in re.findall(r'<select[^>]* name="([^"]*)"[^>]*>(.*?)</select>', form[0]):
        fields[name] = "".join(re.findall(r"<option selected>(.*?)</option>", options))
    for name, text in re.findall(r'name="(\w+)" value="([^"]*)" checked', form[0]):
        fields.setdefault(name, []).append(text)
    return fields


def described(page: httpx.Response, name: str) -> str:
    """The text that describes a field, if it is marked as wrong; else nothing."""
    [attributes] = re.findall(
        rf'name="{name}"[^>]*aria-describedby="([^"]*)" aria-invalid', page.text
    )
    [text] = re.findall(rf'<p id="{attributes}"[^>]*>(.*?)</p>', page.text)
    return re.sub(r"<[^>]*>", "", text)


def test_every_form_sends_the_example_of_the_contract(visitor: httpx.Client) -> None:
    listed = visitor.get("/console/new").text
    names = re.findall(r'href="/console/new/(\w+)"', listed)
    assert {"createInvoice", "createWebhook", "testWebhook", "createApiKey"} < set(names)
    assert {"createWorkspace", "triggerEvent"} < set(names)
    for name in names:
        path = f"/console/new/{name}"
        form = visitor.get(path)
        assert form.status_code == 200, name
        made = visitor.post(path, data=typed(form))
        assert status_of(made) in {200, 201, 202}, (name, panel(made))


def test_an_invoice_is_created_twice_with_different_numbers(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    for _ in range(2):
        form = visitor.get("/console/new/createInvoice")
        made = visitor.post("/console/new/createInvoice", data=typed(form))
        assert 'href="/console/records/invoices/inv_' in made.text
    newest = data(api.get("/api/invoices", params={"limit": 2}))
    assert len({item["invoiceNumber"] for item in newest}) == 2
    assert [item["amount"] for item in newest] == [12500.5, 12500.5]


def test_a_scoped_key_is_shown_once_and_opens_the_console(
    visitor: httpx.Client, api: httpx.Client
) -> None:
    sent = {"name": "CI & more", "scopes": ["invoices:read", "sandbox:read"]}
    page = visitor.post("/console/new/createApiKey", data=sent)
    [secret] = set(re.findall(r"ilk_sandbox_\w{20,}", page.text))
    [made] = [
        item for item in data(api.get("/api/developer/api-keys")) if item["name"] == "CI & more"
    ]
    assert made["scopes"] == ["invoices:read", "sandbox:read"]
    visitor.post("/console/sign-in", data={"key": secret})
    assert f"(key …{secret[-4:]})" in visitor.get("/console").text
    assert secret not in visitor.get("/console").text


def test_what_was_typed_survives_with_the_reason_beside_its_field(visitor: httpx.Client) -> None:
    sent = {"invoiceNumber": "A & B", "amount": "a lot", "currency": "EUR"}
    page = visitor.post("/console/new/createInvoice", data=sent)
    assert page.status_code == 400
    assert typed(page) == {**sent, "sellerId": "", "debtorId": "", "issueDate": "", "dueDate": ""}
    assert "is required" in described(page, "sellerId")
    assert "must be a number" in described(page, "amount")
    assert page.text.count('aria-invalid="true"') == 3


def test_a_member_of_the_address_fills_its_field(visitor: httpx.Client) -> None:
    page = visitor.get("/console/new/testWebhook", params={"endpointId": '"><script>'})
    assert typed(page)["endpointId"] == '"><script>'
    assert "<script>" not in page.text.replace("<script src", "")


ODD = {
    "type": ["object", "null"],
    "properties": {
        "any": True,
        "none": False,
        "choice": {"enum": [1, None, True, {"a": 1}]},
        "list": {"type": "array", "items": True},
        "text": {"type": ["string", "null"], "examples": []},
        "self": {"$ref": "#/components/schemas/Odd"},
        "other": {"examples": [["a"], 1]},
    },
}


def test_any_schema_has_a_form(tmp_path: Path) -> None:
    document = contract({"$ref": "#/components/schemas/Odd"})
    [(_, item)] = document["paths"].items()
    body = item["post"].pop("requestBody")
    body["content"]["application/json"]["examples"] = {"first": {"value": [1, 2]}}
    item["post"]["requestBody"] = {"$ref": "#/components/requestBodies/Odd"}
    document["components"] = {"requestBodies": {"Odd": body}, "schemas": {"Odd": ODD}}
    with serving_contract(tmp_path, document) as client:
        path = "/console/new/check"
        assert typed(client.get(path)).keys() >= {"any", "none", "choice", "text", "self"}
        sent = {"choice": "{", "self": "{", "list": "a b", "any": "\u202e"}
        assert client.post(path, data=sent).status_code < 500


@pytest.mark.parametrize(
    "name", ["login", "resetWorkspace", "listInvoices", "nothing", "addFault/x"]
)
def test_what_has_no_form_is_not_found(visitor: httpx.Client, name: str) -> None:
    assert visitor.get(f"/console/new/{name}").status_code == 404
    assert visitor.post(f"/console/new/{name}").status_code in {404, 405}
