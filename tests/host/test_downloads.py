"""Downloads are complete, have the declared hash, and are bounded and resumed, whatever the server does."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import ssl
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certificates import make_certificates
from deadline import DEADLINE
from holdfast.agent.host import download_cache, transfer
from holdfast.agent.host.blocking import Blocking
from holdfast.agent.host.downloads import Downloads
from holdfast.agent.host.host import LocalHost
from holdfast.resources.downloads import Digest, DownloadBounds, WrongDigest, slices
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.kinds.file.managed import Managed
from hostile_server import serving

BODY = bytes(range(256)) * 4096
"""1 MiB."""
SHA = hashlib.sha256(BODY).hexdigest()
OLD = {"Last_Modified": "Mon, 01 Jan 2024 00:00:00 GMT", "Date": "Mon, 01 Jan 2024 00:02:00 GMT"}


def downloads(tmp_path):
    """Return the downloads of a state directory."""
    return Downloads(str(tmp_path / "state"), Blocking(4), durable=False)


async def fetch(from_, url, digest=None, told=None, **bounds):
    """Fetch a URL within small limits."""
    limits = DownloadBounds(**{"size": 2 << 20, "stall": DEADLINE, "total": DEADLINE, **bounds})
    return await from_.fetch(url, digest, limits, (told if told is not None else []).append)


def content(fetched):
    """Return all bytes of a download."""
    return b"".join(slices(fetched.handle))


def left(tmp_path):
    """Return the names of the files in the cache."""
    top = tmp_path / "state" / "downloads"
    return sorted(path.suffix for path in top.iterdir() if path.name != "lock") if top.exists() else []


def cutting(*cuts, etag='"1"', **options):
    """Return a handler that ends the connection after this number of bytes of the body, for each request in turn."""
    rest = list(cuts)

    def handle(asked):
        start = int(asked.headers["range"][6:-1]) if "range" in asked.headers else 0
        if start and asked.headers["if-range"] != etag:
            start = 0
        cut = rest.pop(0) if rest else len(BODY)
        head = f"Content-Length: {len(BODY) - start}\r\n"
        head += f"Content-Range: bytes {start}-{len(BODY) - 1}/{len(BODY)}\r\n" if start else ""
        head += f"ETag: {etag}\r\n" if etag else ""
        asked.send(f"HTTP/1.1 {'206 P' if start else '200 OK'}\r\n{head}\r\n".encode() + BODY[start:][:cut])

    return handle


async def test_a_file_is_private_and_whole(tmp_path):
    """Only the agent can read the file, and the recorded hash and size are correct."""
    with serving(lambda asked: asked.answer("200 OK", BODY)) as server:
        fetched = await fetch(downloads(tmp_path), f"{server.url}/x")
    assert (fetched.size, fetched.sha256) == (len(BODY), SHA)
    assert content(fetched) == fetched.read() == Path(fetched.path).read_bytes() == BODY
    assert os.fstat(fetched.handle.fd).st_mode & 0o777 == 0o600
    assert (tmp_path / "state/downloads").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("validator", [{"ETag": '"a"'}, {"ETag": 'W/"a"'}, OLD])
async def test_a_recheck_of_current_content_is_one_small_request(tmp_path, validator):
    """The request has the server's validator, and the answer 304 means that the content is current."""

    def handle(asked):
        known = asked.headers.get("if-none-match") or asked.headers.get("if-modified-since")
        asked.answer("304 Not Modified" if known else "200 OK", b"" if known else BODY, **validator)

    with serving(handle) as server:
        mine = downloads(tmp_path)
        await fetch(mine, server.url)
        assert content(await fetch(downloads(tmp_path), server.url)) == BODY
        assert await mine.is_current(server.url, SHA, DownloadBounds())
        assert not await mine.is_current(server.url, "0" * 64, DownloadBounds())
    assert [bool({"if-none-match", "if-modified-since"} & asked.headers.keys()) for asked in server.asked] == [
        False,
        True,
        True,
    ]


async def test_a_recent_modification_time_is_no_validator(tmp_path):
    """Content that may have changed in the same second as before is fetched again."""
    given = {"Last_Modified": OLD["Date"], "Date": OLD["Date"]}
    with serving(lambda asked: asked.answer("200 OK", BODY, **given)) as server:
        await fetch(downloads(tmp_path), server.url)
        await fetch(downloads(tmp_path), server.url)
    assert not any("if-modified-since" in asked.headers for asked in server.asked)


