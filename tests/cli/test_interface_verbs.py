"""`describe`, `interface propose` and `interface check`: interfaces and providers shown to people and programs."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.resources.interfaces import registry, signatures
from holdfast.resources.interfaces.base import Interface
from holdfast_process import Tree, holdfast, in_process

GRAINS = "{id: there, os: Debian, os_family: Debian, kernel: Linux, init: systemd, osarch: amd64}\n"
EXAMPLE = '''
"""
Support for knots

.. versionadded:: 3000
"""
import does_not_exist

__virtualname__ = "knots"
__func_alias__ = {"list_": "list"}


def __virtual__():
    return True


def list_(pattern="*", limit=-1, tags=[], deep=False, **kwargs):
    """
    .. versionadded:: 3001

    List knots that match "a \\\\ pattern"

    CLI Example:

    .. code-block:: bash

        salt '*' knots.list
    """


if does_not_exist.here:

    def tie(name: str, size: int = 3, hints: dict = {}, *ropes, test=False):
        return {}


def untie(name, width=does_not_exist.width):
    if __opts__["test"]:
        return {}


def _private():
    pass


async def count() -> int:
    """Return the number of knots."""
'''
PROVIDER = '''
from holdfast.resources.interfaces.provider import Provider
from holdfast.resources.interfaces.user import UserInterface
from holdfast.resources.interfaces.results import ChangeSet, User


class Mine(Provider):
    """A provider with gaps."""

    implements = UserInterface

    def __init__(self, host):
        raise AssertionError("check makes no provider")

    async def list(self) -> tuple[str, ...]:
        return ()

    async def info(self, names) -> dict[str, User | None]:
        return {}

    async def rename(self, name: str, to: str, *, test: bool = False, options=None) -> ChangeSet:
        return ChangeSet()

    async def more(self) -> int:
        return 0
'''


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a configuration with the grains of a Debian host."""
    tree = Tree(tmp_path)
    (tree.root / "grains.yaml").write_text(GRAINS)
    return tree


def described(tree: Tree, *words: str, check: int = 0) -> Any:
    """Return the output of `describe` for a host with these grains."""
    done = tree("describe", *words, "--grains", tree.root / "grains.yaml", "--format", "json", check=check)
    return json.loads(done.stdout)


def test_describe_lists_all_interfaces(tree: Tree) -> None:
    """Each interface has its provider on this host and the reason, or the reason why there is none."""
    tree.settings("providers: {user: shadow}\n")
    found = {each["module"]: each for each in described(tree)}
    text = tree("describe", check=0).stdout

    assert list(found) == registry.modules()
    assert found["user"]["provider"] == "shadow"
    assert found["user"]["why"] == "`providers: {user: shadow}` chooses it"
    assert "user     shadow: `providers: {user: shadow}` chooses it\n" in text
    assert holdfast("describe", "--config", tree.config, check=0).stdout == text


def test_describe_says_what_each_function_does_here(tree: Tree) -> None:
    """The output has state and row of the table, reason, signature, and whether the function changes something."""
    functions = {each["function"]: each for each in described(tree, "user")["functions"]}
    text = tree("describe", "user", check=0).stdout

    assert functions["set_login_class"]["state"] == "not supported"
    assert functions["set_login_class"]["row"] == 6
    assert functions["set_login_class"]["why"] == "kernel is Linux, only FreeBSD, OpenBSD, NetBSD can have it"
    assert functions["rename"]["signature"].startswith("(name: str, new_name: str, *, test: bool = False")
    assert (functions["rename"]["changes"], functions["info"]["changes"]) == (True, False)
    assert "provider shadow: " in text
    assert "\nrename*(name: str, new_name: str)\n    provided. Rename an account.\n" in text
    assert (
        "\n    not supported, kernel is Linux, only FreeBSD, OpenBSD, NetBSD can have it. Set the login class." in text
    )
    assert "'" not in functions["list"]["signature"]


def test_describe_shows_one_function(tree: Tree) -> None:
    """The output has signature, documentation, row, and whether the function may change something.

    A former name works, too.
    """
    text = tree("describe", "user.remove", "--grains", tree.root / "grains.yaml", check=0).stdout

    assert text == (
        "user.remove(name: str, remove_home: bool = False, force: bool = False, *, test: bool = False, "
        "options: Options = None) -> ChangeSet\n\n"
        "provided by shadow\nIt may change something.\nFormer names: delete\n\n"
        "Remove an account; with `force`, even while it is used. Raises `Temporary` while its processes run.\n"
    )
    found = described(tree, "user.delete")
    assert (found["module"], found["function"], found["row"]) == ("user", "remove", 1)
    assert (
        described(tree, "user.set_login_class")["why"] == "kernel is Linux, only FreeBSD, OpenBSD, NetBSD can have it"
    )
    assert tree("describe", ".x", check=64).stderr


