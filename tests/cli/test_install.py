"""`install` and `uninstall` with a root directory: complete, repeatable, and files of others are kept."""

import hashlib
import shutil
import stat
from pathlib import Path

import pytest

from holdfast.agent import install as installer
from holdfast.agent.cli.exits import ExitCode, code_of
from holdfast.agent.cli.pages import PAGES
from holdfast.agent.install import InstallError, install, uninstall
from holdfast.agent.settings import load


@pytest.fixture
def root(tmp_path):
    """A root directory that does not exist yet."""
    return tmp_path / "root"


def test_install_writes_settings_directories_and_unit(root):
    """The settings load, the state directory is private, and the unit starts this very installation."""
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
    """A second installation leaves every file as it is."""
    list(install(root, start=False))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    list(install(root, start=False))

    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_install_keeps_edited_files(root):
    """Edited settings and an edited unit are not overwritten, and a line says so."""
    list(install(root, start=False))
    settings, unit = root / "etc/holdfast/agent.yaml", root / "etc/systemd/system/holdfast.service"
    settings.write_text("id: mine\n")
    unit.write_text(unit.read_text().replace("WatchdogSec=30", "WatchdogSec=60"))
    lines = list(install(root, start=False))

    assert settings.read_text() == "id: mine\n"
    assert "WatchdogSec=60" in unit.read_text()
    assert any("which was edited" in line for line in lines)


def test_install_renews_an_old_unit(root, monkeypatch):
    """A unit of an earlier version that was not edited is replaced."""
    shipped = installer._shipped
    monkeypatch.setattr(installer, "_shipped", lambda *names: shipped(*names) + "# old\n")
    list(install(root, start=False))
    monkeypatch.undo()
    list(install(root, start=False))

    assert "# old" not in (root / "etc/systemd/system/holdfast.service").read_text()


def test_completion_and_manual_page_are_installed(root):
    """Each page is that of this version with a mark, and readable by all; the zsh script keeps its first line."""
    list(install(root, start=False))

    for page in PAGES:
        path = root / page.path
        mark, *others = [
            line for line in path.read_text().splitlines(keepends=True) if "`holdfast install`. Digest: " in line
        ]
        assert not others
        assert path.read_text().replace(mark, "", 1) == page.text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert (root / "usr/share/zsh/vendor-completions/_holdfast").read_text().startswith("#compdef holdfast\n")


def test_a_page_of_an_older_version_is_renewed(root, monkeypatch):
    """A page that was not edited is replaced."""
    older = [
        page._replace(text=lambda page=page: f"{page.text()}{page.comment} left by version 0.0.1\n") for page in PAGES
    ]
    monkeypatch.setattr(installer, "PAGES", older)
    list(install(root, start=False))
    monkeypatch.undo()
    list(install(root, start=False))

    assert [page.path for page in PAGES if "left by version 0.0.1" in (root / page.path).read_text()] == []


@pytest.mark.parametrize("edit", [b"mine\n", b"\xff\xfe", None], ids=["text", "not text", "an edit"])
def test_pages_that_are_edited_or_not_of_holdfast_are_kept(root, edit):
    """Neither `install` nor `uninstall` changes them, and both say so."""
    page = root / PAGES[0].path
    if edit is None:
        list(install(root, start=False))
        page.write_text(page.read_text() + "complete -A job holdfast\n")
    else:
        page.parent.mkdir(parents=True)
        page.write_bytes(edit)
    before = page.read_bytes()
    lines = [*install(root, start=False), *uninstall(root)]

    assert page.read_bytes() == before
    assert lines.count(f"kept {page}, which was edited or belongs to a package") == 2
    assert not (root / PAGES[1].path).exists()


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="there is no dpkg")
def test_pages_of_a_package_are_kept(root):
    """A package made with `install --root` has the same pages, so that their content does not tell whose they are."""
    list(install(root, start=False))
    info = root / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    (info / "format").write_text("1\n")
    (info / "holdfast.list").write_text(f"/.\n/{PAGES[3].path}\n")
    status = (
        "Package: holdfast\nStatus: install ok installed\nArchitecture: all\nVersion: 1\nMaintainer: x\n"
        "Description: x\n"
    )
    (root / "var/lib/dpkg/status").write_text(status)
    lines = list(uninstall(root))

    assert f"kept {root / PAGES[3].path}, which was edited or belongs to a package" in lines
    assert [(root / page.path).exists() for page in PAGES] == [False, False, False, True]


