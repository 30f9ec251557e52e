"""The pages of the console, rendered by Flask from responses of the API and the control API."""

from __future__ import annotations

import base64
import json
import shlex
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

from flask import (
    Blueprint,
    Flask,
    Response,
    abort,
    current_app,
    g,
    redirect,
    render_template,
    request,
)

from invoice_sandbox.base import jsonio
from invoice_sandbox.console.client import CLIENT, COOKIE, SIGNED_IN, Client, Received
from invoice_sandbox.console.timeline import drawing_of, timeline_of
from invoice_sandbox.http.pages import CONSOLE, protect

if TYPE_CHECKING:
    from werkzeug.wrappers import Response as Redirect

    from invoice_sandbox.console.records import Contents, Records
    from invoice_sandbox.scenarios.drawing import StepView

_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'"
)
_NOTICE: Final = "ils_console_notice"
_MAX_NOTICE: Final = 600
_PAGE: Final = 50
_JOURNAL: Final = 200

pages: Final = Blueprint("console", __name__)


def flask_app(contents: Contents) -> Flask:
    """The Flask application of a console with these contents."""
    app = Flask(__name__, static_url_path=f"{CONSOLE}/static")
    app.config["CONTENTS"] = contents
    app.config["PROPAGATE_EXCEPTIONS"] = True  # the pipeline responds to a failure, not Flask
    app.url_map.strict_slashes = False
    app.register_blueprint(pages, url_prefix=CONSOLE)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(pretty=_pretty, shown=_shown, query=urlencode)
    app.before_request(_open)
    app.context_processor(_common)
    app.after_request(_close)
    return app


def _open() -> str | None:
    """Find the client of the visitor. Who is not known gets the page to sign in."""
    scope = request.environ["asgi.scope"]
    client: Client = scope[CLIENT]
    g.client, g.signed_in = client, scope[SIGNED_IN]
    if request.endpoint in {"static", "console.sign_in"}:
        return None
    g.clock = client.get("/sandbox/clock")
    if g.clock.status == 401:
        return render_template("sign_in.html", problem=g.clock.problem if g.signed_in else "")
    return None


def _close(response: Response) -> Response:
    protect(response, _POLICY)
    if response.mimetype == "text/html" and _NOTICE in request.cookies:
        response.delete_cookie(_NOTICE, path=CONSOLE)
    return response


def _contents() -> Contents:
    contents: Contents = current_app.config["CONTENTS"]
    return contents


def _common() -> dict[str, Any]:
    contents = _contents()
    return {
        "console": CONSOLE,
        "records": contents.records,
        "clock": g.get("clock"),
        "signed_in": g.signed_in,
        "notice": _notice(request.cookies.get(_NOTICE, "")),
        "title_of_api": contents.engine.project.contract.document["info"]["title"],
    }


def _pretty(value: Any) -> str:
    """JSON on several lines; a text that is JSON is formatted, any other text stays."""
    if isinstance(value, str):
        try:
            value = jsonio.loads(value.encode())
        except ValueError:
            return str(value)
    return jsonio.dumps_pretty(value).decode()


