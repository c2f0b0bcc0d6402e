"""Nothing that a hostile or damaged archive contains reaches anything outside of its directory."""

from __future__ import annotations

import asyncio
import gzip
import stat
import struct
import tarfile
import zipfile
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive_runs import run, tree
from holdfast.agent.host.host import LocalHost
from holdfast.resources.errors import HoldfastError, Permanent
from hostile_archives import SMALL, Entry, archives, directory, hard, link, tar, zipped

HOSTILE = {
    "absolute": ([Entry("/etc/evil")], "an absolute path: /etc/evil"),
    "above": ([Entry("app/../../evil")], r"a path that leads out of the directory: app/\.\./\.\./evil"),
    "up and down": ([Entry("app/../app/evil")], "a path that leads out of the directory"),
    "newline": ([Entry("app/a\nb")], r"a path with a control character: app/a.x0ab"),
    "long name": ([Entry("app/" + "x" * 256)], "a path that is too long"),
    "deep": ([Entry("/".join("x" * 101))], "a path that is too long"),
    "link out": ([link("app/l", "../../etc")], r"a link that leads out of the directory: app/l -> \.\./\.\./etc"),
    "link out through a link": (
        [directory("app"), link("app/up", ".."), link("app/l", "up/../../etc")],
        r"a link that leads out of the directory: app/l -> up/\.\./\.\./etc",
    ),
    "link to root": ([link("app/l", "/etc")], "a link that leads out of the directory: app/l -> /etc"),
    "through a link": ([link("app/l", "sub"), directory("app/sub"), Entry("app/l/x")], "it has app/l/x below app/l"),
    "link over a directory": ([Entry("app/d/x"), link("app/d", "x")], "it has app/d twice"),
    "hard link out": ([hard("app/h", "/etc/passwd")], "a member with an absolute path: /etc/passwd"),
    "hard link to nothing": ([hard("app/h", "app/none")], "a hard link whose target is not an earlier file"),
    "hard link to a link": (
        [link("app/l", "x"), hard("app/h", "app/l")],
        "a hard link whose target is not an earlier file",
    ),
    "device": ([Entry("app/d", type=tarfile.CHRTYPE)], "a device as a member: app/d"),
    "fifo": ([Entry("app/f", type=tarfile.FIFOTYPE)], "a fifo as a member: app/f"),
    "several tops": ([Entry("a/x"), Entry("b/x")], "its top level is not exactly one directory"),
    "file at the top": ([Entry("a")], "its top level is not exactly one directory"),
    "nothing": ([], "it has no members"),
    "only dots": ([directory("./")], "it has no members"),
}


@pytest.mark.parametrize("name", [*HOSTILE])
@pytest.mark.parametrize("there", [False, True])
async def test_a_hostile_archive_is_refused_and_leaves_nothing(host, tmp_path, name, there):
    """Nothing of the archive remains, and the directory is not created."""
    entries, told = HOSTILE[name]
    if there:
        (tmp_path / "out").mkdir()
        (tmp_path / "out/own").write_text("own")
    first = directory("./") if told.startswith(("its top level", "it has no m")) else Entry("app/first", b"x")
    with pytest.raises(Permanent, match=rf"^cannot extract {tmp_path}/states/archive: .*{told}"):
        await run(host, tmp_path, tar(first, *entries))
    assert (tree(tmp_path / "out") if there else (tmp_path / "out").exists()) == ({"own": "own"} if there else False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "states", "var"][0 if there else 1 :]


async def test_links_that_lead_out_need_a_trusted_archive(host, tmp_path):
    """Even in a trusted archive, nothing is written through such links."""
    (tmp_path / "outside").mkdir()
    data = tar(link("app/l", str(tmp_path / "outside")), Entry("app/a", b"x"))
    await run(host, tmp_path, data, trusted=True)
    assert tree(tmp_path / "out")["app/l"] == str(tmp_path / "outside")
    bad = tar(link("app/l", str(tmp_path / "outside")), Entry("app/l/evil", b"x"))
    with pytest.raises(Permanent, match="it has app/l/evil below app/l, which is a link"):
        await run(host, tmp_path, bad, trusted=True)
    assert tree(tmp_path / "outside") == {}


