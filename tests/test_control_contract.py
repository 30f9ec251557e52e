"""The control API has a contract of its own, which a project may add to and never change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator

from invoice_sandbox.control.functions import control_functions
from invoice_sandbox.openapi.load.operations import raw_operations
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import default_project, load_contract, load_project
from tests.cases import in_turn
from tests.support import FROZEN, PATIENCE, Running, serving

pytestmark = pytest.mark.slow

FUNCTIONS = {*control_functions(load_project(default_project()).control)}
OPEN = {
    "getSandboxHealth",
    "getSandboxLiveness",
    "putUpload",
    "receiveForListener",
    "receiveWebhook",
}
"""What needs no key."""

RUN: dict[str, Any] = {
    "plan": "partner",
    "state": "running",
    "verdict": None,
    "waitingFor": None,
    "checks": [],
}
EXAMPLES: Mapping[str, Any] = {
    "setParty": {"screening": "Clear"},
    "advanceAssignmentNotice": {"state": "Sent"},
    "setClock": {"mode": "frozen"},
    "advanceClock": {"by": "PT1S"},
    "triggerEvent": {"type": "invoice.paid"},
    "createWorkspace": {},
    "setScenario": {"name": "manual"},
    "addFault": {"kind": "status"},
    "reportMessageResponse": {"message": 1, "status": 200},
    "transitionInvoice": {"trigger": "verify"},
    "receivePayment": {"amount": 1},
    "applyCreditNote": {"amount": 1},
    "payOut": {"amount": 1},
    "createAcceptanceRun": RUN,
    "updateAcceptanceRun": RUN,
    "reportAcceptanceTask": {"state": "done", "task": 1},
    "addUser": {"email": "ann@corp.example", "password": "correct horse", "role": "auditor"},
}


@pytest.fixture(scope="module")
def document(server: Running) -> dict[str, Any]:
    """The contract as it is served to somebody without a key."""
    served: dict[str, Any] = httpx.get(
        f"{server.url}/sandbox/openapi.json", timeout=PATIENCE
    ).json()
    return served


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of a document."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict | list):
            yield from _objects(inner)


def operations(document: Mapping[str, Any]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Path, method and description of every operation, by operationId."""
    return {
        raw["operationId"]: (path, method, raw) for path, method, raw in raw_operations(document)
    }


def ask(
    client: httpx.Client, document: Mapping[str, Any], name: str, **more: Any
) -> httpx.Response:
    """A request to a control endpoint, right in form, about things that are not there."""
    path, method, _ = operations(document)[name]
    url = "/sandbox" + re.sub(r"\{[^}]*\}", "nothing", path)
    body: dict[str, Any] = {"json": EXAMPLES[name]} if name in EXAMPLES else {}
    if name == "keepAcceptanceBundle":
        body = {"content": b"nothing"}
        type_ = {"Content-Type": "application/octet-stream"}
        more = {**more, "headers": {**more.get("headers", {}), **type_}}
    return client.request(method, url, **body, **more)


