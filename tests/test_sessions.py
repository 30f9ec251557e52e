"""Workspace sessions: an HTTP-only cookie for demo users, and nothing a page can steal with."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest

from invoice_sandbox.app import create_app
from invoice_sandbox.base.clock import ClockState, instant_text
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.base.ids import new_key
from invoice_sandbox.http.admit import check_reader, check_site
from invoice_sandbox.http.request import Head, Request
from invoice_sandbox.settings import Settings
from tests.cases import in_turn
from tests.scenario_run import INVOICE, START_INSTANT, error
from tests.support import FROZEN, PATIENCE, Running, serving

LOGIN, LOGOUT, SESSION = "/api/auth/login", "/api/auth/logout", "/api/auth/session"
PASSWORD = "demo-password"
SELLER = {"email": "seller@demo.example", "password": PASSWORD}
AUDITOR = {"email": "auditor@demo.example", "password": PASSWORD}
COOKIE = "ils_session"
EIGHT_HOURS = 28_800


def session_id(response: httpx.Response) -> str:
    """The session's id, from the cookie that a login sets."""
    assert response.status_code == 200, response.text
    return SimpleCookie(response.headers["Set-Cookie"])[COOKIE].value


@pytest.fixture
def visitor(server: Running) -> Iterator[httpx.Client]:
    """A client without any credential that keeps no cookies by itself."""
    with server.client(None) as client:
        yield client


@contextmanager
def logged_in(running: Running, **login: str) -> Iterator[httpx.Client]:
    """A browser's way: the cookie with everything, and a page's own origin."""
    with running.client(None) as client:
        cookie = session_id(client.post(LOGIN, json=login or SELLER))
        client.cookies.clear()
        client.headers.update({"Cookie": f"{COOKIE}={cookie}", "Origin": running.url})
        yield client


def login_in_memory(settings: Settings, url: str) -> httpx.Response:
    """A login on a server that is reached by ``url`` and bound to no address at all."""

    async def login() -> httpx.Response:
        transport = httpx.ASGITransport(await create_app(settings, url=url))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", timeout=PATIENCE
        ) as client:
            return await client.post(LOGIN, json=SELLER)

    return asyncio.run(login())


def ask_session(client: httpx.Client, cookie: str) -> httpx.Response:
    return client.get(SESSION, headers={"Cookie": f"{COOKIE}={cookie}"})


def test_login_returns_the_session_of_the_user(visitor: httpx.Client, server: Running) -> None:
    ends = START_INSTANT + timedelta(hours=8)
    data = visitor.post(LOGIN, json=SELLER).json()["data"]
    assert "invoices:write" in data.pop("scopes")
    assert data == {
        "authenticated": True,
        "demo": True,
        "role": "demo_seller",
        "user": {
            "id": "usr_sandbox_seller",
            "displayName": "Demo Seller",
            "email": "seller@demo.example",
        },
        "workspaceId": server.sandbox.engine.first_workspace,
        "expiresAt": instant_text(ends),
    }


def test_the_cookie_opens_the_session_that_login_returned(visitor: httpx.Client) -> None:
    login = visitor.post(LOGIN, json=SELLER)
    assert ask_session(visitor, session_id(login)).json()["data"] == login.json()["data"]


def test_the_cookie_is_http_only_lax_for_eight_hours_and_not_secure_on_plain_http(
    visitor: httpx.Client,
) -> None:
    _, *attributes = visitor.post(LOGIN, json=SELLER).headers["Set-Cookie"].split("; ")
    assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Lax", f"Max-Age={EIGHT_HOURS}"}


def test_the_cookie_is_secure_when_clients_come_by_https() -> None:
    response = login_in_memory(FROZEN, "https://sandbox.example")
    assert "Secure" in response.headers["Set-Cookie"].split("; ")


def test_the_id_is_only_in_the_cookie_and_has_256_bits(visitor: httpx.Client) -> None:
    response = visitor.post(LOGIN, json=SELLER)
    cookie = session_id(response)
    assert len(cookie) >= 43
    assert cookie not in response.text


