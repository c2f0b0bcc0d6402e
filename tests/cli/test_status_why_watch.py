"""The output of `status`, `why` and `watch`: complete in a file, cut and coloured on a terminal, and safe to print."""

import re
import time

import pytest

from holdfast.agent.cli import drift, explanation, kinds_reference, live_view, resource_table
from holdfast.agent.cli.terminal import Paper, span
from holdfast.agent.widths import columns, fit, flow, pad, shorten, wrap
from holdfast.resources.author import Author

SGR = re.compile(r"\x1b\[[0-9;]*m")


def row(identity, state="ok", **values):
    """Return a row of `status`."""
    rest = {"name": identity, "sls": "web", "comment": "", "pending_refresh": False, "next": None, "last_change": None}
    rest |= {"failed": state == "failed", "file": "", "line": 0}
    return {"identity": identity, "state": state, **rest, **values}


LONG = "file.managed[/srv/" + "x" * 200 + "/index.html]"
ROWS = [
    row("pkg.installed[nginx]", "failed", comment="no\nsuch package" * 20, next=12.5),
    row(LONG, "blocked", comment="skipped because of pkg.installed[nginx]", sls="site"),
    row("file.managed[日本語]", last_change={"at": time.time() - 216_000, "cause": "drift", "comment": ""}),
]
FACTS = {
    **row("service.running[x]", "waiting", running=False),
    "file": "/etc/holdfast/states/web.sls",
    "line": 12,
    "position": 3,
    "reason_for_place": "order 10003",
    "running_for": None,
    "last": {
        "at": time.time() - 216_000,
        "cause": "refresh",
        "by": ["file.managed[conf]"],
        "result": True,
        "ran": True,
        "reason": "",
        "comment": "restarted x",
        "because": [],
        "duration": 0.25,
        "attempts": 2,
    },
    "waits": [
        {
            "code": "requisites",
            "text": "not settled",
            "who": [{"identity": "pkg.installed[y]", "state": "running"}],
            "more": 4,
        }
    ],
    "blocked_by": [{"identity": "pkg.installed[z]", "state": "failed", "comment": "no such package"}],
    "next": [
        {"what": "run", "in": None, "cause": "drift"},
        {"what": "retry", "in": 61.0},
        {"what": "poll", "in": None, "every": 5.0},
        {"what": "recheck", "in": 600.0},
    ],
    "history": [
        {
            "at": time.time(),
            "what": "failed",
            "cause": "retry",
            "comment": "no",
            "duration": 0.5,
            "times": 7,
            "first": time.time() - 60,
        },
        {
            "at": time.time() - 1e6,
            "what": "repaired",
            "cause": "drift",
            "comment": "",
            "duration": 0.003,
            "times": 1,
            "first": 0.0,
        },
    ],
    "needs": [{"requisite": "watch", "identity": "file.managed[conf]", "state": "ok", "pending": 2}],
    "needed_by": [{"requisite": "require", "identity": f"test.nop[{number}]", "state": "ok"} for number in range(30)],
}
FRAME = {
    "id": "host",
    "status": "at work: 300 resources",
    "converged": False,
    "noop": False,
    "health": [{"severity": "error", "text": "the configuration cannot be used" * 9, "code": "states-broken"}],
    "counts": {"resources": 300, "running": 1, "waiting": 2, "failed": 1, "blocked": 1},
    "pass": {"number": 7, "cause": "drift", "at": 0, "running": True, "for": 1.5, "done": 4},
    "rows": [
        *({"identity": f"file.managed[/srv/{number}/" + "y" * number + "]", "state": "ok"} for number in range(150)),
        {"identity": "cmd.run[build]", "state": "running", "for": 3.25},
        {"identity": "cmd.run[bad]", "state": "failed", "comment": "exit 3"},
    ],
    "recent": [{"identity": LONG, "at": 0.0, "what": "repaired", "cause": "drift", "duration": 0.003, "times": 3}] * 20,
}


