"""The examples that come with Holdfast do what they say."""

import shutil
from pathlib import Path

import pytest

from holdfast_process import Agent, Tree, holdfast

EXAMPLES = Path(__file__).parents[2] / "config/examples"


class Quickstart(Tree):
    """The quickstart in a private directory, as `scripts/run` lays it out."""

    def __init__(self, root):
        self.root, self.etc, self.host = root, root / "etc", root / "host"
        shutil.copytree(EXAMPLES / "quickstart", self.etc)
        for path in (root, self.etc, *self.etc.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.fixture
def quickstart(tmp_path):
    """A copy of the example."""
    return Quickstart(tmp_path)


def test_quickstart_converges_at_once(quickstart):
    """Everything is made in one run, and the next has nothing to do."""
    quickstart("apply", "--detailed-exitcode", check=2)

    assert (quickstart.host / "motd").exists()
    assert (quickstart.host / "greeting").read_text().startswith("Hello from")
    quickstart("apply", "--detailed-exitcode", check=0)


def test_quickstart_keeps_to_its_directory(quickstart):
    """Nothing that it manages is anywhere else."""
    for row in quickstart.json("show", "low", check=0):
        assert str(quickstart.host) in row["name"]


def test_what_scripts_run_says_to_try(quickstart):
    """Edit, delete, change the script, drop a state in, break it."""
    with Agent(quickstart) as agent:
        motd = quickstart.host / "motd"
        right = motd.read_text()
        motd.write_text("changed\n")
        agent.wait(lambda: motd.exists() and motd.read_text() == right, "the edit to be undone")
        motd.unlink()
        agent.wait(motd.exists, "the file to come back")
        greeting = quickstart.host / "greeting"
        before = greeting.stat().st_mtime_ns
        with (quickstart.host / "bin/greet").open("a") as script:
            script.write("# new\n")
        agent.wait(lambda: greeting.stat().st_mtime_ns != before, "the script to be run again")
        assert "# new" not in (quickstart.host / "bin/greet").read_text()
        hello = quickstart.file("hello", "hi")
        agent.wait((quickstart.host / "hello").exists, "the new state")
        with hello.open("a") as file:
            file.write("  file.managd: []\n")
        agent.wait_log("hello.sls:4:3:")


def test_webserver_compiles_for_each_family(tmp_path):
    """Package first, then what it needs, then the service that watches its site."""
    (tmp_path / "none").mkdir()
    for family, package in (("Debian", "nginx-light"), ("RedHat", "nginx")):
        (tmp_path / "grains").write_text(f"os_family: {family}\nid: web\n")
        words = (
            "--states",
            EXAMPLES / "webserver/states",
            "--pillar",
            tmp_path / "none",
            "--grains",
            tmp_path / "grains",
        )
        done = holdfast("show", "order", *words, check=0).stdout
        low = holdfast("show", "low", *words, "--format", "json", check=0).stdout

        assert (
            done.index("pkg.installed[nginx]")
            < done.index("sites-available/default]")
            < done.index("service.running[nginx]")
        )
        assert f'"name": "{package}"' in low


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.iterdir()))
def test_nothing_is_to_be_said_against_an_example(example, tmp_path):
    """Users copy the examples: they compile for both families, in the form of `fmt`, without a warning of lint."""
    tree = tmp_path / example
    shutil.copytree(EXAMPLES / example, tree)
    (tree / "pillar").mkdir(exist_ok=True)
    holdfast("fmt", "--check", tree, check=0)
    for family in ("Debian", "RedHat"):
        (tmp_path / "grains").write_text(
            f"{{os_family: {family}, id: web, nodename: web, osfullname: {family}, num_cpus: 2}}"
        )
        holdfast(
            "check",
            "--strict",
            "--states",
            tree / "states",
            "--pillar",
            tree / "pillar",
            "--grains",
            tmp_path / "grains",
            check=0,
        )


def test_three_tier_goes_up_from_the_data(tmp_path):
    """Account, data, application, front; the service is restarted for its program, its settings and its unit file."""
    (tmp_path / "grains").write_text("os_family: Debian\nid: web\n")
    tree = EXAMPLES / "three-tier"
    words = ("--states", tree / "states", "--pillar", tree / "pillar", "--grains", tmp_path / "grains")
    order = holdfast("show", "order", *words, check=0).stdout
    first = (
        "user.present[",
        "file.directory[/var/lib/guestbook]",
        "file.managed[/etc/guestbook.json]",
        "service.running[guestbook/service]",
    )

    assert [order.index(each) for each in first] == sorted(order.index(each) for each in first)
    assert order.index("service.running[guestbook/service]") < order.index("service.running[nginx]")
