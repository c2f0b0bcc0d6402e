"""`converged` of a running agent: its exit code, its metric, its health and its text agree."""

import pytest

from holdfast_process import Agent, Tree

KIND = '''"""A kind whose watch works while a file is there."""

from holdfast import Context, Delta, Permanent, Resource, Watch


class Lamp(Resource, kind="lamp.on"):
    """The name is the path of the file."""

    async def probe(self, ctx: Context) -> dict[str, object]:
        return {}

    async def apply(self, ctx: Context, delta: Delta) -> None:
        return None

    async def watch(self, ctx: Context) -> Watch:
        async for _ in ctx.watch_path(self.name):
            try:
                await ctx.read_text(self.name)
            except FileNotFoundError:
                raise Permanent("the lamp is out") from None
            yield None
'''


@pytest.fixture
def tree(tmp_path):
    """Return a configuration without states."""
    return Tree(tmp_path)


def converged(tree, agent, *, yes):
    """Wait until exit code, JSON and metric agree."""

    def said():
        status = tree("status", "--format", "json")
        metric = "\nholdfast_converged 1\n" in tree("metrics", check=0).stdout
        return {status.returncode == 0, '"converged": true' in status.stdout, metric} == {yes}

    agent.wait(said, "the agent to have converged" if yes else "the agent not to have converged")


@pytest.mark.parametrize("where", ["agent", "state"])
def test_an_agent_in_noop_is_an_audit_that_can_be_monitored(tree, where):
    """A host that differs from its states has not converged, though nothing is left to check.

    Once it is as declared, it has converged.
    """
    tree.settings("engine: {noop: true}\n" if where == "agent" else "")
    noop = "    - noop: true\n" if where == "state" else ""
    tree.sls("motd", f"HOST/motd:\n  file.managed:\n    - contents: hello\n    - mode: '0644'\n{noop}")
    with Agent(tree) as agent:
        converged(tree, agent, yes=False)
        assert "1 of 1 resource would be changed (noop)" in tree("status", check=1).stdout
        agent.wait_log("checked in")
        assert ("changes nothing (noop) and compares this host with" in agent.log) == (where == "agent")
        (tree.host / "motd").write_text("hello\n")
        converged(tree, agent, yes=True)
        (tree.host / "motd").write_text("defaced\n")
        converged(tree, agent, yes=False)
        assert (tree.host / "motd").read_text() == "defaced\n"


def test_a_broken_watch_is_reported_everywhere_until_it_works_again(tree):
    """Status, health, metrics and `why` report it, and the host has not converged."""
    (tree.etc / "resources").mkdir(mode=0o755)
    (tree.etc / "resources" / "lamp.py").write_text(KIND)
    (tree.etc / "resources" / "lamp.py").chmod(0o644)
    (tree.host / "lamp").touch()
    tree.sls("lamp", "HOST/lamp:\n  lamp.on: []\n")
    identity = f"lamp.on[{tree.host}/lamp]"
    with Agent(tree) as agent:
        converged(tree, agent, yes=True)
        (tree.host / "lamp").unlink()
        converged(tree, agent, yes=False)
        status = tree.json("status")

        assert status["status"] == "1 of 1 resource not watched"
        assert [
            (each["code"], "the lamp is out" in each["text"], identity in each["text"]) for each in status["health"]
        ] == [("watch-broken", True, True)]
        assert [row["state"] for row in status["resources"]] == ["unwatched"]
        assert 'holdfast_unwatched{kind="lamp.on"} 1' in tree("metrics", check=0).stdout
        assert "the watch has failed (the lamp is out)" in " ".join(tree("why", identity, check=0).stdout.split())
        (tree.host / "lamp").touch()
        agent.wait_log("is watched again")
        converged(tree, agent, yes=True)
        assert tree.json("status")["health"] == []
        for doubled in (f"cannot watch {identity}", "no longer true"):  # the lines of the resource say both
            assert doubled not in agent.log
