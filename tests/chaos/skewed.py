"""``python -m tests.chaos.skewed SECONDS serve …``: a server whose machine's calendar is wrong.

The clock module is the only one that reads the calendar, so it is enough that it reads another one.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

from invoice_sandbox.base import clock
from invoice_sandbox.cli import main


def calendar() -> datetime:
    """What a machine shows whose calendar is ``SECONDS`` ahead."""
    return datetime.now(UTC) + _AHEAD


if __name__ == "__main__":
    _AHEAD = timedelta(seconds=float(sys.argv.pop(1)))
    made = clock.OperatingSystemClock.__init__
    made.__defaults__ = (calendar, *(made.__defaults__ or ())[1:])
    sys.exit(main())