def plain(lines):
    """Return lines without escape sequences."""
    return [SGR.sub("", line) for line in lines]


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("show", [resource_table.table, resource_table.tree], ids=["table", "tree"])
def test_status_fits_the_terminal(show, width):
    """No line is too wide, wide letters counted as two. Each resource has one line, and the end of its name is kept."""
    lines = plain(show(ROWS, Paper(width, colour=True), everything=True))

    assert all(columns(line) <= width for line in lines)
    assert sum("index.html]" in line for line in lines) == 1
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_status_shows_the_whole_comment_of_a_failure(width):
    """Otherwise an operator would have to widen the terminal to read it.

    A very long comment is cut.
    """
    why_not = "cannot start x: " + "for this reason and that " * 5 + "it says"
    rows = [
        row("service.running[x]", "failed", comment=why_not),
        row("file.managed[y]", comment="its owner is root " * 20),
    ]
    lines = plain(resource_table.tree(rows, Paper(width, colour=True), everything=True))
    endless = plain(
        resource_table.table([row("cmd.run[z]", "failed", comment="word " * 2000)], Paper(width), everything=True)
    )

    assert why_not in " ".join(line.removeprefix("│").strip() for line in lines)
    assert len([line for line in lines if "file.managed[y]" in line]) == 1
    assert len(endless) == 1 + resource_table.MOST
    assert endless[-1].endswith("…")


def test_status_names_the_line_of_a_failed_state():
    """The operator need not search for it. Only failed states have a line."""
    rows = [
        row("cmd.run[x]", "failed", comment="cannot run x", file="/states/web.sls", line=12),
        row("cmd.run[y]", "pending", comment="waits"),
    ]
    lines = plain(resource_table.tree(rows, Paper(200, colour=True), everything=True))

    assert any(line.endswith("cannot run x (/states/web.sls:12)") for line in lines)
    assert any(line.endswith("waits") for line in lines)


def test_status_shows_the_last_change_before_the_comment():
    """The end of a line is cut first."""
    (line,) = resource_table.table(
        [row("pkg.installed[x]", comment="x 1.2 is installed", last_change={"at": time.time(), "cause": "drift"})],
        Paper(),
        everything=True,
    )

    assert line.endswith("changed 0 s ago (drift); x 1.2 is installed")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_heading_fits_the_terminal(width):
    """The heading shows a health problem of the agent in full."""
    text = "the configuration cannot be used: " + "because of this and that " * 9 + "in the end"
    answer = {
        "id": "web1", "converged": False, "status": "the configuration cannot be used", "pid": 1, "started": 0.0,
        "health": [{"severity": "error", "text": text, "code": "states-broken"}],
    }  # fmt: skip
    lines = plain(resource_table.heading(answer, Paper(width, colour=True)))

    assert all(columns(line) <= width for line in lines)
    assert f"error: {text} [states-broken]" in " ".join(line.strip() for line in lines)


@pytest.mark.parametrize(("severity", "colour"), [("error", "1;31"), ("warning", "33"), ("info", "2")])
def test_the_severity_of_a_condition_has_its_colour(severity, colour):
    """The colours are those of `status` and `watch`. Everything that is not a problem is dim."""
    health = [{"severity": severity, "text": "there is no group", "code": "view-unavailable"}]
    answer = {"id": "web1", "converged": True, "status": "converged", "pid": 1, "started": 0.0, "health": health}
    paper = Paper(80, colour=True)

    assert f"\x1b[{colour}m{severity}\x1b[0m" in list(resource_table.heading(answer, paper))[-1]
    shown = "\n".join(live_view.picture({**FRAME, "health": health}, paper, 40, 0))
    assert f"\x1b[{colour}m{severity}: there is no group [view-unavailable]" in shown


