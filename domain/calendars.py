"""Business days: weekends, the holidays of a market, its cut-off time, and value dates.

They count in scenarios with the condition ``businessDays``. Without it every day is a business day.
``fixtures/calendars.yaml`` has the calendars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record, conflict

from .tenor import tenor_days

BUSINESS_DAYS: Final = "businessDays"
"""The condition of every scenario; true: dates and payments wait for business days."""

_CALENDARS: Final = "calendars"
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DAYS: Final = range(1, date.max.toordinal() + 1)


@dataclass(frozen=True)
class Calendar:
    """The business days of a market: not at the weekend, not on a holiday of a fixed date or of so
    many days from Easter Sunday. A payment after the ``cut_off`` is one of the next day."""

    weekend: frozenset[int]
    holidays: frozenset[str]
    easter: frozenset[int]
    cut_off: time

    def is_open(self, day: date) -> bool:
        """True on a business day."""
        closed = day.weekday() in self.weekend or f"{day:%m-%d}" in self.holidays
        return not closed and day.toordinal() - easter_sunday(day.year) not in self.easter

    def next_open(self, day: int) -> int:
        """Return the first business day from ``day`` on; days are ordinals of the years 1 to 9999,
        and others are returned as they are."""
        while day in _DAYS and not self.is_open(date.fromordinal(day)):
            day += 1
        return day

    def value_day(self, now: datetime) -> int:
        """Return the day on which a payment made ``now`` counts."""
        return self.next_open(now.toordinal() + (now.time() >= self.cut_off))


def calendar_of(
    context: Context, invoice: Mapping[str, Any], conditions: Mapping[str, Any] | None = None
) -> Calendar | None:
    """Return the calendar of an invoice's currency, None if its scenario counts every day.

    ``conditions`` are those of a scenario that is not stored yet.
    """
    known = conditions_of(context, invoice) if conditions is None else conditions
    if not known.get(BUSINESS_DAYS, False):
        return None
    calendars = context.state.page(_CALENDARS, oldest_first=True).records
    currency = invoice["currency"].strip().upper()
    found = [entry for entry in calendars if currency in entry.get("currencies", [currency])]
    return _calendar(found[0]) if found else None


def conditions_of(context: Context, invoice: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the conditions of an invoice's scenario."""
    return context.scenarios.for_record(context.state, invoice["id"]).conditions


def days_left(invoice: Mapping[str, Any], today: date, calendar: Calendar | None) -> int:
    """Return the days until the due day, or the first business day from it on; negative if the
    invoice is past due."""
    left = tenor_days(invoice, today)
    return rolled(today, left, calendar)


def rolled(today: date, days: int, calendar: Calendar | None) -> int:
    """Return ``days`` from today, or the days to the first business day from then on."""
    start = today.toordinal()
    return days if calendar is None else calendar.next_open(start + days) - start


def value_day(context: Context, invoice: Mapping[str, Any]) -> date:
    """Return the day on which a payment made now counts."""
    calendar = calendar_of(context, invoice)
    today = context.now.date()
    return today if calendar is None else _as_date(calendar.value_day(context.now), today)


def next_booking(context: Context, invoice: Mapping[str, Any]) -> datetime | None:
    """Return the start of the next business day, if payments made now are not those of today."""
    day = value_day(context, invoice)
    return None if day == context.now.date() else datetime.combine(day, time(), UTC)


def check_not_past_due(context: Context, invoice: Mapping[str, Any]) -> None:
    """Raise ApiError 409 for an invoice that is past due."""
    today = context.now.date()
    if days_left(invoice, today, calendar_of(context, invoice)) < 0:
        raise conflict(
            f"The invoice was due {_when(invoice, today)} and cannot be financed",
            "Use an invoice that is not past its due date.",
        )


def easter_sunday(year: int) -> int:
    """Return the ordinal of Easter Sunday: the Gregorian computus of Meeus, Jones and Butcher."""
    century, rest = divmod(year, 100)
    golden = year % 19
    shift = (century - (century + 8) // 25 + 1) // 3
    epact = (19 * golden + century - century // 4 - shift + 15) % 30
    weekday = (32 + 2 * (century % 4) + 2 * (rest // 4) - epact - rest % 4) % 7
    late = (golden + 11 * epact + 22 * weekday) // 451
    month, day = divmod(epact + weekday - 7 * late + 114, 31)
    return date(year, month, day + 1).toordinal()


def _calendar(record: Record) -> Calendar:
    return Calendar(
        frozenset(_WEEKDAYS.index(name) for name in record["weekend"]),
        frozenset(record["holidays"]),
        frozenset(record["easter"]),
        time.fromisoformat(record["cutOff"]),
    )


def _as_date(day: int, otherwise: date) -> date:
    return date.fromordinal(day) if day in _DAYS else otherwise


def _when(invoice: Mapping[str, Any], today: date) -> str:
    due, late = invoice.get("dueDate"), -tenor_days(invoice, today)
    return f"on {due}" if due else f"{late} days ago"
