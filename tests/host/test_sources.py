"""Sources: every form of URL, for real, and every way in which one cannot be had."""

from __future__ import annotations

import http.server
import os
import threading

import pytest

from holdfast.agent.host import sources
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.sources import Sources
from holdfast.resources.errors import Permanent, Temporary


class Handler(http.server.BaseHTTPRequestHandler):
    """A web server with one page."""

    def do_GET(self) -> None:
        """Serve it."""
        status = {"/page": 200, "/busy": 503}.get(self.path, 404)
        self.send_response(status)
        self.end_headers()
        if status == 200:
            self.wfile.write(b"page")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def web():
    """The address of the server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def tree(tmp_path):
    """Sources of a states directory with one file, beside it one that is not in it."""
    states = tmp_path / "states"
    (states / "app").mkdir(parents=True)
    (states / "app" / "conf").write_text("conf")
    (tmp_path / "outside").write_text("outside")
    return Sources(states, Blocking())


async def test_local_forms(tree, tmp_path):
    """salt://, tree://, file:// and a plain path; `?saltenv=` is no part of the name."""
    assert await tree.read("salt://app/conf") == b"conf"
    assert await tree.read("tree://app/conf?saltenv=base") == b"conf"
    assert await tree.read(f"file://{tmp_path}/outside") == b"outside"
    assert await tree.read(f"{tmp_path}/outside") == b"outside"
    assert tree.local("salt://app/conf") == f"{tmp_path}/states/app/conf"


async def test_large_file(tree, tmp_path):
    """A large file is read whole, in a thread."""
    (tmp_path / "large").write_bytes(b"x" * (3 << 20))
    assert len(await tree.read(f"{tmp_path}/large")) == 3 << 20


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("salt://app/none", "cannot read salt://app/none: .*No such file"),
        ("salt://../outside", "leads out of the states directory"),
        ("salt://", "leads out of the states directory"),
        ("salt://app", "is not a regular file"),
        ("/dev/zero", "is not a regular file"),
        ("ftp://x/y", "write salt://, file://"),
    ],
)
async def test_what_cannot_be_read_says_why(tree, url, told):
    """One line with the URL and the reason; devices are not opened."""
    with pytest.raises(Permanent, match=told):
        await tree.read(url)


async def test_fifo_does_not_block(tree, tmp_path):
    """A fifo is refused, not waited for."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Permanent, match="not a regular file"):
        await tree.read(f"{tmp_path}/fifo")


async def test_http(tree, web, monkeypatch):
    """A page; a missing one is for good, a busy server is not; a password in the query is not shown; size is limited."""
    assert await tree.read(f"{web}/page") == b"page"
    with pytest.raises(Permanent, match=r"/none: the server says 404 Not Found"):
        await tree.read(f"{web}/none?token=secret")
    with pytest.raises(Temporary, match="503"):
        await tree.read(f"{web}/busy")
    monkeypatch.setattr(sources, "LIMIT", 3)
    with pytest.raises(Permanent, match="larger than"):
        await tree.read(f"{web}/page")


async def test_no_server(tree):
    """A refused connection may be better later."""
    with pytest.raises(Temporary, match="refused"):
        await tree.read("http://127.0.0.1:1/x")
