"""`git.cloned`, `git.detached`, `git.config_set` and `git.config_unset` with the real git, and git's arguments."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from git_remote import GitRemote, Here, git
from holdfast.resources import registry
from holdfast.resources.errors import Permanent, Temporary
from holdfast.resources.kinds.git.program import Credentials, Git
from holdfast.resources.kinds.git.seen import parse_remote, parse_status


@pytest.fixture
def remote(tmp_path: Path) -> GitRemote:
    """A remote repository with one commit."""
    remote = GitRemote(tmp_path / "remote")
    remote.commit({"index.html": "one\n"})
    return remote


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """The host of the tests."""
    return Here(tmp_path)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """The directory of the clone, which does not exist."""
    return tmp_path / "site"


def declare(kind: str, name: str, **arguments: Any) -> Any:
    """Declare a resource."""
    cls = registry.find(kind)
    assert cls is not None
    return cls.declare(name, **arguments)


async def test_a_clone_is_made_once(remote, here, target):
    """The declared branch is checked out; later commits are not fetched."""
    git(remote.path, "branch", "dev")
    first = remote.head()
    changes = await here.settle("git.cloned", remote.url, target=str(target), branch="dev")
    assert changes == {"new": f"{remote.url} => {target}"}
    assert git(target, "status", "-bs") == "## dev...origin/dev"
    remote.commit({"index.html": "two\n"})
    assert await here.check("git.cloned", remote.url, target=str(target), apply=True)
    assert git(target, "rev-parse", "HEAD") == first

    changes = await here.settle("git.cloned", remote.url, target=str(target), branch="main")
    assert changes == {"branch": {"old": "dev", "new": "main"}}
    with pytest.raises(Permanent, match=r"cannot check out nope in .*: the clone has no branch with this name"):
        await here.check("git.cloned", remote.url, target=str(target), branch="nope", apply=True)


async def test_a_commit_is_checked_out_without_a_branch(remote, here, target):
    """A tag that moves is followed. Changes of files are discarded only with `hard_reset`."""
    git(remote.path, "tag", "v1")
    first = remote.head()
    await here.settle("git.detached", remote.url, target=str(target), rev="v1")
    assert git(target, "status", "-bs") == "## HEAD (no branch)"

    second = remote.commit({"index.html": "two\n"})
    git(remote.path, "tag", "--force", "v1")
    changes = await here.settle("git.detached", remote.url, target=str(target), rev="v1")
    assert changes == {"HEAD": {"old": first, "new": second}}
    (target / "index.html").write_text("mine\n")
    assert await here.check("git.detached", remote.url, target=str(target), rev="v1", apply=True)
    with pytest.raises(Permanent, match="would be overwritten by checkout"):
        await here.check("git.detached", remote.url, target=str(target), rev=first, apply=True)
    changes = await here.settle("git.detached", remote.url, target=str(target), rev="v1", hard_reset=True)
    assert changes == {"discarded": ["M index.html"]}
    git(target, "checkout", "-q", "main")
    changes = await here.settle("git.detached", remote.url, target=str(target), rev="v1", fetch_remote=False)
    assert changes["branch"] == {"old": "main", "new": None}


async def test_settings_of_a_repository(remote, here, tmp_path):
    """Values with any characters are passed exactly; several values keep their order."""
    repo = {"repo": str(remote.path)}
    for value in ("a b", '-x "quoted" \\', "# ; \n\t", "ünïcode", "", "$(touch x)", "true"):
        changes = await here.settle("git.config_set", "user.name", value=value, **repo)
        assert changes["user.name"]["new"] == [value]
    changes = await here.settle("git.config_set", "remote.x.fetch", multivar=["b", "a", "c"], **repo)
    assert changes == {"remote.x.fetch": {"old": None, "new": ["b", "a", "c"]}}
    assert git(remote.path, "config", "--get-all", "remote.x.fetch") == "b\na\nc"
    await here.settle("git.config_set", "remote.x.fetch", multivar="c,a", **repo)

    with pytest.raises(Permanent, match=r"cannot remove remote.x.fetch: it has several values; set all: true"):
        await here.check("git.config_unset", r"remote\.x\..*", apply=True, **repo)
    await here.settle("git.config_unset", r"remote\.x\..*", value_regex="^a", **repo)
    changes = await here.settle("git.config_unset", r"remote\.x\..*", all=True, **repo)
    assert changes == {"remote.x.fetch": ["c"]}
    with pytest.raises(Permanent, match=r"cannot find the repository .*: declare it"):
        await here.check("git.config_set", "a.b", value="c", repo=str(tmp_path / "none"), apply=True)


async def test_a_setting_is_undone_by_its_inverse(remote, here):
    """The former values are restored, also if there were none."""
    repo = {"repo": str(remote.path)}
    cls = declare("git.config_set", "A.x.B", value="1", **repo)
    ctx = here.host.context("git.config_set[x]")
    for former in ([], ["2", "3"]):
        for value in former:
            git(remote.path, "config", "--add", "A.x.B", value)
        inverse = await cls.inverse(ctx)
        await cls.check_apply(ctx, True)
        assert not await declare(inverse.kind, **inverse.arguments).check_apply(ctx, True)
        assert ((await cls.probe(ctx)) or {"values": []})["values"] == former


@pytest.mark.parametrize(
    "url",
    [
        "-u./evil", "ext::sh -c id", "--upload-pack=id", "https://a/\nb", "ssh://-oProxyCommand=id/x", "relative/path",
        "https://user:secret@host/x", "fd::1", "host:\0", "", "https://", "git@-oProxyCommand=id:x", "-host:x",
        "https://host", "ssh://a@-b/x", "http://a:b@c/x",
    ],
)  # fmt: skip
def test_a_url_that_git_could_misunderstand_is_refused(url):
    """A URL must not be an option or a command, or contain a password."""
    with pytest.raises(ValidationError) as error:
        declare("git.latest", url, target="/srv/x")
    assert "secret" not in str(error.value).replace("https_pass", "")


@pytest.mark.parametrize(
    "url",
    [
        "https://h/x", "http://h:80/x.git", "https://me@h/x", "ssh://git@h:22/x", "git@h:x/y.git", "h:x", "git://h/x",
        "/srv/a b.git", "file:///srv/x", "https://[::1]/x",
    ],
)  # fmt: skip
def test_urls_of_git_are_accepted(url):
    """Each form that git knows, apart from those that start a program."""
    assert declare("git.latest", url, target="/srv/x").name == url


@pytest.mark.parametrize("field", ["rev", "branch", "remote", "refspec_branch", "identity", "target"])
@pytest.mark.parametrize("value", ["-x", "--upload-pack=id", "a b", "a\nb", "a\0b"])
def test_arguments_that_git_could_misunderstand_are_refused(field, value):
    """Each argument that is passed to git is checked."""
    given = {"target": "/srv/x", field: f"/{value}\0" if field in {"identity", "target"} else value}
    with pytest.raises(ValidationError):
        declare("git.latest", "https://example.org/x", **given)


@pytest.mark.parametrize(
    "given",
    [
        {"bare": True, "rev": "main"}, {"mirror": True, "branch": "x"}, {"depth": 1}, {"depth": 0, "rev": "main"},
        {"https_pass": "x"}, {"force_reset": "yes please"}, {"interval": -1}, {"target": "//", "force_clone": True},
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_together_are_refused(given):
    """The error comes from the compiler, before anything runs."""
    with pytest.raises(ValidationError):
        declare("git.latest", "ssh://example.org/x", **{"target": "/srv/x", **given})


def test_a_password_is_in_no_argument_and_for_one_host():
    """Git gets the password from a helper that reads the environment, for the declared host only."""
    git = Git(None, "/srv/x", url="https://h.example.org/x", credentials=Credentials((), "me", "secret"))
    network, local = git.environment(network=True), git.environment(network=False)

    assert network["HOLDFAST_PASS"] == "secret"
    keys = [value for name, value in network.items() if name.startswith("GIT_CONFIG_KEY")]
    assert "credential.https://h.example.org.helper" in keys
    assert "secret" not in " ".join(local.values())


def test_git_itself_gives_the_password_to_the_declared_host_alone(tmp_path):
    """A request by git's own protocol is answered for this host, and for no other."""
    git_ = Git(None, str(tmp_path), url="https://h.example.org/x", credentials=Credentials((), "me", "s p'\"$x"))
    env = {**os.environ, **git_.environment(network=True)}
    for host, wanted in (("h.example.org", "username=me\npassword=s p'\"$x\n"), ("other.example.org", "")):
        asked = f"protocol=https\nhost={host}\n\n"
        argv = ["git", "-C", str(tmp_path), "credential", "fill"]
        done = subprocess.run(argv, env=env, input=asked, text=True, capture_output=True, check=False)
        assert wanted in done.stdout
        assert ("password" in done.stdout) is bool(wanted)


