"""Repositories of dnf and zypper as states declare them: the fields of a section of a `.repo` file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

from holdfast.resources.accepts import VALUE, accepts
from holdfast.resources.fields import Line, Text, parse_text
from holdfast.resources.interfaces.results import Repo

SOURCES = ("baseurl", "mirrorlist", "metalink")
"""Arguments for the source of the packages; each replaces the others."""


@accepts(VALUE, bool, str, numbers=True)
def parse_setting(value: object) -> object:
    """Return the value of a field as text: a boolean becomes 1 or 0."""
    return str(int(value)) if isinstance(value, bool) else parse_text(value)


Setting = Annotated[Line, BeforeValidator(parse_setting)]
"""The value of a field; a boolean is written as 1 or 0."""


class RpmSettings(BaseModel):
    """Arguments that only dnf and zypper use: the fields of the same names in dnf.conf(5)."""

    baseurl: Text | None = None
    """One or several URLs of the repository, separated by blanks."""
    mirrorlist: Setting | None = None
    """URL of a list of mirrors."""
    metalink: Setting | None = None
    """URL of a metalink, which lists mirrors with hashes."""
    gpgcheck: bool | None = None
    """Check the signatures of packages. Default: the present value, and true for a new repository."""
    gpgkey: Setting | None = None
    """URLs of the keys of the repository."""
    priority: int | None = None
    """Priority of the repository; repositories with lower numbers are preferred."""
    autorefresh: Setting | None = None
    """Whether zypper updates the package lists automatically."""
    cost: Setting | None = None
    """Cost of the repository, compared with that of others with the same package."""
    countme: Setting | None = None
    """Whether dnf counts the host for the statistics of the distribution."""
    enabled_metadata: Setting | None = None
    """Whether desktops show the repository although it is not enabled."""
    enablegroups: Setting | None = None
    """Whether the groups of packages of the repository are used."""
    exclude: Setting | None = None
    """Packages that are never installed from the repository; the older name of `excludepkgs`."""
    excludepkgs: Setting | None = None
    """Packages that are never installed from the repository."""
    failovermethod: Setting | None = None
    """How yum chooses the next mirror; dnf ignores it."""
    includepkgs: Setting | None = None
    """The only packages that are installed from the repository."""
    keeppackages: Setting | None = None
    """Whether zypper keeps fetched packages."""
    metadata_expire: Setting | None = None
    """Age at which package lists are fetched again: seconds, or `6h`, `never`."""
    module_hotfixes: Setting | None = None
    """Whether packages are installed even if a module hides them."""
    pkg_gpgcheck: Setting | None = None
    """Whether zypper checks the signatures of packages."""
    proxy: Setting | None = None
    """URL of the proxy; `_none_` for none."""
    repo_gpgcheck: Setting | None = None
    """Whether the signature of the package lists is checked."""
    retries: Setting | None = None
    """Number of attempts at a download."""
    skip_if_unavailable: Setting | None = None
    """Whether dnf continues without the repository if it cannot be reached."""
    sslcacert: Setting | None = None
    """Path of the certificates of certificate authorities."""
    sslclientcert: Setting | None = None
    """Path of the certificate of this host."""
    sslclientkey: Setting | None = None
    """Path of the key of the certificate of this host."""
    sslverify: Setting | None = None
    """Whether the certificate of the server is checked."""
    timeout: Setting | None = None
    """Seconds without progress after which a download fails."""
    type: Setting | None = None
    """Format of the repository: `rpm-md`."""

    def settings(self) -> dict[str, str]:
        """Return the declared fields that are not members of `Repo`."""
        members = ("baseurl", "gpgcheck", "priority")
        values = {name: getattr(self, name) for name in RpmSettings.model_fields if name not in members}
        return {name: value for name, value in values.items() if value is not None}


def described(
    name: str, given: RpmSettings, present: Repo | None, *, humanname: str | None, enabled: bool
) -> tuple[Repo, Mapping[str, Any]]:
    """Return the description that the repository should have; fields that the state does not declare stay."""
    declared = given.settings() | ({"name": humanname} if humanname else {})
    extra = dict(present.extra) if present is not None else {"name": humanname or name}
    if any(getattr(given, source) for source in SOURCES):
        extra = {key: value for key, value in extra.items() if key not in SOURCES}
    uris = tuple((given.baseurl or "").replace(",", " ").split())
    if present is not None and not any(getattr(given, source) for source in SOURCES):
        uris = present.uris
    checked = given.gpgcheck if given.gpgcheck is not None else present is None or present.gpgcheck
    priority = given.priority if given.priority is not None or present is None else present.priority
    extra |= declared
    return Repo(id=name, uris=uris, enabled=enabled, gpgcheck=checked, priority=priority, extra=extra), declared
