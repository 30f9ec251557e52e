"""The command line: help, one-line errors, the contract in its variants, and a real process."""

from __future__ import annotations

import copy
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import httpx
import pytest
from click.testing import CliRunner, Result

from invoice_sandbox import __version__
from invoice_sandbox.base.ids import key_problem, new_key
from invoice_sandbox.cli import main
from invoice_sandbox.openapi.load.documents import load_document, place_of
from invoice_sandbox.openapi.load.yaml_12 import parse_yaml
from invoice_sandbox.project.contracts import merged_document
from invoice_sandbox.project.loader import default_project
from invoice_sandbox.server.serving import MAX_FILES
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.attack.wire import Wire
from tests.scenario_run import INVOICE
from tests.support import PATIENCE

ROOT = Path(__file__).parents[1]
PUBLISHED = default_project() / "openapi" / "openapi.yaml"
OVERLAY = default_project() / "openapi" / "overlay.yaml"
Document = dict[str, Any]
Pointer = tuple[str | int, ...]


def run(*arguments: str | Path, env: Mapping[str, str] | None = None) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(main, [str(one) for one in arguments], env=env)


# --- help and version


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_help_explains_every_option_of_a_command(name: str) -> None:
    shown = run(name, "--help")
    assert shown.exit_code == 0
    command = main.get_command(click.Context(main), name)
    assert command is not None
    for option in command.params:
        if isinstance(option, click.Argument):
            assert option.make_metavar(click.Context(command)) in shown.output
            continue
        assert isinstance(option, click.Option)
        assert (option.opts[0] in shown.output) is not option.hidden
        assert option.help, f"{option.opts[0]} is not explained"


def test_help_shows_defaults_and_the_environment() -> None:
    shown = " ".join(run("serve", "--help").output.split())
    assert "Default: 127.0.0.1." in shown
    assert "Default: 8080." in shown
    assert "--rate-limit is INVOICE_SANDBOX_RATE_LIMIT" in shown


def test_help_has_the_first_sentence_of_every_command() -> None:
    shown = " ".join(run("--help").output.split())
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert f"{name} {command.get_short_help_str(60).removesuffix('...')}" in shown


def test_help_imports_nothing_that_serves() -> None:
    code = (
        "import sys; from invoice_sandbox.cli import main; main(['--help'], standalone_mode=False)"
    )
    code += "; sys.exit(bool({'connexion', 'httpx', 'uvicorn', 'schemathesis'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_the_commands(flag: str) -> None:
    shown = run(flag)
    assert shown.exit_code == 0
    assert all(name in shown.output for name in ("serve", "contract"))


def test_the_version_is_that_of_the_package() -> None:
    assert run("--version").output == f"invoice-sandbox, version {__version__}\n"


# --- misuse

