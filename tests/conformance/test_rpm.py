"""Functions of package managers for rpm: groups of packages and patches."""

from __future__ import annotations

import pytest
from rpm_sites import DnfSite, RpmSite, ZypperSite

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("site", [DnfSite, ZypperSite], ids=["dnf", "zypper"], indirect=True)
def test_groups_and_patches_of_the_repository_are_listed(site: RpmSite):
    """A patch is installed once the corrected version is; without an installed package, no patch concerns the host."""
    call = site.driver.call
    assert call("pkg.groups") == site.groups
    assert call("pkg.groups", [*site.groups, "no-such-group"]) == site.groups
    assert call("pkg.groups", ["no-such-group"]) == {}
    site.add("tiny", site.versions[0])

    found = call("pkg.patches")
    assert {number: patch["installed"] for number, patch in found.items()} == {"LAB-1.0": True, "LAB-2.0": False}
    assert (found["LAB-2.0"]["category"], found["LAB-2.0"]["severity"].lower()) == ("security", "important")
    assert found["LAB-2.0"]["summary"] == "tiny security update"
    assert set(call("pkg.patches", ["LAB-2.0"])) == {"LAB-2.0"}
