"""`apply` and `plan`: exit codes, text and JSON output, time limits, interruptions, and the state directory."""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from deadline import DEADLINE
from holdfast_process import COMMAND, Tree, environment, holdfast
from strangers import UID, open_directory

AS_USER = """
import os, pathlib, sys
from holdfast.agent.cli.main import main
try:
    main(["plan", *sys.argv[3:]])  # imports all modules: perhaps only root can read them
except SystemExit as done:
    assert done.code == 2
sys.stdout.flush()
root = pathlib.Path(sys.argv[1])
for path in (root, *root.rglob("*")):
    os.chown(path, 12345, 12345)
os.setgroups([]); os.setgid(12345); os.setuid(12345)
main(sys.argv[2:])
""".replace("12345", str(UID))
"""Runs Holdfast as an ordinary user, in a process that starts as root."""
CALL = {"id", "state", "fun", "name", "sls", "file", "line", "run", "result", "changes", "comment", "duration", "ran"}


@pytest.fixture
def tree(tmp_path):
    """A configuration without states."""
    return Tree(tmp_path)


@pytest.fixture
def own_processes(tree):
    """Each verb on the configuration runs in a process of its own."""
    tree.run = holdfast


@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_a_state_before_a_state_that_it_needs_is_one_warning(tmp_path, verb):
    """The warning is that of `check` with its hint, without the time and the fields of a log entry."""
    tree = Tree(tmp_path)
    tree.sls("early", "HOST/d/a:\n  file.managed: []\nHOST/d:\n  file.directory: []\n")
    who, provider = f"file.managed[{tree.host}/d/a]", f"file.directory[{tree.host}/d]"
    place = f"{tree.etc}/states/early.sls:4:3"

    assert tree(verb).stderr == (
        f"warning: {who} needs the directory {tree.host}/d, "
        f"but {provider} ({place}) comes after it: on a new host, the earlier state fails; "
        f"require 'file: {tree.host}/d', or move the state down\n"
    )


@pytest.mark.parametrize("form", ["text", "json"])
def test_quiet_leaves_out_warnings(tmp_path, form):
    """`--quiet` omits the warnings of the compiler and of the run, but shows failures."""
    tree = Tree(tmp_path)
    tree.sls(
        "early", "HOST/d/a:\n  file.managed:\n    - provider: x\n    - makedirs: true\nHOST/d:\n  file.directory: []\n"
    )
    words = ("plan", "--format", form)

    assert "argument-ignored" in tree(*words).stderr
    assert tree(*words, "--quiet").stderr == ""
    tree.sls("bad", "bad:\n  test.fail_without_changes: []\n")
    assert "bad" in tree(*words, "--quiet").stdout