async def test_what_the_remote_repository_answers_is_the_error(here, target, tmp_path):
    """If no server answers, the failure is temporary; a missing repository is a permanent failure."""
    with pytest.raises(Temporary, match=r"cannot read https://127.0.0.1:1/x: unable to access"):
        await here.check("git.latest", "https://127.0.0.1:1/x", target=str(target), apply=True)
    with pytest.raises(Permanent, match=r"cannot read /nonexistent/x: '/nonexistent/x' does not appear to be"):
        await here.check("git.latest", "/nonexistent/x", target=str(target), apply=True)
    assert not target.exists()
    key = tmp_path / "key"
    arguments = {"target": str(target), "identity": str(key), "apply": True}
    with pytest.raises(Permanent, match=r"cannot use the identity .*key: the file does not exist"):
        await here.check("git.latest", "git@localhost:x", **arguments)
    key.write_text("key")
    key.chmod(0o644)
    with pytest.raises(Permanent, match=r"cannot use the identity .*key: other users can read it"):
        await here.check("git.latest", "git@localhost:x", **arguments)


def test_output_of_git_is_understood():
    """Renamed files have two paths; a detached HEAD is not a branch."""
    head = ["# branch.oid (initial)", "# branch.head (detached)"]
    items = [*head, "1 .M N... 1 2 3 a b x y", "2 R. N... 1 2 3 a b R100 to", "1 from", "u UU N... 1 2 3 4 a b c z"]
    assert parse_status(items) == {"changed": {"x y": ".M", "to": "R.", "z": "UU"}}
    remote = parse_remote("ref: refs/heads/x/y\tHEAD\nabc\tHEAD\nabc\trefs/heads/x/y\ndef\trefs/tags/v^{}\n")
    assert (remote.default, remote.refs["HEAD"], remote.tags) == ("x/y", "abc", {})
    assert parse_remote("").refs == {}
