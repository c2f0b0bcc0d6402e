"""Python packages by pip: installed, removed or up to date."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import model_validator

from holdfast.resources.contract import Uid
from holdfast.resources.effects import EffectVerb
from holdfast.resources.fields import AbsPath, Given, Text, field
from holdfast.resources.interfaces.language import LanguageInterface
from holdfast.resources.interfaces.results import ChangeSet
from holdfast.resources.kinds._pip import (
    FOREIGN,
    HERE,
    OLD,
    Choosing,
    Located,
    RequirementFiles,
    Requirements,
    Versions,
    demand_requirement,
    spec,
)

REMOVED = (
    *("allow_all_external", "allow_external", "allow_unverified", "build", "download", "download_cache", "mirrors"),
    *("no_download", "no_install", "no_use_wheel", "process_dependency_links", "source", "use_wheel"),
)
"""Options of former versions of pip."""


class Installed(Choosing, Located, kind="pip.installed"):
    """Python packages are installed in the declared versions.

    The state installs missing packages and replaces those with a wrong version. The environment's own Python reads the
    metadata of installed packages. inotify reports changes of the directories of packages and of requirements files.
    pip never runs as root in an environment that another user can change; set `user` for such an environment. The state
    never changes the packages of a Python that belongs to the package manager of the system (PEP 668): use a virtual
    environment, which `virtualenv.managed` creates, or the package of the system.

    django:
      pip.installed:
        - name: django>=4.2,<5
        - bin_env: /srv/app/venv
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("install",)
    uses: ClassVar[tuple[str, ...]] = ("install", "list_installed", "unmet", "upgrade")
    ignored: ClassVar[Mapping[str, str]] = FOREIGN | dict.fromkeys(REMOVED, OLD) | {
        "exists_action": HERE,
        "global_options": OLD,
        "install_options": OLD,
        "repo": "write the URL of the repository as the name",
    }  # fmt: skip
    refused: ClassVar[Mapping[str, str]] = {
        "force_reinstall": "each check would install the packages again; use cmd.run to do this once",
        "ignore_installed": "each check would install the packages again; use cmd.run to do this once",
        "extra_args": "write options as variables in env_vars: PIP_NO_BUILD_ISOLATION for --no-build-isolation",
        "pip_bin": "write it as bin_env",
    }

    name: Given
    """The requirement, such as `django`, `django>=4.2,<5` or `django[argon2]==4.2.7`.

    With `pkgs`, `requirements` or `editable`, it is only a title.
    """
    pkgs: Requirements | None = field(None)
    """Several requirements instead of that in `name`."""
    requirements: RequirementFiles = field(())
    """Requirements files. If the agent runs as root, other users must not be able to change them."""
    editable: Requirements = field(())
    """Directories or URLs to install in editable mode."""
    upgrade: bool = field(False)
    """Also install newer versions from the index. Each check then asks the index."""
    target: AbsPath | None = field(None)
    """Directory to install into, instead of the package directories of the Python."""
    find_links: Text | None = field(None)
    """URL or directory in which pip also looks for packages."""
    no_index: bool = field(False)
    """Use only `find_links`, not an index."""
    cert: AbsPath | None = field(None)
    """File of certificate authorities."""
    trusted_host: Text | None = field(None)
    """Host whose certificate is not checked."""
    no_cache_dir: bool = field(False)
    """Do not use pip's cache."""
    cache_dir: AbsPath | None = field(None)
    """Directory of pip's cache."""
    timeout: float | None = field(None, unit="seconds", gt=0)
    """Time within which an index must answer. Default: that of pip."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        if not self.titled:
            demand_requirement(self.name)
        return self

    @property
    def titled(self) -> bool:
        """Whether the name is only a title."""
        return self.pkgs is not None or bool(self.requirements or self.editable)

    @property
    def wanted(self) -> list[str]:
        """The requirements in the form of the interface."""
        single = [] if self.titled else [self.name]
        return [
            *(self.pkgs if self.pkgs is not None else single),
            *(f"@{path}" for path in self.files(self.requirements)),
            *(f"editable {each}" for each in self.editable if each[0] != "."),
            *(f"editable {path}" for path in self.files([each for each in self.editable if each[0] == "."])),
        ]

    def variables(self) -> dict[str, str]:
        """Add the options that apply only to installations."""
        given: dict[str, Any] = {
            "FIND_LINKS": self.find_links,
            "NO_INDEX": "1" if self.no_index else "",
            "CERT": self.cert,
            "TRUSTED_HOST": self.trusted_host,
            "NO_CACHE_DIR": "1" if self.no_cache_dir else "",
            "CACHE_DIR": self.cache_dir,
            "DEFAULT_TIMEOUT": "" if self.timeout is None else f"{self.timeout:g}",
            "TARGET": self.target,
            "UPGRADE": "1" if self.upgrade else "",
        }
        return {f"PIP_{name}": value for name, value in given.items() if value} | super().variables()

    async def wrong(self, pip: LanguageInterface) -> dict[str, str]:
        """Return the unmet requirements and, with `upgrade`, the packages that have a newer version."""
        unmet = await pip.unmet(self.wanted, self.place, self.runas, self.target)
        if self.upgrade and not unmet:
            names = [spec(line).name for line in self.wanted if not line.startswith(("@", "editable "))]
            done = await pip.upgrade(names, self.place, self.runas, test=True, options=self.options())
            return {name: change["old"] for name, change in done.changes.items()}
        return unmet

    async def repair(self, pip: LanguageInterface, wrong: Mapping[str, str], *, test: bool) -> ChangeSet:
        """Install all requirements in one command, so that pip finds compatible versions."""
        specs = [spec(line) for line in self.wanted]
        return await pip.install(specs, self.place, self.runas, test=test, options=self.options())

    def said(self, changes: Versions) -> dict[str, Any]:
        """Return `name==version: Installed`, as Salt does."""
        known = {name: change["new"] if " " not in change["new"] else "" for name, change in changes.items()}
        return {f"{name}=={version or '???'}": "Installed" for name, version in known.items()}

    def uids(self) -> tuple[Uid, ...]:
        """Return the requirements in their environment."""
        return tuple([("pip", f"{self.target or self.place or ''} {line}") for line in self.wanted])


class Removed(Located, kind="pip.removed"):
    """A Python package is not installed.

    inotify reports changes of the directories of packages.

    docutils:
      pip.removed:
        - bin_env: /srv/app/venv
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("remove",)
    uses: ClassVar[tuple[str, ...]] = ("list_installed", "remove")
    ignored: ClassVar[Mapping[str, str]] = FOREIGN | dict.fromkeys(("proxy", "timeout"), "a removal needs no network")
    refused: ClassVar[Mapping[str, str]] = {"requirements": "write one state with `names` for the packages"}

    name: Given
    """The package; versions and extras are ignored."""

    @model_validator(mode="after")
    def _named(self) -> Self:
        demand_requirement(self.name)
        return self

    async def wrong(self, pip: LanguageInterface) -> dict[str, str]:
        """Return the package if it is installed."""
        found = await pip.list_installed([spec(self.name).name], self.place, self.runas)
        return {name: pkgs[0].version for name, pkgs in found.items()}

    async def repair(self, pip: LanguageInterface, wrong: Mapping[str, str], *, test: bool) -> ChangeSet:
        """Remove the package."""
        return await pip.remove([*wrong], self.place, self.runas, test=test)

    def said(self, changes: Versions) -> dict[str, Any]:
        """Return `name: Removed`, as Salt does."""
        return dict.fromkeys(changes, "Removed")

    def uids(self) -> tuple[Uid, ...]:
        """Return the package in its environment."""
        return (("pip", f"{self.place or ''} {self.name}"),)


class UpToDate(Located, kind="pip.uptodate"):
    """All Python packages of an environment have their newest version.

    Each check asks the index for each package. inotify reports changes of the directories of packages; the periodic
    recheck finds newer versions in the index.

    all packages of the application:
      pip.uptodate:
        - bin_env: /srv/app/venv
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("change",)
    uses: ClassVar[tuple[str, ...]] = ("list_installed", "upgrade")

    name: Given
    """A title."""

    async def wrong(self, pip: LanguageInterface) -> dict[str, str]:
        """Return the packages that have a newer version."""
        done = await self.repair(pip, {}, test=True)
        return {name: change["old"] for name, change in done.changes.items()}

    async def repair(self, pip: LanguageInterface, wrong: Mapping[str, str], *, test: bool) -> ChangeSet:
        """Upgrade the packages."""
        return await pip.upgrade([*wrong], self.place, self.runas, test=test)

    def uids(self) -> tuple[Uid, ...]:
        """Return the environment."""
        return (("pip-environment", self.place or ""),)