def test_secrets_of_the_pillar_are_masked(tree):
    """The diff of a file, the output of a command, its error and the JSON are masked.

    The states themselves use the secrets.
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


def test_a_source_with_an_impossible_name_is_an_error_with_its_line(tree):
    """Each such source is reported before anything is planned."""
    urls = {"managed": "salt://a\\0b", "local": "/tmp/a\\0b"}
    states = "".join(f'HOST/{name}: {{file.managed: [source: "{url}"]}}\n' for name, url in urls.items())
    states += 'HOST/d: {file.recurse: [source: "salt://a\\0b"]}\nscript: {cmd.script: [source: "salt://a\\0b"]}\n'
    tree.sls("nul", states + "other: test.succeed_with_changes\n")
    done = tree("plan")

    assert done.returncode == 3
    assert "internal error" not in done.stdout + done.stderr
    assert [int(line) for line in re.findall(r"nul\.sls:(\d+)", done.stderr)] == [1, 2, 3, 4]


def test_apply_exits_with_0_with_and_without_changes(tree):
    """`holdfast apply && deploy` works. `--detailed-exitcode` distinguishes the two."""
    tree.file()
    tree("apply", check=0)
    (tree.host / "motd").write_text("drifted\n")
    tree("apply", "--detailed-exitcode", check=2)
    tree("apply", check=0)


def test_apply_in_noop_exits_with_2_if_something_would_change(tree):
    """Code 0 says that all resources are as declared, which is not so if a single state in noop differs either."""
    tree.settings("engine: {noop: true}\n")
    tree.file()
    tree("apply", check=2)
    tree.settings("")
    tree.sls("motd", "HOST/motd:\n  file.managed:\n    - contents: hello\n    - noop: true\n")
    tree("apply", check=2)
    tree("plan", check=2)
    (tree.host / "motd").write_text("hello\n")
    tree("apply", check=0)


@pytest.mark.usefixtures("own_processes")
def test_exit_codes_of_a_detailed_apply(tree):
    """`apply --detailed-exitcode` exits with 2 after changes, otherwise with 0."""
    tree.file()

    assert "created file.managed[" in tree("apply", "--detailed-exitcode", check=2).stdout
    assert (tree.host / "motd").read_text() == "hello\n"
    assert tree("apply", "--detailed-exitcode", check=0).stdout.startswith("converged in ")


@pytest.mark.parametrize(
    ("stop", "handler", "code"), [("false", "nop", 0), ("true", "nop", 1), ("false", "fail_without_changes", 1)]
)
def test_a_handled_failure_does_not_fail_the_run(tree, stop, handler, code):
    """The handler has to succeed and to have `onfail_stop: false`; the failure is reported all the same."""
    text = "bad:\n  test.fail_without_changes\nhandler:\n  test.{}:\n    - onfail: [test: bad]\n    - onfail_stop: {}\n"
    tree.sls("site", text.format(handler, stop))

    rows = tree.json("apply", check=code)["results"]
    assert [(row["id"], row["result"], row["ran"]) for row in rows] == [
        ("bad", False, True),
        ("handler", handler == "nop", True),
    ]


def test_plan_changes_nothing(tree):
    """`plan` shows the diff and exits with 2, or with 0 if nothing would change."""
    tree.file()
    done = tree("plan", check=2)

    assert "+hello" in done.stdout
    assert "1 would be created" in done.stdout
    assert list(tree.host.iterdir()) == []
    tree("apply", "--detailed-exitcode", check=2)
    tree("plan", check=0)


def test_skipped_states_are_counted_and_shown_only_with_verbose(tree):
    """The cause of a single run is always its start, so that no line names it."""
    tree.sls("guarded", "guarded:\n  cmd.run:\n    - name: 'true'\n    - unless: 'true'\n")
    tree.file()

    assert "created file.managed[" in tree("apply", "--detailed-exitcode", check=2).stdout
    assert "skipped cmd.run[guarded]" not in tree("apply", "--detailed-exitcode", check=0).stdout
    told = tree("apply", "--detailed-exitcode", "--verbose", check=0).stdout
    assert "skipped cmd.run[guarded]: " in told
    assert "(start)" not in told
    assert "1 skipped" in told


def test_a_missing_pillar_directory_is_an_error(tree):
    """The name is probably mistyped; an empty pillar would hide this."""
    assert "nowhere: cannot use this file: it is not a directory" in tree("plan", "--pillar", "nowhere", check=3).stderr


@pytest.mark.usefixtures("own_processes")
def test_failure_is_1(tree):
    """A failure has one line with its reason; each state that it blocks has a short one."""
    tree.sls("bad", "bad:\n  test.fail_without_changes: []\n\nchild:\n  test.nop:\n    - require:\n      - test: bad\n")
    done = tree("apply", check=1)

    assert "failed test.fail_without_changes[bad]" in done.stdout
    blocked = r"skipped test\.nop\[child\] because of test\.fail_without_changes\[bad\] \(.*/bad\.sls:5\)"
    assert re.search(blocked, done.stdout)
    assert "not converged" in done.stdout
    rows = tree.json("apply", check=1)["results"]
    assert [(row["file"].rpartition("/")[2], row["line"]) for row in rows] == [("bad.sls", 2), ("bad.sls", 5)]


@pytest.mark.usefixtures("own_processes")
def test_a_requisite_that_matches_nothing_is_told_with_its_line(tree):
    """In lenient states, only the state with this requisite fails."""
    tree.sls("bad", "child:\n  test.nop:\n    - require:\n      - test: none\n")
    told = tree("apply", "--lenient", "bad", check=1).stdout
    assert re.search(r"failed test.nop\[child\].*\(.*/bad.sls:2\)", told)


def test_json_has_one_object_for_each_call_in_order(tree):
    """Programs rely on these keys, the order and the reasons; stdout has nothing else."""
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
    """Programs can read line by line; the whole is one valid document, also without results."""
    assert tree.json("plan", check=0)["results"] == []
    tree.sls(
        "a",
        "one:\n  file.managed:\n    - name: HOST/one\n    - contents: |\n        a\n        b\ntwo:\n  test.nop: []\n",
    )
    said = tree("plan", "--format", "json", check=2).stdout

    rows = [line for line in said.splitlines() if '"id"' in line]
    assert [json.loads(row.strip(" ,"))["id"] for row in rows] == ["one", "two"]
    assert json.loads(said)["results"] == [json.loads(row.strip(" ,")) for row in rows]


def test_the_result_of_a_planned_change_is_null(tree):
    """The result is null as in Salt's test mode."""
    tree.file()

    assert [r["result"] for r in tree.json("plan", check=2)["results"]] == [None]


