"""Functions for commands and scripts: parse arguments and output, and phrase messages."""

from __future__ import annotations

import json
import os
import posixpath
import re
import secrets
import shlex
from collections.abc import Mapping
from signal import Signals
from typing import Annotated, Any

from pydantic import Field

from holdfast.resources import paths
from holdfast.resources.accepts import ITEM, VALUE, accepts
from holdfast.resources.context import Completed
from holdfast.resources.downloads import shown_url
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import parse_list, parse_text
from holdfast.resources.spelling import nearest

HARMLESS = frozenset({"CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "WINCH"})
"""Signals that stop or continue a process or are ignored by default."""
SHOWN = 80
"""Maximum number of characters of a command in messages."""
SAID = 3
"""Maximum number of lines of a failed tool's output in its error."""
LENGTH = 500
"""Maximum number of characters of these lines."""
TELLING = re.compile(
    r"(\S+: )?((fatal|error)( error)?: |\[(error|emerg|crit)\]|! \[|[\w.]+(Error|Exception)\b)"
    r"|.*(syntax error|permission denied)",
    re.IGNORECASE,
)
"""Matches a line that reports an error."""
NOISE = re.compile(r"Try |Usage:|hint: |# |[\s^~]+$|.*\bdmesg\(1\)", re.IGNORECASE)
"""Matches a line that does not help: usage, hints about the program's own options, marks below an excerpt."""
LABEL = re.compile(r"(?:(?:fatal|error|warning)(?: error)?: |\[error\] )+", re.IGNORECASE)
"""Matches the labels with which an error message begins, apart from the name of the program."""

EnvironmentValue = str | float | bool | None
"""The value of a variable in a state file."""
VariableText = Annotated[str, Field(pattern=r"^[^=]+=")]
"""A variable with its value: `NAME=VALUE`."""


@accepts(dict[str, EnvironmentValue], list[VariableText | dict[str, EnvironmentValue]], VariableText)
def parse_env(value: object) -> object:
    """Return `env` as one mapping, from a mapping, a list of mappings, or a list of `NAME=VALUE`.

    False becomes an empty value.
    """
    merged: dict[str, str] = {}
    for item in value if isinstance(value, (list, tuple)) else (value,):
        variables = dict([item.split("=", 1)]) if isinstance(item, str) and "=" in item else item
        if not isinstance(variables, Mapping):
            raise ValueError(f"{item!r} is not a variable; write 'NAME: value'")  # noqa: TRY004 - for pydantic
        merged |= {str(name): variable(str(name), text) for name, text in variables.items()}
    return merged


def variable(name: str, value: object) -> str:
    """Return the value of a variable as text. Raises `ValueError` for a name or value that no process can have."""
    if isinstance(value, (Mapping, list, tuple)):
        raise ValueError(f"the variable {name} must be text, not {value!r}")  # noqa: TRY004 - for pydantic
    if not name or "=" in name or "\0" in f"{name}{value}":
        raise ValueError(
            f"{name!r} is not a variable: the name must not contain '=', and neither name nor value may contain a "
            "NUL character"
        )
    return "" if value is None or value is False else str(parse_text(value))


@accepts(VALUE, ITEM, list[str], str, None, pattern=r"-?[0-9]{1,3}")
def parse_statuses(value: object) -> object:
    """Return exit statuses as a tuple of numbers; a single number is a list with one item."""
    found = []
    for item in parse_list(value):  # type: ignore[attr-defined]
        if not re.fullmatch(r"-?\d{1,3}", str(item)) or not -64 <= int(str(item)) <= 255:
            raise ValueError(
                f"{item!r} is not an exit status; write a number from 0 to 255, or a negative one for a signal"
            )
        found.append(int(str(item)))
    return tuple(found)


def demand_foreground(value: bool) -> bool:
    """Check that a command does not run in the background. Raises `ValueError`."""
    if value:
        raise ValueError("a command cannot run in the background: declare a service, or leave out bg")
    return value


@accepts(str, numbers=True)
def parse_signal(value: object) -> object:
    """Return the name of a signal without SIG, from a name with or without SIG or a number.

    Raises `ValueError` for an unknown signal and for a signal that does not end a process.
    """
    names = {str(each.value): each.name.removeprefix("SIG") for each in Signals}
    name = names.get(str(value), str(value).upper().removeprefix("SIG"))
    if name not in names.values():
        near = nearest(name, names.values())
        raise ValueError(
            f"{value!r} is not a signal: "
            + (f"did you mean {near}?" if near else "write a name such as INT, TERM or QUIT")
        )
    if name in HARMLESS:
        raise ValueError(f"{value!r} does not end a command; write a signal such as INT, TERM or QUIT")
    return name


def words_of(command: str) -> tuple[str, ...]:
    """Split a command as a shell does. Raises `Permanent` for an unterminated quote."""
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise Permanent(f"cannot split {command!r} into words: {error}") from None


def program(command: str) -> tuple[str, ...]:
    """Split a command that runs without a shell. Also raises `Permanent` if there is no first word."""
    words = words_of(command)
    if not words or not words[0]:
        raise Permanent(
            f"cannot run {command!r}: without a shell (python_shell: false) its first word must name a program"
        )
    return words


def parse_verdict(out: str) -> dict[str, Any] | None:
    """Return the last line of output as a mapping; None if it is not a mapping."""
    line = next((line for line in reversed(out.splitlines()) if line.strip()), "")
    try:
        words = json.loads(line)
    except ValueError:
        try:
            words = dict(word.split("=", 1) for word in shlex.split(line) if "=" in word)
        except ValueError:
            return None
    return words if isinstance(words, dict) and words else None


def ended(status: int) -> str:
    """Return how a command ended, as the end of a sentence."""
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


def beginning(command: str) -> str:
    """Return a command shortened for messages."""
    return command if len(command) <= SHOWN else f"{command[: SHOWN - 1]}…"


def reason(done: Completed) -> str:
    """Return why a tool has failed: its own message on one line, as the end of an error message.

    These are the error messages of the tool without its name or, if it marks none, its last lines.
    """
    text = done.stderr if done.stderr.strip() else done.stdout
    lines = [line for each in text.splitlines() if (line := each.strip()) and not NOISE.match(line)]
    told = [line for line in lines if TELLING.match(line)][:SAID] or lines[-SAID:]
    own = posixpath.basename(done.argv[0])
    said = dict.fromkeys(_bare(line, own) for line in told)
    return "; ".join(said)[:LENGTH] or f"{own} {ended(done.retcode)}"


def _bare(line: str, own: str) -> str:
    """Return a message without the name of the program, a label and the full stop."""
    named = re.sub(rf"^(?:(?:\S*/)?{re.escape(own)}(?: v\S+)?(?: \(\S+\))?: |/dev/stdin:\S* |netlink: )\s*", "", line)
    return re.sub(rf"^(?:{LABEL.pattern})", "", named, flags=re.IGNORECASE).rstrip(".")


def last_line(text: str) -> str:
    """Return the last line of a command's output, as the end of a sentence."""
    lines = text.strip().splitlines()
    return f": {lines[-1].strip()}" if lines else ""


def written(script: bytes, directory: str, uid: int) -> paths.Place:
    """Write a script that only this user (-1: the agent's own) and root can read, and only root until it is complete.

    Raises `OSError`, and `Unsafe` for a directory in which other users could replace the script.
    """
    place = paths.at(f"{directory}/holdfast-script-{secrets.token_hex(8)}")
    if place.directory.weak is not None:
        raise paths.Unsafe(f"cannot trust {place.path}: {place.directory.weak}")
    handle = place.create(0o500)
    try:
        handle.write(script)
        os.fchown(handle.fd, uid, -1)
    except BaseException:
        place.unlink(own=True)
        raise
    return place


def text_of(script: bytes, url: str) -> str:
    """Return a script as text. Raises `Permanent` if it is not UTF-8."""
    try:
        return script.decode()
    except UnicodeDecodeError as error:
        raise Permanent(f"cannot render {shown_url(url)}: it is not UTF-8 text (byte {error.start})") from None


def interpreter(script: bytes, shell: str) -> tuple[str, ...]:
    """Return the interpreter of a script from its first line; otherwise the shell."""
    first = script.split(b"\n", 1)[0]
    if not first.startswith(b"#!"):
        return (shell,)
    return tuple(first[2:].decode(errors="replace").strip().split(None, 1)) or (shell,)
