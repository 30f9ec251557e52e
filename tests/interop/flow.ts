// The published flow with a client whose types openapi-typescript made: every operation, once at
// least, with success. An answer that is not the expected one ends it.
//
//   node flow.ts API LEVERS KEY
//
// API is where the API is asked, which may be a proxy, and LEVERS where the sandbox itself is. One
// line of JSON for each answer: its method, the path as the contract has it, its status, and what
// a validating proxy had to say.
import assert from "node:assert/strict";
import createClient, { type Middleware } from "openapi-fetch";
import type { components, paths } from "./api.d.ts";
import type { paths as LeverPaths } from "./levers.d.ts";

type Invoice = components["schemas"]["Invoice"];
type OfferEvent = components["schemas"]["OfferEvent"];

const [api, sandbox, key] = process.argv.slice(2);
assert(api && sandbox && key, "usage: node flow.ts API LEVERS KEY");

const bearer = { Authorization: `Bearer ${key}` };

const told: Middleware = {
  onResponse({ request, schemaPath, response }) {
    const violations = response.headers.get("sl-violations");
    const { method } = request;
    console.log(JSON.stringify({ method, path: schemaPath, status: response.status, violations }));
  },
};

const client = createClient<paths>({ baseUrl: api, headers: bearer });
client.use(told);
const anonymous = createClient<paths>({ baseUrl: api });
anonymous.use(told);
const levers = createClient<LeverPaths>({ baseUrl: `${sandbox}/sandbox`, headers: bearer });

// The answer's body, if it is a success; else what the API said.
function ok<Body>(answer: { data?: Body; error?: unknown; response: Response }): Body {
  const { data, error, response } = answer;
  assert(data !== undefined, `${response.status} ${response.url} ${JSON.stringify(error)}`);
  return data;
}

// A member of an object with free-form properties that is text.
function text(object: { [member: string]: unknown }, member: string): string {
  const value = object[member];
  assert(typeof value === "string", `${member} is ${JSON.stringify(value)}`);
  return value;
}

async function advance(by: string): Promise<void> {
  ok(await levers.POST("/clock/advance", { body: { by } }));
}

// --- is it up, and who asks?

assert.equal(ok(await anonymous.GET("/api/health")).data["status"], "ok");
ok(await client.GET("/api/auth/session"));
const credentials = { email: "seller@demo.example", password: "demo-password" };
const login = await anonymous.POST("/api/auth/login", { body: credentials });
ok(login);
const [cookie] = login.response.headers.getSetCookie();
assert(cookie, "a login makes a session");
const asSeller = {
  headers: { Cookie: cookie.replace(/;.*/, ""), Origin: sandbox, "Content-Type": "application/json" },
};
ok(await anonymous.GET("/api/auth/session", asSeller));
ok(await anonymous.POST("/api/auth/logout", asSeller));

// --- a webhook endpoint, before anything happens

const inbox = ok(await levers.GET("/inbox")).data.url;
const endpoint = ok(await client.POST("/api/webhooks", { body: { url: inbox } })).data;
assert.match(text(endpoint, "secret"), /^whsec_/);

// --- an invoice, from the registry to an offer