def test_an_address_is_the_same_in_capitals(visitor: httpx.Client) -> None:
    assert visitor.post(LOGIN, json={**SELLER, "email": "Seller@Demo.Example"}).status_code == 200


FAILING: dict[str, dict[str, Any]] = {
    "wrong password": {**SELLER, "password": "demo-passwort"},
    "unknown user": {**SELLER, "email": "nobody@demo.example"},
    "unknown user without a password": {"email": "nobody@demo.example", "password": ""},
    "no password": {"email": SELLER["email"]},
    "no address": {"password": PASSWORD},
    "nothing": {},
    "numbers": {"email": 1, "password": 2},
    "nulls": {"email": None, "password": None},
    "lists": {"email": [SELLER["email"]], "password": [PASSWORD]},
    "password with a space": {**SELLER, "password": f"{PASSWORD} "},
    "password in capitals": {**SELLER, "password": PASSWORD.upper()},
    "more than ASCII": {**SELLER, "password": "pässwörd\U0001f600"},
}


@in_turn("body", FAILING.values(), ids=FAILING)
def test_every_failed_login_is_the_same_401(visitor: httpx.Client, body: dict[str, Any]) -> None:
    response = visitor.post(LOGIN, json=body)
    assert error(response) == (401, "authentication_required")
    assert response.json()["error"]["message"] == (
        "The e-mail address or the password is not valid. "
        "'invoice-sandbox users list' shows the users of a workspace."
    )
    assert "Set-Cookie" not in response.headers
    assert response.headers["WWW-Authenticate"] == 'Bearer realm="sandbox"'


@pytest.mark.parametrize("body", [b"[]", b"null", b"{", b""], ids=["list", "null", "cut", "none"])
def test_a_login_that_is_no_object_is_400(visitor: httpx.Client, body: bytes) -> None:
    response = visitor.post(LOGIN, content=body, headers={"Content-Type": "application/json"})
    assert error(response) == (400, "invalid_request")


def test_logout_ends_the_session_and_clears_the_cookie(server: Running) -> None:
    with logged_in(server) as browser:
        response = browser.post(LOGOUT)
        assert response.json()["data"] == {"authenticated": False}
        cookie = response.headers["Set-Cookie"]
        assert cookie.startswith(f"{COOKIE}=;")
        assert {"Max-Age=0", "Path=/", "HttpOnly"} <= set(cookie.split("; "))
        assert error(browser.get(SESSION)) == (401, "authentication_required")


def test_logout_ends_no_other_session(server: Running) -> None:
    with logged_in(server) as one, logged_in(server) as other:
        one.post(LOGOUT)
        assert other.get(SESSION).status_code == 200


@pytest.mark.parametrize(("method", "path"), [("GET", SESSION), ("POST", LOGOUT)])
def test_without_a_credential_there_is_no_session(
    visitor: httpx.Client, method: str, path: str
) -> None:
    assert error(visitor.request(method, path)) == (401, "authentication_required")


def test_the_session_of_a_key_is_the_demo_role_session(client: httpx.Client) -> None:
    data = client.get(SESSION).json()["data"]
    assert (data["role"], data["demo"], data["authenticated"]) == ("demo_seller", True, True)
    assert data["user"]["id"] == "usr_sandbox_seller"
    assert (data["scopes"], data["expiresAt"]) == (["*"], None)


def test_the_session_of_a_key_shows_the_scopes_of_that_key(
    server: Running, client: httpx.Client
) -> None:
    made = client.post("/api/developer/api-keys", json={"scopes": ["offers:read"]}).json()["data"]
    with server.client(made["secret"]) as limited:
        assert limited.get(SESSION).json()["data"]["scopes"] == ["offers:read"]


def test_a_key_has_no_session_to_log_out_of(client: httpx.Client) -> None:
    assert client.post(LOGOUT).json()["data"] == {"authenticated": False}
    assert client.get(SESSION).status_code == 200


def test_login_with_a_key_opens_a_session_in_the_workspace_of_that_key(
    client: httpx.Client,
) -> None:
    own = client.get(SESSION).json()["data"]["workspaceId"]
    assert client.post(LOGIN, json=SELLER).json()["data"]["workspaceId"] == own


