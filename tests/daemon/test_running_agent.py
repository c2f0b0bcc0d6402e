"""The daemon as its users meet it: a process, signals, files that change under it, its log and its verbs."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

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
    """What `status` says of one resource."""
    return next(row for row in tree.json("status")["resources"] if row["identity"] == identity)


def test_drift_is_repaired_and_told_with_diff_cause_and_time(tree):
    """A managed file that is edited or deleted is put right at once."""
    with Agent(tree) as agent:
        restored(tree, agent)
        (tree.host / "motd").write_text("defaced\n")
        restored(tree, agent)
        end = agent.wait_log(f"repaired file.managed[{tree.host}/motd] in ")
        agent.wait_log("(drift)", end)
        agent.wait_log("-defaced", end)
        agent.wait_log("+hello", end)
        (tree.host / "motd").unlink()
        restored(tree, agent)


def test_states_that_undo_each_other_are_told_by_name(tree):
    """In the line of the repair, perhaps first and then for certain; and when one flaps.

    What a source holds is not known when states are compiled.
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


def test_a_state_file_dropped_in_is_applied(tree):
    """Nobody has to tell the agent."""
    with Agent(tree) as agent:
        tree.file("new", "fresh")
        restored(tree, agent, "new", "fresh\n")
        agent.wait_log("(states changed)")
        assert agent.log.count(f"created file.managed[{tree.host}/motd]") == 1, "what is the same is not touched"


def test_broken_states_are_reported_and_the_old_graph_goes_on(tree):
    """File, line and likely fix in the log; health and status say so; repair goes on; mending it is noticed."""
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


def test_all_problems_of_a_tree_are_reported_together(tree):
    """Two broken files, two reports."""
    with Agent(tree) as agent:
        tree.sls("bad", "a:\n  file.managd: []\n\nb:\n  no.such: []\n")
        agent.wait_log("(2 problems)")


def test_broken_at_the_start(tmp_path):
    """The agent starts, reports, and waits for the fix."""
    tree = Tree(tmp_path)
    tree.sls("motd", "HOST/motd: [\n")
    with Agent(tree) as agent:
        assert "nothing runs until it is fixed" in agent.log
        tree.file()
        restored(tree, agent)


def test_pillar_and_settings_take_effect_while_it_runs(tree):
    """All of the configuration is live; broken settings leave the old ones in force."""
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
        agent.wait_log(f"would change content of file.managed[{tree.host}/motd] (drift)")
        assert (tree.host / "motd").read_text() == "defaced\n"
        assert "1 of 1 resource would be changed (noop)" in tree("status").stdout


def test_a_template_that_reads_the_pillar_follows_it(tree):
    """Though its state is the same: the file is looked at again."""
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
    """A change of both, as by `git pull`: the template follows the pillar in the same swap, and nothing runs twice."""
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
    """As `systemctl reload` does."""
    with Agent(tree) as agent:
        agent.signal(signal.SIGHUP)
        end = agent.wait_log("reloading")
        agent.wait_log("compiled 1 state in", end)


def test_sigusr1_looks_at_everything(tree):
    """A full check on demand."""
    with Agent(tree) as agent:
        agent.signal(signal.SIGUSR1)
        end = agent.wait_log("checking everything")
        agent.wait_log("(pass", end)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_stops_in_order(tree, number):
    """Exit code 0, the socket gone, nothing left running."""
    with Agent(tree) as agent:
        agent.signal(number)

        assert agent.process.wait(5) == 0
    assert agent.log.rstrip().endswith("stopping")
    assert not (tree.root / "state/control.sock").exists()


