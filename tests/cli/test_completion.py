"""What Tab does in real shells: words that a shell would take apart come whole to the program."""

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from holdfast.agent.cli.bash import plain, quoted
from holdfast_process import COMMAND, SRC, Agent, Tree, environment

ODD = ["with blank", 'it\'s "q"', "a:b=c", "$HOME {x}", "back\\slash", "#no", "~me", "a;b&c|d", "é *"]
BASH, ZSH, FISH = map(shutil.which, ("bash", "zsh", "fish"))


@pytest.mark.skipif(BASH is None, reason="there is no bash")
@pytest.mark.parametrize("quote", ["", "'", '"'], ids=["bare", "single", "double"])
def test_bash_reads_what_was_quoted(quote):
    """And so does the other half, which reads what bash has."""
    written = " ".join(quote + quoted(word, quote) + quote for word in ODD)
    read = subprocess.run(
        [BASH, "-c", f"printf '%s\\n' {written}"], capture_output=True, text=True, timeout=20, check=True
    ).stdout

    assert read.splitlines() == ODD
    assert [plain(quote + quoted(word, quote) + quote) for word in ODD] == [(word, "") for word in ODD]


def test_a_word_may_end_within_a_quote():
    """It is completed there."""
    assert plain("'with bl") == ("with bl", "'")
    assert plain('a"b\\"') == ('ab"', '"')
    assert plain("a\\") == ("a", "")


def complete(line, tail, **more):
    """What bash is answered for a line whose last break is before `tail`."""
    asked = {
        **environment(),
        "HOLDFAST_LINE": line,
        "HOLDFAST_WORD": tail,
        "_HOLDFAST_COMPLETE": "bash_complete",
        **more,
    }
    return subprocess.run(COMMAND, env=asked, capture_output=True, text=True, timeout=20, check=True).stdout.split()


def test_kinds_and_names_of_sls_are_completed_without_an_agent(tmp_path):
    """Also behind `=`, where bash breaks the line; nothing is said of settings that cannot be read."""
    tree = Tree(tmp_path)
    tree.sls("web/init", "x: test.nop\n")
    tree.sls("web/conf", "y: test.nop\n")
    tree.sls("top", "base: {'*': [web]}\n")

    assert complete("holdfast doc file.ma", "file.ma") == ["plain,file.managed"]
    assert "plain,file" in complete("holdfast doc fi", "fi")
    assert complete("holdfast plan ", "", HOLDFAST_CONFIG=str(tree.config)) == ["plain,web.conf", "plain,web"]
    assert complete("holdfast show order web.", "web.", HOLDFAST_CONFIG=str(tree.config)) == ["plain,web.conf"]
    assert complete("holdfast plan --format=j", "j") == ["plain,json"]
    assert complete("holdfast plan w", "w", HOLDFAST_CONFIG=str(tmp_path)) == []
    assert complete("holdfast --version stat", "stat") == ["plain,status"]


class Terminal:
    """A person at an interactive shell, bash if nothing else is said."""

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
        """What a line prints."""
        os.write(self._terminal, f"{line}; echo 'that''s all'\n".encode())
        seen, patience = "", time.monotonic() + 30
        while "thats all" not in seen:
            assert time.monotonic() < patience, seen
            if select.select([self._terminal], [], [], 0.5)[0]:
                seen += os.read(self._terminal, 65536).decode("ascii", "replace")
        return seen

    def completes(self, line):
        """The last word of a line after Tab, as a program gets it."""
        seen = self.does(f"{line}\t\x01printf 'word:%s\\n' \x05")
        return re.findall(r"^word:(.*?)\r?$", seen, re.MULTILINE)[-1]

    def leave(self):
        """It is over."""
        os.write(self._terminal, b"\x15exit\n")
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


