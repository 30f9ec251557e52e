"""The command that measures growth runs, with few records; nothing is said about its times."""

from __future__ import annotations

import asyncio

import pytest

from tests.bench import growth


@pytest.mark.slow
def test_every_type_of_request_is_measured_at_every_size() -> None:
    results = asyncio.run(growth.cpu([6, 8]))
    assert list(results) == [6, 8]
    assert all(len(row) == 6 and min(row.values()) > 0 for row in results.values())


def test_invoices_go_to_the_end_of_the_scenario() -> None:
    client = asyncio.run(progressed())
    assert client == {"Offered"}


async def progressed() -> set[str]:
    client = await growth.new_client("auto-progress")
    await growth.progress(client, 3)
    listed = await client.request("GET", "/api/invoices?limit=3")
    return {invoice["status"] for invoice in listed["data"]}
