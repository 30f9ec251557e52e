"""``invoice-sandbox acceptance run``: reports, progress, misuse, preflight, an interrupted run."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.acceptance.reports import SCHEMA
from invoice_sandbox.cli import main
from invoice_sandbox.openapi.schema.file_schema import FileSchema
from invoice_sandbox.state.credentials import DEMO_KEY
from invoice_sandbox.testing.server import Options
from invoice_sandbox.testing.server import serving as real_server
from tests.acceptance.page import PAGE
from tests.acceptance.selftest import FOLDER
from tests.support import FROZEN, PATIENCE, Running, serving

CLIENT = f"{sys.executable} -S -E {FOLDER / 'client.py'}"


REVIEWED = """\
name: orders
purpose: A client shows lists.
checks:
  - id: list
    level: should
    proves: The client shows the offers.
    specification: Lists
    cases:
      - task: {name: list-offers}
        controls: [{request: listOffers, atLeast: 1}]
        rules: [{that: It lists once., request: listOffers, atMost: 1}]
        review: {that: The client shows every offer.}
"""


def run(server: Running, out: Path, *words: str, command: str = CLIENT) -> Result:
    """The result of a run on the server."""
    fixed = ["acceptance", "run", "--server", server.url, "--key", DEMO_KEY, "--out", str(out)]
    return CliRunner().invoke(main, [*fixed, "--exec", command, *words])


def report(out: Path) -> dict[str, Any]:
    """The written report, which its schema allows."""
    document: dict[str, Any] = json.loads((out / "report.json").read_text())
    assert FileSchema.read(SCHEMA).problems(document) == []
    return document


def evidence(check: dict[str, Any]) -> list[str]:
    """The requests that prove the verdict on a check."""
    return [str(one["requestId"]) for one in check["evidence"]]


def outside(page: str) -> str:
    """The page without what it quotes: messages, summaries and links within it."""
    return re.sub(r"<pre.*?</pre>|<summary>.*?</summary>", "", page, flags=re.DOTALL)


@pytest.mark.process
def test_a_run_writes_reports_in_every_format(server: Running, tmp_path: Path) -> None:
    words = ["--only", "validation-errors", "--only", "scope-missing", "--only", "webhook-order"]
    result = run(server, tmp_path, *words, command=f"{CLIENT} --fault repeats-a-400")
    assert result.exit_code == 1, result.output
    lines = [line.split(":")[0].split() for line in result.stdout.splitlines()[:-1]]
    verdicts = {
        "validation-errors": "FAIL",
        "scope-missing": "PASS",
        "webhook-order": "NOT_APPLICABLE",
    }
    assert lines == [[verdict, name] for name, verdict in verdicts.items()]
    written = report(tmp_path)
    assert {one["id"]: one["verdict"] for one in written["checks"]} == verdicts
    assert (written["verdict"], written["state"]) == ("FAIL", "finished")
    (failed,) = (one for one in written["checks"] if one["verdict"] == "FAIL")
    assert failed["expected"] == "at most 2 requests with the same body"
    assert failed["actual"] == "Sent 6 requests with the same body; at most 2 are allowed"
    assert failed["evidence"][0]["requestId"].startswith("req_sandbox_")
    assert failed["contract"] == ["/paths/~1api~1invoices/post"]
    page = (tmp_path / "report.html").read_text()
    assert all(f'href="#{one}"' in page for one in evidence(failed))
    assert {*re.findall(r'href="#([^"]+)"', page)} <= {*re.findall(r' id="([^"]+)"', page)}
    assert "<code>/paths/~1api~1invoices/post</code>" in page
    assert [one for one in ("http://", "https://", "<script", "src=") if one in outside(page)] == []
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]  # noqa: S314 - our own file
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["3", "1", "0", "1"]
    assert result.stderr.startswith("6 cases\n1/6 ")
    ctrf = json.loads((tmp_path / "ctrf.json").read_text())["results"]
    assert [one["status"] for one in ctrf["tests"]] == ["failed", "passed", "skipped"]
    assert written["checks"][0]["evidence"][0]["link"] == f"report.html#{evidence(failed)[0]}"
    bundle, again = tmp_path / "bundle.zip", tmp_path / "again"
    judged = CliRunner().invoke(main, ["acceptance", "judge", str(bundle), "--out", str(again)])
    assert (judged.exit_code, judged.output.splitlines()[-1].count("sha256:")) == (1, 1)
    assert (again / "report.json").read_bytes() == (tmp_path / "report.json").read_bytes()
    with server.client() as client:
        newest = client.get("/sandbox/acceptance/runs").json()["data"][0]["id"]
        kept = client.get(f"/sandbox/acceptance/runs/{newest}/bundle").content
        shown = client.get(f"/console/acceptance/{newest}").text
        downloaded = client.get(f"/console/acceptance/{newest}/bundle.zip").content
    assert bundle.read_bytes() == kept == downloaded
    assert f"invoice-sandbox replay {newest}.zip" in shown
    replayed = CliRunner().invoke(main, ["replay", str(bundle)])
    assert replayed.exit_code == 0, replayed.output


def block(name: str) -> str:
    """The code block of docs/acceptance.md after the comment that begins with ``name``."""
    found = re.search(rf"<!-- {name}.*?-->\n```\w+\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None, name
    return found[1]


def lines_of(output: str) -> list[str]:
    """The lines of a run, without times that were measured."""
    return re.sub(r"after \d+\.\d\d s", "after a while", output).splitlines()


@pytest.mark.process
@pytest.mark.slow
def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a server whose time passes: the client must wait."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(block("run").replace("\\\n", ""))
    words[words.index("python client.py")] = f"{sys.executable} -S -E client.py"
    client = fixed = block("file: client.py")
    for line in re.findall(r"<!-- insert: client.py after: (.*) -->", PAGE.read_text()):
        assert client.count(f"{line}\n") == 1
        added = block(f"insert: client.py after: {re.escape(line)}")
        fixed = fixed.replace(f"{line}\n", f"{line}\n{added}")
    with real_server(Options()) as control:
        words += ["--server", control.url, "--key", str(control.key)]
        for name, text in (("broken", client), ("fixed", fixed)):
            Path("client.py").write_text(text)
            result = CliRunner().invoke(main, words[1:])
            assert lines_of(result.stdout) == lines_of(block(f"output: {name}"))


@pytest.mark.process
def test_a_client_that_cannot_start_is_shown_with_its_error(
    server: Running, tmp_path: Path
) -> None:
    command = """sh -c 'echo started; printf "no \\033[1mfile $SANDBOX_API_KEY" >&2; exit 2'"""
    result = run(server, tmp_path, "--only", "scope-missing", command=command)
    expected = "Sent no request to listOffers with status 2xx; at least 1 is needed. The client "
    assert (
        f"{expected}ended with exit status 2: started / no  [1mfile [redacted].\n" in result.output
    )


@pytest.mark.process
def test_requests_that_no_operation_matches_are_shown(server: Running, tmp_path: Path) -> None:
    command = """sh -c 'curl -s -X POST -H "Authorization: Bearer $SANDBOX_API_KEY" \
        "$SANDBOX_API_URL/api/offer"'"""
    result = run(server, tmp_path, "--only", "scope-missing", command=command)
    assert " No operation matches POST /api/offer: 404.\n" in result.output


@pytest.mark.process
def test_a_run_that_judges_nothing_does_not_pass(server: Running, tmp_path: Path) -> None:
    result = run(server, tmp_path, "--only", "idempotent-retry", "--only", "webhook-order")
    expected = "nothing was judged; --declare idempotency,webhooks if the client is capable of it"
    assert (result.exit_code, expected in result.output) == (1, True), result.output
    assert "Nothing was judged: the client does not" in (tmp_path / "report.html").read_text()
    judged = CliRunner().invoke(main, ["acceptance", "judge", str(tmp_path / "bundle.zip")])
    assert (judged.exit_code, expected in judged.output) == (1, True)


@pytest.mark.process
def test_the_output_of_the_client_is_kept_without_its_key(server: Running, tmp_path: Path) -> None:
    command = "sh -c 'echo my key is $SANDBOX_API_KEY; exit 7'"
    run(server, tmp_path, "--only", "scope-missing", command=command)
    (check,) = report(tmp_path)["checks"]
    expected = {"exitStatus": 7, "reported": None, "output": "my key is [redacted]\n"}
    assert check["cases"][0]["client"] == expected
    assert (tmp_path / "scope-missing.log").read_text() == "my key is [redacted]\n"


@pytest.mark.process
def test_the_environment_of_a_client(server: Running, tmp_path: Path) -> None:
    words = ["--only", "webhook-order", "--declare", "webhooks"]
    run(server, tmp_path, *words, command="env")
    lines = (tmp_path / "webhook-order.log").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line.startswith(("SANDBOX_", "ACCEPT")))
    task = {"name": "receive-webhooks", "on": {"invoice.verified": "request-financing"}}
    assert json.loads(given.pop("ACCEPTANCE_TASK")) == task
    assert given.pop("ACCEPTANCE_WEBHOOK_PORT").isdigit()
    assert given == {
        "ACCEPTANCE_CHECK": "webhook-order",
        "SANDBOX_API_URL": server.url,
        "SANDBOX_API_KEY": "[redacted]",
        "SANDBOX_WEBHOOK_SECRET": "[redacted]",
    }


@pytest.mark.process
def test_tasks_follow_each_other_in_one_workspace(server: Running, tmp_path: Path) -> None:
    """The client starts again for each; what it did in all of them is judged."""
    plan = tmp_path / "orders.yaml"
    task = "- task: {name: list-offers}\n"
    text = REVIEWED.replace(task, f"{task}        then: [{{name: list-offers, page: 2}}]\n")
    plan.write_text(text.replace("atMost: 1}]\n        review", "times: 2}]\n        review"))
    result = run(server, tmp_path, "--plan", str(plan), "--attest", "list", "Ada.")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "list.log").exists()
    assert (tmp_path / "list-2.log").exists()


@pytest.mark.process
def test_a_person_attests_what_the_sandbox_cannot_see(server: Running, tmp_path: Path) -> None:
    plan = tmp_path / "orders.yaml"
    plan.write_text(REVIEWED)
    words = ["--plan", str(plan), "--only", "list"]
    first = run(server, tmp_path / "first", *words)
    assert (first.exit_code, first.stdout.split()[0]) == (1, "REVIEW")
    second = run(server, tmp_path / "second", *words, "--attest", "list", "Ada: I saw the list.")
    assert second.exit_code == 0, second.output
    (check,) = report(tmp_path / "second")["checks"]
    assert (check["verdict"], check["summary"]) == (
        "PASS",
        "Every rule was kept. Attested by Ada: I saw the list.",
    )


@pytest.mark.process
def test_a_client_that_declares_effects_fails_without_one(server: Running, tmp_path: Path) -> None:
    """In the run, and whenever its bundle is judged."""
    plan = tmp_path / "orders.yaml"
    effect = "{that: It requests financing., request: createFinancingRequest, atLeast: 1}"
    demanded = f"effects: [{effect}]\n        demands: effects\n"
    text = REVIEWED.replace("level: should", "level: must")
    text = text.replace("review: {that: The client shows every offer.}\n", demanded)
    plan.write_text(text + "capabilities: {effects: It acts.}\n")
    bundle, words = tmp_path / "bundle.zip", ["--plan", str(plan)]
    undeclared = run(server, tmp_path, *words)
    again = CliRunner().invoke(main, ["acceptance", "judge", str(bundle)])
    declared = run(server, tmp_path, *words, "--declare", "effects")
    judged = CliRunner().invoke(main, ["acceptance", "judge", str(bundle)])
    verdicts = [result.stdout.split()[0] for result in (undeclared, again, declared, judged)]
    assert verdicts == ["REVIEW", "REVIEW", "FAIL", "FAIL"]


def test_a_problem_before_the_client_starts_is_an_error_and_no_fail(tmp_path: Path) -> None:
    from dataclasses import replace

    with serving(replace(FROZEN, max_workspaces=1)) as small:
        result = run(small, tmp_path, "--only", "money")
    assert result.exit_code == 1
    (check,) = report(tmp_path)["checks"]
    assert check["verdict"] == "ERROR"
    assert check["summary"].startswith("Preflight: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "mony"], "--only: there is no check 'mony' (did you mean money?)"),
        (["--attest", "mony", "Ada: fine"], "--attest: there is no check 'mony'"),
        (["--declare", "webhook"], "no capability 'webhook' (did you mean webhooks?)"),
        (["--exec", "no-such-command x"], "--exec: there is no command 'no-such-command'"),
        (["--exec", "'"], "--exec: No closing quotation"),
        (["--server", "ftp://x"], "invalid URL of a sandbox"),
        (["--server", "http://127.0.0.1:1"], "no sandbox responds at http://127.0.0.1:1"),
        (["--key", "unknown"], "The credential is not valid here"),
        (["--plan", "README.md"], "README.md:"),
        (["--project", "."], "--project cannot be used with --server"),
    ],
)
def test_misuse(server: Running, tmp_path: Path, words: list[str], message: str) -> None:
    result = run(server, tmp_path, *words)
    assert (result.exit_code, message in result.output) == (2, True), result.output


@pytest.mark.process
@pytest.mark.slow
def test_an_interrupted_run_leaves_what_is_finished(server: Running, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "invoice_sandbox", "acceptance", "run", "--server", server.url]
    words += ["--out", str(tmp_path), "--only", "scope-missing", "--only", "polling"]
    with subprocess.Popen(
        [*words, "--exec", CLIENT], stderr=subprocess.PIPE, text=True, env={**os.environ}
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "2 cases\n"
        assert "1/2 PASS scope-missing" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    written = report(tmp_path)
    assert written["state"] == "interrupted"
    assert [one["id"] for one in written["checks"]] == ["scope-missing"]