class TestServed:
    def test_it_is_openapi_31(self, document: dict[str, Any]) -> None:
        assert document["openapi"].startswith("3.1.")
        assert [one["url"] for one in document["servers"]][-1] == "/sandbox"
        assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []

    def test_as_yaml_it_is_the_same(self, server: Running, document: dict[str, Any]) -> None:
        text = httpx.get(f"{server.url}/sandbox/openapi.yaml", timeout=PATIENCE).text
        assert yaml.safe_load(text) == document

    def test_every_operation_has_a_function(self, document: dict[str, Any]) -> None:
        project = load_project(default_project())
        assert set(operations(document)) == FUNCTIONS | (
            set(operations(document)) & set(project.handlers)
        )
        assert not FUNCTIONS & set(project.handlers)

    def test_no_two_operations_have_one_id(self, server: Running, document: dict[str, Any]) -> None:
        own = httpx.get(f"{server.url}/openapi.json", timeout=PATIENCE).json()
        ids = [raw["operationId"] for part in (own, document) for _, _, raw in raw_operations(part)]
        assert len(ids) == len(set(ids))

    def test_no_keyword_stands_beside_a_reference(
        self, server: Running, document: dict[str, Any]
    ) -> None:
        """Many code generators ignore what does."""
        own = httpx.get(f"{server.url}/openapi.json", timeout=PATIENCE).json()
        objects = [*_objects(own), *_objects(document)]
        references = [item for item in objects if isinstance(item.get("$ref"), str)]
        assert len(references) > 500
        assert [item for item in references if len(item) > 1] == []

    def test_no_schema_is_named_like_a_constructor_of_another(
        self, document: dict[str, Any]
    ) -> None:
        """A client in Go has a function NewFault for the schema Fault."""
        names = set(document["components"]["schemas"])
        assert {name for name in names if f"New{name}" in names} == set()

    def test_every_tag_is_described_once(self, document: dict[str, Any]) -> None:
        tags = [tag["name"] for tag in document["tags"]]
        assert len(tags) == len(set(tags))
        used = {tag for _, _, raw in operations(document).values() for tag in raw["tags"]}
        assert used == set(tags)

    def test_its_words_are_the_project_s(self, server: Running, document: dict[str, Any]) -> None:
        schemas = document["components"]["schemas"]
        own = httpx.get(f"{server.url}/openapi.json", timeout=PATIENCE).json()
        assert schemas["FaultInput"]["properties"]["operation"]["enum"] == list(operations(own))
        known = list(load_project(default_project()).scenarios)
        assert schemas["ScenarioName"]["enum"] == known
        assert "x-vocabulary" not in json.dumps(document)

    def test_every_example_is_right(self, client: httpx.Client, document: dict[str, Any]) -> None:
        """None gets 400."""
        tried = 0
        for path, method, raw in operations(document).values():
            media = raw.get("requestBody", {}).get("content", {}).get("application/json", {})
            for name, example in media.get("examples", {}).items():
                url = "/sandbox" + re.sub(r"\{[^}]*\}", "nothing", path)
                response = client.request(method, url, json=example["value"])
                assert response.status_code != 400, f"{raw['operationId']} {name}: {response.text}"
                tried += 1
        assert tried > 10


@pytest.fixture(scope="module")
def default_key(server: Running) -> str:
    """The key that a client gets who cannot name scopes."""
    with server.client(server.new_workspace()) as client:
        made = client.post("/api/developer/api-keys", json={})
    secret: str = made.json()["data"]["secret"]
    return secret


WORKSPACES = dict.fromkeys(
    ("createWorkspace", "deleteWorkspace", "listWorkspaces"), "workspaces:create"
)
"""The scope of operations that need less than the control API."""


