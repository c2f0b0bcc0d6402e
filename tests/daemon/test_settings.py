"""agent.yaml: its defaults, its documentation, and the messages about mistakes."""

import ast
import inspect
import os
import random
from pathlib import Path

import pytest
import yaml

from holdfast.agent import paths, settings
from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.agent.engine.model import options
from holdfast.agent.paths import STATE_DIR, default_socket, socket_of, sockets_of
from holdfast.agent.settings import Settings, SettingsError, load
from holdfast.states.errors import CompileError
from holdfast_process import Tree, holdfast
from tree_mutations import mutate

SHIPPED = Path(inspect.getfile(settings)).parents[1] / "config/agent.yaml"


@pytest.fixture
def config(tmp_path):
    """A function that writes agent.yaml and returns its path."""
    tmp_path.chmod(0o755)

    def write(text):
        path = tmp_path / "agent.yaml"
        path.write_text(text)
        path.chmod(0o644)
        return path

    return write


def test_the_installed_settings_are_the_defaults():
    """The file that `holdfast install` writes means the same as an empty one."""
    values = yaml.safe_load(SHIPPED.read_text())
    values["engine"]["workers"] = Settings().engine.workers

    assert Settings.model_validate(values) == Settings()


def test_the_installed_settings_document_every_setting():
    """Each setting is in the file, with a comment above it or above its group."""
    lines = SHIPPED.read_text().splitlines()
    written = {}
    for number, line in enumerate(lines):
        name = line.strip().removeprefix("# ").partition(":")[0]
        written.setdefault(name, lines[number - 1])

    for name, _ in settings.describe():
        word = name.rpartition(".")[2]
        assert word in written, f"{name} is not in {SHIPPED}"
        assert written[word].lstrip().startswith("#") or word == "flap_window", f"{name} has no comment"


@pytest.mark.parametrize("module", [settings, options])
def test_every_setting_has_a_docstring(module):
    """The reference of the settings is made from the docstrings."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.ClassDef):
            continue
        for field, following in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign):
                assert isinstance(following, ast.Expr), f"{node.name}.{field.target.id} has no docstring"


def test_relative_paths_are_relative_to_the_settings(config):
    """A private directory needs no absolute path in its agent.yaml."""
    path = config("states: tree\nstate_dir: /srv/state\n")

    loaded = load(path)

    assert loaded.states == path.parent / "tree"
    assert loaded.pillar == path.parent / "pillar"
    assert loaded.socket == Path("/srv/state/control.sock")


def test_options_of_the_command_line_take_precedence(config):
    """Omitted options (None) change nothing."""
    loaded = load(config("id: one\nstates: a\n"), {"id": "two", "states": None})

    assert (loaded.id, loaded.states.name) == ("two", "a")


@pytest.mark.parametrize(
    ("chosen", "message", "hint"),
    [
        ("pkg: aptt", "'providers.pkg' is wrong: pkg has no provider 'aptt'", "did you mean 'apt'?"),
        ("group: x", "'providers.group' is wrong: group has no provider 'x'", "available: busybox, shadow"),
        ("srvice: systemd", "'providers.srvice' is wrong: there is no interface 'srvice'", "did you mean 'service'?"),
        ("language: pip", "'providers.language' is wrong: callers of language name the tool", "leave it out"),
    ],
)
def test_an_unknown_provider_is_one_error_with_its_line(tmp_path, chosen, message, hint):
    """`check`, `plan` and `describe` report one error, not one for each state. An operator's own provider is known."""
    tree = Tree(tmp_path)
    tree.settings(f"providers:\n  {chosen}\n")
    tree.sls("a", "a:\n  pkg.installed: []\nb:\n  pkg.installed: []\n")
    for verb in ("check", "plan", "describe"):
        said = tree(verb, check=3)
        text = said.stdout + said.stderr
        assert f"{tree.config}:6:3: " in text
        assert f"the setting {message}" in text
        assert hint in text
        assert text.count("[wrong-setting]") == 1

    (tree.etc / "resources").mkdir(mode=0o755)
    (tree.etc / "resources/ztool.py").write_text(
        "from holdfast.resources.interfaces.pkg import PkgInterface\n__interface__ = PkgInterface\n"
    )
    tree.settings("providers:\n  pkg: ztool\n")
    own = holdfast("check", "--config", tree.config)  # keeps the provider out of this process
    assert "wrong-setting" not in own.stdout