@pytest.mark.usefixtures("own_processes")
def test_states_that_do_not_compile_are_3(tree):
    """Text and JSON have every mistake with location, code and hint."""
    path = tree.sls("bad", "HOST/x:\n  file.managd: []\n\nHOST/y:\n  file.managed:\n    - contens: x\n")
    done = tree("apply", check=3)
    answer = tree.json("plan", check=3)

    assert f"{path}:2:3: " in done.stderr
    assert done.stdout == ""
    assert [set(error) for error in answer["errors"]] == [{"file", "line", "column", "code", "message", "hint"}] * 2
    assert [error["line"] for error in answer["errors"]] == [2, 6]


def test_sls_names_select_what_is_applied(tree):
    """Only states of the named SLS are applied."""
    tree.file("one")
    tree.file("two")
    tree("apply", "--detailed-exitcode", "two", check=2)

    assert [path.name for path in tree.host.iterdir()] == ["two"]


SLOW = (
    "fast:\n  test.nop: []\n\nslow:\n  cmd.run:\n    - name: echo $$ > HOST/pid; exec sleep 1000\n\nlast:\n"
    "  test.nop:\n    - require: [slow]\n"
)


@pytest.mark.usefixtures("own_processes")
def test_out_of_time_is_4(tree):
    """The running command and its children are ended; the results list what was done until then."""
    tree.sls("slow", SLOW)
    done = tree("apply", "--timeout", "1.5", "--format", "json", check=4)
    answer = json.loads(done.stdout)

    assert answer["converged"] is False
    assert [(row["id"], row["result"]) for row in answer["results"]] == [("fast", True), ("slow", False)]
    assert re.fullmatch(r"was ended after \d+\.\d s", answer["results"][1]["comment"])
    assert set(answer["results"][1]) == CALL
    with pytest.raises(ProcessLookupError):
        os.kill(int((tree.host / "pid").read_text()), 0)


def test_out_of_time_names_the_command_that_was_ended(tree):
    """The summary has the resource and its duration."""
    tree.sls("slow", SLOW)
    said = tree("apply", "--timeout", "1.5", check=4).stdout

    assert re.search(
        r"^timed out: not converged after 1\.5 s; cmd\.run\[slow\] was ended after \d+\.\d s; 1 of 3 states were",
        said,
        re.MULTILINE,
    )


def interrupt(tree, number, *words):
    """Interrupt `apply` while a command runs. Return the exit code, stdout and stderr."""
    tree.sls("slow", SLOW)
    command = [*COMMAND, "apply", "--config", str(tree.config), *words]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + DEADLINE
    while not (tree.host / "pid").exists() or not (tree.host / "pid").read_text():
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(number)
    out, said = process.communicate(timeout=DEADLINE)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tree.host / "pid").read_text()), 0)
    return process.returncode, out, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_an_interruption_ends_the_running_command(tree, number):
    """One line names the command; the exit code is 130."""
    code, _, said = interrupt(tree, number)

    assert code == 130
    assert re.fullmatch(r"interrupted: cmd\.run\[slow\] was ended after \d+\.\d s; 1 of 3 states were checked\n", said)


def test_the_json_of_an_interrupted_run_is_complete(tree):
    """The document has the results until the interruption."""
    code, out, said = interrupt(tree, signal.SIGINT, "--format", "json")
    answer = json.loads(out)

    assert (code, answer["converged"], said[:12]) == (130, False, "interrupted:")
    assert [(row["id"], row["result"]) for row in answer["results"]] == [("fast", True), ("slow", False)]


