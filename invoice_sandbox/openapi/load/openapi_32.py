"""Additions of OpenAPI 3.2 to 3.1, in the form that the rest of the loader reads.

- References that begin with the document's own address (``$self``) are references within it.
- Media types by reference (``components.mediaTypes``) stand where they are used.

Operations of other methods (``additionalOperations``), ``query`` and parameters in ``querystring``
are read where operations and parameters are. The document stays OpenAPI 3.2.
"""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Any

from invoice_sandbox.openapi.load.model import node, walk
from invoice_sandbox.openapi.load.pointers import ContractError, dereference


def with_local_references(document: dict[str, Any]) -> None:
    """Change the references of a document that is not validated yet, if it is OpenAPI 3.2."""
    if not document["openapi"].startswith("3.2."):
        return
    own = document.get("$self")
    for here in walk(node(document)):
        if isinstance(own, str) and here.reference and here.reference.startswith(f"{own}#"):
            here.value["$ref"] = here.reference.removeprefix(own)
        if here.type == "mediaType" and here.reference and here.reference.startswith("#"):
            with suppress(ContractError):  # reported as every reference that leads nowhere
                target = deepcopy(dereference(document, here.value))
                here.value.clear()
                here.value.update(target)
