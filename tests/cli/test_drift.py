"""`holdfast drift`: drifts are listed, shown, restored, adopted and kept, with and without a running agent."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drifted_tree import HAND, REPAIRED, configured, drifted, id_of, written
from holdfast.agent.host.kept import KeptFiles
from holdfast.agent.kept_bounds import KEPT_BOUNDS
from holdfast.resources.replaced import ReplacedFile
from holdfast_process import Agent, Tree, environment, holdfast
from record_desk import Desk, outcome


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A host on which each file has drifted once and was repaired; its agent has ended."""
    tree = configured(tmp_path_factory.mktemp("drift"))
    with Agent(tree) as agent:
        for number, (name, text) in enumerate(HAND.items(), 1):
            written(tree.host / name, text)
            drifted(tree, agent, number)
        (tree.host / "mode").chmod(0o666)
        drifted(tree, agent, len(HAND) + 1)
    for name, text in REPAIRED.items():
        assert (tree.host / name).read_text() == text
    return tree


@pytest.fixture
def tree(made: Tree) -> Iterator[Tree]:
    """That host, with no drift seen or restored; later changes are undone after the test."""
    saved = made.root / "saved"
    shutil.copytree(made.root / "state", saved, ignore=shutil.ignore_patterns("*.bell"))
    yield made
    shutil.rmtree(made.root / "state")
    saved.rename(made.root / "state")
    for path in made.host.glob("*.restored*"):
        path.unlink()


def test_drifts_are_listed_with_new_ones_first(tree: Tree) -> None:
    """The newest drift is first, seen ones are below, and done ones are shown only with --all."""
    first = tree.json("drift", "list")
    assert len(first["drifts"]) == len(HAND) + 1
    assert not first["more"]
    assert first["drifts"][0]["resource"] == f"file.managed[{tree.host}/mode]"
    assert all(each["repaired"] for each in first["drifts"])

    tree("drift", "show", "host/mode", check=0)
    tree("drift", "keep", "host/motd", check=0)
    listed = tree("drift", "list", check=0)
    assert listed.stdout.index("host/note") < listed.stdout.index("host/mode")
    assert "host/motd" not in listed.stdout
    assert listed.stderr == "7 new, 1 seen; details: holdfast drift show ID\n"
    assert "host/motd" in tree("drift", "list", "--all", check=0).stdout


def test_a_list_is_filtered_and_bounded(tree: Tree) -> None:
    """The list is filtered by resource and time; a line says if there are more."""
    assert [each["resource"] for each in tree.json("drift", "list", "--resource", "file.managed[src]")["drifts"]] == [
        "file.managed[src]"
    ]
    assert len(tree.json("drift", "list", "--resource", "file.managed*")["drifts"]) == 6
    assert len(tree.json("drift", "list", "--since", "2001-01-01 00:00")["drifts"]) == 9
    assert "2 new; there are more: --limit 4;" in tree("drift", "list", "--limit", "2", check=0).stderr
    assert tree.json("drift", "list", "--limit", "2")["more"]
    nothing = tree("drift", "list", "--resource", "nothing", check=0)
    assert (nothing.stdout, nothing.stderr) == (
        "",
        "there is no such drift to review; --all shows those that are done\n",
    )


def test_a_drift_is_shown_with_its_diff_and_marked_as_seen(tree: Tree) -> None:
    """The text has the former content, the kept file, and the time."""
    shown = tree("drift", "show", "file.managed[src]", check=0).stdout

    assert "-TWO\n+two" in shown
    assert f"{tree.host}/src: 8 bytes, mode 0644" in shown
    assert "; kept" in shown
    assert tree.json("drift", "list", "--resource", "file.managed[src]")["drifts"][0]["review"] == "seen"
    again = tree.json("drift", "show", id_of(tree, "src"))
    assert (again["review"], again["gone"]) == ("seen", [])


def test_values_before_the_repair_are_shown(tree: Tree) -> None:
    """Kinds that report only the new values show former ones, too."""
    assert "text: by hand" in tree("drift", "show", "host/note", check=0).stdout
    assert "mode 0666" in tree("drift", "show", "host/mode", check=0).stdout


