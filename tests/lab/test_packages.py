"""Packages: the kinds with a real apt."""

from __future__ import annotations

import json

import pytest
from driver import Driver, Failed
from lab import Host
from packages import offer

pytestmark = pytest.mark.lab

HOLD_LOCK = """
import fcntl, os, sys
lock = os.open("/var/lib/dpkg/lock-frontend", os.O_RDWR | os.O_CREAT, 0o640)
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def version(host: Host, name: str) -> str:
    """Return the installed version according to dpkg, or the status if the package is not installed."""
    shown = host.run("dpkg-query", "-W", "-f", "${db:Status-Abbrev}|${Version}", name, check=False).stdout
    status, _, installed = shown.partition("|")
    return installed if status[1:2] == "i" else status.strip()


def test_installed_installs_and_repairs(host: Host, driver: Driver):
    """A package is planned, installed, unchanged on the second run, and installed again after a removal by hand."""
    before = host.changed()
    planned = driver.plan("pkg.installed", "tiny")

    assert (planned.right, planned.changes) == (False, {"tiny": {"old": "", "new": "2.0"}})
    others = ("/root/", "/opt/", "/var/log/journal")
    assert {path for path in host.changed() - before if not path.startswith(others)} == set(), "not even a log of apt's"
    applied = driver.apply("pkg.installed", "tiny")
    assert (applied.changes, applied.comment) == (planned.changes, "installed tiny 2.0")
    assert version(host, "tiny") == "2.0"
    assert driver.apply("pkg.installed", "tiny").comment == "tiny 2.0 is installed"

    watch = driver.watch("pkg.installed", "tiny")
    watch.quiet()
    host.sh("dpkg -r tiny")
    watch.wait()

    assert driver.apply("pkg.installed", "tiny").changes == {"tiny": {"old": "", "new": "2.0"}}
    assert version(host, "tiny") == "2.0"


def test_one_transaction_installs_many_and_reports_dependencies(host: Host, driver: Driver):
    """Dependencies are among the planned and the made changes."""
    wanted = {"pkgs": ["tiny-needs", {"nginx-light": ">=1.18"}]}

    planned = driver.plan("pkg.installed", "tools", **wanted)
    applied = driver.apply("pkg.installed", "tools", **wanted)

    assert {"tiny", "tiny-needs", "nginx-light", "nginx-common"} <= applied.changes.keys()
    assert planned.changes == applied.changes
    assert driver.apply("pkg.installed", "tools", **wanted).right
    assert driver.apply("pkg.installed", "httpd").right, "a virtual package is there when a package provides it"


def test_versions_are_maintained(host: Host, driver: Driver):
    """An exact version, a pattern and conditions are installed, by upgrade and downgrade, and checked."""
    for asked, expected in {"1.0": "1.0", ">=1.5": "2.0", "<2": "1.0", "2*": "2.0", "latest": "2.0"}.items():
        driver.apply("pkg.installed", "tiny", version=asked)
        assert version(host, "tiny") == expected
        assert driver.apply("pkg.installed", "tiny", version=asked).right
    assert driver.apply("pkg.installed", "tiny", version=1.0, allow_updates=True).right

    with pytest.raises(Failed, match=r"cannot install tiny >3: available: 2\.0, 1\.0"):
        driver.apply("pkg.installed", "tiny", version=">3")
    with pytest.raises(Failed, match=r"cannot install tiny=9: Version '9' for 'tiny' was not found"):
        driver.apply("pkg.installed", "tiny", version="9")


def test_latest_upgrades(host: Host, driver: Driver):
    """An old version is upgraded to the candidate, once."""
    driver.apply("pkg.installed", "tiny", version="1.0")
    host.sh("echo edited >> /etc/tiny.conf")

    assert driver.plan("pkg.latest", "tiny").changes == {"tiny": {"old": "1.0", "new": "2.0"}}
    assert driver.apply("pkg.latest", "tiny").comment == "changed tiny 1.0 -> 2.0"
    assert driver.apply("pkg.latest", "tiny").right
    assert "edited" in host.read("/etc/tiny.conf"), "a changed configuration file is kept"


def test_removed_and_purged(host: Host, driver: Driver):
    """Removing keeps the configuration, purging removes it, also later; a missing package is as declared."""
    driver.apply("pkg.installed", "tiny")

    assert driver.plan("pkg.removed", "tiny").changes == {"tiny": {"old": "2.0", "new": ""}}
    assert version(host, "tiny") == "2.0"
    assert driver.apply("pkg.removed", "tiny").comment == "removed tiny"
    assert version(host, "tiny") == "rc"
    assert driver.apply("pkg.removed", "tiny").right
    assert driver.apply("pkg.purged", "tiny").changes == {"tiny": {"old": "configuration", "new": ""}}
    assert version(host, "tiny") in ("", "un")
    assert driver.apply("pkg.purged", "tiny").comment == "tiny is not installed"
    assert driver.apply("pkg.removed", "no-such-package").right


def test_only_the_declared_version_is_removed(host: Host, driver: Driver):
    """Another version is as declared; remaining configuration is purged whatever the version is."""
    driver.apply("pkg.installed", "tiny", version="1.0")

    for kind in ("pkg.removed", "pkg.purged"):
        assert driver.apply(kind, "tiny", version=">=2").comment == "tiny >=2 is not installed"
        assert driver.apply(kind, "it", pkgs=[{"tiny": "2.0"}]).right
    assert version(host, "tiny") == "1.0"
    assert driver.apply("pkg.removed", "tiny", version="1.*").changes == {"tiny": {"old": "1.0", "new": ""}}
    assert version(host, "tiny") == "rc"
    assert not driver.apply("pkg.purged", "tiny", version="2.0").right
    assert version(host, "tiny") in ("", "un")


def test_holds_are_replaced(host: Host, driver: Driver):
    """With `replace`, only the named packages are on hold."""
    driver.apply("pkg.installed", "tiny", hold=True)
    host.sh("apt-mark -q hold bash")

    assert driver.apply("pkg.held", "bash").right
    assert driver.plan("pkg.held", "dash", replace=True).changes == {
        "dash": {"old": "", "new": "hold"},
        "bash": {"old": "hold", "new": ""},
        "tiny": {"old": "hold", "new": ""},
    }
    assert driver.apply("pkg.held", "dash", replace=True).comment == "held dash; released bash; released tiny"
    assert list(driver.call("pkg.holds")) == ["dash"]
    assert driver.apply("pkg.held", "none", pkgs=[], replace=True).comment == "released dash"
    assert driver.apply("pkg.held", "none", pkgs=[], replace=True).right


def test_a_hold_keeps_a_version(host: Host, driver: Driver):
    """A package on hold is not upgraded, unless the state releases it."""
    driver.apply("pkg.installed", "tiny", version="1.0", hold=True)

    assert driver.apply("pkg.installed", "tiny", version="1.0", hold=True).right
    assert driver.apply("pkg.held", "tiny").right
    host.sh("apt-get -qq upgrade")
    assert version(host, "tiny") == "1.0"
    assert not driver.apply("pkg.installed", "tiny", hold=False, version="2.0", update_holds=True).right
    assert (version(host, "tiny"), driver.call("pkg.holds")) == ("2.0", {})


def test_a_package_file_is_installed(host: Host, driver: Driver):
    """A package can come from a file."""
    driver.apply("pkg.installed", "tiny", sources=[{"tiny": "/srv/apt/tiny_1.0_all.deb"}])

    assert version(host, "tiny") == "1.0"


def test_failures_have_the_messages_of_apt(driver: Driver):
    """The error suggests the right name for a mistyped one, or quotes unmet dependencies and failing scripts."""
    for name, why in {
        "tinny": r"cannot install tinny: Unable to locate package tinny; did you mean tiny\?",
        "tin.": r"cannot install tin\.: Unable to locate package tin\.; did you mean tiny\?",
        "tiny-broken": r"cannot install tiny-broken: tiny-broken : Depends: no-such-package but it is not installable",
        "tiny-refuses": r"cannot install tiny-refuses: .*no room at the inn",
    }.items():
        with pytest.raises(Failed, match=why):
            driver.apply("pkg.installed", name)
    planned = driver.plan("pkg.installed", "tinny")
    assert planned.changes == {"tinny": {"old": "", "new": "installed"}}
    assert planned.comment.startswith("would install tinny; at present this would fail: cannot install tinny:")


def test_lists_are_fetched_if_a_package_is_not_found(host: Host, driver: Driver):
    """On a host that never fetched its package lists a package is installed, unless `refresh` forbids that."""
    host.sh("rm -rf /var/lib/apt/lists/*; apt-get clean")

    with pytest.raises(Failed, match="Unable to locate package tiny"):
        driver.apply("pkg.installed", "tiny", refresh=False)
    driver.apply("pkg.installed", "tiny")
    assert version(host, "tiny") == "2.0"


def test_the_lock_is_awaited(host: Host, driver: Driver):
    """While another process holds apt's lock, the resource waits and names the process; then it is applied."""
    holder = host.spawn("/usr/bin/python3", "-c", HOLD_LOCK, stdin=-1, stdout=-1)
    with holder:
        holder.stdout.readline()
        number = driver.send(do="apply", kind="pkg.installed", name="tiny", arguments={})
        driver.logged("waiting for apt's lock, which is held by process")
        assert any("(python3)" in line for line in driver.log)
        assert version(host, "tiny") == ""
        holder.stdin.close()

        assert driver.answer(number)["changes"] == {"tiny": {"old": "", "new": "2.0"}}