MISUSED: dict[str, tuple[list[str], str]] = {
    "port": (["--port", "x"], "--port is a whole number from 0 to 65535, not 'x'"),
    "seed": (
        ["--seed", "-1"],
        "--seed is a whole number from 0 to 9223372036854775807, not '-1'",
    ),
    "clock": (["--clock", "slow"], "--clock must be 'live' or 'frozen', not 'slow'"),
    "now": (["--now", "2026-11-21T09:30:00Z"], "--now needs --clock frozen"),
    "public URL": (
        ["--public-url", "here"],
        "--public-url looks like https://sandbox.example:8443, not 'here'",
    ),
    "key": (["--key", "x"], "--key: a sandbox key begins with ilk_sandbox_"),
    "key with a typing error": (
        ["--key", "ilk_sandbox_CECB5EE8zUJG0vI1PtzJtiV8pgvVjP2NKDq7"],
        "are not the checksum of the thirty",
    ),
    "demo key beyond loopback": (
        ["--host", "192.0.2.1", "--key", DEMO_KEY],
        "--key: the demo key is public and works on loopback only",
    ),
    "rate limit": (["--rate-limit", "0"], "--rate-limit is a whole number from 1"),
    "store": (
        ["--store", "mysql://x"],
        "--store: 'mysql://x' is not understood; use 'memory', 'sqlite:///FILE' (",
    ),
    "log": (["--log", "all"], "--log must be 'requests' or 'json', not 'all'"),
    "folder of a store": (
        ["--port", "0", "--store", "sqlite:////no/such/state.db"],
        "--store: there is no folder '/no/such'",
    ),
    "project": (["--project", "nowhere"], "--project: there is no folder 'nowhere'"),
    "contract": (["--contract", "nowhere"], "--contract: there is no file 'nowhere'"),
    "project and contract": (
        ["--project", "x", "--contract", "y"],
        "--contract and --project cannot be used together",
    ),
    "scenario": (["--port", "0", "--scenario", "manul"], "did you mean manual?"),
    "a project without a contract": (
        ["--port", "0", "--project", str(ROOT / "tests")],
        "tests is no project; 'invoice-sandbox init DIR --contract FILE' creates one",
    ),
    "a contract that is none": (
        ["--port", "0", "--contract", str(OVERLAY)],
        ":1: not an OpenAPI document",
    ),
    "a host that is not of this machine": (
        ["--port", "0", "--host", "192.0.2.1"],
        "--host: cannot listen on ",
    ),
}


@pytest.mark.parametrize(
    ("arguments", "reason"), [pytest.param(*row, id=name) for name, row in MISUSED.items()]
)
def test_misuse_is_one_line_on_stderr_and_exit_status_2(arguments: list[str], reason: str) -> None:
    rejected = run("serve", *arguments)
    assert (rejected.exit_code, rejected.stdout) == (2, ""), rejected.exception
    assert reason in rejected.stderr
    assert rejected.stderr.startswith("Error: ")
    assert rejected.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--nope"], ["extra"], ["--port"]], ids=" ".join)
def test_what_is_no_option_is_misuse(arguments: list[str]) -> None:
    assert run("serve", *arguments).exit_code == 2


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        rejected = run("serve", "--port", str(port))
    assert rejected.exit_code == 2
    assert f"--port: cannot listen on 127.0.0.1:{port}: Address already in use" in rejected.stderr


def test_a_document_that_cannot_be_served_is_one_line_with_a_place(tmp_path: Path) -> None:
    file = tmp_path / "contract.yaml"
    file.write_text('openapi: 4.1.0\ninfo: {title: a, version: "1"}\npaths: {}\n')
    rejected = run("serve", "--port", "0", "--contract", file)
    assert rejected.exit_code == 2
    assert rejected.stderr.startswith(f"Error: {file}:1:1: OpenAPI 4.1.0 is not served")
    assert rejected.stderr.count("\n") == 1


def test_every_error_of_a_contract_is_a_line_and_no_server_starts(tmp_path: Path) -> None:
    file = tmp_path / "contract.yaml"
    head = "openapi: 3.1.0\ninfo: {title: a}\npaths:\n"
    file.write_text(f"{head}  /a: {{get: {{responses: 5}}}}\n  b: {{}}\n")
    rejected = run("serve", "--port", "0", "--contract", file)
    assert (rejected.exit_code, rejected.stderr.splitlines()) == (
        2,
        [
            f"Error: {file}: 3 errors",
            f'{file}:2:1: /info: "version" is a required property',
            f'{file}:4:14: /paths/~1a/get/responses: 5 is not of type "object"',
            f"{file}:5:3: /paths/b: a path begins with '/'",
        ],
    )


# --- the contract


@pytest.mark.slow
def test_yaml_and_json_say_the_same() -> None:
    as_yaml, as_json = run("contract"), run("contract", "--format", "json")
    assert parse_yaml(as_yaml.stdout, "yaml") == json.loads(as_json.stdout)
    assert json.loads(as_json.stdout) == merged_document(default_project())


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_base_is_the_published_document_alone(form: str) -> None:
    printed = run("contract", "--base", "--format", form)
    assert parse_yaml(printed.stdout, form) == load_document(PUBLISHED)


