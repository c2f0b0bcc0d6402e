"""Every provider of services: the same scenarios on a host whose services the tool manages."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import lab
import pytest
from driver import Failed
from service_sites import DAEMON, TOOLS, ServiceSite, booted, files

pytestmark = pytest.mark.lab


@pytest.fixture(params=TOOLS)
def site(request: pytest.FixtureRequest, run: lab.Run) -> Iterator[ServiceSite]:
    """Return a fresh host with one of the tools, and Holdfast."""
    with booted(run, request.param) as site:
        yield site


def test_a_service_is_started_once_and_stopped_once(site: ServiceSite):
    """With `test`, nothing changes; the second start and the second stop change nothing."""
    site.add()
    assert "toy" in site.call("list")
    assert site.call("start", "toy", test=True) == {"toy": {"old": "inactive", "new": "active"}}
    assert site.state() == (False, "inactive", False)

    assert site.call("start", "toy") == {"toy": {"old": "inactive", "new": "active"}}
    assert site.state() == (True, "active", False)
    pid = site.status()["pid"]
    assert site.host.read(f"/proc/{pid}/cmdline").split("\0")[1:3] == [DAEMON, "runs"]
    assert site.call("start", "toy") == {}

    assert site.call("stop", "toy", test=True) == {"toy": {"old": "active", "new": "inactive"}}
    assert site.status()["pid"] == pid
    assert site.call("stop", "toy") == {"toy": {"old": "active", "new": "inactive"}}
    assert site.state() == (False, "inactive", False)
    assert site.host.run("test", "-e", f"/proc/{pid}", check=False).returncode
    assert site.call("stop", "toy") == {}


def test_a_restart_replaces_the_process(site: ServiceSite):
    """With `test`, the process remains. A restart starts a service that does not run."""
    site.add()
    assert site.call("restart", "toy") == {"toy": {"old": "inactive", "new": "active"}}
    first = site.status()["pid"]

    assert site.call("restart", "toy", test=True) == {"toy": {"old": "active", "new": "active"}}
    assert site.status()["pid"] == first
    site.call("restart", "toy")

    assert site.status()["active"]
    assert site.status()["pid"] != first


def test_a_reload_keeps_the_process(site: ServiceSite):
    """A service that does not run or cannot reload refuses; it is not restarted."""
    site.add()
    site.add("deaf", "deaf")
    with pytest.raises(Failed, match=r"cannot reload toy: "):
        site.call("reload", "toy")
    site.call("start", "toy")
    site.call("start", "deaf")
    first, deaf = site.status()["pid"], site.status("deaf")["pid"]

    site.call("reload", "toy", test=True)
    assert site.host.run("test", "-e", "/run/reloads", check=False).returncode
    site.call("reload", "toy")
    lab.wait_for("the reload", lambda: site.host.run("test", "-e", "/run/reloads", check=False).returncode == 0)
    with pytest.raises(Failed, match=r"cannot reload deaf: "):
        site.call("reload", "deaf")

    assert (site.status()["pid"], site.status("deaf")["pid"]) == (first, deaf)


def test_enable_and_disable_change_only_the_boot(site: ServiceSite):
    """With `test`, nothing changes; the second call changes nothing. A service that runs is left running."""
    site.add()
    for running in (False, True):
        assert site.call("enable", "toy", test=True) == {"toy": {"old": False, "new": True}}
        assert site.state()[::2] == (running, False)
        assert site.call("enable", "toy") == {"toy": {"old": False, "new": True}}
        assert site.state()[::2] == (running, True)
        assert site.call("enable", "toy") == {}
        if not running:
            site.call("start", "toy")
        assert site.call("disable", "toy", test=True) == {"toy": {"old": True, "new": False}}
        assert site.call("disable", "toy") == {"toy": {"old": True, "new": False}}
        assert site.state()[::2] == (True, False)
        assert site.call("disable", "toy") == {}


def test_a_service_that_does_not_exist_is_an_error_with_the_similar_name(site: ServiceSite):
    """Its status is no error. To stop or disable it changes nothing."""
    site.add("cronos")
    status = site.status("cronus")

    assert {name: status[name] for name in ("exists", "active", "state", "enabled", "pid")} == {
        "exists": False, "active": False, "state": "inactive", "enabled": False, "pid": None,
    }  # fmt: skip
    for verb in ("start", "restart", "reload", "enable"):
        with pytest.raises(Failed, match=rf"cannot {verb} cronus: there is no .*; did you mean cronos\?"):
            site.call(verb, "cronus")
    assert site.call("stop", "cronus") == site.call("disable", "cronus") == {}
    if site.tool != "systemd":
        with pytest.raises(Failed, match="it is not the name of a service"):
            site.status("../cronos")


def test_a_service_that_ends_at_once_is_an_error_with_its_last_output(site: ServiceSite):
    """The tool's own command succeeds in this case."""
    site.add("toy", "dies")

    with pytest.raises(Failed, match=r"cannot start toy: it ended at once(.|\n)*out of luck") as raised:
        site.call("start", "toy")

    assert raised.value.kind == "Permanent"
    assert not site.status()["active"]


