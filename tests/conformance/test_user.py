"""The interface `user` with the real tools: one suite for all providers."""

from __future__ import annotations

import pytest
from account_sites import AccountSite
from driver import Failed

pytestmark = pytest.mark.lab

HASH = "$6$salt$Fm4lSRJGsUfLMLbS5ZsZZh9OeGUYtmeQTqBJqTqlNNm5iyOWjMgrVJUZzCGeMbI3EDV9pKn5wqhS2N1B0RKTj."
OTHER = HASH.replace("Fm4", "Gn5")
FIELDS = {
    "uid": 2001, "gid": "users", "groups": ["adm", "sudo"], "home": "/srv/alice", "shell": "/bin/bash",
    "fullname": "Alice Ä.", "workphone": "123",
}  # fmt: skip
"""Every kind of field."""
CHANGED = {
    "uid": 2002, "gid": "games", "groups": ["sudo", "video"], "home": "/srv/other", "shell": "/bin/sh",
    "fullname": "Bob", "workphone": "456",
}  # fmt: skip


def changes(done: dict) -> dict[str, tuple[object, object]]:
    """Return the changes of a result: name -> old and new."""
    return {name: (change["old"], change["new"]) for name, change in done["changes"].items()}


def planned(site: AccountSite, function: str, *positional: object, **arguments: object) -> dict:
    """Make a call with `test`, which must not change a byte, and then without; both return the same."""
    before = site.files()
    plan = site.driver.call(function, *positional, test=True, **arguments)
    assert site.files() == before
    done = site.driver.call(function, *positional, **arguments)
    assert done == plan
    return changes(done)


def refused(site: AccountSite, match: str, function: str, *positional: object, **arguments: object) -> None:
    """Make a call that fails, with `test`, too; it changes nothing."""
    before = site.files()
    for test in (True, False):
        with pytest.raises(Failed, match=match):
            site.driver.call(function, *positional, test=test, **arguments)
    assert site.files() == before


def test_an_account_is_added_with_every_field(accounts: AccountSite):
    """All fields are in the files and in `info`; a second call to add it is an error."""
    made = planned(accounts, "user.add", "alice", **FIELDS)

    assert made == {name: (None, value) for name, value in {"name": "alice", **FIELDS}.items()}
    assert accounts.line("passwd", "alice") == "alice:x:2001:100:Alice Ä.,,123:/srv/alice:/bin/bash"
    assert accounts.host.sh("id -Gn alice; stat -c %U:%G /srv/alice") == "users adm sudo\nalice:users\n"
    info = accounts.driver.call("user.info", ["alice", "nobody-else"])
    assert info["nobody-else"] is None
    seen = {**info["alice"]["extra"], **info["alice"]}
    assert {name: seen[name] for name in FIELDS} == {**FIELDS, "gid": 100}
    assert (seen["primary_group"], seen["locked"]) == ("users", True)
    assert "alice" in accounts.driver.call("user.list")
    refused(accounts, "cannot add user alice: there is such a user already", "user.add", "alice")
    assert changes(accounts.driver.call("user.modify", "alice", **FIELDS)) == {}


def test_an_account_gets_defaults(accounts: AccountSite):
    """A group of its own, a home with the skeleton, a shell, and no password; a system account has a low uid."""
    accounts.host.sh("echo skeleton >/etc/skel/.mark")
    planned(accounts, "user.add", "alice")
    planned(accounts, "user.add", "daemonic", system=True, createhome=False, usergroup=True)
    planned(accounts, "user.add", "games2", gid=60, createhome=False)

    assert accounts.host.sh("id -gn alice; id -Gn alice; cat /home/alice/.mark; stat -c %U /home/alice/.mark") == (
        "alice\nalice\nskeleton\nalice\n"
    )
    assert accounts.line("passwd", "alice").endswith(":/home/alice:/bin/sh")
    assert accounts.line("shadow", "alice").split(":")[1].startswith("!")
    assert int(accounts.line("passwd", "daemonic").split(":")[2]) < 1000
    assert accounts.host.sh("id -gn daemonic; id -Gn games2; ls /home") == "daemonic\ngames\nalice\n"


def test_each_field_is_changed(accounts: AccountSite):
    """Each field is changed alone, and the others stay. If the tool cannot do it, the error says so."""
    call = accounts.driver.call
    call("user.add", "alice", **FIELDS, createhome=False)
    for field, value in CHANGED.items():
        new = {field: value}
        if field in accounts.cannot:
            error = f"cannot change the {field} of user alice: {accounts.tool} has no tool for it"
            refused(accounts, error, "user.modify", "alice", **new)
            continue

        assert planned(accounts, "user.modify", "alice", **new) == {field: (FIELDS[field], value)}
        assert planned(accounts, "user.modify", "alice", **{**FIELDS, **new}) == {}
        seen = call("user.info", ["alice"])["alice"]
        seen |= {**seen["extra"], "gid": seen["primary_group"]}
        assert {name: seen[name] for name in FIELDS} == {**FIELDS, **new}
        call("user.modify", "alice", **FIELDS)


