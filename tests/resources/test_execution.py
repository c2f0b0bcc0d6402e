"""`module.run` and `module.wait`: calls of Salt's execution functions, with interfaces in memory."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.errors import Permanent
from holdfast.resources.execution import table
from holdfast.resources.execution.refused import REFUSED
from holdfast.resources.execution.template_functions import NAMES
from holdfast.resources.interfaces.results import ChangeSet, Pkg, PkgSpec, Repo, ServiceStatus, User
from holdfast.resources.testing import FakeContext


class Recorder:
    """An interface whose functions record their arguments and return the results of the test."""

    def __init__(self, **results: Any) -> None:
        self.results = results
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, function: str) -> Any:
        """Return a function that records its call."""

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((function, args, kwargs))
            return self.results.get(function, ChangeSet())

        return call


def declare(**arguments: Any) -> Any:
    """Return a `module.run`."""
    kind = registry.find("module.run")
    assert kind is not None
    return kind.declare(arguments.pop("name", "calls"), **arguments)


def context(**interfaces: Any) -> FakeContext:
    """Return a context with these interfaces."""
    return FakeContext(Path("/nowhere"), interfaces=interfaces)


async def result(function: str, *args: Any, **kwargs: Any) -> tuple[Any, Recorder]:
    """Call a function; every interface returns `results`. Return the value and the recorder."""
    found = table.find(function)
    assert found is not None
    recorder = Recorder(**kwargs.pop("results", {}))
    interfaces = dict.fromkeys(("pkg", "service", "user", "group"), recorder)
    return await found.call(context(**interfaces), *args, **kwargs), recorder


STATUS = ServiceStatus(name="nginx", exists=True, active=True, state="active", enabled=True, masked=False)
ALIAS = STATUS.model_copy(update={"name": "x", "extra": {"unit": "nginx.service"}})
STATIC = STATUS.model_copy(update={"enabled": None})
MASKED = STATIC.model_copy(update={"masked": True})
NOTHING = STATUS.model_copy(update={"exists": False, "enabled": False})
CHANGE = ChangeSet(changes={"nginx": {"old": "", "new": "1.2"}})


# -- the states ----------------------------------------------------------------------------------------------------


async def test_the_changes_of_a_call_are_those_of_its_change_set():
    """`module.run` reports the changes of each function that changed something, by the name of the function."""
    pkg, service = Recorder(install=CHANGE), Recorder()
    ctx = context(pkg=pkg, service=service)

    right = await declare(**{"pkg.install": ["nginx"], "service.start": [{"name": "nginx"}]}).check_apply(ctx, True)

    assert not right
    assert ctx.report.changes == {"pkg.install": {"nginx": {"old": "", "new": "1.2"}}}
    assert ctx.report.comment == "pkg.install: done; service.start: nothing to change"


async def test_a_run_that_changes_nothing_reports_no_change():
    """Calls that found nothing to change trigger no other state."""
    ctx = context(service=Recorder())

    assert await declare(name="service.start", m_name="nginx").check_apply(ctx, True)
    assert ctx.report.changes == {}
    assert ctx.report.comment == "service.start: nothing to change"


async def test_without_apply_no_function_is_called():
    """The plan names the functions."""
    service = Recorder()
    ctx = context(service=service)

    right = await declare(**{"service.restart": ["nginx"], "service.reload": ["ssh"]}).check_apply(ctx, False)

    assert not right
    assert not service.calls
    assert ctx.report.comment == "would run service.restart, service.reload"


async def test_the_first_failure_ends_the_run_and_the_changes_before_it_are_reported():
    """Later functions are not called, and the changes of earlier ones are reported."""
    service = Recorder(restart=CHANGE, status={"nginx": STATUS.model_copy(update={"active": False})})
    ctx = context(service=service)
    state = declare(**{"service.restart": ["nginx"], "service.status": ["nginx"], "service.stop": ["nginx"]})

    with pytest.raises(Permanent, match=r"service\.status: the call has failed"):
        await state.check_apply(ctx, True)

    assert ctx.report.changes == {"service.restart": CHANGE.changes}
    assert [call[0] for call in service.calls] == ["restart", "status"]


async def test_a_function_of_templates_is_called_with_its_arguments():
    """Functions that the table does not have go to the functions of templates."""
    called = []
    ctx = context()
    ctx.call = lambda call: called.append(call) or "text"  # type: ignore[method-assign]

    assert not await declare(**{"file.read": ["/etc/motd", {"binary": False}]}).check_apply(ctx, True)
    assert called == [{"fun": "file.read", "args": ["/etc/motd"], "binary": False}]
    assert ctx.report.changes == {"file.read": "text"}


async def test_secrets_in_results_are_masked():
    """Values of keys that name a secret are not reported."""
    ctx = context()
    ctx.call = lambda call: {"user": "app", "password": "hunter22"}  # type: ignore[method-assign]

    await declare(name="pillar.item", args=["db"]).check_apply(ctx, True)

    assert ctx.report.changes == {"ret": {"user": "app", "password": "********"}}


async def test_the_names_of_packages_are_not_those_of_secrets():
    """Debian has the package `passwd`; its version is shown."""
    ctx = context(pkg=Recorder(list_installed={"passwd": [Pkg(name="passwd", version="4.13")]}))

    await declare(**{"pkg.list_pkgs": []}).check_apply(ctx, True)

    assert ctx.report.changes == {"pkg.list_pkgs": {"passwd": "4.13"}}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"pkg.instal": ["x"]}, r"no function pkg\.instal; did you mean pkg\.install\?"),
        ({"name": "service.restrat", "m_name": "x"}, r"did you mean service\.restart\?"),
        ({"git.checkout": ["/srv"]}, r"no function git\.checkout: run git by cmd\.run"),
        ({"zzz.qqq": []}, "available: functions of alternatives, "),
        (
            {"pkg.list_installed": ["x"]},
            r"no function pkg\.list_installed in Salt: write pkg\.list_pkgs or pkg\.version",
        ),
        ({"service.restart": []}, r"missing a required argument: 'name'; it takes name, no_block=False"),
        ({"service.restart": ["x", {"wait": 3}]}, r"unexpected keyword argument 'wait'"),
        ({"service.restart": "x"}, r"must be a list: write `\[ARGUMENT, \.\.\.\]`"),
        ({"service.restart": ["x"], "user": "x"}, r"pass it to one of the functions"),
        ({"name": "cmd.run", "args": "x"}, r"args must be a list"),
        ({}, r"no function calls"),
    ],
)
def test_a_wrong_call_is_refused_before_anything_runs(arguments, told):
    """Unknown functions and arguments are errors of the argument that names the function."""
    with pytest.raises(ValidationError, match=told) as error:
        declare(**arguments)

    assert error.value.errors()[0]["loc"][0] in {*arguments, "name"}


def test_the_needs_are_those_of_the_functions():
    """A host whose provider lacks one refuses the state."""
    needs = declare(**{"pkg.hold": ["x"], "service.force_reload": ["x"], "cmd.run": ["x"]}).needs()

    assert [(need.interface.module, need.function) for need in needs] == [
        ("pkg", "hold"), ("service", "status"), ("service", "reload"), ("service", "restart"),
    ]  # fmt: skip


def test_both_spellings_of_the_arguments_are_one_call():
    """Arguments may be positional, named, or have the prefix of the old syntax."""
    new = declare(**{"user.chgroups": [{"name": "bob"}, {"groups": ["a"]}]}).planned()["user.chgroups"]
    old = declare(name="user.chgroups", m_name="bob", groups=["a"]).planned()["user.chgroups"]
    nested = declare(name="user.chgroups", kwargs={"name": "bob", "groups": ["a"]}).planned()["user.chgroups"]

    assert new == old == nested


# -- the table -----------------------------------------------------------------------------------------------------


def test_each_function_of_the_table_calls_functions_of_its_interface():
    """Otherwise, only a call would find a name that the interface lacks."""
    for function in table.functions().values():
        if function.interface:
            assert set(function.uses) <= function.interface.functions().keys(), function.name
        assert inspect.iscoroutinefunction(function.call)
        assert function.call.__doc__


def test_no_name_has_two_meanings():
    """A refused function does not exist; a function of a module that is refused as a whole does not, either."""
    known = {*table.functions(), *NAMES}
    modules = {name.partition(".")[0] for name in known}

    assert not known & REFUSED.keys()
    assert {name for name in REFUSED if "." not in name} & modules <= {"cp", "git", "mine"}


REPO = Repo(id="r", uris=("http://x",), extra={"suites": ["a"]})
SHOWN = {"id": "r", "uris": ("http://x",), "enabled": True, "gpgcheck": True, "priority": None, "suites": ["a"]}


@pytest.mark.parametrize(
    ("function", "args", "results", "value"),
    [
        ("pkg.version", ("a",), {"list_installed": {"a": [Pkg(name="a", version="1")]}}, "1"),
        ("pkg.version", ("a", "b"), {"list_installed": {"a": [Pkg(name="a", version="1")]}}, {"a": "1", "b": ""}),
        ("pkg.list_pkgs", (True,), {"list_installed": {"a": [Pkg(name="a", version="1")]}}, {"a": ["1"]}),
        ("pkg.latest_version", ("a",), {"list_installed": {}, "latest": {"a": "2"}}, "2"),
        ("pkg.list_upgrades", (), {"upgrades": {"a": {"current": "1", "candidate": "2"}}}, {"a": "2"}),
        ("pkg.version_cmp", ("1", "2"), {"compare": -1}, -1),
        ("pkg.list_holds", (), {"holds": {"b": None, "a": "1"}}, ["a", "b"]),
        ("pkg.owner", ("/x",), {"owner": {"/x": None}}, ""),
        ("pkg.file_list", ("a", "b"), {"files": {"a": ["/x"]}}, {"errors": ["package b is not installed"],
                                                                 "files": ["/x"]}),
        ("pkg.list_repos", (), {"repos": {"r": REPO}}, {"r": SHOWN}),
        ("pkg.get_repo", ("r",), {"repos": {"r": REPO}}, SHOWN),
        ("pkg.get_repo", ("s",), {"repos": {"r": REPO}}, {}),
        ("pkg.refresh_db", (), {"refresh": {"r": "updated", "s": "unchanged"}}, {"r": True, "s": None}),
        ("service.status", ("nginx",), {"status": {"nginx": STATUS}}, True),
        ("service.missing", ("nginx",), {"status": {"nginx": STATUS}}, False),
        ("service.disabled", ("nginx",), {"status": {"nginx": STATUS}}, False),
        ("service.enabled", ("nginx",), {"status": {"nginx": STATIC}}, True),
        ("service.disabled", ("nginx",), {"status": {"nginx": MASKED}}, True),
        ("service.enabled", ("nginx",), {"status": {"nginx": NOTHING}}, False),
        ("service.get_enabled", (), {"list": ("nginx", "x"), "status": {"nginx": STATUS, "x": ALIAS}}, ["nginx"]),
        ("service.get_running", (), {"list": ("nginx",), "status": {"nginx": STATUS}}, ["nginx"]),
    ],
)  # fmt: skip
async def test_a_look_has_the_shape_of_salts_function(function, args, results, value):
    """Typed results of interfaces become what templates for Salt expect."""
    assert (await result(function, *args, results=results))[0] == value


@pytest.mark.parametrize(
    ("function", "arguments", "call"),
    [
        ("pkg.install", {"name": "a,b", "refresh": True}, ("install", [PkgSpec(name="a"), PkgSpec(name="b")], True)),
        ("pkg.install", {"pkgs": ["a", {"b": 2}]}, ("install", [PkgSpec(name="a"), PkgSpec(name="b", version="2")],
                                                    None)),
        ("pkg.install", {"sources": [{"a": "/a.deb"}]}, ("install", [PkgSpec(name="a", source="/a.deb")], None)),
        ("pkg.remove", {"name": "a"}, ("remove", ["a"])),
        ("pkg.del_repo", {"repo": "r"}, ("repo_remove", "r")),
        ("service.restart", {"name": "x"}, ("restart", "x")),
        ("user.delete", {"name": "x", "remove": True}, ("remove", "x", True, False)),
        ("shadow.lock_password", {"name": "x"}, ("set_lock", "x")),
        ("shadow.set_maxdays", {"name": "x", "maxdays": 9}, ("set_expiry", "x", {"maxdays": 9})),
        ("group.members", {"name": "x", "members_list": "a, b"}, ("members_set", "x", ["a", "b"])),
    ],
)  # fmt: skip
async def test_arguments_become_those_of_the_interface(function, arguments, call):
    """Salt's forms of lists of packages, users and options are accepted."""
    (recorded,) = (await result(function, **arguments))[1].calls

    assert (recorded[0], *recorded[1]) == call