ENVIRONMENTS = (
    "environment: dev\nenvironments:\n  dev: {states: dev/states, pillar: dev/pillar}\n  test: {states: test}\n"
)


def test_an_environment_has_directories_of_its_own(config, tmp_path):
    """An environment uses the directories of agent.yaml that it does not name. The command line takes precedence."""
    path = config(ENVIRONMENTS)
    base, dev, test = (load(path, {"environment": name}) for name in ("base", None, "test"))
    given = load(path, {"states": tmp_path / "x"})

    assert (base.states, base.pillar) == (tmp_path / "states", tmp_path / "pillar")
    assert (dev.states, dev.pillar) == (tmp_path / "dev/states", tmp_path / "dev/pillar")
    assert (test.states, test.pillar) == (tmp_path / "test", tmp_path / "pillar")
    assert (given.states, given.pillar) == (tmp_path / "x", tmp_path / "dev/pillar")


def test_an_unknown_environment_is_an_error(config):
    """The hint is the most similar name."""
    with pytest.raises(SettingsError) as caught:
        load(config(ENVIRONMENTS), {"environment": "devv"})

    assert [(problem.code, problem.hint) for problem in caught.value.problems] == [
        ("wrong-setting", "did you mean 'dev'?")
    ]


def test_defaults_without_a_file(monkeypatch, tmp_path):
    """An agent without agent.yaml runs with the defaults, below /etc/holdfast."""
    monkeypatch.setattr(settings, "CONFIG", tmp_path / "absent.yaml")

    assert load().states == tmp_path / "states"
    assert load().socket == Path("/run/holdfast/control.sock")


def test_a_named_file_that_is_missing_is_an_error(tmp_path):
    """Only the default file may be missing."""
    with pytest.raises(SettingsError, match="does not exist"):
        load(tmp_path / "none.yaml")


def test_all_mistakes_are_reported_with_their_lines(config):
    """An unknown name in any group comes with the most similar one."""
    path = config("id: a\nstats: x\nengine:\n  noop: 1.5\n  flap_limt: 3\nlog: {level: loud}\n")

    with pytest.raises(SettingsError) as caught:
        load(path)

    found = {(p.location.line, p.code): p for p in caught.value.problems}
    assert set(found) == {(2, "unknown-setting"), (4, "wrong-setting"), (5, "unknown-setting"), (6, "wrong-setting")}
    assert "'states'" in found[2, "unknown-setting"].hint
    assert "'flap_limit'" in found[5, "unknown-setting"].hint
    assert "'debug', 'info'" in found[6, "wrong-setting"].message
    assert found[2, "unknown-setting"].location.file == str(path)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("noop: true\n", "write it below 'engine:'"),
        ("level: debug\n", "write it below 'log:'"),
        ("url: mqtt://a\n", "write it below 'mqtt:'"),
        ("engine: {states: a}\n", "write it at the top level"),
        ("log: {noop: true}\n", "write it below 'engine:'"),
        ("user: me\n", "write it below 'mqtt:' or below 'etcd:'"),
    ],
)
def test_a_setting_in_the_wrong_place_is_told_where_it_belongs(config, text, hint):
    """The hint has the right place even if a similar name exists at the wrong one."""
    with pytest.raises(SettingsError) as caught:
        load(config(text))

    assert [(problem.code, problem.hint) for problem in caught.value.problems] == [("unknown-setting", hint)]


def test_a_setting_of_a_package_is_told_to_stand_below_config(config):
    """Settings beside `config` belong to the agent."""
    with pytest.raises(SettingsError) as caught:
        load(config("plugins: {postgres: {database: shop}}\n"))

    (problem,) = caught.value.problems
    assert problem.hint.startswith("known here: address, ca, ")
    assert problem.hint.endswith("; what the package declares is written below 'config:'")


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "a: 1\na: 2\n"], ids=["syntax", "not a mapping", "key twice"])
def test_settings_that_are_not_a_mapping_are_an_error(config, text):
    """The error has the file."""
    with pytest.raises(SettingsError) as caught:
        load(config(text))

    assert caught.value.problems[0].location.file.endswith("agent.yaml")


