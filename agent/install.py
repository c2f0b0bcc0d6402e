"""Installs the agent as a service of this host, and removes it. Files that an operator has written or edited are kept.

Works on any root directory; systemd is called only for the root of the running system.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from holdfast.agent import installed_files, viewers_group
from holdfast.agent.cli.pages import PAGES
from holdfast.agent.paths import demand_safe
from holdfast.resources import paths
from holdfast.resources.errors import HoldfastError
from holdfast.states.source.files import is_there
from holdfast.states.source.hostfiles import is_directory

UNIT, SERVE_UNIT = "holdfast.service", "holdfast-serve.service"


class InstallError(HoldfastError):
    """The host could not be changed as requested."""


class NotRoot(InstallError, PermissionError):
    """Only root may change the host."""


def install(root: Path, *, start: bool) -> Iterator[str]:
    """Write settings, directories, units, completion and manual page below `root`; on `/`, also make a group.

    With `start`, start the agent of the running system.

    Yields a line for each step. Raises `InstallError` and `OSError`.
    """
    root = Path(os.path.abspath(root))  # noqa: PTH100 - removes ".."
    _require_root(root)
    if root == Path("/"):
        _require_safe(*_programs())
    config = root / "etc/holdfast"
    _demand_safe(config / "states", _unit(root, UNIT), _unit(root, SERVE_UNIT), root / "var/lib/holdfast")
    for directory, mode in (
        (config, 0o755),
        (config / "states", 0o755),
        (config / "pillar", 0o750),
        (root / "var/lib/holdfast", 0o700),
    ):
        if not is_directory(directory):
            paths.make_parents(str(directory))
            paths.at(str(directory)).mkdir(mode=mode)
            yield f"created {directory}"
    settings = config / "agent.yaml"
    if is_there(settings):
        yield f"kept {settings}"
    else:
        installed_files.write(settings, _shipped("config", "agent.yaml"))
        yield f"wrote {settings}"
    for name in (UNIT, SERVE_UNIT):
        yield _install_unit(root, name)
    yield from _install_pages(root)
    if root == Path("/"):
        yield viewers_group.make()
    if root != Path("/"):
        yield f"started nothing: {root} is not the running system"
        return
    _systemctl("daemon-reload")
    if start:
        _systemctl("enable", UNIT)
        _systemctl("restart", UNIT)
        yield f"enabled and started {UNIT}; follow its log with: journalctl -fu holdfast"


def uninstall(root: Path) -> Iterator[str]:
    """Stop and remove the service, its state, and settings and pages that were never edited.

    Yields a line for each step, and for each file that was kept.
    """
    root = Path(os.path.abspath(root))  # noqa: PTH100 - removes ".."
    _require_root(root)
    units = [_unit(root, name) for name in (SERVE_UNIT, UNIT)]
    _demand_safe(root / "etc/holdfast/states", *units, root / "var/lib/holdfast", root / "run/holdfast")
    for unit in filter(is_there, units):
        if root == Path("/"):
            _systemctl("disable", "--now", unit.name)
            yield f"stopped and disabled {unit.name}"
        paths.at(str(unit)).unlink()
        yield f"removed {unit}"
    if root == Path("/"):
        _systemctl("daemon-reload")
        if told := viewers_group.remove():
            yield told
    yield from _remove_pages(root)
    for directory in (root / "var/lib/holdfast", root / "run/holdfast"):
        if is_there(directory):
            place = paths.at(str(directory))
            shutil.rmtree(place.at, dir_fd=place.fd)
            yield f"removed {directory}"
    yield from _remove_config(root / "etc/holdfast")


def _remove_config(config: Path) -> Iterator[str]:
    settings = config / "agent.yaml"
    if is_there(settings) and paths.read(str(settings)) == _shipped("config", "agent.yaml").encode():
        paths.at(str(settings)).unlink()
        yield f"removed {settings}"
    for directory in (config / "states", config / "pillar", config / "resources", config):
        if is_directory(directory) and not any(paths.directory(str(directory)).names()):
            paths.at(str(directory)).rmdir()
            yield f"removed {directory}, which was empty"
    if is_directory(config):
        kept = ", ".join(sorted(str(config / name) for name in paths.directory(str(config)).names()))
        yield f"kept your files: {kept}"


def _install_unit(root: Path, name: str) -> str:
    """Write a unit, unless the existing one was edited."""
    unit = _unit(root, name)
    text = _shipped("systemd", name).replace("/usr/bin/holdfast ", f"{_program()} ")
    advice = f"; make changes with `systemctl edit {unit.stem}`"
    start = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    return (
        installed_files.place(root, unit, text, "#", advice)
        or f"kept {unit}, which was edited; the default is: {start}"
    )


def _install_pages(root: Path) -> Iterator[str]:
    """Write the files for shells and `man`. The agent works without them, so failures are only reported."""
    for page in PAGES:
        path = root / page.path
        try:
            _demand_safe(path)
            yield (
                installed_files.place(root, path, page.text(), page.comment)
                or f"kept {path}, which was edited or belongs to a package"
            )
        except (OSError, HoldfastError) as error:
            yield f"cannot write {path}: {getattr(error, 'strerror', None) or error}"


def _remove_pages(root: Path) -> Iterator[str]:
    """Remove the pages that `install` has written."""
    for page in PAGES:
        path = root / page.path
        try:
            _demand_safe(path)
            if is_there(path):
                yield installed_files.remove(root, path) or f"kept {path}, which was edited or belongs to a package"
        except (OSError, HoldfastError) as error:
            yield f"kept {path}: {getattr(error, 'strerror', None) or error}"


def _unit(root: Path, name: str) -> Path:
    return root / "etc/systemd/system" / name


def _program() -> str:
    """Return the command line with which systemd starts this installation.

    The script by its absolute path if there is one, else the module.
    """
    script = Path(sys.executable).with_name("holdfast")
    return str(script) if os.access(script, os.X_OK) else f"{sys.executable} -m holdfast.agent.cli.main"


def _programs() -> tuple[Path, ...]:
    """Return the directories of all code that the agent runs.

    Those of its environment, of the base interpreter, and of the packages of both.
    """
    interpreter = Path(os.path.realpath(sys.executable))
    return Path(sys.executable).parent, interpreter.parent, Path(os.__file__).parent, Path(__file__).parent


def _shipped(package: str, name: str) -> str:
    """Return a file that is part of the package."""
    return (resources.files("holdfast") / package / name).read_text(encoding="utf-8")


def _require_root(root: Path) -> None:
    if root == Path("/") and os.geteuid() != 0:
        raise NotRoot("cannot change this host: only root may; try sudo holdfast install, or --root DIR")


def _demand_safe(*targets: Path) -> None:
    """Raise `InstallError` if an untrusted user could replace a path that is to be written or removed."""
    for target in targets:
        try:
            demand_safe(target, "install or remove", "chown it to root and chmod it go-w, or use another --root")
        except HoldfastError as error:
            raise InstallError(str(error)) from error


def _require_safe(*programs: Path) -> None:
    """Raise `InstallError` if root would run code that others can change, here or at the target of a link."""
    hint = "install Holdfast as root, for example in /opt/holdfast"
    for program in programs:
        try:
            found = paths.directory(str(program))
        except paths.Unsafe as error:
            raise InstallError(f"cannot make a service of {program}: {error}; {hint}") from error
        if found.holders:
            real = Path(found.real)
            weak = next((path for path in (*reversed(real.parents), real) if paths.directory(str(path)).holders), real)
            raise InstallError(f"cannot make a service of {program}: users other than root can change {weak}; {hint}")


def _systemctl(*words: str) -> None:
    """Run systemctl. Raises `InstallError` with its message."""
    try:
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, timeout=90, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        raise InstallError(f"cannot run systemctl {' '.join(words)}: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip() or f"it ended with {done.returncode}"
        raise InstallError(
            f"cannot run systemctl {' '.join(words)}: {said}; files are in place, --no-start leaves systemd alone"
        )
