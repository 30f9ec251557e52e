// A client of the Invoice Liquidity API, without dependencies. Node.js 24 runs it as it is.
// doTask and Receiver are what the acceptance run drives; the rest is yours to keep.
// JavaScript keeps the digits of amounts of up to 15 digits.
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

export type Environment = Record<string, string | undefined>;
export type Task = {
  name: string;
  invoice?: unknown;
  until?: string;
  request?: Record<string, string>;
  on?: Record<string, string>;
  invoiceId?: string;
  requestedAmount?: number;
  previousSecretEnded?: boolean;
};
type Reply = { data: any; headers: Headers };

const ATTEMPTS = 6;
const TIMEOUT = 3_000;
const AGE = 300; // seconds that a webhook may be old

/** The API rejected a request, or it failed too often. */
export class Rejected extends Error {}

/** Sends requests. What may succeed later is repeated, with the same key and longer waits. */
export class Api {
  #url: string;
  #keys: string[];
  #stopped?: AbortSignal;

  constructor(environment: Environment, stopped?: AbortSignal) {
    this.#url = environment.SANDBOX_API_URL ?? "";
    this.#keys = [environment.SANDBOX_API_KEY, environment.SANDBOX_API_KEY_2].filter((key) => key !== undefined);
    this.#stopped = stopped;
  }

  /** The `data` of a successful response. */
  async call(method: string, path: string, body?: unknown): Promise<any> {
    return (await this.#call(method, path, body)).data;
  }

  /** The items on all pages of a list. */
  async every(path: string): Promise<any[]> {
    const items: any[] = [];
    for (let next: string | undefined = path; next; ) {
      const { data, headers }: Reply = await this.#call("GET", next);
      items.push(...data);
      next = /<([^>]+)>;\s*rel="?next/.exec(headers.get("link") ?? "")?.[1];
    }
    return items;
  }

  /** Wait, unless the client must end. */
  async pause(milliseconds: number): Promise<void> {
    await sleep(milliseconds, undefined, { signal: this.#stopped });
  }

  async #call(method: string, path: string, body?: unknown): Promise<Reply> {
    const key = randomUUID();
    let wait = 300, problem = "";
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      let status = 0, asked = 0;
      try {
        const response = await this.#exchange(method, path, body, key);
        const text = await response.text();
        status = response.status;
        problem = `${status} ${text.slice(0, 200)}`;
        asked = 1000 * Number(response.headers.get("retry-after") ?? 0);
        if (response.ok) return { data: JSON.parse(text).data, headers: response.headers };
      } catch (error) {
        [status, problem] = [0, String(error)];
      }
      if (status === 401 && this.#keys.length > 1) {
        this.#keys.shift(); // it was revoked
        continue;
      }
      if (status > 0 && status < 500 && status !== 429) break;
      await this.pause(Math.max(asked, wait + 100 * Math.random()));
      wait *= 2;
    }
    throw new Rejected(`${method} ${path}: ${problem}`);
  }

  #exchange(method: string, path: string, body: unknown, key: string): Promise<Response> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.#keys[0]}`, accept: "application/json" };
    if (body !== undefined) Object.assign(headers, { "content-type": "application/json", "idempotency-key": key });
    const signal = AbortSignal.timeout(TIMEOUT);
    return fetch(new URL(path, this.#url), { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  }
}

/** Do a task of the acceptance run, until it is done or `stopped` is aborted. */
export async function doTask(task: Task, environment: Environment, stopped?: AbortSignal): Promise<void> {
  const api = new Api(environment, stopped);
  if (task.name === "register" || task.name === "register-and-follow") {
    let invoice = await api.call("POST", "/api/invoices", task.invoice);
    while (task.until !== undefined && invoice.status !== task.until) {
      await api.pause(1000);
      invoice = await api.call("GET", `/api/invoices/${invoice.id}`);
    }
  } else if (task.name === "list-offers") {
    for (const offer of await api.every("/api/offers")) await financeOffer(api, offer, task.request);
  } else if (task.name === "request-financing" && task.invoiceId) {
    await requestFinancing(api, task.invoiceId, { requestedAmount: task.requestedAmount });
  }
}

/** Request financing for an offer that can still be accepted. */
async function financeOffer(api: Api, offer: any, members?: Record<string, string>): Promise<void> {
  if (!members || offer.status !== "Received" || !offer.invoiceId) return;
  if ((await api.call("GET", `/api/invoices/${offer.invoiceId}`)).status !== "Offered") return;
  const sent = Object.entries(members).map(([name, member]) => [name, offer[member]]);
  await requestFinancing(api, offer.invoiceId, Object.fromEntries(sent));
}

async function requestFinancing(api: Api, invoiceId: string, members: object = {}): Promise<void> {
  await api.call("POST", "/api/financing-requests", { invoiceIds: [invoiceId], ...members });
}

/** Verifies webhooks, and processes each event once. */
export class Receiver {
  #api: Api;
  #on: Record<string, string>;
  #secrets: string[];
  #processed = new Map<string, Promise<void>>();

  constructor(task: Task, environment: Environment, stopped?: AbortSignal) {
    this.#api = new Api(environment, stopped);
    this.#on = task.on ?? {};
    const first = task.previousSecretEnded ? undefined : environment.SANDBOX_WEBHOOK_SECRET;
    this.#secrets = [first, environment.SANDBOX_WEBHOOK_SECRET_2].filter((secret) => secret !== undefined);
  }

  /** The status of the response to a webhook; the names of headers are in lower case. */
  async status(headers: Record<string, any>, body: Buffer): Promise<number> {
    if (!this.#isGenuine(headers, body)) return 401;
    const id = headers["webhook-id"];
    if (!this.#processed.has(id)) this.#processed.set(id, this.#process(JSON.parse(body.toString())));
    try {
      await this.#processed.get(id);
      return 204;
    } catch {
      this.#processed.delete(id); // the next attempt tries again
      return 503;
    }
  }

  /** True if the message is new enough, and one of its signatures is right. */
  #isGenuine(headers: Record<string, any>, body: Buffer): boolean {
    const id = headers["webhook-id"], instant = headers["webhook-timestamp"] ?? "";
    if (!id || !/^\d+$/.test(instant) || Math.abs(Date.now() / 1000 - Number(instant)) > AGE) return false;
    const signed = Buffer.concat([Buffer.from(`${id}.${instant}.`), body]);
    const given = String(headers["webhook-signature"] ?? "").split(" ").map((text) => Buffer.from(text));
    return this.#secrets.some((secret) => {
      const valid = Buffer.from(`v1,${signature(secret, signed)}`);
      return given.some((other) => other.length === valid.length && timingSafeEqual(other, valid));
    });
  }

  /** Do what the task says, unless a newer event has overtaken this one. */
  async #process(event: any): Promise<void> {
    if (this.#on[event.type] !== "request-financing") return;
    const invoice = await this.#api.call("GET", `/api/invoices/${event.data.id}`);
    if (invoice.status === event.data.status) await requestFinancing(this.#api, invoice.id);
  }
}

/** The signature of a message, in Base64. */
export function signature(secret: string, signed: Buffer | string): string {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  return createHmac("sha256", key).update(signed).digest("base64");
}
