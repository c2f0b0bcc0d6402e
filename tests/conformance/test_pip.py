"""pip with a directory of wheels as its index, in a virtual environment."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
from languages import Body, changes, with_tool

from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.language import LanguageInterface
from holdfast.resources.interfaces.results import PkgSpec
from holdfast.resources.providers.pip import UNBUILT


def with_pip(tmp_path: Path, body: Body) -> Any:
    """Return the result of a body, which gets the provider on this host."""
    return with_tool("pip", "python3", tmp_path, body)


def wheel(directory: Path, name: str, version: str, needs: str = "") -> Path:
    """Write a wheel with one module."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    path = directory / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        needed = f"Requires-Dist: {needs}\n" if needs else ""
        archive.writestr(f"{module}.py", f"version = {version!r}\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path) -> str:
    """Return a directory with wheels of `tiny` 1.9 and 1.10, and of `tiny-needs`."""
    directory = tmp_path / "index"
    directory.mkdir()
    for version in ("1.9", "1.10"):
        wheel(directory, "tiny", version)
    wheel(directory, "tiny-needs", "1.0", "tiny")
    return str(directory)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a virtual environment with pip. Each test gets a copy, because creating one takes seconds."""
    path = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(path, with_pip=True, symlinks=True)
    return path


@pytest.fixture
def target(tmp_path: Path, environment: Path) -> str:
    """Return a fresh virtual environment with pip."""
    return str(shutil.copytree(environment, tmp_path / "venv", symlinks=True))


def test_packages_are_installed_upgraded_and_removed(tmp_path: Path, index: str, target: str):
    """Each plan equals the change, dependencies included. Names are compared as pip does."""

    async def body(pip: LanguageInterface) -> None:
        old, needs = PkgSpec(name="tiny", version="1.9"), PkgSpec(name="Tiny_Needs")
        assert await pip.list_installed(["tiny"], target) == {}
        assert await pip.latest(["tiny", "gone"], target, index=index) == {"tiny": "1.10", "gone": None}
        for test in (True, False):
            done = await pip.install([old], target, index=index, test=test)
            assert changes(done) == {"tiny": ("", "1.9")}
        assert changes(await pip.install([PkgSpec(name="tiny")], target, index=index)) == {}
        for test in (True, False):
            done = await pip.install([needs], target, index=index, test=test)
            assert changes(done) == {"tiny-needs": ("", "1.0")}
        assert list(await pip.list_installed(["TINY.needs"], target)) == ["TINY.needs"]
        for test in (True, False):
            done = await pip.upgrade(["tiny", "gone"], target, index=index, test=test)
            assert changes(done) == {"tiny": ("1.9", "1.10")}
        assert changes(await pip.upgrade(target=target, index=index)) == {}
        assert changes(await pip.install([old], target, index=index)) == {"tiny": ("1.10", "1.9")}
        for test in (True, False):
            done = await pip.remove(["tiny", "gone"], target, test=test)
            assert changes(done) == {"tiny": ("1.9", "")}
        assert changes(await pip.remove(["tiny"], target)) == {}

    with_pip(tmp_path, body)


def test_versions_are_compared_by_pep_440(tmp_path: Path, target: str):
    """Versions are not compared as text, and pre-releases precede the release."""

    async def body(pip: LanguageInterface) -> list[int]:
        pairs = (("1.9", "1.10"), ("1.0", "1.0rc1"), ("1.0", "1.0.0"))
        return [await pip.compare(a, b, target) for a, b in pairs]

    assert with_pip(tmp_path, body) == [-1, 1, 0]


def test_a_package_that_the_index_does_not_have_is_an_error(tmp_path: Path, index: str, target: str):
    """The error has the words of pip; nothing is installed."""

    async def body(pip: LanguageInterface) -> None:
        for test in (True, False):
            with pytest.raises(
                Permanent, match=r"cannot install tiny, gone: .*No matching distribution found for gone"
            ):
                await pip.install([PkgSpec(name="tiny"), PkgSpec(name="gone")], target, index=index, test=test)
        assert await pip.list_installed(["tiny"], target) == {}

    with_pip(tmp_path, body)


@pytest.mark.parametrize(("target", "why"), [("venv", "absolute path"), ("/no/such/venv", "python3 -m venv /no/such")])
def test_a_target_that_is_no_environment_is_refused(tmp_path: Path, target: str, why: str):
    """The error says what to do."""
    with pytest.raises(Permanent, match=why):
        with_pip(tmp_path, lambda pip: pip.list_installed(target=target))


@pytest.mark.parametrize("test", [True, False])
def test_the_python_of_the_system_is_left_alone(tmp_path: Path, index: str, test: bool):
    """A marked Python (PEP 668) is never changed, not even for the packages of one user."""
    if not list(Path("/usr/lib").glob("python3*/EXTERNALLY-MANAGED")):
        pytest.skip("the Python of this system is not marked by EXTERNALLY-MANAGED")
    for target in (None, "user"):
        with pytest.raises(Permanent, match=r"belongs to the package manager of the system.*`target`"):
            with_pip(tmp_path, lambda pip, at=target: pip.install([PkgSpec(name="tiny")], at, index=index, test=test))


def test_an_environment_that_another_user_can_change_is_refused(tmp_path: Path, target: str):
    """That user's code would run as root."""
    if os.geteuid():
        pytest.skip("only root can give an environment to another user")
    os.chown(target, 65534, 65534)

    with pytest.raises(Permanent, match="set `runas` to the user that it belongs to"):
        with_pip(tmp_path, lambda pip: pip.list_installed(target=target))


SOURCE = """[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """import pathlib, zipfile
def build_wheel(directory, settings=None, metadata=None):
    pathlib.Path({ran!r}).touch()
    name = "{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(directory, name), "w") as archive:
        info = "{module}-{version}.dist-info/"
        archive.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(info + "RECORD", "")
    return name
"""


def source_distribution(directory: Path, name: str, version: str, ran: Path) -> Path:
    """Write a source distribution whose build creates the file `ran`."""
    path = directory / f"{name}-{version}.tar.gz"
    backend = BACKEND.format(ran=str(ran), name=name, module=name.replace("-", "_"), version=version)
    described = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with tarfile.open(path, "w:gz") as archive:
        for file, text in (("pyproject.toml", SOURCE), ("backend.py", backend), ("PKG-INFO", described)):
            info = tarfile.TarInfo(f"{name}-{version}/{file}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def test_a_plan_builds_no_source_distribution(tmp_path: Path, index: str, target: str):
    """A build runs code of the package, so only the installation builds, and the plan says what is unknown."""
    ran = tmp_path / "ran"
    wheel(Path(index), "needs-built", "1.0", "built")
    file = source_distribution(Path(index), "built", "1.0", ran)
    source_distribution(Path(index), "tiny", "2.0", ran)

    async def body(pip: LanguageInterface) -> None:
        cases = (
            [PkgSpec(name="built")],
            [PkgSpec(name="built", version="1.0")],
            [PkgSpec(name="built", source=str(file))],
            [PkgSpec(name=str(file))],
            [PkgSpec(name="tiny")],
            [PkgSpec(name="needs-built")],
        )
        for pkgs in cases:
            planned = changes(await pip.install(pkgs, target, index=index, test=True))
            assert planned == {pkgs[0].name: ("", UNBUILT)}
        with pytest.raises(Permanent, match=r"cannot install built: .*No matching distribution found for built==3\.0"):
            await pip.install([PkgSpec(name="built", version="3.0")], target, index=index, test=True)
        await pip.install([PkgSpec(name="tiny", version="1.9")], target, index=index)
        assert changes(await pip.install([PkgSpec(name="tiny")], target, index=index, test=True)) == {}
        assert changes(await pip.upgrade(["tiny"], target, index=index, test=True)) == {"tiny": ("1.9", UNBUILT)}
        assert not ran.exists()
        wheel(Path(index), "older", "1.0", "needs-built<1")
        wheel(Path(index), "needs-built", "0.9")
        both = [PkgSpec(name="older"), PkgSpec(name="needs-built")]
        planned = changes(await pip.install(both, target, index=index, test=True))
        assert planned == {"older": ("", "1.0"), "needs-built": ("", "0.9")}, "the newest version has a wheel, too"
        assert not ran.exists()
        done = await pip.install([PkgSpec(name="needs-built")], target, index=index)
        assert changes(done) == {"built": ("", "1.0"), "needs-built": ("", "1.0")}
        assert ran.exists()

    with_pip(tmp_path, body)
