"""`--states DIR` alone: other states than those of the host, without its pillar, whoever asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent import paths, settings
from holdfast.agent.cli.options import ConfigurationSource


@pytest.fixture
def host(tmp_path: Path, monkeypatch) -> Path:
    """The configuration of a host, with a pillar and grains; and other states beside it."""
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
    """And that is said."""
    found = ConfigurationSource(states=host / "mine").settings()

    assert (found.id, found.pillar) == ("web1", None)
    assert capsys.readouterr().err == "--states alone: without the pillar of this host (--pillar DIR names one)\n"


@pytest.mark.parametrize("more", [{"pillar": "etc/pillar"}, {"config": "etc/agent.yaml"}])
def test_what_is_named_is_used(host: Path, more, capsys):
    """A pillar, or settings that name one."""
    found = ConfigurationSource(states=host / "mine", **{name: host / path for name, path in more.items()}).settings()

    assert found.pillar == host / "etc" / "pillar"
    assert capsys.readouterr().err == ""


def test_settings_that_the_user_may_not_read_are_not_missed(host: Path, monkeypatch, capsys):
    """Nor the grains beside them; without --states they are."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("os.access", lambda path, mode: False)

    found = ConfigurationSource(states=host / "mine").settings()
    assert (found.id, found.pillar, found.grains_file) == (None, None, None)
    assert "without the pillar" in capsys.readouterr().err