@pytest.mark.slow
def test_what_is_printed_is_a_contract_that_can_be_served(tmp_path: Path) -> None:
    (tmp_path / "openapi").mkdir()
    (tmp_path / "openapi" / "openapi.yaml").write_text(run("contract").stdout)
    again = run("contract", "--project", tmp_path)
    assert again.stdout == run("contract").stdout


def test_every_assumption_is_printed_whole() -> None:
    printed = run("contract", "--assumptions")
    expected = [
        "".join(action.get(key) or "-" for key in ("x-gap", "description", "target"))
        for action in load_document(OVERLAY)["actions"]
    ]
    rows = printed.stdout.splitlines()[1:]
    assert [re.sub(r"\s", "", row) for row in rows] == [re.sub(r"\s", "", one) for one in expected]


def project(folder: Path, published: str, overlay: str = "") -> Path:
    """A project folder with a contract and maybe an overlay."""
    (folder / "openapi").mkdir()
    (folder / "openapi" / "openapi.yaml").write_text(published)
    if overlay:
        (folder / "openapi" / "overlay.yaml").write_text(overlay)
    return folder


TOY = 'openapi: 3.1.0\ninfo: {title: Toy, version: "1"}\npaths: {}\n'


def test_a_project_without_an_overlay_makes_no_assumptions(tmp_path: Path) -> None:
    folder = project(tmp_path, TOY)
    printed = run("contract", "--project", folder, "--assumptions")
    assert (printed.exit_code, printed.stdout.count("\n")) == (0, 1)
    assert "makes no assumptions" in printed.stdout


@pytest.mark.parametrize("actions", ["[{update: {}}]", "7", "[1]", "{}"])
@pytest.mark.parametrize("option", ["--assumptions", "--format=yaml"])
def test_an_overlay_that_is_none_is_misuse(tmp_path: Path, option: str, actions: str) -> None:
    folder = project(tmp_path, TOY, f"overlay: 1.0.0\nactions: {actions}\n")
    rejected = run("contract", "--project", folder, option)
    assert rejected.exit_code == 2, rejected.exception
    assert f"{folder / 'openapi' / 'overlay.yaml'}:" in rejected.stderr


def test_an_integer_beyond_64_bits_is_printed_with_all_its_digits(tmp_path: Path) -> None:
    text = TOY + "components: {schemas: {A: {maximum: 123456789012345678901234567890}}}\n"
    printed = run("contract", "--project", project(tmp_path, text), "--format", "json")
    assert "123456789012345678901234567890" in printed.stdout


# --- another version of the contract


def member(document: Document, *pointer: str | int) -> Any:
    """What stands at ``pointer``."""
    found: Any = document
    for step in pointer:
        found = found[step]
    return found


INVOICES: Pointer = ("paths", "/api/invoices")
FIELDS: Pointer = ("components", "schemas", "InvoiceInput")
BODY: Pointer = (*INVOICES, "post", "requestBody")
JSON_BODY: Pointer = (*BODY, "content", "application/json")


def put(*path: Any) -> Callable[[Document], None]:
    """Set the member that all but the last argument name to the last one."""

    def change(document: Document) -> None:
        member(document, *path[:-2])[path[-2]] = copy.deepcopy(path[-1])

    return change


def drop(*path: str | int) -> Callable[[Document], None]:
    """Remove a member."""

    def change(document: Document) -> None:
        del member(document, *path[:-1])[path[-1]]

    return change


def each(*changes: Callable[[Document], None]) -> Callable[[Document], None]:
    """Several changes."""

    def change(document: Document) -> None:
        for one in changes:
            one(document)

    return change


