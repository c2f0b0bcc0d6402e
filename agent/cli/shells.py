"""Completion in each shell: our own scripts for zsh and fish, with the completions that click computes.

Click's own scripts have gaps (8.5): the one for zsh, loaded by zsh as a file, does not answer the second Tab; the one
for fish splits words at commas.
"""

from __future__ import annotations

from typing import ClassVar

from click.shell_completion import FishComplete, ZshComplete, add_completion_class

from holdfast.agent.cli.bash import Bash

ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain described response
    local type word help
    response=("${(@f)$(COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) \
%(complete_var)s=zsh_complete %(prog_name)s 2>/dev/null)}")
    for type word help in "${response[@]}"; do
        case $type in
            dir) _path_files -/ ;;
            file) _path_files -f ;;
            plain) if [[ $help == _ ]]; then plain+=("$word"); else described+=("$word:$help"); fi ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#plain )) && compadd -U -V unsorted -a plain
}

if [[ $funcstack[1] == _%(prog_name)s ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
"""With `eval` it registers its function. As a file `_holdfast` it is itself the function that zsh calls each time."""
FISH = """\
function %(complete_func)s
    set -l line (commandline -cp | string collect)
    for answer in (env %(complete_var)s=fish_complete COMP_WORDS=$line COMP_CWORD=(commandline -t) \
%(prog_name)s 2>/dev/null)
        set -l parts (string split --max 1 "," -- $answer)
        switch $parts[1]
            case dir
                __fish_complete_directories $parts[2]
            case file
                __fish_complete_path $parts[2]
            case plain
                echo $parts[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


class Zsh(ZshComplete):
    """One completion request of zsh."""

    source_template: ClassVar[str] = ZSH


class Fish(FishComplete):
    """One completion request of fish."""

    source_template: ClassVar[str] = FISH


def install() -> None:
    """Use these scripts for all shells."""
    for shell in (Bash, Zsh, Fish):
        add_completion_class(shell)