async def test_content_with_the_declared_hash_is_not_asked_for_again(tmp_path):
    """The cache is used for a hash of any algorithm."""
    with serving(lambda asked: asked.answer("200 OK", BODY)) as server:
        await fetch(downloads(tmp_path), server.url, Digest("sha256", SHA))
        await fetch(downloads(tmp_path), server.url, Digest("md5", hashlib.md5(BODY).hexdigest()))
        await fetch(downloads(tmp_path), server.url, Digest("sha256", SHA))
    assert len(server.asked) == 1


async def test_a_broken_transfer_is_continued(tmp_path):
    """Each further request asks for the rest of the same version."""
    with serving(cutting(1000, 200_000)) as server:
        fetched = await fetch(downloads(tmp_path), server.url, Digest("sha256", SHA))
    assert content(fetched) == BODY
    assert [asked.headers.get("range") for asked in server.asked] == [None, "bytes=1000-", "bytes=201000-"]
    assert {asked.headers.get("if-range") for asked in server.asked[1:]} == {'"1"'}


@pytest.mark.parametrize("etag", ["", 'W/"1"'])
async def test_without_a_strong_validator_a_broken_transfer_begins_anew(tmp_path, etag):
    """Two versions of the content are never mixed."""
    with serving(cutting(1000, etag=etag)) as server:
        assert content(await fetch(downloads(tmp_path), server.url)) == BODY
    assert [asked.headers.get("range") for asked in server.asked] == [None, None]


@pytest.mark.parametrize(
    "answer",
    [
        ("206 Partial Content", {"Content_Range": f"bytes 5-{len(BODY) - 1}/{len(BODY)}"}),
        ("206 Partial Content", {"Content_Range": f"bytes 1000-{len(BODY) - 1}/{len(BODY) + 1}"}),
        ("206 Partial Content", {"Content_Range": f"bytes 1000-{len(BODY) - 1}/{len(BODY)}", "ETag": '"2"'}),
        ("206 Partial Content", {}),
        ("416 Range Not Satisfiable", {}),
        ("304 Not Modified", {}),
    ],
)
async def test_an_answer_that_is_not_the_rest_is_not_used(tmp_path, answer):
    """A wrong part makes the transfer begin anew."""

    def handle(asked):
        if len(server.asked) == 1:
            asked.answer("200 OK", BODY[:1000], Content_Length=len(BODY), ETag='"1"')
        elif "range" in asked.headers:
            asked.answer(answer[0], b"" if answer[0][0] in "34" else b"wrong", **answer[1])
        else:
            asked.answer("200 OK", BODY)

    with serving(handle) as server:
        assert content(await fetch(downloads(tmp_path), server.url)) == BODY
    assert len(server.asked) == 3


def test_what_a_killed_agent_has_left_is_continued_and_never_taken_for_whole(tmp_path):
    """After SIGKILL in the middle, the next agent asks for the rest."""

    def handle(asked):
        if len(server.asked) == 1:
            asked.answer("200 OK", BODY[:300_000], Content_Length=len(BODY), ETag='"1"')
            asked.gone()
        else:
            cutting()(asked)

    program = """
        import asyncio, sys
        from holdfast.agent.host import transfer
        from holdfast.agent.host.blocking import Blocking
        from holdfast.agent.host.downloads import Downloads
        from holdfast.resources.downloads import DownloadBounds
        transfer.REPORT = transfer.RARELY = -1
        mine = Downloads(sys.argv[1], Blocking(4), durable=False)
        asyncio.run(mine.fetch(sys.argv[2], None, DownloadBounds(), lambda text: print(text, flush=True)))
    """

    async def next_agent():
        mine = downloads(tmp_path)
        assert not await mine.is_current(server.url, SHA, DownloadBounds())
        assert content(await fetch(mine, server.url)) == BODY

    with serving(handle) as server:
        words = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "state"), server.url]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline().endswith(" %)\n")
            process.send_signal(signal.SIGKILL)
        (part,) = (tmp_path / "state/downloads").glob("*.data")
        size = part.stat().st_size
        asyncio.run(next_agent())
    assert size > 0
    assert server.asked[-1].headers["range"] == f"bytes={size}-"


