"""docs/limits.md tells the truth: the limits in its tables are those of the code."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

import pytest

from invoice_sandbox.http.read import Patience
from invoice_sandbox.settings import SETTINGS
from tests.support import Running

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = (ROOT / "docs" / "limits.md").read_text()
DEFAULTS: Final = {setting.name: setting.default for setting in SETTINGS}

_CELLS: Final = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in PAGE.splitlines()
    if line.startswith("| ")
]
ROWS: Final = {what: others for what, *others in _CELLS if what != "What"}
"""What is limited: the limit, what happens beyond, what changes it."""


def size(number: int) -> str:
    mebibytes, rest = divmod(number, 1024 * 1024)
    return f"{number // 1024} KiB" if rest else f"{mebibytes} MiB"


def count(number: int) -> str:
    return f"{number:,}"


def seconds(number: float) -> str:
    return f"{number:,.0f} s"


def hours(span: timedelta) -> str:
    return f"{span.total_seconds() / 3600:.0f} h"


CONSTANTS: Final[dict[str, tuple[Any, str]]] = {
    "Head of a request: its line and headers": (size, "invoice_sandbox.server.protocol:HEAD_LIMIT"),
    "Headers": (size, "invoice_sandbox.http.edge:_HEADER_LIMIT"),
    "Body of an upload": (size, "domain.uploads:MOST_BYTES"),
    "Body that is too large, read on before the answer": (
        size,
        "invoice_sandbox.http.read:MOST_IGNORED",
    ),
    "What chunks add to a body, trailers included": (
        size,
        "invoice_sandbox.server.protocol:FRAMING_LIMIT",
    ),
    "Levels of JSON": (count, "invoice_sandbox.base.jsonio:MAX_DEPTH"),
    "Items of a page": (count, "invoice_sandbox.project.api:PAGE_CAP"),
    "A listener's stream without a message": (seconds, "invoice_sandbox.control.listeners:_IDLE"),
    "Silence between two requests": (seconds, "invoice_sandbox.server.serving:_SECONDS_BETWEEN"),
    "Requests under way when the server is told to stop": (
        seconds,
        "invoice_sandbox.server.serving:_SECONDS_TO_FINISH",
    ),
    "Answers kept for an `Idempotency-Key`": (hours, "invoice_sandbox.http.idempotency:_KEPT"),
    "Levels of a YAML or JSON file": (count, "invoice_sandbox.openapi.load.documents:_MOST_LEVELS"),
    "Values of a YAML file, aliases unfolded": (
        count,
        "invoice_sandbox.openapi.load.documents:_MOST_NODES",
    ),
    "Requests in a workspace's journal": (count, "invoice_sandbox.state.memory:_LOG_ENTRIES"),
    "Texts in a workspace's journal": (size, "invoice_sandbox.state.memory:_LOG_BYTES"),
    "A body in the journal": (size, "invoice_sandbox.runtime.journal:_MOST_BODY"),
    "Steps that fall due in one advance of the clock": (
        count,
        "invoice_sandbox.runtime.agenda:MOST_STEPS",
    ),
    "Faults of a workspace": (count, "invoice_sandbox.control.faults:MOST"),
    "Snapshots of a workspace": (count, "invoice_sandbox.control.snapshots:MOST"),
    "Listeners of a workspace": (count, "invoice_sandbox.webhooks.listeners:MOST"),
    "Messages that wait for a listener's answer": (
        count,
        "invoice_sandbox.webhooks.listeners:MOST_WAITING",
    ),
    "Webhooks under way, of the whole server": (
        count,
        "invoice_sandbox.webhooks.lanes:SIDE_BY_SIDE",
    ),
    "Webhooks under way, of one workspace": (count, "invoice_sandbox.webhooks.lanes:SHARE"),
    "An answer of a webhook receiver that is read": (
        size,
        "invoice_sandbox.webhooks.sender:READ_LIMIT",
    ),
}

TIMES: Final = {
    "A connection without a request; a head, or a body that nobody reads": Patience().head,
    "Silence within a body": Patience().silence,
    "A whole body": Patience().body,
    "An answer of which the client takes nothing": Patience().response,
    "An answer until the client has taken all of it": Patience().whole_response,
}

OPTIONS: Final = {
    "Requests a minute and key": ("rate-limit", "120"),
    "An answer of a webhook receiver": ("webhook-timeout", "15 s"),
    "Workspaces": ("max-workspaces", "1,000"),
    "A workspace that nobody uses": ("workspace-idle", "24 h"),
}

NO_NUMBERS: Final = {
    "Body",  # of the contract, and below
    "`Idempotency-Key`",
    "Numbers in JSON",
    "Text in JSON",
    "The same key twice in a JSON object",
    "A pattern's size when compiled",
}


@pytest.mark.parametrize("row", CONSTANTS)
def test_a_limit_is_what_the_code_says(row: str) -> None:
    written, name = CONSTANTS[row]
    assert ROWS[row][0].startswith(written(resolve_name(name)))


@pytest.mark.parametrize("row", TIMES)
def test_a_time_is_what_the_code_says(row: str) -> None:
    assert ROWS[row][0] == seconds(TIMES[row])


@pytest.mark.parametrize("row", OPTIONS)
def test_what_an_option_changes_has_its_default(row: str) -> None:
    option, shown = OPTIONS[row]
    assert ROWS[row][0] == shown
    assert ROWS[row][2] == f"`--{option}`"
    assert "".join(filter(str.isdigit, shown)) == DEFAULTS[option]


def test_the_limit_of_a_body_is_what_the_contract_makes_of_it(server: Running) -> None:
    project = server.sandbox.engine.project
    operations = [*project.contract.operations.values(), *project.control.operations.values()]
    limits = {one.body.limit for one in operations if one.body is not None}
    assert {size(limit) for limit in limits} == {ROWS["Body"][0], ROWS["Body of an upload"][0]}


def test_every_row_is_compared_or_is_no_number_of_ours() -> None:
    assert set(ROWS) == {*CONSTANTS, *TIMES, *OPTIONS, *NO_NUMBERS}
