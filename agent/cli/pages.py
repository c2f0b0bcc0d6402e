"""Generated files about the command line for other programs: completion scripts and a manual page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from click.shell_completion import ShellComplete

from holdfast.agent.cli.bash import Bash
from holdfast.agent.cli.main import COMPLETING, cli
from holdfast.agent.cli.manual import manual
from holdfast.agent.cli.shells import Fish, Zsh

PROGRAM = "holdfast"


class Page(NamedTuple):
    """A file at the path where a program looks for it."""

    path: str
    """The path, relative to the root directory."""
    comment: str
    """Start of a comment in the file."""
    text: Callable[[], str]
    """Generates the text."""


def _script(shell: type[ShellComplete]) -> str:
    """Return the completion script of a shell."""
    return shell(cli, {}, PROGRAM, COMPLETING).source()


PAGES = (
    Page("usr/share/bash-completion/completions/holdfast", "#", partial(_script, Bash)),
    Page("usr/share/zsh/vendor-completions/_holdfast", "#", partial(_script, Zsh)),
    Page("usr/share/fish/vendor_completions.d/holdfast.fish", "#", partial(_script, Fish)),
    Page("usr/share/man/man1/holdfast.1", '.\\"', partial(manual, cli, PROGRAM)),
)
