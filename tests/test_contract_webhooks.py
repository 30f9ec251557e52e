"""Every event that is sent is one that the contract promises, under ``webhooks``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from domain.lifecycle import GUARDS
from invoice_sandbox.base import jsonio
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.load.pointers import ContractError
from invoice_sandbox.openapi.operation import compile_contract
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.contracts import merged_document
from invoice_sandbox.project.loader import default_project, load_project
from invoice_sandbox.scenarios.lifecycle import load_lifecycle
from tests.cases import in_turn
from tests.notes_project import write_project
from tests.scenario_run import advance, choose, register, run_to_end
from tests.support import FROZEN, Running, serving

pytestmark = pytest.mark.slow

ROOT: Final = default_project()
LIFECYCLE: Final = load_lifecycle(ROOT / "scenarios" / "lifecycle.yaml")
DOCUMENT: Final = merged_document(ROOT)
WEBHOOKS: Final = DOCUMENT["webhooks"]
EVENTS: Final = compile_contract(DOCUMENT).webhooks
PUBLISHED: Final = {"invoice.verified", "offer.received"}
EVERY: Final = in_turn("kind", WEBHOOKS)

FAMILIES: Final[Mapping[str, tuple[str, str]]] = {
    # By the word that a kind begins with: its schema, and where a GET shows what it is about.
    "invoice": ("InvoiceEvent", "/api/invoices/{id}"),
    "financing_request": ("FinancingRequestEvent", "/api/financing-requests"),
    "offer": ("OfferEvent", "/api/offers"),
    "webhook_endpoint": ("WebhookEndpointEvent", "/api/webhooks"),
}


def family(kind: str) -> str:
    """The word that a kind begins with."""
    return kind.partition(".")[0]


def media(kind: str) -> Any:
    """The JSON body that the contract declares for a kind."""
    return WEBHOOKS[kind]["post"]["requestBody"]["content"]["application/json"]


def resolved(reference: Mapping[str, str]) -> Any:
    """The component that is referred to."""
    _, _, sort, name = reference["$ref"].split("/")
    return DOCUMENT["components"][sort][name]


# The document


def test_the_lifecycle_and_the_contract_declare_the_same_types() -> None:
    assert list(WEBHOOKS.keys() - LIFECYCLE.events.keys()) == []
    assert list(LIFECYCLE.events.keys() - WEBHOOKS.keys()) == []


@EVERY
def test_a_type_declares_whether_it_is_published(kind: str) -> None:
    assert WEBHOOKS[kind]["x-published"] is (kind in PUBLISHED)
    assert EVENTS[kind].published is (kind in PUBLISHED)


@EVERY
def test_a_type_is_described_in_the_words_of_the_lifecycle(kind: str) -> None:
    assert WEBHOOKS[kind]["post"]["summary"] == LIFECYCLE.events[kind]
    assert "The sandbox sends the event" in WEBHOOKS[kind]["post"]["description"]


@EVERY
def test_a_payload_is_that_of_its_family_with_its_own_type(kind: str) -> None:
    schema, _ = FAMILIES[family(kind)]
    assert media(kind)["schema"]["allOf"] == [
        {"$ref": f"#/components/schemas/{schema}"},
        {"properties": {"type": {"const": kind}}},
    ]


@EVERY
def test_the_example_of_a_type_is_valid(kind: str) -> None:
    example = media(kind)["example"]
    assert EVENTS[kind].problems(example) == ()
    assert EVENTS[kind].example == example
    assert example["type"] == kind


@EVERY
def test_the_status_in_an_example_is_one_that_the_type_leads_to(kind: str) -> None:
    machine = LIFECYCLE.machines.get(family(kind).replace("_", "-"))
    status = media(kind)["example"]["data"]["status"]
    assert machine is None or status in machine.states
    leads_to = {
        one.to for one in LIFECYCLE.machines["invoice"].transitions if one.event == kind
    } - {"previous"}
    assert family(kind) != "invoice" or not leads_to or status in leads_to


@EVERY
def test_a_delivery_has_the_headers_that_are_sent(kind: str) -> None:
    declared = [resolved(one) for one in WEBHOOKS[kind]["post"]["parameters"]]
    assert {(one["in"], one["required"]) for one in declared} == {("header", True)}
    assert {one["name"] for one in declared} == {
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "content-type",
        "user-agent",
    }


@EVERY
def test_a_receiver_may_accept_be_gone_ask_to_wait_or_fail(kind: str) -> None:
    responses = WEBHOOKS[kind]["post"]["responses"]
    assert responses.keys() == {"2XX", "410", "429", "503", "default"}
    waiting = {
        status for status, one in responses.items() if "Retry-After" in one.get("headers", {})
    }
    assert waiting == {"429", "503"}


@EVERY
def test_no_credential_is_sent_with_an_event(kind: str) -> None:
    assert WEBHOOKS[kind]["post"]["security"] == []


RULES: Final = (
    "Subscriptions",
    "only the two published ones",
    "any order",
    "Signature",
    "whsec_",
    "300 seconds",
    "Retries",
    "27 hours and 35 minutes",
    "`fast`",
    "Retry-After",
    "410",
)


@in_turn("word", RULES)
def test_the_tag_describes_how_events_are_sent(word: str) -> None:
    (tag,) = [one for one in DOCUMENT["tags"] if one["name"] == "webhooks"]
    assert word in tag["description"]


def test_the_served_contract_with_its_webhooks_is_valid(server: Running) -> None:
    with server.client(None) as client:
        served = client.get("/openapi.json").json()
    assert served["webhooks"] == WEBHOOKS
    assert list(OpenAPIV31SpecValidator(served).iter_errors()) == []


# Payloads

VERIFIED: Final = media("invoice.verified")["example"]
WRONG: Final[Mapping[str, tuple[Callable[[Any], Any], str]]] = {
    "another kind": (lambda event: {**event, "type": "offer.received"}, "type must be"),
    "another mode": (lambda event: {**event, "mode": "live"}, "mode must be sandbox_mock"),
    "no instant": (lambda event: {**event, "timestamp": "now"}, "timestamp must be a date"),
    "no identifier": (lambda event: {k: v for k, v in event.items() if k != "id"}, "id is requ"),
    "no data": (lambda event: {k: v for k, v in event.items() if k != "data"}, "data is requ"),
    "other data": (
        lambda event: {**event, "data": media("offer.received")["example"]["data"]},
        "data.registryId is required",
    ),
}


@in_turn(("change", "sentence"), WRONG.values(), ids=WRONG)
def test_a_payload_that_is_not_promised_is_rejected(
    change: Callable[[Any], Any], sentence: str
) -> None:
    problems = EVENTS["invoice.verified"].problems(change(VERIFIED))
    assert sentence in " ".join(one.sentence("the event") for one in problems)


def test_a_payload_may_have_more_members() -> None:
    changes = {"changes": {"status": {"from": "VerificationPending", "to": "Verified"}}}
    assert EVENTS["invoice.verified"].problems({**VERIFIED, **changes, "sequence": 3}) == ()


def test_an_event_never_holds_the_secret_of_an_endpoint() -> None:
    example = media("webhook_endpoint.disabled")["example"]
    leaking = {**example, "data": {**example["data"], "secret": "whsec_x"}}
    (problem,) = EVENTS["webhook_endpoint.disabled"].problems(leaking)
    assert problem.sentence("the event") == "data.secret is not allowed"


def test_what_is_sent_with_an_event_is_what_the_contract_promises(client: httpx.Client) -> None:
    response = client.post("/api/webhooks/test", json={"eventType": "invoice.verified"})
    sent = response.json()["data"]["request"]
    declared = {
        one["name"]: one["schema"]
        for one in map(resolved, WEBHOOKS["invoice.verified"]["post"]["parameters"])
    }
    assert sent["headers"].keys() == declared.keys()
    schemas = compile_contract(DOCUMENT).schemas
    for name, value in sent["headers"].items():
        assert schemas.compile(declared[name], name).problems(value) == ()
    assert EVENTS["invoice.verified"].problems(json.loads(sent["body"])) == ()


@EVERY
def test_a_sample_of_a_type_is_what_the_contract_promises(client: httpx.Client, kind: str) -> None:
    client.post("/api/webhooks", json={"enabled": False})
    response = client.post("/api/webhooks/test", json={"eventType": kind})
    assert response.status_code == 200, response.text
    sample = json.loads(response.json()["data"]["request"]["body"])
    assert EVENTS[kind].problems(sample) == ()


# Contracts of others


def contract(webhooks: Any) -> dict[str, Any]:
    """A contract that has nothing but webhooks."""
    info = {"title": "Toy", "version": "1"}
    return {"openapi": "3.1.0", "info": info, "webhooks": webhooks}


def test_a_webhook_without_a_json_body_may_be_anything() -> None:
    compiled = compile_contract(contract({"ping": {"get": {}}, "pong": {"post": {}}}))
    assert [one.problems({"x": 1}) for one in compiled.webhooks.values()] == [(), ()]


def test_a_webhook_that_is_not_marked_is_published() -> None:
    assert compile_contract(contract({"ping": {}})).webhooks["ping"].published


def test_a_webhook_may_be_a_reference() -> None:
    document = contract({"ping": {"$ref": "#/components/pathItems/Ping"}})
    body = {"content": {"application/json": {"schema": {"type": "object"}}}}
    document["components"] = {"pathItems": {"Ping": {"post": {"requestBody": body}}}}
    assert compile_contract(document).webhooks["ping"].problems(1) != ()


def test_a_payload_schema_that_cannot_be_compiled_is_an_error() -> None:
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/No"}}}}
    with pytest.raises(ContractError, match="/webhooks/ping/post/requestBody/"):
        compile_contract(contract({"ping": {"post": {"requestBody": body}}}))


# Kinds that only one side knows


def project_with(folder: Path, *kinds: str) -> Path:
    """A project whose lifecycle and whose contract may declare other kinds of events."""
    project = write_project(folder)
    file = project / "openapi" / "openapi.yaml"
    listed = "".join(f"\n  {kind}: {{}}" for kind in kinds)
    file.write_text(f"{file.read_text()}\nwebhooks:{listed or ' {}'}\n")
    return project


def known_kinds(folder: Path) -> list[str]:
    """The kinds that the lifecycle of that project declares."""
    (folder / "plain").mkdir()
    return list(load_project(write_project(folder / "plain")).lifecycle.events)


def test_a_project_may_declare_its_types_in_the_contract(tmp_path: Path) -> None:
    kinds = known_kinds(tmp_path)
    assert list(load_project(project_with(tmp_path, *kinds)).contract.webhooks) == kinds


def test_a_project_need_not_declare_any_type_in_the_contract(tmp_path: Path) -> None:
    assert load_project(project_with(tmp_path)).contract.webhooks == {}


def test_a_webhook_that_no_lifecycle_records_is_an_error_with_its_place(tmp_path: Path) -> None:
    first, *others = known_kinds(tmp_path)
    problem = rf"openapi\.yaml:\d+:3: the webhook '{first}s' is not an event .*mean {first}\?"
    with pytest.raises(ProjectError, match=problem):
        load_project(project_with(tmp_path, f"{first}s", *others))


def test_a_webhook_of_the_overlay_has_its_place_there(tmp_path: Path) -> None:
    project = project_with(tmp_path, *known_kinds(tmp_path))
    (project / "openapi" / "overlay.yaml").write_text(
        "overlay: 1.0.0\n"
        "info: {title: Toy, version: '1'}\n"
        "actions:\n"
        "  - target: $\n"
        "    update:\n"
        "      webhooks:\n"
        "        moon.risen: {}\n"
    )
    with pytest.raises(ProjectError, match=r"overlay\.yaml:7:9: the webhook 'moon\.risen' is no"):
        load_project(project)


def test_an_event_that_is_no_webhook_is_an_error_with_its_place(tmp_path: Path) -> None:
    first, *others = known_kinds(tmp_path)
    problem = rf"lifecycle\.yaml:\d+:3: '{first}' is not a webhook of the contract"
    with pytest.raises(ProjectError, match=problem):
        load_project(project_with(tmp_path, *others))


def test_webhooks_of_a_contract_without_a_lifecycle_are_fine(tmp_path: Path) -> None:
    project = project_with(tmp_path, "moon.risen")
    (project / "scenarios" / "lifecycle.yaml").unlink()
    (project / "domain" / "actions.py").unlink()
    assert list(load_project(project).contract.webhooks) == ["moon.risen"]


# What is recorded, scenario by scenario and move by move


class Recorded(NamedTuple):
    """An event, and what the GET of what it is about returned when it had just happened.

    ``latest`` is false of an event after which the same step reported more of the same thing.
    """

    event: Any
    response: bytes
    latest: bool


def events(server: Running, client: httpx.Client) -> list[Any]:
    """Every event of the workspace, the first one first."""
    return [one["payload"] for one in reversed(server.records(client, "events"))]


class Watch:
    """Reads the events of a workspace as they happen, and the response of the API then."""

    def __init__(self, server: Running, client: httpx.Client) -> None:
        self.reported: list[Recorded] = []
        self._server, self._client = server, client

    def look(self) -> None:
        """Note what is new."""
        new = events(self._server, self._client)[len(self.reported) :]
        latest = {one["data"]["id"]: one["id"] for one in new}
        for one in new:
            path = FAMILIES[family(one["type"])][1].format(id=one["data"]["id"])
            response = self._client.get(path)
            is_latest = latest[one["data"]["id"]] == one["id"]
            self.reported.append(Recorded(one, response.content, is_latest))


SCENARIOS: Final = sorted(
    file.stem
    for file in (ROOT / "scenarios").glob("*.yaml")
    if file.stem != "lifecycle" and "faults" not in load_document(file)
)
MACHINE: Final = LIFECYCLE.machines["invoice"]


def report(server: Running, scenario: str) -> list[Recorded]:
    """A scenario, step by step."""
    with server.client(server.new_workspace()) as client:
        watch = Watch(server, client)
        original = register(client)
        watch.look()
        if scenario.startswith("duplicate"):
            run_to_end(client)
            invoice = register(client, scenario)
        else:
            invoice = original
            choose(client, scenario, invoice)
        watch.look()
        for _ in range(30):
            due = client.get("/sandbox/agenda").json()["data"]["due"]
            if not due:
                return watch.reported
            client.post("/sandbox/clock/advance", json={"to": min(one["at"] for one in due)})
            watch.look()
        raise AssertionError("the scenario is not over")


def pull_everything(server: Running) -> list[Recorded]:
    """Every move of an invoice that its history allows, by the control endpoint."""
    ways: dict[str, tuple[str, ...]] = {MACHINE.initial: ()}
    waiting = [MACHINE.initial]
    reported: list[Recorded] = []
    with server.client(server.new_workspace()) as client:
        watch = Watch(server, client)
        for state in waiting:
            for number, trigger in enumerate(MACHINE.legal[state]):
                invoice = register(client, invoiceNumber=f"{state}-{number}")
                watch.look()
                for word in (*ways[state], trigger):
                    path = f"/sandbox/invoices/{invoice['id']}/transition"
                    moved = client.post(path, json={"trigger": word})
                    assert moved.is_success or word in GUARDS, moved.text
                    watch.look()
                status = moved.json()["data"]["status"] if moved.is_success else state
                if status not in ways:
                    ways[status] = (*ways[state], trigger)
                    waiting.append(status)
        reported += watch.reported
    return reported


def use_everything(server: Running) -> list[Recorded]:
    """What clients and the other control endpoints can do."""
    with server.client(server.new_workspace()) as client:
        watch = Watch(server, client)
        erp = {"externalId": "E-1", "sellerId": "s", "debtorId": "d", "invoiceNumber": "1"}
        client.post("/api/connectors/erp/invoices", json={**erp, "amount": 1e300, "currency": "?"})
        advance(client, "PT10S")
        watch.look()
        for path in ("/api/financing-requests", "/api/offers"):
            assert client.post(path, json={}).status_code == 201
            watch.look()
        for word in ("accept", "decline", "withdraw"):
            invoice = register(client, invoiceNumber=word)
            for step in ("start-verification", "verify", "request-financing", "receive-offer"):
                client.post(f"/sandbox/invoices/{invoice['id']}/transition", json={"trigger": step})
                watch.look()
            (offer,) = client.get("/api/offers", params={"invoiceId": invoice["id"]}).json()["data"]
            moved = client.post(f"/sandbox/offers/{offer['id']}/{word}")
            assert moved.status_code == 200, moved.text
            watch.look()
        client.post("/api/webhooks", json={"enabled": False})
        for kind in WEBHOOKS:
            recorded = client.post("/sandbox/events", json={"type": kind})
            assert recorded.is_success, recorded.text
            watch.look()
        return watch.reported


@pytest.fixture(scope="module")
def reported() -> list[Recorded]:
    """All events of all scenarios, of all moves, and of all that clients can do."""
    with serving(FROZEN) as server:
        scenarios = [one for name in SCENARIOS for one in report(server, name)]
        return [*scenarios, *pull_everything(server), *use_everything(server)]


@pytest.mark.slow
def test_every_type_is_recorded_by_something(reported: list[Recorded]) -> None:
    assert {one.event["type"] for one in reported} == WEBHOOKS.keys()


@EVERY
def test_an_event_that_is_recorded_is_what_the_contract_promises(
    reported: list[Recorded], kind: str
) -> None:
    recorded = [one.event for one in reported if one.event["type"] == kind]
    problems = {
        problem.sentence(f"the event {kind}")
        for event in recorded
        for problem in EVENTS[kind].problems(event)
    }
    assert problems == set()


@EVERY
def test_the_data_of_an_event_is_byte_for_byte_what_the_get_responses(
    reported: list[Recorded], kind: str
) -> None:
    latest = [one for one in reported if one.event["type"] == kind and one.latest]
    other = [one for one in latest if jsonio.dumps(one.event["data"]) not in one.response]
    assert [one.event["data"] for one in other] == []
    assert latest


def shape(value: Any) -> Any:
    """The members of a value, and those of the objects in it; lists have any length."""
    return {name: shape(one) for name, one in value.items()} if isinstance(value, dict) else None


@EVERY
def test_the_example_of_a_type_has_the_members_of_an_event(
    reported: list[Recorded], kind: str
) -> None:
    (media,) = WEBHOOKS[kind]["post"]["requestBody"]["content"].values()
    recorded = [shape(one.event) for one in reported if one.event["type"] == kind]
    assert shape(media["example"]) in recorded
