"""The context of a resource, with the real services of the host."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading

import pytest
import structlog

from deadline import DEADLINE
from effort import effort
from holdfast.agent.host.context import file_name
from holdfast.agent.host.host import LocalHost
from holdfast.agent.logs import Logs
from holdfast.agent.settings import LogSettings
from holdfast.resources.assignment import Assignment
from holdfast.resources.context import Context
from holdfast.resources.errors import Permanent


@pytest.fixture
async def host(tmp_path):
    """Yield a host with a states directory, a pillar and grains."""
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "part").write_text("part of {{ grains.os }}")
    async with LocalHost(
        states=tmp_path / "states",
        var_dir=tmp_path / "var",
        facts={"os": "Debian"},
        pillar={"a": {"b": 1}},
        durable=False,
    ) as host:
        yield host


async def test_the_context_has_every_service_of_the_contract(host, tmp_path):
    """The context has every method that the contract promises."""
    ctx: Context = host.context("file.managed[x]")
    await ctx.write_file(str(tmp_path / "f"), b"text", mode=0o600)

    assert await ctx.read_text(str(tmp_path / "f")) == "text"
    assert (await ctx.run("echo", "hi")).stdout == "hi\n"
    assert await ctx.source("salt://part") == b"part of {{ grains.os }}"
    assert ctx.source_outside("salt://part") is None
    assert ctx.source_outside(f"{tmp_path}/part") == f"{tmp_path}/part"
    assert await ctx.blocking(len, "four") == 4


async def test_templates_see_grains_pillar_and_may_include(host):
    """Templates of resources are rendered by `states`, in the sandbox; an error is a problem with its line."""
    ctx = host.context("x")

    assert (
        ctx.render("{{ pillar.a.b }} {% include 'part' %} {{ own }}", name="t", variables={"own": 2})
        == "1 part of Debian 2"
    )
    with pytest.raises(Permanent, match=r"cannot render t:2"):
        ctx.render("\n{{ missing }}", name="t", variables={})


async def test_guards_call_what_templates_may_call(host, tmp_path):
    """A guard can call the functions of templates, and no others."""
    ctx = host.context("x")

    assert ctx.call({"fun": "pillar.get", "args": ["a:b"]}) == 1
    assert ctx.call({"fun": "pillar.get", "args": ["a"], "get_return": "b"}) == 1
    with pytest.raises(Permanent, match=r"cannot call cmd.nonsense"):
        ctx.call({"fun": "cmd.nonsense"})
    assert [ctx.call({"fun": "cmd.retcode", "cmd": command}) for command in ("true", "false")] == [False, False]
    with pytest.raises(Permanent, match="without a name"):
        ctx.call({})


async def test_update_is_seen_at_once(host):
    """Existing contexts use new pillar, grains and managed paths."""
    ctx = host.context("x")
    host.update(
        pillar={"new": True}, managed=lambda: {"/a/b", "/ab/c", "/a", "/a.b", "/a-/x", "/a0", "/a/\U0010ffff/x"}
    )

    assert ctx.pillar == {"new": True}
    assert ctx.facts == {"os": "Debian"}
    assert list(ctx.managed_below("/a")) == list(ctx.managed_below("/a/")) == ["/a/b", "/a/\U0010ffff/x"]
    assert len(ctx.managed_below("/")) == 7

    host.update(pillar={"password": "opensesame"})
    assert ctx.redacted("say opensesame") == "say ********"


async def test_an_update_returns_the_readers_of_the_old_values(host):
    """An update returns the resources that read the replaced grains or pillar, also in templates and guards.

    It returns none if nothing has changed.
    """
    reads = {
        "pillar": lambda ctx: ctx.pillar,
        "grain": lambda ctx: ctx.facts["os"],
        "template of a grain": lambda ctx: ctx.render("{{ grains.os }}", name="x", variables={}),
        "guard of a grain": lambda ctx: ctx.call({"fun": "grains.get", "args": ["os"]}),
        "template": lambda ctx: ctx.render("x", name="x", variables={}),
        "guard": lambda ctx: ctx.call({"fun": "pillar.get", "args": ["a"]}),
        "nothing": lambda ctx: ctx.redacted("x"),
    }
    for name, read in reads.items():
        read(host.context(name))

    assert host.update(pillar=dict(host.pillar), facts=dict(host.facts), options=dict(host.options)) == set()
    assert host.update(pillar={"new": True}) == {*reads} - {"grain", "nothing"}
    assert host.update(pillar={"new": False}) == set()
    assert host.context("pillar").pillar == {"new": False}
    assert host.update(options={"new": True}) == {"pillar"}
    assert host.update(facts={**host.facts, "os": "Another", "new": 1}) == {
        "grain",
        "template of a grain",
        "guard of a grain",
    }
    assert host.update(facts={**host.facts, "new": 2}) == set()
    host.forget_all_but({"grain"})
    assert host.update(facts={**host.facts, "os": "Debian"}) == {"grain"}


async def test_managed_paths_are_found_fast(host):
    """Looking up the managed paths below each of thousands of directories is fast, with tens of thousands of paths."""
    paths, ctx = [f"/d{n // 10}/f{n}" for n in range(50_000)], host.context("x")

    def ask() -> None:
        host.update(managed=lambda: paths)
        assert all(len(ctx.managed_below(f"/d{n}")) == 10 for n in range(5_000))

    assert effort(ask, 5) < 5


async def test_private_directories(host):
    """Each resource has its own directory, created on demand and closed to other users, whatever its identity is."""
    names = [
        "file.managed[/etc/motd]",
        "file.managed[_etc_motd]",
        "x[..]",
        "x[" + "ü/" * 300 + "]",
        "x[" + "ü/" * 300 + "y]",
    ]
    directories = [host.context(name).var_dir for name in names]

    assert len(set(directories)) == len(names)
    assert all(path.parent == host.var_dir / "resources" for path in directories)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in directories)
    assert file_name("pkg.installed[nginx]") == "pkg.installed[nginx]"


async def test_a_fifo_is_not_read(host, tmp_path):
    """A kind that reads a fifo gets an error, and does not block the event loop."""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(Permanent, match="fifo: it is not a regular file"):
        await host.context("x").read_text(str(tmp_path / "fifo"))


async def test_a_binary_file_is_not_text(host, tmp_path):
    """Reading a binary file as text is an error that names the position."""
    (tmp_path / "f").write_bytes(b"a\xff")
    with pytest.raises(Permanent, match=r"not UTF-8 text \(byte 1\)"):
        await host.context("x").read_text(str(tmp_path / "f"))


async def test_sent_values(host):
    """Values that a resource sends are kept for the engine."""
    ctx = host.context("x")
    ctx.send(stdout="a")
    ctx.send(retcode=0)
    assert ctx.report.sent == {"stdout": "a", "retcode": 0}


async def test_contexts_are_cheap(host):
    """Creating 10 000 contexts takes a fraction of a second."""
    assert host.context("file.managed[1]").log is not None
    assert effort(lambda: [host.context(f"file.managed[{n}]") for n in range(10_000)], 10) < 10


async def test_templates_import_only_trusted_files(host, tmp_path):
    """A template that a managed file includes runs with the agent's rights, so only trusted users may write it."""
    ctx = host.context("x")
    assert ctx.render("{% include 'part' %}", name="t", variables={}) == "part of Debian"
    (tmp_path / "states" / "part").chmod(0o666)

    with pytest.raises(Permanent, match=r"cannot render t.*anyone may write it"):
        ctx.render("{% include 'part' %}", name="t", variables={})


