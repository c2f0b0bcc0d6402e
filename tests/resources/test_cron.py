"""Crontabs: random values, reversal, and several jobs at once. More is in tests/cases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pydantic import ValidationError

from holdfast.resources.context import Completed
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._crontab import OWN, SALT, Crontab
from holdfast.resources.kinds.cron import Absent, File, Present
from holdfast.resources.registry import find
from holdfast.resources.testing import FakeContext

TAG = "# Lines below here are managed by Salt, do not edit\n"


class Spool(FakeContext):
    """A host with one crontab, and a slow `crontab`."""

    tab = ""

    async def run(self, *argv, stdin=None, **_):
        """List the crontab, or replace it."""
        shown = self.tab
        await asyncio.sleep(0)
        if argv[-1] == "-":
            self.tab = stdin
        return Completed(argv, 1, 0 if shown or argv[-1] == "-" else 1, shown, "" if shown else "no crontab for root")


@pytest.fixture
def ctx(tmp_path):
    """A host without crontabs."""
    return Spool(tmp_path, facts={"id": "web1"})


async def test_random_is_the_same_each_time_and_another_on_each_host(ctx, tmp_path):
    """A removed job is restored as it was, and a hundred hosts do not start their jobs at once."""
    wanted = Present.declare(
        "/bin/x", minute="random", hour="random", daymonth="random", month="random", dayweek="random"
    )
    tabs = []
    for name in ("web1", "web1", "web2", "web3"):
        ctx.facts, ctx.tab = {"id": name}, ""
        await wanted.check_apply(ctx, True)
        tabs.append(ctx.tab.splitlines()[-1])

    assert tabs[0] == tabs[1]
    assert len(set(tabs)) == 3
    for line in tabs:
        minute, hour, daymonth, month, dayweek, _ = line.split()
        assert int(minute) < 60
        assert int(hour) < 24
        assert 1 <= int(daymonth) <= 28
        assert 1 <= int(month) <= 12
        assert int(dayweek) < 7


async def test_random_and_another_change_keep_the_random_value(ctx):
    """Only the field that differs is changed."""
    ctx.tab = f"{TAG}# SALT_CRON_IDENTIFIER:x\n17 3 * * * /bin/x\n"
    await Present.declare("/bin/x", identifier="x", minute="random", hour=4).check_apply(ctx, True)

    assert ctx.tab.endswith("\n17 4 * * * /bin/x\n")


async def test_jobs_of_one_user_that_are_put_back_at_the_same_time_are_all_there(ctx):
    """A crontab is read, edited and written as a whole, so each run waits for its turn."""
    jobs = [Present.declare(f"/bin/x{number}") for number in range(9)]
    await asyncio.gather(*(job.check_apply(ctx, True) for job in jobs))

    assert all(f"/bin/x{number}\n" in ctx.tab for number in range(9))


@pytest.mark.parametrize(
    "before",
    [
        "",
        f"{TAG}# why SALT_CRON_IDENTIFIER:x\n1 2 3 4 5 /bin/old\n",
        f"{TAG}# SALT_CRON_IDENTIFIER:x\n#DISABLED#@daily /bin/x\n",
        f"{TAG}A=1\n@daily /bin/z\n",
    ],
)
@pytest.mark.parametrize(
    "state", [Present.declare("/bin/x", identifier="x", minute=5, comment="new"), Absent.declare("x", identifier="x")]
)
async def test_undone_the_crontab_is_as_before(ctx, before, state):
    """The former crontab is restored, whatever the job was."""
    ctx.tab = before
    declaration = await state.inverse(ctx)
    await state.check_apply(ctx, True)

    await find(declaration.kind).declare(**declaration.arguments).check_apply(ctx, True)

    assert ctx.tab.removeprefix(TAG).removeprefix(f"{OWN.tag}\n") == before.removeprefix(TAG)


@pytest.mark.parametrize("words", [OWN, SALT], ids=["own", "Salt's"])
async def test_a_crontab_keeps_the_words_that_it_has(ctx, words):
    """Jobs with Salt's marks count as the same jobs.

    Nothing is written twice, and the crontab does not get a second header line.
    """
    ctx.tab = before = f"{words.tag}\n# {words.mark}x\n5 * * * * /bin/x\n"

    assert await Present.declare("/bin/x", identifier="x", minute=5).check_apply(ctx, True)
    assert ctx.tab == before
    await Present.declare("/bin/y", identifier="y").check_apply(ctx, True)
    assert ctx.tab == f"{before}# {words.mark}y\n* * * * * /bin/y\n"


@pytest.mark.parametrize(("salt_names", "words"), [(False, OWN), (True, SALT)])
async def test_a_new_crontab_is_named_as_the_settings_say(ctx, salt_names, words):
    """The marks have Holdfast's name, unless `salt_names` is set."""
    ctx.salt_names = salt_names

    await Present.declare("/bin/x", identifier="x").check_apply(ctx, True)
    assert ctx.tab == f"{words.tag}\n# {words.mark}x\n* * * * * /bin/x\n"


