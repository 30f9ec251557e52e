"""Imports what a server needs and compiles the contract: the fork server of ``forked`` imports it,
so that its forks find everything there."""

from __future__ import annotations

import asyncio
from importlib import import_module

from invoice_sandbox.app import create_app
from invoice_sandbox.settings import read_settings

for name in ("cli", "server.serving", "state.shared", "state.upgrade", "webhooks.transport"):
    import_module(f"invoice_sandbox.{name}")
asyncio.run(create_app(read_settings({}), url="http://127.0.0.1"))
