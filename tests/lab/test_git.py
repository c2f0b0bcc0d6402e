"""Clones on a real host, from a git server there: with the agent, as another user, and through kills."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import lab
import pytest
import tools
from driver import Driver, Failed
from repairs import repair_times, settled

pytestmark = pytest.mark.lab

URL = "git://127.0.0.1/site"
DAEMON = """\
systemctl is-active -q git-daemon || systemd-run -q --unit git-daemon \
  git daemon --base-path=/srv/tree --export-all --reuseaddr --listen=127.0.0.1
"""
SERVER = """\
useradd -m app; useradd -m -s /bin/sh git; useradd -m eve
systemctl start ssh
git config --system user.name a; git config --system user.email a@b; git config --system init.defaultBranch main
git config --system safe.directory '*'
for name in part site; do
  git init -q /srv/tree/$name; echo one >/srv/tree/$name/index.html
  git -C /srv/tree/$name add --all; git -C /srv/tree/$name commit -qm one
done
git -C /srv/tree/site -c protocol.file.allow=always submodule --quiet add -b main /srv/tree/part part
git -C /srv/tree/site config -f .gitmodules submodule.part.url git://127.0.0.1/part
git -C /srv/tree/site add --all; git -C /srv/tree/site commit -qm part
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost -keyout /srv/key.pem -out /srv/ca.crt 2>/dev/null
cat /srv/key.pem /srv/ca.crt >/srv/server.pem
"""
HTTPS = """\
systemd-run -q --unit git-https python3 /srv/git_server.py 8443 /srv/server.pem /srv/tree "me:s3cret word"
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
    - reverse: true
http.proxy:
  git.config_unset:
    - repo: /srv/app
    - user: app
"""
EVIL = """\
#!/bin/sh
echo "$(id -un) $0" >>/tmp/ran
case $0 in *filter) cat;; esac
"""
HOSTILE = """\
cd /home/eve; git clone -q git://127.0.0.1/site site; mkdir bin; cp /srv/evil bin/filter
for name in hook monitor ssh pack alias editor credential diff text merge; do cp /srv/evil bin/$name; done
put() { git config -f more "$1" "$2"; }
put core.fsmonitor /home/eve/bin/monitor; put core.hooksPath /home/eve/site/.git/hooks
put core.sshCommand /home/eve/bin/ssh; put core.editor /home/eve/bin/editor
put core.pager /home/eve/bin/editor; put core.askPass /home/eve/bin/credential
put credential.helper /home/eve/bin/credential; put remote.origin.uploadpack /home/eve/bin/pack
put alias.status '!/home/eve/bin/alias'; put alias.for-each-ref '!/home/eve/bin/alias'
put filter.x.clean /home/eve/bin/filter; put filter.x.smudge /home/eve/bin/filter
put diff.external /home/eve/bin/diff; put diff.x.textconv /home/eve/bin/text; put merge.x.driver /home/eve/bin/merge
git -C site config include.path /home/eve/more
echo '* filter=x diff=x merge=x' >site/.git/info/attributes; mkdir -p site/.git/hooks
for name in post-checkout post-merge post-index-change reference-transaction post-rewrite pre-auto-gc; do
  cp bin/hook site/.git/hooks/$name
done
echo mine >site/index.html
"""


@pytest.fixture(scope="module")
def served(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[lab.Host]:
    """Return a host with a git server."""
    with tools.equipped(run, layers, SERVER) as host:
        host.write("/srv/git_server.py", (Path(__file__).parent / "git_server.py").read_text())
        host.sh(HTTPS)
        serve(host)
        yield host


def serve(host: lab.Host) -> None:
    """Start git's own server, unless it runs, and wait until it answers."""
    host.sh(DAEMON)
    lab.wait_for("the server answers", lambda: host.run("git", "ls-remote", URL, check=False).stdout)


