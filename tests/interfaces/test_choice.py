"""How a provider is chosen for a host, and the reasons why others are not."""

from __future__ import annotations

import subprocess

import pytest

from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces import provider, registry
from holdfast.resources.interfaces.base import Interface
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.provider import Confine, Provider
from holdfast_process import COMMAND, SRC, environment


class Plants(Interface, name="plants"):
    """An interface without functions."""


def plant(tool: str, confine: Confine = Confine(), priority: int = 0) -> type[Provider]:  # noqa: B008 - frozen
    """Return a provider of plants."""
    return type(
        tool.title(), (Provider,), {"implements": Plants, "tool": tool, "confine": confine, "priority": priority}
    )


@pytest.fixture
def commands(host, tmp_path, monkeypatch):
    """The only directory in which providers look for commands, on a host of the family of Red Hat."""
    monkeypatch.setattr(provider, "PATH", str(tmp_path))
    host.facts = {"os_family": "RedHat"}
    return tmp_path


def test_the_provider_that_fits_is_chosen(host, providers):
    """Grains, commands and paths decide."""
    plant("oak", Confine(grains={"os_family": ("RedHat",)}))
    plant("ash", Confine(grains={"os_family": ("debian",)}, commands=("sh",), paths=("/",)))

    assert registry.bind(Plants, host).tool == "ash"


def test_priority_decides_among_those_that_fit(host, providers):
    """The highest priority wins."""
    plant("oak")
    plant("ash", priority=1)

    assert registry.bind(Plants, host).tool == "ash"


def test_the_setting_overrides_the_choice(host, providers):
    """The setting holds even if the conditions of the provider do not."""
    plant("oak", Confine(commands=("no-such-command",)))
    plant("ash", priority=1)

    assert registry.bind(Plants, host, "oak").tool == "oak"
    with pytest.raises(Permanent, match="cannot bind plants to elm: there is no such provider; available: ash, oak"):
        registry.bind(Plants, host, "elm")


def test_a_tie_is_an_error(host, providers):
    """Two providers with the same priority are an error."""
    plant("oak")
    plant("ash")

    with pytest.raises(
        Permanent, match=r"ash and oak fit equally well; choose one in agent\.yaml, `providers: {plants: "
    ):
        registry.bind(Plants, host)


def test_refusals_have_reasons(host, providers):
    """If no provider fits, the error gives the reason of each."""
    plant("oak", Confine(grains={"os_family": ("RedHat", "Suse")}))
    plant("ash", Confine(commands=("no-such-command",), paths=("/no/such/path",)))
    plant("elm", Confine(paths=("/no/such/path",), missing="it is winter"))

    with pytest.raises(Permanent) as refusal:
        registry.bind(Plants, host)
    assert str(refusal.value) == (
        "cannot manage plants: no provider works on this host "
        "(ash: there is no command no-such-command, there is no /no/such/path; elm: it is winter; oak: "
        "os_family is Debian, not RedHat or Suse)"
    )


@pytest.mark.parametrize(
    ("programs", "link", "chosen"),
    [
        ("dnf-3", "dnf-3", "dnf"),
        ("dnf5", "dnf5", "dnf5"),
        ("dnf-3 dnf5", "dnf-3", "dnf"),
        ("dnf-3 dnf5", "dnf5", "dnf5"),
        ("dnf-3 dnf5 wrapper", "wrapper", "dnf5"),
        ("dnf-3", "", "dnf"),
    ],
    ids=["only 4", "only 5", "5 added", "4 added", "a program of the site", "no dnf"],
)
def test_of_two_versions_of_dnf_that_of_the_command_dnf_is_chosen(host, commands, programs, link, chosen):
    """The link of the distribution's package decides, because users of the host use that version."""
    for name in ("rpm", *programs.split()):
        (commands / name).touch(0o755)
    if link:
        (commands / "dnf").symlink_to(link)

    choice = registry.choose(PkgInterface, host)

    assert choice.offer.tool == chosen
    if programs == "dnf-3 dnf5":
        assert choice.refused["dnf5" if chosen == "dnf" else "dnf"] == [f"dnf is {link}"]


def test_an_unknown_module_gets_the_nearest_name(providers):
    """The error names the nearest virtual module."""
    plant("oak")

    with pytest.raises(
        Permanent, match=r"cannot bind plant: no provider serves such an interface; did you mean plants\?"
    ):
        registry.demand("plant")


@pytest.mark.parametrize(
    ("name", "tool"),
    [("pkg", "apt"), ("service", "systemd"), ("user", "shadow"), ("group", "shadow")],
    ids=["pkg", "service", "user", "group"],
)
def test_builtin_providers_implement_their_interfaces(host, name, tool):
    """Each binds strictly, and implements everything that its interface promises for its platform."""
    bound = registry.bind(registry.demand(name), host, tool)

    states = {entry.function: entry.row.state for entry in bound.describe()}
    assert set(states.values()) <= {"provided", "not supported"}, states
    assert [fields for level, _, fields in host.log.lines if level != "debug"] == []


def test_providers_of_other_distributions_are_found_and_a_broken_one_is_refused(tmp_path):
    """Entry points of the group `holdfast.providers` name them.

    The others can be used, and `describe` shows the error.
    """
    info = tmp_path / "zdist-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zdist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[holdfast.providers]\nzgood = zgood\nzbad = zbad\n")
    (tmp_path / "zgood.py").write_text(
        "from holdfast.resources.interfaces.pkg import PkgInterface\n__interface__ = PkgInterface\n__priority__ = 9\n"
    )
    (tmp_path / "zbad.py").write_text("import nonesuch\n")
    (tmp_path / "agent.yaml").write_text(f"state_dir: {tmp_path}/state\n")
    env = {**environment(), "PYTHONPATH": f"{SRC}:{tmp_path}"}
    command = [*COMMAND, "describe", "pkg", "--config", str(tmp_path / "agent.yaml")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)

    assert "\nprovider zgood: " in done.stdout
    assert "\nnot zbad: zbad cannot be loaded: ModuleNotFoundError: No module named 'nonesuch'\n" in done.stdout