def test_an_interrupted_installation_is_finished(host: Host, driver: Driver):
    """A package that was unpacked but not configured does not block other packages."""
    host.sh("dpkg --unpack /srv/apt/tiny_1.0_all.deb")

    driver.apply("pkg.installed", "tiny-needs")

    assert (version(host, "tiny"), version(host, "tiny-needs")) == ("1.0", "1.0")


def test_an_interrupted_unpacking_is_repeated(host: Host, driver: Driver):
    """Otherwise apt would do nothing, because it regards a half-installed package as installed."""
    driver.apply("pkg.installed", "tiny")
    for flag in ("ok", "reinstreq"):
        host.sh(
            f"sed -i '/^Package: tiny$/,/^$/s/^Status: .*/Status: install {flag} half-installed/' /var/lib/dpkg/status"
        )

        assert driver.apply("pkg.installed", "tiny").changes == {"tiny": {"old": "", "new": "2.0"}}
        assert driver.apply("pkg.installed", "tiny").right


@pytest.mark.parametrize("victim", ["dpkg", "apt-get"])
def test_a_killed_installation_may_be_tried_again(host: Host, driver: Driver, victim: str):
    """The cause may have been a lack of memory, which does not depend on the package."""
    killer = f'#!/bin/sh\ncase "$*" in *--unpack*) pkill -KILL -x {victim};; esac\nexec /root/dpkg "$@"\n'
    host.sh("cp /usr/bin/dpkg /root/")
    host.write("/usr/bin/dpkg", killer, 0o755)

    with pytest.raises(Failed) as caught:
        driver.apply("pkg.installed", "tiny")
    assert caught.value.kind == "Temporary"


