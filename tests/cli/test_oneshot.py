"""`apply` and `plan` as processes: exit codes, text, the stable JSON form, and that they keep to their directory."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from holdfast_process import COMMAND, Tree, environment, holdfast

AS_USER = """
import os, pathlib, sys
from holdfast.agent.cli.main import main
try:
    main(["plan", *sys.argv[3:]])  # imports all there is: the interpreter may be readable by root alone
except SystemExit as done:
    assert done.code == 2
sys.stdout.flush()
root = pathlib.Path(sys.argv[1])
for path in (root, *root.rglob("*")):
    os.chown(path, 12345, 12345)
os.setgroups([]); os.setgid(12345); os.setuid(12345)
main(sys.argv[2:])
"""
"""Holdfast as an ordinary user, in a process that begins as root."""
CALL = {"id", "state", "fun", "name", "sls", "run", "result", "changes", "comment", "duration", "ran"}


@pytest.fixture
def tree(tmp_path):
    """A configuration without states."""
    return Tree(tmp_path)


@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_a_state_before_what_it_needs_is_told_in_a_sentence(tmp_path, verb):
    """As `check` has it, with the hint; each name once, and no time as in a log."""
    tree = Tree(tmp_path)
    tree.sls("early", "HOST/d/a:\n  file.managed: []\nHOST/d:\n  file.directory: []\n")
    who, provider = f"file.managed[{tree.host}/d/a]", f"file.directory[{tree.host}/d]"
    place = f"{tree.etc}/states/early.sls:4:3"

    assert tree(verb).stderr == (
        f"warning: {who} needs the directory {tree.host}/d, "
        f"but {provider} ({place}) comes after it: on an empty machine it fails; "
        f"require 'file: {tree.host}/d', or move the state down\n"
    )


@pytest.mark.parametrize("form", ["text", "json"])
def test_quiet_leaves_out_warnings(tmp_path, form):
    """Those of the compiler, and of what the run finds strange; what fails is told all the same."""
    tree = Tree(tmp_path)
    tree.sls(
        "early", "HOST/d/a:\n  file.managed:\n    - provider: x\n    - makedirs: true\nHOST/d:\n  file.directory: []\n"
    )
    words = ("plan", "--format", form)

    assert "argument-ignored" in tree(*words).stderr
    assert tree(*words, "--quiet").stderr == ""
    tree.sls("bad", "bad:\n  test.fail_without_changes: []\n")
    assert "bad" in tree(*words, "--quiet").stdout


def test_secrets_of_the_pillar_are_not_told(tree):
    """Not in the diff of a file, not in what a command prints or fails with, not in JSON.

    What is done with them is done.
    """
    tree.pillar("app:\n  password: correct-horse\n  port: 80\n")
    tree.sls(
        "app",
        "HOST/app.conf:\n  file.managed:\n    - contents: |\n        {{ pillar.app.port }} {{ pillar.app.password }}\n"
        "tell:\n  cmd.run:\n    - name: cat HOST/app.conf\nfail:\n  cmd.run:\n"
        "    - name: cat HOST/app.conf >&2; exit 1\n",
    )

    told = [tree(verb, *form) for verb in ("plan", "apply") for form in ((), ("--format", "json"))]
    assert (tree.host / "app.conf").read_text() == "80 correct-horse\n"
    assert all("80 ********" in done.stdout for done in told)
    assert not any("correct-horse" in text for done in told for text in (done.stdout, done.stderr))


def test_a_source_whose_name_there_cannot_be_is_no_traceback(tree):
    """Each is told in a sentence, at its line, before anything is planned."""
    urls = {"managed": "salt://a\\0b", "local": "/tmp/a\\0b"}
    states = "".join(f'HOST/{name}: {{file.managed: [source: "{url}"]}}\n' for name, url in urls.items())
    states += 'HOST/d: {file.recurse: [source: "salt://a\\0b"]}\nscript: {cmd.script: [source: "salt://a\\0b"]}\n'
    tree.sls("nul", states + "other: test.succeed_with_changes\n")
    done = tree("plan")

    assert done.returncode == 3
    assert "internal error" not in done.stdout + done.stderr
    assert [int(line) for line in re.findall(r"nul\.sls:(\d+)", done.stderr)] == [1, 2, 3, 4]


def test_apply_succeeds_whether_or_not_something_was_changed(tree):
    """So that `holdfast apply && deploy` works; --detailed-exitcode tells the two apart."""
    tree.file()
    tree("apply", check=0)
    (tree.host / "motd").write_text("drifted\n")
    tree("apply", "--detailed-exitcode", check=2)
    tree("apply", check=0)


def test_apply_in_noop_tells_whether_something_would_be_changed(tree):
    """As `plan` does; a state that alone is in noop is left as it is on purpose, which is a success."""
    tree.settings("engine: {noop: true}\n")
    tree.file()
    tree("apply", check=2)
    tree.settings("")
    tree.sls("motd", "HOST/motd:\n  file.managed:\n    - contents: hello\n    - noop: true\n")
    tree("apply", check=0)
    tree("apply", "--detailed-exitcode", check=2)
    tree("plan", check=2)


def test_exit_codes_of_a_detailed_apply(tree):
    """2 when something was changed, 0 when nothing had to be."""
    tree.file()

    assert "created file.managed[" in tree("apply", "--detailed-exitcode", check=2).stdout
    assert (tree.host / "motd").read_text() == "hello\n"
    assert tree("apply", "--detailed-exitcode", check=0).stdout.startswith("converged in ")


@pytest.mark.parametrize(
    ("stop", "handler", "code"), [("false", "nop", 0), ("true", "nop", 1), ("false", "fail_without_changes", 1)]
)
def test_failure_that_is_handled_well_is_none_of_the_run(tree, stop, handler, code):
    """Where its handler says `onfail_stop: false`; the state that failed is told all the same."""
    text = "bad:\n  test.fail_without_changes\nhandler:\n  test.{}:\n    - onfail: [test: bad]\n    - onfail_stop: {}\n"
    tree.sls("site", text.format(handler, stop))

    rows = tree.json("apply", check=code)["results"]
    assert [(row["id"], row["result"], row["ran"]) for row in rows] == [
        ("bad", False, True),
        ("handler", handler == "nop", True),
    ]


def test_plan_changes_nothing(tree):
    """The diff of what would be, and exit code 2; 0 when nothing would."""
    tree.file()
    done = tree("plan", check=2)

    assert "+hello" in done.stdout
    assert "1 would be created" in done.stdout
    assert list(tree.host.iterdir()) == []
    tree("apply", "--detailed-exitcode", check=2)
    tree("plan", check=0)


def test_what_has_no_reason_to_run_is_no_news(tree):
    """It is counted, and told with --verbose; that a single run is a start is not told at all."""
    tree.sls("guarded", "guarded:\n  cmd.run:\n    - name: 'true'\n    - unless: 'true'\n")
    tree.file()

    assert "created file.managed[" in tree("apply", "--detailed-exitcode", check=2).stdout
    assert "skipped cmd.run[guarded]" not in tree("apply", "--detailed-exitcode", check=0).stdout
    told = tree("apply", "--detailed-exitcode", "--verbose", check=0).stdout
    assert "skipped cmd.run[guarded]: " in told
    assert "(start)" not in told
    assert "1 skipped" in told


def test_a_pillar_that_is_not_there(tree):
    """A name mistyped is a mistake, not an empty pillar."""
    assert "nowhere: cannot use this file: it is not a directory" in tree("plan", "--pillar", "nowhere", check=3).stderr


def test_failure_is_1(tree):
    """One line for the failure, a short one for its child."""
    tree.sls("bad", "bad:\n  test.fail_without_changes: []\n\nchild:\n  test.nop:\n    - require:\n      - test: bad\n")
    done = tree("apply", check=1)

    assert "failed test.fail_without_changes[bad]" in done.stdout
    assert "skipped test.nop[child] because of test.fail_without_changes[bad]" in done.stdout
    assert "not converged" in done.stdout


def test_json_has_one_object_for_each_call_in_order(tree):
    """The contract for programs: keys, order, reasons; and nothing else on stdout."""
    tree.sls(
        "all",
        "first:\n  test.succeed_with_changes: []\n\nbad:\n  test.fail_without_changes: []\n\n"
        "child:\n  test.nop:\n    - require:\n      - test: bad\n\nguarded:\n  test.nop:\n    - unless: 'true'\n",
    )
    answer = json.loads(tree("apply", "--format", "json", check=1).stdout)

    assert set(answer) == {"pass", "converged", "results"}
    assert answer["converged"] is False
    assert [(r["id"], r["run"], r["result"], r["ran"]) for r in answer["results"]] == [
        ("first", 0, True, True),
        ("bad", 1, False, True),
        ("child", 2, False, False),
        ("guarded", 3, True, False),
    ]
    first, _, child, guarded = answer["results"]
    assert set(first) == CALL
    assert (first["state"], first["fun"], first["name"], first["sls"]) == (
        "test",
        "succeed_with_changes",
        "first",
        "all",
    )
    assert first["changes"]
    assert isinstance(first["duration"], float)
    assert set(child) == CALL | {"reason", "because"}
    assert (child["reason"], child["because"]) == ("requisite_failed", ["test.fail_without_changes[bad]"])
    assert guarded["reason"] == "unless"


def test_each_result_has_one_line_of_json(tree):
    """For programs that read lines; without results, and with line feeds in them, it is one document all the same."""
    assert tree.json("plan", check=0)["results"] == []
    tree.sls(
        "a",
        "one:\n  file.managed:\n    - name: HOST/one\n    - contents: |\n        a\n        b\ntwo:\n  test.nop: []\n",
    )
    said = tree("plan", "--format", "json", check=2).stdout

    rows = [line for line in said.splitlines() if '"id"' in line]
    assert [json.loads(row.strip(" ,"))["id"] for row in rows] == ["one", "two"]
    assert json.loads(said)["results"] == [json.loads(row.strip(" ,")) for row in rows]


def test_plan_json_says_null_where_it_would_change(tree):
    """Result null, as in Salt's test mode."""
    tree.file()

    assert [r["result"] for r in tree.json("plan", check=2)["results"]] == [None]


