"""A client with http.client and threads: keep-alive, a health check first, 204 for webhooks."""

import base64
import hashlib
import hmac
import http.client
import http.server
import json
import os
import random
import sys
import threading
import time
import urllib.parse
import uuid
from decimal import Decimal

ADDRESS = urllib.parse.urlsplit(os.environ["SANDBOX_API_URL"])
TASK = json.loads(os.environ["ACCEPTANCE_TASK"], parse_float=Decimal)
FATAL = {400, 401, 403, 404, 409, 413, 415, 422}
LINE = None


class Fatal(Exception):
    """A request that will never succeed."""


def send(method, path, body, key):
    global LINE
    if LINE is None:
        LINE = http.client.HTTPConnection(ADDRESS.hostname, ADDRESS.port, timeout=3)
    headers = {"AUTHORIZATION": "Bearer " + os.environ["SANDBOX_API_KEY"], "accept": "*/*"}
    if body is not None:
        headers |= {"content-type": "application/json; charset=utf-8", "IDEMPOTENCY-KEY": key}
    try:
        LINE.request(method, path, body, headers)
        reply = LINE.getresponse()
        return reply.status, reply.headers, reply.read()
    except (OSError, http.client.HTTPException):
        LINE.close()
        LINE = None
        raise


def call(method, path, body=None):
    key, delay = str(uuid.uuid4()), 0.5
    for _ in range(5):
        wait = delay
        try:
            status, headers, content = send(method, path, body, key)
            if status in FATAL:
                raise Fatal(f"{status} {content!r}")
            if status < 300:
                return json.loads(content, parse_float=Decimal)["data"]
            wait = max(wait, float(headers.get("Retry-After") or 0))
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            print("again after", repr(error))
        time.sleep(wait * random.uniform(1, 1.1))
        delay *= 2
    raise Fatal(f"{method} {path} failed too often")


def encode(value):
    """JSON that keeps every digit of a decimal."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {encode(v)}" for k, v in value.items()) + "}"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def genuine(headers, body):
    message, second = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not second.isdigit() or abs(time.time() - int(second)) > 300:
        return False
    signed = f"{message}.{second}.".encode() + body
    given = [one.partition(",")[2] for one in headers.get("webhook-signature", "").split()]
    for name in ("SANDBOX_WEBHOOK_SECRET", "SANDBOX_WEBHOOK_SECRET_2"):
        if TASK.get("previousSecretEnded") and not name.endswith("_2"):
            continue
        if secret := os.environ.get(name):
            key = base64.b64decode(secret.removeprefix("whsec_"))
            mac = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
            if any(hmac.compare_digest(mac, one) for one in given):
                return True
    return False


class Receiver(http.server.BaseHTTPRequestHandler):
    """Responds to webhooks with 204 and handles each once, in a thread."""

    protocol_version = "HTTP/1.1"
    seen = set()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        good = genuine(self.headers, body)
        self.send_response_only(204 if good else 400)
        if not good:
            self.send_header("Content-Length", "0")
        self.end_headers()
        if good and self.headers["webhook-id"] not in self.seen:
            self.seen.add(self.headers["webhook-id"])
            event = json.loads(body)
            threading.Thread(target=print, args=("event", event["type"])).start()


def register():
    call("GET", "/api/health")
    return call("POST", "/api/invoices", encode(TASK["invoice"]))["id"]


def main():
    if TASK["name"] == "register":
        print(register())
    elif TASK["name"] == "register-and-follow":
        invoice = register()
        while True:
            try:
                if call("GET", f"/api/invoices/{invoice}")["status"] == TASK["until"]:
                    return
            except Fatal as error:
                sys.exit(str(error))
            time.sleep(1)
    elif TASK["name"] == "receive-webhooks":
        port = int(os.environ["ACCEPTANCE_WEBHOOK_PORT"])
        http.server.ThreadingHTTPServer(("", port), Receiver).serve_forever()
    elif TASK["name"] == "list-offers":
        print(len(call("GET", "/api/offers")), "offers")


main()
