"""Rules over what a client did: which requests or deliveries a rule is about, and if it is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from enum import Enum
from itertools import pairwise
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import parse_duration, parse_instant
from invoice_sandbox.conformance.observations import (
    Attempt,
    Observations,
    Request,
    contains,
    path_names,
    statuses_shown,
)
from invoice_sandbox.conformance.plan import EVERY, NONE, Rule, listed
from invoice_sandbox.openapi.load.pointers import at_pointer
from invoice_sandbox.webhooks.attempts import NO_HTTP, TIMEOUT

_TOLERANCE: Final = timedelta(milliseconds=50)
"""How much earlier than Retry-After a request may arrive: clocks differ, and timers round."""

_GROWTH: Final = 1.25
_LEAST_GROWTH: Final = timedelta(milliseconds=100)
"""A wait is longer if it is longer by both; smaller differences are those of any machine."""

_SILENCE: Final = 2
"""Of a client that doubles its waits, the next one is over after so many times the last one."""

_SHOWN: Final = 10
_UNAUTHORIZED: Final = 401

_RECEIVED: Final = frozenset({TIMEOUT, NO_HTTP})
"""Errors of attempts that the client has received; not so if nothing listens."""

_NAMES: Final = {"idempotencyKey": "Idempotency-Key", "body": "body"}
_WANTED: Final = {"rejected": "a rejection", "not-2xx": "a status that is not 2xx", "any": "any"}


class Outcome(Enum):
    """KEPT; BROKEN by what the client did; ABSENT: broken by what it did not do; UNJUDGED: nothing
    happened that the rule is about."""

    KEPT = "kept"
    BROKEN = "broken"
    ABSENT = "absent"
    UNJUDGED = "unjudged"


@dataclass(frozen=True)
class Result:
    """The result of a rule, with expected and actual behaviour and the entries that prove it.

    ``actual`` is a sentence without its full stop; where a limit was missed, it names both.
    """

    rule: Rule
    outcome: Outcome
    expected: str
    actual: str
    evidence: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_kept(self) -> bool:
        """True if the client kept the rule."""
        return self.outcome is Outcome.KEPT


def evaluate(rule: Rule, seen: Observations) -> Result:
    """Judge one rule. Values such as ``$order`` must have been replaced."""
    if "delivery" in rule:
        return _of_deliveries(
            rule, [attempt for attempt in seen.attempts if _is_meant(rule, attempt, seen)]
        )
    if "afterFault" in rule and all(
        request.fault != rule["afterFault"] for request in seen.requests
    ):
        return _unjudged(rule, f"a request after the fault {rule['afterFault']}", ())
    results = list(_of_requests(rule, matching(rule, seen), seen))
    worst = (Outcome.BROKEN, Outcome.ABSENT, Outcome.UNJUDGED, Outcome.KEPT)
    return min(results, key=lambda result: worst.index(result.outcome))


# Requests


def matching(rule: Rule, seen: Observations) -> list[Request]:
    """The requests that a rule is about, oldest first."""
    requests: Sequence[Request] = seen.requests
    if "afterFault" in rule:
        hit = [
            index for index, request in enumerate(requests) if request.fault == rule["afterFault"]
        ]
        requests = requests[hit[-1] + 1 :] if hit else ()
    if "untilFault" in rule:
        hit = [
            index for index, request in enumerate(requests) if request.fault == rule["untilFault"]
        ]
        requests = requests[: hit[0] + 1] if hit else requests
    return [request for request in requests if _is_selected(rule, request, seen)]


def _is_selected(rule: Rule, request: Request, seen: Observations) -> bool:
    operations = listed(rule["request"])
    if EVERY not in operations and request.operation not in operations:
        return False
    return _is_in_period(rule, request.period, seen.marks) and all(
        test(rule[member], request) for member, test in _TESTS.items() if member in rule
    )


_TESTS: Final[Mapping[str, Callable[[Any, Request], bool]]] = {
    "method": lambda wanted, request: request.method in listed(wanted),
    "status": lambda wanted, request: any(
        is_status(status, request.status) for status in listed(wanted)
    ),
    "fault": lambda wanted, request: (request.fault or NONE) == wanted,
    "replayed": lambda wanted, request: request.replayed is wanted,
    "shows": lambda wanted, request: contains(jsonio.parsed(request.response), wanted),
    "names": lambda wanted, request: _names(request, wanted),
    "has": lambda wanted, request: all(
        at_pointer(jsonio.parsed(request.body), pointer) is not None for pointer in wanted
    ),
}
"""By member of a rule: tests if a request is one of those that the rule is about."""


def _names(request: Request, wanted: str) -> bool:
    return path_names(request.path, wanted) or contains(jsonio.parsed(request.body), wanted)


def is_status(wanted: int | str, status: int | None) -> bool:
    """True if a status is 404, 4xx, none, any, rejected or not-2xx, as a rule writes it."""
    match wanted:
        case "rejected":
            return not is_status("2xx", status)
        case "none":
            return status is None
        case "any":
            return status is not None
        case str() if wanted.startswith("not-"):
            return status is not None and not is_status(wanted.removeprefix("not-"), status)
        case str():
            return status is not None and status // 100 == int(wanted[0])
    return status == wanted


def _is_in_period(rule: Rule, period: int, marks: Sequence[str]) -> bool:
    later = "after" not in rule or (rule["after"] in marks and period > marks.index(rule["after"]))
    earlier = "before" not in rule or (
        rule["before"] not in marks or period <= marks.index(rule["before"])
    )
    return later and earlier


def _of_requests(rule: Rule, requests: list[Request], seen: Observations) -> Iterator[Result]:
    if any(member in rule for member in ("times", "atLeast", "atMost")):
        yield _count(rule, requests)
    for member, judge in _JUDGES.items():
        if member in rule:
            yield judge(rule, requests, seen)


def _count(rule: Rule, requests: list[Request]) -> Result:
    number = len(requests)
    least = rule.get("times", rule.get("atLeast", 0))
    most = rule.get("times", rule.get("atMost"))
    outcome = Outcome.KEPT
    if most is not None and number > most:
        outcome = Outcome.BROKEN
    elif number < least:
        outcome = Outcome.ABSENT
    expected = f"{_limit(least, most)}{_requests(least if most is None else most)}{_meant(rule)}"
    sent = f"Sent {'no request' if not number else _requests(number)}{_meant(rule)}"
    return _result(rule, outcome, expected, f"{sent}; {_bounds(least, most)}", requests)


def _limit(least: int, most: int | None) -> str:
    return "at least " if most is None else "" if least == most else "at most "


def _bounds(least: int, most: int | None) -> str:
    """Return how many requests there may be, as the end of a sentence."""
    if most is None:
        return f"at least {least} {'is' if least == 1 else 'are'} needed"
    if least == most != 0:
        return f"exactly {most} {'is' if most == 1 else 'are'} right"
    return f"at most {most} {'is' if most == 1 else 'are'} allowed" if most else "none is allowed"


def _meant(rule: Rule) -> str:
    """Return the requests that a rule counts, in words: operations, status, and value."""
    operations = listed(rule["request"])
    to = "" if EVERY in operations else f" to {' or '.join(operations)}"
    status = " or ".join(map(str, listed(rule.get("status", ""))))
    status = {"": "", NONE: " without a response", "any": " with a response"}.get(
        status, f" with status {status}"
    )
    naming = f" naming {rule['names']}" if "names" in rule else ""
    return f"{to}{status}{naming}"


def _requests(number: int) -> str:
    return "1 request" if number == 1 else f"{number} requests"


def _same(rule: Rule, requests: list[Request], _: Observations) -> Result:
    what = rule["same"]
    if len(requests) < 2:
        return _unjudged(rule, f"several requests with the same {_NAMES[what]}", requests)
    values = [
        request.idempotency_key if what == "idempotencyKey" else _plain(request)
        for request in requests
    ]
    name = _NAMES[what]
    outcome, actual = Outcome.KEPT, f"Sent {_requests(len(requests))} with the same {name}"
    if None in values:
        outcome, actual = Outcome.BROKEN, f"Sent {_requests(values.count(None))} without {name}"
    elif len(set(values)) > 1:
        different = f"{len(set(values))} different values of {name}"
        outcome, actual = Outcome.BROKEN, f"Sent {different} in {_requests(len(requests))}"
    return _result(rule, outcome, f"the same {name} in every request", actual, requests)


def _same_body_at_most(rule: Rule, requests: list[Request], _: Observations) -> Result:
    most = rule["sameBodyAtMost"]
    expected = f"at most {_requests(most)} with the same body"
    if not requests:
        return _result(rule, Outcome.KEPT, expected, "Sent no request", requests)
    bodies = Counter((request.operation, _plain(request)) for request in requests)
    repeated, number = bodies.most_common(1)[0]
    outcome = Outcome.BROKEN if number > most else Outcome.KEPT
    those = [request for request in requests if (request.operation, _plain(request)) == repeated]
    actual = f"Sent {_requests(number)} with the same body; {_bounds(0, most)}"
    return _result(rule, outcome, expected, actual, those)


def _plain(request: Request) -> str | None:
    value = jsonio.parsed(request.body)
    return request.body if value is None else repr(_sorted(value))


def _sorted(value: Any) -> Any:
    """Equal for equal JSON values, whatever the order of members and the digits of numbers."""
    if isinstance(value, Mapping):
        return sorted((name, _sorted(member)) for name, member in value.items())
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return Decimal(value).normalize() if type(value) in {int, Decimal} else value


def _repeats(rule: Rule, requests: list[Request], seen: Observations) -> Result:
    most = rule["repeatsAtMost"]
    expected = "no repetition" if most == 0 else f"at most {most} repetitions"
    for sent in _by(requests, lambda request: (request.method, request.path, _plain(request))):
        repeated = [
            pair
            for pair in pairwise(sent)
            if pair[1].began >= pair[0].ended and not _has_changed(seen, *pair)
        ]
        if len(repeated) > most:
            earlier, later = repeated[most]
            gap = _seconds(later.began - earlier.ended)
            actual = f"Sent the same request again {gap} later, although nothing had changed"
            return _result(rule, Outcome.BROKEN, expected, actual, [earlier, later])
    return _result(rule, Outcome.KEPT, expected, "Repeated nothing unchanged", requests)


def _has_changed(seen: Observations, earlier: Request, later: Request) -> bool:
    """True if the client did, was sent, or met something between two requests."""
    return (
        earlier.period != later.period
        or any(
            earlier.ended <= request.ended <= later.began
            for request in seen.requests
            if request.method != "GET" and is_status("2xx", request.status)
        )
        or any(
            earlier.ended <= parse_instant(attempt.at) <= later.began
            for attempt in seen.attempts
            if is_status("2xx", attempt.status)
        )
    )


def _by(requests: Sequence[Request], key: Callable[[Request], Any]) -> Iterator[list[Request]]:
    """Yield the requests that have a key in common, oldest first."""
    found: dict[Any, list[Request]] = {}
    for request in requests:
        found.setdefault(key(request), []).append(request)
    yield from found.values()


def _distinct(rule: Rule, requests: list[Request], _: Observations) -> Result:
    expected = "one Idempotency-Key for each request"
    keyed = [request for request in requests if request.idempotency_key is not None]
    if not keyed:
        return _unjudged(rule, expected, requests)
    for sent in _by(keyed, lambda sent: (sent.idempotency_key, sent.method, sent.path)):
        different = [*_by(sent, _plain)]
        if len(different) > 1:
            actual = f"Sent the key {sent[0].idempotency_key!r} with {len(different)} bodies"
            both = [first for first, *_ in different[:2]]
            return _result(rule, Outcome.BROKEN, expected, actual, both)
    return _result(rule, Outcome.KEPT, expected, "Sent each key with one request only", keyed)


def _stable(rule: Rule, requests: list[Request], _: Observations) -> Result:
    expected = "the same Idempotency-Key in every repetition"
    pairs = [
        pair
        for sent in _by(requests, lambda request: (request.method, request.path, _plain(request)))
        for pair in pairwise(sent)
        if pair[0].has_failed and None not in {exchange.idempotency_key for exchange in pair}
    ]
    if not pairs:
        return _unjudged(rule, expected, requests)
    for earlier, later in pairs:
        if earlier.idempotency_key != later.idempotency_key:
            gap = _seconds(later.began - earlier.ended)
            actual = f"Repeated the request {gap} later with another Idempotency-Key"
            return _result(rule, Outcome.BROKEN, expected, actual, [earlier, later])
    return _result(rule, Outcome.KEPT, expected, "Repeated requests with their keys", requests)


def _revoked(rule: Rule, requests: list[Request], _: Observations) -> Result:
    most = rule["revokedAtMost"]
    expected = f"at most {_requests(most)} with a credential after it was rejected"
    for sent in _by(requests, lambda request: request.credential):
        rejected = [request for request in sent if request.status == _UNAUTHORIZED]
        again = [request for request in rejected if request.began >= rejected[0].ended]
        others = [
            request
            for request in requests
            if request.credential != sent[0].credential and is_status("2xx", request.status)
        ]
        for place, request in enumerate(again, start=1):
            if place > most or any(other.ended <= request.began for other in others):
                was = "revoked" if any(is_status("2xx", one.status) for one in sent) else "invalid"
                name = f"{was} credential {request.credential or ''}".strip()
                gap = _seconds(request.began - rejected[0].ended)
                actual = f"Used the {name} again {gap} after it had been rejected"
                return _result(rule, Outcome.BROKEN, expected, actual, [rejected[0], request])
    return _result(rule, Outcome.KEPT, expected, "Left each rejected credential", requests)


def _leaves(rule: Rule, requests: list[Request], seen: Observations) -> Result:
    statuses = rule["leaves"]
    expected = f"no request that names a record shown as {' or '.join(listed(statuses))}"
    shown = [
        (request, statuses_shown(jsonio.parsed(request.response))) for request in seen.requests
    ]
    for request in requests:
        last: dict[str, tuple[Request, str]] = {}
        for earlier, records in shown:
            if earlier is request:
                break
            if earlier.ended <= request.began:
                last |= {name: (earlier, status) for name, status in records.items()}
        for name, (earlier, status) in last.items():
            if status in listed(statuses) and _names(request, name):
                actual = f"Sent a request that names {name}, which had been shown as {status}"
                return _result(rule, Outcome.BROKEN, expected, actual, [earlier, request])
    return _result(rule, Outcome.KEPT, expected, "Sent none", requests)


def _keys(rule: Rule, requests: list[Request], seen: Observations) -> Result:
    return _KEYS[rule["keys"]](rule, requests, seen)


def _seconds(length: timedelta) -> str:
    return f"{length.total_seconds():.2f} s"


def _body(rule: Rule, requests: list[Request], _: Observations) -> Result:
    wanted: Mapping[str, Any] = rule["body"]
    expected = ", ".join(f"{pointer} {_text(value)}" for pointer, value in wanted.items())
    if not requests:
        return _unjudged(rule, expected, requests)
    for request in requests:
        body = jsonio.parsed(request.body)
        wrong = {
            pointer: at_pointer(body, pointer)
            for pointer, value in wanted.items()
            if not equal(at_pointer(body, pointer), value)
        }
        if wrong:
            actual = ", ".join(
                f"{pointer} was {_text(value)}, not {_text(wanted[pointer])}"
                for pointer, value in wrong.items()
            )
            return _result(rule, Outcome.BROKEN, expected, actual, [request])
    return _result(rule, Outcome.KEPT, expected, f"Sent {expected}", requests)


def equal(value: Any, other: Any) -> bool:
    """True if two JSON values are equal; numbers are compared as decimals."""
    return bool(_sorted(_exact(value)) == _sorted(_exact(other)))


def _exact(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _exact(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(item) for item in value]
    return Decimal(str(value)) if type(value) in {int, float} else value


def _text(value: Any) -> str:
    return "missing" if value is None else str(value)


def _gaps(rule: Rule, requests: list[Request], seen: Observations) -> Result:
    return _GAPS[rule["gaps"]](rule, requests, seen)


def _grow(rule: Rule, requests: list[Request], _: Observations) -> Result:
    expected = "longer waits before later requests"
    gaps = [later.began - earlier.ended for earlier, later in pairwise(requests)]
    if len(gaps) < 2:
        return _unjudged(rule, expected, requests)
    grows = any(
        later >= earlier * _GROWTH and later - earlier >= _LEAST_GROWTH
        for index, earlier in enumerate(gaps)
        for later in gaps[index + 1 :]
    )
    actual = f"Waited {', '.join(map(_seconds, gaps))}"
    if grows:
        return _result(rule, Outcome.KEPT, expected, actual, requests)
    return _result(rule, Outcome.BROKEN, expected, f"{actual}; later waits must grow", requests)


def _end(rule: Rule, requests: list[Request], seen: Observations) -> Result:
    expected = "no more requests"
    if seen.until is None:
        return _result(rule, Outcome.KEPT, expected, "The client has ended", requests)
    if len(requests) < 2:
        return _unjudged(rule, expected, requests)
    gap, silence = requests[-1].began - requests[-2].ended, seen.until - requests[-1].ended
    outcome = Outcome.KEPT if silence > _SILENCE * gap else Outcome.BROKEN
    actual = f"Was silent for {_seconds(silence)} after a wait of {_seconds(gap)}"
    return _result(rule, outcome, expected, actual, requests)


def _within(rule: Rule, requests: list[Request], _: Observations) -> Result:
    length = parse_duration(rule["within"])
    expected = f"no request after {length.total_seconds():g} s"
    if not requests:
        return _unjudged(rule, expected, requests)
    took = requests[-1].began - requests[0].began
    outcome = Outcome.BROKEN if took > length else Outcome.KEPT
    allowed = f"at most {length.total_seconds():g} s are allowed"
    actual = f"Sent the last request {_seconds(took)} after the first; {allowed}"
    return _result(rule, outcome, expected, actual, [requests[0], requests[-1]])


def _pace(rule: Rule, requests: list[Request], _: Observations) -> Result:
    most, length = rule["pace"]["atMost"], parse_duration(rule["pace"]["in"])
    expected = f"at most {_requests(most)} in {length.total_seconds():g} s"
    windows = [
        [request for request in requests[index:] if request.began < first.began + length]
        for index, first in enumerate(requests)
    ]
    busiest = max(windows, key=len, default=[])
    outcome = Outcome.BROKEN if len(busiest) > most else Outcome.KEPT
    sent = f"Sent up to {_requests(len(busiest))} in {length.total_seconds():g} s"
    return _result(rule, outcome, expected, f"{sent}; {_bounds(0, most)}", busiest)


def _retry_after(rule: Rule, requests: list[Request], _: Observations) -> Result:
    expected = "no request before Retry-After is over"
    pairs = [
        (earlier, later, earlier.retry_after)
        for place, earlier in enumerate(requests)
        for later in requests[place + 1 :]
        if earlier.retry_after is not None and earlier.is_live and later.began > earlier.ended
    ]
    if not pairs:
        return _unjudged(rule, expected, requests)
    for earlier, later, wanted in pairs:
        gap = later.began - earlier.ended
        if gap < wanted - _TOLERANCE:
            required = f"Retry-After was {wanted.total_seconds():g} s"
            actual = f"Retried after {_seconds(gap)}; {required}"
            return _result(rule, Outcome.BROKEN, expected, actual, [earlier, later])
    return _result(rule, Outcome.KEPT, expected, "Waited for Retry-After", requests)


_Judge = Callable[[Rule, list[Request], Observations], Result]

_GAPS: Final[Mapping[str, _Judge]] = {"grow": _grow, "retryAfter": _retry_after, "end": _end}
_KEYS: Final[Mapping[str, _Judge]] = {"distinct": _distinct, "stable": _stable}

_JUDGES: Final[Mapping[str, _Judge]] = {
    "same": _same,
    "sameBodyAtMost": _same_body_at_most,
    "repeatsAtMost": _repeats,
    "revokedAtMost": _revoked,
    "keys": _keys,
    "leaves": _leaves,
    "gaps": _gaps,
    "within": _within,
    "pace": _pace,
    "body": _body,
}
"""By member of a rule: what it requires of the requests."""


# Deliveries


def _is_meant(rule: Rule, attempt: Attempt, seen: Observations) -> bool:
    kinds = listed(rule.get("kind", NONE))
    return (
        rule["delivery"] in {EVERY, attempt.event_type}
        and (attempt.kind or NONE) in kinds
        and _is_in_period(rule, attempt.period, seen.marks)
    )


def _of_deliveries(rule: Rule, attempts: list[Attempt]) -> Result:
    expected = f"the response {rule['response']} to each delivery"
    if not attempts:
        return _unjudged(rule, expected, attempts)
    wrong = [attempt for attempt in attempts if not is_status(rule["response"], attempt.status)]
    if not wrong:
        return _result(rule, Outcome.KEPT, expected, _responses(attempts), attempts)
    responded = [attempt for attempt in wrong if attempt.status or attempt.error in _RECEIVED]
    outcome = Outcome.BROKEN if responded else Outcome.ABSENT
    actual = f"{_responses(wrong)}; {_WANTED.get(str(rule['response']), rule['response'])} is right"
    return _result(rule, outcome, expected, actual, responded or wrong)


def _responses(attempts: list[Attempt]) -> str:
    counts = Counter(str(attempt.status or attempt.error) for attempt in attempts)
    return f"Responded {', '.join(f'{text} ({number})' for text, number in counts.items())}"


def _unjudged(rule: Rule, expected: str, found: Sequence[Request | Attempt]) -> Result:
    return _result(rule, Outcome.UNJUDGED, expected, "Did nothing that can be judged", found)


def _result(
    rule: Rule, outcome: Outcome, expected: str, actual: str, found: Sequence[Request | Attempt]
) -> Result:
    evidence = tuple(observed.evidence() for observed in found[:_SHOWN])
    return Result(rule, outcome, expected, actual, evidence)
