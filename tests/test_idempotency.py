"""A request that is repeated under the same ``Idempotency-Key`` is carried out once."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from invoice_sandbox.http.idempotency import key_of
from invoice_sandbox.http.request import Head, Inputs, Request
from invoice_sandbox.state import Credential
from tests.cases import in_turn
from tests.scenario_run import INVOICE, until
from tests.support import FROZEN, PATIENCE, Running, serving

REPLAYED = "idempotent-replayed"
VENDOR = "application/vnd.toy+json"
LOGIN = {"email": "seller@demo.example", "password": "demo-password"}


def post(
    client: httpx.Client, key: str, path: str = "/api/invoices", body: Any = None
) -> httpx.Response:
    """An invoice under a key, unless another path and body are given."""
    given = INVOICE if body is None else body
    return client.post(path, json=given, headers={"Idempotency-Key": key})


def created(client: httpx.Client) -> int:
    """How many invoices were created: the fixtures have other numbers."""
    invoices = client.get("/api/invoices").json()["data"]
    return sum(one["invoiceNumber"] == INVOICE["invoiceNumber"] for one in invoices)


def is_replayed(response: httpx.Response) -> bool:
    """Whether the response says that it was given before."""
    assert response.headers.get(REPLAYED) in {None, "true"}
    return REPLAYED in response.headers


class TestReplay:
    def test_a_success_gets_a_response_again(self, client: httpx.Client) -> None:
        first, second = post(client, "k"), post(client, "k")
        assert (first.status_code, second.status_code) == (201, 201)
        assert first.content == second.content
        assert (is_replayed(first), is_replayed(second)) == (False, True)
        assert created(client) == 1

    def test_it_has_a_request_id_of_its_own(self, client: httpx.Client) -> None:
        first, second = post(client, "k"), post(client, "k")
        assert first.headers["x-request-id"] != second.headers["x-request-id"]
        assert second.headers.get_list("x-request-id", split_commas=True) == [
            second.headers["x-request-id"]
        ]

    def test_without_a_key_it_is_done_again(self, client: httpx.Client) -> None:
        for _ in range(2):
            assert not is_replayed(client.post("/api/invoices", json=INVOICE))
        assert created(client) == 2

    def test_an_error_gets_a_response_again(self, client: httpx.Client) -> None:
        """Under a request id of its own."""
        first = post(client, "k", "/api/financing-requests", {"invoiceId": "inv_nothing"})
        second = post(client, "k", "/api/financing-requests", {"invoiceId": "inv_nothing"})
        assert (first.status_code, second.status_code) == (404, 404)
        assert is_replayed(second)
        for response in (first, second):
            assert response.json()["error"]["requestId"] == response.headers["x-request-id"]
        assert first.json()["error"]["message"] == second.json()["error"]["message"]

    def test_an_error_stays_when_its_reason_is_gone(self, client: httpx.Client) -> None:
        invoice = client.post("/api/invoices", json=INVOICE).json()["data"]["id"]
        body = {"invoiceId": invoice}
        assert post(client, "k", "/api/financing-requests", body).status_code == 409
        client.post("/api/verification/run", json=body)
        assert client.get(f"/api/invoices/{invoice}").json()["data"]["status"] == "Verified"
        assert post(client, "k", "/api/financing-requests", body).status_code == 409
        assert post(client, "new", "/api/financing-requests", body).status_code == 201

    def test_the_response_is_that_of_then(self, client: httpx.Client) -> None:
        first = post(client, "k").json()["data"]
        client.post("/api/verification/run", json={"invoiceId": first["id"]})
        assert post(client, "k").json()["data"] == first

    def test_digits_are_kept(self, client: httpx.Client) -> None:
        raw = json.dumps(INVOICE).replace("10000", "1234567890123456789012.50").encode()
        headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
        first, second = (
            client.post("/api/invoices", content=raw, headers=headers) for _ in range(2)
        )
        assert b"1234567890123456789012.50" in first.content
        assert first.content == second.content


class TestKeys:
    @pytest.mark.parametrize(
        ("one", "other"),
        [("abc", '"abc"'), ("a b", '"a b"'), ('a"b', '"a\\"b"'), ("a\\b", '"a\\\\b"')],
    )
    def test_quoted_and_bare_are_the_same(self, client: httpx.Client, one: str, other: str) -> None:
        assert not is_replayed(post(client, one))
        assert is_replayed(post(client, other))

    @in_turn(
        "key",
        [b"", b'""', b"x" * 256, b'"' + b"x" * 256 + b'"', "clé".encode(), b"a\tb", b"\xff"],
        ids=repr,
    )
    def test_anything_else_is_rejected(self, client: httpx.Client, key: bytes) -> None:
        response = client.post("/api/invoices", json=INVOICE, headers=[(b"Idempotency-Key", key)])
        assert response.status_code == 400
        assert "1 to 255 printable ASCII" in response.json()["error"]["message"]
        assert created(client) == 0

    def test_keys_are_case_sensitive(self, client: httpx.Client) -> None:
        post(client, "key")
        assert not is_replayed(post(client, "KEY"))


class TestSameRequest:
    def test_another_body_is_rejected(self, client: httpx.Client) -> None:
        post(client, "k")
        response = post(client, "k", body={**INVOICE, "amount": 2000})
        assert response.status_code == 400
        assert "another request" in response.json()["error"]["message"]
        assert not is_replayed(response)
        assert is_replayed(post(client, "k"))
        assert created(client) == 1

    @pytest.mark.parametrize(
        "form", ["indented", "other order", "deep order", "escapes"], ids=lambda form: form
    )
    def test_the_same_body_may_be_written_differently(
        self, client: httpx.Client, form: str
    ) -> None:
        value = {**INVOICE, "more": {"a": [1, {"x": "é", "y": 2}], "b": None}}
        turned = dict(reversed(value.items()))
        forms = {
            "indented": json.dumps(value, indent=4, ensure_ascii=False),
            "other order": json.dumps(turned, ensure_ascii=False),
            "deep order": json.dumps({**value, "more": {"b": None, "a": [1, {"y": 2, "x": "é"}]}}),
            "escapes": json.dumps(value),
        }
        headers = {"Idempotency-Key": "k", "Content-Type": "application/json; charset=utf-8"}
        post(client, "k", body=value)
        response = client.post("/api/invoices", content=forms[form], headers=headers)
        assert is_replayed(response)

    def test_the_bytes_of_a_body_that_is_no_json_count(self) -> None:
        caller, contents = Credential("d", "w", "key_1", frozenset()), set()
        for content in (b"a=1", b"a=2", b"a=1"):
            head = Head((("idempotency-key", "k"),))
            endpoint: Any = SimpleNamespace(reading=SimpleNamespace(is_idempotent=True))
            request = Request({"query_string": b""}, None, "POST", "/x", head)  # type: ignore[arg-type]
            request.content, request.credential, request.target = content, caller, endpoint
            key = key_of(request, Inputs({}, {}, {"a": 1}, "text/plain"))
            assert key is not None
            contents.add(key.content)
        assert len(contents) == 2

    def test_the_order_of_a_list_counts(self, client: httpx.Client) -> None:
        post(client, "k", body={**INVOICE, "more": [1, 2]})
        assert post(client, "k", body={**INVOICE, "more": [2, 1]}).status_code == 400

    def test_another_query_is_another_request(self, client: httpx.Client) -> None:
        post(client, "k")
        assert post(client, "k", "/api/invoices?x=1").status_code == 400

    def test_another_path_is_another_key(self, client: httpx.Client) -> None:
        post(client, "k")
        assert not is_replayed(post(client, "k", "/api/webhooks", {}))
        assert is_replayed(post(client, "k", "/api/webhooks", {}))

    def test_another_caller_is_another_key(self, client: httpx.Client) -> None:
        other = client.post("/api/developer/api-keys", json={}).json()["data"]["secret"]
        headers = {"Authorization": f"Bearer {other}", "Idempotency-Key": "k"}
        post(client, "k")
        assert not is_replayed(client.post("/api/invoices", json=INVOICE, headers=headers))
        assert is_replayed(client.post("/api/invoices", json=INVOICE, headers=headers))
        assert created(client) == 2

    def test_both_ways_of_sending_a_key_are_one_caller(self, client: httpx.Client) -> None:
        post(client, "k")
        secret = client.headers["authorization"].removeprefix("Bearer ")
        headers = {"X-API-Key": secret, "Idempotency-Key": "k"}
        response = httpx.post(
            f"{client.base_url}/api/invoices", json=INVOICE, headers=headers, timeout=PATIENCE
        )
        assert is_replayed(response)

    def test_another_workspace_is_another_key(self, server: Running) -> None:
        """Also one of the same seed, whose keys have the same ids."""
        for _ in range(2):
            with server.client(server.new_workspace(77)) as client:
                assert not is_replayed(post(client, "k"))


class TestHowLong:
    @pytest.mark.parametrize(("span", "again"), [("PT23H59M59S", False), ("P1D", True)])
    def test_a_day_of_the_workspace_s_time(
        self, client: httpx.Client, span: str, again: bool
    ) -> None:
        post(client, "k")
        client.post("/sandbox/clock/advance", json={"by": span})
        assert is_replayed(post(client, "k")) != again
        assert created(client) == (2 if again else 1)
        assert is_replayed(post(client, "k"))

    def test_after_a_day_the_key_is_free_for_another_request(self, client: httpx.Client) -> None:
        post(client, "k")
        client.post("/sandbox/clock/advance", json={"by": "P1D"})
        assert post(client, "k", body={**INVOICE, "amount": 5}).status_code == 201

    def test_a_snapshot_knows_no_later_keys(self, client: httpx.Client) -> None:
        post(client, "early")
        snapshot = client.post("/sandbox/snapshots").json()["data"]["id"]
        post(client, "late")
        client.post(f"/sandbox/snapshots/{snapshot}/restore")
        assert is_replayed(post(client, "early"))
        assert not is_replayed(post(client, "late"))

    def test_reset_forgets_them_all(self, client: httpx.Client) -> None:
        post(client, "k")
        client.post("/sandbox/reset")
        assert not is_replayed(post(client, "k"))


class TestNotKept:
    def test_what_the_contract_rejects(self, client: httpx.Client) -> None:
        assert post(client, "k", body={}).status_code == 400
        assert post(client, "k").status_code == 201

    def test_what_is_no_json(self, client: httpx.Client) -> None:
        headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
        assert client.post("/api/invoices", content=b"{", headers=headers).status_code == 400
        assert client.post("/api/invoices", content=b"{}").status_code == 415
        assert post(client, "k").status_code == 201

    def test_a_scope_that_is_missing(self, client: httpx.Client) -> None:
        scopes = {"scopes": ["keys:write"]}
        secret = client.post("/api/developer/api-keys", json=scopes).json()["data"]["secret"]
        headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": "k"}
        for _ in range(2):
            response = client.post("/api/invoices", json=INVOICE, headers=headers)
            assert (response.status_code, is_replayed(response)) == (403, False)

    def test_a_handler_that_rejects_for_lack_of_scope(self, client: httpx.Client) -> None:
        scopes = {"scopes": ["keys:write"]}
        secret = client.post("/api/developer/api-keys", json=scopes).json()["data"]["secret"]
        headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": "k"}
        body = {"scopes": ["offers:read"]}
        for _ in range(2):
            response = client.post("/api/developer/api-keys", json=body, headers=headers)
            assert (response.status_code, is_replayed(response)) == (403, False)

    def test_a_rate_limit(self) -> None:
        with serving(replace(FROZEN, rate_limit=1)) as running, running.client() as client:
            client.get("/api/invoices")
            assert post(client, "k").status_code == 429
            running.system_clock.pass_seconds(61)
            assert (response := post(client, "k")).status_code == 201
            assert not is_replayed(response)

    def test_an_injected_response(self, client: httpx.Client) -> None:
        client.post("/sandbox/faults", json={"kind": "status"})
        assert post(client, "k").status_code == 503
        assert not is_replayed(post(client, "k"))
        assert is_replayed(post(client, "k"))

    @pytest.mark.parametrize("is_returned", [False, True])
    def test_by_status(self, toy: Running, *, is_returned: bool) -> None:
        statuses = [400, 401, 402, 403, 404, 409, 422, 429, 503]
        with toy_client(toy) as client:
            kept = []
            for status in statuses:
                body = {"status": status, "is_returned": is_returned}
                found = [post(client, f"k{status}", "/errors", body) for _ in range(2)]
                assert [one.status_code for one in found] == [status, status]
                assert not is_replayed(found[0])
                kept += [status] if is_replayed(found[1]) else []
        assert kept == [402, 404, 409, 422, 503]


class TestSecrets:
    @pytest.mark.parametrize("path", ["/api/developer/api-keys", "/api/webhooks"])
    def test_they_are_shown_once(self, client: httpx.Client, path: str) -> None:
        body = {"url": "https://partner.example/hooks"} if path.endswith("hooks") else {}
        first, second = (post(client, "k", path, body) for _ in range(2))
        assert is_replayed(second)
        shown = first.json()["data"]
        secret = shown.pop("secret")
        assert second.json()["data"] == shown
        assert secret not in second.text

    def test_no_session_is_opened_twice(self, client: httpx.Client) -> None:
        """Anybody may log in, so it is nobody's request that could be repeated."""
        first, second = (post(client, "k", "/api/auth/login", LOGIN) for _ in range(2))
        assert (first.status_code, second.status_code) == (200, 200)
        assert not is_replayed(second)
        assert first.headers["set-cookie"] != second.headers["set-cookie"]

    def test_nor_without_a_credential(self, server: Running) -> None:
        with server.client(None) as nobody:
            responses = [post(nobody, "k", "/api/auth/login", LOGIN) for _ in range(2)]
            nobody.cookies.clear()
            bad = post(nobody, "k", "/api/auth/login", {**LOGIN, "password": "wrong"})
        assert [is_replayed(one) for one in responses] == [False, False]
        assert bad.status_code == 401