# What a session may do


def test_a_session_has_the_scopes_of_its_role(server: Running) -> None:
    with logged_in(server, **AUDITOR) as auditor:
        assert auditor.get(SESSION).json()["data"]["role"] == "demo_auditor"
        assert auditor.get("/api/audit-log").status_code == 200
        response = auditor.post("/api/invoices", json=INVOICE)
        assert error(response) == (403, "insufficient_scope")


@pytest.mark.parametrize("name", ["seller", "partner", "auditor"])
def test_no_role_may_make_keys_or_control_the_sandbox(server: Running, name: str) -> None:
    with logged_in(server, email=f"{name}@demo.example", password=PASSWORD) as user:
        scopes = set(user.get(SESSION).json()["data"]["scopes"])
        assert not scopes & {"*", "keys:write", "sandbox:control"}
        response = user.post("/api/developer/api-keys", json={})
        assert error(response) == (403, "insufficient_scope")


PARTNER = {"email": "partner@demo.example", "password": PASSWORD}
ALDER, EVEREST = "ptn_sandbox_alder", "ptn_sandbox_everest"
OFFERS, REQUESTS = "/api/offers", "/api/financing-requests"


@contextmanager
def alder(client: httpx.Client, server: Running) -> Iterator[httpx.Client]:
    """The session of Alder's user in the workspace of ``client``."""
    cookie = session_id(client.post(LOGIN, json=PARTNER))
    with server.client(None) as session:
        session.headers["Cookie"] = f"{COOKIE}={cookie}"
        yield session


def requested(client: httpx.Client, number: str, *partners: str) -> dict[str, Any]:
    """A financing request that is routed to these partners."""
    posted = client.post("/api/invoices", json={**INVOICE, "invoiceNumber": number}).json()["data"]
    client.post("/api/verification/run", json={"invoiceId": posted["id"]})
    body = {"invoiceId": posted["id"], "partnerIds": list(partners)}
    made: dict[str, Any] = client.post(REQUESTS, json=body).json()["data"]
    assert set(made["routedPartnerIds"]) == set(partners)
    return made


def ids(client: httpx.Client, path: str) -> list[str]:
    return [one["id"] for one in client.get(path).json()["data"]]


def test_a_session_of_a_partner_names_the_partner(server: Running) -> None:
    with logged_in(server, **PARTNER) as partner:
        data = partner.get(SESSION).json()["data"]
    assert (data["role"], data["partnerId"]) == ("demo_partner", ALDER)


def test_a_partner_sees_the_requests_that_were_routed_to_it(
    client: httpx.Client, server: Running
) -> None:
    own, other = requested(client, "P-1", ALDER, EVEREST), requested(client, "P-2", EVEREST)
    with alder(client, server) as partner:
        seen = partner.get(REQUESTS)
        assert own["id"] in ids(partner, REQUESTS)
        assert other["id"] not in ids(partner, REQUESTS)
        assert all(ALDER in one["routedPartnerIds"] for one in seen.json()["data"])
        assert int(seen.headers["X-Total-Count"]) == len(seen.json()["data"])
    assert {own["id"], other["id"]} <= set(ids(client, REQUESTS))


def test_a_partner_sees_no_other_partner(client: httpx.Client, server: Running) -> None:
    """Mandates, prices and debtor limits of a partner are no business of its competitors."""
    own = requested(client, "P-8", ALDER, EVEREST)
    assert len(ids(client, "/api/partners")) > 1
    with alder(client, server) as partner:
        assert ids(partner, "/api/partners") == [ALDER]
        seen = {one["id"]: one for one in partner.get(REQUESTS).json()["data"]}
    assert seen[own["id"]]["routedPartnerIds"] == [ALDER]
    assert not any(one.get("unmatched") for one in seen.values())


