"""Archives made by the real tools, served by a web server, and kept by a running agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lab
import pytest
import repairs
from driver import Driver, Failed
from installed import PYTHON
from lab import Host, Run

pytestmark = pytest.mark.lab

SOON = 1.0
"""Seconds for the best of several repairs; the median is 40 ms on an idle machine."""
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
STATES = f"""
/opt:
  archive.extracted:
    - source: {URL}/app.tar.gz
    - source_hash: {URL}/SHA256SUMS
"""


@pytest.fixture(scope="module")
def kept(run: Run, layers: tuple[Path, ...]) -> Iterator[Host]:
    """Return a host with a web server, and an agent that keeps an archive extracted."""
    with repairs.kept(run, layers, STATES, PREPARE) as host:
        yield host


@pytest.mark.parametrize("name", ["app.tar.gz", "app.tar.xz", "app.tar.bz2", "app.tar", "app.zip"])
def test_what_the_tools_made_is_extracted(kept: Host, name: str):
    """From nothing; again without a change; a plan changes nothing; owners of the archive do not count."""
    with Driver(kept) as driver:
        declared = {"source": f"{URL}/{name}", "source_hash": f"{URL}/SHA256SUMS"}
        top = f"/srv/{name}.d"
        before = kept.changed()
        assert not driver.plan("archive.extracted", top, **declared).right
        assert {path for path in kept.changed() - before if "app" in path} == set()
        assert "app-1/bin/app" in driver.apply("archive.extracted", top, **declared).changes["extracted_files"]
        assert kept.sh(f"sh {top}/app-1/bin/app; tail -1 {top}/app-1/same; stat -c %U {top}/app-1/numbers") == (
            "one\n20000\nroot\n"
        )
        assert name == "app.zip" or kept.sh(f"diff -r /srv/src/app-1 {top}/app-1; {top}/app-1/run") == "one\n"
        assert driver.apply("archive.extracted", top, **declared).right


def test_a_repair_needs_no_server(kept: Host):
    """With a declared hash, the kept archive is used; another one is refused, and nothing of it is extracted."""
    with Driver(kept) as driver:
        sha = kept.sh("sha256sum /srv/files/app.tar.gz | cut -d' ' -f1").strip()
        declared = {"source": f"{URL}/app.tar.gz", "source_hash": sha}
        driver.apply("archive.extracted", "/srv/once", **declared)
        kept.sh("rm -r /srv/once/app-1/bin; mv /srv/files/app.tar.gz /srv/files/away")
        assert driver.apply("archive.extracted", "/srv/once", **declared).changes == {
            "extracted_files": ["app-1/bin", "app-1/bin/app"]
        }
        kept.sh("mv /srv/files/away /srv/files/app.tar.gz")
        with pytest.raises(Failed, match="but source_hash says 0000"):
            driver.apply("archive.extracted", "/srv/never", source=f"{URL}/app.tar.xz", source_hash="0" * 64)
        assert kept.sh("ls /srv").split() == sorted({*kept.sh("ls /srv").split()} - {"never"})


def test_damage_is_repaired_at_once(kept: Host):
    """A member that is removed, changed or replaced, by inotify."""
    top = "/opt/app-1"
    right = (
        f"text('{top}/conf/app.conf') == 'key=1\\n' and text('{top}/bin/app').endswith('one\\n') "
        f"and text('{top}/numbers').endswith('\\n20000\\n') and os.readlink('{top}/run') == 'bin/app'"
    )
    damages = (
        f"rm {top}/conf/app.conf",
        f"echo key=2 >{top}/conf/app.conf",
        f"rm -r {top}",
        f"ln -sf /bin/sh {top}/run",
    )
    for damage in damages:  # few repairs of one state: many would be spaced
        assert repairs.repair_times(kept, damage, right, times=2)[0] < SOON, damage


def test_a_new_archive_is_found_by_its_hash(kept: Host):
    """The next check reads the file of hashes, and extracts what differs."""
    kept.sh(
        "cd /srv/src; echo key=2 >app-1/conf/app.conf; tar -czf /srv/files/new app-1; cd /srv/files; "
        "mv new app.tar.gz; sha256sum * >/srv/sums; mv /srv/sums SHA256SUMS; touch -d '2 hours ago' SHA256SUMS"
    )
    kept.run("holdfast", "recheck")
    lab.wait_for("the new file", lambda: kept.read("/opt/app-1/conf/app.conf") == "key=2\n")