def test_states_that_do_not_compile_are_3(tree):
    """Every mistake with place, code and hint, as text and as JSON."""
    path = tree.sls("bad", "HOST/x:\n  file.managd: []\n\nHOST/y:\n  file.managed:\n    - contens: x\n")
    done = tree("apply", check=3)
    answer = tree.json("plan", check=3)

    assert f"{path}:2:3: " in done.stderr
    assert done.stdout == ""
    assert [set(error) for error in answer["errors"]] == [{"file", "line", "column", "code", "message", "hint"}] * 2
    assert [error["line"] for error in answer["errors"]] == [2, 6]


def test_names_choose_what_is_applied(tree):
    """Only the SLS that are asked for."""
    tree.file("one")
    tree.file("two")
    tree("apply", "--detailed-exitcode", "two", check=2)

    assert [path.name for path in tree.host.iterdir()] == ["two"]


SLOW = (
    "fast:\n  test.nop: []\n\nslow:\n  cmd.run:\n    - name: echo $$ > HOST/pid; exec sleep 1000\n\nlast:\n"
    "  test.nop:\n    - require: [slow]\n"
)


def test_out_of_time_is_4(tree):
    """What runs is ended with its children; the answer says what was done until then, and what was not."""
    tree.sls("slow", SLOW)
    done = tree("apply", "--timeout", "1.5", "--format", "json", check=4)
    answer = json.loads(done.stdout)

    assert answer["converged"] is False
    assert [(row["id"], row["result"]) for row in answer["results"]] == [("fast", True), ("slow", False)]
    assert re.fullmatch(r"was ended after \d+\.\d s", answer["results"][1]["comment"])
    assert set(answer["results"][1]) == CALL
    with pytest.raises(ProcessLookupError):
        os.kill(int((tree.host / "pid").read_text()), 0)


