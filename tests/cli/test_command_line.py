"""The command line as a whole: it starts quickly, helps, and shows no traceback for any mistake of a user."""

import json
import os
import re
import subprocess
import sys

import pytest

from deadline import DEADLINE
from holdfast import __version__
from holdfast.agent import verbs
from holdfast_process import COMMAND, Tree, environment, holdfast, in_process


@pytest.mark.parametrize("verb", verbs.names())
def test_every_verb_has_help(verb):
    """`--help` of a verb prints its usage."""
    assert holdfast(verb, "--help", check=0).stdout.startswith("Usage: holdfast ")


@pytest.mark.parametrize("verb", ["pause", "resume", "reload", "recheck", "trigger"])
def test_help_of_a_verb_names_the_agent_that_it_controls(verb):
    """Each help text is read alone, so its first sentence names the running agent."""
    assert "running agent" in verbs.command(verb).help.partition(".")[0]


def test_help_of_show_truncates_no_line():
    """The list of views in `show --help` has no shortened line."""
    _, listed = in_process("show", "--help", check=0).stdout.split("Commands:")

    assert "high" in listed
    assert "..." not in listed


def test_help_takes_little_cpu_time():
    """`--help` needs well below 150 ms of CPU time."""
    before = os.times()
    done = holdfast("--help", check=0)
    after = os.times()

    assert all(verb in done.stdout for verb in verbs.names())
    assert after.children_user + after.children_system - before.children_user - before.children_system < 0.3


def test_apply_imports_no_library_of_the_agent(tmp_path):
    """The import of watchdog, D-Bus or rich would take longer than a small run."""
    tree = Tree(tmp_path)
    tree.file()
    code = (
        "import sys, atexit;"
        "atexit.register(lambda: print([m for m in ('watchdog', 'dbus_fast', 'rich.console', "
        "'aiohttp') if m in sys.modules]));"
        "from holdfast.agent.cli.main import main; main(sys.argv[1:])"
    )
    words = [COMMAND[0], "-c", code, "apply", "--config", str(tree.config)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=DEADLINE, check=False)

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", ["status", "why", "watch", "log", "pause", "trigger", "trace", "metrics", "version"])
def test_a_verb_that_asks_the_agent_imports_no_large_library(verb, tmp_path):
    """The time of `holdfast status` is that of Python and click, without the libraries of the agent."""
    tree = Tree(tmp_path)
    code = (
        "import sys, atexit;"
        "atexit.register(lambda: print([m for m in ('pydantic', 'jinja2', 'asyncio', 'structlog', "
        "'rich') if m in sys.modules]));"
        "from holdfast.agent.cli.main import main; main(sys.argv[1:])"
    )
    words = [
        verb,
        *{"why": ["a.b[c]"], "trigger": ["a.b[c]"]}.get(verb, []),
        *([] if verb == "version" else ["--config", str(tree.config)]),
    ]
    done = subprocess.run(
        [COMMAND[0], "-c", code, *words],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=DEADLINE,
        check=False,
    )

    assert done.stdout.splitlines()[-1] == "[]"
    assert verb == "version" or "none listens" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["aply"], "did you mean 'apply'?"),
        (["apply", "--sttes", "x"], "--states"),
        (["apply", "--timeout", "-1"], "'-1' is not a number of seconds above 0"),
        (["apply", "--timeout", "abc"], "'abc' is not a number of seconds above 0"),
        (["log", "--lines", "1.5"], "'1.5' is not a whole number, 0 or more"),
        (["show", "loww"], "loww"),
        (["doc", "file.manged"], "did you mean 'file.managed'?"),
        (["doc", "postgres.role"], "there is no kind 'postgres.role'; agent.yaml does not name the package: plugins:"),
        (["trigger"], "KIND[ID]"),
    ],
    ids=["verb", "option", "value", "no number", "no whole number", "view", "kind", "package", "missing"],
)
def test_a_wrong_command_line_is_64(words, said):
    """The code is not 2, which means that changes were made. The message helps to correct the mistake."""
    assert said in in_process(*words, check=64).stderr


def test_a_missing_file_is_one_message_without_a_traceback(tmp_path):
    """Each option that takes a path has such a message."""
    assert "does not exist" in in_process("apply", "--config", tmp_path / "none.yaml", check=3).stderr
    assert "there is no such directory" in in_process("plan", "--states", tmp_path / "none", check=3).stderr
    assert "none" in in_process("show", "grains", "--grains", tmp_path / "none", check=3).stderr
    assert "cannot use" in in_process("apply", "--states", tmp_path, "--state-dir", "/proc/nowhere", check=1).stderr


