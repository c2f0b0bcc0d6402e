"""Run git with settings of Holdfast's own, without hooks and prompts, as one user, in one repository.

git reads only the configuration of the repository itself. This configuration can name programs, so git works in a
repository only as the user who owns it, and as root only if no other user can write there (`target_of`). A remote
repository cannot change this configuration.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from holdfast.resources.context import Completed, Services
from holdfast.resources.errors import HoldfastError, Permanent, Temporary
from holdfast.resources.kinds._commands import reason

LOCAL, NETWORK = 600.0, 3600.0
"""Time limits, in seconds, of a command on the repository and of one that uses the network."""
OUTPUT = 64 << 20
"""Maximum size, in bytes, of output that is read as a whole."""
SETTINGS: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "credential.helper": "",
    "protocol.allow": "never",
    **{f"protocol.{each}.allow": "always" for each in ("https", "http", "ssh", "git")},
    "protocol.file.allow": "user",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "60",
    "gc.autoDetach": "false",
    "maintenance.autoDetach": "false",
    "advice.detachedHead": "false",
}
"""Settings that take precedence over those of the repository.

Submodules cannot use the protocol `file`, which would let a remote repository read other repositories of this host. A
transfer ends if no byte arrives for a minute.
"""
ENVIRONMENT: Mapping[str, str] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_COMMITTER_NAME": "Holdfast",
    "GIT_COMMITTER_EMAIL": "holdfast@localhost",
}
SSH = ("ssh", "-oBatchMode=yes", "-oConnectTimeout=30", "-oServerAliveInterval=15", "-oServerAliveCountMax=4")
HELPER = """!f() { test "$1" = get && printf 'username=%s\\npassword=%s\\n' "$HOLDFAST_USER" "$HOLDFAST_PASS"; }; f"""
"""Answers git's question for a password from the environment; in an argument list, others could see the password."""
UNKNOWN_CA = "the system does not trust the CA of the server; add the CA to the system, or correct the URL"
LASTING = (
    "not found",
    "does not exist",
    "does not appear to be a git repository",
    "dubious ownership",
    "Host key verification failed",
    "Permission denied",
    "Authentication failed",
    "certificate verification failed",
    "SSL certificate problem",
    "could not read Username",
    "could not read Password",
    "(non-fast-forward)",
)
"""Parts of messages about a remote repository that make another attempt pointless."""
ADVICE = {
    "Host key verification failed": "the host key is not known to this user; add it to the known hosts",
    "could not read Username": "the server asks for a password: set https_user and https_pass",
    "could not read Password": "the server asks for a password: set https_pass",
    "Permission denied (publickey": "the server accepts none of the keys of this user: set identity",
    "certificate verification failed": UNKNOWN_CA,
    "SSL certificate problem": UNKNOWN_CA,
    "(non-fast-forward)": "a branch was rewritten; set force_fetch: true to follow it",
    "index.lock": "another git is running there, or a killed git has left this file; in the second case, remove it",
    "dubious ownership": "git reads only repositories of the same user",
}


class Credentials(NamedTuple):
    """The credentials of git for a remote repository."""

    identity: tuple[str, ...] = ()
    user: str = ""
    password: str = ""

    def environment(self, url: str) -> dict[str, str]:
        """Return the environment variables for ssh and for the password of one host."""
        options = [f"-i{path}" for path in self.identity] + ["-oIdentitiesOnly=yes"] * bool(self.identity)
        found = {"GIT_SSH_COMMAND": shlex.join((*SSH, *options)), "GIT_SSH_VARIANT": "ssh"}
        if self.password:
            found |= {"HOLDFAST_USER": self.user, "HOLDFAST_PASS": self.password}
        return found

    def settings(self, url: str) -> dict[str, str]:
        """Return the setting that makes git ask for the password, only for the host of the URL."""
        parts = urlsplit(url)
        return {f"credential.{parts.scheme}://{parts.netloc}.helper": HELPER} if self.password else {}


NO_CREDENTIALS = Credentials()


@dataclass(frozen=True)
class Git:
    """Runs git in one directory."""

    ctx: Services
    directory: str
    """Path of the directory without links."""
    user: str | None = None
    url: str = ""
    credentials: Credentials = NO_CREDENTIALS
    unfinished: str = ""
    """Directory of a repository that is being created: git uses it in place of `.git`."""

    async def run(
        self,
        *words: str,
        check: bool = True,
        network: bool = False,
        at: str = "",
        shown: bool = False,
        limit: int = OUTPUT,
    ) -> Completed:
        """Run git. `at`: the directory to run in. Raises `Permanent` or `Temporary` with the error that git reports."""
        done = await self.ctx.run(
            *("git", "-C", at or self.directory, *words),
            env=self.environment(network=network),
            user=self.user,
            timeout=NETWORK if network else LOCAL,
            check=False,
            limit=limit,
            shown=shown,
        )
        if check and done.retcode != 0:
            raise self.failure(words[0], done, network=network)
        return done

    async def commit_of(self, revision: str) -> str | None:
        """Return the hash of the commit that a revision means; None if the repository does not have it."""
        done = await self.run("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", check=False)
        return done.stdout.strip() if done.retcode == 0 else None

    def demand(self, done: Completed) -> str:
        """Return the output of a command. Raises `Permanent` if it has failed."""
        if done.retcode != 0:
            raise self.failure("work", done)
        return done.stdout

    async def lines(self, *words: str) -> list[str]:
        """Return the items of the output; each ends with a NUL character."""
        return [item for item in (await self.run(*words)).stdout.split("\0") if item]

    async def succeeds(self, *words: str) -> bool:
        """Return whether git exits with status 0."""
        return (await self.run(*words, check=False)).retcode == 0

    async def tool(self, *argv: str) -> None:
        """Run another program as the same user. Raises `Permanent` if it fails."""
        done = await self.ctx.run(*argv, user=self.user, cwd="/", timeout=LOCAL, check=False)
        if done.retcode != 0:
            raise Permanent(f"cannot prepare {self.directory}: {reason(done)}")

    def environment(self, *, network: bool) -> dict[str, str]:
        """Return the environment variables of git: its settings, where it looks for a repository, and credentials."""
        settings = {**SETTINGS, **(self.credentials.settings(self.url) if network else {})}
        found = {**ENVIRONMENT, "GIT_CEILING_DIRECTORIES": posixpath.dirname(self.directory)}
        found["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (name, value) in enumerate(settings.items()):
            found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        if self.unfinished:
            found |= {"GIT_DIR": self.unfinished, "GIT_WORK_TREE": self.directory}
        return found | (self.credentials if network else NO_CREDENTIALS).environment(self.url)

    def failure(self, doing: str, done: Completed, *, network: bool = False) -> HoldfastError:
        """Return the error of a command that has failed."""
        said = reason(done)
        advice = next((f"; {hint}" for part, hint in ADVICE.items() if part in done.stderr), "")
        if not network:
            return Permanent(f"cannot {doing} in {self.directory}: {said}{advice}")
        lasting = any(part in done.stderr for part in LASTING)
        return (Permanent if lasting else Temporary)(f"cannot read {self.url}: {said}{advice}")
