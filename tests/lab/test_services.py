"""Services: the kinds with a real systemd."""

from __future__ import annotations

import re
import time

import pytest
from driver import Driver, Failed
from lab import Host
from outside import wait_for

pytestmark = pytest.mark.lab

SLEEPER = "[Service]\nExecStart=/bin/sleep 1000\n[Install]\nWantedBy=multi-user.target\n"


def add_unit(host: Host, name: str, text: str = SLEEPER) -> None:
    """Create a unit file where packages have theirs, without notifying systemd."""
    host.write(f"/usr/lib/systemd/system/{name}.service", text)


def state(host: Host, name: str) -> tuple[str, str]:
    """Return whether systemctl reports the service as active, and as enabled."""
    return (
        host.run("systemctl", "is-active", name, check=False).stdout.strip(),
        host.run("systemctl", "is-enabled", name, check=False).stdout.strip(),
    )


def test_a_service_is_started_enabled_and_repaired(host: Host, driver: Driver):
    """A new unit is started and enabled, left alone by the second run, and repaired after every kind of drift."""
    add_unit(host, "toy")

    planned = driver.plan("service.running", "toy", enable=True)

    assert (planned.right, planned.changes, state(host, "toy")) == (False, {"toy": True}, ("inactive", "disabled"))
    assert driver.apply("service.running", "toy", enable=True).comment == "started and enabled toy"
    assert state(host, "toy") == ("active", "enabled")
    assert driver.apply("service.running", "toy", enable=True).comment == "toy runs and starts at boot"

    for drift in ("stop", "disable", "kill -s KILL"):
        host.sh(f"systemctl {drift} toy")
        wait_for("drift", lambda: not driver.plan("service.running", "toy", enable=True).right)
        assert not driver.apply("service.running", "toy", enable=True).right
        assert state(host, "toy") == ("active", "enabled")


@pytest.mark.parametrize(
    ("command", "deed", "told"),
    [
        ("sleep 1000", "kill -KILL $(systemctl show -P MainPID toy)", "toy.service was killed by signal 9 (SIGKILL)"),
        ("sleep 1000", "systemctl stop toy", "toy.service was stopped"),
        ("read end < /run/toy; exit 3", "echo > /run/toy", "toy.service ended with status 3"),
        ("read end < /run/toy", "echo > /run/toy", "toy.service ended with status 0"),
    ],
)
def test_the_status_tells_how_a_service_has_ended(host: Host, driver: Driver, command: str, deed: str, told: str):
    """A running service has no end. systemd remembers the end of services that are enabled or have failed."""
    add_unit(host, "toy", f"[Service]\nExecStart=/bin/sh -c '{command}'\n[Install]\nWantedBy=multi-user.target\n")
    host.sh("rm -f /run/toy; mkfifo /run/toy; systemctl daemon-reload; systemctl enable toy; systemctl start toy")
    assert driver.call("service.status", ["toy"])["toy"]["extra"]["ended"] == ""

    host.sh(deed)
    wait_for(told, lambda: driver.call("service.status", ["toy"])["toy"]["extra"]["ended"] == told)


def test_who_asked_for_the_stop_of_a_service_is_told_if_sudo_has_recorded_it(host: Host, driver: Driver):
    """A stop without sudo, and a crash, have no author.

    Refusals of sudo, and records that another program has written, do not count.
    """
    add_unit(host, "toy")
    host.sh("useradd ann; useradd bob; echo 'ann ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ann; systemctl daemon-reload")
    driver.apply("service.running", "toy", enable=True)

    def told(deed: str) -> str:
        host.sh(deed)
        wait_for("the end", lambda: state(host, "toy")[0] != "active")
        return driver.apply("service.running", "toy", enable=True).ended

    refused = "su bob -c 'sudo -n systemctl stop toy' || true; "
    assert re.fullmatch(
        r"toy\.service was stopped; ann asked for it by sudo at \d\d:\d\d:\d\d",
        told(refused + "su ann -c 'sudo systemctl stop toy'"),
    )
    assert told(refused + "systemctl stop toy") == "toy.service was stopped"
    assert told("su ann -c 'sudo systemctl stop nothing' || true; systemctl stop toy") == "toy.service was stopped"
    forged = "logger -t sudo '     ann : PWD=/ ; USER=root ; COMMAND=/usr/bin/systemctl stop toy'"
    assert told(f'su bob -c "{forged}"; systemctl stop toy') == "toy.service was stopped"
    host.sh("cp /usr/bin/logger /tmp/sudo")
    forged = "/tmp/sudo -t sudo '     bob : PWD=/ ; USER=root ; COMMAND=/usr/bin/systemctl stop toy'"
    assert told(f'su bob -c "{forged}"; systemctl stop toy') == "toy.service was stopped"
    assert told("su ann -c 'sudo systemctl kill -s KILL toy'").startswith(
        "toy.service was killed by signal 9 (SIGKILL)"
    )


