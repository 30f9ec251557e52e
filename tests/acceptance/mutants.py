"""Mutants of a client in Python: the same client with one small change that a tool has made."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any, Final

Change = tuple[str, Callable[[Any], None]]

_SAID: Final = frozenset({"log", "print", "exit", "SystemExit", "RejectedError"})
"""Functions whose arguments are words for people."""

_OTHER: Final[dict[type[ast.AST], type[ast.AST]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
}


@dataclass(frozen=True)
class Mutant:
    """A changed client: the kind of change, the source of the original, and its own."""

    client: str
    kind: str
    original: str
    source: str

    @property
    def diff(self) -> list[str]:
        """The lines that differ."""
        lines = unified_diff(self.original.splitlines(), self.source.splitlines(), n=0)
        return [line for line in lines if line[:1] in "+-" and line[:3] not in {"+++", "---"}]


def without_faults(source: str) -> str:
    """The reference client without its seeded faults, docstrings and types."""
    tree = ast.fix_missing_locations(_Plain().visit(_Folded().visit(ast.parse(source))))
    while dead := _unused(tree):
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef):
                node.body = [line for line in node.body if _defined(line) not in dead]
    return ast.unparse(tree)


def _unused(tree: ast.AST) -> set[str]:
    """What the seeded faults alone had used: constants, functions and methods."""
    defined = {_defined(line) for node in ast.walk(tree) for line in _listed(node, "body")}
    read = [node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute)]
    used = {_name(node) for node in read if isinstance(node.ctx, ast.Load)}
    return {name for name in defined - used if name and not name.startswith(("do_", "log_message"))}


def _defined(statement: ast.stmt) -> str:
    """The name that a statement defines and that others may call or read; else empty."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return "" if statement.name.startswith("__") else statement.name
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        name = statement.targets[0].id
        return name if name.isupper() else ""
    return ""


def mutants(client: str, source: str) -> Iterator[Mutant]:
    """Every mutant of a client whose source is ``without_faults``."""
    tree = ast.parse(source)
    original = ast.unparse(tree)
    skipped = {id(node) for node in _words(tree)}
    for place, node in enumerate(ast.walk(tree)):
        if id(node) in skipped:
            continue
        for kind, change in _changes(node):
            copy = deepcopy(tree)
            change(next(other for index, other in enumerate(ast.walk(copy)) if index == place))
            made = ast.unparse(ast.fix_missing_locations(copy))
            if made != original:
                yield Mutant(client, kind, original, made)


