"""The report about a client before and after a change: both verdicts side by side."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from invoice_sandbox import __version__
from invoice_sandbox.acceptance.page import TOKENS
from invoice_sandbox.acceptance.reports import TOOL
from invoice_sandbox.acceptance.verdicts import CONFORMANT, Verdict
from invoice_sandbox.base import jsonio

SIDES: Final = ("before", "after")
_TEMPLATE: Final = "proof.template.html"
_REPORT: Final = "report.json"


def proof_object(folder: Path) -> dict[str, Any]:
    """Return the content of ``proof.json``, from the reports of both runs below the folder.

    ``state`` is proved if the client failed before the change and is conformant after it.
    """
    contents = {side: (folder / side / _REPORT).read_bytes() for side in SIDES}
    reports = {side: jsonio.loads(content) for side, content in contents.items()}
    before, after = (reports[side] for side in SIDES)
    return {
        "tool": {"name": TOOL, "version": __version__},
        "state": "proved" if _why_not(before, after) is None else "not proved",
        "because": _why_not(before, after),
        "plan": after["plan"],
        "contract": after["contract"],
        "declared": after["declared"],
        **{
            side: {
                "verdict": reports[side]["verdict"],
                "report": f"{side}/{_REPORT}",
                "digest": f"sha256:{hashlib.sha256(contents[side]).hexdigest()}",
            }
            for side in SIDES
        },
        "checks": _checks(before, after),
    }


def _why_not(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """Return why two runs prove no fix, or None: they do."""
    if before["verdict"] != Verdict.FAIL.value:
        return f"The client did not fail before: {before['verdict']}."
    if Verdict(after["verdict"]) not in CONFORMANT:
        return f"The client does not pass after: {after['verdict']}."
    return None


def _checks(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the verdicts on each check, those that differ first."""
    earlier = {check["id"]: check for check in before["checks"]}
    rows = [
        {
            "id": check["id"],
            **{
                side: {member: found[member] for member in ("verdict", "summary")}
                for side, found in zip(SIDES, (earlier[check["id"]], check), strict=True)
            },
        }
        for check in after["checks"]
    ]
    return sorted(rows, key=lambda row: row["before"]["verdict"] == row["after"]["verdict"])


def proof_page(proof: Mapping[str, Any]) -> str:
    """The report as HTML."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATE).render(
        proof=proof, sides=SIDES, tokens=TOKENS.read_text()
    )


def signature(content: bytes, key: bytes) -> str:
    """The HMAC-SHA256 of a report, in hexadecimal digits."""
    return hmac.digest(key, content, hashlib.sha256).hex()