TERMINAL = """\
import os, pty, sys, termios, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp("su", ["su", "-", sys.argv[1]])
said = b""
for prompt, words in ((b"$ ", b"systemctl stop toy; exit"), (b"assword: ", b"secret")):
    while not said.endswith(prompt):
        said += os.read(terminal, 4096)
    while words == b"secret" and termios.tcgetattr(terminal)[3] & termios.ECHO:
        time.sleep(0.01)  # polkit discards what was typed before it has switched the echo off
    os.write(terminal, words + b"\\n")
while os.waitpid(pid, os.WNOHANG) == (0, 0):
    try:
        os.read(terminal, 4096)
    except OSError:
        pass
"""
"""Stops a service in the terminal of a user, who gives a password when polkit asks for it."""


def test_who_asked_for_the_stop_of_a_service_is_told_if_polkit_has_recorded_it(host: Host, driver: Driver):
    """If a rule of polkit allows the stop without a password, there is no record, and so no author.

    The test takes some seconds: it installs polkit.
    """
    add_unit(host, "toy")
    host.sh("apt-get install --yes -qq polkitd; useradd -m -s /bin/bash -G sudo ann; useradd bob")
    host.sh("echo ann:secret | chpasswd")
    rule = 'if (subject.user == "bob") return polkit.Result.YES;'
    host.write("/etc/polkit-1/rules.d/10-bob.rules", f"polkit.addRule(function(action, subject) {{ {rule} }});\n")
    host.write("/root/terminal.py", TERMINAL)
    host.sh("chmod 755 /etc/polkit-1/rules.d; systemctl daemon-reload; systemctl restart polkit")
    driver.apply("service.running", "toy", enable=True)

    def told(*deed: str) -> str:
        host.run(*deed)
        wait_for("the end", lambda: state(host, "toy")[0] != "active")
        return driver.apply("service.running", "toy", enable=True).ended

    assert re.fullmatch(
        r"toy\.service was stopped; ann asked for it by polkit at \d\d:\d\d:\d\d",
        told("python3", "/root/terminal.py", "ann"),
    )
    assert told("su", "bob", "-c", "systemctl stop toy") == "toy.service was stopped"


def test_a_dead_service_is_stopped_disabled_and_repaired(host: Host, driver: Driver):
    """A running service is stopped and disabled; started by hand, it is stopped again; a missing one is as declared."""
    add_unit(host, "toy")
    host.sh("systemctl daemon-reload; systemctl enable -q --now toy")

    assert driver.plan("service.dead", "toy", enable=False).changes == {"toy": True}
    assert state(host, "toy") == ("active", "enabled")
    assert driver.apply("service.dead", "toy", enable=False).comment == "stopped and disabled toy"
    assert state(host, "toy") == ("inactive", "disabled")
    assert driver.apply("service.dead", "toy", enable=False).right

    host.sh("systemctl start toy")

    assert not driver.refresh("service.dead", "toy").right
    assert driver.refresh("service.dead", "toy").right
    assert driver.apply("service.dead", "nothing-of-the-kind", enable=False).right


def test_dead_waits_for_a_restart(host: Host, driver: Driver):
    """With `init_delay`, a service that something else starts again is an error; one that stays stopped is not."""
    add_unit(host, "toy")
    add_unit(host, "lazarus")
    host.write("/usr/lib/systemd/system/lazarus.path", "[Path]\nPathExists=/etc/passwd\n")
    host.sh("systemctl daemon-reload; systemctl start toy lazarus.path lazarus.service")

    assert driver.apply("service.dead", "toy", init_delay=0.2).comment == "stopped toy"
    with pytest.raises(Failed, match=r"lazarus was stopped, but 1 s later it runs again"):
        driver.apply("service.dead", "lazarus", init_delay=1)


