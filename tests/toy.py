"""Small contracts for tests of the engine: one operation that checks one schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson

from tests.support import FROZEN, serving


def contract(schema: Any, **members: Any) -> dict[str, Any]:
    """A contract with ``POST /check``, whose body must satisfy ``schema``."""
    media = {"application/json": {"schema": schema}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Toy", "version": "1.0.0"},
        "paths": {
            "/check": {
                "post": {
                    "operationId": "check",
                    "requestBody": {"required": True, "content": media},
                    "responses": {"204": {"description": "allowed"}},
                }
            }
        },
        **members,
    }


@contextmanager
def serving_contract(
    folder: Path, document: Mapping[str, Any], **settings: Any
) -> Iterator[httpx.Client]:
    """A client of a server that serves ``document`` and nothing else."""
    file = folder / "contract.json"
    file.write_bytes(orjson.dumps(document))
    with serving(replace(FROZEN, contract=file, **settings)) as running, running.client() as client:
        yield client