async def test_marks_of_both_in_one_crontab_are_understood(ctx):
    """A job is recognised by its identifier under either mark."""
    ctx.tab = f"{SALT.tag}\n# {OWN.mark}x\n5 * * * * /bin/x\n# {SALT.mark}y\n5 * * * * /bin/y\n"

    assert await Present.declare("/bin/x", identifier="x", minute=5).check_apply(ctx, True)
    assert await Present.declare("/bin/y", identifier="y", minute=5).check_apply(ctx, True)


def test_a_job_needs_its_user_cron_and_what_it_runs():
    """Automatic edges keep the job from starting before its script exists."""
    needs = {
        (dependency.type, dependency.value)
        for dependency in Present.declare("sh /opt/x --all", user="app").dependencies()
    }

    assert needs == {("user", "app"), ("pkg", "cron"), ("path", "/opt/x")}


def test_a_crontab_that_is_not_changed_keeps_each_byte():
    """Lines that the parser does not understand are kept, too."""
    text = (
        f"#!x\n\n  5 1 * * 1-5\t/bin/a  \n{TAG}\n# a\n\nA = 'b c'\n"
        "#DISABLED#no job\n@x\n#DISABLED#@daily  y % z\n\n# end\n"
    )

    assert Crontab.read(text).text() == text


def test_the_header_that_some_implementations_show_is_not_part_of_it():
    """Otherwise, each change would add the header once more."""
    assert (
        Crontab.read("# DO NOT EDIT THIS FILE - edit the master and reinstall.\n# (x)\n# (y)\n@daily x\n").text()
        == "@daily x\n"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"minute": "1 2"},
        {"minute": True},
        {"special": "daily"},
        {"user": "-u"},
        {"identifier": True},
        {"identifier": "a\nb"},
        {"name": "a\nb"},
    ],
)
def test_what_would_not_be_one_line_is_refused(wrong):
    """A line feed in a value would make another line of the crontab."""
    with pytest.raises(ValidationError):
        Present.declare(**{"name": "/bin/x", **wrong})


async def test_the_crontab_before_a_file_is_its_inverse(ctx):
    """A reversal restores the former crontab, even an empty one."""
    ctx.tab = "* * * * * /bin/own\n"
    kind, arguments, kept = await File.declare("salt://tab", user="app").inverse(ctx)

    assert (kind, arguments) == ("cron.file", {"name": kept, "user": "app"})
    assert Path(kept).read_text() == ctx.tab
    assert Path(kept).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "tab"}, "name"),
        ({"name": "http://host/tab"}, "source http://host/tab needs source_hash"),
        ({"name": "salt://tab", "user": "-r"}, "is not the name of an account"),
    ],
)
def test_a_crontab_needs_a_source_that_can_be_verified(arguments, message):
    """A name that is not a source, and a remote source without a hash, are refused."""
    with pytest.raises(ValidationError) as caught:
        File.model_validate(arguments)

    assert message in str(caught.value)


async def test_a_crontab_with_a_nul_character_is_refused(ctx):
    """Cron would read the crontab only up to the NUL character."""
    ctx.sources = {"salt://tab": "* * * * * x\0y\n"}
    with pytest.raises(Permanent, match="it has a NUL character"):
        await File.declare("salt://tab").check_apply(ctx, True)
    assert ctx.tab == ""


ODD = "# \udce9 \x0c5 * * * * /bin/y\u2028\x85\r\n\r\n1 * * * * /bin/z\udcff\r\n"


async def test_other_lines_keep_each_byte(ctx):
    """Bytes that are not UTF-8, carriage returns, and characters at which only Python ends a line."""
    ctx.tab = before = f"{ODD}{OWN.tag}\n{ODD}"
    await Present.declare("/bin/x", identifier=None).check_apply(ctx, True)

    assert ctx.tab == f"{before}* * * * * /bin/x\n"
    await Absent.declare("/bin/x", identifier=None).check_apply(ctx, True)
    assert ctx.tab == before