def test_describe_of_anything_else_says_what_to_write() -> None:
    """Errors for an unknown function or name have a hint.

    `doc`, which describes kinds, names the verb for functions.
    """
    assert (
        "there is no function pkg.instal; did you mean install?"
        in in_process("describe", "pkg.instal", check=64).stderr
    )
    assert "`holdfast describe pkg` lists them" in in_process("describe", "pkg.zzz", check=64).stderr
    assert "`holdfast describe pkg.hold` describes the function of" in in_process("doc", "pkg.hold", check=64).stderr
    assert "`holdfast describe pip.install` describes" in in_process("doc", "pip.install", check=64).stderr
    assert "did you mean 'pkg.installed'?" in in_process("doc", "pkg.instaled", check=64).stderr
    said = in_process("describe", "file", check=64).stderr
    assert f"; available: {', '.join(registry.modules())}" in said


def test_describe_says_why_no_provider_works(tree: Tree) -> None:
    """The reasons are shown for each provider. Functions are listed without a state, and the exit code is 1."""
    (tree.root / "grains.yaml").write_text("{id: there, os_family: Other, kernel: Other}\n")
    found = described(tree, "pkg", check=1)

    assert found["provider"] is None
    assert "cannot manage pkg: no provider works on this host (" in found["error"]
    assert found["refused"]["apt"] == ["os_family is Other, not Debian"]
    assert {each["state"] for each in found["functions"]} == {"unknown"}
    shown = tree("describe", "pkg", "--grains", tree.root / "grains.yaml", check=1).stdout
    assert "\ncannot manage pkg: no provider works on this host\n" in shown
    assert "\nnot apt: os_family is Other, not Debian\n" in shown
    listed = tree("describe", "--grains", tree.root / "grains.yaml").stdout
    assert "\npkg      cannot manage pkg: no provider works on this host; `holdfast describe pkg` says why\n" in listed
    assert "did you mean pkg?" in tree("describe", "pgk", check=64).stderr


def test_propose_prints_a_module_that_declares_the_interface(tmp_path: Path) -> None:
    """Only the source is read: aliases, conditions and Salt's conventions are understood, and nothing runs."""
    example, proposed = tmp_path / "rope.py", tmp_path / "proposed.py"
    example.write_text(EXAMPLE)
    text = holdfast("interface", "propose", example, check=0).stdout
    proposed.write_text(text)
    spec = importlib.util.spec_from_file_location("proposed", proposed)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    interface: type[Interface] = module.KnotsInterface

    assert interface.module == "knots"
    assert {name: signatures.text(function) for name, function in interface.functions().items()} == {
        "count": "()",
        "list": "(pattern: str = '*', limit: int = -1, tags: Any = None, deep: bool = False, *, "
        "options: Options = None)",
        "tie": "(name: str, size: int = 3, hints: dict | None = None, ropes: tuple[Any, ...] = (), *, "
        "test: bool = False, options: Options = None)",
        "untie": "(name: Any, width: Any = None, *, test: bool = False, options: Options = None)",
    }
    assert interface.functions()["list"].__doc__ == 'List knots that match "a \\ pattern".'
    assert interface.__doc__ == "Support for knots."
    assert max(map(len, text.splitlines())) <= 120


def test_propose_refuses_what_is_no_module(tmp_path: Path) -> None:
    """The error has the location of the mistake."""
    (tmp_path / "broken.py").write_text("def f(:\n")

    done = in_process("interface", "propose", tmp_path / "broken.py", check=64)
    assert "is not a Python module" in done.stderr


def test_propose_refuses_a_module_without_functions(tmp_path: Path) -> None:
    """An interface without functions would be of no use."""
    (tmp_path / "empty.py").write_text("def _private():\n    pass\n")

    done = in_process("interface", "propose", tmp_path / "empty.py", check=64)
    assert "empty.py has no public functions" in done.stderr
    assert done.stdout == ""