@pytest.mark.parametrize("show", [resource_table.table, resource_table.tree], ids=["table", "tree"])
def test_status_is_complete_and_without_colour_in_a_file(show):
    """A program that reads the output gets every line in full."""
    text = "\n".join(show(ROWS, Paper(), everything=True))

    assert "\x1b" not in text
    assert LONG in text
    assert "no such package" * 20 in text
    assert "next check in 12 s" in text
    assert "changed 2 d ago (drift)" in text


def test_status_of_a_running_resource_omits_its_last_comment():
    """The comment would look like that of the current run."""
    (line,) = resource_table.table([row("cmd.run[x]", "running", comment="would run 'x'")], Paper(), everything=True)
    assert line == "running    cmd.run[x]"


def test_a_long_list_counts_resources_without_problems():
    """A last line says so; a tree still has a branch with counts for each SLS."""
    rows = [row(f"test.nop[{number}]", sls="many") for number in range(100)] + [row("cmd.run[x]", "failed")]

    assert list(resource_table.table(rows, Paper(), everything=False)) == [
        "failed     cmd.run[x]",
        "and 100 more without problems (--all lists them)",
    ]
    assert list(resource_table.tree(rows, Paper(), everything=False)) == [
        "many  100 ok",
        "web  1 failed",
        "└─ failed     cmd.run[x]",
    ]
    assert len(list(resource_table.table(rows, Paper(), everything=True))) == 101


def test_status_lists_problems_first():
    """The rest is in order of execution; a tree sorts within each branch."""
    states = ("ok", "drifted", "skipped", "failed", "ok", "failed")
    rows = [row(f"test.nop[{number}]", state) for number, state in enumerate(states)]
    wanted = [
        "failed     test.nop[3]",
        "failed     test.nop[5]",
        "drifted    test.nop[1]",
        "ok         test.nop[0]",
        "skipped    test.nop[2]",
        "ok         test.nop[4]",
    ]

    assert list(resource_table.table(rows, Paper(), everything=False)) == wanted
    assert [line[3:] for line in resource_table.tree(rows, Paper(), everything=True)][1:] == wanted


def test_status_tells_a_reason_that_several_watches_share_once():
    """Other reasons, and each failure of a run, are shown as well."""
    said = {"a": "cannot watch: down", "b": "cannot watch: full", "c": "cannot watch: down", "d": "down", "e": "down"}
    rows = [row(each, "unwatched", comment=comment) for each, comment in said.items()]
    lines = [*resource_table.table(rows, Paper(), everything=True)]

    said["c"] = "cannot watch, for the same reason as a"
    assert [comment in line for line, comment in zip(lines, said.values(), strict=True)] == [True] * 5


def test_status_counts_rows_that_the_agent_did_not_send():
    """The agent sends the most urgent rows, and the number of resources in each state."""
    rows = [row("cmd.run[x]", "failed")]
    counts = {"failed": 1, "waiting": 4000, "would": 7, "ok": 9000, "skipped": 5}

    assert list(resource_table.table(rows, Paper(), counts, everything=False)) == [
        "failed     cmd.run[x]",
        "and more: 4000 waiting, 7 would (--all lists them)",
        "and 9005 more without problems (--all lists them)",
    ]


def test_control_characters_of_names_are_escaped():
    """Names and comments with escape sequences are printed with visible escapes."""
    evil = row("test.nop[\x1b[2J]", "failed", comment="\x1b]0;title\x07", sls="\x1b[31m")
    facts = {**FACTS, "identity": evil["identity"], "blocked_by": [{**evil, "comment": "\x9b31m"}]}
    frame = {**FRAME, "rows": [evil], "status": "\x1b[2J"}
    shown = [
        *resource_table.table([evil], Paper(80), everything=True),
        *resource_table.tree([evil], Paper(), everything=True),
        *explanation.tell(facts, Paper(80)),
        *live_view.picture(frame, Paper(80), 24, 0),
    ]

    assert not any(set(line) & {"\x1b", "\x07", "\x9b"} for line in shown)
    assert any("\\x1b" in line for line in shown)


