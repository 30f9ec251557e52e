"""A table of cases in one test: pytest takes milliseconds for each test of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any


def in_turn(
    names: str | Sequence[str], cases: Iterable[Any], ids: Any = None
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Run a test with every case in turn, with the arguments of ``pytest.mark.parametrize``.

    Cases share the fixtures of the test. Whatever fails is reported together.
    """
    members = names.split(",") if isinstance(names, str) else list(names)
    members = [name.strip() for name in members]
    rows = [_row(case, len(members)) for case in cases]
    named = ids if isinstance(ids, Iterable) else map(ids or repr, (row[0] for row in rows))
    shown = list(named)

    def decorate(test: Callable[..., Any]) -> Callable[..., None]:
        @wraps(test)
        def run(*own: Any, **fixtures: Any) -> None:
            assert rows, "there are no cases"
            failed = []
            for name, row in zip(shown, rows, strict=True):
                try:
                    test(*own, **fixtures, **dict(zip(members, row, strict=True)))
                except Exception as error:
                    error.add_note(f"in the case: {name}")
                    failed.append(error)
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {len(rows)} cases failed", failed)

        signature = inspect.signature(test)
        kept = [one for name, one in signature.parameters.items() if name not in members]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
        return run

    return decorate


def _row(case: Any, length: int) -> Sequence[Any]:
    """Return the values of a case, which may be a ``pytest.param``."""
    if hasattr(case, "marks"):
        assert not case.marks, "a case has no marks"
        return tuple(case.values)
    return (case,) if length == 1 else tuple(case)