def test_a_stop_waits_for_a_service_at_most_as_long_as_the_caller_says(site: ServiceSite):
    """Exceeding that time is a temporary error."""
    site.add("toy", "hangs")
    site.call("start", "toy")
    pid = site.status()["pid"]

    with pytest.raises(Failed, match=r"cannot stop toy: it took more than 1 s") as raised:
        site.call("stop", "toy", timeout=1)

    assert raised.value.kind == "Temporary"
    assert site.host.run("test", "-e", f"/proc/{pid}", check=False).returncode == 0


def test_a_watch_reports_each_change(site: ServiceSite):
    """A stop, a start, a crash, and a change of the boot, each made by hand, are reported at once."""
    site.add()
    site.driver.apply("service.running", "toy", enable=True)
    watch = site.driver.watch("service.running", "toy")

    for change in ("stop", "start", "disable", "enable"):
        watch.quiet()
        site.by_hand(change)
        watch.wait()
    watch.quiet()
    site.kill()
    watch.wait()


def test_the_kinds_repair_a_service(site: ServiceSite):
    """Drift of `running`, `dead`, `enabled` and `disabled` is found and repaired; `masked` needs systemd."""
    site.add()
    assert site.driver.apply("service.running", "toy", enable=True).comment == "started and enabled toy"
    assert site.driver.apply("service.running", "toy", enable=True).comment == "toy runs and starts at boot"
    for drift in ("stop", "disable"):
        site.by_hand(drift)
        assert not site.driver.apply("service.running", "toy", enable=True).right
        assert site.state()[::2] == (True, True)
    first = site.status()["pid"]
    assert site.driver.refresh("service.running", "toy", reload=True).comment == "reloaded toy"
    assert site.status()["pid"] == first
    assert site.driver.refresh("service.running", "toy").comment == "restarted toy"

    assert site.driver.apply("service.dead", "toy", enable=False).comment == "stopped and disabled toy"
    site.by_hand("start")
    assert site.driver.apply("service.dead", "toy", enable=False).comment == "stopped toy"
    assert site.driver.apply("service.enabled", "toy").comment == "enabled toy"
    assert site.driver.apply("service.disabled", "toy").comment == "disabled toy"
    if site.tool != "systemd":
        with pytest.raises(Failed, match=r"cannot use service.mask of \w+: platforms like this one do not have it"):
            site.driver.apply("service.masked", "toy")


