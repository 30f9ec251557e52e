"""What must hold after every fault, and at the end.

- Every acknowledged invoice is there once, under its id.
- An event that was seen once stays as it was; event ids of a workspace have no gap.
- The ledger of an invoice balances, and its balances are the sums of its postings. At the end each
  invoice has gone through each step of its scenario once.
- Webhooks arrive in the order of their lane, at least once, each time the same.
"""

from __future__ import annotations

import http.client
import json
import time
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, Final

from domain.ledger import ACCOUNTS, CREDITS, DEBITS
from tests.chaos.clients import Client, Receiver, Tenant
from tests.chaos.servers import Deployment, NotNowError, exchange
from tests.support import PATIENCE

WHOLE_RUN: Final = "whole-run"
WRITES: Final = "manual"
"""A scenario in which nothing happens by itself."""

EVENTS: Final = {
    WRITES: ("invoice.registered",),
    WHOLE_RUN: (
        "invoice.registered",
        "invoice.verification_started",
        "invoice.verified",
        "invoice.funded",
        "invoice.paid",
        "invoice.settled",
    ),
}
"""The events about an invoice, in their order."""

_OF_OTHERS: Final = {WRITES: 0, WHOLE_RUN: 4}
"""How many events are about its financing request and its offer."""

_POSTINGS: Final = ["purchase", "pay-out", "payment", "settlement"]
_PAGE: Final = 100
_LEDGERS: Final = 5
"""Invoices whose ledgers are read after each fault, the newest. At the end all are."""


@dataclass
class Outcome:
    """What happened. ``problems``: by column of the table, what must not happen."""

    times: int = 0
    acknowledged: int = 0
    events: int = 0
    rejected: int = 0
    problems: defaultdict[str, list[str]] = field(default_factory=partial(defaultdict, list))
    slowest: float = 0

    LOST = "Lost"
    DUPLICATED = "Duplicated"
    DISORDERED = "Out of order"
    UNBALANCED = "Ledgers wrong"

    def add(self, other: Outcome) -> None:
        """What happened as well, at another time."""
        self.times += other.times
        self.acknowledged += other.acknowledged
        self.events += other.events
        self.rejected += other.rejected
        self.slowest = max(self.slowest, other.slowest)
        for name, several in other.problems.items():
            self.problems[name] += several

    @property
    def found(self) -> list[str]:
        """Everything that must not happen."""
        return [f"{name}: {one}" for name, several in self.problems.items() for one in several]


