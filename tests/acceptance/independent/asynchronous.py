"""A client with asyncio and httpx: full jitter, events acted upon, SIGTERM ignored."""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import random
import signal
import time
import uuid
from datetime import datetime

import httpx

TASK = json.loads(os.environ["ACCEPTANCE_TASK"])
URL = os.environ["SANDBOX_API_URL"]
HEADERS = {"Authorization": f"Bearer {os.environ['SANDBOX_API_KEY']}"}


async def call(client, method, path, body=None, key=None):
    headers = {"Idempotency-Key": key or str(uuid.uuid4())} if body is not None else {}
    for attempt in range(8):
        pause = random.uniform(0.3, 0.6) * 2**attempt
        try:
            reply = await client.request(method, path, json=body, headers=headers)
            if reply.status_code < 300:
                return reply.json()["data"]
            if reply.status_code < 500 and reply.status_code != 429:
                reply.raise_for_status()
            pause = max(pause, float(reply.headers.get("retry-after", 0)))
        except (httpx.TransportError, ValueError) as error:
            print(type(error).__name__)
        await asyncio.sleep(pause)
    raise SystemExit("gave up")


class Hooks:
    """Requests financing for each verified invoice, unless a newer event has overtaken it."""

    def __init__(self, client):
        self.client, self.done, self.newest = client, set(), {}

    def valid(self, headers, body):
        stamp = headers.get("webhook-timestamp", "0")
        if abs(time.time() - float(stamp)) > 300:
            return False
        wanted = "WEBHOOK_SECRET_2" if TASK.get("previousSecretEnded") else "WEBHOOK_SECRET"
        secrets = [os.environ[name] for name in os.environ if wanted in name]
        signed = b".".join((headers.get("webhook-id", "").encode(), stamp.encode(), body))
        wanted = {
            b"v1,"
            + base64.b64encode(hmac.new(base64.b64decode(one[6:]), signed, hashlib.sha256).digest())
            for one in secrets
        }
        return bool(wanted & set(headers.get("webhook-signature", "").encode().split(b" ")))

    async def serve(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        except asyncio.IncompleteReadError:
            writer.close()
            return
        headers = {k.lower(): v for k, _, v in (one.partition(": ") for one in head[1:] if one)}
        body = await reader.readexactly(int(headers["content-length"]))
        good = self.valid(headers, body)
        writer.write(
            b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            % (b"202 Accepted" if good else b"401 No")
        )
        await writer.drain()
        writer.close()
        if good and headers["webhook-id"] not in self.done:
            self.done.add(headers["webhook-id"])
            await self.act(json.loads(body))

    async def act(self, event):
        subject = event["data"].get("invoiceId") or event["data"].get("id")
        when = datetime.fromisoformat(event["timestamp"])
        if when < self.newest.get(subject, when):
            return
        self.newest[subject] = when
        if event["type"] == "invoice.verified":
            invoice = await call(self.client, "GET", f"/api/invoices/{subject}")
            if invoice["status"] == "Verified":
                try:
                    body = {"invoiceIds": [subject]}
                    await call(self.client, "POST", "/api/financing-requests", body, event["id"])
                except httpx.HTTPStatusError as error:
                    print(error)


async def main():
    timeout = httpx.Timeout(2.5)
    async with httpx.AsyncClient(base_url=URL, headers=HEADERS, timeout=timeout) as client:
        match TASK["name"]:
            case "register" | "register-and-follow" as name:
                invoice = await call(client, "POST", "/api/invoices", TASK["invoice"])
                while name != "register" and invoice["status"] != TASK["until"]:
                    await asyncio.sleep(1)
                    invoice = await call(client, "GET", f"/api/invoices/{invoice['id']}")
            case "receive-webhooks":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                port = int(os.environ["ACCEPTANCE_WEBHOOK_PORT"])
                server = await asyncio.start_server(Hooks(client).serve, "127.0.0.1", port)
                await server.serve_forever()
            case "list-offers":
                print(await call(client, "GET", "/api/offers"))


asyncio.run(main())
