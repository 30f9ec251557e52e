// The reference client in TypeScript: openapi-fetch with types that openapi-typescript made of the
// contract. It does the tasks of an acceptance run; webhooks are verified by standardwebhooks.
//
//   node reference.ts
import { randomUUID } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import createClient from "openapi-fetch";
import { Webhook } from "standardwebhooks";
import type { components, paths } from "./api.d.ts";

type Invoice = components["schemas"]["Invoice"];
type Members = { [member: string]: unknown };
type Task = {
  name: string;
  invoice?: components["schemas"]["InvoiceInput"];
  invoiceId?: string;
  until?: string;
  on?: { [type: string]: string };
  request?: { [member: string]: string };
  previousSecretEnded?: boolean;
};
type Reply<Body> = { data?: Body; error?: unknown; response: Response };

class Rejected extends Error {}

const environment = (name: string): string | undefined => process.env[name] || undefined;
const task: Task = JSON.parse(environment("ACCEPTANCE_TASK") ?? "{}");
const keys = [environment("SANDBOX_API_KEY"), environment("SANDBOX_API_KEY_2")].filter((key) => key !== undefined);
const client = createClient<paths>({ baseUrl: environment("SANDBOX_API_URL") ?? "" });
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

// Sends a request until it succeeds, with one Idempotency-Key, and longer waits between.
async function sent<Body>(send: (options: { headers: { [name: string]: string }; signal: AbortSignal }) => Promise<Reply<Body>>): Promise<Body> {
  const key = randomUUID();
  let problem: unknown;
  for (let wait = 250; wait <= 8000; wait *= 2) {
    let pause = wait;
    const headers = { Authorization: `Bearer ${keys[0]}`, "Idempotency-Key": key };
    try {
      const { data, error, response } = await send({ headers, signal: AbortSignal.timeout(3000) });
      if (data !== undefined && (data as Members)["data"] !== undefined) return data;
      problem = `${response.status} ${JSON.stringify(error)}`;
      if (response.status === 401 && keys.length > 1) {
        keys.shift();
        continue;
      }
      const mayRepeat = response.ok || response.status === 429 || response.status >= 500;
      if (!mayRepeat) throw new Rejected(String(problem));
      pause = Math.max(pause, 1000 * Number(response.headers.get("Retry-After") ?? 0));
    } catch (error) {
      if (error instanceof Rejected) throw error;
      problem = error; // no response, or one that cannot be read
    }
    await sleep(pause);
  }
  throw new Rejected(String(problem));
}

async function register(): Promise<Invoice> {
  if (task.invoice === undefined) throw new Rejected("the task has no invoice");
  const body = task.invoice;
  return (await sent((options) => client.POST("/api/invoices", { body, ...options }))).data;
}

async function read(id: string): Promise<Invoice> {
  return (await sent((options) => client.GET("/api/invoices/{id}", { params: { path: { id } }, ...options }))).data;
}

async function requestFinancing(id: string, members: Members): Promise<void> {
  const body = { invoiceIds: [id], ...members };
  await sent((options) => client.POST("/api/financing-requests", { body, ...options })).catch(console.error);
}

async function listOffers(): Promise<void> {
  const offers = (await sent((options) => client.GET("/api/offers", options))).data;
  for (const offer of task.request === undefined ? [] : offers) {
    const id = offer["invoiceId"];
    if (typeof id !== "string" || offer["status"] !== "Received") continue;
    if ((await read(id)).status === "Disputed") continue;
    const members = Object.entries(task.request ?? {}).map(([name, member]) => [name, offer[member]]);
    await requestFinancing(id, Object.fromEntries(members));
  }
}

// The webhook secrets that are valid.
function secrets(): string[] {
  const [first, second] = [environment("SANDBOX_WEBHOOK_SECRET"), environment("SANDBOX_WEBHOOK_SECRET_2")];
  return [task.previousSecretEnded && second ? undefined : first, second].filter((one) => one !== undefined);
}

function isGenuine(headers: IncomingHttpHeaders, body: Buffer): boolean {
  return secrets().some((secret) => {
    try {
      new Webhook(secret).verify(body, headers as { [name: string]: string });
      return true;
    } catch {
      return false;
    }
  });
}

const processed = new Set<unknown>();

async function handle(event: { type: string; data: Members }): Promise<void> {
  const id = event.data["id"];
  if (task.on?.[event.type] !== "request-financing" || typeof id !== "string") return;
  if ((await read(id)).status === event.data["status"]) await requestFinancing(id, {});
}

function receive(): void {
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const body = Buffer.concat(parts);
      if (!isGenuine(request.headers, body)) return response.writeHead(401).end();
      response.writeHead(200).end();
      const id = request.headers["webhook-id"];
      if (!processed.has(id)) handle(JSON.parse(body.toString())).catch(console.error);
      return processed.add(id);
    });
  });
  server.listen(Number(environment("ACCEPTANCE_WEBHOOK_PORT")));
}

switch (task.name) {
  case "register":
    await register();
    break;
  case "register-and-follow": {
    const { id } = await register();
    while ((await read(id)).status !== task.until) await sleep(1000);
    break;
  }
  case "receive-webhooks":
    receive();
    break;
  case "list-offers":
    await listOffers();
    break;
  case "request-financing":
    await requestFinancing(task.invoiceId ?? "", {});
    break;
  default:
    throw new Error(`unknown task ${task.name}`);
}
