"""The Dockerfile and the files in deploy/, read as what they say; ``make interop`` runs the image's
commands and asks the tools that judge such files. Nothing here builds an image."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from invoice_sandbox.project.loader import default_project, load_project
from invoice_sandbox.settings import SETTINGS, SettingError, read_settings
from invoice_sandbox.testing import InvoiceSandbox
from tests.testing_docs import environment

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "Dockerfile"
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
KUBERNETES: dict[str, Any] = {
    one["kind"]: one
    for one in yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())
}
POD: dict[str, Any] = KUBERNETES["Deployment"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


# --- Dockerfile


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with what it is given, on one line."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line)]


def given(word: str) -> Iterator[str]:
    return (rest for name, rest in instructions() if name == word)


def last_stage() -> list[tuple[str, str]]:
    found = instructions()
    begin = max(number for number, (word, _) in enumerate(found) if word == "FROM")
    return found[begin:]


def settings_of_the_image() -> dict[str, str]:
    (text,) = (rest for word, rest in last_stage() if word == "ENV")
    return dict(one.split("=", 1) for one in shlex.split(text))


def test_the_image_installs_only_files_with_known_hashes() -> None:
    installed = re.findall("pip install (.*?)(?: &&|$)", "\n".join(given("RUN")), re.MULTILINE)
    assert installed == [
        "--require-hashes -r requirements/postgresql.txt",
        "--require-hashes -r requirements/build.txt",
        "--no-deps --no-index /wheel/*.whl",
    ]


def test_it_runs_as_a_user_without_rights() -> None:
    words = [word for word, _ in last_stage()]
    (user,) = given("USER")
    assert user.isdigit()
    assert int(user) >= 1000
    assert f"--uid {user}" in next(given("RUN")) + "".join(given("RUN"))
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert "RUN" not in words[words.index("USER") :]


def test_what_it_sets_are_settings_of_serve() -> None:
    known = {f"INVOICE_SANDBOX_{one.name.replace('-', '_').upper()}" for one in SETTINGS}
    ours = {name for name in settings_of_the_image() if name.startswith("INVOICE_SANDBOX_")}
    assert ours <= known
    assert settings_of_the_image()["INVOICE_SANDBOX_PORT"] == next(given("EXPOSE"))


def test_no_secret_is_in_the_image() -> None:
    assert "ilk_sandbox_" not in DOCKERFILE.read_text()


def health_command() -> list[str]:
    """What the image asks for its health."""
    (text,) = given("HEALTHCHECK")
    command: list[str] = json.loads(text.partition("CMD ")[2])
    return command


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.process
def test_its_health_check_passes_only_while_a_server_responds(
    invoice_sandbox: InvoiceSandbox, is_there: bool
) -> None:
    port = invoice_sandbox.url.rpartition(":")[2] if is_there else "9"
    _, *arguments = health_command()
    env = environment(Path(sys.executable).parent) | {"INVOICE_SANDBOX_PORT": port}
    done = subprocess.run([sys.executable, *arguments], env=env, check=False, capture_output=True)
    assert (done.returncode == 0) is is_there


# --- deploy/


def settings_in(names: Any) -> dict[str, str]:
    """The settings that variables set, with the variable of each."""
    known = {f"INVOICE_SANDBOX_{one.name.replace('-', '_').upper()}": one.name for one in SETTINGS}
    return {known[name]: name for name in names}


def test_variables_of_the_files_are_settings_of_serve() -> None:
    for names in (
        COMPOSE["services"]["sandbox"]["environment"],
        [one["name"] for one in CONTAINER["env"]],
    ):
        assert {"store", "key", "public-url", "metrics"} <= settings_in(names).keys()


def test_as_the_secret_is_in_the_file_no_server_starts() -> None:
    secret = KUBERNETES["Secret"]["stringData"]
    sources = [one["valueFrom"] for one in CONTAINER["env"] if "valueFrom" in one]
    wanted = {one["secretKeyRef"]["key"] for one in sources if "secretKeyRef" in one}
    assert wanted == secret.keys()
    for name, text in secret.items():
        with pytest.raises(SettingError, match=f"^--{name}"):
            read_settings({name: text})


def test_probes_ask_for_paths_that_respond() -> None:
    paths = {
        f"/sandbox{one.path}" for one in load_project(default_project()).control.operations.values()
    }
    probes = {name: CONTAINER[name]["httpGet"] for name in CONTAINER if name.endswith("Probe")}
    assert {one["path"] for one in probes.values()} <= paths
    assert {one["port"] for one in probes.values()} == {CONTAINER["ports"][0]["name"]}
    assert probes["readinessProbe"]["path"] == "/sandbox/health"
    assert probes["livenessProbe"]["path"] == "/sandbox/health/live", "not the store's health"


def test_ports_and_users_are_those_of_the_image() -> None:
    (port,), (user,) = given("EXPOSE"), given("USER")
    assert CONTAINER["ports"] == [{"name": "http", "containerPort": int(port)}]
    assert KUBERNETES["Service"]["spec"]["ports"][0]["targetPort"] == "http"
    assert all(one.endswith(f":{port}") for one in COMPOSE["services"]["sandbox"]["ports"])
    assert POD["securityContext"]["runAsUser"] == int(user)


def test_nothing_but_a_temporary_folder_can_be_written() -> None:
    sandbox, context = COMPOSE["services"]["sandbox"], CONTAINER["securityContext"]
    assert (sandbox["read_only"], sandbox["cap_drop"]) == (True, ["ALL"])
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["allowPrivilegeEscalation"] is False
    assert sandbox["tmpfs"] == [one["mountPath"] for one in CONTAINER["volumeMounts"]] == ["/tmp"]  # noqa: S108


def test_a_client_with_a_listener_gets_to_one_of_several_servers() -> None:
    assert KUBERNETES["Deployment"]["spec"]["replicas"] > 1
    assert KUBERNETES["Service"]["spec"]["sessionAffinity"] == "ClientIP"
