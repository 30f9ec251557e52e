"""120 requests a minute and key, in real time, with the headers that clients back off by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from ipaddress import ip_network

import httpx
import pytest

from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.base.rate_limits import RateLimiter
from invoice_sandbox.http import admit
from invoice_sandbox.http.admit import request_limits
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.support import FROZEN, PATIENCE, ManualSystemClock, Running, serving

OTHER_HEADER = {"X-API-Key": DEMO_KEY}


def used_up(limiter: RateLimiter, caller: str, times: int) -> list[tuple[str, str]]:
    headers: list[tuple[str, str]] = []
    for _ in range(times):
        headers = limiter.count("default", caller)
    return headers


def test_every_response_reports_what_is_left_and_for_how_long() -> None:
    system_clock = ManualSystemClock()
    limiter = RateLimiter(request_limits(120), system_clock)
    limiter.count("default", "a")
    system_clock.pass_seconds(17.2)
    assert used_up(limiter, "a", 2) == [
        ("RateLimit-Policy", '"default";q=120;w=60'),
        ("RateLimit", '"default";r=117;t=43'),
    ]


def test_the_last_second_of_a_window_is_one_second() -> None:
    system_clock = ManualSystemClock()
    limiter = RateLimiter(request_limits(2), system_clock)
    limiter.count("default", "a")
    system_clock.pass_seconds(59.5)
    assert dict(limiter.count("default", "a"))["RateLimit"] == '"default";r=0;t=1'


def test_one_request_too_many_is_429_until_the_window_ends() -> None:
    system_clock = ManualSystemClock()
    limiter = RateLimiter(request_limits(3), system_clock)
    used_up(limiter, "a", 3)
    system_clock.pass_seconds(18)
    with pytest.raises(ApiError) as caught:
        limiter.count("default", "a")
    assert caught.value.status == 429
    assert dict(caught.value.headers)["Retry-After"] == "42"
    assert dict(caught.value.headers)["RateLimit"] == '"default";r=0;t=42'
    system_clock.pass_seconds(42)
    assert dict(limiter.count("default", "a"))["RateLimit"] == '"default";r=2;t=60'


def test_every_caller_has_a_window_of_its_own() -> None:
    limiter = RateLimiter(request_limits(1), ManualSystemClock())
    limiter.count("default", "a")
    limiter.count("default", "b")
    limiter.count("anonymous", "a")


def test_windows_that_have_ended_are_forgotten() -> None:
    system_clock = ManualSystemClock()
    limiter = RateLimiter(request_limits(1), system_clock)
    for number in range(30_000):
        limiter.count("anonymous", str(number))
        system_clock.pass_seconds(0.01)
    assert len(vars(limiter)["_windows"]) < 20_000


def test_a_server_rejects_the_121st_request_of_a_key_and_no_other() -> None:
    with serving(replace(FROZEN, rate_limit=120)) as running, running.client() as client:
        statuses = {client.get("/api/partners").status_code for _ in range(120)}
        assert statuses == {200}
        rejected = client.get("/api/partners")
        assert rejected.status_code == 429
        assert rejected.json()["error"]["code"] == "rate_limit_exceeded"
        assert rejected.headers["retry-after"] == "60"
        assert client.get("/api/health").status_code == 200
        with running.client(running.new_workspace()) as other:
            assert other.get("/api/partners").status_code == 200
        running.system_clock.pass_seconds(60)
        assert client.get("/api/partners").status_code == 200


def test_callers_without_a_valid_key_are_counted_by_address() -> None:
    with serving(replace(FROZEN, rate_limit=2)) as running, running.client("nonsense") as client:
        first = client.get("/api/partners")
        assert first.status_code == 401
        assert first.headers["ratelimit-policy"] == '"anonymous";q=2;w=60'
        assert [client.get("/api/partners").status_code for _ in range(2)] == [401, 429]


def test_each_address_without_a_key_has_a_window_of_its_own() -> None:
    with serving(replace(FROZEN, rate_limit=1)) as running:
        for address in ("127.0.0.1", "127.0.0.2"):
            transport = httpx.HTTPTransport(local_address=address)
            with httpx.Client(
                base_url=running.url, transport=transport, timeout=PATIENCE
            ) as stranger:
                found = [stranger.get("/api/partners").status_code for _ in range(2)]
                assert found == [401, 429]


def test_clients_behind_a_trusted_proxy_are_told_apart() -> None:
    settings = replace(FROZEN, rate_limit=1, trusted_proxy=(ip_network("127.0.0.0/8"),))
    with serving(settings) as running, running.client(None) as stranger:

        def status(forwarded: str) -> int:
            sent = {"X-Forwarded-For": forwarded}
            return stranger.get("/api/partners", headers=sent).status_code

        assert [status("192.0.2.1"), status("192.0.2.1")] == [401, 429]
        assert status("192.0.2.2") == 401
        # What a client claims stands before what the proxies saw.
        assert [status("6.6.6.6, 192.0.2.3, 127.0.0.9"), status("7.7.7.7, 192.0.2.3")] == [401, 429]


def test_without_a_trusted_proxy_a_client_cannot_choose_its_address() -> None:
    with serving(replace(FROZEN, rate_limit=1)) as running, running.client(None) as stranger:
        sent = [{"X-Forwarded-For": address} for address in ("192.0.2.1", "192.0.2.2")]
        found = [stranger.get("/api/partners", headers=one).status_code for one in sent]
        assert found == [401, 429]


def test_a_client_with_wrong_keys_does_not_keep_others_from_logging_in() -> None:
    with serving(replace(FROZEN, rate_limit=1)) as running:
        with running.client("nonsense") as client:
            assert [client.get("/api/partners").status_code for _ in range(2)] == [401, 429]
        with running.client(None) as visitor:
            assert visitor.post("/api/auth/login", json=WRONG_LOGIN).status_code == 401


WRONG_LOGIN = {"email": "nobody@example.com", "password": "wrong"}


def test_an_address_without_a_key_has_a_window_beside_those_of_keys() -> None:
    with (
        serving(replace(FROZEN, rate_limit=1)) as running,
        running.client(None) as stranger,
        running.client() as client,
    ):
        assert [stranger.get("/api/partners").status_code for _ in range(2)] == [401, 429]
        assert [client.get("/api/partners").status_code for _ in range(2)] == [200, 429]


def test_a_key_has_one_window_in_whatever_header_it_comes() -> None:
    with serving(replace(FROZEN, rate_limit=2)) as running, running.client(None) as client:
        for header, left in (({"Authorization": f"Bearer {DEMO_KEY}"}, 1), (OTHER_HEADER, 0)):
            response = client.get("/api/partners", headers=header)
            assert response.headers["ratelimit"] == f'"default";r={left};t=60'
        assert client.get("/api/partners", headers=OTHER_HEADER).status_code == 429


def test_what_is_rejected_counts_and_the_limit_is_looked_at_before_scope_and_body() -> None:
    with serving(replace(FROZEN, rate_limit=2)) as running, running.client() as client:
        created = client.post("/api/developer/api-keys", json={"scopes": ["offers:read"]}).json()
        with running.client(created["data"]["secret"]) as limited:
            responses = [limited.post("/api/offers", content=b"{") for _ in range(3)]
    assert [response.status_code for response in responses] == [403, 403, 429]
    assert responses[2].json()["error"]["requestId"] == responses[2].headers["x-request-id"]


def test_off_means_off() -> None:
    with serving(FROZEN) as running, running.client() as unlimited:
        response = unlimited.get("/api/partners")
        assert "ratelimit" not in response.headers


LIMITED = replace(FROZEN, rate_limit=5)


def test_rejected_credentials_are_counted_by_the_control_api_too() -> None:
    with serving(LIMITED) as running, running.client("wrong") as client:
        statuses = [client.get("/sandbox/clock").status_code for _ in range(7)]
    assert statuses == [401] * 5 + [429] * 2


def test_reading_by_the_control_api_has_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admit, "FAMILY_LIMIT", 3)
    monkeypatch.setattr(admit, "_FAMILY_KEYS", 0)
    with serving(LIMITED) as running, running.client() as client:
        assert {client.get("/sandbox/clock").status_code for _ in range(10)} == {200}


def test_what_the_console_reads_is_not_counted() -> None:
    with serving(replace(FROZEN, rate_limit=1)) as running:
        with running.client(None) as visitor:
            pages = [visitor.get("/console/records/invoices").text for _ in range(3)]
        assert ["Too many" in one for one in pages] == [False] * 3
        with running.client() as client:
            assert [client.get("/api/invoices").status_code for _ in range(2)] == [200, 429]


def test_what_a_listener_reports_has_no_limit_of_requests(family: Running) -> None:
    """Its deliveries have one."""
    with family.client(family.new_workspace()) as client:
        reported = {"status": 200, "headers": {}, "body": ""}
        found = {
            client.post("/sandbox/listeners/none/responses", json=reported).status_code
            for _ in range(8)
        }
        assert len(found) == 1
        assert client.post("/sandbox/reset").status_code == 200


@pytest.fixture(name="family")
def _family(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server that allows six requests to a family of workspaces."""
    monkeypatch.setattr(admit, "FAMILY_LIMIT", 6)
    monkeypatch.setattr(admit, "_FAMILY_KEYS", 0)
    with serving(LIMITED) as running:
        yield running