def test_a_drift_that_is_kept_is_done_and_the_history_says_so(tree: Tree) -> None:
    """A second `keep` changes nothing, and neither does showing the drift again."""
    assert "stays as declared: the drift" in tree("drift", "keep", "src", check=0).stdout
    assert "is already done" in tree("drift", "keep", id_of_done(tree), check=0).stdout
    tree("drift", "show", "src", check=0)
    assert tree.json("drift", "show", "src")["review"] == "done"
    notes = [each for each in tree.json("history")["history"] if each["table"] == "notes"]
    assert [each["text"].partition(" (")[0] for each in notes] == ["file.managed[src] stays as declared"]


def id_of_done(tree: Tree) -> str:
    """Return the ID of the only drift that is done."""
    (found,) = (each for each in tree.json("drift", "list", "--all")["drifts"] if each["review"] == "done")
    return str(found["id"])


def test_content_is_restored_beside_its_place(tree: Tree) -> None:
    """The file itself stays as declared. What exists already is never overwritten, not even a link."""
    target = tree.host / "motd.restored"
    assert tree("drift", "restore", "host/motd", check=0).stdout == f"restored {target}\n"
    assert target.read_text() == HAND["motd"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert (tree.host / "motd").read_text() == "hello\n"

    assert "it exists; name another path with --to" in tree("drift", "restore", "host/motd", check=1).stderr
    other = tree.root / "victim"
    (tree.host / "src.restored").symlink_to(other)
    assert "it exists" in tree("drift", "restore", "file.managed[src]", check=1).stderr
    assert not other.exists()


def test_programs_are_told_what_was_done(tree: Tree) -> None:
    """The JSON has the ID, the resource, and the written files."""
    restored = tree.json("drift", "restore", "host/motd", check=0)
    kept = tree.json("drift", "keep", restored["id"], check=0)
    (tree.host / "motd.restored").unlink()

    assert restored["restored"] == [f"{tree.host}/motd.restored"]
    assert not restored["paused"]
    assert kept == {"id": restored["id"], "resource": restored["resource"], "review": "done"}


def test_content_is_restored_to_a_path(tree: Tree) -> None:
    """The path is relative to the working directory. If its directory is missing, it is refused."""
    tree("drift", "restore", "host/gone", "--to", "back.restored", check=0, cwd=tree.host)
    assert (tree.host / "back.restored").read_text() == "here\n"
    missing = tree("drift", "restore", "host/gone", "--to", "/nonexistent/x", check=1).stderr
    assert "cannot restore to /nonexistent/x: no such file or directory" in missing
    assert "exclude each other" in tree("drift", "restore", "x", "--to", "y", "--in-place", check=64).stderr


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("host/key", "its content was not kept: others may not read the file"),
        ("host/mode", "only owner or mode were changed; `drift adopt` prints them"),
        ("host/note", "note.present has replaced no file; what file.*, sysctl.present"),
    ],
    ids=["private", "mode", "no-file"],
)
def test_what_cannot_be_restored_is_refused_with_the_reason(tree: Tree, name: str, why: str) -> None:
    """The error says what to do instead."""
    assert why in " ".join(tree("drift", "restore", name, check=1).stderr.split())


@pytest.mark.parametrize("damage", ["removed", "changed"])
def test_content_that_is_gone_or_damaged_is_not_restored(tree: Tree, damage: str) -> None:
    """Nothing is written, and `show` says so."""
    for path in (tree.root / "state/kept").iterdir():
        if damage == "removed":
            path.unlink()
        else:
            path.write_text("something else")
    assert "no longer kept" in tree("drift", "restore", "host/motd", check=1).stderr
    assert "no longer kept" in tree("drift", "show", "host/motd", check=0).stdout
    assert "no longer kept" in tree("drift", "adopt", "host/motd", check=1).stderr
    assert not (tree.host / "motd.restored").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="files of another user are needed")
def test_owner_and_permissions_are_restored_but_no_set_uid_bit(tmp_path: Path) -> None:
    """A user may have moved a set-uid program there."""
    tree = Tree(tmp_path)
    tree.file()
    with Agent(tree) as agent:
        path = tree.host / "motd"
        new = tree.host / "new"
        new.write_text("by hand\n")
        os.chown(new, 4242, 4243)
        new.chmod(0o4755)
        new.rename(path)
        drifted(tree, agent, 1)
    tree("drift", "restore", "motd", check=0)
    found = (tree.host / "motd.restored").stat()

    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (4242, 4243, 0o755)


