// Does one task of the acceptance run: invoice-sandbox acceptance run --exec 'node adapter.ts'.
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";

import { Receiver, doTask, type Task } from "./client.ts";

const task: Task = JSON.parse(process.env.ACCEPTANCE_TASK ?? "{}");

if (task.name === "receive-webhooks") {
  const receiver = new Receiver(task, process.env);
  createServer(async (request, response) => {
    const body = await buffer(request);
    response.writeHead(await receiver.status(request.headers, body)).end();
  }).listen(Number(process.env.ACCEPTANCE_WEBHOOK_PORT), "localhost"); // until SIGTERM
} else {
  await doTask(task, process.env);
}
