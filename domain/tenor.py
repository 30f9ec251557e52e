"""The term of an invoice: its due day, and the days until then."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

DEFAULT_TERM_DAYS: Final = 60
"""The term of an invoice without a due date, from its issue date, else from its registration."""

_DAYS_OF_400_YEARS: Final = 146_097
_LAST_DAY: Final = date.max.toordinal()


def day_number(day: str) -> int:
    """Return the number of a day of the years 0 to 9999; that of 0001-01-01 is 1."""
    if day.startswith("0000"):  # a leap year, as the year 400 is
        return date.fromisoformat(f"0400{day[4:]}").toordinal() - _DAYS_OF_400_YEARS
    return date.fromisoformat(day).toordinal()


def tenor_days(invoice: Mapping[str, Any], today: date) -> int:
    """Return the days until the due day, negative for an invoice past due."""
    return _due_day(invoice, today) - today.toordinal()


def due_date(invoice: Mapping[str, Any], today: date) -> str:
    """Return the due date; without one the last day of the term, within the years 1 to 9999.

    The term of a registered invoice never changes, because it does not count from ``today``.
    """
    day = _due_day(invoice, today)
    return invoice.get("dueDate") or date.fromordinal(min(max(day, 1), _LAST_DAY)).isoformat()


def _due_day(invoice: Mapping[str, Any], today: date) -> int:
    due = invoice.get("dueDate")
    if due:
        return day_number(due)
    start = invoice.get("issueDate") or invoice.get("createdAt") or today.isoformat()
    return day_number(start[:10]) + DEFAULT_TERM_DAYS
