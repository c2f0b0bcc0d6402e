"""The disks of the lab's hosts: a Debian root file system, a package repository in it, and Holdfast's environment.

Everything is cached under the hash of its recipe, so a changed recipe creates a new entry, and test runs can share
entries.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import inspect
import os
import platform
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("HOLDFAST_LAB_CACHE", "/var/tmp/holdfast-lab"))
SUITE = os.environ.get("HOLDFAST_LAB_SUITE", "bookworm")
GUEST_PYTHON = {"bookworm": "3.11", "trixie": "3.13"}
"""Version of `python3` in each suite."""
PACKAGES = (
    "apt", "usr-is-merged", "systemd", "systemd-sysv", "dbus", "libpam-systemd", "libnss-systemd", "python3",
    "python3-venv", "cron", "iproute2", "iputils-ping", "nftables", "procps", "ca-certificates", "adduser", "login",
    "passwd", "sudo", "curl",
)  # fmt: skip
OFFERED = (
    "nginx-light",
    "polkitd",
    "runit",
    "openrc sysvinit-core",
    "sysv-rc sysvinit-core",
    "dnf dnf-plugins-core rpm createrepo-c",
    "zypper rpm createrepo-c",
    "pacman-package-manager makepkg libarchive-tools",
    "postgresql",
    "logrotate",
    "ufw",
    "iptables",
    "git",
    "locales",
    "openssh-server",
    "acl",
    "postfix",
)
"""Packages that are not installed, but are in the guest's repository with all dependencies.

An entry with several packages is for one host that needs all of them.
"""
ARCHIVE = "/srv/apt"
"""The path of the repository in the guest."""
TUNE = f"""set -e; cd "$1"
: >etc/machine-id; rm -f etc/hostname; mkdir -p etc/systemd/journald.conf.d var/log/journal .{ARCHIVE}/partial
for unit in apt-daily.timer apt-daily-upgrade.timer dev-hugepages.mount sys-fs-fuse-connections.mount; do
  ln -sf /dev/null etc/systemd/system/$unit
done
printf '[Journal]\\nStorage=persistent\\nSystemMaxUse=64M\\nRateLimitBurst=0\\n' >etc/systemd/journald.conf.d/lab.conf
for packages in {" ".join(f"'{packages}'" for packages in OFFERED)}; do
  chroot . apt-get -qq --download-only -o Dir::Cache::archives={ARCHIVE} install $packages
done
rm -rf .{ARCHIVE}/partial .{ARCHIVE}/lock
"""

TINY = {
    "tiny_1.0": "Depends: bash",
    "tiny_2.0": "Depends: bash",
    "tiny-needs_1.0": "Depends: tiny",
    "tiny-broken_1.0": "Depends: no-such-package",
    "tiny-refuses_1.0": "",
}
"""Packages built here, `name_version` -> an additional control line.

