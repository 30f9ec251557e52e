"""What scheduled steps do. The name of an action is the function's, with hyphens."""

from __future__ import annotations

from typing import Any, Final

from invoice_sandbox.project.api import (
    KEYS,
    Record,
    Step,
    Trigger,
    reject,
    revoke_key,
    scenario_action,
)

from . import financing, ledger
from .audit import audit
from .bounds import bound_problems
from .consequences import pull, pull_offer
from .erp import ERP_ITEMS, SKIPPED, invoice_input, item_key
from .findings import note_finding
from .invoices import find_match, move_invoice, named_invoice, note_match, register
from .offers import unfinished_offers
from .verification import ACTION_REQUIRED, Code, State, verify
from .webhooks import rotate_all

_EVERYTHING: Final = "*"
"""The scope of a workspace's own key, which no client can give to another."""


async def process_erp_item(step: Step) -> None:
    """Register one pushed invoice, unless it is bad, settled, or known by its external id."""
    item, import_id = step.arguments["item"], step.arguments["importId"]
    target = ("erp_import", import_id)
    index = step.arguments["index"]
    problems = _problems(step, item)
    if problems:
        await audit(
            step, "erp_item.rejected", target, outcome="Failure", index=index, problems=problems
        )
        return
    erp_status = item.get("erpStatus")
    if isinstance(erp_status, str) and erp_status in SKIPPED:
        await audit(step, "erp_item.skipped", target, index=index, erpStatus=erp_status)
        return
    key = _key(step, item)
    if key is not None and await step.state.get(ERP_ITEMS, key) is not None:
        await audit(step, "erp_item.unchanged", target, index=index)
        return
    invoice = await register(step, invoice_input(item))
    if key is not None:
        await step.state.put(ERP_ITEMS, key, {"invoiceId": invoice["id"]})


@scenario_action("start-verification")
async def start_verification(step: Step, *, again: bool = False) -> None:
    """Begin to verify the invoice, if it is still Registered; or again, if that failed before.

    Raises ApiError 404 and 409.
    """
    invoice = await _invoice(step, "VerificationFailed" if again else "Registered")
    await move_invoice(step, invoice, "start-verification")


@scenario_action(
    "verify", "fail-verification", "hold", "suspect-duplicate", events=(ACTION_REQUIRED,)
)
async def finish_verification(step: Step) -> None:
    """Judge the invoice by the checklist, if it is VerificationPending. Raises ApiError."""
    await verify(step, await _invoice(step, "VerificationPending"))


@scenario_action("request-financing")
async def request_financing(
    step: Step, *, without_recourse: bool = False, partner_id: str = ""
) -> None:
    """Ask for financing of the invoice, if it is Verified and not past due. Raises ApiError.

    ``partner_id`` is the one partner that is asked, else all are that quote unasked.
    """
    invoice = await _invoice(step, "Verified")
    financing.check_financeable(step, invoice)
    wishes: dict[str, Any] = {"recoursePreference": "NonRecourse"} if without_recourse else {}
    wishes |= {"partnerIds": [partner_id]} if partner_id else {}
    await financing.request_financing(step, invoice, wishes)


@scenario_action("receive-offer")
async def make_offer(
    step: Step, *, partner_id: str = financing.DEMO_PARTNER, competing: bool = False
) -> None:
    """A partner makes an offer, if financing is requested.

    A competing offer may also be one more on an invoice that has some. Raises ApiError.
    """
    further = ("Offered",) if competing else ()
    invoice = await _invoice(step, "FinancingRequested", *further)
    await financing.offer_on(step, invoice, partner_id)


@scenario_action()
async def find(step: Step, *, item: Code, state: State, detail: str = "") -> None:
    """A verification of the invoice finds this from now on. Raises ApiError."""
    invoice = await named_invoice(step, step.subject)
    await note_finding(step, invoice["id"], item, state, detail or None)


