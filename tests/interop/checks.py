"""What a check is, and the workspaces that checks are made in."""

from __future__ import annotations

import contextlib
import subprocess
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import click
import httpx

from invoice_sandbox.state.credentials import DEMO_KEY

PATIENCE: Final = 20
"""Seconds within which one response must be there."""


@dataclass(frozen=True)
class Check:
    """A rule in a sentence, and how it is looked at: it returns what was seen, or raises."""

    rule: str
    look: Callable[[], str]

    def is_passed(self) -> bool:
        """Make the check, and print what came of it."""
        begun = time.monotonic()
        try:
            seen = self.look()
        except (
            AssertionError,
            httpx.HTTPError,
            LookupError,
            ValueError,
            subprocess.SubprocessError,
        ) as error:
            line = traceback.extract_tb(error.__traceback__)[-1].line
            reported = f"{line}\n        {type(error).__name__}: {error}"
            click.echo(f"FAILED  {self.rule}\n        {reported}")
            return False
        click.echo(f"ok      {self.rule}  [{seen}; {time.monotonic() - begun:.1f} s]")
        return True


def rule_of(function: Callable[..., Any]) -> str:
    """The first line of what is said about a function."""
    return (function.__doc__ or "").partition("\n")[0]


def new_key(url: str) -> str:
    """The key of a new workspace of the sandbox at ``url``, whose clock stands."""
    made = httpx.post(
        f"{url}/sandbox/workspaces",
        json={"clock": "frozen"},
        headers=bearer(DEMO_KEY),
        timeout=PATIENCE,
    )
    return str(made.raise_for_status().json()["data"]["key"])


@contextlib.contextmanager
def workspace(url: str, key: str) -> Iterator[httpx.Client]:
    """A client that sends ``key`` to ``url``."""
    with httpx.Client(base_url=url, headers=bearer(key), timeout=PATIENCE) as client:
        yield client


def bearer(key: str) -> dict[str, str]:
    """The header that a key is sent in."""
    return {"Authorization": f"Bearer {key}"}
