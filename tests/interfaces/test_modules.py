"""Plain modules as providers, as an operator or another distribution writes them."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from holdfast.resources import registry as kinds
from holdfast.resources.errors import DeclarationError, Permanent
from holdfast.resources.interfaces import provider, registry
from holdfast.resources.interfaces.base import Interface
from holdfast.resources.interfaces.binding import Bound
from holdfast.resources.interfaces.errors import FunctionNotImplemented
from holdfast.resources.interfaces.group import GroupInterface
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.provider import Provider, register_module
from holdfast.resources.interfaces.results import Pkg

pytestmark = pytest.mark.usefixtures("providers")


class Plants(Interface, name="plants"):
    """An interface with three functions."""

    async def list(self) -> list[str]:
        """Return the plants."""
        return []

    async def water(self, name: str) -> int:
        """Water a plant; return the litres."""
        return 0

    async def late(self) -> int:
        """Return a number; the function is defined at the end of a module."""
        return 0


HEAD = "from plants_of_tests import Plants\n__interface__ = Plants\n"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """Let modules import the interface."""
    monkeypatch.setitem(sys.modules, "plants_of_tests", sys.modules[__name__])


def make(source: str, name: str = "garden") -> types.ModuleType:
    """Return a module with this source."""
    module = types.ModuleType(name)
    exec(source, module.__dict__)
    return module


def bind(host: Any, source: str, *, strict: bool = True, facts: dict[str, Any] | None = None) -> Bound:
    """Register a module, and return the interface bound to it; `facts` are added to those of the host."""
    host.facts |= facts or {}
    register_module(make(source), lambda name: Plants if name == "plants" else None)
    return registry.bind(Provider.registered[-1].interface, host, strict=strict)


async def test_functions_are_read_wherever_they_stand(host):
    """Functions may follow the declaration, depend on a condition, or have an alias.

    Imported and private ones do not count.
    """
    bound = bind(host, HEAD + "from os.path import join as extra\n"
                 "__func_alias__ = {'list_': 'list'}\n"
                 "def list_() -> list[str]: return ['rose']\n"
                 "def _private(): ...\n"
                 "if True:\n    async def water(name: str) -> int: return len(name)\n"
                 "else:\n    def late() -> int: return 1\n")  # fmt: skip

    assert (await bound.list(), await bound.water("rose")) == (["rose"], 4)
    assert dir(bound) == ["list", "water"]
    assert bound.tool == "garden"


async def test_all_says_what_a_module_exports(host):
    """A function that is not in `__all__` is private; one that is may be imported."""
    bound = bind(host, HEAD + "from json import dumps\n__all__ = ['late', 'dumps']\n"
                 "def list() -> list[str]: return []\ndef late() -> int: return 1\n")  # fmt: skip

    assert dir(bound) == ["dumps", "late"]
    assert {entry.function: entry.row.number for entry in bound.describe()}["list"] == 18


async def test_grains_and_host_are_there_before_a_module_is_read(host):
    """`__virtual__` and the functions see `__grains__` and `__host__`."""
    bound = bind(host, HEAD + "def __virtual__(): return __grains__['os'] == 'Debian'\n"
                 "async def late() -> int: return len((await __host__.run('ls')).stdout)\n")  # fmt: skip
    host.answers["ls"] = "abc"

    assert await bound.late() == 3


@pytest.mark.parametrize(
    "late",
    [
        "async def late() -> int: return len((await __host__.run('ls')).stdout) + __grains__['more']",
        "def late() -> int: return len(__host__.answers['ls']) + __grains__['more']",
    ],
    ids=["async", "sync"],
)
async def test_each_binding_calls_a_module_for_its_own_host(host, late):
    """A check or a template that chooses the same module, in another thread, changes nothing for the agent."""
    bound = bind(host, f"{HEAD}def __virtual__(): return 'more' in __grains__\n{late}\n", facts={"more": 1})
    other = type(host)({"more": 10}, answers={"ls": "a" * 100})
    second = registry.bind(Plants, other)
    assert "garden" in registry.choose(Plants, type(host)({})).refused
    host.answers["ls"] = "abc"

    assert (await bound.late(), await second.late(), await bound.late()) == (4, 110, 4)


async def test_a_watch_of_a_module_sees_the_host_of_its_binding(host):
    """Two watches that run alternately keep their own hosts."""
    source = f"{HEAD}async def events():\n    yield __grains__['os']\n    yield __grains__['os']\n"
    watches = [bind(host, source).events()]
    watches.append(registry.bind(Plants, type(host)({"os": "Arch"})).events())

    seen = [await anext(watch) for watch in (*watches, *watches)]
    rest = [[item async for item in watch] for watch in watches]

    assert (seen, rest) == (["Debian", "Arch", "Debian", "Arch"], [[], []])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return False", "its __virtual__ says so"),
        ("return None", "its __virtual__ says so"),
        ("return False, 'no garden here'", "no garden here"),
        ("raise OSError('broken')", "its __virtual__ failed: OSError: broken"),
        ("raise SystemExit(3)", "its __virtual__ failed: SystemExit: 3"),
    ],
    ids=["False", "None", "reason", "exception", "exit"],
)
def test_a_module_that_refuses_a_host_says_why(host, body, reason):
    """As in Salt, `__virtual__` returns the reason, which is part of the error."""
    with pytest.raises(Permanent, match=rf"no provider works on this host \(garden: {reason}\)"):
        bind(host, HEAD + f"def __virtual__(): {body}\n")


def test_a_module_states_its_tool_confine_priority_and_version(host):
    """The reasons are the same as those of a class."""
    confine = "from holdfast.resources.interfaces.provider import Confine\n"
    with pytest.raises(Permanent, match=r"\(spade: there is no command no-such-command\)"):
        bind(host, HEAD + confine + "__tool__ = 'spade'\n__confine__ = Confine(commands=('no-such-command',))\n")
    register_module(make(HEAD + "__tool__ = 'hoe'\n__priority__ = 7\n__version__ = 0\n"), lambda _: None)

    assert [(offer.tool, offer.priority, offer.targets) for offer in Provider.registered[1:]] == [("hoe", 7, 0)]


async def test_a_module_with_only_a_virtual_name_is_refused_unless_lenient(host):
    """If strict, it must say which interface it implements."""
    source = "__virtualname__ = 'plants'\ndef late() -> int: return 1\n"
    with pytest.raises(Permanent, match="garden does not declare `__interface__ = Plants`"):
        bind(host, source)
    Provider.registered.clear()

    assert await bind(host, source, strict=False).late() == 1


async def test_a_virtual_name_of_one_module_has_a_generated_interface(host):
    """If no interface has the name, the functions of the module are the interface."""
    bound = bind(host, "__virtualname__ = 'zoo'\nasync def feed(animal: str) -> str: return animal\n")

    assert await bound.feed("lion") == "lion"
    assert (bound.interface.module, dir(bound)) == ("zoo", ["feed"])


def test_functions_that_no_interface_promises_count_as_changing_unless_declared(host):
    """The effects of a module's own functions, and of those of a generated interface, are unknown."""
    source = (
        "from holdfast.resources.interfaces.base import looks\n"
        "async def feed(animal: str) -> str: return animal\n"
        "@looks\nasync def count() -> int: return 3\n"
    )
    alone = bind(host, "__virtualname__ = 'zoo'\n" + source)
    Provider.registered.clear()
    served = bind(host, HEAD + source)

    for bound in (alone, served):
        assert {name: bound.changes(name) for name in ("feed", "count")} == {"feed": True, "count": False}


