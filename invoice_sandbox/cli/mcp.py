"""``invoice-sandbox mcp``: a running sandbox as tools of the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlencode

import click

from invoice_sandbox import __version__
from invoice_sandbox.base.errors import UserError
from invoice_sandbox.base.outgoing import tls_context
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.cli.options import client, passed, with_connection, with_query
from invoice_sandbox.control.client import ControlClient, SandboxError, path, uses_proxy

if TYPE_CHECKING:
    from mcp.server import MCPServer

_LONGEST: Final = 50_000
_ROWS: Final = 20
_SECONDS: Final = 60
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_INSTRUCTIONS: Final = """\
A sandbox of an HTTP API, with simulated time. Begin with `workspace`, which is isolated, and with
`contract`, which lists the operations. `call` sends a request; `explain` gives the reason for its
response. Nothing happens by itself while the clock is frozen: `advance` moves it, and runs what is
due, such as steps of the scenario and webhooks. `verdicts` judges the client of the sandbox."""

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@click.command()
@with_connection
def mcp() -> None:
    """Serve a running sandbox as tools for an agent.

    The tools are those of the Model Context Protocol, on stdin and stdout. An agent starts this
    command by itself. It needs the extra 'mcp'.

    \b
    invoice-sandbox mcp --url http://127.0.0.1:8080
    """
    if find_spec("mcp") is None:
        raise UserError(
            "mcp needs more packages; in a checkout of the sandbox: pip install '.[mcp]'"
        )
    server_of(client()).run("stdio")


def server_of(control: ControlClient) -> MCPServer:
    """Return the server of the tools, whose first workspace is that of the client's key."""
    from mcp.server import MCPServer

    server = MCPServer(
        "invoice-sandbox", instructions=_INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    tools = Tools(control)
    for tool in tools.all():
        server.add_tool(tool)
    return server


class Tools:
    """The tools. ``workspace`` changes the one that the others use."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    def all(self) -> tuple[Callable[..., dict[str, Any]], ...]:
        """Return every tool, in the order of their use."""
        return (
            *(self.workspace, self.contract, self.call, self.advance, self.scenario, self.faults),
            *(self.requests, self.deliveries, self.explain, self.verdicts, self.provoke),
            self.bundle,
        )

    def _ask(self, method: str, place: str, body: Any = None) -> Any:
        """Return the data of a response. Raises ToolError, whose message the agent gets."""
        from mcp.server.mcpserver.exceptions import ToolError

        try:
            return self._control.ask(method, place, body)
        except SandboxError as error:
            raise ToolError(str(error)) from None

    def workspace(
        self, seed: int | None = None, scenario: str | None = None, clock: str = "frozen"
    ) -> dict[str, Any]:
        """Create an isolated workspace, which all tools use from now on. Returns its id and key.

        The same seed gives the same ids. `clock` is "frozen" or "live".
        """
        made = self._ask("POST", "/workspaces", passed(seed=seed, scenario=scenario, clock=clock))
        known = self._control
        self._control = ControlClient(known.url, made["key"])
        return {"url": known.url, **made}

    def contract(self, operation: str | None = None) -> dict[str, Any]:
        """List the operations of the API, or show one with its parameters, body and responses."""
        from mcp.server.mcpserver.exceptions import ToolError

        try:
            document = self._control.whole("GET", "/openapi.json")
        except SandboxError as error:
            raise ToolError(str(error)) from None
        found = {
            raw.get("operationId", f"{method} {place}"): (f"{method.upper()} {place}", raw)
            for place, item in document["paths"].items()
            for method, raw in item.items()
            if method in _METHODS
        }
        if operation is None:
            return {
                name: f"{line}: {raw.get('summary', '')}" for name, (line, raw) in found.items()
            }
        if operation not in found:
            raise ToolError(f"there is no operation {operation!r}; known: {', '.join(found)}")
        line, raw = found[operation]
        return {"request": line, **raw}

    def call(
        self,
        method: Method,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send a request to the API, such as GET /api/health, with the key of the workspace.

        Returns status, headers and the body as text. An error is a result, not a failure.
        """
        import httpx2
        from mcp.server.mcpserver.exceptions import ToolError

        if not path.startswith("/"):
            raise ToolError("the path begins with a slash, as in /api/health")
        try:
            url, own = self._target(path)
            reply = httpx2.request(
                method,
                url,
                json=body,
                headers=own | (headers or {}),
                timeout=_SECONDS,
                verify=tls_context(),
                trust_env=uses_proxy(url),
            )
        except (SandboxError, httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ToolError(str(error)) from None
        text = reply.text
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"
        return {"status": reply.status_code, "headers": dict(reply.headers), "body": shown}

    def _target(self, path: str) -> tuple[str, dict[str, str]]:
        """The URL of a request, and the headers that carry the key."""
        known = self._control
        if path.startswith("/sandbox/"):
            return f"{known.url}{path}", {"Authorization": f"Bearer {known.key}"}
        credentials: Mapping[str, str] = known.credentials.headers
        query = known.credentials.query
        mark = "&" if "?" in path else "?"
        return f"{known.url}{path}{mark + urlencode(query) if query else ''}", dict(credentials)

    def advance(self, by: str | None = None, to: str | None = None) -> dict[str, Any]:
        """Move the clock `by` a duration such as PT10S or P3D, or `to` an instant; run what is due.

        Without either it shows the clock. The response lists what happened.
        """
        if by is None and to is None:
            return dict(self._ask("GET", "/clock"))
        return dict(self._ask("POST", "/clock/advance", passed(by=by, to=to)))

    def scenario(
        self, name: str | None = None, conditions: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Choose the scenario of the workspace, or list all of them with their conditions."""
        if name is None:
            return {"scenarios": self._ask("GET", "/scenarios")}
        chosen = passed(name=name, **{"with": conditions})
        return dict(self._ask("PUT", "/scenario", chosen))

    def faults(self, inject: dict[str, Any] | None = None, clear: bool = False) -> dict[str, Any]:
        """List the faults that wait; `inject` one into the next response, or `clear` all.

        `inject` has an `operation` such as getHealth, kind 'status' and a `status` such as 503,
        or another type: latency (with a `delay` such as PT2S), error, reset, truncate, malformed,
        drip, content-type.
        """
        if clear:
            self._ask("DELETE", "/faults")
        if inject is not None:
            return dict(self._ask("POST", "/faults", inject))
        return {"faults": self._ask("GET", "/faults")}

    def requests(
        self, operation: str | None = None, status: int | None = None, limit: int = _ROWS
    ) -> dict[str, Any]:
        """List the requests of the client, newest first, with the reasons for their responses."""
        query = passed(operation=operation, status=status, limit=limit)
        return {"requests": self._ask("GET", with_query("/requests", query))}

    def deliveries(self, limit: int = _ROWS) -> dict[str, Any]:
        """List the events, newest first, with the deliveries of each to webhook endpoints."""
        return {"events": self._ask("GET", with_query("/event-log", {"limit": limit}))}

    def explain(self, id: str) -> dict[str, Any]:  # noqa: A002 - the name of the argument for the agent
        """Explain a response by the id of its request (`X-Request-Id`), or a webhook delivery by
        its id: what was sent, what came back, and why."""
        found = self._ask("GET", with_query("/requests", {"id": id}))
        return dict(found[0] if found else self._ask("GET", path("/deliveries/{id}", id=id)))

    def verdicts(self) -> dict[str, Any]:
        """Judge the client by what it did in the workspace: kept, broken, with the exchanges that
        prove it and what to do, or not seen."""
        return {"verdicts": self._ask("GET", "/verdicts")}

    def provoke(self, check: str) -> dict[str, Any]:
        """Arm what shows if the client keeps a check of `verdicts`, such as retry-after; returns
        what the client has to do next."""
        return dict(self._ask("POST", path("/verdicts/{id}/provoke", id=check)))

    def bundle(self, file: str) -> dict[str, Any]:
        """Write the workspace to a new FILE.zip, without secrets, for a bug report or a replay."""
        from mcp.server.mcpserver.exceptions import ToolError

        target = Path(file)
        if target.suffix != ".zip" or target.exists():
            raise ToolError("name a file that ends in .zip and does not exist")
        try:
            return {"file": str(target.absolute()), **save_bundle(self._control, target)}
        except (SandboxError, OSError) as error:
            raise ToolError(str(error)) from None