async def test_an_existing_link_is_not_followed(host, tmp_path):
    """A link in place of a directory of the archive is refused, wherever it leads."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/app").symlink_to(tmp_path / "outside")
    with pytest.raises(Permanent, match=r"out/app is there, and no directory"):
        await run(host, tmp_path, tar(*SMALL))
    assert tree(tmp_path / "outside") == {}


def bomb(size):
    """Return a small archive with a large content."""
    return gzip.compress(tar(Entry("app/zeros", bytes(size))))


BOMBS = {
    "gzip": lambda: bomb(9 << 20),
    "zip": lambda: zipped(Entry("app/zeros", bytes(9 << 20))),
    "many files": lambda: gzip.compress(tar(*(Entry(f"app/{number}", bytes(1 << 20)) for number in range(9)))),
    "hard links": lambda: tar(
        Entry("app/0", bytes(1 << 20)), *(hard(f"app/{number}", "app/0") for number in range(1, 9))
    ),
    "header": lambda: gzip.compress(_header(9 << 20)),
    "sparse": lambda: gzip.compress(_sparse(1 << 60)),
    "claimed": lambda: _claimed(1 << 60),
}


def _header(size):
    """Return an archive whose first header claims a name of so many bytes."""
    info = tarfile.TarInfo("././@LongLink")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, size
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(size)


def _claimed(size):
    """Return an archive with a file that claims so many bytes."""
    info = tarfile.TarInfo("app/a")
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


def _sparse(size):
    """Return an archive with a sparse file of so many bytes, all of which are holes."""
    info = tarfile.TarInfo("app/a")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "app/a",
                        "GNU.sparse.realsize": str(size)}  # fmt: skip
    info.size = 512
    return info.tobuf(tarfile.PAX_FORMAT) + b"0\n".ljust(512, b"\0") + bytes(1024)


@pytest.mark.parametrize("name", [*BOMBS])
@pytest.mark.parametrize("there", [False, True])
async def test_a_bomb_stops_at_the_declared_size(host, tmp_path, name, there):
    """The archive is refused as soon as it exceeds the limit, and leaves nothing."""
    if there:
        (tmp_path / "out").mkdir()
        (tmp_path / "out/own").write_text("own")
    with pytest.raises(Permanent, match=r"more than 8 MiB, the limit \(size_limit\)|a header that is too large"):
        await run(host, tmp_path, BOMBS[name](), size_limit=8)
    assert (tree(tmp_path / "out") if there else (tmp_path / "out").exists()) == ({"own": "own"} if there else False)


@pytest.mark.parametrize("packing", [tar, zipped])
async def test_too_many_members_are_refused(host, tmp_path, packing):
    """The limit applies to each format."""
    data = packing(directory("app"), *(Entry(f"app/{number}") for number in range(20)))
    with pytest.raises(Permanent, match=r"it has more than 10 members, the limit \(member_limit\)"):
        await run(host, tmp_path, data, member_limit=10)
    assert not (tmp_path / "out").exists()


async def test_a_large_directory_of_a_zip_archive_is_not_read(host, tmp_path):
    """The size of the archive's directory is checked first, because all of it would be held in memory."""
    data = bytearray(zipped(*SMALL))
    at = data.rfind(b"PK\5\6")
    data[at + 12 : at + 16] = struct.pack("<L", 64 << 20)
    start = data.find(b"PK\1\2")
    data[start:start] = bytes(64 << 20)
    with pytest.raises(Permanent, match="member_limit"):
        await run(host, tmp_path, bytes(data), member_limit=10)


def changed(offset, form, *values, signature=b"PK\5\6", entries=SMALL):
    """Return an archive whose last record with this signature has other values at an offset."""
    data = bytearray(zipped(*entries))
    struct.pack_into(form, data, data.rfind(signature) + offset, *values)
    return bytes(data)


