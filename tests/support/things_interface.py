"""An interface of things that the tests call, with its provider and a kind."""

from __future__ import annotations

from pathlib import Path

from holdfast_process import Tree

THINGS = '''
import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.resources.contract import Resource
from holdfast.resources.interfaces.base import Interface, Options, looks, not_applicable, replaces, supported
from holdfast.resources.interfaces.provider import Provider
from holdfast.resources.interfaces.results import ChangeSet, Result, Secret

HOST = Path("@HOST@")


class Thing(Result):
    """A thing with secrets: its key, and whatever a tool adds."""

    key: Secret


class Things(Interface, name="zthings"):
    """Things of the tests."""

    async def look(self, names: Sequence[str]) -> dict[str, list[Thing]]:
        """Return things with all that is known of them."""
        return {}

    async def read(self, name: str) -> dict[str, str | None]:
        """Return the content of a thing."""
        return {}

    @replaces("put")
    async def write(self, name: str, value: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Write a thing, as soon as a file `go` exists."""
        return ChangeSet()

    async def block(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Write a thing in a thread, as soon as a file `go` exists."""
        return ChangeSet()

    async def hide(self, name: str, value: Secret, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Fail with the secret in the message."""
        return ChangeSet()

    async def lacking(self) -> int:
        """Return what no provider knows."""
        return 0

    @supported(kernel="Plan9")
    async def foreign(self) -> int:
        """Return what other platforms know."""
        return 0

    @not_applicable(kernel="Linux")
    async def idle(self, *, test: bool = False, options: Options = None) -> ChangeSet:
        """Do what is not needed here."""
        return ChangeSet()

    async def wrong(self) -> int:
        """Return a number."""
        return 0


class Tool(Provider):
    """Files as things."""

    implements = Things
    tool = "ztool"

    async def read(self, name: str) -> dict[str, str | None]:
        path = HOST / name
        return {name: path.read_text() if path.exists() else None}

    async def look(self, names: Sequence[str]):
        return {name: [{"key": "hunter22", "password": "hunter23", "colour": "red"}] for name in names}

    async def write(self, name: str, value: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        if not test:
            with (HOST / "began").open("a") as file:
                file.write(f"{name}\\n")
            while not (HOST / "go").exists():
                await asyncio.sleep(0.01)
            (HOST / name).write_text(value)
        return ChangeSet(changes={name: {"old": None, "new": value}})

    def block(self, name: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        with (HOST / "began").open("a") as file:
            file.write(f"{name}\\n")
        while not (HOST / "go").exists():
            time.sleep(0.01)
        (HOST / name).write_text("blocked")
        return ChangeSet(changes={name: {"old": None, "new": "blocked"}})

    async def hide(self, name: str, value: str, *, test: bool = False, options: Options = None) -> ChangeSet:
        raise RuntimeError(f"the tool said {value}, {options}")

    async def wrong(self) -> int:
        return "text"

    def leave(self) -> None:
        raise SystemExit(3)

    def endless(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        found["found"] = found
        return found

    def strange(self, name: "Unknown") -> None:
        """Have an annotation that does not exist."""

    @looks
    def own(self) -> str:
        """Return what only this tool has."""
        return "mine"

    @looks
    def told(self) -> dict[str, str]:
        """Return a mapping of which no interface says what it means."""
        return {"password": "hunter22"}

    def stir(self) -> str:
        """Do what only this tool can do."""
        with (HOST / "began").open("a") as file:
            file.write("all\\n")
        return "stirred"


class Spare(Provider):
    """A provider that others precede."""

    implements = Things
    tool = "zspare"
    priority = -1


class Named(Interface, name="znamed", chosen_by_name=True):
    """Things that each caller asks a tool for."""

    words = frozenset({"names"})

    async def bad(self) -> int:
        """Return a number."""
        return 0

    async def all(self, names: Sequence[str] = ()) -> list[str]:
        """Return the names."""
        return []


class Named1(Provider):
    """The only tool."""

    implements = Named
    tool = "ztool1"

    async def all(self, names: Sequence[str] = ()) -> list[str]:
        return list(names)

    async def bad(self) -> int:
        return "text"


class Thing(Resource, kind="zthing.present"):
    """A thing is there."""

    value: str = "right"

    def uids(self):
        return (("zthings", self.name),)

    async def probe(self, ctx) -> dict[str, Any] | None:
        path = HOST / self.name
        return {"value": path.read_text()} if path.exists() else None

    async def apply(self, ctx, delta) -> None:
        (HOST / "applying").touch()
        while not (HOST / "apply").exists():
            await asyncio.sleep(0.01)
        (HOST / self.name).write_text(self.value)

    async def watch(self, ctx):
        async for event in ctx.watch_path(str(HOST / self.name)):
            yield event
'''


def with_things(root: Path) -> Tree:
    """Return a configuration with this interface, its provider and its kind."""
    tree = Tree(root)
    tree.settings("resources: resources\n")
    (tree.etc / "resources").mkdir(mode=0o755)
    (tree.etc / "resources/things.py").write_text(THINGS.replace("@HOST@", str(tree.host)))
    for name in ("go", "apply"):
        (tree.host / name).touch()
    return tree
