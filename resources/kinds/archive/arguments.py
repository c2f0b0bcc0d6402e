"""The arguments of `archive.extracted`, and what can be derived from them alone."""

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
from holdfast.resources.kinds.archive.members import ExtractionBudget, ExtractionRules
from holdfast.resources.kinds.archive.options import ArchiveOptions, parse_options
from holdfast.resources.kinds.file import content
from holdfast.resources.kinds.file.base import Placed
from holdfast.resources.traits import FromSources, UsedSource

SIGNED = ("signature", "source_hash_sig", "signed_by_any", "signed_by_all", "keyring", "gnupghome", "sig_backend")
"""Arguments by which Salt checks the signature of a source."""
TRIMMED, MOST = 100, 1000
"""Maximum number of reported paths: with `trim_output: true`, and by default."""
CONTENT = "the content is always compared with that of the archive"


@accepts(Literal["tar", "zip"], None)
def parse_format(value: object) -> object:
    """Return the format in lower case. Raises `ValueError` for rar."""
    found = value.lower() if isinstance(value, str) else value
    if found == "rar":
        raise ValueError("Holdfast does not extract rar archives: repack it as tar or zip")
    return found


class ExtractedArguments(FromSources, Placed):
    """The arguments of `archive.extracted`."""

    exclusive: ClassVar[bool] = False
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ("create", "change")
    former_names: ClassVar[Mapping[str, str]] = {"keep": "keep_source"}
    ignored: ClassVar[Mapping[str, str]] = {
        "source_hash_update": "an archive with a new hash is always extracted",
        "overwrite": CONTENT,
        "list_options": "Holdfast lists archives itself",
        "use_cmd_unzip": "Holdfast extracts zip archives itself",
        "use_etag": "ETags are always used",
        "recurse": "user and group always apply to all members",
    }
    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(SIGNED, "Holdfast does not check signatures; use source_hash")

    source: Annotated[content.Sources, BeforeValidator(content.parse_sources)]
    """The archive: a URL, or a list of URLs, of which the first that exists is used."""
    source_hash: SourceHash | None = None
    """Hash of the archive: `sha256=HEX`, `HEX`, or the URL of a file with hashes.

    Required for http unless `skip_verify` is set.
    """
    source_hash_name: str | None = None
    """Name of the archive in a file with hashes."""
    skip_verify: bool = False
    """Accept an http source without a hash."""
    skip_files_list_verify: bool = False
    """Compare only the hash of the archive with that of the last extraction, not the files in the directory."""
    keep_source: bool = True
    """Keep a downloaded archive, so that a repair needs no server. All kept downloads together use at most 1 GiB."""
    archive_format: Annotated[Literal["tar", "zip"] | None, BeforeValidator(parse_format)] = None
    """`tar` (plain, gz, bz2, xz; zst with Python 3.14) or `zip`. Default: detected from the content; a self-extracting
    zip archive needs `zip`."""
    options: Text | None = None
    """Options of tar: `--strip-components=N` and `--exclude=GLOB`. Options for compression or output have no effect."""
    password: str | None = field(None, secret=True)
    """Password of a zip archive."""
    user: Owner | None = None
    """Owner of all members, by name or number. Default: the agent's user, whatever owner the archive names."""
    group: Owner | None = None
    """Group of all members. Default: the agent's group."""
    enforce_ownership_on: AbsPath | None = None
    """A path in the directory: `user` and `group` apply to it and everything below it, and not to the members."""
    if_missing: AbsPath | None = None
    """Do nothing while this path exists."""
    enforce_toplevel: bool = True
    """Refuse an archive unless its top level is exactly one directory."""
    force: bool = False
    """Replace an entry of another type, such as a directory in place of a file. Without it, that is an error."""
    clean: bool = False
    """After an extraction, remove what the archive does not have from its top-level directories."""
    clean_parent: bool = False
    """After an extraction, remove what the archive does not have from the whole directory."""
    extract_perms: bool = True
    """Use the modes of the archive; false: 0755 for directories, 0644 for files. Tar archives ignore it."""
    trusted: bool = False
    """Accept links that lead out of the directory, and modes with set-uid, set-gid, sticky and write permission for
    group or others. Without it such a link is an error, and such bits are removed."""
    editable: Texts = ()
    """Globs of members that others may edit, such as `*/conf/*`: the state only makes sure that they exist."""
    trim_output: bool | int = False
    """Maximum number of reported paths: true for 100, or a number. Default: 1000."""
    archive_limit: int = field(1024, unit="MiB", gt=0, le=1 << 20)
    """Maximum size of the archive."""
    size_limit: int = field(8192, unit="MiB", gt=0, le=1 << 20)
    """Maximum uncompressed size of all members."""
    member_limit: int = field(200_000, gt=0, le=2_000_000)
    """Maximum number of members of the archive."""
    download_timeout: float = field(3600.0, unit="seconds", gt=0)
    """Time after which a download fails, even if it makes progress. A later attempt continues it."""

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, given: Any) -> Any:
        """Rename `keep`; if both names are given, the newer one counts, as in Salt."""
        if not isinstance(given, dict) or "keep" not in given:
            return given
        known = dict(given)
        former = known.pop("keep")
        return {"keep_source": former, **known}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.source:
            raise ValueError("source is missing: set it to the URL of the archive")
        for url, digest in self.source:
            if url.startswith(content.REMOTE) and not (self.source_hash or digest or self.skip_verify):
                raise ValueError(f"source {shown_url(url)} needs source_hash, or skip_verify: true")
        if self.clean and self.clean_parent:
            raise ValueError("clean and clean_parent exclude each other: set only one of them")
        if self.skip_files_list_verify and self.skip_verify:
            raise ValueError("skip_files_list_verify and skip_verify exclude each other: set only one of them")
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
    def rules(self) -> ExtractionRules:
        """How members are extracted."""
        options = self._options()
        return ExtractionRules(options.strip, options.exclude, self.trusted, self.extract_perms)

    @property
    def budget(self) -> ExtractionBudget:
        """How much may be extracted."""
        return ExtractionBudget(self.size_limit << 20, self.member_limit)

    @property
    def bounds(self) -> DownloadBounds:
        """Limits of the download."""
        return DownloadBounds(size=self.archive_limit << 20, total=self.download_timeout)

    @property
    def reported(self) -> int:
        """The maximum number of paths that are reported."""
        most = TRIMMED if self.trim_output is True else self.trim_output or MOST
        return min(most, MOST)

    def used_sources(self) -> list[UsedSource]:
        """Return the archives and the files with hashes."""
        hashes = [digest for _, digest in self.source] + [self.source_hash]
        drawn = [UsedSource(url, choice=True) for url, _ in self.source]
        return drawn + [UsedSource(url) for url in hashes if url is not None and url.startswith(content.SCHEMES)]

    def dependencies(self) -> tuple[Dependency, ...]:
        """Return the directory and the owner."""
        return (lies_in(f"{self.name}/x", vital=False), *owned_by(self.user, self.group))