def test_a_plan_writes_nothing_and_root_stays_out(served: lab.Host) -> None:
    """The driver makes a clone, and a plan then leaves each byte of the disk as it is."""
    site = {"target": "/srv/driven", "rev": "main"}
    with Driver(served) as driver:
        before = served.contents()
        assert not driver.plan("git.latest", URL, **site).right
        assert served.contents() == before
        assert driver.apply("git.latest", URL, **site).changes == {"new": "git://127.0.0.1/site => /srv/driven"}
        assert driver.apply("git.latest", URL, **site).right
        served.sh("echo mine >/srv/driven/index.html")
        before = served.contents()
        assert not driver.plan("git.config_set", "a.b", value="c", repo="/srv/driven").right
        assert not driver.plan("git.config_unset", "core.bare", repo="/srv/driven").right
        planned = driver.plan("git.latest", URL, **site, force_reset=True)
        assert planned.changes == {"forced update": True, "discarded": ["M index.html"]}
        assert served.contents() == before
        watch = driver.watch("git.latest", URL, **site, interval=0)
        for change in ("rm /srv/driven/index.html", "git -C /srv/driven checkout -q HEAD~0", "rm -r /srv/driven"):
            watch.quiet()
            served.sh(change)
            watch.wait()

        served.sh("install -d -o app /home/app/own")
        with pytest.raises(Failed, match="cannot run git as root in /home/app/own/x, because other users could"):
            driver.apply("git.latest", URL, target="/home/app/own/x")
        with pytest.raises(Failed, match="cannot prepare /srv/none"):
            driver.apply("git.latest", URL, target="/srv/none", user="app")


def test_the_agent_repairs_a_clone_and_follows_the_server(served: lab.Host) -> None:
    """Local damage is repaired at its event, as the user of the clone; a poll finds a new commit on the server."""
    served.write("/etc/holdfast/states/site.sls", STATES)
    served.write("/etc/holdfast/agent.yaml", "engine: {flap_limit: 1000}\n")  # the repairs are intended
    served.run("holdfast", "install")
    settled(served)
    assert served.read("/srv/app/part/index.html") == "one\n"
    assert served.sh("find /srv/app ! -user app") == ""
    assert served.sh("runuser -u app -- git -C /srv/app config core.abbrev") == "9\n"

    for damage, right in (
        ("echo mine >/srv/app/index.html", "text('/srv/app/index.html') == 'one\\n'"),
        ("rm -r /srv/app/.git/index", "os.path.exists('/srv/app/.git/index')"),
        ("git config -f /srv/app/.git/config --unset core.abbrev", "'abbrev' in text('/srv/app/.git/config')"),
        ("git config -f /srv/app/.git/config http.proxy x", "'proxy' not in text('/srv/app/.git/config')"),
    ):
        assert max(repair_times(served, damage, right)) < 2, damage
    served.sh("cd /srv/tree/site; echo two >index.html; git commit -qam two")
    lab.wait_for("the new commit is there", lambda: served.read("/srv/app/index.html") == "two\n")
    served.sh("systemctl stop git-daemon; echo mine >/srv/app/index.html")
    lab.wait_for("the file is repaired", lambda: served.read("/srv/app/index.html") == "two\n")
    served.write("/etc/holdfast/states/site.sls", STATES.partition("core.abbrev")[0])
    lab.wait_for("the setting is undone", lambda: "abbrev" not in served.read("/srv/app/.git/config"))
    served.sh("holdfast uninstall")


def test_https_with_a_password_and_a_ca_of_the_site(served: lab.Host) -> None:
    """The CAs of the system are trusted, the password is written nowhere, and errors say what is wrong."""
    url, site = "https://localhost:8443/site", {"target": "/srv/https", "rev": "main"}
    right = {"https_user": "me", "https_pass": "s3cret word"}
    with Driver(served) as driver:
        with pytest.raises(Failed, match=r"certificate .*; the system does not trust the CA of the server"):
            driver.apply("git.latest", url, **site, **right)
        served.sh("cp /srv/ca.crt /usr/local/share/ca-certificates/; update-ca-certificates >/dev/null 2>&1")
        for given, refused in (
            (
                {},
                r"cannot read .*; the server asks for a password: set https_user and https_pass",
            ),
            ({**right, "https_pass": "wr0ng"}, r"Authentication failed"),
        ):
            with pytest.raises(Failed, match=refused) as error:
                driver.apply("git.latest", url, **site, **given)
            assert error.value.kind == "Permanent"
            assert "wr0ng" not in str(error.value)
        driver.apply("git.latest", url, **site, **right)
        assert driver.apply("git.latest", url, **site, **right).right
        assert "s3cret" not in "".join(driver.log)
    assert served.read("/srv/https/index.html") == served.read("/srv/tree/site/index.html")
    assert served.run("grep", "-r", "s3cret", "/srv/https", check=False).stdout == ""


