"""``python -m tests.acceptance``: the selftest with Node.js, and the tables of docs/acceptance.md.

Arguments are those of ``invoice-sandbox acceptance selftest``.
"""

from __future__ import annotations

import os
import sys

from invoice_sandbox.cli import main
from tests.acceptance.page import PAGE, with_tables
from tests.acceptance.selftest import judging
from tests.interop.node import install, needed_node


def with_node() -> None:
    """Put Node.js of its wheel on PATH, with the packages of its clients.

    Raises UnavailableError.
    """
    os.environ["PATH"] = os.pathsep.join([str(needed_node().parent), os.environ["PATH"]])
    install()


if __name__ == "__main__":
    with_node()
    words = sys.argv[1:]
    if not words:
        with judging() as (plan, _):
            PAGE.write_text(with_tables(PAGE.read_text(), plan))
        words = ["--write", str(PAGE)]
    main(["acceptance", "selftest", *words])