def rename_path(document: Document) -> None:
    """``/api/audit-log`` becomes ``/api/audit``."""
    document["paths"]["/api/audit"] = document["paths"].pop("/api/audit-log")


@dataclass(frozen=True)
class Change:
    """What another version changes, the sentence for it, and the place it is found at."""

    change: Callable[[Document], None]
    sentence: str
    pointer: Pointer
    file: Path | None = None
    """The file of the place; None: the other version itself."""


PO = (*FIELDS, "properties", "poNumber")
BREAKS: dict[str, Change] = {
    "operation removed": Change(
        drop("paths", "/api/audit-log"),
        "operation listAuditEvents is gone",
        ("paths", "/api/audit-log", "get"),
        PUBLISHED,
    ),
    "path renamed": Change(
        rename_path,
        "listAuditEvents moved from GET /api/audit-log to GET /api/audit",
        ("paths", "/api/audit", "get"),
    ),
    "new required member": Change(
        each(
            put(*PO, {"type": "string"}),
            lambda document: member(document, *FIELDS, "required").append("poNumber"),
        ),
        "createInvoice, request body: required member poNumber is new",
        PO,
    ),
    "security changed": Change(
        put(*INVOICES, "get", "security", [{"bearerAuth": ["invoices:all"]}]),
        "listInvoices: who may call it changed (security)",
        (*INVOICES, "get"),
    ),
    "schema changed, so that a fixture no longer fits": Change(
        put("components", "schemas", "Invoice", "properties", "status", "enum", ["Verified"]),
        "status must be one of",
        ("records", 1),
        default_project() / "fixtures" / "invoices.yaml",
    ),
    "invalid example": Change(
        put(*JSON_BODY, "example", {"sellerId": 1}),
        "/requestBody/content/application~1json: example 'example': ",
        JSON_BODY,
    ),
}
CHANGES: dict[str, Change] = {
    "new operation": Change(
        put(
            *("paths", "/api/ping"),
            {"get": {"operationId": "ping", "responses": {"204": {"description": "pong"}}}},
        ),
        "operation ping is new: GET /api/ping",
        ("paths", "/api/ping", "get"),
    ),
}


def check(folder: Path, change: Callable[[Document], None]) -> tuple[Result, Path]:
    """Check a changed version of the published contract."""
    document = load_document(PUBLISHED)
    change(document)
    file = folder / "next.json"
    file.write_text(json.dumps(document, indent=1))
    return run("contract", "--check", file), file


def cases(table: Mapping[str, Change]) -> list[Any]:
    """The rows of a table as parameters."""
    return [pytest.param(row, id=name) for name, row in table.items()]


@pytest.mark.parametrize("row", cases(BREAKS))
@pytest.mark.slow
def test_what_breaks_is_said_with_its_place_and_exit_status_1(tmp_path: Path, row: Change) -> None:
    checked, file = check(tmp_path, row.change)
    place = place_of(row.file or file, row.pointer)
    lines = [line for line in checked.stdout.splitlines() if line.startswith(f"BREAKS   {place}  ")]
    assert row.sentence in "\n".join(lines), checked.stdout
    assert re.search(r":\d+:\d+$", place)
    assert checked.exit_code == 1


@pytest.mark.parametrize("row", cases(CHANGES))
@pytest.mark.slow
def test_what_breaks_nobody_is_listed_with_exit_status_0(tmp_path: Path, row: Change) -> None:
    checked, file = check(tmp_path, row.change)
    assert f"changes  {place_of(file, row.pointer)}  {row.sentence}" in checked.stdout
    assert "BREAKS" not in checked.stdout
    assert checked.stdout.endswith(" 0 of them breaking.\n")
    assert checked.exit_code == 0


