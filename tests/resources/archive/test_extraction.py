"""What an archive contains is in the directory, and a run that was interrupted is completed by the next one."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import io
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import textwrap

import pytest
from pydantic import ValidationError

from archive_runs import WANTED, run, tree
from deadline import DEADLINE
from holdfast.agent.host.host import LocalHost
from holdfast.resources import paths
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.kinds.archive import extraction, manifest, record
from holdfast.resources.kinds.archive.extracted import Extracted
from holdfast.resources.kinds.archive.options import ArchiveOptions, parse_options
from holdfast.resources.paths import Place
from hostile_archives import PACKED, SMALL, TIME, Entry, directory, tar, zipped
from hostile_server import serving


@pytest.mark.parametrize("packed", [*PACKED, "zip"])
async def test_all_formats(host, tmp_path, packed):
    """Content, modes, times and links are those of the archive; a second run changes nothing."""
    data = zipped(*SMALL) if packed == "zip" else PACKED[packed](tar(*SMALL))
    right, report = await run(host, tmp_path, data)
    assert not right
    assert tree(tmp_path / "out") == WANTED
    assert report.changes == {"directories_created": [f"{tmp_path}/out/"], "extracted_files": [*WANTED]}
    assert report.comment == f"created 5 entries in {tmp_path}/out"
    seen = (tmp_path / "out/app/sub/b").stat()
    assert (stat.S_IMODE(seen.st_mode), stat.S_IMODE((tmp_path / "out/app/a").stat().st_mode)) == (0o755, 0o644)
    assert packed == "zip" or seen.st_mtime == TIME
    right, report = await run(host, tmp_path)
    assert (right, report.changes) == (True, {})


@pytest.mark.parametrize("program", [b"MZ\x90\0", b"\x7fELF\2", b"#!/bin/sh\nexit\n"])
async def test_a_self_extracting_zip_archive_is_read_if_the_state_says_so(host, tmp_path, program):
    """It is a program with a zip archive at its end. A tar archive whose first member has such a name is none."""
    data = program + b"x" * 1000 + zipped(*SMALL)
    with pytest.raises(
        Permanent, match="it is a program; if it has a zip archive at its end, set `archive_format: zip`"
    ):
        await run(host, tmp_path, data)
    await run(host, tmp_path, archive_format="zip")
    assert tree(tmp_path / "out") == WANTED
    with pytest.raises(Permanent, match="it is damaged or not a zip archive"):
        await run(host, tmp_path, program * 1000, archive_format="zip")
    shutil.rmtree(tmp_path / "out")
    assert (await run(host, tmp_path, tar(Entry("#!"), Entry("MZ")), enforce_toplevel=False))[1].changes
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"#!", "MZ"}


async def test_a_plan_changes_nothing_and_says_what_would_be_done(host, tmp_path):
    """A plan does not create the directory or its parents."""
    right, report = await run(host, tmp_path, tar(*SMALL), apply=False)
    assert not right
    assert report.changes["extracted_files"] == [*WANTED]
    assert not (tmp_path / "out").exists()


async def test_what_was_extracted_by_another_tool_is_adopted(host, tmp_path):
    """If the directory has all members already, nothing is written."""
    (tmp_path / "out").mkdir()
    data = tar(*SMALL)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(tmp_path / "out", filter="data")

    def looks():
        return [(path, path.lstat().st_ino, path.lstat().st_ctime_ns) for path in sorted(tmp_path.glob("out/**/*"))]

    before = looks()
    assert (await run(host, tmp_path, data, apply=False))[0]
    assert (await run(host, tmp_path))[0]
    assert looks() == before


DAMAGES = {
    "removed": lambda out: (out / "app/a").unlink(),
    "changed": lambda out: (out / "app/a").write_text("One\n"),
    "longer": lambda out: (out / "app/a").write_text("one\nmore\n"),
    "replaced": lambda out: ((out / "app/b").write_text("one?"), (out / "app/b").rename(out / "app/a")),
    "link": lambda out: ((out / "app/l").unlink(), (out / "app/l").symlink_to("a")),
    "directory": lambda out: shutil.rmtree(out / "app/sub"),
    "all": lambda out: shutil.rmtree(out / "app"),
}


@pytest.mark.parametrize("damage", [*DAMAGES])
async def test_damage_is_repaired(host, tmp_path, damage):
    """Only members that differ are extracted; files that are not in the archive stay."""
    await run(host, tmp_path, tar(*SMALL))
    (tmp_path / "out/app/own").write_text("own")
    kept = (tmp_path / "out/app/sub/b").stat().st_ino
    DAMAGES[damage](tmp_path / "out")
    right, report = await run(host, tmp_path, apply=False)
    planned = report.changes
    right, report = await run(host, tmp_path)
    assert not right
    assert report.changes == planned
    assert tree(tmp_path / "out") == (WANTED if damage == "all" else {**WANTED, "app/own": "own"})
    assert damage in {"directory", "all"} or (tmp_path / "out/app/sub/b").stat().st_ino == kept
    assert (await run(host, tmp_path))[0]


async def test_a_file_that_was_touched_is_read_once(host, tmp_path, monkeypatch):
    """Changed metadata lead to one comparison of the content, whose result is stored."""
    await run(host, tmp_path, tar(*SMALL))
    (tmp_path / "out/app/a").chmod(0o600)
    read = []
    real = manifest.hash_of
    monkeypatch.setattr(manifest, "hash_of", lambda *given: read.append(given) or real(*given))
    for _ in range(3):
        assert (await run(host, tmp_path))[0]
    assert len(read) == 1


async def test_a_new_archive_is_extracted(host, tmp_path):
    """New content is extracted. Former members stay, unless `clean` is set."""
    await run(host, tmp_path, tar(*SMALL))
    new = tar(directory("app"), Entry("app/a", b"new\n"), Entry("app/c", b"three\n"))
    right, report = await run(host, tmp_path, new)
    assert not right
    assert report.changes == {"extracted_files": ["app/a", "app/c"]}
    assert tree(tmp_path / "out") == {**WANTED, "app/a": "new\n", "app/c": "three\n"}


async def test_clean_removes_what_the_archive_does_not_have(host, tmp_path):
    """`clean` applies to the archive's top directories, `clean_parent` to the whole directory. Managed paths stay."""
    await run(host, tmp_path, tar(*SMALL))
    for name in ("app/own", "app/managed", "beside"):
        (tmp_path / "out" / name).write_text("own")
    host.update(managed=lambda: [f"{tmp_path}/out/app/managed"])
    new = tar(directory("app"), Entry("app/a", b"new\n"))
    _, report = await run(host, tmp_path, new, clean=True)
    assert report.changes["removed"] == [f"{tmp_path}/out/app/{name}" for name in ("l", "own", "sub")]
    assert tree(tmp_path / "out") == {"app": None, "app/a": "new\n", "app/managed": "own", "beside": "own"}
    (tmp_path / "out/app/a").unlink()
    _, report = await run(host, tmp_path, clean_parent=True)
    assert report.changes["removed"] == [f"{tmp_path}/out/beside"]


