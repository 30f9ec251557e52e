"""Judges a fuzzing run: pure functions from the record to findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from invoice_sandbox.fuzzing.contract import Contract, Operation
from invoice_sandbox.fuzzing.record import Call, Finding

ERRORS: Final = frozenset({401, 403, 429})
"""Statuses that a schema-valid request with a valid key must not get."""

TRACEBACK: Final = "Traceback (most recent call last)"

_UNAUTHORIZED: Final = 401
_ANY_WRONG: Final = 500


@dataclass(frozen=True)
class Outcome:
    """The results of the two processes: exit code and output of Schemathesis; exit code of the
    server if it ended by itself, and its log. A server that was not started here has neither."""

    fuzzer_exit: int = 0
    fuzzer_output: str = ""
    server_exit: int | None = None
    server_log: str = ""


def findings(
    contract: Contract, calls: Sequence[Call], found: Sequence[Finding], outcome: Outcome
) -> list[Finding]:
    """Every reason why the run failed: the findings of Schemathesis, then those it cannot see.

    ``contract`` has the fuzzed operations; a run that proved nothing about one of them has failed.
    No findings means that it passed.
    """
    return [
        *found,
        *_processes(outcome, bool(found)),
        *([] if calls else [Finding(None, "No request was sent")]),
        *_server_errors(calls, found),
        *_rejected(contract, calls),
        *(_unreached(contract, calls) if calls else []),
    ]


def counts(calls: Iterable[Call]) -> dict[str, dict[str, dict[int, int]]]:
    """Operation to type of request to status to number; ``no key`` is a call without our key."""
    numbers: dict[str, dict[str, Counter[int]]] = {}
    for call in calls:
        type_ = call.mode if call.own_key else "no key"
        types = numbers.setdefault(call.operation, {})
        types.setdefault(type_, Counter())[call.status] += 1
    return {
        name: {type_: dict(sorted(one.items())) for type_, one in types.items()}
        for name, types in numbers.items()
    }


def table(contract: Contract, calls: Sequence[Call]) -> str:
    """Operations by statuses with counts, as text."""
    columns = ("positive", "negative", "probe", "no key")
    numbers = counts(calls)
    rows: list[tuple[str, ...]] = [("operation", *columns)]
    for name in [*contract, *sorted(set(numbers) - set(contract))]:
        cells = (_counted(numbers.get(name, {}).get(column, {})) for column in columns)
        rows.append((name, *(cell or "-" for cell in cells)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(_line(row, widths) for row in rows)


def _counted(numbers: Mapping[int, int]) -> str:
    return " ".join(f"{status}x{number}" for status, number in sorted(numbers.items()))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _processes(outcome: Outcome, has_found: bool) -> Iterator[Finding]:
    if outcome.server_exit is not None:
        yield Finding(
            None,
            f"The server ended by itself with exit code {outcome.server_exit}",
            outcome.server_log,
        )
    elif TRACEBACK in outcome.server_log:
        yield Finding(None, "The server logged a traceback", outcome.server_log)
    is_explained = outcome.fuzzer_exit in (1, 2) and has_found
    if outcome.fuzzer_exit != 0 and not is_explained:
        title = f"Schemathesis failed with exit code {outcome.fuzzer_exit}"
        yield Finding(None, title, outcome.fuzzer_output)


def _server_errors(calls: Sequence[Call], found: Sequence[Finding]) -> Iterator[Finding]:
    """Server errors of operations without findings of Schemathesis."""
    reported = {one.operation for one in found}
    wrong = (call for call in calls if call.status >= _ANY_WRONG and call.operation not in reported)
    for (operation, status), group in _grouped(wrong):
        yield _finding(operation, f"It returned {status} for {_times(group)}", group)


def _rejected(contract: Contract, calls: Sequence[Call]) -> Iterator[Finding]:
    wrong = (call for call in calls if _is_rejected(contract.get(call.operation), call))
    for (operation, status), group in _grouped(wrong):
        title = f"It returned {status} for {_times(group)}, schema-valid and with a valid key"
        yield _finding(operation, title, group)


def _is_rejected(operation: Operation | None, call: Call) -> bool:
    # A public operation, such as a login, may reject the content of the request.
    is_correct = call.status == _UNAUTHORIZED and operation is not None and operation.is_public
    return call.mode == "positive" and call.own_key and call.status in ERRORS and not is_correct


def _unreached(contract: Contract, calls: Sequence[Call]) -> Iterator[Finding]:
    statuses: dict[str, Counter[int]] = {}
    for call in calls:
        if call.mode == "positive":
            statuses.setdefault(call.operation, Counter())[call.status] += 1
    for name, operation in contract.items():
        seen = statuses.get(name, Counter())
        if not operation.successes:
            yield Finding(name, "It declares no success status")
        elif _can_be_reached(contract, operation) and not any(map(operation.declares, seen)):
            wanted = " or ".join(sorted(operation.successes))
            tally = _counted(seen) or "none: no request was sent"
            text = f"Responses to schema-valid requests: {tally}."
            yield Finding(name, f"It never returned its success status {wanted}", text)


def _can_be_reached(contract: Contract, operation: Operation) -> bool:
    # Without the operations that link to it, its identifiers are unknown.
    is_isolated = bool(operation.linked_from) and not operation.linked_from & set(contract)
    return operation.unreachable is None and not is_isolated


def _grouped(calls: Iterable[Call]) -> list[tuple[tuple[str, int], list[Call]]]:
    groups: dict[tuple[str, int], list[Call]] = {}
    for call in calls:
        groups.setdefault((call.operation, call.status), []).append(call)
    return sorted(groups.items())


def _times(group: Sequence[Call]) -> str:
    return "1 request" if len(group) == 1 else f"{len(group)} requests"


def _finding(operation: str, title: str, group: Sequence[Call]) -> Finding:
    first = next((call for call in group if call.request), group[0])
    requests = (first.request,) if first.request else ()
    return Finding(operation, title, phase=first.phase, requests=requests)
