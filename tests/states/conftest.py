"""Small kinds for tests, and `compile_tree`, which compiles a mapping of file names to texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from pydantic import BeforeValidator

from holdfast.resources.contract import Resource
from holdfast.resources.fields import AbsPath, Mode, field
from holdfast.resources.traits import Refreshable
from holdfast.states.compile.compiler import Compiler
from holdfast.states.data import Compilation, CompilerInputs
from holdfast.states.errors import CompileError


class Lamp(Resource, kind="lamp.lit"):
    """A kind that takes any values, without a refresh action."""

    color: Any = None
    size: Any = None
    tags: Any = None

    async def check_apply(self, ctx, apply):
        """Return that nothing is to be done."""
        return True


class DarkLamp(Lamp, kind="lamp.dark"):
    """Another function of the same family."""


class OtherLamp(Lamp, kind="lamps.lit"):
    """A family whose name starts with the name of another one."""


class Bell(Refreshable, Lamp, kind="bell.rung"):
    """A kind that takes any values, with a refresh action."""

    async def refresh(self, ctx, apply):
        """Return that nothing is to be done."""
        return True


class MuteBell(Bell, kind="bell.mute"):
    """Another function of the same family."""


class Crate(Resource, kind="crate.packed"):
    """A kind with arguments of strict types, which manages its path."""

    ignored: ClassVar = {"allow_symlink": "symbolic links are always kept"}

    name: AbsPath
    mode: Mode | None = None
    user: str = field(pattern=r"[a-z]+")
    depth: int | None = field(None, ge=0)
    labels: dict[str, str] = field(default_factory=dict)
    password: str | None = field(None, secret=True, min_length=8)
    timeout: int | None = None
    weight: Annotated[int | None, BeforeValidator(lambda value: {1: 1}[value])] = None

    async def check_apply(self, ctx, apply):
        """Return that nothing is to be done."""
        return True

    def uids(self):
        """Return the path."""
        return (("path", self.name),)


HOST = {"os": "Debian", "id": "web1", "os_family": "Debian", "ipv4": ["127.0.0.1", "10.0.0.7"]}
"""Grains of the host that trees are compiled for."""


def write(root: Path, files: Mapping[str, str]) -> None:
    """Write files below a directory that only their owner can write."""
    root.mkdir(exist_ok=True)
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
    for directory in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)


def request(root: Path, *sls: str, **more: Any) -> CompilerInputs:
    """Return a request for the host of these tests."""
    values = {"grains": HOST, "pillar": {"k": "v"}, "minion_id": "web1", "trusted_uids": frozenset({os.getuid()})}
    return CompilerInputs(root, sls, **(values | more))


@pytest.fixture
def compile_tree(tmp_path: Path) -> Callable[..., Compilation]:
    """Compile a mapping of file names to texts, or one text as `site.sls`, with a new or the given compiler."""

    def run(files: Mapping[str, str] | str, *sls: str, compiler: Compiler | None = None, **more: Any) -> Compilation:
        write(tmp_path / "states", {"site.sls": files} if isinstance(files, str) else files)
        return (compiler or Compiler()).compile(request(tmp_path / "states", *sls, **more))

    return run


@pytest.fixture
def problems(compile_tree) -> Callable[..., list[Any]]:
    """Return the problems of a tree."""

    def run(files: Mapping[str, str] | str, *sls: str, **more: Any) -> list[Any]:
        with pytest.raises(CompileError) as caught:
            compile_tree(files, *sls, **more)
        return list(caught.value.problems)

    return run
