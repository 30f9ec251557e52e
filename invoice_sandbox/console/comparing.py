"""The page that compares two runs, workspaces or requests side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from flask import g, render_template, request

from invoice_sandbox.bundles.alignment import Aligned, align, aligned_rows
from invoice_sandbox.bundles.archive import Bundle, BundleError, bundle_from
from invoice_sandbox.bundles.saving import bundle_of
from invoice_sandbox.console.acceptance import RUNS
from invoice_sandbox.console.client import Client
from invoice_sandbox.console.common import client, pages

_BUNDLE: Final = Path("bundle.zip")
_REQUESTS: Final = 50
"""The newest requests that can be chosen."""


@pages.get("/compare")
def compare() -> str:
    """Two runs of acceptance plans, two workspaces of the visitor, or two requests.

    ``a`` and ``b`` in the address are ``workspace:ID``, ``run:ID`` or ``request:ID``; with ``all``
    what is equal is shown, too.
    """
    names = [request.args.get(name, "") for name in ("a", "b")]
    aligned, problem = None, ""
    if all(names):
        try:
            aligned = _aligned(*names)
        except BundleError as error:
            problem = str(error)
    choices = list(_choices(names))
    first_ones = [value for value, _ in (*choices[:2], *choices[-1:], ("", ""))]
    chosen = [name or first_ones[index] for index, name in enumerate(names)]
    return render_template(
        "compare.html",
        page="compare",
        choices=choices,
        names=chosen,
        aligned=aligned,
        problem=problem,
        shows_all="all" in request.args,
    )


def _aligned(first: str, second: str) -> Aligned:
    if first.startswith("request:") and second.startswith("request:"):
        entries = [_entry(name.partition(":")[2]) for name in (first, second)]
        return Aligned(tuple(aligned_rows(entries[:1], entries[1:])), (), {})
    return align(_bundle(first), _bundle(second))


def _entry(request_id: str) -> Any:
    found = client().get("/sandbox/requests", {"id": request_id}).rows
    if not found:
        raise BundleError(f"The request {request_id} is not in the journal.")
    return found[0]


def _bundle(name: str) -> Bundle:
    """The bundle of a workspace or of a run. Raises BundleError."""
    type_, _, id_ = name.partition(":")
    if type_ == "run":
        received = client().get(f"{RUNS}/{quote(id_, safe='')}/bundle")
        if not received.is_success:
            raise BundleError(received.problem)
        return bundle_from(Path(f"{id_}.zip"), received.content)
    reader = dict(_workspaces()).get(id_)
    if type_ != "workspace" or reader is None:
        raise BundleError(f"There is no {name} here: add a key of the workspace first.")
    recording, contract = reader.get("/sandbox/recording"), reader.get("/openapi.json")
    if not recording.is_success:
        raise BundleError(recording.problem)
    about, parts = bundle_of(json.loads(recording.content)["data"], json.loads(contract.content))
    return Bundle(_BUNDLE, about, parts)


def _workspaces() -> Iterator[tuple[str, Client]]:
    """The workspaces that the visitor may look at, each with a client for it."""
    current = g.visitor.current
    for identity in (current, *(held for held in g.visitor.held if held != current)):
        if identity.workspace is not None:
            yield identity.workspace, client().with_identity(identity)


def _choices(names: list[str]) -> Iterator[tuple[str, str]]:
    """All that can be compared, with labels; also the two that the address names."""
    known = dict(_known_choices())
    for name in names:
        if name:
            known.setdefault(name, name)
    yield from known.items()


def _known_choices() -> Iterator[tuple[str, str]]:
    for workspace, _ in _workspaces():
        yield f"workspace:{workspace}", f"Workspace {workspace}"
    for run in client().get(RUNS).rows:
        if run["hasBundle"]:
            label = f"Run {run['id']}, {run['plan']}, {run['verdict'] or run['state']}"
            yield f"run:{run['id']}", label
    for entry in client().get("/sandbox/requests", {"limit": _REQUESTS}).rows:
        label = (
            f"Request {entry['at']} {entry['method']} {entry['path']} {entry['status'] or 'reset'}"
        )
        yield f"request:{entry['requestId']}", label[:120]
