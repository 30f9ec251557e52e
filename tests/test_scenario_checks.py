"""Scenario files: one that cannot be run to the end is rejected, with its place and what to do."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.project.loader import (
    default_project,
    load_contract,
    load_vocabulary,
    vocabulary_of,
)
from invoice_sandbox.scenarios.checks import (
    Vocabulary,
    load_scenario,
    scenario_errors,
    scenario_problems,
)
from invoice_sandbox.scenarios.library import Library, scenario_files
from invoice_sandbox.scenarios.lifecycle import Lifecycle
from invoice_sandbox.scenarios.script import OnCall, Reaction
from tests.notes_project import write_project
from tests.support import PATIENCE

GOOD = """\
name: example
purpose: The seller declines the offer.
begins: {sellerId: sim_seller_of_mine}
needs: {status: [Registered, Verified]}
conditions: {patience: P1D}
steps:
  - on: start
    after: PT0S
    do: find
    with: {item: delivery_evidence, state: Passed}
  - {on: start, after: PT1S, do: start-verification}
  - {on: start, after: PT2S, do: finish-verification}
  - {on: start, after: PT4S, do: request-financing, with: {withoutRecourse: true}}
  - {on: start, after: PT6S, do: make-offer}
  - on: offer.received
    after: $patience
    do: transition
    with: {trigger: decline-offer}
  - {on: {date: dueDate, else: P60D}, after: P1D, do: transition, with: {trigger: expire}}
  - {on: {call: getInvoice, nth: 3}, do: revoke-calling-key}
faults:
  - {operation: listOffers, kind: error, status: 403, count: null}
  - {kind: latency, delay: PT1S, upTo: PT2S}
deliveries:
  - {event: offer.received, kind: duplicate}
expects:
  - {that: The offers are listed once., request: listOffers, times: 1, within: P1D}
