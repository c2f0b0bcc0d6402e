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
def _no_cached_trust() -> Iterator[None]:
    """Forget which files were checked: inode numbers are used again in temporary directories."""
    paths.forget()
    yield
    paths.forget()


@pytest.fixture
def top() -> Iterator[Path]:
    """Yield a directory of root that all users may search, like all above it."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def home(top: Path) -> Path:
    """Return a directory of another user."""
    return given(directory(top / "home"))


@pytest.fixture
def secret(top: Path) -> Path:
    """Return a file that only root may read."""
    return file(top / "secret", "root's password\n", 0o600)


def directory(path: Path) -> Path:
    """Make a directory of root."""
    path.mkdir(mode=0o755)
    return path


def file(path: Path, text: str, mode: int = 0o644) -> Path:
    """Make a file of root."""
    path.write_text(text)
    path.chmod(mode)
    return path


def given(path: Path) -> Path:
    """Give a path to the user, and return it."""
    os.chown(path, USER, USER, follow_symlinks=False)
    return path


def link(path: Path, target: Path, *, of_user: bool = True) -> Path:
    """Make a link of the user."""
    path.symlink_to(target)
    return given(path) if of_user else path


def refused(root: Path, name: str = "web.sls") -> tuple[str, str, str]:
    """Return the code, file and message of the problem of a refused file."""
    with pytest.raises(CompileError) as caught:
        Tree(root, TRUSTED).read(root / name)
    (problem,) = caught.value.problems
    return problem.code, problem.location.file, problem.message


def render(expression: str) -> str:
    """Return the value of an expression."""
    return render_text(f"{{{{ {expression} }}}}", name="template", variables={}, grains={}, pillar={})


def failure(expression: str) -> str:
    """Return the message of a failing call, which must be at its line."""
    with pytest.raises(CompileError) as caught:
        render(expression)
    (problem,) = caught.value.problems
    assert (problem.code, problem.location.line) == ("template-error", 1)
    return problem.message


# -- states ------------------------------------------------------------------------------------------------------------


def test_states_below_a_directory_of_a_user_are_refused(home: Path) -> None:
    """The user could rename them and put others in their place, whatever their own permissions are."""
    root = directory(home / "states")
    file(root / "web.sls", "")

    assert refused(root)[:2] == ("source-owner", str(home))
    assert refused(root)[2].startswith("cannot use this directory: it belongs to uid 12345")


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


def test_a_file_with_an_acl_is_refused(top: Path) -> None:
    """The ACL lets another user write states."""
    root = directory(top / "states")
    path = file(root / "web.sls", "")
    entries = [(0x01, 6, -1), (0x02, 6, USER), (0x04, 4, -1), (0x10, 6, -1), (0x20, 4, -1)]
    os.setxattr(path, ACL, struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries))

    assert refused(root)[:2] == ("source-writable", str(path))


def test_a_link_to_a_file_in_the_directory_of_a_user_is_refused(top: Path, home: Path) -> None:
    """File and link belong to root, but the user can replace the file."""
    root = directory(top / "states")
    link(root / "web.sls", file(home / "web.sls", ""), of_user=False)

    assert refused(root)[:2] == ("source-owner", str(home))


def test_links_of_a_user_are_refused(top: Path, home: Path, secret: Path) -> None:
    """A link is the file itself or a directory above it."""
    root = directory(top / "states")
    link(root / "web.sls", secret)
    link(root / "more", top)

    assert refused(root)[0] == "source-owner"
    assert "belongs to user 12345" in refused(root)[2]
    assert refused(root, "more/secret")[0] == "source-owner"


def test_a_link_of_root_is_followed(top: Path) -> None:
    """The link leads to another directory of root."""
    root, elsewhere = directory(top / "states"), directory(top / "elsewhere")
    link(root / "web.sls", file(elsewhere / "x", "a: b\n"), of_user=False)

    assert Tree(root, TRUSTED).read(root / "web.sls").text == "a: b\n"


def test_a_directory_that_becomes_a_link_during_a_walk_is_not_entered(
    top: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replacement happens between the check and the opening of the directory."""
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


def test_a_kind_behind_a_link_into_the_directory_of_a_user_is_not_imported(top: Path, home: Path) -> None:
    """The user can replace the file, even if it belongs to root."""
    kinds = directory(top / "resources")
    link(kinds / "mine.py", file(home / "mine.py", "raise SystemExit('imported')\n"), of_user=False)

    with pytest.raises(CompileError) as caught:
        ConfigurationCompiler().load_kinds(kinds)
    assert [problem.code for problem in caught.value.problems] == ["source-owner"]


