"""Small wrong changes of Python code: each is one file with one place changed."""

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
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True)
class Mutant:
    """One change of a file: ``source`` is the line as it is, ``text`` what a part of it became.

    ``lines`` are those of the changed expression or statement, from its first to its last.
    """

    file: str
    lines: range
    source: str
    text: str
    index: int
    number: int

    def __str__(self) -> str:
        return f"{self.file}:{self.lines[0]}  {self.source}  ->  {self.text}"


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Every mutant of a file. Annotations and decorators are left as they are."""
    tree = ast.parse(source)
    written = source.splitlines()
    left = {id(one) for part in _left_as_it_is(tree) for one in ast.walk(part)}
    for index, node in enumerate(ast.walk(tree)):
        if isinstance(node, ast.expr | ast.stmt) and id(node) not in left:
            lines = range(node.lineno, _end(node) + 1)
            changed = deepcopy(node)
            for number, _ in enumerate(_changes(changed)):
                text = ast.unparse(changed).splitlines()[0]
                yield Mutant(file, lines, written[node.lineno - 1].strip(), text, index, number)


def changed_tree(source: str, mutant: Mutant) -> ast.Module:
    """The file with the change; everything else stays on its line."""
    tree = ast.parse(source)
    changes = _changes(list(ast.walk(tree))[mutant.index])
    for _ in range(mutant.number + 1):
        next(changes)
    _Collapse().visit(tree)
    return ast.fix_missing_locations(tree)


class _Collapse(ast.NodeTransformer):
    """``a and b`` without b is a."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return node if len(node.values) > 1 else node.values[0]


def _end(node: ast.expr | ast.stmt) -> int:
    """The last line of what the change can affect: of an ``if`` its condition."""
    last = node.test if isinstance(node, ast.If | ast.IfExp) else node
    return last.end_lineno or node.lineno


def _left_as_it_is(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if isinstance(found := getattr(node, name, None), ast.expr):
                yield found
        yield from getattr(node, "decorator_list", ())


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
