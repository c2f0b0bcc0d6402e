"""The compiler reports errors that would otherwise occur only when a state runs, with file, line and text."""

from __future__ import annotations

import contextlib
import os

import pytest

from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import CompilerInputs
from holdfast.states.errors import CompileError
from holdfast.states.parse.line_masking import mask_line


def state(kind: str, *arguments: str, name: str = "x") -> str:
    """Return the text of a state with these arguments, the first of them in line 3."""
    return f"{name}:\n  {kind}:\n" + "".join(f"    - {argument}\n" for argument in arguments)


CRON = [
    ("minute: 75", "75 is not from 0 to 59"),
    ("hour: 24", "24 is not from 0 to 23"),
    ("daymonth: 0", "0 is not from 1 to 31"),
    ("month: 13", "13 is not from 1 to 12"),
    ("month: foo", "'foo' is unknown"),
    ("dayweek: 8", "8 is not from 0 to 7"),
    ("dayweek: monday", "'monday' is unknown"),
    ("minute: '*/0'", "a step is a number from 1 to 59"),
    ("minute: '*/x'", "a step is a number"),
    ("minute: 5/10", "a step needs * or a range"),
    ("minute: 30-10", "ends before it begins"),
    ("minute: '1,,2'", "'' cannot be parsed"),
    ("minute: '*-5'", "'*-5' cannot be parsed"),
    ("minute: 1:30", "1:30"),
    ("special: '@dayly'", "did you mean '@daily'?"),
    ("special: daily", "did you mean '@daily'?"),
]
FIELDS = [
    *(("cron.present", line, words) for line, words in CRON),
    ("cmd.run", "cwd: some/dir", "is not an absolute path"),
    ("cmd.run", "umask: xyz", "is not a umask"),
    ("cmd.run", "runas: yes", "YAML made the boolean true from this"),
    ("cmd.run", "runas: a:b", "is not the name or number of a user"),
    ("cmd.run", "shell: bin/sh", "is not the absolute path of a shell"),
    ("cmd.run", "bg: true", "in the background"),
    ("cmd.run", "env: {A=B: c}", "is not a variable"),
    ("cmd.run", "success_retcodes: [300]", "is not an exit status"),
    ("cmd.run", "creates: made/here", "is not an absolute path"),
    ("cmd.run", "name: '  '", "must not be empty"),
    ("file.managed", "name: relative", "is not an absolute path"),
    ("file.directory", "user: ''", "is not the name or number of a user"),
    ("file.directory", "user: on", "YAML made the boolean true from this"),
    ("user.present", "uid: -1", "greater than or equal to 0"),
    ("user.present", "uid: 4294967295", "less than or equal to"),
    ("user.present", "name: '123'", "not only digits"),
    ("user.present", "name: a/b", "is not the name of an account"),
    ("user.present", "groups: [on]", "YAML made the boolean true from this"),
    ("user.present", "fullname: 'a:b'", "one line without ':'"),
    ("user.present", "expire: -5", "greater than or equal to -1"),
    ("group.present", "name: " + "g" * 33, "at most 32 characters"),
    ("sysctl.present", "name: forwarding", "at least one dot"),
    ("service.running", "name: nginx.servce", "did you mean nginx.service?"),
    ("service.running", "name: a/b", "is not the name of a unit"),
    ("pkg.installed", "pkgs: [nginx=1.2]", "version: ..."),
    ("pkg.installed", "pkgs: [nginx-]", "is not the name of a package"),
    ("pkg.installed", "pkgs: ['a b']", "is not the name of a package"),
    ("pkg.installed", "version: 1/2", "is not a version"),
    ("pkg.installed", "version: 1.10", "YAML reads 1.10 as the number 1.1: write '1.10', in quotes"),
    ("pkg.installed", "pkgs: [{a: 1.10}]", "YAML reads 1.10 as the number 1.1"),
    ("file.managed", "contents: 007", "YAML reads 007 as the number 7"),
    ("test.nop", "unless: {fun: pkg.install, args: [x]}", "unless cannot call pkg.install it changes this host"),
    ("test.nop", "onlyif: ['true', {fun: service.restart, args: [x]}]", "onlyif cannot call service.restart"),
    ("test.nop", "onlyif: [{fun: file.file_exist}]", "did you mean file.file_exists?"),
    ("test.nop", "unless: {fun: file.file_exists, args: /x}", "with args that are not a list"),
    ("test.nop", "unless: {args: [/x]}", "has a call without a function"),
    ("test.nop", "unless: {fun: 5}", "has a call without a function"),
]


