"""States that need a function which their provider on this host lacks are refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.agent.settings import Settings
from holdfast.resources import registry as kinds
from holdfast.resources.contract import Resource
from holdfast.resources.interfaces.provider import Provider
from holdfast.states.errors import CompileError

TOY = """\
from holdfast.resources.interfaces.pkg import PkgInterface
__interface__ = PkgInterface
async def list_installed(names=()): return {}
async def latest(names, refresh=False): return {}
async def compare(a, b): return 0
def watch(names=(), catalogue=False): ...
async def install(pkgs, refresh=None, *, test=False, options=None): ...
"""
"""A package manager that can only install."""


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    """Forget the providers that a test declares."""
    monkeypatch.setattr(Provider, "registered", list(Provider.registered))


@pytest.fixture
def settings(tmp_path) -> Settings:
    """Return settings with the toy as package manager."""
    (tmp_path / "states").mkdir()
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources/toy.py").write_text(TOY)
    return Settings(
        states=tmp_path / "states",
        pillar=None,
        resources=tmp_path / "resources",
        grains_file=None,
        grains={"os_family": "Arch", "kernel": "Linux"},
        providers={"pkg": "toy"},
    )


def write(settings: Settings, text: str) -> Path:
    """Write the only state file."""
    path = settings.states / "s.sls"
    path.write_text(text)
    return path


STATES = """\
right:
  pkg.installed: []
held:
  pkg.installed: [{hold: true}]
gone:
  pkg.removed: []
"""


def test_a_compilation_refuses_states_that_need_a_missing_function(settings):
    """The error has file and line, the word of the table and the reason.

    A state that needs only existing functions is accepted.
    """
    path = write(settings, STATES)

    with pytest.raises(CompileError) as refusal:
        ConfigurationCompiler().compile(settings)

    assert [(problem.location.file, problem.location.line, problem.code) for problem in refusal.value.problems] == [
        (str(path), 4, "function-lacking"),
        (str(path), 6, "function-lacking"),
    ]
    held, gone = refusal.value.problems
    assert held.message == (
        "pkg.installed[held] needs pkg.holds and pkg.hold: these are not supported by toy, the provider on this host "
        "(os_family is Arch, only Debian, RedHat, Suse, FreeBSD, MacOS, OpenWrt can have it)"
    )
    assert (
        gone.message == "pkg.removed[gone] needs pkg.remove: this is not implemented by toy, the provider on this host"
    )
    assert gone.hint.endswith("choose another provider in agent.yaml: `providers: {pkg: ...}`")


def test_check_reports_the_same_errors(settings):
    """`holdfast check` and the agent agree."""
    write(settings, STATES)

    report = ConfigurationCompiler().check(settings)

    assert [problem.location.line for problem in report.errors] == [4, 6]


def test_a_provider_that_gets_the_function_is_noticed(settings):
    """The operator adds the function to the provider's file, and the next compilation succeeds."""
    write(settings, "gone:\n  pkg.removed: []\n")
    compiler = ConfigurationCompiler()
    with pytest.raises(CompileError):
        compiler.compile(settings)

    (settings.resources / "toy.py").write_text(
        TOY + "async def remove(names, purge=False, *, test=False, options=None): ...\n"
    )

    assert len(compiler.compile(settings).compilation.calls) == 1


def test_states_without_any_provider_are_only_warned_of(settings):
    """Another state may install the tool, and states for other hosts must be checkable.

    So there is one warning and no error.
    """
    write(settings, "one:\n  pkg.installed: []\ntwo:\n  pkg.removed: []\n")
    (settings.resources / "toy.py").unlink()
    elsewhere = settings.model_copy(update={"providers": {}, "grains": {"os_family": "Plan9"}})

    report = ConfigurationCompiler().check(elsewhere)

    assert report.errors == ()
    assert [(problem.code, problem.location.line) for problem in report.warnings] == [("provider-missing", 2)]
    assert "cannot manage pkg: no provider works on this host" in report.warnings[0].message
    assert len(ConfigurationCompiler().compile(elsewhere).compilation.calls) == 2


def test_states_of_another_host_are_not_judged_by_this_one(settings):
    """With given grains, the commands of this host are ignored."""
    write(settings, STATES)

    assert ConfigurationCompiler().check(settings, grains={"id": "other", "os_family": "Arch"}).errors == ()


def every_state() -> list[Resource]:
    """Return declarations of all kinds that use interfaces, with every argument that needs something."""
    given: dict[str, list[dict[str, Any]]] = {
        "pkg.installed": [{"hold": True}, {"hold": False}, {"version": ">1"}, {"version": "latest"}],
        "service.running": [{"enable": True, "unmask": True}, {"enable": False, "reload": True}],
        "user.present": [{"password": "$6$x$y", "optional_groups": ["a"], "mindays": 1}, {"password_lock": True}],
        "group.present": [{"gid": 5, "members": ["a"]}, {"addusers": ["a"], "delusers": ["b"]}],
    }
    return [
        kind.declare(
            {"module": "pkg.refresh_db", "virtualenv": "/it"}.get(kind.kind.partition(".")[0], "it"), **arguments
        )
        for kind in kinds.kinds()
        if kind.needs is not Resource.needs
        for arguments in [{}, *given.get(kind.kind, [])]
    ]


@pytest.mark.parametrize("resource", every_state(), ids=lambda resource: resource.kind)
def test_what_a_kind_needs_is_in_its_interface(resource):
    """Otherwise, a misspelt function would make every host refuse the state."""
    assert [need for need in resource.needs() if need.function not in need.interface.functions()] == []
    assert len(set(resource.needs())) == len(resource.needs())