def told_by_run(directory):
    """The commands that `scripts/run` says to type, from a clone in this directory."""
    said = re.search(
        r"^cat <<END$.*?^END$", (Path(__file__).parents[2] / "scripts/run").read_text(), re.MULTILINE | re.DOTALL
    )[0]
    shown = subprocess.run(
        ["sh", "-c", said], cwd=directory, capture_output=True, text=True, timeout=20, check=True
    ).stdout
    return re.findall(r"^  ((?:export|eval) .*)$", shown, re.MULTILINE)


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A running agent with unusual resources, an installed program, and the root of `holdfast install`."""
    tmp_path = tmp_path_factory.mktemp("told")
    program = tmp_path / "bin/holdfast"
    tree = Tree(tmp_path / "tree")
    install_program(program, f"export HOLDFAST_CONFIG={tree.config}")
    tree.sls("odd", "with blank: test.nop\na:bee: test.nop\n'one,two': test.nop\nfail: {cmd.run: [{name: 'false'}]}\n")
    subprocess.run([program, "install", "--root", tmp_path / "root"], check=True, timeout=60, capture_output=True)
    with Agent(tree):
        yield tmp_path


def install_program(program, first="true"):
    """A program that runs this checkout."""
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\n{first}\nPYTHONPATH={SRC} exec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_tab_in_bash_after_install(told):
    """The file is named after the program, as bash-completion has it. The shell and the agent take some seconds."""
    bash = Terminal(told)
    for line in (f"export PATH={told}/bin:$PATH", f". {told}/root/usr/share/bash-completion/completions/holdfast"):
        bash.does(line)
    assert bash.completes("holdfast stat") == "status"
    assert bash.completes("holdfast why wi") == "with blank"
    assert bash.completes("holdfast why one") == "one,two"
    bash.leave()


@pytest.mark.skipif(ZSH is None, reason="there is no zsh")
def test_tab_in_zsh_after_install(told):
    """It finds the file by its name, and asks it each time. The shell and the agent take some seconds."""
    zsh = Terminal(told, ZSH, "-f", "-i")
    path = f"export PATH={told}/bin:$PATH; fpath=({told}/root/usr/share/zsh/vendor-completions $fpath)"
    for line in ("unsetopt prompt_sp", path, "autoload -Uz compinit; compinit -u -D"):
        zsh.does(line)
    assert zsh.completes("holdfast stat") == "status"
    assert zsh.completes("holdfast why wi") == "with blank"
    assert zsh.completes("holdfast why 'with bl") == "with blank"
    assert zsh.completes("holdfast why a:b") == "a:bee"
    assert zsh.completes("holdfast why one") == "one,two"
    assert zsh.completes("holdfast trigger cmd") == "cmd.run[fail]"
    zsh.leave()
    zsh = Terminal(told, ZSH, "-f", "-i")
    script = 'eval "$(_HOLDFAST_COMPLETE=zsh_source holdfast)"'
    for line in (
        "unsetopt prompt_sp",
        f"export PATH={told}/bin:$PATH",
        "autoload -Uz compinit; compinit -u -D",
        script,
    ):
        zsh.does(line)
    assert zsh.completes("holdfast stat") == "status"
    zsh.leave()


@pytest.mark.skipif(FISH is None, reason="there is no fish")
def test_tab_in_fish_after_install(told):
    """`complete -C` answers what Tab shows. The shell and the agent take some seconds."""

    def completes(line):
        asked = (
            f"set fish_complete_path {told}/root/usr/share/fish/vendor_completions.d; complete -C {shlex.quote(line)}"
        )
        home = {"HOME": str(told), "XDG_CONFIG_HOME": str(told / "config"), "PATH": f"{told}/bin:{os.environ['PATH']}"}
        argv = [FISH, "--no-config", "-c", asked]
        done = subprocess.run(
            argv, env={**environment(), **home}, capture_output=True, text=True, timeout=60, check=True
        )
        return [found.partition("\t")[0] for found in done.stdout.splitlines()]

    assert completes("holdfast stat") == ["status"]
    assert completes("holdfast why wi") == ["with blank"]
    assert completes("holdfast why a:b") == ["a:bee"]
    assert completes("holdfast why one") == ["one,two"]
    assert completes("holdfast trigger cmd") == ["cmd.run[fail]"]


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_tab_in_bash_after_what_the_run_script_says(tmp_path):
    """Within quotes and without, behind a colon, and with an alias in place of the PATH."""
    program = tmp_path / ".venv/bin/holdfast"
    install_program(program)
    tree = Tree(tmp_path / ".private")
    tree.sls("odd", "with blank: test.nop\na:bee: test.nop\nfail: {cmd.run: [{name: 'false'}]}\n")
    path, config, script = told_by_run(tmp_path)
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
