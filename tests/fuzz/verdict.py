"""What a fuzzing run says about the server: pure functions from the record to sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.fuzz.calls import Call

Contract = Mapping[str, frozenset[str]]
"""operationId to the success statuses it declares (``200``, ``2XX``)."""

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

REFUSALS: Final = frozenset({401, 403, 429})
"""What a schema-valid request with the valid key must not be answered."""

FAIR_REFUSALS: Final[Mapping[tuple[str, int], str]] = {
    ("login", 401): "its body is the credential, and a generated password is a wrong one",
}
"""The refusals that are right nevertheless: operationId and status to the reason.

Requests of checks that remove or replace the credential (``ignored_auth``) need no row: they do
not carry the valid key, and only those that do are judged.
"""

OUT_OF_REACH: Final[Mapping[str, str]] = {
    "putUpload": "its address is signed, and no generated signature is the right one",
    "receiveForListener": "its address holds a random token, and nobody listens meanwhile",
    "answerMessage": "nothing is delivered to a listener meanwhile that could be answered",
    "receiveWebhook": "its address holds a secret, and its messages are signed",
    "replayDelivery": "deliveries come of operations that are fuzzed apart from the levers",
    "enableEndpoint": "endpoints come of an operation that is fuzzed apart from the levers",
    "disableEndpoint": "endpoints come of an operation that is fuzzed apart from the levers",
    "rotateEndpointSecret": "endpoints come of an operation that is fuzzed apart from the levers",
}
"""The operations that a fuzzer cannot bring to succeed, each with the reason."""

TRACEBACK: Final = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Outcome:
    """How the two processes fared: Schemathesis's exit code, the server's if it ended, its log."""

    fuzzer_exit: int = 0
    server_exit: int | None = None
    log: str = ""


def contract_of(document: Mapping[str, Any]) -> Contract:
    """The operations of an OpenAPI document with the success statuses each declares."""
    return {
        operation.get("operationId", f"{method.upper()} {path}"): frozenset(
            status for status in map(str, operation.get("responses", {})) if status[0] == "2"
        )
        for path, item in document.get("paths", {}).items()
        for method, operation in item.items()
        if method in METHODS
    }


def complaints(contract: Contract, calls: Sequence[Call], outcome: Outcome) -> list[str]:
    """Every reason for which the run has failed, one sentence each; none means it passed."""
    return [
        *_processes(outcome),
        *([] if calls else ["Nothing was sent: no answer of any operation was recorded."]),
        *_server_errors(calls),
        *_refused(calls),
        *(_unreached(contract, calls) if calls else []),
    ]


def server_failed(outcome: Outcome) -> bool:
    """Whether the server's log is worth showing: it ended by itself or logged a traceback."""
    return outcome.server_exit is not None or TRACEBACK in outcome.log


def table(contract: Contract, calls: Sequence[Call]) -> str:
    """Operations by statuses with counts, as text; ``no key`` is any call without our key."""
    columns = ("positive", "negative", "probe", "no key")
    counts: Counter[tuple[str, str, int]] = Counter(
        (call.operation, call.mode if call.own_key else "no key", call.status) for call in calls
    )
    names = [*contract, *sorted({call.operation for call in calls} - set(contract))]
    rows: list[tuple[str, ...]] = [("operation", *columns)]
    rows += [(name, *(_cell(counts, name, column) for column in columns)) for name in names]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _cell(counts: Counter[tuple[str, str, int]], operation: str, column: str) -> str:
    return (
        _counted({s: n for (o, c, s), n in counts.items() if (o, c) == (operation, column)}) or "-"
    )


def _counted(numbers: Mapping[int, int]) -> str:
    return " ".join(f"{status}x{number}" for status, number in sorted(numbers.items()))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _processes(outcome: Outcome) -> Iterator[str]:
    if outcome.server_exit is not None:
        yield f"The server ended by itself with exit code {outcome.server_exit}."
    if TRACEBACK in outcome.log:
        yield "The server logged a traceback."
    if outcome.fuzzer_exit == 1:
        yield "Schemathesis found failures or errors: see its report above, with a curl for each."
    elif outcome.fuzzer_exit != 0:
        yield f"Schemathesis could not do its work: exit code {outcome.fuzzer_exit}."


def _server_errors(calls: Sequence[Call]) -> Iterator[str]:
    for (operation, status), found in _grouped(c for c in calls if c.status >= 500):
        yield f"{operation} answered {status} to {_times(found)}.{_first(found)}"


def _refused(calls: Sequence[Call]) -> Iterator[str]:
    wrong = (call for call in calls if _is_refused(call))
    for (operation, status), found in _grouped(wrong):
        yield (
            f"{operation} answered {status} to {_times(found)} that fit the schema and carried "
            f"the valid key.{_first(found)}"
        )


def _is_refused(call: Call) -> bool:
    fair = (call.operation, call.status) in FAIR_REFUSALS
    return call.mode == "positive" and call.own_key and call.status in REFUSALS and not fair


def _unreached(contract: Contract, calls: Sequence[Call]) -> Iterator[str]:
    answered: dict[str, Counter[int]] = {}
    for call in calls:
        if call.mode == "positive":
            answered.setdefault(call.operation, Counter())[call.status] += 1
    for operation, declared in contract.items():
        seen = answered.get(operation, Counter())
        if not declared:
            yield f"{operation} declares no success status."
        elif operation not in OUT_OF_REACH and not any(
            _declares(declared, status) for status in seen
        ):
            yield (
                f"{operation} never reached its success status {' or '.join(sorted(declared))}; "
                f"schema-valid requests were answered {_tally(seen)}."
            )


def _declares(declared: Iterable[str], status: int) -> bool:
    return any(word.upper() in (str(status), f"{status // 100}XX") for word in declared)


def _tally(seen: Counter[int]) -> str:
    return _counted(seen) or "nothing: none was sent"


def _grouped(calls: Iterable[Call]) -> list[tuple[tuple[str, int], list[Call]]]:
    groups: dict[tuple[str, int], list[Call]] = {}
    for call in calls:
        groups.setdefault((call.operation, call.status), []).append(call)
    return sorted(groups.items())


def _times(found: Sequence[Call]) -> str:
    return "1 request" if len(found) == 1 else f"{len(found)} requests"


def _first(found: Sequence[Call]) -> str:
    request = next((call.request for call in found if call.request), "")
    return f" First in phase {found[0].phase}: {request}" if request else ""
