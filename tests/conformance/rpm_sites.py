"""The hosts of package managers that install rpm packages: Debian guests with the tools that Debian packages."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

import image
import lab
from pkg_sites import PkgSite

RPMS = "/srv/rpm"
"""The repository in the guest. The tools make hard links to its files, so the files count as written."""
SPEC = """
Name: {name}
Version: {version}
Release: 1
Summary: tiny
License: MIT
URL: https://example.org/tiny
BuildArch: noarch
{control}
%description
tiny
%install
mkdir -p %{{buildroot}}/usr/bin %{{buildroot}}/etc
printf '#!/bin/sh\\necho {version}\\n' >%{{buildroot}}/usr/bin/{name}
echo version = {version} >%{{buildroot}}/etc/{name}.conf
%files
%attr(755, root, root) /usr/bin/{name}
%config(noreplace) /etc/{name}.conf
"""
TINY = {
    "base-1.0": "",
    "tiny-1.0": "",
    "tiny-2.0": "",
    "tiny-needs-1.0": "Requires: tiny",
    "tiny-broken-1.0": "Requires: no-such-package",
}
"""Packages of the repository, `name-version` -> an additional line of the spec file."""
MACROS = """%_dbpath /var/lib/rpm
%_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm
"""
GROUPS = """<comps><group><id>smalls</id><name>Small things</name><default>false</default>
<uservisible>true</uservisible>
<packagelist><packagereq type="mandatory">tiny</packagereq><packagereq type="default">tiny-needs</packagereq>
</packagelist></group></comps>
"""
PATCH = """<update from="lab@example.org" status="stable" type="{kind}" version="1"><id>LAB-{version}</id>
<title>tiny {kind} update</title><issued date="2024-01-01 00:00:00"/><severity>{severity}</severity>
<description>Corrects tiny.</description><references/><pkglist><collection short="lab"><name>lab</name>
<package name="tiny" version="{version}" release="1" epoch="0" arch="noarch" src="tiny-{version}-1.src.rpm">
<filename>tiny-{version}-1.noarch.rpm</filename></package></collection></pkglist></update>
"""
PATCHES = f"""<updates>{PATCH.format(kind="bugfix", version="1.0", severity="None")}
{PATCH.format(kind="security", version="2.0", severity="Important")}</updates>
"""
PATTERN = "Provides: pattern() = smalls\nRequires: tiny\nRecommends: tiny-needs"
"""What makes a package of openSUSE a pattern."""
PATTERNS = """#!/bin/sh
repo2solv.real "$@" || exit
[ "$1 $3" = "-o -X" ] || exit 0
helix2solv </srv/patterns.xml >"$2.patterns" && mergesolv "$2" "$2.patterns" >"$2.both" && mv "$2.both" "$2"
"""
"""A replacement for repo2solv, whose option `-X` derives patterns from packages only in SUSE's build of libsolv."""
SMALLS = """<channel><subchannel><pattern><name>smalls</name><arch>noarch</arch>
<history><update><arch>noarch</arch><version>1.0</version><release>1</release></update></history>
<provides><dep name="pattern:smalls" op="=" version="1.0" release="1"/>
<dep name="autopattern()" op="=" version="patterns-smalls"/></provides></pattern></subchannel></channel>
"""
"""Text that it derives from the package."""
GONE = "[gone]\nname=gone\nenabled=1\nbaseurl=http://127.0.0.1:9/gone\ngpgcheck=0\n"