class TestLostResponses:
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_a_reset_connection(self, client: httpx.Client, when: str) -> None:
        """Whether or not it was carried out, the client repeats it, and it is done once."""
        client.post("/sandbox/faults", json={"kind": "reset", "when": when})
        with pytest.raises(httpx.ReadError):
            post(client, "k")
        assert created(client) == (0 if when == "before" else 1)
        response = post(client, "k")
        assert (response.status_code, is_replayed(response)) == (201, when == "after")
        assert created(client) == 1

    @pytest.mark.parametrize("kind", ["truncate", "malformed", "status", "error"])
    def test_a_response_that_went_wrong(self, client: httpx.Client, kind: str) -> None:
        client.post("/sandbox/faults", json={"kind": kind, "when": "after"})
        try:
            post(client, "k")
        except httpx.RemoteProtocolError:
            assert kind == "truncate"
        response = post(client, "k")
        assert (response.status_code, is_replayed(response)) == (201, True)
        assert created(client) == 1

    def test_a_client_that_did_not_wait(self) -> None:
        """The first request is still on its way when the second one comes."""
        with serving() as running, running.client() as client:
            client.post("/sandbox/faults", json={"kind": "latency", "delay": "PT0.4S"})
            running.system_clock.is_running.clear()
            with pytest.raises(httpx.ReadTimeout):
                client.post(
                    "/api/invoices",
                    json=INVOICE,
                    headers={"Idempotency-Key": "k"},
                    timeout=httpx.Timeout(PATIENCE, read=0.1),
                )
            until(lambda: running.system_clock.sleepers == 1, "the first is on its way")
            assert not is_replayed(post(client, "k"))
            running.system_clock.is_running.set()
            until(lambda: len(_requests(client)) == 2, "the first has ended")
            assert created(client) == 1


