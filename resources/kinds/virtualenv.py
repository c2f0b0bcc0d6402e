"""Virtual environments of Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar

from holdfast.resources import paths
from holdfast.resources.assignment import announced
from holdfast.resources.context import Completed, Context
from holdfast.resources.contract import Uid
from holdfast.resources.dependencies import Dependency, lies_in
from holdfast.resources.effects import Effect, EffectVerb
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import AbsPath, Line, field, shaped
from holdfast.resources.interfaces.language import LanguageInterface
from holdfast.resources.interfaces.results import ChangeSet
from holdfast.resources.kinds._commands import reason
from holdfast.resources.kinds._pip import FOREIGN, OLD, Choosing, RequirementFiles, Requirements, Versions, spec

MINUTES = 5 * 60.0
"""Time limit of the creation, in seconds: it unpacks pip into the environment."""

Program = Annotated[str, shaped(r"/[^\x00-\x1f\x7f]+|[A-Za-z0-9_][A-Za-z0-9._-]*", "the name or path of a program")]


class Managed(Choosing, kind="virtualenv.managed"):
    """A virtual environment of Python exists, with the declared packages.

    Python's own `venv` creates the environment. If its Python is missing or its creation was interrupted, the state
    creates it again and keeps its packages. As root, the state refuses to create it where another user could change it:
    set `user`. inotify reports changes of its directories of programs and packages, and of the requirements files.

    /srv/app/venv:
      virtualenv.managed:
        - requirements: /srv/app/requirements.txt
    """

    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("install", "create")
    uses: ClassVar[tuple[str, ...]] = ("install", "list_installed", "unmet")
    ignored: ClassVar[Mapping[str, str]] = {
        **FOREIGN,
        **dict.fromkeys(("distribute", "process_dependency_links", "no_use_wheel", "use_wheel"), OLD),
        **dict.fromkeys(("pip_download", "pip_download_cache", "pip_exists_action"), OLD),
        "extra_search_dir": "venv uses the pip that comes with Python",
        "never_download": "venv downloads nothing",
        "pip_ignore_installed": "a new environment has no packages",
        "venv_bin": "Python's own venv creates the environment",
    }
    refused: ClassVar[Mapping[str, str]] = {
        "clear": "each check would remove all packages; use file.absent to do this once",
        "pip_upgrade": "use pip.installed with `upgrade`, or pip.uptodate, for this environment",
    }

    name: AbsPath
    """The directory of the environment."""
    python: Annotated[str, shaped(r"/[^\x00-\x1f\x7f]+|[A-Za-z0-9_][A-Za-z0-9._-]*", "a Python", 4096)] = field(
        "python3"
    )
    """Python of a new environment: a program or its path."""
    system_site_packages: bool = field(False)
    """Make the packages of that Python available in a new environment, too."""
    prompt: Line | None = field(None)
    """Prompt that a new environment shows in shells. Default: the name of its directory."""
    requirements: RequirementFiles = field(())
    """Requirements files to install."""
    pip_pkgs: Requirements = field(())
    """Requirements to install, such as `django>=4.2,<5`."""
    pip_no_cache_dir: bool = field(False)
    """Do not use pip's cache."""
    pip_cache_dir: AbsPath | None = field(None)
    """Directory of pip's cache."""

    @property
    def place(self) -> str | None:
        """The environment."""
        return self.name

    @property
    def wanted(self) -> list[str]:
        """The requirements in the form of the interface."""
        return [*self.pip_pkgs, *(f"@{path}" for path in self.files(self.requirements))]

    def variables(self) -> dict[str, str]:
        """Add the options of the cache."""
        given = {
            "PIP_NO_CACHE_DIR": "1" if self.pip_no_cache_dir else "",
            "PIP_CACHE_DIR": self.pip_cache_dir or "",
        }
        return {name: value for name, value in given.items() if value} | super().variables()

    async def wrong(self, pip: LanguageInterface) -> dict[str, str]:
        """Return the unmet requirements."""
        return await pip.unmet(self.wanted, self.name, self.runas) if self.wanted else {}

    async def repair(self, pip: LanguageInterface, wrong: Mapping[str, str], *, test: bool) -> ChangeSet:
        """Install all requirements in one command."""
        specs = [spec(line) for line in self.wanted]
        return await pip.install(specs, self.name, self.runas, test=test, options=self.options())

    def said(self, changes: Versions) -> dict[str, Any]:
        """Return the packages before and after, as Salt does."""
        sides = {
            side: [f"{name}=={change[side]}" for name, change in changes.items() if change[side]]
            for side in ("new", "old")
        }
        return {"packages": sides} if changes else {}

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Create the environment, then install packages in it."""
        if await self._is_whole(ctx):
            return await super().check_apply(ctx, apply)
        made = Effect(("create",), f"the virtual environment {self.name}")
        if not apply:
            ctx.report.changes = {"new": self.python}
            ctx.report.did(made, applied=False)
            return False
        if self.runas is None:
            await ctx.blocking(_demand_trusted, self.name)
        await ctx.assignment.announce()
        ctx.report.touched = True
        switches = ["--system-site-packages"] if self.system_site_packages else []
        switches += [f"--prompt={self.prompt}"] if self.prompt else []
        done = await ctx.run(
            self.python, "-m", "venv", *switches, self.name, user=self.runas, check=False, timeout=MINUTES
        )
        if done.retcode:
            raise Permanent(f"cannot make the virtual environment {self.name}: {_why(done)}")
        version = await ctx.run(f"{self.name}/bin/python", "-V", user=self.runas)
        if self.wanted:
            await super().check_apply(ctx, apply)
        ctx.report.changes = {**ctx.report.changes, "new": version.stdout.strip()}
        ctx.report.did(made, applied=True)
        return False

    async def _is_whole(self, ctx: Context) -> bool:
        """Return whether the environment has a Python and `activate`, which venv writes last."""
        python, last = f"{self.name}/bin/python", f"{self.name}/bin/activate"
        done = await ctx.run("test", "-x", python, "-a", "-f", last, user=self.runas, check=False)
        return done.retcode == 0

    def uids(self) -> tuple[Uid, ...]:
        """Return the directory."""
        return (("path", self.name),)

    def dependencies(self) -> tuple[Dependency, ...]:
        """Add the parent directory."""
        return (lies_in(self.name, vital=False), *super().dependencies())


def _demand_trusted(path: str) -> None:
    """Raise `Permanent` if another user could change an environment at a path: the nearest existing parent counts."""
    for parent in (path, *map(str, PurePosixPath(path).parents)):
        try:
            place = paths.at(parent, follow=True)
            if (info := place.look()) is not None:
                paths.demand_trusted(place, info)
                return
        except FileNotFoundError:
            continue
        except paths.Unsafe as error:
            raise Permanent(f"cannot make {path} as root: {error}; set `user` to its owner") from None


def _why(done: Completed) -> str:
    """Return why venv failed, with a hint for Debian, which has venv in a package of its own."""
    missing = "ensurepip" in done.stdout + done.stderr or "No module named venv" in done.stderr
    return f"{reason(done)}; install python3-venv" if missing else reason(done)
