"""The examples of config/examples do what their texts say."""

import shutil
from pathlib import Path

import pytest

from holdfast_process import Agent, Tree, in_process

EXAMPLES = Path(__file__).parents[2] / "config/examples"


class Quickstart(Tree):
    """A copy of the quickstart in a private directory, laid out as by `scripts/run`."""

    def __init__(self, root):
        self.root, self.etc, self.host, self.run = root, root / "etc", root / "host", in_process
        shutil.copytree(EXAMPLES / "quickstart", self.etc)
        for path in (root, self.etc, *self.etc.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.fixture
def quickstart(tmp_path):
    """A copy of the quickstart."""
    return Quickstart(tmp_path)


def test_quickstart_converges_in_one_run(quickstart):
    """The first run creates everything; the second one changes nothing."""
    quickstart("apply", "--detailed-exitcode", check=2)

    assert (quickstart.host / "motd").exists()
    assert (quickstart.host / "greeting").read_text().startswith("Hello from")
    quickstart("apply", "--detailed-exitcode", check=0)


def test_quickstart_keeps_to_its_directory(quickstart):
    """Every name of a state of the quickstart is below its directory."""
    for row in quickstart.json("show", "low", check=0):
        assert str(quickstart.host) in row["name"]


def test_the_experiments_that_scripts_run_suggests(quickstart):
    """An edit, a deletion, a changed script, a new state file and a mistake have the announced results."""
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
    """The order is: the package, its configuration, the service that watches the site."""
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
        done = in_process("show", "order", *words, check=0).stdout
        low = in_process("show", "low", *words, "--format", "json", check=0).stdout

        assert (
            done.index("pkg.installed[nginx]")
            < done.index("sites-available/default]")
            < done.index("service.running[nginx]")
        )
        assert f'"name": "{package}"' in low


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.iterdir()))
def test_an_example_has_no_warning_and_the_layout_of_fmt(example, tmp_path):
    """Users copy the examples, so they compile for both OS families without a warning, with their settings."""
    tree = tmp_path / example
    shutil.copytree(EXAMPLES / example, tree)
    settings = ("--config", tree / "agent.yaml") if (tree / "agent.yaml").exists() else ()
    (tree / "pillar").mkdir(exist_ok=True)
    in_process("fmt", "--check", tree, check=0)
    for family in ("Debian", "RedHat"):
        (tmp_path / "grains").write_text(
            f"{{os_family: {family}, id: web, nodename: web, osfullname: {family}, num_cpus: 2}}"
        )
        in_process(
            "check",
            "--strict",
            *settings,
            "--states",
            tree / "states",
            "--pillar",
            tree / "pillar",
            "--grains",
            tmp_path / "grains",
            check=0,
        )


def test_three_tier_is_ordered_from_the_data_to_the_front_end(tmp_path):
    """The order is: account, data, application, front end."""
    (tmp_path / "grains").write_text("os_family: Debian\nid: web\n")
    tree = EXAMPLES / "three-tier"
    words = ("--states", tree / "states", "--pillar", tree / "pillar", "--grains", tmp_path / "grains")
    order = in_process("show", "order", *words, check=0).stdout
    first = (
        "user.present[",
        "file.directory[/var/lib/guestbook]",
        "file.managed[/etc/guestbook.json]",
        "service.running[guestbook/service]",
    )

    assert [order.index(each) for each in first] == sorted(order.index(each) for each in first)
    assert order.index("service.running[guestbook/service]") < order.index("service.running[nginx]")
