"""The results as Markdown, and their place in ``docs/internals/performance.md``."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.load import CONNECTIONS
from tests.bench.measure import GET, LIST, POST, UNAUTHORIZED, UNKNOWN, Table
from tests.bench.servers import BARE, ON_SQLITE, OURS, PRISM, VERSIONS
from tests.bench.stores import WORKSPACES, Many
from tests.chaos.__main__ import Outcome

PAGE: Final = Path(__file__).parents[2] / "docs" / "internals" / "performance.md"
_BEGIN: Final = "<!-- results of make bench -->"
_END: Final = "<!-- end of results -->"

WHOLE: Final = 2.0
"""Seconds a row from which a run says enough to be written to the page."""


@dataclass(frozen=True)
class Results:
    """All that one run measured. ``memory`` is idle, and after a number of requests."""

    rates: Table
    starts: dict[str, float]
    help: float
    memory: tuple[float, float, int]
    calls: tuple[int, int]
    invoices: int
    many: Many
    posts: tuple[float, float]
    kills: Outcome | None


class Figure(NamedTuple):
    """A figure now, before the request flow was rebuilt (commit 081bfd7b), and its targets."""

    name: str
    now: float
    before: float | None = None
    must: float | None = None
    aim: float | None = None
    more_is_better: bool = False

    @property
    def is_met(self) -> bool | None:
        """True if the figure is within what it must be."""
        if self.must is None:
            return None
        return self.now >= self.must if self.more_is_better else self.now <= self.must


def markdown(results: Results) -> str:
    """Return the results, with the machine, but neither its name nor its folders."""
    return "\n\n".join([_machine(results), _figures(results), _rates(results.rates)]) + "\n"


def write(text: str) -> None:
    """Replace the results of the page between two comments."""
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}\n\n{text}\n{_END}{after}")


def _machine(results: Results) -> str:
    versions = [f"{name} {number}" for name, number in VERSIONS.items() if name in results.starts]
    software = ", ".join([*versions, f"Python {platform.python_version()}"])
    idle, after, requests = results.memory
    return (
        f"Measured on {os.cpu_count()} CPUs ({platform.machine()}, {platform.system()}) over "
        f"{CONNECTIONS} connections, with {software}. The sandbox takes {idle:.0f} MiB of memory "
        f"when idle, and {after:.0f} MiB after {requests:,} requests for one record."
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table whose columns are numbers, except the first."""
    lines = [head, ["---", *(["---:"] * (len(head) - 1))], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rates(rates: Table) -> str:
    servers = list(rates[POST])
    rows = [[row, *(f"{cpu[name]:.0f}" for name in servers)] for row, cpu in rates.items()]
    return _table(["CPU µs of a request", *servers], rows)


def _figures(results: Results) -> str:
    rows = []
    for figure in _measured(results):
        bound = "≥ " if figure.more_is_better else "≤ "
        must, aim = (_text(value, bound) for value in (figure.must, figure.aim))
        word = {True: "yes", False: "**no**", None: ""}[figure.is_met]
        rows.append([figure.name, _text(figure.before), must, aim, _text(figure.now), word])
    return _table(["Figure", "At 081bfd7b", "Must", "Aim", "Now", "Met"], rows)


def _text(value: float | None, bound: str = "") -> str:
    return (
        "" if value is None else f"{bound}{value:,.0f}" if value >= 100 else f"{bound}{value:.3g}"
    )


def _measured(results: Results) -> Iterator[Figure]:
    rates = results.rates
    for row, before, must, aim in (
        (LIST, 4.1, 4.5, 3),
        (GET, 6.2, 4.5, 3),
        (POST, 12.9, 11, 8),
        (UNAUTHORIZED, 4.5, 4, 3),
        (UNKNOWN, 4.5, 4, 3),
    ):
        ratio = rates[row][OURS] / rates[row][BARE]
        yield Figure(f"CPU, sandbox / bare ASGI: {row}", ratio, before, must, aim)
    if PRISM in results.starts:
        for row, before, better in ((LIST, 2.8, 5.0), (GET, 2.3, 5.0), (POST, 1.45, 2.5)):
            ratio = rates[row][PRISM] / rates[row][OURS]
            yield Figure(f"CPU, Prism / sandbox: {row}", ratio, before, None, better, True)
        ratio = results.starts[OURS] / results.starts[PRISM]
        yield Figure("Start to first response, sandbox / Prism", ratio, 0.42, 1, 0.6)
    yield Figure("`--help`, CPU seconds", results.help, None, 0.15)
    sqlite = rates[POST][ON_SQLITE] / rates[POST][OURS]
    yield Figure("CPU of a POST, SQLite / memory", sqlite, 1.7, 2, 1.5)
    calls, files = results.calls
    yield Figure("POST: files of ours", files, 26, 18, 14)
    yield Figure("POST: calls of ours", calls, 262, 180, 130)
    yield from _of_many(results.many, f"{results.invoices:,}")
    for count, posts, must, aim in (
        ("one workspace", results.posts[0], 100, 200),
        (f"{WORKSPACES} workspaces", results.posts[1], 400, 500),
    ):
        yield Figure(f"PostgreSQL: POSTs a second in {count}", posts, None, must, aim, True)
    if results.kills is not None:
        writes = (
            f"{results.kills.acknowledged:,} writes to two servers on PostgreSQL, {KILLS} kills"
        )
        problems = len(results.kills.problems)
        yield Figure(f"{writes}: lost, doubled, out of order", problems, None, 0, 0)
        yield Figure(f"{writes}: slowest write after a kill, s", results.kills.recovered)


KILLS: Final = 20
_ADVANCE: Final = 2.3
_LISTED: Final = 8.1
"""CPU seconds, and milliseconds, that both took at 081bfd7b in alternation with a later commit, on
the machine of the page."""


def _of_many(many: Many, invoices: str) -> Iterator[Figure]:
    advance = f"`advance P90D` with {invoices} invoices in auto-progress"
    yield Figure(f"{advance}, CPU s", many.advance, _ADVANCE, 0.65 * _ADVANCE, 0.4 * _ADVANCE)
    yield Figure(f"{advance}: longest wait of another client, ms", many.wait * 1000, None, 50, 20)
    listed = f"List of {invoices} after a write, CPU ms"
    yield Figure(listed, many.listed * 1000, _LISTED, 0.4 * _LISTED, 0.1 * _LISTED)
