"""The hosts on which `test_pkg.py` runs: one class for each package manager.

To add one, derive a class from `PkgSite` in a module of its own, and name it in `sites.py`. Its repository is a
directory on the host and offers these packages:

- `tiny` in two versions (`PkgSite.versions`), with the command `/usr/bin/tiny`, which prints the version, and the
  configuration file `/etc/tiny.conf`,
- `tiny-needs`, which needs `tiny`,
- `tiny-broken`, which needs a package that does not exist.

The lists of the tool are up to date, and none of the packages is installed.
"""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, ClassVar, Self

import image
import lab
from driver import Driver

NO_FACTS: Mapping[str, str] = MappingProxyType({})


class PkgSite(ABC):
    """A host with one package manager; a context manager that runs the provider there."""

    tool: ClassVar[str]
    facts: ClassVar[Mapping[str, str]] = NO_FACTS
    """Grains that differ from those of the guest, which is a Debian."""
    versions: ClassVar[tuple[str, str]]
    """The versions of `tiny` as the tool writes them, the older one first."""
    older: ClassVar[bool] = True
    """Whether the repository offers the older version, too."""
    lacks: ClassVar[frozenset[str]] = frozenset()
    """Functions of the interface that the tool does not have."""
    derived: ClassVar[tuple[str, ...]] = ()
    """Beginnings of paths of caches that the tool derives from its own database, even if it only reads."""

    def __init__(self, host: lab.Host) -> None:
        self.host = host

    @classmethod
    def missing(cls) -> str:
        """Return why the site cannot be built on this machine; empty if it can."""
        return ""

    @classmethod
    def layers(cls, run: lab.Run) -> tuple[Path, ...]:
        """Return layers with the tool and its repository, the top one first; create them if necessary."""
        return ()

    def __enter__(self) -> Self:
        """Start the driver in the host."""
        self.driver = Driver(self.host, facts=self.facts).__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the driver."""
        self.driver.__exit__(kind, error, trace)

    def reset(self) -> None:
        """Remove the packages that a test has installed, with their configuration."""
        for name in ("tiny-needs", "tiny"):
            if self.version(name):
                self.drop(name)
        self.host.sh("rm -f /etc/tiny.conf*")

    # -- what a tool's site has to do, all by hand and without Holdfast -------------------------------------------

    @abstractmethod
    def version(self, name: str) -> str:
        """Return the installed version; empty if the package is not installed."""

    @abstractmethod
    def add(self, name: str, version: str) -> None:
        """Install a version of a package, from its file."""

    @abstractmethod
    def drop(self, name: str) -> None:
        """Remove a package."""

    @abstractmethod
    def file(self, name: str, version: str) -> str:
        """Return the path of a package file in the repository."""

    @abstractmethod
    def publish(self, name: str) -> None:
        """Add a package to the repository that the lists of the host do not have yet."""

    def second_repository(self) -> dict[str, Any]:
        """Build another repository with a package `elsewhere`; return its description as `repo_set` takes it.

        Needed unless the tool lacks `repo_set`. The repository is not configured yet.
        """
        raise NotImplementedError

    @abstractmethod
    def break_repositories(self, *, all_of_them: bool) -> None:
        """Configure a repository named `gone` that cannot be reached, besides the others or as the only one."""

    @abstractmethod
    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the tool, as another program that changes packages does."""


HOLD = """
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o640)
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holding(host: lab.Host, path: str) -> Iterator[None]:
    """Lock a file of a host by fcntl(2)."""
    pipe = subprocess.PIPE
    with host.spawn("/usr/bin/python3", "-c", HOLD, path, stdin=pipe, stdout=pipe) as holder:
        holder.stdout.readline()
        yield
        holder.stdin.close()


class AptSite(PkgSite):
    """A Debian host; `image.py` makes its repository."""

    tool = "apt"
    versions = ("1.0", "2.0")
    lacks = frozenset({"groups", "patches"})

    def __init__(self, host: lab.Host) -> None:
        super().__init__(host)
        source = f"deb [trusted=yes] copy:{image.ARCHIVE} ./\n"  # with `file:`, apt would see changes without a refresh
        host.write("/etc/apt/sources.list", source)
        host.run("apt-get", "-qq", "update")

    def version(self, name: str) -> str:
        """Ask dpkg."""
        shown = self.host.run("dpkg-query", "-W", "-f", "${db:Status-Abbrev}|${Version}", name, check=False).stdout
        status, _, version = shown.partition("|")
        return version if status[1:2] == "i" else ""

    def add(self, name: str, version: str) -> None:
        """Install by dpkg."""
        self.host.run("dpkg", "--install", self.file(name, version))

    def drop(self, name: str) -> None:
        """Remove by dpkg."""
        self.host.run("dpkg", "--remove", name)

    def reset(self) -> None:
        """Have dpkg forget the configuration, too."""
        self.host.run("dpkg", "--purge", "tiny-needs", "tiny")

    def file(self, name: str, version: str) -> str:
        """Return the path in the archive."""
        return f"{image.ARCHIVE}/{name}_{version}_all.deb"

    def publish(self, name: str, archive: str = image.ARCHIVE) -> None:
        """Build a package in the guest, and add it to the index of a directory."""
        head = f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: L <l@example.org>\nDescription: new\n"
        self.host.write(f"/root/{name}/DEBIAN/control", head)
        deb = f"{archive}/{name}_1.0_all.deb"
        self.host.sh(f"""
            dpkg-deb --root-owner-group --build /root/{name} {deb} >/dev/null
            {{ echo; dpkg-deb --field {deb}; echo "Filename: ./$(basename {deb})"; echo "Size: $(stat -c %s {deb})"
               echo "SHA256: $(sha256sum {deb} | cut -d' ' -f1)"; }} >>{archive}/Packages
        """)

    def second_repository(self) -> dict[str, Any]:
        """Build it in another directory."""
        self.host.sh("mkdir /srv/second")
        self.publish("elsewhere", "/srv/second")
        return {"id": "second", "uris": ["copy:/srv/second"], "gpgcheck": False, "extra": {"suites": ["./"]}}

    def break_repositories(self, *, all_of_them: bool) -> None:
        """Add a repository behind a closed port."""
        self.host.write("/etc/apt/sources.list.d/gone.list", "deb [trusted=yes] http://127.0.0.1:9/gone ./\n")
        if all_of_them:
            self.host.sh("rm /etc/apt/sources.list")

    def lock(self) -> Iterator[None]:
        """Hold the lock of dpkg's frontends."""
        return holding(self.host, "/var/lib/dpkg/lock-frontend")
