"""The configuration of logrotate: finding settings, and edits that keep all other lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.errors import HoldfastError
from holdfast.resources.kinds._logrotate import changed, parse
from holdfast.resources.testing import FakeContext

MAIN = """\
# see "man logrotate"
weekly
rotate 4
create
#compress
include TMP/d

/var/log/wtmp {
    missingok
    monthly
    create 0664 root utmp
    rotate 1
}
"""
SYSLOG = """\
/var/log/mail.log
/var/log/{a,b}.log
"/var/log/other log"
{
\trotate 4
\tpostrotate
\t\trotate 99 { }
\tendscript
}
"""


def test_a_glob_as_the_value_of_a_directive_is_no_log_file():
    """A glob without a directive names log files."""
    known = parse("taboopat + *.v\n*.log\n{\n}\n")
    assert known.defaults.value("taboopat") == "+ *.v"
    assert known.blocks[0].names == ("*.log",)


def test_blocks_and_defaults_are_found():
    """Names on several lines and in quotes; scripts are no directives; the last directive counts."""
    known = parse(SYSLOG)
    assert known.blocks[0].names == ("/var/log/mail.log", "/var/log/{a,b}.log", "/var/log/other log")
    assert known.block("/var/log/other log").value("rotate") == "4"
    assert known.block("/var/log/none") is None
    main = parse(MAIN + "size=1k\nrotate 5\n")
    assert (main.defaults.value("rotate"), main.defaults.value("create"), main.defaults.value("compress")) == (
        "5",
        True,
        False,
    )
    assert main.defaults.value("size") == "1k"


@pytest.mark.parametrize(
    ("name", "word", "value", "old", "new"),
    [
        (None, "rotate", "7", "rotate 4\n", "rotate 7\n"),
        (None, "compress", True, "create\n", "create\ncompress\n"),
        (None, "create", False, "create\n", ""),
        ("/var/log/wtmp", "rotate", "12", "    rotate 1\n", "    rotate 12\n"),
        ("/var/log/wtmp", "minsize", "1M", "    rotate 1\n", "    rotate 1\n    minsize 1M\n"),
        ("/var/log/wtmp", "missingok", False, "    missingok\n", ""),
        ("/var/log/none", "missingok", False, "", ""),
    ],
)
def test_one_line_is_changed(name, word, value, old, new):
    """The line is changed in its place; a new default is added before the blocks that it applies to."""
    assert changed(MAIN, name, word, value) == MAIN.replace(old, new, 1)


def test_a_block_is_added():
    """A block is added at the end; a missing last line feed is added first."""
    assert changed("weekly", "/var/log/a b", "rotate", "3") == 'weekly\n\n"/var/log/a b" {\n    rotate 3\n}\n'
    assert changed("", "/var/log/a", "copytruncate", True) == "/var/log/a {\n    copytruncate\n}\n"


@pytest.mark.parametrize("text", ["/x {\n  rotate 4\n", "/x { rotate 4 }\n", "/x\n", "}\n", "/x {\n /y {\n}\n}\n"])
def test_what_is_not_understood_is_refused(text):
    """The error names the line."""
    with pytest.raises(ValueError, match=r"line 1|line 2"):
        parse(text)


LINES = st.lists(
    st.sampled_from(["# x", "", "  weekly", "size 1k", "/a {\n  rotate 1\n}", "/b\n/c\n{\n x\n}", "notifempty"])
)


@given(LINES, st.sampled_from([None, "/a", "/c", "/new"]), st.sampled_from(["9", True, False]))
def test_all_other_lines_stay(lines, name, value):
    """The edited file has the new value, and all other lines in their order."""
    text = "".join(f"{line}\n" for line in lines)
    new = changed(text, name, "rotate", value)
    known = parse(new)
    block = known.defaults if name is None else known.block(name)
    assert (block.value("rotate") if block else False) == value
    left = iter(new.splitlines())
    assert all(line in left for line in text.splitlines() if "rotate" not in line)


@pytest.mark.parametrize("mark", ["\f", "\r", "\x85", "\u2028"])
def test_only_line_feeds_end_a_line(mark):
    """Other characters that Python takes for line ends are part of a comment, and stay as they are."""
    assert changed(f"# a{mark}rotate 7\nrotate 4\n", None, "rotate", "5") == f"# a{mark}rotate 7\nrotate 5\n"


async def run(tmp_path: Path, apply: bool = True, stderr: str = "", **declared: Any) -> FakeContext:
    """Run a state. `stderr` is logrotate's output for the new file, in which `PATH` stands for the file's path."""
    cls = registry.find("logrotate.set")
    ctx = FakeContext(tmp_path)

    async def logrotate(*argv: str, **_: Any) -> Any:
        ctx.calls.append(" ".join(argv[:2]))
        told = stderr.replace("PATH", argv[2]) if "testing" in argv[2] else ""
        return type("Done", (), {"stderr": told, "retcode": 1})

    ctx.run = logrotate  # type: ignore[method-assign,assignment]
    state = cls.declare("x", conf_file=str(tmp_path / "logrotate.conf"), **declared)
    ctx.report.public = await state.check_apply(ctx, apply)
    return ctx


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return a directory with a configuration and an included file."""
    (tmp_path / "d").mkdir()
    (tmp_path / "logrotate.conf").write_text(MAIN.replace("TMP", str(tmp_path)))
    (tmp_path / "d/mail").write_text(SYSLOG)
    return tmp_path