class TestAccess:
    def test_without_a_key_it_is_401(self, server: Running, document: dict[str, Any]) -> None:
        with server.client(None) as nobody:
            for name in operations(document).keys() - OPEN:
                response = ask(nobody, document, name)
                assert response.status_code == 401, name
                assert response.json()["error"]["code"] == "authentication_required"

    def test_a_usual_key_is_not_enough(
        self, server: Running, document: dict[str, Any], default_key: str
    ) -> None:
        with server.client(default_key) as client:
            for name in operations(document).keys() - OPEN:
                response = ask(client, document, name)
                assert response.status_code == 403, name
                needed = WORKSPACES.get(name, "sandbox:")
                assert needed in response.json()["error"]["message"]

    def test_a_session_is_not_enough(self, server: Running, document: dict[str, Any]) -> None:
        body = {"email": "seller@demo.example", "password": "demo-password"}
        with server.client(None) as browser:
            assert browser.post("/api/auth/login", json=body).status_code == 200
            assert browser.get("/api/invoices").status_code == 200, "the session is used"
            for name in operations(document).keys() - OPEN:
                assert ask(browser, document, name).status_code == 401, name

    def test_the_scope_is_enough(self, client: httpx.Client, document: dict[str, Any]) -> None:
        body = {"scopes": ["sandbox:control"]}
        secret = client.post("/api/developer/api-keys", json=body).json()["data"]["secret"]
        headers = {"Authorization": f"Bearer {secret}"}
        for name in operations(document).keys() - OPEN:
            response = ask(client, document, name, headers=headers)
            assert response.status_code in {200, 201, 202, 404, 409}, f"{name}: {response.text}"

    def test_what_is_open_to_all(self, server: Running, default_key: str) -> None:
        headers = {"Content-Type": "application/pdf"}
        for key in (None, default_key, "nonsense"):
            with server.client(key) as client:
                assert client.get("/sandbox/health").json()["data"]["status"] == "ok"
                path = "/sandbox/uploads/nothing"
                assert client.put(path, content=b"x", headers=headers).status_code == 404

    def test_they_are_never_limited(self) -> None:
        with serving(replace(FROZEN, rate_limit=120)) as running, running.client() as client:
            for path in ("clock", "faults", "requests"):
                for _ in range(50):
                    response = client.get(f"/sandbox/{path}")
                    assert response.status_code == 200
                    assert "ratelimit" not in response.headers
            assert client.get("/api/invoices").status_code == 200

    @in_turn("name", sorted(EXAMPLES))
    def test_errors_point_to_it(
        self, client: httpx.Client, document: dict[str, Any], name: str
    ) -> None:
        path, method, _ = operations(document)[name]
        url = "/sandbox" + path.replace("{id}", "nothing")
        response = client.request(method, url, json={"no such member": 1, "kind": 1, "name": 1})
        assert response.status_code == 400
        message = response.json()["error"]["message"]
        assert f"{str(client.base_url).rstrip('/')}/sandbox/openapi.json" in message