def test_no_agent_is_one_line_that_names_the_socket(tmp_path):
    """Each verb that asks an agent prints one line with the path of the socket."""
    for words in (
        ["status"],
        ["log"],
        ["pause"],
        ["resume"],
        ["reload"],
        ["recheck"],
        ["trigger", "a.b[c]"],
        ["why", "x"],
        ["watch"],
        ["trace"],
        ["metrics"],
    ):
        done = in_process(*words, "--state-dir", tmp_path, check=69)

        assert f"none listens at {tmp_path}/control.sock" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_an_internal_error_is_a_short_message_and_with_debug_a_traceback():
    """`--debug` shows the traceback of an internal error."""
    code = (
        "import sys; from holdfast.agent.cli import kinds_reference; kinds_reference.describe = lambda *_: 1 / 0;"
        "from holdfast.agent.cli.main import main; main(sys.argv[1:])"
    )

    def run(*words):
        return subprocess.run(
            [COMMAND[0], "-c", code, *words],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=DEADLINE,
            check=False,
        )

    plain, debug = run("doc", "test.nop"), run("--debug", "doc", "test.nop")

    assert (plain.returncode, plain.stderr.splitlines()[0]) == (
        70,
        "holdfast: internal error: ZeroDivisionError: division by zero",
    )
    assert "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr


def test_a_closed_pipe_is_no_error():
    """`holdfast doc | head -1` ends with exit code 0."""
    process = subprocess.Popen(
        [*COMMAND, "show", "grains"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True
    )
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()

    assert process.wait(DEADLINE) == 0
    assert said == ""


def test_version_is_one_line():
    """The line has the commit of a checkout. `--version` and `version` print the same."""
    said = holdfast("version", check=0).stdout

    assert re.fullmatch(rf"holdfast {re.escape(__version__)}( \(commit [0-9a-f]{{12}}(-dirty)?\))?\n", said)
    assert holdfast("--version", check=0).stdout == said


def test_doc_lists_kinds_and_describes_one():
    """`doc` lists all kinds; `doc KIND` shows each argument with type and default, taken from the declaration."""
    assert "file.managed" in holdfast("doc", check=0).stdout
    page = in_process("doc", "file.managed", check=0).stdout
    assert "  makedirs (true/false, default false)" in page
    assert "name (text, default the ID)" in page
    assert "  context (mapping, default " in page
    model = json.loads(in_process("doc", "file.managed", "--format", "json", check=0).stdout)
    assert [kind["name"] for kind in model["kinds"]] == ["file.managed"]
    assert "interfaces" in json.loads(in_process("doc", "--format", "json", check=0).stdout)


def test_doc_lists_ignored_and_refused_arguments_of_salt():
    """Each argument has its reason."""
    page = in_process("doc", "file.managed", check=0).stdout

    accepted, refused = page.partition("Accepted without effect:")[2].split("Refused:")
    assert "\n  tmp_dir: the temporary file is always beside the file" in accepted
    assert "\n  signature: Holdfast does not check signatures; use source_hash\n" in refused
    assert "Refused:" not in in_process("doc", "file.absent", check=0).stdout


def test_doc_names_the_types_of_each_argument():
    """The types are named in the words of a state file, and include spellings that are converted."""
    command, line = (in_process("doc", kind, check=0).stdout for kind in ("cmd.run", "file.line"))

    assert "  cwd (text, default none)\n" in command
    assert "  timeout (number, seconds, default none)\n" in command
    assert "  env (text or mapping or list, default none)\n" in command
    assert "  success_stdout (text or list, default [])\n" in command
    assert "  umask (text or number, default none)\n" in command
    assert "  name (text, default the ID)\n      The command." in command
    assert "  location ('start' or 'end', default none)\n" in line


def test_examples_of_doc_have_the_same_indentation():
    """The indentation does not depend on the rest of the docstring of a kind."""
    assert "\n    refresh the search index:\n      cmd.run:\n" in in_process("doc", "cmd.run", check=0).stdout
    assert "\n    /etc/motd:\n      file.managed:\n" in in_process("doc", "file.managed", check=0).stdout


def test_doc_all_describes_the_arguments_of_every_state():
    """`doc all` shows their types, defaults and meanings, and the names of the requisites."""
    from holdfast.agent.model.docstrings import field_docs
    from holdfast.resources.meta import Meta

    page = in_process("doc", "all", check=0).stdout

    assert set(Meta.model_fields) <= set(field_docs(Meta))
    assert all(re.search(rf"\n  {name} \(.*default ", page) for name in Meta.model_fields)
    assert "onchanges_any" in page
    assert "`holdfast doc all`" in in_process("doc", "test.nop", check=0).stdout
    assert "sema" in in_process("doc", "all", "--format", "json", check=0).stdout


def test_the_configuration_may_come_from_the_environment(tmp_path, monkeypatch):
    """HOLDFAST_CONFIG names the settings; `--config` overrides it."""
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "one/agent.yaml"))

    assert "one/agent.yaml" in in_process("status", check=3).stderr
    assert "two/agent.yaml" in in_process("status", "--config", tmp_path / "two/agent.yaml", check=3).stderr


def test_install_and_uninstall_with_a_root(tmp_path):
    """`install` and `uninstall` work through the command line."""
    assert "wrote" in holdfast("install", "--root", tmp_path / "r", "--no-start", check=0).stdout
    assert (tmp_path / "r/etc/holdfast/agent.yaml").exists()
    assert "removed" in holdfast("uninstall", "--root", tmp_path / "r", check=0).stdout


def test_the_module_is_the_script():
    """`python -m holdfast` does the same as the script, which need not be on the path."""
    done = subprocess.run([sys.executable, "-m", "holdfast", "--version"], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("holdfast")
