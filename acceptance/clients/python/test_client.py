"""The client in the sandbox: pip install invoice-liquidity-sandbox pytest; python -m pytest."""

import pytest
from client import Receiver, do_task, signature


@pytest.mark.parametrize(
    "check", ["follow-to-offer", "idempotent-retry", "retry-after", "scope-missing"]
)
def test_the_client_passes(invoice_sandbox, check):
    invoice_sandbox.judge(check, lambda it: do_task(it.task, it.environment, it.stopped))


def test_a_forged_webhook_is_rejected():
    secret = "whsec_c2VjcmV0"
    environment = {"SANDBOX_API_URL": "", "SANDBOX_WEBHOOK_SECRET": secret}
    receiver = Receiver({"name": "receive-webhooks"}, environment)
    headers = {"Webhook-Id": "evt_1", "Webhook-Timestamp": "1", "Webhook-Signature": "v1,"}
    assert receiver.status(headers, b"{}") == 401
    headers["Webhook-Signature"] = f"v1,{signature(secret, b'evt_1.1.{}')}"
    assert receiver.status(headers, b"{}") == 401  # it is too old
