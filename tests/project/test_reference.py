"""resources/builtin.py, docs/calls.md and the pages of docs/kinds and docs/interfaces agree with the classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.generators import builtin_names, pages, typescript_messages

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_pages_are_fresh() -> None:
    """No page differs from what `scripts/reference` writes, and there are no others."""
    fresh = pages.pages()
    committed = {
        str(path.relative_to(DOCS)): path.read_text(encoding="utf-8")
        for path in (DOCS / "calls.md", *(DOCS / "kinds").iterdir(), *(DOCS / "interfaces").iterdir())
    }

    stale = sorted(name for name in {*fresh, *committed} if fresh.get(name) != committed.get(name))
    assert not stale, "run scripts/reference, and commit what it writes"


def test_the_names_of_kinds_interfaces_and_providers_are_fresh() -> None:
    """The tables name each class of the modules, and no others."""
    committed = (ROOT / "resources/builtin.py").read_text(encoding="utf-8")
    assert committed == builtin_names.written(), "run scripts/reference, and commit what it writes"


def test_the_messages_of_plugins_for_typescript_are_fresh() -> None:
    """The messages equal those of provider.proto."""
    committed = (ROOT / "agent/plugins/typescript/messages.ts").read_text(encoding="utf-8")
    assert committed == typescript_messages.written(), "run scripts/reference, and commit what it writes"


def test_pages_of_what_does_not_exist_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`write` removes the page of a family that does not exist, and writes those that do."""
    monkeypatch.setattr(pages, "pages", lambda: {"kinds/file.md": "new\n"})
    (tmp_path / "kinds").mkdir()
    (tmp_path / "kinds/lamp.md").write_text("old\n")

    pages.write(tmp_path)

    assert {path.name: path.read_text() for path in (tmp_path / "kinds").iterdir()} == {"file.md": "new\n"}