def test_a_handler_without_its_operation_is_found(tmp_path: Path) -> None:
    checked, _ = check(tmp_path, put(*INVOICES, "get", "operationId", "listAllInvoices"))
    handlers = re.escape(str(default_project() / "handlers" / "invoices.py"))
    assert re.search(
        rf"BREAKS   {handlers}:\d+(:\d+)?  handler list_invoices has no operation any more",
        checked.stdout,
    )


def test_what_breaks_is_listed_before_what_only_changes(tmp_path: Path) -> None:
    checked, _ = check(tmp_path, each(CHANGES["new operation"].change, rename_path))
    marks = [line[:7] for line in checked.stdout.splitlines() if line[:7] in {"BREAKS ", "changes"}]
    assert set(marks) == {"BREAKS ", "changes"}
    assert marks == sorted(marks)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("swagger: '2.0'\n", "Swagger 2.0 is not served", id="Swagger"),
        pytest.param("a: [\n", "next.yaml:2:1", id="not YAML"),
        pytest.param("openapi: 3.1.0\n", "next.yaml:1:1", id="not valid"),
    ],
)
def test_a_file_that_is_no_contract_is_misuse(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "next.yaml"
    file.write_text(text)
    rejected = run("contract", "--check", file)
    assert rejected.exit_code == 2
    assert reason in rejected.stderr


# --- real processes

READY = re.compile(r"Invoice Liquidity Sandbox ready on (http://\S+:\d+) with key (\S+)\n")


@dataclass(frozen=True)
class Started:
    """A server process that said it is ready."""

    process: subprocess.Popen[str]
    url: str
    key: str

    def client(self) -> httpx.Client:
        """A client that sends the printed key."""
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.key}"}, timeout=PATIENCE
        )


@contextmanager
def started(command: Sequence[str | Path], cwd: Path = ROOT, **env: str) -> Iterator[Started]:
    """Start ``command``, wait for its ready line, and make sure that it has ended afterwards."""
    with subprocess.Popen(
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **env},
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert select.select([process.stdout], [], [], PATIENCE)[0], "no ready line"
            line = process.stdout.readline()
            match = READY.fullmatch(line)
            assert match, f"{line!r} is no ready line: {'' if line else process.stderr.read()}"
            yield Started(process, *match.groups())
        finally:
            process.kill()


SERVE = [sys.executable, "-m", "invoice_sandbox", "serve", "--port", "0"]


@pytest.mark.process
def test_a_server_says_once_that_it_is_ready_responds_ends_and_repeats_its_ids() -> None:
    """An idle keep-alive connection does not keep it from ending at once, with status 0. A warning
    would be an error."""
    command = [sys.executable, "-W", "error", *SERVE[1:]]
    url, first, out = id_and_rest(command, signal.SIGTERM)
    console, docs, api, control = (url + path for path in ("/console", "/docs", "", "/sandbox"))
    line, _, out = out.partition("\n")
    seed = re.fullmatch(r"Seed (\d+): --seed \1 gives the same ids again", line)
    assert seed
    assert out == f"Console at {console}, docs at {docs}\nAPI at {api}, control API at {control}\n"
    _, again, out = id_and_rest([*command, "--seed", seed[1]], signal.SIGHUP)
    assert (again, "Seed" in out) == (first, False)


def id_and_rest(command: Sequence[str], end: signal.Signals) -> tuple[str, str, str]:
    """The address of a server, the id of its first invoice, and what it prints after that."""
    with started(command) as server, server.client() as client:
        assert server.key == DEMO_KEY
        assert client.get("/api/health").status_code == 200
        made = client.post("/api/invoices", json=INVOICE).json()["data"]["id"]
        server.process.send_signal(end)
        assert server.process.wait(PATIENCE) == 0
        assert server.process.stdout is not None
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
        return server.url, made, server.process.stdout.read()  # all that readline() has buffered


