"""The manual page: the `--help` texts of all verbs in the format of man(7)."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from pathlib import Path

import click

import holdfast
from holdfast.agent import verbs
from holdfast.agent.cli.exits import ExitCode
from holdfast.agent.control.request import ControlRequest, declared

WIDTH = 78
"""Columns of a line in the source."""

SPECIAL = {"\\": "\\e", "-": "\\-", '"': "\\(dq", "'": "\\(aq", "^": "\\(ha", "~": "\\(ti"}
"""A character that roff would interpret -> its escape."""
SOCKET = """
A program can ask the running agent itself, through the socket `control.sock` in the state directory. It sends one
request, a JSON object in one line with the verb and the fields below. Each response is a JSON object in one line; the
last one has `ok`: `data` has the result, or `error` the reason for a refusal.
"""
JSON_TYPES = {
    "str": "text",
    "int": "number",
    "float": "number",
    "bool": "true/false",
    "None": "null",
    "Sequence[str]": "list of texts",
    "Mapping[str, Any]": "object",
}
"""Type of a field of a request -> words for people."""
FILES = {
    "/etc/holdfast/agent.yaml": "Settings, with explanations.",
    "/etc/holdfast/states/": "State files.",
    "/etc/holdfast/pillar/": "The pillar: data of this host that states read.",
    "/etc/holdfast/resources/": "Kinds of your own.",
    "/var/lib/holdfast/": "The agent's state, with its journal.",
}


def manual(group: click.Group, name: str) -> str:
    """Return the page of a program whose verbs are the commands of this group."""
    package = Path(holdfast.__file__)
    built = datetime.fromtimestamp(
        package.stat().st_mtime, UTC
    )  # a page has a date; this is when this version was installed
    context = _context(group, name, None)
    verbs = [
        command for verb in group.list_commands(context) if (command := group.get_command(context, verb)) is not None
    ]
    what = inspect.cleandoc(group.help or "").partition("\n")[0].rstrip(".")
    lines = [
        f'.TH {name.upper()} 1 "{built:%Y-%m-%d}" "{name} {holdfast.__version__}" "User Commands"',
        ".SH NAME",
        f"{name} \\- {_escaped(what[:1].lower() + what[1:])}",
        ".SH SYNOPSIS",
        *_usage(context),
        ".SH OPTIONS",
        *_options(context),
        ".SH VERBS",
        *(line for verb in verbs for line in _verb(_context(verb, verb.name or "", context))),
        ".SH EXIT STATUS",
        *(line for code in ExitCode for line in _item(str(code.value), f"{code.meaning}.")),
        ".SH CONTROL SOCKET",
        *_text(SOCKET),
        *(line for request in _requests() for line in _request(request)),
        ".SH FILES",
        *(line for file, text in FILES.items() for line in _item(file, text)),
        ".SH SEE ALSO",
        f"{_escaped(f'`{name} doc`')} lists the kinds of resources and their arguments.",
        ".BR systemctl (1),",
        ".BR journalctl (1)",
    ]
    return "\n".join(lines) + "\n"


def _verb(context: click.Context) -> Iterator[str]:
    """Yield the section of a verb, followed by the sections of its own verbs."""
    yield f'.SS "{_escaped(context.command_path)}"'
    yield from _usage(context)
    for paragraph in inspect.cleandoc(context.command.help or "").split("\n\n"):
        yield ".PP"
        yield from _text(paragraph)
    yield from _options(context)
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            if (command := context.command.get_command(context, name)) is not None:
                yield from _verb(_context(command, name, context))


def _context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    return click.Context(command, info_name=name, parent=parent, resilient_parsing=True, **command.context_settings)


def _usage(context: click.Context) -> Iterator[str]:
    words = " ".join(context.command.collect_usage_pieces(context))
    yield f"\\fB{_escaped(context.command_path)}\\fR {_escaped(words)}".rstrip()


def _options(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        if (record := parameter.get_help_record(context)) is not None and record[1]:
            yield from _item(*record)


def _requests() -> list[type[ControlRequest]]:
    """Return the requests of the verbs, by name."""
    verbs.sections()  # imports the modules that declare them
    return [each for _, each in sorted(declared.items()) if each.__module__.startswith(verbs.__name__)]


def _request(request: type[ControlRequest]) -> Iterator[str]:
    """Yield a request, followed by its fields."""
    yield from _item(f'{{"verb": "{request.verb}"}}', inspect.getdoc(request) or "")
    from holdfast.agent.model.docstrings import field_docs

    docs = field_docs(request)
    if not fields(request):
        return
    yield ".RS"
    for each in fields(request):
        takes = " or ".join(JSON_TYPES[word] for word in str(each.type).split(" | "))
        default = "required" if each.default is MISSING else f"default {json.dumps(each.default)}"
        yield from _item(f"{each.name} ({takes}, {default})", docs[each.name])
    yield ".RE"


def _item(name: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f"\\fB{_escaped(name)}\\fR"
    yield from _text(text)


def _text(paragraph: str) -> Iterator[str]:
    """Yield running text for man(7).

    Each sentence starts a line, and long lines are wrapped for readers of the source.
    """
    for sentence in re.split(r"(?<=[.:;?!]) +(?=[A-Z0-9`])", " ".join(paragraph.split())):
        for line in textwrap.wrap(_escaped(sentence), WIDTH, break_long_words=False, break_on_hyphens=False):
            yield "\\&" * line.startswith((".", "'")) + line  # else roff would read a request


def _escaped(text: str) -> str:
    """Return text escaped for roff; text between backticks is bold."""
    plain = "".join(SPECIAL.get(letter, letter if letter.isascii() else f"\\[u{ord(letter):04X}]") for letter in text)
    return re.sub(r"`([^`]+)`", r"\\fB\1\\fR", plain).replace("`", "\\(ga")
