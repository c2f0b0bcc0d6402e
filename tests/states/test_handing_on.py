"""`file.accumulated` and `environ.setenv`: the compiler hands texts and variables on to later states."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.engine.call import guards
from holdfast.agent.engine.deliver.transfer import applied
from holdfast.resources.assignment import Received
from holdfast.resources.context import Completed
from holdfast.resources.testing import FakeContext
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Call, Compilation, CompilerInputs
from holdfast.states.errors import CompileError

FILE = "/etc/app:\n  file.managed: [{template: jinja}, {contents: x}, {context: {a: 1}}]\n"
IN = "{require_in: [{file: /etc/app}]}"


class Tree:
    """A states directory with one file."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.compiler = directory, Compiler()
        directory.chmod(0o755)

    def compile(self, text: str) -> Compilation:
        """Compile a text."""
        (self.directory / "a.sls").write_text(text)
        trusted = frozenset({0, self.directory.stat().st_uid})
        return self.compiler.compile(CompilerInputs(self.directory, trusted_uids=trusted))

    def call(self, text: str, identity: str) -> Call:
        """Compile a text, and return one call."""
        return next(call for call in self.compile(text).calls if call.identity == identity)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return an empty tree."""
    return Tree(tmp_path)


def text_of(id_: str, text: str, more: str = IN) -> str:
    """Return a state with a text for /etc/app."""
    return f"{id_}:\n  file.accumulated: [{{name: ports}}, {{filename: /etc/app}}, {{text: {text}}}, {more}]\n"


def test_a_template_has_all_texts_in_order_without_repetition(tree: Tree):
    """The texts come from several states and accumulators; data stay data."""
    states = text_of("one", "'80'") + text_of("two", "['81', '80']")
    states += f"other: {{file.accumulated: [{{filename: /etc/app}}, {{text: {{a: [1]}}}}, {IN}]}}\n"
    resource = tree.call(states + FILE, "file.managed[/etc/app]").resource

    assert resource.context == {"a": 1, "accumulator": {"ports": ["80", "81"], "other": [{"a": [1]}]}}


def test_a_changed_text_changes_the_state_of_the_file_alone(tree: Tree):
    """Cached results get the new text; after its removal, they are as before."""
    other = "/etc/other:\n  file.managed: [{contents: x}]\n"
    first = {call.identity: call for call in tree.compile(text_of("one", "a") + FILE + other).calls}
    second = {call.identity: call for call in tree.compile(text_of("one", "b") + FILE + other).calls}
    third = tree.call(FILE + other, "file.managed[/etc/app]")

    assert second["file.managed[/etc/app]"].resource.context["accumulator"] == {"ports": ["b"]}
    assert first["file.managed[/etc/app]"].resource.cmp(second["file.managed[/etc/app]"].resource) == "context differs"
    assert first["file.managed[/etc/other]"] == second["file.managed[/etc/other]"]
    assert third.resource.context == {"a": 1}


def test_a_file_without_a_template_is_left_alone(tree: Tree):
    """The low data are those of the state file with and without a template."""
    states = text_of("one", "a") + "/etc/app: {file.managed: [{contents: x}]}\n"
    call = tree.call(states, "file.managed[/etc/app]")

    assert call.resource.context is None
    assert "context" not in call.low


def test_a_block_has_the_texts_of_the_accumulators_that_it_requires(tree: Tree):
    """A block that requires none has all of them."""
    block = "{name: /etc/app}, {append_if_not_found: true}"
    states = (
        text_of("one", "[a, b]", "{require_in: [{file: ours}]}")
        + f"two: {{file.accumulated: [{{filename: /etc/app}}, {{text: c}}, {{require_in: [{{file: {'other'}}}]}}]}}\n"
        + "other: {file.managed: [{name: /etc/other}, {contents: x}]}\n"
        + f"ours: {{file.blockreplace: [{block}, {{content: '# ours'}}]}}\n"
        + f"all: {{file.blockreplace: [{block}, {{marker_start: '<'}}, {{marker_end: '>'}}]}}\n"
    )
    calls = {call.identity: call.resource for call in tree.compile(states).calls}

    assert calls["file.blockreplace[ours]"].content == "# ours\na\nb"
    assert calls["file.blockreplace[all]"].content == "a\nb\nc"


@pytest.mark.parametrize(
    ("states", "code", "line"),
    [
        (
            text_of("one", "a", "{require_in: [{cmd: x}]}") + FILE + "x: {cmd.run: [{creates: /x}]}\n",
            "accumulator-orphan",
            2,
        ),
        (text_of("one", "a", "{order: 1}") + FILE, "accumulator-orphan", 2),
        (text_of("one", "a", f"{IN}, {{onlyif: 'true'}}") + FILE, "early-condition", 2),
        (text_of("one", "a", f"{IN}, {{onchanges: [{{cmd: x}}]}}") + FILE + "x: {cmd.run: []}\n", "early-condition", 2),
    ],
)
def test_texts_that_could_be_missing_are_refused(tree: Tree, states: str, code: str, line: int):
    """Salt fails for the first two when they run; a condition could not be known yet."""
    with pytest.raises(CompileError) as caught:
        tree.compile(states)

    (problem,) = caught.value.problems
    assert (problem.code, problem.location.line) == (code, line)


def test_a_text_for_a_file_without_a_state_is_a_warning(tree: Tree):
    """A slip in the path would otherwise go unnoticed."""
    slip = text_of("one", "a").replace("/etc/app}, {text", "/etc/apps}, {text")
    (warning,) = tree.compile(slip + FILE).warnings

    assert warning.code == "accumulator-unused"
    assert "neither file.managed nor file.blockreplace manages /etc/apps" in warning.message


def test_later_commands_have_the_variables_of_earlier_states(tree: Tree):
    """A command's own variables win; a command before the state has none; one can be removed again."""
    states = (
        "before: {cmd.run: [{creates: /x}]}\n"
        "A: {environ.setenv: [{value: '1'}]}\n"
        "more: {environ.setenv: [{value: {B: 2, C: false}}]}\n"
        "one: {cmd.run: [{env: {A: own}}]}\n"
        "B: {environ.setenv: [{value: false}, {false_unsets: true}]}\n"
        "two: {cmd.wait: []}\n"
    )
    calls = {call.low["__id__"]: call for call in tree.compile(states).calls}

    assert calls["before"].resource.env is None
    assert calls["one"].resource.env == {"A": "own", "B": "2", "C": ""}
    assert calls["two"].resource.env == {"A": "1", "C": ""}
    assert calls["two"].handed == {"env": {"A": "1", "C": ""}}
    assert "env" not in calls["two"].low


