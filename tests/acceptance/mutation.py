"""Runs the plan against mutants of the reference clients: which of them does it fail?"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

from invoice_sandbox.acceptance.cases import CaseReport
from invoice_sandbox.acceptance.runner import RunReport
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.conformance.plan import Plan
from invoice_sandbox.control.client import ControlClient
from tests.acceptance.mutants import Mutant, mutants, without_faults
from tests.acceptance.selftest import FOLDER, KnownClient, known_clients, run_client

SOURCES: Final = {"Python": "client.py", "asyncio": "independent/asynchronous.py"}
"""The clients in Python that also act on events, by name, and their files."""

_SIDE_BY_SIDE: Final = 3
_ORIGINALS: Final = 2
"""Runs of an original: what it does at random differs between them."""

_WORKSPACE: Final = re.compile(r"(?<=_sandbox)_[a-z0-9]{8}_")
"""The part of an id that every workspace has of its own."""

Signature = frozenset[object]


class Fate(Enum):
    """What became of a mutant; of those that changed nothing the reason."""

    KILLED = "killed"
    IDLE = (
        "not judged (the client does nothing): its receiver never responds, or never has an effect"
    )
    UNCLEAR = "not failed, but INCONCLUSIVE, or for review beyond the original"
    SURVIVED = "survived"
    EQUAL = "equivalent: the journals of a run show what those of the original show"
    CRASHED = "crashes at once, before its first request"


@dataclass(frozen=True)
class Tried:
    """A mutant, what became of it, and the checks that failed it."""

    mutant: Mutant
    fate: Fate
    failed: Sequence[str] = ()

    @property
    def counts(self) -> bool:
        """True if its behaviour is another one."""
        return self.fate not in {Fate.EQUAL, Fate.CRASHED}


@dataclass(frozen=True)
class Original:
    """A client, and what the journals of its runs show; checks that it does not pass."""

    client: KnownClient
    signatures: frozenset[Signature]
    reviewed: frozenset[str]


def all_mutants() -> list[Mutant]:
    """Every mutant of every source."""
    sources = {name: (FOLDER / file).read_text() for name, file in SOURCES.items()}
    return [
        mutant
        for name, source in sources.items()
        for mutant in mutants(name, without_faults(source))
    ]


def tried(
    chosen: Sequence[Mutant],
    seed: int,
    number: int,
    plan: Plan,
    control: ControlClient,
    folder: Path,
    on_tried: Callable[[Tried], None],
) -> list[Tried]:
    """Try mutants in a random order, until so many have another behaviour."""
    shuffled = [*chosen]
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - no secret
    originals = _originals(shuffled, plan, control, folder)
    results: list[Tried] = []
    left = iter(enumerate(shuffled))

    def judge(numbered: tuple[int, Mutant]) -> Tried:
        place, mutant = numbered
        original = originals[mutant.client]
        client = _written(original.client, folder / f"mutant-{place}.py", mutant.source)
        result = _fate(mutant, original, run_client(client, plan, plan.checks, control))
        on_tried(result)
        return result

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        while missing := number - sum(result.counts for result in results):
            chunk = [found for found, _ in zip(left, range(missing), strict=False)]
            if not chunk:
                break
            results += pool.map(judge, chunk)
    return results


def _originals(
    chosen: Sequence[Mutant], plan: Plan, control: ControlClient, folder: Path
) -> Mapping[str, Original]:
    """The originals of mutants by name. An original that fails stops it all."""
    found = {}
    for name, source in {mutant.client: mutant.original for mutant in chosen}.items():
        client = _written(known_clients()[name], folder / f"original-{name}.py", source)
        with ThreadPoolExecutor(_ORIGINALS) as pool:
            runs = [
                pool.submit(run_client, client, plan, plan.checks, control)
                for _ in range(_ORIGINALS)
            ]
        reports = [run.result() for run in runs]
        fine = {Verdict.PASS, Verdict.NOT_APPLICABLE}
        bad = [check for report in reports for check in report.checks if check.verdict not in fine]
        assert all(check.verdict is Verdict.REVIEW for check in bad), [
            (name, check.check.id, check.summary) for check in bad
        ]
        reviewed = frozenset(check.check.id for check in bad)
        found[name] = Original(client, frozenset(map(signature, reports)), reviewed)
    return found


def _written(client: KnownClient, file: Path, source: str) -> KnownClient:
    """The client with another source in its command."""
    file.write_text(source)
    return replace(client, command=(*client.command[:-1], str(file)))


def _fate(mutant: Mutant, original: Original, report: RunReport) -> Tried:
    failed = [check.check.id for check in report.checks if check.verdict is Verdict.FAIL]
    if not any(map(_did_something, _cases(report))):
        return Tried(mutant, Fate.CRASHED)
    if failed:
        return Tried(mutant, Fate.KILLED, failed)
    if signature(report) in original.signatures:
        return Tried(mutant, Fate.EQUAL)
    unclear = {
        check.check.id
        for check in report.checks
        if check.verdict in {Verdict.INCONCLUSIVE, Verdict.REVIEW}
    } - original.reviewed
    unjudged = Fate.IDLE if _is_idle(report) else Fate.UNCLEAR
    return Tried(mutant, unjudged if unclear else Fate.SURVIVED, sorted(unclear))


def _is_idle(report: RunReport) -> bool:
    """True if a client that was sent webhooks changed nothing at all."""
    received = [case for case in _cases(report) if case.seen.attempts]
    return all(request.method == "GET" for case in received for request in case.seen.requests)


def _did_something(case: CaseReport) -> bool:
    return bool(case.seen.requests) or any(attempt.status for attempt in case.seen.attempts)


def _cases(report: RunReport) -> Iterator[CaseReport]:
    for check in report.checks:
        for case in check.cases:
            yield from (part for part in (case, case.before, case.after) if part is not None)


def signature(report: RunReport) -> Signature:
    """What a run shows whatever the times: requests with bodies and responses, how many writes
    there are and how many keys they have, and the responses to webhooks."""
    return frozenset(
        (place, part) for place, case in enumerate(_cases(report)) for part in _shown(case)
    )


def _shown(case: CaseReport) -> Iterator[object]:
    writes = [request for request in case.seen.requests if request.method != "GET"]
    yield "writes", len(writes), len({request.idempotency_key for request in writes})
    for request in case.seen.requests:
        path, body = (_WORKSPACE.sub("_", text or "") for text in (request.path, request.body))
        yield request.method, path, request.status, body, request.fault, request.period
    for attempt in case.seen.attempts:
        yield attempt.event_type, attempt.kind, attempt.status, attempt.error, attempt.period