def test_a_watch_reports_every_change_by_hand(host: Host, driver: Driver):
    """Killing, stopping, starting, disabling and masking a service are reported at once."""
    add_unit(host, "toy")
    driver.apply("service.running", "toy", enable=True)
    watch = driver.watch("service.running", "toy")

    for change in ("kill -s KILL", "start", "stop", "disable", "mask", "unmask"):
        watch.quiet()
        host.sh(f"systemctl {change} toy")
        watch.wait()


def test_a_watch_reports_links_that_systemd_does_not_know(host: Host, driver: Driver):
    """Links that were removed or created by hand are reported: they decide whether the next boot starts the service."""
    add_unit(host, "toy")
    driver.apply("service.running", "toy", enable=True)
    watch = driver.watch("service.running", "toy")
    link = "/etc/systemd/system/multi-user.target.wants/toy.service"

    for change, enabled in (
        (f"rm {link}", "disabled"),
        (f"ln -s /usr/lib/systemd/system/toy.service {link}", "enabled"),
    ):
        watch.quiet()
        host.sh(change)
        watch.wait()
        assert state(host, "toy") == ("active", enabled)


def test_a_watch_reports_a_unit_that_appears(host: Host, driver: Driver):
    """A service that does not exist yet can be watched and checked; its creation is reported."""
    watch = driver.watch("service.running", "toy")

    assert driver.plan("service.running", "toy").changes == {"toy": True}
    watch.quiet()
    add_unit(host, "toy")
    host.sh("systemctl daemon-reload")
    watch.wait()


def test_refresh_restarts_reloads_or_starts(host: Host, driver: Driver):
    """After a watched change, the service is restarted, or reloaded if that is declared; a stopped one is started."""
    add_unit(host, "toy", f"[Service]\nExecReload=/bin/touch /run/reloaded\n{SLEEPER.removeprefix('[Service]')}")
    driver.apply("service.running", "toy")

    def pid() -> str:
        return host.run("systemctl", "show", "-P", "MainPID", "toy").stdout

    first = pid()
    assert driver.refresh("service.running", "toy").comment == "restarted toy"
    second = pid()
    assert first != second
    assert driver.refresh("service.running", "toy", reload=True).comment == "reloaded toy"
    assert (pid(), host.read("/run/reloaded")) == (second, "")

    host.sh("systemctl stop toy")

    assert driver.refresh("service.running", "toy", reload=True).comment == "started toy"


def test_a_service_that_exits_at_once_is_an_error_with_its_last_messages(host: Host, driver: Driver):
    """For systemd, the start succeeds as soon as the service runs for a moment; Holdfast reports a failure."""
    add_unit(host, "toy", "[Service]\nExecStart=/bin/sh -c 'sleep 0.05; echo out of luck >&2; exit 3'\n")

    with pytest.raises(
        Failed, match=r"cannot start toy: it ended at once, exit-code, status 3; its journal:(.|\n)*out of luck"
    ):
        driver.apply("service.running", "toy")


def test_a_failed_start_has_a_clear_error(host: Host, driver: Driver):
    """A failed start, a service that exits, a masked unit, a missing reload, and a mistyped name give clear errors."""
    add_unit(host, "fails", "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo no such luck; exit 4'\n")
    add_unit(host, "once", "[Service]\nType=oneshot\nExecStart=/bin/true\n")
    add_unit(host, "toy")
    host.sh("systemctl mask -q cron; systemctl stop cron; systemctl daemon-reload; systemctl start toy")

    for name, why in {
        "fails": r"cannot start fails: failed, exit-code, status 4; its journal:(.|\n)*no such luck",
        "once": r"cannot keep once running: it ended by itself; for a one-time task its unit needs RemainAfterExit=yes",
        "cron": r"cannot start cron: it is masked; set `unmask: true`",
        "dbuss": r"cannot start dbuss: there is no unit dbuss.service; did you mean dbus\?",
    }.items():
        with pytest.raises(Failed, match=why):
            driver.apply("service.running", name)
    with pytest.raises(Failed, match=r"cannot reload toy: its unit has no ExecReload="):
        driver.refresh("service.running", "toy", reload=True)

    assert driver.apply("service.running", "cron", unmask=True).comment == "unmasked and started cron"


