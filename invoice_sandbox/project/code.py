"""The Python of a project: its handlers, hooks and actions, loaded under a private package name."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from keyword import iskeyword
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any, Final
from unicodedata import is_normalized, normalize

from invoice_sandbox.base.errors import ApiError, UserError, suggestion
from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.openapi.load.operations import named_operations, numbered
from invoice_sandbox.openapi.operation import Contract
from invoice_sandbox.project.api import Context, Handler, Step
from invoice_sandbox.scenarios.actions import Action, ActionError, action_of
from invoice_sandbox.state import Record, Transaction

RecordFixture = Callable[[Transaction, str, Mapping[str, Any]], None]
OnForbidden = Callable[[Context, ApiError], None]
OnEndpoint = Callable[[Context, Record], None]
OnStepDropped = Callable[[Step, str, str], None]
FindSubject = Callable[[Transaction, str], Record | None]

_PACKAGE: Final = "_invoice_sandbox_project"


class ProjectError(UserError, ValueError):
    """A project that cannot be served; the message says which file and what to do."""


@dataclass(frozen=True)
class Hooks:
    """The functions that a project may define in ``domain/hooks.py``, by their names.

    ``record_fixture(state, collection, record)`` stores a fixture record;
    ``on_forbidden(context, error)`` is called when a known caller gets 403;
    ``find_subject(state, id)`` returns the record with this id that a scenario can run on, or None;
    ``on_endpoint_disabled(context, endpoint)`` is called when the engine disables a webhook
    endpoint, and ``on_endpoint_removed(context, endpoint)`` when it deletes one;
    ``on_step_failed(step, action, reason)`` is called when a step fails, or a step that a handler
    scheduled is skipped;
    ``on_step_skipped(step, action, reason)`` is called when a step of a scenario is skipped.
    """

    record_fixture: RecordFixture | None = None
    on_forbidden: OnForbidden | None = None
    find_subject: FindSubject | None = None
    on_endpoint_disabled: OnEndpoint | None = None
    on_endpoint_removed: OnEndpoint | None = None
    on_step_failed: OnStepDropped | None = None
    on_step_skipped: OnStepDropped | None = None


def place_of_error(error: Exception) -> str | None:
    """Where in the project an exception came from, such as ``handlers/orders.py:12``; None: from
    no module of a project."""
    places = [
        f"{file}:{line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (file := _file_in_project(frame))
    ]
    return places[-1] if places else None


def traceback_in_project(error: BaseException) -> TracebackType | None:
    """Return the traceback from the first frame of a project on; the whole one without any."""
    found = error.__traceback__
    while found is not None and not _file_in_project(found.tb_frame):
        found = found.tb_next
    return found or error.__traceback__


def _file_in_project(frame: FrameType) -> str:
    """``handlers/orders.py`` for a frame of that module; nothing for one of no project."""
    package, _, module = str(frame.f_globals.get("__name__")).partition(".")
    if not package.startswith(_PACKAGE) or not module:
        return ""
    end = "/__init__.py" if "__path__" in frame.f_globals else ".py"
    return module.replace(".", "/") + end


def function_name(operation_id: str) -> str:
    """The name of the handler of an operation: the operationId in snake_case, with an underscore
    after a Python keyword (``import_``). If a module cannot have a public function of that name,
    its letters and digits are after ``operation_``: Python reads other spellings of a letter as
    that letter."""
    name = snake_case(operation_id)
    if iskeyword(name):
        return f"{name}_"
    if name.isidentifier() and is_normalized("NFKC", name) and not name.startswith("_"):
        return name
    return "_".join(["operation", *re.findall("[a-z0-9]+", normalize("NFKC", name))])


def operation_names(document: Mapping[str, Any]) -> dict[str, str]:
    """Handler function name to operationId, for every operation of a document.

    Of equal names, all but the first one get a number: ``listPets`` and ``list_pets``.
    """
    first = {name: function_name(name) for name in named_operations(document)}
    found, taken = dict[str, str](), set(first.values())
    for operation_id, name in first.items():
        unique = numbered(name, taken) if name in found else name
        taken.add(unique)
        found[unique] = operation_id
    return found


def handler_functions(folder: Path) -> dict[str, tuple[Handler, Path]]:
    """Return every public function of the public modules in ``folder``, with its file."""
    if not folder.is_dir():
        return {}
    package = _load_package(folder)
    found: dict[str, tuple[Handler, Path]] = {}
    for file in sorted(folder.glob("[!_]*.py")):
        for name, function in _public_functions(package, file).items():
            if name in found:
                raise ProjectError(f"{file}: {name} is defined in {found[name][1].name} too")
            found[name] = (function, file)
    return found


def load_handlers(folder: Path, contracts: Sequence[Contract]) -> dict[str, Handler]:
    """The handler of each operation that has one, by operationId. Where operations of several
    contracts have handlers of one name, it is that of the last contract. Raises ProjectError."""
    names: dict[str, str] = {}
    for contract in contracts:
        names |= operation_names(contract.document)
    handlers: dict[str, Handler] = {}
    for name, (function, file) in handler_functions(folder).items():
        if name not in names:
            advice = suggestion(name, names)
            raise ProjectError(f"{file}: {name} is not an operation of the contract; {advice}")
        handlers[names[name]] = function
    return handlers


def load_hooks(folder: Path) -> Hooks:
    functions = _functions(folder / "hooks.py")
    known = {hook.name for hook in fields(Hooks)}
    if functions.keys() - known:
        name = min(functions.keys() - known)
        advice = suggestion(name, sorted(known))
        raise ProjectError(f"{folder / 'hooks.py'}: there is no hook '{name}'; {advice}")
    return Hooks(**functions)


def load_actions(folder: Path) -> dict[str, Action]:
    """Functions of ``domain/actions.py``: ``pay_out`` is ``pay-out``."""
    file = folder / "actions.py"
    try:
        actions = [action_of(function) for function in _functions(file).values()]
    except ActionError as error:
        raise ProjectError(f"{file}: {error}") from None
    return {action.name: action for action in actions}


def _functions(file: Path) -> dict[str, Any]:
    """Return the public functions of a module of the project's ``domain/``, if it exists."""
    return _public_functions(_load_package(file.parent), file) if file.exists() else {}


def _public_functions(package: ModuleType, file: Path) -> dict[str, Any]:
    """Return the public functions that a module defines. Raises ProjectError for an async one."""
    module = _import(f"{package.__name__}.{file.stem}", file)
    functions = {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_") and function.__module__ == module.__name__
    }
    for name, function in functions.items():
        if inspect.iscoroutinefunction(function):
            raise ProjectError(f"{file}: {name} is async; write 'def {name}', without await")
    return functions


def _import(name: str, file: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise ProjectError(f"{file}: cannot be imported: {problem}") from error


def _load_package(folder: Path) -> ModuleType:
    """``handlers/`` or ``domain/`` of a project, as a package.

    Both are in one package of a private name, so that ``from ..domain import`` works in a handler
    and nothing lands on ``sys.path``. Raises ProjectError.
    """
    init = folder / "__init__.py"
    if not init.exists():
        raise ProjectError(f"{folder}: there is no __init__.py; add an empty one")
    return _import(f"{_private_package(folder.parent)}.{folder.name}", init)


def _private_package(project: Path) -> str:
    """Return the name of the package whose modules are searched in the folder of a project."""
    digest = hashlib.sha256(str(project.resolve()).encode()).hexdigest()
    name = f"{_PACKAGE}_{digest[:12]}"
    if name not in sys.modules:
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = [str(project)]
    return name
