"""The rule finds secrets in state files, and never shows them."""

from __future__ import annotations

import pytest

AWS, GITHUB, GITLAB = "AKIA" + "Q" * 16, "ghp_" + "a" * 36, "glpat-" + "b" * 20
"""Tokens in pieces, so that scanners do not take this file for a leak."""
KEY = "-----BEGIN OPENSSH " + "PRIVATE KEY-----"


def env(line: str) -> str:
    """Return a command with one variable."""
    return f"x:\n  cmd.run:\n    - creates: /x\n    - env:\n      - {line}\n"


@pytest.mark.parametrize(
    ("text", "line", "secret"),
    [
        ("u:\n  user.present:\n    - password: $6$abc$def\n", 3, "$6$abc"),
        ("{% if true %}\nu:\n  user.present:\n    - password: >-\n        $6$abc\n{% endif %}\n", 4, "$6$abc"),
        (env("DB_PASSWORD: hunter2"), 5, "hunter2"),
        (env("API_KEY: hunter2"), 5, "hunter2"),
        (env("password: 'hunter2'"), 5, "hunter2"),
        (
            (
                "f:\n  file.managed:\n    - name: /f\n    - template: jinja\n    - source: /f\n"
                "    - context:\n        db: {token: hunter2}\n"
            ),
            7,
            "hunter2",
        ),
        ("{% set db_password = 'hunter2' %}\n", 1, "hunter2"),
        ("{% set db = {'secret': 'hunter2'} %}\n", 1, "hunter2"),
        ("{% if true %}\n" + env("password: hunter2") + "{% endif %}\n", 6, "hunter2"),
        (f"# {AWS}\n", 1, AWS),
        (f"f:\n  file.managed:\n    - name: /f\n    - contents: {GITHUB}\n", 4, GITHUB),
        (f"f:\n  file.managed:\n    - name: /f\n    - contents: |\n        a\n        {KEY}\n", 6, KEY),
        (f"f:\n  file.managed:\n    - name: /f\n    - contents: 'x {GITLAB}'\n", 4, GITLAB),
        ("f:\n  cmd.run:\n    - name: git clone https://me:hunter2@example.org/x\n    - creates: /x\n", 3, "hunter2"),
    ],
)
def test_secret_in_plain_text(text, line, secret, warnings):
    """The rule gives one warning at the line of the secret, without the secret."""
    (warning,) = warnings(text)

    assert (warning.code, warning.location.line) == ("secret-plain", line)
    assert secret not in str(warning)
    assert "pillar" in warning.hint


@pytest.mark.parametrize("kind", ["6", "5", "y", "2b", "argon2id"])
@pytest.mark.parametrize("text", ["u:\n  user.present:\n    - password: {}\n", "{{% set password = '{}' %}}\n"])
def test_hash_is_not_called_plain_text(text, kind, warnings):
    """A hash is no plain text; the warning concerns its location."""
    (warning,) = warnings(text.format(f"${kind}$salt$digest"))

    assert warning.message.startswith("a state file contains the hash of 'password'")
    assert "digest" not in str(warning)


@pytest.mark.parametrize(
    "text",
    [
        "u:\n  user.present:\n    - password: '{{ pillar.password }}'\n",
        "{% set password = pillar.password %}\nu:\n  user.present:\n    - password: {{ password }}\n",
        "u:\n  user.present:\n    - password: '!'\n",
        env("PASSWORD_FILE: /run/secrets/db"),
        env("DB_PASSWORD: $OTHER"),
        env("API_KEY: /etc/key"),
        env("KEY: public"),
        env("AUTHOR: somebody"),
        env("TOKEN: ''"),
        "{% set password = '' %}\n",
        "f:\n  file.managed:\n    - name: /etc/token\n    - contents_pillar: password\n",
        "f:\n  cmd.run:\n    - name: curl https://example.org:8080/x@y\n    - creates: /x\n",
        "f:\n  cmd.run:\n    - name: curl https://me:$PASSWORD@example.org/x\n    - creates: /x\n",
        "# AKIA" + "IOSFODNN7" + "EXAMPLE is the one in the manual\n",
    ],
)
def test_what_is_no_secret(text, warnings):
    """A value from the pillar, a placeholder, a path, and a name that only sounds like a secret cause no warning."""
    assert warnings(text) == []


def test_no_finding_shows_a_line_with_a_secret(look):
    """Warnings of other rules hide the line, too, even if the warning about the secret is silenced."""
    text = "f:\n  test.nop:\n    - context: {password: hunter2, if: {{ 1 if true else gone }}}\n"
    for ignore in ((), ("secret-plain",)):
        report = look("{% if true %}\n" + text + "{% endif %}\n" + env("password: hunter3"), ignore=ignore)

        assert "template-name" in {warning.code for warning in report.warnings}
        assert "hunter" not in "".join(map(str, report.warnings))