def test_content_is_restored_in_place_while_the_resource_is_paused(tmp_path: Path) -> None:
    """The agent does not change the file until the pause ends. Without an agent, nothing is changed."""
    tree = Tree(tmp_path)
    tree.file()
    with Agent(tree) as agent:
        written(tree.host / "motd", "by hand\n")
        drifted(tree, agent, 1)
        drift = id_of(tree, "motd")
        said = tree("drift", "restore", drift, "--in-place", "--for", "2h", check=0).stdout
        assert "is paused until" in said
        assert "drift adopt" in said
        agent.wait(lambda: "drifted" in tree("status").stdout, "the drift")
        assert (tree.host / "motd").read_text() == "by hand\n"
        assert (
            "+    - contents: by hand" in tree("drift", "adopt", "motd", check=0).stdout
        )  # the newest one is not repaired
        tree("resume", check=0)
        agent.wait(lambda: (tree.host / "motd").read_text() == "hello\n", "the repair")
    assert "none listens" in tree("drift", "restore", drift, "--in-place", check=69).stderr
    assert (tree.host / "motd").read_text() == "hello\n"


def test_a_drift_in_a_pause_is_listed_once_with_its_diff_as_not_repaired(tmp_path: Path) -> None:
    """Further checks of the same difference are not new drifts; another difference is one."""
    tree = Tree(tmp_path)
    tree.file()
    with Agent(tree) as agent:
        tree("pause", "motd", check=0)
        written(tree.host / "motd", "by hand\n")
        drifted(tree, agent, 1)
        for _ in range(3):
            written(tree.host / "motd", "by hand\n")
            tree("recheck", check=None)
        written(tree.host / "motd", "by another hand\n")
        drifted(tree, agent, 2)
        listed = tree("drift", "list", check=0).stdout
        assert listed.count("not repaired, would repair") == 2
        assert "-by another hand\n+hello" in tree("drift", "show", "motd", check=0).stdout
        assert "it was not repaired, so nothing was overwritten" in tree("drift", "restore", "motd", check=1).stderr
        assert "by another hand" in tree("drift", "adopt", "motd", check=0).stdout

        tree("resume", "motd", check=0)
        hint = "it was overwritten later: `holdfast drift restore "
        agent.wait(lambda: hint in tree("drift", "restore", "motd", check=1).stderr, "the record of the repair")
        change = tree("drift", "restore", "motd", check=1).stderr.partition(hint)[2].partition("`")[0]
        tree("drift", "restore", change, check=0)
        assert (tree.host / "motd.restored").read_text() == "by another hand\n"
    assert len(tree.json("drift", "list")["drifts"]) == 2


def test_of_a_file_that_was_removed_nothing_is_restored_and_its_absence_can_be_declared(tmp_path: Path) -> None:
    """The record calls the repair `repaired`, as it does for each drift."""
    tree = Tree(tmp_path)
    tree.file()
    with Agent(tree) as agent:
        (tree.host / "motd").unlink()
        drifted(tree, agent, 1)
        refused = tree("drift", "restore", "motd", check=1).stderr
        assert "nothing was there before the repair" in " ".join(refused.split())
        assert "remove this state, or declare that it is absent" in tree("drift", "adopt", "motd", check=0).stdout


def test_the_patch_of_a_source_makes_the_drift_permanent(tree: Tree) -> None:
    """`patch` applies the printed patch."""
    said = tree("drift", "adopt", "file.managed[src]", check=0).stdout
    assert f"# patch -p1 -d {tree.etc}/states\n" in said
    copy = tree.root / "copy"
    shutil.copytree(tree.etc / "states", copy)
    subprocess.run(["patch", "-p1", "-d", copy], input=said, text=True, check=True, capture_output=True)

    assert (copy / "conf/src.conf").read_text() == HAND["src"]
    assert (tree.etc / "states/conf/src.conf").read_text() == "one\ntwo\n"
    shutil.rmtree(copy)