def test_why_shows_all_facts():
    """The cause, the waits, what blocks the resource, what comes next, the history and the dependents."""
    text = "\n".join(explanation.tell(FACTS, Paper()))

    for words in (
        "declared     /etc/holdfast/states/web.sls:12 (sls web)",
        "2 d ago, took 250 ms, 2 attempts",
        "because a resource that it watches or listens to had changed: file.managed[conf]",
        "waits        not settled:\n               pkg.installed[y] (running)\n               and 4 more",
        "blocked by   pkg.installed[z] (failed): no such package",
        "it runs as soon as nothing prevents it (drift)",
        "tried again in 1 min",
        "checked every 5 s",
        "checked with everything else in 10 min",
        "retry, 7 times since ",
        "watch          file.managed[conf]  ok  2 pending",
        "and 10 more",
    ):
        assert words in text


def test_why_names_the_process_that_has_caused_a_drift():
    """The last run, the last change and the history name the process.

    The requester of a run is not the cause of a drift.
    """
    by = Author(7, "vim", "vim \x1b[2J", 0, "root", "deploy").fields()
    (entry, *_) = FACTS["history"]
    facts = {
        **FACTS,
        "last": {**FACTS["last"], "cause": "drift", "by": [], "changed_by": by},
        "last_change": {"at": 1.0, "cause": "drift", "comment": "", "by": by, "ended": "killed by signal 9 (SIGKILL)"},
        "history": [{**entry, "by": by}, {**entry, "by": {"pid": 9, "uid": 0, "name": "holdfast", "way": "socket"}}],
    }
    text = "\n".join(explanation.tell(facts, Paper()))

    assert text.count("; changed by vim \\x1b[2J, pid 7, login user deploy") == text.count("changed by") == 3
    assert "(drift; killed by signal 9 (SIGKILL); changed by vim" in text


def test_why_names_the_resource_that_may_have_undone_a_repair():
    """The reason for the last run and the history both name it."""
    said = {"undone": "perhaps undone by file.append[x]"}
    (entry, *_) = FACTS["history"]
    text = "\n".join(
        explanation.tell(
            {**FACTS, "last": {**FACTS["last"], "cause": "drift", "by": [], **said}, "history": [{**entry, **said}]},
            Paper(),
        )
    )

    assert "reported a possible change; perhaps undone by file.append[x]" in text
    assert text.count("perhaps undone by file.append[x]") == 2


@pytest.mark.parametrize("width", [50, 80, 132])
def test_why_fits_the_terminal(width):
    """Long texts are wrapped, not cut."""
    failed = {"identity": "cmd.run[x]", "state": "failed", "comment": "because of words " * 30 + "the end"}
    needs = [{**FACTS["needs"][0], "identity": LONG}]
    lines = plain(
        explanation.tell(
            {**FACTS, "identity": LONG, "needs": needs, "file": "/x" * 200, "blocked_by": [failed]},
            Paper(width, colour=True),
        )
    )

    assert all(columns(line) <= width for line in lines)
    assert "the end" in " ".join(line.strip() for line in lines)


@pytest.mark.parametrize("width", [50, 80])
def test_why_wraps_a_long_identity_of_a_dependency(width):
    """The identity continues on the next line, and its state comes last."""
    needs = [{**FACTS["needs"][0], "identity": LONG}, {**FACTS["needs"][0], "identity": "cmd.run[x]"}]
    lines = plain(explanation.tell({**FACTS, "needs": needs, "needed_by": []}, Paper(width, colour=True)))

    shown = "".join(line[17:].split("  ")[0] for line in lines[lines.index("needs") + 1 :])
    assert shown == f"{LONG}cmd.run[x]"
    assert all(columns(line) <= width for line in lines)
    assert lines[-1].startswith("  watch          cmd.run[x] ")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (200, 60), (40, 5)])
