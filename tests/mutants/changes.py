"""Small wrong changes of Python code: each is one text with one place changed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Final

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATIONS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True)
class Mutant:
    """``source`` is the whole file with one change; ``text`` is what ``line`` became."""

    line: int
    text: str
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a file. Annotations and decorators are left as they are."""
    tree = ast.parse(source)
    left = {id(one) for part in _left_as_it_is(tree) for one in ast.walk(part)}
    for index, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.expr | ast.stmt) and id(node) not in left:
            for number in range(_count(node)):
                yield _mutant(tree, index, number)


def _left_as_it_is(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if isinstance(found := getattr(node, name, None), ast.expr):
                yield found
        yield from getattr(node, "decorator_list", ())


def _count(node: ast.AST) -> int:
    return sum(1 for _ in _changes(deepcopy(node)))


def _mutant(tree: ast.Module, index: int, number: int) -> Mutant:
    copy = deepcopy(tree)
    node = list(ast.walk(copy))[index]
    for count, _ in enumerate(_changes(node)):
        if count == number:
            break
    assert isinstance(node, ast.expr | ast.stmt)
    return Mutant(node.lineno, ast.unparse(node).splitlines()[0], ast.unparse(copy))


def _changes(node: ast.AST) -> Iterator[None]:
    """Change the node in place, differently at each step."""
    yield from _changes_of_logic(node)
    yield from _changes_of_effect(node)


def _changes_of_logic(node: ast.AST) -> Iterator[None]:
    match node:
        case ast.Compare(ops=[one]) if type(one) in _COMPARISONS:
            node.ops = [_COMPARISONS[type(one)]()]
            yield
        case ast.BoolOp(op=op, values=values):
            node.op = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield
            node.op = op
            for position in range(len(values)):
                node.values = [one for at, one in enumerate(values) if at != position]
                yield
        case ast.BinOp(op=op) if type(op) in _OPERATIONS:
            node.op = _OPERATIONS[type(op)]()
            yield
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), operand)
            yield
        case ast.If(test=test) | ast.IfExp(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
            yield


def _changes_of_effect(node: ast.AST) -> Iterator[None]:
    match node:
        case ast.Constant(value=bool() as value):
            node.value = not value
            yield
        case ast.Constant(value=int() as value):
            node.value = value + 1
            yield
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            node.value = ast.Constant(None)
            yield
        case ast.Expr(value=ast.Await() | ast.Call()):
            node.value = ast.Constant(None)
            yield
