"""A host with pacman, for `test_pkg.py`: makepkg makes its packages, and repo-add its repository."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import image
import lab
from pkg_sites import PkgSite, holding

REPOSITORY = "/srv/pacman"
SAVED = ("/usr", "/etc/pacman.conf", "/etc/makepkg.conf", "/var/lib/pacman", "/srv/pacman")
"""Paths of the layer with pacman."""
BUILD = f"""
apt-get -qq install --no-install-recommends pacman-package-manager makepkg libarchive-tools >/dev/null
useradd --create-home builder
install -d -o builder {REPOSITORY}
build() {{ # NAME VERSION DEPENDENCY GROUP
  mkdir -p /home/builder/$1-$2; cd /home/builder/$1-$2
  cat >PKGBUILD <<END
pkgname=$1 pkgver=$2 pkgrel=1 pkgdesc=tiny arch=(any) license=(MIT) depends=($3) backup=(etc/$1.conf) groups=($4)
options=(!strip !debug !zipman)
package() {{
  install -d "\\$pkgdir/usr/bin" "\\$pkgdir/etc"
  printf '#!/bin/sh\\necho $2\\n' >"\\$pkgdir/usr/bin/$1"
  chmod 755 "\\$pkgdir/usr/bin/$1"
  echo "version = $2" >"\\$pkgdir/etc/$1.conf"
}}
END
  chown -R builder .
  runuser -u builder -- env PKGEXT=.pkg.tar.gz PKGDEST={REPOSITORY} makepkg --nodeps >log 2>&1 || {{ cat log; exit 1; }}
}}
build tiny 1.0 "" toys
build tiny 2.0 "" toys
build tiny-needs 1.0 tiny toys
build tiny-broken 1.0 no-such-package ""
build late 1.0 "" ""
cd {REPOSITORY}
repo-add lab.db.tar.gz tiny-2.0* tiny-needs* tiny-broken* >/dev/null 2>&1
printf '[lab]\\nSigLevel = Never\\nServer = file://{REPOSITORY}\\n' >>/etc/pacman.conf
pacman -Sy >/dev/null
"""


class PacmanSite(PkgSite):
    """A host with pacman, which knows nothing about the Debian below it."""

    tool = "pacman"
    facts = MappingProxyType({"os": "Arch", "os_family": "Arch"})
    versions = ("1.0-1", "2.0-1")
    older = False
    lacks = frozenset({"hold", "unhold", "holds", "repos", "repo_set", "repo_remove", "patches"})

    @classmethod
    def layers(cls, run: lab.Run) -> tuple[Path, ...]:
        """Return the layer with pacman and its repository."""
        recipe = (image.root().name, BUILD, SAVED, inspect.getsource(cls.build))
        return (image.cached("pacman", recipe, lambda path: cls.build(run, path)),)

    @staticmethod
    def build(run: lab.Run, path: Path) -> None:
        """Install pacman in a host, and build the packages there."""
        host = run.host("pacman")
        host.run("bash", "-euc", BUILD, timeout=300)
        host.save(path, *SAVED)
        host.down()

    def version(self, name: str) -> str:
        """Ask pacman."""
        return self.host.run("pacman", "-Q", name, check=False).stdout.partition(" ")[2].strip()

    def add(self, name: str, version: str) -> None:
        """Install from the file."""
        self.host.run("pacman", "-U", "--noconfirm", self.file(name, version))

    def drop(self, name: str) -> None:
        """Remove by pacman."""
        self.host.run("pacman", "-R", "--noconfirm", name)

    def file(self, name: str, version: str) -> str:
        """Return the path in the repository."""
        return f"{REPOSITORY}/{name}-{version}-any.pkg.tar.gz"

    def publish(self, name: str) -> None:
        """Add the package to the list of the repository."""
        self.host.sh(f"cd {REPOSITORY}; sleep 1; repo-add lab.db.tar.gz {self.file(name, '1.0-1')} >/dev/null 2>&1")

    def break_repositories(self, *, all_of_them: bool) -> None:
        """Add a repository behind a closed port."""
        if all_of_them:
            self.host.sh("sed -i '/^.lab.$/,/^Server/d' /etc/pacman.conf")
        else:
            self.host.sh("printf '[gone]\\nServer = http://127.0.0.1:9/gone\\n' >>/etc/pacman.conf")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep the lock file open and remove it at the end, as pacman does."""
        with holding(self.host, "/var/lib/pacman/db.lck"):
            yield
            self.host.run("rm", "/var/lib/pacman/db.lck")
