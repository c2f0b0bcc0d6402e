"""`--states DIR` alone selects other states than those of the host, and then omits the pillar of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent import paths, settings
from holdfast.agent.cli.options import ConfigurationSource


@pytest.fixture
def host(tmp_path: Path, monkeypatch) -> Path:
    """The configuration of a host, with a pillar, and another directory of states."""
    etc = tmp_path / "etc"
    (etc / "pillar").mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    (etc / "agent.yaml").write_text("id: web1\n")
    for path in (tmp_path, etc, etc / "pillar", tmp_path / "mine"):
        path.chmod(0o755)
    (etc / "agent.yaml").chmod(0o644)
    for module in (paths, settings):
        monkeypatch.setattr(module, "CONFIG", etc / "agent.yaml")
    return tmp_path


def test_states_alone_have_no_pillar_of_the_host(host: Path, capsys):
    """A line on stderr says so."""
    found = ConfigurationSource(states=host / "mine").settings()

    assert (found.id, found.pillar) == ("web1", None)
    assert capsys.readouterr().err == "--states alone: without the pillar of this host (--pillar DIR names one)\n"


@pytest.mark.parametrize("more", [{"pillar": "etc/pillar"}, {"config": "etc/agent.yaml"}])
def test_a_pillar_or_settings_named_beside_states_are_used(host: Path, more, capsys):
    """Settings may name a pillar, too."""
    found = ConfigurationSource(states=host / "mine", **{name: host / path for name, path in more.items()}).settings()

    assert found.pillar == host / "etc" / "pillar"
    assert capsys.readouterr().err == ""


def test_unreadable_settings_of_the_host_are_not_used_with_states_alone(host: Path, monkeypatch, capsys):
    """The grains beside these settings are not used, either. Without `--states`, unreadable settings are an error."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("os.access", lambda path, mode: False)

    found = ConfigurationSource(states=host / "mine").settings()
    assert (found.id, found.pillar, found.grains_file) == (None, None, None)
    assert "without the pillar" in capsys.readouterr().err
