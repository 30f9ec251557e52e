"""The journal shows what was asked, what was returned and why, and never a secret."""

from __future__ import annotations

import base64
import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from invoice_sandbox.base.ids import new_key
from invoice_sandbox.runtime import engine
from invoice_sandbox.runtime.journal import REQUESTS_LOG
from tests.cases import in_turn
from tests.scenario_run import INVOICE
from tests.support import FROZEN, PATIENCE, Running, serving

JSON = {"Content-Type": "application/json"}
EXPLAIN = {"X-Sandbox-Explain": "1"}


def journal(client: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    """The entries that match the query."""
    response = client.get("/sandbox/requests", params=query)
    assert response.status_code == 200, response.text
    entries: list[dict[str, Any]] = response.json()["data"]
    return entries


def last(client: httpx.Client) -> dict[str, Any]:
    """The entry of the latest request."""
    return journal(client, limit=1)[0]


def key_of(client: httpx.Client) -> str:
    """The key that a client sends."""
    return client.headers["authorization"].removeprefix("Bearer ")


def raw_exchange(client: httpx.Client, request: bytes) -> bytes:
    """The response to bytes that ask for the connection to be closed."""
    address = (client.base_url.host, client.base_url.port or 0)
    with socket.create_connection(address, PATIENCE) as raw:
        raw.sendall(request)
        received = b""
        while part := raw.recv(65536):
            received += part
    return received


class TestEntries:
    def test_an_entry_shows_everything(self, client: httpx.Client) -> None:
        response = client.post("/api/invoices?x=1", json=INVOICE)
        entry = last(client)
        assert isinstance(entry.pop("durationMs"), int | float)
        assert datetime.fromisoformat(entry.pop("receivedAt")).tzinfo is not None
        headers = entry["request"].pop("headers")
        assert ["content-type", "application/json"] in headers
        assert ["x-contract-version", "0.1.0"] in entry["response"].pop("headers")
        why = entry.pop("why")
        assert entry == {
            "requestId": response.headers["x-request-id"],
            "at": "2026-11-23T09:30:00Z",
            "operation": "createInvoice",
            "method": "POST",
            "path": "/api/invoices?x=1",
            "status": 201,
            "request": {"body": response.request.content.decode()},
            "response": {"body": response.text},
        }
        assert why["operation"] == "createInvoice"

    def test_the_control_endpoints_are_not(self, client: httpx.Client) -> None:
        client.get("/sandbox/clock")
        client.post("/sandbox/faults", json={})
        client.get("/sandbox/nothing")
        paths = [one["path"] for one in journal(client)]
        assert "/sandbox/clock" not in paths
        assert "/sandbox/faults" not in paths

    def test_another_workspace_never_sees_it(self, server: Running, client: httpx.Client) -> None:
        with server.client(server.new_workspace()) as other:
            client.post("/api/invoices", json=INVOICE)
            client.get("/api/nothing")
            assert journal(other) == []

    def test_every_key_of_a_workspace_writes_into_it(self, client: httpx.Client) -> None:
        made = client.post("/api/developer/api-keys", json={}).json()["data"]["secret"]
        client.get("/api/invoices", headers={"Authorization": f"Bearer {made}"})
        assert last(client)["operation"] == "listInvoices"

    def test_a_session_writes_into_it(self) -> None:
        body = {"email": "seller@demo.example", "password": "demo-password"}
        with serving() as running, running.client() as owner, running.client(None) as browser:
            browser.post("/api/auth/login", json=body)
            assert browser.get("/api/auth/session").status_code == 200
            assert last(owner)["operation"] == "getSession"

    def test_it_outlives_a_snapshot_s_return(self, client: httpx.Client) -> None:
        snapshot = client.post("/sandbox/snapshots").json()["data"]["id"]
        client.get("/api/offers")
        client.post(f"/sandbox/snapshots/{snapshot}/restore")
        assert last(client)["operation"] == "listOffers"


REJECTED_EARLY = {
    "an unknown path": ("GET", "/api/nothing", b"", {}, 404),
    "a wrong method": ("PUT", "/api/invoices", b"", {}, 405),
    "too large a body": ("POST", "/api/invoices", b" " * 300_000, JSON, 413),
    "no JSON": ("POST", "/api/invoices", b"a=b", {"Content-Type": "text/plain"}, 415),
    "malformed JSON": ("POST", "/api/invoices", b"{", JSON, 400),
    "a wrong parameter": ("GET", "/api/invoices?limit=0", b"", {}, 400),
    "a wrong host": ("GET", "/api/invoices", b"", {"Host": "evil.example"}, 421),
    "long headers": ("GET", "/api/invoices", b"", {"X-Long": "x" * 20_000}, 431),
}


class TestOwner:
    @pytest.mark.parametrize("name", REJECTED_EARLY)
    @pytest.mark.parametrize("header", ["bearer", "x-api-key"])
    def test_what_was_rejected_early_is_its_caller_s(
        self, server: Running, client: httpx.Client, name: str, header: str
    ) -> None:
        method, path, body, headers, status = REJECTED_EARLY[name]
        key = {"X-API-Key": key_of(client)}
        if header == "bearer":
            key = {"Authorization": f"Bearer {key_of(client)}"}
        with server.client(None) as anonymous:
            response = anonymous.request(method, path, content=body, headers={**headers, **key})
        assert response.status_code == status
        (entry,) = journal(client)
        assert entry["status"] == status
        assert entry["requestId"] == response.headers["x-request-id"]
        assert entry["method"] == method

    def test_a_rejected_credential_is_in_the_journal_of_the_default_workspace(self) -> None:
        with serving() as running, running.client() as owner, running.client(None) as nobody:
            response = nobody.get("/api/invoices", headers={"Authorization": "typo-of-a-key"})
            (entry,) = journal(owner)
        assert entry["requestId"] == response.headers["x-request-id"]
        assert entry["status"] == 401
        assert ["authorization", "[redacted]"] in entry["request"]["headers"]
        assert entry["at"] == "2026-11-23T09:30:00Z"
        assert "scenario" not in entry["why"]
        assert entry["why"]["reason"].startswith(
            "The Authorization header has a credential without"
        )
        assert "typo-of-a-key" not in json.dumps(entry)

    def test_an_unknown_path_without_a_credential_is_in_no_journal(self) -> None:
        with serving() as running, running.client() as owner, running.client(None) as nobody:
            assert nobody.get("/nowhere").status_code == 404
            assert journal(owner) == []

    def test_a_rejected_credential_learns_nothing_of_the_default_workspace(self) -> None:
        with serving() as running, running.client(None) as nobody:
            response = nobody.get("/api/offers", headers=EXPLAIN)
        reason = response.json()["error"]["message"]
        explained = f'operation="listOffers", reason="{reason}"'
        help_page = 'help="/help/errors.html#no_credential"'
        assert response.headers["x-sandbox-explain"] == f"{explained}, {help_page}"

    def test_a_bad_key_s_requests_are_nobody_s_where_no_key_is_needed(self) -> None:
        with serving() as running, running.client() as owner, running.client(None) as nobody:
            for path in ("/api/nothing", "/api/health"):
                nobody.get(path)
                for key in ("nothing", new_key(), ""):
                    nobody.get(path, headers={"X-API-Key": key})
                    nobody.get(path, headers={"Authorization": f"Bearer {key}".strip()})
            assert journal(owner) == []


class TestFilters:
    @pytest.fixture
    def busy(self, client: httpx.Client) -> httpx.Client:
        """A workspace whose journal holds five different requests."""
        client.get("/api/invoices")
        client.post("/api/invoices", json=INVOICE)
        client.post("/api/invoices", json={})
        client.post("/sandbox/faults", json={"kind": "status"})
        client.get("/api/invoices")
        client.get("/api/offers")
        return client

    @in_turn(
        ("query", "found"),
        [
            ({}, [200, 503, 400, 201, 200]),
            ({"operation": "createInvoice"}, [400, 201]),
            ({"method": "GET"}, [200, 503, 200]),
            ({"method": "get"}, [200, 503, 200]),
            ({"status": 400}, [400]),
            ({"status": 599}, []),
            ({"fault": "true"}, [503]),
            ({"fault": "false"}, [200, 400, 201, 200]),
            ({"operation": "listInvoices", "fault": "false"}, [200]),
            ({"operation": "createInvoice", "method": "GET"}, []),
            ({"method": "POST", "status": 201, "operation": "createInvoice"}, [201]),
        ],
        ids=str,
    )
    def test_each_and_together(
        self, busy: httpx.Client, query: Mapping[str, Any], found: list[int]
    ) -> None:
        response = busy.get("/sandbox/requests", params=query)
        assert [one["status"] for one in response.json()["data"]] == found
        assert response.headers["x-total-count"] == str(len(found))
        assert response.headers["x-journal-dropped"] == "0"

    def test_limit_leaves_the_count(self, busy: httpx.Client) -> None:
        response = busy.get("/sandbox/requests", params={"limit": 2})
        assert [one["status"] for one in response.json()["data"]] == [200, 503]
        assert response.headers["x-total-count"] == "5"

    @in_turn(
        "query", ["limit=0", "limit=1001", "limit=x", "status=99", "status=600", "fault=maybe"]
    )
    def test_what_is_no_filter(self, client: httpx.Client, query: str) -> None:
        response = client.get(f"/sandbox/requests?{query}")
        assert response.status_code == 400
        assert "/sandbox/openapi.json" in response.json()["error"]["message"]


class TestBounds:
    @pytest.mark.parametrize("where", ["bodies", "headers", "paths"])
    @pytest.mark.slow
    def test_four_mebibytes(self, client: httpx.Client, where: str) -> None:
        """Whatever it is that takes the room."""
        long = "x" * 15_000
        for _ in range(300):
            if where == "bodies":
                client.post("/api/invoices", json={**INVOICE, "sellerId": long})
            elif where == "headers":
                client.get("/api/nothing", headers={"X-Long": long})
            else:
                client.get(f"/api/nothing?{long}")
        response = client.get("/sandbox/requests", params={"limit": 1000})
        held, dropped = (int(response.headers[f"x-{name}"]) for name in COUNTS)
        assert held + dropped == 300
        assert dropped > 0
        assert len(response.content) < 5 * 1024 * 1024

    @pytest.mark.parametrize("letter", ["x", "ü"])
    def test_long_bodies_are_cut(self, client: httpx.Client, letter: str) -> None:
        response = client.post("/api/invoices", json={**INVOICE, "sellerId": letter * 20_000})
        entry = last(client)
        sent = response.request.content
        assert entry["request"]["bodyBytes"] == len(sent)
        assert entry["response"]["bodyBytes"] == len(response.content)
        cut = entry["request"]["body"]
        assert 8190 <= len(cut.encode()) <= 8192
        assert sent.decode().startswith(cut)


COUNTS = ("total-count", "journal-dropped")


def hidden(client: httpx.Client, *secrets: str) -> str:
    """The whole journal, after making sure that it holds none of the secrets."""
    text = client.get("/sandbox/requests", params={"limit": 1000}).text
    for secret in secrets:
        for form in {secret, json.dumps(secret)[1:-1], quote(secret, safe="")}:
            assert form not in text, f"{form} is in {text}"
    return text


PASSWORD = "correct-horse-battery"
BODIES = {
    "a member": '{"email": "a@b.example", "password": "correct-horse-battery"}',
    "deep inside": '{"a": [{"b": {"password": "correct-horse-battery"}}]}',
    "an object": '{"password": {"value": "correct-horse-battery"}}',
    "cut off": '{"email": "a", "password": "correct-horse-battery"',
    "unquoted": '{password: "correct-horse-battery"}',
    "single quotes": "{'password': 'correct-horse-battery'}",
    "escaped name": '{"pass\\u0077ord": "correct-horse-battery"}',
    "escaped name, cut off": '{"pass\\u0077ord": "correct-horse-battery"',
    "other letters": '{"Password": "correct-horse-battery", "client_secret": "x"}',
    "twice": '{"x": {"password": "correct-horse-battery"}, "x": 1, "password": 2}',
    "a form": "email=a&password=correct-horse-battery",
    "trailing": '{"password": "correct-horse-battery"} {}',
    "two lines": '{"password":\n"correct-horse-battery"}',
    "an address": '{"url": "https://user:correct-horse-battery@partner.example/"}',
    "an escaped address": '{"url": "https:\\/\\/user:correct-horse-battery@partner.example"}',
    "a signature": '{"url": "https://x.example/?expires=1&signature=correct-horse-battery"}',
    "an escaped signature": '{"url": "https://x/?a=1\\u0026signature=correct-horse-battery"}',
    "a token": '{"access_token": "correct-horse-battery", "apiKey": "correct-horse-battery"}',
    "past the cut": json.dumps({"x": "y" * 8170, "password": PASSWORD}),
}


MEDIA_TYPES = (
    "application/json",
    "application/json; charset=utf-16",
    "application/x-www-form-urlencoded",
    "application/vnd.partner+json",
)


class TestLengths:
    """Reading an entry is a bounded amount of work."""

    def test_a_long_query_is_cut(self, client: httpx.Client) -> None:
        client.get("/api/invoices?" + "a=b&" * 10_000)
        path = last(client)["path"]
        assert path.startswith("/api/invoices?a=b&a=b&")
        assert path.endswith("...")
        assert len(path) < 9_000

    def test_a_long_path_is_cut(self, client: httpx.Client) -> None:
        client.get("/api/invoices/" + "x" * 20_000)
        assert last(client)["path"] == "/api/invoices/" + "x" * (2048 - 14) + "..."

    def test_a_secret_at_the_cut_is_not_shown_in_part(self, client: httpx.Client) -> None:
        key = key_of(client)
        client.get("/api/invoices/" + "x" * (2048 - 24) + key)
        assert key[:20] not in last(client)["path"]

    def test_only_the_first_headers_are_shown(self, client: httpx.Client) -> None:
        client.get("/api/invoices", headers={f"x-{number}": "y" for number in range(200)})
        headers = last(client)["request"]["headers"]
        assert len(headers) == 101
        assert headers[-1][0] == "..."


class TestSecrets:
    @pytest.mark.parametrize("name", BODIES)
    def test_passwords_in_bodies(self, client: httpx.Client, name: str) -> None:
        """Whatever the operation makes of it, and wherever it was sent by mistake."""
        for path in ("/api/auth/login", "/api/invoices", "/api/webhooks"):
            for kind in MEDIA_TYPES:
                client.post(path, content=BODIES[name], headers={"Content-Type": kind})
        assert len(journal(client)) == 12
        hidden(client, PASSWORD)

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "utf-7"])
    def test_passwords_in_other_encodings(self, client: httpx.Client, encoding: str) -> None:
        content = BODIES["a member"].encode(encoding)
        client.post("/api/auth/login", content=content, headers=JSON)
        assert PASSWORD not in hidden(client, PASSWORD).replace("\\u0000", "")

    def test_a_password_with_marks_in_it(self, client: httpx.Client) -> None:
        for password in ('quo"te\\back', "am&per;sand=x", "späße-mit-ü", "new\nline"):
            client.post("/api/auth/login", json={"email": "x", "password": password})
            hidden(client, password)

    def test_the_login_s_cookie(self) -> None:
        body = {"email": "seller@demo.example", "password": "demo-password"}
        with serving() as running, running.client() as owner:
            response = owner.post("/api/auth/login", json=body)
            cookie = response.cookies["ils_session"]
            owner.cookies.clear()
            with running.client(None) as browser:
                browser.cookies.set("ils_session", cookie)
                browser.get("/api/auth/session")
                browser.get(f"/api/invoices/{cookie}?x={cookie}")
                browser.get("/api/nothing", headers={"Authorization": f"Bearer {cookie}"})
                note = {**INVOICE, "note": f"my session is {cookie}"}
                key = {"X-API-Key": key_of(owner)}
                browser.post("/api/invoices", json=note, headers=key)
            text = hidden(owner, cookie, "demo-password")
            assert "set-cookie" in text
            assert text.count("getSession") >= 1

    def test_keys_in_headers(self, client: httpx.Client, server: Running) -> None:
        key = key_of(client)
        for headers in (
            {"Authorization": f"Bearer {key}"},
            {"Authorization": f"bearer   {key}"},
            {"X-API-Key": key},
            {"X-API-Key": key, "Authorization": key},
            {"X-API-Key": key, "Authorization": f"Token {key}"},
            {
                "X-API-Key": key,
                "Authorization": "Basic " + base64.b64encode(b"u:pass-1234").decode(),
            },
            {"X-API-Key": key, "Proxy-Authorization": key, "Api-Key": key, "X-Auth-Token": key},
            {"X-API-Key": key, "Cookie": f"ils_session=abc; other={key}"},
            {"X-API-Key": key, "User-Agent": f"client/{key}", "Referer": f"http://x/?k={key}"},
            {"X-API-Key": key, "Idempotency-Key": key, "X-Sandbox-Explain": "1"},
            {"X-API-Key": key, key: "a header's name"},
        ):
            for path in ("/api/invoices", "/api/nothing"):
                with server.client(None) as anonymous:
                    anonymous.get(path, headers=headers)
        text = hidden(client, key, key.lower(), "u:pass-1234", "dTpwYXNzLTEyMzQ")
        assert len(journal(client)) >= 16, text

    @in_turn(
        "query",
        [
            "api_key={}",
            "X-API-Key={}",
            "apikey={}&x=1",
            "x=1&access_token={}",
            "{}",
            "x={}",
            "x=1&{}=1",
            "%61pi_key=hunter2-hunter2",
            "api%5Fkey=hunter2-hunter2",
            "API-KEY=hunter2-hunter2",
            "password=hunter2-hunter2",
            "a=b&signature=hunter2-hunter2&c=d",
            "x=https://a:hunter2-hunter2@h/",
            "x=%68unter3&token=hunter2-hunter2",
        ],
    )
    def test_keys_in_queries(self, client: httpx.Client, query: str) -> None:
        key = key_of(client)
        encoded = "".join(f"%{ord(letter):02x}" for letter in key)
        for path in ("/api/invoices", "/api/nothing", "/api/health"):
            client.get(f"{path}?{query.format(key)}")
            client.get(f"{path}?{query.format(encoded)}")
        assert len(journal(client)) >= 4
        hidden(client, key, encoded, "hunter2-hunter2")

    @pytest.mark.parametrize(
        ("sent", "shown"),
        [("0123456789abcde", "0123456789abcde"), ("0123456789abcdef", "[redacted]")],
    )
    def test_what_a_header_may_have_as_secret_is_hidden_elsewhere_from_16_characters_on(
        self, client: httpx.Client, sent: str, shown: str
    ) -> None:
        client.get(f"/api/partners?x={sent}", headers={"X-Auth-Token": sent})
        assert last(client)["path"] == f"/api/partners?x={shown}"

    def test_keys_in_paths(self, client: httpx.Client) -> None:
        key = key_of(client)
        encoded = "".join(f"%{ord(letter):02x}" for letter in key)
        for part in (key, encoded, f"a{key}b"):
            client.get(f"/api/invoices/{part}")
            client.get(f"/api/{part}/nothing")
        assert len(journal(client)) == 6
        hidden(client, key, encoded)

    @pytest.mark.parametrize(
        "form",
        ['"{}"', "{}", '["{}"]', '{{"note": "{}"}}', '{{"{}": 1}}', '{{"note": "{}', '"{}" x'],
    )
    def test_keys_in_bodies(self, client: httpx.Client, form: str) -> None:
        key = key_of(client)
        escaped = "".join(f"\\u{ord(letter):04x}" for letter in key)
        for text in (key, escaped):
            client.post("/api/invoices", content=form.format(text), headers=JSON)
        assert len(journal(client)) == 2
        hidden(client, key, escaped)

    @pytest.mark.parametrize("length", [10, 20_000, 200_000])
    def test_secrets_in_bodies_of_any_length(self, client: httpx.Client, length: int) -> None:
        """Large bodies are redacted when they are recorded, the others when they are read."""
        key = key_of(client)
        body = {"password": "hunter2hunter2", "note": key, "rest": "x" * length}
        client.post("/api/invoices", json=body)
        assert last(client)["request"]["body"].startswith('{"password":"[redacted]"')
        hidden(client, key, "hunter2hunter2")

    def test_a_key_across_the_cut(self, client: httpx.Client) -> None:
        """No part of it is shown, wherever the cut goes through."""
        key = key_of(client)
        for length in range(8100, 8200, 7):
            body = json.dumps({"x": "y" * length, "z": key})
            client.post("/api/invoices", content=body, headers=JSON)
        hidden(client, key[:16], key[-16:])

    def test_new_secrets(self, client: httpx.Client) -> None:
        secrets = []
        for path in ("/api/developer/api-keys", "/api/webhooks"):
            headers = {"Idempotency-Key": path}
            for _ in range(2):
                response = client.post(path, json={}, headers=headers)
            first = client.post(path, json={})
            secrets.append(first.json()["data"]["secret"])
            client.get(f"/api/invoices?x={quote(secrets[-1])}")
            client.post("/api/invoices", json={"note": secrets[-1]})
            assert response.status_code == 201
        hidden(client, *secrets)
        entry = journal(client, operation="createApiKey")[0]
        assert json.loads(entry["response"]["body"])["data"]["secret"] == "[redacted]"

    def test_upload_signatures(self, client: httpx.Client) -> None:
        made = client.post("/api/storage/invoices/upload-url", json={}).json()["data"]
        signature = made["url"].rpartition("signature=")[2]
        assert len(signature) == 64
        client.put(made["url"], content=b"%PDF", headers={"Content-Type": "application/pdf"})
        client.post("/api/webhooks", json={"url": made["url"]})
        client.get("/api/invoices", headers={"Referer": made["url"]})
        client.get(f"/api/invoices?signature={signature}")
        hidden(client, signature)

    def test_a_workspace_s_key(self, client: httpx.Client) -> None:
        made = client.post("/sandbox/workspaces", json={}).json()["data"]["key"]
        hidden(client, made)

    def test_what_is_no_secret_stays(self, client: httpx.Client) -> None:
        body = {**INVOICE, "note": "the password is in the safe", "keyless": True}
        headers = {"Idempotency-Key": "abc", "X-Trace": "xyz"}
        client.post("/api/invoices?limitless=1", json=body, headers=headers)
        entry = last(client)
        assert json.loads(entry["request"]["body"]) == body
        assert ["idempotency-key", "abc"] in entry["request"]["headers"]
        assert ["x-trace", "xyz"] in entry["request"]["headers"]
        assert ["authorization", "[redacted]"] in entry["request"]["headers"]
        assert entry["path"] == "/api/invoices?limitless=1"

    def test_malformed_json_can_be_looked_at(self, client: httpx.Client) -> None:
        """It is what one looks into the journal for."""
        client.post("/api/invoices", content=b'{"sellerId": "s",}', headers=JSON)
        assert last(client)["request"]["body"] == '{"sellerId": "s",}'

    def test_other_media_types_are_only_counted(self, client: httpx.Client) -> None:
        client.post("/api/invoices", content=b"<a/>", headers={"Content-Type": "text/xml"})
        assert last(client)["request"]["body"] is None
        assert last(client)["request"]["bodyBytes"] == 4


