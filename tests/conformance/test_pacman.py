"""Peculiarities of pacman: no partial upgrades, a lock that may be left behind, and groups."""

from __future__ import annotations

import pytest
from driver import Failed
from pacman_site import REPOSITORY, PacmanSite

pytestmark = [pytest.mark.lab, pytest.mark.parametrize("site", [PacmanSite], ids=["pacman"], indirect=True)]


def offer(site: PacmanSite, *packages: str) -> None:
    """Put packages into the repository, with a list that is newer than before."""
    files = " ".join(f"{package}-any.pkg.tar.gz" for package in packages)
    site.host.sh(f"cd {REPOSITORY}; sleep 1; repo-add lab.db.tar.gz {files} >/dev/null 2>&1")


def test_no_package_is_installed_from_lists_that_upgrade_others(site: PacmanSite):
    """The new lists become those of the system with an upgrade of all packages."""
    call, (old, new) = site.driver.call, site.versions
    offer(site, f"tiny-{old}")
    site.host.sh("pacman -Sy --noconfirm tiny")
    offer(site, f"tiny-{new}", "late-1.0-1")

    assert call("pkg.refresh", force=True) == {"lab": "updated"}
    assert call("pkg.latest", ["tiny", "late"]) == {"tiny": old, "late": None}
    assert call("pkg.upgrades") == {"tiny": {"current": old, "candidate": new}}
    with pytest.raises(Failed, match=r"target not found: late; .* Arch supports no partial upgrade: upgrade all"):
        call("pkg.install", [{"name": "late"}])
    assert call("pkg.upgrade", ["tiny"])["changes"] == {}
    assert site.version("tiny") == old

    planned = call("pkg.upgrade", test=True)
    assert planned["changes"] == {"tiny": {"old": old, "new": new}}
    assert call("pkg.upgrade") == planned
    assert call("pkg.upgrades") == {}
    call("pkg.install", [{"name": "late"}])
    assert site.version("late") == "1.0-1"


def test_a_newer_package_is_not_replaced_by_the_one_of_the_lists(site: PacmanSite):
    """Without this check, pacman would replace it."""
    old, new = site.versions
    offer(site, f"tiny-{old}")
    site.host.sh("pacman -Sy")
    site.add("tiny", new)

    assert site.driver.call("pkg.install", [{"name": "tiny"}])["changes"] == {}
    assert site.version("tiny") == new


def test_the_lock_of_an_interrupted_pacman_is_a_temporary_error(site: PacmanSite):
    """The error says what to do; after that, the next attempt succeeds."""
    site.host.sh("touch /var/lib/pacman/db.lck")

    with pytest.raises(Failed, match=r"left /var/lib/pacman/db\.lck; make sure .* and remove the file") as caught:
        site.driver.call("pkg.install", [{"name": "tiny"}])
    assert caught.value.kind == "Temporary"
    site.host.sh("rm /var/lib/pacman/db.lck")
    site.driver.call("pkg.install", [{"name": "tiny"}])
    assert site.version("tiny") == site.versions[1]


def test_the_lock_of_an_interrupted_refresh_is_removed(site: PacmanSite):
    """No other program uses the lists that the agent fetches."""
    site.driver.call("pkg.refresh", force=True)
    site.host.sh("touch /var/cache/holdfast/pacman/db.lck")

    assert list(site.driver.call("pkg.refresh", force=True)) == ["lab"]


def test_the_lists_of_a_removed_repository_do_not_count(site: PacmanSite):
    """They are removed with the next refresh, so that they do not look newer than those of the system."""
    site.driver.call("pkg.refresh", force=True)
    site.host.sh("cd /var/cache/holdfast/pacman/sync; cp lab.db gone.db")
    site.driver.call("pkg.refresh", force=True)

    assert site.host.sh("ls /var/cache/holdfast/pacman/sync").split() == ["lab.db"]


def test_a_group_is_installed_and_listed(site: PacmanSite):
    """A group is installed by its name, as pacman does it."""
    call = site.driver.call

    assert call("pkg.groups") == {"toys": ["tiny", "tiny-needs"]}
    assert call("pkg.groups", ["toys", "no-such-group"]) == {"toys": ["tiny", "tiny-needs"]}
    assert set(call("pkg.install", [{"name": "toys"}])["changes"]) == {"tiny", "tiny-needs"}


def test_files_and_packages_of_the_lists_are_installed_together(site: PacmanSite):
    """They take two commands, because pacman cannot combine them."""
    old, _ = site.versions
    both = [{"name": "tiny-needs"}, {"name": "tiny", "source": site.file("tiny", old)}]

    done = site.driver.call("pkg.install", both)
    assert {name: change["new"] for name, change in done["changes"].items()} == {"tiny": old, "tiny-needs": "1.0-1"}


def test_a_package_that_is_to_be_held_is_not_removed(site: PacmanSite):
    """For a package of `HoldPkg`, pacman asks, and the answer is no."""
    site.driver.call("pkg.install", [{"name": "tiny"}])
    site.host.sh("sed -i 's/^HoldPkg.*/HoldPkg = tiny/' /etc/pacman.conf")

    with pytest.raises(Failed, match=r"cannot remove tiny: .*HoldPkg"):
        site.driver.call("pkg.remove", ["tiny"])
    assert site.version("tiny") == site.versions[1]
