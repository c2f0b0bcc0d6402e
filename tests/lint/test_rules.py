"""The findings of each rule, with location and message, and the trees in which the rule finds nothing."""

from __future__ import annotations

import pytest

CALM = "calm:\n  test.nop: []\n"
LOUD = "loud:\n  test.succeed_with_changes: []\n"
BAD = "bad:\n  test.fail_without_changes: []\n"


def state(kind: str, *lines: str, id_: str = "x") -> str:
    """Return a declaration with an ID, a kind, and one argument per line."""
    return f"{id_}:\n  {kind}:\n" + "".join(f"    - {line}\n" for line in lines)


FOUND = [
    # requisites that can never be met
    (state("test.nop", "onfail: [{test: calm}]") + CALM, "requisite-never", 3, "test.nop[calm] cannot fail"),
    (
        state("test.nop", "onfail_any: [{test: calm}, {test: loud}]") + CALM + LOUD,
        "requisite-never",
        3,
        "calm] and test.succeed",
    ),
    (
        state("test.nop", "onfail_all: [{test: bad}, {test: calm}]") + CALM + BAD,
        "requisite-never",
        3,
        "test.nop[calm] cannot fail",
    ),
    (
        state("test.nop", "onchanges: [{test: calm}]") + CALM,
        "requisite-never",
        3,
        "test.nop[calm] never reports a change",
    ),
    (
        state("test.nop", "onchanges: [{file: /x}]") + "/x: file.exists\n",
        "requisite-never",
        3,
        "file.exists[/x] never reports",
    ),
    (state("test.nop", "onchanges_any: [{test: bad}]") + BAD, "requisite-never", 3, "never reports a change"),
    (state("test.nop", "prereq: [{test: calm}]") + CALM, "requisite-never", 3, "never reports a change"),
    (CALM + state("test.nop", "onchanges_in: [{test: calm}]"), "requisite-never", 5, "test.nop[calm] never runs"),
    (
        state("test.nop", "require: [{test: bad}]", "onfail: [{test: bad}]") + BAD,
        "requisite-never",
        4,
        "also waits for its failure",
    ),
    (state("test.nop", "watch: [{test: loud}]", "onfail: [{test: loud}]") + LOUD, "requisite-never", 4, ""),
    (
        state("test.nop", "require: [{test: bad}]", "onfail_all: [{test: bad}, {file: /x}]")
        + BAD
        + "/x: file.exists\n",
        "requisite-never",
        4,
        "",
    ),
    (
        state("test.nop", "onfail: [{file: /x}]", "onchanges: [{file: /x}]") + "/x: file.absent\n",
        "requisite-never",
        3,
        "counts as unchanged",
    ),
    (
        state("test.nop", "onfail: [{test: t}]") + state("test.configurable_test_state", "result: true", id_="t"),
        "requisite-never",
        3,
        "cannot fail",
    ),
    (
        state("test.nop", "onchanges: [{test: t}]") + state("test.configurable_test_state", "changes: false", id_="t"),
        "requisite-never",
        3,
        "never reports",
    ),
    # requisites that mean less than they say
    (state("test.nop", "watch: [{test: calm}]") + CALM, "watch-never", 3, "watch means require"),
    (state("test.nop", "listen: [{test: calm}]") + CALM, "watch-never", 3, "listen has no effect"),
    (state("cmd.run", "name: /x", "creates: /y", "reverse: true"), "reverse-missing", 5, "cmd.run cannot be undone"),
    (
        state("file.absent", "name: /x", "watch: [{test: loud}]") + LOUD,
        "refresh-missing",
        4,
        "file.absent has no refresh: watch means",
    ),
    (state("file.absent", "name: /x", "listen: [{test: loud}]") + LOUD, "refresh-missing", 4, "listen has no effect"),
    (
        LOUD[:-4] + "\n    - watch_in: [{file: /x}]\n/x: file.absent\n",
        "refresh-missing",
        3,
        "file.absent has no refresh",
    ),
    (
        state("test.nop", "noop: true", id_="a") + state("test.nop", "require: [{test: a}]"),
        "requisite-noop",
        6,
        "never applied (noop)",
    ),
    # states before the states that they need
    (
        state("file.managed", "name: /srv/a", "contents: b") + state("file.directory", "name: /srv", id_="y"),
        "needed-earlier",
        2,
        "needs the directory /srv, but file.directory[y]",
    ),
    (
        state("service.running", "name: a") + "/etc/systemd/system/a.service: file.managed\n",
        "needed-earlier",
        2,
        "unit file a.service",
    ),
    # things that two states manage
    (
        state("pkg.installed", "name: git") + state("pkg.installed", "pkgs: [vim, git]", id_="y"),
        "managed-twice",
        5,
        "both manage the pkg git",
    ),
    (state("file.absent", "name: /x") + state("file.absent", "name: /x/", id_="y"), "managed-twice", 5, "the path /x"),
    (
        state("file.absent", "name: /x", "unless: 'true'") + state("file.managed", "name: /x", "contents: a", id_="y"),
        "contradiction-possible",
        6,
        "differently",
    ),
    # arguments that do nothing
    (
        state("file.managed", "name: /x", "context: {a: 1}"),
        "argument-needs",
        4,
        "'context' has no effect without 'template'",
    ),
    (state("file.managed", "name: /x", "dir_mode: '0755'"), "argument-needs", 4, "without 'makedirs'"),
    (state("cmd.script", "source: /x", "creates: /y", "defaults: {a: 1}"), "argument-needs", 5, "without 'template'"),
    (
        state("file.managed", "name: /x", "template: jinja", "moed: '0600'"),
        "argument-variable",
        5,
        "no argument 'moed': its template",
    ),
    (state("test.nop", "color: red"), "argument-ignored", 3, "test.nop accepts 'color' without effect"),
    (state("file.managed", "name: /x", "attrs: i"), "argument-ignored", 4, "chattr"),
    (state("test.nop", "fire_event: true"), "argument-ignored", 3, "event bus"),
    # owners
    (
        state("file.managed", "name: /home/u/x/y", "contents: z"),
        "owner-undeclared",
        2,
        "/home/u belongs to u add '- user: u'",
    ),
    (
        state("file.directory", "user: app", id_="/srv/app") + state("file.recurse", "source: /x", id_="/srv/app/etc"),
        "owner-undeclared",
        5,
        "/srv/app/etc will belong to root",
    ),
    (
        state("user.present", "home: /var/lib/app/", id_="app")
        + state("file.symlink", "target: y", id_="/var/lib/app/x"),
        "owner-undeclared",
        5,
        "/var/lib/app belongs to app",
    ),
    # actions
    (state("cmd.run", "name: make"), "action-unguarded", 2, "nothing says when cmd.run[x] is needed"),
    (state("cmd.script", "source: /x"), "action-unguarded", 2, "each 'holdfast apply' runs it"),
    (state("cmd.run", "name: make", "watch: [{test: loud}]") + LOUD, "action-unguarded", 2, "onchanges"),
    # warnings of the compiler
    (state("test.nop", "order: never"), "order-word", 3, "is not valid"),
    (state("test.nop", "require: [{test: ~}]"), "requisite-empty", 3, "names nothing"),
]