async def test_a_block_in_an_included_file(host):
    """The block is changed in its file, and reported as by Salt; a second run changes nothing."""
    ctx = await run(host, key="/var/log/mail.log", value="rotate", setting=9)
    assert ctx.report.changes == {"old": "4", "new": "9"}
    assert (host / "d/mail").read_text() == SYSLOG.replace("rotate 4", "rotate 9")
    ctx = await run(host, key="/var/log/mail.log", value="rotate", setting=9)
    assert (ctx.report.public, ctx.calls) == (True, [])
    ctx = await run(host, apply=False, key="compress", value=True)
    assert (ctx.report.changes, ctx.report.comment) == ({"old": False, "new": True}, "would set compress of logrotate")


async def test_logrotate_refuses_the_new_file(host):
    """Then nothing is changed. Mistakes that exist already do not count."""
    before = (host / "logrotate.conf").read_text()
    with pytest.raises(HoldfastError, match="logrotate refuses the change: 3 bad rotation count"):
        await run(host, key="rotate", value="many", stderr="reading config\nerror: PATH:3 bad rotation count 'many'\n")
    assert (host / "logrotate.conf").read_text() == before
    await run(host, key="rotate", value="8", stderr="error: stat of /var/log/x failed: No such file or directory\n")
    assert "rotate 8" in (host / "logrotate.conf").read_text()


async def test_what_was_there_before(host):
    """The declaration restores the value, in the file that has the block."""
    cls, ctx = registry.find("logrotate.set"), FakeContext(host)
    file = str(host / "logrotate.conf")
    one = cls.declare("x", key="compress", value=True, conf_file=file)
    assert (await one.inverse(ctx)).arguments == {"name": "x", "key": "compress", "value": False, "conf_file": file}
    other = cls.declare("x", key="/var/log/mail.log", value="rotate", setting=9, conf_file=file)
    there = {"key": "/var/log/mail.log", "value": "rotate", "setting": "4", "conf_file": str(host / "d/mail")}
    assert (await other.inverse(ctx)).arguments == {"name": "x", **there}


@pytest.mark.parametrize(
    "declared",
    [
        {"key": "rotate", "value": "1\ncompress"},
        {"key": "rotate", "value": "1 }"},
        {"key": "/x {", "value": "rotate", "setting": 1},
        {"key": "/x", "value": "postrotate", "setting": "rm"},
        {"key": "include", "value": "/tmp"},
        {"key": "/x", "value": 1},
    ],
)
def test_what_would_be_another_directive(declared):
    """Such a value is refused before anything runs."""
    with pytest.raises(ValidationError):
        registry.find("logrotate.set").declare("x", **declared)