`tiny` has a configuration file; the script of `tiny-refuses` fails.
"""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Create a lock file if necessary, wait for it, and hold it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def cached(name: str, recipe: object, make: Callable[[Path], object]) -> Path:
    """Return the directory that `make` fills, created once for each recipe. Only a complete one gets the final name."""
    path = CACHE / f"{name}-{hashlib.sha256(repr(recipe).encode()).hexdigest()[:12]}"
    with locked(CACHE / f"{name}.lock"):
        if not path.exists():
            unfinished = path.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(path)
    return path


def root() -> Path:
    """Return the root file system: a minimal Debian with systemd and one package source, at `ARCHIVE`."""
    makers = [inspect.getsource(maker) for maker in (make_root, make_package, index)]
    return cached(SUITE, (PACKAGES, OFFERED, TUNE, TINY, makers), make_root)


def make_root(path: Path) -> None:
    """Create the root file system with the package source and proxy settings of the machine."""
    lists = [Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")]
    source = [str(file) for file in lists if file.exists() and SUITE in file.read_text()][:1]
    settings = call("apt-config", "dump").splitlines()
    reach = [
        f"--aptopt={line}"
        for line in settings
        if line.startswith(("Acquire::http", "Acquire::Check", "Acquire::Retries"))
    ]
    call(
        "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase",
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr", *reach,
        *(f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("man", "doc", "locale", "info")),
        f"--include={','.join(PACKAGES)}", f"--customize-hook={TUNE}", SUITE, str(path), *source,
    )  # fmt: skip
    archive = path / ARCHIVE.lstrip("/")
    for package, control in TINY.items():
        make_package(archive, *package.split("_"), control)
    index(archive)
    for file in (path / "etc/apt/sources.list.d").iterdir():
        file.unlink()
    (path / "etc/apt/sources.list").write_text(f"deb [trusted=yes] file:{ARCHIVE} ./\n")
    call("chroot", str(path), "apt-get", "-qq", "update")


def make_package(archive: Path, name: str, version: str, control: str) -> None:
    """Build a tiny package with a command that prints its version, and a configuration file."""
    tree = archive / f"{name}.tree"
    scripts = tree / "DEBIAN"
    command, settings = tree / "usr/bin" / name, tree / "etc" / f"{name}.conf"
    head = (
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: Lab <lab@example.org>\nDescription: tiny"
    )
    for file, text in (
        (scripts / "control", f"{head}\n{control}".rstrip() + "\n"),
        (scripts / "conffiles", f"/etc/{name}.conf\n"),
        (settings, f"version = {version}\n"),
        (command, f"#!/bin/sh\necho {version}\n"),
    ):  # fmt: skip
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    command.chmod(0o755)
    if name == "tiny-refuses":
        (scripts / "preinst").write_text("#!/bin/sh\necho 'tiny-refuses: no room at the inn' >&2\nexit 1\n")
        (scripts / "preinst").chmod(0o755)
    call("dpkg-deb", "--root-owner-group", "--build", str(tree), str(archive / f"{name}_{version}_all.deb"))
    shutil.rmtree(tree)


def index(archive: Path) -> None:
    """Write the `Packages` file of a directory of packages."""
    entries = []
    for fetched in archive.glob("*%3a*.deb"):  # an epoch in the version; apt would look for a colon
        fetched.rename(fetched.with_name(fetched.name.replace("%3a", "-")))
    for deb in sorted(archive.glob("*.deb")):
        digest = hashlib.sha256(deb.read_bytes()).hexdigest()
        entries.append(
            f"{call('dpkg-deb', '--field', str(deb))}Filename: ./{deb.name}\nSize: {deb.stat().st_size}\n"
            f"SHA256: {digest}\n"
        )
    (archive / "Packages").write_text("\n".join(entries))


def wheels() -> Path:
    """Return a directory with wheels of all dependencies of Holdfast for the guest's Python."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    extras = (each for extra in ("fleet", "postgres") for each in project["optional-dependencies"][extra])
    wanted = sorted({*project["dependencies"], *extras})
    return cached("wheels", (SUITE, platform.machine(), wanted), lambda path: download(wanted, path))


def download(wanted: list[str], path: Path) -> None:
    """Download wheels for the guest, whatever Python runs the tests."""
    version = GUEST_PYTHON[SUITE]
    tags = [f"manylinux_2_{minor}_{platform.machine()}" for minor in range(36, 16, -1)] + [
        f"manylinux2014_{platform.machine()}"
    ]
    call(
        sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(
            path,
        ), "--only-binary=:all:", "--implementation=cp",
        f"--python-version={version}", f"--abi=cp{version.replace('.', '')}", "--abi=abi3", "--abi=none",
        *(f"--platform={tag}" for tag in tags), *wanted,
    )  # fmt: skip


def own_wheel(directory: Path) -> Path:
    """Build Holdfast's own wheel from the checkout."""
    call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory), str(REPO))
    return next(directory.glob("holdfast-*.whl"))


def sources() -> str:
    """Return a digest of all sources of Holdfast's wheel."""
    digest = hashlib.sha256()
    files = [REPO / name for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE")]
    for directory, _, names in os.walk(REPO / "src/holdfast", followlinks=True):
        files += [Path(directory, name) for name in names if not directory.endswith("__pycache__")]
    for file in sorted(files):
        digest.update(
            f"{file.relative_to(REPO)}:{file.stat().st_mode}:".encode() + hashlib.sha256(file.read_bytes()).digest()
        )
    return digest.hexdigest()


def call(*argv: str) -> str:
    """Run a command and return its output. Raise an error with the output if it fails."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(
            f"{' '.join(argv)[:200]} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        )
    return done.stdout
