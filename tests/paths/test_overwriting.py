"""A file that is a mount point, and no other file, is written in place."""

from __future__ import annotations

import os
import stat

import pytest

from holdfast.resources import paths
from holdfast.resources.errors import Permanent
from holdfast.resources.paths import overwriting
from holdfast.resources.paths.handle import Handle
from holdfast.resources.paths.overwriting import is_mounted, overwrite
from watch_backends import mounted

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount files")


@pytest.fixture
def file(tmp_path):
    """Return a file with another one mounted over it."""
    path, other = tmp_path / "hosts", tmp_path / "other"
    path.write_text("below")
    other.write_text("longer than before")
    with mounted(path, "--bind", str(other)):
        yield path


def test_content_mode_and_owner_change_in_place(file):
    """The mounted file keeps its identity, and the file below it keeps its content."""
    inode = file.stat().st_ino
    overwrite(paths.at(str(file)), b"new", mode=0o600, uid=12345, gid=12345, durable=True)

    seen = file.stat()
    assert (file.read_bytes(), seen.st_ino, stat.S_IMODE(seen.st_mode), seen.st_uid) == (b"new", inode, 0o600, 12345)
    assert (file.parent / "other").read_bytes() == b"new"


def test_a_private_file_is_private_before_its_content_is_there(file, monkeypatch):
    """The mode changes before the content is written, so that no user can read a secret."""
    modes = []

    class Noting(Handle):
        """A handle that records the mode at each write."""

        def write(self, data):
            modes.append(stat.S_IMODE(os.fstat(self.fd).st_mode))
            super().write(data)

    monkeypatch.setattr(overwriting, "Handle", Noting)
    file.chmod(0o644)
    overwrite(paths.at(str(file)), b"secret", mode=0o640, durable=False)
    assert (modes, stat.S_IMODE(file.stat().st_mode)) == ([0o640], 0o640)


def test_what_cannot_be_written_is_as_before(file, monkeypatch):
    """A full disk leaves the old content in the file."""

    class Full(Handle):
        """A handle that fails in the middle of the new content."""

        def write(self, data):
            if data == b"new content":
                os.write(self.fd, data[:4])
                raise OSError(28, "No space left on device")
            super().write(data)

    monkeypatch.setattr(overwriting, "Handle", Full)
    file.chmod(0o644)
    with pytest.raises(OSError, match="No space left"):
        overwrite(paths.at(str(file)), b"new content", mode=0o600, durable=False)
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("longer than before", 0o644)


def test_no_other_file_is_written_in_place(tmp_path, file):
    """`overwrite` refuses a file that is no mount point; a file in a user's directory never counts as mounted."""
    plain = tmp_path / "plain"
    plain.write_text("x")
    assert is_mounted(paths.at(str(file)))
    with pytest.raises(Permanent, match="nothing is mounted there"):
        overwrite(paths.at(str(plain)), b"y", mode=0o644, durable=False)
    os.chown(tmp_path, 12345, 12345)
    paths.forget()
    assert not is_mounted(paths.at(str(file)))
    assert plain.read_text() == "x"