def _requests(client: httpx.Client) -> list[Any]:
    query = {"operation": "createInvoice"}
    return list(client.get("/sandbox/requests", params=query).json()["data"])


@dataclass
class Hold:
    """The requests that the toy's handler is working on, and whether it may finish them."""

    under_way: int = 0
    may_finish: threading.Event = field(default_factory=threading.Event)


HOLD = Hold()


@contextmanager
def holding() -> Iterator[Hold]:
    """The toy finishes no request until the end of the block."""
    HOLD.may_finish.clear()
    try:
        yield HOLD
    finally:
        HOLD.may_finish.set()


SLOW = """
import asyncio

from invoice_sandbox.project.api import ErrorType, Response, WorkThenRespond, reject
from tests.test_idempotency import HOLD


async def _held():
    HOLD.under_way += 1
    while not HOLD.may_finish.is_set():
        await asyncio.sleep(0.005)
    HOLD.under_way -= 1


def _make(call, _result):
    if call.body == ["break"]:
        return {"number": "not a number"}
    return {"number": call.state.next_number("things")}


def make_thing(call):
    return WorkThenRespond(_held, _make)


def make_secrets(call):
    if not call.body:
        return Response(None, status=204)
    one = {"id": "1", "secret": "shown-once"}
    headers = (("SET-cookie", "sid=shown-once"), ("X-Kept", "1"))
    return Response({"first": one, "items": [one]}, headers)


def make_error(call):
    status = call.body["status"]
    if call.body["is_returned"]:
        return Response({}, status=status)
    raise reject(ErrorType("toy", status, "text", "advice"))


def make_broken(call):
    call.state.next_number("things")
    return {"number": "not a number"}


def list_things(call):
    return {"number": call.state.next_number("things") - 1}


def remove_things(call):
    return {"number": call.state.next_number("things")}


def use_lever(call):
    return {"number": call.state.next_number("lever")}
"""


