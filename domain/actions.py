"""Actions: what scheduled steps do. The name of an action is the function's, with hyphens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, Literal

from invoice_sandbox.project.api import (
    KEYS,
    Percent,
    Record,
    Step,
    Trigger,
    all_endpoints,
    conflict,
    is_rotating,
    reject,
    scenario_action,
)

from . import disputes, erp, financing, payments, receipts, transitions
from .calendars import next_booking
from .compliance import SCREENING_CLEARED, SCREENING_HIT, set_party
from .credentials import revoke
from .dates import AT_DATE, trigger_at_date
from .errors import OUT_OF_BOUNDS
from .findings import load_findings, prepare_finding
from .fingerprint import registry_keys
from .invoices import (
    find_matches,
    limit_problems,
    load_invoice,
    move_invoice,
    prepare_duplicate_finding,
)
from .ledger import WHOLE
from .notices import ACKNOWLEDGED, NOTICE_ACKNOWLEDGED, NOTICE_SENT, SENT, advance_notice
from .offers import load_offer, make_default_offer, unfinished_offers
from .transitions import trigger_offer
from .verification import ACTION_REQUIRED, Code, State, verify
from .webhooks import rotate_secret

_EVERYTHING: Final = "*"
"""The scope of a workspace's own key, which no client can give to another key."""

Role = Literal["seller", "debtor"]
"""A party of an invoice."""

_ALL: Final = Percent(WHOLE)
_NO_INVOICE: Final = ""
_ALL_PARTNERS: Final[list[str]] = []


def process_erp_items(step: Step) -> None:
    """Register pushed invoices, but none that is invalid, settled, or registered already."""
    erp.process_items(step)


@scenario_action("start-verification")
def start_verification(step: Step, *, again: bool = False) -> None:
    """Start the verification of a Registered invoice, or start it again after it failed.

    Raises ApiError 404 and 409.
    """
    invoice = _invoice(step, "VerificationFailed" if again else "Registered")
    move_invoice(step, invoice, "start-verification")


@scenario_action(
    "verify", "fail-verification", "hold", "suspect-duplicate", events=(ACTION_REQUIRED,)
)
def finish_verification(step: Step) -> None:
    """Verify a VerificationPending invoice by the checklist. Raises ApiError."""
    verify(step, _invoice(step, "VerificationPending"))


@scenario_action("release-hold")
def release_hold(step: Step) -> None:
    """Release the hold of an invoice, unless a sanctions hit is in review, too. Raises ApiError."""
    invoice = _invoice(step, "OnHold")
    screening, _ = load_findings(step, invoice["id"]).get("sanctions_screening", ("", None))
    if screening != "ManualReview":
        transitions.trigger_invoice(step, invoice, "release-hold")


@scenario_action("request-financing")
def request_financing(
    step: Step,
    *,
    without_recourse: bool = False,
    partner_ids: list[str] = _ALL_PARTNERS,
    without_match: bool = False,
) -> None:
    """Request financing of a Verified invoice that is not past due. Raises ApiError.

    ``partner_ids`` are the only partners that are asked. A request ``without_match`` is one that no
    mandate takes, whatever the invoice is like.
    """
    invoice = _invoice(step, "Verified")
    financing.check_financeable(step, invoice)
    options: dict[str, Any] = {"recoursePreference": "NonRecourse"} if without_recourse else {}
    options |= {"partnerIds": partner_ids} if partner_ids else {}
    financing.request_financing(step, [invoice], options, without_match=without_match)


@scenario_action("receive-offer")
def make_offer(step: Step, *, partner_id: str = "", competing: bool = False) -> None:
    """Let a partner to which the request was routed make an offer on the invoice.

    A competing offer may also be on an invoice that has offers. Raises ApiError.
    """
    more = ("Offered",) if competing else ()
    invoice = _invoice(step, "FinancingRequested", *more)
    make_default_offer(step, invoice, partner_id)


@scenario_action()
def find(step: Step, *, item: Code, state: State, detail: str = "") -> None:
    """Set the result of a checklist item for every later verification. Raises ApiError."""
    invoice = load_invoice(step, step.subject)
    prepare_finding(step, invoice["id"], item, state, detail or None)


@scenario_action()
def find_similar_invoice(step: Step) -> None:
    """Send the invoice to manual review if it is similar to an earlier one. Raises ApiError.

    Without this action a similar invoice is only reported by ``generateFingerprint``.
    """
    invoice = load_invoice(step, step.subject)
    matches = find_matches(step.state, registry_keys(invoice), exclude=invoice["id"])
    if matches:
        prepare_duplicate_finding(step, invoice["id"], matches[0])


