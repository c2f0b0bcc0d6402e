"""The command line itself: quick, helpful, and without a traceback for anything a user does."""

import os
import re
import subprocess
import sys

import pytest

from holdfast import __version__
from holdfast.agent import verbs
from holdfast_process import COMMAND, Tree, environment, holdfast


@pytest.mark.parametrize("verb", verbs.names())
def test_every_verb_has_help(verb):
    """And says the same thing in the list of verbs as in its own."""
    assert holdfast(verb, "--help", check=0).stdout.startswith("Usage: holdfast ")


@pytest.mark.parametrize("verb", ["pause", "resume", "reload", "recheck", "trigger"])
def test_help_names_what_is_told_to_do_something(verb):
    """Each stands by itself: nobody reads what `it` is elsewhere."""
    assert "running agent" in verbs.command(verb).help.partition(".")[0]


def test_what_can_be_shown_is_told_whole():
    """In the list of `show`, too, no line ends in the middle."""
    _, listed = holdfast("show", "--help", check=0).stdout.split("Commands:")

    assert "high" in listed
    assert "..." not in listed


def test_help_is_quick():
    """The list of verbs imports none of them: well below 150 ms of CPU time."""
    before = os.times()
    done = holdfast("--help", check=0)
    after = os.times()

    assert all(verb in done.stdout for verb in verbs.names())
    assert after.children_user + after.children_system - before.children_user - before.children_system < 0.3


def test_one_shot_runs_do_not_import_what_they_do_not_use(tmp_path):
    """Neither watchdog nor D-Bus nor rich, whose import would cost more than a small run."""
    tree = Tree(tmp_path)
    tree.file()
    code = (
        "import sys, atexit;"
        "atexit.register(lambda: print([m for m in ('watchdog', 'dbus_fast', 'rich.console', "
        "'aiohttp') if m in sys.modules]));"
        "from holdfast.agent.cli.main import main; main(sys.argv[1:])"
    )
    words = [COMMAND[0], "-c", code, "apply", "--config", str(tree.config)]
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=60, check=False)

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", ["status", "why", "watch", "log", "pause", "trigger", "trace", "metrics", "version"])
def test_asking_a_running_agent_imports_next_to_nothing(verb, tmp_path):
    """An operator who types `holdfast status` waits for Python and click, not for what the agent itself is made of."""
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
        [COMMAND[0], "-c", code, *words], capture_output=True, text=True, env=environment(), timeout=60, check=False
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
        (["trigger"], "KIND[ID]"),
    ],
    ids=["verb", "option", "value", "no number", "no whole number", "view", "kind", "missing"],
)
def test_a_wrong_command_line_is_64(words, said):
    """Not 2, which means that changes were made; and the message helps."""
    assert said in holdfast(*words, check=64).stderr


def test_missing_files_are_sentences(tmp_path):
    """Whatever a path option names."""
    assert "does not exist" in holdfast("apply", "--config", tmp_path / "none.yaml", check=3).stderr
    assert "there is no such directory" in holdfast("plan", "--states", tmp_path / "none", check=3).stderr
    assert "none" in holdfast("show", "grains", "--grains", tmp_path / "none", check=3).stderr
    assert "cannot use" in holdfast("apply", "--states", tmp_path, "--state-dir", "/proc/nowhere", check=1).stderr


def test_no_agent_is_a_sentence(tmp_path):
    """Each verb that needs one says where it looked."""
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
        done = holdfast(*words, "--state-dir", tmp_path, check=69)

        assert f"none listens at {tmp_path}/control.sock" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_a_bug_is_a_short_message_unless_it_is_asked_for_more():
    """`--debug` shows the traceback."""
    code = (
        "import sys; from holdfast.agent.cli import kinds_reference; kinds_reference.describe = lambda *_: 1 / 0;"
        "from holdfast.agent.cli.main import main; main(sys.argv[1:])"
    )

    def run(*words):
        return subprocess.run(
            [COMMAND[0], "-c", code, *words], capture_output=True, text=True, env=environment(), timeout=60, check=False
        )

    plain, debug = run("doc", "test.nop"), run("--debug", "doc", "test.nop")

    assert (plain.returncode, plain.stderr.splitlines()[0]) == (
        70,
        "holdfast: internal error: ZeroDivisionError: division by zero",
    )
    assert "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr


def test_a_reader_that_has_had_enough():
    """`holdfast doc | head -1` is no error."""
    process = subprocess.Popen(
        [*COMMAND, "show", "grains"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), text=True
    )
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()

    assert process.wait(20) == 0
    assert said == ""


