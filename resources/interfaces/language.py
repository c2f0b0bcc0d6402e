"""`language`: packages of a programming language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from holdfast.resources.context import Watch
from holdfast.resources.interfaces.base import Interface, Options
from holdfast.resources.interfaces.results import ChangeSet, Pkg, PkgSpec
from holdfast.resources.watches import idle


class LanguageInterface(Interface, name="language", chosen_by_name=True):
    """Query, install and remove packages of a programming language, by the tool that the caller names.

    A call has the name of the tool in place of that of the interface: `holdfast call pip.install requests
    target=/opt/venv`.

    `target` says where the packages are: None: where all users of the host find them; `user`: those of one user; an
    absolute path: a virtual environment, or the directory of a project or of packages. `runas` is the user who runs the
    tool, by default the agent's own. A target that another user can change is refused unless that user is `runas`.
    `index` is where packages come from: a URL or, if the tool can, a directory of package files; by default what the
    tool is configured for.

    Functions that change something return what they changed, including dependencies that the tool lists; with `test`
    they change nothing and return what they would change. They raise `Permanent` if the tool refuses.

    With `test`, and in functions that only query, the code of packages that are not installed never runs. What only
    this code could tell is reported as `unknown until installed`. Packages that are in the target already may run code
    whenever their tool starts, as `.pth` files of Python and plugins of gem do.
    """

    words: ClassVar[frozenset[str]] = frozenset({
        "a", "b", "directory", "index", "names", "pkgs", "requirements", "runas", "target",
    })  # fmt: skip

    async def list_installed(
        self, names: Sequence[str] = (), target: str | None = None, runas: str | None = None
    ) -> dict[str, list[Pkg]]:
        """Return the installed packages by name; with `names` only these."""
        return {}

    async def latest(
        self, names: Sequence[str], target: str | None = None, runas: str | None = None, index: str | None = None
    ) -> dict[str, str | None]:
        """Return the newest version that can be installed, by name; None for a name that the index does not have."""
        return {}

    async def unmet(
        self,
        requirements: Sequence[str],
        target: str | None = None,
        runas: str | None = None,
        directory: str | None = None,
    ) -> dict[str, str]:
        """Return the requirements that are not met, each with the installed version of its package, or an empty text.

        A requirement is a name, perhaps with versions, as the tool's command line has it. With `directory`, only
        packages in this directory count.
        """
        return {}

    def watch(self, target: str | None = None, runas: str | None = None) -> Watch:
        """Watch the directories that contain the packages of a target, which need not exist yet."""
        return idle()

    async def install(
        self,
        pkgs: Sequence[PkgSpec],
        target: str | None = None,
        runas: str | None = None,
        index: str | None = None,
        *,
        test: bool = False,
        options: Options = None,
    ) -> ChangeSet:
        """Install packages, or change them to the given version. Without a version, an installed package stays."""
        return ChangeSet()

    async def remove(
        self,
        names: Sequence[str],
        target: str | None = None,
        runas: str | None = None,
        *,
        test: bool = False,
        options: Options = None,
    ) -> ChangeSet:
        """Remove packages; names that are not installed are left out."""
        return ChangeSet()

    async def upgrade(
        self,
        names: Sequence[str] = (),
        target: str | None = None,
        runas: str | None = None,
        index: str | None = None,
        *,
        test: bool = False,
        options: Options = None,
    ) -> ChangeSet:
        """Upgrade these packages, or all, to the newest version; names that are not installed are left out."""
        return ChangeSet()

    async def compare(self, a: str, b: str, target: str | None = None, runas: str | None = None) -> Literal[-1, 0, 1]:
        """Compare two versions by the rules of the language: -1 if `a` is older, 1 if it is newer."""
        return 0
