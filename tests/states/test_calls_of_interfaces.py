"""Templates call reading functions of interfaces, through a separate provider; no call waits for the event loop."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import re
import subprocess
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.execution.table import ExecutionFunction
from holdfast.resources.interfaces.host import BusError
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.provider import Confine, Provider, register_module
from holdfast.resources.interfaces.results import ServiceStatus
from holdfast.resources.interfaces.service import ServiceInterface
from holdfast.resources.providers._dpkg import compare_versions
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast.states.errors import CompileError
from holdfast.states.helpers import interfaces
from holdfast.states.source.files import Tree
from holdfast.states.template.jinja import names_for, render_text
from holdfast.states.template.render import Renderer
from holdfast.states.view.host_view import HostView

DEBIAN = {"os_family": "Debian", "kernel": "Linux", "init": "systemd"}
needs_dpkg = pytest.mark.skipif(not Path("/usr/bin/dpkg-query").exists(), reason="no dpkg on this host")


def call(name: str, *args: Any, grains: Any = None, options: Any = None, **kwargs: Any) -> Any:
    """Call a function as a template does."""
    return names_for(HostView(DEBIAN if grains is None else grains, options=options or {}))["salt"][name](
        *args, **kwargs
    )


@pytest.fixture
def dpkg_version() -> str:
    """Return the installed version of dpkg."""
    command = ["dpkg-query", "-Wf", "${Version}", "dpkg"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@needs_dpkg
async def test_a_template_reads_packages_while_the_loop_of_the_agent_waits(dpkg_version):
    """Rendering blocks the loop that this test runs in, and the call ends nevertheless."""
    assert call("pkg.version", "dpkg") == dpkg_version
    assert call("pkg.version", "dpkg", use_context=False) == dpkg_version
    assert call("pkg.list_pkgs")["dpkg"] == dpkg_version
    assert call("pkg.version", "dpkg", "nonesuch") == {"dpkg": dpkg_version, "nonesuch": ""}


def test_without_a_provider_no_package_is_installed():
    """A check of states for another host needs no provider."""
    other = {"os_family": "Other"}

    assert call("pkg.version", "dpkg", grains=other) == ""
    assert call("pkg.list_pkgs", grains=other) == {}
    assert call("pkg.version_cmp", "1.0~rc1", "1.0", grains=other) == -1


@pytest.mark.parametrize(
    ("name", "told"),
    [("pkg.install", "it changes this host"), ("service.restart", "use a state of 'service'")],
)
def test_a_function_that_changes_something_is_refused_when_compiled(tmp_path, name, told):
    """The error has the line and names the alternative."""
    (tmp_path / "a.sls").write_text(f"# one\n{{% set x = salt['{name}']('nginx') %}}\n")
    renderer = Renderer(tmp_path)
    renderer.begin(Tree(tmp_path), HostView(DEBIAN))

    with pytest.raises(CompileError, match=told) as error:
        renderer.render(tmp_path / "a.sls", "a")

    assert f"templates cannot call {name}" in str(error.value)
    assert "a.sls:2" in str(error.value)


@pytest.mark.parametrize("arguments", [{"args": (True,)}, {"refresh": True}], ids=["positional", "named"])
def test_a_template_fetches_no_lists_of_packages(monkeypatch, arguments):
    """A rendering must not change the host, so `refresh` has no effect."""
    asked = []

    class Fetching:
        async def upgrades(self, refresh: bool = True) -> dict[str, dict[str, str]]:
            asked.append(refresh)
            return {}

    monkeypatch.setattr(interfaces.LookingHost, "interface", lambda *_: Fetching())

    assert call("pkg.list_upgrades", *arguments.pop("args", ()), **arguments) == {}
    assert asked == [False]


def test_the_examples_of_the_page_compile(tmp_path):
    """The examples of docs/calls.md, in YAML and in a template, compile."""
    page = (Path(__file__).parents[2] / "docs/calls.md").read_text(encoding="utf-8")
    states, template = (re.findall(rf"```{form}\n(.*?)```", page, re.DOTALL) for form in ("yaml", "jinja"))
    (tmp_path / "nginx.conf").write_text("the source of the example\n")
    (tmp_path / "a.sls").write_text(states[0])
    (tmp_path / "b.sls").write_text(f"{template[0]}new: {{test.nop: []}}\n{{% endif %}}\n")

    inputs = CompilerInputs(tmp_path, ("a", "b"), grains=DEBIAN, trusted_uids=frozenset({os.getuid()}))

    done = Compiler().compile(inputs)

    assert [call.kind for call in done.calls][:3] == ["module.run", "file.managed", "module.wait"]


def test_a_checksum_is_checked(tmp_path):
    """The checksum may have each of Salt's three forms."""
    file = tmp_path / "f"
    file.write_bytes(b"x")
    digest = hashlib.sha256(b"x").hexdigest()

    assert call("file.check_hash", str(file), f"sha256={digest}")
    assert call("file.check_hash", str(file), f"sha256:{digest}")
    assert call("file.check_hash", str(file), digest.upper())
    assert not call("file.check_hash", str(file), "0" * 64)
    with pytest.raises(ValueError, match="is not a checksum"):
        call("file.check_hash", str(file), "abc")