"""


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    """What the shipped scenarios may speak of, read once."""
    return load_vocabulary(default_project())


def written(folder: Path, text: str | bytes, name: str = "example") -> Path:
    file = folder / f"{name}.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def problems(
    folder: Path, text: str | bytes, vocabulary: Vocabulary, name: str = "example"
) -> list[str]:
    """Everything that is said of a file with this text, with the file's name for its path.

    Loading it must say all of it.
    """
    file = written(folder, text, name)
    found = [str(error) for error in scenario_errors(file, vocabulary)]
    if found:
        with pytest.raises(DocumentError) as rejected:
            load_scenario(file, vocabulary)
        assert str(rejected.value).splitlines()[-len(found) :] == found
    else:
        load_scenario(file, vocabulary)
    assert all(one.isprintable() for one in found)
    return [one.replace(str(file), file.name) for one in found]


# A file that is fine


def test_a_file_is_read_as_it_stands(tmp_path: Path, vocabulary: Vocabulary) -> None:
    read = load_scenario(written(tmp_path, GOOD), vocabulary)
    assert (read.name, read.purpose) == ("example", "The seller declines the offer.")
    assert read.begins == {"sellerId": "sim_seller_of_mine"}
    assert read.needs == {"status": ["Registered", "Verified"]}
    assert read.conditions == {"businessDays": False, "dates": True, "patience": "P1D"}
    assert read.steps[1] == Reaction(1, "start", timedelta(seconds=1), "start-verification")
    assert read.steps[5:] == (
        Reaction(
            5, "offer.received", timedelta(days=1), "transition", {"trigger": "decline-offer"}
        ),
        Reaction(
            6,
            "start",
            timedelta(days=1),
            "transition",
            {"trigger": "expire"},
            "dueDate",
            timedelta(days=60),
        ),
    )
    assert read.calls == (OnCall(7, "getInvoice", 3, "revoke-calling-key"),)
    assert read.deliveries == ({"event": "offer.received", "kind": "duplicate"},)


def test_a_scenario_needs_no_more_than_name_and_purpose(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    read = load_scenario(
        written(tmp_path, "name: example\npurpose: Nothing happens.\n"), vocabulary
    )
    assert (read.steps, read.calls, read.faults) == ((), (), ())


def test_every_shipped_file_is_fine(vocabulary: Vocabulary) -> None:
    for file in scenario_files(default_project() / "scenarios"):
        assert list(scenario_errors(file, vocabulary)) == []


# What a correct client does


def test_every_sentence_on_passing_has_rules_beside_it(vocabulary: Vocabulary) -> None:
    reported = Library([default_project() / "scenarios"], vocabulary)
    assert {
        name for name, one in reported.items() if bool(one.expects) != bool(one.passes)
    } == set()
    assert sum(len(one.expects) for one in reported.values()) > len(reported)


def test_rules_have_the_conditions_of_a_run(tmp_path: Path, vocabulary: Vocabulary) -> None:
    text = GOOD.replace("{patience: P1D}", "{patience: P1D, most: 3}")
    text = text.replace("times: 1, within: P1D", "atMost: $most, within: $patience")
    (rule,) = load_scenario(written(tmp_path, text), vocabulary).expects
    assert (rule["atMost"], rule["within"]) == (3, "P1D")


WRONG_RULES: dict[str, tuple[str, str]] = {
    "an unknown event": (
        "request: listOffers, times: 1, after: offer.recieved",
        "there is no event type 'offer.recieved' (did you mean offer.received?)",
    ),
    "an event that never happens": (
        "request: listOffers, times: 1, after: invoice.paid",
        "the scenario never records 'invoice.paid' (known: ",
    ),
    "nothing about the requests": (
        "request: listOffers",
        "an item of 'expects' must have one of times, atLeast, atMost, same, gaps",
    ),
    "a status that is none": (
        "request: listOffers, times: 1, status: 2x",
        "'2x' must be a status such as 200 or 2xx",
    ),
}


@pytest.mark.parametrize(("rule", "said"), WRONG_RULES.values(), ids=WRONG_RULES)
def test_a_rule_that_cannot_be_judged_is_reported(
    tmp_path: Path, vocabulary: Vocabulary, rule: str, said: str
) -> None:
    text = GOOD.replace("request: listOffers, times: 1, within: P1D", rule)
    found = problems(tmp_path, text, vocabulary)
    assert found[0].startswith("example.yaml:27:")
    assert found[0].partition(": ")[2].startswith(said)


RULES: tuple[str, ...] = (
    "request: '*', status: 5xx, gaps: grow",
    "request: [listOffers, getInvoice], after: start, until: offer.declined, atLeast: 1",
    "request: createInvoice, same: idempotencyKey",
    "request: listOffers, status: 503, gaps: retryAfter, atMost: 4",
    "delivery: '*', response: 2xx",
    "delivery: offer.received, kind: duplicate, response: 204",
    "delivery: offer.received, response: 2xx, request: listOffers, atLeast: 1",
    "request: listWebhooks, after: webhook_endpoint.disabled, atLeast: 1",
)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_that_can_be_judged_is_accepted(
    tmp_path: Path, vocabulary: Vocabulary, rule: str
) -> None:
    text = GOOD.replace("request: listOffers, times: 1, within: P1D", rule)
    assert problems(tmp_path, text, vocabulary) == []


# One message each

WRONG: dict[str, tuple[str, str, str]] = {
    # the rule that is broken: what is changed in GOOD, into what, and all that is said
    "no YAML": ("needs:", "needs: [", "5:1: did not find expected ',' or ']'"),
    "a tag": (
        "{sellerId:",
        "!!python/name:os.system {sellerId:",
        "3:9: the tag 'tag:yaml.org,2002:python/name:os.system' has no place in JSON",
    ),
    "a key that stands twice": (
        "needs:",
        "purpose: Once more.\nneeds:",
        "4:1: duplicate key 'purpose'",
    ),
    "a misspelt key": ("needs:", "neds:", "4:1: unknown key 'neds' (did you mean needs?)"),
    "no purpose": (
        "purpose: The seller declines the offer.\n",
        "",
        "1:1: the file has no 'purpose'",
    ),
    "another name than the file's": (
        "name: example",
        "name: tale",
        "1:1: the name differs from the file name 'example' (write 'name: example')",
    ),
    "a step after an event without a time": (
        "{on: start, after: PT1S, do",
        "{on: start, do",
        "11:5: an item of 'steps' has no 'after' (add a duration such as PT1S)",
    ),
    "a step with a request at another time": (
        "nth: 3}, do",
        "nth: 3}, after: PT1S, do",
        "20:38: 'after' is not allowed: a step that runs with a request cannot wait (remove it)",
    ),
    "a time that no clock has": (
        "after: PT1S",
        "after: P999999D",
        "11:17: 'P999999D' is too long (at most P3650D)",
    ),
    "an unknown event": (
        "on: offer.received",
        "on: offer.recieved",
        "15:5: there is no event type 'offer.recieved' (did you mean offer.received?)",
    ),
    "an unknown action": (
        "do: make-offer",
        "do: make-ofer",
        "14:30: there is no action 'make-ofer' (did you mean make-offer?)",
    ),
    "an unknown argument": (
        "withoutRecourse",
        "withoutRecurse",
        "13:60: unknown key 'withoutRecurse' (did you mean withoutRecourse?)",
    ),
    "an unknown trigger": (
        "decline-offer",
        "decline-ofer",
        "18:12: there is no trigger 'decline-ofer' (did you mean decline-offer?)",
    ),
    "an operation that is asked without a key": (
        "call: getInvoice",
        "call: getHealth",
        "20:11: getHealth needs no key, so it belongs to no workspace and no scenario (",
    ),
    "a move by a request": (
        "do: revoke-calling-key",
        "do: start-verification",
        (
            "20:38: 'start-verification' changes a status, which is not possible with a request to "
            "getInvoice (let the step follow an event, with 'after')"
        ),
    ),
    "a limit of no condition": (
        "steps:",
        "limits: {patence: {most: P2D, because: It is long.}}\nsteps:",
        "6:10: there is no condition 'patence' (did you mean patience?)",
    ),
    "an unknown member of a beginning": (
        "sellerId:",
        "selerId:",
        "3:10: there is no member 'selerId' (did you mean sellerId?)",
    ),
    "a condition that nothing names": (
        "after: $patience",
        "after: P1D",
        "5:14: condition 'patience' is not used (write $patience in a step)",
    ),
    "an unknown operation of a fault": (
        "operation: listOffers, kind",
        "operation: listOfers, kind",
        "22:6: there is no operation 'listOfers' (did you mean listOffers?)",
    ),
    "an answer that the operation does not declare": (
        "status: 403",
        "status: 404",
        "22:5: listOffers declares no error 404; use kind 'status', which can return any",
    ),
    "a step that never comes": (
        "on: offer.received\n",
        "on: invoice.paid\n",
        "15:5: this step never runs: no earlier step records 'invoice.paid' (known: ",
    ),
    "a step that is not possible then": (
        "decline-offer",
        "become-overdue",
        (
            "17:5: 'become-overdue' is not possible then: the invoice is Offered (possible: "
            "receive-offer, accept-offer, expire-offers, withdraw-offer, decline-offer, dispute, "
            "withdraw, expire)"
        ),
    ),
    "a circle": (
        "  - {on: {call",
        (
            "  - {on: offer.declined, after: PT0S, do: make-offer}\n"
            "  - {on: offer.received, after: PT0S, do: transition, with: {trigger: "
            "decline-offer}}\n  - {on: {call"
        ),
        "6:1: the steps are an endless loop in which no time passes (write 'after",
    ),
}


@pytest.mark.parametrize(("fine", "wrong", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_one_line_with_its_place(
    tmp_path: Path, vocabulary: Vocabulary, fine: str, wrong: str, said: str
) -> None:
    assert fine in GOOD
    found = problems(tmp_path, GOOD.replace(fine, wrong, 1), vocabulary)
    assert found[0].startswith(f"example.yaml:{said}")
    assert len(found) == 1


def test_all_problems_of_a_round_are_reported_in_the_order_of_the_file(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    text = GOOD.replace("make-offer", "make-ofer").replace("call: getInvoice", "call: getHealth")
    assert [one.split(": ")[0] for one in problems(tmp_path, text, vocabulary)] == [
        "example.yaml:14:30",
        "example.yaml:20:11",
    ]


def test_words_are_looked_at_once_the_shape_is_right(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    text = GOOD.replace("make-offer", "make-ofer").replace("purpose:", "porpose:")
    assert [one.split(": ", 1)[1] for one in problems(tmp_path, text, vocabulary)] == [
        "the file has no 'purpose' (add a sentence)",
        "unknown key 'porpose' (did you mean purpose?)",
    ]


def test_the_scenario_is_simulated_once_its_words_are_right(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    early = GOOD.replace("after: PT6S", "after: PT3S")
    assert "not possible" in problems(tmp_path, early, vocabulary)[0]
    misspelt = early.replace("kind: duplicate", "kind: duplicate, event: x", 1)
    text = misspelt.replace("{event: offer.received, ", "{")
    assert ["x" in one for one in problems(tmp_path, text, vocabulary)] == [True]


@pytest.mark.parametrize("name", ["Example", "an_example", "-example", "2nd", "a--b"])
def test_a_name_is_written_in_small_letters_and_hyphens(
    tmp_path: Path, vocabulary: Vocabulary, name: str
) -> None:
    (said,) = problems(tmp_path, GOOD.replace("name: example", f"name: {name}"), vocabulary, name)
    assert said == f"{name}.yaml:1:1: '{name}' must be a kebab-case word such as order-expires"


UNREADABLE = {
    "not UTF-8": (b"name: example\npurpose: \xff\n", "2:10: cannot be read: it is not UTF-8"),
    "two documents": (
        GOOD.encode() + b"---\nname: x\n",
        "28:1: but found another document",
    ),
    "too deep": (b"name: " + b"[" * 300, "1:262: nested too deeply: more than 256 levels"),
    "a number without end": (b"name: " + b"9" * 5000, "1:7: '99999999999999999999999999999999"),
}


@pytest.mark.parametrize(("content", "said"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_cannot_be_read_is_rejected_at_its_place(
    tmp_path: Path, vocabulary: Vocabulary, content: bytes, said: str
) -> None:
    (found,) = problems(tmp_path, content, vocabulary)
    assert found.startswith(f"example.yaml:{said}")


def test_anchors_and_merges_are_read_as_yaml_does(tmp_path: Path, vocabulary: Vocabulary) -> None:
    text = GOOD.replace("{on: start, after: PT1S,", "{<<: &first {on: start}, after: PT1S,")
    text = text.replace("{on: start, after: PT2S,", "{<<: *first, after: PT2S,")
    assert problems(tmp_path, text, vocabulary) == []


# Begun later


def test_from_a_later_beginning_something_must_be_possible(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    text = GOOD.replace("Verified]", "Settled]")
    assert problems(tmp_path, text, vocabulary) == [
        ("example.yaml:4:30: no step of the scenario is possible from status 'Settled' (remove it)")
    ]


def test_that_a_later_beginning_skips_steps_does_not_make_a_wrong_order_right(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    text = GOOD.replace("after: PT4S", "after: PT0.5S")
    found = problems(tmp_path, text, vocabulary)
    assert found[0].startswith("example.yaml:13:32: 'request-financing' is not possible then: ")


# Conditions of a scenario


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("PT1S", []),
        ("soon", ["'soon' must be a duration such as PT10S or P3D"]),
        ("P9999D", ["'P9999D' is too long"]),
        ("$patience", ["condition 'patience' refers to another condition"]),
    ],
)
def test_a_document_under_other_conditions_is_checked_alike(
    tmp_path: Path, vocabulary: Vocabulary, value: str, said: list[str]
) -> None:
    read = load_scenario(written(tmp_path, GOOD), vocabulary)
    document = {**read.document, "conditions": {"patience": value}}
    assert [one.text for one in scenario_problems(document, "example", vocabulary)] == said


# Folders and projects


def test_all_files_that_are_wrong_are_reported_at_once(
    tmp_path: Path, vocabulary: Vocabulary
) -> None:
    written(tmp_path, GOOD)
    places = [str(written(tmp_path, "name: 1\n", name)) + ":1:1" for name in "bc"]
    with pytest.raises(DocumentError) as rejected:
        Library([tmp_path], vocabulary)
    head, *lines = str(rejected.value).splitlines()
    assert head == "scenarios: 4 errors"
    assert {line.partition(": ")[0] for line in lines} == set(places)


def test_without_a_lifecycle_a_scenario_may_still_inject_faults(tmp_path: Path) -> None:
    contract = load_contract(default_project() / "openapi" / "openapi.yaml").contract
    alone = vocabulary_of(contract, Lifecycle({}, {}), {})
    text = "name: example\npurpose: x\nfaults: [{kind: status, status: 503}]\n"
    assert load_scenario(written(tmp_path, text), alone).faults


@pytest.mark.process
def test_a_server_does_not_start_with_a_wrong_scenario(tmp_path: Path) -> None:
    project = write_project(tmp_path, wrong="note.written PT1S rign")
    command = [sys.executable, "-m", "invoice_sandbox", "serve", "--port", "0"]
    ended = subprocess.run(
        [*command, "--project", str(project)],
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "there is no action 'rign' (did you mean ring" in ended.stderr
    assert f"{project / 'scenarios' / 'wrong.yaml'}:4:" in ended.stderr
    assert "Traceback" not in ended.stderr
