"""The comparison of public formulas works with formulas that the tests create; nothing is downloaded."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import formulas
import pytest
import yaml
from formulas import LIST, SALT, found, general, read, report, verdicts

from holdfast.resources.case_files import parsed

FILES = {
    "web/init.sls": "include: [web.map]\n",
    "web/map.sls": (
        "{% if pillar.get('strict') %}x: {nowhere.present: []}{% else %}{{ grains.osfinger }}: test.nop{% endif %}\n"
    ),
    "test/kitchen.yml": "not: read",
    "pillar.example": "strict: true\n",
    "web/files/logo.png": b"\x89PNG\xff",
}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with one formula, whose list has three."""
    repository = tmp_path / "shelf" / "web-formula"
    for name, text in FILES.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", "-C", repository, *words], check=True)
    commit = subprocess.run(
        ["git", "-C", repository, "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    (repository / "web/init.sls").write_text("later: [")
    (tmp_path / "shelf" / "other-formula").symlink_to(repository)
    known = tmp_path / "formulas.yaml"
    known.write_text(yaml.safe_dump({"web-formula": commit, "other-formula": "0" * 40, "far-formula": commit}))
    monkeypatch.setattr(formulas, "LIST", known)
    return tmp_path / "shelf"


def test_the_list_names_formulas_by_commit() -> None:
    """The list is sorted and has at least a hundred formulas with full commits, so that all comparisons are equal."""
    known = parsed(LIST.read_text())

    assert len(known) >= 100
    assert list(known) == sorted(known)
    assert all(
        re.fullmatch(r"[\w-]+-formula", name) and re.fullmatch(r"[0-9a-f]{40}", commit)
        for name, commit in known.items()
    )


def test_a_formula_is_read_at_its_commit(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Local changes are ignored. A formula without its commit is left out with a reason; a missing one silently."""
    plain, with_pillar = found(shelf, [])

    assert plain.name == "web-formula"
    assert plain.sls == ("web",)
    assert plain.files["web/init.sls"] == FILES["web/init.sls"]
    assert "test/kitchen.yml" not in plain.files
    assert with_pillar.pillar["example.sls"] == FILES["pillar.example"]
    assert "other-formula: left out: " in capsys.readouterr().err
    assert [tree.name for tree in found(shelf, ["far-formula"])] == []
    with pytest.raises(subprocess.CalledProcessError):
        read(shelf / "web-formula", "0" * 40)


def test_obstacles_of_a_formula_are_counted(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Salt is not used. One tree is ready; another has an unknown state, so the formula is not ready."""
    monkeypatch.setattr(formulas, "SALT", tmp_path / "none")
    judged = list(verdicts([tree.job() for tree in found(shelf, [])], tmp_path / "work"))
    lines = list(report(judged))

    assert [(verdict.salt, bool(verdict.reasons)) for verdict in judged] == [(None, False), (None, True)]
    assert lines[2] == "0 of 1 formulas are ready to apply with Holdfast; these are not: web-formula"
    assert lines[3].startswith("1 of 2 trees are ready")
    assert lines[4:] == [
        "    1  unknown-state (1 of them are stopped by nothing else)",
        "           1  there is no state 'nowhere'",
    ]


@pytest.mark.skipif(not SALT.exists(), reason="no Salt to compare with; scripts/test --salt installs it")
def test_both_compile_each_tree(shelf: Path, tmp_path: Path) -> None:
    """Salt compiles an unknown state, and the low data are equal. Starting Salt takes some seconds."""
    (tmp_path / "work").mkdir()
    judged = list(verdicts([tree.job() for tree in found(shelf, [])], tmp_path / "work"))

    assert [(verdict.salt, verdict.differs) for verdict in judged] == [(True, ""), (True, "")]


@pytest.mark.skipif(not SALT.exists(), reason="no Salt to compare with; scripts/test --salt installs it")
def test_a_difference_at_random_is_no_difference(shelf: Path, tmp_path: Path) -> None:
    """A second run of Salt makes other low data. Starting Salt twice takes some seconds."""
    (tmp_path / "work").mkdir()
    (job, _) = [tree.job() for tree in found(shelf, [])]
    job["files"]["web/map.sls"] = "x{{ range(99999) | random }}{{ range(99999) | random }}: test.nop"
    (verdict,) = verdicts([job], tmp_path / "work")

    assert (verdict.salt, verdict.differs) == (True, None)


def test_messages_are_counted_by_kind() -> None:
    """Names of resources, lines and places differ between states."""
    assert (
        general("file.managed[a] and file.managed[b] (/t/ours/states/x.sls:3:1) differ", Path("/t/ours"))
        == "X and X differ"
    )
    assert general("'name' is duplicated: first in line 7", Path("/t")) == "'name' is duplicated: first in line N"
    assert general("requisites form a cycle: x[a] requires x[b]", Path("/t")) == "requisites form a cycle"
