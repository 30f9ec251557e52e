"""Clients that code generators make from both served contracts, and what linters report of them.

``python -m tests.generators`` is a part of ``make interop``; ``--bounded`` makes the clients in
Python only, which needs no packages from npm. openapi-python-client has tests of its own, in
``tests/test_generated_client.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
import httpx

from tests.clients.page import PAGE
from tests.interop.checks import PATIENCE, Check
from tests.interop.node import needed_node, run
from tests.webhook_docs import serving

HERE: Final = Path(__file__).parent
CONTRACTS: Final = {"API": "/openapi.json", "control API": "/sandbox/openapi.json"}

_BIN: Final = Path(sys.executable).parent
_SECONDS: Final = 120
_FIRST_BUILD: Final = 600
"""Seconds for a compiler that has not built its own library yet."""

_IMPORTS: Final = """
import importlib, pkgutil, openapi_client
names = [found.name for found in pkgutil.walk_packages(openapi_client.__path__, "openapi_client.")]
for name in names:
    if not name.endswith(".webhook_events_api"):  # the generator cannot read parameters of webhooks
        importlib.import_module(name)
print(len(names), "modules")
"""


@dataclass(frozen=True)
class Contract:
    """A served contract as a file, and the folder in which clients of it are made."""

    name: str
    file: Path

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.file.parent


def python(contract: Contract) -> str:
    """openapi-generator, python: every module can be imported"""
    _openapi_generator(contract, "python", "client")
    command: list[str | Path] = [sys.executable, "-W", "error::SyntaxWarning", "-c", _IMPORTS]
    return run(command, contract.folder / "client", seconds=_SECONDS).strip()


def go(contract: Contract) -> str:
    """openapi-generator, go: the package compiles"""
    _openapi_generator(contract, "go", "go", "--additional-properties", "enumClassPrefix=true")
    shutil.rmtree(contract.folder / "go" / "test")  # needs packages from the internet
    offline = {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
    done = subprocess.run(
        [_BIN / "go", "build", "./..."],
        cwd=contract.folder / "go",
        env=os.environ | offline,
        check=False,
        capture_output=True,
        text=True,
        timeout=_FIRST_BUILD,
    )
    assert done.returncode == 0, done.stderr
    return f"{len(list((contract.folder / 'go').glob('*.go')))} files"


def axios(contract: Contract) -> str:
    """openapi-generator, typescript-axios: strict type checks pass"""
    _openapi_generator(contract, "typescript-axios", "axios")
    return _type_checked(contract.folder / "axios")


def hey_api(contract: Contract) -> str:
    """hey-api: strict type checks pass"""
    run([*_npm("openapi-ts"), "-i", contract.file, "-o", "hey"], contract.folder, seconds=_SECONDS)
    return _type_checked(contract.folder / "hey")


def orval(contract: Contract) -> str:
    """orval: strict type checks pass"""
    command = [*_npm("orval"), "--input", contract.file, "--output", "orval/client.ts"]
    run([*command, "--client", "fetch"], contract.folder, seconds=_SECONDS)
    return _type_checked(contract.folder / "orval")


def redocly(contract: Contract) -> str:
    """Redocly: no error, and docs/clients.md has the reason of every warning"""
    command = [*_npm("redocly"), "lint", "--format=json", "--max-problems=1000", contract.file]
    problems = json.loads(_printed(command, contract.folder))["problems"]
    return _explained((item["ruleId"], item["severity"] == "error") for item in problems)


def spectral(contract: Contract) -> str:
    """Spectral: no error, and docs/clients.md has the reason of every warning"""
    (contract.folder / ".spectral.yaml").write_text('extends: ["spectral:oas"]\n')
    command = [*_npm("spectral"), "lint", "--quiet", "--format", "json", contract.file]
    problems = json.loads(_printed(command, contract.folder))
    return _explained((item["code"], item["severity"] == 0) for item in problems)


def _openapi_generator(contract: Contract, generator: str, output: str, *options: str) -> None:
    program = _BIN / "openapi-generator-cli"
    command: list[str | Path] = [program, "generate", "-i", contract.file, "-g", generator]
    run([*command, "-o", output, *options], contract.folder, seconds=_SECONDS)


def _npm(name: str) -> list[str | Path]:
    return [needed_node(), HERE / "node_modules" / ".bin" / name]


def _type_checked(folder: Path) -> str:
    """Check the types of the client in ``folder``, and return its size."""
    shutil.copy(HERE / "tsconfig.json", folder)
    run([*_npm("tsc"), "--project", folder], folder, seconds=_SECONDS)
    return f"{sum(file.read_text().count(chr(10)) for file in folder.rglob('*.ts'))} lines"


def _printed(command: list[str | Path], folder: Path) -> str:
    """The output of a linter, which ends with another status if it finds something."""
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, timeout=_SECONDS
    )
    return done.stdout


def _explained(problems: Iterator[tuple[str, bool]]) -> str:
    """Count the problems by their rule. AssertionError if one is an error, or has no reason."""
    counts: dict[str, int] = {}
    for rule, is_error in problems:
        assert not is_error, rule
        counts[rule] = counts.get(rule, 0) + 1
    page = PAGE.read_text()
    unknown = [rule for rule in counts if f"`{rule}`" not in page]
    assert not unknown, f"without a reason in docs/clients.md: {unknown}"
    return ", ".join(f"{count} {rule}" for rule, count in sorted(counts.items())) or "nothing"


def _checks(contract: Contract, *, bounded: bool) -> Iterator[Check]:
    (contract.folder / "node_modules").symlink_to(HERE / "node_modules")
    looks = (python,) if bounded else (python, go, axios, hey_api, orval, redocly, spectral)
    for look in looks:
        yield Check(f"{contract.name}: {look.__doc__}.", partial(look, contract))


@click.command()
@click.option("--bounded", is_flag=True, help="The clients in Python only.")
def main(bounded: bool) -> None:
    """Make every check; status 1 unless all have passed."""
    passed = []
    with TemporaryDirectory() as name, serving() as url:
        for number, (title, path) in enumerate(CONTRACTS.items()):
            file = Path(name) / str(number) / "openapi.json"
            file.parent.mkdir()
            file.write_bytes(httpx.get(url + path, timeout=PATIENCE).raise_for_status().content)
            contract = Contract(title, file)
            passed += [item.is_passed() for item in _checks(contract, bounded=bounded)]
    click.echo(f"{passed.count(True)} of {len(passed)} checks passed")
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
