"""Acceptance plans are checked when they are loaded, with a suggestion for what is unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from invoice_sandbox.acceptance.observer import served_vocabulary
from invoice_sandbox.conformance.plan import (
    SCHEMA,
    Plan,
    PlanVocabulary,
    load_plan,
)
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.project.loader import default_project
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.acceptance.page import PAGE, PLAN_PAGE, with_tables
from tests.support import Running

WORDS = PlanVocabulary(["createOrder", "getOrder"], ["order.paid"], ["rush", "calm"])
PLAN = """\
name: plan
purpose: A client orders.
capabilities: {webhooks: The client receives webhooks.}
tasks: {order: Order something.}
asks: {order: "order {/order/item}"}
probes:
  orders:
    task: {name: order}
    rules: [{that: It orders., request: createOrder, atLeast: 1}]
values: {order: {item: tea}}
invariants:
  once: {that: It keeps its keys apart., request: "*", keys: distinct}
  polite: {that: It waits., request: "*", gaps: retryAfter}
checks:
  - id: retries
    level: must
    proves: The client tries again.
    specification: Errors
    cases:
      - when: webhooks
        except: [once]
        task: {name: order, order: $order}
        webhooks: [order.paid]
        setup:
          - {send: PUT /sandbox/scenario, body: {name: rush}}
          - {send: POST /sandbox/faults, body: {operation: createOrder, kind: status}}
        during:
          - {wait: {request: getOrder, atLeast: 1}}
          - {mark: served}
        window: PT5S
        controls: [{delivery: order.paid, after: served, response: 2xx}]
        rules: [{that: It asks., request: createOrder, atLeast: 2}]
