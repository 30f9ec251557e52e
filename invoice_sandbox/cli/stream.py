"""The sandbox whose webhooks ``listen`` forwards: its stream, and what it is asked meanwhile."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from invoice_sandbox.base import jsonio
from invoice_sandbox.cli.output import Row
from invoice_sandbox.cli.webhooks import event_type
from invoice_sandbox.control.client import ControlClient, SandboxError, path, uses_proxy

LISTENERS: Final = "/sandbox/listeners"

_SECONDS_OF_SILENCE: Final = 30.0
_SECONDS_TO_CONNECT: Final = 5.0
_THROTTLED: Final = 429
_NOT_FOUND: Final = 404
_EVENT_END: Final = b"\n\n"

Attempt = tuple[str, str]
"""The identity of an attempt: ``webhook-id`` and ``webhook-timestamp``."""


class LostError(Exception):
    """The sandbox does not respond now, but may do so later. ``problem`` is for the user."""

    def __init__(self, problem: SandboxError) -> None:
        super().__init__(str(problem))
        self.problem = problem


class ReplacedError(Exception):
    """Another client listens with the same token now."""


class GoneError(Exception):
    """The listener, endpoint or delivery does not exist: 404."""


@dataclass(frozen=True)
class Message:
    """A delivery: one event of the stream."""

    number: int
    headers: Mapping[str, str]
    body: str
    type: str | None

    @property
    def attempt(self) -> Attempt:
        return self.id, self.headers.get("webhook-timestamp", "")

    @property
    def id(self) -> str:
        return self.headers.get("webhook-id", "")


class Sandbox:
    """The sandbox whose webhooks are forwarded. It is asked without blocking the stream."""

    def __init__(self, client: ControlClient) -> None:
        self.client = client
        self._http = httpx.AsyncClient(
            base_url=client.url,
            timeout=httpx.Timeout(client.patience, connect=_SECONDS_TO_CONNECT),
            trust_env=uses_proxy(client.url),
        )

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def ask(self, method: str, place: str, body: Row | None = None) -> Any:
        """The data of a response. Raises LostError, GoneError and SandboxError."""
        place, headers = self.client.target(place, has_body=body is not None)
        try:
            reply = await self._http.request(
                method,
                place,
                headers=headers,
                content=None if body is None else json.dumps(body),
            )
        except (httpx.RequestError, httpx.InvalidURL):
            raise self._lost() from None
        return self._data(reply)

    async def register(self, body: Row) -> Any:
        """Register a webhook endpoint. Raises LostError."""
        return await self._operation("POST", self.client.registration_path(), body)

    async def deliveries(self) -> list[Row]:
        """The deliveries; none where the project does not list them. Raises LostError."""
        place = self.client.project.deliveries
        return [] if place is None else list((await self._operation("GET", place))["deliveries"])

    async def _operation(self, method: str, place: str, body: Row | None = None) -> Any:
        """The content of an operation of the API. Raises LostError.

        Unlike control operations, an operation of the API can meet an injected fault, so an error
        may pass.
        """
        try:
            return await self.ask(method, place, body)
        except SandboxError as problem:
            raise LostError(problem) from None
        except GoneError:
            raise LostError(SandboxError(f"{self.client.url} has no webhooks")) from None

    async def stream(self, listener_id: str) -> AsyncGenerator[Message | None, None]:
        """None at the beginning, then the deliveries. Raises like ``ask``, and ReplacedError."""
        place = path(f"{LISTENERS}/{{id}}/stream", id=listener_id)
        place, headers = self.client.target(place, has_body=False)
        headers["Accept"] = "text/event-stream"
        silence = httpx.Timeout(_SECONDS_OF_SILENCE, connect=_SECONDS_TO_CONNECT)
        try:
            async with self._http.stream("GET", place, headers=headers, timeout=silence) as reply:
                if not reply.is_success:
                    await reply.aread()
                    self._data(reply)
                rest = b""
                async for part in reply.aiter_raw():
                    *events, rest = (rest + part).split(_EVENT_END)
                    for event in events:
                        if event == b": listening":
                            yield None
                        elif event == b": replaced":
                            raise ReplacedError
                        elif not event.startswith(b":"):
                            yield _message(event)
        except (httpx.RequestError, httpx.StreamError):
            raise self._lost() from None

    def _lost(self) -> LostError:
        return LostError(self.client.unreachable("the connection failed"))

    def _data(self, reply: httpx.Response) -> Any:
        try:
            return self.client.content_of(reply.status_code, reply.content)
        except SandboxError as problem:
            if reply.status_code == _THROTTLED or reply.is_server_error:
                raise LostError(problem) from None
            if reply.status_code == _NOT_FOUND:
                raise GoneError from None
            raise


def _message(event: bytes) -> Message:
    data = next(line for line in event.split(b"\n") if line.startswith(b"data: "))
    members = jsonio.loads(data.removeprefix(b"data: "))
    return Message(members["message"], members["headers"], members["body"], event_type(members))
