"""The agent as a process: signals, changes of files, its log and its verbs."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import psutil
import pytest

from deadline import DEADLINE, within
from foreign_shell import REFUSED, Stranger
from holdfast_process import COMMAND, Agent, Tree, environment, holdfast

SLEEP = "HOST/pid:\n  cmd.run:\n    - name: echo $$ > HOST/pid; exec sleep 1000\n"


@pytest.fixture
def tree(tmp_path):
    """A configuration with one managed file."""
    tree = Tree(tmp_path)
    tree.file()
    return tree


def restored(tree, agent, name="motd", content="hello\n"):
    """Wait until a managed file is as declared."""
    path = tree.host / name
    agent.wait(lambda: path.exists() and path.read_text() == content, f"{path} to be {content!r}")


def row(tree, identity):
    """Return the row of one resource in `status`."""
    return next(row for row in tree.json("status")["resources"] if row["identity"] == identity)


def test_drift_is_repaired_and_logged_with_diff_and_cause(tree):
    """A managed file is edited, then deleted."""
    with Agent(tree, fresh=True) as agent:
        restored(tree, agent)
        (tree.host / "motd").write_text("defaced\n")
        restored(tree, agent)
        end = agent.wait_log(f"repaired file.managed[{tree.host}/motd] in ")
        agent.wait_log("(drift", end)
        agent.wait_log("-defaced", end)
        agent.wait_log("+hello", end)
        (tree.host / "motd").unlink()
        restored(tree, agent)


def test_a_setting_that_is_read_only_at_the_start_is_named(tree):
    """The other settings of the same file take effect at once."""
    with Agent(tree) as agent:
        restored(tree, agent)
        tree.settings("viewers: staff\nwatch: {programs: true, backend: fanotify}\nengine: {noop: true}\n")
        agent.wait_log("the change of viewers, watch.backend, watch.programs takes effect when the agent is restarted")
        agent.wait(lambda: tree.json("status")["noop"], "noop")


def test_states_that_undo_each_other_are_named(tree):
    """The log names the other state, first as a possibility, then for certain, and when the resource flaps.

    The compiler cannot find this, because it does not know the content of the source.
    """
    tree.settings("engine: {flap_limit: 3}\n")
    (tree.etc / "states" / "source").write_text("one\n")
    tree.sls(
        "fight",
        "HOST/f:\n  file.managed:\n    - source: salt://source\n\ntwo:\n  file.append:\n    - name: HOST/f\n"
        "    - text: two\n",
    )
    with Agent(tree) as agent:
        agent.wait_log("(drift, perhaps undone by file.append[two])")
        agent.wait_log("(drift, undone by file.append[two])")
        agent.wait_log("file.append[two] undoes it: keep one of the two.")


def test_a_new_state_file_is_applied_without_a_reload(tree):
    """Unchanged states do not run again."""
    with Agent(tree) as agent:
        tree.file("new", "fresh")
        restored(tree, agent, "new", "fresh\n")
        agent.wait_log("(states changed)")
        assert agent.log.count(f"created file.managed[{tree.host}/motd]") == 1, "an unchanged state ran again"


def test_broken_states_are_reported_and_the_old_graph_stays_in_force(tree):
    """The log has file, line and a hint; health and status report the problem; repairs continue; the fix is noticed."""
    with Agent(tree) as agent:
        broken = tree.sls("bad", "HOST/x:\n  file.managd:\n    - contents: x\n")
        agent.wait_log(f"{broken}:2:3:")
        agent.wait_log("did you mean file.managed?")
        agent.wait_log("the last good graph stays in force")
        status = tree.json("status")
        assert [(c["code"], c["severity"]) for c in status["health"]] == [("states-broken", "error")]
        assert status["converged"] is False
        (tree.host / "motd").write_text("defaced\n")
        restored(tree, agent)
        broken.write_text(broken.read_text().replace("managd", "managed"))
        agent.wait_log("fixed: ")
        restored(tree, agent, "x", "x\n")
        assert tree.json("status")["health"] == []


def test_all_problems_of_the_states_are_reported_together(tree):
    """One file has two mistakes."""
    with Agent(tree) as agent:
        tree.sls("bad", "a:\n  file.managd: []\n\nb:\n  no.such: []\n")
        agent.wait_log("(2 problems)")


def test_states_that_are_broken_at_the_start(tmp_path):
    """The agent starts, reports the problem, and waits for the fix."""
    tree = Tree(tmp_path)
    tree.sls("motd", "HOST/motd: [\n")
    with Agent(tree) as agent:
        assert "nothing runs until it is fixed" in agent.log
        tree.file()
        restored(tree, agent)


@pytest.mark.skipif(bool(REFUSED), reason=REFUSED)
def test_who_changed_a_file_is_told_by_the_log_and_by_why(tree, tmp_path):
    """The secrets of the pillar are masked in the command line."""
    (tree.etc / "pillar/secret.sls").write_text("password: correct-horse\n")
    tree.settings("engine: {flap_limit: 1000}\n")  # repairs are repeated until an author is named
    tree.file()
    with Agent(tree) as agent, Stranger(tmp_path / "pipes") as stranger:
        restored(tree, agent)
        pipe = tmp_path / "pipes" / "go"
        os.mkfifo(pipe)
        script = "while read go; do echo $1 > host/motd; done < pipes/go"  # the end of a longer line would not be shown
        stranger.begins(f"cd {tmp_path}; exec sh -c '{script}' sh correct-horse")
        shell = f"sh -c {script} sh ********, pid {stranger.pid}, user root"
        with pipe.open("w") as writes:

            def told():
                so_far = len(agent.log)
                print("now", file=writes, flush=True)
                agent.wait_log(f"repaired file.managed[{tree.host}/motd] in ", so_far)
                restored(tree, agent)
                return f"(drift; changed by {shell})" in agent.log

            agent.wait(told, "the name, which may be late on a busy machine")
            answer = tree.json("why", "motd")
        author = answer["last_change"]["by"]
        assert (author["pid"], author["name"], author["way"]) == (stranger.pid, "sh", "host")

        def recorded():
            return [change.get("by") for change in tree.json("why", "motd")["history"]][:1] == [author]

        agent.wait(recorded, "the record, which is written in the background")
        assert "correct-horse" not in agent.log
        assert f"sh ********, pid {stranger.pid}, user root" in tree("why", "motd").stdout


def test_pillar_and_settings_take_effect_while_the_agent_runs(tree):
    """Broken settings leave the old ones in force."""
    tree.sls("motd", "HOST/motd:\n  file.managed:\n    - contents: {{ pillar.get('word', 'none') }}\n")
    with Agent(tree) as agent:
        restored(tree, agent, content="none\n")
        (tree.etc / "pillar/words.sls").write_text("word: pillar\n")
        restored(tree, agent, content="pillar\n")
        tree.settings("engine: {nop: true}\n")
        agent.wait_log("there is no setting 'engine.nop'")
        agent.wait_log("did you mean 'noop'?")
        agent.wait_log("the configuration cannot be used")
        tree.settings("engine: {noop: true}\n")
        agent.wait_log("fixed: ")
        (tree.host / "motd").write_text("defaced\n")
        agent.wait_log(f"would change content of file.managed[{tree.host}/motd] (drift")
        assert (tree.host / "motd").read_text() == "defaced\n"
        assert "1 of 1 resource would be changed (noop)" in tree("status").stdout


def test_a_template_that_reads_the_pillar_follows_it(tree):
    """The state stays the same, but the file is checked again."""
    (tree.etc / "states/page.j2").write_text("{{ pillar.greeting }}\n")
    (tree.etc / "pillar/words.sls").write_text("greeting: hi\n")
    tree.sls("page", "HOST/page:\n  file.managed:\n    - source: salt://page.j2\n    - template: jinja\n")
    with Agent(tree) as agent:
        restored(tree, agent, "page", "hi\n")
        (tree.etc / "pillar/words.sls").write_text("greeting: good day\n")
        restored(tree, agent, "page", "good day\n")
        (tree.etc / "states/page.j2").write_text("{{ pillar.greeting }}!\n")
        restored(tree, agent, "page", "good day!\n")


def test_a_failing_new_command_runs_once_though_pillar_and_states_change_together(tree):
    """A `git pull` changes both: one swap follows, and no command runs twice."""
    tree.settings("watch: {settle: 0.5}\n")
    (tree.etc / "states/page.j2").write_text("{{ pillar.greeting }}\n")
    (tree.etc / "pillar/words.sls").write_text("greeting: hi\n")
    tree.sls("page", "HOST/page:\n  file.managed:\n    - source: salt://page.j2\n    - template: jinja\n")
    with Agent(tree) as agent:
        restored(tree, agent, "page", "hi\n")
        (tree.etc / "pillar/words.sls").write_text("greeting: good day\n")
        tree.sls("new", "new:\n  cmd.run:\n    - name: echo ran >> HOST/runs; exit 1\n    - order: last\n")
        restored(tree, agent, "page", "good day\n")
        agent.wait_log("not converged in")

        assert (tree.host / "runs").read_text() == "ran\n"
        assert agent.log.count("compiled") == 2


def test_sighup_reloads(tree):
    """SIGHUP is what `systemctl reload` sends."""
    with Agent(tree) as agent:
        agent.signal(signal.SIGHUP)
        end = agent.wait_log("reloading")
        agent.wait_log("compiled 1 state in", end)


def test_sigusr1_checks_everything(tree):
    """The signal starts a pass over all resources."""
    with Agent(tree) as agent:
        agent.signal(signal.SIGUSR1)
        end = agent.wait_log("checking everything")
        agent.wait_log("(pass", end)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_the_agent_stops_in_order(tree, number):
    """The exit code is 0, and the socket is removed."""
    with Agent(tree) as agent:
        agent.signal(number)

        assert agent.process.wait(DEADLINE) == 0
    assert agent.log.rstrip().endswith("stopping")
    assert not (tree.root / "state/control.sock").exists()


def test_stop_ends_a_long_command_within_the_limit(tree):
    """After `stop_timeout`, a command is killed with all its children."""
    tree.settings("engine: {stop_timeout: 0.5}\n")
    tree.sls("long", SLEEP)
    agent = Agent(tree)
    pid = int(agent.wait(lambda: (tree.host / "pid").exists() and (tree.host / "pid").read_text(), "the command"))

    with within(4):
        assert agent.stop() == 0
    assert "cmd.run[" in agent.log.partition("its run was interrupted")[0].splitlines()[-1]
    assert "interrupted after" in agent.log
    assert "converged in" not in agent.log
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


STUBBORN = """
stubborn:
  cmd.run:
    - name: trap '' TERM; echo $$ > HOST/pid; while true; do sleep 0.1; done
