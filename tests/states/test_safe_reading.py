"""Files of an unprivileged user are not trusted as state files, and are not read into files that others may read."""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.resources import paths, registry
from holdfast.resources.paths.trust import ACL
from holdfast.states.errors import CompileError
from holdfast.states.source import hostfiles
from holdfast.states.source.files import Tree
from holdfast.states.template.jinja import render_text

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")

USER = 12345
TRUSTED = frozenset({0})


@pytest.fixture(autouse=True)
def _forgetful() -> Iterator[None]:
    """Inode numbers come again in temporary directories."""
    paths.forget()
    yield
    paths.forget()


@pytest.fixture
def top() -> Iterator[Path]:
    """A directory of root's, which all may pass, and all above it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def home(top: Path) -> Path:
    """The directory of a user."""
    return given(directory(top / "home"))


@pytest.fixture
def secret(top: Path) -> Path:
    """A file that only root may read."""
    return file(top / "secret", "root's password\n", 0o600)


def directory(path: Path) -> Path:
    """A directory of root's."""
    path.mkdir(mode=0o755)
    return path


def file(path: Path, text: str, mode: int = 0o644) -> Path:
    """A file of root's."""
    path.write_text(text)
    path.chmod(mode)
    return path


def given(path: Path) -> Path:
    """The same path, which is now the user's."""
    os.chown(path, USER, USER, follow_symlinks=False)
    return path


def link(path: Path, target: Path, *, of_user: bool = True) -> Path:
    """A link of the user's."""
    path.symlink_to(target)
    return given(path) if of_user else path


def refused(root: Path, name: str = "web.sls") -> tuple[str, str, str]:
    """Code, file and message of the problem that a file is not read for."""
    with pytest.raises(CompileError) as caught:
        Tree(root, TRUSTED).read(root / name)
    (problem,) = caught.value.problems
    return problem.code, problem.location.file, problem.message


def render(expression: str) -> str:
    """What a call of a template gives."""
    return render_text(f"{{{{ {expression} }}}}", name="template", variables={}, grains={}, pillar={})


def failure(expression: str) -> str:
    """The message with which a call fails, at its line."""
    with pytest.raises(CompileError) as caught:
        render(expression)
    (problem,) = caught.value.problems
    assert (problem.code, problem.location.line) == ("template-error", 1)
    return problem.message


# -- states ------------------------------------------------------------------------------------------------------------


def test_states_below_a_directory_of_a_user_are_refused(home: Path) -> None:
    """He can rename them and put his own in their place, however well they are protected themselves."""
    root = directory(home / "states")
    file(root / "web.sls", "")

    assert refused(root)[:2] == ("source-owner", str(home))


def test_states_below_a_directory_with_an_acl_are_refused(top: Path) -> None:
    """The ACL gives a user write access, which is not visible in the mode bits for others."""
    open_to = directory(top / "open")
    root = directory(open_to / "states")
    file(root / "web.sls", "")
    entries = [(0x01, 7, -1), (0x02, 7, USER), (0x04, 5, -1), (0x10, 7, -1), (0x20, 5, -1)]
    os.setxattr(open_to, ACL, struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries))

    code, place, message = refused(root)
    assert (code, place) == ("source-writable", str(open_to))
    assert str(USER) in message


def test_file_with_an_acl_is_refused(top: Path) -> None:
    """A user whom the ACL lets write writes states."""
    root = directory(top / "states")
    path = file(root / "web.sls", "")
    entries = [(0x01, 6, -1), (0x02, 6, USER), (0x04, 4, -1), (0x10, 6, -1), (0x20, 4, -1)]
    os.setxattr(path, ACL, struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries))

    assert refused(root)[:2] == ("source-writable", str(path))


def test_link_to_a_file_of_roots_in_a_users_directory_is_refused(top: Path, home: Path) -> None:
    """The file is root's and the link too, but the user can exchange the file."""
    root = directory(top / "states")
    link(root / "web.sls", file(home / "web.sls", ""), of_user=False)

    assert refused(root)[:2] == ("source-owner", str(home))


