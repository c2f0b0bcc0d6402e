"""The main use on a real host: a new state file starts a web server, and any damage to it is repaired.

There is one host for the module. The tests run in order, and each starts with a working server.
"""

from __future__ import annotations

import contextlib
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import lab
import pytest

pytestmark = pytest.mark.lab

EXAMPLE = Path(__file__).parents[2] / "config" / "examples" / "webserver"
PAGE = "/srv/www/index.html"
SITE = "/etc/nginx/sites-available/default"


class Web:
    """A host whose agent manages a web server, with checks for the tests."""

    def __init__(self, host: lab.Host) -> None:
        self.host = host
        self.page = host.http()
        self.mark = time.time()

    def serves(self) -> bool:
        """Return whether the declared page is served."""
        with contextlib.suppress(OSError, urllib.error.URLError):
            return self.host.http() == self.page
        return False

    def damage(self, script: str) -> None:
        """Run this damage as root, and remember the time."""
        self.mark = time.time()
        self.host.sh(script)

    def journalled(self, **fields: str) -> lab.Entry:
        """Wait for the journal entry since the damage that has these fields."""
        return self.host.wait_journal(
            lambda entry: all(value in str(entry.get(name, "")) for name, value in fields.items()),
            unit="holdfast", since=self.mark,
        )  # fmt: skip

    def quiet(self) -> None:
        """Wait until the agent reports that the host has converged."""
        lab.wait_for(
            "the agent has converged",
            lambda: "converged" in self.host.run("holdfast", "status", check=False).stdout,
        )
        lab.wait_for("the page is served", self.serves)


@pytest.fixture(scope="module")
def web(run: lab.Run, layers: tuple[Path, ...]) -> Iterator[Web]:
    """Return a host with `holdfast install`, and the example in its states directory."""
    host = run.host("web", layers=layers)
    try:
        host.run("holdfast", "install")
        for path in sorted(EXAMPLE.rglob("*")):
            if path.is_file():
                host.write(f"/etc/holdfast/{path.relative_to(EXAMPLE)}", path.read_text())
        lab.wait_for("the web server is up", lambda: _up(host), interval=0.1)
        yield Web(host)
    finally:
        host.down()


def _up(host: lab.Host) -> bool:
    with contextlib.suppress(OSError, urllib.error.URLError):
        return "kept by Holdfast" in host.http()
    return False


@pytest.fixture(autouse=True)
def _calm(web: Web) -> None:
    """Each test starts when the damage of the previous one is repaired."""
    web.quiet()


def test_a_new_state_file_starts_the_server(web: Web) -> None:
    """Package, configuration, page and service are in the journal with their fields."""
    entries = web.host.journal("holdfast")
    resources = {str(entry.get("RESOURCE")) for entry in entries if "RESOURCE" in entry}

    assert any(name.startswith("pkg.installed[") for name in resources)
    assert any(name.startswith("service.running[") for name in resources)
    assert all({"PASS", "RESULT"} <= entry.keys() for entry in entries if entry.get("CHANGES"))
    assert web.host.run("systemctl", "is-enabled", "nginx").stdout.strip() == "enabled"


def test_an_edited_page_is_restored_with_a_diff_in_the_journal(web: Web) -> None:
    """The repair takes less than a second."""
    web.damage(f"echo '<h1>defaced</h1>' >{PAGE}")
    lab.wait_for("the page is restored", web.serves)
    entry = web.journalled(RESOURCE="file.managed[", CAUSE="drift", DIFF="-<h1>defaced</h1>")

    assert "repaired" in str(entry["MESSAGE"])


def test_a_deleted_page_is_restored(web: Web) -> None:
    """The page is written again after it was deleted."""
    web.damage(f"rm {PAGE}")

    lab.wait_for("the page is back", lambda: web.host.run("test", "-e", PAGE, check=False).returncode == 0)
    lab.wait_for("it is served", web.serves)


def test_a_broken_configuration_is_replaced_and_the_server_reloaded(web: Web) -> None:
    """The running server never uses what was written by hand; the repair reloads it."""
    pid = web.host.run("systemctl", "show", "-P", "MainPID", "nginx").stdout
    web.damage(f"echo 'this is no configuration;' >{SITE}")
    web.journalled(RESOURCE="file.managed[", CAUSE="drift")
    web.journalled(RESOURCE="service.running[", CAUSE="refresh")
    web.quiet()

    assert web.host.run("nginx", "-t", check=False).returncode == 0
    assert web.host.run("systemctl", "show", "-P", "MainPID", "nginx").stdout == pid, "reloaded, not restarted"


def test_a_broken_configuration_in_the_states_is_never_installed(web: Web) -> None:
    """check_cmd refuses it, and the old one stays in use; when it is fixed, it is applied."""
    name = next(path for path in EXAMPLE.rglob("*.conf") if path.is_file())
    target = f"/etc/holdfast/{name.relative_to(EXAMPLE)}"
    before = web.host.read(SITE)
    web.mark = time.time()
    web.host.write(target, name.read_text().replace("server {", "server { oops"))
    web.journalled(RESULT="failed", RESOURCE="file.managed[", MESSAGE="check_cmd")

    assert web.host.read(SITE) == before
    assert web.serves()
    web.host.write(target, name.read_text())
    web.quiet()


@pytest.mark.parametrize(
    "damage", ["systemctl stop nginx", "systemctl kill -s KILL --kill-whom=all nginx", "systemctl kill -s KILL nginx"]
)
def test_a_stopped_or_killed_server_is_started_again(web: Web, damage: str) -> None:
    """A stop and a kill are reported by D-Bus, and the server is started."""
    web.damage(damage)
    web.journalled(RESOURCE="service.running[", CAUSE="drift", CHANGES="nginx")
    lab.wait_for("the page is served again", web.serves)


def test_a_disabled_unit_is_enabled_again(web: Web) -> None:
    """Otherwise, the server would not start at the next boot."""
    web.damage("systemctl disable -q nginx")
    lab.wait_for(
        "it is enabled",
        lambda: web.host.run("systemctl", "is-enabled", "nginx", check=False).stdout.strip() == "enabled",
    )


def test_a_removed_package_is_installed_again(web: Web) -> None:
    """Package, unit and service are restored."""
    web.damage("DEBIAN_FRONTEND=noninteractive apt-get -qq -y purge nginx-light nginx-common >/dev/null 2>&1 || true")
    web.journalled(RESOURCE="pkg.installed[", CAUSE="drift", CHANGES="nginx")
    lab.wait_for("the page is served again", web.serves)


def test_mode_and_owner_are_restored(web: Web) -> None:
    """Metadata is repaired, too."""
    web.damage(f"chmod 600 {PAGE}; chown daemon {PAGE}")
    wanted = "644 root"
    lab.wait_for("mode and owner are back", lambda: web.host.run("stat", "-c", "%a %U", PAGE).stdout.strip() == wanted)


def test_a_moved_parent_directory_is_created_again(web: Web) -> None:
    """Everything in it that is declared is restored."""
    web.damage("rm -rf /srv/elsewhere; mv /srv/www /srv/elsewhere")
    lab.wait_for("the page is served again", web.serves)

    assert web.host.read(PAGE) == web.page
