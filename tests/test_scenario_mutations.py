"""Broken scenario files: each is rejected in clean lines with their places, or is a sound scenario.

Wrong words in free text look like right ones, be it a sentence, a seller's id or an
argument that is any string; all else that is accepted must agree with an opinion of its own
(``scenario_oracle``), and a sample of it is played.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.project.loader import default_project, load_vocabulary
from invoice_sandbox.scenarios.checks import Vocabulary, load_scenario, scenario_file_problems
from tests.scenario_mutants import SHIPPED, Mutant, mutants
from tests.scenario_oracle import nonsense
from tests.scenario_run import choose, register
from tests.support import FROZEN, serving

pytestmark = pytest.mark.slow

MUTANTS: Final = 2600
"""So many that 2,000 are left of which no two files are equal, and none is a shipped one."""

LEAST: Final = 2000
SEED: Final = 20261121
PLAYED: Final = 40
ADVANCES: Final = 12
"""How often the clock is moved at most: a scenario may go round for ever."""

_MESSAGE: Final = re.compile(r"[1-9][0-9]*:[1-9][0-9]*: \S.*")
_LONGEST: Final = 2000


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: the messages that reject it, or the document that was accepted."""

    mutant: Mutant
    messages: tuple[str, ...]
    document: Any = None


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    """What the shipped scenarios may speak of, read once."""
    return load_vocabulary(default_project())


@pytest.fixture(scope="module")
def verdicts(vocabulary: Vocabulary, tmp_path_factory: pytest.TempPathFactory) -> list[Verdict]:
    """Every mutant judged; one that ends in another exception than a rejection fails here."""
    folder = tmp_path_factory.mktemp("mutants")
    return [
        _judged(one, folder, vocabulary) for one in _different(mutants(MUTANTS, SEED, vocabulary))
    ]


def _different(many: Iterator[Mutant]) -> Iterator[Mutant]:
    seen = {file.read_bytes() for file in SHIPPED}
    for one in many:
        if one.content not in seen:
            seen.add(one.content)
            yield one


def _judged(mutant: Mutant, folder: Path, vocabulary: Vocabulary) -> Verdict:
    file = folder / f"{mutant.name}.yaml"
    file.write_bytes(mutant.content)
    try:
        load_scenario(file, vocabulary)
    except DocumentError as error:
        return Verdict(mutant, (str(error),))
    except Exception as error:
        error.add_note(str(mutant))
        raise
    return Verdict(mutant, (), load_document(file))


def _rejected(verdicts: list[Verdict]) -> list[Verdict]:
    return [one for one in verdicts if one.messages]


def _accepted(verdicts: list[Verdict]) -> list[Verdict]:
    return [one for one in verdicts if not one.messages]


def test_there_are_mutants_enough_of_every_file_and_of_both_fates(verdicts: list[Verdict]) -> None:
    assert len(verdicts) >= LEAST
    assert {one.mutant.name for one in verdicts} == {file.stem for file in SHIPPED}
    assert {one.mutant.name for one in _rejected(verdicts)} == {file.stem for file in SHIPPED}
    assert len(_rejected(verdicts)) > len(_accepted(verdicts)) > PLAYED


def test_the_same_seed_gives_the_same_mutants(vocabulary: Vocabulary) -> None:
    first, second = ([*mutants(60, SEED, vocabulary)] for _ in range(2))
    assert first == second
    assert first != [*mutants(60, SEED + 1, vocabulary)]


def test_an_error_is_one_line_with_file_line_and_column(verdicts: list[Verdict]) -> None:
    for one in _rejected(verdicts):
        for message in one.messages:
            _, found, said = message.partition(f"{one.mutant.name}.yaml:")
            assert found, f"{message!r} of {one.mutant}"
            assert _MESSAGE.fullmatch(said), f"{message!r} of {one.mutant}"
            assert message.isprintable(), f"{message!r} of {one.mutant}"
            assert len(message) < _LONGEST, f"{message!r} of {one.mutant}"


