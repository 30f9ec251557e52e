"""The pages of the console, rendered by Flask from responses of the API and the control API."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from flask import Flask, Response, abort, g, redirect, render_template, request

from invoice_sandbox.base import jsonio
from invoice_sandbox.console import (
    acceptance,
    actions,
    comparing,
    contract,
    creating,
    deliveries,
    journal,
    scenario,
)
from invoice_sandbox.console.bar import bar, named_instants
from invoice_sandbox.console.client import CLIENT, POSITION, VISITOR, Client, Received
from invoice_sandbox.console.common import (
    JOURNAL,
    client,
    contents,
    curl,
    day_or_time,
    error_message,
    figure,
    next_cursor,
    page_url,
    pages,
    pretty,
    prose,
    shown,
)
from invoice_sandbox.console.creating import example_of
from invoice_sandbox.console.drawing import drawing_of
from invoice_sandbox.console.lanes import lanes_of
from invoice_sandbox.console.links import linked
from invoice_sandbox.console.timeline import Mark, agenda_of, anchor, timeline_of
from invoice_sandbox.console.topics import CHANGES, REQUESTS, STEPS, WEBHOOKS
from invoice_sandbox.console.why import why_of
from invoice_sandbox.http.pages import protect
from invoice_sandbox.openapi.load.operations import CONSOLE
from invoice_sandbox.state.credentials import DEMO_KEY
from invoice_sandbox.webhooks.outbox import DELIVER

if TYPE_CHECKING:
    from werkzeug.exceptions import HTTPException
    from werkzeug.wrappers import Response as Redirect

    from invoice_sandbox.console.records import Address, Contents, Records

VIEWS: Final = (acceptance, actions, comparing, contract, creating, deliveries, journal, scenario)
"""The modules that add their pages to the blueprint."""

_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'"
)
_PAGE: Final = 50
_DELIVERIES: Final = 8
"""Deliveries of the overview: the newest ones, and the newest ones that failed."""

_DUE: Final = 8
_INBOX: Final = "/sandbox/inbox"
_FAILED: Final = ("Failed", "Exhausted")

_SEARCHED: Final = 100
_SEARCHES: Final = 50
"""Pages of records that are searched for a text at once."""


def flask_app(contents: Contents) -> Flask:
    """The Flask application of a console with these contents."""
    app = Flask(__name__, static_url_path=f"{CONSOLE}/static")
    app.config["CONTENTS"] = contents
    app.config["PROPAGATE_EXCEPTIONS"] = True  # the pipeline responds to a failure, not Flask
    app.url_map.strict_slashes = False
    app.register_blueprint(pages, url_prefix=CONSOLE)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(
        anchor=anchor,
        figure=figure,
        linked=linked,
        day_or_time=day_or_time,
        pretty=pretty,
        prose=prose,
        shown=shown,
        query=urlencode,
    )
    app.before_request(_open)
    app.context_processor(_common)
    app.after_request(_close)
    app.register_error_handler(404, _missing)
    app.register_error_handler(405, _missing)
    return app


def _open() -> str | None:
    """Find the client of the visitor. Who is not known gets the page to sign in."""
    scope = request.environ["asgi.scope"]
    found: Client = scope[CLIENT]
    g.client, g.visitor, g.position = found, scope[VISITOR], scope[POSITION]
    if request.endpoint == "static" or request.method == "POST":
        return None
    if request.endpoint == "console.sign_in_page":
        return None
    g.clock = found.get("/sandbox/clock")
    if g.clock.status == 401:
        return actions.sign_in_page(g.clock.problem if g.visitor.held else "")
    return None


def _missing(error: HTTPException) -> tuple[str, int]:
    """The page of an address that has none, with a way back."""
    text = f"Nothing has the address {request.path}."
    return render_template("missing.html", page="", text=text), error.code or 404


def _close(response: Response) -> Response:
    protect(response, _POLICY)
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    return response


def _common() -> dict[str, Any]:
    console = contents()
    return {
        "root": contents().engine.public_path,
        "console": page_url(),
        "records": console.records,
        "views": list(_views(console)),
        "clock": g.get("clock"),
        "bar": bar,
        "visitor": g.visitor,
        "position": g.position,
        "title_of_api": console.engine.project.contract.document["info"]["title"],
    }


def _views(found: Contents) -> Iterator[tuple[str, str]]:
    """The views besides those of records that make sense for what is served: path and title."""
    yield "requests", "Requests"
    if found.engine.project.conventions.deliveries_operation is not None:
        yield "webhooks", "Webhooks"
    yield "scenario", "Scenario and clock"
    if found.engine.project.plans is not None:
        yield "acceptance", "Acceptance"
    yield "bundle", "Bundle"
    yield "compare", "Compare"
    yield "contract", "Contract"
    yield "new", "Create"


# Overview


@pages.get("/")
def overview() -> str:
    """Clock, scenario, counts, verdicts on the client, errors by operation and reason, and the last
    deliveries."""
    verdicts = client().get("/sandbox/verdicts")
    entries = client().get("/sandbox/requests", {"limit": 1, "messages": "false"})
    failures = client().get("/sandbox/requests", {"limit": JOURNAL, "failed": "true"})
    errors = Counter(
        (entry["operation"], entry["operation"] or entry["path"], entry["status"], _reason(entry))
        for entry in failures.rows
    )
    listed = [
        (records, client().get(records.listed.path(), {"limit": 1}))
        for records in contents().records
    ]
    agenda = client().get("/sandbox/agenda", {"deliveries": "false", "limit": _DUE})
    endpoints, inbox = client().get("/sandbox/webhooks").rows, client().get(_INBOX, {"limit": 1})
    return render_template(
        "overview.html",
        page="overview",
        topics=(REQUESTS, STEPS, WEBHOOKS),
        entries=entries,
        failures=failures,
        errors=errors.most_common(20),
        verdicts=verdicts,
        judged=Counter(verdict["verdict"] for verdict in verdicts.rows),
        counts=[
            (records, received.headers.get("x-total-count", "")) for records, received in listed
        ],
        agenda=agenda,
        scenario=scenario.current_of(client().get("/sandbox/scenarios").rows),
        endpoints=endpoints,
        receivers=deliveries.receivers(endpoints, inbox.data if inbox.is_success else {}),
        disabled=sum(endpoint["status"] == "Disabled" for endpoint in endpoints),
        statuses=deliveries.counted({}),
        failed=client().get(deliveries.DELIVERIES, {"status": _FAILED, "limit": _DELIVERIES}),
        deliveries=client().get(deliveries.DELIVERIES, {"limit": _DELIVERIES}).rows,
        inbox=inbox,
        steps=list(_first_steps(inbox, ran=_has_run(agenda))),
        key=DEMO_KEY if g.visitor.current.secret == DEMO_KEY else "<API_KEY>",
    )


def _reason(entry: Mapping[str, Any]) -> str:
    why = entry["why"]
    if "fault" in why:
        return f"injected fault {why['fault']}"
    for problem in why.get("problems", []):
        return f"{problem['pointer']} {problem['problem']}".strip()
    return error_message(entry).partition(". ")[0]


def _has_run(agenda: Received) -> bool:
    """True if a step of a scenario ran."""
    return bool(agenda.is_success and agenda.data["done"])


@dataclass(frozen=True)
class _Step:
    """A first step: its request as a command and as a button, and whether it was done."""

    text: str
    method: str
    path: str
    body: Any
    is_done: bool

    @property
    def command(self) -> str:
        return curl(
            self.method,
            self.path,
            {"Content-Type": "application/json"},
            jsonio.dumps(self.body).decode(),
        )


def _first_steps(inbox: Received, *, ran: bool) -> Iterator[_Step]:
    """Yield the first things to do, in the order in which the inbox gets a webhook. ``ran``: steps
    of a scenario did."""
    addresses = contents().addresses
    register = addresses.get(contents().engine.project.conventions.register_operation or "")
    if register is not None and inbox.is_success:
        endpoint = {"url": inbox.data["url"], "events": ["*"]}
        yield _step("Send webhooks to the built-in inbox", register, endpoint)
    for records in contents().records[:1]:
        made = _creation(records.listed)
        body = None if made is None else example_of(made)
        if made is not None and body:
            yield _step(str(made.declared.get("summary", "Create one")), made, body)
    yield _Step("Move the clock by an hour", "POST", "/sandbox/clock/advance", {"by": "PT1H"}, ran)


def _step(text: str, address: Address, body: Any) -> _Step:
    """A step that is done if the journal has a request to the operation that was carried out."""
    query = {"operation": address.operation.id, "limit": 10, "messages": "false"}
    entries = client().get("/sandbox/requests", query).rows
    is_done = any((entry["status"] or 599) < 300 for entry in entries)
    return _Step(text, address.method, address.path(), body, is_done)


def _creation(listed: Address) -> Address | None:
    """The operation that creates a record of a list."""
    found = contents().addresses.values()
    return next((other for other in found if other.fits("POST", listed.path())), None)


# Records


@pages.get("/records/<name>")
def listed(name: str) -> str | Redirect:
    """A page of records, filtered by what their list operation filters by, or searched."""
    records = _named(name)
    wanted = request.args.get("search", "").strip()
    if wanted and client().get(records.item.path(wanted)).is_success:
        return redirect(page_url(f"/records/{name}/{quote(wanted, safe='')}"))
    filters = {name: request.args[name] for name in records.filters if request.args.get(name)}
    query: dict[str, Any] = {**filters, "limit": _SEARCHED if wanted else _PAGE}
    cursor = request.args.get("cursor")
    rows: list[Any] = []
    looked_at = 0
    for _ in range(_SEARCHES if wanted else 1):
        received = client().get(
            records.listed.path(), query | ({"cursor": cursor} if cursor else {})
        )
        rows += _matching(received.rows, wanted)
        looked_at, cursor = looked_at + len(received.rows), next_cursor(received)
        if len(rows) >= _PAGE or cursor is None:
            break
    return render_template(
        "records.html",
        page=name,
        topics=(CHANGES, STEPS),
        of=records,
        creation=_creation(records.listed),
        received=received,
        rows=rows,
        search=wanted,
        looked_at=looked_at,
        filters=filters,
        next_cursor=cursor,
    )


def _matching(rows: list[Any], wanted: str) -> list[Any]:
    text = wanted.casefold()
    return [row for row in rows if text in jsonio.dumps(row).decode().casefold()]


@pages.get("/records/<name>/<record_id>")
def record(name: str, record_id: str) -> str:
    """Show a record with its timeline, its lifecycle, and what belongs to it."""
    records = _named(name)
    received = client().get(records.item.path(record_id))
    if not received.is_success:
        return render_template("problem.html", page=name, received=received)
    related = [
        (kind, client().get(kind.listed.path(), {kind.by: record_id}).rows)
        for kind in records.related
    ]
    ids = {record_id, *(str(row.get("id")) for _, rows in related for row in rows)}
    status, legal = str(received.data.get("status", "")), _legal(records, record_id)
    agenda, receivers = agenda_of(client(), ids), deliveries.all_receivers()
    timeline = timeline_of(client(), records, record_id, agenda, ids, receivers)
    chosen = request.args.get("mark", "")
    return render_template(
        "record.html",
        page=name,
        topics=sorted(ids),
        of=records,
        record=received.data,
        related=related,
        status=status,
        legal=legal,
        drawing=drawing_of(records.machine, status, legal) if records.machine else None,
        timeline=timeline,
        lanes=lanes_of(timeline, [source.title for source in records.timeline if source.member]),
        chosen=next((mark for mark in timeline if mark.key and mark.key == chosen), None),
        why=why_of(records, received.data, agenda, legal, g.clock.data["mode"]),
        scenarios=agenda["scenarios"].get(record_id, []),
        instants=_instants(agenda["due"], timeline),
    )


def _instants(due: list[Mapping[str, Any]], timeline: Sequence[Mark]) -> dict[str, str]:
    """The named instants of a record, and of the next attempt to deliver something about it."""
    attempts = [mark.at for mark in timeline if mark.is_ahead and mark.source == "delivery"]
    following = {step["do"]: step["at"] for step in reversed(due)}
    return named_instants(following | ({DELIVER: min(attempts)} if attempts else {}))


def _legal(records: Records, record_id: str) -> list[str]:
    """The triggers of the transitions that are legal now."""
    if records.transitions is None:
        return []
    data = client().get(records.transitions.path(record_id)).data
    return list(data.get("triggers", ())) if isinstance(data, Mapping) else []


def _named(name: str) -> Records:
    type_ = next((records for records in contents().records if records.name == name), None)
    return type_ or abort(404)
