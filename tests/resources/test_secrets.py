"""Secrets of the pillar are redacted wherever they are shown, and nothing else is redacted."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from effort import effort
from holdfast.resources import registry
from holdfast.resources.errors import Permanent
from holdfast.resources.kinds._commands import text_of
from holdfast.resources.kinds._source_hash import declared_digest
from holdfast.resources.kinds.file.content import decoded
from holdfast.resources.secrets import MASK, Redactor
from holdfast.resources.testing import FakeContext

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----\n"
PRIVATE_URL = "https://x.example.org/a?token=hush"
PILLAR: dict[str, Any] = {
    "app": {
        "db_password": "correct-horse",
        "port": 8080,
        "api-key": "correct-horse-battery",
        "tokens_left": "plenty of them",
    },
    "users": [{"name": "alice", "passwd": "opensesame"}],
    "tls": {"private_key": KEY},
    "token": ["first-token", 123456789],
    "secret": {"name": "not a secret itself"},
    "pin": {"password": "1234"},
    "password": True,
}


@pytest.mark.parametrize(
    ("told", "redacted"),
    [
        ("+secret = correct-horse\n", f"+secret = {MASK}\n"),
        ("correct-horse-battery", MASK),
        ("alice:opensesame@host:8080", f"alice:{MASK}@host:8080"),
        ("+MIIEvQIBADANBg\n", f"+{MASK}\n"),
        ({"stdout": "123456789", "first-token": ["first-token", 3, None]}, {"stdout": MASK, MASK: [MASK, 3, None]}),
        (("plenty of them", True), ("plenty of them", True)),
        ("not a secret itself", "not a secret itself"),
        ("port 1234", "port 1234"),
    ],
)
def test_secrets_are_redacted_wherever_they_stand(told: Any, redacted: Any) -> None:
    """Secrets are redacted in diffs, in output of commands, and in names; the longest first.

    A secret that is too short to differ from ordinary words stays.
    """
    assert Redactor(PILLAR)(told) == redacted


@pytest.mark.parametrize("data", [None, {}, {"password": ""}, {"password": None}, {"port": 123456}])
def test_without_secrets_nothing_is_covered(data: Any) -> None:
    """The same object is returned."""
    told = {"diff": "123456"}
    assert Redactor(data)(told) is told


FORMS: dict[str, Any] = {
    "secrets": {"deep": {"pin": "hunter2-xyz/z"}, "list": ["listed-secret"]},
    "passwords": {"alice": "sesame-of-alice"},
    "api_keys": ["key-number-one"],
    "credentials": {"username": "administrator", "password": "opensesame"},
    "url": "postgres://app:pw-of-url@db/app",
    "a_secrets_name": "shown as it is",
}


@pytest.mark.parametrize(
    "told",
    [
        "hunter2-xyz/z",
        "listed-secret",
        "sesame-of-alice",
        "key-number-one",
        "opensesame",
        "the pw-of-url alone",
        "https://x/?p=hunter2-xyz%2Fz",
        *(
            base64.b64encode(f"{before}hunter2-xyz/z{after}".encode()).decode()
            for before in ("", "u", "u:", "us:")
            for after in ("", "x", ":x")
        ),
        base64.urlsafe_b64encode(b"hunter2-xyz/z").decode(),
        "https://any:one-that-nobody-knew@host/",
        "https://ghp_0123456789abcdefghij@host/one.tar.gz",
        "mysql://u:with@sign@host",
        "app:of-go@tcp(db:3306)/x",
        "Server=db;Uid=app;Pwd=of-odbc;",
        "host=db password='of libpq' user=app",
        "PGPASSWORD=of-shell psql",
    ],
)
def test_secrets_are_covered_in_each_form(told: str) -> None:
    """The forms are plural names, values below them, URLs, connection strings, and base64 at each of its three offsets.

    They are redacted in text and in nested data.
    """
    redacted = Redactor(FORMS)(told)

    assert MASK in redacted
    assert not any(
        part in redacted
        for part in (
            "hunter2",
            "aHVudGVy",
            "h1bnRlcj",
            "odW50ZXIy",
            "sesame",
            "number",
            "of-",
            "of libpq",
            "nobody",
            "with",
            "listed",
        )
    )
    assert Redactor(FORMS)({"a": [{f"/{told}": told}]}) == {"a": [{f"/{redacted}": redacted}]}


def test_a_password_that_is_the_name_of_a_field_renames_no_field() -> None:
    """Programs that read JSON depend on the names of fields."""
    assert Redactor({"password": "comment"})({"comment": "a comment", "/comment": 1}) == {
        "comment": f"a {MASK}",
        f"/{MASK}": 1,
    }


@pytest.mark.parametrize(
    "told",
    [
        "administrator",
        "shown as it is",
        "a=b",
        "mail@host: x",
        "https://host/a@b",
        "ssh://somebody@host/repository",
        "https://host:80/",
        "mail me@tcp",
        "passwords: 5",
    ],
)
def test_what_is_no_secret_is_shown(told: str) -> None:
    """User names, addresses and ports are shown."""
    assert Redactor(FORMS)(told) == told


def test_data_are_shown_without_what_is_secret() -> None:
    """Values are masked by their key, and wherever else they appear, numbers included. Mappings keep their shape."""
    data = {
        "db": {"password": 12345, "port": 1},
        "secrets": {"a": {"b": "x"}},
        "x": ["opensesame"],
        "token": None,
        "auth_keys": {"c": True},
    }

    assert Redactor(FORMS).masked(data) == {
        "db": {"password": MASK, "port": 1},
        "secrets": {"a": {"b": MASK}},
        "x": [MASK],
        "token": None,
        "auth_keys": {"c": True},
    }


@given(st.text(min_size=6), st.text(), st.text())
def test_what_is_written_as_json_or_by_python_concerns_the_redactor(secret: str, before: str, after: str) -> None:
    """The quick check of the whole never misses a secret in one of its parts."""
    redactor, data = Redactor({"secret": secret}), {"a": [before + secret + after]}

    if redactor(data["a"][0]) != data["a"][0]:
        assert redactor.concerns(repr(data))
        assert redactor.concerns(json.dumps(data))


PARTS = [
    "password",
    "PWD",
    "=",
    " ",
    "\n",
    "\u2003",
    "\x85",
    "://",
    "u:",
    "@",
    "tcp(",
    "é",
    '"',
    "'",
    "\\",
    "x",
    "a",
    "/",
]


@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
def test_what_looks_like_a_connection_concerns_the_redactor(text: str) -> None:
    """The quick check also finds passwords that are not in the pillar, with any white space and quotes."""
    redactor, data = Redactor(), [text]

    if redactor(text) != text:
        assert redactor.concerns(repr(data))
        assert redactor.concerns(json.dumps(data))


def test_the_name_of_a_file_is_no_connection() -> None:
    """Rows that contain /etc/passwd need no redaction for that reason."""
    assert not Redactor().concerns('{"id": "/etc/passwd", "name": "salt://a/b", "comment": "a=b, from admin@host"}')


def test_many_secrets_cost_little_more_than_one() -> None:
    """Most words of many rows are equal, and are compared only once."""
    rows = json.dumps(
        [
            {"identity": f"file.managed[/etc/app/{n}.conf]", "comment": "is as declared", "sls": "app"}
            for n in range(2000)
        ]
    )
    few, many = (Redactor({f"s{n}": {"password": f"{n:016x}"} for n in range(count)}) for count in (1, 300))

    assert effort(lambda: many.concerns(rows), 5, than=lambda: few.concerns(rows)) < 5


@pytest.mark.parametrize(
    "part", ["a:", "://a:", "password='", 'password="', "a.", "://", ":@", "pwd=", "aHVu", "@tcp(", "a:a@"]
)
def test_no_text_of_a_user_takes_long_to_redact(part: str) -> None:
    """The time is proportional to the length of the text, whatever it contains."""
    text = part * (200_000 // len(part)) + " x:y@tcp( =://"
    began = time.process_time()
    Redactor(FORMS)(text)

    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("file.managed", {"source": PRIVATE_URL}),
        ("archive.extracted", {"source": PRIVATE_URL}),
        ("cron.file", {}),
        (
            "pkgrepo.managed",
            {"key_url": PRIVATE_URL.replace("https", "http"), "allow_insecure_key": False},
        ),
    ],
)
def test_an_error_of_arguments_does_not_show_the_query_of_a_url(kind, arguments):
    """The query may contain a token that is not in the pillar."""
    cls = registry.find(kind)
    assert cls is not None
    name = PRIVATE_URL if kind == "cron.file" else "deb https://x.example.org x y" if "key_url" in arguments else "/x"
    with pytest.raises(ValidationError) as refused:
        cls.declare(name, **arguments)
    assert [error["msg"] for error in refused.value.errors() if "x.example.org" in error["msg"]]
    assert not [error["msg"] for error in refused.value.errors() if "hush" in error["msg"]]


async def test_an_error_of_a_source_does_not_show_the_query_of_its_url(tmp_path):
    """The errors are for content that is not text, and for a hash that is missing in a file of hashes."""
    for broken in (decoded, text_of):
        with pytest.raises(Permanent, match=r"https://x\.example\.org/a: it is not UTF-8"):
            broken(b"\xff", PRIVATE_URL)
    ctx = FakeContext(tmp_path, sources={PRIVATE_URL: "no hash"})
    with pytest.raises(Permanent, match=r"a has no hash for it$"):
        await declared_digest(ctx, PRIVATE_URL, "x")
