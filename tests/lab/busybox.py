"""busybox with the applets for accounts, which Debian's own package leaves out: built from Debian's source.

The binary is static. It is built once and cached, as the root file systems are.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import image

DEBIAN_PACKAGES = ("gcc", "make", "libc6-dev", "bzip2")
APPLETS = ("adduser", "addgroup", "deluser", "delgroup", "passwd", "chpasswd")
OPTIONS = (
    "static", "lfs", "long_opts", "show_usage", "feature_shadowpasswds", "use_bb_crypt", "use_bb_pwd_grp",
    "use_bb_shadow", *APPLETS,
)  # fmt: skip
"""Options of the build. busybox reads the files itself, because a static program cannot load glibc's modules for
accounts."""
ASKED = r"CHECK_NAMES|_ID=0|PASSWD_ALGO|USER_TO_GROUP|USER_FROM_GROUP|CRYPT_SHA"
"""Options of these applets; the build uses their defaults."""
BUILD = f"""set -eu
tar --extract --strip-components=1 --file busybox_*.orig.tar.*
make allnoconfig
for option in {" ".join(OPTIONS).upper()}; do sed -i "s/^# CONFIG_$option is not set/CONFIG_$option=y/" .config; done
sed -i -E '/{ASKED}/d' .config
yes '' | make oldconfig
make busybox
"""
INSTALL = f"""
rm -f /usr/sbin/{{useradd,usermod,userdel,groupadd,groupmod,groupdel,chpasswd}} /usr/bin/{{gpasswd,chage,passwd}}
for applet in {" ".join(APPLETS)}; do ln -sf ../bin/busybox /usr/sbin/$applet; done
"""
"""Script for a guest with the layer: the applets take the place of the shadow tools."""


def missing() -> str:
    """Return why busybox cannot be built on this machine; empty if it can."""
    if all(map(shutil.which, ("gcc", "make", "bzip2"))):
        return ""
    return f"no compiler: apt-get install {' '.join(DEBIAN_PACKAGES)}"


def layer() -> Path:
    """Return a layer with `/usr/bin/busybox`; create it if necessary."""
    return image.cached("busybox", (image.SUITE, BUILD), build)


def build(path: Path) -> None:
    """Get the source from the machine's package sources, and build it."""
    source = path / "source"
    (source / "lists/partial").mkdir(parents=True)
    machine = [Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list")]
    listed = next(file for file in machine if file.exists() and image.SUITE in file.read_text())
    text = listed.read_text().replace("Types: deb\n", "Types: deb-src\n").replace("\ndeb ", "\ndeb-src ")
    (source / listed.name).write_text(text)
    options = (f"Dir::Etc::sourcelist={source / listed.name}", "Dir::Etc::sourceparts=-", "APT::Sandbox::User=root")
    for verb in (("update",), ("source", "--download-only", "busybox")):
        apt = ["apt-get", "-qq", f"-oDir::State::lists={source}/lists", *(f"-o{option}" for option in options), *verb]
        subprocess.run(apt, cwd=source, check=True, capture_output=True)
    make = {**os.environ, "MAKEFLAGS": "", "LC_ALL": "C"}
    done = subprocess.run(["bash", "-c", BUILD], cwd=source, check=False, capture_output=True, text=True, env=make)
    if not (source / "busybox").exists():
        raise RuntimeError(f"cannot build busybox:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    (path / "usr/bin").mkdir(parents=True)
    shutil.move(source / "busybox", path / "usr/bin/busybox")
    shutil.rmtree(source)
