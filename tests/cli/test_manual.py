"""The manual page has all of `--help`, and man and mandoc show it without a warning."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import click
import pytest

from deadline import DEADLINE
from holdfast.agent import verbs
from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.cli.main import cli
from holdfast.agent.cli.manual import manual
from holdfast.agent.control.decoding import requests
from holdfast.agent.model.docstrings import field_docs

MAN, MANDOC = shutil.which("man"), shutil.which("mandoc")


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The manual page of this checkout."""
    path = tmp_path / "holdfast.1"
    path.write_text(manual(cli, "holdfast"))
    return path


def shown(page: Path) -> str:
    """Return the text that a reader sees, as one line."""
    plain = {**os.environ, "MANWIDTH": "1000", "MAN_KEEP_FORMATTING": "", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"}
    done = subprocess.run(
        [str(MAN), "--warnings", "-l", page], env=plain, capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    assert done.stderr == ""
    return " ".join(re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout).replace("\u2010", "-").split())


def commands(context: click.Context) -> list[click.Context]:
    """Return the contexts of all commands, those of `show` included."""
    assert isinstance(context.command, click.Group)
    found = []
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        assert command is not None
        found.append(click.Context(command, info_name=name, parent=context))
        found += commands(found[-1]) if isinstance(command, click.Group) else []
    return found


@pytest.mark.skipif(MAN is None, reason="there is no man")
def test_the_page_says_what_help_says(page: Path) -> None:
    """The page has the help text and the options of each verb, and man prints no warning."""
    text = shown(page)

    every = commands(click.Context(cli, info_name="holdfast"))
    assert {context.info_name for context in every} > set(verbs.names())
    for context in every:
        assert f" {context.command_path} " in text
        assert " ".join((context.command.help or "").replace("`", "").split()) in text
        for option in context.command.params:
            record = option.get_help_record(context)
            assert record is None or " ".join(record[1].replace("`", "").split()) in text


@pytest.mark.skipif(MAN is None, reason="there is no man")
def test_the_page_has_the_table_of_exit_codes(page: Path) -> None:
    """The table is the same, word for word."""
    text = shown(page)

    assert all(f" {code.value} {code.meaning.replace('`', '')}. " in text for code in ExitCode)


@pytest.mark.skipif(MAN is None, reason="there is no man")
def test_the_page_describes_every_request_of_a_verb(page: Path) -> None:
    """The page has the docstring of each request and its fields with types, defaults and docstrings."""
    text = shown(page)

    shown_here = [each for each in requests().values() if each.__module__.startswith(verbs.__name__)]
    assert len(shown_here) > 10
    for request in shown_here:
        description = " ".join((request.__doc__ or "").replace("`", "").split())
        assert f'{{"verb": "{request.verb}"}} {description}' in text
        for name, description in field_docs(request).items():
            assert re.search(rf"{name} \([^)]+\) {re.escape(description.replace('`', ''))}", text)
        assert field_docs(request).keys() == {each.name for each in fields(request)}
    assert "lines (number, default 50) How many past entries" in text
    assert "seconds (number or null, default null) Duration" in text


@pytest.mark.skipif(MANDOC is None, reason="there is no mandoc")
def test_mandoc_reports_nothing(page: Path) -> None:
    """`mandoc -Tlint` reports neither mistakes nor questions of style."""
    done = subprocess.run([str(MANDOC), "-Tlint", page], capture_output=True, text=True, timeout=DEADLINE, check=False)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.skipif(MAN is None, reason="there is no man")
def test_no_help_text_is_a_roff_request(tmp_path: Path) -> None:
    """A help text is shown as it is, whatever its first characters."""
    odd = r".so /etc/passwd 'x' \\fB a\\ \"q\" ^ ~ - é € ` $x"
    wide = " ".join(["word"] * 14 + [".TH"] * 40)

    @click.group(help=odd)
    @click.option("--x", help=wide)
    def group(x: str) -> None:
        """Do nothing."""

    path = tmp_path / "odd.1"
    path.write_text(manual(group, "odd"))
    text = shown(path)

    assert odd.replace("`", "`") in text
    assert wide in text