def large(*, members=4, at=0):
    """Return an archive that also has the record of large archives; `at` is added to the offset of that record."""
    data = zipped(*SMALL)
    end = data.rfind(b"PK\5\6")
    size, offset = struct.unpack_from("<LL", data, end + 12)
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, members, members, size, offset)
    return data[:end] + record + struct.pack("<4sLQL", b"PK\6\7", 0, end + at, 1) + data[end:]


def quoted():
    """Return an archive of two members, the first of which has the second one in its content."""
    inner = zipped(Entry("app/b", b"b"), method=zipfile.ZIP_STORED)
    outer = zipped(Entry("app/a", inner), method=zipfile.ZIP_STORED)
    start, end = (data.rfind(b"PK\1\2") for data in (inner, outer))
    record = bytearray(inner[start : inner.rfind(b"PK\5\6")])
    struct.pack_into("<L", record, 42, outer.find(inner))
    data = bytearray(outer[: outer.rfind(b"PK\5\6")] + record + outer[outer.rfind(b"PK\5\6") :])
    struct.pack_into("<HHL", data, data.rfind(b"PK\5\6") + 8, 2, 2, len(outer) - 22 - end + len(record))
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (changed(8, "<HH", 3, 3), "it has 4 members, and the record at its end says 3"),
        (changed(8, "<HH", 5, 5), "it has 4 members, and the record at its end says 5"),
        (changed(12, "<L", 1 << 20), "it is damaged or not a zip archive"),
        (changed(12, "<L", 60), "it is damaged or not a zip archive"),
        (large(members=3), "it has 4 members, and the record at its end says 3"),
        (large(at=-1), "its records at the end contradict each other"),
        (changed(24, "<L", 100, signature=b"PK\1\2"), "less content than its directory says: app/l"),
        (changed(24, "<L", 100, signature=b"PK\1\2", entries=SMALL[:2]), "less content than its .* says: app/a"),
        (quoted(), "its members overlap: app/a and app/b"),
    ],
)
async def test_a_zip_archive_that_lies_is_refused(host, tmp_path, data, told):
    """Other programs would see other members, and overlapping members would make a small archive large."""
    with pytest.raises(Permanent, match=told):
        await run(host, tmp_path, data)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("data", [large(), zipped(*SMALL) + b"\n"])
async def test_a_zip_archive_of_many_members_or_with_more_at_its_end_is_extracted(host, tmp_path, data):
    """Some archives have the record of large archives without need, or were changed by a mail program."""
    await run(host, tmp_path, data)
    assert (tmp_path / "out/app/a").read_text() == "one\n"


async def test_an_archive_that_is_too_large_is_refused(host, tmp_path):
    """It is refused before it is copied as a whole."""
    with pytest.raises(Permanent, match="it is larger than 1 MiB"):
        await run(host, tmp_path, tar(Entry("app/a", bytes(2 << 20))), archive_limit=1)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "it is damaged or not a tar archive"),
        (b"no archive" * 100, "it is damaged or not a tar archive"),
        (gzip.compress(tar(*SMALL))[:-20], "it is damaged: it ends too early"),
        (gzip.compress(tar(*SMALL))[:-8] + b"\0" * 8, "it is damaged: .*incorrect data check"),
        (tar(*SMALL)[:1100], "it is damaged|it ends too early|unexpected end"),
        (tar(*SMALL)[:512] + b"x" * 512 + tar(*SMALL)[1024:], "it is damaged: a header cannot be read"),
        (zipped(*SMALL)[:-30], "it is damaged or not a zip archive"),
        (b"Rar!\x1a\x07\x01\0", "Holdfast does not extract rar archives"),
        (b"\x28\xb5\x2f\xfd" + bytes(20), "zstd|damaged"),
    ],
)
async def test_a_damaged_archive_is_refused(host, tmp_path, data, told):
    """Nothing is extracted, even if most of the archive can be read."""
    with pytest.raises(Permanent, match=told):
        await run(host, tmp_path, data)
    assert not (tmp_path / "out").exists()


