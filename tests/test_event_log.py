"""The event log and the explanation of deliveries, altered replays, and who may look at it all."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from invoice_sandbox import state
from invoice_sandbox.openapi.load.operations import raw_operations
from invoice_sandbox.project.conventions import Conventions
from tests.cases import in_turn
from tests.scenario_run import advance, data, move, register_new
from tests.support import Running

CLOSED = "http://127.0.0.1:9/hooks"
"""A receiver that nobody runs."""


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    """A client in a new workspace whose inbox gets every event."""
    with server.client(server.new_workspace()) as client:
        url = data(client.get("/sandbox/inbox"))["url"]
        data(client.post("/api/webhooks", json={"url": url, "events": ["*"]}), 201)
        yield client


def events(client: httpx.Client, **query: Any) -> list[Any]:
    found: list[Any] = data(client.get("/sandbox/event-log", params=query))
    return found


def one_delivery(client: httpx.Client) -> str:
    """The id of the delivery of a registration."""
    register_new(client)
    advance(client, "PT0S")
    [event] = events(client, limit=1)
    return str(event["deliveries"][0]["id"])


def explained(client: httpx.Client, delivery: str) -> Any:
    return data(client.get(f"/sandbox/deliveries/{delivery}"))


def test_events_are_found_by_the_records_they_are_about(client: httpx.Client) -> None:
    one, other = register_new(client), register_new(client)
    move(client, one, "start-verification", "verify", "request-financing")
    advance(client, "PT0S")
    types = [event["type"] for event in events(client, subject=one)]
    assert types[-1] == "invoice.registered"
    assert "financing_request.created" in types
    assert [event["type"] for event in events(client, subject=other)] == ["invoice.registered"]
    assert len(events(client)) == len(types) + 1
    for event in events(client, subject=one):
        assert client.get("/sandbox/requests", params={"id": event["requestId"]}).json()["data"]
        assert one in event["subjects"]
        assert [one["eventId"] for one in event["deliveries"]] == [event["id"]]
        assert event["deliveries"][0]["attempts"][0]["responseStatus"] == 200
    assert client.get("/sandbox/event-log", params={"limit": 0}).status_code == 400


def test_only_who_may_act_finds_the_request_to_the_control_api(
    server: Running, client: httpx.Client
) -> None:
    move(client, register_new(client), "start-verification")
    [endpoint] = data(client.get("/api/webhooks"))["endpoints"]
    rotated = client.post(f"/sandbox/webhooks/{endpoint['id']}/rotate-secret")
    by_id = [{"id": events(client)[0]["requestId"]}, {"id": rotated.headers["x-request-id"]}]
    found = [client.get("/sandbox/requests", params=one) for one in by_id]
    assert [one.json()["data"][0]["method"] for one in found] == ["POST", "POST"]
    assert data(rotated)["secret"] not in found[1].text
    made = data(client.post("/api/developer/api-keys", json={"scopes": ["sandbox:read"]}), 201)
    with server.client(made["secret"]) as viewer:
        assert [data(viewer.get("/sandbox/requests", params=one)) for one in by_id] == [[], []]


def test_subjects_are_texts_once_each() -> None:
    found = Conventions(subject_members=("id", "of", "all"))
    assert found.subjects({"id": "a", "of": None, "all": ["b", "a", 7]}) == ["a", "b"]
    assert Conventions().subjects({"id": "a", "of": "b"}) == ["a"]


def test_a_delivery_shows_what_was_signed_and_by_which_secret(client: httpx.Client) -> None:
    delivery = one_delivery(client)
    [endpoint] = data(client.get("/api/webhooks"))["endpoints"]
    path = f"/sandbox/webhooks/{endpoint['id']}/rotate-secret"
    new = data(client.post(path))["secret"]
    data(client.post(f"/sandbox/deliveries/{delivery}/replay"))
    found = explained(client, delivery)
    before, after = found["attempts"]
    assert [one["secret"] for one in before["signed"]["signatures"]] == ["previous"]
    assert [one["secret"] for one in after["signed"]["signatures"]] == ["current", "previous"]
    current = after["signed"]["signatures"][0]
    assert current["shown"] == f"whsec_…{new[-4:]}"
    content = after["signed"]["content"].encode()
    assert content.endswith(found["body"].encode())
    key = base64.b64decode(new.removeprefix("whsec_"))
    made = base64.b64encode(hmac.digest(key, content, "sha256")).decode()
    assert current["signature"] == f"v1,{made}"
    digest = hashlib.sha256(found["body"].encode()).hexdigest()
    assert after["request"]["bodyDigest"] == f"sha256:{digest}"
    assert "whsec_" not in client.get(f"/sandbox/deliveries/{delivery}").text.replace("whsec_…", "")


def test_of_a_deleted_endpoint_no_secret_is_known(client: httpx.Client) -> None:
    delivery = one_delivery(client)
    [endpoint] = data(client.get("/api/webhooks"))["endpoints"]
    data(client.delete(f"/sandbox/webhooks/{endpoint['id']}"))
    assert explained(client, delivery)["body"] is None
    assert client.get("/sandbox/deliveries/unknown").status_code == 404


@in_turn(
    ("fault", "attempts", "secret"),
    [
        ("fail", [("fail", False, 500), (None, True, 200)], None),
        ("bad-signature", [("bad-signature", True, 401), (None, True, 200)], "wrong"),
        ("stale-timestamp", [("stale-timestamp", True, 401), (None, True, 200)], "current"),
        ("changed-body", [("changed-body", True, 401), (None, True, 200)], "current"),
        ("previous-secret", [("previous-secret", True, 401), (None, True, 200)], "wrong"),
        ("no-signature", [("no-signature", True, 401), (None, True, 200)], ""),
        ("empty-signature", [("empty-signature", True, 401), (None, True, 200)], ""),
        ("two-signatures", [("two-signatures", True, 200), (None, True, 200)], "wrong current"),
        ("other-version", [("other-version", True, 401), (None, True, 200)], "None"),
        ("changed-id", [("changed-id", True, 401), (None, True, 200)], "None"),
        ("no-timestamp", [("no-timestamp", True, 401), (None, True, 200)], "None"),
        ("future-timestamp", [("future-timestamp", True, 401), (None, True, 200)], "current"),
        ("empty-body", [("empty-body", True, 400), (None, True, 200)], "current"),
        ("duplicate", [(None, True, 200), ("duplicate", True, 200)], "current"),
        ("late", [(None, True, 200)], "current"),
    ],
)
def test_a_replay_is_altered_and_then_genuine(
    client: httpx.Client, fault: str, attempts: list[Any], secret: str | None
) -> None:
    delivery = one_delivery(client)
    sent = data(client.post(f"/sandbox/deliveries/{delivery}/replay", json={"fault": fault}))
    if fault == "late":
        assert (sent["status"], sent["attempt"]) == ("Pending", 1)
    advance(client, "PT1H")
    _, *found = explained(client, delivery)["attempts"]
    assert [(one["variation"], one["sent"], one["responseStatus"]) for one in found] == attempts
    if secret is not None:
        signatures = found[0]["signed"]["signatures"]
        assert " ".join(str(one["secret"]) for one in signatures) == secret


def test_a_late_replay_comes_after_newer_events(client: httpx.Client) -> None:
    delivery = one_delivery(client)
    data(client.post(f"/sandbox/deliveries/{delivery}/replay", json={"fault": "late"}))
    register_new(client)
    advance(client, "PT1H")
    newest, *_ = data(client.get("/sandbox/inbox"))["messages"]
    assert newest["headers"]["webhook-id"] == explained(client, delivery)["eventId"]


def test_an_unknown_fault_is_rejected(client: httpx.Client) -> None:
    delivery = one_delivery(client)
    response = client.post(f"/sandbox/deliveries/{delivery}/replay", json={"fault": "rain"})
    assert response.status_code == 400


def pages(client: httpx.Client, path: str, **query: Any) -> list[list[Any]]:
    """The pages of a list, each with the total that it names."""
    found = []
    response = client.get(path, params=query)
    while True:
        total = int(response.headers["x-total-count"])
        found.append([total, *data(response)])
        if "next" not in response.links:
            return found
        response = client.get(response.links["next"]["url"])


def test_deliveries_are_filtered_and_paged_with_their_total(client: httpx.Client) -> None:
    one, other = register_new(client), register_new(client)
    data(client.post("/api/webhooks", json={"url": CLOSED, "events": ["invoice.verified"]}), 201)
    move(client, one, "start-verification", "verify")
    advance(client, "PT0S")
    endpoints = data(client.get("/sandbox/webhooks"))
    assert endpoints[0]["url"] == CLOSED
    assert not [item for item in endpoints if "secret" in item]
    listed = pages(client, "/sandbox/deliveries", limit=2)
    assert [len(page) - 1 for page in listed] == [2, 2, 1]
    assert {page[0] for page in listed} == {5}
    ids = [delivery["id"] for page in listed for delivery in page[1:]]
    assert ids == sorted(ids, reverse=True)
    for query, count in (
        ({"subject": other}, 1),
        ({"subject": "unknown"}, 0),
        ({"status": ["Failed", "Exhausted"]}, 1),
        ({"status": "Delivered"}, 4),
        ({"endpointId": endpoints[0]["id"]}, 1),
        ({"eventType": "invoice.registered"}, 2),
        ({"eventId": listed[0][1]["eventId"], "subject": one}, 2),
    ):
        [[total, *found]] = pages(client, "/sandbox/deliveries", **query)
        assert total == len(found) == count, query
    [[_, failed]] = pages(client, "/sandbox/deliveries", status="Failed")
    shown = data(client.get(f"/sandbox/deliveries/{failed['id']}"))
    assert failed["subjects"] == shown["event"]["subjects"] == [one]
    assert shown["endpoint"]["url"] == CLOSED
    [cause] = data(client.get("/sandbox/requests", params={"id": shown["event"]["requestId"]}))
    assert cause["path"] == f"/sandbox/invoices/{one}/transition"


def test_requests_are_paged_and_the_failed_ones_are_found(client: httpx.Client) -> None:
    for path in ("partners", "invoices/a", "partners", "invoices/b", "invoices/c"):
        client.get(f"/api/{path}")
    listed = pages(client, "/sandbox/requests", limit=2, failed=True)
    assert [[page[0], *(item["path"] for item in page[1:])] for page in listed] == [
        [3, "/api/invoices/c", "/api/invoices/b"],
        [3, "/api/invoices/a"],
    ]
    [[total, *fine]] = pages(client, "/sandbox/requests", failed=False, method="GET")
    assert (total, [item["path"] for item in fine]) == (2, ["/api/partners", "/api/partners"])
    dropped = client.get("/sandbox/requests", params={"cursor": "req_unknown"})
    assert data(dropped) == []


def test_attempts_to_deliver_do_not_push_steps_out_of_the_agenda(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "_MOST_LOGGED", 3)
    data(client.put("/sandbox/scenario", json={"name": "auto-progress"}))
    ids = [register_new(client) for _ in range(4)]
    advance(client, "PT3S")
    agenda = data(client.get("/sandbox/agenda"))
    dos = Counter(step["do"] for step in agenda["done"])
    assert dos["deliver"] == 3
    assert dos["finish-verification"] == 4
    about = data(client.get("/sandbox/agenda", params={"subject": ids[:1], "limit": 2}))
    assert {step["subject"] for step in about["done"]} == {ids[0]}
    assert len(about["due"]) == len(about["done"]) == 2 < about["count"]["due"]
    steps = data(client.get("/sandbox/agenda", params={"deliveries": False}))
    assert "deliver" not in {step["do"] for step in steps["done"] + steps["due"]}


def test_a_key_that_may_look_changes_nothing(server: Running, client: httpx.Client) -> None:
    """It may use every reading operation of the control API that shows the workspace."""
    made = data(client.post("/api/developer/api-keys", json={"scopes": ["sandbox:read"]}), 201)
    document = client.get("/sandbox/openapi.json").json()
    statuses: dict[str, int] = {}
    with server.client(made["secret"]) as viewer:
        for path, method, raw in raw_operations(document):
            if raw.get("security") != []:
                url = "/sandbox" + path.replace("{id}", "nothing")
                statuses[raw["operationId"]] = viewer.request(method, url).status_code
    may = {name for name, status in statuses.items() if status != 403}
    assert may == {
        *("getAcceptanceReport", "getAcceptanceRun", "getAgenda", "listAcceptanceRuns"),
        *("getClock", "getCoverage", "getDelivery", "getInbox", "getLedger"),
        *("listDeliveries", "listEndpoints"),
        *("listEvents", "listFaults", "listRequests", "listScenarios", "listSnapshots"),
        *("listTransitions", "listVerdicts"),
        *("getAssignmentNotice", "getParty", "getStatement", "listPayments"),
        *("getAcceptanceBundle", "streamRequests"),
    }


def test_a_key_that_may_look_sees_no_secret_of_an_acceptance_run(
    server: Running, client: httpx.Client
) -> None:
    waiting = {"task": 1, "check": "c", "text": "t", "environment": {"SANDBOX_API_KEY": "secret"}}
    progress: dict[str, Any] = {"plan": "p", "state": "running", "verdict": None, "checks": []}
    run = data(
        client.post("/sandbox/acceptance/runs", json={**progress, "waitingFor": waiting}), 201
    )
    assert run["waitingFor"] == waiting
    made = data(client.post("/api/developer/api-keys", json={"scopes": ["sandbox:read"]}), 201)
    with server.client(made["secret"]) as viewer:
        for path in ("", f"/{run['id']}"):
            response = viewer.get(f"/sandbox/acceptance/runs{path}")
            assert response.status_code == 200
            assert "[redacted]" in response.text
            assert "secret" not in response.text
