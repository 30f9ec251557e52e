"""The way of a request: small layers with one signature, composed by a loop.

A layer is ``async def layer(exchange, proceed) -> Reply``. It may look at the exchange, answer by
itself, reject by raising ApiError, or proceed and look at the reply on its way out.
"""

from __future__ import annotations

import re
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass, field
from typing import Any

from invoice_sandbox.openapi.message.media_types import JSON as JSON
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.state import Credential, Fault, Workspace

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def printable(text: str) -> str:
    """``text`` as a header can carry it: what is no printable ASCII is a question mark."""
    return re.sub(r"[^\x20-\x7e]", "?", text)


@dataclass(frozen=True)
class Reply:
    """What goes out: a status, a body as bytes, and headers besides the common ones.

    With a ``stream`` the body is its parts, as they come, until it ends or the client is gone.
    """

    status: int
    body: bytes = b""
    media_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes, None] | None = None


@dataclass(slots=True)
class Exchange:
    """One request as it is understood so far; each layer fills in what it finds out.

    ``named`` is the scenario that it asks for, ``spoilt_by`` the injected fault that its answer
    meets on the way out, ``why`` what explains the answer.
    """

    scope: Scope
    receive: Receive
    headers: tuple[tuple[str, str], ...]
    request_id: str = ""
    contract: Contract | None = None
    operation: Operation | None = None
    path_texts: Mapping[str, str] = field(default_factory=dict)
    credential: Credential | None = None
    workspace: Workspace | None = None
    raw_body: bytes = b""
    body: Any = None
    media_type: str = ""
    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    reply_headers: list[tuple[str, str]] = field(default_factory=list)
    named: Scenario | None = None
    spoilt_by: Fault | None = None
    why: dict[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The HTTP method, in capitals."""
        return str(self.scope["method"])

    def header(self, name: str) -> str | None:
        """The first header of that (lower-case) name."""
        return next((value for key, value in self.headers if key == name), None)

    def header_values(self, name: str) -> list[str]:
        """Every header of that (lower-case) name."""
        return [value for key, value in self.headers if key == name]

    @property
    def routed(self) -> tuple[Contract, Operation]:
        """The contract and operation, for layers behind the routing."""
        if self.contract is None or self.operation is None:
            raise RuntimeError("this layer must stand behind the routing")
        return self.contract, self.operation


Proceed = Callable[[Exchange], Awaitable[Reply]]
Layer = Callable[[Exchange, Proceed], Awaitable[Reply]]


def compose(layers: Sequence[Layer]) -> Proceed:
    """One function that sends an exchange through ``layers``, the first one outermost."""

    async def nothing_left(_: Exchange) -> Reply:
        raise RuntimeError("the last layer must answer")

    proceed: Proceed = nothing_left
    for layer in reversed(layers):
        proceed = _bind(layer, proceed)
    return proceed


def _bind(layer: Layer, proceed: Proceed) -> Proceed:
    async def step(exchange: Exchange) -> Reply:
        return await layer(exchange, proceed)

    return step
