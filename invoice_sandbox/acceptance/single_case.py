"""A plan with a single case, such as one that a search has found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.conformance.plan import Plan, PlanVocabulary, read_plan
from invoice_sandbox.openapi.load.documents import parse_text
from invoice_sandbox.openapi.load.text import DocumentError

CHECK: Final = "case"
"""The id of the check that has the case."""

Document = Mapping[str, Any]


def plan_with_case(
    plan: bytes, name: str, case: Any, vocabulary: PlanVocabulary
) -> tuple[Plan, bytes]:
    """Return a plan with this case only, and its content. ``name`` is where the case is from.

    Tasks, values, capabilities and invariants are those of ``plan``. Raises DocumentError.
    """
    if not isinstance(case, Mapping):
        raise DocumentError(name, "it is not a case", "it must be a mapping with task and rules")
    document = {**parse_text(plan.decode(), name)}
    document.pop("search", None)
    check = {
        "id": CHECK,
        "level": "must",
        "proves": "The client does right in this case.",
        "specification": "Typical integration flow",
        "cases": [case],
    }
    content = jsonio.dumps({**document, "checks": [check]})
    return read_plan(content, name, vocabulary), content