def test_ssh_with_a_key_of_the_state(served: lab.Host) -> None:
    """`identity` is the only key that is offered. An unknown server is an error, and git asks no question about it."""
    served.sh(
        "ssh-keygen -q -t ed25519 -N '' -f /root/deploy; install -d -o git -m 700 /home/git/.ssh; "
        "install -o git /root/deploy.pub /home/git/.ssh/authorized_keys; cp /root/deploy /home/app/deploy"
    )
    url, site = "ssh://git@127.0.0.1/srv/tree/site", {"target": "/srv/ssh", "rev": "main"}
    with Driver(served) as driver:
        with pytest.raises(Failed, match="; the host key is not known to this user; add it to the known hosts"):
            driver.apply("git.latest", url, **site, identity="/root/deploy")
        served.sh("mkdir -p -m 700 /root/.ssh; ssh-keyscan -t ed25519 127.0.0.1 >/root/.ssh/known_hosts 2>/dev/null")
        with pytest.raises(Failed, match="; the server accepts none of the keys of this user: set identity"):
            driver.apply("git.latest", url, **site)
        driver.apply("git.latest", url, **site, identity="/root/deploy")
        assert driver.apply("git.detached", url, target="/srv/ssh", rev="main", identity="/root/deploy").changes

        served.sh("install -d -o app -m 700 /home/app/.ssh; install -o app /root/.ssh/known_hosts /home/app/.ssh")
        mine = {"target": "/home/app/ssh", "user": "app", "identity": ["/home/app/deploy"]}
        with pytest.raises(Failed, match="; the server accepts none of the keys of this user"):
            driver.apply("git.cloned", url, **mine)
        served.sh("chown app /home/app/deploy")
        driver.apply("git.cloned", url, **mine)
    assert served.read("/home/app/ssh/index.html") == served.read("/srv/tree/site/index.html")


def test_a_hostile_user_runs_nothing_as_root(served: lab.Host) -> None:
    """Programs that the configuration of a user's clone names run as this user, if at all; hooks do not run."""
    serve(served)
    served.write("/srv/evil", EVIL, 0o755)
    served.run("runuser", "-u", "eve", "--", "sh", "-euc", HOSTILE)
    served.sh("cd /srv/tree/site; echo more >more.html; git add more.html; git commit -qm more")
    mine = {"target": "/home/eve/site", "rev": "main", "user": "eve", "force_reset": True}
    everything = "cat /etc/shadow; ls -lR /etc /root /srv/tree"
    with Driver(served) as driver:
        before = served.sh(everything)
        for lead in (
            "true",
            "chown root /home/eve/site",
            "chown -R root /home/eve/site",
            "mkdir /srv/link; ln -s /home/eve/site/.git /srv/link/.git",
            "mkdir /srv/file; echo gitdir: /home/eve/site/.git >/srv/file/.git",
        ):
            served.sh(lead)
            target = lead.split()[1] if lead.startswith("mkdir") else "/home/eve/site"
            for kind, name, more in (
                ("git.latest", URL, {"target": target.strip(";")}),
                ("git.config_set", "a.b", {"value": "c", "repo": target.strip(";")}),
            ):
                with pytest.raises(
                    Failed, match=r"cannot run git as root in .*, because other users could make it run"
                ):
                    driver.apply(kind, name, **more)
        assert served.run("cat", "/tmp/ran", check=False).stdout == ""
        served.sh("chown -R eve /home/eve/site")
        driver.apply("git.latest", URL, **mine)
        served.sh("ln -s /srv/driven /home/eve/driven; ln -s /root /home/eve/root")
        for target in ("/home/eve/driven", "/home/eve/root/x"):
            with pytest.raises(Failed, match=r"cannot (run git as eve|follow|prepare|inspect)"):
                driver.apply("git.latest", URL, **{**mine, "target": target})
    assert served.read("/home/eve/site/more.html") == "more\n"
    ran = served.read("/tmp/ran").split("\n")[:-1]
    assert {line.split()[0] for line in ran} == {"eve"}
    assert not {"hook", "monitor", "ssh", "credential", "alias"} & {line.rpartition("/")[2] for line in ran}
    assert served.sh(everything) == before


def test_a_killed_clone_is_never_taken_for_whole(served: lab.Host) -> None:
    """After a kill at any moment, git finds no repository or a complete one; the next run completes it."""
    serve(served)
    served.sh("cd /srv/tree/part; head -c 30M /dev/urandom >large; git add large; git commit -qm large")
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
