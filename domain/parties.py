"""Parties: what reviews found out about a seller or a debtor, which holds for all of its invoices.

A KYB that a reviewer passed is valid for a year, a declined party stays declined, and a sanctions
hit freezes the money of every invoice until it is reviewed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record, conflict

from .audit import audit
from .findings import Finding, load_findings
from .fingerprint import canonical_party, is_blank

PARTIES: Final = "parties"

KYB_PERIOD: Final = timedelta(days=365)
"""The validity of a KYB after a review."""

HITS: Final = frozenset({"Hit", "Confirmed"})
"""The results of a screening that freeze the money."""

_MEMBERS: Final = ("sellerId", "debtorId")
_KYB_ITEMS: Final[Mapping[str, str]] = {"seller_kyb": "sellerId", "debtor_kyb": "debtorId"}
_SCREENING: Final = "sanctions_screening"
_FINANCING: Final = frozenset({"accept-offer", "fund", "fund-partially"})
_PAYMENTS: Final = frozenset({"pay", "pay-partially", "settle", "repurchase", "return-payment"})


def load_party(context: Context, party_id: str) -> Record:
    """Return what is known of a party: ``kyb``, the last day ``kybUntil`` of its validity,
    ``screening`` and ``insolvent``."""
    stored = context.state.get(PARTIES, _key(party_id))
    unknown = {"kyb": "Unknown", "kybUntil": None, "screening": "Unknown", "insolvent": False}
    return stored or {"id": party_id, **unknown}


def change_party(context: Context, party_id: str, **changes: Any) -> Record:
    """Return a party after changes, which are in the audit log. A KYB that passes is valid for
    KYB_PERIOD, unless ``kybUntil`` is given."""
    before = load_party(context, party_id)
    if "kyb" in changes and "kybUntil" not in changes:
        until = (context.now + KYB_PERIOD).date().isoformat()
        changes["kybUntil"] = until if changes["kyb"] == "Passed" else None
    after = {**before, **changes}
    if after != before:
        context.state.put(PARTIES, _key(party_id), after)
        audit(context, "party.changed", ("party", party_id), **changes)
    return after


def conclude_review(context: Context, invoice: Record, *, passed: bool) -> None:
    """Keep the result of the review of an invoice on hold with its parties.

    Of several items in review a sanctions hit is what an invoice is rejected for.
    """
    items = _items_in_review(context, invoice)
    if _SCREENING in items:
        for party_id in _screened(context, invoice):
            change_party(context, party_id, screening="Clear" if passed else "Confirmed")
    if passed or _SCREENING not in items:
        for item in items & _KYB_ITEMS.keys():
            party_id = invoice[_KYB_ITEMS[item]]
            if not is_blank(party_id):
                change_party(context, party_id, kyb="Passed" if passed else "Declined")


def with_parties(
    context: Context, invoice: Mapping[str, Any], prepared: Mapping[str, Finding]
) -> dict[str, Finding]:
    """Return the prepared results of a verification with what is known of the parties.

    What a party was declined for fails, and what a review passed needs no other review.
    """
    results = dict(prepared)
    for item, finding in _known_findings(context, invoice).items():
        state = results.get(item, ("", None))[0]
        if finding[0] != "Passed" or state == "ManualReview":
            results[item] = finding
    return results


def is_declined(context: Context, invoice: Mapping[str, Any]) -> bool:
    """True if a party of the invoice was declined, so that there is nothing to correct."""
    parties = [load_party(context, invoice[member]) for member in _MEMBERS]
    return any(party["kyb"] == "Declined" or party["screening"] == "Confirmed" for party in parties)


def check_parties(context: Context, invoice: Mapping[str, Any], trigger: str) -> None:
    """Raise ApiError 409 if the state of a party does not allow a trigger that moves money."""
    if trigger not in _FINANCING | _PAYMENTS:
        return
    for member in _MEMBERS:
        party = load_party(context, invoice[member])
        problem = "has a sanctions hit" if party["screening"] in HITS else None
        if trigger in _FINANCING:
            problem = problem or _financing_problem(context, party)
        if problem is not None:
            role = member.removesuffix("Id")
            raise conflict(
                f"The {role} {problem}, so '{trigger}' is not possible",
                "Change the party with PUT /sandbox/parties/{id}.",
            )


def _financing_problem(context: Context, party: Record) -> str | None:
    if party["insolvent"]:
        return "is insolvent"
    if party["kyb"] == "Declined":
        return "was declined"
    return "has a KYB that expired" if _is_expired(context, party) else None


def _known_findings(context: Context, invoice: Mapping[str, Any]) -> dict[str, Finding]:
    """Return the results of the items about parties that were ever reviewed."""
    parties = {member: load_party(context, invoice[member]) for member in _MEMBERS}
    found = {}
    for item, member in _KYB_ITEMS.items():
        if parties[member]["kyb"] != "Unknown":
            found[item] = _kyb_finding(context, parties[member])
    screenings = {party["screening"] for party in parties.values()}
    if "Confirmed" in screenings:
        found[_SCREENING] = ("Failed", "Confirmed")
    elif "Hit" in screenings:
        found[_SCREENING] = ("ManualReview", "Hit")
    elif "Clear" in screenings:
        found[_SCREENING] = ("Passed", "Reviewed")
    if parties["debtorId"]["insolvent"]:
        found["eligibility"] = ("Failed", "DebtorInsolvent")
    return found


def _kyb_finding(context: Context, party: Record) -> Finding:
    if party["kyb"] == "Declined":
        return "Failed", "Declined"
    expired = _is_expired(context, party)
    return ("ManualReview", "Expired") if expired else ("Passed", "Reviewed")


def _is_expired(context: Context, party: Record) -> bool:
    until = party["kybUntil"]
    return until is not None and bool(until < context.timestamp[:10])


def _items_in_review(context: Context, invoice: Record) -> set[str]:
    """Return what a reviewer decides of an invoice on hold; nothing if it was held by hand."""
    findings = load_findings(context, invoice["id"])
    return {item for item, (state, _) in findings.items() if state == "ManualReview"}


def _screened(context: Context, invoice: Record) -> list[str]:
    """Return the parties that a screening hit is about: those with a hit, else the debtor."""
    parties = [invoice[name] for name in _MEMBERS]
    hit = [party for party in parties if load_party(context, party)["screening"] == "Hit"]
    return hit or [invoice["debtorId"]]


def _key(party_id: str) -> str:
    return hashlib.sha256(canonical_party(party_id).encode("utf-8", "surrogatepass")).hexdigest()