def test_a_picture_fits_the_terminal(width, height):
    """The live view is never wider or higher than the terminal."""
    lines = plain(live_view.picture(FRAME, Paper(width, colour=True), height, 3))

    assert len(lines) <= height
    assert all(columns(line) <= width for line in lines), [line for line in lines if columns(line) > width]


def test_a_picture_shows_running_and_failed_resources_first():
    """Resources without room are counted. The spinner moves with each tick."""
    first, second = (plain(live_view.picture(FRAME, Paper(80), 24, tick)) for tick in (0, 1))
    text = "\n".join(first)

    assert "running   cmd.run[build]" in text
    assert "failed    cmd.run[bad]" in text
    assert "pass 7, drift: 4 done in 1.5 s" in text
    assert "295 ok, 1 running, 2 waiting, 1 failed, 1 blocked" in text
    assert re.search(r"and \d+ more", text)
    assert "repaired" in text
    assert first != second
    assert [line[1:] for line in first] == [line[1:] for line in second]


@pytest.mark.parametrize("width", [40, 79, 132])
@pytest.mark.parametrize("total", [6, 7, 40, 5000])
def test_the_text_of_the_bar_has_priority_over_the_bar(width, total):
    """The bar itself takes only the room that the text leaves."""
    counts = {"resources": total, "running": 1, "waiting": 1, "flapping": 1, "failed": 1, "blocked": 1}
    bar = plain(live_view.picture({**FRAME, "counts": counts}, Paper(width, colour=True), 24, 0))[2]

    assert columns(bar) <= width
    assert bar.endswith(f"{total - 5} ok, 1 running, 1 waiting, 1 flapping, 1 failed, 1 blocked" if width > 70 else "…")


def test_a_large_picture_shows_problems_in_full():
    """The problem of the agent appears once, and that of each resource.

    A small terminal cuts them, so that each has a line.
    """
    broken = (
        "/etc/holdfast/states/web.sls:3:1: there is no kind 'file.managd'; the configuration cannot be used (1 problem)"
    )
    rows = [
        {"identity": f"cmd.run[{name}]", "state": "failed", "comment": f"{name} failed, {'for reasons, ' * 12}at last"}
        for name in "ab"
    ]
    frame = {
        **FRAME,
        "status": broken,
        "health": [{"severity": "error", "text": broken, "code": "states-broken"}],
        "rows": rows,
    }
    frame = {**frame, "counts": {"resources": 2, "failed": 2}, "recent": []}
    large, small = (plain(live_view.picture(frame, Paper(79, colour=True), height, 0)) for height in (40, 8))
    words = " ".join(" ".join(large).split())

    assert words.count("web.sls:3:1") == 1
    assert f"error: {broken} [states-broken]" in words
    assert words.count("at last") == 2
    assert all(columns(line) <= 79 for line in large + small)
    assert [line for line in small if "web.sls:3:1" in line and line.endswith("…")]
    assert [line[:20].split()[:2] for line in small if "failed," in line] == [["✗", "failed"]] * 2
    assert (len(large), len(small)) == (40, 8)


def test_problems_take_precedence_over_resources_without_problems():
    """The terminal has no room for all resources."""
    rows = [{"identity": f"test.nop[{number}]", "state": "ok"} for number in range(70)]
    rows.append({"identity": "cmd.run[bad]", "state": "failed", "comment": f"no, {'for reasons, ' * 12}at last"})
    frame = {**FRAME, "rows": rows, "counts": {"resources": 71, "failed": 1}, "recent": []}
    lines = plain(live_view.picture(frame, Paper(80), 16, 0))

    assert len(lines) == 16
    assert "at last" in " ".join(lines)
    shown = sum("test.nop[" in line for line in lines)
    assert shown > 3
    assert f"and {70 - shown} more" in lines


def test_an_empty_graph_has_a_picture():
    """The graph is empty before the first pass, and if no state applies."""
    frame = {**FRAME, "rows": [], "recent": [], "health": [], "pass": None, "counts": dict.fromkeys(FRAME["counts"], 0)}

    assert "no pass yet" in list(live_view.picture(frame, Paper(80), 24, 0))[1]


