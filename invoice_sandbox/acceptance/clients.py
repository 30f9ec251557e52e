"""Clients and their tasks, as a run sees them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Endpoint:
    """Where a client receives webhooks; ``port`` is that of this machine, if it is here."""

    url: str
    port: int | None = None


@dataclass(frozen=True)
class Assignment:
    """A task for a client: the check that it belongs to, a name of its own, the environment.

    ``text`` is the task in words.
    """

    check: str
    name: str
    task: Mapping[str, Any]
    text: str
    environment: Mapping[str, str]
    endpoint: Endpoint | None = None


@dataclass(frozen=True)
class Ending:
    """The end of a client: the exit status of a command, None for any other client; the state that
    a client on another machine last ``reported``; the last output; ``has_begun`` in time. Evidence,
    never the verdict."""

    exit_status: int | None = None
    reported: str | None = None
    output: str = ""
    has_begun: bool = True


def without_secrets(text: str, secrets: Sequence[str]) -> str:
    """Return a text of a client without the secrets of its task."""
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
    return text


class Session(Protocol):
    """A client that does a task."""

    @property
    def has_ended(self) -> bool:
        """True if it is done."""

    def has_begun(self, requests: Callable[[], int]) -> bool:
        """True if it has begun; ``requests`` counts what it has sent."""

    def stop(self) -> None:
        """End it."""

    def ending(self, secrets: Sequence[str]) -> Ending:
        """Return how it ended; what it printed is without ``secrets``."""


class Client(Protocol):
    """A client with the capabilities that it declares.

    ``patience`` is how many seconds it has to begin a task; it does up to ``side_by_side`` tasks
    at a time.
    """

    @property
    def declared(self) -> frozenset[str]:
        """Its capabilities."""

    @property
    def patience(self) -> float:
        """Real seconds."""

    @property
    def side_by_side(self) -> int:
        """A number of tasks."""

    def endpoint(self) -> Endpoint:
        """Where it receives the webhooks of the next task."""

    def start(self, assignment: Assignment) -> Session:
        """Have it do a task. Raises OSError and SandboxError."""
