"""A client that openapi-python-client generates from a running server, ready to be imported."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

CONFIG: Final = {
    "post_hooks": [],  # nobody reads it, so nothing has to format it
    "content_type_overrides": {
        "application/pdf": "application/octet-stream",
        "application/xml": "application/octet-stream",
        "image/png": "application/octet-stream",
        "image/jpeg": "application/octet-stream",
    },
}
"""The generator knows one media type of files, so it gets these as the same."""


class GenerationError(Exception):
    """The generator warned or failed; the message is what it printed."""


@dataclass(frozen=True)
class Generated:
    """An imported client package, and which of its operations were asked."""

    package: str
    url: str
    folder: Path
    asked: set[str] = field(default_factory=set)

    @property
    def operations(self) -> set[str]:
        """The operations that it has, in snake case."""
        return {file.stem for file in self.folder.glob("api/*/*.py")} - {"__init__"}

    def connection(self, key: str | None) -> Any:
        """Its own client, which raises when a status is not declared."""
        module = importlib.import_module(self.package)
        given: dict[str, Any] = {"base_url": self.url, "raise_on_unexpected_status": True}
        if key is None:
            return module.Client(**given)
        return module.AuthenticatedClient(token=key, **given)

    @property
    def types(self) -> Any:
        """Its module of types that are no schemas, such as files."""
        return importlib.import_module(f"{self.package}.types")

    def model(self, name: str) -> Any:
        """The class of a schema."""
        return getattr(importlib.import_module(f"{self.package}.models"), name)

    def module(self, operation: str) -> Any:
        """The module of an operation."""
        (file,) = self.folder.glob(f"api/*/{operation}.py")
        return importlib.import_module(f"{self.package}.api.{file.parent.name}.{operation}")

    def call(self, operation: str, connection: Any, /, **arguments: Any) -> Any:
        """Ask an operation; the response has its status, and the body as a model."""
        module = self.module(operation)
        self.asked.add(operation)
        return module.sync_detailed(client=connection, **arguments)


@contextmanager
def generated(contract: str | Path, url: str, folder: Path, package: str) -> Iterator[Generated]:
    """Generate a package from a contract, for the API at ``url``, to be imported until the end.

    ``contract`` is a file or an address. Raises GenerationError if the generator leaves out
    anything.
    """
    config = folder / f"{package}.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    _run_generator(contract, config, folder / package)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield Generated(package, url, folder / package)
    finally:
        sys.path.remove(str(folder))
        for name in [one for one in sys.modules if one.partition(".")[0] == package]:
            del sys.modules[name]


def _run_generator(contract: str | Path, config: Path, output: Path) -> None:
    command: list[str | Path] = [
        Path(sys.executable).parent / "openapi-python-client",
        "generate",
        *("--path" if isinstance(contract, Path) else "--url", contract),
        *("--config", config),
        *("--output-path", output),
        *("--meta", "none"),
        "--fail-on-warning",
    ]
    done = subprocess.run(
        command,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    # All that a run without a warning says is its first line.
    if done.returncode or done.stdout.strip().count("\n"):
        raise GenerationError(done.stdout)