@pytest.mark.parametrize(
    ("kind", "argument", "words"), FIELDS, ids=[f"{kind} {argument}" for kind, argument, _ in FIELDS]
)
def test_values_that_cannot_work_are_errors(kind, argument, words, problems):
    """Each error has its line and the reason."""
    extra = {"sysctl.present": ["value: 1"]}.get(kind, [])
    found = problems(state(kind, argument, *extra, name="/x"))

    problem = next(problem for problem in found if words in f"{problem.message} {problem.hint}")
    assert problem.location.line == 3
    assert argument.partition(":")[0] in problem.text


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("cron.present", ["minute: '*/5,30-40/2,random'", "month: jan,mar-may"]),
        ("cron.present", ["minute: random", "hour: 0", "dayweek: 7", "daymonth: 1-31/2"]),
        ("cron.present", ["special: '@reboot'"]),
        ("cmd.run", ["cwd: /a/../b", "runas: 0", "umask: 022", "env: [{PORT: 80}]"]),
        ("file.directory", ["user: 0", "group: 'DOMAIN\\domain users'", "mode: 0755"]),
        ("pkg.installed", ["pkgs: [g++, 'libc6:amd64', {a: '>=1.2~rc1,<2'}, {b: 2.5}]"]),
        ("service.running", ["name: dbus-org.freedesktop.timesync1"]),
        ("user.present", ["name: alice", "gid: 100", "uid: 0100"]),
        ("test.nop", ["unless: [{fun: pillar.get, args: [a]}, {fun: file.file_exists, path: /x}, 'false']"]),
        ("test.nop", ["onlyif: {fun: cmd.run, cmd: 'true'}"]),
    ],
)
def test_values_that_work_are_accepted(kind, arguments, compile_tree):
    """Values that the tools accept are not reported."""
    arguments = [argument for argument in arguments if ",random" not in argument]
    compile_tree(state(kind, *arguments, name="/x"))


def test_a_wrong_call_of_a_guard_is_reported_until_it_is_corrected(tmp_path):
    """A compilation in which nothing else has changed reports it, too."""
    compiler, inputs = Compiler(), CompilerInputs(tmp_path, trusted_uids=frozenset({os.getuid()}))
    for written, errors in (("pkg.install", 1), ("pkg.install", 1), ("pkg.version", 0)):
        (tmp_path / "a.sls").write_text(state("test.nop", "unless: {fun: " + written + ", args: [x]}"))
        with pytest.raises(CompileError, match="guard-call") if errors else contextlib.nullcontext():
            compiler.compile(inputs)


def test_the_name_of_a_state_is_a_package_unless_pkgs_is_given(problems, compile_tree):
    """With `pkgs`, the name may be anything."""
    (problem,) = problems(state("pkg.installed", "name: nginx="))

    assert "is not the name of a package" in problem.message
    compile_tree(state("pkg.installed", "pkgs: [nginx]", name="all tools"))


def test_names_that_are_not_text_are_errors(problems):
    """Salt would use the ID instead, without a message."""
    for written, words in (("on", "the boolean true"), ("1.10", "1.10"), ("8080", "8080")):
        (problem,) = problems(state("service.running", f"name: {written}"))
        assert (problem.code, problem.location.line) == ("name-type", 3)
        assert words in problem.message
    (problem,) = problems(state("file.managed", "name: on", "contents: x", name="its ID"))
    assert problem.code == "name-type"  # the ID, which is not a path, is not reported


def test_names_in_requisites_and_lists_may_not_be_booleans(problems):
    """The error says which value YAML has made of the word."""
    (problem,) = problems(state("test.nop", "require: [{pkg: on}]"))
    assert problem.message == "the name in an item of require must be text, but this is the boolean true"
    (problem,) = problems(state("pkg.installed", "pkgs: [vim, on]"))
    assert "YAML reads it as a boolean; write it in quotes" in problem.message


def test_an_argument_is_named_as_it_is_written(problems):
    """The position in a list is reported only if there is a list."""
    for written, argument in (("rel", "creates"), ("[/a, rel]", "creates.1")):
        (problem,) = problems(state("cmd.run", f"creates: {written}"))
        assert f"the argument {argument!r} is wrong" in problem.message


