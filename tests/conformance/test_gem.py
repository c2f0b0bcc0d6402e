"""gem with a directory as its index, in a directory of gems and in that of one user."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from languages import Body, changes, with_tool

from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.language import LanguageInterface
from holdfast.resources.interfaces.results import PkgSpec

BUILD = """require "rubygems/package"
[["tiny", "1.9"], ["tiny", "1.10"], ["tiny", "2.0.rc1"], ["tiny-needs", "1.0"]].each do |name, version|
  spec = Gem::Specification.new(name, version) do |gem|
    gem.summary, gem.authors, gem.files = "tiny", ["tiny"], []
    gem.add_runtime_dependency("tiny") if name == "tiny-needs"
  end
  Gem::Package.build(spec, true)
end"""
"""Builds the gems in the working directory."""


HOSTILE = """require "rubygems/package"
Dir.mkdir("lib")
File.write("lib/rubygems_plugin.rb", "File.write('RAN', 'plugin')")
File.write("extconf.rb", "File.write('RAN', 'extension'); File.write('Makefile', %(all:\\ninstall:\\nclean:\\n))")
["1.0", "1.1"].each do |version|
  spec = Gem::Specification.new("hostile", version) do |gem|
    gem.summary, gem.authors, gem.extensions = '#{File.write("RAN", "summary")}', ["tiny"], ["extconf.rb"]
    gem.files = ["lib/rubygems_plugin.rb", "extconf.rb"]
  end
  Gem::Package.build(spec, true)
