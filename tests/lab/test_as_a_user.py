"""`plan`, `check` and similar verbs for an ordinary user, on a host whose states and pillar only root may read."""

from __future__ import annotations

import pytest

ROOTS = r"""
useradd --create-home alice
install -d -m 700 /etc/holdfast/pillar /etc/holdfast/states /etc/holdfast/resources
install -m 600 /dev/stdin /etc/holdfast/agent.yaml <<<'id: web1'
install -m 600 /dev/stdin /etc/holdfast/grains.yaml <<<'rank: 1'
install -m 600 /dev/stdin /etc/holdfast/pillar/top.sls <<<"{base: {'*': [s]}}"
install -m 600 /dev/stdin /etc/holdfast/pillar/s.sls <<<'word: correct-horse'
install -m 600 /dev/stdin /etc/holdfast/states/site.sls <<<'{/etc/said: {file.managed: [{contents: x}]}}'
install -d -o alice -g alice /home/alice/mine
install -o alice -g alice -m 644 /dev/stdin /home/alice/mine/a.sls <<'END'
/home/alice/made:
  file.managed:
    - contents: {{ pillar.get('word', 'nothing') }}
END
"""
WAYS = {
    "files": "chmod 755 /etc/holdfast/{pillar,states,resources}",
    "directories": "chmod 711 /etc/holdfast/{pillar,states,resources}",
    "everything": "chmod 700 /etc/holdfast",
}
"""What is closed to other users -> the commands that close it."""


@pytest.fixture(scope="module", params=WAYS)
def closed(request, run, layers):
    """Return a host with such a user, for all tests of this module; the user's own states are in the home."""
    host = run.host(layers=layers)
    try:
        host.sh(f"{ROOTS}\n{WAYS[request.param]}")
        yield host
    finally:
        host.down()


def alice(host, *words: str):
    """Run a verb as the user, in the home."""
    return host.run("runuser", "-l", "alice", "-c", f"holdfast {' '.join(words)}", check=False)


def test_a_users_own_states_need_nothing_of_the_host(closed):
    """Each verb that compiles states, and `apply`, work without the pillar of the host, and say so."""
    said = "--states alone: without the pillar of this host (--pillar DIR names one)\n"
    plan = alice(closed, "plan", "--states", "mine")
    assert (plan.returncode, plan.stderr) == (2, said)
    assert "nothing" in plan.stdout
    for verb, code in (("check", 0), ("show low", 0), ("show order", 0), ("apply", 0), ("plan", 0)):
        done = alice(closed, verb, "--states", "mine")
        assert (done.returncode, done.stderr) == (code, said), verb
    assert closed.read("/home/alice/made") == "nothing\n"
    assert closed.run("stat", "--format=%U", "/home/alice/made").stdout == "alice\n"


def test_verbs_that_need_nothing_of_the_host_work(closed):
    """An ordinary user can read the documentation of a kind, complete words, and format files."""
    assert alice(closed, "doc", "file.managed").stdout.startswith("file.managed")
    assert alice(closed, "fmt", "--check", "mine").returncode == 0
    assert alice(closed, "version").returncode == 0


@pytest.mark.parametrize(
    "words", [("plan",), ("check",), ("apply",), ("plan", "--states", "mine", "--pillar", "/etc/holdfast/pillar")]
)
def test_unreadable_files_are_reported_with_the_fix(closed, words):
    """The error names the file and the remedy, and shows nothing of the file's content."""
    done = alice(closed, *words)

    assert done.returncode == 3
    assert "Permission denied" in done.stdout + done.stderr
    assert (
        "run Holdfast as root, or name directories that you may read: --states DIR, --pillar DIR"
        in done.stdout + done.stderr
    )
    assert "correct-horse" not in done.stdout + done.stderr


def test_verbs_that_query_the_agent_are_refused(closed):
    """They end with the exit code for a refusal."""
    closed.sh("holdfast install")
    for verb in ("status", "why x", "log", "recheck", "pause"):
        done = alice(closed, verb)
        assert (done.returncode, done.stdout) == (77, ""), verb
        assert "only root and the agent's own user may" in done.stderr
