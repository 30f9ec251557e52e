"""Account statements of the partners of a workspace."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record, Response

from ..domain.camt import MEDIA_TYPE, as_camt
from ..domain.statements import read_statements


def get_statement(call: Call) -> list[Record] | Response:
    """Return the statements as JSON or as camt.053. 409 for what that cannot express."""
    statements = read_statements(call, call.query.get("from"), call.query.get("to"))
    if call.query.get("format") == "camt.053":
        return Response(as_camt(statements, call.timestamp), media_type=MEDIA_TYPE)
    return statements