def test_the_error_of_a_list_has_the_position_of_its_start(config):
    """The position is correct below a comment, too."""
    with pytest.raises(SettingsError) as caught:
        load(config("# ours\n- id: web1\n"))

    (problem,) = caught.value.problems
    assert (problem.code, problem.location.line, problem.location.column) == ("settings-shape", 2, 1)


def test_the_hint_of_a_duplicate_setting_does_not_speak_of_ids(config):
    """Duplicate keys of states have another hint."""
    with pytest.raises(SettingsError) as caught:
        load(config("id: web1\nnoop: true\nid: web2\n"))

    (problem,) = caught.value.problems
    assert (problem.code, problem.location.line, problem.hint) == (
        "duplicate-key",
        3,
        "remove one of them, or merge the two",
    )
    assert problem.message == "the key 'id' is duplicated: first in line 1"


def test_a_file_that_others_may_write_is_refused(config):
    """Who can write agent.yaml controls the agent."""
    path = config("id: a\n")
    path.chmod(0o666)

    with pytest.raises(SettingsError, match="anyone may write it"):
        load(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(config):
    """Only root and the user of the agent are trusted."""
    path = config("id: a\n")
    os.chown(path, 12345, 12345)

    with pytest.raises(SettingsError, match="uid 12345"):
        load(path)


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        ("", {}),
        ("state_dir: here\n", {}),
        ("state_dir: ../there\ncontrol: ../run/c.sock\n", {}),
        ("control: /run/other.sock\n", {"state_dir": Path("/elsewhere")}),
        ("", {"state_dir": Path("/elsewhere")}),
        ("control: null\n", {}),
        ("view: ../view.sock\n", {}),
        ("view: ../view.sock\nviewers: null\n", {}),
        ("viewers: null\n", {}),
        ("viewers: staff\n", {}),
    ],
)
def test_clients_and_the_agent_find_the_same_sockets(config, text, overrides):
    """Clients read only a few settings, but must find the sockets that the agent computes from all of them."""
    path = config(text)
    settings = load(path, overrides)

    assert sockets_of(path, overrides) == (settings.socket, settings.view_socket)


def test_the_socket_for_viewers_can_be_turned_off(config):
    """A group without a name is a mistake."""
    assert load(config("")).view_socket == Path("/run/holdfast/view.sock")
    assert load(config("viewers: null\n")).view_socket is None
    with pytest.raises(SettingsError, match="viewers"):
        load(config("viewers: ''\n"))


def test_a_client_finds_the_agent_despite_mistakes_in_the_settings(config, tmp_path, monkeypatch):
    """The readable settings are used, except those of a file that any user could have written."""
    monkeypatch.setattr(paths, "RUN_DIR", tmp_path)
    (tmp_path / "control.sock").touch()
    path = config("state_dir: here\nnoop: perhaps\nstates: [\n")
    assert socket_of(path, {}) == tmp_path / "control.sock"
    path.write_text("state_dir: here\nnoop: perhaps\ncontrol: 5\n")
    assert socket_of(path, {}) == path.parent / "here/control.sock"
    path.chmod(0o666)
    assert socket_of(path, {}) == tmp_path / "control.sock"


def test_a_client_reports_refused_settings_if_no_agent_listens_at_the_default(config, tmp_path, monkeypatch):
    """Otherwise it would seem that no agent runs. A missing default file is no error."""
    monkeypatch.setattr(paths, "RUN_DIR", tmp_path / "none")
    monkeypatch.setattr(paths, "CONFIG", tmp_path / "none.yaml")
    path = config("state_dir: here\n")
    path.chmod(0o666)
    with pytest.raises(CompileError, match="anyone may write it"):
        socket_of(path, {})

    assert socket_of(None, {}) == tmp_path / "none/control.sock"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_client_names_the_untrusted_owner_of_settings(tmp_path):
    """The message has the command that fixes it."""
    tree = Tree(tmp_path)
    os.chown(tree.config, 12345, 12345)
    said = holdfast("status", "--config", tree.config, check=3).stderr

    assert f"{tree.config}: cannot use this file: it belongs to uid 12345, which is not trusted (trusted: root)" in said
    assert f"chown root {tree.config}" in said