async def test_imported_template_that_changes_is_read_again(host, tmp_path):
    """An imported template that has changed is read again at the next rendering."""
    ctx = host.context("x")
    for text in ("one", "two"):
        (tmp_path / "states" / "part").write_text(text)
        assert ctx.render("{% include 'part' %}", name="t", variables={}) == text


async def test_log_follows_the_settings(host, tmp_path):
    """A logger that a resource has stored follows later changes of format and level."""
    with (tmp_path / "one").open("wb") as one, (tmp_path / "two").open("wb") as two:
        log = Logs(LogSettings(format="console", level="warning"), one.fileno())
        kept = host.context("kind.x[y]").log
        kept.info("not asked for")
        kept.warning("first")
        log.close()
        log = Logs(LogSettings(format="json", level="info"), two.fileno())
        kept.info("second")
        log.close()
    structlog.reset_defaults()

    assert "kind.x[y]: first" in (tmp_path / "one").read_text()
    assert "not asked for" not in (tmp_path / "one").read_text()
    assert json.loads((tmp_path / "two").read_text())["resource"] == "kind.x[y]"


async def test_long_operations_do_not_delay_short_ones(tmp_path):
    """While searches of trees use all their threads, a small file is still written."""
    free = threading.Event()
    async with LocalHost(states=tmp_path, var_dir=tmp_path / "var") as host:
        ctx = host.context("x")
        long = [asyncio.create_task(ctx.long_blocking(free.wait)) for _ in range(4)]
        try:
            async with asyncio.timeout(DEADLINE):
                await ctx.write_file(str(tmp_path / "f"), b"there", mode=0o600)
        finally:
            free.set()
            await asyncio.gather(*long)
    assert (tmp_path / "f").read_bytes() == b"there"


async def test_a_run_occupies_no_worker_from_its_first_long_call(tmp_path):
    """The engine is notified before the call begins; a short call does not count."""
    released = []
    async with LocalHost(states=tmp_path, var_dir=tmp_path / "var") as host:
        ctx = host.context("x")
        ctx.assignment = Assignment(release_worker=lambda: released.append("worker"))
        assert await ctx.blocking(len, released) == 0
        assert await ctx.long_blocking(len, released) == 1
