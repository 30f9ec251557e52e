"""An id of another workspace gets exactly the response of an id that never existed.

One row for every operation that takes an id, and one for every operation that lists some; the
last test holds the rows against the served contract, so that no operation is forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests.cases import in_turn
from tests.scenario_run import DATED
from tests.support import Running

TASK = "/sandbox/acceptance/runs/{id}/task"
BUNDLE = "/sandbox/acceptance/runs/{id}/bundle"
FILES = {"putUpload": "application/pdf", "keepAcceptanceBundle": "application/octet-stream"}
"""Operations whose body is a file."""

PROGRESS: dict[str, Any] = {
    "plan": "partner",
    "state": "running",
    "verdict": None,
    "waitingFor": {"task": 1, "check": "money", "text": "register", "environment": {}},
    "checks": [],
    "report": {"verdict": "PASS", "state": "finished", "checks": []},
}


@dataclass(frozen=True)
class Theirs:
    """A client of one workspace, and an id of each kind that exists only in another one."""

    client: httpx.Client
    other: httpx.Client
    ids: Mapping[str, str]


def _populate(client: httpx.Client) -> dict[str, str]:
    """One record of every kind, with its id by the name under which requests name it."""

    def post(path: str, **body: Any) -> Any:
        return client.post(path, json=body).json()["data"]

    invoice = post("/api/invoices", **DATED)
    open_invoice = post("/api/invoices", **{**DATED, "invoiceNumber": "TEN-2"})
    post("/api/verification/run", invoiceId=open_invoice["id"])
    request = post("/api/financing-requests", invoiceId=open_invoice["id"])
    offer = post("/api/offers", financingRequestId=request["id"])
    post("/api/offers", financingRequestId=post("/api/financing-requests")["id"])
    push = post("/api/connectors/erp/invoices", externalId="TEN-3", source={"system": "s"})
    session = client.get("/api/auth/session").json()["data"]
    inbox = client.get("/sandbox/inbox").json()["data"]["url"]
    endpoint = post("/api/webhooks", url=inbox)
    user = post("/sandbox/users", **USER)
    post(LOGIN, email=USER["email"], password=USER["password"])
    client.cookies.clear()
    return {
        "invoice": invoice["id"],
        "open invoice": open_invoice["id"],
        "request": request["id"],
        "offer": offer["id"],
        "endpoint": endpoint["id"],
        "listener": post("/sandbox/listeners")["id"],
        "delivery": post("/api/webhooks/test")["delivery"]["id"],
        "key": post("/api/developer/api-keys")["id"],
        "upload": post("/api/storage/invoices/upload-url")["uploadId"],
        "import": push["importId"],
        "snapshot": post("/sandbox/snapshots")["id"],
        "fault": post("/sandbox/faults", kind="reset", operation="logout")["id"],
        "workspace": session["workspaceId"],
        "user": user["id"],
        "session": client.get("/sandbox/sessions").json()["data"][0]["id"],
        "run": post("/sandbox/acceptance/runs", **PROGRESS)["id"],
        "payment": post("/sandbox/invoices/inv_sandbox_0006/payments", amount=1)["id"],
    }


@pytest.fixture(scope="module")
def other(server: Running) -> Iterator[tuple[httpx.Client, dict[str, str]]]:
    """The other workspace; it holds a record of every kind."""
    with server.client(server.new_workspace()) as client:
        yield client, _populate(client)


@pytest.fixture
def theirs(client: httpx.Client, other: tuple[httpx.Client, dict[str, str]]) -> Theirs:
    """A new workspace beside the other one."""
    return Theirs(client, *other)


@dataclass(frozen=True)
class Row:
    """How one operation is given an id: ``{id}`` stands for it, in the path, query or body."""

    operation: str
    kind: str
    method: str
    path: str
    body: Any = None
    status: int = 200

    def ask(self, client: httpx.Client, resource_id: str) -> httpx.Response:
        """The response to the request with this id."""
        body = (
            None
            if self.body is None
            else json.loads(self._with(json.dumps(self.body), resource_id))
        )
        media_type = FILES.get(self.operation)
        headers = {} if media_type is None else {"Content-Type": media_type}
        content = None if media_type is None else b"a file"
        path = self._with(self.path, resource_id)
        return client.request(self.method, path, json=body, content=content, headers=headers)

    @staticmethod
    def _with(text: str, resource_id: str) -> str:
        return text.replace("{id}", resource_id)

    def __str__(self) -> str:
        where = self.path.rpartition("?")[2] if "?" in self.path else (self.body or "path")
        return f"{self.operation} {where}"


ROUTE, OFFERS, TEST = "/api/partners/route", "/api/offers", "/api/webhooks/test"
FINANCING, RUN, LOG = "/api/financing-requests", "/api/verification/run", "/api/audit-log"
ERP, LOGIN = "/api/connectors/erp/invoices", "/api/auth/login"
UPLOAD = "/api/storage/invoices/upload-url"
BOOKS = "/sandbox/invoices/{id}"
USER = {"email": "ann@corp.example", "password": "correct horse battery", "role": "auditor"}
DEMO = {"email": "seller@demo.example", "password": "demo-password"}
ITEM = {**DATED, "invoiceNumber": "TEN-4"}
MOVE = "/sandbox/invoices/{id}/transition"
ROTATE, EVENTS = "/sandbox/webhooks/{id}/rotate-secret", "/sandbox/events"
RESPONSES = "/sandbox/listeners/{id}/responses"
SIGNED = "/sandbox/uploads/{id}?expires=1795427100&signature=" + "0" * 64
NOTICE = "/sandbox/invoices/{id}/assignment-notice"
TAKING = [
    Row("getInvoice", "invoice", "GET", "/api/invoices/{id}", status=404),
    Row("runVerification", "invoice", "POST", RUN, {"invoiceId": "{id}"}, 404),
    Row("createFinancingRequest", "open invoice", "POST", FINANCING, {"invoiceId": "{id}"}, 404),
    Row("createFinancingRequest", "open invoice", "POST", FINANCING, {"invoiceIds": ["{id}"]}, 404),
    Row("createFinancingRequest", "endpoint", "POST", FINANCING, {"partnerIds": ["{id}"]}, 404),
    Row("createOffer", "request", "POST", OFFERS, {"financingRequestId": "{id}"}, 404),
    Row("createOffer", "open invoice", "POST", OFFERS, {"invoiceId": "{id}"}, 404),
    Row("createOffer", "endpoint", "POST", OFFERS, {"partnerId": "{id}"}, 404),
    Row("routePartners", "invoice", "POST", ROUTE, {"invoiceId": "{id}"}),
    Row("routePartners", "request", "POST", ROUTE, {"financingRequestId": "{id}"}),
    Row("routePartners", "endpoint", "POST", ROUTE, {"partnerIds": ["{id}"]}),
    Row("testWebhook", "endpoint", "POST", TEST, {"endpointId": "{id}"}),
    Row("testWebhook", "invoice", "POST", TEST, {"invoiceId": "{id}"}),
    Row("createUploadUrl", "invoice", "POST", UPLOAD, {"invoiceId": "{id}"}),
    Row("pushErpInvoices", "import", "POST", ERP, {**ITEM, "externalId": "{id}"}, 202),
    Row("pushErpInvoices", "import", "POST", ERP, {**ITEM, "source": {"system": "{id}"}}, 202),
    Row("login", "workspace", "POST", LOGIN, {**DEMO, "workspaceId": "{id}"}),
    Row("createInvoice", "invoice", "POST", "/api/invoices", {**ITEM, "sellerId": "{id}"}, 201),
    Row("revokeApiKey", "key", "DELETE", "/api/developer/api-keys?id={id}", status=404),
    Row("listOffers", "open invoice", "GET", "/api/offers?invoiceId={id}"),
    Row("listOffers", "request", "GET", "/api/offers?financingRequestId={id}"),
    Row("listAuditEvents", "key", "GET", "/api/audit-log?actorId={id}"),
    Row("listAuditEvents", "invoice", "GET", "/api/audit-log?targetId={id}"),
    Row("listInvoices", "invoice", "GET", "/api/invoices?sellerId={id}"),
    Row("putUpload", "upload", "PUT", SIGNED, status=404),
    Row("getLedger", "invoice", "GET", "/sandbox/invoices/{id}/ledger", status=404),
    Row("listTransitions", "invoice", "GET", MOVE, status=404),
    Row("transitionInvoice", "invoice", "POST", MOVE, {"trigger": "withdraw"}, 404),
    Row("listPayments", "invoice", "GET", f"{BOOKS}/payments", status=404),
    Row("receivePayment", "invoice", "POST", f"{BOOKS}/payments", {"amount": 1}, 404),
    Row("applyCreditNote", "invoice", "POST", f"{BOOKS}/credit-notes", {"amount": 1}, 404),
    Row("payOut", "invoice", "POST", f"{BOOKS}/pay-outs", {"amount": 1}, 404),
    Row("applyPayment", "payment", "POST", "/sandbox/payments/{id}/apply", status=404),
    Row("returnPayment", "payment", "POST", "/sandbox/payments/{id}/return", status=404),
    Row("acceptOffer", "offer", "POST", "/sandbox/offers/{id}/accept", status=404),
    Row("declineOffer", "offer", "POST", "/sandbox/offers/{id}/decline", status=404),
    Row("fulfilConditions", "offer", "POST", "/sandbox/offers/{id}/conditions", status=404),
    Row("withdrawOffer", "offer", "POST", "/sandbox/offers/{id}/withdraw", status=404),
    Row("getAssignmentNotice", "invoice", "GET", NOTICE, status=404),
    Row("advanceAssignmentNotice", "invoice", "POST", NOTICE, {"state": "Sent"}, 404),
    Row("getParty", "invoice", "GET", "/sandbox/parties/{id}"),
    Row("setParty", "invoice", "PUT", "/sandbox/parties/{id}", {"insolvent": True}),
    Row("deleteWorkspace", "workspace", "DELETE", "/sandbox/workspaces/{id}", status=404),
    Row("deleteSnapshot", "snapshot", "DELETE", "/sandbox/snapshots/{id}", status=404),
    Row("restoreSnapshot", "snapshot", "POST", "/sandbox/snapshots/{id}/restore", status=404),
    Row("enableEndpoint", "endpoint", "POST", "/sandbox/webhooks/{id}/enable", status=404),
    Row("disableEndpoint", "endpoint", "POST", "/sandbox/webhooks/{id}/disable", status=404),
    Row("removeEndpoint", "endpoint", "DELETE", "/sandbox/webhooks/{id}", status=404),
    Row("rotateEndpointSecret", "endpoint", "POST", ROTATE, status=404),
    Row("getDelivery", "delivery", "GET", "/sandbox/deliveries/{id}", status=404),
    Row("listEvents", "invoice", "GET", "/sandbox/event-log?subject={id}"),
    Row("replayDelivery", "delivery", "POST", "/sandbox/deliveries/{id}/replay", status=404),
    Row(
        "triggerEvent",
        "invoice",
        "POST",
        EVENTS,
        {"type": "invoice.paid", "invoiceId": "{id}"},
        404,
    ),
    Row("streamListener", "listener", "GET", "/sandbox/listeners/{id}/stream?idle=0", status=404),
    Row("reportMessageResponse", "listener", "POST", RESPONSES, {"message": 1, "status": 200}, 404),
    Row("deleteListener", "listener", "DELETE", "/sandbox/listeners/{id}", status=404),
    Row("getAcceptanceRun", "run", "GET", "/sandbox/acceptance/runs/{id}", status=404),
    Row("updateAcceptanceRun", "run", "PUT", "/sandbox/acceptance/runs/{id}", PROGRESS, 404),
    Row("reportAcceptanceTask", "run", "PUT", TASK, {"state": "done", "task": 1}, 404),
    Row("getAcceptanceReport", "run", "GET", "/sandbox/acceptance/runs/{id}/report", status=404),
    Row("getAcceptanceBundle", "run", "GET", BUNDLE, status=404),
    Row("keepAcceptanceBundle", "run", "PUT", BUNDLE, status=404),
    Row("removeFault", "fault", "DELETE", "/sandbox/faults/{id}", status=404),
    Row("disableUser", "user", "POST", "/sandbox/users/{id}/disable", status=404),
    Row("revokeSession", "session", "DELETE", "/sandbox/sessions/{id}", status=404),
]
LISTING = {
    "listInvoices": "/api/invoices",
    "listFinancingRequests": "/api/financing-requests",
    "listOffers": "/api/offers",
    "listPartners": "/api/partners",
    "listAuditEvents": "/api/audit-log",
    "listWebhooks": "/api/webhooks",
    "listApiKeys": "/api/developer/api-keys",
    "getSession": "/api/auth/session",
    "listWorkspaces": "/sandbox/workspaces",
    "listSnapshots": "/sandbox/snapshots",
    "listFaults": "/sandbox/faults",
    "listRequests": "/sandbox/requests",
    "getInbox": "/sandbox/inbox",
    "listEvents": "/sandbox/event-log",
    "listDeliveries": "/sandbox/deliveries",
    "listEndpoints": "/sandbox/webhooks",
    "getRecording": "/sandbox/recording",
    "listAcceptanceRuns": "/sandbox/acceptance/runs",
    "listUsers": "/sandbox/users",
    "getStatement": "/sandbox/statement",
    "listSessions": "/sandbox/sessions",
}
WITHOUT_IDS = {
    "getHealth": "takes and shows nothing of a workspace",
    "getAssignmentRules": "takes a country",
    "generateFingerprint": "takes an invoice; a test of its own is below",
    "createApiKey": "takes names of scopes",
    "createWebhook": "takes an address",
    "logout": "takes nothing",
    "getSandboxHealth": "takes and shows nothing of a workspace",
    "getSandboxLiveness": "takes and shows nothing of a workspace",
    "getClock": "takes nothing, and shows a time",
    "setClock": "takes a mode and an instant",
    "advanceClock": "takes a time",
    "getAgenda": "takes nothing, and shows nothing while nothing moves by itself",
    "createWorkspace": "takes a seed, a scenario and a clock",
    "resetWorkspace": "takes nothing",
    "createSnapshot": "takes nothing",
    "listScenarios": "shows what every workspace has",
    "setScenario": "takes the name of a scenario",
    "addFault": "takes names of operations",
    "clearFaults": "takes nothing",
    "listVerdicts": "shows ids of broken checks; a test is in tests/test_verdicts.py",
    "provokeCheck": "takes the name of a check, which all workspaces have",
    "receiveWebhook": "takes a token, which is a credential",
    "receiveForListener": "takes a token, which is a credential",
    "streamRequests": "begins now; a test of its own is in tests/test_journal.py",
    "createListener": "takes nothing",
    "createAcceptanceRun": "takes the names of checks",
    "addUser": "takes a partner or a seller, which all workspaces have",
    "getCoverage": "takes nothing, and shows what is declared for all",
}


def reported(response: httpx.Response, resource_id: str) -> Any:
    """A response without what differs between two requests: ids, signatures and the id asked."""
    text = response.text.replace(resource_id, "ASKED")
    text = re.sub(r'"requestId":"[^"]*"', '"requestId":""', text)
    text = re.sub(r"(?<=_)\d{4}(?=[\"\\.?_])", "N", text)
    text = re.sub(r"signature=[0-9a-f]+", "signature=S", text)
    text = re.sub(r'"webhook-signature":"[^"]*"', '"webhook-signature":""', text)
    return response.status_code, json.loads(text)


def unknown(resource_id: str) -> str:
    """An id that nobody ever had, of the same form."""
    head, token, number = resource_id.rsplit("_", 2)
    return f"{head}_{token[::-1]}_{number}" if number.isdigit() else f"{head}_{number[::-1]}"


@in_turn("row", TAKING, ids=str)
def test_an_id_of_another_workspace_gets_a_response_as_an_unknown_one(
    theirs: Theirs, row: Row
) -> None:
    foreign = theirs.ids[row.kind]
    nobody_s = unknown(foreign)
    assert nobody_s != foreign
    first = row.ask(theirs.client, nobody_s)
    second = row.ask(theirs.client, foreign)
    assert first.status_code == row.status
    if row.operation == "createInvoice":  # the same invoice twice would be a duplicate
        assert second.json()["data"]["status"] == "Registered"
    else:
        assert reported(second, foreign) == reported(first, nobody_s)


def test_the_end_of_a_workspace_ends_no_listener_of_another(theirs: Theirs) -> None:
    made = theirs.client.post("/sandbox/workspaces").json()["data"]["id"]
    assert theirs.client.delete(f"/sandbox/workspaces/{made}").is_success
    stream = f"/sandbox/listeners/{theirs.ids['listener']}/stream?idle=0"
    assert theirs.other.get(stream).status_code == 200


@in_turn("row", TAKING, ids=str)
def test_asking_with_an_id_of_another_workspace_changes_nothing_there(
    theirs: Theirs, row: Row
) -> None:
    def seen() -> list[Any]:
        return [
            theirs.other.get(path).json()["data"]
            for name, path in LISTING.items()
            if name not in {"listApiKeys", "listRequests", "getRecording"}  # they show it
        ]

    before = seen()
    row.ask(theirs.client, theirs.ids[row.kind])
    assert seen() == before


@in_turn("path", LISTING.values(), ids=LISTING)
def test_a_list_shows_nothing_of_another_workspace(theirs: Theirs, path: str) -> None:
    token = theirs.ids["workspace"].removeprefix("wsp_sandbox_")
    assert token in theirs.other.get(path).text or path == "/api/partners"
    response = theirs.client.get(path)
    assert response.status_code == 200
    assert token not in response.text


@in_turn(
    "path", [one for one in LISTING.values() if one.startswith("/api") and "session" not in one]
)
def test_a_cursor_of_another_workspace_shows_nothing_of_it(theirs: Theirs, path: str) -> None:
    first = theirs.other.get(path, params={"limit": 1})
    if "next" not in first.links:
        assert path == "/api/webhooks", "every other list holds more than one record"
        return
    token = theirs.ids["workspace"].removeprefix("wsp_sandbox_")
    response = theirs.client.get(first.links["next"]["url"])
    assert response.status_code == 200
    assert token not in response.text


def test_an_invoice_of_another_workspace_is_no_duplicate(theirs: Theirs) -> None:
    found = theirs.client.post("/api/registry/fingerprint", json=DATED).json()["data"]
    assert (found["duplicateRisk"], found["matches"]) == ("None", [])
    assert found["registryState"] == "RegisteredUnique"
    made = theirs.client.post("/api/invoices", json=DATED).json()["data"]
    assert made["status"] == "Registered"


def test_an_external_id_of_another_workspace_is_free(theirs: Theirs) -> None:
    for client in (theirs.other, theirs.client):
        body = {**ITEM, "externalId": "TEN-5", "source": {"system": "s"}}
        client.post("/api/connectors/erp/invoices", json=body)
        newest = client.get("/api/invoices").json()["data"][0]
        assert newest["invoiceNumber"] == "TEN-4"


def test_nothing_of_another_workspace_is_chosen_by_default(theirs: Theirs) -> None:
    client = theirs.client
    token = theirs.ids["workspace"].removeprefix("wsp_sandbox_")
    for path in (RUN, FINANCING, OFFERS, ROUTE, TEST):
        assert token not in client.post(path, json={}).text


def test_equal_seeds_do_not_let_anybody_in(server: Running) -> None:
    """Two workspaces that asked for one seed have equal ids, and each sees its own records."""
    with (
        server.client(server.new_workspace(99)) as one,
        server.client(server.new_workspace(99)) as other,
    ):
        mine = one.post("/api/invoices", json=DATED).json()["data"]
        assert other.get(f"/api/invoices/{mine['id']}").status_code == 404
        theirs = other.post("/api/invoices", json={**DATED, "amount": 5}).json()["data"]
        assert theirs["id"] == mine["id"]
        assert one.get(f"/api/invoices/{mine['id']}").json()["data"] == mine


def test_every_operation_of_the_served_contract_has_a_row(server: Running) -> None:
    project = server.sandbox.engine.project
    operations = {**project.contract.operations, **project.control.operations}
    covered = {row.operation for row in TAKING} | LISTING.keys() | WITHOUT_IDS.keys()
    assert set(operations) == covered


def test_every_member_of_a_body_that_names_an_id_has_a_row(server: Running) -> None:
    """``…Id`` and ``…Ids`` of the served schemas, except for ids that the client makes up."""
    made_up = {"sellerId", "debtorId", "connectionId"}
    named = set()
    for item in server.sandbox.engine.project.contract.document["paths"].values():
        for method in item.values():
            body = method.get("requestBody", {}) if isinstance(method, dict) else {}
            schema = body.get("content", {}).get("application/json", {}).get("schema", {})
            members = [one for one in schema.get("properties", {}) if re.search("Ids?$", one)]
            named |= {(method["operationId"], one) for one in members}
    rows = {(row.operation, one) for row in TAKING for one in (row.body or {})}
    assert {(name, member) for name, member in named - rows if member not in made_up} == set()
