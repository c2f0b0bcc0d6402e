"""Decisions of the kinds pkg, service, user and group, with interfaces in memory instead of a machine."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from holdfast.resources import registry
from holdfast.resources.contract import Resource
from holdfast.resources.errors import Permanent
from holdfast.resources.interfaces.results import ChangeSet, Group, Pkg, ServiceStatus, User
from holdfast.resources.kinds.pkg import fetch
from holdfast.resources.testing import FakeContext


class Packages:
    """A package manager whose versions are whole numbers; `offered` holds those that can be installed."""

    def __init__(self, offered: dict[str, list[str]], **installed: str) -> None:
        self.offered, self.installed = offered, installed
        self.calls: list[Any] = []

    async def list_installed(self, names: Any = ()) -> dict[str, list[Pkg]]:
        """Return the installed packages."""
        return {name: [Pkg(name=name, version=self.installed[name])] for name in names if name in self.installed}

    async def latest(self, names: Any, refresh: bool = False) -> dict[str, str | None]:
        """Return the first offered version."""
        self.calls += ["refresh"] if refresh else []
        return {name: next(iter(self.offered.get(name, ())), None) for name in names}

    async def available(self, names: Any) -> dict[str, list[str]]:
        """Return all offered versions."""
        return {name: self.offered.get(name, []) for name in names}

    async def compare(self, a: str, b: str) -> int:
        """Compare as numbers."""
        return (int(a) > int(b)) - (int(a) < int(b))

    async def install(self, pkgs: Any, refresh: Any = None, *, test: bool = False, options: Any = None) -> ChangeSet:
        """Install an offered version."""
        if unknown := [pkg.name for pkg in pkgs if pkg.name not in self.offered]:
            raise Permanent(f"cannot install {unknown}")
        new = {pkg.name: pkg.version or self.offered[pkg.name][0] for pkg in pkgs}
        changes = {name: {"old": self.installed.get(name, ""), "new": version} for name, version in new.items()}
        if not test:
            self.calls.append((sorted(new.items()), refresh))
            self.installed |= new
        return ChangeSet(changes=changes)


class Services:
    """A service manager with one service, whose state is an attribute of this object."""

    def __init__(self, **status: Any) -> None:
        self.now = {"exists": True, "active": False, "state": "inactive", "enabled": False, "masked": False, **status}
        self.calls: list[str] = []

    async def status(self, names: Any) -> dict[str, ServiceStatus]:
        """Return the present state."""
        return {name: ServiceStatus(name=name, **self.now) for name in names}

    def __getattr__(self, verb: str) -> Any:
        """Return a function that changes the state, and records its call."""

        async def switch(name: str, *_: Any, test: bool = False, options: Any = None) -> ChangeSet:
            if not test:
                self.calls.append(verb)
            effects = {
                "start": {"active": True, "state": "active"}, "stop": {"active": False, "state": "inactive"},
                "enable": {"enabled": True}, "disable": {"enabled": False},
                "mask": {"masked": True}, "unmask": {"masked": False},
            }  # fmt: skip
            self.now |= {} if test else effects.get(verb, {})
            return ChangeSet(changes={name: {}})

        return switch


def context(tmp_path: Any, **interfaces: Any) -> FakeContext:
    """Return a context with only these interfaces."""
    return FakeContext(tmp_path, interfaces=interfaces)


def declare(kind: str, name: str = "it", **arguments: Any) -> Resource:
    """Return a resource of a kind."""
    return registry.find(kind).declare(name, **arguments)


# -- packages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("installed", "version", "chosen"),
    [
        (None, None, "30"),
        (None, "20", "20"),
        ("30", "20", "20"),
        (None, "<30", "20"),
        ("10", ">=20,<30", "20"),
        (None, "1*", "10"),
        ("30", "!=30", "20"),
        ("10", "latest", "30"),
        ("10", None, None),
        ("20", "20", None),
        ("20", ">10", None),
        ("20", 20, None),
        ("30", "3*", None),
    ],
)
async def test_a_version_is_chosen_and_kept(tmp_path, installed, version, chosen):
    """Nothing is done if the installed version is allowed; otherwise the newest allowed one is installed, once."""
    pkg = Packages({"it": ["30", "20", "10"]}, **({"it": installed} if installed else {}))
    resource, ctx = declare("pkg.installed", version=version), context(tmp_path, pkg=pkg)

    assert await resource.check_apply(ctx, False) is (chosen is None)
    assert pkg.calls == []
    assert await resource.check_apply(ctx, True) is (chosen is None)
    assert pkg.installed["it"] == (chosen or installed)
    assert await resource.check_apply(ctx, True) is True
    assert len(pkg.calls) == (chosen is not None)


async def test_a_newer_version_is_kept_if_updates_are_allowed(tmp_path):
    """With `allow_updates`, a package that was upgraded by hand is not downgraded."""
    pkg = Packages({"it": ["30", "20"]}, it="30")

    assert await declare("pkg.installed", version="20", allow_updates=True).check_apply(
        context(tmp_path, pkg=pkg), True
    )


async def test_a_package_without_a_candidate_would_change(tmp_path):
    """The same states may add its repository: a check is no error, but a repair is."""
    ctx = context(tmp_path, pkg=Packages({}))

    assert await declare("pkg.installed").check_apply(ctx, False) is False
    assert ctx.report.changes == {"it": {"old": "", "new": "installed"}}
    with pytest.raises(Permanent, match="cannot install"):
        await declare("pkg.installed").check_apply(ctx, True)


async def test_package_lists_are_fetched_only_for_a_repair(tmp_path):
    """A check changes nothing, so it does not fetch the package lists either."""
    pkg = Packages({"it": ["2", "1"]}, it="1")

    await declare("pkg.latest").check_apply(context(tmp_path, pkg=pkg), False)
    assert pkg.calls == []
    await declare("pkg.latest").check_apply(context(tmp_path, pkg=pkg), True)
    assert pkg.calls[0] == "refresh"


@pytest.mark.parametrize(
    ("url", "ending"),
    [("salt://it.rpm", ".rpm"), ("https://host/a.pkg.tar.zst?x=1", ".zst"), ("https://host/get?id=it.rpm", ".deb")],
)
async def test_a_fetched_package_file_keeps_its_ending(tmp_path, url, ending):
    """By the ending, dnf recognises a package file. A file without a known ending is saved as a Debian package."""
    path = await fetch(FakeContext(tmp_path, sources={url: "content"}), "it", url)

    assert path == str(tmp_path / f"it{ending}")
    assert Path(path).read_text() == "content"


@pytest.mark.parametrize(
    "pkgs", [["a", {"b": "1*"}], {"a": None, "b": "1*"}, ("a", {"b": "1*"})], ids=["list", "mapping", "tuple"]
)
def test_lists_of_packages_are_read(pkgs):
    """Names, and names with versions, are read in all of Salt's forms; each is a uid."""
    resource = declare("pkg.installed", pkgs=pkgs)

    assert resource.wanted == {"a": None, "b": "1*"}
    assert resource.uids() == (("pkg", "a"), ("pkg", "b"))