def test_out_of_time_names_what_was_ended(tree):
    """In the line for a person."""
    tree.sls("slow", SLOW)
    said = tree("apply", "--timeout", "1.5", check=4).stdout

    assert re.search(
        r"^out of time: not converged after 1\.5 s; cmd\.run\[slow\] was ended after \d+\.\d s; 1 of 3 states were",
        said,
        re.MULTILINE,
    )


def interrupt(tree, number, *words):
    """Begin to apply what is slow, and interrupt it; the exit code, and what was written to stdout and stderr."""
    tree.sls("slow", SLOW)
    command = [*COMMAND, "apply", "--config", str(tree.config), *words]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 20
    while not (tree.host / "pid").exists() or not (tree.host / "pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(number)
    out, said = process.communicate(timeout=10)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tree.host / "pid").read_text()), 0)
    return process.returncode, out, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_interrupted_in_order(tree, number):
    """Ctrl-C ends the command that runs; one line says which, and the exit code that it was interrupted."""
    code, _, said = interrupt(tree, number)

    assert code == 130
    assert re.fullmatch(r"interrupted: cmd\.run\[slow\] was ended after \d+\.\d s; 1 of 3 states were checked\n", said)


def test_interrupted_run_has_results(tree):
    """The document is whole: with what was done, and what was not."""
    code, out, said = interrupt(tree, signal.SIGINT, "--format", "json")
    answer = json.loads(out)

    assert (code, answer["converged"], said[:12]) == (130, False, "interrupted:")
    assert [(row["id"], row["result"]) for row in answer["results"]] == [("fast", True), ("slow", False)]