def _words(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes in texts for people, and those that choose how the module starts."""
    for node in ast.walk(tree):
        is_said = isinstance(node, ast.Call) and _name(node.func) in _SAID
        is_start = isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
        if is_said or is_start or isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom):
            yield from ast.walk(node)


def _name(function: ast.AST) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


def _changes(node: ast.AST) -> Iterator[Change]:
    yield from _of_statements(node)
    yield from _of_conditions(node)
    yield from _of_operators(node)
    yield from _of_calls(node)
    yield from _of_values(node)


def _of_statements(node: ast.AST) -> Iterator[Change]:
    for field in ("body", "orelse", "finalbody"):
        for index, statement in enumerate(_listed(node, field)):
            if _can_go(statement):
                yield "a statement is deleted", _setting(field, index, ast.Pass())
    if isinstance(node, ast.Try) and len(node.handlers) > 1:
        for index in range(len(node.handlers)):
            yield "a handler is deleted", _dropping("handlers", index)


def _of_conditions(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "a condition is negated", lambda it: setattr(it, "test", _negated(it.test))
    if isinstance(node, ast.comprehension) and node.ifs:
        yield "a condition is dropped", lambda it: it.ifs.clear()


def _of_operators(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _OTHER:
        yield "a comparison is swapped", lambda it: it.ops.__setitem__(0, _other(it.ops[0]))
    if isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in _OTHER:
        yield "an operator is swapped", lambda it: setattr(it, "op", _other(it.op))
    if isinstance(node, ast.BoolOp) and len(node.values) > 2:
        for index in range(len(node.values)):
            yield "an operand is dropped", _dropping("values", index)


def _of_calls(node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Call):
        return
    for index in range(len(node.keywords)):
        yield "an argument is dropped", _dropping("keywords", index)
    if _name(node.func) in {"max", "min"} and len(node.args) > 1:
        for index in range(len(node.args)):
            yield "an argument is dropped", _dropping("args", index)


def _of_values(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Constant) and _other_value(node.value) is not None:
        yield "a constant is changed", lambda it: setattr(it, "value", _other_value(it.value))
    if isinstance(node, ast.Dict):
        for index in range(len(node.keys)):
            yield "a member or header is dropped", _without_member(index)


def _listed(node: ast.AST, field: str) -> Sequence[ast.stmt]:
    found = getattr(node, field, ())
    return found if isinstance(found, list) else ()


def _can_go(statement: ast.stmt) -> bool:
    """A statement whose absence is no name that is missing."""
    if isinstance(statement, ast.Assign):
        return not all(isinstance(target, ast.Name) for target in statement.targets)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _name(statement.value.func) not in _SAID
    return isinstance(
        statement, ast.AugAssign | ast.Raise | ast.Return | ast.Continue | ast.Break | ast.Expr
    )


def _setting(field: str, index: int, statement: ast.stmt) -> Callable[[Any], None]:
    return lambda node: getattr(node, field).__setitem__(index, statement)


def _dropping(field: str, index: int) -> Callable[[Any], None]:
    return lambda node: getattr(node, field).__delitem__(index)


def _without_member(index: int) -> Callable[[Any], None]:
    def change(node: Any) -> None:
        del node.keys[index], node.values[index]

    return change


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _other(operator: ast.AST) -> ast.AST:
    return _OTHER[type(operator)]()


def _other_value(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 2
        case "" | b"":
            return None
        case str():
            return f"{value}{value[0]}"
        case bytes():
            return value + value[:1]
    return None


class _Plain(ast.NodeTransformer):
    """Removes docstrings and types."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """An assignment without its type."""
        return ast.Assign([node.target], node.value) if node.value is not None else None

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """An argument without its type."""
        return ast.arg(node.arg)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """A body without its docstring, and a function without the type of its result."""
        super().generic_visit(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [line for line in body if not _is_text(line)]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
        return node


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


class _Folded(ast.NodeTransformer):
    """Replaces the questions for a seeded fault by no, and drops what depends on a yes."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """No fault is chosen."""
        self.generic_visit(node)
        is_fault = _name(node.func) == "fault" or ast.unparse(node).startswith("FAULT.")
        return ast.Constant(False) if is_fault else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """Not no is yes."""
        self.generic_visit(node)
        value = _constant(node.operand)
        return node if value is None else ast.Constant(not value)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """Drops operands that decide nothing."""
        self.generic_visit(node)
        decisive = isinstance(node.op, ast.Or)
        if any(_constant(value) is decisive for value in node.values):
            return ast.Constant(decisive)
        left = [value for value in node.values if _constant(value) is None]
        if not left:
            return ast.Constant(not decisive)
        return left[0] if len(left) == 1 else ast.BoolOp(node.op, left)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """The half that counts."""
        self.generic_visit(node)
        value = _constant(node.test)
        return node if value is None else node.body if value else node.orelse

    def visit_If(self, node: ast.If) -> Any:
        """The branch that counts."""
        self.generic_visit(node)
        value = _constant(node.test)
        return node if value is None else node.body if value else node.orelse


def _constant(node: ast.AST) -> bool | None:
    is_decided = isinstance(node, ast.Constant) and isinstance(node.value, bool)
    return node.value if is_decided else None  # type: ignore[attr-defined]
