"""docs/testing.md is true, and the files that it hands out do what it says."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from invoice_sandbox.settings import SETTINGS
from invoice_sandbox.state.credentials import DEMO_KEY
from invoice_sandbox.testing import InvoiceSandbox, Webhooks
from tests.testing_docs import PAGE, environment, files, output, played, without_chance

ROOT = PAGE.parents[1]
DOCKERFILE = ROOT / "Dockerfile"
WORKFLOW = ROOT / "docs" / "ci-workflow.yml"
NOT_ON_THE_PAGE = {
    "close",  # the fixture does it
    "prepare",  # the fixture does it
    "forget",  # what reset does
    "lever",  # the old name of control
}


def public(thing: type) -> set[str]:
    """The names of a class that are for everybody."""
    return {name for name in vars(thing) if not name.startswith("_")}


@pytest.mark.process
def test_the_sessions_of_the_page_print_what_the_page_shows() -> None:
    page = PAGE.read_text()
    assert played(page, Path(sys.executable).parent) == page
    assert len(re.findall(r"\d failed", page)) == 1, "one test of the page fails on purpose"


def test_everything_that_a_test_is_given_is_on_the_page() -> None:
    page = PAGE.read_text()
    names = public(InvoiceSandbox) | public(Webhooks)
    missing = {name for name in names if not re.search(rf"\.{name}\b", page)}
    assert missing == NOT_ON_THE_PAGE


def test_every_option_is_on_the_page(pytestconfig: pytest.Config) -> None:
    page = PAGE.read_text()
    for name in ("url", "key", "project", "scenarios"):
        assert pytestconfig.getoption(f"--sandbox-{name}", "missing") is None
        assert f"`--sandbox-{name} " in page
        assert f"`INVOICE_SANDBOX_{name.upper()}`" in page


def test_every_link_of_the_page_leads_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)", PAGE.read_text()):
        assert (PAGE.parent / link).exists(), link


def test_the_page_takes_five_minutes() -> None:
    """Client and first test are short enough to be read and typed in that time."""
    texts = files(PAGE.read_text())
    assert len((texts["billing.py"] + texts["test_billing.py"]).splitlines()) < 50


def test_what_is_of_chance_is_made_equal() -> None:
    printed = "/a/b/testing/x.py:1: http://127.0.0.1:1/ in 2.00s"
    assert without_chance(printed) == "testing/x.py:1: http://127.0.0.1:41234/ in 1.30s"


# --- Dockerfile: read as its instructions, since no engine is there to build it


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


def test_every_instruction_is_one() -> None:
    known = {"FROM", "WORKDIR", "COPY", "RUN", "LABEL", "ENV", "USER", "EXPOSE", "STOPSIGNAL"}
    assert {word for word, _ in instructions()} <= known | {
        "ARG",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }


def test_the_image_is_slim_and_its_version_is_pinned() -> None:
    images = [rest.split()[0] for rest in given("FROM")]
    assert set(images) == {"${BASE}"}
    (base,) = given("ARG")
    assert re.fullmatch(r"BASE=python:3\.11\.\d+-slim@sha256:[0-9a-f]{64}", base)


def test_the_image_installs_only_files_with_known_hashes() -> None:
    installed = re.findall("pip install (.*?)(?: &&|$)", "\n".join(given("RUN")), re.MULTILINE)
    assert installed == [
        "--require-hashes -r requirements.txt",
        "--require-hashes -r requirements/build.txt",
        "--no-deps --no-index /wheel/*.whl",
    ]


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    sources = [one for rest in given("COPY") if "--from" not in rest for one in rest.split()[:-1]]
    assert set(sources) >= {"pyproject.toml", "invoice_sandbox", "openapi", "scenarios"}
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored
    assert ignored[0] == "*"


def test_the_wheel_can_be_built_from_what_is_copied() -> None:
    sources = {one for rest in given("COPY") for one in rest.split()[:-1]}
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = built["tool"]["hatch"]["build"]["targets"]["wheel"]
    project = built["project"]
    needed = {*wheel["packages"], *wheel["force-include"], project["readme"]}
    assert needed | set(project["license-files"]) <= sources


def test_it_runs_as_a_user_without_rights() -> None:
    words = [word for word, _ in last_stage()]
    (user,) = given("USER")
    assert user.isdigit()
    assert int(user) >= 1000
    assert f"--uid {user}" in next(given("RUN")) + "".join(given("RUN"))
    assert words.index("USER") < words.index("ENTRYPOINT")
    assert "RUN" not in words[words.index("USER") :]


def test_its_commands_are_in_exec_form_so_that_signals_arrive() -> None:
    for word in ("ENTRYPOINT", "CMD"):
        (command,) = given(word)
        assert isinstance(json.loads(command), list)
    assert list(given("STOPSIGNAL")) == ["SIGTERM"]


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


# --- the workflow


def workflow() -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return loaded


def test_the_workflow_is_one() -> None:
    found = workflow()
    assert {"name", "permissions", "env", "jobs"} <= found.keys()
    assert found[True].keys() == {"push", "pull_request"}  # YAML 1.1 reads "on" as a truth value
    for job in found["jobs"].values():
        assert job["runs-on"]
        assert job["timeout-minutes"] <= 10
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])


def test_its_actions_have_versions_and_it_may_only_read() -> None:
    for job in workflow()["jobs"].values():
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/x@v1"))
    assert workflow()["permissions"] == {"contents": "read"}


def test_it_uses_the_documented_key() -> None:
    job = workflow()["jobs"]["any-language"]
    assert job["env"]["INVOICE_SANDBOX_KEY"] == DEMO_KEY


def test_a_command_of_a_page_sees_nothing_of_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INVOICE_SANDBOX_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("CI", "true")
    env = environment(Path(sys.executable).parent)
    assert output("echo $INVOICE_SANDBOX_URL$PYTEST_CURRENT_TEST$CI", tmp_path, env) == ""
