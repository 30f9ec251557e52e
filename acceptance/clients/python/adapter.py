"""Does one task of the acceptance run: invoice-sandbox acceptance run --exec 'python adapter.py'."""

import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from client import Receiver, Rejected, do_task, parsed


def receive(receiver):
    """Receive webhooks until SIGTERM."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(receiver.status(self.headers, body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    port = int(os.environ["ACCEPTANCE_WEBHOOK_PORT"])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


task = parsed(os.environ["ACCEPTANCE_TASK"])
if task["name"] == "receive-webhooks":
    receive(Receiver(task, os.environ))
else:
    try:
        do_task(task, os.environ)
    except Rejected as error:
        sys.exit(str(error))