async def test_groups_are_added_to_those_that_an_account_has():
    """`append` keeps the present groups."""
    known = User(name="bob", uid=1, groups=("x",))

    _, user = await result("user.chgroups", "bob", "a,b", append=True, results={"info": {"bob": known}})

    assert user.calls[-1] == ("modify", ("bob",), {"groups": ["a", "b", "x"]})


@pytest.mark.parametrize(
    ("function", "arguments", "told"),
    [
        ("pkg.install", {}, "names no package"),
        ("pkg.install", {"name": "a", "colour": "red"}, "no parameter colour"),
        ("pkg.refresh_db", {"failhard": True, "results": {"refresh": {"r": "failed"}}}, "cannot refresh r"),
        ("user.chgroups", {"name": "bob", "groups": [], "results": {"info": {"bob": None}}}, "there is no such user"),
    ],
)
async def test_a_call_that_cannot_work_fails_with_its_reason(function, arguments, told):
    """The error says what is missing."""
    with pytest.raises(Permanent, match=told):
        await result(function, **arguments)


async def test_a_service_that_cannot_reload_is_restarted_by_force_reload():
    """Only `force_reload` restarts the service; `reload` fails."""
    fixed = STATUS.model_copy(update={"extra": {"can_reload": False}})

    _, restarted = await result("service.force_reload", "nginx", results={"status": {"nginx": fixed}})
    _, reloaded = await result("service.force_reload", "nginx", results={"status": {"nginx": STATUS}})

    assert (restarted.calls[-1][0], reloaded.calls[-1][0]) == ("restart", "reload")


def test_an_unknown_name_is_none():
    """The table finds nothing in modules that it does not have."""
    assert table.find("os.system") is None
    assert table.find("pkg") is None
