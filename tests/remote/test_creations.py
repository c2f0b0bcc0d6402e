"""Creations whose result is not known: the token is durable before the call, and the same for each attempt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.resources.assignment import Assignment
from holdfast.resources.contract import DECLARED
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.report import Report
from holdfast.resources.testing import FakeContext
from remote_bench import LocalPlugin, cloud_kinds, cloud_plugin


class Death(Exception):
    """The agent dies."""


class Cloud:
    """Runs declarations of networks in a cloud that gives each a new identifier, and finds none by its arguments."""

    def __init__(self, directory: Path) -> None:
        self.things: dict[str, dict[str, Any]] = {}
        self.plugin: LocalPlugin = cloud_plugin(self.things, tokens={})
        self.ctx = FakeContext(directory, identity="aws-ec2.vpc[main]", plugins={"aws": self.plugin})

    async def run(self, block: str = "10.0.0.0/16", *, apply: bool = True, **more: Any) -> bool:
        """Run the declaration of a network."""
        self.ctx.report, self.ctx.assignment = Report(), Assignment()
        declared = DECLARED["aws-ec2.vpc"].declare(name="main", cidr_block=block, **more)
        return bool(await declared.check_apply(self.ctx, apply))

    async def die(self, block: str = "10.0.0.0/16") -> None:
        """Run the declaration until the cloud has created the network; then the agent dies before the answer."""

        def dead(answer: Any) -> Any:
            raise Death

        self.plugin.answers["Create"] = dead
        with pytest.raises(Death):
            await self.run(block)
        del self.plugin.answers["Create"]

    @property
    def record(self) -> Any:
        """The record of the network."""
        return self.plugin.records.get("main")

    @property
    def tokens(self) -> list[str]:
        """The tokens of all requested creations."""
        return [each.subject.intent for each in self.plugin.requests if type(each).__name__ == "CreateRequest"]

    @property
    def blocks(self) -> list[str]:
        """The networks that exist."""
        return [each["cidr_block"] for each in self.things.values()]


@pytest.fixture
def cloud(note: Any, tmp_path: Path) -> Cloud:
    """A cloud without networks."""
    cloud_kinds()
    return Cloud(tmp_path)


async def test_an_agent_that_dies_before_it_has_the_identifier_creates_nothing_twice(cloud):
    """The next run finds the network by the token, which is then removed."""
    await cloud.die()
    left = cloud.record
    right = await cloud.run()

    assert (left.id, left.intent) == ("", cloud.tokens[0])
    assert right is True
    assert len(cloud.things) == len(cloud.tokens) == 1
    assert (cloud.record.id, cloud.record.intent) == ("vpc-1", "")


async def test_a_provider_that_finds_nothing_by_the_token_gets_the_same_in_the_next_creation(cloud):
    """Such a provider only passes the token to its server."""
    await cloud.die()

    def not_found(answer: Any) -> Any:
        answer.results[0].exists = False
        return answer

    cloud.plugin.answers["Read"] = not_found
    await cloud.run()

    assert cloud.tokens == [cloud.tokens[0]] * 2
    assert len(cloud.things) == 1


async def test_other_arguments_meanwhile_change_what_was_made(cloud):
    """The network is found by the token, not by the arguments."""
    await cloud.die()
    await cloud.run("10.9.0.0/16")

    assert cloud.blocks == ["10.9.0.0/16"]


async def test_what_was_made_and_is_then_unwanted_is_deleted(cloud):
    """The network is deleted, and its record removed."""
    await cloud.die()
    await cloud.run(ensure="absent")

    assert (cloud.things, cloud.record) == ({}, None)


async def test_a_replacement_that_was_not_remembered_is_not_made_twice(cloud):
    """The former network is deleted at the end."""
    await cloud.run()
    await cloud.die("10.1.0.0/16")
    left, both = cloud.record, [*cloud.blocks]
    await cloud.run("10.1.0.0/16")

    assert (left.id, left.intent, both) == ("vpc-1", cloud.tokens[1], ["10.0.0.0/16", "10.1.0.0/16"])
    assert cloud.blocks == ["10.1.0.0/16"]
    assert (cloud.tokens[1], cloud.record.intent) == (cloud.tokens[2], "")


@pytest.mark.parametrize(("code", "error", "same"), [("retry", Temporary, True), ("permanent", Permanent, False)])
async def test_a_failure_keeps_the_token_unless_the_provider_says_that_nothing_was_made(cloud, code, error, same):
    """After a temporary failure, the server may still have created the network."""

    def failed(answer: Any) -> Any:
        answer.failure.code = code
        return answer

    cloud.plugin.answers["Create"] = failed
    with pytest.raises(error):
        await cloud.run()
    kept = cloud.record is not None
    cloud.things.clear()
    del cloud.plugin.answers["Create"]
    await cloud.run()

    assert kept is same
    assert (cloud.tokens[0] == cloud.tokens[1]) is same
    assert cloud.record.intent == ""


async def test_a_plan_writes_no_token(cloud):
    """A plan creates nothing, so it needs no token."""
    await cloud.run(apply=False)

    assert cloud.record is None
    assert cloud.tokens == [""]