def resolve(document: Any, pointer: str) -> Any:
    """What a JSON Pointer names."""
    for step in pointer.removeprefix("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        document = document[int(name)] if isinstance(document, list) else document[name]
    return document


class TestWhy:
    def test_operation_scenario_and_clock(self, client: httpx.Client) -> None:
        client.get("/api/offers")
        assert last(client)["why"] == {
            "operation": "listOffers",
            "scenario": "manual",
            "clock": "frozen 2026-11-23T09:30:00Z",
        }

    def test_the_fault(self, client: httpx.Client) -> None:
        fault = client.post("/sandbox/faults", json={"kind": "malformed"}).json()["data"]["id"]
        client.get("/api/offers")
        assert last(client)["why"]["fault"] == f"{fault} malformed"

    def test_a_reset_has_no_response(self, client: httpx.Client) -> None:
        client.post("/sandbox/faults", json={"kind": "reset", "when": "after"})
        with suppress(httpx.ReadError):
            client.get("/api/offers")
        entry = last(client)
        assert entry["status"] is None
        assert entry["response"] == {"headers": [], "body": None}
        assert entry["why"]["fault"].endswith("reset")

    @in_turn(
        ("path", "body", "keyword"),
        [
            ("/api/invoices", {}, "required"),
            ("/api/invoices", [], "type"),
            ("/api/invoices", {**INVOICE, "amount": "1"}, "type"),
            ("/api/invoices", {**INVOICE, "dueDate": "soon"}, "format"),
            ("/api/developer/api-keys", {"scopes": ["everything"]}, "enum"),
            ("/api/developer/api-keys", {"scopes": "x"}, "type"),
        ],
    )
    def test_the_place_in_the_contract(
        self, client: httpx.Client, path: str, body: Any, keyword: str
    ) -> None:
        assert client.post(path, json=body).status_code == 400
        pointer = last(client)["why"]["schemaPath"]
        assert pointer.endswith(f"/{keyword}")
        resolve(client.get("/openapi.json").json(), pointer)

    def test_a_parameter_that_is_wrong(self, client: httpx.Client) -> None:
        assert client.get("/api/partners?limit=many").status_code == 400
        why = last(client)["why"]
        assert why["problems"] == [{"pointer": "", "problem": "limit must be a whole number"}]
        schema = resolve(client.get("/openapi.json").json(), why["schemaPath"])
        assert schema["type"] == "integer"

    def test_every_parameter_that_is_wrong(self, client: httpx.Client) -> None:
        """The control API is in no journal, but it explains itself."""
        wanted = {"X-Sandbox-Explain": "True"}
        response = client.get("/sandbox/requests?status=x&limit=0", headers=wanted)
        explained = response.headers["x-sandbox-explain"]
        problems = "status must be a whole number; limit must be at least 1"
        assert f'problems="{problems}"' in explained
        place = 'schemaPath="/paths/~1requests/get/parameters/'
        assert place in explained

    def test_every_problem_has_its_pointer(self, client: httpx.Client) -> None:
        body = {"sellerId": "a", "debtorId": "b", "currency": 7, "dueDate": "soon"}
        response = client.post("/api/invoices", json=body, headers=EXPLAIN)
        assert last(client)["why"]["problems"] == [
            {"pointer": "/invoiceNumber", "problem": "is required"},
            {"pointer": "/amount", "problem": "is required"},
            {"pointer": "/currency", "problem": "must be a string"},
            {"pointer": "/dueDate", "problem": "must be a date such as 2026-11-23"},
        ]
        assert (
            'problems="/invoiceNumber is required; /amount is required; '
            '/currency must be a string; /dueDate must be a date such as 2026-11-23"'
        ) in response.headers["x-sandbox-explain"]

    def test_an_undeclared_member_is_accepted_with_a_hint(self, client: httpx.Client) -> None:
        sent = {**INVOICE, "dueDat": "2026-12-03", "po": 7}
        response = client.post("/api/invoices", json=sent, headers=EXPLAIN)
        assert response.status_code == 201
        hints = ["undeclared member 'dueDat' (did you mean dueDate?)", "undeclared member 'po'"]
        assert last(client)["why"]["hints"] == hints
        assert f'hints="{" ".join(hints)}"' in response.headers["x-sandbox-explain"]
        client.post("/api/invoices", json=INVOICE)
        assert "hints" not in last(client)["why"]

    def test_five_undeclared_members_are_named_and_no_secret(self, client: httpx.Client) -> None:
        key = new_key()
        sent = {**INVOICE, key: 1, "x" * 300: 1, **{f"member{n}": n for n in range(9)}}
        client.post("/api/invoices", json=sent)
        hints = last(client)["why"]["hints"]
        assert hints[:2] == [
            "undeclared member '[redacted]'",
            f"undeclared member '{'x' * 57}...'",
        ]
        assert len(hints) == 5

    @in_turn(
        ("path", "hints"),
        [
            ("/api/partners?limt=5&limit=5", ["'limt' (did you mean limit?)"]),
            ("/api/partners?limit=5&cursor=x", []),
            ("/api/partners?=&limit=5", ["''"]),
            ("/api/health?x%C3%A9=1", ["'xé'"]),
            ("/api/health?%ff=1", []),
            (
                "/api/health?" + "&".join(f"p{n}=hunter2" for n in range(99)),
                [f"'p{n}'" for n in range(5)],
            ),
            ("/api/partners?limit=0&limt=5", ["'limt' (did you mean limit?)"]),
        ],
    )
    def test_undeclared_query_parameters_get_hints_and_the_same_response(
        self, client: httpx.Client, path: str, hints: list[str]
    ) -> None:
        response = client.get(path)
        declared = path.partition("?")[0] + ("?limit=0" if "limit=0" in path else "")
        assert response.status_code == client.get(declared).status_code
        entry = journal(client)[1]
        wanted = [f"undeclared query parameter {one}" for one in hints]
        assert [one.partition(" (known")[0] for one in entry["why"].get("hints", [])] == wanted

    @in_turn(
        ("sent", "message"),
        [
            (
                {"for": "P1D"},
                "by or to; undeclared member 'for' (known: by, to, wait, dryRun).",
            ),
            ({"by": "P1D", "wiat": True}, "undeclared member 'wiat' (did you mean wait?)."),
            (
                {"by": "P1D", "to": "2027-01-01T00:00:00Z"},
                "the body must have by or to, not both.",
            ),
            ({}, "the body must have by or to."),
            ({"wait": True}, "the body must have by or to."),
            ({"by": 1, "wiat": True}, "undeclared member 'wiat' (did you mean wait?)"),
        ],
    )
    def test_a_body_that_is_not_allowed_is_explained_in_its_members(
        self, client: httpx.Client, sent: Any, message: str
    ) -> None:
        response = client.post("/sandbox/clock/advance", json=sent)
        assert response.status_code == 400
        assert message in response.json()["error"]["message"]

    @in_turn(
        ("path", "body", "message"),
        [
            (
                "/sandbox/invoices/inv_sandbox_0001/transition",
                {"trigger": "verfy"},
                "trigger 'verfy' is unknown; did you mean verify?",
            ),
            (
                "/sandbox/clock/advance",
                {"by": "P1M"},
                "by 'P1M' must look like PT10S or P3D: write weeks as days; months and years",
            ),
            (
                "/sandbox/clock/advance",
                {"by": "P2W"},
                "by 'P2W' must look like PT10S or P3D: write weeks as days; months and years",
            ),
            (
                "/sandbox/clock/advance",
                {"by": "-P1D"},
                "by '-P1D' must look like PT10S or P3D: no clock goes back.",
            ),
            (
                "/sandbox/clock/advance",
                {"by": "P9999999D"},
                "by 'P9999999D' must look like PT10S or P3D.",
            ),
            ("/sandbox/clock/advance", {"by": "-Phunter2"}, "by must look like PT10S or P3D."),
            ("/sandbox/clock/advance", {"by": "hunter2"}, "by must look like PT10S or P3D."),
            ("/sandbox/clock/advance", {"by": "Phunter2"}, "by must look like PT10S or P3D."),
            ("/sandbox/clock/advance", {"by": "3hunter2"}, "by must look like PT10S or P3D."),
            *(
                ("/sandbox/clock/advance", {"by": one}, f"by '{one}' must look like PT10S or P3D.")
                for one in ("3D", "p3d", "P3X", "3 days", "90s", "1.5 h", "1h30m")
            ),
            (
                "/sandbox/faults",
                {"kind": "hunter2"},
                "kind must be one of latency, status, error,",
            ),
        ],
    )
    def test_a_value_is_repeated_if_it_cannot_be_a_secret(
        self, client: httpx.Client, path: str, body: Any, message: str
    ) -> None:
        rejected = client.post(path, json=body).json()["error"]["message"]
        assert rejected.startswith(message)
        assert "hunter2" not in rejected

    def test_the_place_in_the_control_endpoints_contract(self, client: httpx.Client) -> None:
        """ControlClient are in no journal, but they explain themselves."""
        response = client.post("/sandbox/faults", json={"kind": "explode"}, headers=EXPLAIN)
        found = re.search(r'schemaPath="([^"]*)"', response.headers["x-sandbox-explain"])
        assert found
        resolve(client.get("/sandbox/openapi.json").json(), found[1])

    def test_a_replay(self, client: httpx.Client) -> None:
        for _ in range(2):
            client.post("/api/invoices", json=INVOICE, headers={"Idempotency-Key": "k"})
        second, first = journal(client)
        assert second["why"]["replayed"] is True
        assert "replayed" not in first["why"]

    def test_the_next_triggers_of_an_invoice(self, client: httpx.Client) -> None:
        made = client.post("/api/invoices", json=INVOICE).json()["data"]["id"]
        assert "start-verification" in last(client)["why"]["next"]
        client.get(f"/api/invoices/{made}")
        legal = last(client)["why"]["next"]
        body = {"trigger": legal[0]}
        path = f"/sandbox/invoices/{made}/transition"
        assert client.post(path, json=body).status_code == 200

    def test_the_step_that_moved_an_invoice(self) -> None:
        settings = replace(FROZEN, scenario="auto-progress")
        with serving(settings) as running, running.client() as client:
            made = client.post("/api/invoices", json=INVOICE).json()["data"]["id"]
            client.post("/sandbox/clock/advance", json={"by": "PT3S"})
            client.get(f"/api/invoices/{made}")
            step = {
                "at": "2026-11-23T09:30:02Z",
                "do": "finish-verification",
                "with": {},
                "scenario": "auto-progress",
            }
            assert last(client)["why"]["step"] == step
            text = explained(client.get(f"/api/invoices/{made}", headers=EXPLAIN))
            assert json.loads(text.rpartition("step=")[2]) == step

    def test_the_scenario_is_that_of_the_invoice(self, client: httpx.Client) -> None:
        headers = {"X-Sandbox-Scenario": "happy-path"}
        made = client.post("/api/invoices", json=INVOICE, headers=headers).json()["data"]["id"]
        client.get(f"/api/invoices/{made}")
        assert last(client)["why"]["scenario"] == "happy-path"
        body = {"invoiceId": made}
        client.post("/api/financing-requests", json=body)
        assert (last(client)["status"], last(client)["why"]["scenario"]) == (409, "happy-path")
        transition = f"/sandbox/invoices/{made}/transition"
        rejected = client.post(transition, json={"trigger": "settle"}, headers=EXPLAIN)
        assert 'scenario="happy-path"' in explained(rejected)
        client.get(f"/api/invoices/{made}", headers={"X-Sandbox-Scenario": "slow-api"})
        assert last(client)["why"]["scenario"] == "slow-api"
        client.get("/api/offers")
        assert last(client)["why"]["scenario"] == "manual"
        client.get(f"/api/offers?invoiceId={made}")
        assert last(client)["why"]["scenario"] == "happy-path"

    def test_it_repeats_no_key_to_its_sender(self, client: httpx.Client) -> None:
        key = key_of(client)
        for query in (key, f"x={key}&{key}=1"):
            response = client.get(f"/api/invoices/inv_1?{query}", headers=EXPLAIN)
            assert "[redacted]" in explained(response)
            assert key not in explained(response)


def explained(response: httpx.Response) -> str:
    """The one explanation of a response."""
    (text,) = response.headers.get_list("x-sandbox-explain")
    assert re.fullmatch(r"[\x20-\x7e]{1,4096}", text)
    return str(text)


class TestExplainHeader:
    @in_turn("value", ["0", "false", "", "11", "1, 1", "yes"])
    def test_any_other_value_asks_for_none(self, client: httpx.Client, value: str) -> None:
        response = client.get("/api/invoices", headers={"X-Sandbox-Explain": value})
        assert "x-sandbox-explain" not in response.headers

    @in_turn("name", REJECTED_EARLY)
    def test_on_early_errors(self, client: httpx.Client, name: str) -> None:
        method, path, body, headers, status = REJECTED_EARLY[name]
        response = client.request(method, path, content=body, headers={**headers, **EXPLAIN})
        assert response.status_code == status
        explained(response)

    def test_on_errors_of_callers(self, server: Running, client: httpx.Client) -> None:
        with server.client(None) as anonymous:
            response = anonymous.get("/api/invoices", headers=EXPLAIN)
            assert response.status_code == 401
            assert explained(response).startswith('operation="listInvoices", reason="No credential')
            explained(anonymous.get("/api/health", headers=EXPLAIN))
        weak = {"scopes": ["offers:read"]}
        secret = client.post("/api/developer/api-keys", json=weak).json()["data"]["secret"]
        headers = {**EXPLAIN, "Authorization": f"Bearer {secret}"}
        response = client.get("/api/invoices", headers=headers)
        assert response.status_code == 403
        explained(response)

    def test_on_an_injected_response(self, client: httpx.Client) -> None:
        client.post("/sandbox/faults", json={"kind": "status"})
        assert "status" in explained(client.get("/api/invoices", headers=EXPLAIN))

    @pytest.mark.parametrize("text", ["%0d%0aX-Evil:%201", "%00", "%0a", "é".encode().hex("%")])
    def test_no_request_puts_a_line_into_it(self, client: httpx.Client, text: str) -> None:
        request = (
            f"GET /api/invoices/{text}?x={text} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {key_of(client)}\r\nX-Sandbox-Explain: 1\r\n"
            f"X-Request-Id: a\rX-Evil: 1\r\nConnection: close\r\n\r\n"
        )
        head = raw_exchange(client, request.encode()).partition(b"\r\n\r\n")[0]
        assert b"x-evil" not in head.lower()
        body = {f"x{text}\r\nX-Evil: 1": 1}
        response = client.post("/api/invoices", json=body, headers=EXPLAIN)
        assert "x-evil" not in response.headers
        explained(response)

    def test_pages_may_read_and_send_it(self, client: httpx.Client) -> None:
        origin = {"Origin": "http://localhost:3000"}
        response = client.get("/api/invoices", headers={**origin, **EXPLAIN})
        exposed = response.headers["access-control-expose-headers"].lower()
        for name in ("x-sandbox-explain", "idempotent-replayed", "x-journal-dropped"):
            assert name in exposed
        asked = {
            **origin,
            "Access-Control-Request-Method": "GET",
            "Access-Control-Request-Headers": "x-sandbox-explain",
        }
        allowed = client.options("/api/invoices", headers=asked)
        assert "x-sandbox-explain" in allowed.headers["access-control-allow-headers"].lower()


LONG = """
openapi: 3.1.0
info: {title: Long, version: "1"}
security: [{key: []}]
paths:
  /things:
    get:
      operationId: "%s"
      responses: {'204': {description: "Nothing."}}
components:
  securitySchemes:
    key: {type: apiKey, in: query, name: credential-of-mine}
"""


@contextmanager
def serving_text(folder: Path, contract: str) -> Iterator[Running]:
    """A server of a contract and nothing else."""
    file = folder / "contract.yaml"
    file.write_text(contract)
    with serving(replace(FROZEN, contract=file)) as running:
        yield running


def test_a_tool_may_leave_its_requests_out(client: httpx.Client) -> None:
    assert client.get("/api/invoices", headers={"X-Sandbox-Journal": "off"}).is_success
    assert client.get("/api/offers", headers={"X-Sandbox-Journal": "on"}).is_success
    assert [one["path"] for one in journal(client)] == ["/api/offers"]


def test_a_long_explanation_is_cut(tmp_path: Path) -> None:
    with (
        serving_text(tmp_path, LONG % ("grüße-" * 2000)) as running,
        running.client(None) as client,
    ):
        assert len(explained(client.get("/things", headers=EXPLAIN))) == 4096


def test_the_names_that_a_contract_gives_to_its_credentials(tmp_path: Path) -> None:
    with serving_text(tmp_path, LONG % "things") as running, running.client() as client:
        key = key_of(client)
        assert client.get(f"/things?credential-of-mine={key}").status_code == 204
        client.get("/nothing?credential-of-mine=hunter2-hunter2")
        assert journal(client, operation="things")[0]["path"].endswith("=[redacted]")
        hidden(client, key, "hunter2-hunter2")


def test_the_journal_is_filtered_by_id_and_by_text(client: httpx.Client) -> None:
    client.post("/api/invoices", json={"invoiceNumber": "AB-7", "password": "hidden-word"})
    client.get("/api/partners", params={"cursor": "AB-7"})
    client.post("/api/invoices", content=b'{"invoiceNumber": "\\u0041B-7"}')
    newest, older, oldest = client.get("/sandbox/requests").json()["data"]

    def found(**query: str) -> list[str]:
        response = client.get("/sandbox/requests", params=query)
        rows = [one["requestId"] for one in response.json()["data"]]
        assert len(rows) <= int(response.headers["x-total-count"])
        return rows

    assert found(id=older["requestId"]) == [older["requestId"]]
    assert found(id="unknown") == []
    assert found(text="AB-7") == [older["requestId"], oldest["requestId"]]
    assert found(text="AB-7", method="GET") == [older["requestId"]]
    assert found(text="AB-7", limit="1") == [older["requestId"]]
    assert found(text="/api/invoices") == [newest["requestId"], oldest["requestId"]]
    assert found(text="hidden-word") == []
    assert found(text="[redacted]") == [oldest["requestId"]]
    assert found(text="é") == []
    client.post("/api/invoices", json={**INVOICE, "invoiceNumber": "AB-8"})
    assert len(found(text="AB-8")) == 1


@contextmanager
def following(client: httpx.Client, last: int | None = None, **query: str) -> Iterator[Any]:
    """A function that returns the next part of the stream of requests: its lines."""
    headers = {"Accept": "text/event-stream"}
    headers |= {} if last is None else {"Last-Event-ID": str(last)}
    path = "/sandbox/requests/stream"
    with client.stream("GET", path, params=query, headers=headers) as stream:
        assert stream.headers["content-type"] == "text/event-stream", stream.read()
        lines = stream.iter_lines()

        def following() -> list[str]:
            part = []
            while line := next(lines):
                part.append(line)
            return part

        assert following() == [": connected"]
        yield following


def request_in(part: list[str]) -> tuple[str, Any]:
    """The number and the entry of a part of the stream."""
    number, name, shown = part
    assert name == "event: request"
    return number, json.loads(shown.removeprefix("data: "))


def test_requests_are_streamed_as_they_come(server: Running, client: httpx.Client) -> None:
    stranger = server.client(server.new_workspace())
    client.get("/api/partners")
    with stranger, following(client, status="404") as following_part:
        stranger.get("/api/invoices/theirs")
        client.get("/api/offers")
        client.get("/api/invoices/nothing")
        number, entry = request_in(following_part())
        assert (number, entry) == ("id: 3", last(client))
    with following(client, 2) as following_part:  # after Last-Event-ID
        assert request_in(following_part()) == (number, entry)
    with following(client, 99) as following_part:  # a number of an earlier process
        assert request_in(following_part())[1]["path"] == "/api/partners"


def test_a_stream_names_how_many_requests_the_journal_no_longer_has(server: Running) -> None:
    key = server.new_workspace()
    with server.client(key) as client:
        client.get("/api/partners")
        name = client.get("/sandbox/workspaces").json()["data"][0]["id"]
        journal = server.sandbox.engine.journal
        (recorded,) = server.call(server.store.log, name, REQUESTS_LOG).entries
        for _ in range(1001):
            server.call(journal.record, name, recorded)
        with following(client, 0) as following_part:
            assert following_part() == ["event: dropped", 'data: {"count": 2}']
            assert following_part()[0] == "id: 3"


def test_a_client_that_reads_no_stream_gets_what_is_there(client: httpx.Client) -> None:
    client.get("/api/partners")
    client.get("/api/offers")
    path = "/sandbox/requests/stream"
    assert client.get(path).text == ""
    after = client.get(path, headers={"Last-Event-ID": "1"}).text
    assert request_in(after.splitlines()[:3])[1]["path"] == "/api/offers"


def test_streams_of_requests_are_limited_and_end_with_the_workspace(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "STREAMS_OF_A_WORKSPACE", 1)
    key = server.new_workspace()
    with server.client(key) as client, server.client() as parent:
        name = client.get("/sandbox/workspaces").json()["data"][0]["id"]
        with following(client) as following_part:
            too_many = {"Accept": "text/event-stream"}
            assert client.get("/sandbox/requests/stream", headers=too_many).status_code == 409
            parent.delete(f"/sandbox/workspaces/{name}")
            with pytest.raises(StopIteration):
                following_part()