"""


@pytest.mark.parametrize(("signals", "status"), [(2, 0), (3, 128 + signal.SIGKILL)])
def test_a_second_signal_stops_without_waiting_and_a_third_kills(tree, signals, status):
    """The first signal would wait ten minutes for the command. No process remains in either case."""
    tree.settings("engine: {stop_timeout: 600}\n")
    tree.sls("long", STUBBORN)
    agent = Agent(tree, fresh=True)
    pid = int(agent.wait(lambda: (tree.host / "pid").exists() and (tree.host / "pid").read_text(), "the command"))

    for said in ("stopping", "stopping at once")[: signals - 1]:
        agent.signal(signal.SIGTERM)
        agent.wait_log(said)
    agent.signal(signal.SIGTERM)

    assert agent.process.wait(DEADLINE) == status
    assert ("stopping at once", "killed")[signals - 2] in agent.log
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    (tree.etc / "states/long.sls").unlink()
    with Agent(tree):
        assert tree.json("status")["converged"]


def test_each_verb_asks_the_agent_from_a_process_of_its_own(tree):
    """A new process shows that a verb imports all that it needs, for text and for JSON.

    The test takes some seconds, because it starts an interpreter for each of them.
    """
    with Agent(tree):
        tree.run = holdfast
        for words in (["status"], ["why", "motd"], ["log"], ["show", "graph", "--live"]):
            assert tree(*words, check=0).stdout
            assert tree(*words, "--format", "json", check=0).stdout
        for words in (["trace"], ["metrics"], ["pause"], ["resume"], ["reload"], ["recheck"], ["trigger", "motd"]):
            assert tree(*words, check=0).stdout


def test_a_second_agent_is_refused(tree):
    """One agent may use a state directory; the message names its process."""
    with Agent(tree) as agent:
        done = holdfast("run", "--config", tree.config, check=1)

        assert f"process {agent.process.pid} holds" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_an_agent_starts_after_kill_9(tree):
    """The remaining socket and lock file do not disturb the next start."""
    with Agent(tree) as agent:
        agent.process.kill()
        agent.process.wait()
    with Agent(tree):
        assert tree.json("status")["converged"]


def test_a_damaged_journal_is_put_aside(tree):
    """The agent loses the journal, reports this and works: an agent that does not start repairs nothing."""
    (tree.root / "state").mkdir(mode=0o700)
    (tree.root / "state/journal.db").write_bytes(b"this is no database" * 100)
    with Agent(tree) as agent:
        restored(tree, agent)
        assert [c["code"] for c in tree.json("status")["health"]] == ["journal-lost"]
        assert (tree.root / "state/journal.damaged").exists()


def test_status_has_a_line_for_the_agent_and_each_resource(tree):
    """The lines have state, process, and the last change."""
    with Agent(tree):
        first, second = tree("status", check=0).stdout.splitlines()

        assert first.startswith("test: converged: 1 resource (pid ")
        assert re.fullmatch(rf"ok         file.managed\[{tree.host}/motd\]  changed \d+ s ago \(start\)", second)


def test_a_new_states_directory_with_errors_is_watched(tree):
    """Otherwise the agent would not notice the fix."""
    other = tree.root / "other"
    other.mkdir(mode=0o755)
    (other / "x.sls").write_text("x: [\n")
    with Agent(tree) as agent:
        tree.settings("states: ../other\n")
        agent.wait_log("the last good graph stays in force")
        (other / "x.sls").write_text(f"{tree.host}/x:\n  file.managed:\n    - contents: fixed\n")

        restored(tree, agent, "x", "fixed\n")


def test_before_the_first_states_are_read_nothing_is_converged(tree):
    """Nothing is dirty, running or failed yet, but a script that waits for convergence must not continue."""
    (tree.root / "state").mkdir(mode=0o700)
    kinds = tree.etc / "resources"
    kinds.mkdir(mode=0o755)
    (kinds / "slow.py").write_text(
        f"import pathlib, time\nwhile not pathlib.Path('{tree.host}/go').exists():\n    time.sleep(0.01)\n"
    )
    agent = Agent(tree)
    try:
        agent.wait_log("keeps this host as declared")
        early = tree("status", check=1).stdout
        (tree.host / "go").touch()
        agent.wait_log("converged in")

        assert early.startswith("test: starting: the states are being read (pid ")
        assert tree("status", check=0).stdout.startswith("test: converged: 1 resource (pid ")
    finally:
        agent.stop()


def test_status_while_a_command_runs_and_the_states_are_broken(tree):
    """The agent is at work, not converged. Each problem has a line of its own."""
    with Agent(tree) as agent:
        tree.sls("slow", SLEEP)
        agent.wait((tree.host / "pid").exists, "the command to run")
        assert tree("status", check=1).stdout.startswith("test: at work: 2 resources (pid ")
        tree.sls("bad", "x: [\n")
        agent.wait_log("the last good graph stays in force")
        first, second, *_ = tree("status", check=1).stdout.splitlines()

        assert first.startswith("test: there are problems (pid ")
        assert second.startswith(f"  error: {tree.etc}/states/bad.sls:")
        assert second.endswith(
            "; the configuration cannot be used (1 problem); the last good graph stays in force [states-broken]"
        )


def test_a_mistyped_config_is_an_error(tree):
    """A wrong path does not tell where the agent listens, and the default would mislead."""
    assert (
        "none.yaml: cannot use this file: it does not exist"
        in holdfast("status", "--config", tree.root / "none.yaml", check=3).stderr
    )


def test_drift_during_a_pause_is_repaired_after_resume(tree):
    """While paused, the agent notices drift, but does not repair it."""
    with Agent(tree) as agent:
        tree("pause", check=0)
        (tree.host / "motd").write_text("defaced\n")
        agent.wait(lambda: row(tree, f"file.managed[{tree.host}/motd]")["dirty"], "the drift to be seen")
        assert tree.json("status")["paused"]
        assert tree.json("status")["status"] == "paused until `holdfast resume`: drift is noticed, nothing is repaired"
        assert (tree.host / "motd").read_text() == "defaced\n"
        tree("resume", check=0)
        restored(tree, agent)


def test_a_pause_does_not_hide_failures(tree):
    """The status has the number of failures, as without a pause."""
    tree.sls("bad", "bad: {cmd.run: [{name: 'false'}]}\nbelow: {test.nop: [{require: [{cmd: bad}]}]}\n")
    with Agent(tree):
        before = tree.json("status", check=1)["status"]
        tree("pause", check=0)
        status = tree.json("status", check=1)["status"]

    assert re.fullmatch(r"2 of \d+ resources failed or wait for a failed one", before)
    assert status == f"paused until `holdfast resume`: drift is noticed, nothing is repaired; {before}"


def test_trigger_runs_an_action_again(tree):
    """An unknown identity is refused with the most similar one."""
    tree.sls("act", "act:\n  cmd.run:\n    - name: echo ran >> HOST/acts\n")
    with Agent(tree) as agent:
        agent.wait((tree.host / "acts").exists, "the first run")
        tree("trigger", "cmd.run[act]", check=0)
        agent.wait(lambda: (tree.host / "acts").read_text() == "ran\nran\n", "the second run")

        assert "did you mean cmd.run[act]?" in tree("trigger", "cmd.run[atc]", check=1).stderr


def test_trigger_says_why_nothing_ran(tree):
    """A state with a guard or `onchanges` does not run without its cause; the answer says so."""
    tree.sls(
        "act", "a:\n  test.nop: []\nact:\n  cmd.run:\n    - name: echo ran >> HOST/acts\n    - onchanges: [{test: a}]\n"
    )
    with Agent(tree) as agent:
        agent.wait(lambda: tree.json("status")["converged"], "the first look")

        assert "skipped cmd.run[act]" in tree("trigger", "cmd.run[act]", check=0).stdout
        assert "ok test.nop[a]" in tree("trigger", "test.nop[a]", check=0).stdout
        assert not (tree.host / "acts").exists()


def test_trigger_fails_if_its_resource_is_removed_before_it_runs(tree):
    """Otherwise `trigger` would wait for ever."""
    tree.sls("slow", "slow:\n  cmd.run:\n    - name: '[ ! -e HOST/again ] || { touch HOST/runs; exec sleep 1000; }'\n")
    tree.sls("then", "then:\n  cmd.run:\n    - name: 'true'\n    - require: [{cmd: slow}]\n")
    with Agent(tree) as agent:
        (tree.host / "again").touch()
        trigger = [*COMMAND, "trigger", "--config", str(tree.config)]
        with subprocess.Popen([*trigger, "cmd.run[slow]"], stdout=subprocess.DEVNULL, env=environment()):
            agent.wait((tree.host / "runs").exists, "the first to run")
            with subprocess.Popen(
                [*trigger, "cmd.run[then]"], stderr=subprocess.PIPE, text=True, env=environment()
            ) as then:
                agent.wait(lambda: row(tree, "cmd.run[then]")["dirty"], "the request to arrive")
                (tree.etc / "states" / "then.sls").unlink()

                assert "cannot trigger cmd.run[then]: it is no longer declared" in then.communicate(timeout=DEADLINE)[1]
                assert then.returncode == 1
            tree.sls("slow", "other:\n  test.nop\n")


def test_reload_reports_the_problems_of_the_states(tree):
    """The exit code is 0 with a count of resources, or 3 with the problems."""
    with Agent(tree):
        assert "reloaded: 1 resource\n" in tree("reload", check=0).stdout
        tree.sls("bad", "x: [\n")

        assert "bad.sls:" in tree("reload", check=3).stderr
        assert tree.json("reload", check=3)["problems"][0]["file"].endswith("bad.sls")


def test_recheck_checks_every_resource(tree):
    """The resource has a result afterwards."""
    with Agent(tree) as agent:
        tree("recheck", check=0)
        agent.wait(lambda: row(tree, f"file.managed[{tree.host}/motd]")["result"], "the result")


def test_log_shows_the_last_lines(tree):
    """The lines are shown as text or as JSON."""
    with Agent(tree):
        assert "created file.managed[" in tree("log", check=0).stdout
        last = [
            json.loads(line) for line in tree("log", "--lines", "1", "--format", "json", check=0).stdout.splitlines()
        ]

        assert [entry["message"].partition(" ")[0] for entry in last] == ["converged"]


def test_a_new_file_of_kinds_is_used_at_once(tree):
    """A broken file is an error with file and line."""
    kind = (
        "from holdfast import Resource\n\n"
        "class Mark(Resource, kind='mark.made'):\n"
        "    async def check_apply(self, ctx, apply):\n"
        "        open(self.name, 'w').close()\n"
        "        return True\n"
    )
    with Agent(tree) as agent:
        (tree.etc / "resources").mkdir()
        (tree.etc / "resources/mark.py").write_text(kind)
        tree.sls("mark", "HOST/mark: mark.made\n")
        agent.wait((tree.host / "mark").exists, "the mark")
        (tree.etc / "resources/mark.py").write_text("x = 1\nimport no_such_module\n")
        agent.wait_log("resources/mark.py:2: cannot load these kinds: ModuleNotFoundError")


def test_a_removed_states_directory_is_an_error(tree):
    """The agent does not take the removal for the wish to stop managing."""
    with Agent(tree) as agent:
        shutil.move(tree.etc / "states", tree.root / "aside")
        agent.wait_log("it is missing")
        (tree.host / "motd").write_text("defaced\n")
        restored(tree, agent)
        shutil.move(tree.root / "aside", tree.etc / "states")
        agent.wait_log("fixed: ")


def test_the_service_manager_gets_all_messages(tree):
    """The messages are: ready, status, watchdog, reloading, stopping."""
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tree.root / "notify"))
    manager.settimeout(DEADLINE)
    said = []

    def until(text):
        while not any(text in message for message in said):
            said.append(manager.recv(1000).decode())

    with Agent(tree, NOTIFY_SOCKET=str(tree.root / "notify"), WATCHDOG_USEC="400000") as agent:
        until("READY=1")
        until("STATUS=converged: 1 resource")
        until("WATCHDOG=1")
        agent.signal(signal.SIGHUP)
        until("RELOADING=1\nMONOTONIC_USEC=")
        said.clear()
        until("READY=1")
        agent.stop()
        until("STOPPING=1")
    manager.close()


def test_the_agent_has_at_most_five_threads(tree):
    """One is that of the event loop, three belong to watchdog, one names who changes files."""
    with Agent(tree, fresh=True) as agent:
        agent.wait(lambda: len(list(Path(f"/proc/{agent.process.pid}/task").iterdir())) <= 5, "at most five threads")


def test_wrong_settings_at_the_start_are_an_error(tree):
    """An agent without valid settings does not start: exit code 3, with file and line."""
    tree.settings("stats: x\n")
    done = holdfast("run", "--config", tree.config, check=3)

    assert "agent.yaml:5:1: there is no setting 'stats'" in done.stderr
    assert "did you mean 'states'?" in done.stderr
