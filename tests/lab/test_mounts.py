"""A mount over a managed path hides the file. inotify does not report that, but the mount table does."""

from __future__ import annotations

import lab
import pytest

pytestmark = pytest.mark.lab

STATES = """\
/srv/www:
  file.directory:
    - recurse: [mode]
    - mode: '0755'
/srv/www/page:
  file.managed:
    - contents: right
"""


def page(host: lab.Host) -> str:
    """Return the content at the managed path."""
    return host.run("cat", "/srv/www/page", check=False).stdout


def test_a_file_hidden_by_a_mount_is_created_in_it_and_left_alone_after_the_unmount(host: lab.Host) -> None:
    """The mount is over the directory, over one of its parents, or read-only at first; the path may contain spaces."""
    host.run("holdfast", "install")
    host.write("/etc/holdfast/agent.yaml", "engine: {recheck: 0}\n")
    host.write("/etc/holdfast/states/site.sls", STATES + STATES.replace("/srv/www", "/srv/a b"))
    lab.wait_for("the page", lambda: page(host) == "right\n")

    for where in ("/srv/www", "/srv"):
        host.run("mount", "-t", "tmpfs", "tmpfs", where)
        host.sh("mkdir -p /srv/www")
        lab.wait_for("the page in the mount", lambda: page(host) == "right\n")
        host.sh("echo wrong >/srv/www/page")
        lab.wait_for("the page in the mount once more", lambda: page(host) == "right\n")
        host.run("umount", "-l", where)
        assert page(host) == "right\n"
        host.sh("echo wrong >/srv/www/page")
        lab.wait_for("the page below", lambda: page(host) == "right\n")

    host.run("mount", "-t", "tmpfs", "-o", "ro", "tmpfs", "/srv/a b")
    host.wait_journal(
        lambda entry: entry.get("RESOURCE") == "file.managed[/srv/a b/page]" and entry.get("RESULT") == "failed",
        unit="holdfast",
    )
    host.run("mount", "-o", "remount,rw", "/srv/a b")
    lab.wait_for(
        "the page that could not be written",
        lambda: host.run("test", "-s", "/srv/a b/page", check=False).returncode == 0,
    )
