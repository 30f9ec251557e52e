"""What openapi-python-client generates from the served contracts is a client that works.

The generator leaves out, with a warning, what it does not understand; here it leaves out nothing.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.clients.generated import Generated, GenerationError, generated
from tests.scenario_run import INVOICE
from tests.support import FROZEN, PATIENCE, Running, serving

pytestmark = pytest.mark.slow

LOGIN: Final = {"email": "seller@demo.example", "password": "demo-password"}


@dataclass(frozen=True)
class Clients:
    """The server, and a client of each of its two contracts."""

    server: Running
    api: Generated
    controls: Generated


@dataclass(frozen=True)
class Caller:
    """One who asks with the generated clients."""

    clients: Clients
    api: Any
    controls: Any

    def ask(self, operation: str, *, expect: int = 200, **arguments: Any) -> Any:
        """The body of a response of the API, which must have this status."""
        return _asked(self.clients.api, operation, self.api, expect, arguments)

    def control(self, operation: str, *, expect: int = 200, **arguments: Any) -> Any:
        """The same of the control API."""
        return _asked(self.clients.controls, operation, self.controls, expect, arguments)

    def model(self, name: str, members: Any) -> Any:
        """A schema of the API as the client has it."""
        return self.clients.api.model(name).from_dict(members)

    def body(self, operation: str, **members: Any) -> Any:
        """A body of an operation, with the model that is named after it."""
        return self.model(f"{operation}Body", members)

    def advance(self, by: str) -> None:
        """Move the clock of the workspace."""
        body = self.clients.controls.model("Advance").from_dict({"by": by})
        self.control("advance_clock", body=body)


def _asked(client: Generated, operation: str, connection: Any, expect: int, arguments: Any) -> Any:
    response = client.call(operation, connection, **arguments)
    assert response.status_code == expect, response.content
    return response.parsed


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """A server whose invoices move by themselves, and its generated clients."""
    folder = tmp_path_factory.mktemp("generated")
    with serving(replace(FROZEN, scenario=None)) as server:
        controls = f"{server.url}/sandbox"
        with (
            generated(f"{server.url}/openapi.json", server.url, folder, "invoice_api") as api,
            generated(f"{controls}/openapi.json", controls, folder, "invoice_levers") as of_control,
        ):
            yield Clients(server, api, of_control)


@contextmanager
def calling(clients: Clients, key: str | None) -> Iterator[Caller]:
    """One who sends ``key``, or nothing."""
    with clients.api.connection(key) as api, clients.controls.connection(key) as controls:
        yield Caller(clients, api, controls)


@pytest.fixture
def caller(clients: Clients) -> Iterator[Caller]:
    """The owner of a new workspace."""
    with calling(clients, clients.server.new_workspace()) as caller:
        yield caller


def register(caller: Caller, **members: Any) -> Any:
    """A new invoice."""
    body = caller.model("InvoiceInput", {**INVOICE, **members})
    return caller.ask("create_invoice", expect=201, body=body).data


def delivered(caller: Caller) -> list[Any]:
    """The events in the inbox, oldest first."""
    messages = caller.control("get_inbox").data.messages
    return [json.loads(one.body) for one in reversed(messages)]


def operation_ids(contract_url: str) -> set[str]:
    """The operations of a contract, ``createInvoice`` as ``create_invoice``."""
    items = httpx.get(contract_url, timeout=PATIENCE).json()["paths"].values()
    names = [one["operationId"] for item in items for one in item.values() if "responses" in one]
    return {re.sub(r"(?=[A-Z])", "_", name).lower() for name in names}


@pytest.mark.process
def test_no_operation_of_either_contract_is_left_out(clients: Clients) -> None:
    for client in (clients.api, clients.controls):
        assert client.operations == operation_ids(f"{client.url}/openapi.json")


def test_every_operation_can_be_imported_with_all_its_models(clients: Clients) -> None:
    for client in (clients.api, clients.controls):
        for operation in client.operations:
            assert callable(client.module(operation).sync)


def test_every_schema_of_the_contract_is_a_model(clients: Clients) -> None:
    contract = httpx.get(f"{clients.api.url}/openapi.json", timeout=PATIENCE).json()
    for name in contract["components"]["schemas"]:
        assert clients.api.model(name).__name__ == name


def test_the_published_flow(caller: Caller) -> None:
    """Every operation of the API but those of sessions, each with success."""
    asked = caller.clients.api.asked
    asked.clear()
    health = caller.ask("get_health")
    assert (health.data["status"], health.mode) == ("ok", "sandbox_mock")

    inbox = caller.control("get_inbox").data.url
    endpoint = caller.ask(
        "create_webhook", expect=201, body=caller.body("CreateWebhook", url=inbox)
    ).data
    assert endpoint["secret"].startswith("whsec_")

    invoice = register(caller, amount=12500.5)
    assert (invoice.status, invoice.amount) == ("Registered", 12500.5)
    body = caller.model("InvoiceInput", {**INVOICE, "amount": 12500.5})
    fingerprint = caller.ask("generate_fingerprint", body=body).data
    assert fingerprint["registryState"] == "RegisteredDuplicate"
    run = caller.body("RunVerification", invoiceId=invoice.id)
    assert caller.ask("run_verification", body=run).data["invoiceId"] == invoice.id
    caller.advance("PT2S")
    assert caller.ask("get_invoice", id=invoice.id).data.status == "Verified"

    options = caller.body(
        "CreateFinancingRequest", invoiceIds=[invoice.id], requestedAdvanceRate=0.85
    )
    request = caller.ask("create_financing_request", expect=201, body=options).data
    (newest,) = caller.ask("list_financing_requests", limit=1).data
    assert newest["id"] == request["id"]
    partner = caller.ask("list_partners").data[0]
    caller.ask("route_partners", body=caller.body("RoutePartners", invoiceId=invoice.id))
    terms = caller.body(
        "CreateOffer", invoiceId=invoice.id, partnerId=partner["id"], advanceRate=0.8
    )
    caller.ask("create_offer", expect=201, body=terms)
    caller.advance("PT10S")
    offers = caller.ask("list_offers", invoice_id=invoice.id).data
    assert {one["status"] for one in offers} == {"Received"}
    caller.control("accept_offer", id=offers[0]["id"])
    (accepted,) = caller.ask("list_invoices", status="OfferAccepted", limit=1).data
    assert accepted["id"] == invoice.id

    log = caller.ask("list_webhooks").data
    assert {one["status"] for one in log["deliveries"]} == {"Delivered"}
    wanted = caller.body("TestWebhook", eventType="invoice.verified")
    sample = caller.ask("test_webhook", body=wanted).data
    assert caller.model("InvoiceEvent", json.loads(sample["request"]["body"])).mode

    pushed = caller.body(
        "PushErpInvoices", externalId="ERP-780", **{**INVOICE, "invoiceNumber": "INV-2"}
    )
    caller.ask("push_erp_invoices", expect=202, body=pushed)
    file = caller.body(
        "CreateUploadUrl", fileName="a.jpg", contentType="image/jpeg", contentLength=3
    )
    assert caller.ask("create_upload_url", body=file).data["url"]
    assert caller.ask("get_assignment_rules", country="DE").data["country"] == "DE"
    trail = [one["action"] for one in caller.ask("list_audit_events", target_id=invoice.id).data]
    assert trail[-1] == "invoice.registered"

    scopes = caller.body("CreateApiKey", scopes=["audit:read"])
    key = caller.ask("create_api_key", expect=201, body=scopes).data
    assert key["id"] in {one["id"] for one in caller.ask("list_api_keys").data}
    assert caller.ask("revoke_api_key", id=key["id"]).data["status"] == "Revoked"
    assert caller.clients.api.operations - asked == {"login", "get_session", "logout"}


def test_a_session_with_its_cookie(clients: Clients, caller: Caller) -> None:
    with calling(clients, None) as browser:
        browser.ask("login", body=browser.body("Login", **LOGIN))
        assert browser.ask("get_session").data["authenticated"] is True
    assert caller.ask("logout").data["authenticated"] is False


def test_webhooks_are_models_of_what_they_are_about(caller: Caller) -> None:
    inbox = caller.control("get_inbox").data.url
    caller.ask("create_webhook", expect=201, body=caller.body("CreateWebhook", url=inbox))
    invoice = register(caller)
    caller.advance("PT10S")
    verified, offered = delivered(caller)
    event = caller.model("InvoiceEvent", verified)
    assert (event.data.id, event.data.status) == (invoice.id, "Verified")
    offer = caller.model("OfferEvent", offered).data
    (listed,) = caller.ask("list_offers", invoice_id=invoice.id).data
    assert offer == caller.model("Offer", listed.to_dict())


def test_a_file_is_uploaded(caller: Caller) -> None:
    """Of several types for files the generator always sends the last one: JPEG."""
    options = caller.body(
        "CreateUploadUrl", fileName="a.jpg", contentType="image/jpeg", contentLength=3
    )
    address = httpx.URL(caller.ask("create_upload_url", body=options).data["url"])
    sent: dict[str, Any] = {"id": address.path.rpartition("/")[2], **address.params}
    file = caller.clients.controls.types.File(payload=io.BytesIO(b"\xff\xd8\xff"))
    stored = caller.control("put_upload", body=file, **sent)
    assert stored.data.status == "Stored"


# --- errors are models too


@pytest.fixture
def auditor(clients: Clients, caller: Caller) -> Iterator[Caller]:
    """One whose key may read the audit log only."""
    body = caller.body("CreateApiKey", scopes=["audit:read"])
    key = caller.ask("create_api_key", expect=201, body=body).data["secret"]
    with calling(clients, key) as auditor:
        yield auditor


def check_error(response: Any, code: str) -> None:
    """The response is the envelope of errors, with this code."""
    assert type(response).__name__ == "ErrorResponse"
    assert (response.error.code, response.mode) == (code, "sandbox_mock")
    assert response.error.request_id.startswith("req_sandbox_")
    assert response.error.message


def test_an_invalid_request_is_an_error(caller: Caller) -> None:
    body = caller.body("CreateFinancingRequest", requestedAmount=-1)
    response = caller.ask("create_financing_request", expect=400, body=body)
    check_error(response, "invalid_request")


def test_a_wrong_key_is_an_error(clients: Clients) -> None:
    with calling(clients, "ilk_sandbox_Wrong") as stranger:
        check_error(stranger.ask("list_invoices", expect=401), "authentication_required")


def test_a_missing_scope_is_an_error(auditor: Caller) -> None:
    check_error(auditor.ask("list_invoices", expect=403), "insufficient_scope")
    assert auditor.ask("list_audit_events").data


def test_an_unknown_id_is_an_error(caller: Caller) -> None:
    check_error(caller.ask("get_invoice", expect=404, id="none"), "resource_not_found")


def test_what_is_rejected_by_a_control_endpoint_is_an_error(caller: Caller) -> None:
    invoice = register(caller)
    body = caller.clients.controls.model("Transition").from_dict({"trigger": "fund"})
    response = caller.control("transition_invoice", expect=409, id=invoice.id, body=body)
    check_error(response, "invalid_request")


@pytest.mark.process
def test_a_contract_that_the_generator_does_not_understand_fails_here(tmp_path: Path) -> None:
    contract = {
        "openapi": "3.1.0",
        "info": {"title": "Files", "version": "1"},
        "paths": {
            "/files": {
                "put": {
                    "requestBody": {"content": {"text/csv": {"schema": {"type": "string"}}}},
                    "responses": {"204": {"description": "Stored."}},
                }
            }
        },
    }
    file = tmp_path / "contract.json"
    file.write_text(json.dumps(contract))
    with (
        pytest.raises(GenerationError, match=r"PUT /files .* will not be generated"),
        generated(file, "http://127.0.0.1:9", tmp_path, "left_out"),
    ):
        pass
