"""Real agents and a real etcd. Each test starts agents, which takes a second."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from deadline import within
from etcd_server import Cluster, installed
from holdfast_process import SRC, Agent, Tree, holdfast

pytestmark = pytest.mark.skipif(not installed(), reason="etcd is not installed (Debian: etcd-server)")

PAGE = Path(__file__).parents[2] / "docs/etcd.md"
SECRET = "hunter22-and-more"


@pytest.fixture
def make(tmp_path: Path):
    """A function that makes the configuration of a host with a name, and with the kinds of docs/etcd.md."""

    def tree(name: str) -> Tree:
        found = Tree(tmp_path / name)
        (found.etc / "resources").mkdir(mode=0o755)
        kinds = PAGE.read_text().partition("```python\n")[2].partition("```\n")[0]
        (found.etc / "resources/shared.py").write_text(kinds)
        return found

    return tree


def share(tree: Tree, cluster: Cluster, prefix: str, more: str = "") -> None:
    """Name the cluster in agent.yaml; the host has the name of its directory."""
    tree.settings(f"etcd:\n  endpoints: [{', '.join(f'http://{each}' for each in cluster.endpoints)}]\n"
                  f"  prefix: {prefix}\n{more}engine: {{flap_limit: 1000}}\n")  # fmt: skip
    tree.config.write_text(tree.config.read_text().replace("id: test", f"id: {tree.root.name}"))


def publish(tree: Tree, text: str) -> None:
    """Make the tree publish the file `in` as the string `color`."""
    (tree.host / "in").write_text(text)
    tree.sls("color", "color:\n  shared.publish:\n    - file: HOST/in\n")


def copy(tree: Tree) -> Path:
    """Make the tree write the string `color` to a file; return its path."""
    tree.sls("color", "HOST/out:\n  shared.copied:\n    - key: color\n")
    return tree.host / "out"


def conditions(tree: Tree) -> dict[str, str]:
    """Return the texts of the present conditions by code."""
    return {each["code"]: each["text"] for each in tree.json("status")["health"]}


def states(tree: Tree) -> set[str]:
    """Return in which states resources are."""
    return {each["state"] for each in tree.json("status")["resources"]}


def content(path: Path) -> str:
    """Return the text of a file; nothing while it does not exist."""
    return path.read_text() if path.exists() else ""


def test_a_drift_on_one_host_is_seen_by_another_within_milliseconds(make, etcd, prefix):
    """A file is changed on one host, its agent sets the string, and the other agent writes a file: 20 times."""
    one, two = make("web1"), make("web2")
    publish(one, "0")
    out = copy(two)
    for tree in (one, two):
        share(tree, etcd, prefix)
    with Agent(one), Agent(two) as follower, within(20):
        for number in range(20):
            (one.host / "in").write_text(str(number))
            follower.wait(lambda number=number: content(out) == str(number), f"the text {number}")


def test_an_agent_begins_without_etcd_and_goes_on_when_it_comes(make, prefix):
    """It manages what needs no shared string, and says what it waits for; so it does after etcd was lost."""
    tree = make("web1")
    publish(tree, "red")
    tree.file()
    with Cluster() as cluster:
        cluster.members[0].kill()
        share(tree, cluster, prefix)
        with Agent(tree) as agent:
            agent.wait(lambda: content(tree.host / "motd"), "the file")
            agent.wait_log("cannot read the shared strings: cannot reach etcd")
            assert "strings that hosts share cannot be read" in conditions(tree)["etcd-unavailable"]
            cluster.start(cluster.members[0])
            agent.wait(lambda: tree.json("status")["converged"] and not conditions(tree), "the end of the failure")
            since = len(agent.log)
            cluster.members[0].kill()
            agent.wait(lambda: "etcd-unavailable" in conditions(tree), "the condition")
            (tree.host / "in").write_text("blue")
            agent.wait_log("cannot change the shared strings", since)
            began = len(agent.log)
            (tree.host / "motd").write_text("drifted")
            agent.wait_log(f"repaired file.managed[{tree.host}/motd]", began)
            cluster.start(cluster.members[0])
            agent.wait(lambda: tree.json("status")["converged"] and not conditions(tree), "the end of the failure")


def test_an_etcd_that_hangs_delays_no_other_repair(make, prefix):
    """The run that waits for an answer gives its worker away. The agent stops in spite of it."""
    tree = make("web1")
    publish(tree, "red")
    tree.file()
    with Cluster() as cluster:
        share(tree, cluster, prefix)
        tree.config.write_text(tree.config.read_text().replace("flap_limit: 1000", "workers: 1, stop_timeout: 0.2"))
        with Agent(tree) as agent:
            cluster.members[0].signal(signal.SIGSTOP)
            since = len(agent.log)
            (tree.host / "in").write_text("blue")
            agent.wait(lambda: "running" in states(tree), "the run that waits for etcd")
            (tree.host / "motd").write_text("drifted")
            agent.wait_log(f"repaired file.managed[{tree.host}/motd]", since)
            assert "cannot change the shared strings" not in agent.log[since:]
            with within(9):
                agent.stop()


def test_the_settings_change_while_the_agent_runs(make, etcd, prefix):
    """The settings change to etcd and back.

    An agent that never used etcd has not imported its client, which takes memory.
    """
    one, two = make("web1"), make("web2")
    publish(one, "red")
    out = copy(two)
    share(one, etcd, prefix)
    with Agent(one) as agent, Agent(two, PYTHONPROFILEIMPORTTIME="1") as other:
        assert "asyncio" in other.log
        assert not any(name in other.log for name in ("grpc", "google.protobuf", "drivers.etcd", "etcd_session"))
        assert content(out) == ""
        share(two, etcd, prefix)
        other.wait(lambda: content(out) == "red", "the string of the other host")
        two.settings("")
        other.wait(lambda: content(out) == "", "the strings of this host")
        one.settings("")
        agent.wait_log("repaired shared.publish[color]")


def test_a_one_shot_run_uses_the_strings_of_all_hosts(make, etcd, prefix):
    """`apply` on one host, without agents."""
    one, two = make("web1"), make("web2")
    publish(one, "red")
    out = copy(two)
    for tree in (one, two):
        share(tree, etcd, prefix)
        tree.run = holdfast
        tree("apply", check=0)
    assert content(out) == "red"


def test_an_agent_without_the_extra_says_what_to_install(make, etcd, prefix, tmp_path):
    """It manages everything else."""
    lacking = tmp_path / "lacking"
    (lacking / "grpc").mkdir(parents=True)
    (lacking / "grpc/__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'grpc'\", name='grpc')\n")
    tree = make("web1")
    publish(tree, "red")
    tree.file()
    share(tree, etcd, prefix)
    with Agent(tree, PYTHONPATH=f"{lacking}{os.pathsep}{SRC}") as agent:
        agent.wait(lambda: content(tree.host / "motd"), "the file")
        agent.wait(lambda: "etcd-unavailable" in conditions(tree), "the condition")
        assert "No module named 'grpc'; install the extra `fleet`: pip install 'holdfast[fleet]'" in str(
            conditions(tree)
        )


def test_no_password_is_shown(make, etcd, prefix, tmp_path):
    """The password appears neither in the log, nor in the output of verbs, nor in the arguments of the process."""
    password = tmp_path / "password"
    password.write_text(f"{SECRET}\n")
    password.chmod(0o600)
    tree = make("web1")
    publish(tree, "red")
    share(tree, etcd, prefix, f"  user: agent\n  password_file: {password}\n")
    with Agent(tree) as agent:
        agent.wait(lambda: "etcd-unavailable" in conditions(tree), "the condition")
        shown = agent.log + "".join(tree(*words).stdout for words in (["status", "--format", "json"], ["history"]))
        assert "etcd refuses the user 'agent'" in shown
        assert SECRET not in shown + Path(f"/proc/{agent.process.pid}/cmdline").read_text()