def test_an_installation_that_is_killed_at_its_end_is_reported(host: Host, driver: Driver):
    """Its changes must be reported now, because the next check finds the package as declared."""
    host.sh("cp /usr/bin/dpkg /root/")
    host.write("/usr/bin/dpkg", '#!/bin/sh\n/root/dpkg "$@"\ncase "$*" in *--configure*) kill -KILL $$;; esac\n', 0o755)

    applied = driver.apply("pkg.installed", "tiny")

    assert (applied.right, applied.changes, applied.comment) == (
        False,
        {"tiny": {"old": "", "new": "installed"}},
        "installed tiny",
    )
    assert version(host, "tiny") == "2.0"
    driver.logged("the package manager failed, but these packages are as declared")


def test_an_interrupted_dpkg_is_finished_even_if_the_package_is_as_declared(host: Host, driver: Driver):
    """Otherwise every apt would refuse to work until `dpkg --configure -a`."""
    host.sh("cp /usr/bin/dpkg /root/")
    left = "dpkg-query -s tiny >/var/lib/dpkg/updates/0000; echo >>/var/lib/dpkg/updates/0000; kill -KILL $$"
    host.write(
        "/usr/bin/dpkg", f'#!/bin/sh\n/root/dpkg "$@"\ncase "$*" in *--status-fd*--configure*) {left};; esac\n', 0o755
    )

    assert driver.apply("pkg.installed", "tiny").changes == {"tiny": {"old": "", "new": "installed"}}

    host.sh("cp /root/dpkg /usr/bin/; apt-get -qq -y install tiny-needs")


