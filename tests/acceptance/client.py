"""A client of the API with the standard library only: the reference, and its seeded faults.

``python client.py`` does the task in ACCEPTANCE_TASK. ``python client.py --fault NAME`` does it
with one of the faults in clients.yaml. A fault takes effect wherever the client comes to it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import random
import signal
import struct
import sys
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from decimal import Decimal
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

FAULT = sys.argv[sys.argv.index("--fault") + 1] if "--fault" in sys.argv else ""
MEMBERS = ("id", "type", "timestamp", "mode", "data")
STATUSES = ("Registered", "VerificationPending", "Verified", "FinancingRequested", "Offered")
TIMEOUT = 3.0
ATTEMPTS = 6


class RejectedError(Exception):
    """A request that cannot be repeated, or that failed too often."""


class BrokenResponseError(Exception):
    """A response that cannot be read."""


def fault(name: str) -> bool:
    """Whether this client has that fault."""
    return name == FAULT


def log(text: object) -> None:
    """Write a line."""
    sys.stderr.write(f"{text}\n")


class Api:
    """Sends requests, and repeats those that may succeed later."""

    def __init__(self, url: str, keys: list[str]) -> None:
        self._address = urllib.parse.urlsplit(url)
        self._keys = keys

    def call(self, method: str, path: str, data: dict[str, Any] | None = None) -> Any:
        """The ``data`` of a successful response. Raises RejectedError."""
        request = Attempt(method, path, data)
        for _ in range(1000 if FAULT.endswith("without-end") else ATTEMPTS):
            status, headers, found = self._try(request)
            if status is not None and status < 300:
                return found["data"]
            delay = self._repetition(request, status, headers)
            if delay is None:
                break
            if fault("reads-on-while-it-must-wait") and status == 429:
                self._try(Attempt("GET", "/api/offers", None))
            time.sleep(delay)
            request.prepare_repetition(status)
        raise RejectedError(f"{method} {path}: {status} {found}")

    def _try(self, request: Attempt) -> tuple[int | None, Mapping[str, str], Any]:
        """Status, headers and JSON of a response; without a status if there is none."""
        try:
            return self._exchange(request)
        except ConnectionResetError:
            if fault("gives-up-after-a-reset"):
                raise
        except TimeoutError:
            if fault("crashes-on-a-timeout"):
                raise
        except BrokenResponseError as error:
            log(error)
            request.was_broken = True
        except OSError as error:
            log(error)
        return None, {}, None

    def _exchange(self, request: Attempt) -> tuple[int, Mapping[str, str], Any]:
        """Raises OSError and BrokenResponseError."""
        address = self._address
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=TIMEOUT
        )
        headers = {"Authorization": f"Bearer {self._keys[0]}", **request.headers()}
        try:
            connection.request(request.method, request.path, request.body(), headers)
            response = connection.getresponse()
            content = response.read()
        except http.client.HTTPException as error:
            if fault("crashes-on-truncated-responses"):
                raise
            raise BrokenResponseError(repr(error)) from None
        finally:
            connection.close()
        return response.status, _lower(response.headers), _json(response.status, content)

    def _repetition(
        self, request: Attempt, status: int | None, headers: Mapping[str, str]
    ) -> float | None:
        """The seconds before a request is repeated, or None: it is not."""
        if status == 401 and fault("keeps-the-revoked-key"):
            return 0.3
        if status == 401 and len(self._keys) > 1 and not fault("stops-with-its-first-key"):
            self._keys.pop(0)
            return 0
        if status == 403 and fault("repeats-a-403"):
            return 0.2
        if status in (400, 404, 409, 413) and fault(f"repeats-a-{status}"):
            return 0.2
        if status == 400 and fault("reorders-and-repeats-a-400"):
            return 0.2
        if status is not None and status != 429 and status < 500:
            return None
        asked = float(headers.get("retry-after", 0))
        if fault("ignores-retry-after"):
            asked = 0
        if fault("ignores-retry-after-of-reads") and request.method == "GET":
            asked = 0
        if fault("halves-retry-after"):
            asked /= 2
        return max(asked, request.wait)


class Attempt:
    """A request with its key, which stays the same in every repetition."""

    def __init__(self, method: str, path: str, data: dict[str, Any] | None) -> None:
        self.method, self.path, self.data = method, path, data
        self.key: str | None = None if fault("sends-no-key") else os.urandom(12).hex()
        if fault("one-key-for-everything"):
            self.key = "one"
        self.wait = 0.0 if fault("immediate-retry") else 0.25
        self.was_broken = False

    def headers(self) -> dict[str, str]:
        """The headers besides the credential."""
        if self.data is None:
            return {"Accept": "application/json"}
        key = {} if self.key is None else {"Idempotency-Key": self.key}
        return {"Accept": "application/json", "Content-Type": "application/json", **key}

    def body(self) -> bytes | None:
        """The body as JSON with every digit of its numbers."""
        if self.data is None:
            return None
        text = json.dumps(self.data, default=_number)
        for value in _decimals(self.data):
            text = text.replace(f'"<{value}>"', _digits(value))
        return text.encode()

    def prepare_repetition(self, status: int | None) -> None:
        """Wait longer the next time."""
        if fault("retries-slowly-without-end"):
            self.wait = min(2 * self.wait, 2.0)
        elif fault("retries-without-end"):
            self.wait = random.uniform(0.1, 0.5)  # noqa: S311 - no secret
        elif not fault("constant-backoff"):
            self.wait *= 2
        if fault("new-key-for-each-attempt") or (status == 429 and fault("new-key-after-a-429")):
            self.key = os.urandom(12).hex()
        if fault("other-body-in-repetitions") and self.data is not None:
            self.data = {**self.data, "dueDate": "2027-02-01"}
        if status == 400 and fault("reorders-and-repeats-a-400") and self.data is not None:
            self.data = dict(reversed(self.data.items()))
        if self.was_broken and fault("new-key-after-a-broken-response"):
            self.key = os.urandom(12).hex()


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _json(status: int, content: bytes) -> Any:
    try:
        return json.loads(content, parse_float=Decimal)
    except ValueError:
        if content.startswith(b"<") and fault("crashes-on-html"):
            raise
        if status >= 500:
            return None
        raise BrokenResponseError(f"{status} without JSON") from None


def _number(value: Any) -> str:
    """A placeholder; ``json`` would write a float."""
    return f"<{value}>"


def _decimals(data: Mapping[str, Any]) -> Iterator[Decimal]:
    return (value for value in data.values() if isinstance(value, Decimal))


def _digits(value: Decimal) -> str:
    if fault("rounds-to-cents"):
        return str(round(value, 2))
    if fault("reads-single-precision"):
        return str(struct.unpack("f", struct.pack("f", value))[0])
    return str(value)


class Tasks:
    """What the client does for each task."""

    def __init__(self, api: Api, task: dict[str, Any]) -> None:
        self._api, self._task = api, task

    def register(self) -> str:
        """Register the invoice; its id."""
        invoice = dict(self._task["invoice"])
        if fault("lowers-the-invoice-number"):
            invoice["invoiceNumber"] = invoice["invoiceNumber"].lower()
        if fault("drops-the-due-date"):
            invoice.pop("dueDate", None)
        if fault("sends-minor-units"):
            invoice["amount"] = int(invoice["amount"] * 100)
        if fault("registers-twice"):
            self._api.call("POST", "/api/invoices", invoice)
        return str(self._api.call("POST", "/api/invoices", invoice)["id"])

    def follow(self) -> None:
        """Register the invoice and read it until its status is that of the task."""
        invoice_id = self.register()
        if fault("never-reads"):
            return
        pause = 0.05 if fault("polls-twenty-times-a-second") else 1.0
        pause = 0.125 if fault("polls-eight-times-a-second") else pause
        while True:
            invoice = self._api.call("GET", f"/api/invoices/{invoice_id}")
            if fault("stops-at-an-unknown-member") and "assessment" in invoice:
                raise RejectedError("assessment")
            if fault("stops-at-an-unknown-status") and invoice["status"] not in STATUSES:
                raise RejectedError(invoice["status"])
            if invoice["status"] == self._task["until"]:
                return
            time.sleep(pause)

    def list_offers(self) -> None:
        """List the offers, and request financing for those that can still be accepted."""
        found = self._api.call(
            "GET", "/api/offers?limit=100" if fault("reads-the-first-page-only") else "/api/offers"
        )
        if fault("never-requests-financing"):
            return
        for offer in found if "request" in self._task else ():
            if offer["invoiceId"] is not None and self._is_live(offer):
                members = {name: offer[one] for name, one in self._task["request"].items()}
                if fault("computes-amounts-itself") and "requestedAmount" in members:
                    members["requestedAmount"] = offer["faceValue"] * offer["advanceRate"]
                self.request_financing(offer["invoiceId"], members)

    def _is_live(self, offer: Mapping[str, Any]) -> bool:
        if fault("ignores-the-status-of-offers"):
            return True
        live = {"Received", *(["Withdrawn"] if fault("keeps-withdrawn-offers") else [])}
        if offer["status"] not in live:
            return False
        invoice = self._api.call("GET", f"/api/invoices/{offer['invoiceId']}")
        return bool(invoice["status"] != "Disputed" or fault("ignores-disputes"))

    def request_financing(self, invoice_id: str, members: Mapping[str, Any]) -> None:
        """Request financing of an invoice, if its status allows it."""
        try:
            self._api.call(
                "POST", "/api/financing-requests", {"invoiceIds": [invoice_id], **members}
            )
        except RejectedError as error:
            log(error)

    def process(self, event: Mapping[str, Any]) -> None:
        """Do what the task says for an event, unless the invoice has moved on."""
        if self._task.get("on", {}).get(event["type"]) != "request-financing":
            return
        read = event["data"]
        if not fault("acts-on-stale-events"):
            read = self._api.call("GET", f"/api/invoices/{read['id']}")
        if read["status"] == event["data"]["status"]:
            self.request_financing(read["id"], {})

    def act_again(self, event: Mapping[str, Any]) -> None:
        """Repeat what was done for the first copy of an event."""
        if event["type"] in self._task.get("on", {}):
            self.request_financing(event["data"]["id"], {})


class Messages:
    """Verifies webhooks, and processes each of them once."""

    def __init__(self, tasks: Tasks, secrets: list[str]) -> None:
        self._tasks, self._secrets = tasks, secrets
        self._processed: set[str] = set()
        self._arrived: dict[str, float] = {}
        self._lock = Lock()

    def status(self, headers: Mapping[str, str], body: bytes) -> int:
        """The status of the response to a message."""
        if fault("rejects-every-event") or not self._is_genuine(headers, body):
            if fault("remembers-before-it-verifies"):
                self._processed.add(headers["webhook-id"])
            if fault("acts-on-forgeries"):
                self._act_early(headers["webhook-id"], body)
            return 401
        event = json.loads(body, parse_float=Decimal)
        if fault("rejects-unknown-events") and not event["type"].endswith(("verified", "received")):
            return 400
        with self._lock:
            is_copy = headers["webhook-id"] in self._processed
            self._processed.add(headers["webhook-id"])
        if is_copy and fault("remembers-before-it-verifies"):
            return 200
        arrived = self._arrived.setdefault(headers["webhook-id"], time.monotonic())
        if fault("remembers-events-for-a-second") and time.monotonic() > arrived + 1:
            self._tasks.act_again(event)
        if is_copy and fault("rejects-copies"):
            return 409
        if is_copy and fault("acts-on-each-copy"):
            self._tasks.act_again(event)
        if not is_copy:
            self._tasks.process(event)
        return 200

    def _act_early(self, message: str, body: bytes) -> None:
        """Process a message that is not genuine, as if it were."""
        if body and message not in self._processed:
            self._processed.add(message)
            self._tasks.process(json.loads(body, parse_float=Decimal))

    def _is_genuine(self, headers: Mapping[str, str], body: bytes) -> bool:
        if fault("accepts-unsigned-messages") and "webhook-signature" not in headers:
            return True
        age = time.time() - int(headers["webhook-timestamp"])
        if age < -300 or age > (1800 if fault("accepts-old-timestamps") else 300):
            return False
        if fault("accepts-any-signature"):
            return True
        if fault("verifies-known-members-only"):
            body = _without_unknown(body)
        given = headers["webhook-signature"].split(" ")
        if fault("compares-the-whole-header"):
            given = [headers["webhook-signature"]]
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        valid = [f"v1,{_mac(secret, signed)}" for secret in self._secrets]
        return any(hmac.compare_digest(one, other) for one in valid for other in given)


def _without_unknown(body: bytes) -> bytes:
    event = json.loads(body)
    known = {name: one for name, one in event.items() if name in MEMBERS}
    return body if known == event else json.dumps(known, separators=(",", ":")).encode()


def _mac(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def secrets_of(task: Mapping[str, Any]) -> list[str]:
    """The webhook secrets that are valid."""
    first = os.environ["SANDBOX_WEBHOOK_SECRET"]
    second = os.environ.get("SANDBOX_WEBHOOK_SECRET_2")
    if second is None or fault("knows-only-the-old-secret"):
        return [first]
    if task.get("previousSecretEnded") and not fault("keeps-the-previous-secret"):
        return [second]
    return [first, second]


def receive(messages: Messages) -> None:
    """Receive webhooks until SIGTERM."""

    class Handler(BaseHTTPRequestHandler):
        """Responds to one message."""

        def do_POST(self) -> None:
            """Respond with the status that the message deserves."""
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(messages.status(_lower(self.headers), body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing is logged."""

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    port = int(os.environ["ACCEPTANCE_WEBHOOK_PORT"])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def main() -> None:
    """Do the task."""
    second = os.environ.get("SANDBOX_API_KEY_2")
    keys = [os.environ["SANDBOX_API_KEY"], *([second] if second else [])]
    task = json.loads(os.environ["ACCEPTANCE_TASK"], parse_float=Decimal)
    tasks = Tasks(Api(os.environ["SANDBOX_API_URL"], keys), task)
    match task["name"]:
        case "register":
            log(tasks.register())
        case "register-and-follow":
            tasks.follow()
        case "receive-webhooks":
            receive(Messages(tasks, secrets_of(task)))
        case "list-offers":
            tasks.list_offers()
        case "request-financing":
            tasks.request_financing(task["invoiceId"], {})
        case other:
            sys.exit(f"unknown task {other}")


if __name__ == "__main__":
    try:
        main()
    except RejectedError as error:
        sys.exit(str(error))