@pytest.mark.process
def test_ctrl_c_again_and_again_ends_it_at_once_without_a_traceback() -> None:
    """Its settings come from the environment."""
    key = new_key()
    with started(SERVE, INVOICE_SANDBOX_KEY=key, INVOICE_SANDBOX_RATE_LIMIT="7") as server:
        assert server.key == key
        with server.client() as client:
            assert '"default";q=7;w=60' in client.get("/api/invoices").headers["RateLimit-Policy"]
        while server.process.poll() is None:
            server.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                server.process.wait(0.001)
        assert server.process.stderr is not None
        assert "Traceback" not in server.process.stderr.read()


@pytest.mark.process
def test_a_request_that_a_stop_cuts_off_gets_a_503_and_no_traceback() -> None:
    """The stop waits for it as long as docs/limits.md says; half of its body never arrives."""
    head = f"POST /api/invoices HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {DEMO_KEY}\r\n"
    with started(SERVE) as server, Wire(urlsplit(server.url).port or 0, PATIENCE) as wire:
        wire.send(f"{head}Expect: 100-continue\r\nContent-Length: 9\r\n\r\n".encode())
        assert wire.socket.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"  # it waits for the body
        server.process.send_signal(signal.SIGTERM)
        response = wire.response()
        assert (response.status, response.headers["connection"]) == (503, "close")
        assert json.loads(response.body)["error"]["code"] == "service_unavailable"
        _, err = server.process.communicate(timeout=PATIENCE)
        assert server.process.returncode == 0
        assert "Traceback" not in err