def test_changes_of_a_failed_installation_are_reported(host: Host):
    """One of two packages refuses; the other is installed, and is reported although the state has failed."""
    offer(host, "sulky", scripts={"postinst": "echo 'sulky: not today' >&2; exit 1\n"})
    host.write("/srv/states/both.sls", "both:\n  pkg.installed:\n    - pkgs: [tiny, sulky]\n")

    done = host.run("holdfast", "apply", "both", "--states", "/srv/states", "--format", "json", check=False).stdout
    (result,) = json.loads(done)["results"]

    assert (result["result"], result["changes"]) == (False, {"tiny": {"old": "", "new": "installed"}})
    assert "sulky: not today" in result["comment"]


def test_every_function_of_the_interface_works(driver: Driver):
    """Templates and modules may call functions that no kind uses."""
    driver.apply("pkg.installed", "tiny", version="1.0")

    assert driver.call("pkg.upgrades") == {"tiny": {"current": "1.0", "candidate": "2.0"}}
    assert driver.call("pkg.compare", "1.0~rc1", "1.0") == -1
    assert driver.call("pkg.available", ["tiny", "nothing"]) == {"tiny": ["2.0", "1.0"], "nothing": []}
    assert driver.call("pkg.upgrade", ["tiny"])["changes"] == {"tiny": {"old": "1.0", "new": "2.0"}}
    assert set(driver.call("pkg.refresh", force=True).values()) <= {"updated", "unchanged"}
    assert "systemd" in driver.call("pkg.list_installed")


PACKAGES = """
tiny:
  pkg.installed: []
missing:
  pkg.installed:
    - name: no-such-package
web:
  pkg.installed:
    - name: nginx-light
needs:
  pkg.installed:
    - name: tiny-needs
"""


def transactions(host: Host) -> list[str]:
    """Return what apt was asked to change and has changed, according to its own log."""
    history = host.run("cat", "/var/log/apt/history.log", check=False).stdout
    return [
        line.partition(" install ")[2]
        for line in history.splitlines()
        if line.startswith("Commandline: ") and " install " in line
    ]


def test_consecutive_states_are_one_transaction_of_apt(host: Host):
    """Each state has its own result and changes; a missing package fails alone, and the others are installed."""
    host.sh("rm -f /var/log/apt/history.log")
    good = PACKAGES.replace("no-such-package", "tiny")
    host.write("/srv/states/good.sls", good)
    host.write("/srv/states/bad.sls", PACKAGES)

    one = json.loads(
        host.run("holdfast", "apply", "good", "--states", "/srv/states", "--format", "json", check=False).stdout
    )
    installed = {result["id"]: sorted(result["changes"]) for result in one["results"]}

    assert transactions(host) == ["tiny nginx-light tiny-needs"]
    assert [result["result"] for result in one["results"]] == [True] * 4
    assert installed["needs"] == ["tiny-needs"]
    assert "nginx-common" not in installed["web"], "what came along is the first one's"
    host.sh("apt-get -qq purge -y tiny tiny-needs nginx-light nginx-common; rm -f /var/log/apt/history.log")

    other = json.loads(
        host.run("holdfast", "apply", "bad", "--states", "/srv/states", "--format", "json", check=False).stdout
    )

    assert {result["id"]: result["result"] for result in other["results"]} == {
        "tiny": True,
        "missing": False,
        "web": True,
        "needs": True,
    }
    assert transactions(host) == ["tiny", "nginx-light", "tiny-needs"]