def test_an_account_is_renamed(accounts: AccountSite):
    """It keeps its uid and its groups; the name of another account is refused."""
    accounts.driver.call("user.add", "alice", **FIELDS, createhome=False)
    if "name" in accounts.cannot:
        refused(
            accounts, f"cannot rename user alice: {accounts.tool} has no tool for it", "user.rename", "alice", "eve"
        )
        return

    refused(accounts, "cannot rename user alice to root: there is such a user", "user.rename", "alice", "root")
    assert planned(accounts, "user.rename", "alice", "eve") == {"name": ("alice", "eve")}
    assert (accounts.line("passwd", "alice"), accounts.host.sh("id -Gn eve")) == ("", "users adm sudo\n")


def test_an_account_is_removed_with_and_without_its_home(accounts: AccountSite):
    """It is also removed from its groups. The removal of a missing account changes nothing."""
    for name in ("alice", "bob"):
        accounts.driver.call("user.add", name, groups=["adm"])

    assert planned(accounts, "user.remove", "alice") == {"alice": ("present", None)}
    assert planned(accounts, "user.remove", "bob", remove_home=True) == {"bob": ("present", None)}
    assert planned(accounts, "user.remove", "bob") == {}
    assert accounts.host.sh("ls /home; getent passwd alice bob || true; getent group adm") == "alice\nadm:x:4:\n"
    assert (accounts.line("group", "alice"), accounts.line("shadow", "alice")) == ("", "")


def test_an_account_with_processes_is_removed_only_by_force(accounts: AccountSite):
    """The error names a process and is temporary. With `force`, the process does not matter."""
    accounts.driver.call("user.add", "alice", createhome=False)
    started = "setpriv --reuid=$(id -u alice) --clear-groups sleep 1000 </dev/null >/dev/null 2>&1 &"
    accounts.host.sh(f"{started} until pgrep -u alice sleep; do sleep 0.01; done")

    with pytest.raises(Failed, match=r"cannot remove user alice: user alice is currently used by process \d+") as error:
        accounts.driver.call("user.remove", "alice")
    assert (error.value.kind, accounts.line("passwd", "alice") != "") == ("Temporary", True)
    assert planned(accounts, "user.remove", "alice", force=True) == {"alice": ("present", None)}


def test_a_password_is_set_as_a_hash(accounts: AccountSite):
    """The hash appears in no argument list, result or log. An empty hash removes the password."""
    accounts.driver.call("user.add", "alice", createhome=False)
    accounts.record_arguments()
    masked = {"password": ("********", "********")}

    assert planned(accounts, "user.set_password", "alice", HASH) == masked
    assert accounts.line("shadow", "alice").split(":")[1] == HASH
    assert planned(accounts, "user.set_password", "alice", HASH) == {}
    assert planned(accounts, "user.set_password", "alice", OTHER) == masked
    said = accounts.host.read("/root/arguments")
    assert said
    assert "$6$" not in said + str(accounts.driver.log)
    assert planned(accounts, "user.set_password", "alice", "") == masked
    assert accounts.line("shadow", "alice").split(":")[1] == ""
    for evil in ("x\nroot:y", "a:b"):
        refused(accounts, "a hash has neither a colon nor a line break", "user.set_password", "alice", evil)
    refused(accounts, "cannot set the password of zoe: there is no such user", "user.set_password", "zoe", HASH)


def test_a_password_is_locked_and_unlocked(accounts: AccountSite):
    """The hash stays; a password that would be empty is not unlocked."""
    accounts.driver.call("user.add", "alice", createhome=False)
    refused(accounts, "cannot unlock the password of alice: it would be empty", "user.set_lock", "alice", False)
    accounts.driver.call("user.set_password", "alice", HASH)

    assert planned(accounts, "user.set_lock", "alice", True) == {"locked": (False, True)}
    assert planned(accounts, "user.set_lock", "alice", True) == {}
    assert accounts.line("shadow", "alice").split(":")[1] == f"!{HASH}"
    assert planned(accounts, "user.set_lock", "alice", False) == {"locked": (True, False)}
    assert accounts.line("shadow", "alice").split(":")[1] == HASH


def test_ageing_is_set(accounts: AccountSite):
    """Each field is set. A tool that cannot do this lacks the function."""
    accounts.driver.call("user.add", "alice", createhome=False)
    ages = {"expire": 30000, "maxdays": 90, "mindays": 1, "warndays": 3, "inactdays": 5, "date": 19000}
    if "set_expiry" in accounts.lacks:
        with pytest.raises(Failed) as error:
            accounts.driver.call("user.set_expiry", "alice", ages)
        assert error.value.kind == "FunctionNotImplemented"
        return

    assert {name: new for name, (_, new) in planned(accounts, "user.set_expiry", "alice", ages).items()} == ages
    assert accounts.line("shadow", "alice").split(":")[2:] == ["19000", "1", "90", "3", "5", "30000", ""]
    assert planned(accounts, "user.set_expiry", "alice", ages) == {}
    assert planned(accounts, "user.set_expiry", "alice", {"expire": -1}) == {"expire": (30000, -1)}


