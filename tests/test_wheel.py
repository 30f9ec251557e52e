"""What ``pip install`` gives: the wheel alone, outside of any checkout, is a working sandbox."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, PackagePath, distribution, distributions
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement

from invoice_sandbox import __version__
from tests.test_cli import ROOT, started
from tests.testing_docs import environment, output

pytestmark = pytest.mark.process

NAME = "invoice-liquidity-sandbox"
FOLDERS = ("openapi", "handlers", "domain", "fixtures", "scenarios", "acceptance")


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
    def bin(self) -> Path:
        """Where its commands are."""
        return self.venv / "bin"

    @property
    def site_packages(self) -> Path:
        """Where pip puts what it installs."""
        return next(self.venv.glob("lib/python*/site-packages"))

    @property
    def files(self) -> list[str]:
        """The names in the wheel, without its metadata."""
        with zipfile.ZipFile(self.wheel) as archive:
            return [name for name in archive.namelist() if ".dist-info/" not in name]


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a command that must succeed; what it says is shown only when it does not."""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=cwd
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def needed(requirements: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that satisfy ``requirements``, and what these require in turn."""
    found: dict[str, Distribution] = {}
    waiting = [Requirement(one) for one in requirements]
    while waiting:
        wanted = waiting.pop()
        if str(wanted) in found or not applies(wanted):
            continue
        found[str(wanted)] = distribution(wanted.name)
        for text in found[str(wanted)].requires or ():
            required = Requirement(text)
            if any(applies(required, extra) for extra in wanted.extras or {""}):
                required.marker = None
                waiting.append(required)
    return found


def applies(requirement: Requirement, extra: str = "") -> bool:
    """Whether a requirement holds here."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def copy(files: Iterable[PackagePath], folder: Path) -> None:
    """Copy what pip has installed here to another site-packages, compiled as it is."""
    for file in files:
        source, target = Path(file.locate()), folder / file
        if ".." not in file.parts and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of this checkout, with pip, and what the wheel requires, as it is installed here:
    the same versions, without the seconds that pip takes to choose them."""
    return environment_of(ROOT, tmp_path_factory.mktemp("wheel"))


def environment_of(source: Path, folder: Path) -> Installed:
    """A wheel and its environment, both made in ``folder``."""
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist")
    run(*build, cwd=source)
    (wheel,) = (folder / "dist").iterdir()
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    pip = (sys.executable, "-m", "pip", "--python", folder / "venv", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-compile", "--no-deps", wheel)
    done = Installed(wheel, folder / "venv")
    (itself,) = distributions(path=[str(done.site_packages)])
    for one in needed(["pip", *(itself.requires or ())]).values():
        copy(one.files or (), done.site_packages)
    run(*pip, "check")
    return done


def test_the_image_is_built_with_every_part_of_the_wheel() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    parts = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    copied = set((ROOT / "Dockerfile").read_text().split())
    allowed = set((ROOT / ".dockerignore").read_text().split())
    assert [one for one in parts if one not in copied or f"!{one}" not in allowed] == []


def test_the_wheel_has_the_site_of_the_docs(installed: Installed) -> None:
    for name in ("index", "errors", "internals/architecture"):
        assert f"invoice_sandbox/help/{name}.html" in installed.files


def test_nothing_else_lands_at_the_top_level(installed: Installed) -> None:
    assert {name.split("/")[0] for name in installed.files} == {"invoice_sandbox"}
    present = {entry.name for entry in installed.site_packages.iterdir()}
    assert present.isdisjoint({*FOLDERS, "tests", "docs", "shipped_project"})


def test_the_wheel_holds_sources_and_no_left_overs(installed: Installed) -> None:
    left_over = re.compile(
        r"__pycache__|\.py[co]$|~$|\.(swp|orig|rej|log|tmp|db)$|/\.[^/]*$|/tests?/"
    )
    assert not [name for name in installed.files if left_over.search(name)]


def test_the_wheel_carries_its_licence(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as archive:
        assert [name for name in archive.namelist() if name.endswith("licenses/LICENSE")]


LOCKS: Final = {
    "requirements.txt": ("project", "dependencies"),
    "requirements/build.txt": ("build-system", "requires"),
    "requirements/dev.txt": ("project", "optional-dependencies", "dev"),
    "requirements/interop.txt": ("project", "optional-dependencies", "interop"),
    "requirements/generators.txt": ("project", "optional-dependencies", "generators"),
    "requirements/editable.txt": (),
    "requirements/bill.txt": (),
}
"""The files that make and the image install from, and where pyproject.toml says what is wanted."""


@pytest.mark.parametrize("name", LOCKS)
def test_every_library_is_pinned_with_hashes(name: str) -> None:
    text = (ROOT / name).read_text()
    locked = {block.split()[0]: block for block in re.split(r"\n(?=\w)", text)}
    assert all(re.search("--hash=sha256:[0-9a-f]{64}", block) for block in locked.values())
    names = {_plain_pin(one).partition("==")[0] for one in locked}
    wanted: Any = tomllib.loads((ROOT / "pyproject.toml").read_text()) if LOCKS[name] else []
    for key in LOCKS[name]:
        wanted = wanted[key]
    assert {_plain_pin(re.split(r"[\[<>=;]", one)[0]) for one in wanted} - names <= {NAME}


def test_the_locks_and_constraints_agree_about_every_version() -> None:
    pinned: dict[str, set[str]] = {}
    for name in {*LOCKS, "constraints.txt"} - {"requirements/bill.txt"}:
        for pin in re.findall(r"^\S+==\S+", (ROOT / name).read_text(), re.MULTILINE):
            library, _, version = _plain_pin(pin).partition("==")
            pinned.setdefault(library, set()).add(version)
    assert {name: found for name, found in pinned.items() if len(found) > 1} == {}


def _plain_pin(pin: str) -> str:
    return re.sub("[-_.]+", "-", pin.partition("==")[0]).lower() + "".join(pin.partition("==")[1:])


# --- types

TYPED_HANDLER = """
from invoice_sandbox.project.api import Call, Response, reject

def create_note(call: Call) -> Response:
    if not isinstance(call.body, dict):
        raise reject("invalid_request")
    note = {"id": call.new_id("note"), **call.body}
    call.state.put("notes", note["id"], note)
    return Response(note, status=201)

def get_note(call: Call) -> Response:
    return Response(call.state.get("notes", 7))  # type: ignore[arg-type]
"""
TYPED_TEST = """
from invoice_sandbox.testing import InvoiceSandbox

def test_offers(invoice_sandbox: InvoiceSandbox) -> None:
    new = invoice_sandbox.client.post("/api/invoices", json={"amount": 900})
    with invoice_sandbox.snapshot():
        invoice_sandbox.advance("P3D")
    event = invoice_sandbox.webhooks.expect("offer.received", invoiceId=new.json()["data"]["id"])
    assert event["type"] and new.status_code == 201
    invoice_sandbox.advance(3)  # type: ignore[arg-type]
"""


@pytest.mark.slow
def test_a_handler_and_a_test_pass_strict_type_checks(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "handler.py").write_text(TYPED_HANDLER)
    (tmp_path / "test_offers.py").write_text(TYPED_TEST)
    python = f"--python-executable={installed.bin / 'python'}"
    run(sys.executable, "-m", "mypy", "--strict", python, ".", cwd=tmp_path)


# --- the client alone

TEST_OF_A_CLIENT = """
def test_offers(invoice_sandbox):
    invoice = dict(sellerId="org_seller_acme", debtorId="org_debtor_globex", invoiceNumber="1")
    invoice |= dict(amount=900, currency="EUR")
    new = invoice_sandbox.client.post("/api/invoices", json=invoice)
    with invoice_sandbox.snapshot():
        invoice_sandbox.advance("P3D")
        invoice_sandbox.webhooks.expect("offer.received", invoiceId=new.json()["data"]["id"])
    assert [one["status"] for one in invoice_sandbox.requests] == [201]

def test_failure(invoice_sandbox):
    invoice_sandbox.fault("listOffers", "status", status=503)
    assert invoice_sandbox.client.get("/api/offers").status_code == 200
"""


@pytest.fixture(scope="module")
def thin(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """An environment with the wheel of the client and what it requires."""
    folder = tmp_path_factory.mktemp("thin")
    return environment_of(ROOT / "clients" / "python", folder)


def test_a_client_needs_certificates_httpx2_and_pytest_only(
    installed: Installed, thin: Installed, tmp_path: Path
) -> None:
    (tmp_path / "test_client.py").write_text(TEST_OF_A_CLIENT)
    options = "-q -W error --sandbox-coverage"
    options += " --sandbox-bundles bundles"
    serve = (installed.command, "serve", "--port", "0")
    with started(serve, cwd=tmp_path, PYTHONPATH="") as server:
        env = environment(thin.bin) | {"INVOICE_SANDBOX_URL": server.url}
        printed = output(f"python -m pytest {options} test_client.py", tmp_path, env)
    assert "1 failed, 1 passed in" in printed
    assert "GET /api/offers 503 listOffers (auto-progress)" in printed
    assert "= coverage of the invoice sandbox =" in printed
    assert (tmp_path / "bundles" / "test_client.py-test_failure.zip").stat().st_size > 10_000


def test_the_client_is_the_same_version_and_contains_no_server(
    installed: Installed, thin: Installed
) -> None:
    (client,) = [
        one for one in distributions(path=[str(thin.site_packages)]) if one.name == f"{NAME}-client"
    ]
    assert client.version == __version__
    names = ["certifi>=2025.1.31", "httpx2<3,>=2.12", "pytest<10,>=8.4"]
    assert sorted(client.requires or ()) == names
    assert set(thin.files) < set(installed.files)
    assert "invoice_sandbox/py.typed" in thin.files
    assert not [name for name in thin.files if re.search("/(http|server|cli)/", name)]
    contracts = {name for name in thin.files if "/openapi/" in name}
    assert contracts == {f"invoice_sandbox/openapi/{one}.py" for one in ("__init__", "security")}
    assert len(list(distributions(path=[str(thin.site_packages)]))) < 20
