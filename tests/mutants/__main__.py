"""``python -m tests.mutants [FILE ...]``: small wrong changes that tests must notice.

Without FILE a sample of COUNT mutants of each package of PACKAGES, chosen by SEED; with
``--changed`` of the files that the last commit or the checkout changes, within 40 seconds of CPU
time. Exit status 1 if fewer than 90 % of a sample are killed, or 75 % of ten or more of the changed
files: so few differ by chance.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

import yaml

from tests.mutants.changes import Mutant, mutants
from tests.mutants.forks import Job, Runner
from tests.mutants.hits import Hits, recorded
from tests.mutants.swap import is_swappable

ROOT: Final = Path(__file__).parents[2]
LEAST: Final = 90
LEAST_OF_FEW: Final = 75
FEW: Final = 10
BUDGET: Final = 40
MOST: Final = 30
MOST_OF_CHANGED: Final = 15
"""CPU seconds of the tests that a mutant is tried with."""
LIMIT: Final = 10
"""CPU seconds of a mutant, besides three times those of its tests."""
PACKAGES: Final = {
    "pipeline": "invoice_sandbox/http",
    "webhooks": "invoice_sandbox/webhooks",
    "state": "invoice_sandbox/state",
    "runtime": "invoice_sandbox/runtime",
    "domain": "domain",
}
AREAS: Final[dict[str, str]] = {
    "invoice_sandbox/http/admit": (
        "rate_limit credentials foreign_security sessions quotas uploads console_views replay"
    ),
    "invoice_sandbox/http/credentials": "credentials sessions foreign_security uploads",
    "invoice_sandbox/http/declared_errors": "declared_statuses any_document",
    "invoice_sandbox/http/edge": "journal pipeline coverage http_corners metrics bundles",
    "invoice_sandbox/http/handling": (
        "pipeline idempotency declared_statuses audit_log credentials journal replay"
    ),
    "invoice_sandbox/http/gateway": "postgresql users",
    "invoice_sandbox/http/idempotency": "idempotency retention",
    "invoice_sandbox/http/inject": "faults choosing_scenarios",
    "invoice_sandbox/http/pages": "docs_page documents foreign_security",
    "invoice_sandbox/http/pipeline": "pipeline console_views http_corners",
    "invoice_sandbox/http/prefer": "preferring faults",
    "invoice_sandbox/http/read": (
        "idempotency parameters forms body_limits limits_docs declared_secrets http_corners journal"
    ),
    "invoice_sandbox/http/route": "pipeline operations parameters docs_page any_document uploads",
    "invoice_sandbox/http/send": "faults",
    "invoice_sandbox/http/": "pipeline operations http_corners parameters body_limits journal",
    "invoice_sandbox/webhooks/attempts": (
        "webhook_attempts webhook_retries webhook_delivery webhook_lanes event_log"
    ),
    "invoice_sandbox/webhooks/dns": "webhook_network",
    "invoice_sandbox/webhooks/explanation": "webhook_attempts event_log",
    "invoice_sandbox/webhooks/inbox": "inbox",
    "invoice_sandbox/webhooks/lanes": "webhook_lanes webhook_delivery webhook_retries",
    "invoice_sandbox/webhooks/outbox": (
        "webhook_attempts webhooks retention webhook_delivery quotas event_log"
    ),
    "invoice_sandbox/webhooks/signing": "webhooks webhook_delivery",
    "invoice_sandbox/webhooks/listeners": "listen quotas",
    "invoice_sandbox/webhooks/retry": "webhook_retries",
    "invoice_sandbox/webhooks/network": "webhook_network inbox",
    "invoice_sandbox/webhooks/transport": "webhook_network",
    "invoice_sandbox/webhooks/sender": "webhook_faults webhook_network webhook_delivery",
    "invoice_sandbox/webhooks/": "webhooks webhook_delivery webhook_lanes webhook_retries inbox",
    **dict.fromkeys(
        [f"invoice_sandbox/state/{one}" for one in ("persistent", "rows", "sqlite", "writer")],
        "durability store",
    ),
    **dict.fromkeys(
        [f"invoice_sandbox/state/{one}" for one in ("postgresql", "shared", "upgrade")],
        "postgresql store durability",
    ),
    "invoice_sandbox/state/credentials": "credentials sessions uploads limits_docs",
    "invoice_sandbox/state/passwords": "users limits_docs",
    "invoice_sandbox/state/": "store workspaces quotas retention limits_docs settings",
    "invoice_sandbox/runtime/agenda": (
        "agenda simulated_clock clock_control webhook_lanes webhook_faults quotas"
    ),
    "invoice_sandbox/runtime/control_call": "journal listen",
    "invoice_sandbox/runtime/journal": "journal bundles",
    "invoice_sandbox/runtime/recording": "bundles replay",
    "invoice_sandbox/runtime/workspaces": "workspaces retention",
    "invoice_sandbox/runtime/": "agenda simulated_clock workspaces clock_control",
    "domain/actions": "actions scenarios_transport scenarios_financing",
    "domain/credentials": "credentials sessions",
    "domain/disputes": "disputes",
    "domain/erp": "erp_push",
    "domain/errors": "sessions uploads erp_push",
    "domain/invoices": "invoices scenarios_transport transitions verification partners",
    "domain/ledger": "ledger ledger_http",
    "domain/pricing": "money offers ledger",
    "domain/uploads": "uploads",
    "domain/financing": "financing_requests partners",
    "domain/fingerprint": "fingerprint invoices",
    "domain/payments": "ledger_http transitions",
    "domain/users": "limits_docs users",
    "domain/verification": "verification",
    "domain/webhooks": "webhooks webhook_delivery trigger_command",
    "domain/": "invoices transitions offers financing_requests verification partners",
}
"""The tests of an area, by how the path begins; the first that fits counts. They run first."""

SAMPLE: Final = ["invoice_sandbox/http/idempotency.py", "invoice_sandbox/webhooks/retry.py"]
"""What ``--changed`` tries when no file of the packages has changed."""


def main() -> int:
    """Print the survivors and the share of the killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--changed", action="store_true", help="what the last commit changed")
    parser.add_argument("--count", type=int, default=100, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--tests", nargs="*", metavar="FILE", help="only these test files")
    options = parser.parse_args()
    os.nice(10)
    chance = random.Random(options.seed)  # noqa: S311 - a choice, no secret
    files = options.files or (_of_two_areas(chance) if options.changed else _all())
    chosen = _sample(files, options.count, chance)
    tests = options.tests or (_tests_of(files) if options.changed else ["tests"])
    _say(f"{len(chosen)} mutants with seed {options.seed}, at most {options.count} of a package")
    return _run(chosen, tests, BUDGET if options.changed else None)


def _run(chosen: Sequence[Mutant], tests: Sequence[str], budget: float | None) -> int:
    """Try the mutants, those of all packages in turn, until the CPU time is used."""
    tried, killed = Counter[str](), Counter[str]()
    hits = recorded(ROOT, tests)
    needs_postgresql = hits.executes(ROOT / "invoice_sandbox/state/postgresql.py")
    runner = Runner(ROOT, hits.files(), needs_postgresql=needs_postgresql)
    try:
        for one in chosen:
            if budget is not None and runner.cpu_seconds() > budget:
                break
            package = _package(one.file)
            tried[package] += 1
            if _is_killed(runner, hits, one, MOST if budget is None else MOST_OF_CHANGED):
                killed[package] += 1
            else:
                _say(f"survived  {one}")
        seconds = runner.cpu_seconds()
    finally:
        runner.close()
    for name, count in tried.items():
        _say(f"{name}: {killed[name]} of {count} killed ({100 * killed[name] / count:.0f} %)")
    _say(f"{tried.total()} of {len(chosen)} tried in {seconds:.0f} s of CPU time")
    least = LEAST if budget is None else LEAST_OF_FEW
    judged = [one for one, count in tried.items() if budget is None or count >= FEW]
    return int(any(100 * killed[one] < least * tried[one] for one in judged))


def _is_killed(runner: Runner, hits: Hits, mutant: Mutant, most: float) -> bool:
    place, at_import = (ROOT / mutant.file, mutant.lines), not is_swappable(ROOT, mutant)
    own, others = hits.tests(*place, at_import=at_import)
    if not own and not others:  # executed at import or never
        at_import = True
        own, others = hits.tests(*place, at_import=True)
    tests = _ordered(hits, mutant.file, own, others, most)
    expected = sum(hits.seconds[one] for one in tests)
    limit = LIMIT + int(3 * expected)
    job = Job(mutant, tests, limit, at_import=at_import)
    return bool(tests) and runner.is_killed(job)


def _ordered(
    hits: Hits, file: str, own: Sequence[str], others: Sequence[str], most: float
) -> list[str]:
    """The ``own`` tests, which execute the line, those of its area and the fast ones first; then
    the ``others``, and all of its area, which may use what an earlier test made in a server that
    they share.

    No more than need ``most`` seconds: a mutant that all of these pass counts as survivor.
    """
    first = set(_tests_of([file]))
    area = [one for one in hits.seconds if own and _module(one) in first]
    tests = dict.fromkeys((*own, *others, *area))
    seconds = defaultdict[str, float](float)
    for one in tests:
        seconds[_module(one)] += hits.seconds[one]
    known = set(own)
    every = sorted(
        tests,
        key=lambda one: (
            one not in known,
            _module(one) not in first,
            seconds[_module(one)],
            _module(one),
        ),
    )
    enough = accumulate(hits.seconds[one] for one in every)
    return [one for one, used in zip(every, enough, strict=True) if used < most]


def _module(test: str) -> str:
    return test.partition("::")[0]


def _sample(files: Iterable[str], count: int, chance: random.Random) -> list[Mutant]:
    """At most ``count`` mutants of each package, in a random order."""
    found = [one for file in files for one in mutants(file, (ROOT / file).read_text())]
    known = equivalent()
    found = [one for one in found if (one.file, one.source, one.text) not in known]
    chance.shuffle(found)
    seen = Counter[str]()
    chosen = []
    for one in found:
        seen[_package(one.file)] += 1
        if seen[_package(one.file)] <= count:
            chosen.append(one)
    return chosen


def equivalent() -> dict[tuple[str, str, str], str]:
    """File, line and changed part of the mutants that no test can notice, with the reason."""
    listed = yaml.safe_load(Path(__file__).with_name("equivalent.yaml").read_text())
    return {
        (file, *one["change"].split(" -> ")): one["because"]
        for file, changes in listed.items()
        for one in changes
    }


def _package(file: str) -> str:
    return next((name for name, start in PACKAGES.items() if file.startswith(start)), "other")


def _all() -> list[str]:
    return [
        str(file.relative_to(ROOT))
        for folder in PACKAGES.values()
        for file in sorted((ROOT / folder).glob("*.py"))
    ]


def _of_two_areas(chance: random.Random) -> list[str]:
    """Files of the packages that differ from the parent commit: those of at most two areas."""
    command = ["git", "diff", "--name-only", "--diff-filter=AM", "HEAD~1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    changed = sorted({*done.stdout.split()} & {*_all()}) or SAMPLE
    areas = sorted({_area(one) for one in changed})
    few = chance.sample(areas, min(2, len(areas)))
    return [one for one in changed if _area(one) in few]


def _area(file: str) -> str:
    return next((start for start in AREAS if file.startswith(start)), "")


def _tests_of(files: Iterable[str]) -> list[str]:
    """The test files of the areas of these files."""
    names = " ".join(AREAS.get(_area(one), "") for one in files).split()
    return [f"tests/test_{name}.py" for name in dict.fromkeys(names)]


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