def test_the_running_agent_repairs_drift(site: ServiceSite):
    """A stop by hand, a crash, and a change of the boot are repaired at once, because the watch reports them."""
    site.add()
    site.host.write("/etc/holdfast/states/top.sls", "base:\n  '*':\n    - toy\n")
    site.host.write("/etc/holdfast/states/toy.sls", "toy:\n  service.running:\n    - enable: true\n")
    right = (True, "active", True)
    with site.host.spawn("holdfast", "run", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as agent:
        lab.wait_for("the first start", lambda: site.state() == right)
        for drift in ("stop", "disable", "kill"):
            if drift == "kill":
                site.kill()
            else:
                site.by_hand(drift)
            lab.wait_for(f"the repair after {drift}", lambda: site.state() == right)
        agent.terminate()


def test_a_state_that_the_tool_cannot_have_is_refused(site: ServiceSite):
    """`plan` refuses it with the word and the reason, before anything runs."""
    site.add()
    site.host.write("/etc/holdfast/states/toy.sls", "toy:\n  service.masked\n")

    planned = site.host.run("holdfast", "plan", "toy", check=False)

    said = planned.stdout + planned.stderr
    assert ("not supported" in said) is (site.tool != "systemd"), said
    assert ("toy.sls" in said and "init is" in said) is (site.tool != "systemd"), said


@pytest.mark.parametrize("tool", ["openrc"])
def test_openrc_also_runs_scripts_of_the_lsb(run: lab.Run, tool: str):
    """OpenRC keeps no state of such a script; the script's action `status` reports it."""
    with booted(run, tool) as site:
        site.add()
        for path, text in files("sysv", "plain").items():
            site.host.write(path, text, 0o755)

        assert site.call("start", "plain") == {"plain": {"old": "inactive", "new": "active"}}
        assert site.call("enable", "plain") == {"plain": {"old": False, "new": True}}
        first = site.status("plain")["pid"]
        site.call("restart", "plain")
        assert site.status("plain")["pid"] not in (None, first)
        assert site.call("stop", "plain") == {"plain": {"old": "active", "new": "inactive"}}
        assert site.state("plain") == (False, "inactive", True)


LINKS = "basename -a /etc/rc[S2-5].d/*{name} | sort | uniq -c"
EARLY = "#!/bin/sh\n### BEGIN INIT INFO\n# Provides: early\n# Default-Start: S\n### END INIT INFO\n"
"""A script of the early boot, for which systemd makes no unit that the boot starts."""
OTHERS = {
    "alias": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\nAlias=other.service\n",
    "through": "[Service]\nExecStart=/bin/true\n[Install]\nAlso=through.timer\n",
    "fixed": "[Service]\nExecStart=/bin/sleep 1000\n",
    "wanted": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n",
}
"""Units that can be enabled by another name, in the place of another unit, not at all, or by a generator."""
GENERATOR = """#!/bin/sh
mkdir "$1/multi-user.target.wants"
ln -s /usr/lib/systemd/system/wanted.service "$1/multi-user.target.wants"
"""


@pytest.mark.parametrize("tool", ["systemd"])
def test_systemd_also_runs_scripts_of_the_lsb(run: lab.Run, tool: str):
    """A new script has no unit yet, and `systemctl is-enabled` agrees. A link that is missing or stops it is repaired.

    A unit file of the same name takes the place of the script, and a mask that of both.
    """
    with booted(run, tool) as site:
        site.add("native")
        for path, text in {**files("sysv", "toy"), **files("sysv", "native")}.items():
            site.host.write(path, text, 0o755)
        assert {"toy", "native"} <= set(site.call("list"))
        assert site.state() == (False, "inactive", False)
        assert site.call("enable", "toy", test=True) == {"toy": {"old": False, "new": True}}
        assert not site.host.run("sh", "-c", "ls /etc/rc?.d/*toy", check=False).stdout

        assert site.driver.apply("service.running", "toy", enable=True).comment == "started and enabled toy"
        assert site.driver.apply("service.running", "toy", enable=True).comment == "toy runs and starts at boot"
        assert site.host.sh("systemctl is-enabled toy").strip() == "enabled"
        wants = site.host.sh("systemctl show -P WantedBy toy").split()
        assert sorted(wants) == ["graphical.target", "multi-user.target"]
        for damage in ("mv /etc/rc3.d/S01toy /etc/rc3.d/K01toy", "rm /etc/rc5.d/S01toy", "rm /etc/rc?.d/*toy"):
            site.host.sh(damage)
            assert site.driver.apply("service.running", "toy", enable=True).comment == "enabled toy"
            assert site.host.sh(LINKS.format(name="toy")).split() == ["4", "S01toy"]
        site.host.sh("mv /etc/rc3.d/S01toy /etc/rc3.d/K01toy")
        assert site.driver.apply("service.disabled", "toy").comment == "disabled toy"
        assert site.host.sh(LINKS.format(name="toy")).split() == ["4", "K01toy"]
        assert site.state() == (True, "active", False)

        site.call("enable", "toy")
        site.host.write("/etc/systemd/system/toy.service", OTHERS["alias"])  # systemd is not reloaded
        assert site.driver.apply("service.enabled", "toy").comment == "enabled toy"
        assert site.host.sh("systemctl daemon-reload; systemctl is-enabled toy").strip() == "enabled"
        site.host.sh("systemctl -q disable toy; rm /etc/systemd/system/toy.service; systemctl daemon-reload")

        assert site.driver.apply("service.enabled", "native").comment == "enabled native"
        assert not site.host.run("sh", "-c", "ls /etc/rc?.d/*native", check=False).stdout
        assert site.driver.apply("service.masked", "toy").comment == "masked toy"
        with pytest.raises(Failed, match="cannot enable toy: it is masked"):
            site.call("enable", "toy")
        assert site.driver.apply("service.unmasked", "toy").comment == "unmasked toy"
        assert site.call("enable", "toy") == {"toy": {"old": False, "new": True}}
        site.host.sh("rm /usr/lib/systemd/systemd-sysv-install")
        with pytest.raises(Failed, match=r"cannot disable toy: .* is missing; it is in the package systemd"):
            site.call("disable", "toy")


@pytest.mark.parametrize("tool", ["systemd"])
def test_other_units_are_checked_as_well_as_systemd_can_tell(run: lab.Run, tool: str):
    """Each state that `systemctl is-enabled` knows is checked. A change that is impossible is refused or reported."""
    with booted(run, tool) as site:
        for name, text in OTHERS.items():
            site.host.write(f"/usr/lib/systemd/system/{name}.service", text)
        timer = "[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n"
        site.host.write("/usr/lib/systemd/system/through.timer", timer)
        site.host.write("/etc/fstab", "tmpfs /srv tmpfs nofail 0 0\ntmpfs /mnt tmpfs noauto 0 0\n")
        site.host.write("/etc/systemd/system-generators/ours", GENERATOR, 0o755)
        site.host.write("/etc/init.d/early", EARLY, 0o755)
        site.host.sh("ln -s ../init.d/early /etc/rcS.d/S01early")
        site.host.sh("systemctl daemon-reload; systemctl enable -q alias; systemd-run -q --unit=made sleep 1000")

        def is_enabled(name: str) -> str:
            return site.host.run("systemctl", "is-enabled", name, check=False).stdout.strip()

        assert (is_enabled("other"), is_enabled("through"), is_enabled("fixed")) == ("alias", "indirect", "static")
        assert site.driver.apply("service.enabled", "other").comment == "other starts at boot"
        assert site.driver.apply("service.disabled", "other").comment == "disabled other"
        assert is_enabled("alias") == "disabled"
        for verb in ("enabled", "disabled"):
            assert site.driver.apply(f"service.{verb}", "through").comment == f"{verb} through"
            assert is_enabled("through.timer") == verb
            assert site.driver.apply(f"service.{verb}", "through").right
            assert site.driver.apply(f"service.{verb}", "fixed").comment == (
                "fixed can be neither enabled nor disabled"
            )
        site.host.sh("systemctl enable -q --runtime alias")
        assert site.driver.apply("service.enabled", "alias").comment == "enabled alias"
        assert is_enabled("alias") == "enabled"

        site.host.sh("systemctl mask -q --runtime fixed")
        assert site.driver.apply("service.masked", "fixed", runtime=True).right
        assert site.driver.apply("service.masked", "fixed").comment == "masked fixed"
        assert is_enabled("fixed") == "masked"
        assert site.driver.apply("service.unmasked", "fixed", runtime=True).right
        assert site.driver.apply("service.unmasked", "fixed").comment == "unmasked fixed"
        assert is_enabled("fixed") == "static"

        site.host.sh("systemctl mask -q --runtime fixed; systemctl mask -q fixed")
        assert site.driver.apply("service.unmasked", "fixed", lasting=True).comment == "unmasked fixed"
        assert is_enabled("fixed") == "masked-runtime"
        assert site.driver.apply("service.unmasked", "fixed", lasting=True).right
        assert site.driver.apply("service.unmasked", "fixed").comment == "unmasked fixed"

        assert site.driver.apply("service.enabled", "srv.mount").comment == "srv.mount starts at boot"
        assert site.driver.apply("service.disabled", "mnt.mount").comment == "mnt.mount does not start at boot"
        for verb, name, why in (
            ("disable", "srv.mount", "systemd has generated it from /etc/fstab; edit that"),
            ("enable", "mnt.mount", "systemd has generated it from /etc/fstab; edit that"),
            ("enable", "early", "its script /etc/init.d/early starts in runlevel S only"),
            ("disable", "wanted", "a generator of systemd enables it at each boot; mask it"),
            ("enable", "made", "it is transient, a program has made it without a unit file"),
        ):
            for ask in (site.driver.plan, site.driver.apply):
                with pytest.raises(Failed, match=f"cannot {verb} {name}: .*{why}"):
                    ask(f"service.{verb}d", name)


SUPERVISED = """#!/sbin/openrc-run
supervisor=supervise-daemon
command={daemon}
command_args=runs
pidfile=/run/watched.pid
"""


def test_openrc_also_runs_services_below_its_supervisor(run: lab.Run):
    """supervise-daemon replaces a daemon that has crashed; its own crash is reported and repaired."""
    with booted(run, "openrc") as site:
        site.add()
        site.host.write("/etc/init.d/watched", SUPERVISED.format(daemon=DAEMON), 0o755)

        assert site.call("start", "watched") == {"watched": {"old": "inactive", "new": "active"}}
        assert site.state("watched") == (True, "active", False)
        first = site.status("watched")["pid"]
        assert "supervise-daemon" in site.host.read(f"/proc/{first}/cmdline")
        site.host.sh(f"pkill -KILL --parent {first}")
        lab.wait_for("another daemon", lambda: site.host.run("pgrep", "--parent", str(first), check=False).stdout)
        assert site.status("watched")["pid"] == first

        watch = site.driver.watch("service.running", "watched")
        watch.quiet()
        site.kill("watched")
        watch.wait()
        assert site.state("watched")[:2] == (False, "failed")
        assert site.driver.apply("service.running", "watched").comment == "started watched"
        assert site.state("watched")[:2] == (True, "active")
        daemon = site.host.run("pgrep", "--parent", str(site.status("watched")["pid"])).stdout.strip()
        assert site.call("stop", "watched") == {"watched": {"old": "active", "new": "inactive"}}
        assert site.host.run("test", "-e", f"/proc/{daemon}", check=False).returncode


def test_without_update_rc_d_only_the_boot_cannot_be_changed(run: lab.Run):
    """Services are still started and stopped; one is neither enabled nor disabled."""
    with booted(run, "sysv") as site:
        site.add()
        site.call("enable", "toy")
        site.driver.__exit__(None, None, None)
        site.host.sh("rm /usr/sbin/update-rc.d")
        site.driver.__enter__()

        assert site.call("start", "toy") == {"toy": {"old": "inactive", "new": "active"}}
        assert site.state() == (True, "active", None)
        assert site.call("enable", "toy") == site.call("disable", "toy") == {}
        assert site.call("stop", "toy") == {"toy": {"old": "active", "new": "inactive"}}
