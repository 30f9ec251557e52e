"""A client of the Invoice Liquidity API, with the standard library only.

``do_task`` and ``Receiver`` are what the acceptance run drives; the rest is yours to keep.
"""

import base64
import hashlib
import hmac
import http.client
import json
import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from decimal import Decimal
from threading import Event, Lock

ATTEMPTS = 6
TIMEOUT = 3  # seconds
AGE = 300  # seconds that a webhook may be old


class Rejected(Exception):
    """The API rejected a request, or it failed too often."""


class Stopped(Exception):
    """The client must end."""


class Api:
    """Sends requests. What may succeed later is repeated, with the same key and longer waits."""

    def __init__(self, environment, stopped):
        self.url, self.stopped = environment["SANDBOX_API_URL"], stopped
        names = ("SANDBOX_API_KEY", "SANDBOX_API_KEY_2")
        self.keys = [environment[name] for name in names if name in environment]

    def call(self, method, path, data=None):
        """The ``data`` of a successful response."""
        return self._call(method, path, data)[0]

    def every(self, path):
        """The items on all pages of a list."""
        while path:
            items, headers = self._call("GET", path)
            yield from items
            following = re.search(r'<([^>]+)>;\s*rel="?next', headers.get("Link") or "")
            path = following and following[1]

    def _call(self, method, path, data=None):
        key, wait = str(uuid.uuid4()), 0.3
        for _ in range(ATTEMPTS):
            status, headers, text = self._exchange(method, path, data, key)
            if 200 <= status < 300:
                return json.loads(text, parse_float=Decimal)["data"], headers
            if status == 401 and len(self.keys) > 1:
                del self.keys[0]  # it was revoked
                continue
            if 0 < status < 500 and status != 429:
                break
            self.pause(max(wait + random.uniform(0, 0.1), int(headers.get("Retry-After") or 0)))
            wait *= 2
        raise Rejected(f"{method} {path}: {status or 'no response'} {text[:200]!r}")

    def pause(self, seconds):
        """Wait, unless the client must end."""
        if self.stopped.wait(seconds):
            raise Stopped

    def _exchange(self, method, path, data, key):
        """Status, headers and text of a response; status 0 if there is none that can be read."""
        headers = {"Authorization": f"Bearer {self.keys[0]}", "Accept": "application/json"}
        if data is not None:
            headers |= {"Content-Type": "application/json", "Idempotency-Key": key}
        url = urllib.parse.urljoin(self.url, path)
        request = urllib.request.Request(url, data and as_json(data), headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
                text = response.read()
                json.loads(text)
                return response.status, response.headers, text
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()
        except (OSError, ValueError, http.client.HTTPException) as error:
            return 0, {}, str(error).encode()


def as_json(data):
    """A JSON text with every digit of its amounts."""
    mark = uuid.uuid4().hex
    text = json.dumps(data, default=lambda amount: f"{mark}{amount}")
    return re.sub(f'"{mark}([^"]+)"', r"\1", text).encode()


def parsed(text):
    """A JSON text, with amounts as decimals."""
    return json.loads(text, parse_float=Decimal)


def do_task(task, environment, stopped=None):
    """Do a task of the acceptance run, until it is done or ``stopped`` is set."""
    api = Api(environment, stopped or Event())
    if task["name"] in ("register", "register-and-follow"):
        invoice = api.call("POST", "/api/invoices", task["invoice"])
        while "until" in task and invoice["status"] != task["until"]:
            api.pause(1)
            invoice = api.call("GET", f"/api/invoices/{invoice['id']}")
    elif task["name"] == "list-offers":
        for offer in list(api.every("/api/offers")):
            finance_offer(api, offer, task.get("request"))
    elif task["name"] == "request-financing":
        request_financing(api, task["invoiceId"], requestedAmount=task["requestedAmount"])


def finance_offer(api, offer, members):
    """Request financing for an offer that can still be accepted."""
    if members is None or offer["status"] != "Received" or offer["invoiceId"] is None:
        return
    if api.call("GET", f"/api/invoices/{offer['invoiceId']}")["status"] == "Offered":
        sent = {name: offer[member] for name, member in members.items()}
        request_financing(api, offer["invoiceId"], **sent)


def request_financing(api, invoice_id, **members):
    """Request financing of an invoice."""
    api.call("POST", "/api/financing-requests", {"invoiceIds": [invoice_id], **members})


class Receiver:
    """Verifies webhooks, and processes each event once."""

    def __init__(self, task, environment, stopped=None):
        self.on, self.api = task.get("on", {}), Api(environment, stopped or Event())
        names = ["SANDBOX_WEBHOOK_SECRET", "SANDBOX_WEBHOOK_SECRET_2"]
        if task.get("previousSecretEnded"):
            names = names[1:]
        self.secrets = [environment[name] for name in names if name in environment]
        self.processed, self.lock = set(), Lock()

    def status(self, headers, body):
        """The status of the response to a webhook; ``headers`` is any mapping that has its names."""
        headers = {name.lower(): value for name, value in headers.items()}
        if not self.is_genuine(headers, body):
            return 401
        with self.lock:
            if headers["webhook-id"] in self.processed:
                return 204
            self.process(parsed(body))
            self.processed.add(headers["webhook-id"])
        return 204

    def is_genuine(self, headers, body):
        """True if the message is new enough, and one of its signatures is right."""
        number, instant = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not number or not instant.isdecimal() or abs(time.time() - int(instant)) > AGE:
            return False
        signed = f"{number}.{instant}.".encode() + body
        given = headers.get("webhook-signature", "").split()
        return any(
            hmac.compare_digest(f"v1,{signature(secret, signed)}".encode(), text.encode())
            for secret in self.secrets
            for text in given
        )

    def process(self, event):
        """Do what the task says, unless a newer event has overtaken this one."""
        if self.on.get(event["type"]) == "request-financing":
            invoice = self.api.call("GET", f"/api/invoices/{event['data']['id']}")
            if invoice["status"] == event["data"]["status"]:
                request_financing(self.api, invoice["id"])


def signature(secret, signed):
    """The signature of a message, in Base64."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
