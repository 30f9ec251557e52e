"""A changed module in a running process: the files stay as they are.

Where only the bodies of functions differ, the functions that exist get the changed code. Other
changes, such as those of constants, need a process that has not imported the module yet.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutants.changes import Mutant, changed_tree

_Key = tuple[str, int]


def changed_code(root: Path, mutant: Mutant) -> CodeType:
    """The module with the change, compiled."""
    file = root / mutant.file
    return compile(changed_tree(file.read_text(), mutant), str(file), "exec", dont_inherit=True)


def is_swappable(root: Path, mutant: Mutant) -> bool:
    """Whether only bodies of functions differ, each the only one of its name and line."""
    file = root / mutant.file
    before = compile(file.read_text(), str(file), "exec", dont_inherit=True)
    after = changed_code(root, mutant)
    alike = [_executed_once(one) for one in (before, after)]
    keys = Counter(_key(one) for one in _functions(before))
    free = [{_key(one): one.co_freevars for one in _functions(code)} for code in (before, after)]
    return alike[0] == alike[1] and free[0] == free[1] and max(keys.values(), default=1) == 1


def swap(root: Path, mutant: Mutant) -> None:
    """Give the functions of this process the changed code, and every later import too."""
    code = changed_code(root, mutant)
    change_imports(root / mutant.file, code)
    changed = {_key(one): one for one in _functions(code)}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename == code.co_filename:
            one.__code__ = changed[_key(one.__code__)]


def change_imports(file: Path, code: CodeType) -> None:
    """Whoever imports this file from now on gets ``code``."""
    read = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        return code if Path(self.get_filename(fullname)) == file else read(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]


def _functions(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_flags & CO_OPTIMIZED:
                yield one
            yield from _functions(one)


def _executed_once(code: CodeType) -> list[object]:
    """What the bodies of the module and of its classes do."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    own = [one for one in code.co_consts if not isinstance(one, CodeType)]
    bodies = [_executed_once(one) for one in inner if not one.co_flags & CO_OPTIMIZED]
    return [code.co_code, code.co_names, repr(own), bodies]


def _key(code: CodeType) -> _Key:
    return code.co_qualname, code.co_firstlineno