def test_stop_ends_a_long_command_within_the_limit(tree):
    """What does not finish within stop_timeout is killed, with all its children."""
    tree.settings("engine: {stop_timeout: 0.5}\n")
    tree.sls("long", SLEEP)
    agent = Agent(tree)
    pid = int(agent.wait(lambda: (tree.host / "pid").exists() and (tree.host / "pid").read_text(), "the command"))
    began = time.monotonic()

    assert agent.stop() == 0
    assert time.monotonic() - began < 4
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
    """The first would wait a minute for what runs; nothing of that is left behind in either case."""
    tree.settings("engine: {stop_timeout: 60}\n")
    tree.sls("long", STUBBORN)
    agent = Agent(tree)
    pid = int(agent.wait(lambda: (tree.host / "pid").exists() and (tree.host / "pid").read_text(), "the command"))

    for said in ("stopping", "stopping at once")[: signals - 1]:
        agent.signal(signal.SIGTERM)
        agent.wait_log(said)
    agent.signal(signal.SIGTERM)

    assert agent.process.wait(5) == status
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
    """One agent on one state directory; the message names the other."""
    with Agent(tree) as agent:
        done = holdfast("run", "--config", tree.config, check=1)

        assert f"process {agent.process.pid} holds" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_killed_and_started_again(tree):
    """Kill -9 leaves a socket and a lock file behind; the next start is not disturbed."""
    with Agent(tree) as agent:
        agent.process.kill()
        agent.process.wait()
    with Agent(tree):
        assert tree.json("status")["converged"]


def test_a_damaged_journal_is_put_aside(tree):
    """An agent that does not start repairs nothing: it forgets, says so, and works."""
    (tree.root / "state").mkdir(mode=0o700)
    (tree.root / "state/journal.db").write_bytes(b"this is no database" * 100)
    with Agent(tree) as agent:
        restored(tree, agent)
        assert [c["code"] for c in tree.json("status")["health"]] == ["journal-lost"]
        assert (tree.root / "state/journal.damaged").exists()


def test_status_for_people(tree):
    """A line for the agent, one for each resource."""
    with Agent(tree):
        first, second = tree("status", check=0).stdout.splitlines()

        assert first.startswith("test: converged: 1 resource (pid ")
        assert re.fullmatch(rf"ok         file.managed\[{tree.host}/motd\]  changed \d+ s ago \(start\)", second)


def test_a_new_directory_of_states_is_watched_though_what_it_holds_is_broken(tree):
    """Or mending it would not be noticed."""
    other = tree.root / "other"
    other.mkdir(mode=0o755)
    (other / "x.sls").write_text("x: [\n")
    with Agent(tree) as agent:
        tree.settings("states: ../other\n")
        agent.wait_log("the last good graph stays in force")
        (other / "x.sls").write_text(f"{tree.host}/x:\n  file.managed:\n    - contents: mended\n")

        restored(tree, agent, "x", "mended\n")


def test_before_the_first_states_are_read_nothing_is_converged(tree):
    """Although nothing is dirty, running or failed: a script that waits for convergence must not continue."""
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
    """It is at work, not converged; what is wrong stands in a line of its own."""
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


def test_a_mistyped_config_is_told(tree):
    """Where the agent listens nobody can know then; the default place would mislead."""
    assert (
        "none.yaml: cannot use this file: it does not exist"
        in holdfast("status", "--config", tree.root / "none.yaml", check=3).stderr
    )


def test_pause_and_resume(tree):
    """While paused drift is seen and left; resume repairs it."""
    with Agent(tree) as agent:
        tree("pause", check=0)
        (tree.host / "motd").write_text("defaced\n")
        agent.wait(lambda: row(tree, f"file.managed[{tree.host}/motd]")["dirty"], "the drift to be seen")
        assert tree.json("status")["paused"]
        assert tree.json("status")["status"] == "paused until `holdfast resume`: drift is noticed, nothing is repaired"
        assert (tree.host / "motd").read_text() == "defaced\n"
        tree("resume", check=0)
        restored(tree, agent)


def test_a_pause_does_not_hide_what_has_failed(tree):
    """The headline says how many, as it does without a pause."""
    tree.sls("bad", "bad: {cmd.run: [{name: 'false'}]}\nbelow: {test.nop: [{require: [{cmd: bad}]}]}\n")
    with Agent(tree):
        before = tree.json("status", check=1)["status"]
        tree("pause", check=0)
        status = tree.json("status", check=1)["status"]

    assert re.fullmatch(r"2 of \d+ resources failed or wait for one that did", before)
    assert status == f"paused until `holdfast resume`: drift is noticed, nothing is repaired; {before}"