def test_a_changed_unit_file_is_read_before_a_start(host: Host, driver: Driver):
    """A unit file that was changed without notifying systemd is in force at the start."""
    add_unit(host, "toy", SLEEPER.replace("1000", "1001"))
    driver.apply("service.running", "toy")
    add_unit(host, "toy", SLEEPER.replace("1000", "1002"))

    driver.refresh("service.running", "toy")

    assert "1002" in host.sh("cat /proc/$(systemctl show -P MainPID toy)/cmdline")


def test_a_unit_whose_file_was_away_is_restarted(host: Host, driver: Driver):
    """The unit is restarted while its service runs.

    If systemd was reloaded meanwhile, it refuses the unit (EBUSY) until the next reload.
    """
    file = "/usr/lib/systemd/system/toy.service"
    add_unit(host, "toy")
    driver.apply("service.running", "toy")
    host.sh(f"mv {file} /root/away; systemctl daemon-reload; mv /root/away {file}")
    assert driver.refresh("service.running", "toy").changes == {"toy": True}
    assert state(host, "toy")[0] == "active"


def test_enabled_disabled_masked_and_unmasked(host: Host, driver: Driver):
    """The kinds for the next boot change only that, once; a unit that cannot be enabled is left alone."""
    add_unit(host, "toy")
    for kind, shown in {"enabled": "enabled", "disabled": "disabled"}.items():
        assert driver.plan(f"service.{kind}", "toy").right is (
            kind == "disabled" and state(host, "toy")[1] == "disabled"
        )
        driver.apply(f"service.{kind}", "toy")
        assert driver.apply(f"service.{kind}", "toy").right
        assert state(host, "toy") == ("inactive", shown)
    for kind in ("masked", "unmasked"):
        assert not driver.apply(f"service.{kind}", "cron").right
        assert driver.apply(f"service.{kind}", "cron").right

    assert driver.apply("service.enabled", "systemd-journald").right


def test_unmask_includes_masks_until_the_next_boot(host: Host, driver: Driver):
    """Both ways of masking are removed, together and alone; otherwise the state would never converge."""
    add_unit(host, "toy")
    for masks in ("--runtime", "--now", "--now toy; systemctl mask --runtime"):
        host.sh(f"systemctl mask -q {masks} toy")

        driver.apply("service.running", "toy", unmask=True, enable=True)

        assert state(host, "toy") == ("active", "enabled")
        host.sh("systemctl mask -q --runtime toy")
        assert not driver.apply("service.unmasked", "toy").right
        assert driver.apply("service.unmasked", "toy").right


def test_a_service_that_failed_too_often_is_started(host: Host, driver: Driver):
    """A start by hand would be refused by systemd for a while."""
    add_unit(host, "toy", SLEEPER.replace("[Install]", "Restart=on-failure\n[Install]"))
    host.sh(
        "systemctl daemon-reload; for n in 1 2 3 4 5 6; do systemctl start toy && systemctl kill -s KILL toy; "
        "sleep 0.2; done || true"
    )
    assert host.run("systemctl", "start", "toy", check=False).returncode

    driver.apply("service.running", "toy")

    assert state(host, "toy")[0] == "active"


def test_a_restart_of_dbus_is_survived(host: Host, driver: Driver):
    """When D-Bus restarts, health says so, watches check and report again, and calls succeed."""
    add_unit(host, "toy")
    driver.apply("service.running", "toy")
    watch = driver.watch("service.running", "toy")
    watch.quiet()

    host.sh("systemctl stop dbus.socket dbus.service")
    driver.wait(lambda: driver.health == ["dbus-gone"], "dbus-gone")
    host.sh("systemctl start dbus.socket dbus.service")
    watch.wait()

    assert driver.health == []
    assert driver.apply("service.running", "toy").right
    watch.quiet()
    host.sh("systemctl kill -s KILL toy")
    watch.wait()
    assert driver.apply("service.running", "toy").comment == "started toy"


def test_a_restart_of_dbus_during_calls_loses_none(host: Host, driver: Driver):
    """Calls that are made while D-Bus restarts wait for it."""
    driver.apply("service.running", "cron")
    restart = host.spawn("systemctl", "restart", "dbus")
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        try:
            assert driver.plan("service.running", "cron").right
        except Failed as error:
            assert error.kind == "BusError"  # noqa: PT017 - a running call may fail; a new one must not
    restart.wait()

    assert driver.plan("service.running", "cron").right
