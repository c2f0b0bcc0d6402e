"""Packages whose configuration fails or hangs under an agent: retries are spaced, and everything else is repaired."""

from __future__ import annotations

import lab
import pytest
from packages import offer

pytestmark = pytest.mark.lab

STATES = """
sulky:
  pkg.installed: {meta}
/srv/behind:
  file.managed:
    - contents: behind
"""


@pytest.fixture
def agent(host: lab.Host) -> lab.Host:
    """Return a host with an agent that manages nothing yet."""
    host.run("holdfast", "install")
    host.wait_journal(lambda entry: "keeps this host" in str(entry.get("MESSAGE")), unit="holdfast")
    return host


def attempts(host: lab.Host) -> int:
    """Return how often the package's script has started."""
    return len(host.run("cat", "/srv/begun", check=False).stdout.split())


def content(host: lab.Host) -> str:
    """Return the content of the file of the later state."""
    return host.run("cat", "/srv/behind", check=False).stdout.strip()


def test_a_package_whose_configuration_fails_is_tried_at_growing_intervals(agent: lab.Host) -> None:
    """The resource's own attempts do not wake it, later resources are repaired, and the resource is reported as failed.

    The test takes some seconds, in which nothing else may be reported.
    """
    offer(agent, "sulky", scripts={"postinst": "echo x >>/srv/begun\necho 'not today' >&2\nexit 1\n"})
    agent.write("/etc/holdfast/states/sulky.sls", STATES.format(meta="[]"))
    lab.wait_for("the file", lambda: content(agent) == "behind")
    lab.wait_for("the first attempts", lambda: attempts(agent) >= 1)
    agent.write("/srv/behind", "drift")
    lab.wait_for("the repair", lambda: content(agent) == "behind")
    before = attempts(agent)
    agent.sh("for n in $(seq 40); do sleep 0.1; done")

    assert attempts(agent) - before <= 2
    said = (
        "not today; dpkg: error processing package sulky (--configure): installed sulky package post-installation "
        "script subprocess returned error"
    )
    for verb in ("log", "apply", "status"):
        told = " ".join(agent.run("holdfast", verb, check=False).stdout.split())
        assert said in told, verb
        assert "Sub-process /usr/bin/dpkg returned an error code (1)" in told, verb
    agent.write("/var/lib/dpkg/info/sulky.postinst", "#!/bin/sh\nexit 0\n", 0o755)
    agent.run("holdfast", "trigger", "pkg.installed[sulky]")
    assert agent.run("dpkg-query", "-W", "-f", "${db:Status-Abbrev}", "sulky").stdout == "ii "


def test_a_package_whose_configuration_hangs_is_ended_by_its_timeout(agent: lab.Host) -> None:
    """Meanwhile everything else is repaired; afterwards dpkg's work is finished before a new attempt."""
    offer(agent, "sulky", scripts={"postinst": "echo x >>/srv/begun\n[ -e /srv/go ] || sleep 1000\n"})
    agent.write("/etc/holdfast/states/sulky.sls", STATES.format(meta="[{timeout: 3}]"))
    lab.wait_for("the package hangs", lambda: attempts(agent) >= 1, interval=0.01)
    agent.wait_journal(lambda entry: "did not finish within 3 s" in str(entry.get("MESSAGE")), unit="holdfast")
    lab.wait_for("the file", lambda: content(agent) == "behind")
    agent.write("/srv/behind", "drift")
    lab.wait_for("the repair", lambda: content(agent) == "behind")

    assert agent.run("dpkg-query", "-W", "-f", "${db:Status-Abbrev}", "sulky").stdout == "iF "
    agent.write("/srv/go", "")
    agent.run(
        "pkill", "-x", "sleep", check=False
    )  # the script itself, because nothing ends processes that have left the group of apt
    agent.run("holdfast", "trigger", "pkg.installed[sulky]", check=False)
    lab.wait_for(
        "it is configured",
        lambda: agent.run("dpkg-query", "-W", "-f", "${db:Status-Abbrev}", "sulky").stdout == "ii ",
    )
    agent.wait_journal(
        lambda entry: "an installation was interrupted: finishing it" in str(entry.get("MESSAGE")), unit="holdfast"
    )
