"""The Dockerfile and the files in ``deploy/``: what tools say, and the image's commands, run.

No container engine is needed: the commands of the Dockerfile make a virtual environment, and its
server runs on a root file system that cannot be written, as a user without rights.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx

from invoice_sandbox.base.ids import new_key
from tests.interop.checks import PATIENCE, Check
from tests.receivers import free_port
from tests.scenario_run import until
from tests.test_deployment import DOCKERFILE, ROOT, given, health_command, settings_of_the_image

_BIN: Final = Path(sys.executable).parent
_COMPOSE: Final = ROOT / "deploy" / "compose.yaml"
_KUBERNETES: Final = ROOT / "deploy" / "kubernetes.yaml"
_VERSIONS: Final = ("1.30", "1.37")
"""The oldest and the newest version of Kubernetes whose schemas are asked."""

_LONGEST_BUILD: Final = 900
_WRITE_PROTECTED: Final = """
root=$1; writable=$2; base=$3; image=$4; user=$5; shift 5
mount --rbind / "$root"
mount -o remount,bind,ro "$root"
top=/$(printf %s "$base" | cut -d/ -f2)
if [ "$top" != /usr ]; then  # where the user may not look
  mount -t tmpfs tmpfs "$root$top"
  mkdir -p "$root$base"
  mount --bind "$base" "$root$base"
  mount -o remount,ro "$root$top"
fi
mount -t tmpfs tmpfs "$root/opt"
mkdir "$root/opt/sandbox"
mount --bind "$image" "$root/opt/sandbox"
mount -o remount,bind,ro "$root/opt/sandbox"
mount -o remount,ro "$root/opt"
mount -t tmpfs tmpfs "$root$writable"
chmod 1777 "$root$writable"
exec chroot ${user:+--userspec=$user:$user --groups=} "$root" /usr/bin/env --chdir="$writable" "$@"
"""
"""A root file system that cannot be written, but for one folder; then a command in it."""


def tools() -> list[Check]:
    """What the tools that others use say of the files."""
    kubernetes = [_tool("kubernetes-validate"), "--strict", "-k"]
    compose = [_tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec"]
    workflow = [_tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows"]
    return [
        _judged("hadolint", [_tool("hadolint")], DOCKERFILE, ("USER 10001", "USER root")),
        _judged("the schema of Compose files", compose, _COMPOSE, ("tmpfs: [", "tmpf: [")),
        *(
            _judged(f"Kubernetes {one}", [*kubernetes, one], _KUBERNETES, ("replicas: 2", "x: 2"))
            for one in _VERSIONS
        ),
        _judged(
            "the schema of GitHub workflows",
            workflow,
            ROOT / "docs" / "ci-workflow.yml",
            ("runs-on:", "run-on:"),
        ),
    ]


def _tool(name: str) -> str:
    return str(_BIN / name)


def _judged(what: str, command: list[str], file: Path, mistake: tuple[str, str]) -> Check:
    return Check(
        f"{file.relative_to(ROOT)} passes {what}, and with a mistake does not",
        partial(_judge, command, file, mistake),
    )


def _judge(command: list[str], file: Path, mistake: tuple[str, str]) -> str:
    done = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with TemporaryDirectory() as folder:
        wrong = Path(folder) / file.name
        wrong.write_text(file.read_text().replace(*mistake))
        again = subprocess.run([*command, str(wrong)], capture_output=True, check=False)
    assert again.returncode != 0, "the mistake was not noticed"
    return "ok"


def image() -> Check:
    """The image's commands."""
    return Check(
        "the commands of the Dockerfile make a server that runs where nothing can be written",
        _run_image,
    )


def _run_image() -> str:
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        _build(folder)
        with _served(folder) as url:
            health = httpx.get(f"{url}/sandbox/health", trust_env=False, timeout=PATIENCE)
            found = health.json()["data"]
            assert found == {"status": "ok", "store": "ready"}
            drivers = (folder / "sandbox").glob("lib/python*/site-packages/psycopg")
            assert list(drivers), "no driver of PostgreSQL"
        return "read-only, without rights"


def _build(folder: Path) -> None:
    """Run the first stage, in a folder instead of ``/``."""
    source = folder / "src"
    for rest in given("COPY"):
        if "--from" not in rest:
            *sources, target = rest.split()
            for one in sources:
                _copy(ROOT / one, source / target / (one if target == "./" else ""))
    (run, *_) = given("RUN")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "python")], check=True)
    for before, after in (
        ("python -m venv", f"{sys.executable} -m venv"),
        ("/opt/sandbox", str(folder / "sandbox")),
        ("/wheel", str(folder / "wheel")),
        ("&& pip ", f"&& {folder}/python/bin/pip "),
    ):
        run = run.replace(before, after)
    subprocess.run(
        ["/bin/sh", "-euc", run],
        cwd=source,
        check=True,
        capture_output=True,
        timeout=_LONGEST_BUILD,
    )
    for script in (folder / "sandbox" / "bin").iterdir():
        if not script.is_symlink():
            text = script.read_text().replace(f"{folder}/sandbox", "/opt/sandbox")
            script.write_text(text)  # as if it had been built at its place


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, target, dirs_exist_ok=True, ignore=ignored)
    else:
        shutil.copy(source, target)


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """The server of the image, with its variables only."""
    port = free_port()
    settings = settings_of_the_image() | {"INVOICE_SANDBOX_PORT": str(port)}
    settings["PATH"] = settings["PATH"].replace("$PATH", "/usr/bin:/bin")
    variables = [f"{name}={text}" for name, text in settings.items()]
    (entry,), (words,) = given("ENTRYPOINT"), given("CMD")
    command = [*_list(entry), *_list(words), "--key", new_key()]
    inside = partial(_inside, folder, variables)
    with subprocess.Popen(inside(command), stdout=subprocess.PIPE) as server:
        try:
            healthy = [*inside(health_command())]
            until(
                lambda: subprocess.run(healthy, capture_output=True, check=False).returncode == 0,
                "the health check of the image passes",
            )
            for place in ("/", "/opt/sandbox", "/usr"):
                touch = inside(["sh", "-c", f"touch {place}/x 2>&1 || true; id -u"])
                said = subprocess.run(touch, capture_output=True, text=True, check=True).stdout
                assert "touch" in said, f"{place} can be written"
            assert said.split()[-1] != "0", "it has the rights of root"
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            assert server.wait(PATIENCE) == 0, "it stops at SIGTERM"


def _inside(folder: Path, variables: list[str], command: list[str]) -> list[str]:
    (user,) = given("USER")
    root = folder / "root"
    root.mkdir(exist_ok=True)
    is_root = os.geteuid() == 0
    spaces = ["--mount"] if is_root else ["--mount", "--map-root-user"]
    places = [str(root), "/tmp", sys.base_prefix, str(folder / "sandbox")]  # noqa: S108
    script = ["/bin/sh", "-euc", _WRITE_PROTECTED, "sh", *places, user if is_root else ""]
    return ["unshare", *spaces, "--propagation", "private", *script, "-i", *variables, *command]


def _list(text: str) -> list[str]:
    return shlex.split(re.sub(r"[\[\],]", " ", text))
