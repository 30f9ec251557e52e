"""A fuzzing run: start a server with two workspaces, and run Schemathesis on it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.control.client import ControlClient, SandboxError
from invoice_sandbox.openapi.security import carried
from invoice_sandbox.testing.server import Options, StartedServer, serving

KEYS_VARIABLE: Final = "INVOICE_SANDBOX_FUZZ_KEYS"
"""Environment variable with the keys of the workspaces, with spaces between them."""

API: Final = "/openapi.json"
CONTROL_API: Final = "/sandbox/openapi.json"

_MISSING: Final = "fuzzing needs Schemathesis; install it with: pip install 'schemathesis>=4.32,<5'"
_DEFAULTS: Final = (
    "--seed=7",
    "--max-examples=30",
    "--mode=all",
    "--continue-on-failure",
    # The hooks restore the workspace before each request.
    "--workers=1",
    "--generation-database=none",
    # A generated X-API-Key beside our own key is a second, different credential: 401 is correct.
    # The check ignored_auth tries every scheme without a credential and with a wrong one anyway.
    "--generation-with-security-parameters=false",
    # The speed of the machine is not under test.
    "--suppress-health-check=too_slow",
    # The key is a throw-away one, and a masked curl command cannot be run.
    "--output-sanitize=false",
)
"""Options of every run, which the user's arguments may replace."""


_SHARED: Final = "x-fuzz-shared"
_NOBODYS: Final = """[[operations]]
include-operation-id = {}
checks.object_level_authorization.enabled = false
"""
"""In the configuration: records that all users have alike belong to none of them."""


def fuzz(options: Options, contract: str, arguments: Sequence[str]) -> int:
    """Start a server, fuzz the contract at that path of it, and return the exit status of
    Schemathesis. Raises SandboxError."""
    if find_spec("schemathesis") is None:
        raise SandboxError(_MISSING)
    with serving(options) as server, tempfile.TemporaryDirectory() as folder:
        workspaces = [_workspace(server, seed) for seed in (1, 2)]
        config = _configured(Path(folder), workspaces, contract)
        status = _schemathesis(config, server.url + contract, workspaces, arguments)
        if isinstance(server, StartedServer):
            for record in server.log():
                sys.stderr.write(f"{record}\n")
    return status


def _workspace(server: ControlClient, seed: int) -> ControlClient:
    made = server.ask("POST", "/workspaces", {"seed": seed, "clock": "frozen"})
    return ControlClient(server.url, made["key"])


def _configured(folder: Path, workspaces: Sequence[ControlClient], contract: str) -> Path:
    """Write the configuration of Schemathesis: a user of each workspace, and none may read the data
    of another. All checks, and no cache, which would influence the next run."""
    names = [f"workspace-{number}" for number, _ in enumerate(workspaces, 1)]
    users = [
        {"name": name, "fixedHeaders": _headers(workspace, contract)}
        for name, workspace in zip(names, workspaces, strict=True)
    ]
    (folder / "users.json").write_text(json.dumps({"auth": users}))
    config = folder / "schemathesis.toml"
    path = json.dumps(str(folder / "users.json"))
    shared = _shared(workspaces[0].whole("GET", contract))
    config.write_text(
        "[cache]\nenabled = false\n[checks]\nenabled = true\n"
        f"[auth.wfc]\npath = {path}\npeers = {json.dumps(names)}\n"
        + "".join(map(_NOBODYS.format, map(json.dumps, shared)))
    )
    return config


def _shared(contract: Mapping[str, Any]) -> list[str]:
    """Return the ids of operations whose records begin the same in every workspace."""
    operations = [entry for item in contract["paths"].values() for entry in item.values()]
    marked = [entry for entry in operations if isinstance(entry, dict) and _SHARED in entry]
    return [operation["operationId"] for operation in marked]


def _headers(workspace: ControlClient, contract: str) -> list[Mapping[str, str]]:
    """Return the headers that carry the key to the operations of the contract."""
    own = carried((), workspace.key or "") if contract == CONTROL_API else workspace.credentials
    return [{"name": name, "value": value} for name, value in own.headers.items()]


def _schemathesis(
    config: Path, location: str, workspaces: Sequence[ControlClient], arguments: Sequence[str]
) -> int:
    url = workspaces[0].url
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"]
    # The origin, because a contract may name servers that are not ours to fuzz.
    command += [location, f"--origin={url}", *_DEFAULTS, *arguments]
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "invoice_sandbox.fuzzing.hooks",
        "INVOICE_SANDBOX_URL": url,
        "HYPOTHESIS_STORAGE_DIRECTORY": str(config.parent),
        KEYS_VARIABLE: " ".join(workspace.key or "" for workspace in workspaces),
    }
    with subprocess.Popen(command, env=environment) as process:  # noqa: S603 - the user's own
        try:
            return process.wait()
        finally:
            process.terminate()
