"""Sources that change while the agent runs.

New content is a change of the states. Drift is repaired with the content that the states were compiled with.
"""

import json
import shutil

import pytest

from holdfast_process import Agent, Tree


@pytest.fixture
def tree(tmp_path):
    """A states directory with one other state, so that it never becomes empty."""
    tree = Tree(tmp_path)
    tree.sls("other", "other: test.nop\n")
    return tree


def put(tree, name, text):
    """Write a source."""
    path = tree.etc / "states" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def holds(agent, path, text):
    """Wait until a file has this content."""
    agent.wait(lambda: path.exists() and path.read_text() == text, f"{text!r} in {path}")


def repaired(agent, path, text):
    """Remove a file, and wait until it has this content."""
    path.unlink()
    holds(agent, path, text)


def break_states(tree, agent):
    """Add a state file that does not compile."""
    tree.sls("spoilt", "x: [\n")
    agent.wait_log("the last good graph stays in force")


def fix_states(tree, agent):
    """Remove the state file that does not compile."""
    at = len(agent.log)
    (tree.etc / "states/spoilt.sls").unlink()
    agent.wait_log("fixed: ", at)


def causes(tree, what):
    """Return the causes of the last change of each matching resource."""
    rows = [row for row in tree.json("status")["resources"] if what in row["id"]]
    return [row["last_change"]["cause"] for row in rows]


FILE = "HOST/conf: {file.managed: [{source: 'salt://files/conf'}, {mode: keep}]}\n"


def test_new_content_is_a_change_of_the_states(tree):
    """The change is made after `settle`, and status has its cause."""
    put(tree, "files/conf", "one\n")
    tree.sls("web", FILE)
    with Agent(tree) as agent:
        put(tree, "files/conf", "two\n")
        holds(agent, tree.host / "conf", "two\n")
        agent.wait_log("(states changed)")
        assert "(drift" not in agent.log


