"""`install` and `uninstall` on a root directory of their own: complete, repeatable, and never at the cost of what is somebody's."""

import stat
from pathlib import Path

import pytest

from holdfast.agent import install as installer
from holdfast.agent.install import InstallError, install, uninstall
from holdfast.agent.settings import load


@pytest.fixture
def root(tmp_path):
    """An empty root directory."""
    return tmp_path / "root"


def test_install_writes_everything(root):
    """Settings that load, private directories, and a unit that starts this very installation."""
    lines = list(install(root, start=True))

    unit = (root / "etc/systemd/system/holdfast.service").read_text()
    start = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    program = start.removeprefix("ExecStart=").split()
    assert Path(program[0]).is_absolute()
    assert program[-1] == "run"
    assert Path(program[0]).exists()
    assert load(root / "etc/holdfast/agent.yaml").states == root / "etc/holdfast/states"
    assert stat.S_IMODE((root / "var/lib/holdfast").stat().st_mode) == 0o700
    assert (root / "etc/holdfast/pillar").is_dir()
    assert lines[-1].startswith("started nothing")


def test_install_twice_changes_nothing(root):
    """Idempotent."""
    list(install(root, start=False))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    list(install(root, start=False))

    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_install_keeps_what_was_edited(root):
    """Neither settings nor a unit that somebody has changed are overwritten, and it says so."""
    list(install(root, start=False))
    settings, unit = root / "etc/holdfast/agent.yaml", root / "etc/systemd/system/holdfast.service"
    settings.write_text("id: mine\n")
    unit.write_text(unit.read_text().replace("WatchdogSec=30", "WatchdogSec=60"))
    lines = list(install(root, start=False))

    assert settings.read_text() == "id: mine\n"
    assert "WatchdogSec=60" in unit.read_text()
    assert any("which was edited" in line for line in lines)


def test_install_renews_an_old_unit(root, monkeypatch):
    """A unit that an earlier version wrote, and nobody edited, follows the new version."""
    shipped = installer._shipped
    monkeypatch.setattr(installer, "_shipped", lambda *names: shipped(*names) + "# old\n")
    list(install(root, start=False))
    monkeypatch.undo()
    list(install(root, start=False))

    assert "# old" not in (root / "etc/systemd/system/holdfast.service").read_text()


def test_uninstall_takes_all_away(root):
    """What was installed and never touched is gone without a trace."""
    list(install(root, start=False))
    list(uninstall(root))

    assert [path for path in root.rglob("*") if "holdfast" in path.name] == []


def test_uninstall_keeps_states_and_says_so(root):
    """The operator's work stays: states, and settings that were edited."""
    list(install(root, start=False))
    (root / "etc/holdfast/states/web.sls").write_text("")
    (root / "etc/holdfast/agent.yaml").write_text("id: mine\n")
    lines = list(uninstall(root))

    assert (root / "etc/holdfast/states/web.sls").exists()
    assert (root / "etc/holdfast/agent.yaml").exists()
    assert not (root / "etc/systemd/system/holdfast.service").exists()
    assert "agent.yaml" in lines[-1]
    assert "states" in lines[-1]


def test_uninstall_of_nothing_is_no_error(root):
    """Taking away what is not there."""
    root.mkdir()

    assert list(uninstall(root)) == []


def test_only_root_installs_on_the_host(monkeypatch):
    """A user gets a sentence, not half an installation."""
    monkeypatch.setattr(installer.os, "geteuid", lambda: 1000)

    with pytest.raises(InstallError, match="only root may"):
        list(install(Path("/"), start=False))


def test_unit_says_what_the_agent_relies_on():
    """Type=notify, watchdog, restart, and nothing that hides the host from the agent that manages it."""
    unit = installer._shipped("systemd", "holdfast.service")

    for line in (
        "Type=notify",
        "NotifyAccess=main",
        "WatchdogSec=30",
        "Restart=always",
        "KillMode=mixed",
        "ExecReload=/bin/kill -HUP $MAINPID",
    ):
        assert f"\n{line}\n" in unit
    assert not any(line.startswith(("Protect", "Private", "NoNewPrivileges", "ReadOnly")) for line in unit.splitlines())
