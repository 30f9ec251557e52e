"""Scenario files while they are served: what changes is taken over, and what is broken is not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from invoice_sandbox.cli import main
from tests.scenario_run import advance, choose, clock, due, register, run_to_end, status, until
from tests.support import FROZEN, Running, serving

pytestmark = pytest.mark.slow

FIRST = """\
name: mine
purpose: The first version.
conditions: {wait: P1D}
steps:
  - {on: start, after: PT1S, do: start-verification}
  - {on: invoice.verification_started, after: $wait, do: finish-verification}
"""
SECOND = FIRST.replace("first", "second").replace("P1D", "P2D")
BROKEN = FIRST.replace("do: finish-verification", "do: finish-verificatoin")
ADVICE = "there is no action 'finish-verificatoin' (did you mean finish-verification?)"


def write(file: Path, text: str) -> None:
    """Write a file in one go, so that nobody reads half of it."""
    draft = file.with_suffix(".draft")
    draft.write_text(text)
    draft.replace(file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one scenario of one's own."""
    write(tmp_path / "mine.yaml", FIRST)
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Iterator[Running]:
    """A server with that folder."""
    with serving(replace(FROZEN, scenarios=folder)) as running:
        yield running


@pytest.fixture
def client(served: Running) -> Iterator[httpx.Client]:
    """A client of its first workspace."""
    with served.client() as one:
        yield one


def reported(client: httpx.Client) -> dict[str, Any]:
    """Every scenario that the server reports, by name."""
    listed = client.get("/sandbox/scenarios").json()["data"]
    return {one["name"]: one for one in listed}


def purpose(client: httpx.Client, name: str = "mine") -> str | None:
    """What a scenario is for, as the server has it now."""
    found = reported(client).get(name)
    return None if found is None else str(found["purpose"])


def becomes(client: httpx.Client, wanted: str | None, name: str = "mine") -> None:
    """Wait until the server has taken a file over."""
    until(lambda: purpose(client, name) == wanted, f"{name} does not become {wanted!r}")


@contextmanager
def heard(client: httpx.Client, caplog: pytest.LogCaptureFixture, text: str) -> Iterator[None]:
    """What is done inside must make the server say ``text``, and say it once."""
    caplog.clear()
    yield
    until(lambda: purpose(client) is not None and text in caplog.text, f"{text!r} is not said")
    lines = [one for one in caplog.records if text in one.getMessage()]
    assert [one.levelno for one in lines] == [logging.WARNING]


# Changed


def test_a_changed_file_is_taken_over_and_everything_else_stays(
    folder: Path, client: httpx.Client
) -> None:
    choose(client, "mine")
    invoice = register(client)
    advance(client, "PT1S")
    before = (
        status(client, invoice),
        due(client),
        clock(client),
        client.get("/api/invoices").json(),
    )
    write(folder / "mine.yaml", SECOND)
    becomes(client, "The second version.")
    after = (
        status(client, invoice),
        due(client),
        clock(client),
        client.get("/api/invoices").json(),
    )
    assert before == after
    assert reported(client)["mine"]["current"]


def test_what_is_new_follows_the_new_file(folder: Path, client: httpx.Client) -> None:
    choose(client, "mine")
    write(folder / "mine.yaml", SECOND.replace("PT1S", "PT5S"))
    becomes(client, "The second version.")
    register(client)
    assert due(client) == [("09:30:05", "start-verification")]


def test_a_scenario_that_goes_on_keeps_what_is_due_and_then_follows_the_new_file(
    folder: Path, client: httpx.Client
) -> None:
    choose(client, "mine", wait="PT1H")
    register(client)
    later = SECOND.replace("PT1S", "PT5S").replace(
        "do: finish-verification", "do: find-similar-invoice"
    )
    write(folder / "mine.yaml", later)
    becomes(client, "The second version.")
    done = run_to_end(client)
    assert [(one["at"][11:-1], one["do"]) for one in done] == [
        ("09:30:01", "start-verification"),
        ("10:30:01", "find-similar-invoice"),
    ]


def test_conditions_that_the_new_file_does_not_have_are_dropped(
    folder: Path, client: httpx.Client
) -> None:
    choose(client, "mine", wait="PT1H")
    write(folder / "mine.yaml", SECOND.replace("wait", "pause"))
    becomes(client, "The second version.")
    register(client)
    assert run_to_end(client)[-1]["at"] == "2026-11-25T09:30:01Z"


# Broken


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(BROKEN, f"mine.yaml:6:54: {ADVICE}", id="a word"),
        pytest.param("name: [", "mine.yaml:2:1: ", id="no YAML"),
        pytest.param("", "mine.yaml", id="empty"),
        pytest.param("[]\n", "mine.yaml", id="a list"),
        pytest.param(
            FIRST.replace("mine", "yours"), "the name differs from the file name 'mine'", id="name"
        ),
    ],
)
def test_a_broken_file_leaves_the_old_scenario_in_force_and_is_reported_once(
    folder: Path, client: httpx.Client, caplog: pytest.LogCaptureFixture, text: str, said: str
) -> None:
    choose(client, "mine")
    with heard(client, caplog, "the previous version stays"):
        write(folder / "mine.yaml", text)
    assert said in caplog.text
    assert purpose(client) == "The first version."
    register(client)
    assert [one["outcome"] for one in run_to_end(client)] == ["done", "done"]