KINDS = {
    "managed": ("HOST/out: {file.managed: [{source: 'salt://files/in'}]}\n", "files/in", "{}\n", "out", "{}\n"),
    "hidden": ("HOST/out: {file.managed: [{source: 'salt://files/.in'}]}\n", "files/.in", "{}\n", "out", "{}\n"),
    "template": (
        "HOST/out: {file.managed: [{source: 'salt://files/in'}, {template: jinja}]}\n",
        "files/in",
        "{{{{ '{}' }}}}\n",
        "out",
        "{}\n",
    ),
    "import": (
        (
            "HOST/out: {file.managed: [{template: jinja}, "
            "{contents: \"{{% import 'files/lib' as lib %}}{{{{ lib.x }}}}\"}]}\n"
        )
        .replace("{{%", "{{ '{%' }}")
        .replace("%}}", "{{ '%}' }}")
        .replace("{{{{", "{{ '{{' }}")
        .replace("}}}}", "{{ '}}' }}"),
        "files/lib",
        "{{% set x = '{}' %}}\n",
        "out",
        "{}\n",
    ),
    "append": ("HOST/out: {file.append: [{source: 'salt://files/in'}]}\n", "files/in", "{}\n", "out", "{}\n"),
    "recurse": ("HOST/dir: {file.recurse: [{source: 'salt://files'}]}\n", "files/sub/in", "{}\n", "dir/sub/in", "{}\n"),
    "hidden in a directory": (
        "HOST/dir: {file.recurse: [{source: 'salt://files'}]}\n",
        "files/.sub/in",
        "{}\n",
        "dir/.sub/in",
        "{}\n",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_drift_is_repaired_with_the_compiled_content(tree, kind):
    """While the states do not compile, an edited or removed source changes nothing.

    The edit takes effect once they compile.

    The test takes more than a second, because the agent compiles four times.
    """
    sls, source, text, out, wanted = KINDS[kind]
    path = put(tree, source, text.format("one"))
    tree.sls("web", sls)
    with Agent(tree) as agent:
        holds(agent, tree.host / out, wanted.format("one"))
        break_states(tree, agent)
        path.write_text(text.format("two"))
        repaired(agent, tree.host / out, wanted.format("one"))
        path.unlink()
        repaired(agent, tree.host / out, wanted.format("one"))
        path.write_text(text.format("three"))
        fix_states(tree, agent)
        holds(agent, tree.host / out, "one\nthree\n" if kind == "append" else wanted.format("three"))


def test_the_list_of_files_of_a_copied_directory_is_the_compiled_one(tree):
    """New and removed files of the source take effect once the states compile."""
    put(tree, "files/a", "a\n")
    tree.sls("web", "HOST/dir: {file.recurse: [{source: 'salt://files'}, {clean: true}]}\n")
    with Agent(tree) as agent:
        holds(agent, tree.host / "dir/a", "a\n")
        break_states(tree, agent)
        put(tree, "files/b", "b\n")
        (tree.etc / "states/files/a").unlink()
        repaired(agent, tree.host / "dir/a", "a\n")
        assert not (tree.host / "dir/b").exists()
        fix_states(tree, agent)
        holds(agent, tree.host / "dir/b", "b\n")
        agent.wait(lambda: not (tree.host / "dir/a").exists(), "the removal")


def test_the_first_run_of_a_state_uses_the_compiled_content(tree):
    """A guard holds the state back while its source changes."""
    put(tree, "files/conf", "one\n")
    tree.sls(
        "web",
        "gate: {test.nop: [{onlyif: 'test -e HOST/open'}]}\n"
        + FILE.replace("}]}", "}, {onlyif: 'test -e HOST/open'}]}"),
    )
    with Agent(tree) as agent:
        break_states(tree, agent)
        put(tree, "files/conf", "two\n")
        (tree.host / "open").touch()
        tree("recheck", check=0)
        holds(agent, tree.host / "conf", "one\n")


def test_a_changed_source_without_a_copy_is_an_error(tree):
    """A file above the size limit is not copied. The next compiled states use the new content."""
    path = put(tree, "files/conf", "x" * ((16 << 20) + 1))
    tree.sls("web", FILE)
    with Agent(tree) as agent:
        break_states(tree, agent)
        path.write_text("two\n")
        (tree.host / "conf").write_text("defaced\n")
        agent.wait_log("it has changed since the states were compiled, and its content was not kept")
        fix_states(tree, agent)
        holds(agent, tree.host / "conf", "two\n")


def test_switching_a_link_to_the_states_is_one_swap(tree):
    """A deployment renames a link and removes the old release: there is no drift and no error."""
    releases = tree.root / "releases"
    for number in ("4", "5"):
        tree.sls("web", FILE + f"HOST/number: {{file.managed: [{{contents: '{number}'}}]}}\n")
        put(tree, "files/conf", f"conf {number}\n")
        shutil.copytree(tree.etc / "states", releases / number)
    shutil.rmtree(tree.etc / "states")
    (tree.etc / "states").symlink_to(releases / "4")
    with Agent(tree) as agent:
        (tree.etc / "new").symlink_to(releases / "5")
        (tree.etc / "new").rename(tree.etc / "states")
        shutil.rmtree(releases / "4")
        holds(agent, tree.host / "conf", "conf 5\n")
        holds(agent, tree.host / "number", "5\n")
        put(tree, "files/conf", "later\n")
        holds(agent, tree.host / "conf", "later\n")
        assert agent.log.count("compiled 3 states") == 3
        assert "drift" not in agent.log
        assert "error" not in agent.log.lower()


def test_an_equal_release_changes_nothing(tree):
    """Other files with the same content are no new version: no script runs again."""
    put(tree, "run.sh", "#!/bin/sh\necho ran >> $1\n")
    put(tree, "files/conf", "conf\n")
    tree.sls("web", FILE + "s: {cmd.script: [{source: 'salt://run.sh'}, {args: HOST/ran}]}\n")
    shutil.copytree(tree.etc / "states", tree.root / "r1")
    shutil.copytree(tree.etc / "states", tree.root / "r2")
    shutil.rmtree(tree.etc / "states")
    (tree.etc / "states").symlink_to(tree.root / "r1")
    with Agent(tree) as agent:
        (tree.etc / "new").symlink_to(tree.root / "r2")
        (tree.etc / "new").rename(tree.etc / "states")
        agent.wait(lambda: agent.log.count("compiled 3 states") == 2, "the swap")
        tree("recheck", check=0)
        assert (tree.host / "ran").read_text() == "ran\n"


@pytest.mark.parametrize("where", ["among the states", "outside"])
def test_an_edited_script_is_a_new_version_and_runs(tree, where):
    """A script runs once for each content: after an edit, even while no agent ran, but not after a restart."""
    script = put(tree, "run.sh", "echo one >> $1\n") if where == "among the states" else tree.root / "run.sh"
    script.write_text("echo one >> $1\n")
    url = "salt://run.sh" if where == "among the states" else str(script)
    tree.sls("web", f"s: {{cmd.script: [{{source: '{url}'}}, {{args: HOST/ran}}]}}\n")
    with Agent(tree) as agent:
        holds(agent, tree.host / "ran", "one\n")
        script.write_text("echo two >> $1\n")
        holds(agent, tree.host / "ran", "one\ntwo\n")
        script.chmod(0o755)
        tree("reload", check=0)
        tree("recheck", check=0)
    with Agent(tree) as agent:
        assert (tree.host / "ran").read_text() == "one\ntwo\n"
    script.write_text("echo three >> $1\n")
    with Agent(tree) as agent:
        holds(agent, tree.host / "ran", "one\ntwo\nthree\n")


def test_a_script_that_another_state_makes_runs_once(tree):
    """The script did not exist when the states were compiled. Its creation is no new version."""
    tree.sls(
        "web",
        "HOST/run.sh: {file.managed: [{contents: 'echo ran >> HOST/ran'}]}\n"
        "s: {cmd.script: [{source: HOST/run.sh}, {require: [{file: HOST/run.sh}]}]}\n",
    )
    with Agent(tree) as agent:
        holds(agent, tree.host / "ran", "ran\n")
        tree("reload", check=0)
        tree("recheck", check=0)
        agent.wait(lambda: tree.json("status")["converged"], "all to be right")
        assert (tree.host / "ran").read_text() == "ran\n"


def test_a_script_that_apply_has_run_does_not_run_again(tree):
    """The next agent recognises its content, and runs the script after an edit."""
    script = put(tree, "run.sh", "echo one >> $1\n")
    tree.sls("web", "s: {cmd.script: [{source: 'salt://run.sh'}, {args: HOST/ran}]}\n")
    tree("apply", "--detailed-exitcode", check=2)
    with Agent(tree) as agent:
        assert (tree.host / "ran").read_text() == "one\n"
        script.write_text("echo two >> $1\n")
        holds(agent, tree.host / "ran", "one\ntwo\n")


def test_a_change_of_the_import_of_a_script_runs_it_again(tree):
    """The import of a template is part of the script."""
    put(tree, "lib", "{% set x = 'one' %}")
    put(tree, "run.sh", "{% from 'lib' import x %}echo {{ x }} >> HOST/ran\n".replace("HOST", str(tree.host)))
    tree.sls("web", "s: {cmd.script: [{source: 'salt://run.sh'}, {template: jinja}]}\n")
    with Agent(tree) as agent:
        holds(agent, tree.host / "ran", "one\n")
        put(tree, "lib", "{% set x = 'two' %}")
        holds(agent, tree.host / "ran", "one\ntwo\n")


def test_all_files_that_share_an_import_are_updated(tree):
    """Two templates import the file, and a third state has it as its source."""
    put(tree, "lib", "{% set x = 'one' %}{{ x }}\n")
    template = "{% from 'lib' import x %}{{ x }}\n"
    put(tree, "template", template)
    sls = "".join(
        f"HOST/{name}: {{file.managed: [{{source: 'salt://template'}}, {{template: jinja}}]}}\n" for name in "ab"
    )
    tree.sls("web", sls + "HOST/c: {file.managed: [{source: 'salt://lib'}, {template: jinja}]}\n")
    with Agent(tree) as agent:
        put(tree, "lib", "{% set x = 'two' %}{{ x }}\n")
        for name in "abc":
            holds(agent, tree.host / name, "two\n")
        assert "(drift" not in agent.log


def test_a_new_first_source_takes_effect_with_the_next_states(tree):
    """While the states do not compile, the second source stays in use."""
    put(tree, "files/b", "b\n")
    tree.sls("web", "HOST/out: {file.managed: [{source: ['salt://files/a', 'salt://files/b']}]}\n")
    with Agent(tree) as agent:
        holds(agent, tree.host / "out", "b\n")
        break_states(tree, agent)
        put(tree, "files/a", "a\n")
        repaired(agent, tree.host / "out", "b\n")
        fix_states(tree, agent)
        holds(agent, tree.host / "out", "a\n")


def test_directories_behind_links_are_watched(tree):
    """A link in the states directory leads to a directory of sources."""
    outside = tree.root / "outside"
    outside.mkdir(mode=0o755)
    (outside / "conf").write_text("one\n")
    (tree.etc / "states/files").symlink_to(outside)
    tree.sls("web", FILE)
    with Agent(tree) as agent:
        holds(agent, tree.host / "conf", "one\n")
        agent.wait(lambda: "converged" in agent.log, "the first pass")
        (outside / "conf").write_text("two\n")
        holds(agent, tree.host / "conf", "two\n")
        assert json.dumps(causes(tree, "conf")) == '["states changed"]'


def test_a_hidden_import_of_a_state_file_is_watched(tree):
    """A hidden file such as `.macros.jinja` is part of the states."""
    put(tree, ".macros.jinja", "{% set x = 'one' %}")
    tree.sls("web", "{% from '.macros.jinja' import x %}\nHOST/out: {file.managed: [{contents: '{{ x }}'}]}\n")
    with Agent(tree) as agent:
        holds(agent, tree.host / "out", "one\n")
        put(tree, ".macros.jinja", "{% set x = 'two' %}")
        holds(agent, tree.host / "out", "two\n")
