"""Two bundles side by side: exchanges aligned by operation, with all their differences.

Ids, idempotency keys and instants differ between any two runs. An id of the second run that stands
where the first has another counts as that one from then on; instants are not compared.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any, Final

from invoice_sandbox.bundles.archive import Bundle
from invoice_sandbox.bundles.compare import Comparison, differences, response_of
from invoice_sandbox.bundles.saving import CONTRACT, DELIVERIES, JOURNAL, RECORDING, START
from invoice_sandbox.state import Record

_KEY: Final = "idempotency-key"
_ID: Final = re.compile(
    r"\b[a-z][a-z0-9]*(?:_[a-z]+)*_[a-z0-9]{8}_[0-9]{4,}\b"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
)
"""An id of a record, or a UUID."""

_NOT_COMPARED: Final = re.compile(
    r"accept-encoding|authorization|connection|content-length|cookie|date|host|ratelimit.*"
    r"|user-agent|x-api-key|x-request-id"
)
"""Headers that differ without meaning, or whose value is not in a bundle."""

_ENVIRONMENT: Final = ("contract", "scenario", "seed", "clock")


@dataclass(frozen=True)
class Side:
    """An exchange in one run: the entry of the journal, and the real seconds since the exchange
    before it; None: it is the first."""

    entry: Record
    after: float | None

    @property
    def status(self) -> int | None:
        """The status of the response; None: the connection was reset."""
        found: int | None = self.entry.get("status")
        return found


@dataclass(frozen=True)
class Row:
    """An exchange of two runs, of which one may not have it, and the differences: the place, the
    value in the first run, and that in the second. ``case`` is that of an acceptance run."""

    title: str
    first: Side | None
    second: Side | None
    differences: tuple[tuple[str, str, str], ...] = ()
    case: str = ""

    @property
    def is_equal(self) -> bool:
        """True if both runs have it, without a difference."""
        return None not in (self.first, self.second) and not self.differences


@dataclass(frozen=True)
class Aligned:
    """Two runs side by side: the exchanges, the webhooks by type of event with the result of each
    attempt, and what is equal of contract, scenario, seed and clock."""

    rows: tuple[Row, ...]
    webhooks: tuple[tuple[str, str, str], ...]
    equal: Mapping[str, bool]

    @property
    def changed(self) -> int:
        """The number of exchanges that differ, or that only one run has."""
        return sum(not row.is_equal for row in self.rows)

    @property
    def summary(self) -> str:
        """The differences, and if the environment may be their reason."""
        others = [name for name, is_equal in self.equal.items() if not is_equal]
        counted = f"{self.changed} of {len(self.rows)} exchanges differ."
        if others:
            return f"{counted} Not equal: {', '.join(others)}. A difference may come from there."
        return (
            f"{counted} Contract, scenario, seed and clock are equal, "
            "so every difference is the client's."
        )


def align(first: Bundle, second: Bundle) -> Aligned:
    """Compare two bundles, of acceptance runs case by case. Raises BundleError."""
    rows: list[Row] = []
    webhooks: list[tuple[str, str, str]] = []
    equal = dict.fromkeys(_ENVIRONMENT, True)
    ones, others = first.workspaces, second.workspaces
    for case in dict.fromkeys((*ones, *others)):
        pair = ones.get(case), others.get(case)
        one, other = ([] if bundle is None else _exchanges(bundle) for bundle in pair)
        rows += aligned_rows(one, other, case)
        webhooks += _webhooks(*pair)
        if pair[0] is not None and pair[1] is not None:
            environments = _environment(pair[0]), _environment(pair[1])
            for name, *values in zip(_ENVIRONMENT, *environments, strict=True):
                equal[name] = equal[name] and values[0] == values[1]
    return Aligned(tuple(rows), tuple(webhooks), equal)


def aligned_rows(first: Sequence[Record], second: Sequence[Record], case: str = "") -> list[Row]:
    """Align the entries of two journals by operation, in their order."""
    ones, others = list(_sides(first)), list(_sides(second))
    titles = [[_title(side.entry) for side in sides] for sides in (ones, others)]
    known, rows = _Known(), []
    for index, other_index in _pairs(*titles):
        one = None if index is None else ones[index]
        other = None if other_index is None else others[other_index]
        rows.append(_row(one, other, known, case))
    return rows


def _pairs(first: Sequence[str], second: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """Yield the indexes of equal texts in two sequences; None: only the other has one."""
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        if tag == "equal":
            yield from zip(range(start, end), range(other_start, other_end), strict=True)
        else:
            yield from ((index, None) for index in range(start, end))
            yield from ((None, index) for index in range(other_start, other_end))


def _row(one: Side | None, other: Side | None, known: _Known, case: str) -> Row:
    there = one or other
    title = "" if there is None else _title(there.entry)
    if one is None or other is None:
        return Row(title, one, other, case=case)
    known.learn(one.entry, other.entry)
    values = _compared(one.entry), known.renamed(_compared(other.entry))
    return Row(title, one, other, tuple(differences(*values, "")), case)


@dataclass
class _Known:
    """The ids of the first run by those of the second that stand in their place."""

    ids: dict[str, str] = field(default_factory=dict)

    def learn(self, one: Record, other: Record) -> None:
        """Learn from two entries of the same operation, up to where their ids have other types."""
        pairs = zip(_ids(one), _ids(other), strict=False)
        for wanted, found in pairs:
            if _type(wanted) != _type(found):
                return
            if found not in self.ids and wanted not in self.ids.values():
                self.ids[found] = wanted

    def renamed(self, value: Any) -> Any:
        """A value of the second run with the ids of the first."""
        if isinstance(value, Mapping):
            return {name: self.renamed(member) for name, member in value.items()}
        if isinstance(value, list):
            return [self.renamed(item) for item in value]
        if not isinstance(value, str):
            return value
        whole = self.ids.get(value, value)
        return _ID.sub(lambda match: self.ids.get(match[0], match[0]), whole)


def _ids(entry: Record) -> list[str]:
    """The idempotency key of an exchange, then its ids in the order of their places."""
    headers = dict(entry.get("request", {}).get("headers", ()))
    bodies = [(entry.get(name) or {}).get("body") or "" for name in ("request", "response")]
    found = [match[0] for text in (entry.get("path", ""), *bodies) for match in _ID.finditer(text)]
    return [headers.get(_KEY, "-"), *found]


def _type(name: str) -> str:
    """The type of an id, such as ``inv_sandbox``; nothing for a UUID or a key."""
    return name.rpartition("_")[0].rpartition("_")[0] if _ID.fullmatch(name) else ""


def _compared(entry: Record) -> Any:
    """The members of an exchange that are compared."""
    sent = {"response": entry.get("request", {})}
    value = {
        "path": entry.get("path"),
        "request": _without_noise(response_of(sent)),
        "response": _without_noise(response_of(entry)),
    }
    return Comparison(without_times=True).plain(value)


def _without_noise(message: Record) -> Record:
    headers = {
        name: text for name, text in message["headers"].items() if not _NOT_COMPARED.fullmatch(name)
    }
    return {**message, "headers": headers}


def _title(entry: Record) -> str:
    """The method and the path of an exchange, whose ids are not shown."""
    path = str(entry.get("path", "")).partition("?")[0]
    return f"{entry.get('method', '')} {_ID.sub('{id}', path)}"


def _exchanges(bundle: Bundle) -> list[Record]:
    return [entry for entry in bundle.lines(JOURNAL) if entry.get("isListed", True)]


def _sides(entries: Sequence[Record]) -> Iterator[Side]:
    before: datetime | None = None
    for entry in entries:
        text = entry.get("receivedAt")
        now = datetime.fromisoformat(text) if isinstance(text, str) else None
        after = None if before is None or now is None else (now - before).total_seconds()
        yield Side(entry, after)
        before = now or before


def _webhooks(*bundles: Bundle | None) -> list[tuple[str, str, str]]:
    """The types of events in their order, with the results of the attempts in each run."""
    ones, others = ([] if bundle is None else list(_results(bundle)) for bundle in bundles)
    rows = []
    for index, other_index in _pairs([type_ for type_, _ in ones], [type_ for type_, _ in others]):
        type_, one = ("", "-") if index is None else ones[index]
        other_type, other = ("", "-") if other_index is None else others[other_index]
        rows.append((type_ or other_type, one, other))
    return rows


def _results(bundle: Bundle) -> Iterator[tuple[str, str]]:
    for delivery in bundle.json(DELIVERIES):
        attempts = delivery.get("attempts", ())
        results = [str(made.get("responseStatus") or made.get("error")) for made in attempts]
        yield delivery.get("eventType", ""), ", ".join(results) or "not sent"


def _environment(bundle: Bundle) -> tuple[Any, ...]:
    """The digest of the contract, the scenario, the seed and the clock at the beginning."""
    start, recording = bundle.json(START), bundle.json(RECORDING)
    clock = start["clock"]
    instant = clock.get("at") if clock.get("mode") == "frozen" else None
    return (
        _digest(bundle.json(CONTRACT)),
        start["scenario"],
        recording["workspace"]["seed"],
        (clock.get("mode"), instant),
    )


def _digest(contract: Any) -> bytes:
    """The digest of a contract without the addresses of its server."""
    members = dict(contract) if isinstance(contract, Mapping) else {"contract": contract}
    members.pop("servers", None)
    return hashlib.sha256(json.dumps(members, sort_keys=True).encode()).digest()