def test_login_classes_are_for_bsd(accounts: AccountSite):
    """On Linux no tool can have the function."""
    with pytest.raises(Failed) as error:
        accounts.driver.call("user.set_login_class", "root", "staff")
    assert error.value.kind == "FunctionNotSupported"


def test_what_no_account_can_have_is_refused(accounts: AccountSite):
    """It is refused before any tool runs."""
    for name, fields, error in (
        ("a b", {}, "invalid user name 'a b'"),
        ("-D", {}, "invalid user name '-D'"),
        ("", {}, "invalid user name ''"),
        ("x:y", {}, "invalid user name 'x:y'"),
        ("bob", {"shell": "/bin/sh\nroot2:x:0:0::/:/bin/sh"}, "the shell cannot have"),
        ("bob", {"home": "/a:b"}, "the home cannot have ':'"),
        ("bob", {"fullname": "a,b"}, "the fullname cannot have ','"),
        ("bob", {"phone": "1"}, "there is no field phone"),
    ):
        refused(accounts, f"cannot add user {name}: {error}", "user.add", name, createhome=False, **fields)


def test_what_the_tool_refuses_changes_nothing(accounts: AccountSite):
    """The error names the uid that is in use, or the missing group."""
    before = accounts.files()
    for fields, error in (
        ({"uid": 0}, r"cannot add user bob: .*\b0\b"),
        ({"groups": ["adm", "nobodies"]}, "cannot add user bob: group 'nobodies' does not exist"),
        ({"gid": 4711}, "cannot add user bob: group '4711' does not exist"),
    ):
        with pytest.raises(Failed, match=error):
            accounts.driver.call("user.add", "bob", createhome=False, **fields)
    assert accounts.files() == before


def test_a_change_by_hand_is_noticed(accounts: AccountSite):
    """Changes of each file are reported, by rename as tools do it, or in place. A query shows them at once."""
    accounts.driver.call("user.add", "alice", createhome=False)
    watch = accounts.driver.watch("user.present", "alice")
    for change in (
        "sed -i 's#/home/alice#/tmp#' /etc/passwd",
        "sed -i 's#^alice:!#alice:*#' /etc/shadow",
        "sed -i 's#^adm:.*#&alice#' /etc/group",
        "echo carol:x:2010:100::/:/bin/sh >>/etc/passwd",
    ):
        watch.quiet()
        accounts.host.sh(change)
        watch.wait()
    seen = accounts.driver.call("user.info", ["alice", "carol"])
    assert (seen["alice"]["home"], seen["alice"]["groups"], seen["carol"]["uid"]) == ("/tmp", ["adm"], 2010)


def test_a_state_makes_and_removes_an_account(accounts: AccountSite):
    """`user.present` adds it and repairs its groups and password, `user.absent` removes it."""
    wanted = {**FIELDS, "password": HASH}
    driver = accounts.driver

    plan = driver.plan("user.present", "alice", **wanted)
    assert accounts.line("passwd", "alice") == ""
    assert driver.apply("user.present", "alice", **wanted).changes == plan.changes
    assert driver.apply("user.present", "alice", **wanted).right
    accounts.host.sh("sed -i -E '/^(adm|sudo):/s/alice//; s/^games:.*/&alice/' /etc/group")
    accounts.host.sh("sed -i 's/^alice:[^:]*/alice:!/' /etc/shadow")
    assert set(driver.apply("user.present", "alice", **wanted).changes) == {"groups", "password"}
    assert driver.apply("user.present", "alice", **wanted).right
    assert driver.apply("user.absent", "alice", purge=True).changes == {"alice": "removed"}
    assert driver.apply("user.absent", "alice").right
    assert "alice" not in accounts.host.sh("cat /etc/passwd /etc/group /etc/shadow; ls /srv")


def test_a_missing_primary_group_is_added_again(accounts: AccountSite):
    """The group gets the number of the account, unless the state declares another one.

    The watch reports that it is missing.
    """
    driver = accounts.driver
    driver.apply("user.present", "alice", createhome=False)
    number = accounts.line("passwd", "alice").split(":")[3]
    watch = driver.watch("user.present", "alice")
    watch.quiet()
    accounts.host.sh("sed -i /^alice:/d /etc/group /etc/gshadow")
    watch.wait()

    assert driver.apply("user.present", "alice", usergroup=False).right
    assert driver.apply("user.present", "alice", gid=number).right
    wanted = {"primary_group": "exists"}
    assert driver.plan("user.present", "alice").changes == driver.apply("user.present", "alice").changes == wanted
    assert accounts.line("group", "alice").split(":")[:3] == ["alice", "x", number]
    assert driver.apply("user.present", "alice").right

    accounts.host.sh("sed -i 's/^alice:.*/alice:x:4711:/' /etc/group")
    with pytest.raises(Failed, match=rf"gid {number}: group alice has gid 4711; set gid: alice and allow_gid_change"):
        driver.apply("user.present", "alice")
