"""Sources have several forms of URL, and can be unavailable in several ways."""

from __future__ import annotations

import asyncio
import http.server
import os
import resource
import socket
import threading
from types import SimpleNamespace

import pytest

from deadline import DEADLINE
from holdfast.agent.host import sources
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.downloads import Downloads
from holdfast.agent.host.host import LocalHost
from holdfast.agent.host.source_snapshot import SnapshotBuilder, SourceKey
from holdfast.agent.host.source_store import SourceStore
from holdfast.agent.host.sources import Sources
from holdfast.resources import paths
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.paths import place


class Handler(http.server.BaseHTTPRequestHandler):
    """A web server with one page."""

    def do_GET(self) -> None:
        """Serve the page."""
        status = {"/page": 200, "/half": 200, "/busy": 503}.get(self.path, 404)
        self.send_response(status)
        if self.path == "/half":
            self.send_header("Content-Length", "10")
        self.end_headers()
        if status == 200:
            self.wfile.write(b"page")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def web():
    """Yield the address of the server."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def tree(tmp_path):
    """Return the sources of a states directory with one file; another file lies beside the directory."""
    states = tmp_path / "states"
    (states / "app").mkdir(parents=True)
    (states / "app" / "conf").write_text("conf")
    (tmp_path / "outside").write_text("outside")
    return Sources(states, Blocking(), Downloads(str(tmp_path / "state"), Blocking(), durable=False))


async def test_a_lack_of_descriptors_is_temporary(tree):
    """A shortage of descriptors ends by itself."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(Temporary, match="Too many open files"):
            await tree.read("salt://app/conf")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def test_copies_are_made_and_read_in_a_thread(tree, tmp_path, monkeypatch):
    """Small sources, too, are copied in a thread at their first use, and read in a thread when the file has changed."""
    threads = {"put": [], "get": []}

    def note(name):
        real = getattr(SourceStore, name)

        def noting(*args):
            threads[name].append(threading.current_thread())
            return real(*args)

        monkeypatch.setattr(SourceStore, name, noting)

    note("put")
    note("get")
    async with tree.taken_over((), tree.states, SourceStore(str(tmp_path))):
        assert await tree.read("salt://app/conf", user="a") == b"conf"
        (tree.states / "app/conf").write_text("another")
        assert await tree.read("salt://app/conf", user="a") == b"conf"
        (tree.states / "app/conf").unlink()
        assert await tree.read("salt://app/conf", user="a") == b"conf"
    assert (len(threads["put"]), len(threads["get"])) == (1, 2)
    assert threading.current_thread() not in threads["put"] + threads["get"]


async def test_a_state_that_reads_a_new_source_during_a_check_does_not_delay_the_new_states(tree, tmp_path):
    """A state that reads a source for the first time while sources are checked does not delay the swap."""
    store = SourceStore(str(tmp_path))
    async with tree.taken_over((), tree.states, store) as first:
        await tree.read("salt://app/conf", user="a")
        await tree.read("salt://app/conf", user="b")

    def open_while_another_state_reads(path, trusted):
        first.read(SourceKey("app/conf"), "c", lambda: sources.opened(path, trusted))
        return sources.opened(path, trusted)

    calls = [SimpleNamespace(identity=name, resource=None) for name in "ab"]
    snapshot = SnapshotBuilder(str(tree.states), store, first, None, open_while_another_state_reads).snapshot(
        calls, lambda _: None
    )
    assert snapshot.pins.keys() == {SourceKey("app/conf")}


async def test_local_forms(tree, tmp_path):
    """salt://, tree://, file:// and a plain path are understood; `?saltenv=` is not part of the name."""
    assert await tree.read("salt://app/conf") == b"conf"
    assert await tree.read("tree://app/conf?saltenv=base") == b"conf"
    assert await tree.read(f"file://{tmp_path}/outside") == b"outside"
    assert await tree.read(f"{tmp_path}/outside") == b"outside"
    assert tree.local("salt://app/conf") == f"{tmp_path}/states/app/conf"