# -- the host of a call --------------------------------------------------------------------------------------------


async def test_commands_of_a_call_are_bounded(monkeypatch):
    """A command that does not end is killed; the errors name the command."""
    monkeypatch.setattr(interfaces, "DEADLINE", 0.05)
    host = interfaces.LookingHost(HostView())

    with pytest.raises(Temporary, match=r"sleep did not end within 0\.05 s"):
        await host.run("sleep", "60")
    with pytest.raises(Permanent, match="cannot run /nonexistent"):
        await host.run("/nonexistent")


async def test_a_failed_command_is_an_error_if_it_is_checked():
    """The host of a call behaves like the host of the agent."""
    host = interfaces.LookingHost(HostView())

    with pytest.raises(Permanent, match="sh ended with status 3: no"):
        await host.run("sh", "-c", "echo no >&2; exit 3")
    assert (await host.run("sh", "-c", "cat; exit 3", stdin="in", check=False))[2:4] == (3, "in")


def test_a_call_that_takes_too_long_is_an_error(monkeypatch):
    """The template fails after the time limit."""

    async def never(_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(interfaces, "DEADLINE", 0.05)

    with pytest.raises(Temporary, match=r"x\.y took longer than 0\.05 s"):
        interfaces._called(ExecutionFunction("x.y", never, None, (), True), HostView(), (), {})


def test_a_call_that_blocks_its_thread_ends_with_its_deadline(monkeypatch):
    """Nothing can stop such a provider. Further calls neither wait for it nor start threads."""
    release = threading.Event()

    async def block(_: Any) -> str:
        release.wait()
        return "released"

    monkeypatch.setattr(interfaces, "DEADLINE", 0.05)
    monkeypatch.setattr(interfaces, "MARGIN", 0.0)
    function = ExecutionFunction("x.block", block, None, (), True)

    with pytest.raises(Temporary, match=r"x\.block took longer than 0\.05 s"):
        interfaces._called(function, HostView(), (), {})
    number = threading.active_count()
    with pytest.raises(Temporary, match="an earlier call of it has not ended yet"):
        interfaces._called(function, HostView(), (), {})
    assert threading.active_count() == number

    release.set()
    interfaces._blocked["x.block"].join()
    assert interfaces._called(function, HostView(), (), {}) == "released"


def test_a_timeout_of_the_provider_itself_is_its_own_error():
    """A timeout that the provider raises is not reported as the timeout of the call."""

    async def late(_: Any) -> None:
        raise TimeoutError("no answer from the mirror")

    with pytest.raises(TimeoutError, match="no answer from the mirror"):
        interfaces._called(ExecutionFunction("x.late", late, None, (), True), HostView(), (), {})


@pytest.mark.parametrize("managed", [False, True], ids=["state file", "managed file"])
def test_an_exit_of_a_provider_fails_the_template_only(tmp_path, monkeypatch, managed):
    """The exit does not end the agent."""

    class Leaving:
        async def list_installed(self, names: Sequence[str] = ()) -> None:
            sys.exit(3)

    monkeypatch.setattr(interfaces.LookingHost, "interface", lambda *_: Leaving())
    text = "# one\n{{ salt['pkg.list_pkgs']() }}\n"
    (tmp_path / "a.sls").write_text(text)
    renderer = Renderer(tmp_path)
    renderer.begin(Tree(tmp_path), HostView(DEBIAN))

    def render() -> None:
        if managed:
            render_text(text, name="a", variables={}, grains=DEBIAN, pillar={})
        else:
            renderer.render(tmp_path / "a.sls", "a")

    with pytest.raises(CompileError, match="the template failed: SystemExit: 3"):
        render()


def test_a_call_of_a_template_has_no_bus_and_no_watch():
    """A provider that needs one of them gets an error that names it."""
    host = interfaces.LookingHost(HostView())

    with pytest.raises(BusError, match="no connection to D-Bus"):
        host.bus()
    with pytest.raises(Permanent, match="cannot watch"):
        host.watch_path("/")


# -- services ------------------------------------------------------------------------------------------------------


@pytest.fixture
def other_init() -> Iterator[None]:
    """Declare a host whose services another provider than systemd manages."""

    class Other(Provider):
        """A provider of one service."""

        implements = ServiceInterface
        confine = Confine(grains={"init": ("other-init",)})

        async def status(self, names: Sequence[str]) -> dict[str, ServiceStatus]:
            """Return the status."""
            return {
                name: ServiceStatus(name=name, exists=name == "a", active=True, state="up", enabled=name == "a")
                for name in names
            }

    yield
    Provider.registered[:] = [offer for offer in Provider.registered if offer.source is not Other]


@pytest.mark.usefixtures("other_init")
def test_another_provider_than_systemd_answers_for_services():
    """The unit files count only where systemd or nothing manages services."""
    grains = {"init": "other-init", "kernel": "Other"}

    assert call("service.available", "a", grains=grains)
    assert call("service.missing", "b", grains=grains)
    assert call("service.enabled", "a", grains=grains)
    assert call("service.disabled", "b", grains=grains)


def test_unit_files_answer_for_services_of_systemd(tmp_path, monkeypatch):
    """The files are a unit, an instance of a template, and a link of an enabled unit."""
    monkeypatch.setattr(interfaces, "UNITS", (tmp_path,))
    (tmp_path / "a.service").write_text("")
    (tmp_path / "tty@.service").write_text("")
    (tmp_path / "multi-user.target.wants").mkdir()
    (tmp_path / "multi-user.target.wants" / "a.service").symlink_to("../a.service")

    assert call("service.available", "a")
    assert call("service.available", "tty@1")
    assert call("service.missing", "b")
    assert call("service.enabled", "a")
    assert call("service.disabled", "tty@1")


# -- versions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "order"),
    [
        ("1.2-1", "1.10-1", -1), ("1:1.0", "2.0", 1), ("1.0~rc1", "1.0", -1), ("1.0", "1.0-0", 0), ("0:1", "1", 0),
        ("1.0", "1.0+b1", -1), ("1a", "1+", -1), ("26", "26-1", -1), ("10", "9A", 1), ("", "", 0),
    ],
)  # fmt: skip
def test_versions_are_ordered_by_debians_rules(a, b, order):
    """The comparison is correct in both directions."""
    assert (compare_versions(a, b), compare_versions(b, a)) == (order, -order)


