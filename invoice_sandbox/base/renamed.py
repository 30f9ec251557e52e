"""Names of earlier versions: importing one fails with the name to use instead."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Final

_API: Final = "invoice_sandbox.project.api"
MODULES: Final[Mapping[str, str]] = {
    "invoice_sandbox.handling": _API,
    "invoice_sandbox.errors": _API,
    "invoice_sandbox.actions": _API,
    "invoice_sandbox.lever_command": "invoice_sandbox.control.client",
}
"""Removed modules, and where their public names are."""

NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    _API: {
        "Answer": "Response",
        "Sending": "DeliverThenRespond",
        "refuse": "reject",
        "story": "scenario_action",
    },
    "invoice_sandbox.project": {
        name: f"invoice_sandbox.project.{module}.{name}"
        for module, names in (
            ("loader", ("Project", "default_project", "load_project")),
            ("contracts", ("base_document", "merged_document", "overlay_document")),
            ("code", ("Hooks", "ProjectError", "handler_functions")),
        )
        for name in names
    }
    | {"load_contract_alone": "invoice_sandbox.project.loader.load_contract"},
}
"""Names removed from a module, and the names to use instead."""

HOOKS: Final[Mapping[str, str]] = {
    "note_refusal": "on_forbidden",
    "note_disabled_endpoint": "on_endpoint_disabled",
}
"""Renamed hooks of a project."""


class _Finder:
    """Import hook for removed modules."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  Python passes it
        target: ModuleType | None = None,  # noqa: ARG002  Python passes it
    ) -> None:
        """Raise ImportError for a removed module."""
        if fullname in MODULES:
            raise ImportError(
                f"{fullname} was removed; import from {MODULES[fullname]}", name=fullname
            )


def install() -> None:
    """Make the import of a removed module fail with the name of the new one."""
    if not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.append(_Finder())


def missing(module: str, name: str) -> Any:
    """What ``__getattr__`` of a module does. Raises ImportError, or AttributeError."""
    instead = NAMES[module].get(name)
    if instead is not None:
        raise ImportError(f"{module}.{name} is now {instead}", name=module)
    raise AttributeError(f"module '{module}' has no attribute '{name}'")
