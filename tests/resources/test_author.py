"""How the process that changed something is shown to people and to programs."""

from __future__ import annotations

from holdfast.resources.author import SHOWN, Author
from holdfast.resources.secrets import MASK, Redactor

DEPLOY = Author(4242, "vim", "vim /etc/motd", 0, "root", "deploy", "session-3.scope")


def test_an_actor_is_told_by_its_command_line_its_pid_and_its_login_user() -> None:
    """The login user is shown, not the user that sudo has switched to."""
    assert str(DEPLOY) == "vim /etc/motd, pid 4242, login user deploy"


def test_without_a_login_the_user_and_the_unit_are_told() -> None:
    """Such a process was started by a service."""
    assert str(DEPLOY._replace(login="")) == "vim /etc/motd, pid 4242, user root, session-3.scope"
    assert str(DEPLOY._replace(login="", unit="", user="")) == "vim /etc/motd, pid 4242"


def test_a_process_whose_command_line_is_not_known_is_told_by_its_name() -> None:
    """The process belongs to an untrusted user, or has just ended."""
    assert str(DEPLOY._replace(command="")) == "vim, pid 4242, login user deploy"


def test_what_is_not_known_is_said() -> None:
    """A process that has ended has only a number; a process of another namespace does not even have that."""
    assert str(Author(7)) == "unknown: pid 7 had ended"
    assert str(Author(0)) == "unknown: a process outside of this container"


def test_a_command_line_forges_neither_words_nor_lines() -> None:
    """The process chooses its command line, so a text with a comma is quoted, and control characters are escaped."""
    assert str(Author(7, "x", "vim, pid 1, login user root")) == '"vim, pid 1, login user root", pid 7'
    assert str(Author(7, "x", "a\n\x1b[31mb")) == "a\\x0a\\x1b[31mb, pid 7"


def test_a_long_command_line_is_cut() -> None:
    """The fields for programs are cut, too."""
    author = Author(7, "x", "y" * 5000)
    assert str(author) == f"{'y' * SHOWN}..., pid 7"
    assert author.fields()["command"] == f"{'y' * SHOWN}..."


def test_secrets_are_masked_before_the_command_line_is_cut() -> None:
    """Otherwise, a part of a secret at the end of the text would not be recognised."""
    secret = "correct-horse-battery"
    author = Author(7, "x", "y" * (SHOWN - 5) + secret).masked(Redactor({"password": secret}))
    assert secret[:5] not in str(author)
    assert Author(7, secret, "mysql -p" + secret).masked(Redactor({"password": secret})).fields() == {
        "pid": 7,
        "name": MASK,
        "command": f"mysql -p{MASK}",
        "way": "host",
    }


def test_programs_get_what_is_known_by_field() -> None:
    """Unknown fields are left out."""
    assert DEPLOY.fields() == {
        "pid": 4242,
        "name": "vim",
        "command": "vim /etc/motd",
        "uid": 0,
        "user": "root",
        "login": "deploy",
        "unit": "session-3.scope",
        "way": "host",
    }
    assert Author(7).fields() == {"pid": 7, "way": "host"}


def test_an_author_is_made_of_its_fields_again() -> None:
    """Fields of a later version are left out."""
    assert [Author.of({**each.fields(), "later": 1}) for each in (DEPLOY, Author(7), Author(0))] == [
        DEPLOY,
        Author(7),
        Author(0),
    ]


def test_the_arguments_can_be_hidden() -> None:
    """A resource with `no_log` shows no content, which an argument may be."""
    assert str(DEPLOY.without_arguments()) == f"vim {MASK}, pid 4242, login user deploy"
    assert str(Author(7, "vim").without_arguments()) == "vim, pid 7"
