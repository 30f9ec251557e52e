"""Whether what others have made gets on with the sandbox: ``make interop``.

Receivers of webhooks, a typed client and a validating proxy, all in JavaScript and all from npm,
work with a real sandbox. Tools judge the Dockerfile and the files of deployments.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from tests.interop import deployment, pages, proxies, typed, webhooks
from tests.interop.checks import Check
from tests.interop.node import UnavailableError, needed_node
from tests.webhook_docs import serving

_LONGEST: Final = 90
"""Seconds after which the whole check is given up."""


def _give_up(*_: object) -> None:
    raise SystemExit(f"FAILED  not done after {_LONGEST} s")


@contextlib.contextmanager
def _checks() -> Iterator[list[Check]]:
    with (
        TemporaryDirectory() as name,
        serving("--rate-limit", "off") as url,
        webhooks.receiving() as receiver,
    ):
        folder = Path(name)
        yield [
            *webhooks.checks(url, receiver),
            *typed.checks(url, folder),
            *proxies.checks(url, folder),
            *pages.checks(),
        ]


def main() -> int:
    """Make every check; 0: all have passed."""
    try:
        needed_node()
    except UnavailableError as error:
        click.echo(f"FAILED  {error}")
        return 1
    passed = [one.is_passed() for one in (*deployment.tools(), deployment.image())]
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(_LONGEST)
    with _checks() as checks:
        passed += [one.is_passed() for one in checks]
    click.echo(f"{passed.count(True)} of {len(passed)} checks passed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
