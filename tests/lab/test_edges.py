"""Automatic edges and a composite on a real host: related resources are repaired in order, without requisites."""

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
    """Return a converged host, whose agent was restarted so that it knows the files of the package."""
    host = run.host("edges", layers=layers)
    try:
        host.run("holdfast", "install")
        host.write("/etc/holdfast/states/site.sls", STATES)
        host.wait_journal(lambda entry: entry.get("RESOURCE") == "systemd_unit.running[app]", unit="holdfast")
        quiet(host)
        host.sh("systemctl restart holdfast")
        quiet(host)
        yield host
    finally:
        host.down()


def quiet(host: lab.Host) -> None:
    """Wait until everything is as declared."""
    lab.wait_for("the agent has converged", lambda: "converged" in host.run("holdfast", "status", check=False).stdout)


def damaged(host: lab.Host, script: str, last: str) -> list[lab.Entry]:
    """Do this damage as root.

    Return the reported changes and failures until `last` was repaired and the host has converged.
    """
    mark = time.time()
    host.sh(script)
    host.wait_journal(lambda entry: entry.get("RESOURCE") == last and "CHANGES" in entry, unit="holdfast", since=mark)
    quiet(host)
    return [entry for entry in host.journal("holdfast", since=mark) if entry.get("RESOURCE") and entry.get("RESULT")]


def of(entries: list[lab.Entry], *results: str) -> list[str]:
    """Return the resources with these results, in order."""
    return [str(entry["RESOURCE"]) for entry in entries if entry.get("RESULT") in results]


def test_a_purged_package_is_repaired_before_its_files_and_service(kept: lab.Host) -> None:
    """After a pause, the agent finds all damage at once. It repairs the package first, so nothing fails."""
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


def test_a_moved_directory_is_repaired_before_its_files(kept: lab.Host) -> None:
    """The directory has fifty files, and none of their repairs fails."""
    entries = damaged(kept, "mv /srv/work /srv/gone", "file.managed[/srv/work/f49]")

    assert of(entries, "failed") == []
    assert of(entries, "changed", "repaired")[0] == "file.directory[/srv/work]"
    assert kept.sh("ls /srv/work | wc -l").strip() == "50"


def test_an_edited_unit_is_repaired_and_restarted(kept: lab.Host) -> None:
    """The parts of the composite repair it, and the composite is reported as changed, too."""
    before = kept.sh("systemctl show -P MainPID app")
    entries = damaged(kept, "echo '# by hand' >> /etc/systemd/system/app.service", "systemd_unit.running[app]")

    assert of(entries, "changed", "repaired") == [
        "file.managed[app/unit]",
        "service.running[app/service]",
        "systemd_unit.running[app]",
    ]
    assert kept.sh("systemctl show -P MainPID app") != before
    assert "by hand" not in kept.read("/etc/systemd/system/app.service")
