"""Processes that replay a bundle and print what came of it.

For people it is ``invoice-sandbox replay`` with a bundle (with the id of a delivery that is an
operation), for a server the one that it starts for each of its replays.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from invoice_sandbox.base.errors import UserError
from invoice_sandbox.bundles.archive import BundleError, load_bundle, read_bundle
from invoice_sandbox.bundles.environment import Served
from invoice_sandbox.cli.options import FAILED, print_data
from invoice_sandbox.cli.output import plain
from invoice_sandbox.replay import NO_NETWORK, Replayed, replay
from invoice_sandbox.settings import SettingError

MAX_CPU_SECONDS: Final = 60
MAX_MEMORY: Final = 1024 * 1024 * 1024
_MAX_SHOWN: Final = 500
_MAX_NOTES: Final = 20
_CHANGED: Final = (
    "files of the server's project have changed since it started and can no longer be loaded; "
    "restart the server, which reports what is wrong"
)
_NICE: Final = 19


def replay_bundle(file: Path, served: Served) -> None:
    """Replay a bundle, print what came of it, and end with status 1 if it is different.

    Raises UserError for a file that is no usable bundle.
    """
    found = replay(read_bundle(file), served)
    data = {"same": found.difference is None, **asdict(found)}
    print_data(data, lambda _: click.echo("\n".join(map(plain, _lines(file, found)))))
    sys.exit(0 if found.difference is None else FAILED)


def _lines(file: Path, found: Replayed) -> Iterator[str]:
    yield from (f"note: {one}" for one in found.notes)
    difference = found.difference
    if difference is None:
        yield f"{file}: same: {found.requests} requests{' and what they left' * found.with_end}"
        return
    place = difference.request or "what is left at the end"
    yield f"{file}: different: {difference.case and f'{difference.case}: '}{place}"
    yield f"  member:   {difference.member}"
    yield f"  expected: {difference.expected}"
    yield f"  actual:   {difference.actual}"


# The process that a server starts


def main(arguments: Sequence[str]) -> None:
    """Replay the bundle on the standard input, and print the outcome as the control API shows it.
    The argument is ``Served`` in JSON."""
    _limit()
    print(json.dumps(_outcome_of(_served(json.loads(arguments[0])))))  # noqa: T201 - for the server


def _limit() -> None:
    """Leave the processor to the server, and take no more than may be taken."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limits
        return
    os.nice(_NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS))


def _served(given: Mapping[str, Any]) -> Served:
    paths = {name: given[name] and Path(given[name]) for name in ("project", "contract")}
    scenarios = given["scenarios"] and Path(given["scenarios"])
    return Served(**paths, scenarios=scenarios, folders=tuple(map(Path, given["folders"])))


def _outcome_of(served: Served) -> dict[str, Any]:
    try:
        found = replay(load_bundle(sys.stdin.buffer, Path("bundle.zip")), served)
    except (BundleError, SettingError) as error:
        return {"problem": str(error)[:_MAX_SHOWN]}
    except UserError:  # whose message may name files of the server
        return {"problem": _CHANGED}
    if found.difference and NO_NETWORK in found.notes:
        return {"problem": NO_NETWORK}
    difference = found.difference and {
        name: value and value[:_MAX_SHOWN] for name, value in asdict(found.difference).items()
    }
    return {
        "same": difference is None,
        "requests": found.requests,
        "withEnd": found.with_end,
        "difference": difference,
        "notes": [one[:_MAX_SHOWN] for one in found.notes[:_MAX_NOTES]],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