def test_no_states_is_success_with_a_note(tree):
    """An empty run is a success, with a line that says so."""
    assert "there is nothing to do" in tree("apply", "--detailed-exitcode", check=0).stdout


def test_apply_needs_no_configuration(tmp_path):
    """`--states` suffices; nothing below /etc is needed."""
    (tmp_path / "s").mkdir(mode=0o755)
    (tmp_path / "s/x.sls").write_text(f"{tmp_path}/made:\n  file.managed:\n    - contents: x\n")
    holdfast("apply", "--detailed-exitcode", "--states", tmp_path / "s", "--state-dir", tmp_path / "state", check=2)

    assert (tmp_path / "made").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_can_apply():
    """The user has no state directory."""
    with open_directory() as top:
        tree = Tree(top / "tree")
        tree.file()
        done = subprocess.run(
            [COMMAND[0], "-c", AS_USER, str(tree.root), "apply", "--states", str(tree.etc / "states"),
             "--pillar", str(tree.etc / "pillar")],
            capture_output=True, text=True, env=environment(), timeout=DEADLINE, check=False,
        )  # fmt: skip

        assert (done.returncode, done.stderr) == (0, "")
        assert (tree.host / "motd").stat().st_uid == UID


def test_the_state_directory_must_be_private(tree):
    """Otherwise another user could change what the agent remembers."""
    tree.file()
    (tree.root / "state").mkdir()
    (tree.root / "state").chmod(0o777)

    assert "others may write there" in tree("apply", check=1).stderr


def test_the_next_run_delivers_a_refresh_that_failed(tree):
    """One-shot runs keep pending refreshes in the journal."""
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


def test_a_second_run_names_the_first_and_changes_nothing(tree):
    """The message has the process and the start of the first run, which continues undisturbed."""
    tree.sls("slow", "HOST/slow:\n  cmd.run:\n    - name: touch HOST/up; while [ ! -e HOST/go ]; do sleep 0.02; done\n")
    tree.file("quick")
    process = subprocess.Popen(
        [*COMMAND, "apply", "--detailed-exitcode", "slow", "--config", str(tree.config)],
        env=environment(),
        stdout=subprocess.DEVNULL,
    )
    until = time.monotonic() + DEADLINE
    while not (tree.host / "up").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert f"process {process.pid} holds {tree.root}/state/lock since " in tree("apply", "quick", check=1).stderr
    assert not (tree.host / "quick").exists()
    (tree.host / "go").touch()

    assert process.wait(DEADLINE) == 2


def test_control_characters_in_the_output_of_a_command_are_escaped(tree):
    """Otherwise a command could control the terminal."""
    tree.sls("esc", "esc:\n  cmd.run:\n    - name: printf '\\033[2J'\n")

    assert "\x1b" not in tree("apply", "--detailed-exitcode", check=2).stdout


def test_a_plan_includes_dependents_of_a_change_without_changes(tmp_path):
    """file.copy reports no `changes` in noop, but would change something; so would a state with onchanges of it."""
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


def test_a_listener_has_a_result_of_its_own(tmp_path):
    """The result has Salt's name, and comes after all others."""
    tree = Tree(tmp_path)
    tree.sls("a", "svc:\n  test.nop:\n    - listen:\n      - test: src\nsrc:\n  test.succeed_with_changes: []\n")
    rows = tree.json("apply", "--detailed-exitcode", check=2)["results"]

    assert [(row["id"], row["fun"], row["run"]) for row in rows] == [
        ("svc", "nop", 0),
        ("src", "succeed_with_changes", 1),
        ("listener_svc", "mod_watch", 2),
    ]


def test_listeners_run_in_the_order_of_the_states_that_declare_them(tmp_path):
    """For `listen_in` that is the listened state; the order of the changes does not matter."""
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


@pytest.mark.usefixtures("own_processes")
def test_a_letter_outside_the_encoding_of_a_terminal_is_escaped(tree, monkeypatch):
    """The locale of a host must not fail a state."""
    tree.sls("web", "é: test.nop\n")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")

    assert "test.nop[\\xe9]" in tree("plan", "-v", check=0).stdout
