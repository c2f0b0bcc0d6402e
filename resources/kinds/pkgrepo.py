"""Repositories of packages, with their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import model_validator

from holdfast.resources.context import Context
from holdfast.resources.contract import Resource, Uid
from holdfast.resources.dependencies import REPOSITORIES, Dependency, lies_in
from holdfast.resources.errors import Final, Permanent
from holdfast.resources.fields import AbsPath, Line, shaped
from holdfast.resources.interfaces.pkg import PkgInterface
from holdfast.resources.interfaces.results import Repo
from holdfast.resources.kinds import _pkgrepo_apt as apt
from holdfast.resources.kinds._pkgrepo import RepoChange, Repository, Words, hidden, is_rpm
from holdfast.resources.kinds._pkgrepo_keys import Keyed, KeyIds
from holdfast.resources.kinds._pkgrepo_rpm import RpmSettings, described
from holdfast.resources.needs import Need, needed
from holdfast.resources.traits import Declaration, Reversible


class Managed(Keyed, RpmSettings, Reversible, Repository, kind="pkgrepo.managed"):
    """A repository of packages is configured, and its lists of packages are fetched.

    On apt, the state keeps one entry of the repository as declared, in the file that has it; a new entry gets a file of
    its own. The lists are fetched before the entry is put in place: if that fails, nothing is changed. Later states of
    the family `pkg` wait for the repository.

    deb [arch=amd64] https://deb.example.org/apt stable main:
      pkgrepo.managed:
        - file: /etc/apt/sources.list.d/example.list
        - key_url: https://deb.example.org/apt/key.asc
        - key_hash: sha256=0d86fcf1a75ea1a2eb77ab6bde12f2ba2dd3c68d2d1ad33a9a3b5a4b0ed6cb35
    """

    ignored: ClassVar[Mapping[str, str]] = {
        "comments": "nothing reads the comments of a repository",
        "gnupghome": "keys are kept in files, not in a keyring of gpg",
    }
    refused: ClassVar[Mapping[str, str]] = {
        "consolidate": "it would rewrite the entries of all repositories; declare each of them",
        "copr": "declare the baseurl and the gpgkey that the project's page names",
        "ppa_auth": "all users can read the list of repositories; put the password into /etc/apt/auth.conf.d",
        "repo": "use the argument name instead",
    }
    former_names: ClassVar[Mapping[str, str]] = {"refresh_db": "refresh"}

    humanname: Line | None = None
    """On dnf and zypper, the readable name of the repository. On apt it has no effect."""
    file: AbsPath | None = None
    """On apt, the file for a new entry; a file that ends in `.sources` has the deb822 format.

    Default: a file of its own in `/etc/apt/sources.list.d`.
    """
    dist: Annotated[Line, shaped(r"[A-Za-z0-9.][\w.+~/:-]*", "a suite")] | None = None
    """On apt, the suite instead of that in the name."""
    comps: Words = ()
    """On apt, the components instead of those in the name: a list, or text with commas."""
    architectures: Words = ()
    """On apt, the architectures instead of those in the name: a list, or text with commas."""
    signedby: AbsPath | None = None
    """On apt, the file of the key that the repository trusts; a declared key is written to it.

    Default: that in the name; with a declared key, a file in `/etc/apt/keyrings`.
    """
    aptkey: bool | None = None
    """On apt, true makes all repositories trust the key. Default: only this one does."""
    enabled: bool | None = None
    """Whether the repository is used. Default: true."""
    disabled: bool | None = None
    """The opposite of `enabled`."""
    clean_file: bool = False
    """On apt, remove all other entries of the file."""
    refresh: bool = True
    """Fetch the package lists of the repository before it is configured."""
    gpgautoimport: bool = False
    """On zypper, trust the key that `gpgkey` names."""

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, given: Any) -> Any:
        if isinstance(given, dict) and "refresh_db" in given and "refresh" not in given:
            return {("refresh" if name == "refresh_db" else name): value for name, value in given.items()}
        return given

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.enabled is not None and self.disabled is not None:
            raise ValueError("enabled and disabled exclude each other: set only one of them")
        named = None if self.ppa else self._named()
        if named is not None and not named.components and not named.suite.endswith("/"):
            raise ValueError(
                f"{self.name!r} names no component: write it after the suite, as in 'stable main'; only a suite "
                "that ends with / has none"
            )
        return self

    @property
    def is_enabled(self) -> bool:
        """Whether the repository should be used."""
        return self.enabled is not False and not self.disabled

    def _named(self) -> apt.DeclaredAptRepo | None:
        return apt.entry_of(self.name, self.dist, self.comps, self.architectures, self.signedby or "")

    def needs(self) -> tuple[Need, ...]:
        """Return the functions for repositories."""
        return needed(PkgInterface, "repos", "repo_set", "repo_files")

    def offers(self) -> tuple[Uid, ...]:
        """Return that packages may come from this repository: all later states of packages wait for it."""
        return ((REPOSITORIES, ""),)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the files of the keys and the directory of the list."""
        keys = [self.key_url or "", self.signedby or "", getattr(self._named(), "signed_by", "")]
        files = [Dependency("path", key.removeprefix("file://"), vital=False) for key in keys if key.startswith("/")]
        return (*files, *((lies_in(self.file, vital=False),) if self.file else ()))

    def touches(self) -> tuple[Uid, ...]:
        """Return the file of the entry."""
        return (("path", self.file),) if self.file else ()

    def _paths(self, ctx: Context) -> list[str]:
        named = self._named()
        return [path for path in (*self.outside_paths(ctx), named.signed_by if named else "") if path.startswith("/")]

    async def change(self, ctx: Context, pkg: PkgInterface, *, apply: bool, test: bool) -> Mapping[str, Any]:
        """Compare with the repositories of the host; fetch a key only if it is needed."""
        repos = await pkg.repos()
        plan = await self._of_rpm(ctx, repos, apply) if is_rpm(ctx) else await self._of_apt(ctx, repos, apply)
        if not test and "key" in plan.options:
            await self.keep_key(ctx, str(plan.options["key"]))
        done = await pkg.repo_set(plan.repo, test=test, options=plan.options, refresh=self.refresh and not test)
        return done.changes

    async def _key(self, ctx: Context, present: Repo | None, apply: bool) -> dict[str, str]:
        """Return the key as an option. A plan of a new repository does not fetch it."""
        return {"key": await self.fetch_key(ctx)} if self.has_key and (apply or present is not None) else {}

    async def _of_apt(self, ctx: Context, repos: Mapping[str, Repo], apply: bool) -> RepoChange:
        entry = self.entry(ctx)
        present = apt.matching(entry, repos.values(), enabled=self.is_enabled)
        signed_by = apt.key_path(
            entry, present, repos.values(), has_key=self.has_key, for_all=self.aptkey is True and not entry.signed_by
        )
        file = self.file or f"{apt.PARTS}/{entry.slug}.list"
        repo = apt.described(
            entry, present, name=apt.new_id(file, repos), file=file, signed_by=signed_by, enabled=self.is_enabled
        )
        options = {"clean_file": True} if self.clean_file else {}
        return RepoChange(repo, {**options, **await self._key(ctx, present, apply)})

    async def _of_rpm(self, ctx: Context, repos: Mapping[str, Repo], apply: bool) -> RepoChange:
        present = repos.get(self.name)
        repo, declared = described(self.name, self, present, humanname=self.humanname, enabled=self.is_enabled)
        if not repo.uris and not any(repo.extra.get(source) for source in ("mirrorlist", "metalink")):
            raise Final(f"cannot manage the repository {self.name}: set baseurl, mirrorlist or metalink")
        if self.has_key and "gpgkey" not in declared:
            extra = {key: value for key, value in repo.extra.items() if key != "gpgkey"}
            repo = repo.model_copy(update={"extra": extra})
        options = {"import_key": True} if self.gpgautoimport else {}
        return RepoChange(repo, {**options, **await self._key(ctx, present, apply)})

    async def inverse(self, ctx: Context) -> Declaration | None:
        """Return a declaration of the present entry, or of its absence."""
        repos = await ctx.interface(PkgInterface).repos()
        absent = Declaration("pkgrepo.absent", {"name": self.name, **({"ppa": self.ppa} if self.ppa else {})})
        if is_rpm(ctx):
            return _of_section(repos[self.name]) if self.name in repos else absent
        present = apt.matching(self.entry(ctx), repos.values(), enabled=self.is_enabled)
        if present is None:
            return absent
        if not apt.is_single(present):
            return None
        arguments = {"name": apt.as_line(present), "disabled": not present.enabled, "refresh": False}
        return Declaration("pkgrepo.managed", {**arguments, "file": present.extra["file"]})

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        return f"the repository {hidden(self.ppa or self.name)} is already configured"

    def contradicts(self, other: Resource) -> str | None:
        """Return the contradiction: two states give one repository different components or architectures."""
        found = super().contradicts(other)
        if found or not isinstance(other, Managed):
            return found
        mine, theirs = self._named(), other._named()  # noqa: SLF001 - of the same class
        if mine is None or theirs is None:
            return None
        for name in ("components", "architectures"):
            if {*getattr(mine, name)} != {*getattr(theirs, name)}:
                return f"{name} differ"
        return None


