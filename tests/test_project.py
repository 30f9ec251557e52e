"""A project: its handlers, what they may return, and what is returned without them."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from invoice_sandbox.base.ids import new_key, snake_case
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.project.code import ProjectError, operation_names, place_of_error
from invoice_sandbox.project.loader import load_project
from invoice_sandbox.state import Transaction
from invoice_sandbox.state.credentials import DEMO_KEY
from invoice_sandbox.testing.workspace import ScenarioChoice, new_workspace
from tests.support import CONVENTIONS, FROZEN, serving
from tests.test_control_commands import run
from tests.test_listen import listening
from tests.toy import serving_contract

MEDIA = "application/json"


def responses(schema: Any, **examples: Any) -> dict[str, Any]:
    """A contract with one operation whose success response has this schema and these examples."""
    response = {"description": "ok", "content": {MEDIA: {"schema": schema, **examples}}}
    operation = {"operationId": "readThing", "responses": {"200": response}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Toy", "version": "1.0.0"},
        "paths": {"/thing": {"get": operation}},
    }


DATA = {
    "type": "object",
    "required": ["data", "mode"],
    "properties": {"data": {"type": "object", "properties": {"n": {"type": "integer"}}}},
}


def write_project(folder: Path, handler: str) -> Path:
    (folder / "openapi").mkdir()
    (folder / "openapi" / "openapi.yaml").write_bytes(orjson.dumps(responses(DATA)))
    (folder / "conventions.yaml").write_text(CONVENTIONS)
    (folder / "handlers").mkdir()
    (folder / "handlers" / "__init__.py").touch()
    (folder / "handlers" / "things.py").write_text(handler)
    return folder


# Responses from the contract

NUMBER = {"type": "integer", "minimum": 40, "maximum": 44}
SOURCES: dict[str, tuple[dict[str, Any], set[int]]] = {
    "a named example first": ({"examples": {"a": {"value": 41}}}, {41}),
    "else the example": ({"example": 42}, {42}),
    "a wrong example is passed over": ({"examples": {"a": {"value": 7}, "b": {"value": 43}}}, {43}),
    "else one is generated": ({}, {40, 41, 42, 43, 44}),
}


@pytest.mark.parametrize(("examples", "allowed"), SOURCES.values(), ids=SOURCES)
def test_an_operation_without_a_handler_gets_a_response_from_the_contract(
    tmp_path: Path, examples: dict[str, Any], allowed: set[int]
) -> None:
    with serving_contract(tmp_path, responses(NUMBER, **examples)) as client:
        first = client.get("/thing")
        assert first.json() in allowed
        assert client.get("/thing").content == first.content


def test_the_same_seed_generates_the_same_response(tmp_path: Path) -> None:
    schema = {"type": "array", "minItems": 5, "items": {"type": "string", "format": "uuid"}}
    found = []
    for _ in range(2):
        with serving_contract(tmp_path, responses(schema)) as client:
            found.append(client.get("/thing").content)
    assert found[0] == found[1]


def test_a_response_that_cannot_be_given_is_reported_at_start_and_when_it_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    schema = {"allOf": [{"type": "string"}, {"type": "integer"}]}
    with serving_contract(tmp_path, responses(schema)) as client:
        reply = client.get("/thing")
    (line,) = caplog.messages
    assert line.startswith(f"{tmp_path / 'contract.json'}:1:")
    assert "this operation returns 501: readThing, response 200: " in line
    assert reply.status_code == 501
    assert "readThing, response 200: " in reply.json()["error"]["message"]


def test_a_folder_with_nothing_but_a_contract_is_a_working_mock(tmp_path: Path) -> None:
    (tmp_path / "openapi").mkdir()
    (tmp_path / "openapi" / "openapi.yaml").write_bytes(orjson.dumps(responses(NUMBER, example=42)))
    with serving(replace(FROZEN, project=tmp_path)) as running, running.client(None) as client:
        assert client.get("/thing").json() == 42


def test_an_operation_needs_no_operation_id(tmp_path: Path) -> None:
    document = responses(NUMBER, example=42)
    del document["paths"]["/thing"]["get"]["operationId"]
    with serving_contract(tmp_path, document) as client:
        assert client.get("/thing").json() == 42


# Responses of handlers


def served(folder: Path, handler: str, caplog: pytest.LogCaptureFixture) -> tuple[int, Any, str]:
    project = write_project(folder, handler)
    with (
        caplog.at_level(logging.ERROR),
        serving(replace(FROZEN, project=project)) as running,
        running.client(None) as client,
    ):
        response = client.get("/thing")
    return response.status_code, response.json(), caplog.text


def test_a_handler_responds_in_the_envelope(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = "def read_thing(call):\n    return {'n': 1}\n"
    assert served(tmp_path, handler, caplog) == (
        200,
        {"data": {"n": 1}, "mode": "sandbox_mock"},
        "",
    )


FORBIDDEN = {
    "a wrong type": ("return {'n': 'x'}", "readThing 200: data.n must be a whole number"),
    "a status that is not declared": (
        "from invoice_sandbox.project.api import Response\n    return Response({}, status=201)",
        "readThing: status 201 is not declared",
    ),
    "a refusal that is not declared": (
        """from invoice_sandbox.project.api import reject
    raise reject('unknown_resource', kind='thing', member='id')""",
        "readThing: status 404 is not declared",
    ),
    "an exception": ("raise KeyError('oops')", "KeyError: 'oops'"),
}


@pytest.mark.parametrize(("body", "reason"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_the_contract_does_not_allow_is_500_with_the_reason_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, body: str, reason: str
) -> None:
    status, response, log = served(tmp_path, f"def read_thing(call):\n    {body}\n", caplog)
    assert (status, response["error"]["code"]) == (500, "internal_error")
    assert reason in log
    assert response["error"]["requestId"] in log
    assert reason not in response["error"]["message"]


def test_what_a_forbidden_response_changed_is_undone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = (
        "def read_thing(call):\n"
        "    number = call.state.next_number('calls')\n"
        "    call.state.put('things', 'a', {'n': number})\n"
        "    return {'n': 'wrong'}\n"
    )
    project = write_project(tmp_path, handler)
    with serving(replace(FROZEN, project=project)) as running, running.client(None) as client:
        client.get("/thing")

        def left(state: Transaction) -> Any:
            return state.get("things", "a"), state.next_number("calls")

        assert running.in_transaction(left) == (None, 1)
    assert "must be a whole number" in caplog.text


# What does not fit is said at start-up

HANDLERS = {
    "a misspelt name": (
        "def read_thin(call): ...",
        r"things\.py: read_thin is not an operation of the contract; did you mean read_thing\?",
    ),
    "a name that stands for nothing": (
        "def nonsense(call): ...",
        r"nonsense is not an operation of the contract",
    ),
}


@pytest.mark.parametrize(("text", "problem"), HANDLERS.values(), ids=HANDLERS)
def test_a_handler_without_an_operation_is_an_error(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ProjectError, match=problem):
        load_project(write_project(tmp_path, text + "\n"))


def test_a_hook_that_nobody_calls_is_an_error(tmp_path: Path) -> None:
    project = write_project(tmp_path, "def read_thing(call): ...\n")
    (project / "domain").mkdir()
    (project / "domain" / "__init__.py").touch()
    (project / "domain" / "hooks.py").write_text("def on_monday(call): ...\n")
    with pytest.raises(ProjectError, match="there is no hook 'on_monday'"):
        load_project(project)


@pytest.mark.parametrize("module", ["hooks", "actions"])
def test_an_async_hook_or_action_is_an_error(tmp_path: Path, module: str) -> None:
    project = write_project(tmp_path, "def read_thing(call): ...\n")
    (project / "domain").mkdir()
    (project / "domain" / "__init__.py").touch()
    (project / "domain" / f"{module}.py").write_text("async def on_forbidden(call): ...\n")
    with pytest.raises(ProjectError, match="is async; write 'def on_forbidden'"):
        load_project(project)


def test_a_handler_imports_from_the_domain_package_beside_it(tmp_path: Path) -> None:
    handler = "from ..domain.colors import RED\n\ndef read_thing(call):\n    return RED\n"
    project = write_project(tmp_path, handler)
    (project / "domain").mkdir()
    (project / "domain" / "__init__.py").touch()
    (project / "domain" / "colors.py").write_text("RED = {'color': 'red'}\n")
    assert list(load_project(project).handlers) == ["readThing"]
    assert "domain.colors" not in sys.modules


def test_handlers_are_loaded_under_a_private_name_and_nothing_lands_on_the_path(
    tmp_path: Path,
) -> None:
    before = list(sys.path)
    project = load_project(write_project(tmp_path, "def read_thing(call): ...\n"))
    module = getattr(project.handlers["readThing"], "__module__", "")
    assert module.startswith("_invoice_sandbox_project_")
    assert "things" not in sys.modules
    assert sys.path == before


BOOM = "\n\ndef boom():\n    raise KeyError\n"
ASKS_BOOM = "from . import boom\n\ndef read_thing(call):\n    boom()\n"


def raised_in_a_package(folder: Path) -> KeyError:
    """What a function of ``handlers/__init__.py`` raised, line 4."""
    project = write_project(folder, ASKS_BOOM)
    (project / "handlers" / "__init__.py").write_text(BOOM)
    handler: Any = load_project(project).handlers["readThing"]
    with pytest.raises(KeyError) as caught:
        handler(None)
    return caught.value


def test_the_place_of_an_error_is_a_file_also_in_a_package(tmp_path: Path) -> None:
    assert place_of_error(raised_in_a_package(tmp_path)) == "handlers/__init__.py:4"


def test_a_name_that_two_modules_define_is_an_error(tmp_path: Path) -> None:
    handler = "def read_thing(call): ...\n"
    (write_project(tmp_path, handler) / "handlers" / "zoo.py").write_text(handler)
    with pytest.raises(ProjectError, match=r"zoo\.py: read_thing is defined in things\.py too"):
        load_project(tmp_path)


FIXTURES = {
    "an unknown key": ("- id: a\n    colour: red", r":3:5: unknown key 'colour'.*color"),
    "a wrong type": ("- id: a\n    color: 5", r":3:5: .*string"),
    "no id": ("- color: red", r":2:5: an item of 'records' has no 'id'"),
}
OF_THINGS = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "color": {"type": "string"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(("record", "problem"), FIXTURES.values(), ids=FIXTURES)
def test_a_fixture_that_does_not_fit_is_an_error_with_its_place(
    tmp_path: Path, record: str, problem: str
) -> None:
    folder = write_project(tmp_path, "def read_thing(call): ...\n") / "fixtures"
    folder.mkdir()
    schema = {"properties": {"records": {"type": "array", "items": OF_THINGS}}}
    (folder / "things.schema.json").write_bytes(orjson.dumps(schema))
    (folder / "things.yaml").write_text(f"records:\n  {record}\n")
    with pytest.raises(ProjectError, match=rf"things\.yaml{problem}"):
        load_project(tmp_path)


def test_handlers_that_are_no_package_are_an_error(tmp_path: Path) -> None:
    project = write_project(tmp_path, "def read_thing(call): ...\n")
    (project / "handlers" / "__init__.py").unlink()
    with pytest.raises(ProjectError, match=r"no __init__\.py"):
        load_project(project)


@pytest.mark.parametrize(
    ("operation_id", "function"),
    [
        ("listApiKeys", "list_api_keys"),
        ("getHTTPStatus", "get_http_status"),
        ("login", "login"),
        ("read-thing", "read_thing"),
    ],
)
def test_an_operation_id_names_its_function(operation_id: str, function: str) -> None:
    assert snake_case(operation_id) == function


def test_every_operation_has_a_function_of_its_own() -> None:
    functions = {
        "listPets": "list_pets",
        "list_pets": "list_pets_3",
        "listPets_2": "list_pets_2",
        "import": "import_",
        "2nd pet!": "operation_2nd_pet",
        "\ufb01t": "operation_fit",
        "_own": "operation_own",
        "!": "operation",
        "?": "operation_2",
    }
    paths = {f"/{n}": {"get": {"operationId": one}} for n, one in enumerate(functions)}
    assert operation_names({"paths": paths}) == {two: one for one, two in functions.items()}


IMPORTS = {
    "an async function": (
        "async def read_thing(call): ...",
        r"things\.py: .*write 'def read_thing'",
    ),
    "a syntax error": (
        "def read_thing(call)",
        r"things\.py: cannot be imported: SyntaxError",
    ),
    "an unknown module": ("import nonsense_42", r"cannot be imported: ModuleNotFoundError"),
}


@pytest.mark.parametrize(("text", "problem"), IMPORTS.values(), ids=IMPORTS)
def test_a_handler_module_that_cannot_serve_is_an_error(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ProjectError, match=problem):
        load_project(write_project(tmp_path, text + "\n"))


def test_null_is_a_response_too(tmp_path: Path) -> None:
    with serving_contract(tmp_path, responses({"type": "null"}, example=None)) as client:
        response = client.get("/thing")
        assert (response.content, response.headers["content-type"]) == (b"null", MEDIA)


# Conventions that tools and credentials follow

WEBHOOK_HANDLERS = """
endpoints = []

