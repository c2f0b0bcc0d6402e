"""`check`: its output formats and exit codes. `check` changes nothing on the host."""

import json
import re

import pytest

from holdfast_process import Tree, holdfast

STRANGE = "odd, 50%:\n  cmd.run:\n    - name: touch HOST/made\n"
WRONG = "x:\n  test.nop:\n    - require:\n      - test: gone\n"


@pytest.fixture
def tree(tmp_path):
    """A configuration with one valid state."""
    tree = Tree(tmp_path)
    tree.file()
    return tree


def test_states_without_problems_are_0_and_one_line(tree):
    """`check` prints one line and exits with 0."""
    assert tree("check", check=0).stdout == "no problems in 1 state\n"


def test_a_state_file_can_be_named_by_its_path(tree):
    """Editors and hooks pass paths: relative to the working directory, or absolute.

    A name without `.sls` stays an SLS name. A missing file is an error.
    """
    tree.sls("odd", STRANGE)
    states = tree.etc / "states"
    (states / "web").mkdir()
    (states / "web/init.sls").write_text("w: test.nop\n")

    for word, cwd in (
        ("states/web/init.sls", tree.etc),
        ("init.sls", states / "web"),
        (f"{states}/motd.sls", tree.host),
        ("web", tree.host),
    ):
        assert tree("check", word, cwd=cwd, check=0).stdout == "no problems in 1 state\n"
    assert "1 warning in 1 state" in tree("check", "odd.sls", cwd=tree.host, check=0).stdout
    assert "did you mean web?" in tree("check", "wbe.sls", check=3).stdout
    assert "there is no state file for '/etc/hosts.sls'" in tree("check", "/etc/hosts.sls", check=3).stdout
    assert tree("plan", "states/web/init.sls", cwd=tree.etc, check=0)


def test_warnings_alone_are_0_and_with_strict_1(tree):
    """Warnings change the exit code only with `--strict`; ignored warnings do not count."""
    tree.sls("odd", STRANGE)
    done = tree("check", check=0)

    assert "odd.sls:2:3: warning: nothing says when cmd.run[odd, 50%] is needed" in done.stdout
    assert done.stdout.splitlines()[1:3] == ["      cmd.run:", "      ^"]
    assert done.stdout.endswith("1 warning in 2 states\n")
    assert done.stderr == ""
    tree("check", "--strict", check=1)
    tree("check", "--strict", "--ignore", "action-unguarded", check=0)
    tree("check", "--strict", "motd", check=0)


def test_mistakes_that_salt_accepts_are_warnings_in_lenient_states(tree):
    """Lenient patterns come from the command line, the settings or both. A pattern without a match is a warning."""
    tree.sls("nginx/conf", "HOST/odd:\n  file.directory:\n    - colour: red\n")
    assert "name their SLS in `lenient`" in tree("check", check=3).stdout
    done = tree("check", "--lenient", "nginx*", check=0)

    assert (
        "nginx/conf.sls:3:7: warning: file.directory has no argument 'colour': it is ignored [unknown-argument]"
        in done.stdout
    )
    tree.settings("lenient: [nginx.*]\n")
    assert tree("check", check=0).stdout == done.stdout
    told = tree("plan", "--lenient", "ngnix*", check=2).stderr
    assert "no argument 'colour'" in told
    assert "--lenient ngnix*: no state file has such a name" in told


def test_errors_are_3_and_come_first(tree):
    """Errors precede warnings in the output; `--strict` does not change exit code 3."""
    tree.sls("wrong", WRONG)
    tree.sls("early", "{% if false %}{{ gone }}{% endif %}\n")
    done = tree("check", check=3)

    assert [re.search(r": (error|warning): ", line)[1] for line in done.stdout.splitlines() if ".sls:" in line] == [
        "error",
        "warning",
    ]
    assert done.stdout.splitlines()[-1] == "1 error, 1 warning"
    tree("check", "--strict", check=3)


def test_check_writes_nothing(tree):
    """`check` creates neither a declared file nor the state directory."""
    tree.sls("odd", STRANGE)
    tree("check", check=0)

    assert list(tree.host.iterdir()) == []
    assert not (tree.root / "state").exists()


def test_settings_ignore_codes(tree):
    """The settings ignore a code in every run; an unknown code is an error of the settings."""
    tree.sls("odd", STRANGE)
    tree.settings("lint: {ignore: [action-unguarded]}\n")
    tree("check", "--strict", check=0)

    tree.settings("lint: {ignore: [action-ungarded]}\n")
    assert "did you mean 'action-unguarded'?" in tree("check", check=3).stdout


