"""Deletions that wait: of former resources after a replacement, and of absent resources to which others refer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.resources.contract import DECLARED
from holdfast.states.errors import CompileError
from remote_bench import LocalPlugin, cloud_kinds, cloud_plugin
from remote_engine import RemoteEngine

VPC = "main:\n  aws-ec2.vpc:\n    - cidr_block: 10.0.0.0/16\n"
GROUP = "web:\n  aws-ec2.security_group:\n    - vpc: {ref: main}\n    - description: the web servers\n"
PEER = (
    "peer:\n  aws-ec2.security_group:\n    - vpc: vpc-9\n    - description: others\n"
    "    - ingress: [{protocol: tcp, from_port: 1, to_port: 2, source_group: {ref: web}}]\n"
)
ABSENT = "    - ensure: absent\n"
STATES = VPC + GROUP + PEER
GONE = VPC + ABSENT + GROUP + ABSENT + PEER + ABSENT
OTHER = STATES.replace("10.0.", "10.1.")
NAMES = ("aws-ec2.vpc[main]", "aws-ec2.security_group[web]", "aws-ec2.security_group[peer]")


class Cloud:
    """A cloud that deletes nothing to which something refers, and an agent."""

    def __init__(self, directory: Path) -> None:
        self.things: dict[str, dict[str, Any]] = {}
        self.engine = RemoteEngine(directory, cloud_plugin(self.things))
        cloud_kinds()

    @property
    def plugin(self) -> LocalPlugin:
        """The plugin."""
        return self.engine.plugin

    async def run(self, *texts: str, **options: Any) -> list[str]:
        """Apply these states one after the other, by a new engine; return what was done or failed."""
        self.engine.outcomes.clear()
        async with self.engine.running(texts[0], **options) as engine:
            for text in texts[1:]:
                await engine.swap(self.engine.compiled(text))
                await engine.settle()
        return [each.comment for each in self.engine.outcomes if each.changes or each.result is False]

    @property
    def results(self) -> list[bool | None]:
        """The result of each resource, in the order of the states."""
        return [self.engine.of(name).result for name in NAMES]

    def refuse(self, method: str, code: str = "failed") -> None:
        """Make the provider refuse these calls without any effect."""
        call = self.plugin.connection.call

        async def refusing(name: str, request: Any, timeout: float | None = None) -> Any:
            if name != method or getattr(request, "dry_run", False):
                return await call(name, request, timeout)
            request.dry_run = True
            answer = await call(name, request, timeout)
            answer.failure.code, answer.failure.message = code, "no"
            return answer

        self.plugin.connection.call = refusing  # type: ignore[method-assign]
        self.allow = lambda: setattr(self.plugin.connection, "call", call)


@pytest.fixture
def cloud(note: Any, tmp_path: Path) -> Cloud:
    """A cloud without anything in it."""
    return Cloud(tmp_path)


async def test_a_former_resource_goes_after_those_that_get_the_new_one(cloud):
    """All three are replaced before the first is deleted; otherwise the cloud would refuse."""
    said = await cloud.run(STATES, OTHER)

    assert [each.partition(",")[0] for each in said[3:6]] == [
        "replaced vpc main",
        "replaced security_group web",
        "changed ingress of security_group peer",
    ]
    assert said[6:] == [
        "removed the former security_group securitygroup-2 of security_group web",
        "removed the former vpc vpc-1 of vpc main",
    ]
    assert sorted(each["name"] for each in cloud.things.values()) == ["main", "peer", "web"]


async def test_a_deletion_after_a_repair_of_drift_is_no_repair(cloud, monkeypatch):
    """Otherwise, it would count as another repair, and the log would not say what was removed."""
    remote = DECLARED["aws-ec2.vpc"].remote
    monkeypatch.setattr(remote, "remote", replace(remote.remote, poll=0.02))
    async with cloud.engine.running(VPC + GROUP):
        cloud.things["vpc-1"]["cidr_block"] = "10.9.0.0/16"
        repaired = await cloud.engine.until(lambda each: each.comment.startswith("replaced vpc main"))
        removed = await cloud.engine.until(lambda each: each.comment == "removed the former vpc vpc-1 of vpc main")

    assert (repaired.cause, removed.cause) == ("poll", "recovery")


async def test_a_resource_that_is_replaced_again_has_several_former_ones(cloud):
    """The deletion of the first one fails. All of them are deleted as soon as this succeeds."""
    await cloud.run(VPC + GROUP)
    cloud.things["squatter"] = {"name": "squatter", "vpc": "vpc-1"}
    again = VPC.replace("10.0.", "10.2.")
    failed = await cloud.run(VPC.replace("10.0.", "10.1.") + GROUP, again + GROUP)
    cloud.things.pop("squatter")
    await cloud.run(again + GROUP)

    assert failed.count("the former vpc vpc-1 cannot be deleted: vpc-1 is used by squatter") == 2
    assert [each for each in failed if each.startswith("replaced vpc main")] != []
    assert {each["name"]: each.get("cidr_block") for each in cloud.things.values()} == {
        "main": "10.2.0.0/16",
        "web": None,
    }


async def test_absent_resources_go_before_those_that_they_refer_to(cloud):
    """The references determine the order, in one run. Afterwards nothing is left to do, even with an empty journal."""
    await cloud.run(STATES)
    said = await cloud.run(GONE)
    again, results = await cloud.run(GONE), cloud.results

    assert said == ["removed security_group peer", "removed security_group web", "removed vpc main"]
    assert cloud.things == {}
    assert (again, results) == ([], [True, True, True])
    assert cloud.engine.of(NAMES[1]).comment == "is absent, because aws-ec2.vpc[main] is"
    assert cloud.plugin.records == {}


async def test_a_plan_knows_what_of_absent_resources_would_go(cloud):
    """The identifiers are known without a change. A refusal because the resource is in use is not reported."""
    await cloud.run(STATES)
    said = await cloud.run(GONE, noop=True)

    assert said == [f"would remove {each}" for each in ("vpc main", "security_group web", "security_group peer")]
    assert len(cloud.things) == 3


async def test_a_plan_tells_what_the_provider_would_refuse_as_long_as_others_use_the_resource(cloud):
    """It is not a failure, because the users are deleted first, and `apply` checks again then.

    Without users it is a failure.
    """
    call = cloud.plugin.connection.call

    async def refusing(name: str, request: Any, timeout: float | None = None) -> Any:
        answer = await call(name, request, timeout)
        if name == "Delete" and request.dry_run and "vpc" in request.subject.token:
            answer.failure.code, answer.failure.message = "permanent", "it has routes"
        return answer

    await cloud.run(STATES)
    cloud.plugin.connection.call = refusing
    planned = await cloud.run(GONE, noop=True)
    result = cloud.engine.of(NAMES[0]).result
    alone = await cloud.run(VPC + ABSENT, noop=True)

    assert (planned[0], result) == ("would remove vpc main, may be refused: it has routes", None)
    assert planned[1:] == ["would remove security_group web", "would remove security_group peer"]
    assert alone == ["it has routes"]


async def test_a_written_order_and_references_agree(cloud):
    """The peer requires the deletion of the network, and waits for it, although another one must come first."""
    require = "    - require: [{aws-ec2: main}]\n"
    peer = PEER.partition("    - ingress")[0]
    await cloud.run(VPC + GROUP + peer)
    said = await cloud.run(VPC + ABSENT + GROUP + ABSENT + peer + ABSENT + require)

    assert said == ["removed security_group web", "removed vpc main", "removed security_group peer"]


async def test_an_absent_resource_is_found_without_what_does_not_identify_it(cloud):
    """The target of such an argument never existed for this agent, but the resource exists."""
    await cloud.run(PEER.replace("{ref: web}", "securitygroup-7"))
    said = await cloud.run(VPC + ABSENT + GROUP + ABSENT + PEER + ABSENT)

    assert said == ["removed security_group peer"]
    assert cloud.things == {}


async def test_nothing_goes_while_a_user_fails(cloud):
    """The former network stays until its group has run, even if the agent is restarted in between."""
    await cloud.run(STATES)
    cloud.refuse("Update")
    failed, results = await cloud.run(OTHER), cloud.results
    left = [each for each in cloud.things if each in ("vpc-1", "securitygroup-2")]
    cloud.allow()
    done = await cloud.run(OTHER)

    assert failed[-3:] == [
        "no",
        "its deletion is skipped because of aws-ec2.security_group[peer]",
        "its deletion is skipped because of aws-ec2.security_group[web]",
    ]
    assert (results, left) == ([False, False, False], ["vpc-1", "securitygroup-2"])
    assert done == [
        "changed ingress of security_group peer",
        "removed the former security_group securitygroup-2 of security_group web",
        "removed the former vpc vpc-1 of vpc main",
    ]
    assert cloud.results == [True, True, True]


async def test_a_deletion_that_fails_blocks_no_user(cloud):
    """The users have what they need. The failure is reported until the next check, which tries the deletion again."""
    cloud.things["squatter"] = {"name": "squatter", "vpc": "vpc-1"}
    async with cloud.engine.running(VPC + GROUP) as engine:
        await engine.swap(cloud.engine.compiled(VPC.replace("10.0", "10.1") + GROUP))
        await engine.settle()
        failed = cloud.engine.of(NAMES[0])
        cloud.things.pop(next(each for each in cloud.things if cloud.things[each]["name"] == "web"))
        engine.trigger(NAMES[1])
        await engine.settle()
        repaired = cloud.engine.of(NAMES[1])
        cloud.things.pop("squatter")
        engine.trigger(NAMES[0])
        await engine.settle()

    assert (failed.result, failed.deletes_later) == (False, True)
    assert failed.comment == "the former vpc vpc-1 cannot be deleted: vpc-1 is used by squatter"
    assert repaired.comment == "created security_group web"
    assert cloud.engine.of(NAMES[0]).comment == "removed the former vpc vpc-1 of vpc main"
    assert "vpc-1" not in cloud.things


async def test_the_deletion_of_an_absent_resource_that_fails_is_tried_alone_the_next_time(cloud):
    """The resources that referred to it are deleted already, and those that it refers to wait for it."""
    await cloud.run(STATES)
    cloud.things["squatter"] = {"name": "squatter", "vpc": "securitygroup-2"}
    async with cloud.engine.running(GONE) as engine:
        failed, waiting = cloud.engine.of(NAMES[1]), cloud.engine.of(NAMES[0])
        cloud.things.pop("squatter")
        cloud.engine.outcomes.clear()
        engine.trigger(NAMES[1])
        await engine.settle()

    assert failed.comment == "securitygroup-2 is used by squatter"
    assert waiting.comment == "its deletion is skipped because of aws-ec2.security_group[web]"
    said = [each.comment for each in cloud.engine.outcomes]
    assert said[:1] == ["removed security_group web"]
    assert "removed vpc main" in said
    assert cloud.things == {}


async def test_what_requires_an_absent_resource_does_not_run_if_it_cannot_be_deleted(cloud):
    """Unlike in the other tests, nothing refers to the absent resource."""
    await cloud.run(VPC)
    cloud.things["squatter"] = {"name": "squatter", "vpc": "vpc-1"}
    said = await cloud.run(VPC + ABSENT + "next:\n  test.succeed_with_changes:\n    - require: [{aws-ec2: main}]\n")

    assert said == ["vpc-1 is used by squatter", "skipped because of aws-ec2.vpc[main]"]


def test_a_resource_cannot_refer_to_one_that_is_to_be_absent(cloud):
    """The error has the line of the reference."""
    with pytest.raises(CompileError) as caught:
        cloud.engine.compiled(VPC + ABSENT + GROUP)

    (problem,) = caught.value.problems
    assert (problem.code, problem.location.line) == ("reference-absent", 7)
    assert problem.message == "aws-ec2.security_group[web] refers to aws-ec2.vpc[main], which is declared absent"