@pytest.mark.parametrize(
    ("text", "code", "line", "words"), FOUND, ids=[f"{code} {index}" for index, (_, code, _, _) in enumerate(FOUND)]
)
def test_rule_finds(text, code, line, words, warnings):
    """The rule gives one warning, with line, column and a helpful message."""
    (warning,) = warnings(text)

    assert (warning.code, warning.location.line) == (code, line)
    assert warning.location.file.endswith("states/site.sls")
    assert warning.location.column > 0
    assert words in f"{warning.message} {warning.hint}"
    assert warning.hint or code.startswith("requisite-")


@pytest.mark.parametrize(
    "text",
    [
        state("test.nop", "onfail: [{test: bad}]") + BAD,
        state("test.nop", "onfail: [{test: calm}, {test: bad}]") + CALM + BAD,
        state("test.nop", "onfail: [{test: y}]") + state("test.nop", "require: [{test: bad}]", id_="y") + BAD,
        state("test.nop", "onfail: [{test: y}]") + state("test.nop", "check_cmd: ['true']", id_="y"),
        state("test.nop", "onfail: [{test: t}]") + state("test.configurable_test_state", "result: Random", id_="t"),
        state("test.nop", "onchanges: [{test: calm}, {test: loud}]") + CALM + LOUD,
        state("test.nop", "onchanges: [{test: y}]") + state("test.nop", "watch: [{test: loud}]", id_="y") + LOUD,
        state("test.nop", "onfail: [{test: bad}, {file: /x}]", "require: [{test: bad}]") + BAD + "/x: file.exists\n",
        state("test.nop", "onfail: [{file: /x}]", "onchanges: [{test: loud}]") + LOUD + "/x: file.exists\n",
        state("test.nop", "watch: [{test: loud}]") + LOUD,
        state("service.running", "name: s", "listen: [{file: /x}]") + "/x: file.absent\n",
        state("service.running", "name: s") + state("service.enabled", "name: s", id_="y"),
        state("pkg.installed", "name: git", "unless: 'true'") + state("pkg.installed", "name: git", id_="y"),
        state("file.append", "name: /x", "text: a") + state("file.append", "name: /x", "text: b", id_="y"),
        state("file.managed", "name: /x", "source: /x", "template: jinja", "context: {a: 1}"),
        state("file.managed", "name: /x", "source: salt://site.sls"),
        state("file.managed", "name: /x", "source: salt://site.sls?saltenv=base"),
        state("file.managed", "name: /x", "source: [salt://x, /y]"),
        state("file.managed", "name: /x/a", "makedirs: true") + "/x: file.directory\n",
        state("pkg.installed", "name: a") + "/etc/a/b: file.managed\n",
        state("file.managed", "name: /x", "makedirs: true", "dir_mode: '0755'"),
        state("file.directory", "name: /x", "dir_mode: '0755'"),
        state("cmd.run", "name: make", "creates: /x"),
        state("cmd.run", "name: make", "onlyif: test -e /x"),
        state("cmd.run", "name: make", "onchanges: [{test: loud}]") + LOUD,
        state("cmd.run", "name: make", "stateful: true"),
        state("cmd.run", "name: make", "rerun: 3600"),
        state("cmd.wait", "name: make", "watch: [{test: loud}]") + LOUD,
        state("test.nop", "noop: true", id_="a") + state("test.nop", "noop: true", "require: [{test: a}]"),
        state("test.nop", "noop: true"),
        state("file.managed", "name: /home/u/x", "contents: z", "user: u"),
        state("file.managed", "name: /home/u/x", "contents: z", "user: root"),
        state("file.directory", "name: /home/u"),
        state("file.append", "name: /home/u/x", "text: z"),
        state("file.directory", "user: app", id_="/srv/app")
        + state("file.directory", "user: root", id_="/srv/app/etc")
        + state("file.managed", "contents: z", id_="/srv/app/etc/f"),
    ],
)
def test_rule_is_silent(text, warnings):
    """A rule that cannot be sure reports nothing."""
    assert warnings(text) == []