async def test_what_other_states_manage_is_left_to_them(host, tmp_path):
    """A member that another state manages, or that is declared as editable, is extracted only if it is missing."""
    host.update(managed=lambda: [f"{tmp_path}/out/app/a"])
    await run(host, tmp_path, tar(*SMALL), editable="*/sub/*")
    for name in ("app/a", "app/sub/b"):
        (tmp_path / "out" / name).write_text("mine")
    assert (await run(host, tmp_path, editable="*/sub/*"))[0]
    new = tar(*SMALL[:2], Entry("app/sub/b", b"2.0"), Entry("app/x", b"x"))
    await run(host, tmp_path, new, editable="*/sub/*")
    assert tree(tmp_path / "out") == {**WANTED, "app/a": "mine", "app/sub/b": "mine", "app/x": "x"}
    (tmp_path / "out/app/a").unlink()
    await run(host, tmp_path, editable="*/sub/*")
    assert (tmp_path / "out/app/a").read_text() == "one\n"


async def test_what_is_in_the_way_is_replaced_with_force_only(host, tmp_path):
    """A directory in place of a file, or a file or link in place of a directory, is replaced only with `force`."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out/app/a").mkdir(parents=True)
    (tmp_path / "out/app/sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Permanent, match=r"/out/app/a is there, and no file; to replace it, set force: true"):
        await run(host, tmp_path, tar(*SMALL))
    assert tree(tmp_path / "out") == {"app": None, "app/a": None, "app/sub": f"{tmp_path}/elsewhere"}
    await run(host, tmp_path, force=True)
    assert tree(tmp_path / "out") == WANTED
    assert tree(tmp_path / "elsewhere") == {}


async def test_arguments_that_decide_whether_anything_is_done(host, tmp_path):
    """`if_missing` and `skip_files_list_verify` decide this; `trim_output` shortens the report."""
    (tmp_path / "there").touch()
    right, report = await run(host, tmp_path, tar(*SMALL), if_missing=str(tmp_path / "there"))
    assert (right, report.comment) == (True, f"{tmp_path}/there exists")
    assert not (tmp_path / "out").exists()
    _, report = await run(host, tmp_path, trim_output=2)
    assert report.changes["extracted_files"] == ["app", "app/a"]
    (tmp_path / "out/app/a").unlink()
    assert (await run(host, tmp_path, skip_files_list_verify=True))[0]
    assert not (await run(host, tmp_path))[0]


async def test_options_of_tar(host, tmp_path):
    """Leading components are removed, and members left out, before anything is compared."""
    options = "xzf --strip-components=1 --exclude sub"
    await run(host, tmp_path, tar(*SMALL), options=options, enforce_toplevel=False)
    assert tree(tmp_path / "out") == {"a": "one\n", "l": "sub/b"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_owners(host, tmp_path):
    """Everything belongs to the declared user, never to the owner in the archive. A changed owner is repaired."""
    out = tmp_path / "out"
    out.mkdir()
    tmp_path.chmod(0o755)
    await run(host, tmp_path, tar(*SMALL), user="1234", group="1235")
    assert {(path.lstat().st_uid, path.lstat().st_gid) for path in out.rglob("*")} == {(1234, 1235)}
    os.chown(out / "app", 0, 0)
    _, report = await run(host, tmp_path, user="1234", group="1235")
    assert report.changes == {"updated ownership": True}
    assert (out / "app").stat().st_uid == 1234
    assert (await run(host, tmp_path, user="1234", group="1235"))[0]
    subprocess.run(["chown", "-R", "0:0", out], check=True)  # noqa: ASYNC221 - it ends at once
    arguments = {"user": "1236", "enforce_ownership_on": f"{out}/app/sub"}
    _, report = await run(host, tmp_path, **arguments)
    assert report.changes == {"updated ownership": True}
    assert [(out / name).lstat().st_uid for name in ("app/l", "app/sub", "app/sub/b")] == [0, 1236, 1236]
    assert (await run(host, tmp_path, **arguments))[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_directory_of_another_user(host, tmp_path):
    """Everything that root extracts there must belong to that user, who could replace it anyway."""
    out = tmp_path / "out"
    out.mkdir()
    tmp_path.chmod(0o755)
    os.chown(out, 1234, 1234)
    with pytest.raises(Permanent, match=r"belongs to user 1234; .* declare user"):
        await run(host, tmp_path, tar(*SMALL))
    assert tree(out) == {}
    await run(host, tmp_path, user="1234")
    assert tree(out) == WANTED
    with pytest.raises(Permanent, match=r"declare user$"):
        await run(host, tmp_path)
    with pytest.raises(Permanent, match="declare user without enforce_ownership_on"):
        await run(host, tmp_path, user="1234", enforce_ownership_on=f"{tmp_path}/out/app")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_directory_that_a_group_may_write(host, tmp_path):
    """Files are extracted into such a directory, like /usr/local/bin of older systems; in /tmp, also directories."""
    out = tmp_path / "out"
    out.mkdir()
    tmp_path.chmod(0o755)
    os.chown(out, 0, 50)
    out.chmod(0o2775)
    for _ in range(2):
        await run(host, tmp_path, tar(Entry("tool", b"x", mode=0o755)), enforce_toplevel=False)
        assert (out / "tool").stat().st_uid == 0
        (out / "tool").unlink()
    with pytest.raises(Permanent, match=r"cannot extract directories into .* may be written by"):
        await run(host, tmp_path, tar(*SMALL))
    out.chmod(0o1777)
    await run(host, tmp_path, tar(*SMALL))
    (out / "app/a").unlink()
    await run(host, tmp_path)
    assert tree(out) == WANTED


async def test_special_bits_of_modes_are_left_out(host, tmp_path):
    """These are set-uid, set-gid, sticky, and write permission for others. A trusted archive may have them."""
    data = tar(directory("app", 0o1777), Entry("app/a", b"x", mode=0o6777))
    await run(host, tmp_path, data)
    assert [stat.S_IMODE((tmp_path / "out" / name).stat().st_mode) for name in ("app", "app/a")] == [0o755, 0o755]
    shutil.rmtree(tmp_path / "out")
    await run(host, tmp_path, trusted=True)
    assert [stat.S_IMODE((tmp_path / "out" / name).stat().st_mode) for name in ("app", "app/a")] == [0o1777, 0o6777]


async def test_a_directory_that_follows_its_content_has_its_own_mode(host, tmp_path):
    """The directory gets its mode from the archive, although it had to be created before its own entry."""
    await run(host, tmp_path, tar(Entry("app/a", b"x"), directory("app", 0o700)))
    assert stat.S_IMODE((tmp_path / "out/app").stat().st_mode) == 0o700


def test_a_file_that_grows_is_not_read_forever(tmp_path):
    """At most one byte more than expected is read, which shows that the content differs."""
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    handle, _ = paths.at(str(path)).open()
    assert manifest.hash_of(handle, 5) == hashlib.sha256(b"12345").hexdigest()
    assert manifest.hash_of(handle, 3) == hashlib.sha256(b"1234").hexdigest()


async def test_a_killed_agent_leaves_nothing_that_counts(tmp_path):
    """After SIGKILL during the extraction, the directory has nothing of the archive.

    The next run extracts everything, and removes leftovers.  The test takes some seconds, because another process
    imports everything and extracts a thousand files.
    """
    (tmp_path / "states").mkdir()
    data = tar(*(Entry(f"app/{number}", os.urandom(1000)) for number in range(2000)))
    (tmp_path / "states/archive").write_bytes(data)
    program = """
        import asyncio, os, signal, sys
        from pathlib import Path
        from holdfast.agent.host.host import LocalHost
        from holdfast.resources.kinds.archive import stage
        from holdfast.resources.kinds.archive.extracted import Extracted
        top, when = Path(sys.argv[1]), int(sys.argv[2])
        real, calls = stage.Stage._write, []
        def dying(*args):
            calls.append(1)
            if len(calls) == when:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args)
        stage.Stage._write = dying
        async def main():
            async with LocalHost(states=top / "states", var_dir=top / "var") as host:
                state = Extracted.declare(str(top / "out"), source=f"{top}/states/archive")
                await state.check_apply(host.context("archive.extracted[x]"), True)
        asyncio.run(main())
    """
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", textwrap.dedent(program), tmp_path, "1000"], check=False
    )
    assert done.returncode == -signal.SIGKILL
    (stage,) = (tmp_path / "out").iterdir()
    assert stage.name.startswith(".archive.holdfast-")
    assert stat.S_IMODE(stage.stat().st_mode) == 0o700
    async with LocalHost(states=tmp_path / "states", var_dir=tmp_path / "var", durable=False) as host:
        assert not (await run(host, tmp_path))[0]
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["app"]
        assert len([*(tmp_path / "out/app").iterdir()]) == 2000
        assert (await run(host, tmp_path))[0]


async def test_a_cancelled_run_ends_soon_and_leaves_nothing(host, tmp_path, monkeypatch):
    """The thread of the run stops at the next part of a file."""
    begun, held = asyncio.Event(), asyncio.get_running_loop()
    real = extraction.Stage._write

    def slow(*args):
        held.call_soon_threadsafe(begun.set)
        return real(*args)

    monkeypatch.setattr(extraction.Stage, "_write", slow)
    data = tar(*(Entry(f"app/{number}", bytes(1000)) for number in range(3000)))
    task = asyncio.create_task(run(host, tmp_path, data))
    await asyncio.wait_for(begun.wait(), DEADLINE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(DEADLINE):
        await host.long_blocking(lambda: None)
        while (tmp_path / "out").exists():
            await asyncio.sleep(0)


@pytest.fixture
def full(tmp_path):
    """Mount a small file system at the directory."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    (tmp_path / "out").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path / "out"], check=True)
    yield
    subprocess.run(["umount", "-l", tmp_path / "out"], check=True)


