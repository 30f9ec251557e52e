"""Whether what the sandbox sends is what receivers in JavaScript take.

A real sandbox delivers to a real receiver in Node.js, which verifies each message with the
libraries of Standard Webhooks and of Svix, and by hand with Node's own HMAC.
"""

from __future__ import annotations

import base64
import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import httpx

from tests.interop.checks import PATIENCE, Check, new_key, rule_of, workspace
from tests.interop.node import HERE, needed_node
from tests.receivers import replay, subscribe, switch, trigger
from tests.scenario_run import INVOICE
from tests.webhook_docs import (
    BODY,
    FORGED,
    JAVASCRIPT,
    genuine,
    javascript_played,
    javascript_shown,
    receiver_of_docs,
    responses_to_forgeries,
)

LIBRARIES: Final = ["standardwebhooks", "svix", "node:crypto"]
KINDS: Final = ["invoice.verified", "offer.received"]
ODD: Final = 'Größe „ß“ № 7 你好 🧾 \u2028\u200f\u0007 "\\" e\u0301'
"""Letters that a careless way to bytes and back would change."""


@dataclass(frozen=True)
class Message:
    """A delivery that the receiver got, and what the libraries found."""

    reported: Any

    @property
    def id(self) -> str:
        return str(self.reported["headers"]["webhook-id"])

    @property
    def body(self) -> bytes:
        return base64.b64decode(self.reported["body"])

    @property
    def event(self) -> Any:
        return json.loads(self.body)

    @property
    def signatures(self) -> list[str]:
        return list(self.reported["headers"]["webhook-signature"].split(" "))

    @property
    def is_accepted(self) -> bool:
        """Whether all libraries accept it; False: none does. The libraries must agree."""
        accepted = self.reported["accepted"]
        assert accepted in ([], LIBRARIES), f"the libraries differ: only {accepted} accept it"
        return bool(accepted)

    @property
    def accepted_by(self) -> set[str]:
        """The secrets by which it is genuine."""
        return {one["secret"] for one in self.reported["verdicts"] if one["problem"] is None}

    def check_genuine(self) -> None:
        """It is accepted by all, read as what was sent, and no change to it is accepted."""
        assert self.is_accepted, self.reported["verdicts"]
        read = [one["event"] for one in self.reported["verdicts"] if one["problem"] is None]
        assert all(one == self.event for one in read), "a library reads another event"
        assert not self.reported["forgeries"], (
            f"forgeries are accepted: {self.reported['forgeries']}"
        )
        assert self.id == self.event["id"]


@dataclass(frozen=True)
class Stage:
    """A new workspace whose clock stands, and the receiver."""

    sandbox: httpx.Client
    receiver: httpx.Client

    def subscribe(self, **members: Any) -> Any:
        """An endpoint at the receiver, which knows its secret."""
        endpoint = subscribe(self.sandbox, str(self.receiver.base_url), **members)
        self.knows(endpoint["secret"])
        return endpoint

    def knows(self, *secrets: str) -> None:
        """Pass the secrets to the receiver, and have it forget what came before."""
        self.receiver.put("/secrets", json=secrets).raise_for_status()

    def received(self) -> list[Message]:
        """What the receiver got, in its order."""
        return [Message(one) for one in self.receiver.get("/messages").json()]

    def invoice(self, **members: Any) -> Any:
        """A new invoice, and six seconds of its scenario."""
        reply = self.sandbox.post("/api/invoices", json={**INVOICE, "amount": 12500.50, **members})
        self.advance("PT6S")
        return reply.raise_for_status().json()["data"]

    def advance(self, time: str) -> None:
        """Let time pass until everything has been delivered."""
        self.sandbox.post("/sandbox/clock/advance", json={"by": time}).raise_for_status()


def both_published_events(stage: Stage) -> str:
    """Both published events are verified, and report what the API reports."""
    stage.subscribe()
    invoice = stage.invoice()
    messages = stage.received()
    assert [one.event["type"] for one in messages] == KINDS
    for message in messages:
        message.check_genuine()
    assert messages[0].event["data"]["id"] == invoice["id"]
    reply = stage.sandbox.get("/api/offers", params={"invoiceId": invoice["id"]})
    (offer,) = reply.json()["data"]
    assert messages[1].event["data"] == offer
    return f"{len(messages)} deliveries, and 9 forgeries of each rejected"


def every_kind(stage: Stage) -> str:
    """Events of every kind on the way of an invoice are verified."""
    stage.sandbox.put("/sandbox/scenario", json={"name": "full-lifecycle"}).raise_for_status()
    stage.subscribe(events=["*"])
    stage.invoice()
    stage.advance("P200D")
    messages = stage.received()
    kinds = {one.event["type"] for one in messages}
    assert {"invoice.funded", "invoice.paid", "invoice.settled"} <= kinds, kinds
    for message in messages:
        message.check_genuine()
    return f"{len(messages)} deliveries of {len(kinds)} kinds"


