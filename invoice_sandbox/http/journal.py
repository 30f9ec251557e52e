"""Outermost layer: what was asked, what was answered, and why, kept in the workspace's journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.http import Exchange, Layer, Proceed, Reply, printable
from invoice_sandbox.http.access import owner
from invoice_sandbox.http.redaction import Redactor
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Record, Workspace

REQUESTS_LOG: Final = "requests"
"""The log of a workspace that holds its journal."""

EXPLAIN: Final = "x-sandbox-explain"
_MOST_EXPLAINED: Final = 1024


def journal(engine: Engine) -> Layer:
    """Write down every request to the API whose workspace is known; explain it if asked to."""
    redact = Redactor(engine)

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        started = engine.system_clock.monotonic()
        reply = await proceed(exchange)
        workspace = exchange.workspace or await owner(engine, exchange)
        why = _explanation(exchange, workspace, engine)
        is_lever = exchange.scope["path"].startswith(f"{engine.project.control.base_path}/")
        if workspace is not None and not is_lever:
            milliseconds = round((engine.system_clock.monotonic() - started) * 1000, 3)
            entry = {
                "requestId": exchange.request_id,
                "at": instant_text(workspace.clock.now(engine.system_clock)),
                "durationMs": milliseconds,
                **redact.entry(exchange, reply),
                "why": why,
            }
            await engine.store.append(workspace.id, REQUESTS_LOG, entry, _size(entry))
        if exchange.header(EXPLAIN) == "1":
            header = ("X-Sandbox-Explain", _short(why))
            return replace(reply, headers=(*reply.headers, header))
        return reply

    return layer


def _explanation(exchange: Exchange, workspace: Workspace | None, engine: Engine) -> Record:
    why: Record = {}
    if exchange.operation is not None:
        why["operation"] = exchange.operation.id
    if workspace is not None:
        now = instant_text(workspace.clock.now(engine.system_clock))
        scenario = exchange.named.name if exchange.named else workspace.scenario
        why |= {"scenario": scenario, "clock": f"{workspace.clock.mode} {now}"}
    return why | exchange.why


def _short(why: Mapping[str, Any]) -> str:
    """The explanation on one line of printable ASCII, as ``name=value`` pairs."""
    text = ", ".join(f"{name}={_quoted(value)}" for name, value in why.items())
    return printable(text)[:_MOST_EXPLAINED]


def _quoted(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        value = [one for one in value.values() if one is not None]
    words = value if isinstance(value, str) else " ".join(map(str, value))
    return f'"{words}"'


def _size(entry: Mapping[str, Any]) -> int:
    """About how many bytes the entry takes: its texts are all that can be long."""
    size = len(entry["path"])
    for message in (entry["request"], entry["response"]):
        size += len(message["body"] or "")
        size += sum(len(name) + len(value) for name, value in message["headers"])
    return size