SOURCES = [
    (("file.managed", "source: salt://x.conf"), "there is no salt://x.conf"),
    (("file.managed", "source: [salt://x, tree://y/z]"), "none of salt://x, tree://y/z exists"),
    (("file.managed", "source: /opt/x", "source_hash: salt://sums"), "there is no salt://sums"),
    (("cmd.script", "source: salt://x.sh"), "there is no salt://x.sh"),
    (("cmd.script", "name: salt://x.sh --go"), "there is no salt://x.sh"),
    (("file.recurse", "source: salt://none"), "there is no salt://none"),
    (("file.blockreplace", "sources: [salt://there, salt://x]"), "there is no salt://x"),
    (("file.append", "source: salt://../site.sls"), "there is no salt://../site.sls"),
]


@pytest.mark.parametrize(("arguments", "words"), SOURCES)
def test_missing_sources_are_errors(arguments, words, problems):
    """Without the check, the state would fail when it runs."""
    (problem,) = problems({"site.sls": state(*arguments, name="/x"), "there": ""})

    assert problem.code == "source-absent"
    assert words in problem.message


def test_one_of_several_sources_is_enough(compile_tree):
    """Salt does the same. A path outside the states directory may be created later."""
    several = state("file.managed", "source: [salt://none, salt://there]", name="/x") + state(
        "file.managed", "source: /opt/later", name="/y"
    )

    compile_tree({"site.sls": several, "there": ""})


def test_the_hint_of_a_missing_source_is_the_most_similar_name(problems):
    """The name of the source is misspelled."""
    (problem,) = problems(
        {"site.sls": state("file.managed", "source: salt://web/ngnix.conf", name="/x"), "web/nginx.conf": ""}
    )

    assert problem.hint == "did you mean salt://web/nginx.conf?"


CONF = "x:\n  file.managed:\n    - name: /x\n    - source: salt://x.conf\n    - template: jinja\n"
UNCLOSED = [
    ("a\n{% for x in [1] %}\n{{ x }}\n\n", 2, "{% for %} is not closed: {% endfor %} is missing"),
    ("{% if true %}\n{{ 1 }}\n\n", 1, "{% if %} is not closed"),
    ("{% if true %}\n{% for x in [1] %}\n{% endif %}\n", 3, "{% for %} of line 2 is open"),
    ("{% if a %}\n{% else %}\n\n", 1, "{% if %} is not closed"),
    ("a\n{% macro m(x=1) %}\n\n", 2, "{% macro %} is not closed"),
    ("a\n{% call m() %}\n\n", 2, "{% call %} is not closed"),
    ("a\n{% filter upper %}\n\n", 2, "{% filter %} is not closed"),
    ("{% set a = 1 %}\n{% set b %}\n\n", 2, "{% set %} is not closed"),
    ("a\n{% block b %}\n\n", 2, "{% block %} is not closed"),
    ("a\n{% load_yaml as b %}\n\n", 2, "{% load_yaml %} is not closed: {% endload %} is missing"),
    ("a\n{% raw %}\n\n", 2, "raw"),
    ("a\n{# b\n\n", 2, "comment"),
    ("a\n{{ b\n\nc", 2, "this {{ is not closed"),
]


@pytest.mark.parametrize(("text", "line", "words"), UNCLOSED)
@pytest.mark.parametrize("where", ["state file", "source"])
def test_an_unclosed_tag_is_reported_where_it_was_opened(where, text, line, words, problems):
    """Jinja itself reports the end of the file."""
    (problem,) = problems({"site.sls": text} if where == "state file" else {"site.sls": CONF, "x.conf": text})

    assert problem.location.line == line
    assert words in problem.message
    assert problem.text == text.split("\n")[line - 1]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("a\n{{ salt['no.such']() }}", ["template-call"]),
        ("a\n{{ salt.no.such() }}", ["template-call"]),
        ("a\n{% for x in [1] %}{{ salt['no.such']() }}{% endfor %}", ["template-call"]),
        ("a\n{% if salt['no.such']() %}{% endif %}", ["template-call"]),
        ("a\n{% macro m() %}{{ salt['no.such']() }}{% endmacro %}{{ m() }}", ["template-call"]),
        ("a\n{{ 1 | nofilter }} {{ 2 | nofilter2 }}", ["source-syntax", "source-syntax"]),
        ("a\n{% set x = 1 is notest %}", ["source-syntax"]),
        ("a\n{% import 'none.jinja' as n %}", ["template-missing"]),
    ],
)
def test_missing_names_in_the_template_of_a_file_are_errors(text, codes, problems):
    """Each name that the template certainly uses is checked, with its line."""
    found = problems({"site.sls": CONF, "x.conf": text})

    assert [problem.code for problem in found] == codes
    assert {problem.location.line for problem in found} == {2}
    assert all(problem.location.file.endswith("x.conf") for problem in found)


