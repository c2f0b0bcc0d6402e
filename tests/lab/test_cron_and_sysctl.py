"""Jobs of a real cron and parameters of a real kernel, with the kinds."""

from __future__ import annotations

import lab
import pytest
from driver import Driver, Failed
from lab import Host

pytestmark = pytest.mark.lab

TAG = "# Lines below here are managed by Holdfast, do not edit"
FORWARD = "net.ipv4.ip_forward"


def crontab(host: Host, user: str = "root") -> str:
    """Return the crontab of a user."""
    return host.run("crontab", "-u", user, "-l", check=False).stdout


def test_a_job_is_added_changed_and_removed(host: Host, driver: Driver):
    """A job is written to its user's crontab, below its mark; a second apply changes nothing, and plan never does."""
    host.sh("useradd -m app; echo 'MAILTO=ops' | crontab -u app -")
    job = {"user": "app", "identifier": "night", "hour": 3, "minute": 5, "comment": "each night"}

    assert not driver.plan("cron.present", "/bin/true", **job).right
    assert crontab(host, "app") == "MAILTO=ops\n"
    assert driver.apply("cron.present", "/bin/true", **job).changes == {"app": "/bin/true"}
    assert (
        crontab(host, "app") == f"MAILTO=ops\n{TAG}\n# each night HOLDFAST_CRON_IDENTIFIER:night\n5 3 * * * /bin/true\n"
    )
    assert driver.apply("cron.present", "/bin/true", **job).right
    assert driver.apply("cron.present", "/bin/false", **job | {"special": "@reboot"}).changes == {"app": "/bin/false"}
    assert crontab(host, "app").endswith("HOLDFAST_CRON_IDENTIFIER:night\n@reboot /bin/false\n")
    assert driver.apply("cron.env_present", "PATH", user="app", value="/opt/bin").changes == {"app": "PATH"}
    assert not driver.apply("cron.absent", "night", user="app", identifier="night").right
    assert crontab(host, "app") == f"MAILTO=ops\n{TAG}\nPATH=/opt/bin\n"
    assert driver.apply("cron.absent", "night", user="app", identifier="night").right

    host.sh(r"printf '# caf\351\n' | crontab -u app -")
    driver.apply("cron.present", "/bin/true", user="app")
    assert host.sh("crontab -u app -l | head -1 | od -An -tx1").split() == ["23", "20", "63", "61", "66", "e9", "0a"]


def test_a_refusal_of_cron_is_the_error(host: Host, driver: Driver):
    """For a missing user, cron refuses the crontab, and nothing is written. The compiler reports invalid fields."""
    driver.apply("cron.present", "/bin/true", minute=1)
    before = crontab(host)
    with pytest.raises(Failed, match=r"cannot read the crontab of nobody-here: .*unknown"):
        driver.apply("cron.present", "/bin/true", user="nobody-here")

    assert crontab(host) == before


def test_a_crontab_that_cron_refuses_is_not_installed(host: Host, driver: Driver):
    """The error has cron's message, and the user keeps the present crontab."""
    host.sh("useradd app; echo '5 5 * * * id' | crontab -u app -; echo '61 * * * * id' >/root/wrong")
    with pytest.raises(Failed, match=r"cannot change the crontab of app: .*bad minute"):
        driver.apply("cron.file", "/root/wrong", user="app")
    assert crontab(host, "app") == "5 5 * * * id\n"


def test_a_watch_reports_edits_and_removals(host: Host, driver: Driver):
    """The watch also works before a crontab exists."""
    watch = driver.watch("cron.present", "/bin/true")
    for change in (
        "echo '@daily x' | crontab -",
        "crontab -l | sed s/daily/hourly/ | crontab -",
        "crontab -r",
        "rmdir /var/spool/cron/crontabs",
    ):
        watch.quiet()
        host.sh(change)
        watch.wait()


def test_the_job_runs(host: Host, driver: Driver):
    """The real cron runs a job of @reboot at its next start."""
    driver.apply("cron.present", "touch /tmp/ran", special="@reboot")
    host.sh("rm -f /run/crond.reboot; systemctl restart cron")

    lab.wait_for("the job has run", lambda: host.run("test", "-e", "/tmp/ran", check=False).returncode == 0)


def test_a_parameter_is_set_stored_and_repaired(host: Host, driver: Driver):
    """The parameter is repaired in the kernel and in Salt's file, whichever has changed."""
    host.sh(f"sysctl -q -w {FORWARD}=0")
    assert not driver.plan("sysctl.present", FORWARD, value=1).right
    assert driver.apply("sysctl.present", FORWARD, value=1).changes == {FORWARD: "1"}
    assert host.read("/etc/sysctl.d/99-holdfast.conf") == f"{FORWARD} = 1\n"
    for drift in (
        f"sysctl -q -w {FORWARD}=0",
        "rm /etc/sysctl.d/99-holdfast.conf",
        f"echo {FORWARD}=0 >/etc/sysctl.d/99-holdfast.conf",
    ):
        host.sh(drift)
        assert not driver.apply("sysctl.present", FORWARD, value=1).right, drift
        assert host.read("/etc/sysctl.d/99-holdfast.conf") == f"{FORWARD} = 1\n"
        assert host.read("/proc/sys/net/ipv4/ip_forward") == "1\n"
        assert driver.apply("sysctl.present", FORWARD, value=1).right, drift
    host.sh(f"sysctl -q -w {FORWARD}=0; sysctl -q -p /etc/sysctl.d/99-holdfast.conf")
    assert host.read("/proc/sys/net/ipv4/ip_forward") == "1\n"


def test_a_refusal_of_the_kernel_is_the_error(host: Host, driver: Driver):
    """A refused value is not stored for the next boot either."""
    with pytest.raises(Failed, match=f"cannot set 'many' for {FORWARD}: the kernel refuses that value"):
        driver.apply("sysctl.present", FORWARD, value="many")
    with pytest.raises(Failed, match=r"cannot set '77' for kernel.panic: it is read-only here"):
        driver.apply("sysctl.present", "kernel.panic", value="77")

    assert host.run("test", "-e", "/etc/sysctl.d/99-holdfast.conf", check=False).returncode == 1


def test_a_watch_reports_the_parameter_and_its_file(host: Host, driver: Driver):
    """Writes are reported at once, because the kernel has events for them."""
    driver.apply("sysctl.present", FORWARD, value=1)
    watch = driver.watch("sysctl.present", FORWARD, value=1)
    for change in (
        f"sysctl -q -w {FORWARD}=0",
        "rm /etc/sysctl.d/99-holdfast.conf",
        "echo 1 >/proc/sys/net/ipv4/ip_forward",
    ):
        watch.quiet()
        host.sh(change)
        watch.wait()
