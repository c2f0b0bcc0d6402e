"""The calls, filters and tests that templates have beyond Jinja's own."""

from __future__ import annotations

import pytest

from holdfast.states.errors import CompileError
from holdfast.states.render import render_text

GRAINS = {"id": "web1", "os": "Debian", "os_family": "Debian", "empty": "", "roles": ["a"]}
PILLAR = {"app": {"port": 80, "list": ["x"]}, "key": "value"}


def render(expression):
    """The value of an expression, as text."""
    return render_text(f"{{{{ {expression} }}}}", name="x", variables={}, grains=GRAINS, pillar=PILLAR)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("salt['grains.get']('os')", "Debian"),
        ("salt['grains.get']('nope', 'd')", "d"),
        ("salt.grains.get('roles:0')", "a"),
        ("salt['grains.item']('os')", "{'os': 'Debian'}"),
        ("salt.grains.items().os", "Debian"),
        ("salt['grains.has_value']('empty')", "False"),
        ("salt['grains.equals']('os', 'Debian')", "True"),
        ("salt['grains.filter_by']({'Deb*': 1, 'default': 2}, grain='os')", "1"),
        ("salt['grains.filter_by']({'X': {}, 'default': {'a': 1}}, merge={'b': 2})", "{'a': 1, 'b': 2}"),
        (
            "salt['grains.filter_by']({'Debian': {'b': {'x': 1}}, 'base': {'a': 1, 'b': {'y': 2}}}, base='base')",
            "{'a': 1, 'b': {'y': 2, 'x': 1}}",
        ),
        ("salt['match.filter_by']({'web*': 1, 'db*': 2})", "1"),
        ("salt['match.compound']('G@os:Debian and web*')", "True"),
        ("salt['pillar.get']('app:port')", "80"),
        ("salt['pillar.get']('app:port:x', 5)", "5"),
        ("salt['pillar.get']('app|port', delimiter='|')", "80"),
        ("salt['pillar.get']('app', {'host': 'h'}, merge=True).host", "h"),
        ("salt['pillar.item']('key')", "{'key': 'value'}"),
        ("salt['pillar.keys']('app')", "['port', 'list']"),
        ("salt['config.get']('key')", "value"),
        ("salt.config.get('os')", "Debian"),
        ("salt['file.dirname']('/a/b')", "/a"),
        ("salt['file.basename']('/a/b')", "b"),
        ("salt['file.join']('/a', 'b')", "/a/b"),
        ("salt['file.file_exists']('/nonexistent')", "False"),
        ("salt['file.directory_exists']('/')", "True"),
        ("salt['slsutil.merge']({'a': {'b': 1}}, {'a': {'c': 2}})", "{'a': {'b': 1, 'c': 2}}"),
        ("salt['slsutil.merge_all']([{'a': 1}, {'b': 2}])", "{'a': 1, 'b': 2}"),
        ("salt['defaults.merge']({'a': 1}, {'a': 2})", "{'a': 2}"),
        ("salt['slsutil.serialize']('json', {'b': 1, 'a': 2})", '{"a": 2, "b": 1}'),
        ("salt['slsutil.serialize']('yaml', {'a': [1]})", "a:\n- 1\n"),
        ("salt['slsutil.boolstr'](true, 'yes', 'no')", "yes"),
        ("salt['hashutil.digest']('x')", "9dd4e461268c8034f5c8564e155c67a6"),
        ("salt['log.info']('x')", "True"),
        ("'grains.get' in salt", "True"),
        ("ifelse('db*', 1, 'web*', 2, 3)", "2"),
        ("{'a': [1, true, none]} | yaml", "{a: [1, true, null]}"),
        ("{'b': 1, 'a': 'x'} | json", '{"a": "x", "b": 1}'),
        ("'a: 1' | load_yaml", "{'a': 1}"),
        ("'[1]' | load_json", "[1]"),
        ("'a \"b\"' | yaml_dquote", '"a \\"b\\""'),
        ('"it\'s" | yaml_squote', "'it''s'"),
        ("'yes' | yaml_encode", "'yes'"),
        ("['yes', 'no', 1, 0, [1]] | map('to_bool') | list", "[True, False, True, False, True]"),
        ("'a b' | quote", "'a b'"),
        ("'abc' | regex_replace('b(.)', '<\\\\1>')", "a<c>"),
        ("'abc' | regex_search('b(.)')", "('c',)"),
        ("'abc' | regex_match('b(.)')", "None"),
        ("'abc' is match('a')", "True"),
        ("[] is list", "True"),
        ("'/a' | path_join('b', 'c')", "/a/b/c"),
        ("pillar | traverse('app:port')", "80"),
        ("[1, 1, 2] | unique", "[1, 2]"),
        ("[1, 2] | union([2, 3])", "[1, 2, 3]"),
        ("[1, 2] | intersect([2, 3])", "[2]"),
        ("[1, 2] | difference([2, 3])", "[1]"),
        ("[1, 2] | symmetric_difference([2, 3])", "[1, 3]"),
        ("[1, 3] | avg", "2.0"),
        ("'x' | base64_encode | base64_decode", "x"),
        ("'x' | sha256 | length", "64"),
        ("'10.0.0.1' | is_ipv4", "True"),
        ("'x' | is_ip", "False"),
        ("'1.5' | to_num", "1.5"),
        ("'camelCase' | to_snake_case", "camel_case"),
        ("opts.id", "web1"),
    ],
)
def test_expression_has_this_value(expression, value):
    """What formulas use most."""
    assert render(expression) == value


@pytest.mark.parametrize("name", ["cmd.run", "file.remove", "file.write", "state.apply", "saltutil.refresh_pillar"])
def test_templates_cannot_change_the_machine(name):
    """Side effects in templates are not among the calls."""
    with pytest.raises(CompileError) as caught:
        render(f"salt['{name}']('x')")

    assert caught.value.problems[0].code == "template-call"
