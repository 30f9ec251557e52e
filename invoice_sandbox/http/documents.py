"""The contracts themselves, served to whoever asks: ``/openapi.json``, ``/openapi.yaml``, and the
same under the base path of the levers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import yaml

from invoice_sandbox.base import jsonio
from invoice_sandbox.http import JSON, Exchange, Layer, Proceed, Reply
from invoice_sandbox.http.pages import allowed_methods
from invoice_sandbox.openapi.load.merge import with_vocabularies
from invoice_sandbox.openapi.operation import Contract

Words = Callable[[], Mapping[str, tuple[str, ...]]]
"""Vocabularies whose words may change while the sandbox is served."""


def serve_documents(contracts: Mapping[str, Contract], public_url: str, words: Words) -> Layer:
    """Answer ``openapi.json`` and ``.yaml`` below each key; everything else proceeds."""
    served = {base: served_document(one, public_url) for base, one in contracts.items()}
    paths = {base + name for base in served for name in ("/openapi.json", "/openapi.yaml")}
    texts: dict[str, tuple[Mapping[str, tuple[str, ...]], Reply]] = {}

    def document(path: str) -> Reply:
        """Written when it is first asked for: YAML takes longer than the rest of the start."""
        now = words()
        before, reply = texts.get(path, ({}, None))
        if reply is None or before != now:
            reply = _written(path, served, now)
            texts[path] = (now, reply)
        return reply

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        if exchange.scope["path"] not in paths:
            return await proceed(exchange)
        options = allowed_methods(exchange)
        if exchange.method == "OPTIONS":
            return options
        return document(exchange.scope["path"])

    return layer


def _written(
    path: str, served: Mapping[str, dict[str, Any]], words: Mapping[str, tuple[str, ...]]
) -> Reply:
    base_path, _, name = path.rpartition("/")
    document = with_vocabularies(served[base_path], words)
    if name.endswith(".json"):
        return Reply(200, jsonio.dumps_pretty(document), JSON)
    return Reply(200, yaml_text(document).encode(), "application/yaml")


def served_document(contract: Contract, public_url: str) -> dict[str, Any]:
    """The contract with this server first in its list of servers."""
    here = {"url": public_url + contract.base_path, "description": "This sandbox"}
    return {**contract.document, "servers": [here, *contract.document.get("servers", [])]}


def yaml_text(document: Any) -> str:
    """``document`` as YAML, in its own order."""
    return str(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100))


class _Dumper(yaml.SafeDumper):
    """SafeDumper that indents lists, keeps long texts readable, and repeats instead of aliasing."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent the items of a list below its key."""
        _ = indentless
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        """No anchors."""
        _ = data
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