@pytest.mark.parametrize("text", ["by hand\n", "two lines\nno newline"])
def test_the_patch_of_a_state_file_makes_the_drift_permanent(tmp_path: Path, text: str) -> None:
    """After the patch, the file that was changed by hand is as declared, and so is its mode."""
    tree = Tree(tmp_path)
    tree.sls("web/motd", "HOST/motd:\n  file.managed:\n    - contents: hello\n    - mode: '0644'\n")
    with Agent(tree) as agent:
        new = tree.host / "new"
        new.write_text(text)
        new.chmod(0o666)
        new.rename(tree.host / "motd")
        drifted(tree, agent, 1)
    found = tree.json("drift", "adopt", "motd", check=0)
    assert found["change"] in tree("drift", "adopt", "motd", check=0).stdout
    subprocess.run(["patch", "-p1", "-d", found["states"]], input=found["change"], text=True, check=True)
    tree("drift", "restore", "motd", "--to", tree.host / "kept", check=0)
    (tree.host / "kept").rename(tree.host / "motd")

    tree("plan", check=0)
    assert (tree.host / "motd").read_text() == text


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        (
            "host/motd",
            ["no patch: it has marks of Jinja: put it between {% raw %}", "- contents: by hand {{ x }}"],
        ),
        ("host/page", ["rendered from a template: edit salt://page.j2"]),
        ("host/said", ["the content is that of said in the pillar: edit it there"]),
        ("host/mode", ["- mode: '0666'"]),
        ("host/gone", ["# instead of file.absent:", "file.managed:", "here"]),
        ("part", ["# file.append declares a part of the file", "file.managed:", "host/part", "other"]),
        ("host/note", ["note.present:", "- text: by hand"]),
    ],
    ids=["contents", "template", "pillar", "mode", "absent", "part", "values"],
)
def test_the_change_of_the_states_is_printed(tree: Tree, name: str, lines: list[str]) -> None:
    """The output has the change, or says what determines the content, and names the location of the state."""
    said = tree("drift", "adopt", name, check=0).stdout

    assert f"{tree.etc}/states/all.sls, line " in said
    for line in lines:
        assert line in said


def test_what_cannot_be_adopted_is_refused_with_the_reason(tree: Tree) -> None:
    """Refused are content that was not kept, a resource that is no longer declared, and states that do not compile."""
    assert "its content was not kept" in tree("drift", "adopt", "host/key", check=1).stderr
    path = tree.etc / "states/all.sls"
    text = path.read_text()
    try:
        path.write_text(text.replace("file.absent", "file.nonsense"))
        tree("drift", "adopt", "host/motd", check=3)
        path.write_text("a:\n  test.nop: []\n")
        assert "is no longer declared" in tree("drift", "adopt", "host/motd", check=1).stderr
    finally:
        path.write_text(text)


def test_a_name_of_several_resources_or_of_none_is_refused(tree: Tree) -> None:
    """The error names the candidates. An ID of a change that is not a drift has another message."""
    assert "there is no drift nonsense" in tree("drift", "show", "nonsense", check=1).stderr
    assert "may be file.absent[" in tree("drift", "show", f"{tree.host}/*", check=1).stderr
    start = next(each for each in tree.json("history", "--origin", "start")["history"] if each["table"] == "changes")
    assert "is not a drift but a change with the origin start" in tree("drift", "keep", start["id"], check=1).stderr
    assert "(origin start)" in tree("drift", "show", start["id"], check=0).stdout


def test_a_host_without_records_says_so(tmp_path: Path) -> None:
    """No file is created."""
    tree = Tree(tmp_path)
    assert "there are no records" in tree("drift", "list", check=1).stderr
    assert not (tmp_path / "state").exists()


def test_the_verb_runs_in_a_process_of_its_own(tree: Tree) -> None:
    """A new process shows that the verb imports everything that it uses."""
    config = ("--config", tree.config)
    assert "host/motd" in holdfast("drift", "list", *config, check=0).stdout
    assert "+hello" in holdfast("drift", "show", "host/motd", *config, check=0).stdout
    assert "restored" in holdfast("drift", "restore", "host/motd", *config, check=0).stdout
    assert "contents" in holdfast("drift", "adopt", "host/motd", *config, check=0).stdout
    assert "stays as declared" in holdfast("drift", "keep", "host/motd", *config, check=0).stdout