@pytest.mark.parametrize(
    "text",
    [
        "{% if 'no.such' in salt %}{{ salt['no.such']() }}{% endif %}",
        "{% if grains.id == 'x' %}{{ salt['no.such']() | nofilter }}{% endif %}",
        "{{ salt['no.such']() if false else 1 }}",
        "{% macro m() %}{{ salt['no.such']() }}{% endmacro %}",
        "{% include 'none.jinja' ignore missing %}",
        '#jinja2: {"variable_start_string": "<<", "variable_end_string": ">>"}\n{{ 1 | nofilter }}',
    ],
)
def test_names_that_a_template_may_never_use_are_not_errors(text, compile_tree):
    """The names are in branches, in macros without a call, or after a test for the name."""
    compile_tree({"site.sls": CONF, "x.conf": text})


def test_a_template_that_is_nested_too_deeply_is_an_error(problems):
    """A long chain of operators causes no traceback."""
    (problem,) = problems({"site.sls": CONF, "x.conf": f"{{{{ {' or '.join(['a'] * 3000)} }}}}"})

    assert problem.code == "source-syntax"
    assert "nested too deeply" in problem.message


def test_templates_of_a_copied_directory_are_checked(problems):
    """Each file of a `file.recurse` with `template` is checked."""
    recurse = state("file.recurse", "source: salt://d", "template: jinja", name="/x")

    (problem,) = problems({"site.sls": recurse, "d/a/b.conf": "\n{% if %}"})
    assert (problem.code, problem.location.line) == ("source-syntax", 2)


@pytest.mark.parametrize(
    ("text", "line"),
    [("{% if true %}", 4), ("a\n        {{ 1 | nofilter }}", 5), ("a\n        {{ salt['no.such']() }}", 5)],
)
def test_a_template_in_contents_is_checked(text, line, problems):
    """The error has the line of the text."""
    written = f"#!yaml\n/x:\n  file.managed:\n    - contents: |\n        {text}\n    - template: jinja\n"

    (problem,) = problems(written)
    assert problem.location.line == line + 1
    assert problem.text == written.split("\n")[line]
    assert problem.code in ("source-syntax", "template-call")


def test_an_error_in_generated_contents_has_the_line_of_the_argument(problems):
    """The state file does not contain the text."""
    (problem,) = problems(
        "{% set x = '{' ~ '% if true %' ~ '}' %}\n"
        "/x:\n  file.managed:\n    - contents: '{{ x }}'\n    - template: jinja\n"
    )

    assert (problem.code, problem.location.line) == ("source-syntax", 4)
    assert problem.message.startswith("line 1 of contents: ")


def test_content_that_is_not_rendered_may_look_like_a_template(compile_tree):
    """Without `template`, contents are plain text."""
    compile_tree("#!yaml\n/x:\n  file.managed:\n    - contents: '{% if true %}'\n")


@pytest.mark.parametrize(
    ("using", "name"),
    [
        ("{% import 'lib/a.jinja' as a %}", "lib/a.jinja"),
        ("{% from 'lib/a.jinja' import x with context %}", "lib/a.jinja"),
        ("{% include 'lib/a.jinja' %}", "lib/a.jinja"),
        ("{% include 'lib/a.jinja' ignore missing %}", "lib/a.jinja"),
        ("{% import_yaml 'lib/a.jinja' as a %}", "lib/a.jinja"),
        ("{% include 'lib/b.jinja' %}", "lib/a.jinja"),
        ("{% include 'lib/b.jinja' %}", "lib/b.jinja"),
    ],
)
def test_imports_and_includes_of_the_template_of_a_file_are_checked(using, name, problems):
    """Indirect includes have their own lines, too; relative names are relative to the template that has them."""
    files = {
        "site.sls": CONF,
        "x.conf": using,
        "lib/b.jinja": "{% include './a.jinja' %}{% include 'lib/b.jinja' %}",
        "lib/a.jinja": "",
    }

    (problem,) = problems(files | {name: "a\n{% for x in [1] %}\n{{ x }}\n"})
    assert problem.location.file.endswith(name)
    assert (problem.code, problem.location.line) == ("source-syntax", 2)


def test_a_missing_include_has_the_location_of_the_include(problems):
    """The template with the include is itself included."""
    (problem,) = problems(
        {"site.sls": CONF, "x.conf": "{% include 'b.jinja' %}", "b.jinja": "\n{% include './c.jinja' %}"}
    )

    assert problem.location.file.endswith("b.jinja")
    assert (problem.code, problem.location.line) == ("template-missing", 2)


