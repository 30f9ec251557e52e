"""Random walks: many moves of a few invoices over HTTP, and what must be true after each walk.

``python -m tests.walks 500`` walks with the seeds 0 to 499; ``python -m tests.walks 1 --first 7``
repeats one walk.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from domain.fingerprint import minor_units
from domain.ledger import CREDITS, DEBITS
from domain.offers import END_EVENTS
from domain.reasons import DISPUTES
from invoice_sandbox.base.clock import instant_text, parse_instant
from invoice_sandbox.base.jsonio import dumps
from invoice_sandbox.scenarios.lifecycle import load_lifecycle
from tests.scenario_run import JSON, START, recorded_events
from tests.support import FROZEN, Running, serving

LIFECYCLE: Final = load_lifecycle(Path(__file__).parents[1] / "scenarios" / "lifecycle.yaml")
MACHINE: Final = LIFECYCLE.machines["invoice"]

STEPS: Final = 40
"""Moves of a walk."""

CASH_AND_RESULT: Final = {"debtorPaid", "sellerReceived", "sellerRepaid", "result"}
OWED: Final = {"OfferAccepted", "Defaulted", "Recourse"} | {
    one.from_ for one in MACHINE.transitions if one.trigger == "settle-by-dilution"
}
"""The statuses of an invoice that the debtor owes."""

LIVE: Final[dict[str, set[str]]] = {
    "FinancingRequested": set(),
    "Offered": {"Received"},
    "OfferAccepted": {"Accepted"},
    "Funded": {"Accepted"},
    "Withdrawn": set(),
    "Expired": set(),
    "Rejected": set(),
}
"""The statuses of the live offers on an invoice, by the status of the invoice."""

CURRENCIES: Final = ("EUR", "JPY", "KWD", "shells")
SELLERS: Final = ("docs_missing", "financed_elsewhere", "kyb_declined", "kyb_hold")
DEBTORS: Final = (*("disputes", "default", "dispute_resolved", "late", "sanctions", "unknown"),)
PARTNERS: Final = ("ptn_sandbox_alder", "ptn_sandbox_fir", "ptn_sandbox_everest")
SCENARIOS: Final = ("manual", "auto-progress", "full-lifecycle", "partial-payment-dilution")
SELDOM: Final = frozenset(
    {
        *("withdraw", "expire", "reject", "cancel-financing", "decline-financing"),
        *(
            "settle-by-dilution",
            "fail-verification",
            "expire-offers",
            "withdraw-offer",
            "suspect-duplicate",
            "hold",
            "dispute",
        ),
    }
)
"""Triggers that end a walk early, or hold it up."""

READY: Final = ("start-verification", "verify", "request-financing", "receive-offer")
"""What is often done to a new invoice, so that a walk gets far."""

FUNDED: Final = ("accept-offer", "fund")

IN_PART: Final = {
    "credit": "apply-credit-note",
    "pay-in-part": "receive-payment",
    "fund-in-part": "pay-out",
}
"""Scenarios of the walks with the action of their only step, a second after they are chosen."""

NEEDS: Final = {
    "credit": "[OfferAccepted, PartiallyFunded, Funded, PartiallyPaid, Overdue]",
    "pay-in-part": "[PartiallyFunded, Funded, PartiallyPaid, Overdue, Defaulted, Recourse]",
    "fund-in-part": "[OfferAccepted, PartiallyFunded]",
}


class ViolationError(AssertionError):
    """What is wrong after a walk, with its seed and its moves."""


@contextmanager
def walking_server() -> Iterator[Running]:
    """A server with a frozen clock and the scenarios of ``IN_PART``."""
    with TemporaryDirectory() as folder:
        for name, action in IN_PART.items():
            Path(folder, f"{name}.yaml").write_text(
                f"name: {name}\npurpose: A part of an amount moves.\n"
                f"needs: {{status: {NEEDS[name]}}}\nconditions: {{percent: 30}}\nsteps:\n"
                f"  - {{on: start, after: PT1S, do: {action}, with: {{percent: $percent}}}}\n"
            )
        with serving(replace(FROZEN, scenarios=Path(folder))) as server:
            yield server


@dataclass
class Walk:
    """One walk: the moves so far, and the ids of its invoices and requests."""

    seed: int
    client: httpx.Client
    chance: random.Random
    moves: list[str] = field(default_factory=list)
    invoices: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)

    def send(self, method: str, path: str, body: Any = None) -> Any:
        """The data of a response; None: the move is not possible. A 5xx is a violation."""
        content = None if body is None else dumps(body)
        response = self.client.request(method, path, content=content, headers=JSON)
        if method != "GET":
            shown = "" if content is None else content.decode()
            self.moves.append(f"{response.status_code} {method} {path} {shown}")
            self.statuses[response.status_code] += 1
        self.check(response.status_code < 500, response.text)
        found = json.loads(response.content, parse_float=Decimal, parse_int=Decimal)
        return found["data"] if response.is_success else None

    def check(self, is_right: bool, what: object) -> None:
        """Raise a ViolationError with the seed and the moves unless something is right."""
        if not is_right:
            lines = "\n  ".join(self.moves)
            raise ViolationError(f"seed {self.seed}: {what}\nmoves:\n  {lines}")

    def invoice(self) -> str:
        """One of the invoices, mostly the newest."""
        return self.chance.choice([*self.invoices, *self.invoices[-1:]])


# Moves ------------------------------------------------------------------------------------------


def register(walk: Walk) -> None:
    """Register an invoice; some parties are simulated, some numbers are there already."""
    chance = walk.chance
    seller, debtor = "org_seller_acme", "org_debtor_initech"
    if chance.random() < 0.15:
        seller = f"sim_seller_{chance.choice(SELLERS)}"
    if chance.random() < 0.3:
        debtor = f"sim_debtor_{chance.choice(DEBTORS)}"
    body = {
        "sellerId": seller,
        "debtorId": debtor,
        "invoiceNumber": f"W-{chance.choice([len(walk.invoices), chance.randrange(10**6)])}",
        "amount": Decimal(chance.randint(1, 10 ** chance.choice([1, 2, 4, 6, 9]))).scaleb(-2),
        "currency": chance.choice(CURRENCIES),
        "dueDate": f"2026-{chance.choice(['11-25', '12-10', '12-24', '12-31'])}",
    }
    if chance.random() < 0.2:
        del body["dueDate"]
    made = walk.send("POST", "/api/invoices", body)
    if made is not None:
        walk.invoices.append(made["id"])
        for name in chance.choice([(), READY[:2], READY, (*READY, *FUNDED[:1]), (*READY, *FUNDED)]):
            walk.send("POST", f"/sandbox/invoices/{made['id']}/transition", {"trigger": name})


def trigger(walk: Walk) -> None:
    """Trigger what the status of an invoice allows, or now and then anything."""
    path = f"/sandbox/invoices/{(invoice := walk.invoice())}/transition"
    legal = walk.send("GET", path)["triggers"]
    usual = [name for name in legal if name not in SELDOM]
    choices = [*usual * 6, *legal] if walk.chance.random() < 0.97 else MACHINE.legal["Funded"]
    if choices:
        walk.send("POST", path, {"trigger": walk.chance.choice(choices)})
        check_owed(walk, invoice)


def request(walk: Walk) -> None:
    """Request financing of one invoice or of two."""
    chance = walk.chance
    body: dict[str, Any] = {"invoiceIds": list({walk.invoice(), walk.invoice()})}
    if chance.random() < 0.3:
        body["requestedAdvanceRate"] = Decimal(chance.randint(1, 99)).scaleb(-2)
    if chance.random() < 0.3:
        body["recoursePreference"] = chance.choice(["NonRecourse", "LimitedRecourse", "Recourse"])
    walk.send("POST", "/api/financing-requests", body)


def offer(walk: Walk) -> None:
    """Make an offer on an invoice."""
    chance = walk.chance
    body: dict[str, Any] = {"invoiceId": walk.invoice(), "partnerId": chance.choice(PARTNERS)}
    if chance.random() < 0.5:
        body["recourse"] = chance.choice(["NonRecourse", "LimitedRecourse"])
    if chance.random() < 0.3:
        body["advanceRate"] = Decimal(chance.randint(1, 100)).scaleb(-2)
    if chance.random() < 0.2:
        body["validUntil"] = "2026-11-28T00:00:00Z"
    walk.send("POST", "/api/offers", body)


def decide(walk: Walk) -> None:
    """Accept, decline or withdraw an offer."""
    offers = walk.send("GET", f"/api/offers?invoiceId={walk.invoice()}")
    if offers:
        how = walk.chance.choice(["accept", "accept", "decline", "withdraw"])
        walk.send("POST", f"/sandbox/offers/{walk.chance.choice(offers)['id']}/{how}")


def move_a_part(walk: Walk) -> None:
    """Pay out, pay or credit a part of an invoice."""
    status = walk.send("GET", f"/api/invoices/{(invoice := walk.invoice())}")["status"]
    possible = [name for name in IN_PART if status in NEEDS[name]]
    if possible:
        percent = walk.chance.choice([1, 30, 99, 100, 100])
        name = walk.chance.choice(possible)
        body = {"name": name, "invoiceId": invoice, "with": {"percent": percent}}
        walk.send("PUT", "/sandbox/scenario", body)
        walk.send("POST", "/sandbox/clock/advance", {"by": "PT1S"})
        check_owed(walk, invoice)


def pay_amount(walk: Walk) -> None:
    """Pay an amount: a part, all, too much; for another invoice, to the seller, on another day."""
    chance, invoice = walk.chance, sold_invoice(walk)
    body: dict[str, Any] = {"amount": some_amount(walk, invoice, "receivable")}
    if chance.random() < 0.2:
        body["reference"] = chance.choice(["Thank you", "Invoices W-1 to W-9", ""])
    if chance.random() < 0.2:
        body["payer"] = "org_other"
    if chance.random() < 0.2:
        body["paidTo"] = chance.choice(["Seller", "Partner"])
    if chance.random() < 0.3:
        body["valueDate"] = f"2026-12-{chance.randint(1, 31):02}"
    walk.send("POST", f"/sandbox/invoices/{invoice}/payments", body)
    check_owed(walk, invoice)


def undo(walk: Walk) -> None:
    """Apply a payment to the debt, or return it, as a whole or in part."""
    chance, invoice = walk.chance, sold_invoice(walk)
    payments = walk.send("GET", f"/sandbox/invoices/{invoice}/payments")
    if payments:
        paid, how = chance.choice(payments), chance.choice(["apply", "return", "return"])
        body = {"amount": paid["unapplied"] or paid["applied"]} if how == "return" else None
        body = chance.choice([body, None]) if body and body["amount"] else None
        walk.send("POST", f"/sandbox/payments/{paid['id']}/{how}", body)
        check_owed(walk, invoice)


def move_an_amount(walk: Walk) -> None:
    """Credit an amount of an invoice, or pay out an amount of the advance."""
    invoice = sold_invoice(walk)
    what, account = walk.chance.choice([("credit-notes", "receivable"), ("pay-outs", "held")])
    body = {"amount": some_amount(walk, invoice, account)}
    walk.send("POST", f"/sandbox/invoices/{invoice}/{what}", body)
    check_owed(walk, invoice)


def sold_invoice(walk: Walk) -> str:
    """One of the invoices, and mostly one that was sold, if there is any."""
    for invoice in reversed(walk.invoices):
        ledger = walk.send("GET", f"/sandbox/invoices/{invoice}/ledger")
        if ledger["offerId"] is not None and walk.chance.random() < 0.6:
            return invoice
    return walk.invoice()


def some_amount(walk: Walk, invoice: str, account: str) -> Decimal:
    """An amount in the digits of the currency, mostly a part of what is in an account."""
    ledger = walk.send("GET", f"/sandbox/invoices/{invoice}/ledger")
    unit = Decimal(1).scaleb(-minor_units(ledger["currency"]))
    share = walk.chance.choice([Decimal(walk.chance.randint(0, 120)) / 100, Decimal(1)])
    part = (ledger["balances"][account] * share).quantize(unit)
    return Decimal(max(part, unit) if walk.chance.random() < 0.97 else part / 3)


def advance(walk: Walk) -> None:
    """Let days pass."""
    days = walk.chance.choice([0, 0, 1, 1, 4, 4, 30, 100])
    walk.send("POST", "/sandbox/clock/advance", {"by": f"P{days}DT{walk.chance.randrange(60)}M"})


def argue(walk: Walk) -> None:
    """Dispute an invoice, and mostly decide the dispute some days later."""
    chance, invoice = walk.chance, walk.invoice()
    path = f"/sandbox/invoices/{invoice}/transition"
    body: dict[str, Any] = {"trigger": "dispute"}
    if chance.random() < 0.6:
        reason: dict[str, Any] = {"code": chance.choice(list(DISPUTES))}
        reason |= {"evidence": ["Delivery note"]} if chance.random() < 0.5 else {}
        reason |= {"deadline": "2026-12-15"} if chance.random() < 0.5 else {}
        part = some_amount(walk, invoice, "receivable")
        body["reason"] = reason | ({"amount": part} if chance.random() < 0.7 else {})
    if walk.send("POST", path, body) is not None:
        walk.send("POST", "/sandbox/clock/advance", {"by": walk.chance.choice(["P1D", "P4D"])})
        usual = ["resolve-dispute"] * 2
        ways = [*usual, "uphold-dispute-before-funding", "uphold-dispute-after-funding"]
        walk.send("POST", path, {"trigger": walk.chance.choice(ways)})


MOVES: Final[dict[Callable[[Walk], None], int]] = {
    register: 2,
    trigger: 12,
    request: 1,
    offer: 3,
    decide: 2,
    move_a_part: 4,
    pay_amount: 5,
    undo: 4,
    move_an_amount: 2,
    argue: 2,
    advance: 2,
}
"""Each move with how often it comes."""


# What is true after a walk ----------------------------------------------------------------------


def walk_once(server: Running, seed: int) -> tuple[Walk, set[str]]:
    """Do the walk of a seed and check it; the walk, and the types of its events. ViolationError."""
    with server.client(server.new_workspace(seed)) as client:
        walk = Walk(seed, client, random.Random(seed))  # noqa: S311
        walk.send("PUT", "/sandbox/scenario", {"name": walk.chance.choice(SCENARIOS)})
        before = len(walk.send("GET", "/api/audit-log"))
        register(walk)
        for _ in range(STEPS):
            walk.chance.choices(list(MOVES), list(MOVES.values()))[0](walk)
        log = list(reversed(walk.send("GET", "/api/audit-log")[: -before or None]))
        events = recorded_events(server, client)
        for invoice in walk.invoices:
            check_ledger(walk, invoice, log)
            check_chain(walk, invoice, log)
        check_events(walk, log, events)
        check_offers(walk, events)
        return walk, {event["type"] for event in events}


def check_ledger(walk: Walk, invoice: str, log: list[Any]) -> None:
    """Check the equation of docs/domain.md, each posting, and what is owed or left at the end."""
    found = walk.send("GET", f"/sandbox/invoices/{invoice}/ledger")
    balances = found["balances"]
    debit, credit = (sum(balances[name] for name in side) for side in (DEBITS, CREDITS))
    walk.check(debit == credit, f"{invoice}: debits {debit}, credits {credit}")
    negative = {name for name, amount in balances.items() if amount < 0 and name != "result"}
    walk.check(not negative, f"{invoice}: negative {negative}")
    posted = dict.fromkeys(balances, Decimal(0))
    for posting in found["postings"]:
        amounts = [_posted(entry) for entry in posting["entries"]]
        walk.check(sum(amounts) == 0, f"{invoice}: {posting}")
        for entry, amount in zip(posting["entries"], amounts, strict=True):
            posted[entry["account"]] += amount if entry["account"] in DEBITS else -amount
    walk.check(posted == balances, f"{invoice}: postings {posted}, balances {balances}")
    check_payments(walk, invoice, balances)
    times = [parse_instant(posting["at"]) for posting in found["postings"]]
    walk.check(times == sorted(times), f"{invoice}: order of postings {times}")
    status = walk.send("GET", f"/api/invoices/{invoice}")["status"]
    if status in OWED:
        owed = check_owed(walk, invoice)
        audited = _owed(invoice, log)
        walk.check(audited in {None, owed}, f"{invoice}: {owed} is owed, audited {audited}")
    if status in MACHINE.terminal:
        open_ = {name for name, amount in balances.items() if amount} - CASH_AND_RESULT
        walk.check(not open_, f"{invoice}: ended with {open_}")


def check_payments(walk: Walk, invoice: str, balances: dict[str, Decimal]) -> None:
    """Check that the payments are what the ledger has: applied, and not applied."""
    payments = walk.send("GET", f"/sandbox/invoices/{invoice}/payments")
    parts = {name: sum(paid[name] for paid in payments) for name in ("applied", "unapplied")}
    kept = balances["unapplied"] - balances["collectedBySeller"]
    applied = balances["debtorPaid"] - kept
    walk.check(parts["unapplied"] == balances["unapplied"], f"{invoice}: unapplied {parts}")
    walk.check(parts["applied"] == applied, f"{invoice}: applied {applied}, payments {parts}")
    for paid in payments:
        whole = paid["applied"] + paid["unapplied"] + paid["returned"]
        walk.check(whole == paid["amount"], f"{invoice}: {paid}")


def check_owed(walk: Walk, invoice: str) -> Decimal:
    """Check that something is owed where a debtor has to pay, and return it."""
    status = walk.send("GET", f"/api/invoices/{invoice}")["status"]
    ledger = walk.send("GET", f"/sandbox/invoices/{invoice}/ledger")
    owed: Decimal = ledger["balances"]["receivable"]
    walk.check(owed > 0 or status not in OWED, f"{invoice} is {status}, and nothing is owed")
    return owed


def _owed(invoice: str, log: list[Any]) -> Any:
    """What the debtor owed after the last payment or credit note of the accepted offer."""
    owed = None
    for entry in log:
        if any(target["id"] == invoice for target in entry["targets"]):
            accepted = entry["action"] == "offer.accepted"
            owed = None if accepted else entry["metadata"].get("owed", owed)
    return owed


def _posted(entry: Any) -> Decimal:
    return Decimal(entry.get("debit", 0) - entry.get("credit", 0))


def check_chain(walk: Walk, invoice: str, log: list[Any]) -> None:
    """Check that each audited move of an invoice begins where the one before it ended."""
    about = {"type": "invoice", "id": invoice}
    moves = [entry for entry in log if about in entry["targets"] and "to" in entry["metadata"]]
    status = MACHINE.initial
    for entry in moves:
        begins = entry["metadata"].get("from", MACHINE.initial)
        walk.check(begins == status, f"{invoice}: {entry['action']} from {begins}, was {status}")
        status = entry["metadata"]["to"]
    now = walk.send("GET", f"/api/invoices/{invoice}")["status"]
    walk.check(status == now, f"{invoice}: the audit log ends with {status}, it is {now}")


def check_events(walk: Walk, log: list[Any], events: list[Any]) -> None:
    """Check that the audit log has the same events in the same order, and no time goes back."""
    audited = [
        (entry["occurredAt"], entry["action"])
        for entry in log
        if entry["action"] in LIFECYCLE.events
    ]
    recorded = [(event["timestamp"], event["type"]) for event in events]
    differs = [pair for pair in zip(audited, recorded, strict=False) if pair[0] != pair[1]]
    walk.check(
        audited == recorded,
        f"{len(audited)} audited, {len(recorded)} recorded; first difference: {differs[:1]}",
    )
    times = [parse_instant(at) for at, _ in recorded]
    walk.check(times == sorted(times), "the order of events")
    walk.check(all(at >= parse_instant(START) for at in times), instant_text(times[0]))


def check_offers(walk: Walk, events: list[Any]) -> None:
    """Check that each offer that has ended has the event of its end, once, and nothing else has."""
    ends = Counter(
        (event["data"]["id"], event["type"])
        for event in events
        if event["type"] in END_EVENTS.values()
    )
    ended = {about for about, _ in ends}
    for invoice in walk.invoices:
        offers = walk.send("GET", f"/api/offers?invoiceId={invoice}")
        live = {one["status"] for one in offers} & {"Received", "Accepted"}
        status = walk.send("GET", f"/api/invoices/{invoice}")["status"]
        walk.check(LIVE.get(status, live) == live, f"{invoice} is {status}, its offers {live}")
        for made in offers:
            found = {type_: n for (about, type_), n in ends.items() if about == made["id"]}
            end = END_EVENTS.get(made["status"])
            wanted = {} if end is None else {end: 1}
            walk.check(found == wanted, f"{made['id']} is {made['status']}, its ends: {found}")
            ended -= {made["id"]}
    walk.check(not ended, f"ends of offers that are about {ended}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """Walk as often as asked for; every violation is printed with its seed and its moves."""
    parser = argparse.ArgumentParser(description="Random walks over HTTP.")
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    types, statuses, violations = set[str](), Counter[int](), 0
    with walking_server() as server:
        for seed in range(options.first, options.first + options.count):
            try:
                walk, seen = walk_once(server, seed)
            except ViolationError as violation:
                say(f"{violation}")
                violations += 1
            else:
                types |= seen
                statuses += walk.statuses
    answers = ", ".join(f"{count} with {status}" for status, count in sorted(statuses.items()))
    say(f"{options.count} walks, {violations} violations; moves: {answers}")
    say(f"{len(types)} of {len(LIFECYCLE.events)} types of events; never:")
    say("  " + (", ".join(sorted(LIFECYCLE.events.keys() - types)) or "none"))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