def test_an_error_names_a_place_that_the_file_has(verdicts: list[Verdict]) -> None:
    for one in _rejected(verdicts):
        line = int(one.messages[0].partition(f"{one.mutant.name}.yaml:")[2].split(":")[0])
        # YAML also ends a line where others do not, and may report the end that comes too soon.
        most = one.mutant.content.decode(errors="replace").splitlines()
        assert 1 <= line <= len(most) + 1, f"{one.messages} of {one.mutant}"


def test_all_problems_are_reported_as_cleanly_and_the_first_one_first(
    verdicts: list[Verdict], vocabulary: Vocabulary, tmp_path: Path
) -> None:
    for one in verdicts[::5]:
        file = tmp_path / f"{one.mutant.name}.yaml"
        file.write_bytes(one.mutant.content)
        reported = [f"{place}: {text}" for place, text in scenario_file_problems(file, vocabulary)]
        assert bool(reported) == bool(one.messages), one.mutant
        for message in reported:
            said = message.removeprefix(f"{file}:")
            assert _MESSAGE.fullmatch(said), f"{message!r} of {one.mutant}"
            assert said.isprintable(), f"{message!r} of {one.mutant}"
        if reported:
            assert one.messages[0].endswith(reported[0].removeprefix(str(tmp_path)))


def test_nothing_is_accepted_that_is_nonsense(
    verdicts: list[Verdict], vocabulary: Vocabulary
) -> None:
    for one in _accepted(verdicts):
        assert nonsense(one.document, one.mutant.name, vocabulary) == [], one.mutant


def test_the_opinion_that_accepted_files_are_validated_against_has_teeth(
    vocabulary: Vocabulary,
) -> None:
    for file in SHIPPED:
        document = load_document(file)
        assert nonsense(document, file.stem, vocabulary) == []
        for index, step in enumerate(document.get("steps", [])):
            wrong = [*document["steps"]]
            wrong[index] = {**step, "do": "transition", "with": {"trigger": "settel"}}
            assert nonsense({**document, "steps": wrong}, file.stem, vocabulary)


def test_a_sample_of_what_is_accepted_is_played_and_no_step_fails(
    verdicts: list[Verdict], tmp_path: Path
) -> None:
    sample = _behaving_differently(_accepted(verdicts))
    chosen = random.Random(SEED).sample(sample, PLAYED)  # noqa: S311  it is to be the same one
    for number, one in enumerate(chosen):
        document = {**one.document, "name": f"mutant-{number}"}
        document.pop("begins", None)
        text = yaml.safe_dump(document, sort_keys=False)
        (tmp_path / f"mutant-{number}.yaml").write_text(text)
    with serving(replace(FROZEN, scenarios=tmp_path)) as server:
        for number, one in enumerate(chosen):
            with server.client(server.new_workspace()) as client:
                outcomes = _played(client, f"mutant-{number}")
            assert outcomes <= {"done", "skipped"}, one.mutant


def _behaving_differently(accepted: list[Verdict]) -> list[Verdict]:
    """Those whose steps are not the ones of the shipped file, so that they are worth playing."""
    shipped = {file.stem: load_document(file).get("steps", []) for file in SHIPPED}
    return [one for one in accepted if one.document.get("steps", []) != shipped[one.mutant.name]]


def _played(client: httpx.Client, name: str) -> set[str]:
    """How the steps of a scenario end, as far as it is followed."""
    choose(client, name)
    register(client)
    outcomes = set()
    for _ in range(ADVANCES):
        due = client.get("/sandbox/agenda").json()["data"]["due"]
        if not due:
            break
        response = client.post("/sandbox/clock/advance", json={"to": due[-1]["at"]})
        assert response.status_code == 200, response.text
        happened = response.json()["data"]["happened"]
        outcomes |= {step["outcome"] for step in happened if step["scenario"] == name}
    return outcomes
