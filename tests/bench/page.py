"""The results as Markdown, and their place in ``docs/performance.md``."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.bench.load import CONNECTIONS
from tests.bench.measure import POST, Memory, Table
from tests.bench.servers import BARE, OURS, PRISM, VERSIONS

PAGE: Final = Path(__file__).parents[2] / "docs" / "performance.md"
_BEGIN: Final = "<!-- results of make bench -->"
_END: Final = "<!-- end of results -->"


Aim = tuple[str, float, str, float, Callable[[float, float], bool]]
"""A figure, its value, how it is compared with its aim, and the aim."""

WHOLE: Final = 2.0
"""Seconds a row from which a run says enough to be written to the page."""


@dataclass(frozen=True)
class Results:
    """All that one run measured."""

    rates: Table
    starts: dict[str, float]
    memories: dict[str, Memory]


def markdown(results: Results) -> str:
    """The results, with a description of the machine that names neither it nor its folders."""
    parts = [machine(results.starts), _rates(results.rates), _starts(results)]
    if PRISM in results.starts:
        parts.append(aims(_compared(results)))
    return "\n\n".join(parts) + "\n"


def write(text: str, begin: str = _BEGIN, end: str = _END) -> None:
    """Replace the results of the page between two comments."""
    before, _, rest = PAGE.read_text().partition(begin)
    _, _, after = rest.partition(end)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n{end}{after}")


def machine(servers: Collection[str] = ()) -> str:
    """The machine without its name, and what was measured on it."""
    versions = [f"{name} {version}" for name, version in VERSIONS.items() if name in servers]
    software = [*versions, f"Python {platform.python_version()}"]
    return (
        f"Measured on {os.cpu_count()} CPUs ({platform.machine()}, {platform.system()}) over "
        f"{CONNECTIONS} connections, with {', '.join(software)}."
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table whose columns are numbers, except the first."""
    lines = [head, ["---", *(["---:"] * (len(head) - 1))], *rows]
    return "\n".join(f"| {' | '.join(one)} |" for one in lines)


def _rates(rates: Table) -> str:
    head = ["Request", "Server", "CPU µs per request", "Requests/s", "p50 ms", "p99 ms"]
    rows = []
    for row, servers in rates.items():
        for name, one in servers.items():
            result = one.result
            tail = [f"{result.percentile(share):.1f}" for share in (0.5, 0.99)]
            rows.append([row, name, f"{one.cpu_us:.0f}", f"{result.per_second:.0f}", *tail])
    return table(head, rows)


def _starts(results: Results) -> str:
    requests = next(iter(results.memories.values())).requests
    head = [
        "Server",
        "Start to first response, s",
        "Idle, MiB",
        f"After {requests:,} requests, MiB",
    ]
    rows = [
        [name, f"{start:.2f}", f"{memory.idle:.0f}", f"{memory.after:.0f}"]
        for name, start in results.starts.items()
        if (memory := results.memories[name])
    ]
    return table(head, rows)


def aims(figures: Iterable[Aim]) -> str:
    """Each aim of the project and whether this run met it."""
    rows = [
        [name, f"{bound} {aim:g}", f"{value:.2f}", "yes" if is_met(value, aim) else "**no**"]
        for name, value, bound, aim, is_met in figures
    ]
    return table(["Figure", "Aim", "Measured", "Met"], rows)


def at_least(value: float, aim: float) -> bool:
    return value >= aim


def _at_most(value: float, aim: float) -> bool:
    return value <= aim


def _compared(results: Results) -> Iterator[Aim]:
    for row, aim in (
        ("GET partners", 3),
        ("GET 20 invoices", 3),
        ("GET one invoice", 3),
        (POST, 2),
    ):
        cpu = {name: one.cpu_us for name, one in results.rates[row].items()}
        yield f"CPU, Prism / sandbox: {row}", cpu[PRISM] / cpu[OURS], "≥", aim, at_least
    for row, aim in (("GET one invoice", 4), (POST, 8)):
        cpu = {name: one.cpu_us for name, one in results.rates[row].items()}
        yield f"CPU, sandbox / bare: {row}", cpu[OURS] / cpu[BARE], "≤", aim, _at_most
    for row in ("GET one invoice", POST):
        p99 = {name: one.result.percentile(0.99) for name, one in results.rates[row].items()}
        yield f"p99, sandbox / Prism: {row}", p99[OURS] / p99[PRISM], "≤", 1, _at_most
    start = results.starts[OURS] / results.starts[PRISM]
    yield "Start, sandbox / Prism", start, "≤", 0.6, _at_most
    ours, prism = results.memories[OURS], results.memories[PRISM]
    yield "Memory idle, sandbox / Prism", ours.idle / prism.idle, "≤", 0.5, _at_most
    after = f"Memory after {ours.requests:,} requests / idle"
    yield after, ours.after / ours.idle, "≤", 1.15, _at_most
