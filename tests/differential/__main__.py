"""``python -m tests.differential``: the same requests to the commit BASE and to this version."""

from __future__ import annotations

import http.client
import itertools
import json
import re
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import click

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.differential.generate import Generator, Request
from tests.receivers import free_port

BASE: Final = "9601a55"
ROOT: Final = Path(__file__).parents[2]
_OPTIONS: Final = (
    *("--seed=7", "--clock=frozen", "--scenario=manual", "--rate-limit=off"),
    "--max-workspaces=100000",
)
_PATIENCE: Final = 60
_OF_A_WORKSPACE: Final = 40
_RANDOM: Final = re.compile(
    r"ilk_sandbox_[0-9A-Za-z]+|whsec_[0-9A-Za-z+/=]+|signature=[0-9a-f]+"
    r'|"durationMs":[0-9.]+|"last4":"[^"]+"|"webhook-(timestamp|signature)":"[^"]+"'
)
"""Secrets, and what depends on real time."""

_REQUEST_ID: Final = re.compile(r'"requestId":"[^"]+"')
"""In an error: it is random where the workspace of the request is not known."""

ON_PURPOSE: Final = (
    (r"\w+ /error/message", "errors are worded in plain technical English"),
    (
        r"routePartners /data/(un)?matched.*|listPartners /data(/\*/(?!status|type|demo).*)?",
        "partners have limits and shares of debtors, and one partner more is there",
    ),
    (
        r"\w+FinancingRequests? /data/(\*/)?(unmatched|routed.*)",
        "a financing request shows why a partner does not match, and one partner more is there",
    ),
    (
        r"(createOffer|listOffers) /data/(\*/)?(lateInterest|faceValue|validUntil)",
        "offers have late interest and the digits of the currency; those of fixtures stay open",
    ),
    (
        r"runVerification /data/(status|checklist/\*/(detail|state))|testWebhook .*/body",
        "verification looks at blank numbers, dates, the registry and the rule of the country",
    ),
    (r"(login|getSession) /data/scopes", "a scope lets its holder look at the control API"),
    (r"generateFingerprint /data/fingerprint", "zero-width characters hide no duplicate"),
    (r"generateFingerprint /data/matches", "the registry finds every registration that counts"),
    (r"createOffer status 4\d\d -> 404", "an offer of an unknown partner is rejected first"),
    (
        r"createApiKey status 400 -> 201|pushErpInvoices status 400 -> 202",
        "the published schema has no type for this member, so every type is accepted",
    ),
    (r"(createApiKey|listApiKeys) /data/(\*/)?name", "names of keys are cut"),
    (
        r"listAuditEvents /data/\*/(targets|metadata/(reason|index))",
        "the audit log shows what became of each ERP item",
    ),
    (r"listAuditEvents /data/\*/context/stepNumber", "the audit log shows which step it was"),
)
"""What was changed on purpose since BASE: operations with what differs, and why."""


class Response(NamedTuple):
    """A response without what is random in it."""

    status: int
    media_type: str
    body: Any


class Difference(NamedTuple):
    """``what`` is a pointer into the body, or the two statuses."""

    request: Request
    what: str
    before: Response
    after: Response

    @property
    def name(self) -> str:
        """The operation and what differs in its response."""
        return f"{self.request.operation} {self.what}"

    def report(self) -> str:
        """The request with both responses, cut."""
        lines = (self.name, str(tuple(self.request)), f"- {self.before}", f"+ {self.after}")
        return "\n    ".join(one[:2000] for one in lines)


def reason_for(difference: Difference) -> str | None:
    """Why this was changed on purpose; None: it was not."""
    found = (reason for name, reason in ON_PURPOSE if re.fullmatch(name, difference.name))
    return next(found, None)


class Side:
    """A server of one version, and a connection to it."""

    def __init__(self, port: int) -> None:
        self._host = f"127.0.0.1:{port}"
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
        self.key = DEMO_KEY

    def begin(self, seed: int) -> None:
        """Go on in a new workspace."""
        self.key = DEMO_KEY
        body = json.dumps({"seed": seed}).encode()
        made = Request("", "POST", "/sandbox/workspaces", {}, body)
        self.key = json.loads(self._bytes(made)[2])["data"]["key"]

    def send(self, request: Request) -> Response:
        """The response to a request. Deliveries are listed when those that are due are done."""
        if request.operation == "listWebhooks":
            self._bytes(Request("", "POST", "/sandbox/clock/advance", {}, b'{"by": "PT0S"}'))
        status, media_type, raw = self._bytes(request)
        if not raw or "json" not in media_type:
            return Response(status, media_type, raw.decode("latin-1"))
        text = _RANDOM.sub(_masked, raw.decode().replace(self._host, "sandbox"))
        if status >= HTTPStatus.BAD_REQUEST:
            text = _REQUEST_ID.sub('"requestId":""', text)
        return Response(status, media_type, json.loads(text))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _bytes(self, request: Request) -> tuple[int, str, bytes]:
        given = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        headers = {name: one for name, one in {**given, **request.headers}.items() if one}
        self._connection.request(request.method, request.target, request.body, headers)
        received = self._connection.getresponse()
        return received.status, received.getheader("content-type", ""), received.read()