async def test_large_file(tree, tmp_path):
    """A large file is read completely, in a thread."""
    (tmp_path / "large").write_bytes(b"x" * (3 << 20))
    assert len(await tree.read(f"{tmp_path}/large")) == 3 << 20


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("/nonexistent/x", "^cannot read /nonexistent/x: No such file"),
        ("salt://app/none", "cannot read salt://app/none: .*No such file"),
        ("salt://../outside", "leads out of the states directory"),
        ("salt://", "leads out of the states directory"),
        ("salt://app", "is not a regular file"),
        ("/dev/zero", "is not a regular file"),
        ("ftp://x/y", "write salt://, file://"),
        ("http://[half/x", r"cannot read http://\[half/x: it is not a proper URL"),
        ("http://127.0.0.1:1/ü", "it is not a proper URL"),
        ("http://127.0.0.1:1/a b", "it is not a proper URL"),
        ("https://me:hidden@[x/y?key=hidden", r"^cannot read https://\[x/y: it is not a proper URL"),
    ],
)
async def test_a_source_that_cannot_be_read_reports_the_reason(tree, url, told):
    """The error is one line with the URL and the reason; devices are not opened."""
    with pytest.raises(Permanent, match=told):
        await tree.read(url)


async def test_a_fifo_is_refused(tree, tmp_path):
    """Reading a fifo does not block."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Permanent, match="not a regular file"):
        await tree.read(f"{tmp_path}/fifo")


async def test_a_fifo_that_replaces_a_source_does_not_block(tmp_path, monkeypatch):
    """A user who can write the directory of a source cannot block the agent by exchanging it after the check."""
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    looked_at = os.lstat(tmp_path / "file")
    monkeypatch.setattr(place.os, "lstat", lambda *_, **__: looked_at)
    with pytest.raises(Permanent, match="not a regular file"):
        await asyncio.wait_for(asyncio.to_thread(paths.at(str(tmp_path / "fifo")).read), DEADLINE)


async def test_http(tree, web, monkeypatch):
    """A missing page is a permanent error, a busy server a temporary one. The size is limited.

    A password in the query is not shown.
    """
    assert await tree.read(f"{web}/page") == b"page"
    with pytest.raises(Permanent, match=r"/none: the server says 404 Not Found"):
        await tree.read(f"{web}/none?token=secret")
    with pytest.raises(Temporary, match="503"):
        await tree.read(f"{web}/busy")
    monkeypatch.setattr(sources, "LIMIT", 3)
    with pytest.raises(Permanent, match="larger than"):
        await tree.read(f"{web}/page")


async def test_a_refused_connection_is_temporary(tree):
    """A refused connection is a temporary error."""
    with pytest.raises(Temporary, match="refused"):
        await tree.read("http://127.0.0.1:1/x")


@pytest.mark.parametrize("where", ["app/conf", "app", "."])
async def test_a_source_that_others_can_write_is_refused(tree, tmp_path, where):
    """Files of the states directory, and their directories, must be trusted as state files are.

    Other sources need not be.
    """
    path = tmp_path / "states" / where
    path.chmod(0o777)
    with pytest.raises(Permanent, match=r"cannot read salt://app/conf: .*anyone may write it; chmod o-w") as refusal:
        await tree.read("salt://app/conf")

    assert str(path) in str(refusal.value)
    assert await tree.read(f"{tmp_path}/states/app/conf") == b"conf"


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
async def test_a_source_that_another_user_owns_is_refused(tree, tmp_path):
    """The owner of a file can always write it."""
    os.chown(tmp_path / "states/app/conf", 1234, 1234)
    with pytest.raises(Permanent, match="belongs to uid 1234, which is not trusted"):
        await tree.read("salt://app/conf")


async def test_slow_downloads_do_not_delay_the_disk(tmp_path):
    """While a server that hangs occupies all downloads, a file is still written durably."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with LocalHost(states=tmp_path, var_dir=tmp_path / "var") as host:
            ctx = host.context("x")
            url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
            waiting = [asyncio.create_task(ctx.source(url)) for _ in range(8)]
            for _ in range(3):
                await asyncio.sleep(0)
            async with asyncio.timeout(DEADLINE):
                await ctx.write_file(str(tmp_path / "f"), b"there", mode=0o600)
            assert (tmp_path / "f").read_bytes() == b"there"
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            silent.close()


async def test_an_incomplete_download_is_an_error(tree, web):
    """A connection that ends too early is not taken for the end of the file."""
    with pytest.raises(Temporary, match=r"/half: .*6 bytes too early"):
        await tree.read(f"{web}/half")