async def test_a_part_of_another_boot_is_not_continued(tmp_path, monkeypatch):
    """A power failure may have left holes in the part."""
    with serving(cutting(1000, 0)) as server:
        with pytest.raises(Temporary, match="bytes too early"):
            await fetch(downloads(tmp_path), server.url)
        assert left(tmp_path) == [".data", ".json"]
        monkeypatch.setattr(download_cache, "boot", lambda: "another")
        assert content(await fetch(downloads(tmp_path), server.url)) == BODY
    assert "range" not in server.asked[-1].headers


async def test_a_cached_file_that_was_changed_is_fetched_again(tmp_path):
    """The recorded description fits exactly one file."""
    with serving(lambda asked: asked.answer("200 OK", BODY, ETag='"1"')) as server:
        await fetch(downloads(tmp_path), server.url, Digest("sha256", SHA))
        (data,) = (tmp_path / "state/downloads").glob("*.data")
        with data.open("r+b") as file:
            file.write(b"changed")
        assert content(await fetch(downloads(tmp_path), server.url, Digest("sha256", SHA))) == BODY
    assert "if-none-match" not in server.asked[-1].headers


async def test_a_wrong_hash_is_refused_and_leaves_nothing(tmp_path):
    """The error has both hashes; the next attempt starts from the beginning."""
    with serving(lambda asked: asked.answer("200 OK", BODY, ETag='"1"')) as server:
        for _ in range(2):
            with pytest.raises(WrongDigest, match=f"its sha256 is {SHA}, but source_hash says 00"):
                await fetch(downloads(tmp_path), f"{server.url}/x?token=hidden", Digest("sha256", "0" * 64))
            assert left(tmp_path) == []
    assert all("if-none-match" not in asked.headers for asked in server.asked)


@pytest.mark.parametrize(("length", "told"), [(len(BODY) + 1, "bytes too early"), (3 << 20, "larger than 2 MiB")])
async def test_a_length_that_is_too_great_is_refused(tmp_path, length, told):
    """A part does not count as the whole, and no byte of content that is too large is read."""
    server = serving(lambda asked: asked.answer("200 OK", BODY, Content_Length=length))
    with server as at, pytest.raises(HoldfastError, match=told):
        await fetch(downloads(tmp_path), at.url)
    assert left(tmp_path) == []