def test_code_that_cannot_be_ignored_is_64(tree):
    """The message names the most similar code, or says that the code is an error."""
    assert "did you mean 'action-unguarded'?" in tree("check", "--ignore", "action-ungarded", check=64).stderr
    assert "is an error" in tree("check", "--ignore", "yaml-syntax", check=64).stderr


def test_json_has_errors_and_warnings(tree):
    """Each problem has file, line, column, code, message and hint."""
    tree.sls("odd", STRANGE)
    report = tree.json("check", check=0)

    (warning,) = report["warnings"]
    assert (report["errors"], report["states"]) == ([], 2)
    assert (warning["line"], warning["column"], warning["code"]) == (2, 3, "action-unguarded")
    assert set(warning) == {"file", "line", "column", "code", "message", "hint"}

    tree.settings("nonsense: 1\n")
    assert [error["code"] for error in tree.json("check", check=3)["errors"]] == ["unknown-setting"]


def test_github_annotations_are_escaped(tree):
    """Percent signs and line breaks are escaped in the message; colons and commas in the properties, too."""
    tree.sls("odd", STRANGE)
    (tree.etc / "states" / "odd.sls").rename(tree.etc / "states" / "od,d:%.sls")
    done = holdfast("check", "--config", tree.config, "--format", "github", cwd=tree.etc, check=0)

    assert done.stdout == (
        "::warning file=states/od%2Cd%3A%25.sls,line=2,col=3,title=action-unguarded::"
        "nothing says when cmd.run[odd, 50%25] is needed: each 'holdfast apply' runs it%0A"
        "add creates, unless or onlyif; or onchanges, to run it after a change\n"
    )


def test_github_annotations_of_errors(tree):
    """Errors are annotations of type `error`. Outside the states directory, paths are relative to it."""
    tree.sls("wrong", WRONG)
    done = tree("check", "--format", "github", check=3, cwd="/")

    assert done.stdout.startswith(
        f"::error file={str(tree.etc)[1:]}/states/wrong.sls,line=4,col=9,title=requisite-missing::"
    )


def test_sarif_has_rules_regions_and_relative_uris(tree):
    """The log has the properties that SARIF 2.1.0 and code scanning require."""
    tree.sls("od d", STRANGE)
    tree.sls("wrong", WRONG)
    done = holdfast("check", "--config", tree.config, "--format", "sarif", cwd=tree.etc, check=3)
    log = json.loads(done.stdout)

    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"] == "holdfast"
    assert run["originalUriBaseIds"]["ROOT"]["uri"] == f"{tree.etc.as_uri()}/"
    for rule in rules:  # code scanning requires these properties of each rule
        assert all(rule[name]["text"].endswith(".") for name in ("shortDescription", "fullDescription"))
        assert rule["help"]["text"]
    assert {rule["id"]: rule["defaultConfiguration"]["level"] for rule in rules} == {"requisite-missing": "error"}
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] == "error"
        assert result["message"]["text"]
        location = result["locations"][0]["physicalLocation"]
        assert location["artifactLocation"] == {"uri": "states/wrong.sls", "uriBaseId": "ROOT"}
        assert location["region"] == {"startLine": 4, "startColumn": 9, "snippet": {"text": "      - test: gone"}}

    (tree.etc / "states" / "wrong.sls").unlink()
    (result,) = json.loads(
        holdfast("check", "--config", tree.config, "--format", "sarif", cwd=tree.etc, check=0).stdout
    )["runs"][0]["results"]
    assert result["level"] == "warning"
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "states/od%20d.sls"


def test_sarif_without_problems_and_with_wrong_settings(tree):
    """Without problems, the log has no results. A file outside the states has an absolute URI."""
    assert json.loads(tree("check", "--format", "sarif", check=0).stdout)["runs"][0]["results"] == []

    tree.settings("nonsense: 1\n")
    (result,) = json.loads(tree("check", "--format", "sarif", check=3, cwd=tree.host).stdout)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": tree.config.as_uri()}


def test_an_error_in_the_pillar_is_reported_without_its_line(tree):
    """A pillar file may contain secrets, so its lines are not shown."""
    (tree.etc / "pillar" / "data.sls").write_text("password: [hunter2\n")
    done = tree("check", check=3)

    assert "data.sls" in done.stdout
    assert "hunter2" not in done.stdout