def _operation(name: str, status: str = "200") -> dict[str, Any]:
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}}
    response = {"description": "x", "content": {"application/json": {"schema": schema}}}
    body: dict[str, Any] = {"content": {"application/json": {"schema": {}}}}
    operation: dict[str, Any] = {"operationId": name, "responses": {status: response}}
    return (
        operation if name in {"listThings", "removeThings"} else {**operation, "requestBody": body}
    )


def _with_secrets() -> dict[str, Any]:
    secret = {"type": "string", "format": "password"}
    one = {"type": "object", "properties": {"id": {"type": "string"}, "secret": secret}}
    members = {"first": one, "items": {"type": "array", "items": one}}
    operation = _operation("makeSecrets")
    media = {"schema": {"type": "object", "properties": members}}
    operation["responses"]["200"]["content"] = {VENDOR: media}
    operation["responses"]["204"] = {"description": "x"}
    return operation


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A project with a slow handler, a broken one, and a control endpoint of its own."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "openapi").mkdir()
    (folder / "handlers").mkdir()
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Toy", "version": "1"},
        "security": [{"key": []}],
        "paths": {
            "/things": {
                "post": _operation("makeThing"),
                "get": _operation("listThings"),
                "delete": _operation("removeThings"),
            },
            "/broken": {"post": _operation("makeBroken")},
            "/secrets": {"post": _with_secrets()},
            "/shown": {"post": _operation("showThing")},
            "/errors": {"post": _operation("makeError", "default")},
        },
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }
    control = {
        "openapi": "3.1.0",
        "info": {"title": "ControlClient", "version": "1"},
        "servers": [{"url": "/sandbox"}],
        "paths": {"/lever": {"post": _operation("useLever")}},
    }
    (folder / "openapi" / "openapi.yaml").write_text(json.dumps(document))
    (folder / "openapi" / "sandbox.yaml").write_text(json.dumps(control))
    (folder / "handlers" / "__init__.py").write_text("")
    (folder / "handlers" / "things.py").write_text(SLOW)
    HOLD.may_finish.set()
    with serving(replace(FROZEN, project=folder)) as running:
        yield running


