"""Whether openapi-typescript makes types that openapi-fetch works with, from both contracts.

``flow.ts`` is type-checked as strictly as TypeScript can, and run by Node.js as it is.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import httpx

from tests.interop.checks import PATIENCE, Check, new_key, rule_of
from tests.interop.node import HERE, MODULES, needed_node, program, run

CONTRACTS: Final = {"api.d.ts": "/openapi.json", "levers.d.ts": "/sandbox/openapi.json"}
_METHODS: Final = frozenset({"get", "put", "post", "delete", "patch"})
_COMPILING: Final = 60

Operation = tuple[str, str]
"""Method, in capitals, and path, as the contract has it."""


@dataclass(frozen=True)
class Response:
    """What an operation returned; ``violations`` is what a validating proxy said."""

    operation: Operation
    status: int
    violations: str | None

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


def operations(url: str) -> dict[Operation, set[int]]:
    """The operations of the API at ``url``, and the statuses that each declares."""
    paths = httpx.get(f"{url}/openapi.json", timeout=PATIENCE).json()["paths"]
    return {
        (method.upper(), path): {int(status) for status in operation["responses"]}
        for path, item in paths.items()
        for method, operation in item.items()
        if method in _METHODS
    }


def walk(folder: Path, api: str, sandbox: str) -> list[Response]:
    """Run the flow in a new workspace of ``sandbox``, asking the API at ``api``."""
    command: list[str | Path] = [needed_node(), "flow.ts", api, sandbox, new_key(sandbox)]
    reported = [json.loads(line) for line in run(command, folder, seconds=PATIENCE).splitlines()]
    return [
        Response((one["method"], one["path"]), one["status"], one["violations"]) for one in reported
    ]


def makes_types(url: str, folder: Path) -> str:
    """The types of both contracts are made, without a warning."""
    lines = 0
    for file, path in CONTRACTS.items():
        options = ["--default-non-nullable=false", "-o", file]
        command = [*program("openapi-typescript"), f"{url}{path}", *options]
        reported = run(command, folder, seconds=PATIENCE)
        assert "warn" not in reported.lower(), reported
        lines += (folder / file).read_text().count("\n")
    return f"{lines} lines"


def type_checks(folder: Path) -> str:
    """The flow is type-checked strictly, and what is not in the contract is a type error."""
    run(program("tsc"), folder, seconds=_COMPILING)
    wrong = (folder / "flow.ts").read_text().count("@ts-expect-error")
    assert wrong, "no type error is expected"
    return f"{wrong} type errors found where they are"


def walks(url: str, folder: Path) -> str:
    """The flow succeeds with every operation of the API."""
    responses = walk(folder, url, url)
    asked = {one.operation for one in responses if one.is_success}
    assert asked == operations(url).keys(), operations(url).keys() ^ asked
    return f"{len(responses)} answers of {len(asked)} operations"


def checks(url: str, folder: Path) -> list[Check]:
    """All of them, in their order; each needs what came before. ``folder`` is filled by them."""
    for file in ("flow.ts", "reference.ts", "tsconfig.json", "package.json"):
        shutil.copy(HERE / file, folder)
    (folder / "node_modules").symlink_to(MODULES)
    return [
        Check(rule_of(makes_types), partial(makes_types, url, folder)),
        Check(rule_of(type_checks), partial(type_checks, folder)),
        Check(rule_of(walks), partial(walks, url, folder)),
    ]