def test_changes_by_the_control_api_are_limited(family: Running) -> None:
    with family.client(family.new_workspace()) as client:
        responses = [client.post("/sandbox/reset") for _ in range(7)]
        assert [one.status_code for one in responses] == [200] * 6 + [429]
        assert responses[6].headers["ratelimit-policy"] == '"workspace";q=6;w=60'
        with family.client(family.new_workspace()) as other:
            assert other.post("/sandbox/reset").status_code == 200
        family.system_clock.pass_seconds(60)
        assert client.post("/sandbox/reset").status_code == 200


def test_new_keys_share_the_limit_of_their_workspace(family: Running) -> None:
    with family.client(family.new_workspace()) as client:
        keys = [
            client.post("/api/developer/api-keys", json={}).json()["data"]["secret"]
            for _ in range(3)
        ]
    statuses = []
    for key in keys:
        with family.client(key) as client:
            statuses += [client.get("/api/partners").status_code for _ in range(2)]
    assert statuses == [200] * 3 + [429] * 3


def test_workspaces_share_the_limit_of_the_one_that_they_come_from(family: Running) -> None:
    key, statuses = family.new_workspace(), []
    for _ in range(4):
        with family.client(key) as client:
            made = client.post("/sandbox/workspaces", json={})
            statuses += [made.status_code, client.post("/sandbox/reset").status_code]
            key = made.json()["data"]["key"] if made.status_code == 201 else key
    assert statuses == [201, 200] * 3 + [429] * 2


