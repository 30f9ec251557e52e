"""The page about handlers builds a project around a document, and describes the handler API."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from invoice_sandbox.cli import main
from invoice_sandbox.cli.receiver import identity_of
from invoice_sandbox.control.client import ControlClient, SandboxError
from invoice_sandbox.project import api
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.conventions import Conventions
from invoice_sandbox.project.loader import load_project
from invoice_sandbox.state.credentials import DEMO_KEY
from invoice_sandbox.testing.webhooks import NotReceivedError, Webhooks
from tests.project_docs import parts, played
from tests.readme import commands, write_files
from tests.receivers import receiving
from tests.support import FROZEN, PATIENCE, Running, serving
from tests.test_control_commands import run
from tests.test_listen import listening
from tests.testing_docs import environment, output

PAGE: Final = (Path(__file__).parents[1] / "docs" / "internals" / "handlers.md").read_text()
BUILD: Final = PAGE.partition("## Files of a project")[0]


def built(folder: Path, page: str = PAGE) -> Path:
    """The folder with the projects of the page, made by its files and ``init`` in its order."""
    with contextlib.chdir(folder):
        for part in parts(page):
            write_files(part, folder)
            for command in commands(part):
                if " init " in command:
                    made = CliRunner().invoke(main, command.split()[1:])
                    assert made.exit_code == 0, made.output
    return folder


@pytest.mark.process
def test_the_page_leads_to_two_projects_whose_tests_pass(tmp_path: Path) -> None:
    tools = Path(sys.executable).parent
    assert played(PAGE, tmp_path, tools) == PAGE
    changed = output(
        "pytest -q --sandbox-project trains test_trains.py", tmp_path, environment(tools)
    )
    assert changed.endswith("1 passed in 1.30s"), "with the conventions that the page shows last"


CREATE = {"amount": "165.88"}


@contextmanager
def serving_payouts(folder: Path, *changes: tuple[str, str]) -> Iterator[Running]:
    """The project with the collection, with changes of its handlers and without state machines."""
    project = built(folder) / "payouts"
    (project / "scenarios" / "lifecycle.yaml").unlink()
    for old, new in changes:
        files = (project / "handlers").glob("*.py")
        (handlers,) = (one for one in files if old in one.read_text())
        handlers.write_text(handlers.read_text().replace(old, new))
    with serving(replace(FROZEN, project=project)) as running:
        yield running


def test_webhooks_need_no_lifecycle_and_their_type_is_known_by_the_delivery(tmp_path: Path) -> None:
    with serving_payouts(tmp_path) as running, running.client() as client:
        webhooks = Webhooks(ControlClient(running.url, DEMO_KEY))
        assert client.post("/subscriptions", json={"url": webhooks.url}).status_code == 201
        payout = client.post("/payouts", json=CREATE).json()
        event = webhooks.expect("payoutSettled", id=payout["id"])
        assert (event["type"], event["data"]) == ("payoutSettled", payout)
        names = {"INVOICE_SANDBOX_URL": running.url, "INVOICE_SANDBOX_KEY": DEMO_KEY}
        assert "Z  payoutSettled  evt_" in run("inbox", **names).stdout
        with pytest.raises(NotReceivedError, match=r"payoutSettled evt_.* id=.*expected before"):
            webhooks.expect("payoutSettled", id="another")


def test_trigger_records_an_event_of_a_project_of_ones_own(tmp_path: Path) -> None:
    with serving_payouts(tmp_path) as running:
        names = {"INVOICE_SANDBOX_URL": running.url, "INVOICE_SANDBOX_KEY": DEMO_KEY}
        result = run("trigger payoutSettled", **names)
        assert result.exit_code == 0
        assert result.output.endswith("('deliveries' of 'webhooks' in conventions.yaml).\n")
        log = ControlClient(running.url, DEMO_KEY).ask("GET", "/event-log")
        assert [one["type"] for one in log] == ["payoutSettled"]


@pytest.mark.process
def test_listen_leaves_no_endpoint_of_a_project_of_ones_own(tmp_path: Path) -> None:
    with serving_payouts(tmp_path) as running, receiving() as receiver:

        def endpoints() -> list[str]:
            listener = {"token": identity_of(receiver.url, DEMO_KEY).token}
            return list(control.ask("POST", "/listeners", listener)["endpoints"])

        control = ControlClient(running.url, DEMO_KEY)
        with listening(running.url, receiver.url) as (killed, _):
            pass
        assert killed.popen.wait(PATIENCE) != 0
        assert len(endpoints()) == 1
        with listening(running.url, receiver.url) as (listener, _):
            assert len(endpoints()) == 1
            with running.client() as client:
                payout = client.post("/payouts", json=CREATE).json()
            control.ask("POST", "/clock/advance", {"by": "PT0S"})
            listener.expect(r"Z  payoutSettled  evt_")
            assert listener.end(signal.SIGINT) == 0
        assert [json.loads(one.body) for one in receiver.messages] == [payout]
        assert endpoints() == []


@pytest.mark.process
def test_trigger_suggests_a_type_of_a_project_of_ones_own(tmp_path: Path) -> None:
    with serving_payouts(tmp_path) as running:
        names = {"INVOICE_SANDBOX_URL": running.url, "INVOICE_SANDBOX_KEY": DEMO_KEY}
        ran = run("trigger payoutSetled", **names)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert "did you mean payoutSettled? The contract is at" in ran.stderr
        client = ControlClient(running.url, DEMO_KEY)
        with pytest.raises(SandboxError, match=r"did you mean payoutSettled\? The contract") as got:
            client.ask("POST", "/events", {"type": "payoutSetled"})
        assert got.value.status == 400


def test_the_client_repeats_the_request_id_of_an_error_that_the_log_explains(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving_payouts(tmp_path, ('call.body["type"], data', 'call.body["type"], []')) as running:
        client = ControlClient(running.url, DEMO_KEY)
        with pytest.raises(SandboxError, match=r"allows\..* Request id: req_\w+$") as got:
            client.ask("POST", "/events", {"type": "payoutSettled"})
    request_id = str(got.value).rpartition(" ")[2]
    assert request_id in caplog.text


def test_an_event_whose_type_is_known_later_is_an_error_and_not_delivered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    change = ('"payoutSettled"', 'call.body.get("type", "payout_settled")')
    with serving_payouts(tmp_path, change) as running, running.client() as client:
        assert client.post("/payouts", json=CREATE).status_code == 500
        assert "unknown event type 'payout_settled'; did you mean payoutSettled" in caplog.text
        assert ControlClient(running.url, DEMO_KEY).ask("GET", "/event-log") == []


def test_the_data_of_an_event_is_an_object(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving_payouts(tmp_path, (", payout)", ", [payout])")) as running:
        with running.client() as client:
            assert client.post("/payouts", json=CREATE).status_code == 500
        assert "payoutSettled: the data of an event is an object, not list" in caplog.text


def test_a_member_of_an_event_may_be_the_response_of_a_collection(tmp_path: Path) -> None:
    change = (", payout)", ', {"id": "1", "amount": 5, "payout": payout})')
    with serving_payouts(tmp_path, change) as running, running.client() as client:
        created = client.post("/payouts", json=CREATE)
        assert created.status_code == 201
        (event,) = ControlClient(running.url, DEMO_KEY).ask("GET", "/event-log")
        assert event["payload"]["payout"] == created.json()


def test_the_page_describes_every_name_of_the_api_and_no_other() -> None:
    reference = PAGE.partition("## Files of a project")[2]
    code = " ".join(re.findall(r"`([^`\n]+)`", reference))
    named = set(re.findall(r"[A-Za-z_]+", code))
    assert set(api.__all__) - named == set()
    assert all(hasattr(api, name) for name in api.__all__)


def test_handlers_and_domain_import_only_the_api() -> None:
    root = Path(__file__).parents[1]
    files = [*root.glob("handlers/*.py"), *root.glob("domain/*.py")]
    imported = {
        module
        for file in files
        for module in re.findall(r"(?:from|import) (invoice_sandbox[\w.]*)", file.read_text())
    }
    assert imported == {"invoice_sandbox.project.api"}


WRONG = {
    "an unknown key": ("mode: test", "mood: test", "unknown key 'mood' (did you mean mode?)"),
    "an unknown value": (
        'envelope: "{data}"',
        'envelope: {"result": "{date}"}',
        "there is no value '{date}' (did you mean {data}?)",
    ),
    "an unknown error": (
        "bad_credential:",
        "bad_credentials:",
        "there is no error 'bad_credentials' (did you mean bad_credential?)",
    ),
    "another access": ("access: any ", "access: all ", "'access' cannot be 'all'"),
}


@pytest.mark.parametrize(("old", "new", "problem"), WRONG.values(), ids=WRONG)
def test_a_wrong_convention_is_reported_with_its_place(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    file = built(tmp_path) / "trains" / "conventions.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ProjectError, match=r"conventions\.yaml:\d+:\d+: ") as error:
        load_project(file.parent)
    assert problem in str(error.value)


def test_the_page_sets_every_convention(tmp_path: Path) -> None:
    conventions = load_project(built(tmp_path) / "trains").conventions
    assert conventions.mode == "test"
    assert conventions.page_size == 100
    assert (conventions.request_id_prefix, conventions.event_id_prefix) == ("req_", "evt")
    assert conventions.key_prefix == "trn_"
    assert conventions.codes[404] == "not_found"
    assert conventions.texts["bad_credential"].advice == "Request a new token."
    assert len(conventions.error_formats) == 1


def test_a_document_with_problem_details_gets_them_first(tmp_path: Path) -> None:
    conventions = load_project(built(tmp_path, BUILD) / "trains").conventions
    assert conventions == Conventions(error_formats=conventions.error_formats)
    assert conventions.error_formats[0].media_type == "application/problem+json"
