// A client with fetch and node:http: it lists invoices to find its own, and exits with a status.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const task = JSON.parse(process.env.ACCEPTANCE_TASK);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function call(method, path, body) {
  const headers = { authorization: `Bearer ${process.env.SANDBOX_API_KEY}` };
  if (body) {
    headers["content-type"] = "application/json";
    headers["idempotency-key"] = crypto.randomUUID();
  }
  let problem;
  for (let attempt = 0; attempt < 5; attempt += 1) {
    let pause = 400 * 2 ** attempt + Math.random() * 50;
    try {
      const reply = await fetch(process.env.SANDBOX_API_URL + path, {
        method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(3000),
      });
      if (reply.ok) return (await reply.json()).data;
      problem = `${method} ${path}: ${reply.status}`;
      if (reply.status < 500 && reply.status !== 429) throw Object.assign(new Error(problem), { final: true });
      pause = Math.max(pause, 1000 * Number(reply.headers.get("retry-after") ?? 0));
    } catch (error) {
      if (error.final) throw error;
      problem = error;
    }
    await sleep(pause);
  }
  throw problem;
}

function genuine(headers, body) {
  const stamp = headers["webhook-timestamp"];
  if (Math.abs(Date.now() / 1000 - Number(stamp)) > 300) return false;
  const given = (headers["webhook-signature"] ?? "").split(" ").map((one) => Buffer.from(one.slice(3), "base64"));
  const first = task.previousSecretEnded ? undefined : process.env.SANDBOX_WEBHOOK_SECRET;
  return [first, process.env.SANDBOX_WEBHOOK_SECRET_2].filter(Boolean).some((secret) => {
    const mac = createHmac("sha256", Buffer.from(secret.slice(6), "base64"))
      .update(`${headers["webhook-id"]}.${stamp}.`).update(body).digest();
    return given.some((one) => one.length === mac.length && timingSafeEqual(one, mac));
  });
}

function receive() {
  createServer((request, response) => {
    const parts = [];
    request.on("data", (part) => parts.push(part)).on("end", () => {
      response.writeHead(genuine(request.headers, Buffer.concat(parts)) ? 200 : 401).end("{}");
    });
  }).listen(Number(process.env.ACCEPTANCE_WEBHOOK_PORT), "localhost");
}

switch (task.name) {
  case "receive-webhooks":
    receive();
    break;
  case "list-offers":
    await call("GET", "/api/offers");
    process.exit(4);
  default: {
    const made = await call("POST", "/api/invoices", task.invoice);
    while (task.name === "register-and-follow") {
      await sleep(1000);
      await call("GET", "/api/invoices").catch(() => {});
      if ((await call("GET", `/api/invoices/${made.id}`)).status === task.until) break;
    }
    process.exit(5);
  }
}
