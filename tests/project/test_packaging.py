"""Sdist and wheel work without the checkout, and contain the commit that they were built from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deadline import DEADLINE
from holdfast import __version__
from holdfast.agent.cli.pages import PAGES
from holdfast.agent.version import RECORD, commit, version
from holdfast_process import environment

ROOT = Path(__file__).parents[2]
BUILD = (sys.executable, "-m", "build", "--no-isolation")
COMMIT = "0123456789ab"
GIT = shutil.which("git")


def call(*argv: object, cwd: Path, **variables: str) -> str:
    """Run a command, and return its output."""
    plain = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [*map(str, argv)],
        cwd=cwd,
        env={**plain, **variables},
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE,  # a build is work, not an event
        check=False,
    )
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the sdist of this checkout, and with the wheel of that sdist."""
    directory = tmp_path_factory.mktemp("built")
    call(*BUILD, "--outdir", directory, ".", cwd=ROOT)
    return directory


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with this wheel, and with the dependencies of the tests."""
    home = tmp_path_factory.mktemp("installed") / "holdfast"
    call(sys.executable, "-m", "venv", "--without-pip", home, cwd=ROOT)
    packages = Path(
        call(home / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=ROOT).strip()
    )
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    wheel = next(built.glob("*.whl"))
    call(
        sys.executable,
        "-m",
        "pip",
        "--python",
        home / "bin/python",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",  # few of its modules are imported here
        wheel,
        cwd=ROOT,
    )
    return home / "bin/holdfast"


def sources() -> Iterator[str]:
    """Return the names of all files of the package."""
    package = ROOT / "src/holdfast"
    for directory, _, names in os.walk(package, followlinks=True):
        if not directory.endswith("__pycache__"):
            yield from (str(Path(directory, name).relative_to(package)) for name in names)


def test_sdist_and_wheel_contain_the_whole_package(built: Path) -> None:
    """Both contain every file of the package, and otherwise only the record of the commit."""
    expected = {*sources(), RECORD}
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        members = [member for member in sdist.getmembers() if "/src/holdfast/" in member.name]
        assert all(member.isfile() for member in members)
        assert {member.name.partition("/src/holdfast/")[2] for member in members} == expected
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        assert {name.removeprefix("holdfast/") for name in names} == expected


def test_an_installed_agent_repairs_drift(installed: Path, tmp_path: Path) -> None:
    """A wheel of the sdist works without the checkout: `install --root`, then an agent that repairs a file.

    The test takes some seconds: it builds sdist and wheel, installs the wheel, and starts an agent.
    """
    call(installed, "install", "--root", tmp_path, cwd=tmp_path)
    assert all((tmp_path / page.path).exists() for page in PAGES)
    etc, motd = tmp_path / "etc/holdfast", tmp_path / "motd"
    (etc / "states/motd.sls").write_text(f"{motd}:\n  file.managed:\n    - contents: hello\n")
    options = [
        "--config",
        etc / "agent.yaml",
        "--states",
        etc / "states",
        "--pillar",
        etc / "pillar",
        "--state-dir",
        tmp_path / "state",
    ]
    plain = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    agent = subprocess.Popen(
        [installed, "run", *options],
        cwd=tmp_path,
        env=plain,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert agent.stdout is not None
        log = iter(agent.stdout.readline, "")
        assert any("converged" in line for line in log)
        assert motd.read_text() == "hello\n"
        motd.write_text("hacked\n")
        assert any("repaired" in line and str(motd) in line for line in log)
        assert motd.read_text() == "hello\n"
    finally:
        agent.terminate()
        agent.communicate(timeout=DEADLINE)
    assert agent.returncode == 0


def test_an_installed_holdfast_never_runs_git(installed: Path, built: Path, tmp_path: Path) -> None:
    """The version comes from the record of the build, also inside an unrelated git repository."""
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        recorded = wheel.read(f"holdfast/{RECORD}").decode()
    (tmp_path / "git").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "git").chmod(0o755)
    said = call(installed, "--version", cwd=ROOT, PATH=f"{tmp_path}:{os.environ['PATH']}")

    assert said == f"holdfast {__version__} (commit {recorded})\n" if recorded else f"holdfast {__version__}\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(GIT is None, reason="there is no git")
def test_the_commit_is_copied_from_sdist_to_wheel(built: Path, tmp_path: Path) -> None:
    """The repository in which the sdist is unpacked does not matter.

    The test builds two wheels, which takes some seconds.
    """
    with tarfile.open(next(built.glob("*.tar.gz"))) as sdist:
        sdist.extractall(tmp_path, filter="data")
    source = next(tmp_path.glob("holdfast-*"))
    make_repository(source)
    for recorded in (COMMIT, ""):
        (source / "src/holdfast" / RECORD).write_text(recorded)
        call(*BUILD, "--wheel", "--outdir", tmp_path / f"built-{recorded}", source, cwd=tmp_path)
        with zipfile.ZipFile(next((tmp_path / f"built-{recorded}").glob("*.whl"))) as wheel:
            assert wheel.read(f"holdfast/{RECORD}").decode() == recorded


def make_repository(directory: Path) -> str:
    """Turn a directory into a git repository, and return its commit."""
    for words in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message=x"],
    ):
        call("git", "-C", directory, *words, cwd=directory)
    return call("git", "-C", directory, "rev-parse", "--short=12", "HEAD", cwd=directory).strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package in a checkout of its own, which is not a repository yet."""
    package = tmp_path / "checkout/src/holdfast"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    return package


@pytest.mark.skipif(GIT is None, reason="there is no git")
def test_a_checkout_reports_its_own_commit(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a git hook of another repository does not matter; local changes are reported."""
    found = make_repository(package.parents[1])
    monkeypatch.setenv("GIT_DIR", str(ROOT / ".git"))

    assert commit(package) == found
    (package / "__init__.py").write_text("changed\n")
    assert commit(package) == f"{found}-dirty"


@pytest.mark.skipif(GIT is None, reason="there is no git")
def test_without_a_known_commit_the_version_is_reported(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no repository, or one further up, or a broken one, or no git, or a broken record."""
    make_repository(package.parents[2])
    assert commit(package) == ""
    (package.parents[1] / ".git").mkdir()
    assert commit(package) == ""
    monkeypatch.setenv("PATH", "/nowhere")
    assert commit(package) == ""
    (package / RECORD).write_bytes(b"\xff\0")
    assert commit(package) == ""
    monkeypatch.setattr("holdfast.agent.version.commit", lambda _: "")
    assert version() == __version__