def test_requisite_that_the_settings_turn_off(warnings):
    """The requisite has no effect at either end, and is reported at its line."""
    text = LOUD + state("test.nop", "listen: [{test: loud}]") + state("test.nop", "listen_in: [{test: loud}]", id_="y")
    found = warnings(text, options={"disabled_requisites": ["listen", "listen_in"]})

    assert [(warning.code, warning.location.line) for warning in found] == [
        ("requisite-disabled", 5),
        ("requisite-disabled", 8),
    ]


def test_prereq_and_require_on_one_another_are_an_error(look):
    """The compiler finds this loop, so the rules ignore it."""
    report = look(state("test.nop", "prereq: [{test: calm}]", "require: [{test: calm}]") + CALM)

    assert {error.code for error in report.errors} == {"requisite-loop"}


def test_one_line_that_makes_many_states_is_told_once(warnings):
    """For a loop or `names`, the warning names the first state and counts the others."""
    (loop,) = warnings("{% for n in range(30) %}\nx{{ n }}:\n  cmd.run:\n    - name: make\n{% endfor %}\n")
    (names,) = warnings(state("cmd.run", "names: [a, b, c]"))

    assert (loop.location.line, "cmd.run[x0]" in loop.message, "(and 29 more" in loop.message) == (3, True, True)
    assert "(and 2 more like it in this line)" in names.message