@pytest.mark.parametrize(
    "arguments", [{"pkgs": [["a"]]}, {"version": ">= >"}, {"pkgs": [{"a": "1 2"}]}, {"versoin": "1"}], ids=repr
)
def test_wrong_arguments_are_refused(arguments):
    """Invalid packages, versions and arguments are errors."""
    with pytest.raises(ValidationError):
        declare("pkg.installed", **arguments)


# -- services ----------------------------------------------------------------------------------------------------------


async def test_a_service_is_changed_in_order(tmp_path):
    """It is unmasked before it is started, and enabled when it runs."""
    service = Services(masked=True)

    await declare("service.running", enable=True, unmask=True).check_apply(context(tmp_path, service=service), True)

    assert service.calls == ["unmask", "start", "enable"]


async def test_a_service_that_is_started_again_tells_how_it_had_ended(tmp_path):
    """A plan reports this, too. A running service has no end."""
    how = "it.service was killed by signal 9 (SIGKILL)"
    for apply in (True, False):
        ctx = context(tmp_path, service=Services(state="failed", extra={"ended": how}))
        await declare("service.running").check_apply(ctx, apply)

        assert ctx.report.ended == how
    ctx = context(tmp_path, service=Services(active=True, state="active", extra={"ended": how}))
    await declare("service.running").check_apply(ctx, True)

    assert ctx.report.ended == ""


async def test_a_missing_service_would_change(tmp_path):
    """A check of a service that its package will install is no error; for `dead` a missing service is as declared."""
    ctx = context(tmp_path, service=Services(exists=False))

    assert await declare("service.running", enable=True).check_apply(ctx, False) is False
    assert ctx.report.changes == {"it": True}
    assert await declare("service.dead", enable=False).check_apply(ctx, True) is True


