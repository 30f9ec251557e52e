"""``python -m tests.foreign`` serves what others have made, and brings docs/any-document.md up to
date; ``--bounded`` plays a few documents and ``--every`` 2,600, and neither writes anything.

Ends with 1 when a response is not what its document says.
"""

from __future__ import annotations

import sys
from collections import Counter

import click

from tests.foreign import packages
from tests.foreign.page import PAGE, with_table
from tests.foreign.play import Played, play
from tests.interop.node import UnavailableError


@click.command()
@click.option("--bounded", is_flag=True, help="A few small documents.")
@click.option("--every", is_flag=True, help="All that the packages have.")
@click.argument("words", nargs=-1)
def main(bounded: bool, every: bool, words: tuple[str, ...]) -> None:
    """Play the documents whose names contain one of WORDS, or all of them."""
    try:
        chosen = (
            packages.BOUNDED if bounded else packages.everything() if every else packages.whole()
        )
        played = list(_played(chosen, words))
    except UnavailableError as error:
        raise click.ClickException(str(error)) from None
    wrong = sum(len(one.wrong) for one in played)
    unasked = sum(len(one.unasked) for one in played)
    if not (bounded or every or words):
        PAGE.write_text(with_table(PAGE.read_text(), played))
    counted = Counter("refused" if one.rejected else "served" for one in played)
    right = sum(one.right for one in played)
    operations = sum(one.operations for one in played)
    click.echo(
        f"{counted['served']} documents served, {counted['refused']} refused; "
        f"{right} of {operations} operations answered as their documents say, {wrong} wrong, "
        f"{unasked} not asked for"
    )
    sys.exit(1 if wrong else 0)


def _played(chosen: dict[packages.Package, list[str]], words: tuple[str, ...]) -> list[Played]:
    every = []
    for package, names in chosen.items():
        wanted = [name for name in names if not words or any(word in name for word in words)]
        for name, file in zip(wanted, package.documents(wanted), strict=True):
            one = play(file, f"{package.name} {name}")
            every.append(one)
            word = "refused" if one.rejected else "WRONG" if one.wrong else "ok"
            reported = one.rejected or f"{one.right} of {one.operations} in {one.seconds:.1f} s"
            click.echo(f"{word:8}{one.name}: {reported}")
            for line in (*one.wrong, *one.unasked, *one.unanswered):
                click.echo(f"        {line[:300]}")
    return every


if __name__ == "__main__":
    main()