def test_a_file_that_is_not_text_leaves_the_old_scenario_in_force(
    folder: Path, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with heard(client, caplog, "the previous version stays"):
        (folder / "mine.yaml").write_bytes(b"name: \xff\xfe")
    assert purpose(client) == "The first version."


def test_a_broken_file_that_is_fixed_is_taken_over(
    folder: Path, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with heard(client, caplog, ADVICE):
        write(folder / "mine.yaml", BROKEN)
    write(folder / "mine.yaml", SECOND)
    becomes(client, "The second version.")


def test_one_broken_file_does_not_keep_others_from_being_taken_over(
    folder: Path, client: httpx.Client
) -> None:
    write(folder / "broken.yaml", "name: broken\n")
    write(folder / "mine.yaml", SECOND)
    becomes(client, "The second version.")
    assert "broken" not in reported(client)


def test_a_server_does_not_start_with_a_broken_file(folder: Path) -> None:
    write(folder / "mine.yaml", BROKEN)
    rejected = CliRunner().invoke(main, ["serve", "--port", "0", "--scenarios", str(folder)])
    assert rejected.exit_code == 2
    assert rejected.stderr == f"Error: {folder}/mine.yaml:6:54: {ADVICE}\n"


# New and gone


def test_a_new_file_can_be_chosen_in_every_way(folder: Path, client: httpx.Client) -> None:
    text = FIRST.replace("name: mine", "name: another\nbegins: {sellerId: sim_seller_another}")
    write(folder / "another.yaml", text)
    becomes(client, "The first version.", "another")
    register(client, "another", invoiceNumber="H")
    register(client, sellerId="sim_seller_another", invoiceNumber="M")
    choose(client, "another", register(client, invoiceNumber="I"))
    choose(client, "another")
    register(client, invoiceNumber="W")
    assert due(client) == [("09:30:01", "start-verification")] * 4


def test_a_new_file_that_is_broken_is_left_out_and_reported(
    folder: Path, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with heard(
        client,
        caplog,
        "another.yaml:1:1: the file has no 'purpose' (add a sentence); the file is ignored",
    ):
        write(folder / "another.yaml", "name: another\n")
    assert client.put("/sandbox/scenario", json={"name": "another"}).status_code == 400


def test_a_file_that_is_gone_takes_its_scenario_with_it(folder: Path, client: httpx.Client) -> None:
    (folder / "mine.yaml").unlink()
    becomes(client, None)
    assert client.put("/sandbox/scenario", json={"name": "mine"}).status_code == 400


def test_where_the_scenario_in_force_is_gone_nothing_new_happens_by_itself(
    folder: Path, client: httpx.Client
) -> None:
    choose(client, "mine")
    first = register(client)
    (folder / "mine.yaml").unlink()
    becomes(client, None)
    second = register(client, invoiceNumber="STORY-2")
    assert [one["subject"] for one in run_to_end(client)] == [first["id"]]
    assert (status(client, first), status(client, second)) == ("VerificationPending", "Registered")


def test_a_file_that_comes_back_is_used_again(folder: Path, client: httpx.Client) -> None:
    (folder / "mine.yaml").unlink()
    becomes(client, None)
    write(folder / "mine.yaml", SECOND)
    becomes(client, "The second version.")


# The same name


def test_a_new_file_with_a_name_of_the_project_is_left_out_and_reported(
    folder: Path, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    shipped = purpose(client, "late-payment")
    with heard(client, caplog, "the name 'late-payment' is used twice"):
        text = FIRST.replace("name: mine", "name: late-payment")
        write(folder / "late-payment.yaml", text)
    assert f"{folder}/late-payment.yaml:1:1: " in caplog.text
    assert purpose(client, "late-payment") == shipped


def test_a_server_does_not_start_with_two_scenarios_of_one_name(folder: Path) -> None:
    write(folder / "manual.yaml", FIRST.replace("name: mine", "name: manual"))
    rejected = CliRunner().invoke(main, ["serve", "--port", "0", "--scenarios", str(folder)])
    assert rejected.exit_code == 2
    assert "manual.yaml:1:1: the name 'manual' is used twice, also in" in rejected.stderr
    assert "(choose another name)" in rejected.stderr


BEGINS = FIRST + "begins: {debtorId: sim_debtor_late}\n"


def test_a_server_does_not_start_with_two_scenarios_that_begin_alike(folder: Path) -> None:
    write(folder / "mine.yaml", BEGINS)
    rejected = CliRunner().invoke(main, ["serve", "--port", "0", "--scenarios", str(folder)])
    assert rejected.exit_code == 2
    expected = "mine.yaml:7:1: 'late-payment' begins with the same members (choose another value)"
    assert expected in rejected.stderr


def test_a_server_does_not_start_with_a_file_of_another_extension(folder: Path) -> None:
    write(folder / "other.yml", FIRST.replace("name: mine", "name: other"))
    rejected = CliRunner().invoke(main, ["serve", "--port", "0", "--scenarios", str(folder)])
    assert rejected.exit_code == 2
    expected = "other.yml: the file name does not end in .yaml (rename it to other.yaml)"
    assert expected in rejected.stderr


def test_a_new_file_of_another_extension_is_reported(
    folder: Path, served: Running, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder / "other.yml", FIRST.replace("name: mine", "name: other"))
    scenarios = served.sandbox.engine.project.scenarios
    until(lambda: "other" not in scenarios and "other.yml" in caplog.text, "it is not reported")
    assert "rename it to other.yaml); the file is ignored" in caplog.text
