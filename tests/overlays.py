"""An overlay applied in a test."""

from __future__ import annotations

import copy
from typing import Any

from invoice_sandbox.openapi.load.overlay import overlay_problems


def apply_overlay(document: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """Return a new document: ``document`` with every action of ``overlay`` applied in order.

    Raises OverlayError for the first action that cannot be applied.
    """
    merged = copy.deepcopy(document)
    for problem in overlay_problems(merged, overlay):
        raise problem
    return merged