@contextmanager
def toy_client(toy: Running) -> Iterator[httpx.Client]:
    """A client in a new workspace of the toy."""
    with toy.client(toy.new_workspace()) as client:
        yield client


def made(client: httpx.Client) -> int:
    """How many things the toy has made so far."""
    number: int = client.get("/things").json()["number"]
    return number


class TestAtTheSameTime:
    def test_the_same_key_makes_one(self, toy: Running) -> None:
        """The others are to wait; after the first response they would get it again."""
        with toy_client(toy) as client, ThreadPoolExecutor(20) as pool:
            with holding():
                asked = [pool.submit(post, client, "k", "/things", {}) for _ in range(20)]
                until(lambda: sum(one.done() for one in asked) == 19, "the others get a response")
                waiting = [one.result() for one in asked if one.done()]
            (first,) = {one.result() for one in asked} - set(waiting)
            assert (first.status_code, is_replayed(first)) == (200, False)
            assert made(client) == 1
        for one in waiting:
            assert (one.status_code, one.headers["retry-after"]) == (409, "1")
            assert "still in progress" in one.json()["error"]["message"]

    def test_requests_under_other_keys_are_carried_out_meanwhile(self, toy: Running) -> None:
        """One after the other, since they change the same workspace, and without a 409."""
        with toy_client(toy) as client, ThreadPoolExecutor(10) as pool:
            with holding() as hold:
                asked = [pool.submit(post, client, "k0", "/things", {})]
                until(lambda: hold.under_way == 1, "one is under way")
                asked += [pool.submit(post, client, f"k{n}", "/things", {}) for n in range(1, 10)]
                again = [post(client, "k0", "/things", {}).status_code for _ in range(20)]
                assert again == [409] * 20  # meanwhile the others arrive
            assert [one.result().status_code for one in asked] == [200] * 10
            assert made(client) == 10

    def test_what_is_shown_once_is_not_in_the_response_again(self, toy: Running) -> None:
        """Neither a secret, however deep it stands, nor a cookie."""
        with toy_client(toy) as client:
            first, second = (post(client, "k", "/secrets", [1]) for _ in range(2))
            empty = [post(client, "empty", "/secrets", {}) for _ in range(2)]
        assert [(one.status_code, one.content, is_replayed(one)) for one in empty] == [
            (204, b"", False),
            (204, b"", True),
        ]
        one = {"id": "1", "secret": "shown-once"}
        assert first.json() == {"first": one, "items": [one]}
        assert first.headers["set-cookie"] == "sid=shown-once"
        assert is_replayed(second)
        assert second.json() == {"first": {"id": "1"}, "items": [{"id": "1"}]}
        assert "set-cookie" not in second.headers
        assert second.headers["x-kept"] == "1"
        assert {one.headers["content-type"] for one in (first, second)} == {VENDOR}

    def test_a_second_half_that_fails_is_not_in_progress_any_more(self, toy: Running) -> None:
        with toy_client(toy) as client:
            failed = [post(client, "half", "/things", ["break"]).status_code for _ in range(2)]
        assert failed == [500, 500]

    def test_a_rejected_request_is_not_in_progress_for_ever(self, toy: Running) -> None:
        """What the handler did wrong is neither kept nor does it block the key."""
        with toy_client(toy) as client:
            for _ in range(3):
                response = post(client, "k", "/broken", {})
                assert (response.status_code, is_replayed(response)) == (500, False)
            assert made(client) == 0

    def test_a_client_that_leaves_blocks_nothing(self, toy: Running) -> None:
        with toy_client(toy) as client:
            address = (client.base_url.host, client.base_url.port or 0)
            key = client.headers["authorization"]
            with socket.create_connection(address, PATIENCE) as raw:
                raw.sendall(
                    f"POST /things HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {key}\r\n"
                    "Idempotency-Key: k\r\nContent-Type: application/json\r\n"
                    "Content-Length: 2\r\n\r\n{}".encode()
                )
            while (response := post(client, "k", "/things", {})).status_code == 409:
                pass
            assert response.status_code == 200
            assert made(client) == 1