async def test_a_service_that_cannot_be_enabled_is_as_declared(tmp_path):
    """A static unit counts as declared, enabled or disabled, and the comment says why. A masked one is disabled."""
    ctx = context(tmp_path, service=Services(active=True, state="active", enabled=None))

    for enable in (True, False):
        assert await declare("service.running", enable=enable).check_apply(ctx, True) is True
        assert ctx.report.comment == "it runs and can be neither enabled nor disabled"
    ctx = context(tmp_path, service=Services(enabled=None, masked=True))
    assert await declare("service.dead", enable=False).check_apply(ctx, True) is True
    assert ctx.report.comment == "it does not run and does not start at boot"


@pytest.mark.parametrize(
    ("kind", "runtime", "until_boot", "right"),
    [
        ("masked", False, False, True),
        ("masked", False, True, False),
        ("masked", True, True, True),
        ("unmasked", False, True, False),
        ("unmasked", True, True, False),
        ("unmasked", True, False, True),
    ],
)
async def test_a_mask_until_the_next_boot_is_not_any_mask(tmp_path, kind, runtime, until_boot, right):
    """It does not suffice for a lasting mask. `unmasked` can be limited to such a mask."""
    service = Services(masked=True, extra={"until_boot": until_boot})
    state = declare(f"service.{kind}", runtime=runtime)
    assert await state.check_apply(context(tmp_path, service=service), False) is right
    inverse = await state.inverse(context(tmp_path, service=service))
    if (kind, runtime, until_boot) == ("masked", False, True):  # it adds a mask, and the one that is there is kept
        assert (inverse.kind, inverse.arguments["lasting"]) == ("service.unmasked", True)
        undoing = declare(inverse.kind, **inverse.arguments)
        assert await undoing.check_apply(context(tmp_path, service=service), False) is True
        assert await undoing.check_apply(context(tmp_path, service=Services(masked=True)), False) is False
    else:
        assert (inverse.kind, inverse.arguments.get("runtime", False)) == ("service.masked", until_boot)


def test_masks_are_removed_of_one_sort_or_of_both():
    """Not of neither."""
    with pytest.raises(ValidationError, match="runtime and lasting exclude each other"):
        declare("service.unmasked", runtime=True, lasting=True)


async def test_a_service_that_is_enabled_in_part_is_neither_enabled_nor_disabled(tmp_path):
    """A script that is started only in some of its runlevels is repaired for either declaration."""
    for enable, verb in ((True, "enable"), (False, "disable")):
        service = Services(enabled=True, extra={"partly": True})
        ctx = context(tmp_path, service=service)
        assert await declare("service.dead", enable=enable).check_apply(ctx, False) is False
        assert ctx.report.effect.verbs == (verb,)
    assert await declare("service.dead").check_apply(context(tmp_path, service=service), True) is True


@pytest.mark.parametrize(("kind", "fails"), [("running", True), ("dead", True), ("enabled", False)])
async def test_a_service_that_nothing_tells_about_is_an_error(tmp_path, kind, fails):
    """An init script may lack the action `status`.

    A repair of a service that may already run would be repeated for ever.
    """
    ctx = context(tmp_path, service=Services(active=None, state="unknown"))

    with pytest.raises(Permanent, match="it is unknown whether it runs") if fails else nullcontext():
        await declare(f"service.{kind}").check_apply(ctx, False)


async def test_a_service_about_to_be_restarted_is_not_dead(tmp_path):
    """`Restart=` in the unit would start it again in a moment."""
    service = Services(state="activating")

    assert await declare("service.dead").check_apply(context(tmp_path, service=service), True) is False
    assert service.calls == ["stop"]


@pytest.mark.parametrize(
    ("active", "arguments", "verb"),
    [
        (True, {}, "restart"),
        (True, {"reload": True}, "reload"),
        (True, {"reload": True, "full_restart": True}, "restart"),
        (False, {"reload": True}, "start"),
    ],
    ids=["restart", "reload", "full restart", "down"],
)
async def test_a_refresh_does_what_is_declared(tmp_path, active, arguments, verb):
    """The action is that of Salt's `mod_watch` for a running service; without `apply` it is only reported."""
    service = Services(active=active, state="active" if active else "inactive")
    ctx = context(tmp_path, service=service)

    assert await declare("service.running", **arguments).refresh(ctx, False) is False
    assert (service.calls, ctx.report.comment, ctx.report.touched) == ([], f"would {verb} it", False)
    assert await declare("service.running", **arguments).refresh(ctx, True) is False
    assert (service.calls, ctx.report.changes, ctx.report.touched) == ([verb], {"it": True}, True)


