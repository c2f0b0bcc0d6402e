"""A failed attempt that has done a part of its work reports its changes, and subscribers are refreshed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine_bench import Bench, compilation, state
from fake_machine import Machine, Setting
from holdfast import Composite, Context, Delta, Part, Permanent, Watch
from holdfast.agent.engine.call import attempt
from holdfast.agent.engine.call.attempt import ACCOUNT_LIMIT, Job
from holdfast.agent.engine.model.outcome import Outcome
from holdfast.resources.context import Completed
from holdfast.resources.errors import Temporary
from holdfast.resources.kinds import sysctl
from holdfast.resources.testing import FakeContext
from holdfast.states.data import Call


class Pair(Setting, kind="zpair.present"):
    """Two settings of the machine, `x.first` and `x.second`; the second may be broken."""

    first: str = "right"
    second: str = "right"

    def desired(self) -> Mapping[str, Any]:
        """Return both values."""
        return {"first": self.first, "second": self.second}

    async def probe(self, ctx: Context) -> dict[str, Any] | None:
        """Return the values that exist."""
        await super().probe(ctx)
        seen = {
            part: self.machine.settings[f"{self.name}.{part}"]
            for part in ("first", "second")
            if f"{self.name}.{part}" in self.machine.settings
        }
        return seen or None

    async def apply(self, ctx: Context, delta: Delta) -> None:
        """Apply one value after the other."""
        for part in delta.fields:
            await self.machine.gate(f"apply {part}")
            if part in self.machine.broken:
                raise self.machine.broken[part]
            self.machine.settings[f"{self.name}.{part}"] = getattr(self, part)
            self.machine.done.append(f"change {self.name}")

    def watch(self, ctx: Context) -> Watch:
        """Watch like any setting."""
        return super().watch(ctx)


class Parts(Composite, kind="zparts.present"):
    """A composite with a pair as its part."""

    def parts(self) -> Sequence[Part]:
        """Return the pair."""
        return (Part("pair", "zpair.present", {"name": self.name}),)


ALL = {"first": {"old": None, "new": "right"}, "second": {"old": None, "new": "right"}}
FIRST = {**ALL, "second": {"old": None, "new": None}}
BROKEN = Permanent("the second is broken")


async def once(bench: Bench, *states: Any, **options: Any) -> None:
    """Run the states once, without watches."""
    async with bench.starting(*states, watch=False, **options) as engine:
        await engine.settle()


def told(outcome: Outcome) -> tuple[Any, ...]:
    """Return result, changes and comment."""
    return outcome.result, outcome.changes, outcome.comment


async def test_the_outcome_reports_changes_before_the_error(bench: Bench, machine: Machine) -> None:
    """Result, changes and comment do. An attempt that has changed nothing reports no change."""
    machine.broken["second"] = BROKEN
    async with bench.running(state("a", "zpair.present")) as engine:
        assert told(bench.outcomes("a")[0]) == (False, FIRST, "the second is broken; created a")

        engine.recheck()
        await engine.settle()
        assert told(bench.outcomes("a")[1]) == (False, {}, "the second is broken")
        assert engine.status()[0]["comment"].startswith("the second is broken")


@pytest.mark.parametrize("kind", ["watch", "listen", "onchanges"])
@pytest.mark.parametrize("daemon", [True, False], ids=["agent", "one-shot"])
async def test_the_changes_of_a_failed_attempt_are_delivered_after_a_success(
    bench: Bench, machine: Machine, tmp_path: Path, kind: str, daemon: bool
) -> None:
    """The successful attempt itself changes nothing, because another program has repaired the rest.

    A listener runs at once, as in Salt.
    """
    bench.journal_path = tmp_path / "journal.db"
    states = (
        state("a", "zpair.present"),
        state("bell", "zaction.run" if kind == "onchanges" else "zsetting.present", **{kind: ["a"]}),
    )
    machine.broken["second"] = BROKEN
    machine.settings["bell"] = "right"
    ring = "run bell" if kind == "onchanges" else "refresh bell"
    engine = bench.engine(watch=daemon)
    await engine.swap(compilation(*states), "start")
    await engine.settle()
    assert machine.done.count(ring) == (kind == "listen")

    machine.settings["a.second"] = "right"
    if daemon:
        engine.recheck()
        await engine.settle()
        await engine.stop()
    else:
        await engine.stop()
        bench.journal.close()
        await once(bench, *states)
    assert machine.done.count(ring) == 1
    bench.journal.close()


async def test_a_retry_without_changes_delivers_those_of_the_attempt_before(bench: Bench, machine: Machine) -> None:
    """The same holds for one-shot runs."""

    async def mend() -> None:
        await bench.elapse(5)
        machine.settings["a.second"] = "right"

    machine.broken["second"] = BROKEN
    machine.settings["bell"] = "right"
    task = asyncio.create_task(mend())
    await once(
        bench, state("a", "zpair.present", meta={"retry": {"attempts": 2, "interval": 10}}), state("bell", watch=["a"])
    )
    await task

    assert [outcome.result for outcome in bench.outcomes("a")] == [True]
    assert "the second is broken; created a" in bench.notices("attempt-failed")[0].text
    assert machine.done.count("refresh bell") == 1


async def test_a_composite_has_changed_when_its_part_succeeds_in_the_end(bench: Bench, machine: Machine) -> None:
    """The part reports its first change itself; the composite, which did not run then, is refreshed afterwards."""
    machine.broken["second"] = BROKEN
    async with bench.running(
        state("part", "zpair.present"), state("whole", "zparts.present", require=["part"], watch=["part"])
    ) as engine:
        assert bench.outcomes("part")[0].changes == FIRST
        assert bench.outcomes("whole")[-1].reason == "requisite_failed"

        machine.settings["part.second"] = "right"
        engine.recheck()
        await engine.settle()
        assert bench.outcomes("whole")[-1].changes == {"whole": "changed"}


async def test_a_check_for_changes_that_fails_or_hangs_is_ignored(bench: Bench, machine: Machine) -> None:
    """The outcome reports the error of the attempt. A check that hangs delays it by a few seconds."""
    machine.hold("apply second")
    machine.broken["second"] = BROKEN
    async with bench.starting(state("a", "zpair.present")) as engine:
        await bench.elapse(1)
        machine.broken["look a"] = RuntimeError("cannot look")
        machine.free()
        await engine.settle()
        assert told(bench.outcomes("a")[0]) == (False, {}, "the second is broken")

        del machine.broken["look a"]
        machine.hold("apply second")
        engine.recheck()
        await bench.elapse(1)
        machine.hold("a")
        machine.free("apply second")
        began = asyncio.get_running_loop().time()
        await engine.settle()
        assert told(bench.outcomes("a")[1]) == (False, {}, "the second is broken")
        assert asyncio.get_running_loop().time() - began == pytest.approx(ACCOUNT_LIMIT)
        machine.free()


async def test_an_attempt_that_exceeds_its_timeout_reports_changes(bench: Bench, machine: Machine) -> None:
    """The timeout does not apply to the check for changes."""
    machine.hold("apply second")
    async with bench.running(state("a", "zpair.present", meta={"timeout": 5})):
        assert told(bench.outcomes("a")[0]) == (False, FIRST, "did not finish within 5 s; created a")
        machine.free()


# -- kinds ---------------------------------------------------------------------------------------------------------


async def tried(ctx: FakeContext, kind: str, name: str, **arguments: Any) -> Outcome:
    """Return the outcome of an attempt."""
    return await attempt.run(Job(declared(kind, name, **arguments), ctx, apply=True), lambda _: None)


def declared(kind: str, name: str, **arguments: Any) -> Call:
    """Return the call of a real kind."""
    return compilation(state("it", kind, name=name, **arguments)).calls[0]


async def test_a_kernel_parameter_that_is_set_but_not_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has the new value, but the file could not be written."""
    monkeypatch.setattr(sysctl, "KERNEL", str(tmp_path))
    (tmp_path / "vm").mkdir()
    (tmp_path / "vm/swappiness").write_text("60\n")
    outcome = await tried(FakeContext(tmp_path), "sysctl.present", "vm.swappiness", value=1, config="/proc/x.conf")

    assert (outcome.result, outcome.changes) == (False, {"vm.swappiness": "1"})
    assert outcome.comment.endswith("; set vm.swappiness to 1")


