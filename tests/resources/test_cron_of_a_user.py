"""Crontabs that users write themselves, of any size and content."""

from __future__ import annotations

import pytest

from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._crontab import OWN, Crontab
from holdfast.resources.kinds.cron import Present
from holdfast.resources.testing import FakeContext

MANY = 1 << 18


@pytest.mark.parametrize(
    ("text", "jobs", "variables"),
    [
        (f"#DISABLED#* * * * * a{' ' * MANY}b\n", 1, 0),
        (f"A=a{' ' * MANY}b  \n", 0, 1),
        (f"A{' ' * MANY}={' ' * MANY}\n", 0, 1),
        (f"{' ' * MANY}* * *{' ' * MANY}\n", 0, 0),
        ("#\n" * (MANY >> 1) + f"# {OWN.mark}x\n" + "\n" * (MANY >> 1) + "* * * * * a\n", 1, 0),
    ],
    ids=["blanks in a job", "blanks in a value", "blanks around =", "no job", "comments and blank lines"],
)
def test_any_text_is_understood_in_little_time(text, jobs, variables):
    """A user's crontab cannot keep the agent busy.

    The time is proportional to the length, not to its square.
    """
    tab = Crontab.read(f"{OWN.tag}\n{text}")

    kinds = [type(part.meaning).__name__ for part in tab.sections]
    assert (kinds.count("CronJob"), kinds.count("Variable")) == (jobs, variables)
    assert tab.text().count("\n") == text.count("\n") + 1


async def test_crontab_that_is_too_large_is_not_written_again(tmp_path):
    """The part beyond the limit would be lost."""
    ctx = FakeContext(tmp_path, commands={"crontab -u app -l": {"stdout": "#\n", "truncated": True}})

    with pytest.raises(Permanent, match="cannot read the crontab of app: it is larger than 1 MiB"):
        await Present.declare("true", user="app").check_apply(ctx, True)
    assert ctx.calls == ["crontab -u app -l"]