def test_texts_are_measured_in_columns():
    """Wide letters take two columns, combining letters none."""
    assert (columns("日本"), columns("e\u0301"), pad("日", 4)) == (4, 1, "日  ")
    assert [fit("日本語", width) for width in (6, 5, 4, 1)] == ["日本語", "日本…", "日…", "…"]
    assert shorten("abcdefghij", 5) == "a…hij"
    assert wrap("  ab cd abcdefgh 日本語 x", 5) == ["  ab", "cd", "abcde", "fgh", "日本", "語 x"]
    assert wrap("", 5) == [""]
    assert flow("ab cd\n  ef gh", 5) == ["ab cd", "  ef", "  gh"]
    assert flow("ab cd\n  ef gh", None) == ["ab cd", "  ef gh"]
    assert wrap("日本", 1) == ["日", "本"]
    assert [span(seconds) for seconds in (-1, 59.9, 60, 7200, 200_000)] == ["0 s", "59 s", "1 min", "2 h", "2 d"]


@pytest.mark.parametrize("state", ["ok", "failed"])
@pytest.mark.parametrize(
    "name", ["/etc/apt/sources.list.d/a-very-long-name-of-a-formula.sources/" + "x" * 60, "設定" * 45]
)
def test_no_identity_is_cut_in_the_status(state, name):
    """A long identity takes several lines: it can be copied, and differs visibly from similar ones."""
    long = row(f"file.managed[{name}]", state, comment="out of paper")
    lines = plain(resource_table.table([long], Paper(80), everything=True))

    assert all(columns(line) <= 80 for line in lines)
    assert long["identity"] in "".join(line[resource_table.STATE :] for line in lines)
    assert ("out of paper" in lines[-1]) == (state == "failed")


def test_the_live_view_omits_the_kind_before_it_cuts_an_id():
    """Problems come first."""
    name = "/etc/a-formula/conf.d/of-a-long-name/site.conf"
    rows = [
        {"identity": "test.nop[a]", "state": "ok"},
        {"identity": f"file.managed[{name}]", "state": "failed", "comment": "out of paper " * 3},
    ]
    counts = {**FRAME["counts"], "resources": 2}
    lines = plain(live_view.picture({**FRAME, "rows": rows, "counts": counts, "recent": []}, Paper(100), 24, 0))

    places = [next(number for number, line in enumerate(lines) if text in line) for text in (name, "test.nop[a]")]
    assert places == sorted(places)
    assert f"file.managed[{name}" not in lines[places[0]]


def test_an_identity_that_does_not_fit_in_its_column_is_below_its_heading_and_whole():
    """An identity that is split over two lines is hard to read and to copy. In a file, lines have any length."""
    name = "file.managed[/srv/www/pages/of/the/whole/host/motd]"
    values = {"id": "a" * 12, "review": "new", "at": time.time() - 60, "result": "changed", "what": "repaired"}
    wide, narrow = (plain(drift._lines({**values, "resource": name}, Paper(width))) for width in (120, 80))

    assert wide[0].endswith(f" repaired {name}")
    assert narrow[1:] == [f"    repaired {name}"]
    assert list(Paper().beside("head ", name, 30, 4)) == [f"head {name}"]
    assert list(Paper(40).beside("head ", "two words of text", 29, 4)) == ["head two words", " " * 29 + "of text"]


def test_the_arguments_of_a_kind_are_wrapped_between_words(monkeypatch, capsys):
    """The terminal of the test is narrow."""
    monkeypatch.setattr(Paper, "stdout", lambda: Paper(40))
    kinds_reference.show("file.managed", "text")
    lines = capsys.readouterr().out.splitlines()

    assert [line for line in lines if columns(line) > 40 and not line.startswith("    ")] == []
    assert any(line.startswith("  name (") for line in lines)
