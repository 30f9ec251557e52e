"""Rules of acceptance plans: which of a client's requests and responses keep them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from invoice_sandbox.acceptance.cases import CaseReport
from invoice_sandbox.acceptance.clients import Ending
from invoice_sandbox.acceptance.runner import CheckReport
from invoice_sandbox.acceptance.verdicts import CaseVerdict, Verdict, controlled, judge, worst
from invoice_sandbox.conformance.observations import Attempt, Observations, Request
from invoice_sandbox.conformance.plan import Case, Check
from invoice_sandbox.conformance.rules import Outcome, evaluate
from tests.cases import in_turn

START = datetime(2026, 11, 22, 9, tzinfo=UTC)
KEPT, BROKEN, ABSENT, UNJUDGED = Outcome


def request(second: float = 0, status: int | None = 201, **members: Any) -> Request:
    """A request that ended ``second`` seconds after the start."""
    made = Request(
        id=f"req_{second:g}",
        ended=START + timedelta(seconds=second),
        took=timedelta(milliseconds=10),
        operation="createOrder",
        method="POST",
        path="/orders",
        status=status,
    )
    return replace(made, **members)


def attempt(status: int | None = 200, **members: Any) -> Attempt:
    """An attempt of a delivery with that response."""
    error = "no_connection" if status is None else None
    return replace(Attempt("dlv_1", 1, "order.paid", None, status, error, "at"), **members)


def outcome(rule: dict[str, Any], *seen: Request | Attempt, marks: Sequence[str] = ()) -> Outcome:
    """What a rule about ``createOrder``, or about deliveries, comes to."""
    subject = {} if "delivery" in rule else {"request": "createOrder"}
    requests = [one for one in seen if isinstance(one, Request)]
    attempts = [one for one in seen if isinstance(one, Attempt)]
    return evaluate({**subject, **rule}, Observations(requests, attempts, marks)).outcome


KEYS = [request(at, idempotency_key=key) for at, key in ((0, "a"), (1, "a"), (2, "b"), (3, None))]
BODIES = [
    request(at, body=body)
    for at, body in ((0, '{"a": 1, "b": 2}'), (1, '{"b": 2.0, "a": 1}'), (2, '{"a": 1}'))
]
WAITS = {
    "growing": (0, 0.3, 0.9, 2.0),
    "constant": (0, 0.3, 0.6, 0.9),
    "immediate": (0, 0.02, 0.05, 0.06),
    "jitter": (0, 1, 1.2, 2.0),
}


def after_429(second: float) -> list[Request]:
    """A request that must wait for two seconds, and the next one."""
    return [request(0, 429, retry_after=timedelta(seconds=2)), request(second)]


HALF = "2026-11-22T09:00:00.500Z"
OTHER = request(0.5, operation="createItem", path="/items")
"""A change between two requests."""


def keyed(*sent: tuple[str | None, int], **members: Any) -> list[Request]:
    """Requests with these keys and bodies, a second apart."""
    return [
        request(second, idempotency_key=key, body=str(body), **members)
        for second, (key, body) in enumerate(sent)
    ]


def with_credentials(*sent: tuple[str | None, int]) -> list[Request]:
    """Requests with these credentials and responses, a second apart."""
    return [
        request(second, status, credential=credential)
        for second, (credential, status) in enumerate(sent)
    ]


def shown(second: float, status: str) -> Request:
    """A read that shows a record with that status."""
    body = f'{{"data": [{{"id": "o_1", "status": "{status}"}}]}}'
    return request(second, 200, method="GET", operation="listOrders", response=body)


OWN = replace(shown(1, "Gone"), operation="createOrder", path="/orders/o_1", is_live=False)
"""On a clock that stands, it arrives when its own response shows the record."""


@in_turn(
    ("rule", "seen", "expected"),
    [
        ({"atLeast": 1}, [request()], KEPT),
        ({"atLeast": 1}, [], ABSENT),
        ({"atMost": 1}, [request(0), request(1)], BROKEN),
        ({"atMost": 0}, [], KEPT),
        ({"times": 1}, [request()], KEPT),
        ({"times": 1}, [], ABSENT),
        ({"atLeast": 1, "status": "2xx"}, [request(status=404)], ABSENT),
        ({"atLeast": 1, "status": "none"}, [request(status=None)], KEPT),
        ({"atLeast": 1, "method": ["PUT", "POST"]}, [request()], KEPT),
        ({"atLeast": 1, "fault": "drip"}, [request(fault="drip")], KEPT),
        ({"atLeast": 1, "fault": "none"}, [request(fault="drip")], ABSENT),
        ({"atLeast": 1, "replayed": False}, [request(replayed=True)], ABSENT),
        ({"atLeast": 1, "shows": "Paid"}, [request(response='{"a": [{"b": "Paid"}]}')], KEPT),
        ({"atLeast": 1, "shows": "Paid"}, [request(response='{"a": "Unpaid"}')], ABSENT),
        ({"atMost": 0, "names": "ord_1"}, [request(body='{"id": "ord_1"}')], BROKEN),
        ({"atMost": 0, "names": "ord_1"}, [request(path="/orders/ord_1?x=1")], BROKEN),
        ({"atMost": 0, "names": "ord_1"}, [request(path="/orders/ord_12")], KEPT),
        ({"atLeast": 1, "has": ["/a"]}, [request(body='{"b": 1}')], ABSENT),
        ({"atLeast": 1, "afterFault": "html"}, [request(0, fault="html"), request(1)], KEPT),
        ({"atLeast": 1, "afterFault": "html"}, [request(0), request(1, fault="html")], ABSENT),
        ({"atLeast": 1, "afterFault": "html"}, [request(0)], UNJUDGED),
        ({"same": "idempotencyKey"}, KEYS[:2], KEPT),
        ({"same": "idempotencyKey"}, KEYS[1:3], BROKEN),
        ({"same": "idempotencyKey"}, KEYS[2:], BROKEN),
        ({"same": "idempotencyKey"}, KEYS[:1], UNJUDGED),
        ({"same": "body"}, BODIES[:2], KEPT),
        ({"same": "body"}, BODIES[1:], BROKEN),
        ({"sameBodyAtMost": 2}, BODIES, KEPT),
        ({"sameBodyAtMost": 1}, BODIES, BROKEN),
        ({"sameBodyAtMost": 1}, [], KEPT),
        ({"gaps": "grow"}, [request(at) for at in WAITS["growing"]], KEPT),
        ({"gaps": "grow"}, [request(at) for at in WAITS["jitter"]], KEPT),
        ({"gaps": "grow"}, [request(at) for at in WAITS["constant"]], BROKEN),
        ({"gaps": "grow"}, [request(at) for at in WAITS["immediate"]], BROKEN),
        ({"gaps": "grow"}, [request(0), request(1)], UNJUDGED),
        ({"gaps": "end"}, [request(0), request(1)], KEPT),
        ({"within": "PT2S"}, [request(0), request(1), request(2)], KEPT),
        ({"within": "PT2S"}, [request(0), request(1), request(2.1)], BROKEN),
        ({"within": "PT2S"}, [], UNJUDGED),
        ({"pace": {"atMost": 2, "in": "PT2S"}}, [request(at) for at in (0, 1, 2.5, 4)], KEPT),
        ({"pace": {"atMost": 2, "in": "PT2S"}}, [request(at) for at in (0, 3, 3.5, 4)], BROKEN),
        ({"atMost": 1, "untilFault": "drip"}, [request(0, fault="drip"), request(1)], KEPT),
        ({"atMost": 1, "untilFault": "drip"}, [request(0), request(1, fault="drip")], BROKEN),
        ({"atMost": 1, "untilFault": "drip"}, [request(0), request(1)], BROKEN),
        ({"gaps": "retryAfter"}, after_429(2.05), KEPT),
        ({"gaps": "retryAfter"}, after_429(1.5), BROKEN),
        ({"gaps": "retryAfter"}, [request(0), request(1)], UNJUDGED),
        ({"gaps": "retryAfter"}, [*after_429(2.05), request(1.5)], BROKEN),
        ({"gaps": "retryAfter"}, [replace(one, is_live=False) for one in after_429(1)], UNJUDGED),
        ({"repeatsAtMost": 0}, [request(0, 403), request(1, 403)], BROKEN),
        ({"repeatsAtMost": 1}, [request(0, 403), request(1, 403)], KEPT),
        ({"repeatsAtMost": 0}, [request(0, 400, body="1"), request(1, 400, body="2")], KEPT),
        ({"repeatsAtMost": 0}, [request(0, 403), request(0.005, 403)], KEPT),  # side by side
        ({"repeatsAtMost": 0}, [request(0, 403), request(1, 403, period=1)], KEPT),
        ({"repeatsAtMost": 0, "status": 403}, [request(0, 403), OTHER, request(1, 403)], KEPT),
        ({"repeatsAtMost": 0}, [request(0, 403), request(1, 403), attempt(at=HALF)], KEPT),
        ({"repeatsAtMost": 0}, [request(0, 403), request(1, 403), attempt(401, at=HALF)], BROKEN),
        ({"revokedAtMost": 1}, with_credentials(("1", 200), ("1", 401), ("1", 401)), KEPT),
        ({"revokedAtMost": 1}, with_credentials(("1", 401), ("1", 401), ("1", 401)), BROKEN),
        ({"revokedAtMost": 1}, with_credentials((None, 401), (None, 401), (None, 401)), BROKEN),
        ({"revokedAtMost": 1}, with_credentials(("1", 401), ("2", 200), ("2", 200)), KEPT),
        ({"revokedAtMost": 1}, with_credentials(("1", 401), ("2", 200), ("1", 401)), BROKEN),
        ({"revokedAtMost": 1}, with_credentials(("1", 401), ("2", 401), ("3", 401)), KEPT),
        ({"keys": "distinct"}, keyed(("a", 1), ("a", 1), ("b", 2)), KEPT),
        ({"keys": "distinct"}, keyed(("a", 1), ("a", 2)), BROKEN),
        ({"keys": "distinct"}, keyed((None, 1), (None, 2)), UNJUDGED),
        ({"keys": "stable"}, keyed(("a", 1), ("a", 1), status=503), KEPT),
        ({"keys": "stable"}, keyed(("a", 1), ("b", 1), status=503), BROKEN),
        ({"keys": "stable"}, keyed(("a", 1), ("b", 1), status=None), BROKEN),
        ({"keys": "stable"}, keyed(("a", 1), ("b", 1), status=429), BROKEN),
        ({"keys": "stable"}, keyed(("a", 1), ("b", 1), status=401), UNJUDGED),
        ({"keys": "stable"}, keyed(("a", 1), ("b", 1), fault="truncate"), BROKEN),
        ({"keys": "stable"}, keyed(("a", 1), ("b", 1)), UNJUDGED),  # the first had succeeded
        ({"keys": "stable"}, keyed((None, 1), (None, 1), status=503), UNJUDGED),
        ({"gaps": "backoff"}, [request(at, 503) for at in (0, 1, 2, 3)], BROKEN),
        ({"gaps": "backoff"}, [request(at, 503) for at in (0, 1, 3, 7)], KEPT),
        ({"gaps": "backoff"}, [request(at, 503) for at in (0, 1, 2)], UNJUDGED),
        (
            {"gaps": "backoff"},
            [request(at, 429, retry_after=timedelta(seconds=1)) for at in (0, 1, 2, 3)],
            UNJUDGED,
        ),
        ({"leaves": ["Gone"]}, [shown(0, "Gone"), request(1, body='{"a": ["o_1"]}')], BROKEN),
        ({"leaves": ["Gone"]}, [shown(0, "Gone"), request(1, path="/orders/o_1")], BROKEN),
        ({"leaves": ["Gone"]}, [shown(0, "Gone"), request(1, body='["o_2"]')], KEPT),
        ({"leaves": ["Gone"]}, [shown(0, "Open"), request(1, body='["o_1"]')], UNJUDGED),
        (
            {"leaves": ["Gone"]},
            [shown(0, "Gone"), shown(1, "Open"), request(2, body='["o_1"]')],
            KEPT,
        ),
        ({"leaves": ["Gone"]}, [request(1, body='["o_1"]'), shown(2, "Gone")], KEPT),
        ({"leaves": ["Gone"]}, [OWN], KEPT),
        ({"atMost": 0, "status": [400, 413]}, [request(0, 413)], BROKEN),
        ({"atMost": 0, "status": [400, 413]}, [request(0, 403)], KEPT),
        ({"body": {"/a": 98.435}}, [request(body='{"a": 98.435}')], KEPT),
        ({"body": {"/a": 98.435}}, [request(body='{"a": 98.44}')], BROKEN),
        ({"body": {"/a": 1}}, [request(body='{"a": 1.00}')], KEPT),
        ({"body": {"/a": 1}}, [request(body='{"a": "1"}')], BROKEN),
        ({"body": {"/a": 1}}, [], UNJUDGED),
        ({"delivery": "*", "response": "2xx"}, [attempt()], KEPT),
        ({"delivery": "*", "response": "2xx"}, [attempt(401)], BROKEN),
        ({"delivery": "*", "response": "2xx"}, [attempt(None)], ABSENT),
        ({"delivery": "*", "response": "2xx"}, [attempt(None, error="timeout")], BROKEN),
        ({"delivery": "*", "response": "2xx"}, [attempt(None, error="no_http")], BROKEN),
        ({"delivery": "*", "response": "2xx"}, [], UNJUDGED),
        ({"delivery": "*", "response": "any"}, [attempt(500)], KEPT),
        ({"delivery": "order.lost", "response": "2xx"}, [attempt(401)], UNJUDGED),
        ({"delivery": "*", "response": "2xx"}, [attempt(401, kind="late")], UNJUDGED),
        ({"delivery": "*", "kind": "late", "response": "not-2xx"}, [attempt(kind="late")], BROKEN),
        ({"delivery": "*", "kind": "late", "response": 401}, [attempt(401, kind="late")], KEPT),
        ({"delivery": "*", "response": "rejected"}, [attempt(401), attempt(None)], KEPT),
        ({"delivery": "*", "response": "rejected"}, [attempt(401), attempt(204)], BROKEN),
        ({"delivery": "*", "response": "rejected"}, [], UNJUDGED),
    ],
)
def test_a_rule(rule: dict[str, Any], seen: list[Any], expected: Outcome) -> None:
    assert outcome(rule, *seen) is expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"atMost": 0}, BROKEN),
        ({"atMost": 0, "after": "revoked"}, KEPT),
        ({"atLeast": 1, "before": "revoked"}, KEPT),
        ({"atLeast": 1, "after": "later"}, ABSENT),
    ],
)
def test_marks_divide_what_happened(rule: dict[str, Any], expected: Outcome) -> None:
    assert outcome(rule, request(period=0), marks=["revoked"]) is expected


@pytest.mark.parametrize(
    ("until", "expected"),
    [(None, KEPT), (4.9, KEPT), (4.7, BROKEN)],
    ids=["it has ended", "it is silent", "it may still wait"],
)
def test_repetitions_end_with_the_client_or_with_silence(
    until: float | None, expected: Outcome
) -> None:
    """A client that doubles its waits is silent for less than twice the last one."""
    instant = None if until is None else START + timedelta(seconds=until)
    seen = Observations([request(0), request(0.7), request(2.1)], until=instant)
    assert evaluate({"request": "*", "gaps": "end"}, seen).outcome is expected
    once = Observations([request(0)], until=START)
    assert evaluate({"request": "*", "gaps": "end"}, once).outcome is UNJUDGED


def test_a_result_has_both_sides_and_the_entries_that_prove_it() -> None:
    seen = Observations([request(0, 503), request(1, None)])
    result = evaluate({"request": "*", "atMost": 1}, seen)
    assert (result.expected, result.actual) == (
        "at most 1 request",
        "Sent 2 requests; at most 1 is allowed",
    )
    assert [one["requestId"] for one in result.evidence] == ["req_0", "req_1"]
    assert result.evidence[1]["line"] == "POST /orders: connection reset"


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"times": 2}, "2 requests to createOrder"),
        ({"atLeast": 1, "status": "2xx"}, "at least 1 request to createOrder with status 2xx"),
        ({"atMost": 0, "status": "none"}, "0 requests to createOrder without a response"),
        ({"times": 1, "status": "any"}, "1 request to createOrder with a response"),
        (
            {"request": ["createOrder", "getOrder"], "atLeast": 1, "names": "o_1"},
            "at least 1 request to createOrder or getOrder naming o_1",
        ),
    ],
)
def test_a_number_of_requests_says_of_which(members: dict[str, Any], expected: str) -> None:
    assert evaluate({"request": "createOrder", **members}, Observations()).expected == expected


@in_turn(
    ("rule", "seen", "expected"),
    [
        ({"gaps": "retryAfter"}, after_429(0.31), "Retried after 0.30 s; Retry-After was 2 s"),
        (
            {"gaps": "grow"},
            [request(at) for at in (0, 0.3, 0.6)],
            "Waited 0.29 s, 0.29 s; later waits must grow",
        ),
        ({"atMost": 0}, [request()], "Sent 1 request to createOrder; none is allowed"),
        ({"times": 1}, [], "Sent no request to createOrder; exactly 1 is right"),
        (
            {"sameBodyAtMost": 1},
            BODIES[:2],
            "Sent 2 requests with the same body; at most 1 is allowed",
        ),
        ({"same": "idempotencyKey"}, KEYS[2:], "Sent 1 request without Idempotency-Key"),
        ({"same": "body"}, BODIES[1:], "Sent 2 different values of body in 2 requests"),
        ({"keys": "distinct"}, keyed(("a", 1), ("a", 2)), "Sent the key 'a' with 2 bodies"),
        (
            {"keys": "stable"},
            keyed(("a", 1), ("b", 1), status=503),
            "Repeated the request 0.99 s later with another Idempotency-Key",
        ),
        (
            {"revokedAtMost": 0},
            with_credentials(("3", 200), ("3", 401), ("3", 401)),
            "Used the revoked credential 3 again 0.99 s after it had been rejected",
        ),
        (
            {"body": {"/a": 2, "/b": 1}},
            [request(body='{"a": 1}')],
            "/a was 1, not 2, /b was missing, not 1",
        ),
        (
            {"within": "PT1S"},
            [request(0), request(2)],
            "Sent the last request 2.00 s after the first; at most 1 s are allowed",
        ),
        (
            {"pace": {"atMost": 1, "in": "PT8S"}},
            [request(0), request(1)],
            "Sent up to 2 requests in 8 s; at most 1 is allowed",
        ),
        (
            {"delivery": "*", "response": "2xx"},
            [attempt(401), attempt(401)],
            "Responded 401 (2); 2xx is right",
        ),
        (
            {"delivery": "*", "response": "not-2xx"},
            [attempt()],
            "Responded 200 (1); a status that is not 2xx is right",
        ),
    ],
)
def test_a_broken_rule_says_what_the_client_did_and_the_limit(
    rule: dict[str, Any], seen: list[Any], expected: str
) -> None:
    subject = {} if "delivery" in rule else {"request": "createOrder"}
    requests = [one for one in seen if isinstance(one, Request)]
    attempts = [one for one in seen if isinstance(one, Attempt)]
    assert evaluate({**subject, **rule}, Observations(requests, attempts)).actual == expected


# Verdicts

CONTROL = {"request": "createOrder", "atLeast": 1}
QUIET = {"that": "It stops.", "request": "createOrder", "status": 401, "atMost": 0}
LOUD = {"that": "It succeeds.", "request": "createOrder", "status": 201, "atLeast": 1}


def verdict(
    *seen: Request | Attempt, rules: Any = (QUIET,), level: str = "must", **members: Any
) -> Verdict:
    """The verdict on a case with a control."""
    case = Case({"name": "order"}, tuple(rules), (CONTROL,), **members)
    requests = [one for one in seen if isinstance(one, Request)]
    attempts = [one for one in seen if isinstance(one, Attempt)]
    return judge(case, level, Observations(requests, attempts)).verdict


def test_a_client_that_did_nothing_is_not_judged() -> None:
    assert verdict() is Verdict.INCONCLUSIVE
    assert verdict(rules=[LOUD]) is Verdict.INCONCLUSIVE


LOST = request(1, 404, operation=None, path="/order")
LONG = "a\n\n" + "b" * 300 + "\n  \x1b[1mgave up.\n"


@pytest.mark.parametrize(
    ("seen", "ending", "expected"),
    [
        (
            Observations(),
            Ending(2, output=LONG),
            f" with exit status 2: {200 * 'b'} /  [1mgave up.",
        ),
        (Observations(), Ending(-9), " by signal 9."),
        (Observations(), Ending(), "."),
        (Observations([LOST, LOST]), Ending(0), "{} No operation matches POST /order: 404."),
    ],
)
def test_a_client_that_did_too_little_is_explained(
    seen: Observations, ending: Ending, expected: str
) -> None:
    case = Case({"name": "order"}, (QUIET,), (CONTROL,))
    expected = f"The client ended{expected.replace('{}', ' with exit status 0.')}"
    summary = judge(case, "must", seen, ending).summary
    assert summary.partition("createOrder; at least 1 is needed. ")[2] == expected
    running = judge(case, "must", replace(seen, until=START), ending).summary
    assert "needed. The client had not ended" in running
    probe = judge(Case({"name": "order"}, (PROBE,)), "must", seen, ending)
    works = judge(Case({"name": "order"}, (PROBE,)), "must", Observations([request()]), ending)
    right = judge(case, "must", Observations([request()]), ending)
    assert "The client" not in right.summary
    for before, after in ((probe, works), (works, probe)):
        assert controlled(right, before, after).summary.partition("is right. ")[2] == expected


def test_a_client_that_does_what_it_must_not_fails() -> None:
    assert verdict(request(0), request(1, 401)) is Verdict.FAIL
    assert verdict(request(0), request(1, 401), level="should") is Verdict.WARN
    assert verdict(request(0)) is Verdict.PASS


def test_a_client_that_works_and_leaves_something_out_fails() -> None:
    assert verdict(request(status=500), rules=[LOUD]) is Verdict.FAIL


def test_a_client_that_breaks_a_control_is_not_judged() -> None:
    case = Case({"name": "order"}, (QUIET,), ({"request": "createOrder", "atMost": 0},))
    seen = Observations([request(status=401)])
    assert judge(case, "must", seen).verdict is Verdict.INCONCLUSIVE


PROBE: dict[str, Any] = {"that": "It orders once.", "request": "createOrder", "times": 1}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([request()], [request()], (Verdict.PASS, Verdict.FAIL)),
        ([request()], [], (Verdict.INCONCLUSIVE, Verdict.FAIL)),
        ([], [request()], (Verdict.INCONCLUSIVE, Verdict.FAIL)),
        ([request(0), request(1)], [request()], (Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE)),
    ],
    ids=["it works", "it crashed", "it did not start", "it fails at something more basic"],
)
def test_a_probe_before_and_after_a_case(
    before: list[Request], after: list[Request], expected: tuple[Verdict, Verdict]
) -> None:
    probes = [
        judge(Case({"name": "order"}, (PROBE,)), "must", Observations(one))
        for one in (before, after)
    ]
    case = Case({"name": "order"}, (QUIET,), ({"request": "createOrder", "atLeast": 1},))
    right, wrong = [request(0)], [request(0), request(1, 401)]
    found = [controlled(judge(case, "must", Observations(one)), *probes) for one in (right, wrong)]
    assert (found[0].verdict, found[1].verdict) == expected
    assert [one.rule.get("that") for one in found[0].results][::3] == [
        "Before the check: It orders once.",
        "After the check: It orders once.",
    ]


FORBIDDEN = {"that": "It stops at once.", "request": "*", "status": 403, "repeatsAtMost": 0}


def test_a_broken_invariant_fails_whatever_else_the_case_and_its_probe_come_to() -> None:
    """Only what a rule of the case found wrong goes first."""
    twice = Observations([request(0, 403), request(0.5, 403)])
    case = Case({"name": "order"}, (LOUD,), (CONTROL,), invariants=(FORBIDDEN,))
    found = judge(case, "should", twice)
    assert (found.verdict, found.decisive, found.violation) == (
        Verdict.FAIL,
        *2 * [found.violation],
    )
    exchanges = "POST /orders: 403 at 2026-11-22T08:59:59.990Z, POST /orders: 403 at 2026-11-22T09"
    expected = "Sent the same request again 0.49 s later, although nothing had changed"
    assert found.summary == f"It stops at once. {expected}. {exchanges}:00:00.490Z."
    assert judge(case, "must", twice).summary == found.summary
    silent = judge(replace(case, controls=({**CONTROL, "status": 200},)), "must", twice)
    assert silent.verdict is Verdict.FAIL
    works = judge(case, "must", Observations([request()]))
    assert works.verdict is Verdict.PASS
    for verdicts in ((works, found, works), (works, works, found), (found, works, works)):
        assert controlled(*verdicts).verdict is Verdict.FAIL
    own = judge(replace(case, rules=({**QUIET, "status": 403},)), "must", twice)
    assert (own.verdict, own.decisive and own.decisive.rule["that"]) == (Verdict.FAIL, "It stops.")


def test_rules_without_anything_to_judge_are_inconclusive() -> None:
    assert verdict(request(), rules=[{"request": "*", "gaps": "grow"}]) is Verdict.INCONCLUSIVE


def test_an_effect_that_cannot_be_seen_needs_a_review() -> None:
    review = {"that": "The client shows it.", "unless": {"request": "*", "atLeast": 2}}
    assert verdict(request(0), review=review) is Verdict.REVIEW
    assert verdict(request(0), request(1), review=review) is Verdict.PASS
    assert verdict(request(0), review={"that": "The client shows it."}) is Verdict.REVIEW


@in_turn(
    ("seen", "expected"),
    [
        ([request(0, body="1"), request(1, body="2")], Verdict.PASS),
        ([request(1, body="2")], Verdict.FAIL),
        ([request(0, body="1"), request(0.5, body="1"), request(1, body="2")], Verdict.FAIL),
        ([request(0, body="1"), request(0.5, body="1")], Verdict.FAIL),
        ([request(0, body="3")], Verdict.REVIEW),
        ([request(0, body="3"), attempt()], Verdict.REVIEW),  # it accepts, but does not act
        ([request(0, body="1"), request(1, body="2"), attempt(None)], Verdict.FAIL),
        ([request(0, body="3"), attempt(401)], Verdict.FAIL),
    ],
)
def test_a_client_that_shows_some_effects_must_show_all(
    seen: list[Request | Attempt], expected: Verdict
) -> None:
    effects: list[dict[str, Any]] = [
        {"that": f"It orders {one}.", "request": "*", "names": one, "times": 1} for one in (1, 2)
    ]
    if any(isinstance(entry, Attempt) for entry in seen):
        effects.append({"that": "It accepts.", "delivery": "*", "response": "2xx"})
    assert verdict(*seen, effects=tuple(effects)) is expected


@in_turn(("declared", "expected"), [((), Verdict.REVIEW), (("effects",), Verdict.FAIL)])
def test_a_client_that_shows_its_effects_must_have_one(
    declared: Sequence[str], expected: Verdict
) -> None:
    effect = {"that": "It orders 1.", "request": "*", "names": "1", "atLeast": 1}
    case = Case({"name": "order"}, (QUIET,), (CONTROL,), effects=(effect,), demands="effects")
    seen = Observations([request(0, body="3")])
    assert judge(case.demanded(declared), "must", seen).verdict is expected


@in_turn(
    ("verdicts", "expected"),
    [
        ("PASS PASS PASS", "PASS: Kept."),
        ("PASS NOT_APPLICABLE NOT_APPLICABLE", "PASS: Kept (1 of 3 cases; a, b not declared)."),
        ("PASS PASS NOT_APPLICABLE", "PASS: Kept (2 of 3 cases; b not declared)."),
        ("PASS NOT_APPLICABLE FAIL", "FAIL: Kept (2 of 3 cases; a not declared)."),
        ("NOT_APPLICABLE PASS PASS", "PASS: Kept."),  # it declares what the case goes without
        ("NOT_APPLICABLE NOT_APPLICABLE NOT_APPLICABLE", "NOT_APPLICABLE: Kept."),
    ],
)
def test_a_check_says_what_did_not_run(verdicts: str, expected: str) -> None:
    gates: list[dict[str, Any]] = [{"unless": "c"}, {"when": "a"}, {"when": "b"}]
    cases = [Case({}, (QUIET,), name=str(number), **gate) for number, gate in enumerate(gates)]
    reports = [
        CaseReport(case.name, CaseVerdict(Verdict(word), "Kept."))
        for case, word in zip(cases, verdicts.split(), strict=True)
    ]
    found = CheckReport(Check("c", "must", "It works.", "Errors", tuple(cases)), reports)
    assert f"{found.verdict.value}: {found.summary}" == expected


def test_the_worst_verdict_counts() -> None:
    order = [one.value for one in Verdict]
    assert order == ["FAIL", "ERROR", "INCONCLUSIVE", "REVIEW", "WARN", "PASS", "NOT_APPLICABLE"]
    assert worst([Verdict.PASS, Verdict.REVIEW, Verdict.WARN]) is Verdict.REVIEW
    assert worst([]) is Verdict.NOT_APPLICABLE
