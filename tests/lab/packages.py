"""Packages for one test, in the guest's own repository."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from image import ARCHIVE
from lab import Host

NOTHING: Mapping[str, str] = MappingProxyType({})


def offer(
    host: Host,
    name: str,
    *,
    files: Mapping[str, str] = NOTHING,
    scripts: Mapping[str, str] = NOTHING,
    control: str = "",
) -> None:
    """Build version 1.0 of a package in the guest, from files by path and scripts by name, and update apt's lists."""
    tree = f"/root/{name}"
    head = (
        f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: Lab <lab@example.org>\n"
        f"Description: made for a test\n{control}"
    )
    host.write(f"{tree}/DEBIAN/control", head.rstrip() + "\n")
    for path, text in files.items():
        host.write(f"{tree}{path}", text)
    for script, text in scripts.items():
        host.write(f"{tree}/DEBIAN/{script}", f"#!/bin/sh\n{text}", 0o755)
    host.sh(f"""
        deb={ARCHIVE}/{name}_1.0_all.deb
        dpkg-deb --root-owner-group --build {tree} $deb >/dev/null
        {{ echo; dpkg-deb --field $deb; echo "Filename: ./{name}_1.0_all.deb"; echo "Size: $(stat -c %s $deb)"
           echo "SHA256: $(sha256sum $deb | cut -d' ' -f1)"; }} >>{ARCHIVE}/Packages
        apt-get -qq update
    """)


def wheel(directory: Path, name: str, version: str, needs: str = "") -> None:
    """Write a wheel with one module."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(directory / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"version = {version!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
