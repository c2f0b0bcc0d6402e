"""Completion in bash, including words with blanks, quotes and colons, and words that start within quotes.

Bash gives a function the line split at `COMP_WORDBREAKS` and replaces the text after the last break with the reply. So
this module parses the line as a shell does, and replies with the part of each word after that break, quoted if
necessary.
"""

from __future__ import annotations

import os
import re
from typing import Any, ClassVar

from click.shell_completion import CompletionItem, ShellComplete

SCRIPT = """\
%(complete_func)s() {
    local IFS=$'\\n' type word
    COMPREPLY=()
    while IFS=, read -r type word; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$word") ;;
        esac
    done < <(HOLDFAST_LINE="${COMP_LINE:0:COMP_POINT}" HOLDFAST_WORD="$2" \
%(complete_var)s=bash_complete %(prog_name)s 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
"""The program is called by its name, not by the word in the line, so that an alias of that name works as well."""

_WORD = re.compile(r"""(?:\\.|'[^']*(?:'|$)|"(?:\\.|[^"\\])*(?:"|\\?$)|[^\s\\'"]|\\$)+""", re.DOTALL)
_PIECE = re.compile(
    r"""\\(?P<one>.?)|'(?P<single>[^']*)'?|"(?P<double>(?:\\.|[^"\\])*)\\?"?|(?P<plain>[^\\'"]+)""", re.DOTALL
)
_SPECIAL = re.compile(r"""[\s'"\\$`&|;<>()*?!{}]|^[#~]""")
"""Characters with a special meaning outside quotes. Brackets are not included: `cmd.run[x]` is an identity, never a
file."""


class Bash(ShellComplete):
    """One completion request of bash."""

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = SCRIPT
    _kept = ""
    """The part of the word that the line keeps; every reply starts with it."""
    _quote = ""
    """The open quote."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the previous words, and the beginning of the word to complete."""
        line, tail = os.environ["HOLDFAST_LINE"], os.environ["HOLDFAST_WORD"]
        words = [found.group() for found in _WORD.finditer(line)]
        last = words.pop() if words and line.endswith(words[-1]) else ""
        self._kept, self._quote = plain(last.removesuffix(tail))[0], plain(last)[1]
        args, incomplete = [plain(word)[0] for word in words[1:]], plain(last)[0]
        if incomplete.startswith("--") and "=" in incomplete:
            option, _, incomplete = incomplete.partition("=")
            args.append(option)
            self._kept = self._kept.partition("=")[2]
        return args, incomplete

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the text to insert after the kept part."""
        return f"{item.type},{quoted(str(item.value).removeprefix(self._kept), self._quote)}"


def plain(word: str) -> tuple[str, str]:
    """Return the word as a program gets it, and the quote that is open at its end."""
    said, quote = "", ""
    for found in _PIECE.finditer(word):
        kind = found.lastgroup or "plain"
        within, behind = found[kind], word[found.end(kind) : found.end()]
        said += re.sub(r"\\([\\\"$`])", r"\1", within) if kind == "double" else within
        quote = found.group()[0] if kind in ("single", "double") and found.group()[0] not in behind else ""
    return said, quote


def quoted(text: str, quote: str) -> str:
    """Return text quoted for the shell, after an open quote or none."""
    if quote == "'":
        return text.replace("'", "'\\''")
    return re.sub(r"[\\\"$`]", r"\\\g<0>", text) if quote else _SPECIAL.sub(r"\\\g<0>", text)