class Judge:
    """Compares what the clients and the receiver know with what the servers have."""

    def __init__(self, deployment: Deployment, clients: list[Client], receiver: Receiver) -> None:
        self.outcome = Outcome()
        self._deployment = deployment
        self._clients = clients
        self._receiver = receiver
        self._tenants = {one.tenant.id: one.tenant for one in clients}
        self._events: dict[str, dict[int, str]] = defaultdict(dict)
        self._checked: dict[int, int] = defaultdict(int)

    def look(self) -> None:
        """Check what can be checked while clients write."""
        for tenant in self._tenants.values():
            self._look_at_invoices(tenant)
            self._look_at_events(tenant)

    def conclude(self) -> Outcome:
        """Check everything, after the clients have stopped and the scenarios have ended."""
        for client in self._clients:
            self.outcome.acknowledged += len(client.ids)
            self.outcome.rejected += client.rejected
            self._add(Outcome.LOST, client.wrong)
        for tenant in self._tenants.values():
            self._wait_for_deliveries(tenant)
            self._look_at_events(tenant)
            self._compare_invoices(tenant)
            self._compare_events(tenant)
            if tenant.scenario == WHOLE_RUN:
                for invoice_id in self._ids(tenant).values():
                    self._look_at_ledger(tenant, invoice_id, is_settled=True)
        self._add(Outcome.DUPLICATED, self._receiver.different)
        self._add(Outcome.DISORDERED, self._receiver.disordered)
        return self.outcome

    # --- invoices

    def _ids(self, tenant: Tenant) -> dict[str, str]:
        clients = [one for one in self._clients if one.tenant is tenant]
        return {number: one for client in clients for number, one in list(client.ids.items())}

    def _look_at_invoices(self, tenant: Tenant) -> None:
        """Those that were acknowledged since the last time are among the newest."""
        known = list(self._ids(tenant).values())
        expected = set(known[-_PAGE:]) | set(self._unchecked(tenant))
        seen = set[str]()
        for page in self._pages(tenant):
            seen |= {one["id"] for one in page}
            if expected <= seen:
                break
        self._add(Outcome.LOST, sorted(expected - seen))
        if tenant.scenario == WHOLE_RUN:
            for invoice_id in known[-_LEDGERS:]:
                self._look_at_ledger(tenant, invoice_id)

    def _unchecked(self, tenant: Tenant) -> list[str]:
        found: list[str] = []
        for place, client in enumerate(self._clients):
            if client.tenant is tenant:
                ids = list(client.ids.values())
                found += ids[self._checked[place] :]
                self._checked[place] = len(ids)
        return found

    def _compare_invoices(self, tenant: Tenant) -> None:
        found = [one for page in self._pages(tenant) for one in page]
        times = Counter(one["invoiceNumber"] for one in found)
        ids = {one["invoiceNumber"]: one["id"] for one in found}
        expected = self._ids(tenant)
        self._add(Outcome.LOST, [n for n, one in expected.items() if ids.get(n) != one])
        self._add(Outcome.DUPLICATED, [n for n in expected if times[n] > 1])

    def _pages(self, tenant: Tenant) -> Any:
        """Pages of invoices, the newest first."""
        path: str | None = f"/api/invoices?limit={_PAGE}"
        while path is not None:
            found, link = self._get(tenant, path)
            yield found
            following = [one for one in (link or "").split(",") if 'rel="next"' in one]
            path = following[0].partition("<")[2].partition(">")[0] if following else None
            if path is not None and "://" in path:
                path = "/" + path.split("/", 3)[3]

    # --- events

    def _look_at_events(self, tenant: Tenant) -> None:
        """Those that were seen before are the same, and the numbers of the others follow."""
        seen = self._events[tenant.id]
        for limit in (_PAGE, 10 * _PAGE):
            found, _ = self._get(tenant, f"/sandbox/event-log?limit={limit}")
            numbers = [int(one["id"].rpartition("_")[2]) for one in found]
            if not seen or (numbers and numbers[-1] <= max(seen)):
                break
        expected = range(numbers[0], numbers[0] - len(numbers), -1) if numbers else range(0)
        self._add(Outcome.LOST, [f"event {one}" for one in set(expected) - set(numbers)])
        last = max(seen, default=0)
        if (numbers and numbers[0] < last) or (not numbers and seen):
            self._add(Outcome.LOST, [f"the events after {max(numbers, default=0)} of {tenant.id}"])
        for number, one in zip(numbers, found, strict=True):
            content = repr({name: value for name, value in one.items() if name != "deliveries"})
            if seen.setdefault(number, content) != content:
                self._add(Outcome.DUPLICATED, [one["id"]])

    def _compare_events(self, tenant: Tenant) -> None:
        """Every event about an invoice was recorded once, in the order of the scenario."""
        lane = self._receiver.lanes.get(tenant.lane, {})
        events = [json.loads(lane[number]) for number in sorted(lane)]
        self.outcome.events += len(events)
        happened: dict[str, list[str]] = defaultdict(list)
        for one in events:
            happened[one["data"]["id"]].append(one["type"])
        steps = EVENTS[tenant.scenario]
        for invoice_id in self._ids(tenant).values():
            types = happened.pop(invoice_id, [])
            self._add(Outcome.LOST, [f"{one} of {invoice_id}" for one in {*steps} - {*types}])
            again = [one for one, count in Counter(types).items() if count > 1]
            self._add(Outcome.DUPLICATED, [f"{one} of {invoice_id}" for one in again])
            if not again and types != [one for one in steps if one in types]:
                self._add(Outcome.DISORDERED, [f"{invoice_id}: {types}"])
        for subject, types in happened.items():
            again = [one for one, count in Counter(types).items() if count > 1]
            self._add(Outcome.DUPLICATED, [f"{one} of {subject}" for one in again])

    def _wait_for_deliveries(self, tenant: Tenant) -> None:
        """Wait until every event of every invoice was received."""
        each = len(EVENTS[tenant.scenario]) + _OF_OTHERS[tenant.scenario]
        expected, received = each * len(self._ids(tenant)), 0
        deadline = time.monotonic() + PATIENCE
        while received < expected and time.monotonic() < deadline:
            time.sleep(0.1)
            found = len(self._receiver.lanes.get(tenant.lane, {}))
            if found > received:
                received, deadline = found, time.monotonic() + PATIENCE
        if received < expected:
            self._add(Outcome.LOST, [f"{expected - received} deliveries to {tenant.lane}"])

    # --- ledgers

    def _look_at_ledger(self, tenant: Tenant, invoice_id: str, *, is_settled: bool = False) -> None:
        try:
            found, _ = self._get(tenant, f"/sandbox/invoices/{invoice_id}/ledger")
        except AssertionError as error:
            self._add(Outcome.LOST, [str(error)])
            return
        balances = {name: found["balances"][name] for name in ACCOUNTS}
        posted: dict[str, Decimal] = dict.fromkeys(ACCOUNTS, Decimal(0))
        for posting in found["postings"]:
            for entry in posting["entries"]:
                sign = 1 if entry["account"] in DEBITS else -1
                amount = Decimal(entry.get("debit", 0)) - Decimal(entry.get("credit", 0))
                posted[entry["account"]] += sign * amount
        steps = [one["step"] for one in found["postings"]]
        is_right = (
            posted == balances
            and sum(balances[name] for name in DEBITS) == sum(balances[name] for name in CREDITS)
            and steps == _POSTINGS[: len(steps)]
            and (not is_settled or (steps == _POSTINGS and not balances["receivable"]))
        )
        self._add(Outcome.UNBALANCED, [] if is_right else [f"{invoice_id}: {steps} {balances}"])

    # --- requests

    def _get(self, tenant: Tenant, path: str) -> tuple[Any, str | None]:
        """The data of a response and its header ``Link``, with amounts as Decimal."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with closing(self._deployment.any().connection()) as connection:
                    text, headers = exchange(connection, "GET", path, credential=tenant.key)
                    return json.loads(text, parse_float=Decimal)["data"], headers["Link"]
            except (OSError, http.client.HTTPException, NotNowError):
                assert time.monotonic() < deadline, f"{path} got no response"
                time.sleep(0.05)

    def _add(self, column: str, problems: list[str]) -> None:
        self.outcome.problems[column] += problems