def _masked(found: re.Match[str]) -> str:
    """A member without its value, or nothing of a secret."""
    name, colon, _ = found[0].partition(":")
    return f'{name}:""' if colon else "secret"


@contextmanager
def serving(tree: Path) -> Iterator[Side]:
    """The version in a folder, in a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", "invoice_sandbox", "serve", *_OPTIONS, f"--port={port}"]
    with subprocess.Popen(command, cwd=tree, stdout=subprocess.DEVNULL) as process:
        try:
            _wait(process, port)
            with closing(Side(port)) as side:
                yield side
        finally:
            process.kill()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            Side(port).send(Request("", "GET", "/api/health", {}, b""))
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise click.ClickException("a server did not start")


@contextmanager
def version(commit: str) -> Iterator[Path]:
    """A folder with the files of a commit."""
    with TemporaryDirectory() as folder:
        command = ["git", "archive", commit]
        archived = subprocess.run(command, cwd=ROOT, check=False, capture_output=True)
        if archived.returncode:
            raise click.ClickException(f"this clone has no commit {commit}; git fetch --unshallow")
        with tarfile.open(fileobj=BytesIO(archived.stdout)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


def differences(before: Any, after: Any, pointer: str = "") -> Iterator[str]:
    """Pointers to what differs; an index is ``*``."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            if name not in before or name not in after:
                yield f"{pointer}/{name}"
            else:
                yield from differences(before[name], after[name], f"{pointer}/{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            yield from differences(one, other, f"{pointer}/*")
    elif before != after or type(before) is not type(after):
        yield pointer


def compared(request: Request, before: Response, after: Response) -> Iterator[Difference]:
    """What differs in the responses of two versions."""
    changed = sorted(set(differences(before.body, after.body)))
    if before.status != after.status:
        changed = [f"status {before.status} -> {after.status}"]
    elif before.media_type != after.media_type:
        changed.append(f"media type {before.media_type} -> {after.media_type}")
    for one in changed:
        yield Difference(request, one, before, after)


def run(old: Side, new: Side, requests: int, seed: int) -> Iterator[Difference]:
    """Every difference. A workspace in which the two versions have become different is left."""
    sent = 0
    for number in itertools.count():
        generator = Generator(Random(f"{seed}/{number}"))  # noqa: S311  for no secret
        for side in (old, new):
            side.begin(number)
        for _ in range(_OF_A_WORKSPACE):
            if sent == requests:
                return
            sent += 1
            request = generator.next()
            before = old.send(request)
            generator.learn(request, before.body)
            found = list(compared(request, before, new.send(request)))
            yield from found
            if any(one.what.startswith("status") or one.what == "/data/status" for one in found):
                break


@click.command()
@click.option("--requests", default=10_000, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(requests: int, seed: int) -> None:
    """Send REQUESTS to both versions. Status 1 if something differs without a known reason."""
    with version(BASE) as folder, serving(folder) as old, serving(ROOT) as new:
        sys.exit(judged(run(old, new, requests, seed), requests))


def judged(found: Iterable[Difference], requests: int) -> int:
    """Print the differences, those on purpose counted; 1 if there are others, else 0."""
    reasons: Counter[str] = Counter()
    unknown: dict[str, Difference] = {}
    for one in found:
        reason = reason_for(one)
        if reason is None:
            unknown.setdefault(one.name, one)
        else:
            reasons[reason] += 1
    click.echo(f"{requests} requests, compared with {BASE}. Changed on purpose:")
    for reason, count in reasons.most_common():
        click.echo(f"{count:6}  {reason}")
    for one in unknown.values():
        click.echo(one.report())
    click.echo(f"{len(unknown)} other differences")
    return 1 if unknown else 0


if __name__ == "__main__":
    main()
