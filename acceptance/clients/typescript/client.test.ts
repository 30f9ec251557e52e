// node --test
import assert from "node:assert/strict";
import { test } from "node:test";

import { Receiver, signature } from "./client.ts";

const secret = "whsec_c2VjcmV0";
const receiver = new Receiver({ name: "receive-webhooks" }, { SANDBOX_API_URL: "", SANDBOX_WEBHOOK_SECRET: secret });
const body = Buffer.from('{"type": "invoice.verified"}');

function headers(instant: number) {
  const signed = `evt_1.${instant}.${body}`;
  return { "webhook-id": "evt_1", "webhook-timestamp": `${instant}`, "webhook-signature": `v1,${signature(secret, signed)}` };
}

test("a genuine webhook is accepted, and a forged or an old one is not", async () => {
  const now = Math.floor(Date.now() / 1000);
  assert.equal(await receiver.status({ ...headers(now), "webhook-signature": "v1," }, body), 401);
  assert.equal(await receiver.status(headers(1), body), 401);
  assert.equal(await receiver.status(headers(now), body), 204);
});
