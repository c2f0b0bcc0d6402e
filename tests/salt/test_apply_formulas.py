"""`scripts/formulas --apply` reads the answers of both agents and compares disks; these tests boot no host."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from applied import Applied, Entry, Result, accounts, damages, differences, disk, of_holdfast, of_salt

OWNERS = {"passwd": {0: "root"}, "group": {0: "root"}}
GOOD = Result("/etc/web.conf", good=True, ran=True, changed=False, comment="")
STATE = "file.managed[web: /etc/web.conf]"


def row(**changed: object) -> dict[str, object]:
    """Return the result of a state as Holdfast writes it."""
    row = {"state": "file", "fun": "managed", "id": "web", "name": "/etc/web.conf", "result": True, "changes": {}}
    return {**row, "comment": "", "ran": True, **changed}


def test_answers_of_both_name_a_state_alike() -> None:
    """Salt and Holdfast give the same result; None, the result of noop, is no failure."""
    theirs = {"result": None, "changes": {"diff": "x"}, "comment": "", "__run_num__": 3}

    salt = of_salt({"local": {"file_|-web_|-/etc/web.conf_|-managed": theirs}})

    assert salt == of_holdfast([row(result=None, changes={"diff": "x"})])
    assert salt[STATE].changed
    assert salt[STATE].good


def test_a_state_of_salt_that_was_not_run_is_known() -> None:
    """A state whose requisite failed counts as not run."""
    theirs = {"result": False, "changes": {}, "comment": "One or more", "__state_ran__": False}

    assert not of_salt({"local": {"file_|-web_|-/etc/web.conf_|-managed": theirs}})[STATE].ran


@pytest.mark.parametrize(
    "answer", [{"local": ["Rendering SLS failed"]}, ["Rendering SLS failed"], "Rendering SLS failed"]
)
def test_errors_of_salt_are_the_reason(answer: object) -> None:
    """Salt lists errors in place of results."""
    with pytest.raises(ValueError, match="Rendering SLS failed"):
        of_salt(json.loads(json.dumps(answer)))


def test_only_what_differs_from_the_lower_directories_is_compared(tmp_path: Path) -> None:
    """An overlay copies a directory up for its entries. Removed files are listed, those of the agents are not."""
    upper, lower = tmp_path / "upper", tmp_path / "lower"
    for path, text in {
        upper / "etc/same": "a",
        upper / "etc/new": "at 10.0.0.1\n",
        upper / "etc/holdfast/agent.yaml": "",
        upper / "var/log/web.log": "line",
        lower / "etc/same": "a",
        lower / "var/log/.keep": "",
    }.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o640)
    for folder in ("etc", "var", "var/log"):
        for base in (upper, lower):
            (base / folder).chmod(0o755)
    (upper / "etc/link").symlink_to("new")
    owner = f"{upper.stat().st_uid}:{upper.stat().st_gid}"
    names = {"passwd": {0: "0"}, "group": {0: "0"}}

    found = disk(upper, [tmp_path / "none", lower], names, "10.0.0.1")

    assert found == {
        "/etc/new": Entry(f"-rw-r----- {owner}", b"at ADDRESS\n"),
        "/etc/link": Entry("link to new"),
        "/var/log/web.log": Entry(f"-rw-r----- {owner}"),
    }


@pytest.mark.skipif("os.geteuid()", reason="only root can make a whiteout")
def test_a_whiteout_is_a_removed_entry(tmp_path: Path) -> None:
    """A whiteout in the upper directory means that a file of the lower directory was removed."""
    for folder in ("upper", "lower"):
        (tmp_path / folder).mkdir()
    (tmp_path / "lower/gone").touch()
    subprocess.run(["mknod", tmp_path / "upper/gone", "c", "0", "0"], check=True)

    assert disk(tmp_path / "upper", [tmp_path / "lower"], OWNERS, "10.0.0.1") == {"/gone": Entry("removed")}


def test_accounts_are_numbers_with_their_names() -> None:
    """`getent passwd` and `getent group` have number and name in the same columns."""
    assert accounts("root:x:0:0:root:/root:/bin/sh\nweb:x:33:33::/:/bin/false\n") == {0: "root", 33: "web"}


def test_equal_hosts_have_no_differences() -> None:
    """Results, facts and disks are equal; comments may differ, and the refresh of a listener is not a state."""
    salt = Applied({STATE: GOOD, "service.mod_watch[listener_web: web]": GOOD}, disk={"/etc/web.conf": Entry("x", b"")})

    assert not [*differences(salt, Applied({STATE: GOOD}, disk=salt.disk))]


def test_each_difference_is_told() -> None:
    """The comparison reports differences of results, states, second runs, facts, owners and contents."""
    bad = Result("/etc/web.conf", good=False, ran=True, changed=False, comment="no\nroom")
    salt = Applied(
        {STATE: GOOD, "cmd.run[x: x]": GOOD},
        facts=frozenset(["package web 1 installed"]),
        disk={"/etc/a": Entry("-rw-r--r-- root:root", b"a\nb\n"), "/etc/b": Entry("removed")},
    )
    own = Applied(
        {STATE: bad},
        again=frozenset([STATE]),
        disk={"/etc/a": Entry("-rw-r--r-- root:root", b"a\nc\n"), "/etc/c": Entry("-rw-r--r-- root:root", b"")},
    )

    assert [*differences(salt, own)] == [
        f"{STATE}: fails with Holdfast only: no room",
        "cmd.run[x: x]: a state of Salt only",
        f"changes again with Holdfast only: {STATE}",
        "with Salt only: package web 1 installed",
        "/etc/a: other content\n--- with Salt\n+++ with Holdfast\n@@ -2 +2 @@\n-b\n+c",
        "/etc/b: removed with Salt, as before with Holdfast",
        "/etc/c: as before with Salt, -rw-r--r-- root:root with Holdfast",
    ]


def test_a_refusal_is_the_only_difference() -> None:
    """If one agent refuses the tree, the host of the other one is not compared. Two refusals are equal."""
    assert [*differences(Applied(refused="no"), Applied({STATE: GOOD}))] == ["Salt refuses: no"]
    assert not [*differences(Applied(refused="no"), Applied(refused="it is wrong"))]


def test_files_and_a_service_are_damaged() -> None:
    """Only files and services of states that have run are damaged; the shell gets their names unchanged."""
    results = {
        "file.managed[a: /etc/a b]": Result("/etc/a b", good=True, ran=True, changed=False, comment=""),
        "file.managed[c: /etc/c]": Result("/etc/c", good=True, ran=False, changed=False, comment=""),
        "service.running[web: web]": Result("web", good=True, ran=True, changed=False, comment=""),
    }

    (_, file, right), (_, service, _) = damages(results)

    assert (file, service) == ("echo '# drift' >>'/etc/a b'", "systemctl stop web")
    compile(right, "right", "eval")