def test_the_agent_is_installed_without_pages_that_cannot_be_written(root):
    """A line names each such page. `install` writes nothing through the link of another user."""
    for name in ("usr/share/man", "usr/share/zsh"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("in the way")
    (root / "elsewhere").mkdir()
    (root / "elsewhere").chmod(0o777)
    (root / "usr/share/fish").symlink_to(root / "elsewhere")
    lines = list(install(root, start=False))

    assert (root / "etc/systemd/system/holdfast.service").exists()
    assert [line.split(":")[0] for line in lines if line.startswith("cannot write")] == [
        f"cannot write {root / page.path}" for page in PAGES[1:]
    ]
    assert not list((root / "elsewhere").iterdir())
    assert len([line for line in uninstall(root) if str(root / "usr") in line]) >= 1


def test_uninstall_removes_all_unedited_files(root):
    """No file of Holdfast remains."""
    list(install(root, start=False))
    list(uninstall(root))

    assert [path for path in root.rglob("*") if "holdfast" in path.name] == []


def test_uninstall_keeps_states_and_says_so(root):
    """States and edited settings are the work of an operator, so they are kept."""
    list(install(root, start=False))
    (root / "etc/holdfast/states/web.sls").write_text("")
    (root / "etc/holdfast/agent.yaml").write_text("id: mine\n")
    lines = list(uninstall(root))

    assert (root / "etc/holdfast/states/web.sls").exists()
    assert (root / "etc/holdfast/agent.yaml").exists()
    assert not (root / "etc/systemd/system/holdfast.service").exists()
    assert "agent.yaml" in lines[-1]
    assert "states" in lines[-1]


def test_files_that_are_not_text_are_kept(root):
    """`install` and `uninstall` report overwritten settings and units, and continue."""
    list(install(root, start=False))
    settings, unit = root / "etc/holdfast/agent.yaml", root / "etc/systemd/system/holdfast.service"
    for path in (settings, unit):
        path.write_bytes(b"\xff\xfe")
    lines = list(install(root, start=False))
    lines += uninstall(root)

    assert any(line.startswith(f"kept {unit}, which was edited") for line in lines)
    assert lines[-1] == f"kept your files: {settings}"
    assert settings.read_bytes() == b"\xff\xfe"


def test_a_unit_of_an_older_version_is_recognised_by_its_digest(root):
    """The first line has the digest of all other lines."""
    list(install(root, start=False))
    unit = root / "etc/systemd/system/holdfast.service"
    current = unit.read_text()
    old = "[Unit]\nDescription=old\n"
    digest = hashlib.sha256(old.encode()).hexdigest()[:16]
    unit.write_text(
        f"# Written by `holdfast install`; make changes with `systemctl edit holdfast`. Digest: {digest}\n{old}"
    )
    list(install(root, start=False))

    assert unit.read_text() == current


def test_uninstall_of_nothing_is_no_error(root):
    """`uninstall` without an installation removes nothing."""
    root.mkdir()

    assert list(uninstall(root)) == []


def test_an_interpreter_that_others_can_change_is_refused(tmp_path, monkeypatch):
    """Root would otherwise run code of another user.

    That holds even if only a link of the environment leads to the interpreter.
    """
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/python3").touch()
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/python").symlink_to(tmp_path / "theirs/python3")
    monkeypatch.setattr(installer.sys, "executable", str(tmp_path / "ours/python"))
    monkeypatch.setattr(installer.os, "__file__", str(tmp_path / "ours/os.py"))
    monkeypatch.setattr(installer, "__file__", str(tmp_path / "ours/install.py"))
    installer._require_safe(*installer._programs())
    (tmp_path / "theirs").chmod(0o777)

    with pytest.raises(InstallError, match=f"users other than root can change {tmp_path}/theirs"):
        installer._require_safe(*installer._programs())


def test_only_root_installs_on_the_host(monkeypatch):
    """Another user gets a message and an exit code, and nothing is installed."""
    monkeypatch.setattr(installer.os, "geteuid", lambda: 1000)

    with pytest.raises(InstallError, match="only root may") as raised:
        list(install(Path("/"), start=False))
    assert code_of(raised.value) == ExitCode.NOT_PERMITTED


def test_the_unit_has_the_options_that_the_agent_relies_on():
    """The unit also has no option that hides parts of the host from the agent."""
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
