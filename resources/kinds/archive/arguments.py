"""The arguments of `archive.extracted`, and what follows from them alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.dependencies import Dependency, lies_in, owned_by
from holdfast.resources.downloads import DownloadBounds, shown_url
from holdfast.resources.effects import EffectVerb
from holdfast.resources.fields import AbsPath, Owner, Text, Texts, field
from holdfast.resources.kinds._source_hash import SourceHash
from holdfast.resources.kinds.archive.members import Budget, Rules
from holdfast.resources.kinds.archive.options import ArchiveOptions, parse_options
from holdfast.resources.kinds.file import content
from holdfast.resources.kinds.file.base import Placed
from holdfast.resources.traits import FromSources, UsedSource

SIGNED = ("signature", "source_hash_sig", "signed_by_any", "signed_by_all", "keyring", "gnupghome", "sig_backend")
"""Arguments by which Salt checks the signature of a source."""
TRIMMED, MOST = 100, 1000
"""Most paths that are reported with `trim_output: true`, and in any case."""
CONTENT = "the content is always compared with that of the archive"


@accepts(Literal["tar", "zip"], None)
def parse_format(value: object) -> object:
    """Return the format in lower case. Raises `ValueError` for rar."""
    found = value.lower() if isinstance(value, str) else value
    if found == "rar":
        raise ValueError("rar archives are not extracted by Holdfast: repack it as tar or zip")
    return found


class ExtractedArguments(FromSources, Placed):
    """The arguments of `archive.extracted`."""

    exclusive: ClassVar[bool] = False
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change")
    former_names: ClassVar[Mapping[str, str]] = {"keep": "keep_source"}
    ignored: ClassVar[Mapping[str, str]] = {
        "source_hash_update": "an archive with another hash is always extracted",
        "overwrite": CONTENT,
        "list_options": "Holdfast lists archives itself",
        "use_cmd_unzip": "Holdfast extracts zip archives itself",
        "use_etag": "ETags are always used",
        "recurse": "user and group are those of all members in any case",
    }
    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(SIGNED, "Holdfast does not check signatures; use source_hash")

    source: Annotated[content.Sources, BeforeValidator(content.parse_sources)]
    """The archive: a URL, or a list of URLs; the first one that exists is used."""
    source_hash: SourceHash | None = None
    """Hash of the archive: `sha256=HEX`, `HEX`, or the URL of a file with hashes.

    Required for http unless `skip_verify` is set.
    """
    source_hash_name: str | None = None
    """Name of the archive in a file with hashes."""
    skip_verify: bool = False
    """Accept an http source without a hash."""
    skip_files_list_verify: bool = False
    """Compare only the hash of the archive with that of the last extraction, and not what is in the directory."""
    keep_source: bool = True
    """Keep a downloaded archive, so that a repair needs no server. All kept downloads together have at most 1 GiB."""
    archive_format: Annotated[Literal["tar", "zip"] | None, BeforeValidator(parse_format)] = None
    """`tar` (plain, gz, bz2, xz; zst with Python 3.14) or `zip`. Default: what the content says."""
    options: Text | None = None
    """Options of tar: `--strip-components=N` and `--exclude=GLOB`. Those about compression or output have no effect."""
    password: str | None = field(None, secret=True)
    """Password of a zip archive."""
    user: Owner | None = None
    """Owner of what is extracted, by name or number. Default: the agent's user, whatever the archive says."""
    group: Owner | None = None
    """Group of what is extracted. Default: the agent's group."""
    enforce_ownership_on: AbsPath | None = None
    """A path in the directory whose owner is kept, with all that is below, in place of that of the members."""
    if_missing: AbsPath | None = None
    """Do nothing while this path exists."""
    enforce_toplevel: bool = True
    """Refuse an archive that has anything but one directory at its top."""
    force: bool = False
    """Replace what is in the way: a directory in the place of a file, or the reverse. Otherwise that is an error."""
    clean: bool = False
    """After an extraction, remove from the directories at the top of the archive what it does not have."""
    clean_parent: bool = False
    """After an extraction, remove from the whole directory what the archive does not have."""
    extract_perms: bool = True
    """Modes are those of the archive; false: 0755 for directories, 0644 for files. Not for tar archives."""
    trusted: bool = False
    """Accept links that lead out of the directory, and modes with set-uid, set-gid, sticky and the right to write for
    group or others. Without it such a link is an error, and such bits are left out."""
    editable: Texts = ()
    """Globs of members that others may edit, such as `*/conf/*`: only that they exist is checked."""
    trim_output: bool | int = False
    """Most paths that are reported: true for 100, or a number. Default: 1000."""
    archive_limit: int = field(1024, unit="MiB", gt=0, le=1 << 20)
    """Greatest size of the archive."""
    size_limit: int = field(8192, unit="MiB", gt=0, le=1 << 20)
    """Greatest size of what is extracted, as it is read from the archive."""
    member_limit: int = field(200_000, gt=0, le=2_000_000)
    """Greatest number of members of the archive."""
    download_timeout: float = field(3600.0, unit="seconds", gt=0)
    """Time after which a download fails, even if it makes progress. A later attempt continues it."""

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, given: Any) -> Any:
        """Rename `keep`; with both names, the newer one counts, as in Salt."""
        if not isinstance(given, dict) or "keep" not in given:
            return given
        known = dict(given)
        former = known.pop("keep")
        return {"keep_source": former, **known}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.source:
            raise ValueError("source is missing: give the URL of the archive")
        for url, digest in self.source:
            if url.startswith(content.REMOTE) and not (self.source_hash or digest or self.skip_verify):
                raise ValueError(f"source {shown_url(url)} needs source_hash, or skip_verify: true")
        if self.clean and self.clean_parent:
            raise ValueError("clean and clean_parent exclude each other: give only one of them")
        if self.skip_files_list_verify and self.skip_verify:
            raise ValueError("skip_files_list_verify and skip_verify exclude each other: give only one of them")
        inside = self.enforce_ownership_on
        if inside is not None and not f"{inside}/".startswith(f"{self.name.rstrip('/')}/"):
            raise ValueError(f"enforce_ownership_on must be in {self.name}")
        if self.password is not None and self.archive_format == "tar":
            raise ValueError("a password is for zip archives only")
        self._options()
        return self

    def _options(self) -> ArchiveOptions:
        return parse_options(self.options or "")

    @property
    def rules(self) -> Rules:
        """How members are extracted."""
        options = self._options()
        return Rules(options.strip, options.exclude, self.trusted, self.extract_perms)

    @property
    def budget(self) -> Budget:
        """How much may be extracted."""
        return Budget(self.size_limit << 20, self.member_limit)

    @property
    def bounds(self) -> DownloadBounds:
        """Limits of the download."""
        return DownloadBounds(size=self.archive_limit << 20, total=self.download_timeout)

    @property
    def reported(self) -> int:
        """The greatest number of paths that are reported."""
        most = TRIMMED if self.trim_output is True else self.trim_output or MOST
        return min(most, MOST)

    def used_sources(self) -> list[UsedSource]:
        """Return the archives, and the files of hashes."""
        hashes = [digest for _, digest in self.source] + [self.source_hash]
        drawn = [UsedSource(url, choice=True) for url, _ in self.source]
        return drawn + [UsedSource(url) for url in hashes if url is not None and url.startswith(content.SCHEMES)]

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the directory, and the owner."""
        return (lies_in(f"{self.name}/x", vital=False), *owned_by(self.user, self.group))
