"""Assignment policy placeholders by country. Never legal advice."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.project.api import Call, Record

from ..domain.routing import ASSIGNMENT_RULES, country_code

_DISCLAIMER: Final = "Sandbox placeholder, not legal advice"


def get_assignment_rules(call: Call) -> Record:
    """Return the placeholder for a country; an unknown country is reported as not supported."""
    country = country_code(call.path["country"])
    rule = call.state.get(ASSIGNMENT_RULES, country)
    if rule is None:
        return {
            "country": country,
            "supported": False,
            "placeholder": True,
            "assignable": "Unknown",
            "disclaimer": _DISCLAIMER,
        }
    details = {name: value for name, value in rule.items() if name != "id"}
    return {
        "country": country,
        "supported": True,
        "placeholder": True,
        **details,
        "disclaimer": _DISCLAIMER,
    }