@scenario_action()
async def find_resemblance(step: Step) -> None:
    """A verification suspects the invoice, if it resembles an earlier one. Raises ApiError.

    Outside of stories a resemblance is told with the fingerprint, and changes nothing.
    """
    invoice = await named_invoice(step, step.subject)
    match = await find_match(step.state, invoice, besides=invoice["id"])
    if match is not None:
        await note_match(step, invoice["id"], match)


@scenario_action()
async def transition(step: Step, *, trigger: Trigger) -> None:
    """The invoice moves by a trigger, and its request and offers with it. Raises ApiError."""
    await pull(step, await named_invoice(step, step.subject), trigger)


@scenario_action()
async def rotate_secrets(step: Step) -> None:
    """Every webhook endpoint gets a new secret, unless its last one is still in use."""
    await rotate_all(step)


@scenario_action("accept-offer")
async def accept_best_offer(step: Step) -> None:
    """The seller accepts the undecided offer with the highest net proceeds. Raises ApiError."""
    await _invoice(step, "Offered")
    offers = await unfinished_offers(step, step.subject)
    await pull_offer(step, max(offers, key=lambda one: one["netProceeds"]), "accept")


@scenario_action("fund-partially", "fund")
async def pay_out(step: Step, *, percent: int = ledger.WHOLE) -> None:
    """The partner pays out a part of the advance, by default all that is left. Raises ApiError."""
    await ledger.pay_out(step, await named_invoice(step, step.subject), percent)


@scenario_action(events=(ledger.CREDIT_NOTE,))
async def apply_credit_note(step: Step, *, percent: int) -> None:
    """A credit note takes a part of the invoice's amount off the debt. Raises ApiError."""
    invoice = await _invoice(step, "OfferAccepted", "PartiallyFunded", "Funded", "Overdue")
    await ledger.apply_credit_note(step, invoice, percent)


@scenario_action("pay-partially", "pay")
async def receive_payment(step: Step, *, percent: int = ledger.WHOLE) -> None:
    """The debtor pays a part of what is owed, by default all of it. Raises ApiError."""
    await ledger.receive_payment(step, await named_invoice(step, step.subject), percent)


@scenario_action("settle")
async def release_reserve(step: Step) -> None:
    """The seller gets the reserve, less what credit notes took off the debt. Raises ApiError."""
    await ledger.release_reserve(step, await named_invoice(step, step.subject))


@scenario_action("invoke-recourse", "write-off")
async def answer_for_default(step: Step) -> None:
    """The seller, or without recourse the partner, answers for the debt. Raises ApiError."""
    await ledger.answer_for_default(step, await named_invoice(step, step.subject))


@scenario_action()
async def revoke_calling_key(step: Step) -> None:
    """The key that the request was sent with is revoked, unless it is the workspace's own."""
    metadata = await step.state.get(KEYS, step.origin.actor_id or "")
    if metadata is not None and _EVERYTHING not in metadata["scopes"]:
        await revoke_key(step.state, metadata, step.timestamp)
        await audit(step, "api_key.revoked", ("api_key", metadata["id"]))


@scenario_action()
async def check_bounds(step: Step) -> None:
    """Refuse an invoice beyond the bounds of a strict platform. Raises ApiError 400."""
    body = step.arguments.get("body")
    problems = list(bound_problems(body)) if isinstance(body, dict) else []
    if problems:
        raise reject("out_of_bounds", problems="; ".join(problems))


async def _invoice(step: Step, *statuses: str) -> Record:
    """The invoice that the scenario is about. Raises ApiError 404, 409 in another status."""
    invoice = await named_invoice(step, step.subject)
    if invoice["status"] not in statuses:
        raise reject(
            "conflict",
            problem=f"The invoice is {invoice['status']}, not {' or '.join(statuses)}",
            advice="The step is left out.",
        )
    return invoice


def _problems(step: Step, item: Any) -> list[str]:
    if not isinstance(item, dict):
        return ["the item must be an object"]
    return list(step.problems("InvoiceInput", invoice_input(item)))


def _key(step: Step, item: dict[str, Any]) -> str | None:
    external_id = item.get("externalId")
    system = step.arguments["source"].get("system")
    if not isinstance(external_id, str):
        return None
    return item_key(system if isinstance(system, str) else None, external_id)
