"""Automatic edges and a composite on a real host: related resources are repaired in order without any requisite."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import lab
import pytest

pytestmark = pytest.mark.lab

STATES = """\
nginx:
  pkg.installed:
    - name: nginx-light
/etc/nginx/conf.d/site.conf:
  file.managed:
    - contents: '# kept by Holdfast'
web:
  service.running:
    - name: nginx
worker:
  group.present: []
  user.present:
    - gid: worker
/srv/work:
  file.directory:
    - user: worker
{% for number in range(50) %}
/srv/work/f{{ number }}:
  file.managed:
    - contents: number {{ number }}
    - user: worker
{% endfor %}
/srv/serve:
  file.managed:
    - mode: '0755'
    - contents: |
        #!/bin/sh
        exec sleep 1000
app:
  systemd_unit.running:
    - contents: |
        [Service]
        ExecStart=/srv/serve
        [Install]
        WantedBy=multi-user.target
"""


@pytest.fixture(scope="module")
def kept(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[lab.Host]:
    """A host that is as declared, its agent started once more, so that it knows what the package ships."""
    host = run.host("edges", layers=layers)
    try:
        host.run("holdfast", "install")
        host.write("/etc/holdfast/states/site.sls", STATES)
        host.wait_journal(
            lambda entry: entry.get("RESOURCE") == "systemd_unit.running[app]", unit="holdfast", timeout=90
        )
        quiet(host)
        host.sh("systemctl restart holdfast")
        quiet(host)
        yield host
    finally:
        host.down()


def quiet(host: lab.Host) -> None:
    """Wait until all is as declared."""
    lab.wait_for(
        "the agent has converged", lambda: "converged" in host.run("holdfast", "status", check=False).stdout, 60
    )


def damaged(host: lab.Host, script: str, last: str) -> list[lab.Entry]:
    """Do this as root; what the agent said of changes and failures until `last` was put right and all is quiet."""
    mark = time.time()
    host.sh(script)
    host.wait_journal(
        lambda entry: entry.get("RESOURCE") == last and "CHANGES" in entry, unit="holdfast", since=mark, timeout=60
    )
    quiet(host)
    return [entry for entry in host.journal("holdfast", since=mark) if entry.get("RESOURCE") and entry.get("RESULT")]


def of(entries: list[lab.Entry], *results: str) -> list[str]:
    """The resources with these results, in order."""
    return [str(entry["RESOURCE"]) for entry in entries if entry.get("RESULT") in results]


def test_a_package_that_is_purged_comes_back_before_what_belongs_to_it(kept: lab.Host) -> None:
    """Paused, so that all of it is found at once: then the package is first, and nothing fails for want of it."""
    purge = (
        "holdfast pause; apt-get -qq purge -y nginx-light nginx-common >/dev/null 2>&1; rm -rf /etc/nginx; "
        "holdfast resume"
    )
    entries = damaged(kept, purge, "file.managed[/etc/nginx/conf.d/site.conf]")

    assert of(entries, "failed") == []
    assert of(entries, "changed", "repaired")[:2] == [
        "pkg.installed[nginx]",
        "file.managed[/etc/nginx/conf.d/site.conf]",
    ]
    assert kept.run("systemctl", "is-active", "nginx").stdout.strip() == "active"
    assert "kept by Holdfast" in kept.read("/etc/nginx/conf.d/site.conf")


def test_a_directory_that_is_moved_away_comes_back_before_its_files(kept: lab.Host) -> None:
    """Fifty of them, and none fails on the way."""
    entries = damaged(kept, "mv /srv/work /srv/gone", "file.managed[/srv/work/f49]")

    assert of(entries, "failed") == []
    assert of(entries, "changed", "repaired")[0] == "file.directory[/srv/work]"
    assert kept.sh("ls /srv/work | wc -l").strip() == "50"


def test_a_unit_that_is_edited_is_put_right_and_restarted(kept: lab.Host) -> None:
    """Its parts do that; the whole has changed, too."""
    before = kept.sh("systemctl show -P MainPID app")
    entries = damaged(kept, "echo '# by hand' >> /etc/systemd/system/app.service", "systemd_unit.running[app]")

    assert of(entries, "changed", "repaired") == [
        "file.managed[app/unit]",
        "service.running[app/service]",
        "systemd_unit.running[app]",
    ]
    assert kept.sh("systemctl show -P MainPID app") != before
    assert "by hand" not in kept.read("/etc/systemd/system/app.service")
