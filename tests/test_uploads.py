"""Upload addresses: signed, for one file, for a quarter of an hour."""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.http.call import workspace_of
from invoice_sandbox.state import Credential
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.cases import in_turn
from tests.scenario_run import error
from tests.support import FROZEN, PATIENCE, Running, serving

pytestmark = pytest.mark.slow

ASK = "/api/storage/invoices/upload-url"
FILE = b"%PDF-1.7 synthetic"
DIGEST = hashlib.sha256(FILE).hexdigest()
TYPES = {
    "application/pdf": "pdf",
    "application/xml": "xml",
    "image/png": "png",
    "image/jpeg": "jpg",
}
MOST = 10 * 1024 * 1024


def address(client: httpx.Client, **body: Any) -> Any:
    response = client.post(ASK, json=body)
    assert response.status_code == 200, response.text
    return response.json()["data"]


def put(url: str, content: bytes = FILE, kind: str = "application/pdf") -> httpx.Response:
    """Upload without any key: the address is the credential."""
    return httpx.put(url, content=content, headers={"Content-Type": kind}, timeout=PATIENCE)


NOT_FOUND = (404, "resource_not_found")
INVALID = "invalid_request"


def test_an_address_reports_what_to_send_and_until_when(
    server: Running, client: httpx.Client
) -> None:
    made = address(client)
    workspace = client.get("/api/auth/session").json()["data"]["workspaceId"]
    upload_id, url = made.pop("uploadId"), urlsplit(made.pop("url"))
    assert upload_id.startswith("upl_sandbox_")
    assert f"{url.scheme}://{url.netloc}" == server.url
    assert url.path == f"/sandbox/uploads/{upload_id}"
    assert parse_qs(url.query).keys() == {"expires", "signature"}
    assert parse_qs(url.query)["expires"] == ["1795427100"]
    assert made == {
        "method": "PUT",
        "headers": {"content-type": "application/pdf"},
        "expiresAt": "2026-11-23T09:45:00Z",
        "maxBytes": MOST,
        "objectKey": f"{workspace}/invoices/{upload_id}.pdf",
        "private": True,
    }


def test_a_signature_has_256_bits_and_is_never_the_same(client: httpx.Client) -> None:
    signatures = {address(client)["url"].partition("signature=")[2] for _ in range(3)}
    assert len(signatures) == 3
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in signatures)


@pytest.mark.parametrize(("kind", "extension"), TYPES.items(), ids=TYPES.values())
def test_each_type_has_its_extension_and_is_taken(
    client: httpx.Client, kind: str, extension: str
) -> None:
    made = address(client, contentType=kind)
    assert made["headers"] == {"content-type": kind}
    assert made["objectKey"].endswith(f"/{made['uploadId']}.{extension}")
    assert put(made["url"], kind=kind).status_code == 200


def test_an_upload_works_once_and_without_a_key(client: httpx.Client) -> None:
    made = address(client)
    stored = put(made["url"])
    assert stored.status_code == 200
    assert stored.json()["data"] == {
        "uploadId": made["uploadId"],
        "status": "Stored",
        "bytes": len(FILE),
        "sha256": DIGEST,
    }
    assert error(put(made["url"])) == NOT_FOUND


def test_an_upload_belongs_to_the_workspace_of_its_address(
    server: Running, client: httpx.Client
) -> None:
    made = address(client)
    assert put(made["url"]).status_code == 200
    about = {"targetId": made["uploadId"]}
    events = client.get("/api/audit-log", params=about).json()["data"]
    assert [(one["action"], one["actor"]["type"]) for one in events] == [
        ("upload.stored", "anonymous"),
        ("upload_url.created", "api_key"),
    ]
    with server.client() as first:
        assert first.get("/api/audit-log", params=about).json()["data"] == []


def test_equal_ids_of_two_workspaces_are_two_uploads(server: Running) -> None:
    made = []
    for _ in range(2):
        with server.client(server.new_workspace(seed=815)) as client:
            made.append(address(client))
    assert made[0]["uploadId"] == made[1]["uploadId"]
    assert [put(one["url"]).status_code for one in made] == [200, 200]
    assert error(put(made[0]["url"])) == NOT_FOUND


def test_an_upload_that_was_received_is_stored(server: Running, client: httpx.Client) -> None:
    made = address(client)
    put(made["url"])
    (stored,) = server.records(client, "uploads")
    assert (stored["status"], stored["bytes"]) == ("Stored", len(FILE))


def test_the_name_of_a_file_is_in_no_path_and_no_key(client: httpx.Client) -> None:
    made = address(client, fileName="../../etc/secret-name.exe")
    assert "secret-name" not in f"{made['url']} {made['objectKey']}"
    assert ".." not in f"{made['url']} {made['objectKey']}"
    assert made["objectKey"].endswith(".pdf")


