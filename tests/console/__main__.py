"""``python -m tests.console``: write the pictures of the console to docs/pictures/console."""

from __future__ import annotations

import sys

from tests.console.shots import take_all

sys.stdout.write("\n".join(take_all()) + "\n")
