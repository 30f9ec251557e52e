"""Requests and texts that no well-meaning client sends. The files explain their notation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from invoice_sandbox.state.credentials import DEMO_KEY

_HERE: Final = Path(__file__).parent
_HEAD: Final = f" HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {DEMO_KEY}\r\n"


@dataclass(frozen=True)
class Case:
    """The statuses that each response may have, and whether the server ends the connection then."""

    statuses: tuple[frozenset[int], ...]
    closes: bool
    sent: bytes


def _bytes(text: str) -> bytes:
    text = re.sub(r"<([^<>]+)\*(\d+)>", _repeated, text)
    text = text.replace("~", _HEAD).replace("$", "\r\n")
    return re.sub(r"\\x(..)", lambda found: chr(int(found[1], 16)), text).encode("latin-1")


def _repeated(found: re.Match[str]) -> str:
    unit, count = found[1], int(found[2])
    if "#" not in unit:
        return unit * count
    return "".join(unit.replace("#", str(number)) for number in range(count))


def _lines(file: str) -> list[list[str]]:
    lines = (_HERE / file).read_text().splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("# ")]


def _case(outcome: str, sent: str) -> Case:
    words = outcome.removesuffix(" closed").split()
    statuses = tuple(frozenset(map(int, word.split("/"))) for word in words)
    return Case(statuses, outcome.endswith(" closed"), _bytes(sent))


REQUESTS: Final = {
    sent[:60] if name == "-" else name: _case(outcome, sent)
    for outcome, name, sent in _lines("requests.txt")
}

JSON_TEXTS: Final = {
    name: (kind.startswith("y"), _bytes(text)) for kind, name, text in _lines("json_texts.txt")
}
"""Whether the server reads a text as JSON, and the text."""
