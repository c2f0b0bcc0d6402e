"""A signed repository of apt for tests, with a key of its own, made by gpg on the machine that runs the tests."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import pytest
from lab import Host

ROOT = "/srv/signed"
"""Directory of the repository in the guest."""


@dataclass(frozen=True)
class Signer:
    """A key that signs repositories."""

    home: Path

    def gpg(self, *arguments: str, stdin: str = "") -> str:
        """Run gpg and return its output."""
        command = ("gpg", "--homedir", str(self.home), "--batch", "--quiet", "--no-tty", "--pinentry-mode=loopback")
        done = subprocess.run(
            [*command, "--passphrase=", *arguments], input=stdin, text=True, check=True, stdout=subprocess.PIPE
        )
        return done.stdout

    @property
    def key(self) -> str:
        """The public key in ASCII armor."""
        return self.gpg("--armor", "--export")

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the key."""
        lines = self.gpg("--list-keys", "--with-colons").splitlines()
        return next(line.split(":")[9] for line in lines if line.startswith("fpr"))

    def publish(self, host: Host, package: str, root: str = ROOT) -> None:
        """Build a package in the guest, and a signed repository with the suite stable that offers it."""
        base = f"{root}/dists/stable"
        host.write(
            f"/root/{package}/DEBIAN/control",
            f"Package: {package}\nVersion: 1.0\nArchitecture: all\nMaintainer: Lab <lab@example.org>\n"
            "Description: made for a test\n",
        )
        host.sh(f"""
            mkdir -p {root}/pool {base}/main/binary-all {base}/main/binary-$(dpkg --print-architecture)
            deb={root}/pool/{package}.deb
            dpkg-deb --root-owner-group --build /root/{package} $deb >/dev/null
            {{ dpkg-deb --field $deb; echo "Filename: pool/{package}.deb"; echo "Size: $(stat -c %s $deb)"
               echo "SHA256: $(sha256sum $deb | cut -d' ' -f1)"; }} >{base}/main/binary-all/Packages
            cp {base}/main/binary-all/Packages {base}/main/binary-$(dpkg --print-architecture)/Packages
        """)
        names = host.sh(f"cd {base}; ls -d main/binary-*").split()
        index = host.read(f"{base}/{names[0]}/Packages").encode()
        digest = hashlib.sha256(index).hexdigest()
        release = (
            f"Origin: Lab\nSuite: stable\nCodename: stable\nDate: {formatdate(usegmt=True)}\n"
            f"Architectures: {' '.join(name.partition('-')[2] for name in names)}\nComponents: main\nSHA256:\n"
            + "".join(f" {digest} {len(index)} {name}/Packages\n" for name in names)
        )
        host.write(f"{base}/InRelease", self.gpg("--clearsign", stdin=release))


@contextmanager
def signer() -> Iterator[Signer]:
    """Make a key. Without gpg the test is skipped; on CI it fails."""
    if shutil.which("gpg") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("gpg not found: apt-get install gpg gpg-agent")
    with tempfile.TemporaryDirectory(prefix="holdfast-gpg-") as home:
        made = Signer(Path(home))
        made.gpg("--quick-generate-key", "Lab <lab@example.org>", "ed25519", "sign", "never")
        try:
            yield made
        finally:
            subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)
