"""What package indexes show: the README without pictures and links to files of the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

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