end"""
"""Builds gems whose code creates the file RAN: a build of an extension, a plugin of gem, a summary that is code."""


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a directory with the gems `tiny` and `tiny-needs`, and their index."""
    if shutil.which("gem") is None:
        pytest.skip("there is no command gem; scripts/test installs it")
    top = tmp_path_factory.mktemp("index")
    (top / "gems").mkdir()
    subprocess.run(["ruby", "-e", BUILD], cwd=top / "gems", check=True, capture_output=True)
    subprocess.run(["gem", "generate_index", "--directory", str(top)], check=True, capture_output=True)
    return str(top)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home directory."""
    path = tmp_path / "home"
    path.mkdir()
    monkeypatch.setenv("HOME", str(path))
    return path


def with_gem(tmp_path: Path, body: Body) -> Any:
    """Return the result of a body, which gets the provider on this host."""
    return with_tool("gem", "gem", tmp_path, body)


def test_packages_are_installed_upgraded_and_removed(tmp_path: Path, index: str):
    """Each plan equals the change, dependencies included. Several versions are installed beside each other."""
    target = str(tmp_path / "gems")

    async def body(gem: LanguageInterface) -> None:
        old, needs = PkgSpec(name="tiny", version="1.9"), PkgSpec(name="tiny-needs")
        assert await gem.list_installed([], target) == {}
        assert await gem.latest(["tiny", "gone"], target, index=index) == {"tiny": "1.10", "gone": None}
        for test in (True, False):
            done = await gem.install([old], target, index=index, test=test)
            assert changes(done) == {"tiny": ("", "1.9")}
        for test in (True, False):
            done = await gem.install([needs, PkgSpec(name="tiny")], target, index=index, test=test)
            assert changes(done) == {"tiny-needs": ("", "1.0")}
        for test in (True, False):
            done = await gem.upgrade(["tiny", "gone"], target, index=index, test=test)
            assert changes(done) == {"tiny": ("1.9", "1.10,1.9")}
        assert changes(await gem.upgrade(target=target, index=index)) == {}
        found = await gem.list_installed(["tiny"], target)
        assert [package.version for package in found["tiny"]] == ["1.10", "1.9"]
        for test in (True, False):
            done = await gem.remove(["tiny", "gone"], target, test=test)
            assert changes(done) == {"tiny": ("1.10,1.9", "")}
        assert changes(await gem.remove(["tiny"], target)) == {}
        for test in (True, False):
            done = await gem.install([PkgSpec(name="tiny", version="2.0.rc1")], target, index=index, test=test)
            assert changes(done) == {"tiny": ("", "2.0.rc1")}

    with_gem(tmp_path, body)


def test_dependencies_are_installed(tmp_path: Path, index: str):
    """Dependencies come from the index, and are installed into the same directory."""

    async def body(gem: LanguageInterface) -> None:
        for test in (True, False):
            done = await gem.install([PkgSpec(name="tiny-needs")], str(tmp_path / "gems"), index=index, test=test)
            assert changes(done) == {"tiny": ("", "1.10"), "tiny-needs": ("", "1.0")}

    with_gem(tmp_path, body)


def test_the_packages_of_a_user_are_below_his_home(tmp_path: Path, index: str, home: Path):
    """Ruby finds them there without a setting.

    They are not visible to all users, and are upgraded and removed there.
    """

    async def body(gem: LanguageInterface) -> None:
        assert await gem.list_installed([], "user") == {}
        await gem.install([PkgSpec(name="tiny", version="1.9")], "user", index=index)
        for test in (True, False):
            done = await gem.upgrade(["tiny"], "user", index=index, test=test)
            assert changes(done) == {"tiny": ("1.9", "1.10,1.9")}
        assert await gem.list_installed(["tiny"]) == {}
        assert list(home.glob("**/gems/tiny-1.10"))
        await asyncio.to_thread(subprocess.run, ["ruby", "-e", "gem 'tiny', '1.10'"], check=True)
        assert changes(await gem.remove(["tiny"], "user")) == {"tiny": ("1.10,1.9", "")}

    with_gem(tmp_path, body)
    assert not list(home.glob("**/gems/tiny-1.10"))


def test_a_package_file_is_installed(tmp_path: Path, index: str):
    """The file is given by its path; the plan has its version."""

    async def body(gem: LanguageInterface) -> None:
        file = PkgSpec(name="tiny", source=f"{index}/gems/tiny-1.9.gem")
        for test in (True, False):
            done = await gem.install([file], str(tmp_path / "gems"), index=index, test=test)
            assert changes(done) == {"tiny": ("", "1.9")}

    with_gem(tmp_path, body)


def test_a_package_that_the_index_does_not_have_is_an_error(tmp_path: Path, index: str):
    """The error has the words of gem; nothing is installed."""

    async def body(gem: LanguageInterface) -> None:
        wanted, target = [PkgSpec(name="tiny"), PkgSpec(name="gone")], str(tmp_path / "gems")
        for test in (True, False):
            with pytest.raises(Permanent, match=r"cannot install tiny, gone: Could not find a valid gem 'gone'"):
                await gem.install(wanted, target, index=index, test=test)
        assert await gem.list_installed([], target) == {}

    with_gem(tmp_path, body)


def test_a_plan_runs_no_code_of_a_gem(tmp_path: Path, index: str):
    """A plan runs code neither of a gem in the index nor of a file.

    The installation does, and plugins of installed gems always run.
    """
    top, ran, target = tmp_path / "index", tmp_path / "ran", str(tmp_path / "target")
    (top / "gems").mkdir(parents=True)
    script = HOSTILE.replace("RAN", str(ran))
    subprocess.run(["ruby", "-e", script], cwd=top / "gems", check=True, capture_output=True)
    subprocess.run(["gem", "generate_index", "--directory", str(top)], check=True, capture_output=True)
    named = PkgSpec(name="hostile", version="1.0")
    file = PkgSpec(name="hostile", source=str(top / "gems/hostile-1.0.gem"))

    async def body(gem: LanguageInterface) -> None:
        for package in (named, file):
            done = await gem.install([package], target, index=str(top), test=True)
            assert changes(done) == {"hostile": ("", "1.0")}
        assert await gem.latest(["hostile"], target, index=str(top)) == {"hostile": "1.1"}
        assert not ran.exists()
        await gem.install([named], target, index=str(top))
        assert ran.read_text() == "extension"
        await gem.upgrade(["hostile"], target, index=str(top), test=True)
        assert ran.read_text() == "plugin"

    with_gem(tmp_path, body)


def test_a_gem_that_belongs_to_ruby_is_not_removed(tmp_path: Path):
    """Without this check, gem would leave it there and report no error."""

    async def body(gem: LanguageInterface) -> None:
        for test in (True, False):
            with pytest.raises(Permanent, match=r"cannot remove json: not installed by gem, but a part of Ruby"):
                await gem.remove(["json"], test=test)

    with_gem(tmp_path, body)


def test_an_index_that_cannot_be_read_is_an_error(tmp_path: Path, index: str):
    """The error is not that the package does not exist."""
    with pytest.raises(Permanent, match=r"cannot ask gem for tiny: Unable to download data from file:"):
        with_gem(tmp_path, lambda gem: gem.latest(["tiny"], index=f"{index}/gems"))


def test_versions_are_compared_as_rubygems_does(tmp_path: Path):
    """Versions are not compared as text. Letters make a pre-release, and zeros at the end do not matter."""

    async def body(gem: LanguageInterface) -> list[int]:
        with pytest.raises(Permanent, match=r"cannot compare 1\.0 and x!: Malformed version number string x!"):
            await gem.compare("1.0", "x!")
        pairs = (("1.9", "1.10"), ("1.0", "1.0.rc1"), ("1.0", "1.0.0"))
        return [await gem.compare(a, b) for a, b in pairs]

    assert with_gem(tmp_path, body) == [-1, 1, 0]
