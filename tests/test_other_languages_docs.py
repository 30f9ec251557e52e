"""The JavaScript of docs/other-languages.md passes against a sandbox."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.node import node
from tests.support import PATIENCE, Running

PAGE = Path(__file__).parents[1] / "docs" / "other-languages.md"
NODE = shutil.which("node") or node()


@pytest.mark.process
@pytest.mark.skipif(NODE is None, reason="needs Node, which make interop installs")
def test_the_test_in_javascript_passes(server: Running, tmp_path: Path) -> None:
    found = re.search(r"<!-- file: (\S+) -->\n```js\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    (tmp_path / found[1]).write_text(found[2])
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--test", found[1]],
        cwd=tmp_path,
        env={**os.environ, "INVOICE_SANDBOX_URL": server.url},
        capture_output=True,
        text=True,
        check=False,
        timeout=10 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"pass 1$", done.stdout, re.MULTILINE)