def _changed(url: str, **changes: str | None) -> str:
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    kept = {name: changes.get(name, value) for name, value in query.items()}
    text = "&".join(f"{name}={value}" for name, value in kept.items() if value is not None)
    return parts._replace(query=text).geturl()


CORRUPTED: dict[str, dict[str, str | None]] = {
    "no signature": {"signature": None},
    "an empty signature": {"signature": ""},
    "another signature": {"signature": "0" * 64},
    "a signature of other letters": {"signature": "%C3%A4" * 64},
    "no expiry": {"expires": None},
    "a later expiry": {"expires": "1795427101"},
    "an expiry that is no number": {"expires": "never"},
    "nothing at all": {"signature": None, "expires": None},
}


@in_turn("changes", CORRUPTED.values(), ids=CORRUPTED)
def test_an_address_that_is_not_the_one_given_out_is_404(
    client: httpx.Client, changes: dict[str, str | None]
) -> None:
    url = address(client)["url"]
    assert error(put(_changed(url, **changes))) == NOT_FOUND
    assert put(url).status_code == 200, "and the right one still works"


def test_a_signature_opens_no_other_upload(client: httpx.Client) -> None:
    first, second = address(client), address(client)
    assert error(put(first["url"].replace(first["uploadId"], second["uploadId"]))) == NOT_FOUND
    unknown = first["url"].replace(first["uploadId"], "upl_sandbox_nowhere_0001")
    assert error(put(unknown)) == NOT_FOUND


@pytest.mark.parametrize("header", ["Authorization", "X-API-Key", "Cookie"])
def test_a_signature_is_no_credential(server: Running, client: httpx.Client, header: str) -> None:
    secret = address(client)["url"].partition("signature=")[2]
    value = {"Authorization": f"Bearer {secret}", "Cookie": f"ils_session={secret}"}
    with server.client(None) as visitor:
        response = visitor.get("/api/invoices", headers={header: value.get(header, secret)})
    assert error(response) == (401, "authentication_required")


def test_only_a_signature_in_an_address_chooses_its_workspace(
    server: Running, client: httpx.Client
) -> None:
    """An API key does not."""

    def workspace(secret: str) -> str:
        request: Any = SimpleNamespace(
            workspace=None, path_texts={"id": secret}, scope={"query_string": b""}
        )
        found = server.call(workspace_of, server.sandbox.engine, request)
        return str(found.id)

    own = client.get("/api/auth/session").json()["data"]["workspaceId"]
    signature = address(client)["url"].partition("signature=")[2]
    key = client.headers["authorization"].removeprefix("Bearer ")
    assert workspace(signature) == own
    assert workspace(key) == server.sandbox.engine.first_workspace != own


def test_the_signature_of_a_workspace_that_ends_meanwhile_opens_none(
    server: Running, client: httpx.Client
) -> None:
    """It is found before it is gone."""
    engine = server.sandbox.engine
    made = client.post("/sandbox/workspaces", json={}).json()["data"]
    with server.client(made["key"]) as owner:
        signature = address(owner)["url"].partition("signature=")[2]
    found = server.call(server.store.credential, key_digest(signature))
    assert found is not None
    assert found.workspace_id == made["id"]
    client.delete(f"/sandbox/workspaces/{made['id']}").raise_for_status()

    def before(_digest: str) -> Credential | None:
        return found

    store = SimpleNamespace(credential=before, workspace=server.store.workspace)
    late: Any = SimpleNamespace(
        store=store,
        first_workspace=engine.first_workspace,
        default_workspace=engine.default_workspace,
    )
    query = f"signature={signature}".encode()
    request: Any = SimpleNamespace(workspace=None, path_texts={}, scope={"query_string": query})
    served = server.call(workspace_of, late, request)
    assert served.id == request.served_by == engine.first_workspace


@pytest.fixture(scope="module")
def live() -> Iterator[Running]:
    """A server whose clock flows as the test says."""
    with serving(replace(FROZEN, clock=ClockState("live"))) as running:
        yield running


@pytest.mark.parametrize(("seconds", "status"), [(899, 200), (900, 404), (100_000, 404)])
def test_an_address_is_good_for_a_quarter_of_an_hour(
    live: Running, seconds: int, status: int
) -> None:
    with live.client() as client:
        made = address(client)
    live.system_clock.pass_seconds(seconds)
    assert put(made["url"]).status_code == status


def test_a_file_of_another_type_than_announced_is_400_and_may_be_sent_again(
    client: httpx.Client,
) -> None:
    made = address(client)
    wrong = put(made["url"], kind="image/png")
    assert error(wrong) == (400, INVALID)
    assert "application/pdf" in wrong.json()["error"]["message"]
    assert put(made["url"]).status_code == 200


