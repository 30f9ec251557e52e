"""Dates: what an invoice's due date, the end of its recourse period, the deadline of its dispute,
and 30 days after a failed verification do by themselves.

A date is a step of the agenda, like the end of an offer's validity. Scenarios turn dates off with
their condition ``dates``. A step of the scenario that is due at the same instant comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record, instant_text

from .calendars import Calendar, calendar_of, conditions_of, days_left, rolled
from .lifecycle import is_funded
from .tenor import day_number, tenor_days

AT_DATE: Final = "pass-date"
"""The action of a date."""

DATES: Final = "dates"
"""The condition of every scenario; false: no date does anything by itself."""

DEFAULT_RECOURSE_DAYS: Final = 90
_DEADLINE: Final = "deadline"
_CORRECTION: Final = timedelta(days=30)
_UNFINANCED: Final = ("Registered", "Verified", "FinancingRequested", "Offered")
_OUTSTANDING: Final = ("Funded", "PartiallyFunded", "PartiallyPaid")
_TRIGGERS: Final[Mapping[str, Mapping[str, str]]] = {
    "due": {
        **dict.fromkeys(_UNFINANCED, "expire"),
        **dict.fromkeys(_OUTSTANDING, "become-overdue"),
    },
    "default": {"Overdue": "default", "PartiallyPaid": "default"},
    "correction": {"VerificationFailed": "reject"},
}
"""By date, the trigger in each status that it moves."""


def with_date(
    context: Context, invoice: Record, conditions: Mapping[str, Any] | None = None
) -> Record:
    """Return an invoice in a new status, with the date that it awaits, which is scheduled.

    ``conditions`` are those of its scenario, by default as that is stored.
    """
    known = conditions_of(context, invoice) if conditions is None else conditions
    found = _next_date(context, invoice, calendar_of(context, invoice, known))
    if found is None or not known.get(DATES, True):
        return invoice
    name, instant = found
    left = max(instant - context.now, timedelta())
    awaited = _awaited(name, context.now + left)
    if left and invoice.get("awaits") == awaited:
        return invoice
    context.schedule(AT_DATE, left, invoiceId=invoice["id"], date=name)
    return {**invoice, "awaits": awaited}


def dates_happen(context: Context, invoice: Mapping[str, Any]) -> bool:
    """True if the dates of an invoice do something by themselves."""
    return bool(conditions_of(context, invoice).get(DATES, True))


def trigger_at_date(context: Context, invoice: Mapping[str, Any], name: str) -> str | None:
    """Return the trigger of a date, which is now, if the invoice awaits it in its status."""
    awaited = _awaited(name, context.now)
    if invoice.get("awaits") != awaited or not dates_happen(context, invoice):
        return None
    return _decision(invoice) if name == _DEADLINE else _TRIGGERS[name].get(invoice["status"])


def _decision(invoice: Mapping[str, Any]) -> str | None:
    """Return the trigger that decides a dispute at its deadline: for the debtor if it has evidence,
    else for the seller."""
    if invoice["status"] != "Disputed":
        return None
    if not invoice.get("dispute", {}).get("evidence"):
        return "resolve-dispute"
    return f"uphold-dispute-{'after' if is_funded(invoice) else 'before'}-funding"


def days_to_default(invoice: Mapping[str, Any], today: date, calendar: Calendar | None) -> int:
    """Return the days to the day after the recourse period; zero or less after it."""
    period = invoice.get("recoursePeriodDays", DEFAULT_RECOURSE_DAYS)
    return rolled(today, tenor_days(invoice, today) + period, calendar) + 1


def _awaited(name: str, instant: datetime) -> str:
    return f"{name} {instant_text(instant)}"


def _next_date(
    context: Context, invoice: Mapping[str, Any], calendar: Calendar | None
) -> tuple[str, datetime] | None:
    status = invoice["status"]
    if status == "VerificationFailed":
        return _named("correction", context.now, _CORRECTION)
    today = context.now.replace(hour=0, minute=0, second=0, microsecond=0)
    if status == "Disputed":
        deadline = invoice.get("dispute", {}).get("deadline")
        span = timedelta(days=day_number(deadline) - today.toordinal() + 1) if deadline else None
        return None if span is None else _named(_DEADLINE, today, span)
    left = days_left(invoice, today.date(), calendar) + 1
    if status in _UNFINANCED + _OUTSTANDING and (left > 0 or status != "PartiallyPaid"):
        late_at_start = left <= 0 and status == "Registered"  # its verification fails
        return None if late_at_start else _named("due", today, timedelta(days=left))
    if status in _TRIGGERS["default"]:
        left = days_to_default(invoice, today.date(), calendar)
        return _named("default", today, timedelta(days=left))
    return None


def _named(name: str, start: datetime, span: timedelta) -> tuple[str, datetime] | None:
    """Return a date with its name; None after the year 9999. A date that has passed is today."""
    if start.toordinal() + span.days > date.max.toordinal():
        return None
    return name, start + max(span, timedelta())
