"""Archives made by the real tools, served by a web server, and kept by a running agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tools
from driver import Driver, Failed
from installed import PYTHON
from lab import Host, Run

pytestmark = pytest.mark.lab

URL = "http://127.0.0.1:8000"
COMPRESS = """
import bz2, lzma, sys
data = open(sys.argv[1], "rb").read()
for ending, library in (".xz", lzma), (".bz2", bz2):
    open(sys.argv[1] + ending, "wb").write(library.compress(data))
"""
PREPARE = f"""
mkdir -p /srv/files /srv/src/app-1/bin /srv/src/app-1/conf
cd /srv/src
printf '#!/bin/sh\\necho one\\n' >app-1/bin/app; chmod 755 app-1/bin/app
echo key=1 >app-1/conf/app.conf; ln -s bin/app app-1/run
seq 20000 >app-1/numbers; ln app-1/numbers app-1/same
chown -R 1234:1234 app-1
tar -czf /srv/files/app.tar.gz app-1; tar --format=v7 -cf /srv/files/app.tar app-1
{PYTHON} -c '{COMPRESS}' /srv/files/app.tar
{PYTHON} -m zipfile -c /srv/files/app.zip app-1
cd /srv/files; sha256sum * >SHA256SUMS
systemd-run -q --unit=files {PYTHON} -m http.server 8000 --bind 127.0.0.1 --directory /srv/files
for _ in $(seq 100); do {PYTHON} -c 'import urllib.request as r; r.urlopen("{URL}")' 2>/dev/null && break; done
"""


@pytest.fixture(scope="module")
def host(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """A host with a web server."""
    with tools.equipped(run, layers, PREPARE) as host:
        yield host


@pytest.mark.parametrize("name", ["app.tar.gz", "app.tar.xz", "app.tar.bz2", "app.tar", "app.zip"])
def test_what_the_tools_made_is_extracted(host: Host, name: str):
    """Archives of each format come from the server; the owners in an archive are ignored."""
    with Driver(host) as driver:
        declared = {"source": f"{URL}/{name}", "source_hash": f"{URL}/SHA256SUMS"}
        top = f"/srv/{name}.d"
        assert "app-1/bin/app" in driver.apply("archive.extracted", top, **declared).changes["extracted_files"]
        assert host.sh(f"sh {top}/app-1/bin/app; tail -1 {top}/app-1/same; stat -c %U {top}/app-1/numbers") == (
            "one\n20000\nroot\n"
        )
        assert name == "app.zip" or host.sh(f"diff -r /srv/src/app-1 {top}/app-1; {top}/app-1/run") == "one\n"
        assert driver.apply("archive.extracted", top, **declared).right


def test_a_repair_needs_no_server(host: Host):
    """With a declared hash, the kept archive is used.

    An archive with another hash is refused, and nothing is extracted.
    """
    with Driver(host) as driver:
        sha = host.sh("sha256sum /srv/files/app.tar.gz | cut -d' ' -f1").strip()
        declared = {"source": f"{URL}/app.tar.gz", "source_hash": sha}
        driver.apply("archive.extracted", "/srv/once", **declared)
        host.sh("rm -r /srv/once/app-1/bin; mv /srv/files/app.tar.gz /srv/files/away")
        assert driver.apply("archive.extracted", "/srv/once", **declared).changes == {
            "extracted_files": ["app-1/bin", "app-1/bin/app"]
        }
        host.sh("mv /srv/files/away /srv/files/app.tar.gz")
        with pytest.raises(Failed, match="but source_hash says 0000"):
            driver.apply("archive.extracted", "/srv/never", source=f"{URL}/app.tar.xz", source_hash="0" * 64)
        assert host.sh("ls /srv").split() == sorted({*host.sh("ls /srv").split()} - {"never"})


def test_a_new_archive_is_found_by_its_hash(host: Host):
    """The next check reads the file of hashes, and extracts what differs."""
    with Driver(host) as driver:
        declared = {"source": f"{URL}/app.tar.gz", "source_hash": f"{URL}/SHA256SUMS"}
        driver.apply("archive.extracted", "/srv/renewed", **declared)
        host.sh(
            "cd /srv/src; echo key=2 >app-1/conf/app.conf; tar -czf /srv/files/new app-1; cd /srv/files; "
            "mv new app.tar.gz; sha256sum * >/srv/sums; mv /srv/sums SHA256SUMS; touch -d '2 hours ago' SHA256SUMS"
        )
        assert not driver.apply("archive.extracted", "/srv/renewed", **declared).right
    assert host.read("/srv/renewed/app-1/conf/app.conf") == "key=2\n"