@pytest.mark.parametrize("kind", ["text/html", "application/json", ""])
def test_a_type_that_is_not_declared_is_415(client: httpx.Client, kind: str) -> None:
    assert error(put(address(client)["url"], kind=kind)) == (415, INVALID)


def test_an_upload_without_a_file_is_400(client: httpx.Client) -> None:
    assert error(put(address(client)["url"], content=b"")) == (400, INVALID)


ANNOUNCED: dict[str, dict[str, Any]] = {
    "length": {"contentLength": len(FILE)},
    "digest": {"sha256": DIGEST},
    "digest in capitals": {"sha256": DIGEST.upper()},
    "both": {"contentLength": len(FILE), "sha256": DIGEST},
}


@pytest.mark.parametrize("body", ANNOUNCED.values(), ids=ANNOUNCED)
def test_a_file_must_be_the_one_that_was_announced(
    client: httpx.Client, body: dict[str, Any]
) -> None:
    url = address(client, **body)["url"]
    assert error(put(url, content=FILE + b"!")) == (400, INVALID)
    assert put(url).status_code == 200


def test_no_file_is_as_short_as_one_that_was_announced_as_empty(client: httpx.Client) -> None:
    assert error(put(address(client, contentLength=0)["url"])) == (400, INVALID)


STRANGE: dict[str, tuple[str, Any]] = {
    "type is a number": ("contentType", 7),
    "type is not taken": ("contentType", "text/html"),
    "type with a parameter": ("contentType", "application/pdf; x=y"),
    "type is a list": ("contentType", ["application/xml"]),
    "length is text": ("contentLength", "18"),
    "length is true": ("contentLength", True),
    "length is below zero": ("contentLength", -1),
    "length is too large": ("contentLength", MOST + 1),
    "length is no integer": ("contentLength", 1.5),
    "length is null": ("contentLength", None),
    "digest is a number": ("sha256", 7),
    "digest is too short": ("sha256", DIGEST[:-1]),
    "digest has other letters": ("sha256", "z" * 64),
    "digest has other digits": ("sha256", "\u0661" * 64),
    "digest is null": ("sha256", None),
    "name is a number": ("fileName", 7),
    "name is an object": ("fileName", {}),
    "invoice is unknown": ("invoiceId", "inv_sandbox_nowhere_0001"),
    "invoice is a list": ("invoiceId", []),
}


@in_turn(("member", "value"), STRANGE.values(), ids=STRANGE)
def test_a_strange_value_is_ignored(client: httpx.Client, member: str, value: Any) -> None:
    made = address(client, **{member: value})
    assert made["headers"] == {"content-type": "application/pdf"}
    assert put(made["url"]).status_code == 200


def test_a_file_over_ten_mebibytes_is_413_before_it_is_sent(client: httpx.Client) -> None:
    url = urlsplit(address(client)["url"])
    head = (
        f"PUT {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\n"
        f"Content-Type: application/pdf\r\nContent-Length: {MOST + 1}\r\n\r\n"
    )
    with socket.create_connection((str(url.hostname), int(url.port or 80)), PATIENCE) as connection:
        connection.sendall(head.encode())
        response = connection.recv(65_536)
    assert response.startswith(b"HTTP/1.1 413 ")


def test_a_file_of_ten_mebibytes_is_taken(client: httpx.Client) -> None:
    assert put(address(client)["url"], content=bytes(MOST)).json()["data"]["bytes"] == MOST


def test_an_address_is_for_putting_only(client: httpx.Client) -> None:
    response = httpx.get(address(client)["url"], timeout=PATIENCE)
    assert (response.status_code, response.headers["Allow"]) == (405, "PUT, OPTIONS")


@pytest.mark.parametrize("secret", [DEMO_KEY, "unknown"])
def test_only_a_signature_opens_an_address_before_the_file_is_read(
    client: httpx.Client, secret: str
) -> None:
    """A key in its place is 404 too, whatever else is wrong."""
    url = address(client)["url"].partition("signature=")[0] + f"signature={secret}"
    assert error(put(url, kind="text/plain")) == NOT_FOUND


def test_an_address_that_was_used_is_404_before_the_file_is_read(client: httpx.Client) -> None:
    url = address(client)["url"]
    assert put(url).status_code == 200
    assert error(put(url, kind="text/plain")) == NOT_FOUND


def test_an_address_that_expired_is_404_before_the_file_is_read(client: httpx.Client) -> None:
    url = address(client)["url"]
    assert put(url, kind="text/plain").status_code == 415
    client.post("/sandbox/clock/advance", json={"by": "PT15M"})
    assert error(put(url, kind="text/plain")) == NOT_FOUND