class TestWhere:
    def test_reading_and_deleting_ignore_it(self, toy: Running) -> None:
        with toy_client(toy) as client:
            for method in ("GET", "DELETE"):
                for key in ("k", "k", "x" * 300):
                    response = client.request(method, "/things", headers={"Idempotency-Key": key})
                    assert (response.status_code, is_replayed(response)) == (200, False)

    def test_an_operation_without_a_handler_changes_nothing_and_ignores_it(
        self, toy: Running
    ) -> None:
        with toy_client(toy) as client:
            responses = [post(client, key, "/shown", {}) for key in ("k", "k", "x" * 300)]
        assert [(one.status_code, is_replayed(one)) for one in responses] == 3 * [(200, False)]

    def test_the_project_s_control_endpoints_know_it(self, toy: Running) -> None:
        with toy_client(toy) as client:
            first, second = (post(client, "k", "/sandbox/lever", {}) for _ in range(2))
        assert first.content == second.content
        assert is_replayed(second)

    def test_a_transition_is_made_once(self, client: httpx.Client) -> None:
        invoice = post(client, "i").json()["data"]["id"]
        path, body = f"/sandbox/invoices/{invoice}/transition", {"trigger": "start-verification"}
        first, second = (post(client, "k", path, body) for _ in range(2))
        assert (first.status_code, second.status_code) == (200, 200)
        assert is_replayed(second)
        assert client.post(path, json=body).status_code == 409
