"""Clients and their tasks, as a run sees them."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Endpoint:
    """The address where a client receives webhooks, and the ``port`` if it is on this machine."""

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


@dataclass(frozen=True)
class Client(ABC):
    """A client with the capabilities that it declares.

    ``patience`` is how many seconds it has to begin a task; it does up to ``side_by_side`` tasks
    at a time.
    """

    declared: frozenset[str]
    patience: float = 30.0
    side_by_side: int = 1

    @abstractmethod
    def endpoint(self) -> Endpoint:
        """Return where it receives the webhooks of the next task."""

    @abstractmethod
    def start(self, assignment: Assignment) -> Session:
        """Have it do a task. Raises OSError and SandboxError."""


class LocalClient(Client):
    """A client on this machine."""

    def endpoint(self) -> Endpoint:
        """Return an address at which nothing listens. The name covers clients that listen with
        IPv6 only."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        return Endpoint(f"http://localhost:{port}/webhooks", port)
