"""The token, and the names that a server by TCP is known by."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.agent.serve.access_control import AccessControl, names_at, token_file
from holdfast.agent.serve.http import HttpError, Request
from holdfast.agent.serve.server import ListenAddress, ServeError, default_place, run_time_path
from holdfast.resources.errors import HoldfastError


def status(access: AccessControl, **headers: str) -> int:
    """Return the status with which a request is refused; 200 if it is not."""
    try:
        access.demand(Request("GET", ("v1",), {}, headers))
    except HttpError as error:
        return error.status
    return 200


def test_the_token_and_the_name_must_be_right() -> None:
    """Names in any case; the port belongs to them."""
    access = AccessControl("abc", names_at(8080, ["holdfast.example"]))
    right = {"authorization": "Bearer abc"}

    assert [status(access, host=name, **right) for name in ("localhost:8080", "LOCALHOST:8080", "[::1]:8080")] == [
        200
    ] * 3
    assert status(access, host="holdfast.example", **right) == 200
    wrong = ("evil.example:8080", "localhost", "localhost:80", "127.0.0.1.evil.example:8080", "localhost:8080.", "")
    assert [status(access, host=name, **right) for name in wrong] == [421] * len(wrong)
    assert status(access, **right) == 421
    for given in ("", "abc", "bearer abc", "Bearer abcd", "Bearer ab", "Basic abc", "Bearer \xe9"):
        assert status(access, host="localhost:8080", authorization=given) == 401
    assert status(access, host="localhost:8080") == 401


def test_the_port_of_http_may_be_left_out() -> None:
    """Browsers leave it out."""
    assert "localhost" in names_at(80, [])


def test_a_socket_has_no_access_control() -> None:
    """The mode of the file says who may connect."""
    assert status(AccessControl(), host="anything") == 200


def test_only_the_user_can_read_the_token(tmp_path: Path) -> None:
    """The file is private from the first byte. The token is new at each start, and removed at the end."""
    path = tmp_path / "token"
    with token_file(path) as token:
        assert path.read_text() == f"{token}\n"
        assert path.stat().st_mode & 0o777 == 0o600
        assert [each.name for each in tmp_path.iterdir()] == ["token"]
    assert not path.exists()
    with token_file(path) as other:
        assert other != token
        assert len(other) >= 40


def test_an_old_token_is_replaced_whoever_may_read_it(tmp_path: Path) -> None:
    """A file that others have opened before is another file."""
    path = tmp_path / "token"
    path.write_text("old")
    path.chmod(0o644)
    with path.open() as before, token_file(path):
        assert before.read() == "old"
        assert path.stat().st_mode & 0o777 == 0o600


def test_a_link_at_the_place_of_the_token_is_replaced_not_followed(tmp_path: Path) -> None:
    """Nothing is written elsewhere."""
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    with token_file(tmp_path / "token"):
        assert not (tmp_path / "elsewhere").exists()
        assert not (tmp_path / "token").is_symlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of other users")
def test_a_place_that_others_can_change_is_refused(tmp_path: Path) -> None:
    """They could put a file there that they can read."""
    tmp_path.chmod(0o777)
    with pytest.raises(HoldfastError, match="cannot write the token"), token_file(tmp_path / "token"):
        pass
    tmp_path.chmod(0o1777)
    (tmp_path / "token").write_text("mine")
    os.chown(tmp_path / "token", 12345, 12345)
    with pytest.raises(HoldfastError, match="belongs to another user"), token_file(tmp_path / "token"):
        pass


def test_a_token_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    """A directory is in the way."""
    (tmp_path / "token").mkdir()
    with pytest.raises(OSError, match="directory"), token_file(tmp_path / "token"):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["token"]


def test_the_default_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systemd's directory, that of the session, or none."""
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1")
    assert run_time_path("token") == Path("/run/user/1/holdfast-serve.token")
    assert default_place() == ListenAddress(Path("/run/user/1/holdfast-serve.http.sock"))
    monkeypatch.setenv("RUNTIME_DIRECTORY", "/run/a:/run/b")
    assert run_time_path("token") == Path("/run/a/token")
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    with pytest.raises(ServeError, match="give --listen, and --token-file for a port"):
        run_time_path("token")


def test_places_to_listen_at() -> None:
    """Paths, and ports of the loopback."""
    assert ListenAddress.of("unix:/run/x/../h.sock") == ListenAddress(Path("/run/h.sock"))
    assert ListenAddress.of("127.0.0.1:8080") == ListenAddress(None, "127.0.0.1", 8080)
    assert ListenAddress.of("[::1]:0") == ListenAddress(None, "::1", 0)


@pytest.mark.parametrize(
    "text",
    ["", "unix:", "8080", "0.0.0.0:8080", "example.org:80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "[::]:80"],
)
def test_other_places_are_refused(text: str) -> None:
    """The token would travel through the network in the clear."""
    with pytest.raises(ValueError, match=r"it is unix:PATH|a path must follow|is not a port"):
        ListenAddress.of(text)
