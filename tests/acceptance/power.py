"""``make acceptance-power``: what the partner plan notices, with its page."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from invoice_sandbox.acceptance.faults import FAULTS
from invoice_sandbox.acceptance.sensitivity import Finding, findings
from invoice_sandbox.cli.acceptance_sensitivity import conclusion_of, print_finding
from tests.acceptance.mutation import Fate, Tried, all_mutants, tried
from tests.acceptance.page import POWER_PAGE, table, with_part
from tests.acceptance.selftest import judging, known_clients

_SAMPLE: Final = 60
_LEAST: Final = 0.85
_LEAST_CAUGHT: Final = 28 / 30
_SEED: Final = 37
_BEHIND: Final = "Python"
_FEW: Final = ("drops-keys", "acknowledges-without-delivering")
_FEW_CHECKS: Final = ("idempotent-retry", "webhook-signature")
_KILLED: Final = "'Idempotency-KeyI'"
"""In the source of a mutant that must be killed: the misspelt name of a header."""

_HEADS: Final = {
    Fate.KILLED: "Killed",
    Fate.IDLE: "Not judged (does nothing)",
    Fate.UNCLEAR: "Inconclusive",
    Fate.SURVIVED: "Survived",
    Fate.EQUAL: "Equivalent",
    Fate.CRASHED: "Crashes at once",
}


@click.command()
@click.option("--seed", default=_SEED, show_default=True, help="Seed of the sample of mutants.")
@click.option("--bounded", is_flag=True, help="One mutant, two faults; nothing is written.")
def main(seed: int, *, bounded: bool) -> None:
    """Mutants of the reference clients, and the faults of the proxy.

    Status 1 if the plan kills less than 85 % of the mutants, or catches less than 28 of 30 faults.
    """
    number = 1 if bounded else _SAMPLE
    faults = [fault for fault in FAULTS if not bounded or fault.name in _FEW]
    client = known_clients()[_BEHIND]
    chosen = [
        mutant
        for mutant in all_mutants()
        if not bounded or (mutant.client == _BEHIND and _KILLED in mutant.source)
    ]
    click.echo(f"seed {seed}, {len(chosen)} mutants")
    with judging() as (whole, control), TemporaryDirectory() as folder:
        few = [check for check in whole.checks if check.id in _FEW_CHECKS]
        plan = replace(whole, checks=tuple(few)) if bounded else whole
        results = tried(chosen, seed, number, plan, control, Path(folder), _print_tried)
        found = findings(faults, plan, client.command, client.declared, control, print_finding)
    for line in (score(results), conclusion_of(found)):
        click.echo(line)
    if not bounded:
        page = with_part(POWER_PAGE.read_text(), "faults", _faults(found))
        page = with_part(page, "mutants", _mutants(seed, results))
        POWER_PAGE.write_text(page)
    sys.exit(0 if is_enough(results, found) else 1)


def is_enough(results: Sequence[Tried], found: Sequence[Finding]) -> bool:
    """True if the plan notices what it must."""
    changed = [result for result in results if result.counts]
    killed = sum(result.fate is Fate.KILLED for result in changed)
    caught = sum(bool(finding.caught_by) for finding in found)
    enough = bool(changed) and killed >= _LEAST * len(changed)
    return enough and caught >= _LEAST_CAUGHT * len(found)


def score(results: Sequence[Tried]) -> str:
    """How many mutants the plan killed, of those whose behaviour is another one."""
    counts = Counter(result.fate for result in results)
    changed = sum(result.counts for result in results)
    killed, idle = counts[Fate.KILLED], counts[Fate.IDLE]
    return (
        f"{_share(killed, changed)} mutants killed; {counts[Fate.SURVIVED]} survived, "
        f"{counts[Fate.UNCLEAR]} inconclusive, {idle} not judged (the client does nothing), "
        f"without which {_share(killed, changed - idle)} are killed; apart from these "
        f"{counts[Fate.EQUAL]} equivalent, {counts[Fate.CRASHED]} crash at once"
    )


def _share(number: int, total: int) -> str:
    return f"{number} of {total} ({100 * number / max(1, total):.0f} %)"


def _print_tried(result: Tried) -> None:
    mutant = result.mutant
    click.echo(f"{result.fate.name.lower():<9} {mutant.client}: {mutant.kind} {_by(result)}")
    if result.fate is not Fate.KILLED:
        for line in mutant.diff:
            click.echo(f"          {line}")


def _by(result: Tried) -> str:
    return f"({', '.join(result.failed)})" if result.failed else ""


def _faults(found: Sequence[Finding]) -> str:
    rows = [
        (f"`{one.fault.name}`", one.fault.that, ", ".join(one.caught_by) or "**not caught**")
        for one in found
    ]
    return f"{conclusion_of(found)}.\n\n{table(('Fault', 'The client', 'Caught by'), rows)}"


def _mutants(seed: int, results: Sequence[Tried]) -> str:
    """The score, the kinds of change, and the mutants that were not killed."""
    kinds = sorted({result.mutant.kind for result in results})
    rows = [(kind, *(str(_number(results, kind, fate)) for fate in Fate)) for kind in kinds]
    heads = ("Change", *(_HEADS[fate] for fate in Fate))
    parts = [f"Seed {seed}: {score(results)}.\n", table(heads, rows)]
    for fate in (Fate.SURVIVED, Fate.IDLE, Fate.UNCLEAR, Fate.EQUAL, Fate.CRASHED):
        lines = [line for one in results if one.fate is fate for line in _shown(one)]
        if lines:
            text = "\n".join(lines)
            parts.append(f"{fate.value[:1].upper()}{fate.value[1:]}:\n\n```diff\n{text}\n```\n")
    return "\n".join(parts)


def _number(results: Sequence[Tried], kind: str, fate: Fate) -> int:
    return sum(result.mutant.kind == kind and result.fate is fate for result in results)


def _shown(result: Tried) -> list[str]:
    return [
        f"# {result.mutant.client}: {result.mutant.kind} {_by(result)}".rstrip(),
        *result.mutant.diff,
    ]


if __name__ == "__main__":
    main()