def test_variables_under_a_condition_are_refused(tree: Tree):
    """The state takes effect when the states are compiled."""
    with pytest.raises(CompileError) as caught:
        tree.compile("A:\n  environ.setenv:\n    - value: x\n    - onlyif: 'true'\n")

    (problem,) = caught.value.problems
    assert (problem.code, problem.location.line) == ("early-condition", 4)
    assert problem.hint == "put the condition into the state file: {% if ... %}"


async def test_a_guard_has_the_variables_too(tree: Tree, tmp_path: Path):
    """It decides for the command, so it must see what the command would see."""
    states = "A: {environ.setenv: [{value: '1'}]}\nrun: {cmd.run: [{name: x}, {env: {B: 2}}, {onlyif: test}]}\n"
    seen = {}

    class Seeing(FakeContext):
        async def run(self, *argv, env=None, **_):
            seen.update(env or {})
            return Completed(argv, 1, 0, "", "")

    assert await guards.refusal(tree.call(states, "cmd.run[run]"), Seeing(tmp_path)) is None
    assert seen == {"A": "1", "B": "2"}


def test_a_received_argument_does_not_displace_what_was_handed_on(tree: Tree):
    """The resource is made anew with the received value, and keeps its texts."""
    states = (
        text_of("one", "a")
        + "/etc/app: {file.managed: [{template: jinja}, {recv: {contents: {cmd: token, key: stdout}}}]}\n"
        + "token: {cmd.run: [{name: make}]}\n"
    )
    call = tree.call(states, "file.managed[/etc/app]")
    resource = applied(call, {"contents": Received("sent", changed=True)}).resource

    assert (resource.contents, resource.context) == ("sent", {"accumulator": {"ports": ["a"]}})
