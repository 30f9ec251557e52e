"""Generates the tables of docs/webhooks.md and the sessions of docs/webhook-receivers.md.

``python -m tests.webhook_docs`` updates both. The console blocks are one session against one
server. Those after ``<!-- session: javascript -->`` are another, which begins like the first; it
needs Node.js and the package, and is left as it is where ``make interop`` has not put them. A block
after ``<!-- file: NAME -->`` is that file, in the folder where a session runs.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx
from standardwebhooks import Webhook

from domain import ledger as books
from invoice_sandbox.project.loader import default_project, load_project
from invoice_sandbox.webhooks import outbox
from invoice_sandbox.webhooks.network import url_problem
from invoice_sandbox.webhooks.retry import DISABLED_AFTER, GAPS
from tests.domain_docs import purchase
from tests.interop.node import MODULES, node
from tests.readme import commands, with_outputs
from tests.receivers import free_port, is_listening
from tests.scenario_run import until
from tests.support import PATIENCE

REFERENCE: Final = Path(__file__).parent.parent / "docs" / "webhooks.md"
PAGE: Final = REFERENCE.with_name("webhook-receivers.md")
BIN: Final = Path(sys.executable).parent
SERVED: Final = ("--seed", "7", "--clock", "frozen", "--rate-limit", "off")
"""What the page says it runs with; nobody types as fast as to meet the limit."""

SECRET: Final = "whsec_" + base64.b64encode(b"a secret of the page's receivers").decode()
OTHER_SECRET: Final = "whsec_" + base64.b64encode(b"the secret of somebody else ....").decode()

_URL_IN_DOCS: Final = "http://127.0.0.1:8080"
_PORT_IN_DOCS: Final = "9000"
_FILE: Final = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_JAVASCRIPT: Final = re.compile(
    r"<!-- session: javascript -->\n```console\n.*?^```$", re.MULTILINE | re.DOTALL
)
_FIRST_BLOCK: Final = re.compile(r"^```console\n.*?^```$", re.MULTILINE | re.DOTALL)
_READY: Final = re.compile(r"ready on (\S+) with key")
_MARK: Final = "--- end of output ---"


# What is generated from the code


def generated() -> dict[str, str]:
    """The generated parts of the page, by the names in their marks."""
    return {
        "schedule": _schedule(),
        "states": _states(),
        "money": _money(),
        "scenarios": _scenarios(),
        "addresses": _addresses(),
    }


def with_generated(page: str) -> str:
    """The page with its generated parts made anew."""
    for name, text in generated().items():
        start, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
        assert page.count(start) == page.count(end) == 1, f"the page has no place for {name}"
        before, _, rest = page.partition(start)
        _, _, after = rest.partition(end)
        page = f"{before}{start}{text}{end}{after}"
    return page


def _schedule() -> str:
    titles = ("`retryProfile`", "Delay before each attempt", "The last attempt after")
    rows = [
        (f"`{name}`", ", ".join(map(in_words, gaps)), in_words(sum(gaps, timedelta())))
        for name, gaps in GAPS.items()
    ]
    days = in_words(DISABLED_AFTER)
    disabled = f"The sandbox disables an endpoint whose every attempt failed for {days}."
    return f"{_table(titles, rows)}\n{disabled}\n"


_STATES: Final = {
    outbox.PENDING: "It will be sent.",
    outbox.DELIVERED: "The receiver accepted it.",
    outbox.FAILED: "The attempt failed. The next one is at `nextAttemptAt`.",
    outbox.EXHAUSTED: "Every attempt failed. Replay it when the receiver works again.",
    outbox.CANCELLED: "The endpoint was disabled before it was sent.",
}


def _states() -> str:
    rows = [(f"`{status}`", text) for status, text in _STATES.items()]
    return _table(("Status", "Meaning"), rows)


def amounts_by_event() -> dict[str, list[str]]:
    """The names of the amounts in ``money``, by type of event."""
    funded = books.pay_out(books.open_ledger(purchase()))
    credited = books.credit(funded.ledger, 1).figures
    over = books.collect(funded.ledger, Decimal(10_001), Decimal(10_000))
    loose = books.collect(funded.ledger, Decimal(1), Decimal(0))
    returned = books.give_back(loose.ledger, Decimal(0), Decimal(1), by_seller=False)
    figures = {
        "invoice.partially_funded": funded.figures,
        "invoice.funded": funded.figures,
        "invoice.credit_note_applied": {**credited, "dilutionAmount": Decimal(1)},
        "invoice.partially_paid": books.receive(funded.ledger, 1).figures,
        "invoice.paid": over.figures,
        "invoice.payment_unapplied": loose.figures,
        "invoice.payment_misdirected": books.misdirect(funded.ledger, Decimal(1)).figures,
        "invoice.payment_returned": returned.figures,
        "invoice.settled": books.settle_by_dilution(funded.ledger).figures,
        "invoice.repurchased": books.repurchase(funded.ledger).figures,
        "invoice.written_off": books.write_off(funded.ledger).figures,
    }
    return {event: list(amounts) for event, amounts in figures.items()}


def _money() -> str:
    rows = [
        (f"`{event}`", ", ".join(f"`{name}`" for name in names))
        for event, names in amounts_by_event().items()
    ]
    return _table(("Event", "`amounts`"), rows)


def _scenarios() -> str:
    shipped = load_project(default_project()).scenarios
    names = sorted(
        f"`{name}`" for name in shipped if name.startswith("webhook-") or name == "secret-rotation"
    )
    first, rest = names[:3], names[3:]
    return _table(first, [rest[start : start + 3] for start in range(0, len(rest), 3)])


ADDRESSES: Final = (
    ("http://127.0.0.1:9000/hooks", "this machine, any port, http or https"),
    ("https://partner.example/hooks", "a name"),
    ("https://partner.example:8443/hooks", "port 8443"),
    ("https://partner.example:9000/hooks", "another port"),
    ("http://partner.example/hooks", "http"),
    ("https://8.8.8.8/hooks", "a public address"),
    ("https://192.168.1.10/hooks", "a private address"),
    ("https://169.254.169.254/", "a link-local address"),
    ("https://[::ffff:10.0.0.1]/hooks", "a private address, written as IPv6"),
    ("https://me:word@partner.example/", "user and password"),
)


def _addresses() -> str:
    rows = [
        (f"`{url}`", what, *(_allowed(url, local=local) for local in (True, False)))
        for url, what in ADDRESSES
    ]
    return _table(("URL", "Address", "Sandbox on loopback", "Sandbox elsewhere"), rows)


def _allowed(url: str, *, local: bool) -> str:
    problem = url_problem(url, local=local)
    return "yes" if problem is None else f"`{problem}`"


def in_words(time: timedelta) -> str:
    """A time as people say it, such as ``27 h 35 min 5 s``."""
    minutes, seconds = divmod(int(time.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    if hours and hours % 24 == 0 and not minutes and not seconds:
        return f"{hours // 24} days"
    parts = ((hours, "h"), (minutes, "min"), (seconds, "s"))
    return " ".join(f"{count} {unit}" for count, unit in parts if count) or "at once"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head, *lines = (f"| {' | '.join(line)} |\n" for line in (titles, *rows))
    return f"{head}|{'---|' * len(titles)}\n{''.join(lines)}"


# What is generated by running it


def played(page: str, *, javascript: bool) -> str:
    """The page with what its commands print now; those in JavaScript on request."""
    found = _JAVASCRIPT.search(page)
    assert found is not None, "the page has no session in JavaScript"
    before, after = page[: found.start()], page[found.end() :]
    mark = "<!-- the session in JavaScript -->"
    page = with_outputs(before + mark + after, _session(before + after, page))
    part = javascript_played(found.group(), page) if javascript else found.group()
    return page.replace(mark, part)


def javascript_played(part: str | None = None, page: str | None = None) -> str:
    """The session in JavaScript with what its commands print now, after those at the beginning."""
    page = page or PAGE.read_text()
    part = part or javascript_shown()
    first = _FIRST_BLOCK.search(page)
    assert first is not None
    begun = len(commands(first.group()))
    return with_outputs(part, _session(f"{first.group()}\n{part}", page)[begun:])


def javascript_shown() -> str:
    """The session in JavaScript as the page shows it."""
    found = _JAVASCRIPT.search(PAGE.read_text())
    assert found is not None, "the page has no session in JavaScript"
    return found.group()


def has_javascript() -> bool:
    """Whether ``make interop`` has put Node.js and its packages here."""
    return node() is not None and (MODULES / "standardwebhooks").is_dir()


def _session(blocks: str, page: str) -> list[str]:
    with TemporaryDirectory() as name, serving(*SERVED) as url:
        _write_files(page, Path(name))
        return _outputs(commands(blocks), Path(name), url)


def _write_files(page: str, folder: Path) -> None:
    for file, text in _FILE.findall(page):
        (folder / file).write_text(text)
    if has_javascript():
        (folder / "node_modules").symlink_to(MODULES)


@contextlib.contextmanager
def serving(*options: str) -> Iterator[str]:
    """A sandbox in a process of its own, at the address that is given, with real time."""
    command: list[str | Path] = [BIN / "invoice-sandbox", "serve", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            ready = _READY.search(server.stdout.readline())
            assert ready is not None, "the sandbox did not become ready"
            yield ready[1]
        finally:
            server.terminate()


def _outputs(asked: Sequence[str], folder: Path, url: str) -> list[str]:
    """What each command prints. Nothing that the commands have started is left behind."""
    bash, port = shutil.which("bash"), str(free_port())
    assert bash, "the sessions of the documentation are written for bash"
    script = "".join(f"{command}\necho\necho '{_MARK}'\n" for command in asked)
    script = script.replace(_URL_IN_DOCS, url).replace(_PORT_IN_DOCS, port)
    with subprocess.Popen(
        [bash, "-eu"],
        cwd=folder,
        env=os.environ | {"PATH": os.pathsep.join(_path()), "INVOICE_SANDBOX_URL": url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            printed, _ = shell.communicate(script, timeout=PATIENCE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    log = folder / "receiver.log"
    receiver = log.read_text() if log.exists() else "no receiver"
    assert shell.returncode == 0, f"the session broke off after:\n{printed}\nreceiver: {receiver}"
    printed = printed.replace(url, _URL_IN_DOCS).replace(port, _PORT_IN_DOCS)
    return [output.strip("\n") for output in printed.split(f"{_MARK}\n")[:-1]]


def _path() -> Iterator[str]:
    yield str(BIN)
    found = node()
    if found is not None:
        yield str(found.parent)
    yield os.environ["PATH"]


# The receivers of the page


PYTHON: Final = "receiver.py"
JAVASCRIPT: Final = "receiver.mjs"


@dataclass(frozen=True)
class Receiver:
    """A receiver of the page that is running."""

    url: str
    secret: str
    log: Path

    def lines(self) -> list[str]:
        """The lines that it has printed."""
        return self.log.read_text().splitlines()

    def post(self, body: bytes, headers: Mapping[str, str]) -> int:
        """The status that it returns for a message."""
        return httpx.post(
            self.url, content=body, headers=dict(headers), timeout=PATIENCE
        ).status_code


@contextlib.contextmanager
def receiver_of_docs(
    file: str, secret: str = SECRET, changed: tuple[str, str] = ("", ""), port: int = 0
) -> Iterator[Receiver]:
    """A program of the page, listening. Of its text, what is ``changed`` is replaced."""
    program = node() if file == JAVASCRIPT else Path(sys.executable)
    assert program is not None, "Node.js is not there; run make interop"
    port = port or free_port()
    with TemporaryDirectory() as name:
        folder = Path(name)
        _write_files(PAGE.read_text(), folder)
        text = (folder / file).read_text()
        assert changed[0] in text
        (folder / file).write_text(text.replace(*changed) if changed[0] else text)
        log = folder / "receiver.log"
        with (
            log.open("w") as out,
            subprocess.Popen(
                [program, file, str(port)],
                cwd=folder,
                env=os.environ | {"WEBHOOK_SECRET": secret},
                stdout=out,
                stderr=subprocess.STDOUT,
            ) as running,
        ):
            try:
                _wait_for(port, running, log)
                yield Receiver(f"http://127.0.0.1:{port}/hooks", secret, log)
            finally:
                running.kill()


def _wait_for(port: int, running: subprocess.Popen[bytes], log: Path) -> None:
    def is_ready() -> bool:
        assert running.poll() is None, log.read_text()
        return is_listening(port)

    until(is_ready, "a receiver listens")


def genuine(body: bytes, secret: str = SECRET, *, ago: int = 0) -> dict[str, str]:
    """The headers of a message that was signed so many seconds ago."""
    at = datetime.now(UTC) - timedelta(seconds=ago)
    return {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign("evt_1", at, body.decode()),
    }


BODY: Final = b'{"id":"evt_1","type":"invoice.verified","data":{"invoiceNumber":"\xe2\x84\x96 1"}}'


def _forgeries() -> dict[str, tuple[bytes, Mapping[str, str]]]:
    headers = genuine(BODY)
    return {
        "no headers": (BODY, {}),
        "another secret": (BODY, genuine(BODY, OTHER_SECRET)),
        "an hour old": (BODY, genuine(BODY, ago=3600)),
        "from the future": (BODY, genuine(BODY, ago=-3600)),
        "another body": (BODY.replace(b"verified", b"rejected"), headers),
        "a space more": (BODY + b" ", headers),
        "no body": (b"", headers),
        "not UTF-8": (b"\xff\xfe", headers),
        "another id": (BODY, headers | {"webhook-id": "evt_2"}),
        "no signature": (BODY, headers | {"webhook-signature": ""}),
        "half a signature": (BODY, headers | {"webhook-signature": "v1"}),
        "not base64": (BODY, headers | {"webhook-signature": "v1,#"}),
        "many commas": (BODY, headers | {"webhook-signature": "v1,,,"}),
        "no number": (BODY, headers | {"webhook-timestamp": "nan"}),
        "endless": (BODY, headers | {"webhook-timestamp": "1" + "0" * 400}),
    }


FORGED: Final = tuple(_forgeries())
"""The names of the forgeries that a receiver must reject."""


def responses_to_forgeries(receiver: Receiver) -> dict[str, int]:
    """The status that a receiver returns for each of them."""
    return {name: receiver.post(*message) for name, message in _forgeries().items()}


def main() -> None:
    """Write the page as it should be now."""
    REFERENCE.write_text(with_generated(REFERENCE.read_text()))
    PAGE.write_text(played(PAGE.read_text(), javascript=has_javascript()))


if __name__ == "__main__":
    main()
