"""The requests whose responses are the examples of the contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any, Final, NamedTuple

import httpx

from tests.scenario_run import data, move
from tests.support import FROZEN, Running, serving
from tests.test_published_contract import ENDPOINTS, JSON, MERGED, operation

LIMITED: Final = replace(FROZEN, rate_limit=120)
INVOICES, FINANCING, OFFERS = "/api/invoices", "/api/financing-requests", "/api/offers"
KEYS, WEBHOOKS = "/api/developer/api-keys", "/api/webhooks"


def request_body(operation_id: str, name: str, **members: Any) -> dict[str, Any]:
    """An example of a request body, with ids of records that are there."""
    row = next(row for row in ENDPOINTS if row.id == operation_id)
    body = operation(MERGED, row)["requestBody"]["content"][JSON]["examples"][name]["value"]
    assert members.keys() <= body.keys()
    return {**deepcopy(body), **members}


class Workspace(NamedTuple):
    """What a request needs: a client of a new workspace, and the server."""

    client: httpx.Client
    server: Running

    def post(self, path: str, body: Any) -> httpx.Response:
        return self.client.post(path, json=body)

    def invoice(self, name: str = "complete", *triggers: str) -> str:
        """The id of the invoice of a request example, after these transitions."""
        posted = self.post(INVOICES, request_body("createInvoice", name))
        invoice_id = str(data(posted, 201)["id"])
        move(self.client, invoice_id, *triggers)
        return invoice_id

    def verified(self, name: str = "complete") -> str:
        return self.invoice(name, "start-verification", "verify")

    def request(self, name: str = "complete", **members: Any) -> dict[str, Any]:
        """A financing request for the invoice of a request example."""
        body = request_body("createFinancingRequest", "one_invoice", **members)
        body["invoiceIds"] = [self.verified(name)]
        made: dict[str, Any] = data(self.post(FINANCING, body), 201)
        return made

    def offer(self) -> httpx.Response:
        """The offer of the request example, on the invoice with the required members only."""
        request = self.request("minimal")
        ids = {"financingRequestId": request["id"], "invoiceId": request["invoiceIds"][0]}
        return self.post(OFFERS, request_body("createOffer", "with_terms", **ids))

    def endpoint(self) -> str:
        """The id of a webhook endpoint that is the inbox of this workspace."""
        url = data(self.client.get("/sandbox/inbox"))["url"]
        body = request_body("createWebhook", "two_events", url=url)
        return str(data(self.post(WEBHOOKS, body), 201)["id"])

    def key(self) -> httpx.Response:
        return self.post(KEYS, request_body("createApiKey", "chosen_scopes"))

    def session(self) -> httpx.Response:
        return self.post("/api/auth/login", request_body("login", "demo_seller"))

    def stranger(self, key: str | None, path: str = INVOICES, body: Any = None) -> httpx.Response:
        """The response to a client with another key, or none."""
        with self.server.client(key) as client:
            return client.get(path) if body is None else client.post(path, json=body)


def _duplicate(at: Workspace) -> httpx.Response:
    at.invoice()
    return at.post(INVOICES, request_body("createInvoice", "complete"))


def _two_invoices(at: Workspace) -> httpx.Response:
    at.verified()
    at.offer()
    return at.client.get(INVOICES, params={"limit": 2})


def _two_requests(at: Workspace) -> httpx.Response:
    at.request()
    at.offer()
    return at.client.get(FINANCING, params={"limit": 2})


def _one_offer(at: Workspace) -> httpx.Response:
    made = data(at.offer(), 201)
    params = {"financingRequestId": made["financingRequestId"]}
    return at.client.get(OFFERS, params=params)


def _fingerprint(at: Workspace) -> httpx.Response:
    return at.post("/api/registry/fingerprint", request_body("generateFingerprint", "complete"))


def _exact_duplicate(at: Workspace) -> httpx.Response:
    at.invoice()
    return _fingerprint(at)


def _verification(at: Workspace) -> httpx.Response:
    body = request_body("runVerification", "one_invoice", invoiceId=at.invoice())
    return at.post("/api/verification/run", body)


def _financing_request(at: Workspace) -> httpx.Response:
    ids = [at.verified()]
    body = request_body("createFinancingRequest", "one_invoice", invoiceIds=ids)
    return at.post(FINANCING, body)


def _two_partners(at: Workspace) -> httpx.Response:
    first = at.client.get("/api/partners", params={"limit": 4})
    return at.client.get(first.links["next"]["url"])


def _routing(at: Workspace) -> httpx.Response:
    body = request_body("routePartners", "one_invoice", invoiceId=at.invoice())
    return at.post("/api/partners/route", body)


def _audit_event(at: Workspace) -> httpx.Response:
    invoice_id = at.verified()
    params = {"action": "invoice.verified", "targetId": invoice_id}
    return at.client.get("/api/audit-log", params=params)


def _test_delivery(at: Workspace) -> httpx.Response:
    ids = {"endpointId": at.endpoint(), "invoiceId": at.verified()}
    return at.post(f"{WEBHOOKS}/test", request_body("testWebhook", "one_endpoint", **ids))


def _deliveries(at: Workspace) -> httpx.Response:
    at.endpoint()
    at.verified()
    at.client.post("/sandbox/clock/advance", json={"by": "PT0S"})
    return at.client.get(WEBHOOKS)


def _forbidden_address(at: Workspace) -> httpx.Response:
    url = "http://192.168.0.10/hooks"
    return at.post(WEBHOOKS, request_body("createWebhook", "two_events", url=url))


def _session(at: Workspace) -> httpx.Response:
    cookie = at.session().headers["Set-Cookie"].partition(";")[0]
    with at.server.client(None) as client:
        return client.get("/api/auth/session", headers={"Cookie": cookie})


def _two_keys(at: Workspace) -> httpx.Response:
    at.post(KEYS, {"name": "Retired integration", "scopes": ["invoices:read"]})
    at.key()
    return at.client.get(KEYS, params={"limit": 2})


def _revoked(at: Workspace) -> httpx.Response:
    return at.client.delete(KEYS, params={"id": "key_sandbox_0002"})


def _own_key(at: Workspace) -> httpx.Response:
    key = data(at.post(KEYS, {"scopes": ["keys:write"]}), 201)
    with at.server.client(key["secret"]) as client:
        return client.delete(KEYS, params={"id": key["id"]})


def _missing_scope(at: Workspace) -> httpx.Response:
    return at.stranger(data(at.key(), 201)["secret"], OFFERS, {})


def _finance(at: Workspace, invoice_id: str) -> httpx.Response:
    return at.post(FINANCING, {"invoiceId": invoice_id})


def _past_due(at: Workspace) -> httpx.Response:
    body = request_body("createInvoice", "complete", dueDate="2026-10-31")
    invoice_id = data(at.post(INVOICES, body), 201)["id"]
    move(at.client, invoice_id, "start-verification", "verify")
    return _finance(at, invoice_id)


def _too_many(_: Workspace) -> httpx.Response:
    with serving(LIMITED) as running, running.client() as client:
        for _request in range(120):
            client.get("/api/assignment-rules/DE")
        running.system_clock.pass_seconds(18)
        return client.get(INVOICES)


def _without(member: str) -> dict[str, Any]:
    body = request_body("createInvoice", "complete")
    del body[member]
    return body


Send = Callable[[Workspace], httpx.Response]

REQUESTS: Final[Mapping[str, Send]] = {
    "createInvoice 201 registered": lambda at: at.post(
        INVOICES, request_body("createInvoice", "complete")
    ),
    "createInvoice 201 registered_minimal": lambda at: at.post(
        INVOICES, request_body("createInvoice", "minimal")
    ),
    "createInvoice 201 duplicate_suspected": _duplicate,
    "listInvoices 200 two_invoices": _two_invoices,
    "listInvoices 200 no_invoices": lambda at: at.client.get(INVOICES, params={"status": "x"}),
    "getInvoice 200 verified": lambda at: at.client.get(f"{INVOICES}/{at.verified()}"),
    "generateFingerprint 200 no_duplicate": _fingerprint,
    "generateFingerprint 200 exact_duplicate": _exact_duplicate,
    "runVerification 200 verified": _verification,
    "createFinancingRequest 201 routed": _financing_request,
    "listFinancingRequests 200 two_requests": _two_requests,
    "createOffer 201 recorded": Workspace.offer,
    "listOffers 200 one_offer": _one_offer,
    "listPartners 200 two_partners": _two_partners,
    "routePartners 200 one_match": _routing,
    "listAuditEvents 200 invoice_verified": _audit_event,
    "testWebhook 200 delivered": _test_delivery,
    "createWebhook 201 enabled": lambda at: at.post(
        WEBHOOKS, request_body("createWebhook", "two_events")
    ),
    "createWebhook 201 disabled": _forbidden_address,
    "listWebhooks 200 one_delivery": _deliveries,
    "pushErpInvoices 202 accepted": lambda at: at.post(
        "/api/connectors/erp/invoices", request_body("pushErpInvoices", "batch")
    ),
    "getSession 200 demo_seller": _session,
    "getAssignmentRules 200 germany": lambda at: at.client.get("/api/assignment-rules/DE"),
    "getAssignmentRules 200 unknown_country": lambda at: at.client.get("/api/assignment-rules/ZZ"),
    "getHealth 200 up": lambda at: at.stranger(None, "/api/health"),
    "login 200 demo_seller": Workspace.session,
    "logout 200 logged_out": lambda at: at.client.post("/api/auth/logout"),
    "createUploadUrl 200 pdf": lambda at: at.post(
        "/api/storage/invoices/upload-url", request_body("createUploadUrl", "pdf")
    ),
    "revokeApiKey 200 revoked": _revoked,
    "createApiKey 201 created": Workspace.key,
    "listApiKeys 200 two_keys": _two_keys,
    "BadRequest 400 missing_member": lambda at: at.post(INVOICES, _without("sellerId")),
    "BadRequest 400 wrong_type": lambda at: at.post(
        INVOICES, request_body("createInvoice", "minimal", amount="x")
    ),
    "BadRequest 400 malformed_json": lambda at: at.client.post(
        INVOICES, content=b"{", headers={"Content-Type": "application/json"}
    ),
    "BadRequest 400 bad_parameter": lambda at: at.client.get(INVOICES, params={"limit": 101}),
    "Unauthorized 401 authentication_required": lambda at: at.stranger(None),
    "Unauthorized 401 bad_credential": lambda at: at.stranger("ilk_sandbox_unknown"),
    "Unauthorized 401 login_rejected": lambda at: at.post(
        "/api/auth/login", {"email": "seller@demo.example"}
    ),
    "NotFound 404 resource_not_found": lambda at: at.client.get(f"{INVOICES}/unknown"),
    "Forbidden 403 insufficient_scope": _missing_scope,
    "MethodNotAllowed 405 invalid_request": lambda at: at.client.put(INVOICES),
    "Conflict 409 invoice_not_verified": lambda at: _finance(at, at.invoice()),
    "Conflict 409 invoice_past_due": _past_due,
    "Conflict 409 key_in_use": _own_key,
    "ContentTooLarge 413 invalid_request": lambda at: at.post(INVOICES, {"x": "x" * 262_144}),
    "UnsupportedMediaType 415 invalid_request": lambda at: at.client.post(INVOICES, content=b"x"),
    "TooManyRequests 429 rate_limit_exceeded": _too_many,
}
"""How to get each example: operation or shared response, status, name."""


def response_of(example: str, server: Running) -> httpx.Response:
    """What the server responds to the request of an example, in a workspace of its own."""
    with server.client(server.new_workspace(seed=7)) as client:
        return REQUESTS[example](Workspace(client, server))