def strange_letters(stage: Stage) -> str:
    """Letters beyond ASCII arrive as they were registered."""
    stage.subscribe()
    stage.invoice(invoiceNumber=ODD)
    verified, offer = stage.received()
    verified.check_genuine()
    offer.check_genuine()
    assert verified.event["data"]["invoiceNumber"] == ODD
    return f"{len(verified.body)} bytes, {len(verified.body.decode())} letters"


def replayed(stage: Stage) -> str:
    """A replay has the same id and the same bytes, and is verified like the first."""
    stage.subscribe()
    stage.invoice()
    (newest, *_) = stage.sandbox.get("/api/webhooks").json()["data"]["deliveries"]
    replay(stage.sandbox, newest["id"])
    *_, first, again = stage.received()
    again.check_genuine()
    assert (again.id, again.body) == (first.id, first.body)
    return again.id


def sample(stage: Stage) -> str:
    """What POST /api/webhooks/test sends is verified, and is what it says that it sent."""
    stage.subscribe()
    reply = stage.sandbox.post("/api/webhooks/test", json={"eventType": "offer.received"})
    (message,) = stage.received()
    message.check_genuine()
    assert reply.json()["data"]["request"]["body"].encode() == message.body
    return str(message.event["type"])


def rotation(stage: Stage) -> str:
    """For a day the old secret and the new one each verify; after it only the new one does."""
    endpoint = stage.subscribe()
    stage.invoice()
    old, new = endpoint["secret"], switch(stage.sandbox, endpoint["id"], "rotate-secret")["secret"]
    stage.knows(old, new)
    for wait, expected in (("PT0S", {old, new}), ("PT23H59M59S", {old, new}), ("PT1S", {new})):
        stage.advance(wait)
        trigger(stage.sandbox)
        stage.advance("PT0S")
        message = stage.received()[-1]
        message.check_genuine()
        assert len(message.signatures) == len(expected)
        assert message.accepted_by == expected
    return "two signatures for 24 h, then one"


def forged(stage: Stage) -> str:
    """Forgeries are rejected by all, and the true message after them is accepted."""
    stage.sandbox.put("/sandbox/scenario", json={"name": "webhook-bad-signature"})
    stage.subscribe()
    stage.invoice()
    messages = stage.received()
    assert [one.is_accepted for one in messages] == [False, False, False, True] * 2
    for message in messages[3::4]:
        message.check_genuine()
    deliveries = stage.sandbox.get("/api/webhooks").json()["data"]["deliveries"]
    assert {one["status"] for one in deliveries} == {"Delivered"}
    problems = {one["problem"] for message in messages[:3] for one in message.reported["verdicts"]}
    return f"6 rejected, 2 accepted: {'; '.join(sorted(problems - {None}))}"


def docs_session(_: Stage) -> str:
    """The session in JavaScript of docs/webhooks.md prints what the page shows."""
    assert javascript_played() == javascript_shown(), "run python -m tests.webhook_docs"
    return "docs/webhooks.md"


def docs_receiver(_: Stage) -> str:
    """The receiver in JavaScript of docs/webhooks.md rejects every forgery with a 4xx."""
    with receiver_of_docs(JAVASCRIPT) as receiver:
        responses = responses_to_forgeries(receiver)
        assert responses == dict.fromkeys(FORGED, 401), responses
        assert [receiver.post(BODY, genuine(BODY)) for _ in range(2)] == [204, 204]
        assert receiver.lines()[-2:] == ["accepted: invoice.verified evt_1", "again: evt_1"]
    return f"{len(responses)} forgeries"


_CHECKS: Final[tuple[Callable[[Stage], str], ...]] = (
    both_published_events,
    every_kind,
    strange_letters,
    replayed,
    sample,
    rotation,
    forged,
    docs_session,
    docs_receiver,
)


@contextlib.contextmanager
def receiving() -> Iterator[httpx.Client]:
    """The receiver in Node.js, ready."""
    command = [needed_node(), HERE / "receiver.mjs"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            port = program.stdout.readline().strip()
            assert port.isdecimal(), "the receiver in Node.js did not become ready"
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client:
                yield client
        finally:
            program.terminate()


def checks(url: str, receiver: httpx.Client) -> list[Check]:
    """All of them, each in a workspace of its own of the sandbox at ``url``."""
    return [Check(rule_of(one), partial(_in_workspace, one, url, receiver)) for one in _CHECKS]


def _in_workspace(check: Callable[[Stage], str], url: str, receiver: httpx.Client) -> str:
    with workspace(url, new_key(url)) as sandbox:
        return check(Stage(sandbox, receiver))
