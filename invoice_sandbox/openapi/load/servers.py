"""Where the operations of a document are: the path of its first server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit


def base_path(document: Mapping[str, Any]) -> str:
    """The path of the first server, its variables at their defaults, without a final slash.

    A relative address (``v1``, ``./v1``) starts from where the document is served: the root.
    """
    servers = document.get("servers") or [{"url": "/"}]
    url = servers[0]["url"]
    for name, variable in servers[0].get("variables", {}).items():
        url = url.replace("{" + name + "}", str(variable["default"]))
    path = urlsplit(urljoin("http://sandbox.invalid/", url)).path
    return "/".join(["", *(step for step in path.split("/") if step)])
