"""The rule about keys of the pillar and of the grains that look like existing keys."""

from __future__ import annotations

import pytest

TAIL = "\nx: test.nop\n"
PILLAR = {"nginx": {"port": 80, "site1": {}}, "users": []}
SLIPS = [
    ("{{ salt['pillar.get']('^nginx:prot') }}", "did you mean 'nginx:port'?"),
    ("{{ salt.pillar.get('^ngnix:prot') }}", "did you mean 'nginx:port'?"),
    ("{{ salt['pillar.get'](key='^nginx:prot') }}", "did you mean 'nginx:port'?"),
    ("{{ pillar.get('^ngnix') }}", "did you mean 'nginx'?"),
    ("{{ pillar.get('^nginx:prot') }}", "did you mean 'nginx:port'?"),
    ("{{ pillar.get('^nginx:port') }}", "write salt['pillar.get']('nginx:port')"),
    ("{{ grains.get('^os_famly') }}", "did you mean 'os_family'?"),
    ("{% if salt['grains.get']('^os_famly') == 'Debian' %}{% endif %}", "did you mean 'os_family'?"),
    ("{% for one in salt['pillar.get']('^user') %}{% endfor %}", "did you mean 'users'?"),
    ("{{ salt['grains.filter_by']({'default': ''}, grain='^os_famly') }}", "did you mean 'os_family'?"),
    ("{% if false %}{{ salt['pillar.get']('^nginx:prot') }}{% endif %}", "did you mean 'nginx:port'?"),
]
MEANT = [
    "{{ salt['pillar.get']('nginx:port') }}{{ grains.get('os') }}",
    "{{ salt['pillar.get']('nginx:prot', 80) }}{{ salt['pillar.get']('nginx:prot', default=80) }}",
    "{{ salt['pillar.get']('nginx:prot') | default(80) }}{{ pillar.get('ngnix') or 80 }}",
    "{% if salt['pillar.get']('user') %}{% endif %}{% if not grains.get('os_famly') or true %}{% endif %}",
    "{% set user = salt['pillar.get']('user') %}{% if user and true %}{{ user }}{% endif %}",
    "{{ salt['pillar.get']('nginx:site2') }}{{ salt['pillar.get']('something:else') }}",
    "{{ salt['grains.get']('os.famly', delimiter='.') }}",
    "{{ salt['pillar.get']('nginx:prot' if false else 'nginx:port') }}",
]


@pytest.mark.parametrize(("text", "hint"), SLIPS)
@pytest.mark.parametrize("where", ["state file", "source"])
def test_a_key_that_looks_like_another_is_told(text, hint, where, warnings):
    """The warning has the location that `^` marks, in state files and in templates of files."""
    before, _, after = f"# {text}".partition("^")
    files = {"site.sls": before + after + TAIL}
    if where == "source":
        files = {
            "site.sls": "/x:\n  file.managed:\n    - source: salt://x.conf\n    - template: jinja\n",
            "x.conf": before + after,
        }

    (warning,) = warnings(files, pillar=PILLAR)
    assert warning.code == "key-missing"
    assert (warning.location.line, warning.location.column) == (1, len(before) + 1)
    assert warning.hint.startswith(hint)


@pytest.mark.parametrize("text", MEANT)
def test_a_key_that_may_be_missing_is_left_alone(text, warnings):
    """The key exists, has a default, is tested by the template, or resembles no other key."""
    assert warnings(f"# {text}{TAIL}", pillar=PILLAR) == []


def test_a_key_whose_value_is_the_content_of_a_file_is_told(warnings):
    """The warning has the line of the argument. A key that exists or resembles no other key causes none."""
    keys = "    - contents_pillar:\n      - nginx:prot\n      - nginx:port\n      - other\n"

    (warning,) = warnings(f"/x:\n  file.managed:\n{keys}", pillar=PILLAR)
    assert (warning.code, warning.location.line, warning.hint) == ("key-missing", 3, "did you mean 'nginx:port'?")


def test_a_template_in_the_state_itself_is_looked_at(warnings):
    """The rules report its unknown keys, undefined names and unknown calls, each at its own line."""
    lines = (
        "        {{ salt['pillar.get']('nginx:prot') }}\n        {{ colour }}\n"
        "        {% if false %}{{ salt['no.such']() }}{% endif %}\n"
    )

    found = warnings(f"#!yaml\n/x:\n  file.managed:\n    - template: jinja\n    - contents: |\n{lines}", pillar=PILLAR)
    assert [(warning.code, warning.location.line) for warning in found] == [
        ("key-missing", 6),
        ("template-name", 7),
        ("template-unknown", 8),
    ]


def test_a_grain_that_a_module_of_a_formula_would_set_is_told(warnings):
    """Another warning says that such modules are not loaded."""
    module = "def main():\n    return {'shelf_size': 3}\n"

    found = warnings({"site.sls": f"# {{{{ salt['grains.get']('shelf_size') }}}}{TAIL}", "_grains/shelf.py": module})
    (warning,) = [warning for warning in found if warning.code == "key-missing"]
    assert "_grains/shelf.py is a module for Salt" in warning.hint