@pytest.mark.process
def test_a_request_under_way_is_carried_out_after_a_hang_up() -> None:
    body = json.dumps(INVOICE).encode()
    head = f"POST /api/invoices HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {DEMO_KEY}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    with started(SERVE) as server, Wire(urlsplit(server.url).port or 0, PATIENCE) as wire:
        wire.send(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert wire.socket.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        server.process.send_signal(signal.SIGHUP)
        wire.send(body)
        assert wire.response().status == 201
        assert server.process.wait(PATIENCE) == 0


@pytest.mark.process
def test_a_line_per_request_shows_no_secret_and_what_is_no_http_has_one_too() -> None:
    with started([*SERVE, "--log", "requests"]) as server, server.client() as client:
        client.get("/api/invoices", params={"api_key": "secret-of-mine"})
        client.get("/sandbox/clock")
        client.get("/api/offers", headers={"Authorization": "secret-of-mine"})
        client.post("/api/invoices", json={**INVOICE, "dueDat": "2026-12-01"})
        with Wire(urlsplit(server.url).port or 0, PATIENCE) as wire:
            wire.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # begins TLS
            response = wire.response()
        server.process.send_signal(signal.SIGTERM)
        _, err = server.process.communicate(timeout=PATIENCE)
    assert json.loads(response.body)["error"]["requestId"] in err.splitlines()[-1]
    lines = [re.sub(r"\d+ ms  req_sandbox_\w+", "TIME", line) for line in err.splitlines()]
    assert lines == [
        (
            "INFO GET  /api/invoices?api_key=[redacted]  200  listInvoices  TIME  "
            "undeclared query parameter 'api_key'"
        ),
        "INFO GET  /sandbox/clock  200  getClock  TIME",
        (
            "INFO GET  /api/offers  401  listOffers  TIME  authorization: [redacted]  "
            "The Authorization header has a credential without 'Bearer' before it. "
            "Send 'Authorization: Bearer <API_KEY>'."
        ),
        (
            "INFO POST  /api/invoices  201  createInvoice  TIME  "
            "undeclared member 'dueDat' (did you mean dueDate?)"
        ),
        (
            "INFO -  -  400  -  TIME  The request is not valid HTTP/1.1, or its method is not "
            "known here. Check the method, and the client's framing."
        ),
    ]


@pytest.mark.process
@pytest.mark.parametrize("is_given", [True, False])
def test_a_log_of_json_objects_has_no_key_that_was_given(is_given: bool) -> None:
    key = new_key()
    command = [*SERVE, "--log", "json", "--host", "0.0.0.0"]  # noqa: S104
    with subprocess.Popen(
        [*command, *(["--key", key] if is_given else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stderr is not None
        ready = json.loads(server.stderr.readline())
        port = ready["url"].rpartition(":")[2]
        used = key if is_given else ready["key"]
        headers = {"Authorization": f"Bearer {used}"}
        once: dict[str, Any] = {"trust_env": False, "timeout": PATIENCE}
        url = f"http://127.0.0.1:{port}/api/invoices"
        httpx.get(url, headers=headers, **once)
        httpx.get(f"{url}?key={used}x", **once)
        httpx.post(url, json={**INVOICE, "dueDat": "2026-12-01"}, headers=headers, **once)
        server.send_signal(signal.SIGTERM)
        out, err = server.communicate(timeout=PATIENCE)
    assert (ready["level"], ready["message"], out) == ("INFO", "ready", "")
    assert isinstance(ready["seed"], int)
    places = {"console": "/console", "docs": "/docs", "api": "", "controlApi": "/sandbox"}
    assert {name: ready[name].removeprefix(ready["url"]) for name in places} == places
    lines = [json.loads(line) for line in err.splitlines()]
    assert [line["status"] for line in lines] == [200, 401, 201]
    hint = "undeclared member 'dueDat' (did you mean dueDate?)"
    assert [line.get("hints") for line in lines] == [None, None, [hint]]
    assert ["No credential was sent" in line.get("reason", "") for line in lines] == [0, 1, 0]
    assert used not in err
    assert is_given is ("key" not in ready)


def test_a_key_can_be_made_for_a_server() -> None:
    made = {CliRunner().invoke(main, ["key"]).stdout for _ in range(2)}
    assert len(made) == 2
    assert {key_problem(one.removesuffix("\n")) for one in made} == {None}


@pytest.mark.process
def test_beyond_loopback_a_random_key_is_printed_and_the_demo_key_opens_nothing() -> None:
    with started([*SERVE, "--host", "0.0.0.0"]) as server:  # noqa: S104
        assert key_problem(server.key) is None
        assert server.key != DEMO_KEY
        url = server.url.replace("0.0.0.0", "127.0.0.1") + "/api/invoices"  # noqa: S104
        statuses = [
            httpx.get(url, headers={"X-API-Key": key}, timeout=PATIENCE).status_code
            for key in (server.key, DEMO_KEY)
        ]
        assert statuses == [200, 401]
        assert server.process.stdout is not None
        for line in [server.process.stdout.readline() for _ in range(3)]:
            assert re.fullmatch(r"Log in as \S+@demo.example with password \S{22}\n", line)


@pytest.mark.process
def test_a_contract_alone_is_served_with_as_many_files_as_the_system_lets_it_open(
    tmp_path: Path,
) -> None:
    file = tmp_path / "contract.yaml"
    file.write_text(
        TOY.replace("paths: {}", "paths: {/ping: {get: {responses: {'204': {description: pong}}}}}")
    )
    few = ["sh", "-c", 'ulimit -Sn 256; exec "$@"', "sh"]
    with started([*few, *SERVE, "--contract", file]) as server, server.client() as client:
        assert client.get("/ping").status_code == 204
        limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    found = re.search(r"Max open files +(\d+) +(\w+)", limits)
    assert found, limits
    hard = MAX_FILES if found[2] == "unlimited" else int(found[2])
    assert int(found[1]) == min(hard, MAX_FILES)


@pytest.mark.process
def test_the_contract_is_printed_without_a_single_warning() -> None:
    code = "import sys; from invoice_sandbox.cli import main\nfor option in sys.argv[1:]:"
    code += " main(['contract', option], standalone_mode=False)"
    options = ["--base", "--assumptions", "--format=json"]
    command = [sys.executable, "-W", "error", "-c", code, *options]
    done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, b"")
