"""Clones on a real host, from a git server there: with the agent, as another user, and through kills."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import lab
import pytest
from driver import Driver, Failed
from repairs import repair_times, settled

pytestmark = pytest.mark.lab

SERVER = """\
apt-get install -y -qq git >/dev/null; useradd -m app; useradd -r git
git config --system user.name a; git config --system user.email a@b; git config --system init.defaultBranch main
for name in part site; do
  git init -q /srv/tree/$name; echo one >/srv/tree/$name/index.html
  git -C /srv/tree/$name add --all; git -C /srv/tree/$name commit -qm one
done
git -C /srv/tree/site -c protocol.file.allow=always submodule --quiet add -b main /srv/tree/part part
git -C /srv/tree/site config -f .gitmodules submodule.part.url git://127.0.0.1/part
git -C /srv/tree/site add --all; git -C /srv/tree/site commit -qm part
systemd-run -q --unit git-daemon git daemon --base-path=/srv/tree --export-all --reuseaddr --listen=127.0.0.1
"""
STATES = """\
/srv/app:
  file.directory:
    - user: app
git://127.0.0.1/site:
  git.latest:
    - target: /srv/app
    - user: app
    - rev: main
    - branch: main
    - submodules: true
    - force_reset: true
    - interval: 0.5
core.abbrev:
  git.config_set:
    - value: 9
    - repo: /srv/app
    - user: app
"""


@pytest.fixture(scope="module")
def served(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[lab.Host]:
    """Return a host with a git server."""
    host = run.host("git", layers=layers)
    try:
        host.sh(SERVER)
        lab.wait_for(
            "the server answers", lambda: host.run("git", "ls-remote", "git://127.0.0.1/site", check=False).stdout
        )
        yield host
    finally:
        host.down()


def test_a_plan_writes_nothing_and_root_stays_out(served: lab.Host) -> None:
    """A clone is made by the driver, and a plan then leaves each byte of the disk as it is."""
    site = {"target": "/srv/driven", "rev": "main"}
    with Driver(served) as driver:
        before = served.contents()
        assert not driver.plan("git.latest", "git://127.0.0.1/site", **site).right
        assert served.contents() == before
        assert driver.apply("git.latest", "git://127.0.0.1/site", **site).changes == {
            "new": "git://127.0.0.1/site => /srv/driven"
        }
        assert driver.apply("git.latest", "git://127.0.0.1/site", **site).right
        served.sh("echo mine >/srv/driven/index.html")
        before = served.contents()
        planned = driver.plan("git.latest", "git://127.0.0.1/site", **site, force_reset=True)
        assert planned.changes == {"forced update": True, "discarded": ["M index.html"]}
        assert served.contents() == before
        watch = driver.watch("git.latest", "git://127.0.0.1/site", **site, interval=0)
        for change in ("rm /srv/driven/index.html", "git -C /srv/driven checkout -q HEAD~0", "rm -r /srv/driven"):
            watch.quiet()
            served.sh(change)
            watch.wait()

        served.sh("install -d -o app /home/app/own")
        with pytest.raises(Failed, match="cannot run git as root in /home/app/own/x, because other users could"):
            driver.apply("git.latest", "git://127.0.0.1/site", target="/home/app/own/x")
        with pytest.raises(Failed, match="cannot prepare /srv/none"):
            driver.apply("git.latest", "git://127.0.0.1/site", target="/srv/none", user="app")


def test_the_agent_repairs_a_clone_and_follows_the_server(served: lab.Host) -> None:
    """Local damage is repaired at its event, as the user of the clone; a commit of the server is found by the poll."""
    served.write("/etc/holdfast/states/site.sls", STATES)
    served.write("/etc/holdfast/agent.yaml", "engine: {flap_limit: 1000}\n")  # so many repairs in a minute are intended
    served.run("holdfast", "install")
    settled(served)
    assert served.read("/srv/app/part/index.html") == "one\n"
    assert served.sh("find /srv/app ! -user app") == ""
    assert served.sh("runuser -u app -- git -C /srv/app config core.abbrev") == "9\n"

    for damage, right in (
        ("echo mine >/srv/app/index.html", "text('/srv/app/index.html') == 'one\\n'"),
        ("rm -r /srv/app/.git/index", "os.path.exists('/srv/app/.git/index')"),
        ("git config -f /srv/app/.git/config --unset core.abbrev", "'abbrev' in text('/srv/app/.git/config')"),
    ):
        assert max(repair_times(served, damage, right, times=5)) < 2, damage
    served.sh("cd /srv/tree/site; echo two >index.html; git commit -qam two")
    lab.wait_for("the new commit is there", lambda: served.read("/srv/app/index.html") == "two\n")
    served.sh("systemctl stop git-daemon; echo mine >/srv/app/index.html")
    lab.wait_for("the file is repaired", lambda: served.read("/srv/app/index.html") == "two\n")
    served.sh("holdfast uninstall")


def test_a_killed_clone_is_never_taken_for_whole(served: lab.Host) -> None:
    """After a kill at any moment, git finds no repository or a complete one; the next run completes it."""
    served.sh(
        "systemctl is-active -q git-daemon.service || systemd-run -q --unit git-again git daemon --base-path=/srv/tree "
        "--export-all --reuseaddr --listen=127.0.0.1; cd /srv/tree/part; head -c 30M /dev/urandom >large; "
        "git add large; git commit -qm large"
    )
    served.write("/etc/holdfast/states/site.sls", "git://127.0.0.1/part:\n  git.latest:\n    - target: /srv/killed\n")
    for number in range(8):
        process = served.spawn("holdfast", "apply")
        time.sleep(0.3 + 0.2 * number)  # the moment of the kill
        served.run("pkill", "-KILL", "-f", "holdfast apply", check=False)
        process.wait()
        state = served.run("git", "-C", "/srv/killed", "status", "--porcelain", check=False)
        whole = "not a git repository" not in state.stderr and "cannot change to" not in state.stderr
        assert not whole or (state.stdout == "" and served.sh("ls /srv/killed").split() == ["index.html", "large"])
    served.run("holdfast", "apply")
    assert served.run("git", "-C", "/srv/killed", "fsck").returncode == 0
    assert served.sh("ls -A /srv/killed").split() == [".git", "index.html", "large"]
