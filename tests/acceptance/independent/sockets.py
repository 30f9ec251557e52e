"""A client with urllib and a server of plain sockets: X-API-Key, a late port, noise, no exit."""

import base64
import hashlib
import hmac
import json
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request

task = json.loads(os.environ["ACCEPTANCE_TASK"])
base = os.environ["SANDBOX_API_URL"] + "/api"
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
print("noise " * 2000)


def request(path, data=None, key=None):
    made = urllib.request.Request(base + path, data)
    made.add_header("X-API-Key", os.environ["SANDBOX_API_KEY"])
    made.add_header("Connection", "close")
    if data is not None:
        made.add_header("Content-Type", "application/json")
        made.add_header("Idempotency-Key", key)
    with urllib.request.urlopen(made, timeout=5) as reply:
        return json.load(reply)["data"]


def persistent(path, data=None):
    key, wait = hashlib.sha256(os.urandom(9)).hexdigest(), 1
    while wait < 40:
        try:
            return request(path, data, key)
        except urllib.error.HTTPError as error:
            print("HTTP", error.code, error.read()[:80])
            if error.code not in (429, 500, 502, 503, 504):
                return None
            time.sleep(max(wait, int(error.headers.get("Retry-After") or 0)))
        except Exception as error:
            print("error", error)
            time.sleep(wait)
        wait *= 2
    return None


def good(headers, body):
    number, stamp = headers.get("webhook-id"), headers.get("webhook-timestamp", "")
    if not number or abs(int(stamp) - time.time()) > 180:
        return False
    for name in ("SANDBOX_WEBHOOK_SECRET", "SANDBOX_WEBHOOK_SECRET_2"):
        if task.get("previousSecretEnded") and name == "SANDBOX_WEBHOOK_SECRET":
            continue
        secret = os.environ.get(name)
        if secret:
            digest = hmac.new(base64.b64decode(secret[6:]), digestmod=hashlib.sha256)
            digest.update(f"{number}.{stamp}.".encode() + body)
            text = "v1," + base64.b64encode(digest.digest()).decode()
            if text in headers.get("webhook-signature", "").split(" "):
                return True
    return False


def listen():
    time.sleep(2)
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("0.0.0.0", int(os.environ["ACCEPTANCE_WEBHOOK_PORT"])))
    server.listen(5)
    while True:
        one, _ = server.accept()
        text = b""
        while b"\r\n\r\n" not in text:
            text += one.recv(65536)
        head, _, body = text.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert lines[0].split()[0] == "POST"
        headers = {line.split(": ")[0].lower(): line.split(": ", 1)[1] for line in lines[1:]}
        while len(body) < int(headers["content-length"]):
            body += one.recv(65536)
        result = "200 OK" if good(headers, body) else "403 Forbidden"
        one.sendall(f"HTTP/1.0 {result}\r\n\r\n".encode())
        one.close()


if task["name"] == "receive-webhooks":
    listen()
elif task["name"] == "list-offers":
    persistent("/offers")
else:
    made = persistent("/invoices", json.dumps(task["invoice"]).encode())
    while made and task["name"] == "register-and-follow":
        time.sleep(1)
        found = persistent("/invoices/" + made["id"])
        if found is None or found["status"] == task["until"]:
            break
while True:
    time.sleep(60)
