"""``invoice-sandbox mcp``: a sandbox as tools, by the client of the official SDK."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from mcp import Client, StdioServerParameters

from invoice_sandbox.cli import main
from invoice_sandbox.cli import mcp as command_of_mcp
from invoice_sandbox.cli.mcp import server_of
from invoice_sandbox.control.client import ControlClient
from tests.reference_docs import DOCS
from tests.scenario_run import INVOICE
from tests.support import PATIENCE, Running

COMMAND = Path(sys.executable).with_name("invoice-sandbox")
Steps = Callable[["Agent"], Awaitable[None]]


class Agent:
    """Calls tools, and reads what they return."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def tools(self) -> dict[str, str]:
        """The description of each tool."""
        listed = await self._client.list_tools()
        return {tool.name: tool.description or "" for tool in listed.tools}

    async def use(self, tool: str, **arguments: Any) -> Any:
        """The result of the tool."""
        result = await self._client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    async def error(self, tool: str, **arguments: Any) -> str:
        """The message of the error that the tool reports."""
        result = await self._client.call_tool(tool, arguments)
        assert result.is_error
        return str(result.content[0])


def with_agent(server: Any, steps: Steps) -> None:
    """Let an agent do the steps with the tools of ``server``."""

    async def run() -> None:
        with anyio.fail_after(PATIENCE):
            async with Client(server) as client:
                await steps(Agent(client))

    anyio.run(run)


@pytest.mark.process
def test_an_agent_takes_an_invoice_to_an_offer_over_stdio(server: Running, tmp_path: Path) -> None:
    file = tmp_path / "run.zip"

    async def steps(agent: Agent) -> None:
        assert len(await agent.tools()) == 12
        made = await agent.use("workspace", seed=7, scenario="auto-progress")
        assert made["url"] == server.url
        created = await agent.use("call", method="POST", path="/api/invoices", body=INVOICE)
        assert created["status"] == 201
        moved = await agent.use("advance", by="PT6S")
        assert "make-offer" in [step["do"] for step in moved["happened"]]
        offers = await agent.use("call", method="GET", path="/api/offers")
        assert json.loads(offers["body"])["data"][0]["status"] == "Received"
        entry = await agent.use("explain", id=created["headers"]["x-request-id"])
        assert (entry["operation"], entry["status"]) == ("createInvoice", 201)
        assert (await agent.use("bundle", file=str(file)))["file"] == str(file)

    arguments = ["mcp", "--url", server.url]
    with_agent(StdioServerParameters(command=str(COMMAND), args=arguments), steps)
    assert file.stat().st_size > 1000


@pytest.fixture
def play(server: Running) -> Callable[[Steps], None]:
    """Lets an agent do steps in a workspace of the test's own, in this process."""
    control = ControlClient(server.url, server.new_workspace(seed=7))
    return lambda steps: with_agent(server_of(control), steps)


def test_every_tool_has_a_description_and_is_on_the_page(play: Callable[[Steps], None]) -> None:
    page = (DOCS / "agents.md").read_text()

    async def steps(agent: Agent) -> None:
        tools = await agent.tools()
        assert all(tools.values())
        assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == [*tools]

    play(steps)


def test_a_new_workspace_is_the_one_of_all_tools(play: Callable[[Steps], None]) -> None:
    async def steps(agent: Agent) -> None:
        await agent.use("call", method="POST", path="/api/invoices", body=INVOICE)
        assert len((await agent.use("requests"))["requests"]) == 1
        await agent.use("workspace")
        assert await agent.use("requests") == {"requests": []}

    play(steps)


def test_scenarios_and_faults_are_chosen_and_listed(play: Callable[[Steps], None]) -> None:
    async def steps(agent: Agent) -> None:
        assert "happy-path" in [item["name"] for item in (await agent.use("scenario"))["scenarios"]]
        assert (await agent.use("scenario", name="kyb-hold"))["name"] == "kyb-hold"
        fault = {"operation": "createInvoice", "kind": "status", "status": 503}
        await agent.use("faults", inject=fault)
        failed = await agent.use("call", method="POST", path="/api/invoices", body=INVOICE)
        assert failed["status"] == 503
        await agent.use("faults", inject=fault)
        assert len((await agent.use("faults"))["faults"]) == 1
        assert await agent.use("faults", clear=True) == {"faults": []}

    play(steps)


def test_events_and_verdicts_are_shown(play: Callable[[Steps], None]) -> None:
    async def steps(agent: Agent) -> None:
        await agent.use("call", method="POST", path="/api/invoices", body=INVOICE)
        (event,) = (await agent.use("deliveries", limit=1))["events"]
        assert event["type"] == "invoice.registered"
        assert "retry-after" in [row["check"] for row in (await agent.use("verdicts"))["verdicts"]]
        assert (await agent.use("provoke", check="retry-after"))["next"]

    play(steps)


def test_the_contract_is_listed_and_one_operation_is_shown(play: Callable[[Steps], None]) -> None:
    async def steps(agent: Agent) -> None:
        assert (await agent.use("contract"))["getHealth"].startswith("GET /api/health: ")
        assert (await agent.use("contract", operation="createInvoice"))["requestBody"]
        assert "createInvoice" in await agent.error("contract", operation="createInvoices")

    play(steps)


def test_an_error_of_the_api_is_a_result_and_one_of_a_tool_a_message(
    play: Callable[[Steps], None], tmp_path: Path
) -> None:
    taken = tmp_path / "run.zip"
    taken.touch()

    async def steps(agent: Agent) -> None:
        missing = await agent.use("call", method="GET", path="/api/invoices/inv_1")
        assert missing["status"] == 404
        assert "begins with a slash" in await agent.error("call", method="GET", path="api")
        assert "must look like PT10S" in await agent.error("advance", by="3 days")
        assert "does not exist" in await agent.error("bundle", file=str(taken))
        assert "There is no" in await agent.error("explain", id="dlv_nothing")

    play(steps)


def test_without_a_sandbox_every_tool_reports_that_none_responds() -> None:
    async def steps(agent: Agent) -> None:
        for tool in ("workspace", "contract", "advance", "verdicts"):
            assert "no sandbox responds" in await agent.error(tool)
        reported = await agent.error("call", method="GET", path="/api/health")
        assert "no sandbox responds" in reported

    with_agent(server_of(ControlClient("http://127.0.0.1:9", "x")), steps)


def test_without_the_extra_the_command_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_of_mcp, "find_spec", lambda _: None)
    result = CliRunner().invoke(main, ["mcp"])
    assert result.exit_code == 2
    assert "pip install '.[mcp]'" in result.output
