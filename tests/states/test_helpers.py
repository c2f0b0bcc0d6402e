"""Templates have more calls, filters and tests than those of Jinja."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.resources.case_files import parsed
from holdfast.states.errors import CompileError
from holdfast.states.template.jinja import render_text

EXPRESSIONS = [next(iter(entry.items())) for entry in parsed((Path(__file__).parent / "expressions.yaml").read_text())]
GRAINS = {
    "id": "web1",
    "os": "Debian",
    "os_family": "Debian",
    "roles": ["a", "b"],
    "empty": "",
    "deep": {"a": {"b": 5}},
    "num": 5,
    "ipv4": ["127.0.0.1", "10.0.0.7"],
    "ip4_interfaces": {"eth0": ["10.0.0.7"], "lo": ["127.0.0.1"]},
    "both": {"x": 1, "l": [1]},
}
PILLAR = {
    "k": "v",
    "key": "value",
    "nul": None,
    "app": {"name": "shop", "port": 80, "on": True, "list": ["x"], "sub": {"p": 1}, "text": "l1\nl2\n"},
    "both": {"y": 2, "l": [2]},
}


def render(expression, **more):
    """Return the value of an expression as text."""
    return render_text(f"{{{{ {expression} }}}}", name="x", variables={}, grains=GRAINS, pillar=PILLAR, **more)


@pytest.mark.parametrize(("expression", "value"), EXPRESSIONS)
def test_an_expression_has_the_value_of_salt(expression, value):
    """Filters, tests, globals and calls are evaluated, each in its forms."""
    assert render(expression) == value


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'a' | random_str | default('x')", None),
        ("ifelse('db*', 1, 'web*', 2, 3)", "2"),
        ("ifelse(true, 1, 2)", "1"),
        ("opts.id", "web1"),
        ("opts.saltenv", "base"),
        ("'web1' in show_full_context().opts.id", "True"),
        ("1457456400 | strftime('%Y')", "2016"),
        ("'2002-12-25' | strftime('%d.%m.%y')", "25.12.02"),
        ("'25.12.2002' | date_format", "2002-12-25"),
        ("none | strftime('%Y') | int > 2000", "True"),
        ("'/' | list_files | length > 0 if false else true", "True"),
        ("'sh' | which", "/usr/bin/sh"),
        ("'nonesuch' | which", "None"),
        ("'root' | get_uid", "0"),
        ("'/etc/passwd' | is_text_file", "True"),
        ("'/etc/passwd' | is_bin_file", "False"),
        ("'/etc/passwd' | is_empty", "False"),
        ("'/etc/passwd' | file_hashsum | length", "64"),
        ("12 | random_str | length", "12"),
        ("'AA:BB:CC' | gen_mac | length", "17"),
        ("[1, 2, 3] | random_shuffle(seed='x') | sort", "[1, 2, 3]"),
        ("[1, 2, 3] | random_sample(2, seed='x') == [1, 2, 3] | random_sample(2, seed='x')", "True"),
        ("salt['random.get_str'](8) | length", "8"),
        ("salt['file.file_exists']('/etc/passwd')", "True"),
        ("salt['file.file_exists']('/nonesuch')", "False"),
        ("salt['file.directory_exists']('/')", "True"),
        ("salt['file.path_exists_glob']('/etc/pass*')", "True"),
        ("salt['file.access']('/etc/passwd', 'r')", "True"),
        ("salt['file.stats']('/etc/passwd').user", "root"),
        ("salt['file.stats']('/nonesuch')", "{}"),
        ("salt['file.get_mode']('/etc/passwd')", "0644"),
        ("salt['file.contains']('/etc/passwd', 'root:')", "True"),
        ("salt['file.search']('/etc/passwd', '^root')", "True"),
        ("salt['file.is_chrdev']('/dev/null')", "True"),
        ("salt['file.uid_to_user'](0)", "root"),
        ("salt['file.user_to_uid']('nonesuch')", ""),
        ("salt['user.info']('root').home", "/root"),
        ("salt['user.info']('nonesuch')", "{}"),
        ("salt['user.primary_group']('root')", "root"),
        ("salt['group.info']('root').gid", "0"),
        ("salt['network.ip_addrs']()", "['10.0.0.7']"),
        ("salt['network.ip_addrs'](cidr='192.168.0.0/16')", "[]"),
        ("salt['network.interface_ip']('eth0')", "10.0.0.7"),
        ("salt['network.in_subnet']('10.0.0.0/8')", "True"),
        ("salt['pkg.version']('nonesuch')", ""),
        ("salt['pkg.version_cmp']('1.2-1', '1.10-1')", "-1"),
        ("salt['pkg.version_cmp']('1:1.0', '2.0')", "1"),
        ("salt['pkg.version_cmp']('1.0~rc1', '1.0')", "-1"),
        ("salt['service.available']('nonesuch')", "False"),
        ("salt['environ.get']('NONESUCH', 'd')", "d"),
    ],
)
def test_an_expression_that_differs_from_salt_or_depends_on_the_host(expression, value):
    """Such expressions depend on the host or on chance, or are better than in Salt."""
    if value is None:
        with pytest.raises(CompileError):
            render(expression)
    else:
        assert render(expression) == value


def test_commands_run_only_if_the_settings_allow_it():
    """The default refuses commands, with the name of the setting."""
    with pytest.raises(CompileError) as caught:
        render("salt['cmd.run']('id')")

    (problem,) = caught.value.problems
    assert problem.code == "template-forbidden"
    assert "template_commands" in problem.hint
    allowed = {"options": {"template_commands": True}}
    assert render("salt['cmd.run']('echo hi; echo err >&2')", **allowed) == "hi\nerr"
    assert render("salt.cmd.run('echo $X', env={'X': 'y'})", **allowed) == "y"
    assert render("salt['cmd.retcode']('exit 3')", **allowed) == "3"
    assert render("salt['cmd.run_all']('echo hi').stdout", **allowed) == "hi"


def test_calls_read_files_of_the_states_directory(compile_tree):
    """Some calls return defaults, texts or lists of files."""
    text = (
        "{% set found = [salt['defaults.get']('web:port'), "
        "salt['cp.get_file_str']('salt://web/x.txt'), salt['cp.get_file_str']('nope'),"
        " salt['slsutil.file_exists']('web/x.txt'), salt['slsutil.dir_exists']('web'), "
        "salt['slsutil.path_exists']('nope'),"
        " salt['slsutil.findup']('web/deep', 'x.txt'), salt['cp.list_states'](), "
        "salt['cp.list_master_dirs'](prefix='web/d'), "
        "salt['slsutil.renderer']('salt://web/y.sls')] %}\n"
        "a:\n  lamp.lit:\n    - tags: {{ found | json }}\n"
    )
    files = {
        "site.sls": text,
        "web/defaults.yaml": "port: 80",
        "web/x.txt": "text\n",
        "web/deep/z": "",
        "web/y.sls": "k: {{ 1 + 1 }}",
    }

    assert compile_tree(files, "site").calls[0].low["tags"] == [
        80,
        "text\n",
        False,
        True,
        True,
        False,
        "web/x.txt",
        ["site", "web.y"],
        ["web/deep"],
        {"k": 2},
    ]


@pytest.mark.parametrize("call", ["mine.send", "saltutil.sync_all", "state.apply", "sdb.get", "http.query"])
def test_calls_that_need_a_master_are_refused(call):
    """The hint says what to use instead."""
    with pytest.raises(CompileError) as caught:
        render(f"salt['{call}']('x')")

    (problem,) = caught.value.problems
    assert problem.message == f"templates cannot call {call}"
    assert any(word in problem.hint for word in ("pillar", "include", "synchronise"))


@pytest.mark.parametrize(
    "use", ["salt['no.such']('x')", "salt.no.such", "salt['no.such'] or 1", "salt['no.such'] | json", "salt['no.such']"]
)
def test_an_unknown_call_may_be_tested_but_not_used(use):
    """Formulas test for a module before they use it. The error of a use names the missing module."""
    with pytest.raises(CompileError) as caught:
        render(use)

    assert caught.value.problems[0].code == "template-call"


def test_the_default_of_a_pillar_value_must_be_defined():
    """The default is evaluated first, as in Salt, even if the pillar has the value."""
    with pytest.raises(CompileError) as caught:
        render("salt['pillar.get']('k', {}.nope)")

    assert caught.value.problems[0].code == "template-undefined"


@pytest.mark.parametrize("expression", ["'x' | http_query", "'x' | dns_check"])
def test_templates_cannot_use_the_network(expression):
    """Compilation depends only on files."""
    with pytest.raises(CompileError) as caught:
        render(expression)

    assert caught.value.problems[0].code == "template-forbidden"


@pytest.mark.parametrize("name", ["cmd.nope", "file.remove", "file.write", "state.apply", "saltutil.refresh_pillar"])
def test_templates_cannot_change_the_machine(name):
    """Calls with side effects do not exist."""
    with pytest.raises(CompileError) as caught:
        render(f"salt['{name}']('x')")

    assert caught.value.problems[0].code == "template-call"


def alone(code, *args):
    """Return the output of a new interpreter."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    return subprocess.run(
        [sys.executable, "-c", code, *args], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_the_table_of_calls_is_complete():
    """The table has each name with its module, so that hints, lint and `in` import no module."""
    code = (
        "import importlib, json; from holdfast.states.helpers.table import TABLE\n"
        "from holdfast.resources.execution.template_functions import MODULES, NAMES\n"
        "found = {}\n"
        "for module in MODULES:\n"
        "    importlib.import_module(f'holdfast.states.helpers.{module}')\n"
        "    found |= {name: module for name in TABLE.entered if name not in found}\n"
        "print(json.dumps([found, NAMES]))"
    )
    entered, known = json.loads(alone(code))

    assert entered == known


def test_a_call_imports_only_its_own_module(tmp_path):
    """A template that reads grains imports no other helper. A text without template marks does not import Jinja."""
    code = (
        "import sys; from pathlib import Path; from holdfast.states.template.render import "
        "Renderer; from holdfast.states.source.files import Tree\n"
        "from holdfast.states.view.host_view import HostView\n"
        "root = Path(sys.argv[1]); renderer = Renderer(root); renderer.begin(Tree(root), HostView({'os': 'Debian'}))\n"
        "plain = renderer.render(root / 'plain.sls', 'plain').data; print(plain, 'jinja2' in sys.modules)\n"
        "grain = renderer.render(root / 'grain.sls', 'grain').data; print(grain, "
        "'holdfast.states.helpers.system' in sys.modules)"
    )
    (tmp_path / "plain.sls").write_text("a: b\n")
    (tmp_path / "grain.sls").write_text("a: {{ salt['grains.get']('os') }}\n")

    assert alone(code, str(tmp_path)).split() == ["{'a':", "'b'}", "False", "{'a':", "'Debian'}", "False"]