@pytest.mark.parametrize(
    ("kind", "arguments", "refused"),
    [
        ("service.enabled", {}, "enable"),
        ("service.running", {"enable": True}, "enable"),
        ("service.running", {}, "start"),
        ("service.masked", {}, "mask"),
    ],
)
async def test_a_plan_fails_where_the_repair_would(tmp_path, kind, arguments, refused):
    """The provider is asked about each change; an earlier state may make a missing service, or remove a mask."""

    class Refusing(Services):
        def __getattr__(self, verb: str) -> Any:
            """Return a function that raises an error, in a plan, too."""

            async def switch(name: str, *_: Any, **__: Any) -> ChangeSet:
                if verb == refused:
                    raise Permanent(f"cannot {verb} {name}: it is made by a program")
                return ChangeSet(changes={name: {}})

            return switch

    for apply in (False, True):
        with pytest.raises(Permanent, match=f"cannot {refused} it: it is made by a program"):
            await declare(kind, **arguments).check_apply(context(tmp_path, service=Refusing()), apply)
    missing = context(tmp_path, service=Refusing(exists=False))
    assert await declare(kind, **arguments).check_apply(missing, False) is False
    masked = context(tmp_path, service=Refusing(masked=True))
    assert await declare("service.running", enable=True).check_apply(masked, False) is False


async def test_a_plan_fails_where_the_reload_would(tmp_path):
    """A service that cannot reload is named before its configuration is changed."""

    class Fixed(Services):
        async def reload(self, name: str, *, test: bool = False, **_: Any) -> ChangeSet:
            """Refuse to reload."""
            raise Permanent(f"cannot reload {name}: its unit has no ExecReload=")

    service = Fixed(active=True, state="active")
    for apply in (False, True):
        with pytest.raises(Permanent, match="cannot reload it: its unit has no ExecReload="):
            await declare("service.running", reload=True).refresh(context(tmp_path, service=service), apply)


async def test_a_service_that_exits_within_its_delay_is_an_error(tmp_path):
    """`init_delay` gives it time to fail."""

    class Weak(Services):
        async def start(self, name: str, **_: Any) -> ChangeSet:
            """Start, and exit at once."""
            return ChangeSet(changes={name: {}})

    with pytest.raises(Permanent, match=r"it was started, but 0\.01 s later it does not run"):
        await declare("service.running", init_delay=0.01).check_apply(context(tmp_path, service=Weak()), True)


async def test_a_service_that_restarts_within_its_delay_is_an_error(tmp_path):
    """`init_delay` gives it time to start again, after a stop or a refresh. Without `init_delay` there is no wait."""

    class Stubborn(Services):
        async def stop(self, name: str, **_: Any) -> ChangeSet:
            """Stop, and start at once."""
            return ChangeSet(changes={name: {}})

    service = Stubborn(active=True, state="active")
    with pytest.raises(Permanent, match=r"it was stopped, but 0\.01 s later it runs again"):
        await declare("service.dead", init_delay=0.01).check_apply(context(tmp_path, service=service), True)
    with pytest.raises(Permanent, match=r"it was stopped, but 0\.01 s later it runs again"):
        await declare("service.dead", init_delay=0.01).refresh(context(tmp_path, service=service), True)
    assert await declare("service.dead", init_delay=60).refresh(context(tmp_path, service=service), False) is False


def test_units_have_their_full_names():
    """A unit file and its service then have the same name."""
    assert declare("service.running", "nginx").uids() == (("unit", "nginx.service"),)
    assert declare("service.running", "backup.timer").uids() == (("unit", "backup.timer"),)


# -- users and groups --------------------------------------------------------------------------------------------------


def people(user: User | None, *groups: str) -> dict[str, Any]:
    """Return interfaces with at most one user, and these groups."""

    async def info(names: Any) -> dict[str, Any]:
        return dict.fromkeys(names, user)

    async def group_info(names: Any) -> dict[str, Any]:
        return {name: Group(name=name) if name in groups else None for name in names}

    return {"user": SimpleNamespace(info=info), "group": SimpleNamespace(info=group_info)}