def test_a_partner_sees_its_own_offers(client: httpx.Client, server: Running) -> None:
    request = requested(client, "P-3", ALDER, EVEREST)
    for partner_id in (ALDER, EVEREST):
        body = {"financingRequestId": request["id"], "partnerId": partner_id}
        assert client.post(OFFERS, json=body).status_code == 201
    with alder(client, server) as partner:
        listed = partner.get(OFFERS).json()["data"]
        assert {one["partnerId"] for one in listed} == {ALDER}
        assert request["id"] in {one["financingRequestId"] for one in listed}


def test_a_partner_sees_the_invoices_of_its_requests(client: httpx.Client, server: Running) -> None:
    own, other = requested(client, "P-4", ALDER), requested(client, "P-5", EVEREST)
    with alder(client, server) as partner:
        (mine,), (hidden,) = own["invoiceIds"], other["invoiceIds"]
        assert partner.get(f"/api/invoices/{mine}").status_code == 200
        assert error(partner.get(f"/api/invoices/{hidden}")) == (404, "resource_not_found")
        assert mine in ids(partner, "/api/invoices")
        assert hidden not in ids(partner, "/api/invoices")


def test_a_partner_makes_offers_as_itself_only(client: httpx.Client, server: Running) -> None:
    own, other = requested(client, "P-6", ALDER), requested(client, "P-7", EVEREST)
    with alder(client, server) as partner:
        for partner_id in (EVEREST, "ptn_unknown"):
            body = {"financingRequestId": own["id"], "partnerId": partner_id}
            assert error(partner.post(OFFERS, json=body)) == (403, "invalid_request")
        for body in (
            {"financingRequestId": other["id"]},
            {"invoiceId": other["invoiceIds"][0]},
            {"invoiceId": other["invoiceIds"][0], "partnerId": ALDER},
        ):
            assert error(partner.post(OFFERS, json=body)) == (404, "resource_not_found")
        made = partner.post(OFFERS, json={}).json()["data"]  # on the newest one that it sees
    assert (made["partnerId"], made["financingRequestId"]) == (ALDER, own["id"])


def test_a_session_registers_invoices_from_a_page_of_this_server(server: Running) -> None:
    with logged_in(server) as seller:
        assert seller.post("/api/invoices", json=INVOICE).status_code == 201
        assert seller.get("/api/invoices").status_code == 200


OTHER_SITES = {
    "null": {"Origin": "null"},
    "another site": {"Origin": "https://evil.example"},
    "another port": {"Origin": "http://127.0.0.1:1"},
    "another scheme": {"Origin": "https://127.0.0.1"},
    "our name within another": {"Origin": "http://127.0.0.1.evil.example"},
    "cross-site": {"Sec-Fetch-Site": "cross-site"},
    "same-site": {"Sec-Fetch-Site": "same-site"},
    "an unknown site": {"Sec-Fetch-Site": "?"},
    "cross-site with another origin": {"Sec-Fetch-Site": "cross-site", "Origin": "https://x.test"},
}


@in_turn("headers", OTHER_SITES.values(), ids=OTHER_SITES)
def test_another_site_changes_nothing_with_somebody_s_cookie(
    server: Running, headers: dict[str, str]
) -> None:
    with logged_in(server) as seller:
        del seller.headers["Origin"]
        response = seller.post("/api/invoices", json=INVOICE, headers=headers)
        assert error(response) == (403, "invalid_request")
        assert response.json()["error"]["message"] == (
            "A page of another site cannot change anything with the session of this one. "
            "Send the request from a page of this server, or use an API key."
        )


OWN_PAGES: dict[str, dict[str, str]] = {
    "no browser": {},
    "same-origin": {"Sec-Fetch-Site": "same-origin"},
    "typed by the user": {"Sec-Fetch-Site": "none"},
    "same-origin by a proxy that changed the host": {
        "Sec-Fetch-Site": "same-origin",
        "Origin": "https://sandbox.example",
    },
}


@pytest.mark.parametrize("headers", OWN_PAGES.values(), ids=OWN_PAGES)
def test_whoever_is_no_other_site_may_use_the_cookie(
    server: Running, headers: dict[str, str]
) -> None:
    with logged_in(server) as seller:
        del seller.headers["Origin"]
        response = seller.post("/api/invoices", json=INVOICE, headers=headers)
        assert response.status_code == 201


