"""Completion in real shells: words with characters that are special to a shell reach the program whole."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from unittest import mock

import pytest

from deadline import DEADLINE
from holdfast.agent.cli.bash import plain, quoted
from holdfast_process import COMMAND, SRC, Agent, Tree, environment, holdfast, in_process

ODD = ["with blank", 'it\'s "q"', "a:b=c", "$HOME {x}", "back\\slash", "#no", "~me", "a;b&c|d", "é *"]
BASH, ZSH, FISH = map(shutil.which, ("bash", "zsh", "fish"))


@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize("quote", ["", "'", '"'], ids=["bare", "single", "double"])
def test_bash_reads_words_quoted_for_it(quote):
    """The program reads the quoted words back to the same words, too."""
    written = " ".join(quote + quoted(word, quote) + quote for word in ODD)
    read = subprocess.run(
        [BASH, "-c", f"printf '%s\\n' {written}"], capture_output=True, text=True, timeout=DEADLINE, check=True
    ).stdout

    assert read.splitlines() == ODD
    assert [plain(quote + quoted(word, quote) + quote) for word in ODD] == [(word, "") for word in ODD]


def test_a_word_may_end_within_a_quote():
    """A word with an open quote is completed within the quote."""
    assert plain("'with bl") == ("with bl", "'")
    assert plain('a"b\\"') == ('ab"', '"')
    assert plain("a\\") == ("a", "")


def complete(line, tail, run=in_process, **more):
    """Return the answer to bash for a line; `tail` is the part after its last word break."""
    asked = {"HOLDFAST_LINE": line, "HOLDFAST_WORD": tail, "_HOLDFAST_COMPLETE": "bash_complete", **more}
    with mock.patch.dict(os.environ, asked):
        return run(check=0).stdout.split()


def test_kinds_options_and_sls_names_are_completed_without_an_agent(tmp_path):
    """Words after `=` are completed, too, where bash breaks words. Unreadable settings print nothing."""
    tree = Tree(tmp_path)
    tree.sls("web/init", "x: test.nop\n")
    tree.sls("web/conf", "y: test.nop\n")
    tree.sls("top", "base: {'*': [web]}\n")

    assert complete("holdfast doc file.ma", "file.ma", run=holdfast) == ["plain,file.managed"]
    assert "plain,file" in complete("holdfast doc fi", "fi")
    assert complete("holdfast plan ", "", HOLDFAST_CONFIG=str(tree.config)) == ["plain,web.conf", "plain,web"]
    assert complete("holdfast show order web.", "web.", HOLDFAST_CONFIG=str(tree.config)) == ["plain,web.conf"]
    assert complete("holdfast plan --format=j", "j") == ["plain,json"]
    assert complete("holdfast plan w", "w", HOLDFAST_CONFIG=str(tmp_path)) == []
    assert complete("holdfast --version stat", "stat") == ["plain,status"]
    commands = ["plain,check", "plain,compact", "plain,export", "plain,import", "plain,remote"]
    assert complete("holdfast db ", "") == commands
    assert complete("holdfast drift re", "re") == ["plain,restore"]
    assert complete("holdfast drift keep --format=j", "j") == ["plain,json"]
    assert complete("holdfast history --origin ref", "ref") == ["plain,refresh"]


class Terminal:
    """An interactive shell on a pseudo-terminal; bash by default."""

    def __init__(self, directory, *argv):
        kept = {
            **environment(),
            "PS1": "ready> ",
            "TERM": "xterm",
            "INPUTRC": "/dev/null",
            "HISTFILE": "/dev/null",
            "LC_ALL": "C.UTF-8",
        }
        argv = argv or (BASH, "--norc", "--noprofile", "-i")
        self._pid, self._terminal = pty.fork()
        if not self._pid:
            os.chdir(directory)
            os.execve(argv[0], argv, kept)

    def does(self, line):
        """Type a line. Return the output."""
        os.write(self._terminal, f"{line}; echo 'that''s all'\n".encode())
        seen, timeout = "", time.monotonic() + DEADLINE
        while "thats all" not in seen:
            assert time.monotonic() < timeout, seen
            if select.select([self._terminal], [], [], 0.5)[0]:
                seen += os.read(self._terminal, 65536).decode("ascii", "replace")
        return seen

    def completes(self, line):
        """Type a line and Tab. Return its last word as a program receives it."""
        seen = self.does(f"{line}\t\x01printf 'word:%s\\n' \x05")
        return re.findall(r"^word:(.*?)\r?$", seen, re.MULTILINE)[-1]

    def leave(self):
        """Leave the shell."""
        os.write(self._terminal, b"\x15exit\n")
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


def commands_of_scripts_run(directory):
    """Return the commands that `scripts/run` prints for a clone in this directory."""
    said = re.search(
        r"^cat <<END$.*?^END$", (Path(__file__).parents[2] / "scripts/run").read_text(), re.MULTILINE | re.DOTALL
    )[0]
    shown = subprocess.run(
        ["sh", "-c", said], cwd=directory, capture_output=True, text=True, timeout=DEADLINE, check=True
    ).stdout
    return re.findall(r"^  ((?:export|eval) .*)$", shown, re.MULTILINE)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A directory with an installed program, the root of `holdfast install` and a running agent with unusual names."""
    tmp_path = tmp_path_factory.mktemp("installed")
    program = tmp_path / "bin/holdfast"
    tree = Tree(tmp_path / "tree")
    install_program(program, f"export HOLDFAST_CONFIG={tree.config}")
    tree.sls("odd", "with blank: test.nop\na:bee: test.nop\n'one,two': test.nop\nfail: {cmd.run: [{name: 'false'}]}\n")
    subprocess.run([program, "install", "--root", tmp_path / "root"], check=True, timeout=DEADLINE, capture_output=True)
    with Agent(tree):
        yield tmp_path