def test_check_shows_each_function_beside_the_interface(tree: Tree) -> None:
    """The output has rows of the table, differing signatures, missing functions, and refusals of a strict binding."""
    (tree.root / "mine.py").write_text(PROVIDER)
    words = ("interface", "check", tree.root / "mine.py", "user", "--grains", tree.root / "grains.yaml")
    text = tree(*words, check=1).stdout
    found = json.loads(tree(*words, "--format", "json", check=1).stdout)

    functions = {each["function"]: each for each in found["functions"]}
    assert found["tool"] == "mine"
    assert {name: functions[name]["row"] for name in ("list", "rename", "more", "set_login_class", "set_lock")} == {
        "list": 1,
        "rename": 17,
        "more": 3,
        "set_login_class": 6,
        "set_lock": 5,
    }
    assert functions["rename"]["why"] == "its positional parameters are (name, to), not (name, new_name)"
    assert found["refused"] == ["rename: its positional parameters are (name, to), not (name, new_name)"]
    assert "add" in found["missing"]
    assert "\nrow 17 not implemented rename: its positional parameters are (name, to), not (name, new_name)\n" in text
    assert "\n    provider   (name: str, to: str, *, test: bool = False, options=None)" in text
    assert "\nmissing: add, " in text


def test_check_accepts_a_provider_that_follows_its_interface(tree: Tree) -> None:
    """Holdfast's own providers, which are declared already, are accepted, too."""
    providers = Path(registry.__file__).parents[1] / "providers"
    words = ("--grains", tree.root / "grains.yaml")

    assert tree("interface", "check", providers / "shadow.py", "user", *words, check=0).stdout.endswith("\naccepted\n")
    assert holdfast(
        "interface", "check", providers / "shadow.py", "group", *words, "--config", tree.config, check=0
    ).stdout.endswith("\naccepted\n")


def test_check_accepts_a_provider_with_properties(tree: Tree) -> None:
    """Properties are not read, because they need a host, which `check` does not create."""
    path = tree.root / "toy.py"
    path.write_text(
        "from functools import cached_property\n"
        "from pathlib import Path\n"
        "from holdfast.resources.providers.shadow import ShadowGroups\n"
        "class Toy(ShadowGroups):\n"
        "    @property\n"
        "    def etc(self): return self.host.system_path(Path('/etc'))\n"
        "    @cached_property\n"
        "    def file(self): return self.etc / 'group'\n"
    )
    words = ("interface", "check", path, "group", "--grains", tree.root / "grains.yaml")

    assert tree(*words, check=0).stdout.endswith("\naccepted\n")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "__tool__ = 'shadow'",
            "holdfast.resources.providers.shadow is the provider for the tool 'shadow' already: set",
        ),
        ("__priority__ = 'high'", "its priority must be a whole number, not 'high'"),
        ("__confine__ = 'linux'", "its confine must be a Confine"),
    ],
)
def test_check_refuses_what_the_agent_would_not_register(tree: Tree, line: str, told: str) -> None:
    """A second provider for the same tool, for example, is refused."""
    path = tree.root / "plain.py"
    path.write_text(
        "from holdfast.resources.interfaces.user import UserInterface\n__interface__ = UserInterface\n"
        f"{line}\nasync def list() -> tuple[str, ...]:\n    return ()\n"
    )
    words = ("interface", "check", path, "user", "--grains", tree.root / "grains.yaml")

    assert f"\nrefused: {told}" in tree(*words, check=1).stdout


def test_check_takes_a_module_as_a_provider(tree: Tree) -> None:
    """For a strict agent, the module must declare its interface."""
    path = tree.root / "plain.py"
    path.write_text("async def list() -> tuple[str, ...]:\n    return ()\n")
    words = ("interface", "check", path, "user", "--grains", tree.root / "grains.yaml")

    assert "\nrefused: it does not declare `__interface__ = UserInterface`\n" in tree(*words, check=1).stdout
    declared = "from holdfast.resources.interfaces.user import UserInterface\n__interface__ = UserInterface\n"
    path.write_text(declared + path.read_text())
    assert tree(*words, check=0).stdout.endswith("\naccepted\n")
    path.write_text(f"__version__ = 7\n{path.read_text()}")
    assert "\nrefused: it was written for version 7, the interface is at " in tree(*words, check=1).stdout
    for wrong in ("import does_not_exist\n", "raise SystemExit(3)\n"):
        path.write_text(wrong)
        assert "cannot import" in tree(*words, check=64).stderr
    path.write_text("__all__ = ['missing']\n")
    assert "its __all__ names missing, which it does not have" in tree(*words, check=64).stderr
    assert "did you mean user?" in tree("interface", "check", path, "usr", check=64).stderr