CONTRACT = {
    "openapi": "3.1.0",
    "info": {"title": "Toy", "version": "1"},
    "paths": {"/x": {"get": {"operationId": "getX", "responses": {"204": {"description": "x"}}}}},
}
PART = """openapi: 3.1.0
info: {title: Part, version: "1"}
servers: [{url: /sandbox}]
"""
HERE = "sandbox.yaml:"
RESPONSES = "responses: {'204': {description: x}}"
PARTS = {
    "a path": ("paths:\n  /clock: {}", f"{HERE}5:3: '/clock' is there already"),
    "a path by another name": (
        "paths:\n  /faults/{fault}: {}",
        f"{HERE}5:3: '/faults/{{fault}}' duplicates '/faults/{{id}}'",
    ),
    "a schema": (
        "components:\n  schemas:\n    Mode: {}",
        f"{HERE}6:5: 'Mode' is there already",
    ),
    "a scheme": (
        "components: {securitySchemes: {bearerAuth: {type: http, scheme: bearer}}}",
        f"{HERE}4:32: 'bearerAuth' is there already",
    ),
    "an operation": (f"paths: {{/x: {{get: {{operationId: getClock, {RESPONSES}}}}}}}", HERE),
    "a reference to nothing": (
        "paths: {/x: {get: {responses: {'200': {$ref: '#/components/responses/None'}}}}}",
        HERE,
    ),
    "what has no effect": ("security: []", f"{HERE}4:1: unknown key 'security'"),
    "no paths": ("paths:", f"{HERE}4:1: 'paths' must be an object"),
    "no components": ("components: {schemas: }", f"{HERE}4:14: 'schemas' must be an object"),
    "a tag without a name": ("tags: [{}]", f"{HERE}4:8: an item of 'tags' has no 'name'"),
    "a list of words": ("tags: [clock]", f"{HERE}4:8: "),
    "an unknown vocabulary": (
        "components: {schemas: {Word: {type: string, x-vocabulary: scenario}}}",
        "there is no 'scenario', only ",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project of nothing but a contract."""
    (tmp_path / "openapi").mkdir()
    (tmp_path / "openapi" / "openapi.yaml").write_text(json.dumps(CONTRACT))
    return tmp_path


class TestParts:
    @in_turn("name", PARTS)
    def test_what_a_part_cannot_say(self, folder: Path, name: str) -> None:
        text, problem = PARTS[name]
        (folder / "openapi" / "sandbox.yaml").write_text(PART + text)
        with pytest.raises(ProjectError) as rejected:
            load_project(folder)
        assert problem in str(rejected.value)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            (PART.replace("/sandbox", "/other"), f"{HERE}3:1: the server must be /sandbox"),
            (PART.replace("servers: [{url: /sandbox}]", ""), "the server must be /sandbox"),
            ("", "the file must be an object"),
            ("- a list", "the file must be an object"),
            ("a: {b", f"{HERE}"),
        ],
        ids=["another server", "no server", "nothing", "a list", "no YAML"],
    )
    def test_what_is_no_part(self, folder: Path, text: str, problem: str) -> None:
        (folder / "openapi" / "sandbox.yaml").write_text(text)
        with pytest.raises(ProjectError) as rejected:
            load_project(folder)
        assert problem in str(rejected.value)

    def test_a_part_adds_and_uses_what_is_there(self, folder: Path) -> None:
        part = """tags: [{name: own}]
paths:
  /own:
    get:
      operationId: getOwn
      responses:
        '200':
          description: Something.
          content: {application/json: {schema: {$ref: '#/components/schemas/Own'}}}
components:
  schemas:
    Own: {type: object, properties: {mode: {$ref: '#/components/schemas/Mode'}}}
"""
        (folder / "openapi" / "sandbox.yaml").write_text(PART + part)
        with serving(replace(FROZEN, project=folder)) as running, running.client() as client:
            assert client.get("/sandbox/own").status_code == 200
            assert client.get("/sandbox/clock").status_code == 200
            with running.client(None) as nobody:
                assert nobody.get("/sandbox/own").status_code == 401


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of one file, whose operation has the name of a control endpoint."""
    file = tmp_path_factory.mktemp("foreign") / "contract.json"
    file.write_text(json.dumps(CONTRACT).replace("getX", "getClock"))
    with serving(replace(FROZEN, contract=file)) as running:
        yield running


class TestForeignContracts:
    def test_it_has_the_engine_s_control_endpoints(self, foreign: Running) -> None:
        served = httpx.get(f"{foreign.url}/sandbox/openapi.json", timeout=PATIENCE).json()
        assert set(operations(served)) == FUNCTIONS
        words = served["components"]["schemas"]
        assert words["ScenarioName"]["enum"] == ["manual"]
        assert words["FaultInput"]["properties"]["operation"]["enum"] == ["getClock"]

    def test_its_own_operation_may_have_a_control_endpoint_s_name(self, foreign: Running) -> None:
        with foreign.client() as client:
            assert client.get("/x").status_code == 204
            assert client.get("/sandbox/clock").json()["data"]["mode"] == "frozen"

    @pytest.mark.parametrize("url", ["/sandbox", "/sandbox/", "http://localhost:8080/sandbox"])
    def test_the_control_endpoints_place_is_theirs(self, tmp_path: Path, url: str) -> None:
        file = tmp_path / "contract.json"
        file.write_text(json.dumps({**CONTRACT, "servers": [{"url": url}]}))
        project = load_contract(file)
        assert project.contract.base_path == "/api/sandbox"
        assert project.control.base_path == "/sandbox"

    @pytest.mark.parametrize("path", ["/sandbox", "/sandbox/clock", "/sandbox/{b}", "/{a}/{b}"])
    def test_no_path_of_it_hides_a_control_endpoint(self, tmp_path: Path, path: str) -> None:
        names = re.findall(r"\{(.)\}", path)
        parameters = [
            {"name": name, "in": "path", "required": True, "schema": {}} for name in names
        ]
        operation = {
            "operationId": "getX",
            "parameters": parameters,
            "responses": {"204": {"description": "x"}},
        }
        file = tmp_path / "contract.json"
        file.write_text(json.dumps({**CONTRACT, "paths": {path: {"get": operation}}}))
        with serving(replace(FROZEN, contract=file)) as running, running.client() as client:
            assert client.get("/sandbox/clock").json()["data"]["mode"] == "frozen"
            assert client.put("/sandbox/clock", json={"mode": "frozen"}).status_code == 200