@pytest.mark.parametrize("name", ["./part", "../part"])
def test_a_relative_name_in_the_template_of_a_file_is_checked(name, problems, compile_tree):
    """The name is relative to the directory of the template, as when the state runs."""
    site = CONF.replace("x.conf", "web/deep/x.conf")
    files = {"site.sls": site, "web/deep/x.conf": f"{{% include '{name}' %}}", "part": ""}
    (problem,) = problems(files)

    assert problem.location.file.endswith("web/deep/x.conf")
    assert (problem.code, problem.location.line) == ("template-missing", 1)
    compile_tree(files | {"web/deep/part" if name == "./part" else "web/part": ""})


def test_a_relative_name_in_contents_is_checked(problems, compile_tree):
    """Contents have no directory, so the name is relative to the states directory."""
    site = "x:\n  file.managed:\n    - name: /x\n    - contents: \"{% raw %}{% include './part' %}{% endraw %}\"\n"
    files = {"web.sls": f"{site}    - template: jinja\n", "web/part": ""}
    (problem,) = problems(files)

    assert (problem.code, problem.location.line) == ("template-missing", 4)
    compile_tree(files | {"part": ""})


@pytest.mark.parametrize("broken", [{}, {"p.jinja": "{% if %}"}, {"p.jinja": "{% include 'none' %}"}])
def test_a_fixed_include_is_read_again(broken, problems, compile_tree):
    """The template that includes it is unchanged."""
    compiler = Compiler()
    problems({"site.sls": CONF, "x.conf": "{% include 'p.jinja' %}", **broken}, compiler=compiler)

    compile_tree({"p.jinja": ""}, compiler=compiler)


KEYS = [
    ("{{ grains['os_famly'] }}", "did you mean 'os_family'?"),
    ("{{ grains.os_famly }}", "did you mean 'os_family'?"),
    ("{{ pillar['ngnix']['port'] }}", "did you mean 'nginx'?"),
    ("{{ pillar.nginx.prot }}", "did you mean 'port'?"),
    ("{% set m = {'pkg': 'nginx'} %}{{ m.pgk }}", "did you mean 'pkg'?"),
    ("{{ grains.nothing_like_it }}", "give a default"),
]


@pytest.mark.parametrize(("text", "hint"), KEYS)
def test_the_hint_of_a_missing_key_is_the_most_similar_one(text, hint, problems):
    """Grains, the pillar and all other mappings are tried. The message has no words of Python."""
    (problem,) = problems(f"a\n{text}\n", pillar={"nginx": {"port": 80}})

    assert (problem.code, problem.location.line) == ("template-undefined", 2)
    assert problem.hint.startswith(hint)
    assert "object" not in problem.message


def test_a_missing_grain_of_a_formula_names_its_module(problems):
    """Salt would load the grain from that module."""
    module = "def main():\n    return {'shelf_size': 3}\n"

    (problem,) = problems({"site.sls": "a\n{{ grains['shelf_size'] }}\n", "_grains/shelf.py": module})
    assert problem.location.line == 2
    assert "_grains/shelf.py is a module for Salt" in problem.hint


def test_each_misspelled_name_is_an_error_with_a_hint(problems):
    """Each hint is the most similar name."""
    found = problems(
        "a:\n  cmd.rn: []\nb:\n  cmd.wait_scrpt: []\nc:\n  cmd.run:\n    - nmae: x\n"
        "    - cdw: /\nd:\n  test.nop:\n    - require: [{cmd: cc}, {test: dd}]\n"
    )

    assert [problem.hint.partition("?")[0] for problem in found if problem.code.startswith("unknown")] == [
        "did you mean cmd.run",
        "did you mean cmd.script",
        "did you mean 'name'",
        "did you mean 'cwd'",
    ]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("password: hunter2", "password: ********"),
        ("  - key: 'a b'  # c", "  - key: ********"),
        ("    hunter2", "    ********"),
        ("{% for x in secrets %}", "{% for x in secrets %}"),
        ("{% set pin = 1234 %}", "{% set pin = ******** %}"),
        ("a: {{ salt['x.y']('hunter2') }}z", "a: {{ salt[********](********) }}********"),
        ("a: {{ 'hunter2", "a: {{ ********"),
        ("hunter2: {", "hunter2: ********"),
        ("my pass phrase: x", "********"),
        ("", ""),
    ],
)
def test_a_line_with_secrets_is_shown_without_its_values(line, shown):
    """The key and the template tags of a line stay visible."""
    assert mask_line(line) == shown
