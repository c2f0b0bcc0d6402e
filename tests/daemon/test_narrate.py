"""Events of the engine as log lines: their sentences, their levels, and what is not repeated."""

from typing import NamedTuple

import pytest

from holdfast.agent.engine.model.events import Notice, PassEnded, PassRecord, Ran
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.agent.engine.model.tally import Tally
from holdfast.agent.narrate import DETAIL_LINES, Narrator, details, duration, summary
from holdfast.resources.author import Author
from holdfast.resources.context import CUT
from holdfast.resources.effects import Effect
from holdfast.resources.secrets import MASK


class Call(NamedTuple):
    """A position in the order of execution."""

    identity: str
    position: int


def outcome(identity="file.managed[motd]", *, result=True, **values):
    """Return an outcome with defaults for all that a test does not check."""
    return Outcome(identity=identity, position=0, result=result, duration=0.003, **values)


def line(*outcomes):
    """Return the log line of the last of several outcomes of one agent."""
    narrator = Narrator()
    return [narrator.tell(Ran(1, each)) for each in outcomes][-1]


CHANGE = {"mode": {"old": "0600", "new": "0644"}}
MODE = Effect(("change",), "/etc/motd", "mode")
SENTENCES = {
    "drift is repaired": (
        outcome(changes=CHANGE, cause="drift", comment="changed mode of /etc/motd"),
        ("info", "repaired file.managed[motd] in 3 ms (drift)"),
    ),
    "drift is repaired whose origin is known": (
        outcome(changes=CHANGE, cause="drift", by=Author(7, "vim", "vim /etc/motd", 0, "root", "deploy")),
        ("info", "repaired file.managed[motd] in 3 ms (drift; changed by vim /etc/motd, pid 7, login user deploy)"),
    ),
    "drift is repaired whose origin had ended": (
        outcome(changes=CHANGE, cause="drift", by=Author(7)),
        ("info", "repaired file.managed[motd] in 3 ms (drift; changed by unknown: pid 7 had ended)"),
    ),
    "a service that has died": (
        outcome("service.running[web]", changes=CHANGE, cause="drift", ended="killed by signal 9 (SIGKILL)"),
        ("info", "repaired service.running[web] in 3 ms (drift; killed by signal 9 (SIGKILL))"),
    ),
    "the first run creates": (
        outcome(changes=CHANGE, effect=Effect(("create",), "/etc/motd")),
        ("info", "created file.managed[motd] in 3 ms (start)"),
    ),
    "drift that cannot be changed in place": (
        outcome("postgres.database[shop]", changes=CHANGE, cause="drift", effect=Effect(("replace",), "database shop")),
        ("info", "replaced postgres.database[shop] in 3 ms (drift)"),
    ),
    "noop does not know yet": (
        Outcome.unknown(
            Call("file.managed[token]", 0), "unknown until cmd.run[token] has run and sent stdout", "start"
        ),
        ("info", "unknown file.managed[token] until cmd.run[token] has run and sent stdout"),
    ),
    "an account is created": (
        outcome("user.present[web]", changes={"name": "web"}, effect=Effect(("create",), "user web")),
        ("info", "created user.present[web] in 3 ms (start)"),
    ),
    "a service is started": (
        outcome("service.running[web]", changes={"nginx": True}, effect=Effect(("start", "enable"), "nginx")),
        ("info", "started and enabled service.running[web] in 3 ms (start)"),
    ),
    "new states change": (
        outcome(changes=CHANGE, cause="states changed", comment="changed mode of /etc/motd"),
        ("info", "changed file.managed[motd] in 3 ms (states changed)"),
    ),
    "noop would": (
        outcome(result=None, changes=CHANGE, cause="drift", effect=MODE, comment="would change mode of /etc/motd"),
        ("info", "would change mode of file.managed[motd] (drift)"),
    ),
    "noop would, the path once": (
        outcome("file.symlink[/a]", result=None, changes=CHANGE, effect=Effect(("link",), "/a", detail=" to /b")),
        ("info", "would link file.symlink[/a] to /b (start)"),
    ),
    "noop would, a command": (
        outcome("cmd.run[x]", result=None, changes={"cmd": "touch /x"}, effect=Effect(("run",), "'touch /x'")),
        ("info", "would run cmd.run[x] (start)"),
    ),
    "noop would, with a comment of the kind": (
        outcome("service.running[web]", result=None, changes={"nginx": True}, comment="nginx would be started"),
        ("info", "would change service.running[web]: nginx would be started (start)"),
    ),
    "noop would, a command that rehearses": (
        outcome("cmd.run[x]", result=None, effect=Effect(("run",), "'count'"), comment="one row"),
        ("info", "would run cmd.run[x]: one row (start)"),
    ),
    "as declared, and nothing to add": (
        outcome("file.managed[/a]", comment="/a is as declared", cause="states changed"),
        ("info", "ok file.managed[/a]"),
    ),
    "a command ran": (
        outcome("cmd.run[x]", changes={"retcode": 0}, effect=Effect(("run",), "'x'")),
        ("info", "ran cmd.run[x] in 3 ms (start)"),
    ),
    "a refresh": (
        outcome("service.running[nginx]", changes={"nginx": True}, cause="refresh", refreshed=True),
        ("info", "refreshed service.running[nginx] in 3 ms (refresh)"),
    ),
    "as declared after an edit": (
        outcome(comment="/etc/motd is as declared", cause="states changed"),
        ("info", "ok file.managed[motd]: /etc/motd is as declared"),
    ),
    "as declared at the start, which may be one of 50 000": (
        outcome(comment="/etc/motd is as declared"),
        ("debug", "ok file.managed[motd]: /etc/motd is as declared"),
    ),
    "as declared later": (
        outcome(comment="as declared", cause="recheck"),
        ("debug", "ok file.managed[motd]: as declared"),
    ),
    "a failure says why": (
        outcome(result=False, comment="cannot write: disk full", cause="drift", attempts=3),
        ("error", "failed file.managed[motd] in 3 ms (drift, 3 attempts): cannot write: disk full"),
    ),
    "a child of a failure": (
        outcome(
            result=False, ran=False, reason="requisite_failed", because=("a.b[c]",), comment="requisite failed: a.b[c]"
        ),
        ("info", "skipped file.managed[motd] because of a.b[c]"),
    ),
    "a guard said no": (
        outcome(ran=False, reason="unless", comment="unless condition is true"),
        ("info", "skipped file.managed[motd]: unless condition is true"),
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_the_sentence_of_an_outcome(name):
    """The parts are: verb, identity, duration, cause; a comment only if details do not have it."""
    given, expected = SENTENCES[name]
    said = line(given)

    assert (said.level, said.text) == expected


def test_the_cause_of_a_single_run_is_omitted():
    """Any other cause is named."""
    narrator, change = Narrator(unsaid="start"), {"changes": CHANGE, "effect": Effect(("create",), "/a")}

    assert narrator.tell(Ran(1, outcome(**change))).text == "created file.managed[motd] in 3 ms"
    assert (
        narrator.tell(Ran(1, outcome(**change, attempts=2))).text == "created file.managed[motd] in 3 ms (2 attempts)"
    )
    assert (
        narrator.tell(Ran(1, outcome(**change, cause="refresh"))).text == "created file.managed[motd] in 3 ms (refresh)"
    )


def test_a_lasting_failure_is_an_error_once():
    """Retries with the same failure have a lower level, a different failure is an error, and the recovery is logged."""
    first, other = outcome(result=False, comment="no space"), outcome(result=False, comment="read-only")

    assert line(first, first).level == "info"
    assert line(first, first).text.startswith("still failing file.managed[motd]")
    assert line(first, other).level == "error"
    assert (
        line(first, outcome(cause="retry", comment="as declared")).text
        == "recovered file.managed[motd] in 3 ms (retry): as declared"
    )


def test_fields_have_the_values_for_programs():
    """Journald and JSON get values, not text."""
    said = line(outcome(changes=CHANGE, diff="-a\n+b\n", cause="drift"))

    assert {k: said.fields[k] for k in ("resource", "pass", "result", "cause", "changes", "diff")} == {
        "resource": "file.managed[motd]",
        "pass": 1,
        "result": "changed",
        "cause": "drift",
        "changes": CHANGE,
        "diff": "-a\n+b\n",
    }
    assert said.fields["duration"] == pytest.approx(0.003)


def test_details_are_the_diff_and_every_other_change():
    """Every change is shown, and a diff only once."""
    changed = outcome(
        diff="-a\n+b\n",
        changes={"diff": "-a\n+b\n", **CHANGE, "stdout": "one\ntwo\n", "stderr": "", "pid": 7, "retcode": 0},
    )

    assert list(details(changed)) == ["-a", "+b", "mode: 0600 -> 0644", "stdout:", "  one", "  two"]


def test_names_of_files_cannot_begin_a_line():
    """Otherwise a user who creates files could forge lines of the agent."""
    changes = {
        "/d/a\nconverged": {"removed": "Removed due to clean"},
        "removed": ["/d/a\nconverged"],
        "/d/b\nx": "two\nlines",
    }

    assert list(details(outcome(changes=changes))) == [
        "/d/a\\x0aconverged: removed Removed due to clean",
        "removed: /d/a\\x0aconverged",
        "/d/b\\x0ax:",
        "  two",
        "  lines",
    ]


def test_diffs_of_several_files_are_shown_once():
    """Other changes of a file are listed with its name."""
    changes = {"/d/a": {"diff": "-a\n+b\n"}, "/d/b": {"diff": "-c\n+d\n", "mode": "0644"}, "/d/c": {"diff": "New file"}}

    assert list(details(outcome(diff="-a\n+b\n-c\n+d\n+e\n", changes=changes)))[5:] == [
        "/d/b: mode 0644",
        "/d/c: diff New file",
    ]


def test_changes_that_repeat_the_sentence_are_omitted():
    """Such changes are `nginx: True` of a refreshed service, and a command below its own name."""
    started = Effect(("start",), "nginx")
    service = Outcome("service.running[web]", 0, result=None, changes={"nginx": True, "web": True}, effect=started)
    command = Outcome("cmd.run[touch /x]", 0, result=None, changes={"cmd": "touch /x"})

    assert list(details(service)) == []
    assert list(details(command)) == []
    assert list(details(command._replace(identity="cmd.run[x]"))) == ["cmd: touch /x"]
    assert list(details(outcome(changes={"locked": True}))) == ["locked: true"]


def test_the_output_of_a_failed_command_is_not_repeated():
    """Its last line is part of the comment. Several lines are shown in full, and so is the other stream."""
    failed = {"result": False, "comment": "'cp x' ended with status 1: no such file"}

    assert list(details(outcome(**failed, changes={"stdout": "", "stderr": "no such file", "retcode": 1}))) == []
    assert list(details(outcome(**failed, changes={"stdout": "copying", "stderr": "warning\nno such file"}))) == [
        "stdout: copying",
        "stderr:",
        "  warning",
        "  no such file",
    ]
    assert list(details(outcome(comment="ran 'echo no'", changes={"stdout": "no"}))) == ["stdout: no"]


def test_another_secret_is_a_change():
    """Two masks beside each other would look like equal values."""
    changes = {"password": {"old": MASK, "new": MASK}, "token": {"old": None, "new": MASK}}

    assert list(details(outcome(changes=changes))) == ["password: changed", f"token: none -> {MASK}"]


def test_lists_are_shown_with_commas():
    """Python's brackets and quotes are omitted."""
    assert list(details(outcome(changes={"groups": ("a", "b"), "members": (), "gone": {"old": ["c"], "new": []}}))) == [
        "groups: a, b",
        "gone: c -> none",
    ]


def test_values_are_shown_in_the_words_of_state_files():
    """A user who has written `login: true` reads it so, and never the words of Python."""
    changes = {
        "login": {"old": None, "new": True},
        "settings": {"old": {"a": [1, None]}, "new": {"statement_timeout": "5min", "on": False}},
        "rules": {"old": False, "new": [{"port": 22}, "x\ny"]},
    }

    assert list(details(outcome(changes=changes))) == [
        "login: none -> true",
        "settings: {a: [1, null]} -> {statement_timeout: 5min, on: false}",
        "rules: false -> {port: 22}, x\\x0ay",
    ]


def test_the_name_of_a_new_file_is_not_repeated():
    """Details omit the name if the identity has it."""
    assert list(details(outcome("file.managed[/a]", result=None, changes={"newfile": "/a"}))) == []
    assert list(details(outcome("file.managed[a]", result=None, changes={"newfile": "/a"}))) == ["newfile: /a"]


def test_a_new_directory_is_not_repeated():
    """Details omit the change that the sentence reports."""
    made = Outcome(
        "file.directory[d]",
        0,
        result=True,
        changes={"/d": {"directory": "new"}, "mode": "0700"},
        effect=Effect(("create",), "/d"),
    )

    assert list(details(made)) == ["mode: 0700"]


def test_the_detail_of_an_effect_follows_the_identity():
    """The target of a link is shown; the name of the link is not repeated."""
    made = Narrator("start").tell(
        Ran(1, outcome("file.symlink[/a]", changes={"new": "/a"}, effect=Effect(("link",), "/a", detail=" to /b")))
    )

    assert made.text.startswith("linked file.symlink[/a] to /b in ")
    assert made.fields["details"] == ""


def test_details_have_a_maximum_length():
    """A long diff is cut, with a line that says so."""
    lines = list(details(outcome(diff="+x\n" * (DETAIL_LINES + 5))))

    assert len(lines) == DETAIL_LINES + 1
    assert lines[-1] == "[5 more lines]"

    *_, last = details(outcome(changes={"stdout": "y\n" * (DETAIL_LINES + 5) + CUT}))
    assert last == "[7 more lines, and output that was cut]"


def test_end_of_a_pass():
    """The line has the result and counts. A recheck that finds nothing is logged at debug level."""
    record = PassRecord(3, "start", 0.0, 0.035, (outcome("a.b[c]"), outcome(changes=CHANGE), outcome()), converged=True)
    broken = PassRecord(
        4,
        "drift",
        0.0,
        0.1,
        (outcome(result=False), outcome("a.b[c]", result=False, ran=False, reason="requisite_failed")),
    )
    quiet = PassRecord(5, "recheck", 0.0, 0.1, (outcome(),), converged=True)

    told = [Narrator().tell(PassEnded(each)) for each in (record, broken, quiet)]

    assert told[0].text == "converged in 35 ms: 2 checked, 1 changed (pass 3, start)"
    assert (told[1].level, told[1].text) == (
        "warning",
        "not converged in 100 ms: 1 checked, 1 failed, 1 skipped because of that (pass 4, drift)",
    )
    assert told[2].level == "debug"
    assert (
        Narrator().tell(PassEnded(PassRecord(6, "drift", 0.0, 0.1, (outcome(),), converged=True, asked=True))).level
        == "info"
    )


def test_a_failure_without_a_run_is_told_as_a_failure():
    """A failure of a watch, for example, is also a failure in status, history and the end of the pass."""
    failed = outcome(result=False, ran=False, cause="poll", comment="cannot watch: the server is down")

    said = Narrator().tell(Ran(1, failed))

    assert (said.level, said.text) == (
        "error",
        "failed file.managed[motd] (poll): cannot watch: the server is down",
    )
    assert said.fields["result"] == "failed"


def test_the_first_convergence_after_a_failure_is_told():
    """After the recovery, a line says that the host has converged, although nothing had to be changed."""
    narrator = Narrator()
    failed = PassRecord(1, "poll", 0.0, 0.1, (outcome(result=False),), failing=2)
    passes = [
        failed,
        PassRecord(2, "retry", 0.0, 0.1, (outcome(),), failing=1),
        PassRecord(3, "recovery", 0.0, 0.1, (outcome(),), converged=True),
        PassRecord(4, "poll", 0.0, 0.1, (outcome(),), converged=True),
    ]

    told = [narrator.tell(PassEnded(each)) for each in passes]

    assert [each.level for each in told] == ["warning", "debug", "info", "debug"]
    assert told[2].text == "converged in 100 ms: 1 checked (pass 3, recovery)"


def test_retries_that_fail_as_before_do_not_tell_each_time_that_the_host_has_not_converged():
    """Another failure is reported, and so is a pass that an operator has requested."""
    narrator, levels = Narrator(), []
    for comment, asked in (("down", False), ("down", False), ("full", False), ("full", False), ("full", True)):
        failed = outcome(result=False, comment=comment, cause="retry")
        narrator.tell(Ran(1, failed))
        levels.append(narrator.tell(PassEnded(PassRecord(1, "retry", 0.0, 0.1, (failed,), asked=asked))).level)

    assert levels == ["warning", "debug", "warning", "debug", "warning"]


def test_end_of_a_pass_with_earlier_failures():
    """The host has not converged, although this pass repaired its resource."""
    record = PassRecord(3, "drift", 0.0, 0.003, (outcome(changes=CHANGE), outcome("a.b[c]", result=False)), failing=3)

    assert (
        Narrator().tell(PassEnded(record)).text
        == "not converged in 3 ms: 2 checked, 1 changed, 1 failed, 2 still failing (pass 3, drift)"
    )


def test_end_of_a_pass_that_was_interrupted():
    """The line does not look like the end of a complete pass."""
    records = [PassRecord(1, "start", 0.0, 4.7, outcomes, broken_off=True) for outcomes in ((outcome(),), ())]

    assert [Narrator().tell(PassEnded(record)).text for record in records] == [
        "interrupted after 4.7 s: 1 checked (pass 1, start)",
        "interrupted after 4.7 s: nothing was finished (pass 1, start)",
    ]


def test_a_pass_in_noop_is_checked_not_converged():
    """In noop, or for a plan, resources that would change are not as declared."""
    assert (
        summary(Tally([outcome(result=None, changes=CHANGE)]), 0.035) == "checked in 35 ms: 1 checked, 1 would change"
    )


def test_a_notice_keeps_its_level_and_code():
    """The line names the resource."""
    said = Narrator().tell(Notice("warning", "watch-failed", "file.managed[x]", "the watch broke; again in 1 s"))

    assert (said.level, said.text, said.fields["code"]) == (
        "warning",
        "file.managed[x]: the watch broke; again in 1 s",
        "watch-failed",
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.00001, "<0.1 ms"), (0.0004, "0.4 ms"), (0.0351, "35 ms"), (1.25, "1.2 s"), (185, "3 min 5 s")],
)
def test_durations_are_rounded(seconds, text):
    """Each duration has the unit that suits its size."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("notice", "text"),
    [
        (Notice("info", "undone", "test.nop[x]", "is undone"), "test.nop[x]: is undone"),
        (Notice("info", "edge-dropped", "test.nop[x]", "test.nop[x] needs y", named=True), "test.nop[x] needs y"),
        (Notice("info", "resumed", "", "all is resumed"), "all is resumed"),
    ],
    ids=["in front", "in the text", "none"],
)
def test_a_notice_names_its_resource_once(notice, text):
    """The name precedes the text, unless the text itself contains it."""
    assert Narrator().tell(notice).text == text
