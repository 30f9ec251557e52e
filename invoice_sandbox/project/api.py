"""The handler API: all that the handlers and the domain of a project import from the engine.

``docs/internals/handlers.md`` describes every name of ``__all__``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

from invoice_sandbox.base.clock import instant_text, parse_instant
from invoice_sandbox.base.errors import ApiError, ErrorType, conflict, existing, reject, suggestion
from invoice_sandbox.base.ids import new_key, new_secret
from invoice_sandbox.base.jsonio import dumps as dump_json
from invoice_sandbox.openapi.message.parameters import query_of
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.project.conventions import Conventions
from invoice_sandbox.project.response import Response
from invoice_sandbox.project.stateful import Collection
from invoice_sandbox.scenarios.actions import Percent, Trigger, scenario_action
from invoice_sandbox.scenarios.library import ScenarioResolver
from invoice_sandbox.scenarios.lifecycle import IllegalMove, Lifecycle, Move
from invoice_sandbox.scenarios.script import START, Reaction, Scenario
from invoice_sandbox.state import USERS, Condition, Credential, Page, Record, Transaction, Workspace
from invoice_sandbox.state.credentials import (
    DISABLED_USER,
    KEYS,
    MAX_LISTED,
    allows,
    close_capability,
    close_session,
    end_access,
    is_disabled,
    issue_key,
    missing_scope,
    open_capability,
    open_session,
    open_sessions,
    revoke_key,
)
from invoice_sandbox.state.passwords import Passwords
from invoice_sandbox.webhooks.attempts import signed_request
from invoice_sandbox.webhooks.endpoints import (
    DISABLED,
    ENABLED,
    ENDPOINTS,
    all_endpoints,
    check_endpoints,
    is_rotating,
    published_endpoint,
    rotated,
    signing_secrets,
)
from invoice_sandbox.webhooks.network import Network, is_own_address, url_problem
from invoice_sandbox.webhooks.outbox import (
    DELIVERIES,
    EVENTS,
    PayloadError,
    disable,
    drop_oldest,
    enable,
    enqueue,
    plan,
    published_delivery,
    remove,
)
from invoice_sandbox.webhooks.retry import retry_profile
from invoice_sandbox.webhooks.signing import is_signing_secret, placeholder_secret

__all__ = [
    "DELIVERIES",
    "DISABLED",
    "DISABLED_USER",
    "ENABLED",
    "ENDPOINTS",
    "EVENTS",
    "KEYS",
    "MAX_LISTED",
    "USERS",
    "ApiError",
    "Call",
    "Condition",
    "Context",
    "Conventions",
    "Credential",
    "DeliverThenRespond",
    "ErrorType",
    "Handler",
    "IllegalMove",
    "Lifecycle",
    "Move",
    "Origin",
    "Page",
    "PayloadError",
    "Percent",
    "Record",
    "Response",
    "Step",
    "Transaction",
    "Trigger",
    "WorkThenRespond",
    "Workspace",
    "all_endpoints",
    "allows",
    "check_endpoints",
    "close_capability",
    "close_session",
    "conflict",
    "disable",
    "drop_oldest",
    "dump_json",
    "enable",
    "end_access",
    "existing",
    "instant_filter",
    "instant_text",
    "is_disabled",
    "is_own_address",
    "is_rotating",
    "is_signing_secret",
    "issue_key",
    "missing_scope",
    "new_key",
    "new_secret",
    "open_capability",
    "open_session",
    "open_sessions",
    "parse_instant",
    "placeholder_secret",
    "plan",
    "published_delivery",
    "published_endpoint",
    "reject",
    "remove",
    "retry_profile",
    "revoke_key",
    "rotated",
    "scenario_action",
    "signed_request",
    "signing_secrets",
    "suggestion",
    "url_problem",
]


def _as_it_is(record: Record) -> Record:
    return record


@dataclass(frozen=True)
class DeliverThenRespond:
    """Commits, sends the deliveries of ``lane``, then calls ``then`` for the response.

    No transaction is open while the deliveries are sent. ``then`` is a handler; its call has a new
    transaction.
    """

    lane: str
    then: Handler


@dataclass(frozen=True)
class WorkThenRespond:
    """Commits, does the ``work``, then calls ``then`` with its result for the response.

    No transaction is open meanwhile, so other requests go on. The call that ``then`` gets has a new
    transaction: what was read before may have changed.
    """

    work: Callable[[], Awaitable[Any]]
    then: Callable[[Call, Any], Any]


class Origin(Struct, frozen=True):
    """Who caused a change, for an audit event. ``actor_type`` is ``api_key``,
    ``session``, ``anonymous`` or ``system``, which is a step of the agenda."""

    actor_type: str
    actor_id: str | None
    request_id: str | None = None
    ip: str | None = None
    step_number: int | None = None
    show_agent: Callable[[], str | None] | None = None

    @property
    def user_agent(self) -> str | None:
        """The ``User-Agent`` of the request, without secrets."""
        return None if self.show_agent is None else self.show_agent()

    @property
    def cause(self) -> Record:
        """The members that name what caused a change: ``requestId``, and ``stepNumber`` if it was a
        step of the agenda."""
        step = {} if self.step_number is None else {"stepNumber": self.step_number}
        return {"requestId": self.request_id, **step}


class Context(Struct, kw_only=True, eq=False):
    """A workspace, opened for one request or one step: all of its changes are kept, or none.

    ``scenarios`` selects the scenario of a record, ``emitted`` lists the types of the events
    recorded so far, ``hints`` explain the response in the journal.
    """

    state: Transaction
    workspace: Workspace
    now: datetime
    origin: Origin
    contract: Contract
    lifecycle: Lifecycle
    conventions: Conventions
    scenarios: ScenarioResolver
    emitted: list[str] = []
    hints: list[str] = []

    @property
    def timestamp(self) -> str:
        """``now`` as RFC 3339 text."""
        return instant_text(self.now)

    def new_id(self, prefix: str) -> str:
        """The workspace's next id with this prefix, such as ``inv_sandbox_k2v5q7xa_0001``."""
        return f"{prefix}_{self.workspace.token}_{self.state.next_number(prefix):04d}"

    def emit(
        self,
        event_type: str,
        data: Mapping[str, Any] | Response,
        subject: str | None = None,
        record: Mapping[str, Any] | None = None,
        *,
        optional: Mapping[str, Any] | None = None,
    ) -> Record:
        """Record and deliver an event, and schedule the scenario steps that it triggers.

        ``subject`` is the id of the record whose scenario the event belongs to; default is the id
        of ``data``. ``record`` has the dates that steps count from; default is ``data``, which may
        be the Response of a Collection. ``optional`` are members of the payload for endpoints whose
        ``include`` names them. Raises PayloadError for a type that neither the contract
        nor the lifecycle declares, and for a payload that the contract does not allow.
        """
        data = _event_data(event_type, data)
        event = self._recorded(event_type, data, optional)
        subject_id = subject or str(data.get("id"))
        if event_type in self.lifecycle.creation_events:
            self._begin(subject_id, data, record or data)
        running = self.scenarios.running(self.state, subject_id)
        in_force = self.scenarios.in_force(self.state, subject_id)
        faults = [fault for scenario in in_force for fault in scenario.deliveries_of(event_type)]
        enqueue(self.state, event, faults, self.now)
        self._follow(running, event_type, subject_id, record or data)
        for scenario in self.scenarios.join(self.state, subject_id, event_type):
            self._follow([scenario], START, subject_id, record or data)
        return event

    def _begin(self, subject: str, data: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        """Start the scenarios of a new record."""
        beginning = self.scenarios.for_new(data)
        self.scenarios.assign(self.state, subject, beginning)
        joining = self.scenarios.join(self.state, subject, START)
        self._follow([beginning.scenario, *joining], START, subject, record)
        chosen = beginning.scenario.name
        self.hints += [
            f"{scenario.name} does not start for {subject}: it cannot be combined with {chosen}"
            for scenario in beginning.left_out
        ]

    def announce(self, event_type: str, data: Mapping[str, Any] | Response) -> Record:
        """Record and deliver an event outside any scenario. Raises PayloadError like ``emit``."""
        event = self._recorded(event_type, _event_data(event_type, data))
        enqueue(self.state, event, (), self.now)
        return event

    def event(self, event_type: str, data: Mapping[str, Any] | Response) -> Record:
        """An event with its ``id``, ``type``, ``at``, ``subjects``, its cause and ``payload``, not
        recorded.

        ``data`` are members, or a Response that has them. Raises PayloadError if the contract does
        not allow the payload.
        """
        return self._event(event_type, _event_data(event_type, data))

    def _event(
        self, event_type: str, data: Mapping[str, Any], optional: Mapping[str, Any] | None = None
    ) -> Record:
        event_id, at = self.new_id(self.conventions.event_id_prefix), self.timestamp
        payload = self.conventions.event_body(event_id, event_type, at, data)
        declared = self.contract.webhooks.get(event_type)
        whole = {**payload, **(optional or {})}
        if declared and declared.checker and not declared.checker.is_valid(whole):
            problem = declared.problems(whole)[0]
            raise PayloadError(f"{event_type}: {problem.sentence('the payload')}")
        subjects = self.conventions.subjects(data)
        known = {"id": event_id, "type": event_type, "at": at, "subjects": subjects}
        event = {**known, **self.origin.cause, "payload": payload}
        return {**event, "optional": dict(optional)} if optional else event

    def _recorded(
        self, event_type: str, data: Mapping[str, Any], optional: Mapping[str, Any] | None = None
    ) -> Record:
        """Return a recorded event of a declared type. Raises PayloadError."""
        problem = event_type_problem(event_type, self.contract, self.lifecycle)
        if problem is not None:
            raise PayloadError(problem)
        event = self._event(event_type, data, optional)
        self.state.put(EVENTS, event["id"], event)
        drop_oldest(self.state, EVENTS, event["id"])
        self.emitted.append(event["type"])
        return event

    def _follow(
        self,
        scenarios: Sequence[Scenario],
        event_type: str,
        subject: str,
        record: Mapping[str, Any],
    ) -> None:
        """Schedule the steps of scenarios that an event, or their start, triggers; a step that two
        of them have only once."""
        scheduled: list[Reaction] = []
        for scenario in scenarios:
            for step in scenario.by_event.get(event_type, ()):
                if len(scenarios) > 1:
                    if replace(step, index=0) in scheduled:
                        continue
                    scheduled.append(replace(step, index=0))
                due = step.due(self.now, record)
                arguments = {**step.arguments, "subject": subject}
                self.state.schedule(due, step.do, arguments, scenario.name, place=step.index)

    def schedule(self, action: str, after: timedelta = timedelta(), **arguments: Any) -> None:
        """Schedule an action after a simulated delay."""
        self.state.schedule(self.now + after, action, arguments)

    def problems(self, schema: str, value: Any) -> tuple[str, ...]:
        """Return what the component ``schema`` does not allow in ``value``, as sentences."""
        checker = self.contract.schemas.component(schema)
        return tuple(problem.sentence("the value") for problem in checker.problems(value))


class Step(Context, kw_only=True, eq=False):
    """One step of the agenda, or one that goes with a request: what it was scheduled with.

    ``scenario`` and ``place`` are those of ScheduledStep.
    """

    arguments: Mapping[str, Any]
    scenario: str | None = None
    place: int | None = None

    @property
    def subject(self) -> str:
        """The id of the record that the step is about."""
        return str(self.arguments["subject"])


class Call(Context, kw_only=True, eq=False):
    """One request to one operation, already checked against the contract.

    ``body`` is the JSON body (numbers beyond 64-bit integers are Decimal) or, for another media
    type, its bytes; ``path`` and ``query`` are the declared parameters that were sent. ``accept``
    are the media types that the client wants, as its header has them. ``operation`` is the one of
    the contract that was asked for, ``url`` the path as it was sent, percent-encoded,
    ``base_url`` the address of the server.
    ``local`` says that only this machine can reach the server; webhooks may be sent to
    ``webhook_networks`` besides. ``system_now`` is real time, for what others compare with their
    own clocks. ``passwords`` hashes passwords, for WorkThenRespond. ``not_read`` are sentences
    about what the contract does not declare in the request, such as a misspelt member.
    """

    operation: Operation
    url: str
    base_url: str
    local: bool
    webhook_networks: tuple[Network, ...]
    calendar: Callable[[], datetime]
    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any
    media_type: str
    accept: str
    caller: Credential | None
    passwords: Passwords
    not_read: Sequence[str] = ()

    @property
    def system_now(self) -> datetime:
        """Real time."""
        return self.calendar()

    @property
    def collection(self) -> Collection:
        """The collection that the operation belongs to. Raises LookupError."""
        name, every = self.operation.id, self.conventions.collections
        found = next((collection for collection in every if name in collection.operations), None)
        if found is None:
            raise LookupError(f"{name} is in none of the collections of conventions.yaml")
        return found

    def page(
        self,
        collection: str,
        *,
        where: tuple[Condition, ...] = (),
        present: Callable[[Record], Any] = _as_it_is,
    ) -> Response:
        """One page of a collection, newest first, by ``limit`` and ``cursor`` of the request.

        Headers say how many records match (``X-Total-Count``) and where the next page is
        (``Link``, RFC 8288). A cursor that this service never gave out names an empty page.
        ``present`` must not change the record.
        """
        names = self.conventions
        limit = int(self.query.get(names.limit_parameter, names.page_size))
        cursor = self.query.get(names.cursor_parameter)
        before = None if cursor is None else _position(str(cursor))
        page = self.state.page(collection, limit=limit, before=before, where=where, shared=True)
        total = self.state.count(collection, where)
        headers = ((names.total_header, str(total)), *self._link(page, limit))
        return Response([present(record) for record in page.records], headers)

    def _link(self, page: Page, limit: int) -> tuple[tuple[str, str], ...]:
        if page.next_position is None:
            return ()
        names = self.conventions
        position = {
            names.limit_parameter: limit,
            names.cursor_parameter: _cursor(page.next_position),
        }
        query = {**self.query, **position}
        path = f"{urlsplit(self.base_url).path}{self.url}"
        address = f"{path}?{query_of(self.operation.parameters, query)}"
        return (("Link", f'<{address}>; rel="next"'),)


Handler = Callable[[Call], Any]
"""``def create_booking(call: Call)``: returns data, a Response, a DeliverThenRespond, or a
WorkThenRespond.

Raise ApiError to roll back; return one to keep the changes.
"""


def _event_data(event_type: str, data: Any) -> Mapping[str, Any]:
    """Return the members of an event's data, which may be Responses. Raises PayloadError."""
    members = data.data if isinstance(data, Response) else data
    if not isinstance(members, Mapping):
        raise PayloadError(
            f"{event_type}: the data of an event is an object, not {type(members).__name__}"
        )
    return {
        name: member.data if isinstance(member, Response) else member
        for name, member in members.items()
    }


def event_type_problem(event_type: str, contract: Contract, lifecycle: Lifecycle) -> str | None:
    """Return what is wrong with a type of event, if it is not declared where any is."""
    if event_type in contract.webhooks or event_type in lifecycle.events:
        return None
    known = sorted({*contract.webhooks, *lifecycle.events})
    if not known:
        return None
    return f"unknown event type '{event_type}'; {suggestion(event_type, known)}"


def instant_filter(field: str, start: str | None, end: str | None) -> tuple[Condition, ...]:
    """Return conditions for ``start <= field <= end``, each bound optional and in any offset.

    A date means its first or last moment; a bound that is no instant matches nothing.
    """
    bounds: list[Condition] = []
    if start is not None:
        bounds.append(_bound(field, ">=", start, "T00:00:00Z"))
    if end is not None:
        bounds.append(_bound(field, "<=", end, "T23:59:59.999Z"))
    return tuple(bounds)


def _bound(field: str, operator: Literal[">=", "<="], text: str, rest_of_day: str) -> Condition:
    try:
        instant = parse_instant(text if "T" in text.upper() else text + rest_of_day)
    except ValueError:
        return Condition(field, "in", ())
    return Condition(field, operator, instant)


def _cursor(position: int) -> str:
    return base64.urlsafe_b64encode(f"before:{position}".encode()).decode().rstrip("=")


def _position(cursor: str) -> int:
    """The position a cursor stands for; 0, before which there is nothing, if it is unknown."""
    try:
        text = base64.b64decode(cursor.encode() + b"==", altchars=b"-_").decode()
    except (binascii.Error, UnicodeError):
        return 0
    word, _, digits = text.partition(":")
    if word != "before" or not digits.isascii() or not digits.isdigit() or len(digits) > 15:
        return 0
    return int(digits)
