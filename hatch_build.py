"""Additions of a build: the README that package indexes show, and the site that ``/help`` serves.

``python hatch_build.py FOLDER`` writes the site of a checkout, as ``make docs`` does.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK: Final = re.compile(r"\[([^]]*)\]\((?!https?:)[^)]*\)")
_ASIDE: Final = re.compile(rf"!{_LINK.pattern} *|\s+\({_LINK.pattern}\)")
"""A picture, or a link in brackets."""

_WHERE: Final = (
    "\nThe pages that this text names are in the folder `docs` of the source distribution.\n"
)


class ReadmeHook(MetadataHookInterface):
    """Adds ``readme`` to the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling for the wheel and the sdist."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = _LINK.sub(r"\1", _ASIDE.sub("", text)) + _WHERE
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class HelpHook(BuildHookInterface):  # type: ignore[type-arg]  # of the configuration of a builder
    """Adds the site to the wheel, as ``invoice_sandbox/help``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before a wheel. An editable one serves what ``make docs`` writes."""
        if version == "standard":
            self._folder = TemporaryDirectory()
            site = Path(self._folder.name) / "help"
            build_site(Path(self.root), site)
            build_data["force_include"][str(site)] = "invoice_sandbox/help"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Called by hatchling after it."""
        if version == "standard":
            self._folder.cleanup()


# The site

_START: Final = "start.md"
_BESIDE: Final = {"README.md": _START, "CHANGELOG.md": "changes.md"}
"""Pages that are not in ``docs``, with their names on the site."""

_TARGET: Final = re.compile(r"(!?)\[((?:[^][]|\[[^]]*\])*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
_SECTION: Final = re.compile(r"^## ([^:\n]*).*?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ENTRY: Final = re.compile(r"^- \[([^]]*)\]\(([^)]*)\)", re.MULTILINE)
_SCRIPT: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_STYLE: Final = re.compile(r'(\w+)\.appendChild\(\w+\("style",\{\},(\w+\.toString\(\))\)\)')
_SHEET: Final = r"\1.adoptedStyleSheets=[(s=>(s.replaceSync(\2),s))(new CSSStyleSheet)]"
"""The style of the search, which is allowed as a sheet and not as an element."""


def build_site(root: Path, site: Path) -> None:
    """Write the site of ``root/docs`` into the folder ``site``, which is replaced.

    A warning, such as about a link that leads nowhere, is an error: CalledProcessError.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        _write_pages(root, folder / "docs")
        config = (root / "zensical.toml").read_text(encoding="utf-8")
        config = config.replace("[project]\n", f"[project]\nnav = {_navigation(root)}\n", 1)
        (folder / "zensical.toml").write_text(config, encoding="utf-8")
        build = [sys.executable, "-m", "zensical", "build", "--strict"]
        subprocess.run(build, cwd=folder, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        _move_scripts(folder / "site")
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(folder / "site", site)


def _write_pages(root: Path, folder: Path) -> None:
    shutil.copytree(root / "docs", folder)
    for name, on_site in _BESIDE.items():
        shutil.copy(root / name, folder / on_site)
    for page in folder.rglob("*.md"):
        origin = {folder / on_site: root / name for name, on_site in _BESIDE.items()}.get(page)
        origin = origin or root / "docs" / page.relative_to(folder)
        text = page.read_text(encoding="utf-8")
        page.write_text(_with_links(text, root, origin), encoding="utf-8")


def _with_links(text: str, root: Path, page: Path) -> str:
    """A page whose links lead to pages of the site; one to another file is its text."""
    docs, code = root / "docs", re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
    below = page.parent if page.is_relative_to(docs) else docs

    def link(found: re.Match[str]) -> str:
        mark, shown, path, anchor = *found.groups()[:3], found[4] or ""
        target = Path(os.path.normpath(page.parent / path))
        name = _BESIDE.get(os.path.relpath(target, root))
        target = target if name is None else docs / name
        if not target.is_relative_to(docs):
            return shown
        return f"{mark}[{shown}]({os.path.relpath(target, below)}{anchor})"

    return "".join(
        part if part.startswith("```") else _TARGET.sub(link, part) for part in code.split(text)
    )


def _navigation(root: Path) -> str:
    """The navigation, in TOML: the sections and pages of ``docs/README.md``."""
    index = (root / "docs" / "README.md").read_text(encoding="utf-8")
    first: list[Any] = [{"Start": [{"Documentation": "README.md"}, {"Install": _START}]}]
    return _toml([*first, *_sections(index), {"Changes": "changes.md"}])


def _sections(index: str) -> Iterator[dict[str, Any]]:
    for title, text in _SECTION.findall(index):
        yield {title: [{name: path} for name, path in _ENTRY.findall(text)]}


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml(one)}' for key, one in value.items())}}}"
    return json.dumps(value)


def _move_scripts(site: Path) -> None:
    """Move scripts and styles out of the pages: the policy of our pages allows files only."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        base = os.path.relpath(site, page.parent)
        for script in _SCRIPT.findall(text):
            digest = hashlib.sha256(script.encode()).hexdigest()[:8]
            file = site / "assets" / "javascripts" / f"page.{digest}.min.js"
            file.write_text(script, encoding="utf-8")
            path = f"{base}/{file.relative_to(site)}"
            text = text.replace(f"<script>{script}</script>", f'<script src="{path}"></script>', 1)
        page.write_text(text, encoding="utf-8")
    for file in site.glob("assets/javascripts/bundle.*.js"):
        text = _STYLE.sub(_SHEET, file.read_text(encoding="utf-8"))
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    build_site(Path(__file__).parent, Path(sys.argv[1]))