@scenario_action()
def transition(step: Step, *, trigger: Trigger) -> None:
    """Apply a trigger to the invoice; its request and offers move along. Raises ApiError."""
    invoice = load_invoice(step, step.subject)
    if not (trigger in payments.BY_BANK and _waits_for_bank(step, invoice, "transition")):
        disputes.trigger_with_reason(step, invoice, trigger)


@scenario_action()
def rotate_secrets(step: Step) -> None:
    """Give every webhook endpoint a new secret, unless its previous secret still signs."""
    for endpoint in all_endpoints(step.state):
        if not is_rotating(endpoint, step.now):  # never three secrets in use
            rotate_secret(step, endpoint)


@scenario_action("accept-offer")
def accept_best_offer(step: Step) -> None:
    """Accept the undecided offer with the highest net proceeds. Raises ApiError."""
    _invoice(step, "Offered")
    offers = unfinished_offers(step, step.subject)
    trigger_offer(step, max(offers, key=lambda offer: offer["netProceeds"]), "accept")


def pass_date(step: Step) -> None:
    """Do what a date of an invoice does, after what the scenario itself does at that instant.

    The arguments are ``invoiceId`` and ``date``: due, default, correction, or the deadline of a
    dispute.
    """
    known, invoice = step.arguments, load_invoice(step, step.arguments["invoiceId"])
    trigger = trigger_at_date(step, invoice, known["date"])
    if trigger is not None and "again" in known:
        disputes.trigger_with_reason(step, invoice, trigger)
    elif trigger is not None:
        step.schedule(AT_DATE, **known, again=True)


def end_validity(step: Step) -> None:
    """End the validity of an offer, unless it was decided. The argument is ``offerId``."""
    transitions.expire_offer(step, load_offer(step, step.arguments["offerId"]))


@scenario_action("fund-partially", "fund")
def pay_out(step: Step, *, percent: Percent = _ALL) -> None:
    """Pay out a part of the net proceeds, by default all that is left. Raises ApiError."""
    invoice = load_invoice(step, step.subject)
    if not _waits_for_bank(step, invoice, "pay-out"):
        payments.pay_out(step, invoice, percent)


@scenario_action(events=(payments.CREDIT_NOTE, payments.SETTLED))
def apply_credit_note(step: Step, *, percent: Percent) -> None:
    """Lower the debt by a part of the invoice's amount; without a debt the invoice ends.

    Raises ApiError.
    """
    invoice = _invoice(step, *payments.CREDITABLE)
    payments.apply_credit_note(step, invoice, percent)


@scenario_action("pay-partially", "pay")
def receive_payment(step: Step, *, percent: Percent = _ALL, excess: int = 0) -> None:
    """Let the debtor pay a part of the debt, by default all, and an excess in percent of it.

    Raises ApiError.
    """
    invoice = load_invoice(step, step.subject)
    if not _waits_for_bank(step, invoice, "receive-payment"):
        payments.receive_payment(step, invoice, percent, excess)


@scenario_action(events=(payments.MISDIRECTED,))
def misdirect_payment(step: Step, *, percent: Percent = _ALL) -> None:
    """Let the debtor pay a part of the debt, by default all, to the seller. Raises ApiError."""
    invoice = load_invoice(step, step.subject)
    if not _waits_for_bank(step, invoice, "misdirect-payment"):
        payments.misdirect_payment(step, invoice, percent, {"paidTo": receipts.SELLER})


@scenario_action(events=(payments.UNAPPLIED,))
def receive_unallocated_payment(step: Step, *, percent: Percent = _ALL) -> None:
    """Let the debtor pay a part of the debt, by default all, without naming the invoice.

    Raises ApiError.
    """
    invoice = load_invoice(step, step.subject)
    if not _waits_for_bank(step, invoice, "receive-unallocated-payment"):
        payments.misdirect_payment(step, invoice, percent, {"reference": _NO_INVOICE})


@scenario_action("pay-partially", "pay")
def apply_payment(step: Step) -> None:
    """Apply the newest unapplied payment to the debt; the seller passes on what it collected.

    Raises ApiError.
    """
    invoice = load_invoice(step, step.subject)
    payment = receipts.newest_payment(step, invoice, "unapplied")
    if not _waits_for_bank(step, invoice, "apply-payment"):
        payments.apply_payment(step, invoice, payment)