def _shown(value: Any) -> str:
    """A value in the cell of a table."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return jsonio.dumps(value).decode().strip('"')


# Overview


@pages.get("/")
def overview() -> str:
    """Clock, scenario, counts, errors by operation and reason, and the last deliveries."""
    client = _client()
    entries = client.get("/sandbox/requests", {"limit": _JOURNAL})
    errors = Counter(
        (one["operation"] or one["path"], one["status"], _reason(one))
        for one in entries.rows
        if (one["status"] or 599) >= 400
    )
    listed = [(one, client.get(one.listed.path(), {"limit": 1})) for one in _contents().records]
    return render_template(
        "overview.html",
        page="overview",
        entries=entries,
        errors=errors.most_common(20),
        counts=[(one, received.headers.get("x-total-count", "")) for one, received in listed],
        agenda=client.get("/sandbox/agenda"),
        scenario=_current(client.get("/sandbox/scenarios")),
        deliveries=_deliveries(client)[:10],
        api_url=_contents().engine.url,
    )


def _reason(entry: Mapping[str, Any]) -> str:
    why = entry["why"]
    if "fault" in why:
        return f"fault {why['fault']}"
    for problem in why.get("problems", []):
        return f"{problem['pointer']} {problem['problem']}".strip()
    body = _json(entry["response"]["body"])
    error = body.get("error", {}) if isinstance(body, Mapping) else {}
    return str(error.get("message", "")) if isinstance(error, Mapping) else ""


def _json(text: str | None) -> Any:
    try:
        return jsonio.loads((text or "").encode())
    except ValueError:
        return None


def _current(scenarios: Received) -> Mapping[str, Any] | None:
    return next((one for one in scenarios.rows if one["current"]), None)


def _deliveries(client: Client) -> list[Any]:
    data = _webhooks(client).get("deliveries", [])
    return list(data)


def _webhooks(client: Client) -> Mapping[str, Any]:
    contents = _contents()
    name = contents.engine.project.conventions.deliveries_operation
    if name is None:
        return {}
    received = client.get(contents.addresses[name].path())
    return received.data if received.is_success and isinstance(received.data, Mapping) else {}


# Records


@pages.get("/records/<name>")
def listed(name: str) -> str | Redirect:
    """A page of records, filtered by what their list operation filters by."""
    records, client = _named(name), _client()
    wanted = request.args.get("id", "").strip()
    if wanted:
        return redirect(f"{CONSOLE}/records/{name}/{wanted}")
    filters = {one: request.args[one] for one in records.filters if request.args.get(one)}
    query: dict[str, Any] = {**filters, "limit": _PAGE}
    if "cursor" in request.args:
        query["cursor"] = request.args["cursor"]
    received = client.get(records.listed.path(), query)
    return render_template(
        "records.html",
        page=name,
        of=records,
        received=received,
        filters=filters,
        next_cursor=_next_cursor(received),
    )


def _next_cursor(received: Received) -> str | None:
    link = received.headers.get("link", "")
    for part in link.split(","):
        target, _, relation = part.partition(";")
        if 'rel="next"' in relation:
            found = parse_qs(urlsplit(target.strip(" <>")).query)
            return found.get("cursor", [None])[0]
    return None


@pages.get("/records/<name>/<record_id>")
def record(name: str, record_id: str) -> str:
    """One record with its timeline, its lifecycle, and what belongs to it."""
    records, client = _named(name), _client()
    received = client.get(records.item.path(record_id))
    if not received.is_success:
        return render_template("problem.html", page=name, received=received)
    related = [
        (one, client.get(one.listed.path(), {one.by: record_id}).rows) for one in records.related
    ]
    ids = {record_id, *(str(row.get("id")) for _, rows in related for row in rows)}
    status = str(received.data.get("status", ""))
    return render_template(
        "record.html",
        page=name,
        of=records,
        record=received.data,
        related=related,
        status=status,
        transitions=records.transitions(status),
        drawing=drawing_of(records.machine, status) if records.machine else None,
        timeline=timeline_of(client, records, record_id, ids),
    )


def _named(name: str) -> Records:
    found = next((one for one in _contents().records if one.name == name), None)
    return found or abort(404)


# Requests


@pages.get("/requests")
def requests() -> str:
    """The journal, newest first."""
    filters = {one: request.args[one] for one in _FILTERS if request.args.get(one)}
    received = _client().get("/sandbox/requests", {"limit": _JOURNAL, **filters})
    return render_template(
        "requests.html",
        page="requests",
        received=received,
        filters=filters,
    )


_FILTERS: Final = ("operation", "method", "status", "text")


@pages.get("/requests/<request_id>")
def one_request(request_id: str) -> str:
    """One request and its response, and why the response was returned."""
    received = _client().get("/sandbox/requests", {"id": request_id})
    found = next(iter(received.rows), None)
    return render_template(
        "request.html", page="requests", received=received, entry=found, curl=_curl(found)
    )


def _curl(entry: Mapping[str, Any] | None) -> str:
    """The request as a command. The key is a variable, because the journal does not have it."""
    if entry is None:
        return ""
    parts = [f"curl -X {entry['method']} {shlex.quote(_contents().engine.url + entry['path'])}"]
    parts.append('-H "Authorization: Bearer $SANDBOX_API_KEY"')
    if entry["request"]["body"] is not None:
        content_type = dict(entry["request"]["headers"]).get("content-type", "application/json")
        parts.append(f"-H {shlex.quote(f'Content-Type: {content_type}')}")
        parts.append(f"--data-raw {shlex.quote(entry['request']['body'])}")
    return " \\\n  ".join(parts)


# Webhooks


@pages.get("/webhooks")
def webhooks() -> str:
    """Endpoints, deliveries with their attempts, and the inbox."""
    client = _client()
    found = _webhooks(client)
    return render_template(
        "webhooks.html",
        page="webhooks",
        endpoints=found.get("endpoints", []),
        deliveries=found.get("deliveries", []),
        events=sorted(_contents().engine.project.lifecycle.events),
        inbox=client.get("/sandbox/inbox"),
        addresses=_contents().addresses,
    )


# Scenario and clock


@pages.get("/scenario")
def scenario() -> str:
    """The clock, the agenda, scenarios, faults and snapshots."""
    client = _client()
    scenarios = client.get("/sandbox/scenarios")
    current = _current(scenarios)
    return render_template(
        "scenario.html",
        page="scenario",
        agenda=client.get("/sandbox/agenda"),
        scenarios=scenarios,
        current=current,
        steps=_steps(current["name"]) if current else [],
        faults=client.get("/sandbox/faults"),
        snapshots=client.get("/sandbox/snapshots"),
        operations=sorted(_contents().engine.project.contract.operations),
        fault_types=_fault_types(),
    )


def _fault_types() -> list[str]:
    """The types of faults that the control contract declares."""
    schemas = _contents().engine.project.control.document["components"]["schemas"]
    types: list[str] = schemas["FaultKind"]["enum"]
    return types


def _steps(name: str) -> list[StepView]:
    """The steps of a scenario in words, in the run in which the most of them are possible."""
    from invoice_sandbox.scenarios.drawing import step_views
    from invoice_sandbox.scenarios.simulation import main_run

    project = _contents().engine.project
    words = project.vocabulary
    return step_views(main_run(project.scenarios[name], words.machine, words.actions))


# Contract


@pages.get("/contract")
def contract() -> str:
    """The operations with their responses, assumptions and coverage."""
    coverage = _client().get("/sandbox/coverage")
    project = _contents().engine.project
    return render_template(
        "contract.html",
        page="contract",
        contract=project.contract,
        coverage=coverage.data if coverage.is_success else None,
    )


# Actions


@pages.post("/call")
def call() -> Redirect:
    """Send the request of a form to the API, and return to its page.

    ``body`` is JSON; each ``field.NAME`` that is not empty sets a member of it.
    """
    form = request.form
    method, path = form.get("method", ""), form.get("path", "")
    body = _json(form.get("body") or "{}")
    is_own = path.startswith("/") and not path.startswith(CONSOLE)
    if method not in _METHODS or not is_own or not isinstance(body, dict):
        return _back(form, "400", "This form is incomplete. Nothing was sent.")
    fields = {name: form[f"field.{name}"] for name in _field_names(form)}
    body |= {name: _typed(one) for name, one in fields.items() if one}
    content = form["raw"] if "raw" in form else jsonio.dumps(body).decode() if body else ""
    received = _client().send(method, path, content.encode())
    problem = received.problem or f"{method} {path}"
    return _back(form, str(received.status), problem)


_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})


def _field_names(form: Mapping[str, str]) -> list[str]:
    return [one.removeprefix("field.") for one in form if one.startswith("field.")]


def _typed(text: str) -> Any:
    """Numbers and ``null`` as JSON, all else as text."""
    value = _json(text)
    return value if isinstance(value, (int, float)) or text == "null" else text


def _back(form: Mapping[str, str], status: str, text: str) -> Redirect:
    """Return to the page of the form, which shows the outcome once."""
    target = form.get("back", "")
    response = redirect(target if target.startswith(f"{CONSOLE}") else CONSOLE, 303)
    notice = base64.urlsafe_b64encode(json.dumps([status, text[:_MAX_NOTICE]]).encode()).decode()
    response.set_cookie(_NOTICE, notice, max_age=60, path=CONSOLE, httponly=True, samesite="Strict")
    return response


def _notice(text: str) -> tuple[str, str] | None:
    try:
        status, shown = json.loads(base64.urlsafe_b64decode(text))
    except ValueError:
        return None
    return str(status), str(shown)


@pages.get("/sign-in")
def sign_in_page() -> str:
    """The page for another key."""
    return render_template("sign_in.html", problem="")


@pages.post("/sign-in")
def sign_in() -> str | Redirect:
    """Remember the key in a cookie that scripts cannot read."""
    key = request.form.get("key", "").strip()
    response = redirect(CONSOLE, 303)
    if not key.isascii() or not key.isprintable() or not key:
        return render_template("sign_in.html", problem="This is not a key.")
    secure = _contents().engine.url.startswith("https:")
    response.set_cookie(COOKIE, key, path=CONSOLE, httponly=True, samesite="Strict", secure=secure)
    return response


@pages.post("/sign-out")
def sign_out() -> Redirect:
    """Forget the key."""
    response = redirect(CONSOLE, 303)
    response.delete_cookie(COOKIE, path=CONSOLE)
    return response


def _client() -> Client:
    client: Client = g.client
    return client
