"""What is served: the loader, the handler API, fixtures and conventions of a project."""

from __future__ import annotations

from typing import Any

from invoice_sandbox.base.renamed import missing


def __getattr__(name: str) -> Any:
    return missing(__name__, name)