FORMER = """
nginx:
  service.running:
    - enable: true
tool:
  service.dead
package:
  pkg.installed:
    - name: nginx
alice:
  user.present:
    - shell: /bin/bash
net.ipv4.ip_forward:
  sysctl.present:
    - value: 0
"""
RECORDED: list[tuple[str, dict[str, object], dict[str, object], str]] = [
    ("service.running[nginx]", {"active": False, "enabled": False}, {}, "nginx:\n  - service.dead\n"),
    ("service.running[nginx]", {"enabled": False}, {}, "-    - enable: true\n+    - enable: false\n"),
    ("service.running[nginx]", {"masked": True}, {}, "nginx:\n  - service.masked\n"),
    ("service.dead[tool]", {"active": True}, {}, "tool:\n  - service.running\n"),
    ("pkg.installed[package]", {}, {"nginx": {"old": "1.2", "new": "1.3"}}, "    - pkgs:\n      - nginx: '1.2'\n"),
    ("pkg.installed[package]", {}, {"nginx": {"old": "", "new": "1.3"}}, "  pkg.removed:\n"),
    ("user.present[alice]", {"shell": "/bin/sh", "passwd": "********"}, {}, "    - shell: /bin/sh\n"),
    ("user.present[alice]", {"passwd": "********"}, {}, "# passwd had another value, which is secret\n"),
    ("sysctl.present[net.ipv4.ip_forward]", {"value": "1"}, {}, "    - value: '1'\n"),
]


@pytest.mark.parametrize(("identity", "before", "changes", "said"), RECORDED)
async def test_former_values_are_printed_as_arguments_or_as_another_state(
    tmp_path: Path, identity: str, before: dict[str, object], changes: dict[str, object], said: str
) -> None:
    """The values are those of services, packages, users and kernel parameters. No secret was recorded."""
    tree = Tree(tmp_path)
    tree.sls("all", FORMER)
    (tmp_path / "state").mkdir(mode=0o700)
    desk = Desk(tmp_path / "state")
    await desk.records.open()
    await desk.changes(outcome(identity, before=before, changes=changes or {"a": 1}))
    await desk.records.close()

    printed = await asyncio.to_thread(tree, "drift", "adopt", identity, check=0)
    assert said in printed.stdout


async def test_a_drift_is_shown_in_the_words_of_state_files(tmp_path: Path) -> None:
    """Former and new values are written as in YAML, not as in Python."""
    tree = Tree(tmp_path)
    (tmp_path / "state").mkdir(mode=0o700)
    desk = Desk(tmp_path / "state")
    await desk.records.open()
    changes = {"enabled": {"old": None, "new": True}, "limits": {"old": {"a": False}, "new": {}}}
    await desk.changes(outcome("service.running[nginx]", before={"active": False}, changes=changes))
    await desk.records.close()

    shown = (await asyncio.to_thread(tree, "drift", "show", "service.running[nginx]", check=0)).stdout
    for line in ("active: false", "enabled: none -> true", 'limits: {"a": false} -> {}'):
        assert line in shown


def test_a_secret_that_was_not_repaired_is_not_printed(tmp_path: Path) -> None:
    """In noop, the file itself is printed, unless it is private or contains a secret of the pillar."""
    tree = Tree(tmp_path)
    tree.sls("all", "HOST/key:\n  file.managed:\n    - contents: x\nHOST/open:\n  file.managed:\n    - contents: x\n")
    tree.pillar("password: hunter2-hunter2\n")
    with Agent(tree) as agent:
        tree("pause", "file.*", check=0)
        for number, (name, text, mode) in enumerate((("key", "by hand", 0o600), ("open", "hunter2-hunter2", 0o644)), 1):
            new = tree.host / "new"
            new.write_text(text)
            new.chmod(mode)
            new.rename(tree.host / name)
            drifted(tree, agent, number)
    for name in ("key", "open"):
        assert "may hold a secret" in tree("drift", "adopt", f"host/{name}", check=1).stderr
    assert "hunter2" not in tree("drift", "show", "host/open", check=0).stdout