@pytest.mark.parametrize("seed", range(4))
def test_settings_of_any_shape_are_used_or_refused_with_a_message(config, seed, tmp_path):
    """Random mutations of the file have strange characters, values and names."""
    (tmp_path / "states").mkdir(mode=0o755)
    (tmp_path / "states/a.sls").write_text("a: test.nop\n")
    rng, good = random.Random(seed), {"agent.yaml": SHIPPED.read_bytes()}
    for _ in range(100):
        path = config("")
        path.write_bytes(mutate(good, [good], rng).get("agent.yaml", b""))
        for use in (load, lambda path: socket_of(path, {}), _compile):
            assert _told(use, path)


def _compile(path):
    """Do all that an agent does with its settings before it changes anything."""
    settings = load(path).model_copy(update={"states": path.parent / "states"})
    ConfigurationCompiler().compile(settings, grains={"id": "web1"})


def _told(use, *args):
    """Return whether a function succeeds, or each of its problems has a message and a file."""
    try:
        use(*args)
    except CompileError as error:
        return all(problem.code and problem.message and problem.location.file for problem in error.problems)
    return True


@pytest.mark.parametrize("name", ["x" * 5000, "a\\0b", "agent.yaml"])
def test_directories_with_impossible_names_are_problems(config, name):
    """A name that is too long, a name with NUL, and the name of a file give a message, not a traceback."""
    for setting in ("resources", "pillar", "states"):
        path = config(f'{setting}: "{name}"\n')

        assert _told(lambda path=path: ConfigurationCompiler().compile(load(path), grains={"id": "web1"}))


@pytest.mark.parametrize("text", ["{}: ''", '{}: "a\\0b"'], ids=["empty", "NUL"])
@pytest.mark.parametrize(
    "name", ["states", "pillar", "resources", "grains_file", "state_dir", "control", "environments: {dev: {states"]
)
def test_an_impossible_path_is_refused_with_its_line(config, text, name):
    """A client uses the default socket then, because the agent may have started before the mistake."""
    end = "}}" if name.startswith("environments") else ""
    path = config("# mine\n" + text.format(name) + end + "\n")
    with pytest.raises(SettingsError) as caught:
        load(path)

    (problem,) = caught.value.problems
    assert (problem.location.line, problem.code) == (2, "wrong-setting")
    assert "a path cannot be empty or contain a NUL character" in problem.message
    assert socket_of(path, {}) == default_socket(STATE_DIR)


@pytest.mark.parametrize("value", ["{state: x}", "{states: x, state: y}"])
def test_a_mistake_in_an_environment_names_the_setting(tmp_path, value):
    """Environments have free names, but their settings do not."""
    path = tmp_path / "agent.yaml"
    path.write_text(f"environments:\n  dev: {value}\n")
    with pytest.raises(SettingsError) as caught:
        load(path)

    found = next(problem for problem in caught.value.problems if problem.code == "unknown-setting")
    assert found.location.line == 2
    assert "'environments.dev.state'" in found.message
    assert found.hint == "did you mean 'states'?"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("environments: {dev: {}}", "the setting 'environments.dev' lacks 'states'"),
        ("environments: {dev: x}", "the setting 'environments.dev' is wrong: it must be a mapping, not 'x'"),
        ("engine: 5", "the setting 'engine' is wrong: it must be a mapping, not 5"),
        ("lint: {ignore: x}", "the setting 'lint.ignore' is wrong: it must be a list, not 'x'"),
        (
            "metrics: {listen: a}",
            "the setting 'metrics.listen' is wrong: write an address and a port, such as '127.0.0.1:9464', not 'a'",
        ),
    ],
)
def test_messages_about_settings_are_those_of_holdfast(config, text, said):
    """Users do not see the messages of the library that checks the types."""
    with pytest.raises(SettingsError) as caught:
        load(config(text))

    assert [problem.message for problem in caught.value.problems] == [said]
