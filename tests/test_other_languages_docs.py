"""docs/other-languages.md: the test in JavaScript passes, the others are whole files."""

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


def file_in(language: str) -> tuple[str, str]:
    """The name and the content of the file in that language."""
    pattern = rf"<!-- file: (\S+) -->\n```{language}\n(.*?)```"
    ((name, text),) = re.findall(pattern, PAGE.read_text(), re.DOTALL)
    return name, text


def test_the_test_in_go_imports_what_it_uses() -> None:
    name, text = file_in("go")
    assert name.endswith("_test.go")
    assert text.startswith("package ")
    imported = {
        one.rpartition("/")[2] for one in re.findall(r'^\t"([a-z/]+)"$', text, re.MULTILINE)
    }
    code = re.sub(r'"[^"]*"|`[^`]*`', "", text)
    variables = {"t", "request", "response", "workspace", "invoice"}
    assert set(re.findall(r"\b([a-z]+)\.[A-Z]", code)) - variables == imported


def test_the_test_in_java_imports_what_it_uses() -> None:
    name, text = file_in("java")
    imported = re.findall(r"^import (?:static )?[\w.]+\.(\w+);$", text, re.MULTILINE)
    code = re.sub(r'"""(.*?)"""|"[^"]*"', "", text.partition("class ")[2], flags=re.DOTALL)
    assert f"class {name.removesuffix('.java')} {{" in text
    used = set(re.findall(r"(?<![.\w])([A-Z]\w+)", code)) | {"assertEquals"}
    assert used - {"InvoiceTest", "String", "System", "Exception"} == set(imported)


def test_the_versions_of_all_plugins_are_those_that_were_tried() -> None:
    """Maven 3.8 itself has a compiler plugin that ignores ``maven.compiler.release``."""
    name, text = file_in("xml")
    assert name == "pom.xml"
    plugins = re.findall(r"<plugin>\s*<artifactId>maven-(\w+)-plugin</artifactId>\s*<vers", text)
    assert plugins == ["resources", "compiler", "surefire"]


@pytest.mark.process
@pytest.mark.skipif(NODE is None, reason="needs Node.js: make interop")
def test_the_test_in_javascript_passes(server: Running, tmp_path: Path) -> None:
    name, text = file_in("js")
    (tmp_path / name).write_text(text)
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--test", name],
        cwd=tmp_path,
        env={**os.environ, "INVOICE_SANDBOX_URL": server.url},
        capture_output=True,
        text=True,
        check=False,
        timeout=10 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"pass 1$", done.stdout, re.MULTILINE)