def install_program(program, first="true"):
    """Write a program that runs this checkout."""
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\n{first}\nPYTHONPATH={SRC} exec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_tab_in_bash_after_install(installed):
    """bash-completion finds the file by the name of the program. The shell and the agent take some seconds."""
    bash = Terminal(installed)
    for line in (
        f"export PATH={installed}/bin:$PATH",
        f". {installed}/root/usr/share/bash-completion/completions/holdfast",
    ):
        bash.does(line)
    assert bash.completes("holdfast stat") == "status"
    assert bash.completes("holdfast why wi") == "with blank"
    assert bash.completes("holdfast why one") == "one,two"
    bash.leave()


@pytest.mark.skipif(ZSH is None, reason="there is no zsh")
def test_tab_in_zsh_after_install(installed):
    """The shell finds the file by its name, and runs the program for each Tab. Shell and agent take some seconds."""
    zsh = Terminal(installed, ZSH, "-f", "-i")
    path = f"export PATH={installed}/bin:$PATH; fpath=({installed}/root/usr/share/zsh/vendor-completions $fpath)"
    for line in ("unsetopt prompt_sp", path, "autoload -Uz compinit; compinit -u -D"):
        zsh.does(line)
    assert zsh.completes("holdfast stat") == "status"
    assert zsh.completes("holdfast why wi") == "with blank"
    assert zsh.completes("holdfast why 'with bl") == "with blank"
    assert zsh.completes("holdfast why a:b") == "a:bee"
    assert zsh.completes("holdfast why one") == "one,two"
    assert zsh.completes("holdfast trigger cmd") == "cmd.run[fail]"
    zsh.leave()
    zsh = Terminal(installed, ZSH, "-f", "-i")
    script = 'eval "$(_HOLDFAST_COMPLETE=zsh_source holdfast)"'
    for line in (
        "unsetopt prompt_sp",
        f"export PATH={installed}/bin:$PATH",
        "autoload -Uz compinit; compinit -u -D",
        script,
    ):
        zsh.does(line)
    assert zsh.completes("holdfast stat") == "status"
    zsh.leave()


@pytest.mark.skipif(FISH is None, reason="there is no fish")
def test_tab_in_fish_after_install(installed):
    """`complete -C` prints what Tab shows. The shell and the agent take some seconds."""

    def completes(line):
        paths = f"set fish_complete_path {installed}/root/usr/share/fish/vendor_completions.d"
        home = {
            "HOME": str(installed),
            "XDG_CONFIG_HOME": str(installed / "config"),
            "PATH": f"{installed}/bin:{os.environ['PATH']}",
        }
        argv = [FISH, "--no-config", "-c", f"{paths}; complete -C {shlex.quote(line)}"]
        done = subprocess.run(
            argv, env={**environment(), **home}, capture_output=True, text=True, timeout=DEADLINE, check=True
        )
        return [found.partition("\t")[0] for found in done.stdout.splitlines()]

    assert completes("holdfast stat") == ["status"]
    assert completes("holdfast why wi") == ["with blank"]
    assert completes("holdfast why a:b") == ["a:bee"]
    assert completes("holdfast why one") == ["one,two"]
    assert completes("holdfast trigger cmd") == ["cmd.run[fail]"]


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_tab_in_bash_after_the_commands_of_scripts_run(tmp_path):
    """Completion works with and without quotes, after a colon, and with an alias for the program."""
    program = tmp_path / ".venv/bin/holdfast"
    install_program(program)
    tree = Tree(tmp_path / ".private")
    tree.sls("odd", "with blank: test.nop\na:bee: test.nop\nfail: {cmd.run: [{name: 'false'}]}\n")
    path, config, script = commands_of_scripts_run(tmp_path)
    with Agent(tree):
        bash = Terminal(tmp_path)
        for line in (path, config, script):
            bash.does(line)
        assert bash.completes("holdfast why wi") == "with blank"
        assert bash.completes("holdfast why 'with bl") == "with blank"
        assert bash.completes("holdfast why a:b") == "a:bee"
        assert bash.completes("holdfast trigger cmd") == "cmd.run[fail]"
        bash.leave()
        bash = Terminal(tmp_path)
        for line in (f"alias holdfast={program}", config, script):
            bash.does(line)
        assert bash.completes("holdfast why test.nop[w") == "test.nop[with blank]"
        bash.leave()
