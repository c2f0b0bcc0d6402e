"""The interface `group` with the real tools: one suite for all providers."""

from __future__ import annotations

import pytest
from account_sites import AccountSite
from driver import Failed
from test_user import changes, planned, refused

pytestmark = pytest.mark.lab


@pytest.fixture
def devs(accounts: AccountSite) -> AccountSite:
    """Return a site with the group `devs`, which has one member, and three users."""
    for name in ("alice", "bob", "carol"):
        accounts.driver.call("user.add", name, createhome=False)
    accounts.driver.call("group.add", "devs", 2500)
    accounts.driver.call("group.members_set", "devs", ["alice"])
    return accounts


def test_a_group_is_added(accounts: AccountSite):
    """The number may be given, be any, or be one for system groups. A second call is an error."""
    assert planned(accounts, "group.add", "devs", 2500) == {"name": (None, "devs"), "gid": (None, 2500)}
    assert planned(accounts, "group.add", "any") == {"name": (None, "any")}
    assert planned(accounts, "group.add", "low", system=True) == {"name": (None, "low")}

    assert accounts.line("group", "devs") == "devs:x:2500:"
    assert accounts.line("gshadow", "devs").startswith("devs:!")
    assert int(accounts.line("group", "low").split(":")[2]) < 1000 <= int(accounts.line("group", "any").split(":")[2])
    assert accounts.driver.call("group.info", ["devs", "no"])["no"] is None
    assert accounts.driver.call("group.info", ["devs"])["devs"]["gid"] == 2500
    assert {"devs", "any", "low"} <= {*accounts.driver.call("group.list")}
    refused(accounts, "cannot add group devs: there is such a group already", "group.add", "devs")
    for name in ("a b", "-S", "", "x:y"):
        refused(accounts, f"cannot add group {name}: invalid group name '{name}'", "group.add", name)


def test_a_number_that_is_in_use_is_refused(accounts: AccountSite):
    """It is accepted only if the tool can give it to several groups and the call permits that."""
    before = accounts.files()
    with pytest.raises(Failed, match=r"cannot add group devs: .*\b4\b"):
        accounts.driver.call("group.add", "devs", 4)
    assert accounts.files() == before
    if "number" in accounts.cannot:
        refused(accounts, "busybox gives no number to several groups", "group.add", "devs", 4, unique=False)
        return
    assert planned(accounts, "group.add", "devs", 4, unique=False) == {"name": (None, "devs"), "gid": (None, 4)}


def test_the_number_of_a_group_is_changed(devs: AccountSite):
    """A right number is not changed. If the tool cannot do it, the error says so."""
    assert planned(devs, "group.modify", "devs", 2500) == {}
    refused(devs, "cannot change group no: there is no such group", "group.modify", "no", 5)
    if "number" in devs.cannot:
        refused(devs, "cannot change the gid of group devs: busybox has no tool for it", "group.modify", "devs", 2600)
        return
    assert planned(devs, "group.modify", "devs", 2600) == {"gid": (2500, 2600)}
    assert devs.line("group", "devs") == "devs:x:2600:alice"


def test_members_are_set_added_and_removed(devs: AccountSite):
    """Each call changes only what differs; a user must exist to become a member, but not to be removed."""
    assert planned(devs, "group.members_add", "devs", ["bob", "alice"]) == {"members": (["alice"], ["alice", "bob"])}
    assert planned(devs, "group.members_add", "devs", ["bob"]) == {}
    assert planned(devs, "group.members_remove", "devs", ["alice", "zoe"]) == {"members": (["alice", "bob"], ["bob"])}
    assert planned(devs, "group.members_set", "devs", ["carol", "alice"]) == {"members": (["bob"], ["alice", "carol"])}
    assert sorted(devs.line("group", "devs").split(":")[3].split(",")) == ["alice", "carol"]
    refused(devs, "cannot make zoe a member of group devs: there is no such user", "group.members_add", "devs", ["zoe"])
    devs.host.sh("sed -i 's/^devs:.*/&,gone/' /etc/group")
    assert planned(devs, "group.members_set", "devs", []) == {"members": (["alice", "carol", "gone"], [])}
    assert devs.line("group", "devs") == "devs:x:2500:"


def test_a_group_is_removed_unless_it_is_a_primary_one(devs: AccountSite):
    """The removal of a missing group changes nothing."""
    assert planned(devs, "group.remove", "devs") == {"devs": ("present", None)}
    assert planned(devs, "group.remove", "devs") == {}
    assert devs.line("group", "devs") == ""
    error = "cannot remove group alice: cannot remove the primary group of user 'alice'"
    refused(devs, error, "group.remove", "alice")


def test_a_change_by_hand_is_noticed(devs: AccountSite):
    """The watch reports the change, and a query shows it at once."""
    watch = devs.driver.watch("group.present", "devs")
    for change in ("sed -i 's/^devs:.*/&,bob/' /etc/group", "echo more:x:2600: >>/etc/group"):
        watch.quiet()
        devs.host.sh(change)
        watch.wait()
    assert devs.driver.call("group.info", ["devs", "more"])["devs"]["members"] == ["alice", "bob"]


def test_a_state_makes_and_removes_a_group(devs: AccountSite):
    """`group.present` adds it and repairs its members, `group.absent` removes it."""
    driver, wanted = devs.driver, {"gid": 2600, "members": ["alice", "bob"]}

    plan = driver.plan("group.present", "team", **wanted)
    assert devs.line("group", "team") == ""
    assert driver.apply("group.present", "team", **wanted).changes == plan.changes
    assert devs.line("group", "team") == "team:x:2600:alice,bob"
    devs.host.sh("sed -i 's/^team:.*/team:x:2600:alice,carol/' /etc/group")
    assert driver.apply("group.present", "team", **wanted).changes == {"members": ["alice", "bob"]}
    assert driver.apply("group.present", "team", **wanted).right
    assert changes(driver.call("group.members_set", "team", ["alice", "bob"])) == {}
    assert not driver.apply("group.absent", "team").right
    assert driver.apply("group.absent", "team").right
