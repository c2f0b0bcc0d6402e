"""Repositories of apt, as states declare them and as the provider describes them. All functions are pure.

A state names one type, one URI and one suite, with components. An entry of a deb822 file may name several of each.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from holdfast.resources.apt_lines import fields_of_line, line_of
from holdfast.resources.interfaces.results import Repo

PARTS = "/etc/apt/sources.list.d"
KEYRINGS = "/etc/apt/keyrings"
TRUSTED = "/etc/apt/trusted.gpg.d"
"""Directory of keys that all repositories trust."""
YES = frozenset({"yes", "true", "1", "on", "enable", "with"})


class DeclaredAptRepo(NamedTuple):
    """One repository as a state declares it."""

    type: str
    uri: str
    suite: str
    components: tuple[str, ...]
    architectures: tuple[str, ...] = ()
    signed_by: str = ""
    options: Mapping[str, str] = {}
    """Other options by the names of their fields in a deb822 file."""

    @property
    def slug(self) -> str:
        """Name for files of this repository, derived from the URI."""
        place = re.sub(r"^[a-z0-9+.-]+:/*([^/@]*@)?", "", self.uri)
        return re.sub(r"[^A-Za-z0-9.]+", "-", place).strip("-.") or "local"

    @property
    def keys(self) -> tuple[str, ...]:
        """Texts that identify the parts of the repository: one for each component."""
        stem = f"{self.type} {self.uri.rstrip('/')} {self.suite}"
        return tuple(f"{stem} {component}" for component in self.components) or (stem,)

    def is_in(self, repo: Repo) -> bool:
        """Return whether an entry of the host has this type, URI and suite."""
        uris = [uri.rstrip("/") for uri in repo.uris]
        extra = repo.extra
        return (
            self.type in extra.get("types", ())
            and self.uri.rstrip("/") in uris
            and self.suite in extra.get("suites", ())
        )

    def shares(self, repo: Repo) -> bool:
        """Return whether an entry of the host has this type, URI and suite, and one of the components."""
        theirs = set(repo.extra.get("components", ()))
        mine = set(self.components)
        return self.is_in(repo) and bool(mine & theirs or (not mine and not theirs))


def entry_of(
    line: str, dist: str | None = None, comps: Iterable[str] = (), architectures: Iterable[str] = (), signedby: str = ""
) -> DeclaredAptRepo | None:
    """Return the repository that a line and the arguments of a state name; None if the line is not an entry."""
    fields = fields_of_line(line) or fields_of_line(f"{line} {dist or ''}")
    if fields is None:
        return None
    known = dict(fields)
    known.pop("Enabled", None)
    return DeclaredAptRepo(
        known.pop("Types"),
        known.pop("URIs"),
        dist or known["Suites"],
        tuple(comps) or tuple(known.pop("Components", "").split()),
        tuple(architectures) or tuple(known.pop("Architectures", "").split()),
        signedby or known.pop("Signed-By", ""),
        {
            name: value
            for name, value in known.items()
            if name not in ("Suites", "Components", "Architectures", "Signed-By")
        },
    )


def is_single(repo: Repo) -> bool:
    """Return whether an entry of the host names only one type, one URI and one suite."""
    return len(repo.uris) == 1 and all(len(repo.extra.get(name, ())) == 1 for name in ("types", "suites"))


def matching(entry: DeclaredAptRepo, repos: Iterable[Repo], *, enabled: bool) -> Repo | None:
    """Return the entry of the host that has the repository or some of its components; None if there is none.

    An entry for several repositories counts only if it has all components.
    """
    found = [repo for repo in repos if entry.shares(repo)]
    whole = [repo for repo in found if is_single(repo) or _covers(entry, repo, enabled=enabled)]
    return min(whole, key=lambda repo: repo.enabled is not enabled, default=None)


def _covers(entry: DeclaredAptRepo, repo: Repo, *, enabled: bool) -> bool:
    return repo.enabled is enabled and {*entry.components} <= {*repo.extra.get("components", ())}


def key_path(
    entry: DeclaredAptRepo, present: Repo | None, repos: Iterable[Repo], *, has_key: bool, for_all: bool
) -> str:
    """Return the path of the key that the repository should trust; empty if it needs no key of its own.

    A repository without a key of its own trusts the key of another entry for the same URI and suite, because apt
    refuses entries that differ in their key.
    """
    if entry.signed_by:
        return entry.signed_by
    if has_key:
        known = str(present.extra.get("signed_by", "")) if present is not None else ""
        own = f"{TRUSTED if for_all else KEYRINGS}/{entry.slug}.asc"
        return known if known.startswith("/") and not for_all and " " not in known else own
    others = [repo for repo in repos if repo is not present and repo.enabled]
    same = (
        repo
        for repo in others
        if entry.uri.rstrip("/") in [uri.rstrip("/") for uri in repo.uris] and entry.suite in repo.extra["suites"]
    )
    mine = str(present.extra.get("signed_by", "")) if present is not None else ""
    return next((str(repo.extra["signed_by"]) for repo in same if repo.extra.get("signed_by")), mine)


def described(
    entry: DeclaredAptRepo, present: Repo | None, *, name: str, file: str, signed_by: str, enabled: bool
) -> Repo:
    """Return the description that the repository should have; an entry for several repositories stays unchanged."""
    if present is not None and not is_single(present):
        return present
    known: Mapping[str, Any] = present.extra if present is not None else {}
    options = dict(entry.options)
    trusted = options.pop("Trusted", "no").lower() in YES
    if str(known.get("file", "")).endswith(".sources"):
        options = {**known.get("options", {}), **options}
    components, theirs = list(entry.components), list(known.get("components", ()))
    if {*components} == {*theirs}:
        components = theirs
    extra = {
        "types": [entry.type],
        "suites": [entry.suite],
        "components": components,
        "architectures": list(entry.architectures),
        "signed_by": signed_by,
        "options": options,
    }
    return Repo(
        id=present.id if present is not None else name,
        uris=present.uris if present is not None else (entry.uri,),
        enabled=enabled,
        gpgcheck=not trusted,
        extra={**{key: value for key, value in extra.items() if value}, "file": known.get("file", file)},
    )


def new_id(file: str, repos: Mapping[str, Repo]) -> str:
    """Return the id that a new entry of a file will have."""
    number = 1 + sum(repo.extra.get("file") == file for repo in repos.values())
    name = file.rpartition("/")[2]
    stems = (name,) if name == "sources.list" else (name.rpartition(".")[0], name)
    ids = [stem if number == 1 else f"{stem}:{number}" for stem in stems]
    return next((each for each in ids if each not in repos), ids[-1])


def without(entry: DeclaredAptRepo, repo: Repo) -> Repo | None:
    """Return an entry of the host without this repository; None if nothing is left of it.

    Raises `ValueError` if the entry names several repositories that only an operator can separate.
    """
    left = [name for name in repo.extra.get("components", ()) if name not in entry.components]
    if is_single(repo):
        return repo.model_copy(update={"extra": {**repo.extra, "components": left}}) if left else None
    lists: dict[str, Collection[str]] = {
        "types": repo.extra["types"],
        "uris": repo.uris,
        "suites": repo.extra["suites"],
    }
    several = [name for name, values in lists.items() if len(values) > 1]
    if left or len(several) > 1:
        raise ValueError("the entry also has other repositories and cannot be divided")
    mine = {"types": entry.type, "suites": entry.suite}
    if several == ["uris"]:
        return repo.model_copy(update={"uris": tuple(u for u in repo.uris if u.rstrip("/") != entry.uri.rstrip("/"))})
    rest = [value for value in lists[several[0]] if value != mine[several[0]]]
    return repo.model_copy(update={"extra": {**repo.extra, several[0]: rest}})


def as_line(repo: Repo) -> str:
    """Return an entry of the host as one line; for an entry of several repositories, the line of the first."""
    extra = repo.extra
    fields = {"Types": extra["types"][0], "URIs": repo.uris[0], "Suites": extra["suites"][0]}
    lists = {"Components": "components", "Architectures": "architectures"}
    fields |= {field: " ".join(extra[key]) for field, key in lists.items() if extra.get(key)}
    if extra.get("signed_by"):
        fields["Signed-By"] = str(extra["signed_by"])
    if not repo.gpgcheck:
        fields["Trusted"] = "yes"
    return line_of(fields | {name: str(value) for name, value in extra.get("options", {}).items()})


def told(repo: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the properties of an entry by Salt's names."""
    extra = repo.get("extra", {})
    one = {"type": "types", "dist": "suites"}
    yield from ((name, " ".join(extra.get(key, ()))) for name, key in one.items())
    yield "uri", " ".join(repo.get("uris", ()))
    yield "comps", extra.get("components", [])
    yield "architectures", extra.get("architectures", [])
    yield "disabled", not repo.get("enabled", True)
    yield "signedby", extra.get("signed_by", "")
    yield "trusted", not repo.get("gpgcheck", True)
    yield "options", extra.get("options", {})
