"""Files of rules for sudo: names that sudo skips, errors of the whole configuration, and untrusted files."""

from __future__ import annotations

import asyncio
import os
from itertools import chain, repeat

import pytest
from pydantic import ValidationError

from deadline import DEADLINE
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._sudoers import Copies
from holdfast.resources.kinds.sudoers import Include
from holdfast.resources.testing import FakeContext

RULES = "%ops ALL=(root) /bin/x"


@pytest.mark.parametrize("name", ["a.conf", "a~", "../sudoers", "-x", ".a", "a b", "a\n", ""])
def test_a_name_that_sudo_skips_or_that_leaves_the_directory_is_refused(name):
    """The error has the line of the argument."""
    with pytest.raises(ValidationError, match="the name of a file that sudo reads"):
        Include.declare(name, contents=RULES)


def test_the_rules_come_from_one_place():
    """A state must give the rules or a source, not both."""
    for arguments in ({}, {"contents": RULES, "source": "salt://x"}):
        with pytest.raises(ValidationError, match="either contents or a source"):
            Include.declare("ops", **arguments)


def world(tmp_path, *answers):
    """Return a context in which `visudo -c` gives these answers in turn, and then repeats the last one."""
    given = chain(answers, repeat(answers[-1]))
    return FakeContext(
        tmp_path,
        commands={
            "visudo -c": lambda: next(given),
            f"visudo -c -f {tmp_path}/ops.testing": "",
            f"visudo -c -f {tmp_path}/other.testing": "",
        },
    )


@pytest.mark.parametrize("former", [None, "%former ALL=(root) /bin/y\n"])
async def test_the_former_file_is_put_back_if_the_whole_configuration_has_an_error(tmp_path, former):
    """Another program has written the same alias meanwhile; without a former file, the new one is removed."""
    file = tmp_path / "ops"
    if former is not None:
        file.write_text(former)
        file.chmod(0o440)
    broken = {"retcode": 1, "stderr": 'ops:1:12: Alias "A" already defined\n'}
    with pytest.raises(Permanent, match=r"cannot keep .*/ops: visudo: ops:1:12: Alias"):
        await Include.declare("ops", contents=RULES, directory=str(tmp_path)).check_apply(
            world(tmp_path, "", broken), True
        )
    assert (file.read_text() if file.exists() else None) == former


async def test_no_other_file_is_put_in_place_before_the_former_one_is_restored(tmp_path, monkeypatch):
    """Otherwise the error of the first file would count as one that the second file has found there."""
    put_back, seen, others = Include._put_back, [], []

    async def with_another(self, ctx, former):
        other = Include.declare("other", contents=RULES, directory=str(tmp_path))
        others.append(asyncio.create_task(other.check_apply(world(tmp_path, ""), True)))
        for _ in range(50):
            await asyncio.sleep(0)
        seen.append((tmp_path / "other").exists())
        await put_back(self, ctx, former)

    monkeypatch.setattr(Include, "_put_back", with_another)
    with pytest.raises(Permanent, match="cannot keep"):
        await Include.declare("ops", contents=RULES, directory=str(tmp_path)).check_apply(
            world(tmp_path, "", {"retcode": 1, "stderr": "ops:1:1: syntax error\n"}), True
        )
    await asyncio.wait_for(others[0], DEADLINE)
    assert (seen, sorted(path.name for path in tmp_path.iterdir() if path.is_file())) == ([False], ["other"])


async def test_an_error_that_was_there_before_does_not_remove_the_file(tmp_path):
    """The error may be in another file; the state reports it."""
    broken = {"retcode": 1, "stderr": "other:1:1: syntax error\n"}
    with pytest.raises(Permanent, match="is in place, but sudo has another error: visudo: other:1:1"):
        await Include.declare("ops", contents=RULES, directory=str(tmp_path)).check_apply(world(tmp_path, broken), True)
    assert (tmp_path / "ops").read_text() == f"{RULES}\n"


def test_the_copies_lead_to_the_new_file(tmp_path):
    """Through files and directories that include it; all other files are included where they are."""
    rules, top = tmp_path / "rules.d", str(tmp_path)
    rules.mkdir()
    (rules / "sub").mkdir()
    for name in ("z", "a b", "skipped.conf", "skipped~", "ops"):
        (rules / name).write_text("# x\n")
    (tmp_path / "main").write_text(f'Defaults x\n@include "{top}/a local" # mine\n#include %h\n# include\nx\n')
    (tmp_path / "a local").write_text(f"@includedir rules.d\n#include main\n#includedir {top}/none\n")
    copies = Copies(f"{top}/main", f"{top}/rules.d/ops", f"{top}/.new", "/private")
    assert copies.main == "/private/2"
    assert copies.texts == {
        "/private/0": f"#include {top}/rules.d/a\\ b\n#include {top}/.new\n#include {top}/rules.d/z\n",
        "/private/1": f"#include /private/0\n#include {top}/main\n#includedir {top}/none\n",
        "/private/2": "Defaults x\n#include /private/1\n#include %h\n# include\nx\n",
    }
    assert Copies(f"{top}/main", f"{top}/other.d/ops", f"{top}/.new", "/private").main is None


@pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")
async def test_a_source_that_a_user_can_write_is_refused(tmp_path):
    """That user could become root."""
    source = tmp_path / "source"
    source.write_text(RULES)
    os.chown(source, 12345, 12345)
    entry = Include.declare("ops", source=str(source), template=None, directory=str(tmp_path))
    with pytest.raises(Permanent, match="cannot trust"):
        await entry.check_apply(world(tmp_path, ""), True)


async def test_undone_the_file_is_as_before(tmp_path):
    """The former content is restored, or the file is removed."""
    entry = Include.declare("ops", contents=RULES, directory=str(tmp_path))
    before = await entry.inverse(world(tmp_path, ""))
    assert (before.kind, before.arguments) == ("file.absent", {"name": f"{tmp_path}/ops"})
    (tmp_path / "ops").write_text("# x\n")
    before = await entry.inverse(world(tmp_path, ""))
    assert (before.kind, before.arguments["contents"]) == ("sudoers.include", "# x\n")
