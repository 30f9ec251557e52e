"""The workspaces that a fuzzer works in are prepared, and always put back to that state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from invoice_sandbox.control.client import ControlClient, SandboxError
from invoice_sandbox.fuzzing.contract import DocumentError
from invoice_sandbox.fuzzing.state import FuzzState
from tests.support import Running

URL = "http://127.0.0.1:9000/hooks"
REGISTER = {"send": "POST /api/webhooks", "body": {"url": URL}, "keep": {"id": "/data/id"}}


def document(*steps: dict[str, Any]) -> dict[str, Any]:
    """A document with one operation, which the steps prepare."""
    parameter = {"name": "id", "in": "path", "example": "unknown"}
    enable = {"operationId": "enable", "parameters": [parameter], "x-fuzz-setup": list(steps)}
    return {"paths": {"/webhooks/{id}/enable": {"post": enable}}}


@pytest.fixture
def mine(server: Running) -> Iterator[httpx.Client]:
    """A client of the workspace that is fuzzed."""
    with server.client(server.new_workspace()) as client:
        yield client


@pytest.fixture
def state(server: Running, mine: httpx.Client) -> FuzzState:
    """The workspace of ``mine``, and one of somebody else."""
    keys = (mine.headers["Authorization"].split()[1], server.new_workspace())
    return FuzzState([ControlClient(server.url, key) for key in keys])


def endpoints(client: httpx.Client) -> list[str]:
    """The ids of the webhook endpoints of a workspace."""
    return [one["id"] for one in client.get("/api/webhooks").json()["data"]["endpoints"]]


def register(client: httpx.Client) -> None:
    """Make another webhook endpoint."""
    client.post("/api/webhooks", json={"url": URL}).raise_for_status()


def test_what_was_kept_of_a_response_is_an_example_of_the_parameter(
    state: FuzzState, mine: httpx.Client
) -> None:
    prepared = document(REGISTER)
    state.prepare(prepared)
    (made,) = endpoints(mine)
    (parameter,) = prepared["paths"]["/webhooks/{id}/enable"]["post"]["parameters"]
    assert parameter["examples"] == {"prepared": {"value": made}}
    assert "example" not in parameter


def test_a_workspace_that_was_used_is_put_back_to_what_was_prepared(
    state: FuzzState, mine: httpx.Client
) -> None:
    state.prepare(document(REGISTER))
    prepared = endpoints(mine)
    register(mine)
    state.mark_used()
    state.restore()
    assert endpoints(mine) == prepared


def test_a_workspace_that_was_not_used_is_left_alone(state: FuzzState, mine: httpx.Client) -> None:
    state.prepare(document())
    register(mine)
    state.mark_used("the key of nobody")
    state.restore()
    assert len(endpoints(mine)) == 1


def test_without_its_snapshot_the_workspace_is_prepared_again(
    state: FuzzState, mine: httpx.Client
) -> None:
    state.prepare(document(REGISTER))
    prepared = endpoints(mine)
    (snapshot,) = mine.get("/sandbox/snapshots").json()["data"]
    mine.delete(f"/sandbox/snapshots/{snapshot['id']}").raise_for_status()
    for _ in range(2):
        register(mine)
        state.mark_used()
        state.restore()
        assert endpoints(mine) == prepared


WRONG = {
    "a request that is refused": (
        REGISTER | {"send": "POST /api/invoices"},
        SandboxError,
        "^enable: POST /api/invoices of x-fuzz-setup failed: .*sellerId",
    ),
    "an answer without it": (REGISTER | {"keep": {"id": "/data/no"}}, SandboxError, "/data/no"),
    "no such parameter": (REGISTER | {"keep": {"no": "/data/id"}}, DocumentError, "keeps no"),
}


@pytest.mark.parametrize(("step", "error", "said"), WRONG.values(), ids=WRONG)
def test_a_setup_that_fails_reports_why(
    state: FuzzState, step: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        state.prepare(document(step))
