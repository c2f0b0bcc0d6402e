"""Small configuration files are replaced whole, and only where no other user can interfere."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.resources.errors import Permanent
from holdfast.resources.paths import Unsafe
from holdfast.resources.providers._config_files import list_config, read_config, remove_config, write_config
from holdfast.resources.temporaries import OWN


def test_a_file_is_written_read_and_removed(tmp_path: Path):
    """Missing directories are created. A missing file reads as None, and its removal is not an error."""
    file = tmp_path / "a/b/toy.list"
    assert (read_config(file), list_config(file.parent)) == (None, [])
    remove_config(file)

    write_config(file, "one\n")
    write_config(file, "two\n", 0o600)

    assert (read_config(file), file.stat().st_mode & 0o777) == ("two\n", 0o600)
    assert list_config(file.parent) == ["toy.list"]
    remove_config(file)
    assert list_config(file.parent) == []
    assert not OWN


def test_a_link_is_replaced(tmp_path: Path):
    """The target of the link stays as it is."""
    (tmp_path / "other").write_text("other")
    (tmp_path / "toy.list").symlink_to(tmp_path / "other")

    write_config(tmp_path / "toy.list", "new")

    assert not (tmp_path / "toy.list").is_symlink()
    assert (tmp_path / "other").read_text() == "other"


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_directory_that_others_can_write_is_refused(tmp_path: Path, mode: int):
    """Nothing is written, read or removed there."""
    (tmp_path / "shared").mkdir()
    file = tmp_path / "shared/toy.list"
    file.write_text("old")
    (tmp_path / "shared").chmod(mode)

    for use in (read_config, remove_config, lambda file: write_config(file, "new")):
        with pytest.raises(Unsafe, match=r"toy\.list"):
            use(file)
    assert file.read_text() == "old"
    assert list_config(file.parent) == ["toy.list"]


def test_system_errors_name_the_file(tmp_path: Path):
    """The error for a directory in place of the file has its path."""
    (tmp_path / "toy.list/x").mkdir(parents=True)

    for verb, use in (("write", lambda file: write_config(file, "new")), ("remove", remove_config)):
        with pytest.raises(Permanent, match=f"cannot {verb} .*/toy.list: Is a directory"):
            use(tmp_path / "toy.list")
    assert list_config(tmp_path) == ["toy.list"], "no temporary is left"
