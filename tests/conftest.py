"""Fixtures that several test modules share."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support import Running, serving


@pytest.fixture(scope="session")
def server() -> Iterator[Running]:
    """One server for all tests that do not change what others see."""
    with serving() as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    """A client in a new workspace of its own, holding every scope."""
    with server.client(server.new_workspace()) as client:
        yield client