def test_links_of_a_user_are_refused(top: Path, home: Path, secret: Path) -> None:
    """At the end of the way, and on it."""
    root = directory(top / "states")
    link(root / "web.sls", secret)
    link(root / "more", top)

    assert refused(root)[0] == "source-owner"
    assert "belongs to user 12345" in refused(root)[2]
    assert refused(root, "more/secret")[0] == "source-owner"


def test_link_of_roots_is_followed(top: Path) -> None:
    """As ever."""
    root, elsewhere = directory(top / "states"), directory(top / "elsewhere")
    link(root / "web.sls", file(elsewhere / "x", "a: b\n"), of_user=False)

    assert Tree(root, TRUSTED).read(root / "web.sls").text == "a: b\n"


def test_directory_that_becomes_a_link_while_the_tree_is_walked_is_not_gone_into(
    top: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look that finds a directory and its opening."""
    root = directory(top / "states")
    below, outside = given(directory(root / "below")), directory(top / "outside")
    file(outside / "found.sls", "")
    enter = paths.Place.enter

    def exchanged(place: paths.Place) -> paths.SafeDirectory:
        if place.name == "below" and not below.is_symlink():
            below.rmdir()
            link(below, outside)
        return enter(place)

    monkeypatch.setattr(paths.Place, "enter", exchanged)
    with pytest.raises(CompileError, match="cannot read the directory"):
        Tree(root, TRUSTED).names()


def test_kind_that_is_a_link_into_a_users_directory_is_not_imported(top: Path, home: Path) -> None:
    """Root's file there is the user's to exchange."""
    kinds = directory(top / "resources")
    link(kinds / "mine.py", file(home / "mine.py", "raise SystemExit('imported')\n"), of_user=False)

    with pytest.raises(CompileError) as caught:
        ConfigurationCompiler().load_kinds(kinds)
    assert [problem.code for problem in caught.value.problems] == ["source-owner"]


def test_kind_is_run_as_it_was_read(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the file a moment later was not checked."""
    kinds = directory(top / "resources")
    path = file(kinds / "late.py", "import os\nos.environ['HOLDFAST_KIND'] = 'checked'\n")
    load = registry.load_file

    def late(*given: object) -> None:
        path.write_text("import os\nos.environ['HOLDFAST_KIND'] = 'exchanged'\n")
        load(*given)  # type: ignore[arg-type] # passed on as they are

    monkeypatch.setenv("HOLDFAST_KIND", "")
    monkeypatch.setattr(registry, "load_file", late)
    ConfigurationCompiler().load_kinds(kinds)

    assert os.environ["HOLDFAST_KIND"] == "checked"


# -- templates that look at users' files ------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "salt['file.read']('{}')",
        "salt['file.get_hash']('{}')",
        "salt['file.grep']('{}', 'root')",
        "'{}' | file_hashsum",
        "salt['mount.fstab']('{}')",
    ],
)
def test_link_of_a_user_is_not_read_through(home: Path, secret: Path, call: str) -> None:
    """The sentence names link, owner and where it leads."""
    path = link(home / "x", secret)

    said = failure(call.format(path))
    assert f"cannot follow {path}" in said
    assert str(secret) in said
    assert "user 12345" in said
    assert "Unsafe" not in said


@pytest.mark.parametrize(
    "call", ["salt['file.read']('{}')", "salt['file.grep']('{}', 'root')", "salt['file.contains']('{}', 'r')"]
)
def test_file_that_a_user_moved_there_and_could_not_read_is_refused(home: Path, secret: Path, call: str) -> None:
    """No call reads a hard link to root's file."""
    os.link(secret, home / "x")

    assert "is not for others to read" in failure(call.format(home / "x"))


def test_directory_that_is_a_users_link_is_not_passed(home: Path, secret: Path) -> None:
    """The parent is as good as the file."""
    link(home / "d", secret.parent)

    assert "user 12345" in failure(f"salt['file.read']('{home}/d/secret')")
    assert render(f"salt['file.file_exists']('{home}/d/secret')") == "False"