ALICE = User(
    name="alice", uid=1000, gid=100, primary_group="users", groups=("adm", "sudo"), home="/home/alice",
    shell="/bin/sh", password="$6$s$h", locked=False,
    extra={"expire": None, "roomnumber": None},
)  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "changes"),
    [
        ({}, {}),
        ({"gid": "users", "uid": 1000}, {}),
        ({"gid": "100"}, {}),
        ({"groups": ["sudo", "adm"]}, {}),
        ({"groups": ["sudo", "adm", "users"]}, {}),
        ({"groups": "sudo", "remove_groups": False}, {}),
        ({"groups": "sudo"}, {"groups": ("sudo",)}),
        ({"groups": []}, {"groups": ()}),
        ({"optional_groups": ["sudo", "nowhere"]}, {}),
        ({"optional_groups": ["games"]}, {"groups": ("games",)}),
        ({"password": "$6$s$h"}, {}),
        ({"password": "$6$s$other"}, {"password": "********"}),
        ({"password": "$6$s$other", "enforce_password": False}, {}),
        ({"empty_password": True}, {"password": "********"}),
        ({"fullname": ""}, {}),
        ({"fullname": "Alice", "expire": 7}, {"fullname": "Alice", "expire": 7}),
        ({"expire": -1}, {}),
        ({"password_lock": False}, {}),
        ({"password_lock": True}, {"password_lock": True}),
        ({"password_lock": True, "password": "$6$s$h"}, {"password_lock": True}),
        ({"password_lock": True, "password": "$6$s$other"}, {"password_lock": True, "password": "********"}),
        ({"password_lock": True, "password": "$6$s$other", "enforce_password": False}, {"password_lock": True}),
    ],
    ids=repr,
)
async def test_a_user_is_compared_field_by_field(tmp_path, arguments, changes):
    """Only declared fields are compared; secrets are masked."""
    ctx = context(tmp_path, **people(ALICE, "sudo", "adm", "games"))

    assert await declare("user.present", "alice", **arguments).check_apply(ctx, False) is (not changes)
    assert ctx.report.changes == changes


@pytest.mark.parametrize(
    ("user", "gid", "joined"),
    [
        (ALICE, None, ("games",)),
        (ALICE, "games", ("users",)),
        (ALICE, 7, ("users",)),
        (None, "users", ("games",)),
        (None, 100, ("games",)),
        (None, None, ("games", "users")),
    ],
)
async def test_a_user_is_no_member_of_the_primary_group(tmp_path, user, gid, joined):
    """The primary group may be listed, because the user has it already. With another primary group, that one counts."""
    given = people(user)
    groups = {"users": Group(name="users", gid=100), "games": Group(name="games", gid=7)}
    calls: list[Any] = []

    async def change(name: str, **fields: Any) -> ChangeSet:
        calls.append(fields["groups"])
        return ChangeSet()

    async def group_info(names: Any) -> dict[str, Any]:
        return {name: groups.get(name) for name in names}

    given["user"].add = given["user"].modify = change
    given["group"].info = group_info
    state = declare("user.present", "alice", groups=["users", "games"], gid=gid, allow_gid_change=True)
    with pytest.raises(Permanent, match="still"):  # the account in memory is not changed
        await state.check_apply(context(tmp_path, **given), True)
    assert calls == [joined]


async def test_a_missing_user_would_be_created(tmp_path):
    """Groups that do not exist yet are not an error."""
    ctx = context(tmp_path, **people(None))

    assert await declare("user.present", "alice", groups=["devs"], password="$6$s$h").check_apply(ctx, False) is False
    assert ctx.report.changes == {"name": "alice", "groups": ("devs",), "password": "********"}


@pytest.mark.parametrize(
    ("kind", "name", "arguments"),
    [
        ("user.present", "alice", {"password": "open sesame"}),
        ("user.present", "alice", {"password": "$6$a$b\nroot:x"}),
        ("user.present", "alice", {"password_lock": True, "password": "!$6$a$b"}),
        ("user.present", "alice", {"password_lock": True, "empty_password": True}),
        ("user.present", "alice", {"fullname": "a:b"}),
        ("user.present", "alice", {"shell": "bash"}),
        ("user.present", "-rf", {}),
        ("user.absent", "a:b", {}),
        ("group.present", "a,b", {}),
        ("group.present", "devs", {"members": ["a"], "addusers": ["b"]}),
        ("group.present", "devs", {"addusers": ["a"], "delusers": ["a"]}),
    ],
)
def test_dangerous_or_contradictory_accounts_are_refused(kind, name, arguments):
    """They are refused before anything is read. The message does not repeat a password that is not a hash."""
    with pytest.raises(ValidationError) as refusal:
        declare(kind, name, **arguments)
    assert "sesame" not in str(refusal.value)