def test_no_states_is_success_with_a_note(tree):
    """An empty run is no failure."""
    assert "there is nothing to do" in tree("apply", "--detailed-exitcode", check=0).stdout


def test_no_configuration_at_all(tmp_path):
    """`--states` is enough; nothing is needed below /etc."""
    (tmp_path / "s").mkdir(mode=0o755)
    (tmp_path / "s/x.sls").write_text(f"{tmp_path}/made:\n  file.managed:\n    - contents: x\n")
    holdfast("apply", "--detailed-exitcode", "--states", tmp_path / "s", "--state-dir", tmp_path / "state", check=2)

    assert (tmp_path / "made").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_ordinary_user_can(tree):
    """Without root and without a state directory of its own."""
    tree.file()
    for parent in tree.root.parents:
        if Path(tempfile.gettempdir()) in parent.parents:
            parent.chmod(parent.stat().st_mode | 0o011)
    done = subprocess.run(
        [COMMAND[0], "-c", AS_USER, str(tree.root), "apply", "--states", str(tree.etc / "states"),
         "--pillar", str(tree.etc / "pillar")],
        capture_output=True, text=True, env=environment(), timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert (tree.host / "motd").stat().st_uid == 12345


def test_the_state_directory_must_be_private(tree):
    """Others could make the agent forget, or remember what never was."""
    tree.file()
    (tree.root / "state").mkdir()
    (tree.root / "state").chmod(0o777)

    assert "others may write there" in tree("apply", check=1).stderr


def test_a_refresh_survives_a_failed_run(tree):
    """What a run could not deliver, the next one does: one-shot runs have a memory of their own."""
    tree.sls(
        "watch",
        "HOST/conf:\n  file.managed:\n    - contents: x\n\n"
        "restart:\n  cmd.wait:\n    - name: test -e HOST/go && echo done >> HOST/restarts\n    - watch:\n"
        "      - file: HOST/conf\n",
    )
    tree("apply", check=1)
    (tree.host / "go").touch()
    tree("apply", "--detailed-exitcode", check=2)
    tree("apply", "--detailed-exitcode", check=0)

    assert (tree.host / "restarts").read_text() == "done\n"


def test_two_runs_at_once(tree):
    """The second says that there is a first, since when, and changes nothing; the first is not disturbed."""
    tree.sls("slow", "HOST/slow:\n  cmd.run:\n    - name: touch HOST/up; while [ ! -e HOST/go ]; do sleep 0.02; done\n")
    tree.file("quick")
    process = subprocess.Popen(
        [*COMMAND, "apply", "--detailed-exitcode", "slow", "--config", str(tree.config)],
        env=environment(),
        stdout=subprocess.DEVNULL,
    )
    until = time.monotonic() + 20
    while not (tree.host / "up").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert f"process {process.pid} holds {tree.root}/state/lock since " in tree("apply", "quick", check=1).stderr
    assert not (tree.host / "quick").exists()
    (tree.host / "go").touch()

    assert process.wait(20) == 2


def test_control_characters_of_a_command_are_not_obeyed(tree):
    """Output of what is run cannot play with the terminal."""
    tree.sls("esc", "esc:\n  cmd.run:\n    - name: printf '\\033[2J'\n")

    assert "\x1b" not in tree("apply", "--detailed-exitcode", check=2).stdout


def test_plan_foresees_what_depends_on_a_change_that_salt_does_not_show(tmp_path):
    """A copy has no `changes` in noop; it would change something all the same, and so would what waits for it."""
    tree = Tree(tmp_path)
    (tree.host / "from").write_text("x")
    to = tree.host / "to"
    tree.sls(
        "a",
        f"copy: {{file.copy: [name: {to}, source: {tree.host}/from]}}\n"
        f"run: {{cmd.run: [name: 'true', onchanges: [file: copy]]}}\n",
    )

    done = tree("plan", check=2)
    assert f"would create file.copy[copy] by copying {tree.host}/from with mode " in done.stdout
    assert "1 would be created, 1 would change" in done.stdout
    copy, run = tree.json("plan", check=2)["results"]
    assert (copy["result"], copy["changes"], run["result"], run["changes"]) == (None, {}, None, {"cmd": "true"})
    assert not to.exists()


def test_a_listener_is_a_row_of_its_own(tmp_path):
    """Named as Salt names it, after all others."""
    tree = Tree(tmp_path)
    tree.sls("a", "svc:\n  test.nop:\n    - listen:\n      - test: src\nsrc:\n  test.succeed_with_changes: []\n")
    rows = tree.json("apply", "--detailed-exitcode", check=2)["results"]

    assert [(row["id"], row["fun"], row["run"]) for row in rows] == [
        ("svc", "nop", 0),
        ("src", "succeed_with_changes", 1),
        ("listener_svc", "mod_watch", 2),
    ]


def test_listeners_have_their_turns_in_the_order_of_those_who_say_that_they_listen(tmp_path):
    """Of a `listen_in` that is its source; what changed first does not matter."""
    tree = Tree(tmp_path)
    tree.sls(
        "a",
        """
        l1: {test.nop: [listen: [test: s3]]}
        l2: {test.nop: []}
        s3: {test.succeed_with_changes: []}
        s2: {test.succeed_with_changes: [listen_in: [test: l4]]}
        s1: {test.succeed_with_changes: [listen_in: [test: l2]]}
        l3: {test.nop: [listen: [test: s3]]}
        l4: {test.nop: []}
        """,
    )

    rows = tree.json("apply", "--detailed-exitcode", check=2)["results"]

    assert [row["id"] for row in rows if row["fun"] == "mod_watch"] == [
        "listener_l1",
        "listener_l4",
        "listener_l2",
        "listener_l3",
    ]


def test_letter_that_a_terminal_lacks_is_written_as_an_escape(tree, monkeypatch):
    """Not a failure of the state: the locale of a machine may be any."""
    tree.sls("web", "é: test.nop\n")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")

    assert "test.nop[\\xe9]" in tree("plan", "-v", check=0).stdout