async def test_a_zip_archive_with_a_password(host, tmp_path):
    """Without the password, or with a wrong one, nothing is extracted. The error does not show the password."""
    data = _encrypted(b"pass word", "app/a", b"content\n")
    with pytest.raises(Permanent, match="it is protected by a password: set password"):
        await run(host, tmp_path, data)
    with pytest.raises(Permanent, match="Bad password") as refused:
        await run(host, tmp_path, password="wrong one")
    assert "wrong one" not in str(refused.value)
    await run(host, tmp_path, password="pass word")
    assert tree(tmp_path / "out") == {"app": None, "app/a": "content\n"}


def _encrypted(password, name, content):
    """Return a zip archive with one file, encrypted in the traditional way of PKWARE."""
    crc_table = []
    for number in range(256):
        crc = number
        for _ in range(8):
            crc = crc >> 1 ^ 0xEDB88320 if crc & 1 else crc >> 1
        crc_table.append(crc)
    keys = [0x12345678, 0x23456789, 0x34567890]

    def update(byte):
        keys[0] = keys[0] >> 8 ^ crc_table[(keys[0] ^ byte) & 0xFF]
        keys[1] = ((keys[1] + (keys[0] & 0xFF)) * 134775813 + 1) & 0xFFFFFFFF
        keys[2] = keys[2] >> 8 ^ crc_table[(keys[2] ^ keys[1] >> 24) & 0xFF]

    def encrypt(byte):
        mask = keys[2] | 2
        coded = byte ^ (mask * (mask ^ 1) >> 8 & 0xFF)
        update(byte)
        return coded

    for byte in password:
        update(byte)
    crc = zlib.crc32(content)
    data = bytes(map(encrypt, bytes(11) + bytes([crc >> 24]) + content))
    head = struct.pack("<HHHHHLLLHH", 20, 1, 0, 0, 0x5821, crc, len(data), len(content), len(name), 0)
    local = b"PK\3\4" + head + name.encode() + data
    central = (
        b"PK\1\2" + struct.pack("<H", 0x314) + head + struct.pack("<HHHLL", 0, 0, 0, 0o100644 << 16, 0) + name.encode()
    )
    end = b"PK\5\6" + struct.pack("<HHHHLLH", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + end


@settings(max_examples=60, deadline=None)
@given(archives(), st.booleans(), st.booleans())
def test_no_archive_escapes(tmp_path_factory, data, trusted, there):
    """Whatever an archive contains, nothing outside of the directory changes, and a refused archive leaves nothing.

    The test takes some seconds, because it extracts many archives, each with a host of its own.
    """
    top = tmp_path_factory.mktemp("any")
    (top / "states").mkdir()
    (top / "states/archive").write_bytes(data)
    (top / "outside").mkdir()
    (top / "outside/file").write_text("untouched")
    if there:
        (top / "out").mkdir()
        (top / "out/own").write_text("own")
    before = sorted(path.name for path in top.iterdir())

    async def play():
        async with LocalHost(states=top / "states", var_dir=top / "var", durable=False) as host:
            try:
                await run(host, top, trusted=trusted, enforce_toplevel=False, size_limit=1, member_limit=10)
            except HoldfastError:
                return False
            assert (await run(host, top, trusted=trusted, enforce_toplevel=False, size_limit=1, member_limit=10))[0]
            return True

    done = asyncio.run(play())
    assert (top / "outside/file").read_text() == "untouched"
    assert sorted(path.name for path in (top / "outside").iterdir()) == ["file"]
    assert {path.name for path in top.iterdir()} - {*before} <= ({"var", "out"} if done else {"var"})
    if there and not done:
        assert sorted(path.name for path in (top / "out").iterdir()) == ["own"]
    for path in (top / "out").rglob("*"):
        seen = path.lstat()
        assert stat.S_IFMT(seen.st_mode) in {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK}
        assert seen.st_nlink == 1 or path.is_dir()
        assert trusted or path.is_symlink() or not seen.st_mode & 0o7022