class RpmSite(PkgSite):
    """A host with rpm; a derived class names the tool and its packages."""

    versions = ("1.0-1", "2.0-1")
    packages: ClassVar[str]
    """Debian's packages with the tool: an entry of `image.OFFERED`."""
    repositories: ClassVar[str]
    """Directory with the tool's repositories."""
    pid: ClassVar[str]
    """File of the tool with the id of the process that holds its lock."""
    groups: ClassVar[dict[str, list[str]]]
    """The groups of the repository."""

    @classmethod
    def layers(cls, run: lab.Run) -> tuple[Path, ...]:
        """Return a layer with the tool and the repository."""
        recipe = (image.root().name, Path(__file__).read_text(encoding="utf-8"), cls.tool)
        return (image.cached(f"rpm-{cls.tool}", recipe, lambda path: cls.make(run, path)),)

    @classmethod
    def make(cls, run: lab.Run, path: Path) -> None:
        """Install the tool, build the packages and the repository, and fetch the lists."""
        host = run.host(f"make-{cls.tool}")
        host.sh(f"apt-get -qq --yes --no-install-recommends install {cls.packages} >/dev/null 2>&1", timeout=300)
        # Debian's rpm keeps its database in the home of the user, because it is not the package manager of the host.
        host.write(
            "/etc/rpm/macros", "%_dbpath /var/lib/rpm\n%_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm\n"
        )
        for package, control in TINY.items():
            build(host, *package.rsplit("-", 1), control)
        host.write("/srv/comps.xml", GROUPS)
        host.write("/srv/updateinfo.xml", PATCHES)
        host.sh(f"""
            createrepo_c --quiet --groupfile /srv/comps.xml {RPMS}
            modifyrepo_c --mdtype=updateinfo /srv/updateinfo.xml {RPMS}/repodata
        """)
        host.write(f"{cls.repositories}/lab.repo", f"[lab]\nname=lab\nenabled=1\nbaseurl=file://{RPMS}\ngpgcheck=0\n")
        host.run(
            "rpm", "--force-debian", "--install", f"{RPMS}/base-1.0-1.noarch.rpm"
        )  # zypper refuses a host without repositories
        cls.prepare(host)
        host.save(path, "/usr", "/etc", "/var/lib", "/var/cache", "/srv")
        host.down()

    @classmethod
    def prepare(cls, host: lab.Host) -> None:
        """Configure the tool, and let it fetch the lists and create its files."""
        raise NotImplementedError

    def version(self, name: str) -> str:
        """Ask rpm."""
        done = self.host.run("rpm", "--query", "--queryformat", "%{VERSION}-%{RELEASE}", name, check=False)
        return "" if done.returncode else done.stdout

    def add(self, name: str, version: str) -> None:
        """Install by rpm."""
        self.host.run("rpm", "--force-debian", "--upgrade", "--oldpackage", self.file(name, version))

    def drop(self, name: str) -> None:
        """Remove by rpm."""
        self.host.run("rpm", "--force-debian", "--erase", name)

    def file(self, name: str, version: str) -> str:
        """Return the path in the repository."""
        return f"{RPMS}/{name}-{version}.noarch.rpm"

    def publish(self, name: str) -> None:
        """Build a package and the index."""
        build(self.host, name, "1.0", "")
        self.host.sh(f"createrepo_c --quiet {RPMS}")

    def second_repository(self) -> dict[str, Any]:
        """Build a package into a directory of its own."""
        build(self.host, "elsewhere", "1.0", "")
        self.host.sh(f"mkdir /srv/second; mv {RPMS}/elsewhere-* /srv/second; createrepo_c --quiet /srv/second")
        return {"id": "second", "uris": ["file:/srv/second"], "gpgcheck": False}

    def break_repositories(self, *, all_of_them: bool) -> None:
        """Add a repository behind a closed port."""
        self.host.write(f"{self.repositories}/gone.repo", GONE)
        if all_of_them:
            self.host.sh(f"rm {self.repositories}/lab.repo")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Write a running process into the lock file that the tool reads."""
        script = f"echo -n $$ >{self.pid}; echo held; read -r line; rm {self.pid}"
        pipe = subprocess.PIPE
        with self.host.spawn("bash", "-c", script, stdin=pipe, stdout=pipe) as holder:
            holder.stdout.readline()
            yield
            holder.stdin.close()


def build(host: lab.Host, name: str, version: str, control: str) -> None:
    """Build a package into the repository's directory."""
    host.write(f"/root/{name}.spec", SPEC.format(name=name, version=version, control=control))
    host.run("rpmbuild", "--quiet", "-bb", "--define", f"_rpmdir {RPMS}", f"/root/{name}.spec")


CHECKPOINT = 'import sqlite3; sqlite3.connect("/var/lib/dnf/history.sqlite").execute("PRAGMA wal_checkpoint(TRUNCATE)")'
"""Moves the content of the write-ahead log into dnf's history; otherwise, the next command would do so."""


class DnfSite(RpmSite):
    """A host with dnf 4, which says that it is a Fedora."""

    tool = "dnf"
    facts = {"os_family": "RedHat", "os": "Fedora"}  # noqa: RUF012 - as in `PkgSite`
    packages = "dnf dnf-plugins-core rpm createrepo-c"
    repositories = "/etc/yum.repos.d"
    pid = "/var/lib/dnf/rpmdb_lock.pid"
    groups = {"Small things": ["tiny", "tiny-needs"]}  # noqa: RUF012 - as in `PkgSite`
    derived = (f"{RPMS}/", "/var/lib/rpm/rpmdb.sqlite-shm", "/var/lib/dnf/history.sqlite-shm")

    def __enter__(self) -> Self:
        """Copy dnf's history to the guest's own disk, as each command of dnf does by opening it."""
        self.host.sh("touch /var/lib/dnf/history.sqlite /var/lib/dnf/history.sqlite-wal")
        return super().__enter__()

    @classmethod
    def prepare(cls, host: lab.Host) -> None:
        """Disable Debian's plugin for local packages; one installation creates the database of dnf's history."""
        host.sh(f"""
            sed -i 's/^enabled.*/enabled = false/' /etc/dnf/plugins/local.conf
            mkdir -p /etc/dnf/vars; echo 9 >/etc/dnf/vars/releasever
            dnf --assumeyes install tiny; dnf --assumeyes remove tiny; dnf --quiet group info '*'
            python3 -c '{CHECKPOINT}'
        """)


class ZypperSite(RpmSite):
    """A host with zypper, which says that it is an openSUSE. rpm's database is where SUSE has it."""

    tool = "zypper"
    facts = {"os_family": "Suse", "os": "SUSE"}  # noqa: RUF012 - as in `PkgSite`
    packages = "zypper rpm createrepo-c"
    repositories = "/etc/zypp/repos.d"
    pid = "/run/zypp.pid"
    groups = {"smalls": ["patterns-smalls", "tiny", "tiny-needs"]}  # noqa: RUF012 - as in `PkgSite`
    derived = (f"{RPMS}/", "/usr/lib/sysimage/rpm/rpmdb.sqlite-shm", "/var/cache/zypp/solv/@System/")

    @classmethod
    def prepare(cls, host: lab.Host) -> None:
        """Move the database, add a pattern, and refresh."""
        host.write("/usr/local/bin/repo2solv", PATTERNS)
        host.write("/srv/patterns.xml", SMALLS)
        build(host, "patterns-smalls", "1.0", PATTERN)
        host.sh(f"""
            mv /usr/bin/repo2solv /usr/bin/repo2solv.real
            install --mode=755 /usr/local/bin/repo2solv /usr/bin/repo2solv; rm /usr/local/bin/repo2solv
            createrepo_c --quiet --keep-all-metadata --update {RPMS}
            mkdir -p /usr/lib/sysimage; mv /var/lib/rpm /usr/lib/sysimage/rpm
            ln -s ../../usr/lib/sysimage/rpm /var/lib/rpm
            zypper --non-interactive refresh
        """)
