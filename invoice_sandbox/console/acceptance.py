"""The pages of acceptance runs: plans, a run while it happens, its report and its files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from flask import Response, render_template

from invoice_sandbox.base import jsonio
from invoice_sandbox.bundles.archive import BundleError, zipped
from invoice_sandbox.bundles.saving import bundle_of
from invoice_sandbox.console.client import Received
from invoice_sandbox.console.common import client, contents, pages
from invoice_sandbox.console.topics import CHANGES
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.load.text import DocumentError

RUNS: Final = "/sandbox/acceptance/runs"
_FAILED: Final = frozenset({"FAIL", "ERROR"})
_FINISHED: Final = "finished"
_BUNDLE: Final = "bundle.zip"
_TOO_LARGE: Final = 413


@pages.get("/acceptance")
def acceptance() -> str:
    """The plans of the project, and the runs of the workspace."""
    runs = client().get(RUNS)
    return render_template(
        "acceptance.html",
        page="acceptance",
        topics=(CHANGES,),
        plans=list(_plans(contents().engine.project.plans)),
        runs=runs,
        progress={run["id"]: _progress(run) for run in runs.rows},
        server=contents().engine.url,
    )


@pages.get("/acceptance/<run_id>")
def one_run(run_id: str) -> str:
    """A run: what it waits for, its checks, and its report as far as there is one."""
    received = client().get(f"{RUNS}/{quote(run_id, safe='')}")
    if not received.is_success:
        return render_template("problem.html", page="acceptance", received=received)
    run = received.data
    run["checks"].sort(key=lambda check: check["verdict"] not in _FAILED)  # these first
    report = _report(run_id) if run["hasReport"] else None
    checks = {check["id"]: check for check in report.data["checks"]} if report else {}
    return render_template(
        "run.html",
        page="acceptance",
        topics=(run_id,),
        run=run,
        path=f"{RUNS}/{run_id}",
        progress=_progress(run),
        ordered=sorted(run["checks"], key=_place),
        verdicts=Counter(check["verdict"] for check in run["checks"] if check["verdict"]),
        checks=checks,
    )


@pages.get("/acceptance/<run_id>/report.json")
def report_file(run_id: str) -> Response:
    """The report of a run as a file."""
    report = _report(run_id)
    if not report.is_success:
        return _problem(report)
    return _file(jsonio.dumps_pretty(report.data), "application/json", f"{run_id}.json")


@pages.get(f"/acceptance/<run_id>/{_BUNDLE}")
def run_bundle(run_id: str) -> Response:
    """The bundle of a run as a file."""
    received = client().get(f"{RUNS}/{quote(run_id, safe='')}/bundle")
    if not received.is_success:
        return _problem(received)
    return _file(received.content, "application/zip", f"{run_id}.zip")


@pages.get("/bundle")
def bundle() -> str:
    """The bundle of the workspace: to download, to replay, to judge."""
    return render_template("bundle.html", page="bundle")


@pages.get(f"/{_BUNDLE}")
def bundle_file() -> Response:
    """The bundle of the workspace, as ``invoice-sandbox bundle save`` writes it."""
    recording, contract = client().get("/sandbox/recording"), client().get("/openapi.json")
    if not recording.is_success:
        return _problem(recording)
    parts = bundle_of(json.loads(recording.content)["data"], json.loads(contract.content))
    try:
        return _file(zipped(_BUNDLE, *parts), "application/zip", _BUNDLE)
    except BundleError as error:
        return _problem(Received(_TOO_LARGE, {}, jsonio.dumps({"detail": str(error)})))


def _report(run_id: str) -> Received:
    return client().get(f"{RUNS}/{quote(run_id, safe='')}/report")


def _problem(received: Received) -> Response:
    page = render_template("problem.html", page="acceptance", received=received)
    return Response(page, received.status)


def _file(content: bytes, media_type: str, name: str) -> Response:
    shown = Response(content, mimetype=media_type)
    shown.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return shown


def _place(check: Mapping[str, Any]) -> int:
    """The place of a check in its list: what failed is first, what passed is last."""
    verdict = check["verdict"]
    if verdict in {"FAIL", "ERROR"}:
        return 0
    return 2 if verdict == "PASS" else 1


def _progress(run: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of finished checks of a run, and of all."""
    states = [check["state"] for check in run["checks"]]
    return states.count(_FINISHED), len(states)


def _plans(folder: Path | None) -> Iterator[Mapping[str, Any]]:
    """The plans of a folder; a file that is not a plan is left out."""
    for file in sorted(folder.glob("*.yaml")) if folder else ():
        plan = _plan(file)
        if plan is not None:
            yield plan


def _plan(file: Path) -> Mapping[str, Any] | None:
    try:
        plan = load_document(file)
    except DocumentError:
        return None
    return plan if isinstance(plan, dict) and {"name", "checks"} <= plan.keys() else None
