"""The functions of the control API: ``getClock`` is ``get_clock`` in the module of its tag."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from invoice_sandbox import control
from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.openapi.operation import Contract

ControlFunction = Callable[[Any], Any]
"""Carries out one operation of the control API: returns data, a Response, or Raw. It gets a
ControlCall, or a PublicControlCall if the operation needs no credential."""


def control_functions(contract: Contract) -> dict[str, ControlFunction]:
    """Return the functions of this package by operationId; the project has handlers for others."""
    names = {module.name for module in iter_modules(control.__path__)}
    functions = {}
    for operation in contract.operations.values():
        if operation.tag in names:
            module = import_module(f"{control.__name__}.{operation.tag}")
            function = getattr(module, snake_case(operation.id), None)
            if function is not None:
                functions[operation.id] = function
    return functions