"""


def load(folder: Path, text: str = PLAN) -> Plan:
    """The plan of that text."""
    file = folder / "plan.yaml"
    file.write_text(text)
    return load_plan(file, WORDS)


def test_a_plan_is_loaded_with_its_values(tmp_path: Path) -> None:
    plan = load(tmp_path)
    (check,) = plan.checks
    (case,) = check.cases
    assert (plan.name, check.id, check.pointer) == ("plan", "retries", "/checks/0")
    assert case.task == {"name": "order", "order": {"item": "tea"}}
    assert (case.when, case.window.total_seconds()) == ("webhooks", 5)
    assert plan.digest.startswith("sha256:")
    assert plan.words_of(case.task) == "order tea"
    assert plan.probes["orders"].task == {"name": "order"}
    assert case.invariants == (plan.invariants["polite"],)
    assert plan.probes["orders"].invariants == (*plan.invariants.values(),)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: plan\n", "name: other\n", "the name differs from the file name 'plan'"),
        ("level: must", "level: mus", "'level' cannot be 'mus' (did you mean must?)"),
        ("window: PT5S", "windw: PT5S", "unknown key 'windw' (did you mean window?)"),
        ("window: PT5S", "window: PT190S", "must be a duration such as PT10S, up to PT180S"),
        ("when: webhooks", "when: webhook", "no capability 'webhook' (did you mean webhooks?)"),
        ("when: webhooks", "unless: webhook", "no capability 'webhook' (did you mean webhooks?)"),
        ("when: webhooks", "probe: order", "there is no probe 'order' (did you mean orders?)"),
        ("\nasks: {order", "\nasks: {oder", "there is no task 'oder' (did you mean order?)"),
        ("task: {name: order}", "task: {name: odrer}", "no task 'odrer' (did you mean order?)"),
        ("name: order,", "name: ordr,", "no task 'ordr' (did you mean order?)"),
        ("[order.paid]", "[order.pait]", "no event type 'order.pait' (did you mean order.paid?)"),
        ("{name: rush}", "{name: rash}", "no scenario 'rash' (did you mean rush?)"),
        ("operation: create", "operation: creat", "(did you mean createOrder?)"),
        (
            "request: getOrder",
            "request: getOder",
            "'getOder' (did you mean getOrder?)",
        ),
        ("except: [once]", "except: [onec]", "no invariant 'onec' (did you mean once?)"),
        ("keys: distinct", "keys: distnct", "'keys' cannot be 'distnct' (did you mean distinct?)"),
        ("mark: served", "mark: served, for: PT1S", "'for' needs 'wait' (add it)"),
        ("after: served", "after: server", "no mark 'server' (did you mean served?)"),
        ("$order", "$oder", "no value 'oder' (did you mean order?)"),
        (
            "mark: served",
            "mark: served, pause: PT1S",
            "must have exactly one of send, wait, pause, mark",
        ),
        ("atLeast: 2", "atleast: 2", "unknown key 'atleast' (did you mean atLeast?)"),
        ("createOrder, atLeast: 2", "createOrder", "must have one of times, atLeast,"),
        (", response: 2xx", "", "'delivery' needs 'response' (add it)"),
        ("response: 2xx", "response: 2xy", "must be a status such as 200 or 2xx, or not-2xx"),
        ("request: createOrder, ", "", "must have exactly one of request, delivery"),
        ("delivery: order.paid, ", "delivery: order.paid, same: body, ", "'same' needs 'request'"),
        ("atLeast: 2", "atLeast: 2, kind: late", "'kind' needs 'delivery'"),
        ("{mark: served}", "{mark: served, body: {}}", "'body' needs 'send'"),
    ],
)
def test_what_is_wrong_with_a_plan(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert PLAN.count(old) >= 1
    with pytest.raises(DocumentError) as error:
        load(tmp_path, PLAN.replace(old, new, 1))
    assert message in str(error.value)
    assert str(error.value).startswith(f"{tmp_path}/plan.yaml:")


def test_two_checks_have_different_ids(tmp_path: Path) -> None:
    check = PLAN[PLAN.index("  - id:") :]
    with pytest.raises(DocumentError, match="duplicate id 'retries'"):
        load(tmp_path, PLAN + check)


@pytest.mark.parametrize("text", ["", "[]", "checks: 1", "values: []\nchecks: []"])
def test_what_is_no_plan_at_all(tmp_path: Path, text: str) -> None:
    with pytest.raises(DocumentError):
        load(tmp_path, text)


@pytest.fixture
def partner(server: Running) -> Plan:
    """The plan of the sandbox."""
    vocabulary = served_vocabulary(ControlClient(server.url, DEMO_KEY))
    return load_plan(default_project() / "acceptance" / "partner.yaml", vocabulary)


def test_the_partner_plan_has_the_published_checks(partner: Plan) -> None:
    assert [one.id for one in partner.checks] == [
        *("follow-to-offer", "idempotent-retry", "backoff", "retry-after", "validation-errors"),
        *("key-rotation", "scope-missing", "webhook-signature", "webhook-duplicates"),
        *("webhook-order", "broken-responses", "tolerance", "polling", "money"),
        "lifecycle-edges",
    ]


def test_every_case_of_the_partner_plan_has_a_control_and_its_rules_a_sentence(
    partner: Plan,
) -> None:
    cases: list[Any] = [case for check in partner.checks for case in check.cases]
    assert [one for one in cases if not one.controls] == []
    assert [rule for one in cases for rule in one.rules if not rule.get("that")] == []


def test_a_client_gets_no_event_type_that_its_check_does_not_name(partner: Plan) -> None:
    """A client that rejects unknown types must fail in 'tolerance' only."""
    subscribed = [one for check in partner.checks for case in check.cases for one in case.webhooks]
    assert {*subscribed} == {"invoice.verified", "offer.received"}


def test_the_page_has_the_tables_of_the_plan(partner: Plan) -> None:
    page = PAGE.read_text()
    assert with_tables(page, partner) == page


def test_the_page_about_plans_has_every_key_of_a_rule() -> None:
    page = PLAN_PAGE.read_text()
    words = {*_keys(json.loads(SCHEMA.read_text())["$defs"]["rule"]["properties"])}
    assert [word for word in words if f"`{word}`" not in page] == []


def _keys(properties: dict[str, Any]) -> list[str]:
    return [name for name in properties if name != "that"]