@pytest.mark.usefixtures("full")
async def test_a_full_disk(host, tmp_path):
    """The failure is temporary. Existing files stay, and what was extracted is removed."""
    (tmp_path / "out/own").write_text("own")
    with pytest.raises(Temporary, match=rf"cannot extract into {tmp_path}/out: no space is left"):
        await run(host, tmp_path, tar(Entry("app/a", os.urandom(2 << 20))))
    assert tree(tmp_path / "out") == {"own": "own"}


async def test_a_damaged_record_leads_to_a_comparison(host, tmp_path):
    """The record is not needed: without it the archive is read again."""
    await run(host, tmp_path, tar(*SMALL))
    (kept,) = (tmp_path / "var/resources").iterdir()
    for name, content in ((record.MEMBERS, b"damaged"), (record.ABOUT, b"{}"), (record.ABOUT, b"\xff")):
        (kept / name).write_bytes(content)
        assert (await run(host, tmp_path))[0]
        (tmp_path / "out/app/a").unlink()
        (kept / name).write_bytes(content)
        assert not (await run(host, tmp_path))[0]
        assert tree(tmp_path / "out") == WANTED


async def test_damage_is_repaired_while_the_server_is_away(host, tmp_path):
    """The kept archive is extracted, but the run fails: whether the archive has changed is unknown."""
    (tmp_path / "states/archive").write_bytes(data := tar(*SMALL))

    def handle(asked):
        same = "if-none-match" in asked.headers
        asked.answer("304 Not Modified" if same else "200 OK", b"" if same else data, ETag='"1"')

    with serving(handle) as server:
        arguments = {"source": f"{server.url}/a?token=hidden", "skip_verify": True}
        await run(host, tmp_path, **arguments)
        assert (await run(host, tmp_path, **arguments))[0]
        assert [("if-none-match" in asked.headers) for asked in server.asked] == [False, True]
    (tmp_path / "out/app/a").unlink()
    with pytest.raises(Temporary, match=rf"cannot read {server.url}/a: Connection refused"):
        await run(host, tmp_path, **arguments)
    assert tree(tmp_path / "out") == WANTED


