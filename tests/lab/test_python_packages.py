"""pip and virtual environments on a real host, with a directory of wheels as index."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Driver, Failed
from lab import Host, Run
from packages import wheel

pytestmark = pytest.mark.lab

VENV = "/srv/app"
FROM = {"no_index": True, "find_links": "/srv/index"}
SITE = f"{VENV}/lib/python3*/site-packages"


@pytest.fixture(scope="module")
def site(run: Run, layers: tuple[Path, ...], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Return a host with an index and an environment; making one takes several seconds."""
    index = tmp_path_factory.mktemp("index")
    for version in ("1.9", "1.10", "2.0"):
        wheel(index, "tiny", version)
    wheel(index, "more", "1.0", "Requires-Dist: tiny; extra == 'all'\nProvides-Extra: all\n")
    host = run.host("pip", layers=layers, binds=[f"{index}:/srv/index"])
    try:
        yield host
    finally:
        host.down()


@pytest.fixture
def driver(site: Host) -> Iterator[Driver]:
    """Return a driver of real kinds and providers in the host."""
    with Driver(site) as driver:
        yield driver


def test_requirements_are_those_of_pip(site: Host, driver: Driver) -> None:
    """Requirements may have conditions, extras and markers, and be in a file that includes another one."""
    site.sh(f"rm -rf {VENV}")
    declared = {"pip_pkgs": ["tiny==1.9"], "env_vars": {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/srv/index"}}
    changes = driver.apply("virtualenv.managed", VENV, **declared).changes
    assert changes["new"].startswith("Python 3")
    assert changes["packages"]["new"] == ["tiny==1.9"]
    assert driver.apply("virtualenv.managed", VENV, **declared).right
    site.write(
        "/srv/all.txt", "# ours\n-r more.txt\ntiny>=1.10,\\\n  <2 ; python_version>'3'\nno ; python_version<'3'\n"
    )
    site.write("/srv/more.txt", "more[all]==1.0\n")
    files = {"requirements": "/srv/all.txt", "bin_env": VENV, **FROM}

    assert not driver.plan("pip.installed", "files", **files).right
    changes = driver.apply("pip.installed", "files", **files).changes
    assert changes == {"more==1.0": "Installed", "tiny==1.10": "Installed"}
    assert driver.apply("pip.installed", "files", **files).right
    assert driver.apply("pip.installed", "Tiny ~= 1.10", bin_env=f"{VENV}/bin/pip", **FROM).right
    assert driver.apply("pip.installed", "more[all]", bin_env=VENV, **FROM).right
    assert driver.apply("pip.installed", "tiny", bin_env=VENV, upgrade=True, **FROM).changes == {
        "tiny==2.0": "Installed"
    }
    assert not driver.plan("pip.installed", "tiny!=2.0", bin_env=VENV, **FROM).right
    with pytest.raises(Failed, match=r"cannot install tiny: .*No matching distribution found for tiny>=3"):
        driver.apply("pip.installed", "tiny>=3", bin_env=VENV, **FROM)
    with pytest.raises(Failed, match=r"cannot read the requirements: tiny\[: "):
        driver.apply("pip.installed", "tiny[", bin_env=VENV, **FROM)


def test_root_never_runs_what_a_user_can_change(site: Host, driver: Driver) -> None:
    """Environments, requirement files and directories of a user are refused without `user`.

    This host has no pip of its own.
    """
    driver.apply("virtualenv.managed", VENV)
    site.sh("useradd -m app; runuser -u app -- touch /home/app/all.txt; runuser -u app -- mkdir -p /home/app/venv/bin")
    for arguments in ({"bin_env": "/home/app/venv"}, {"bin_env": VENV, "requirements": "/home/app/all.txt"}):
        with pytest.raises(Failed, match=r"cannot use /home/app/.* set `runas` to the user that it belongs to"):
            driver.apply("pip.installed", "tiny", **arguments, **FROM)
    with pytest.raises(Failed, match=r"cannot make /home/app/new as root: .* set `user`"):
        driver.apply("virtualenv.managed", "/home/app/new")
    with pytest.raises(Failed, match=r"No module named 'pip'; install python3-pip, or use a virtual environment"):
        driver.apply("pip.installed", "tiny", **FROM)


def test_a_watch_reports_packages_that_change(site: Host, driver: Driver) -> None:
    """Changes of the directory of packages arrive by inotify."""
    driver.apply("virtualenv.managed", VENV)
    driver.apply("pip.installed", "tiny", bin_env=VENV, **FROM)
    watch = driver.watch("pip.installed", "tiny", bin_env=VENV, **FROM)
    for change in (f"rm -r {SITE}/tiny-*.dist-info", f"{VENV}/bin/pip install -q --no-index -f /srv/index tiny"):
        watch.quiet()
        site.sh(change)
        watch.wait()
