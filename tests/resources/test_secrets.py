"""What the pillar keeps secret is covered in all that is told, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.resources.fields import MASK
from holdfast.resources.secrets import Cover

KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----\n"
PILLAR: dict[str, Any] = {
    "app": {"db_password": "correct-horse", "port": 8080, "api-key": "correct-horse-battery", "tokens_left": "plenty of them"},
    "users": [{"name": "alice", "passwd": "opensesame"}],
    "tls": {"private_key": KEY},
    "token": ["first-token", 123456789],
    "secret": {"name": "not a secret itself"},
    "pin": {"password": "1234"},
    "password": True,
}


@pytest.mark.parametrize(
    ("told", "covered"),
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
def test_secrets_are_covered_wherever_they_stand(told: Any, covered: Any) -> None:
    """In diffs, in what commands print, in names; the longest first; what is too short to be told from other words is left."""
    assert Cover(PILLAR)(told) == covered


@pytest.mark.parametrize("data", [None, {}, {"password": ""}, {"password": None}, {"port": 123456}])
def test_without_secrets_nothing_is_covered(data: Any) -> None:
    """The very same object comes back."""
    told = {"diff": "123456"}
    assert Cover(data)(told) is told