def _of_section(repo: Repo) -> Declaration:
    """Return a repository of dnf or zypper as a declaration, with the arguments that the kind has."""
    known = {name: value for name, value in repo.extra.items() if name in RpmSettings.model_fields}
    arguments = {"name": repo.id, "humanname": repo.extra.get("name"), "enabled": repo.enabled, "refresh": False}
    more = {"baseurl": " ".join(repo.uris) or None, "gpgcheck": repo.gpgcheck, "priority": repo.priority}
    given = {name: value for name, value in {**arguments, **more, **known}.items() if value is not None}
    return Declaration("pkgrepo.managed", given)


class Absent(Repository, kind="pkgrepo.absent"):
    """A repository of packages is not configured.

    On apt, the state removes the components of the entry from all files. If the name is not an entry, it is the name of
    a file without its suffix: the state removes the only entry of `/etc/apt/sources.list.d/NAME.list` or
    `NAME.sources`. If the file has several entries, the state fails and lists them.

    deb https://deb.example.org/apt stable main:
      pkgrepo.absent
    """

    ignored: ClassVar[Mapping[str, str]] = {
        "keyid_ppa": "the key of a repository is removed with the repository if it has a file of its own",
        "ppa_auth": "a repository is identified by its URL without user and password",
    }
    refused: ClassVar[Mapping[str, str]] = {"copr": "write the id of the repository as the name"}

    keyid: KeyIds = ()
    """If set, the file of the key is removed, too, unless another repository uses it.

    A key in a file that `pkgrepo.managed` has chosen is always removed.
    """

    def needs(self) -> tuple[Need, ...]:
        """Return the functions for repositories."""
        return needed(PkgInterface, "repos", "repo_set", "repo_remove", "repo_files")

    def offers(self) -> tuple[Uid, ...]:
        """Return that packages may come from this repository: all later states of packages wait for it."""
        return ((REPOSITORIES, ""),)

    async def change(self, ctx: Context, pkg: PkgInterface, *, apply: bool, test: bool) -> Mapping[str, Any]:
        """Remove the repository from all files, one entry at a time: each removal changes the ids of later entries."""
        if is_rpm(ctx):
            return (await pkg.repo_remove(self.name, test=test)).changes
        if self.ppa is None and self._named() is None:
            return await self._remove_called(pkg, test=test)
        entry = self.entry(ctx)
        changes: dict[str, Any] = {}
        while repo := next((each for each in (await pkg.repos()).values() if entry.shares(each)), None):
            changes |= await self._remove(pkg, entry, repo, test=test)
            if test:
                break
        return changes

    async def _remove_called(self, pkg: PkgInterface, *, test: bool) -> Mapping[str, Any]:
        """Remove the only entry of the file that has this name."""
        files = (f"{apt.PARTS}/{self.name}.list", f"{apt.PARTS}/{self.name}.sources")
        found = [repo for repo in (await pkg.repos()).values() if repo.extra["file"] in files]
        if len(found) > 1:
            entries = ", ".join(repr(hidden(apt.as_line(repo))) for repo in found)
            raise Final(
                f"cannot remove the repository {self.name}: {found[0].extra['file']} has several entries; declare "
                f"each unwanted entry by its whole text, or the file with file.absent: {entries}"
            )
        if not found:
            return {}
        entry = apt.entry_of(apt.as_line(found[0])) if apt.is_single(found[0]) else None
        if entry is not None:
            return await self._remove(pkg, entry, found[0], test=test)
        return (await pkg.repo_remove(found[0].id, test=test, options={"key": bool(self.keyid)})).changes

    async def _remove(
        self, pkg: PkgInterface, entry: apt.DeclaredAptRepo, repo: Repo, *, test: bool
    ) -> Mapping[str, Any]:
        try:
            left = apt.without(entry, repo)
        except ValueError as error:
            raise Permanent(f"cannot remove {self.name} from {repo.extra['file']}: {error}") from None
        if left is not None:
            return (await pkg.repo_set(left, test=test)).changes
        own = repo.extra.get("signed_by") == f"{apt.KEYRINGS}/{entry.slug}.asc"
        return (await pkg.repo_remove(repo.id, test=test, options={"key": own or bool(self.keyid)})).changes

    def explain(self, ctx: Context) -> str:
        """Return why no change was needed."""
        comment = f"the repository {hidden(self.ppa or self.name)} is absent"
        if is_rpm(ctx) or self.ppa or self._named() is not None:
            return comment
        return f"{comment}: {apt.PARTS} has no file with that name"