@pytest.mark.parametrize(
    ("origin", "is_allowed"),
    [("https://app.example", True), ("https://app.example:1", False), ("http://localhost", False)],
)
def test_a_page_of_an_allowed_origin_uses_the_cookie(origin: str, *, is_allowed: bool) -> None:
    settings = replace(FROZEN, allow_origin=("https://app.example",))
    page = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
    with serving(settings) as running, logged_in(running) as seller:
        asked = page | {"Access-Control-Request-Method": "POST"}
        preflight = seller.options("/api/invoices", headers=asked)
        created = seller.post("/api/invoices", json=INVOICE, headers=page)
    for response in (preflight, created):
        granted = response.headers.get("access-control-allow-credentials")
        assert granted == ("true" if is_allowed else None)
    assert created.status_code == (201 if is_allowed else 403)


def test_logout_needs_neither_an_origin_nor_a_content_type(server: Running) -> None:
    with logged_in(server) as seller:
        del seller.headers["Origin"]
        assert seller.post(LOGOUT).status_code == 200


def test_a_page_of_the_public_url_may_use_the_cookie() -> None:
    """A proxy may send a Host of its own, and a browser without Sec-Fetch-Site its Origin."""
    sent = {"origin": "https://sandbox.example", "host": "127.0.0.1:8080"}
    head = Head(tuple(sent.items()))
    request = Request({}, None, "POST", LOGOUT, head)  # type: ignore[arg-type]
    check_site(request, "https://sandbox.example/path")
    with pytest.raises(ApiError):
        check_site(request, "https://other.example")


@pytest.mark.parametrize(
    ("sent", "is_ours"),
    [
        ({"origin": "http://127.0.0.1:8080", "host": "127.0.0.1:8080"}, True),
        ({"origin": "http://127.0.0.1:9090", "host": "127.0.0.1:8080"}, False),
        ({"origin": "http://127.0.0.1:8080"}, False),
        ({"origin": "null", "host": "127.0.0.1:8080"}, False),
        ({"host": "127.0.0.1:8080"}, True),
    ],
    ids=["its host", "another port", "without Host", "no origin to name", "no browser"],
)
def test_a_page_of_the_host_may_use_the_cookie(sent: dict[str, str], is_ours: bool) -> None:
    """As a browser without Sec-Fetch-Site shows it."""
    request = Request({}, None, "POST", LOGOUT, Head(tuple(sent.items())))  # type: ignore[arg-type]
    if is_ours:
        check_site(request, "https://sandbox.example")
    else:
        with pytest.raises(ApiError):
            check_site(request, "https://sandbox.example")


OURS, THEIRS, HOST = "https://sandbox.example", "https://evil.example", "127.0.0.1:8080"


