"""What ``pip install`` gives: the wheel alone, outside of any checkout, is a working sandbox."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.test_cli import ROOT, started

FOLDERS = ("openapi", "handlers", "fixtures", "scenarios")


@dataclass(frozen=True)
class Installed:
    """A wheel, and the empty environment it was installed into."""

    wheel: Path
    venv: Path

    @property
    def command(self) -> Path:
        """The console script."""
        return self.venv / "bin" / "invoice-sandbox"

    @property
    def site_packages(self) -> Path:
        """Where pip puts what it installs."""
        return next(self.venv.glob("lib/python*/site-packages"))

    @property
    def files(self) -> list[str]:
        """The names in the wheel, without its metadata."""
        with zipfile.ZipFile(self.wheel) as archive:
            return [name for name in archive.namelist() if ".dist-info/" not in name]


def run(*command: str | Path) -> None:
    """Run a command that must succeed; what it says is shown only when it does not."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of this checkout, installed with the versions of constraints.txt."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", ROOT)
    (wheel,) = (folder / "dist").iterdir()
    run(sys.executable, "-m", "venv", folder / "venv")
    pip = (folder / "venv" / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "-c", ROOT / "constraints.txt", wheel)
    return Installed(wheel, folder / "venv")


def test_an_installed_sandbox_registers_an_invoice(installed: Installed, tmp_path: Path) -> None:
    invoice = {
        "sellerId": "org_seller_acme",
        "debtorId": "org_debtor_globex",
        "invoiceNumber": "INV-1",
        "amount": 100.5,
        "currency": "EUR",
    }
    command = (installed.command, "serve", "--port", "0")
    with started(command, cwd=tmp_path, PYTHONPATH="") as server, server.client() as client:
        created = client.post("/api/invoices", json=invoice)
        assert created.status_code == 201
        assert client.get(f"/api/invoices/{created.json()['data']['id']}").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(4) == 0


def test_an_installed_sandbox_prints_the_contract(installed: Installed) -> None:
    for arguments in (["--base"], ["--assumptions"], ["--check", ROOT / "openapi/openapi.yaml"]):
        run(installed.command, "contract", *arguments)


def test_the_project_is_inside_the_package(installed: Installed) -> None:
    project = installed.site_packages / "invoice_sandbox" / "project"
    assert sorted(folder.name for folder in project.iterdir()) == sorted(FOLDERS)
    for folder in FOLDERS:
        tracked = {
            file.name for file in (ROOT / folder).iterdir() if file.suffix in {".py", ".yaml"}
        }
        assert tracked <= {file.name for file in (project / folder).iterdir()}


def test_nothing_else_lands_at_the_top_level(installed: Installed) -> None:
    assert {name.split("/")[0] for name in installed.files} == {"invoice_sandbox"}
    present = {entry.name for entry in installed.site_packages.iterdir()}
    assert present.isdisjoint({*FOLDERS, "tests", "docs", "project"})


def test_the_wheel_holds_sources_and_no_left_overs(installed: Installed) -> None:
    left_over = re.compile(
        r"__pycache__|\.py[co]$|~$|\.(swp|orig|rej|log|tmp|db)$|/\.[^/]*$|/tests?/"
    )
    assert not [name for name in installed.files if left_over.search(name)]


def test_the_wheel_carries_its_licence(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as archive:
        assert [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]
