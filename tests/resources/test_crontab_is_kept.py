"""The keeper of the run receives a crontab that the command `crontab` replaces, like files of other kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.resources.kinds import _in_crontab
from holdfast.resources.kinds.cron import EnvPresent
from holdfast.resources.paths.replacing import KEEPER
from holdfast.resources.testing import FakeContext

COMMANDS = {"crontab -u root -l": "", "crontab -u root -": ""}


class Notes:
    """A keeper that notes the paths."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def keep(self, place: object, new: object) -> None:
        """Note an entry."""
        self.kept.append(f"{getattr(place, 'path', '')} {new}")

    def prepare(self, place: object, new: object) -> None:
        """Prepare nothing."""

    def note(self, place: object, info: object) -> None:
        """Do nothing: no owner changes."""


@pytest.mark.parametrize("spool", ["there", "missing"])
async def test_a_crontab_is_kept_before_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spool: str
) -> None:
    """A missing directory of crontabs is not an error: `crontab` creates it."""
    monkeypatch.setattr(_in_crontab, "SPOOL", str(tmp_path / "crontabs"))
    if spool == "there":
        (tmp_path / "crontabs").mkdir()
    notes = Notes()
    token = KEEPER.set(notes)
    try:
        context = FakeContext(tmp_path, commands=COMMANDS)
        await EnvPresent(name="MAILTO", value="root").edit(context, lambda tab: tab)
    finally:
        KEEPER.reset(token)

    assert notes.kept == ([f"{tmp_path}/crontabs/root None"] if spool == "there" else [])
    assert context.calls == list(COMMANDS)
