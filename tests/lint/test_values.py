"""The rule reports the word None wherever a template may have made it from a missing value."""

from __future__ import annotations

import pytest


def managed(*lines: str) -> str:
    """Return a managed file with one argument per line."""
    return "f:\n  file.managed:\n    - replace: false\n" + "".join(f"    - {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        (managed("name: /f", "contents: {{ pillar.get('nope') }}"), 5, "contents"),
        (managed("name: /f", "user: {{ pillar.get('owner') }}", "mode: 644"), 5, "user"),
        (managed("name: /f", "contents: |\n        {{ pillar.get('nope') }}"), 5, "contents"),
        (managed("name: /srv/{{ pillar.get('nope') }}"), 4, "name"),
        (
            managed("name: /f", "template: jinja", "source: /f", "context:\n        port: {{ pillar.get('port') }}"),
            8,
            "port",
        ),
        ("{% set owner = salt['pillar.get']('a:b', none) %}\n" + managed("name: /f", "user: '{{ owner }}'"), 6, "user"),
        (
            (
                "{% set x = pillar.get('x') %}\nc:\n  cmd.run:\n    - name: /bin/make\n"
                "    - env:\n      - A: {{ x }}\n    - creates: /x\n"
            ),
            6,
            "A",
        ),
    ],
)
def test_none_of_a_template_is_told(text, line, key, warnings):
    """The warning has the line and the fix."""
    (warning,) = warnings(text)

    assert (warning.code, warning.location.line) == ("value-none", line)
    assert repr(key) in warning.message
    assert "default" in warning.hint


@pytest.mark.parametrize(
    "text",
    [
        managed("name: /f", "contents: None"),
        "{% if true %}\n" + managed("name: /f", "contents: None") + "{% endif %}\n",
        managed("name: /f", "contents: {{ 'None' }}"),
        managed("name: /f", "contents: {{ pillar.get('nope', 'Nonesuch') }}"),
        managed("name: /f", "contents: {{ pillar.get('nope', 'none of them') }}"),
        managed("name: /f", "contents: {{ pillar.get('text') }}"),
    ],
)
def test_none_that_is_meant_is_left_alone(text, warnings):
    """The word is written in the file itself, or is a part of a longer text."""
    assert warnings(text, pillar={"text": "There was None but him"}) == []