const input = {
  sellerId: "org_seller_acme",
  debtorId: "org_debtor_globex",
  invoiceNumber: "INV-2026-0042",
  amount: 12500.5,
  currency: "EUR",
};
const invoice: Invoice = ok(await client.POST("/api/invoices", { body: input })).data;
const { id } = invoice;
assert.equal(invoice.status, "Registered");
const fingerprint = ok(await client.POST("/api/registry/fingerprint", { body: input })).data;
assert.equal(text(fingerprint, "registryState"), "RegisteredDuplicate");
const verification = ok(
  await client.POST("/api/verification/run", { body: { invoiceId: id } }),
).data;
assert.equal(text(verification, "invoiceId"), id);
await advance("PT2S");
const verified = ok(await client.GET("/api/invoices/{id}", { params: { path: { id } } })).data;
assert.equal(verified.status, "Verified");
const asked = ok(
  await client.POST("/api/financing-requests", {
    body: { invoiceIds: [id], requestedAdvanceRate: 0.85, product: "Factoring" },
  }),
).data;
const requests = ok(await client.GET("/api/financing-requests", { params: { query: { limit: 1 } } }));
assert.deepEqual(requests.data.map((one) => text(one, "id")), [text(asked, "id")]);
ok(await client.POST("/api/partners/route", { body: { invoiceId: id, debtorCountry: "DE" } }));
const [partner] = ok(await client.GET("/api/partners")).data;
assert(partner);
ok(
  await client.POST("/api/offers", {
    body: { invoiceId: id, partnerId: text(partner, "id"), advanceRate: 0.85 },
  }),
);
await advance("PT10S");
const offers = ok(await client.GET("/api/offers", { params: { query: { invoiceId: id } } })).data;
assert(offers.length >= 1);
const [offer] = offers;
assert(offer);
ok(
  await levers.POST("/offers/{id}/accept", { params: { path: { id: text(offer, "id") } } }),
);
const accepted = ok(
  await client.GET("/api/invoices", { params: { query: { status: "OfferAccepted" } } }),
);
assert(accepted.data.some((one) => one["id"] === id));

// --- what was delivered, and what a sample looks like

const log = ok(await client.GET("/api/webhooks")).data;
assert(Array.isArray(log["deliveries"]) && log["deliveries"].length >= 2);
const sample = ok(
  await client.POST("/api/webhooks/test", { body: { eventType: "offer.received" } }),
).data["request"] as { body: string };
const event: OfferEvent = JSON.parse(sample.body);
assert.match(event.data.id, /^(off|inv)_/);

// --- ERP, files, rules, audit, keys

const pushed = { externalId: "ERP-780", ...input, invoiceNumber: "INV-2026-0103" };
ok(await client.POST("/api/connectors/erp/invoices", { body: pushed }));
const file = { fileName: "a.pdf", contentType: "application/pdf" as const, contentLength: 3 };
ok(await client.POST("/api/storage/invoices/upload-url", { body: file }));
ok(await client.GET("/api/assignment-rules/{country}", { params: { path: { country: "DE" } } }));
const trail = ok(await client.GET("/api/audit-log", { params: { query: { targetId: id } } }));
assert(trail.data.some((one) => one["action"] === "invoice.registered"));
const made = ok(
  await client.POST("/api/developer/api-keys", { body: { scopes: ["invoices:read"] } }),
).data;
const keys = ok(await client.GET("/api/developer/api-keys")).data;
assert(keys.some((one) => one["id"] === made["id"] && !("secret" in one)));
const revoked = { params: { query: { id: text(made, "id") } } };
ok(await client.DELETE("/api/developer/api-keys", revoked));

// --- what the contract does not have is a type error; the compiler looks at this, nothing runs it

export function wrong(): unknown[] {
  return [
    // @ts-expect-error there is no such path
    client.GET("/api/invoice"),
    // @ts-expect-error the path has no such method
    client.DELETE("/api/invoices"),
    // @ts-expect-error a body is needed
    client.POST("/api/invoices"),
    // @ts-expect-error an amount is a number
    client.POST("/api/invoices", { body: { ...input, amount: "12500.5" } }),
    // @ts-expect-error a limit is a number
    client.GET("/api/offers", { params: { query: { limit: "ten" } } }),
    // @ts-expect-error the id is needed
    client.DELETE("/api/developer/api-keys"),
    // @ts-expect-error an invoice has no such member
    invoice.total,
    // @ts-expect-error the id of what an event is about is text
    event.data.id satisfies number,
  ];
}

// --- an error is typed as well

const { error } = await client.GET("/api/invoices/{id}", { params: { path: { id: "none" } } });
assert.equal(error?.error.code, "resource_not_found");
