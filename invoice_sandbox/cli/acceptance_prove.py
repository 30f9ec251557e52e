"""``invoice-sandbox acceptance prove``."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from invoice_sandbox.acceptance.process import CommandClient
from invoice_sandbox.acceptance.progress import Progress
from invoice_sandbox.acceptance.proof import proof_object, proof_page, signature
from invoice_sandbox.acceptance.reports import as_json
from invoice_sandbox.base.errors import UserError
from invoice_sandbox.cli.acceptance_run import (
    CASE,
    INTERRUPTED,
    OPTIONS,
    Chosen,
    run_checks,
    server_of,
    words_of,
)
from invoice_sandbox.cli.options import FAILED, FILE, options

_WORDS: Final = ("--out", "--plan", "--only", "--declare declared", "--project")
_COMMANDS: Final[dict[str, dict[str, Any]]] = {
    "--before": {"metavar": "CMD", "required": True, "help": "Command of the client that fails."},
    "--after": {"metavar": "CMD", "required": True, "help": "Command of the changed client."},
}
_SIGN: Final[dict[str, dict[str, Any]]] = {
    "--sign-key-file": {
        "metavar": "FILE",
        "type": FILE,
        "help": "Key of an HMAC-SHA256 of proof.json, which is written to proof.json.hmac.",
    }
}


@click.command()
@options(_COMMANDS | {name: OPTIONS[name] for name in _WORDS} | CASE | _SIGN)
def prove(before: str, after: str, sign_key_file: Path | None, **given: Any) -> None:
    """Prove that a change fixed a client: it failed before, and passes after.

    Runs the same checks with both commands, each against a new server with the same seed and the
    same faults. Writes proof.json and proof.html, with both verdicts on each check, and the reports
    of both runs beside them.

    Status 0 when the client failed before the change and is conformant after it, 1 otherwise.

    \b
    invoice-sandbox acceptance prove --before ./old --after ./new --out proof --only backoff
    invoice-sandbox acceptance prove --before ./old --after ./new --out proof \\
      --case found/case.yaml --declare webhooks,idempotency
    """
    key = None if sign_key_file is None else _key(sign_key_file)
    chosen = Chosen(**given, attests=(), server=None, key="")
    commands = {
        "before": words_of(before, "--before"),
        "after": words_of(after, "--after"),
    }
    for side, command in commands.items():
        click.echo(f"{side}:")
        if _run(replace(chosen, out=chosen.out / side), command) == INTERRUPTED:
            sys.exit(INTERRUPTED)
    proof = proof_object(chosen.out)
    content = as_json(proof).encode()
    (chosen.out / "proof.json").write_bytes(content)
    (chosen.out / "proof.html").write_text(proof_page(proof), encoding="utf-8")
    if key is not None:
        (chosen.out / "proof.json.hmac").write_text(f"{signature(content, key)}\n")
    because = f": {proof['because']}" if proof["because"] else ""
    click.echo(f"{proof['state'].upper()}{because}; {chosen.out}/proof.html")
    sys.exit(0 if proof["state"] == "proved" else FAILED)


def _key(file: Path) -> bytes:
    """The key in a file, without its line end. Raises UserError when it is empty."""
    key = file.read_bytes().rstrip(b"\r\n")
    if not key:
        raise UserError(f"--sign-key-file: {file} is empty")
    return key


def _run(chosen: Chosen, command: list[str]) -> int:
    """Run a client against a server of its own. Returns the exit status of 'acceptance run'."""

    def client_of(_: Progress, declared: frozenset[str]) -> CommandClient:
        return CommandClient(declared, command=command, output=chosen.out)

    with server_of(chosen) as control:
        return run_checks(chosen, control, client_of)
