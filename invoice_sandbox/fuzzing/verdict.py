"""What a fuzzing run says about the server: pure functions from the record to findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from invoice_sandbox.fuzzing.contract import Contract, Operation
from invoice_sandbox.fuzzing.record import Call, Finding

ERRORS: Final = frozenset({401, 403, 429})
"""What a schema-valid request with a valid key must not be answered."""

TRACEBACK: Final = "Traceback (most recent call last)"

_UNAUTHORIZED: Final = 401
_ANY_WRONG: Final = 500


@dataclass(frozen=True)
class Outcome:
    """How the two processes fared: Schemathesis's exit code and what it printed; the server's exit
    code if it ended by itself, and its log. Of a server that is not ours there is neither."""

    fuzzer_exit: int = 0
    fuzzer_output: str = ""
    server_exit: int | None = None
    server_log: str = ""


def findings(
    contract: Contract, calls: Sequence[Call], found: Sequence[Finding], outcome: Outcome
) -> list[Finding]:
    """Every reason for which the run has failed: what Schemathesis found, then what it cannot see.

    ``contract`` has the operations that were to be fuzzed; a run that proved nothing of one of them
    has failed. None means it passed.
    """
    return [
        *found,
        *_processes(outcome, bool(found)),
        *([] if calls else [Finding(None, "Nothing was sent")]),
        *_server_errors(calls, found),
        *_refused(contract, calls),
        *(_unreached(contract, calls) if calls else []),
    ]


def counts(calls: Iterable[Call]) -> dict[str, dict[str, dict[int, int]]]:
    """Operation to kind of request to status to number; ``no key`` is any call without our key."""
    numbers: dict[str, dict[str, Counter[int]]] = {}
    for call in calls:
        kind = call.mode if call.own_key else "no key"
        kinds = numbers.setdefault(call.operation, {})
        kinds.setdefault(kind, Counter())[call.status] += 1
    return {
        name: {kind: dict(sorted(one.items())) for kind, one in kinds.items()}
        for name, kinds in numbers.items()
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
        title = f"Schemathesis could not do its work: exit code {outcome.fuzzer_exit}"
        yield Finding(None, title, outcome.fuzzer_output)


def _server_errors(calls: Sequence[Call], found: Sequence[Finding]) -> Iterator[Finding]:
    """The errors of operations of which Schemathesis has found nothing wrong."""
    told = {one.operation for one in found}
    wrong = (call for call in calls if call.status >= _ANY_WRONG and call.operation not in told)
    for (operation, status), group in _grouped(wrong):
        yield _finding(operation, f"It answered {status} to {_times(group)}", group)


def _refused(contract: Contract, calls: Sequence[Call]) -> Iterator[Finding]:
    wrong = (call for call in calls if _is_refused(contract.get(call.operation), call))
    for (operation, status), group in _grouped(wrong):
        title = (
            f"It answered {status} to {_times(group)} that fit the schema and carried a valid key"
        )
        yield _finding(operation, title, group)


def _is_refused(operation: Operation | None, call: Call) -> bool:
    # What needs no key, and is a login for example, refuses by what the request says.
    is_fair = call.status == _UNAUTHORIZED and operation is not None and operation.is_public
    return call.mode == "positive" and call.own_key and call.status in ERRORS and not is_fair


def _unreached(contract: Contract, calls: Sequence[Call]) -> Iterator[Finding]:
    answered: dict[str, Counter[int]] = {}
    for call in calls:
        if call.mode == "positive":
            answered.setdefault(call.operation, Counter())[call.status] += 1
    for name, operation in contract.items():
        seen = answered.get(name, Counter())
        if not operation.successes:
            yield Finding(name, "It declares no success status")
        elif _can_be_reached(contract, operation) and not any(map(operation.declares, seen)):
            wanted = " or ".join(sorted(operation.successes))
            tally = _counted(seen) or "nothing: none was sent"
            text = f"Schema-valid requests were answered {tally}."
            yield Finding(name, f"It never reached its success status {wanted}", text)


def _can_be_reached(contract: Contract, operation: Operation) -> bool:
    # Without those that link to it, the identifiers that it needs are nowhere to be had.
    is_cut_off = bool(operation.linked_from) and not operation.linked_from & set(contract)
    return operation.unreachable is None and not is_cut_off


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