@scenario_action("return-payment")
def return_payment(step: Step) -> None:
    """Return to the debtor the newest payment that lowered the debt. Raises ApiError."""
    invoice = load_invoice(step, step.subject)
    if not _waits_for_bank(step, invoice, "return-payment"):
        payments.trigger_payment(step, invoice, "return-payment")


@scenario_action("settle")
def release_reserve(step: Step) -> None:
    """Pay the reserve to the seller, less credit notes and interest. Raises ApiError."""
    invoice = load_invoice(step, step.subject)
    if not _waits_for_bank(step, invoice, "release-reserve"):
        payments.release_reserve(step, invoice)


@scenario_action("default")
def declare_default(step: Step) -> None:
    """Declare the default when the recourse period of the offer has ended. Raises ApiError."""
    invoice = _invoice(step, "Overdue", "PartiallyPaid")
    days = payments.days_until_default(step, invoice)
    if days > 0:
        start = step.now.replace(hour=0, minute=0, second=0, microsecond=0)
        due = start + timedelta(days=days)
        step.state.schedule(due, "declare-default", step.arguments, step.scenario, place=step.place)
    else:
        transitions.trigger_invoice(step, invoice, "default")


@scenario_action(events=(NOTICE_SENT,))
def send_notice(step: Step) -> None:
    """Send the debtor the notice of assignment: it pays the partner from now on. ApiError."""
    advance_notice(step, load_invoice(step, step.subject), SENT)


@scenario_action(events=(NOTICE_ACKNOWLEDGED,))
def acknowledge_notice(step: Step) -> None:
    """Let the debtor acknowledge the notice of assignment. Raises ApiError."""
    advance_notice(step, load_invoice(step, step.subject), ACKNOWLEDGED)


@scenario_action("default-by-insolvency")
def declare_insolvency(step: Step) -> None:
    """Declare the debtor insolvent: all that it owes is in default. Raises ApiError."""
    set_party(step, load_invoice(step, step.subject)["debtorId"], insolvent=True)


@scenario_action(events=(SCREENING_HIT,))
def report_hit(step: Step, *, party: Role) -> None:
    """Let the sanctions screening of a party have a hit, which freezes its money. ApiError."""
    set_party(step, load_invoice(step, step.subject)[f"{party}Id"], screening="Hit")


@scenario_action(events=(SCREENING_CLEARED,))
def clear_hit(step: Step, *, party: Role) -> None:
    """Clear the hit of a party after its review, so that its money is free again. ApiError."""
    set_party(step, load_invoice(step, step.subject)[f"{party}Id"], screening="Clear")


@scenario_action("invoke-recourse", "write-off")
def resolve_default(step: Step) -> None:
    """Charge the debt to the seller, or without recourse to the partner. Raises ApiError."""
    payments.resolve_default(step, load_invoice(step, step.subject))


@scenario_action()
def revoke_calling_key(step: Step) -> None:
    """Revoke the key of the request, unless it is the workspace's own key."""
    metadata = step.state.get(KEYS, step.origin.actor_id or "")
    if metadata is not None and _EVERYTHING not in metadata["scopes"]:
        revoke(step, metadata)


@scenario_action()
def check_bounds(step: Step, *, pushed: bool = False) -> None:
    """Reject an invoice beyond the limits of a strict platform. Raises ApiError 400.

    The body is an invoice, or what an ERP system has ``pushed``.
    """
    body = step.arguments.get("body")
    if not isinstance(body, dict):
        return
    problems = list(erp.limit_problems_of_items(step, body) if pushed else limit_problems(body))
    if problems:
        raise reject(OUT_OF_BOUNDS, problems="; ".join(problems))


def _waits_for_bank(step: Step, invoice: Record, action: str) -> bool:
    """Schedule a payment again for the next business day, if banks book none of today any more."""
    opens = next_booking(step, invoice)
    if opens is not None:
        step.state.schedule(opens, action, step.arguments, step.scenario, place=step.place)
    return opens is not None


def _invoice(step: Step, *statuses: str) -> Record:
    """Return the invoice of the scenario run. Raises ApiError 404, 409 in another status."""
    invoice = load_invoice(step, step.subject)
    if invoice["status"] not in statuses:
        raise conflict(
            f"The invoice is {invoice['status']}, not {' or '.join(statuses)}",
            "The step is skipped.",
        )
    return invoice
