"""Users and groups: the kinds with the real shadow tools."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from driver import Driver, Failed
from lab import Host, wait_for

from deadline import DEADLINE

pytestmark = pytest.mark.lab

HASH = "$6$salt$Fm4lSRJGsUfLMLbS5ZsZZh9OeGUYtmeQTqBJqTqlNNm5iyOWjMgrVJUZzCGeMbI3EDV9pKn5wqhS2N1B0RKTj."


def test_a_user_is_created_and_repaired(host: Host, driver: Driver):
    """A user is planned, created with every field, not changed by a second run, and repaired after drift."""
    wanted = {
        "uid": 2001, "gid": "users", "groups": [
            "sudo", "adm",
        ], "home": "/srv/alice", "shell": "/bin/bash", "fullname": "Alice Ä.",
        "workphone": 123, "password": HASH, "expire": 30000, "maxdays": 90,
    }  # fmt: skip

    planned = driver.plan("user.present", "alice", **wanted)

    assert not planned.right
    assert host.run("id", "alice", check=False).returncode == 1
    applied = driver.apply("user.present", "alice", **wanted)
    assert applied.changes == planned.changes
    assert applied.changes["password"] == "********"
    assert HASH not in str([applied, planned, driver.log])
    assert host.sh("getent passwd alice") == "alice:x:2001:100:Alice Ä.,,123:/srv/alice:/bin/bash\n"
    assert host.sh("id -Gn alice") == "users adm sudo\n"
    assert host.sh("getent shadow alice").split(":")[1] == HASH
    assert driver.apply("user.present", "alice", **wanted).comment == "user alice is as declared"

    for drift, field in {
        "usermod -s /bin/sh alice": "shell",
        "gpasswd -d alice adm": "groups",
        "gpasswd -a alice games": "groups",
        "usermod -d /tmp alice": "home",
        "usermod -c Eve alice": "fullname",
        "usermod -L alice": "password",
        "chage -M 5 alice": "maxdays",
        "chage -E -1 alice": "expire",
    }.items():
        host.sh(drift)
        assert field in driver.apply("user.present", "alice", **wanted).changes, drift
        assert driver.apply("user.present", "alice", **wanted).right, drift


def test_a_password_is_locked_and_unlocked(host: Host, driver: Driver):
    """With and without a declared hash, drift is repaired without unlocking; an empty password gives no access."""

    def shadow() -> str:
        return host.sh("getent shadow alice").split(":")[1]

    wanted = {"password": HASH, "password_lock": True}
    assert driver.apply("user.present", "alice", **wanted).changes == {
        "name": "alice",
        "password": "********",
        "password_lock": True,
    }
    assert shadow() == f"!{HASH}"
    assert driver.apply("user.present", "alice", **wanted).right
    for drift, field in {"usermod -U alice": "password_lock", "usermod -p '!x' alice": "password"}.items():
        host.sh(drift)
        assert list(driver.apply("user.present", "alice", **wanted).changes) == [field], drift
        assert shadow() == f"!{HASH}"

    assert driver.apply("user.present", "alice", password_lock=False).changes == {"password_lock": False}
    assert (shadow(), driver.plan("user.present", "alice", password_lock=False).right) == (HASH, True)
    assert driver.apply("user.present", "alice", password_lock=True).changes == {"password_lock": True}
    assert shadow() == f"!{HASH}"

    host.sh("usermod -p '!' alice")
    with pytest.raises(Failed, match=r"cannot unlock the password of alice: it would be empty"):
        driver.apply("user.present", "alice", password_lock=False)


def test_the_home_of_a_user_with_processes_is_repaired(host: Host, driver: Driver):
    """The tools refuse this while a process of the user runs, but it is safe; a change of the uid stays refused."""
    driver.apply("user.present", "alice", home="/srv/alice")
    with host.spawn("setpriv", "--reuid=alice", "--regid=alice", "--clear-groups", "sleep", "1000") as process:
        host.sh(
            "for n in $(seq 100); do pgrep -u alice sleep >/dev/null && break; sleep 0.02; done; "
            "sed -i s#/srv/alice:#/tmp:# /etc/passwd"
        )

        assert driver.apply("user.present", "alice", home="/srv/alice", shell="/bin/bash").changes == {
            "home": "/srv/alice",
            "shell": "/bin/bash",
        }
        assert host.sh("getent passwd alice").endswith(":/srv/alice:/bin/bash\n")
        with pytest.raises(Failed, match="currently used by process"):
            driver.apply("user.present", "alice", uid=4711, allow_uid_change=True)
        host.run("pkill", "-u", "alice")
        process.wait(DEADLINE)


def test_a_watch_reports_changes_by_hand(host: Host, driver: Driver):
    """Changes by usermod and gpasswd are reported."""
    driver.apply("user.present", "alice")
    watch = driver.watch("user.present", "alice", shell="/bin/bash")
    for change in ("usermod -s /bin/bash alice", "gpasswd -a alice games", "userdel alice"):
        watch.quiet()
        host.sh(change)
        watch.wait()


def test_groups_are_exact_or_minimal(host: Host, driver: Driver):
    """Without `remove_groups` other groups are kept; optional groups count only if they exist.

    The primary group may be listed; the user is not made a member of it.
    """
    host.sh("groupadd devs; useradd -G games alice")

    assert driver.apply("user.present", "alice", groups=["devs"], remove_groups=False).changes == {"groups": ["devs"]}
    assert host.sh("id -Gn alice") == "alice games devs\n"
    assert driver.apply("user.present", "alice", groups=["devs"], optional_groups=["sudo", "no-such"]).right is False
    assert host.sh("id -Gn alice") == "alice sudo devs\n"
    assert driver.apply("user.present", "alice", groups=["devs"], optional_groups=["sudo", "no-such"]).right
    assert driver.apply("user.present", "alice", groups=["alice", "games"]).changes == {"groups": ["alice", "games"]}
    assert host.sh("id -Gn alice; getent group alice | cut -d: -f4") == "alice games\n\n"
    assert driver.apply("user.present", "alice", groups=["alice", "games"]).right


def test_numbers_are_changed_only_if_allowed(host: Host, driver: Driver):
    """A change of uid or primary group is refused, and the error names the argument that allows it."""
    driver.apply("user.present", "alice", uid=2001)
    with pytest.raises(Failed, match="cannot change the uid of alice from 2001 to 2002: set allow_uid_change: true"):
        driver.plan("user.present", "alice", uid=2002)
    with pytest.raises(Failed, match="set allow_gid_change: true"):
        driver.apply("user.present", "alice", gid="users")

    driver.apply("user.present", "alice", uid=2002, allow_uid_change=True, gid="users", allow_gid_change=True)

    assert host.sh("id -u alice; id -gn alice") == "2002\nusers\n"


def test_failures_have_the_message_of_the_tool(host: Host, driver: Driver):
    """A missing group and a uid that is taken are reported in the words of the tool."""
    assert not driver.plan("user.present", "bob", groups=["nobodies"]).right
    with pytest.raises(Failed, match="cannot add user bob: group 'nobodies' does not exist"):
        driver.apply("user.present", "bob", groups=["nobodies"])
    with pytest.raises(Failed, match="cannot add user bob: UID 0 is not unique"):
        driver.apply("user.present", "bob", uid=0)
    with pytest.raises(Failed, match="cannot make carol a member of group games: there is no such user"):
        driver.apply("group.present", "games", addusers=["carol"])


def test_a_password_can_be_left_to_the_user_or_be_empty(host: Host, driver: Driver):
    """With `enforce_password: false`, the password is set only at the creation; `empty_password` removes it."""
    driver.apply("user.present", "alice", password=HASH, enforce_password=False)
    host.sh("echo alice:changed | chpasswd")

    assert driver.apply("user.present", "alice", password=HASH, enforce_password=False).right
    assert not driver.apply("user.present", "alice", empty_password=True).right
    assert host.sh("getent shadow alice").startswith("alice::")
    assert driver.apply("user.present", "alice", empty_password=True).right


def test_absent_ends_sessions_first(host: Host, driver: Driver):
    """A user whose session still runs is removed, and the home if that is declared."""
    driver.apply("user.present", "alice", shell="/bin/bash")
    host.sh("loginctl enable-linger alice; until systemctl -q is-active user@$(id -u alice); do sleep 0.05; done")

    assert driver.plan("user.absent", "alice", purge=True).changes == {"alice": "removed"}
    assert not driver.apply("user.absent", "alice", purge=True).right
    assert host.run("getent", "passwd", "alice", check=False).stdout == ""
    assert host.run("ls", "/home/alice", check=False).returncode
    assert driver.apply("user.absent", "alice").comment == "there is no user alice"


def test_absent_names_the_process_that_prevents_it(host: Host, driver: Driver):
    """A process outside any session prevents the removal, and the error names the process; `force` overrides that."""
    host.sh("useradd daemonic")
    host.sh("systemd-run -q --property=Type=exec --uid=daemonic sleep 1000")

    with pytest.raises(
        Failed, match=r"cannot remove user daemonic: user daemonic is currently used by process \d+"
    ) as failure:
        driver.apply("user.absent", "daemonic")

    assert failure.value.kind == "Temporary"
    assert not driver.apply("user.absent", "daemonic", force=True).right


def test_group_present_and_absent(host: Host, driver: Driver):
    """A group is created, keeps its members and number, and is removed; a primary group is not."""
    host.sh("useradd alice; useradd bob; useradd carol")
    wanted = {"gid": 2500, "members": ["alice", "bob"]}

    assert driver.plan("group.present", "devs", **wanted).changes == {
        "name": "devs",
        "gid": 2500,
        "members": ["alice", "bob"],
    }
    assert not driver.apply("group.present", "devs", **wanted).right
    assert host.sh("getent group devs") == "devs:x:2500:alice,bob\n"
    assert driver.apply("group.present", "devs", **wanted).right
    host.sh("gpasswd -a carol devs; groupmod -g 2600 devs")
    assert driver.apply("group.present", "devs", **wanted).changes == wanted
    assert (
        driver.apply("group.present", "devs", addusers=["carol"], delusers=["bob"]).comment
        == "changed addusers, delusers of group devs"
    )
    assert host.sh("getent group devs") == "devs:x:2500:alice,carol\n"

    watch = driver.watch("group.absent", "devs")
    watch.quiet()
    assert not driver.apply("group.absent", "devs").right
    watch.wait()
    assert driver.apply("group.absent", "devs").right
    with pytest.raises(Failed, match="cannot remove group alice: cannot remove the primary group of user 'alice'"):
        driver.apply("group.absent", "alice")


def test_every_function_of_the_interface_works(driver: Driver):
    """Functions that no kind uses work, too."""
    driver.call("user.add", "alice", createhome=False)

    assert driver.call("user.rename", "alice", "eve")["changes"] == {"name": {"old": "alice", "new": "eve"}}
    assert "eve" in driver.call("user.list")
    assert driver.call("user.info", ["eve", "alice"])["alice"] is None
    assert "sudo" in driver.call("group.list")


def test_files_of_a_recreated_user_are_given_to_the_user(host: Host):
    """Another user had the number meanwhile, and so owned the files; that user must not keep them."""
    host.write("/etc/holdfast/agent.yaml", "engine: {recheck: 0}\n")
    host.write(
        "/etc/holdfast/states/site.sls",
        "app:\n  user.present: []\n/srv/f:\n  file.managed: [{contents: x}, {user: app}]\n/srv/d:\n"
        "  file.directory: [{user: app}, {require: [{user: app}]}]\n",
    )
    host.run("holdfast", "install")
    wait_for("the files", lambda: host.run("stat", "-c", "%U", "/srv/f", "/srv/d", check=False).stdout == "app\napp\n")

    host.sh("systemctl kill -s STOP holdfast; userdel app; useradd other; systemctl kill -s CONT holdfast")

    wait_for("the user", lambda: host.run("id", "app", check=False).returncode == 0)
    wait_for("their owner", lambda: host.run("stat", "-c", "%U", "/srv/f", "/srv/d").stdout == "app\napp\n")


def test_a_user_whose_removal_is_under_way_gets_a_new_group(host: Host, driver: Driver):
    """The agent notices the removal before userdel has removed the group; the new account must not get this group."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    driver.apply("user.present", "alice", createhome=False)
    host.sh("groupadd crew")
    slowly = (
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=rename",
        "-e",
        "inject=rename:delay_exit=1s:when=1",
    )
    with subprocess.Popen([*slowly, *host.argv("userdel", "alice")]) as userdel:
        wait_for("the removal from passwd", lambda: host.run("grep", "alice", "/etc/passwd", check=False).returncode)
        assert host.sh("getent group alice")

        driver.apply("user.present", "alice", createhome=False, groups=["crew"])

        assert userdel.wait(DEADLINE) == 0
    assert host.sh("id -Gn alice") == "alice crew\n"
    assert driver.apply("user.present", "alice", groups=["crew"]).right