async def test_a_cron_job_that_was_added_although_crontab_failed(tmp_path: Path) -> None:
    """Crontab may have been killed after it had written."""

    class Spool(FakeContext):
        tab = ""

        async def run(self, *argv: str, stdin: str | None = None, **_: Any) -> Completed:
            """List the table, or replace it and fail."""
            if argv[-1] == "-":
                self.tab = stdin or ""
                raise Temporary("crontab was killed")
            return Completed(argv, 1, 0 if self.tab else 1, self.tab, "" if self.tab else "no crontab for root")

    outcome = await tried(Spool(tmp_path), "cron.present", "/bin/job", hour="3")
    assert (outcome.result, outcome.comment) == (False, "crontab was killed; added /bin/job to the crontab of root")
    assert outcome.changes == {"root": "/bin/job"}


class Units:
    """A service manager in which one operation fails."""

    def __init__(self, fails: str, **status: Any) -> None:
        from holdfast.resources.interfaces.results import ServiceStatus

        self.now = ServiceStatus(
            **{
                "name": "toyd",
                "exists": True,
                "active": False,
                "state": "inactive",
                "enabled": False,
                "masked": False,
                **status,
            }
        )
        self._fails = fails

    async def status(self, names: Any) -> dict[str, Any]:
        """Return the present state."""
        return {"toyd": self.now}

    async def _set(self, verb: str, **now: Any) -> None:
        self.now = self.now.model_copy(update=now)
        if verb == self._fails:
            raise Permanent(f"cannot {verb} toyd")

    async def start(self, *_: Any, **__: Any) -> None:
        """Start the service."""
        await self._set("start", active=True, state="active")

    async def enable(self, *_: Any, **__: Any) -> None:
        """Enable the service, or fail."""
        await self._set("enable")

    async def restart(self, *_: Any, **__: Any) -> None:
        """Stop the service, and fail."""
        await self._set("restart", active=False, state="failed")