def test_something_else_as_interface_is_an_error():
    """`__interface__` must be a class derived from `Interface`."""
    with pytest.raises(DeclarationError, match="cannot use garden: its __interface__ is not an interface"):
        register_module(make("__interface__ = 'pkg'\n"), lambda _: None)


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ("__confine__ = {'commands': ('ls',)}", r"its confine must be a Confine, as Confine\(commands="),
        ("__confine__ = Confine(commands='ls')", "commands of its confine must be a tuple of texts, not 'ls'"),
        ("__confine__ = Confine(grains={'os': 'Debian'})", r"grains\['os'\] of its confine must be a tuple of texts"),
        ("__confine__ = Confine(('ls',))", "grains and unless of its confine must be mappings"),
        ("__priority__ = 'high'", "its priority must be a whole number, not 'high'"),
        ("__version__ = '1.0'", "its version of the interface must be a whole number, not '1.0'"),
        ("__all__ = 'late'", "its __all__ must be a list of names"),
        ("__all__ = ['late', 'gone']", "its __all__ names gone, which it does not have"),
        ("__func_alias__ = ['late']", "its __func_alias__ must be a mapping of names to names"),
    ],
)
def test_a_wrong_declaration_is_an_error_where_it_is_made(declared, why):
    """The error is raised at the declaration, not at the first use, and is not reported as a bug of Holdfast."""
    head = "from holdfast.resources.interfaces.provider import Confine\nasync def late() -> int: return 1\n"
    with pytest.raises(DeclarationError, match=rf"cannot (use|declare) garden\b.*: {why}"):
        register_module(make(HEAD + head + declared + "\n"), lambda _: None)
    assert Provider.registered == []