@needs_dpkg
def test_versions_are_ordered_as_by_dpkg():
    """The versions are random, and many of them differ only at their end."""
    draw = random.Random(5)

    def version() -> str:
        text = "".join(draw.choice("019.+~aAz-") for _ in range(draw.randint(0, 6))).rstrip("-")
        return draw.choice(["", "", "1:", "0:"]) + draw.choice("012") + text

    for _ in range(60):
        a = version()
        b = draw.choice([version(), a + draw.choice(["~", "+", "-1", "-0", "a", ".0", "~a"])])
        truth = next(
            (
                order
                for word, order in (("lt", -1), ("gt", 1))
                if subprocess.run(["dpkg", "--compare-versions", a, word, b], check=False).returncode == 0
            ),
            0,
        )
        assert compare_versions(a, b) == truth, (a, b)


def test_a_lenient_host_calls_a_module_that_violates_its_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates call the provider that the agent uses: `interfaces: lenient` applies to them, too."""
    monkeypatch.setattr(Provider, "registered", list(Provider.registered))
    module = types.ModuleType("zloose")
    exec(
        "__virtualname__ = 'pkg'\n"
        "async def list_installed(names=()): return {'tiny': [{'name': 'tiny', 'version': '1'}]}\n"
        "async def hold(package): ...\n",
        module.__dict__,
    )
    register_module(module, lambda _: PkgInterface)
    options = {"providers": {"pkg": "zloose"}, "interfaces": "lenient"}

    assert call("pkg.version", "tiny", options=options) == "1"
