"""``invoice_sandbox.judge``: a check of the acceptance plan with a function as the client."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import httpx2
import pytest

from invoice_sandbox.acceptance.runner import CheckReport
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.control.client import ControlClient, SandboxError
from invoice_sandbox.state.credentials import DEMO_KEY
from invoice_sandbox.testing import ClientTask, InvoiceSandbox
from invoice_sandbox.testing.workspace import ScenarioChoice, new_workspace
from tests.acceptance.page import PAGE
from tests.scenario_run import INVOICE
from tests.support import PATIENCE, Running

pytestmark = pytest.mark.slow


@pytest.fixture
def sandbox(server: Running) -> Iterator[InvoiceSandbox]:
    """What the plugin's fixture is, on the server of these tests."""
    control = ControlClient(server.url, DEMO_KEY)
    with new_workspace(control, ScenarioChoice("manual"), seed=1) as made:
        yield made


def listing(task: ClientTask, times: int = 1) -> None:
    """Lists the offers."""
    headers = {"Authorization": f"Bearer {task.key}"}
    for _ in range(times):
        httpx.get(f"{task.url}/api/offers", headers=headers, timeout=PATIENCE)


def test_a_function_that_keeps_every_rule_passes(sandbox: InvoiceSandbox) -> None:
    report: CheckReport = sandbox.judge("scope-missing", listing)
    assert report.verdict is Verdict.PASS


def test_a_function_that_breaks_a_rule_fails_with_the_evidence(sandbox: InvoiceSandbox) -> None:
    with pytest.raises(AssertionError) as error:
        sandbox.judge("scope-missing", lambda task: listing(task, times=2))
    text = str(error.value)
    assert text.startswith("FAIL scope-missing: The client sends the request once. Sent ")
    assert len(re.findall(r"GET /api/offers: 403 \(req_sandbox_\w+\)", text)) == 2


def test_a_function_that_raises_an_error_shows_it_without_the_key(sandbox: InvoiceSandbox) -> None:
    def crash(task: ClientTask) -> None:
        raise RuntimeError(f"no idea what to do with {task.name} and {task.key}")

    with pytest.raises(AssertionError) as error:
        sandbox.judge("scope-missing", crash)
    assert str(error.value).startswith("INCONCLUSIVE scope-missing: ")
    assert "RuntimeError: no idea what to do with list-offers and [redacted]" in str(error.value)


def test_a_check_that_judged_nothing_is_no_pass(sandbox: InvoiceSandbox) -> None:
    with pytest.raises(AssertionError) as error:
        sandbox.judge("webhook-order", listing, declare=[])
    problem = "The client does not declare 'webhooks'."
    assert str(error.value) == f"NOT_APPLICABLE webhook-order: {problem}"


def test_an_unknown_capability_is_an_error_with_a_suggestion(sandbox: InvoiceSandbox) -> None:
    with pytest.raises(SandboxError, match=r"capability 'webhoks' \(did you mean webhooks\?\)"):
        sandbox.judge("webhook-order", listing, declare=["webhoks"])


def test_repetitions_are_judged_by_their_keys(sandbox: InvoiceSandbox) -> None:
    def register(key: str) -> None:
        sandbox.client.post("/api/invoices", json=INVOICE, headers={"Idempotency-Key": key})

    with pytest.raises(AssertionError, match="stable-keys was not seen"):
        sandbox.verdicts.assert_kept("stable-keys")
    sandbox.fault("createInvoice", "status", status=503)
    register("one")
    register("one")
    sandbox.verdicts.assert_kept("stable-keys")
    assert "reset" in sandbox.verdicts.provoke("stable-keys")["armed"]
    with pytest.raises(httpx2.TransportError):
        register("two")
    register("three")
    with pytest.raises(AssertionError, match="with another Idempotency-Key"):
        sandbox.verdicts.assert_kept()


def test_an_unknown_check_is_an_error_with_a_suggestion(sandbox: InvoiceSandbox) -> None:
    with pytest.raises(SandboxError, match=r"no check 'monei' \(did you mean money\?\)"):
        sandbox.judge("monei", listing)


def test_the_example_of_the_guide(sandbox: InvoiceSandbox) -> None:
    found = re.search(
        r"<!-- file: test_retries.py -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL
    )
    assert found is not None
    names: dict[str, object] = {}
    exec(found[1], names)  # noqa: S102 - our own page
    test = names["test_a_registration_is_repeated_with_its_key"]
    assert callable(test)
    test(sandbox)


def test_a_client_that_breaks_no_invariant_is_kept(sandbox: InvoiceSandbox) -> None:
    sandbox.verdicts.assert_kept()
    sandbox.client.post("/api/invoices", json=INVOICE, headers={"Idempotency-Key": "one"})
    sandbox.verdicts.assert_kept("distinct-keys", "valid-requests")


def test_a_broken_invariant_names_the_exchanges(sandbox: InvoiceSandbox) -> None:
    sent = [sandbox.client.post("/api/invoices", json={}) for _ in range(2)]
    ids = [response.json()["error"]["requestId"] for response in sent]
    with pytest.raises(AssertionError) as error:
        sandbox.verdicts.assert_kept("rejected-once")
    first, *exchanges, advice = str(error.value).splitlines()
    assert advice.startswith("  Read the message of the error")
    assert first.startswith("rejected-once: The client does not repeat a request that was rejected")
    for line, request_id in zip(exchanges, ids, strict=True):
        pattern = rf"  20\S+Z POST /api/invoices: 400 \({request_id}\)"
        assert re.fullmatch(pattern, line)


def test_an_invariant_that_is_named_must_have_been_seen(sandbox: InvoiceSandbox) -> None:
    sandbox.client.get("/api/offers")
    sandbox.verdicts.assert_kept()
    with pytest.raises(AssertionError, match=r"^missing-once was not seen: .*does not exist\.$"):
        sandbox.verdicts.assert_kept("valid-requests", "missing-once")


def test_live_offers_are_judged_once_the_client_was_shown_one_that_is_over(
    sandbox: InvoiceSandbox,
) -> None:
    sandbox.client.get("/api/health")
    with pytest.raises(AssertionError, match="live-offers was not seen"):
        sandbox.verdicts.assert_kept("live-offers")


def test_deliveries_to_the_inbox_say_nothing_about_the_client(sandbox: InvoiceSandbox) -> None:
    sandbox.control("POST", "/events", {"type": "invoice.verified"})
    assert sandbox.webhooks.received
    with pytest.raises(AssertionError, match="genuine-events was not seen"):
        sandbox.verdicts.assert_kept("genuine-events")


def test_an_unknown_invariant_is_an_error_with_a_suggestion(sandbox: InvoiceSandbox) -> None:
    with pytest.raises(SandboxError, match=r"no check 'retry-aftr' \(did you mean retry-after\?\)"):
        sandbox.verdicts.assert_kept("retry-aftr")
