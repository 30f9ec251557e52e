"""``python -m tests.mutants [FILE ...]``: mutate files and run the tests of their area.

Without FILE these are the files that differ from the branch main. At most COUNT mutants are
tried, chosen by SEED. Exit status 1 if fewer than 90 % are killed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tests.mutants.changes import Mutant, mutants

ROOT: Final = Path(__file__).parents[2]
LEAST: Final = 90
SECONDS: Final = 120
AREAS: Final[dict[str, str]] = {
    "invoice_sandbox/http/admit": "rate_limit credentials sessions quotas uploads",
    "invoice_sandbox/http/credentials": "credentials sessions foreign_security uploads",
    "invoice_sandbox/http/idempotency": "idempotency retention",
    "invoice_sandbox/http/inject": "faults choosing_scenarios",
    "invoice_sandbox/http/prefer": "preferring faults",
    "invoice_sandbox/http/route": "pipeline operations docs_page",
    "invoice_sandbox/http/": "pipeline operations http_corners parameters body_limits journal",
    "invoice_sandbox/webhooks/inbox": "inbox",
    "invoice_sandbox/webhooks/signing": "webhooks webhook_delivery",
    "invoice_sandbox/webhooks/listeners": "listen",
    "invoice_sandbox/webhooks/retry": "webhook_retries",
    "invoice_sandbox/webhooks/network": "webhook_network",
    "invoice_sandbox/webhooks/": "webhooks webhook_delivery webhook_lanes webhook_retries inbox",
    "invoice_sandbox/state/credentials": "credentials sessions uploads",
    "invoice_sandbox/state/": "store workspaces quotas",
    "invoice_sandbox/scenarios/faults": "faults scenario_checks",
    "invoice_sandbox/scenarios/": "actions lifecycle scenario_checks scenario_library",
    "invoice_sandbox/openapi/load/conformity": "conformity",
    "domain/ledger": "ledger ledger_http",
    "domain/pricing": "money offers ledger",
    "domain/webhooks": "webhooks webhook_delivery trigger_command",
    "domain/": "invoices transitions offers financing_requests verification partners",
}
"""The tests of an area, by how the path begins; the first that fits counts."""

EQUIVALENT: Final = {
    ("invoice_sandbox/http/idempotency.py", "402"): "a 401 comes before the key is looked at",
}
"""By file and changed line: why no test can notice it."""


def main() -> int:
    """Print the survivors and the share of the killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = list(_every(options.files or _changed()))
    random.Random(options.seed).shuffle(found)  # noqa: S311 - a choice, no secret
    chosen = found[: options.count]
    with tempfile.TemporaryDirectory() as folder:
        copy = _copied(Path(folder))
        killed = sum(_is_killed(copy, file, mutant) for file, mutant in chosen)
    percent = 100 * killed // len(chosen) if chosen else 100
    print(f"{killed} of {len(chosen)} killed ({percent} %), {len(found)} possible")  # noqa: T201
    return int(percent < LEAST)


def _changed() -> Iterator[str]:
    command = ["git", "diff", "--name-only", "--diff-filter=AM", "main", "--", "*.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    yield from done.stdout.split()


def _every(files: Iterable[str]) -> Iterator[tuple[str, Mutant]]:
    for file in files:
        if _tests_of(file):
            for one in mutants((ROOT / file).read_text()):
                if (file, one.text) not in EQUIVALENT:
                    yield file, one


def _tests_of(file: str) -> list[str]:
    names = next((tests for start, tests in AREAS.items() if file.startswith(start)), "")
    return [f"tests/test_{name}.py" for name in names.split()]


def _copied(folder: Path) -> Path:
    """A copy of the checkout without what git and tools keep in it."""
    ignored = shutil.ignore_patterns(".*", "node_modules", "__pycache__", "dist")
    return Path(shutil.copytree(ROOT, folder / "checkout", ignore=ignored, symlinks=True))


def _is_killed(copy: Path, file: str, mutant: Mutant) -> bool:
    place = copy / file
    original = place.read_text()
    place.write_text(mutant.source)
    try:
        survived = _passes(copy, _tests_of(file))
    finally:
        place.write_text(original)
    if survived:
        print(f"survived  {file}:{mutant.line}  {mutant.text}", flush=True)  # noqa: T201
    return not survived


def _passes(copy: Path, tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    env = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=SECONDS)  # noqa: PLW1510
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
