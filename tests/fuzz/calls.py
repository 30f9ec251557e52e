"""One answered request as a line of JSON: written inside Schemathesis, read by the harness."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

AUTHORIZATION_VARIABLE: Final = "INVOICE_SANDBOX_FUZZ_AUTHORIZATION"
"""Environment variable that tells the hooks which ``Authorization`` header is the valid one."""

RECORD_VARIABLE: Final = "INVOICE_SANDBOX_FUZZ_RECORD"
"""Environment variable that tells the hooks which file to append calls to."""

Mode = Literal["positive", "negative", "probe"]
"""Schema-valid; schema-violating; or wrong on purpose in its method or content type."""


@dataclass(frozen=True)
class Call:
    """A request that Schemathesis sent and the status that came back.

    ``own_key`` is whether it carried our valid credential, ``request`` is a ``curl`` command.
    """

    operation: str
    phase: str
    mode: Mode
    status: int
    own_key: bool
    request: str = ""


def append(path: Path, call: Call) -> None:
    """Add a call to the end of the record."""
    with path.open("a", encoding="utf-8") as record:
        record.write(json.dumps(asdict(call)) + "\n")


def read(path: Path) -> list[Call]:
    """Every call of a record, in the order of sending; a record never begun is an empty one."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as record:
        return [Call(**json.loads(line)) for line in record]