async def test_a_record_without_former_values_cannot_be_adopted(tmp_path: Path) -> None:
    """The error names the kinds for which this works."""
    tree = Tree(tmp_path)
    tree.sls("all", FORMER)
    (tmp_path / "state").mkdir(mode=0o700)
    desk = Desk(tmp_path / "state")
    await desk.records.open()
    await desk.changes(outcome("service.dead[tool]"))
    await desk.records.close()

    refused = await asyncio.to_thread(tree, "drift", "adopt", "tool", check=1)
    assert "has no former values; the content, owner and mode of file.managed" in " ".join(refused.stderr.split())


async def test_a_file_whose_name_is_not_utf_8_is_restored_to_a_path_only(tmp_path: Path) -> None:
    """The record has the name in escaped form, which would be the name of another file."""
    tree = Tree(tmp_path)
    tree.file()
    (tmp_path / "state").mkdir(mode=0o700)
    desk = Desk(tmp_path / "state")
    await desk.records.open()
    digest = KeptFiles(str(tmp_path / "state"), KEPT_BOUNDS, durable=False).keep(b"a\n")
    path = f"{tree.host}/caf\udce9"
    owner = {"uid": os.geteuid(), "gid": os.getegid()}
    file = ReplacedFile(path, digest, 2, 0o600, **owner)
    await desk.changes(outcome(f"file.absent[{path}]", replaced=(file,)))
    await desk.records.close()

    def check() -> None:
        for option in ((), ("--in-place",)):
            assert "the name is not UTF-8; use --to" in tree("drift", "restore", path, *option, check=1).stderr
        tree("drift", "restore", path, "--to", tree.host / "c", check=0)

    await asyncio.to_thread(check)
    assert [each.name for each in tree.host.iterdir()] == ["c"]


async def test_of_several_files_one_is_named(tmp_path: Path) -> None:
    """The other files of the change can be restored, too. A link is restored as a link."""
    tree = Tree(tmp_path)
    tree.file()
    (tmp_path / "state").mkdir(mode=0o700)
    desk = Desk(tmp_path / "state")
    await desk.records.open()
    digest = KeptFiles(str(tmp_path / "state"), KEPT_BOUNDS, durable=False).keep(b"a\n")
    own = {"uid": os.geteuid(), "gid": os.getegid()}
    files = (
        ReplacedFile(f"{tree.host}/a", digest, 2, 0o640, **own),
        ReplacedFile(f"{tree.host}/b", link="/etc/x", **own),
    )
    await desk.changes(outcome("file.directory[x]", replaced=files))
    await desk.records.close()

    def check() -> None:
        assert "name one with --file" in tree("drift", "restore", "x", "--in-place", check=1).stderr
        assert "name one with --file" in tree("drift", "restore", "x", "--to", tree.host / "c", check=1).stderr
        tree("drift", "restore", "x", "--file", files[0].path, check=0)
        (tree.host / "a.restored").unlink()
        assert tree("drift", "restore", "x", check=0).stdout.count("restored ") == 2
        assert "holdfast" in tree("drift", "adopt", "x", check=1).stderr

    await asyncio.to_thread(check)
    assert stat.S_IMODE((tree.host / "a.restored").stat().st_mode) == 0o640
    assert str((tree.host / "b.restored").readlink()) == "/etc/x"


AS_NOBODY = """
import encodings.utf_8_sig, os, sys
from holdfast.agent.cli import database, drift, drift_adopt, drift_restore, history, main
from holdfast.agent.verbs import sections

sections()
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
for words in sys.argv[2:]:
    if (pid := os.fork()) == 0:
        main.main([*words.split(), "--config", sys.argv[1]])
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
"""Runs verbs as another user. It imports everything first: users cannot read this environment."""


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_other_users_are_told_that_they_may_not_read_the_records() -> None:
    """The state directory is private."""
    asked = ["drift list", "drift show x", "drift restore x", "drift adopt x", "drift keep x"]
    asked += ["history", "db check", "db export", "db compact"]
    with tempfile.TemporaryDirectory() as base:
        Path(base).chmod(0o755)
        (Path(base) / "agent.yaml").write_text("state_dir: state\n")
        (Path(base) / "state").mkdir(mode=0o700)
        (Path(base) / "state/records.db").touch()
        command = [sys.executable, "-c", AS_NOBODY, f"{base}/agent.yaml", *asked]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())

    assert done.stdout.split() == ["77"] * len(asked), done.stderr
    assert done.stderr == f"holdfast: cannot use {base}/state/records.db: Permission denied\n" * len(asked)