async def test_endless_content_ends_at_the_limit_and_leaves_nothing(tmp_path):
    """The declared size stops it."""

    def handle(asked):
        asked.send(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            asked.send(BODY)

    with serving(handle) as server, pytest.raises(Permanent, match="larger than 2 MiB"):
        await fetch(downloads(tmp_path), server.url)
    assert left(tmp_path) == []


async def test_a_silent_server_ends_the_download(tmp_path):
    """The download fails after the declared time without data."""
    with serving(lambda asked: asked.gone()) as server, pytest.raises(Temporary, match="sent nothing for too long"):
        await fetch(downloads(tmp_path), server.url, stall=0.1)


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n"])
async def test_a_slow_server_ends_the_download(tmp_path, head):
    """The download fails after the declared total time, also in the header. Other downloads continue."""

    def handle(asked):
        asked.send(head)
        while True:
            asked.send(b".")
            asked.connection.settimeout(0.02)
            try:
                if not asked.connection.recv(1):
                    return
            except TimeoutError:
                continue

    with serving(handle) as server, pytest.raises(Temporary, match=r"not complete after 0\.3 s"):
        await fetch(downloads(tmp_path), server.url, total=0.3)


async def test_a_cancelled_download_closes_its_connection(tmp_path):
    """The thread does not wait for the server."""
    gone, asked = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def handle(request):
        loop.call_soon_threadsafe(asked.set)
        request.gone()
        loop.call_soon_threadsafe(gone.set)

    with serving(handle) as server:
        task = asyncio.create_task(fetch(downloads(tmp_path), server.url))
        await asyncio.wait_for(asked.wait(), DEADLINE)
        task.cancel()
        await asyncio.wait_for(gone.wait(), DEADLINE)


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("/again", "redirects more than 5 times"),
        ("file:///etc/shadow", "redirects to an address that is not used"),
        ("ftp://127.0.0.1/x", "redirects to an address that is not used"),
        ("http://me:secret@127.0.0.1/x", "redirects to an address that is not used"),
        ("http://[half/", "redirects to an address that is not used"),
        ("", "redirects to an address that is not used"),
    ],
)
async def test_a_redirect_that_is_not_followed(tmp_path, location, told):
    """The number of redirects is limited; no redirect leads to a local file, and its body is not read."""

    def handle(asked):
        asked.send(f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 99999999999\r\n\r\n".encode())
        asked.gone()

    with serving(handle) as server, pytest.raises(Permanent, match=told):
        await fetch(downloads(tmp_path), server.url)
    assert len(server.asked) == (6 if location == "/again" else 1)


async def test_a_password_goes_to_its_server_alone(tmp_path):
    """The password is a header of one request, and is in no other request, message or file."""
    with serving(lambda asked: asked.answer("404 Not Found")) as other:

        def handle(asked):
            asked.answer("307 Moved", Location=f"{other.url}/there" if asked.path == "/second" else "/second")

        with serving(handle) as server, pytest.raises(Permanent) as refused:
            await fetch(downloads(tmp_path), f"http://me:p%40ss@127.0.0.1:{server.port}/first?token=hidden")
    assert str(refused.value) == f"cannot read http://127.0.0.1:{server.port}/first: the server says 404 Not Found"
    assert [asked.headers.get("authorization") for asked in server.asked] == ["Basic bWU6cEBzcw=="] * 2
    assert [asked.headers.get("authorization") for asked in other.asked] == [None]


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """Return the TLS context of a server, whose authority is trusted through the environment."""
    directory = make_certificates(tmp_path_factory.mktemp("tls"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(directory / "own.pem", directory / "own.key")
    return directory, context


async def test_tls(tmp_path, tls, monkeypatch):
    """A trusted authority is accepted, an unknown one refused. Content without a length must end as TLS requires."""
    directory, context = tls

    def handle(asked):
        if asked.path == "/plain":
            asked.answer("302 Found", Location=f"http://127.0.0.1:{server.port}/")
        asked.answer("200 OK", BODY, close=asked.path != "/whole")
        if asked.path == "/cut":
            raise ConnectionError

    with serving(handle, context) as server:
        with pytest.raises(Temporary, match="certificate verify failed"):
            await fetch(downloads(tmp_path), f"{server.url}/whole")
        monkeypatch.setenv("SSL_CERT_FILE", str(directory / "ca.pem"))
        assert content(await fetch(downloads(tmp_path), f"{server.url}/whole")) == BODY
        assert content(await fetch(downloads(tmp_path), f"{server.url}/closed")) == BODY
        with pytest.raises(Temporary, match="EOF"):
            await fetch(downloads(tmp_path), f"{server.url}/cut")
        with pytest.raises(Permanent, match="redirects to http, which is not protected"):
            await fetch(downloads(tmp_path), f"{server.url}/plain")


async def test_the_proxy_of_the_environment_is_used(tmp_path, monkeypatch):
    """`http_proxy` and `no_proxy` decide about the proxy."""
    monkeypatch.setenv("no_proxy", "")
    with serving(lambda asked: asked.answer("200 OK", BODY)) as server:
        monkeypatch.setenv("http_proxy", server.url)
        assert content(await fetch(downloads(tmp_path), "http://holdfast.invalid/x")) == BODY
    assert server.asked[0].path == "http://holdfast.invalid/x"


async def test_a_url_is_fetched_once_for_all_that_wait(tmp_path):
    """The second resource uses the content that the first one has fetched."""
    with serving(lambda asked: asked.answer("200 OK", BODY)) as server:
        mine, digest = downloads(tmp_path), Digest("sha256", SHA)
        found = await asyncio.gather(*(fetch(mine, server.url, digest) for _ in range(5)))
    assert [content(each) == BODY for each in found] == [True] * 5
    assert len(server.asked) == 1


async def test_two_agents_do_not_disturb_each_other(tmp_path):
    """While another process fetches a URL, this process fetches it separately, and leaves no files."""
    with serving(lambda asked: asked.answer("200 OK", BODY, ETag='"1"')) as server:
        mine = downloads(tmp_path)
        with mine._cache.entry(server.url) as entry:
            entry.begin(download_cache.KnownContent(etag='"1"'))
            entry.write(b"of the other")
            fetched = await fetch(mine, server.url)
        assert content(fetched) == content(await fetch(mine, server.url)) == BODY
    assert left(tmp_path) == [".data", ".json"]


async def test_the_cache_is_bounded(tmp_path, monkeypatch):
    """The least recently used content is removed; open files stay usable, and the descriptions stay."""
    monkeypatch.setattr(download_cache, "BYTES", 2 << 20)
    monkeypatch.setattr(download_cache, "ENTRIES", 3)

    def handle(asked):
        same = "if-none-match" in asked.headers
        asked.answer("304 Not Modified" if same else "200 OK", b"" if same else BODY, ETag='"1"')

    with serving(handle) as server:
        mine = downloads(tmp_path)
        found = [await fetch(mine, f"{server.url}/{number}") for number in range(5)]
        assert [content(each) == BODY for each in found] == [True] * 5
        assert left(tmp_path) == [".data", ".data", ".json", ".json", ".json"]
        assert [await mine.is_current(f"{server.url}/{number}", SHA, DownloadBounds()) for number in range(5)] == [
            False,
            False,
            True,
            True,
            True,
        ]
        assert content(await fetch(mine, f"{server.url}/2")) == BODY


async def test_content_that_is_not_to_be_kept_is_dropped(tmp_path):
    """The file has no name any more, but the caller can still use it."""
    with serving(lambda asked: asked.answer("200 OK", BODY)) as server:
        fetched = await downloads(tmp_path).fetch(server.url, None, DownloadBounds(), print, keep=False)
    assert (content(fetched), left(tmp_path)) == (BODY, [".json"])


@pytest.fixture
def full(tmp_path):
    """Make the state directory a file system of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    state = tmp_path / "state"
    state.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "none", state], check=True)
    yield
    subprocess.run(["umount", "-l", state], check=True)


@pytest.mark.usefixtures("full")
async def test_a_full_disk(tmp_path):
    """The download fails with a temporary error, and frees the space that it used."""
    server, told = serving(lambda asked: asked.answer("200 OK", BODY, ETag='"1"')), "the free space on the disk"
    with server as at, pytest.raises(Temporary, match=rf"cannot keep http://[^ ]+: {told}"):
        await fetch(downloads(tmp_path), at.url)
    assert left(tmp_path) == []


async def test_progress_is_told(tmp_path, monkeypatch):
    """A long download reports its progress."""
    monkeypatch.setattr(transfer, "REPORT", -1.0)
    told = []
    with serving(lambda asked: asked.answer("200 OK", BODY)) as server:
        await fetch(downloads(tmp_path), f"{server.url}/x?token=hidden", told=told)
    await asyncio.sleep(0)
    assert told[0].startswith(f"{server.url}/x: ")
    assert told[0].endswith("%)")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://me:hidden@x/a b?hidden", "cannot read http://x/a b: it is not a proper URL: it contains ' '"),
        ("http://me:hidden@x:port/?hidden", "cannot read http://x:port/: it is not a proper URL"),
        ("http://me:hidden@[half/?hidden", r"cannot read http://\[half/: it is not a proper URL"),
        ("http:///x", "it has no host"),
        ("http://x/\r\nHost: y", "it is not a proper URL"),
    ],
)
async def test_an_improper_url_is_refused_without_its_secrets(tmp_path, url, told):
    """The message names the mistake, and contains neither user nor query."""
    with pytest.raises(Permanent, match=told) as refused:
        await fetch(downloads(tmp_path), url)
    assert "hidden" not in str(refused.value)


ANSWERS = st.tuples(
    st.sampled_from(
        ["whole", "whole", "cut", "changed", "weak", "ignores range", "wrong range", "416", "500", "hangs up"]
    ),
    st.integers(0, 40),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(ANSWERS, max_size=8))
def test_whatever_a_server_does_the_content_is_one_version_of_it(tmp_path_factory, answers):
    """Each call fails, or returns exactly what some answer with its validator would have been as a whole.

    It takes some seconds, because each of many lists of answers has a server of its own.
    """
    versions, waiting = [b"a" * 40], list(answers)

    def handle(asked):
        how, cut = waiting.pop(0) if waiting else ("whole", 40)
        if how == "changed":
            versions.append(bytes([ord("a") + len(versions)]) * 40)
        body, etag = versions[-1], f'{"W/" if how == "weak" else ""}"{len(versions)}"'
        start = int(asked.headers["range"][6:-1]) if "range" in asked.headers else 0
        if how == "hangs up":
            return
        if how in {"416", "500"}:
            asked.answer(how)
        elif asked.headers.get("if-none-match") == etag:
            asked.answer("304 Not Modified", ETag=etag)
        elif start and asked.headers["if-range"] == etag and how not in {"ignores range", "weak"}:
            shift = 1 if how == "wrong range" else 0
            there = {"ETag": etag, "Content_Range": f"bytes {start + shift}-39/40", "Content_Length": 40 - start}
            asked.answer("206 P", body[start:][: cut if how == "cut" else 40], **there)
        else:
            asked.answer("200 OK", body[: cut if how == "cut" else 40], ETag=etag, Content_Length=40)

    async def play(top):
        with serving(handle) as server:
            for _ in range(4):
                try:
                    assert content(await fetch(downloads(top), server.url)) in versions
                except HoldfastError:
                    continue

    asyncio.run(play(tmp_path_factory.mktemp("any")))


@pytest.mark.parametrize("size", [1000, (16 << 20) + 1])
async def test_a_file_of_this_host_is_copied(tmp_path, size):
    """The caller gets the content that had the hash, even if the file changes later; large files are not read whole."""
    (tmp_path / "states").mkdir()
    for path in (tmp_path / "states" / "file", tmp_path / "outside"):
        path.write_bytes(b"x" * size)
    sha = hashlib.sha256(b"x" * size).hexdigest()
    host = LocalHost(states=tmp_path / "states", var_dir=tmp_path / "state")
    async with host, host.taken_over((), host.states):
        ctx = host.context("x")
        fetched = await ctx.download("salt://file", digest=Digest("md5", hashlib.md5(b"x" * size).hexdigest()))
        assert await ctx.is_current("salt://file", sha)
        for path in (tmp_path / "states" / "file", tmp_path / "outside"):
            path.write_bytes(b"changed")
        assert (fetched.size, fetched.sha256) == (size, sha)
        assert content(fetched) == b"x" * size
        assert not await ctx.is_current(f"{tmp_path}/outside", sha)
        with pytest.raises(WrongDigest, match=r"its sha256 is .* but source_hash says 00"):
            await ctx.download(f"{tmp_path}/outside", digest=Digest("sha256", "0" * 64))
        with pytest.raises(Permanent, match=r"cannot use .*/outside: it is larger than 6 bytes"):
            await ctx.download(f"{tmp_path}/outside", bounds=DownloadBounds(size=6))
        with pytest.raises(Permanent, match=r"cannot read salt://none: .*No such file"):
            await ctx.download("salt://none")
    assert left(tmp_path) == []


async def test_a_large_source_that_was_changed_is_not_used(tmp_path):
    """The states were compiled with its former content, which was too large to be kept."""
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "file").write_bytes(b"x" * ((16 << 20) + 1))
    host = LocalHost(states=tmp_path / "states", var_dir=tmp_path / "state")
    async with host, host.taken_over((), host.states):
        await host.context("x").download("salt://file")
        (tmp_path / "states" / "file").write_bytes(b"y" * ((16 << 20) + 1))
        with pytest.raises(Temporary, match="its content was not kept"):
            await host.context("x").download("salt://file")


async def test_a_managed_file_is_not_fetched_again_while_the_server_says_that_it_is_current(tmp_path):
    """Without a hash, a check sends one conditional request; a changed file or source is fetched."""
    served = [b"one"]

    def handle(asked):
        etag = f'"{len(served)}"'
        same = asked.headers.get("if-none-match") == etag
        asked.answer("304 Not Modified" if same else "200 OK", b"" if same else served[-1], ETag=etag)

    async with LocalHost(states=tmp_path, var_dir=tmp_path / "state") as host:
        with serving(handle) as server:
            wanted = Managed.declare(f"{tmp_path}/file", source=server.url, skip_verify=True)
            assert not await wanted.check_apply(host.context("x"), apply=True)
            assert await wanted.check_apply(host.context("x"), apply=True)
            assert len(server.asked) == 2
            served.append(b"two")
            assert not await wanted.check_apply(host.context("x"), apply=True)
            assert (tmp_path / "file").read_bytes() == b"two"
            (tmp_path / "file").write_bytes(b"drift")
            assert not await wanted.check_apply(host.context("x"), apply=True)
            assert (tmp_path / "file").read_bytes() == b"two"