def test_version():
    """One line, with the commit of a checkout; the option says the same as the verb."""
    said = holdfast("version", check=0).stdout

    assert re.fullmatch(rf"holdfast {re.escape(__version__)}( \(commit [0-9a-f]{{12}}(-dirty)?\))?\n", said)
    assert holdfast("--version", check=0).stdout == said


def test_doc_lists_kinds_and_describes_one():
    """What there is, and every argument with its default and meaning, from the declarations themselves."""
    assert "file.managed" in holdfast("doc", check=0).stdout
    page = holdfast("doc", "file.managed", check=0).stdout
    assert "  makedirs (true/false, default false)" in page
    assert "name (text, required)" in page
    assert "  context (mapping, default " in page
    assert '"properties"' in holdfast("doc", "file.managed", "--format", "json", check=0).stdout


def test_doc_tells_of_arguments_of_salt_that_do_nothing():
    """Which are accepted without effect, which are refused, each with the reason."""
    page = holdfast("doc", "file.managed", check=0).stdout

    accepted, refused = page.partition("Accepted without effect:")[2].split("Refused:")
    assert "\n  tmp_dir: the temporary file is always beside the file" in accepted
    assert "\n  signature: Holdfast does not check signatures; use source_hash\n" in refused
    assert "Refused:" not in holdfast("doc", "file.absent", check=0).stdout


def test_doc_names_what_each_argument_takes():
    """In the words of a state file; spellings that are read as something else count."""
    from holdfast.agent.cli.kinds_reference import field_docs, types
    from holdfast.resources import registry

    command, line = types(registry.find("cmd.run")), types(registry.find("file.line"))
    lacking = [
        f"{cls.kind}.{name}"
        for cls in registry.kinds()
        if cls.__module__.startswith("holdfast.")
        for name, said in types(cls).items()
        if not said
    ]

    assert (command["cwd"], command["timeout"], command["env"]) == ("text", "number", "mapping")
    assert (command["success_stdout"], command["umask"]) == ("text or list", "text or number")
    assert field_docs(registry.find("cmd.run"))["name"].startswith("The command;")
    assert line["location"] == "'start' or 'end'"
    assert lacking == []


def test_examples_of_doc_are_indented_alike():
    """Also those that are all that a kind says of itself beyond its first line."""
    assert "\n    refresh the search index:\n      cmd.run:\n" in holdfast("doc", "cmd.run", check=0).stdout
    assert "\n    /etc/motd:\n      file.managed:\n" in holdfast("doc", "file.managed", check=0).stdout


def test_doc_tells_of_the_arguments_that_every_state_takes():
    """So that nobody has to guess what `...` stands for: each with its meaning, and the names of the requisites."""
    from holdfast.agent.cli.kinds_reference import field_docs
    from holdfast.resources.meta import Meta

    page = holdfast("doc", "all", check=0).stdout

    assert set(Meta.model_fields) <= set(field_docs(Meta))
    assert all(re.search(rf"\n  {name} \(.*default ", page) for name in Meta.model_fields)
    assert "onchanges_any" in page
    assert "`holdfast doc all`" in holdfast("doc", "test.nop", check=0).stdout
    assert "sema" in holdfast("doc", "all", "--format", "json", check=0).stdout


def test_the_configuration_may_come_from_the_environment(tmp_path, monkeypatch):
    """For whoever works on one for a while; the option wins."""
    monkeypatch.setenv("HOLDFAST_CONFIG", str(tmp_path / "one/agent.yaml"))

    assert "one/agent.yaml" in holdfast("status", check=3).stderr
    assert "two/agent.yaml" in holdfast("status", "--config", tmp_path / "two/agent.yaml", check=3).stderr


def test_every_argument_of_every_kind_is_documented():
    """The reference has no holes."""
    from holdfast.agent.cli.kinds_reference import field_docs
    from holdfast.resources import registry

    missing = [
        f"{cls.kind}.{name}"
        for cls in registry.kinds()
        if cls.__module__.startswith("holdfast.")
        for name in cls.model_fields
        if not field_docs(cls).get(name)
    ]

    assert missing == []


def test_installation_into_a_root_of_its_own(tmp_path):
    """`install` and `uninstall` through the command line."""
    assert "wrote" in holdfast("install", "--root", tmp_path / "r", "--no-start", check=0).stdout
    assert (tmp_path / "r/etc/holdfast/agent.yaml").exists()
    assert "removed" in holdfast("uninstall", "--root", tmp_path / "r", check=0).stdout


def test_the_module_is_the_script():
    """`python -m holdfast` where the script is not on the path."""
    done = subprocess.run([sys.executable, "-m", "holdfast", "--version"], capture_output=True, text=True, check=True)

    assert done.stdout.startswith("holdfast")