async def test_a_run_that_ended_while_it_moved_files_is_completed(host, tmp_path, monkeypatch):
    """Each file that is in place is complete, and the next run moves the others."""
    await run(host, tmp_path, tar(*SMALL))
    moved = []
    real = Place.rename

    def failing(place, to):
        if len(moved) == 2:
            raise OSError(errno.EIO, "broken")
        moved.append(to.path)
        real(place, to)

    new = tar(*(Entry(f"app/{name}", b"new") for name in "abcd"))
    with monkeypatch.context() as patched:
        patched.setattr(Place, "rename", failing)
        with pytest.raises(Permanent, match=r"cannot extract into .*out: broken"):
            await run(host, tmp_path, new)
    assert len(moved) == 2
    assert not (await run(host, tmp_path))[0]
    assert tree(tmp_path / "out") == {**WANTED, **{f"app/{name}": "new" for name in "abcd"}}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["app"]


async def test_the_watch_follows_the_members(host, tmp_path):
    """Before the first extraction, it watches the directory; afterwards, each member. Other entries cause no event."""
    state = Extracted.declare(str(tmp_path / "out"), source=f"{tmp_path}/states/archive")
    ctx = host.context("archive.extracted[x]")
    watch = state.watch(ctx)

    async def event():
        return await asyncio.wait_for(anext(watch), DEADLINE)

    await event()
    await run(host, tmp_path, tar(*SMALL))
    await event()
    while True:  # events of the extraction itself
        try:
            await asyncio.wait_for(asyncio.shield(waiting := asyncio.ensure_future(anext(watch))), 0.3)
        except TimeoutError:
            break
    (tmp_path / "out/app/a").unlink()
    assert await asyncio.wait_for(waiting, DEADLINE) is None
    await watch.aclose()


