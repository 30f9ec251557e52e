// Verifies what is delivered with every library and by every secret that it was told.
//
// PUT /secrets     the secrets, as a JSON list; what was received before is forgotten
// POST /           a delivery: 204 when every library accepts it by some secret, else 401
// GET /messages    what was received, and what each library found
//
// The line on stdout is the port.
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { Webhook as StandardWebhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";

const TOLERANCE_SECONDS = 300;

// Svix checks, and leaves it to the client to read.
class Svix extends SvixWebhook {
  verify(body, headers) {
    super.verify(body, headers);
    return JSON.parse(body);
  }
}

// The specification by hand: the libraries share code with each other, and this shares none.
class ByHand {
  constructor(secret) {
    this.key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  }

  verify(body, headers) {
    const { "webhook-id": id, "webhook-timestamp": timestamp } = headers;
    const age = Math.abs(Date.now() / 1000 - Number(timestamp));
    if (!(age <= TOLERANCE_SECONDS)) throw new Error("the timestamp is too far from now");
    const expected = createHmac("sha256", this.key).update(`${id}.${timestamp}.`).update(body);
    const digest = expected.digest();
    const isRight = (given) => given.length === digest.length && timingSafeEqual(given, digest);
    const signatures = (headers["webhook-signature"] ?? "").split(" ");
    const given = signatures.filter((one) => one.startsWith("v1,")).map((one) => one.slice(3));
    if (!given.some((one) => isRight(Buffer.from(one, "base64")))) {
      throw new Error("no signature is right");
    }
    return JSON.parse(body);
  }
}

const LIBRARIES = {
  standardwebhooks: StandardWebhook,
  svix: Svix,
  "node:crypto": ByHand,
};

let secrets = [];
let messages = [];

function verdict(library, secret, body, headers) {
  try {
    return { event: new LIBRARIES[library](secret).verify(body, headers), problem: null };
  } catch (error) {
    return { event: null, problem: `${error.message}` };
  }
}

function verdicts(body, headers) {
  return Object.keys(LIBRARIES).flatMap((library) =>
    secrets.map((secret) => ({ library, secret, ...verdict(library, secret, body, headers) })),
  );
}

// What somebody without the secret could make of a genuine message.
function forgeries(body, headers) {
  const flipped = Buffer.from(body);
  flipped[flipped.length >> 1] ^= 1;
  const signature = headers["webhook-signature"];
  const with_ = (name, value) => [body, { ...headers, [name]: value }];
  return {
    "a bit of the body": [flipped, headers],
    "a space after the body": [Buffer.concat([body, Buffer.from(" ")]), headers],
    "an empty body": [Buffer.alloc(0), headers],
    "another id": with_("webhook-id", `${headers["webhook-id"]}0`),
    "a later second": with_("webhook-timestamp", `${Number(headers["webhook-timestamp"]) + 1}`),
    "an hour ago": with_("webhook-timestamp", `${Number(headers["webhook-timestamp"]) - 3600}`),
    "another version": with_("webhook-signature", signature.replaceAll("v1,", "v2,")),
    "half of a signature": with_("webhook-signature", signature.split(" ")[0].slice(0, 20)),
    "no signature": with_("webhook-signature", ""),
  };
}

function acceptedForgeries(body, headers) {
  return Object.entries(forgeries(body, headers)).flatMap(([name, [changed, sent]]) =>
    verdicts(changed, sent)
      .filter((one) => one.problem === null)
      .map((one) => `${name} (${one.library})`),
  );
}

function receive(body, headers) {
  const found = verdicts(body, headers);
  const accepts = (library) => found.some((one) => one.library === library && !one.problem);
  const accepted = Object.keys(LIBRARIES).filter(accepts);
  const isGenuine = accepted.length === Object.keys(LIBRARIES).length;
  messages.push({
    headers,
    body: body.toString("base64"),
    accepted,
    verdicts: found,
    forgeries: isGenuine ? acceptedForgeries(body, headers) : [],
  });
  return isGenuine ? 204 : 401;
}

const server = createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  if (request.method === "GET") {
    response.end(JSON.stringify(messages));
  } else if (request.method === "PUT") {
    secrets = JSON.parse(body);
    messages = [];
    response.writeHead(204).end();
  } else {
    response.writeHead(receive(body, request.headers)).end();
  }
});

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