@in_turn(
    ("sent", "may_read"),
    [
        ({}, True),
        ({"origin": OURS, "host": HOST}, True),
        ({"origin": f"http://{HOST}", "host": HOST}, True),
        ({"origin": THEIRS, "host": HOST}, False),
        ({"origin": THEIRS, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, False),
        ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors"}, True),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, True),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, False),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, False),
        ({"sec-fetch-site": "cross-site"}, True),
    ],
)
def test_a_page_of_another_origin_reads_no_page_and_may_lead_to_one(
    sent: dict[str, str], may_read: bool
) -> None:
    request = Request({}, None, "GET", "/console", Head(tuple(sent.items())))  # type: ignore[arg-type]
    if may_read:
        check_reader(request, f"{OURS}/path")
    else:
        with pytest.raises(ApiError):
            check_reader(request, f"{OURS}/path")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_form_changes_nothing_with_somebody_s_cookie(server: Running, kind: str) -> None:
    with logged_in(server) as seller:
        response = seller.post(
            "/api/invoices",
            content=httpx.Request("POST", "/", json=INVOICE).content,
            headers={"Content-Type": kind},
        )
        assert error(response) == (415, "invalid_request")


def test_a_key_needs_no_origin(client: httpx.Client) -> None:
    response = client.post(
        "/api/invoices", json=INVOICE, headers={"Origin": "https://evil.example"}
    )
    assert response.status_code == 201


def test_what_a_change_by_cookie_may_be_rejected_with_is_declared(server: Running) -> None:
    """403 for another site on every operation that changes something, 415 where it has a body."""
    undeclared = [
        (one.id, status)
        for one in server.sandbox.engine.project.contract.operations.values()
        if one.method != "GET"
        and not one.security.optional
        and any(way.scheme == "sessionCookie" for way in one.security.alternatives)
        for status in ((403, 415) if one.body else (403,))
        if one.response_for(status) is None
    ]
    assert undeclared == []


# Other ways in


def test_a_cookie_beside_a_key_is_ignored(client: httpx.Client) -> None:
    headers = {"Cookie": f"{COOKIE}=nonsense"}
    assert client.get(SESSION, headers=headers).json()["data"]["scopes"] == ["*"]
    assert client.post("/api/invoices", json=INVOICE, headers=headers).status_code == 201


def test_a_valid_cookie_authenticates_beside_an_invalid_key(server: Running) -> None:
    with logged_in(server) as seller:
        response = seller.get(SESSION, headers={"X-API-Key": new_key()})
        assert response.json()["data"]["user"]["id"] == "usr_sandbox_seller"


@pytest.mark.parametrize("header", ["Authorization", "X-API-Key"])
def test_a_session_id_is_no_key(visitor: httpx.Client, header: str) -> None:
    cookie = session_id(visitor.post(LOGIN, json=SELLER))
    visitor.cookies.clear()
    value = f"Bearer {cookie}" if header == "Authorization" else cookie
    response = visitor.get(SESSION, headers={header: value})
    assert error(response) == (401, "authentication_required")


@in_turn("cookie", ["", "x", "0" * 64, '"', "a=b", "\\"], ids=repr)
def test_a_cookie_that_was_never_issued_is_401(visitor: httpx.Client, cookie: str) -> None:
    assert error(ask_session(visitor, cookie)) == (401, "authentication_required")


def test_a_session_ends_after_eight_hours() -> None:
    with (
        serving(replace(FROZEN, clock=ClockState("live"))) as running,
        logged_in(running) as seller,
    ):
        running.system_clock.pass_seconds(EIGHT_HOURS - 1)
        assert seller.get(SESSION).status_code == 200
        running.system_clock.pass_seconds(1)
        assert error(seller.get(SESSION)) == (401, "authentication_required")
        with running.client() as client:
            assert client.get("/sandbox/sessions").json()["data"] == []


def test_demo_users_have_random_passwords_on_a_server_that_others_can_reach() -> None:
    with serving(replace(FROZEN, public_url="https://sandbox.example")) as running:
        passwords = running.sandbox.engine.passwords
        assert set(passwords) >= {SELLER["email"], AUDITOR["email"]}
        assert len({*passwords.values(), PASSWORD}) == len(passwords) + 1
        assert not any(one in repr(running.sandbox.engine) for one in passwords.values())
        with running.client(None) as client:
            address = f"http://127.0.0.1:{running.port}{LOGIN}"
            for email, password in passwords.items():
                login = {"email": email, "password": password}
                assert client.post(address, json=login).status_code == 200
                assert client.post(address, json={**login, "password": PASSWORD}).is_error


def test_a_forwarded_request_cannot_use_the_demo_password(visitor: httpx.Client) -> None:
    response = visitor.post(LOGIN, json=SELLER, headers={"X-Forwarded-For": "192.0.2.1"})
    assert error(response) == (401, "authentication_required")


def test_the_demo_password_opens_nothing_on_a_server_that_others_can_reach() -> None:
    reachable = replace(FROZEN, host="0.0.0.0", key=new_key())  # noqa: S104  bound nowhere
    response = login_in_memory(reachable, "http://sandbox.example")
    assert error(response) == (401, "authentication_required")
    assert login_in_memory(FROZEN, "http://sandbox.example").status_code == 200
