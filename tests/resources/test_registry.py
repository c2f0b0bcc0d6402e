"""Where kinds come from: built-in modules, files of the operator, and installed distributions."""

from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Resource
from holdfast.resources import kinds, registry
from holdfast.resources.builtin import KIND_MODULES
from holdfast.resources.contract import DECLARED
from holdfast.resources.errors import DeclarationError

SRC = Path(__file__).parents[2] / "src"


def test_a_kind_of_an_installed_distribution_is_found(tmp_path: Path) -> None:
    """Its entry point in the group `holdfast.kinds` has the name of the family, and is loaded on request only."""
    info = tmp_path / "zdist-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zdist\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[holdfast.kinds]\nzdist = zdist_kinds\n")
    (tmp_path / "zdist_kinds.py").write_text(
        "from holdfast import Resource\n\n\nclass Thing(Resource, kind='zdist.present'):\n    async def "
        "check_apply(self, ctx, apply):\n        return True\n"
    )
    code = (
        "from holdfast.resources import registry as r; "
        "print(r.has_family('zdist'), r.has_family('zdis'), r.has_family('file')); "
        "print(r.find('zdist.present').kind, r.find('zdist.absent'), 'zdist' in r.families())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{SRC}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split() == ["True", "False", "True", "zdist.present", "None", "True"]


def test_a_name_that_is_taken_is_refused() -> None:
    """The error names both modules."""

    class First(Resource, kind="ztaken.present"):
        async def check_apply(self, ctx, apply):
            return True

    with pytest.raises(DeclarationError, match=r"cannot declare ztaken.present in .*has declared it already"):

        class Second(Resource, kind="ztaken.present"):
            async def check_apply(self, ctx, apply):
                return True

    assert registry.find("ztaken.present") is First


def test_a_kind_that_does_nothing_is_refused() -> None:
    """It must override check_apply, or probe and apply."""
    with pytest.raises(DeclarationError, match="neither probe and apply nor check_apply"):

        class Empty(Resource, kind="zempty.present"):
            pass


@pytest.mark.parametrize("kind", ["nodot", "a.", ".b", "a-.c"])
def test_a_malformed_name_is_refused(kind: str) -> None:
    """A name must have the form `family.function`."""
    with pytest.raises(DeclarationError, match=r"family\.function"):

        class Bad(Resource, kind=kind):
            async def check_apply(self, ctx, apply):
                return True


def test_a_kind_that_fails_to_load_fails_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second error is not "no such kind"."""
    monkeypatch.delitem(DECLARED, "user.present", raising=False)
    monkeypatch.setattr(registry.importlib, "import_module", lambda name: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            registry.find("user.present")


def test_the_names_of_built_in_kinds_are_all_known() -> None:
    """The table has exactly the names that the modules declare, so hints and lists need no import."""
    for module in pkgutil.walk_packages(kinds.__path__, f"{kinds.__name__}."):
        importlib.import_module(module.name)

    assert {
        cls.kind: cls.__module__
        for cls in subclasses(Resource)
        if cls.kind and cls.__module__.startswith(kinds.__name__)
    } == KIND_MODULES


def test_a_kind_is_loaded_alone() -> None:
    """Listing names, or finding one kind of a family, does not load the others."""
    code = (
        "import sys; from holdfast.resources import registry as r; known = r.names(), r.families(), "
        "r.functions('file');"
        "print([name for name in sys.modules if '.kinds.' in name]);"
        "r.find('file.managed'); print('holdfast.resources.kinds.file.recurse' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.split("\n")[:2] == ["[]", "False"]


def test_an_own_kind_cannot_take_the_name_of_a_built_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is refused even if the built-in kind is not loaded yet."""
    monkeypatch.delitem(DECLARED, "file.managed", raising=False)
    with pytest.raises(
        DeclarationError,
        match=r"cannot declare file.managed in .*: holdfast.resources.kinds.file.managed has declared it already",
    ):

        class Mine(Resource, kind="file.managed"):
            async def check_apply(self, ctx, apply):
                return True


def subclasses(cls: type) -> Iterator[type]:
    """Yield all classes below one."""
    for below in cls.__subclasses__():
        yield below
        yield from subclasses(below)


def test_every_kind_there_is_says_what_it_is() -> None:
    """Each kind has a docstring for `holdfast doc`."""
    kinds = [cls for cls in registry.kinds() if cls.__module__.startswith("holdfast.")]

    assert len(kinds) > 30
    assert [cls.kind for cls in kinds if not cls.__doc__] == []