def test_workspaces_share_the_limit_of_the_key_that_may_only_create_them(family: Running) -> None:
    with family.client() as client:
        body = {"scopes": ["workspaces:create"]}
        creator = client.post("/api/developer/api-keys", json=body).json()["data"]["secret"]
    statuses = []
    with family.client(creator) as client:
        made = [client.post("/sandbox/workspaces", json={}).json()["data"] for _ in range(2)]
    for one in made:
        with family.client(one["key"]) as client:
            statuses += [client.post("/sandbox/reset").status_code for _ in range(4)]
    assert statuses == [200] * 6 + [429] * 2


def test_missing_scopes_are_counted_for_the_workspace_and_not_for_each_key() -> None:
    """So that new keys do not fill the audit log: it notes every 403, but no 429."""
    with serving(LIMITED) as running:
        owner = running.new_workspace()
        statuses = []
        for _ in range(4):
            with running.client(owner) as client:
                made = client.post("/api/developer/api-keys", json={"scopes": ["offers:read"]})
            with running.client(made.json()["data"]["secret"]) as client:
                statuses += [client.get("/api/invoices").status_code for _ in range(2)]
        assert statuses == [403] * 5 + [429] * 3
        running.system_clock.pass_seconds(60)
        with running.client(owner) as client:
            log = client.get("/api/audit-log", params={"limit": 100}).json()["data"]
        assert [event["action"] for event in log].count("authorization.rejected") == 5


def test_the_audit_log_holds_the_beginning_of_a_long_user_agent() -> None:
    with serving() as running, running.client() as client:
        client.post(
            "/api/developer/api-keys", json={"name": "x"}, headers={"User-Agent": "u" * 9_000}
        )
        [event, *_] = client.get("/api/audit-log").json()["data"]
        assert event["context"]["userAgent"] == "u" * 256