def test_options_are_understood_or_refused():
    """Options for compression and output have no effect. The error for any other option names it."""
    assert parse_options("zxvf --strip=2 --exclude=*.pyc --exclude doc -J -o") == ArchiveOptions(2, ("*.pyc", "doc"))
    assert parse_options("") == ArchiveOptions()
    for wrong in ("--to-command=sh", "-C /etc", "--strip-components", "--strip-components=x", "-I x",
                  "--transform=s/a/b/", "--use-compress-program=x", "--checkpoint-action=exec=sh", "'"):  # fmt: skip
        with pytest.raises(ValueError, match=r"not supported|lacks its value|needs a number|quotation"):
            parse_options(wrong)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"source": ""}, "source is missing"),
        ({"source": "https://x/y.tar.gz"}, "needs source_hash"),
        ({"source": "https://x/y.tar.gz", "source_hash": "sha256=zz"}, "it has 64 hexadecimal digits"),
        ({"source": "https://x/y.tar.gz", "source_hash": "sha3=00"}, "the algorithms are md5, sha1"),
        ({"archive_format": "RAR"}, "Holdfast does not extract rar archives"),
        ({"clean": True, "clean_parent": True}, "exclude each other"),
        ({"skip_verify": True, "skip_files_list_verify": True}, "exclude each other"),
        ({"enforce_ownership_on": "/etc"}, "must be in /opt"),
        ({"password": "x", "archive_format": "tar"}, "for zip archives only"),
        ({"options": "--to-command=sh"}, "is not supported"),
        ({"user": "-x"}, "user"),
    ],
)
def test_wrong_arguments(arguments, told):
    """Each wrong argument is an error of the state file."""
    with pytest.raises(ValidationError, match=told):
        Extracted.declare("/opt", **{"source": "salt://x", **arguments})
