"""Names of earlier versions fail with the name to use instead."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from invoice_sandbox.base.renamed import HOOKS, MODULES, NAMES
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import load_project
from tests.test_project import write_project


@pytest.mark.parametrize(("module", "instead"), MODULES.items())
def test_a_module_that_is_gone_names_the_new_one(module: str, instead: str) -> None:
    with pytest.raises(ImportError, match=f"{module} was removed; import from {instead}"):
        importlib.import_module(module)
    importlib.import_module(instead)


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [(module, *one) for module, names in NAMES.items() for one in names.items()],
)
def test_a_name_that_is_gone_gives_the_new_one(module: str, name: str, instead: str) -> None:
    with pytest.raises(ImportError, match=f"{module}.{name} is now {instead}"):
        exec(f"from {module} import {name}")  # noqa: S102  an import statement as users write it
    *parents, last = instead.split(".")
    assert hasattr(importlib.import_module(".".join(parents) or module), last)


@pytest.mark.parametrize("name", [*MODULES, *NAMES["invoice_sandbox.project.api"], *HOOKS])
def test_the_changelog_lists_a_name_that_is_gone_with_the_new_one(name: str) -> None:
    api = NAMES["invoice_sandbox.project.api"]
    instead = MODULES.get(name) or api.get(name) or HOOKS[name]
    rows = (Path(__file__).parents[1] / "CHANGELOG.md").read_text().splitlines()
    (row,) = (row for row in rows if re.match(rf"\| .*`{re.escape(name)}\b.* \| ", row))
    assert re.search(rf"`{re.escape(instead)}\b", row.rpartition(" | ")[2])


def test_other_names_are_missing_as_usual() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("invoice_sandbox.nothing")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from invoice_sandbox.project.api import nothing")  # noqa: S102


@pytest.mark.parametrize(("name", "instead"), HOOKS.items())
def test_a_hook_that_was_renamed_gives_the_new_name(
    tmp_path: Path, name: str, instead: str
) -> None:
    project = write_project(tmp_path, "")
    (project / "domain").mkdir()
    (project / "domain" / "__init__.py").touch()
    (project / "domain" / "hooks.py").write_text(f"async def {name}(context, error): ...\n")
    with pytest.raises(ProjectError, match=f"there is no hook '{name}'; it is now {instead}"):
        load_project(project)