def test_a_kind_is_executed_as_it_was_checked(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later change of the file was not checked."""
    kinds = directory(top / "resources")
    path = file(kinds / "late.py", "import os\nos.environ['HOLDFAST_KIND'] = 'checked'\n")
    load = registry.load_file

    def late(*given: object) -> None:
        path.write_text("import os\nos.environ['HOLDFAST_KIND'] = 'exchanged'\n")
        load(*given)  # type: ignore[arg-type] # all arguments are passed on

    monkeypatch.setenv("HOLDFAST_KIND", "")
    monkeypatch.setattr(registry, "load_file", late)
    ConfigurationCompiler().load_kinds(kinds)

    assert os.environ["HOLDFAST_KIND"] == "checked"


# -- templates that read files of users -------------------------------------------------


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
def test_no_call_reads_through_a_link_of_a_user(home: Path, secret: Path, call: str) -> None:
    """The message names the link, its owner and its target."""
    path = link(home / "x", secret)

    said = failure(call.format(path))
    assert f"cannot follow {path}" in said
    assert str(secret) in said
    assert "user 12345" in said
    assert "Unsafe" not in said


@pytest.mark.parametrize(
    "call", ["salt['file.read']('{}')", "salt['file.grep']('{}', 'root')", "salt['file.contains']('{}', 'r')"]
)
def test_a_hard_link_to_a_file_that_the_user_cannot_read_is_refused(home: Path, secret: Path, call: str) -> None:
    """The user made a hard link to a file of root."""
    os.link(secret, home / "x")

    assert "is not for others to read" in failure(call.format(home / "x"))


def test_a_directory_that_is_a_link_of_a_user_is_not_entered(home: Path, secret: Path) -> None:
    """The parents of a file are checked like the file."""
    link(home / "d", secret.parent)

    assert "user 12345" in failure(f"salt['file.read']('{home}/d/secret')")
    assert render(f"salt['file.file_exists']('{home}/d/secret')") == "False"


def test_calls_that_do_not_follow_links_see_an_unsafe_link(home: Path, secret: Path) -> None:
    """The call finds the link, but does not follow it."""
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


def test_find_and_globs_do_not_follow_unsafe_links(home: Path, secret: Path) -> None:
    """The result contains the links, but no files behind them."""
    link(home / "d", secret.parent)

    assert render(f"salt['file.find']('{home}')") == f"['{home}', '{home}/d']"
    assert render(f"salt['file.find']('{home}/d')") == f"['{home}/d']"
    assert render(f"salt['file.find']('{home}/d', type='f')") == "[]"
    assert render(f"salt['file.find']('{home}/*/secret')") == "[]"
    assert render(f"salt['file.path_exists_glob']('{home}/*/secret')") == "False"
    assert render(f"'{home}/d' | list_files") == f"['{home}/d']"


def test_a_link_of_a_user_to_a_file_of_that_user_is_followed(home: Path) -> None:
    """All files behind the link belong to the user."""
    given(file(home / "own", "his\n"))
    path = link(home / "x", home / "own")

    assert render(f"salt['file.read']('{path}')") == "his\n"
    assert render(f"salt['file.file_exists']('{path}')") == "True"


def test_a_fifo_is_refused(home: Path) -> None:
    """Reading a fifo would block."""
    os.mkfifo(home / "x")

    assert "a fifo" in failure(f"salt['file.read']('{home}/x')")
    assert "a fifo" in failure(f"salt['file.get_hash']('{home}/x')")


def test_a_huge_file_is_refused(home: Path) -> None:
    """A sparse file costs its owner nothing."""
    given(file(home / "x", ""))
    os.truncate(home / "x", 1 << 40)

    assert "more than 32 MiB" in failure(f"salt['file.read']('{home}/x')")
    assert "more than 256 MiB" in failure(f"'{home}/x' | file_hashsum")


def test_the_search_of_a_directory_of_a_user_is_limited(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries and depth are limited. Directories of root may have any number of entries."""
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
    """The path may lead elsewhere when the program starts."""
    given(file(home / "x", "his\n"))
    run = subprocess.run

    def exchanged(*args: Any, **options: Any) -> Any:
        (home / "x").unlink()
        link(home / "x", secret)
        return run(*args, **options)

    monkeypatch.setattr(subprocess, "run", exchanged)

    assert render(f"salt['file.grep']('{home}/x', '').stdout") == "his"
