"""Rules over what a client did: which requests or deliveries a rule is about, and if it is kept."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from itertools import groupby, pairwise
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import parse_duration, parse_instant
from invoice_sandbox.conformance.observations import (
    Attempt,
    Observations,
    Request,
    contains,
    named_by,
    path_names,
    statuses_shown,
)
from invoice_sandbox.conformance.plan import EVERY, NONE, Rule, listed
from invoice_sandbox.openapi.load.pointers import at_pointer
from invoice_sandbox.webhooks.attempts import NO_HTTP, TIMEOUT

_TOLERANCE: Final = timedelta(milliseconds=50)
"""The time by which a request may precede Retry-After: clocks differ, and timers round."""

_GROWTH: Final = 1.25
_LEAST_GROWTH: Final = timedelta(milliseconds=100)
"""A wait is longer if it is longer by both; smaller differences are those of any machine."""

_FAILURES: Final = 4
"""Failures one after the other that show if the waits between them grow."""

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
    changes = _changes(seen)
    for sent in _by(requests, _unchanged):
        repeated = [
            pair
            for pair in pairwise(sent)
            if pair[1].began >= pair[0].ended and not _has_changed(changes, *pair)
        ]
        if len(repeated) > most:
            earlier, later = repeated[most]
            gap = _seconds(later.began - earlier.ended)
            actual = f"Sent the same request again {gap} later, although nothing had changed"
            return _result(rule, Outcome.BROKEN, expected, actual, [earlier, later])
    return _result(rule, Outcome.KEPT, expected, "Repeated nothing unchanged", requests)


def _changes(seen: Observations) -> list[datetime]:
    """Return when the client changed something, or accepted an event, in order."""
    made = [
        request.ended
        for request in seen.requests
        if request.method != "GET" and is_status("2xx", request.status)
    ]
    accepted = [
        parse_instant(attempt.at) for attempt in seen.attempts if is_status("2xx", attempt.status)
    ]
    return sorted([*made, *accepted])


def _has_changed(changes: Sequence[datetime], earlier: Request, later: Request) -> bool:
    """True if the client did, was sent, or met something between two requests."""
    place = bisect_left(changes, earlier.ended)
    return earlier.period != later.period or (
        place < len(changes) and changes[place] <= later.began
    )


def _by(requests: Sequence[Request], key: Callable[[Request], Any]) -> Iterator[list[Request]]:
    """Yield the requests that have a key in common, oldest first."""
    found: dict[Any, list[Request]] = {}
    for request in requests:
        found.setdefault(key(request), []).append(request)
    yield from found.values()


def _unchanged(request: Request) -> tuple[str, str, str | None]:
    """Equal for a request and its repetitions."""
    return request.method, request.path, _plain(request)


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
        for sent in _by(requests, _unchanged)
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
        again = [request for request in rejected[1:] if request.began >= rejected[0].ended]
        others = [
            request
            for request in requests
            if request.credential != sent[0].credential and is_status("2xx", request.status)
        ]
        for place, request in enumerate(again, start=1):
            if place > most or any(other.ended <= request.began for other in others):
                was_valid = any(is_status("2xx", request.status) for request in sent)
                was = "revoked" if was_valid else "invalid"
                name = f"{was} credential {request.credential or ''}".strip()
                gap = _seconds(request.began - rejected[0].ended)
                actual = f"Used the {name} again {gap} after it had been rejected"
                return _result(rule, Outcome.BROKEN, expected, actual, [rejected[0], request])
    left = [request for request in requests if request.status == _UNAUTHORIZED]
    return _result(rule, Outcome.KEPT, expected, "Left each rejected credential", left)


def _leaves(rule: Rule, requests: list[Request], seen: Observations) -> Result:
    statuses = listed(rule["leaves"])
    expected = f"no request that names a record shown as {' or '.join(statuses)}"
    shown = [_statuses(request.response) for request in seen.requests]
    over = [
        request
        for request, records in zip(seen.requests, shown, strict=True)
        if not set(statuses).isdisjoint(records.values())
    ]
    last: dict[str, tuple[Request, str]] = {}
    read = 0
    for end, request in _with_ends(requests, seen):
        for earlier, records in zip(seen.requests[read:end], shown[read:end], strict=True):
            last |= {name: (earlier, status) for name, status in records.items()}
        read = max(read, end)
        for name in sorted(last.keys() & named_by(request)):
            earlier, status = last[name]
            if status in statuses:
                actual = f"Sent a request that names {name}, which had been shown as {status}"
                return _result(rule, Outcome.BROKEN, expected, actual, [earlier, request])
    if not over:
        return _unjudged(rule, "a record that is over", over)
    return _result(rule, Outcome.KEPT, expected, "Sent none", over)


@lru_cache(maxsize=1000)  # live verdicts look at the same responses again and again
def _statuses(response: str | None) -> Mapping[str, str]:
    return statuses_shown(jsonio.parsed(response))


def _with_ends(requests: Sequence[Request], seen: Observations) -> Iterator[tuple[int, Request]]:
    """Yield requests with the number of all requests that had ended when they began, in its
    order."""
    ends = [request.ended for request in seen.requests]
    places = {request.id: place for place, request in enumerate(seen.requests)}
    found = [(min(places[sent.id], bisect_right(ends, sent.began)), sent) for sent in requests]
    yield from sorted(found, key=lambda pair: pair[0])


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


def _backoff(rule: Rule, requests: list[Request], seen: Observations) -> Result:
    expected = "longer waits before later repetitions"
    episodes = [
        episode
        for sent in _by(requests, _unchanged)
        for is_failing, episode in _runs(sent)
        if is_failing and len(episode) >= _FAILURES
    ]
    if not episodes:
        return _unjudged(rule, expected, ())
    results = [_grow(rule, episode, seen) for episode in episodes]
    return next((result for result in results if not result.is_kept), results[-1])


def _runs(sent: list[Request]) -> Iterator[tuple[bool, list[Request]]]:
    """Yield requests one after the other that fail without Retry-After, and those between."""
    for is_failing, run in groupby(sent, _leaves_the_wait_open):
        yield is_failing, [*run]


def _leaves_the_wait_open(request: Request) -> bool:
    return request.has_failed and request.is_live and request.retry_after is None


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
    begun = sorted(requests, key=lambda request: request.began)
    waits = [
        (earlier, begun[place], earlier.retry_after)
        for earlier in requests
        if earlier.retry_after is not None and earlier.is_live
        for place in [bisect_right(begun, earlier.ended, key=lambda request: request.began)]
        if place < len(begun)
    ]
    if not waits:
        return _unjudged(rule, expected, requests)
    for earlier, later, wanted in waits:
        gap = later.began - earlier.ended
        if gap < wanted - _TOLERANCE:
            required = f"Retry-After was {wanted.total_seconds():g} s"
            actual = f"Retried after {_seconds(gap)}; {required}"
            return _result(rule, Outcome.BROKEN, expected, actual, [earlier, later])
    return _result(rule, Outcome.KEPT, expected, "Waited for Retry-After", requests)


_Judge = Callable[[Rule, list[Request], Observations], Result]

_GAPS: Final[Mapping[str, _Judge]] = {
    "grow": _grow,
    "retryAfter": _retry_after,
    "backoff": _backoff,
    "end": _end,
}
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