def test_unsafe_link_is_a_link_to_whoever_asks(home: Path, secret: Path) -> None:
    """It is not followed, but it is there."""
    path = link(home / "x", secret)
    tree = link(home / "d", secret.parent)

    assert render(f"salt['file.file_exists']('{path}')") == "False"
    assert render(f"salt['file.directory_exists']('{tree}')") == "False"
    assert render(f"salt['file.access']('{path}', 'f')") == "False"
    assert render(f"salt['file.is_link']('{path}')") == "True"
    assert render(f"salt['file.stats']('{path}').type") == "link"
    assert render(f"salt['file.stats']('{path}').target") == str(path)
    assert render(f"salt['file.get_user']('{path}')") == str(USER)
    assert render(f"salt['file.contains']('{path}', 'root')") == "False"
    assert render(f"'{path}' | is_text_file") == "False"
    assert render(f"'{path}' | is_empty") == "False"
    assert render(f"salt['cmd.which']('{link(home / 'program', '/bin/sh')}')") == "None"
    assert render("salt['cmd.which']('/bin/sh')") == "/bin/sh"


def test_find_and_globs_do_not_go_through_unsafe_links(home: Path, secret: Path) -> None:
    """They are found, and nothing behind them."""
    link(home / "d", secret.parent)

    assert render(f"salt['file.find']('{home}')") == f"['{home}', '{home}/d']"
    assert render(f"salt['file.find']('{home}/d')") == f"['{home}/d']"
    assert render(f"salt['file.find']('{home}/d', type='f')") == "[]"
    assert render(f"salt['file.find']('{home}/*/secret')") == "[]"
    assert render(f"salt['file.path_exists_glob']('{home}/*/secret')") == "False"
    assert render(f"'{home}/d' | list_files") == f"['{home}/d']"


def test_users_own_links_are_followed(home: Path) -> None:
    """All behind them is his."""
    given(file(home / "own", "his\n"))
    path = link(home / "x", home / "own")

    assert render(f"salt['file.read']('{path}')") == "his\n"
    assert render(f"salt['file.file_exists']('{path}')") == "True"


def test_fifo_is_not_waited_for(home: Path) -> None:
    """It is not a regular file."""
    os.mkfifo(home / "x")

    assert "a fifo" in failure(f"salt['file.read']('{home}/x')")
    assert "a fifo" in failure(f"salt['file.get_hash']('{home}/x')")


def test_huge_file_is_not_read(home: Path) -> None:
    """A sparse one costs its maker nothing."""
    given(file(home / "x", ""))
    os.truncate(home / "x", 1 << 40)

    assert "more than 32 MiB" in failure(f"salt['file.read']('{home}/x')")
    assert "more than 256 MiB" in failure(f"'{home}/x' | file_hashsum")


def test_what_a_user_piles_up_is_not_looked_through(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither too many entries nor too deep directories; in root's own there may be any number."""
    monkeypatch.setattr(hostfiles, "ENTRIES", 5)
    monkeypatch.setattr(hostfiles, "DEEP", 3)
    for name in "abcdef":
        file(home.parent / name, "")
    assert len(list(hostfiles.below(str(home.parent)))) == 7

    for name in "abcdef":
        file(home / name, "")
    assert "more than 5 entries" in failure(f"salt['file.find']('{home}')")

    deep = given(directory(home.parent / "deep"))
    (deep / "1/2/3").mkdir(parents=True)
    file(deep / "1/2/3/x", "")
    assert "more than 3 directories deep" in failure(f"salt['file.find']('{deep}')")


def test_grep_reads_the_file_that_was_checked(home: Path, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the path leads to when the program starts."""
    given(file(home / "x", "his\n"))
    run = subprocess.run

    def exchanged(*args: Any, **options: Any) -> Any:
        (home / "x").unlink()
        link(home / "x", secret)
        return run(*args, **options)

    monkeypatch.setattr(subprocess, "run", exchanged)

    assert render(f"salt['file.grep']('{home}/x', '').stdout") == "his"