async def test_a_service_that_is_started_and_cannot_be_enabled(tmp_path: Path) -> None:
    """The service runs."""
    outcome = await tried(
        FakeContext(tmp_path, interfaces={"service": Units("enable")}), "service.running", "toyd", enable=True
    )
    assert told(outcome) == (False, {"toyd": True}, "cannot enable toyd; started toyd")


async def test_how_a_service_had_ended_is_told_if_the_run_started_it(tmp_path: Path) -> None:
    """A run that only enables a stopped service, or that has no log, reports nothing."""
    how = "toyd.service was killed by signal 9 (SIGKILL)"

    async def run(**arguments: Any) -> str:
        units = Units("", state="failed", extra={"ended": how})
        ctx = FakeContext(tmp_path, interfaces={"service": units})
        return (await tried(ctx, **{"kind": "service.running", "name": "toyd", **arguments})).ended

    assert await run() == how
    assert await run(kind="service.enabled") == ""
    units = Units("", state="failed", extra={"ended": how})
    call = compilation(state("it", "service.running", name="toyd", meta={"no_log": True})).calls[0]
    ctx = FakeContext(tmp_path, interfaces={"service": units})
    assert (await attempt.run(Job(call, ctx, apply=True), lambda _: None)).ended == ""


async def test_a_restart_after_which_a_service_is_down(tmp_path: Path) -> None:
    """The service ran before."""
    units = Units("restart", active=True, state="active")
    job = Job(
        declared("service.running", "toyd"),
        FakeContext(tmp_path, interfaces={"service": units}),
        apply=True,
        refresh=True,
    )
    outcome = await attempt.run(job, lambda _: None)
    assert told(outcome) == (False, {"toyd": True}, "cannot restart toyd; stopped toyd")


async def test_a_user_who_is_created_and_gets_no_password(tmp_path: Path) -> None:
    """The account exists. The report contains no password hash, neither the old nor the new one."""
    from holdfast.resources.interfaces.results import User

    class Accounts:
        made: User | None = None

        async def info(self, names: Any) -> dict[str, User | None]:
            """Return the users that exist."""
            return dict.fromkeys(names, self.made)

        async def add(self, name: str, **fields: Any) -> None:
            """Make it."""
            self.made = User(
                name=name,
                uid=1000,
                gid=1000,
                primary_group=name,
                groups=(),
                home="/home/app",
                shell="/bin/sh",
                password="!",
            )

        async def set_password(self, *_: Any) -> None:
            """Fail."""
            raise Permanent("cannot set the password of app")

    accounts = Accounts()
    ctx = FakeContext(tmp_path, interfaces={"user": accounts, "group": accounts})
    outcome = await tried(
        ctx, "user.present", "app", shell="/bin/sh", password="$6$salt$hashhashhash", createhome=False
    )
    assert (outcome.result, outcome.comment) == (False, "cannot set the password of app; created user app")
    assert outcome.changes["name"] == "app"
    assert "hash" not in str(outcome.changes)