def read_thing(call):
    return {"endpoints": endpoints, "deliveries": []}

def register_thing(call):
    endpoints.append({"id": "e1", "url": call.body["url"]})
    return {"id": "e1", "secret": "whsec_" + "c2VjcmV0" * 4}
"""


def project_with_conventions(folder: Path, conventions: str) -> Path:
    """A project whose contract registers webhook endpoints at ``/v1/thing``."""
    project = write_project(folder, WEBHOOK_HANDLERS)
    document = responses({"type": "object"})
    document["servers"] = [{"url": "/v1"}]
    body = {"content": {MEDIA: {"schema": {"type": "object"}}}}
    created = {"201": {"description": "ok", "content": {MEDIA: {"schema": {"type": "object"}}}}}
    post = {"operationId": "registerThing", "requestBody": body, "responses": created}
    document["paths"]["/thing"]["post"] = post
    (project / "openapi" / "openapi.yaml").write_bytes(orjson.dumps(document))
    (project / "conventions.yaml").write_text(conventions)
    return project


NAMED = "webhooks: {register: registerThing, deliveries: readThing}\n"


def test_tools_learn_the_webhook_operations_from_the_control_contract(tmp_path: Path) -> None:
    project = load_project(project_with_conventions(tmp_path, NAMED))
    paths = {"register": "/v1/thing", "deliveries": "/v1/thing"}
    assert project.control.document["x-project"] == {"webhooks": paths}


def test_the_pytest_plugin_registers_its_inbox_at_the_named_operation(tmp_path: Path) -> None:
    folder = project_with_conventions(tmp_path, NAMED)
    with serving(replace(FROZEN, project=folder)) as server:
        control = ControlClient(server.url, DEMO_KEY)
        with new_workspace(control, ScenarioChoice()) as sandbox:
            listed = sandbox.client.get("/v1/thing").json()["endpoints"]
            assert [one["url"] for one in listed] == [sandbox.webhooks.url]


OWN_KEY = new_key()
OWN_SCHEMES: dict[str, dict[str, Any]] = {
    "header": {"token": {"type": "apiKey", "in": "header", "name": "x-api-token"}},
    "query": {"token": {"type": "apiKey", "in": "query", "name": "token"}},
    "cookie": {"token": {"type": "apiKey", "in": "cookie", "name": "token"}},
    "authorization": {"token": {"type": "apiKey", "in": "header", "name": "Authorization"}},
    "basic": {"token": {"type": "http", "scheme": "basic"}},
    "digest": {"token": {"type": "http", "scheme": "digest"}},
    "two": {
        "app": {"type": "apiKey", "in": "header", "name": "x-app"},
        "token": {"type": "apiKey", "in": "query", "name": "token"},
    },
}
NOT_IN_COOKIES = [(name, "keys") for name in OWN_SCHEMES if name != "cookie"]


def project_with_schemes(folder: Path, name: str, access: str) -> Path:
    """The same, which asks for a key by schemes of its own."""
    folder = project_with_conventions(folder, f"access: {access}\n{NAMED}")
    file = folder / "openapi" / "openapi.yaml"
    document = orjson.loads(file.read_bytes())
    document |= {"components": {"securitySchemes": OWN_SCHEMES[name]}}
    document |= {"security": [{one: [] for one in OWN_SCHEMES[name]}]}
    file.write_bytes(orjson.dumps(document))
    return folder


@pytest.mark.parametrize(
    ("name", "access"),
    [*((name, "any") for name in OWN_SCHEMES), *NOT_IN_COOKIES],
    ids=" ".join,
)
def test_tools_send_the_key_as_the_contract_declares_it(
    tmp_path: Path, name: str, access: str
) -> None:
    folder = project_with_schemes(tmp_path, name, access)
    settings = replace(FROZEN, project=folder, key=OWN_KEY, key_given=True)
    with (
        serving(settings) as server,
        new_workspace(ControlClient(server.url, OWN_KEY), ScenarioChoice()) as sandbox,
    ):
        listed = sandbox.client.get("/v1/thing").json()["endpoints"]
        assert [one["url"] for one in listed] == [sandbox.webhooks.url]
        assert sandbox.deliveries == []
        assert sandbox.client.get("/sandbox/clock").status_code == 200
        assert sandbox.key not in str(sandbox.requests)


@pytest.mark.process
@pytest.mark.parametrize("name", ["header", "query"])
def test_listen_sends_the_key_as_the_contract_declares_it(tmp_path: Path, name: str) -> None:
    folder = project_with_schemes(tmp_path, name, "keys")
    with (
        serving(replace(FROZEN, project=folder)) as server,
        listening(server.url, "http://127.0.0.1:9") as (_, secret),
    ):
        assert secret.startswith("whsec_")


@pytest.mark.process
def test_listen_registers_at_the_named_operation(tmp_path: Path) -> None:
    folder = project_with_conventions(tmp_path, NAMED)
    with (
        serving(replace(FROZEN, project=folder)) as server,
        listening(server.url, "http://127.0.0.1:9") as (_, secret),
    ):
        assert secret.startswith("whsec_")


def test_listen_reports_that_no_operation_is_named(tmp_path: Path) -> None:
    folder = project_with_conventions(tmp_path, "mode: test\n")
    with serving(replace(FROZEN, project=folder)) as server:
        ran = run("listen --forward-to 9", INVOICE_SANDBOX_URL=server.url)
    assert ran.exit_code == 1
    assert "name it in 'webhooks' of its conventions.yaml" in ran.stderr


def test_an_unknown_webhook_operation_is_an_error_with_its_place(tmp_path: Path) -> None:
    folder = project_with_conventions(tmp_path, NAMED.replace("readThing", "readThings"))
    with pytest.raises(ProjectError, match=r"conventions.yaml:1:\d+.*'readThings'.*readThing"):
        load_project(folder)


def test_issued_keys_have_the_prefix_of_the_project_and_are_redacted(tmp_path: Path) -> None:
    folder = project_with_conventions(tmp_path, "ids: {key: zoo_}\n")
    with serving(replace(FROZEN, project=folder)) as server, server.client() as client:
        key = client.post("/sandbox/workspaces", json={}).json()["data"]["key"]
        assert key.startswith("zoo_")
        client.get(f"/v1/thing?note={key}")
        with server.client(key) as own:
            assert own.get("/sandbox/clock").status_code == 200
        (entry,) = client.get("/sandbox/requests").json()["data"]
        assert entry["path"] == "/v1/thing?note=[redacted]"


def test_a_project_without_conventions_warns_once(tmp_path: Path) -> None:
    folder = write_project(tmp_path, "")
    assert not any("conventions" in line for line in load_project(folder).warnings)
    (folder / "conventions.yaml").unlink()
    (line,) = [one for one in load_project(folder).warnings if "conventions" in one]
    assert "no conventions.yaml" in line
    assert "no envelope" in line
    assert "access: any" in line
