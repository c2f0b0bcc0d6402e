"""Decisions of the kinds of pip, with the interface in memory instead of Python packages."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from holdfast.agent.host.host import LocalHost
from holdfast.resources import registry
from holdfast.resources.contract import Resource
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import secret_fields
from holdfast.resources.interfaces.results import ChangeSet, Pkg
from holdfast.resources.testing import FakeContext
from holdfast.resources.watches import idle


class FakePip:
    """An environment whose requirements are `name` or `name==version`; `offered` has the newest versions."""

    def __init__(self, offered: dict[str, str], **installed: str) -> None:
        self.offered, self.installed = offered, installed
        self.calls: list[tuple[Any, ...]] = []

    async def list_installed(self, names: Any = (), target: Any = None, runas: Any = None) -> dict[str, list[Pkg]]:
        """Return the installed packages."""
        known = {name: self.installed[name] for name in names or self.installed if name in self.installed}
        return {name: [Pkg(name=name, version=version)] for name, version in known.items()}

    async def unmet(self, requirements: Any, target: Any = None, runas: Any = None, directory: Any = None) -> Any:
        """Return the requirements that are not met."""
        pairs = {line: line.removeprefix("editable ").partition("==") for line in requirements}
        return {
            line: self.installed.get(name, "")
            for line, (name, _, version) in pairs.items()
            if name not in self.installed or (version and self.installed[name] != version)
        }

    async def install(self, pkgs: Any, target: Any, runas: Any, *, test: bool = False, options: Any = None) -> Any:
        """Install an offered version, or exactly the declared one."""
        if unknown := [pkg.name for pkg in pkgs if pkg.name not in self.offered]:
            raise Permanent(f"cannot install {unknown}")
        new = {pkg.name: pkg.source.partition("==")[2] or self.offered[pkg.name] for pkg in pkgs}
        return self._write(new, test, ("install", target, runas, options["env"]))

    async def upgrade(self, names: Any, target: Any, runas: Any, *, test: bool = False, options: Any = None) -> Any:
        """Install newer versions."""
        new = {name: self.offered[name] for name in names or self.installed if name in self.offered}
        return self._write(new, test, ("upgrade", target, runas))

    async def remove(self, names: Any, target: Any, runas: Any, *, test: bool = False) -> ChangeSet:
        """Remove packages."""
        return self._write(dict.fromkeys(names, ""), test, ("remove", target, runas))

    def _write(self, new: dict[str, str], test: bool, call: tuple[Any, ...]) -> ChangeSet:
        pairs = {name: {"old": self.installed.get(name, ""), "new": version} for name, version in new.items()}
        if not test:
            self.calls.append(call)
            self.installed = {name: version for name, version in {**self.installed, **new}.items() if version}
        return ChangeSet(changes={name: pair for name, pair in pairs.items() if pair["old"] != pair["new"]})


def declare(kind: str, name: str, **arguments: Any) -> Resource:
    """Return a resource of a kind."""
    return registry.find(kind).declare(name, **arguments)


async def run(tmp_path: Any, pip: FakePip, resource: Resource, *, apply: bool = True) -> tuple[bool, Any]:
    """Return whether it was as declared, and the changes."""
    ctx = FakeContext(tmp_path, interfaces={"pip": pip})
    right = await resource.check_apply(ctx, apply)
    return right, ctx.report.changes


async def test_missing_and_wrong_packages_are_installed_in_one_command(tmp_path: Any) -> None:
    """The changes are those of Salt. A second run and noop change nothing."""
    pip = FakePip({"django": "4.2", "toml": "1.0"}, toml="0.9")
    state = declare("pip.installed", "title", pkgs=["django", "toml==1.0"], bin_env="/srv/venv/bin/pip3", user="app")
    wanted = {"django==4.2": "Installed", "toml==1.0": "Installed"}

    assert await run(tmp_path, pip, state, apply=False) == (False, wanted)
    assert pip.calls == []
    assert await run(tmp_path, pip, state) == (False, wanted)
    assert pip.calls == [("install", "/srv/venv", "app", {})]
    assert await run(tmp_path, pip, state) == (True, {})


async def test_newer_versions_are_installed_only_if_declared(tmp_path: Any) -> None:
    """Only with `upgrade`, each check asks the index."""
    pip = FakePip({"django": "5.0"}, django="4.2")

    assert await run(tmp_path, pip, declare("pip.installed", "django")) == (True, {})
    changed = await run(tmp_path, pip, declare("pip.installed", "django", upgrade=True))
    assert changed == (False, {"django==5.0": "Installed"})
    assert pip.calls == [("install", None, None, {"PIP_UPGRADE": "1"})]


async def test_what_pip_cannot_install_is_noted_in_a_plan_and_fails_the_run(tmp_path: Any) -> None:
    """An earlier state may offer the package, so a plan only notes the problem."""
    state = declare("pip.installed", "nowhere")

    assert (await run(tmp_path, FakePip({}), state, apply=False))[0] is False
    with pytest.raises(Permanent, match="cannot install"):
        await run(tmp_path, FakePip({}), state)


async def test_a_package_is_removed(tmp_path: Any) -> None:
    """Versions in the name do not matter."""
    pip = FakePip({}, toml="0.9")
    state = declare("pip.removed", "toml==1.0", user="app")

    assert await run(tmp_path, pip, state) == (False, {"toml": "Removed"})
    assert pip.calls == [("remove", "user", "app")]
    assert await run(tmp_path, pip, state) == (True, {})


async def test_all_packages_are_brought_up_to_date(tmp_path: Any) -> None:
    """Only packages with a newer version change."""
    pip = FakePip({"django": "5.0", "toml": "1.0"}, django="4.2", toml="1.0")
    state = declare("pip.uptodate", "all", bin_env="/srv/venv")

    assert await run(tmp_path, pip, state) == (False, {"django": {"old": "4.2", "new": "5.0"}})
    assert await run(tmp_path, pip, state) == (True, {})


@pytest.mark.parametrize(
    ("bin_env", "user", "place"),
    [
        (None, None, None),
        (None, "root", None),
        (None, "app", "user"),
        ("/srv/venv/", None, "/srv/venv"),
        ("/srv/venv/bin/python3.11", "app", "/srv/venv"),
        ("/usr/bin/pip3", None, None),
        ("pip3", "app", "user"),
    ],
)
def test_the_environment_is_that_of_salts_bin_env(bin_env: str | None, user: str | None, place: str | None) -> None:
    """`bin_env` may be a directory, or a pip or Python in it. Those of the system are not an environment."""
    assert declare("pip.removed", "toml", bin_env=bin_env, user=user).place == place


def test_options_reach_pip_in_its_environment_and_are_secret() -> None:
    """Other users see the arguments of a process, but not its environment."""
    secret = "https://me:word@example.com/simple"
    state = declare(
        "pip.installed", "toml", index_url=secret, extra_index_url=[secret, "https://b"], no_deps=True,
        pre_releases=True, find_links="/srv/index", no_index=True, target="/srv/lib", timeout=5,
        env_vars={"A": "1"}, no_binary="toml",
    )  # fmt: skip

    assert state.variables() == {
        "PIP_INDEX_URL": secret, "PIP_EXTRA_INDEX_URL": f"{secret} https://b", "PIP_NO_DEPS": "1", "PIP_PRE": "1",
        "PIP_FIND_LINKS": "/srv/index", "PIP_NO_INDEX": "1", "PIP_TARGET": "/srv/lib", "PIP_DEFAULT_TIMEOUT": "5",
        "PIP_NO_BINARY": "toml", "A": "1",
    }  # fmt: skip
    assert {"index_url", "extra_index_url", "proxy", "env_vars"} <= set(secret_fields(type(state)))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"name": "-r/etc/passwd"}, "is not a requirement of pip"),
        ({"name": "toml\nother"}, "is not a requirement of pip"),
        ({"name": "x", "pkgs": ["--index-url=http://evil"]}, "is not a requirement of pip"),
        ({"name": "git+https://me:word@example.com/x.git"}, "must not contain a password"),
        ({"name": "x", "requirements": "salt://requirements.txt"}, "put the file in place with file.managed"),
        ({"name": "x", "requirements": "requirements.txt"}, "set `cwd`, too"),
        ({"name": "x", "editable": "./src"}, "set `cwd`, too"),
        ({"name": "x", "bin_env": "venv"}, "absolute path of a virtual environment"),
    ],
)
def test_what_pip_would_understand_otherwise_is_refused(arguments: dict[str, Any], why: str) -> None:
    """These are options, several lines, passwords that other users could see, and paths without a directory."""
    with pytest.raises(ValidationError, match=re.escape(why)) as error:
        declare("pip.installed", **arguments)

    assert "word" not in str(error.value).partition("[type=")[0].replace("password", "")


def test_relative_paths_begin_at_cwd() -> None:
    """All paths for pip are absolute, so it need not run in a directory of another user."""
    state = declare("pip.installed", "x", requirements="all.txt", editable=[".", "/srv/lib"], cwd="/srv/app")

    assert state.wanted == ["@/srv/app/all.txt", "editable /srv/lib", "editable /srv/app/."]


@pytest.mark.parametrize(
    ("kind", "name"), [("pip.installed", "all"), ("virtualenv.managed", "/srv/venv")], ids=["pip", "virtualenv"]
)
async def test_files_of_requirements_are_watched(tmp_path: Any, kind: str, name: str) -> None:
    """A new requirement is installed at once, before the next recheck."""

    class Watched(FakePip):
        def watch(self, target: Any, runas: Any) -> Any:
            return idle()

    ctx = FakeContext(tmp_path, interfaces={"pip": Watched({})})
    declare(kind, name, requirements=["more/a.txt", "/b.txt"], cwd="/srv").watch(ctx)
    assert ctx.watched == ["/srv/more/a.txt", "/b.txt"]


async def test_an_environment_whose_creation_was_interrupted_is_made_again(tmp_path: Any) -> None:
    """The program was killed after it had made the link to Python, and before it installed pip."""
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    state = declare("virtualenv.managed", str(tmp_path / "venv"))
    async with LocalHost(states=tmp_path, var_dir=tmp_path / "var", durable=False) as host:
        assert not await state.check_apply(host.context("a"), False)
        (python.parent / "activate").write_text("")
        assert await state.check_apply(host.context("b"), False)