def test_the_name_of_a_provider_of_holdfast_is_taken():
    """The error is at the file that uses the name again; the provider of Holdfast can still be used."""
    with pytest.raises(
        DeclarationError, match="cannot declare apt for pkg in toy: Holdfast has a provider of this name"
    ):
        register_module(make(example('"""Packages by toypkg') + "__tool__ = 'apt'\n", "toy"), lambda _: None)


def test_a_class_must_say_what_it_implements():
    """`implements` must be the class of an interface, not its name."""
    with pytest.raises(DeclarationError, match="cannot declare the provider Toy: it does not say what it implements"):
        type("Toy", (Provider,), {"implements": "pkg"})


def test_a_module_loaded_again_replaces_itself_and_no_other(host):
    """A changed file of an operator is loaded again. Two providers for one tool are an error."""
    register_module(make(HEAD + "def late() -> int: return 1\n"), lambda _: None)
    register_module(make(HEAD + "__priority__ = 2\n"), lambda _: None)

    assert [offer.priority for offer in Provider.registered] == [2]
    with pytest.raises(
        DeclarationError, match="cannot declare garden for plants in shed: garden has declared it already"
    ):
        register_module(make(HEAD + "__tool__ = 'garden'\n", "shed"), lambda _: None)


async def test_a_file_in_the_directory_of_kinds_may_be_a_provider(host, tmp_path):
    """The loader of an operator's kinds registers it."""
    path = tmp_path / "allotment.py"
    kinds.load_file(path, HEAD + "async def late() -> int: return 5\n")

    bound = registry.bind(Plants, host)

    assert (bound.tool, await bound.late()) == ("allotment", 5)
    with pytest.raises(FunctionNotImplemented):
        bound.list()


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """The only directory in which providers look for commands."""
    monkeypatch.setattr(provider, "PATH", str(tmp_path))
    return tmp_path


def example(begins: str) -> str:
    """Return the block of CONTRIBUTING.md that begins in this way."""
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return next(block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if block.startswith(begins))


async def test_the_module_in_contributing_serves_a_site(host, commands):
    """The operator puts it into the directory of kinds; it is used where its command exists."""
    kinds.load_file(commands / "toypkg.py", example('"""Packages by toypkg'))
    with pytest.raises(Permanent, match="toypkg: there is no command toypkg"):
        registry.bind(PkgInterface, host)
    (commands / "toypkg").touch(0o755)
    host.answers["toypkg list"] = "large 2.0\ntiny 1.0\n"

    bound = registry.bind(PkgInterface, host)

    assert bound.tool == "toypkg"
    assert await bound.list_installed(["tiny", "gone"]) == {"tiny": [Pkg(name="tiny", version="1.0")]}
    with pytest.raises(FunctionNotImplemented, match="toypkg lacks it"):
        await bound.install([])


def test_the_class_in_contributing_is_a_provider(host, commands):
    """The class statement declares it, and it fits on hosts that have its commands."""
    kinds.load_file(commands / "toybox.py", example('"""Groups by the tools of toybox'))
    for name in ("toybox", "groupadd", "groupdel"):
        assert registry.choose(GroupInterface, host).offer is None
        (commands / name).touch(0o755)

    assert registry.bind(GroupInterface, host).tool == "toybox"