def test_trigger_runs_an_action_again(tree):
    """And an unknown identity is refused with the nearest right one."""
    tree.sls("act", "act:\n  cmd.run:\n    - name: echo ran >> HOST/acts\n")
    with Agent(tree) as agent:
        agent.wait((tree.host / "acts").exists, "the first run")
        tree("trigger", "cmd.run[act]", check=0)
        agent.wait(lambda: (tree.host / "acts").read_text() == "ran\nran\n", "the second run")

        assert "did you mean cmd.run[act]?" in tree("trigger", "cmd.run[atc]", check=1).stderr


def test_trigger_says_why_nothing_ran(tree):
    """What only runs after changes, or is guarded, does not run by hand either; that is said."""
    tree.sls(
        "act", "a:\n  test.nop: []\nact:\n  cmd.run:\n    - name: echo ran >> HOST/acts\n    - onchanges: [{test: a}]\n"
    )
    with Agent(tree) as agent:
        agent.wait(lambda: tree.json("status")["converged"], "the first look")

        assert "skipped cmd.run[act]" in tree("trigger", "cmd.run[act]", check=0).stdout
        assert "ok test.nop[a]" in tree("trigger", "test.nop[a]", check=0).stdout
        assert not (tree.host / "acts").exists()


def test_trigger_of_what_leaves_before_its_turn_ends(tree):
    """It would wait for ever for what never comes."""
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
                agent.wait(lambda: row(tree, "cmd.run[then]")["dirty"], "the wish to arrive")
                (tree.etc / "states" / "then.sls").unlink()

                assert "cannot trigger cmd.run[then]: it is no longer declared" in then.communicate(timeout=20)[1]
                assert then.returncode == 1
            tree.sls("slow", "other:\n  test.nop\n")


def test_reload_answers_with_what_is_wrong(tree):
    """0 and a count, or 3 and the problems."""
    with Agent(tree):
        assert "reloaded: 1 resource\n" in tree("reload", check=0).stdout
        tree.sls("bad", "x: [\n")

        assert "bad.sls:" in tree("reload", check=3).stderr
        assert tree.json("reload", check=3)["problems"][0]["file"].endswith("bad.sls")


def test_recheck(tree):
    """Every resource is looked at."""
    with Agent(tree) as agent:
        tree("recheck", check=0)
        agent.wait(lambda: row(tree, f"file.managed[{tree.host}/motd]")["result"], "the result")


def test_log_shows_what_was_said(tree):
    """The last lines, as text and as JSON."""
    with Agent(tree):
        assert "created file.managed[" in tree("log", check=0).stdout
        last = [
            json.loads(line) for line in tree("log", "--lines", "1", "--format", "json", check=0).stdout.splitlines()
        ]

        assert [entry["message"].partition(" ")[0] for entry in last] == ["converged"]


def test_own_kinds_dropped_in_are_used(tree):
    """A Python file in resources/ is a kind, as soon as it is there; a broken one is an error with file and line."""
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


def test_states_that_vanish_and_come_back(tree):
    """A states directory removed as a whole is an error, not an order to stop managing."""
    with Agent(tree) as agent:
        shutil.move(tree.etc / "states", tree.root / "aside")
        agent.wait_log("it is missing")
        (tree.host / "motd").write_text("defaced\n")
        restored(tree, agent)
        shutil.move(tree.root / "aside", tree.etc / "states")
        agent.wait_log("fixed: ")


def test_the_service_manager_is_told(tree):
    """Ready, status, watchdog, reloading, stopping: the whole life of a service."""
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(tree.root / "notify"))
    manager.settimeout(10)
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


def test_threads(tree):
    """At most four: the loop's own and three of watchdog's."""
    with Agent(tree) as agent:
        agent.wait(lambda: len(list(Path(f"/proc/{agent.process.pid}/task").iterdir())) <= 4, "at most four threads")


def test_broken_settings_at_the_start(tree):
    """An agent that does not know what it is to do does not start: exit code 3, with file and line."""
    tree.settings("stats: x\n")
    done = holdfast("run", "--config", tree.config, check=3)

    assert "agent.yaml:5:1: there is no setting 'stats'" in done.stderr
    assert "did you mean 'states'?" in done.stderr
