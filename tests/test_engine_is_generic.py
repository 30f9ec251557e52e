"""The engine names nothing of the API that it is shipped with: that is the project's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
ENGINE: Final = ROOT / "invoice_sandbox"
READ: Final = frozenset({".py", ".yaml", ".json", ".html"})

PRODUCT: Final = re.compile(
    r"invoice[-_ ]?sandbox|invoice[- ]?liquidity([- ]?sandbox| API)?", re.IGNORECASE
)
"""The names of the product, its package and its user agent."""

TRADE: Final = re.compile(
    r"invoice|offer\b|offers\b|fingerprint|financing|debtor|partner|seller|\berp"
    r"|sandbox_mock|/api/webhooks|ilk_",
    re.IGNORECASE,
)

EXCEPTIONS: Final = {
    "base/ids.py": (
        "ilk_",
        "the prefix of the documented demo key and of a server's key, in every project",
    ),
    "cli/fuzz.py": ("createInvoice", "an example in the help"),
    "cli/listen.py": ("invoice.paid,offer", "an example in the help"),
    "control/openapi.yaml": ("createInvoice", "examples, sent to this project"),
    "cli/__init__.py": ('"transition": .*', "the help of that command"),
    "cli/fault.py": ("createInvoice", "examples in the help"),
    "cli/lifecycle.py": ("(?s).*", "commands for the control operations of this project"),
    "cli/requests.py": ("createInvoice", "an example in the help"),
    "cli/users.py": ("(?s).*", "commands for the control operations of this project"),
    "cli/webhooks.py": (
        "--invoice|trigger (invoice|offer)\\..*",
        "another name of --subject in documented commands; examples in the help",
    ),
    "testing/__init__.py": ("/api/invoices", "an example"),
    "testing/report.py": ("/api/invoices .*", "an example"),
    "testing/workspace.py": (
        "invoice_id|/invoices/|one invoice|of the invoice|/api/invoices|/offers/{offer}",
        "documented arguments of the plugin, the shortcut transition, and examples",
    ),
}
"""By file: what it may contain, and why."""


def found(text: str) -> list[str]:
    """The lines with a word of the trade."""
    return [line.strip() for line in text.splitlines() if TRADE.search(PRODUCT.sub("", line))]


def test_the_engine_has_no_word_of_the_trade() -> None:
    wrong = []
    for file in sorted(ENGINE.rglob("*")):
        name = file.relative_to(ENGINE).as_posix()
        if file.suffix not in READ or name.startswith("shipped_project/"):
            continue
        allowed = EXCEPTIONS.get(name, ("(?!)", ""))[0]
        text = re.sub(allowed, "", file.read_text())
        wrong += [f"{name}: {line}" for line in found(text)]
    assert wrong == []


def test_every_exception_is_needed() -> None:
    needed = {name for name in EXCEPTIONS if found((ENGINE / name).read_text())}
    assert needed == EXCEPTIONS.keys()


def test_the_search_finds_a_word_of_the_trade() -> None:
    assert found('x = "Correct the invoice"') == ['x = "Correct the invoice"']
    assert found("from invoice_sandbox.base import errors") == []
