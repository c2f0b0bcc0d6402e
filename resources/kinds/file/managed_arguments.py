"""The arguments of `file.managed`, and what can be derived from them alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, model_validator

from holdfast.resources.downloads import shown_url
from holdfast.resources.fields import Texts, Variables
from holdfast.resources.kinds._source_hash import SourceHash
from holdfast.resources.kinds.file import content
from holdfast.resources.kinds.file.base import WINDOWS, ModeOrKeep
from holdfast.resources.kinds.file.disk import MODE
from holdfast.resources.kinds.file.whole import WholeFile
from holdfast.resources.traits import FromSources, UsedSource

REPORTED = "the states that watch the file are notified of every change of the content"
SIGNED = ("signature", "source_hash_sig", "signed_by_any", "signed_by_all", "keyring", "gnupghome", "sig_backend")
"""Arguments by which Salt checks the signature of a source."""
CONTENT = ("source", "contents", "contents_pillar", "contents_grains", "template", "context", "defaults")
"""Arguments for the content; the first four are the alternative sources of the content."""


class ManagedArguments(FromSources, WholeFile):
    """The arguments of `file.managed`."""

    ignored: ClassVar[Mapping[str, str]] = {
        "attrs": "file attributes (chattr) are not changed",
        **WholeFile.ignored,
        "keep_source": "copies of sources are kept while they are needed",
        "use_etag": "ETags are always used",
        "verify_ssl": "certificates are always checked",
        "ignore_comment_characters": REPORTED,
        "ignore_ordering": REPORTED,
        "ignore_whitespace": REPORTED,
        **WINDOWS,
    }
    refused: ClassVar[Mapping[str, str]] = dict.fromkeys(SIGNED, "Holdfast does not check signatures; use source_hash")

    former_names: ClassVar[Mapping[str, str]] = {"show_diff": "show_changes"}
    variables_with: ClassVar[str] = "template"

    source: Annotated[content.Sources, BeforeValidator(content.parse_sources)] = ()
    """Source of the content: a URL, or a list of URLs, of which the first that exists is used."""
    source_hash: SourceHash | None = None
    """Hash of the source: `sha256=HEX`, `HEX`, or the URL of a file with hashes.

    Required for http unless `skip_verify` is set.
    """
    source_hash_name: str | None = None
    """Name of the source in a file with hashes."""
    skip_verify: bool = False
    """Accept an http source without a hash."""
    contents: Annotated[str | None, BeforeValidator(content.parse_contents)] = None
    """The content itself: text, or a list of lines."""
    contents_pillar: Texts = ()
    """Pillar keys (`a:b`) that hold the content."""
    contents_grains: Texts = ()
    """Grains that hold the content."""
    contents_delimiter: str = ":"
    """Separator of the parts of a key."""
    contents_newline: bool = True
    """End content from the state, pillar or grains with a newline."""
    allow_empty: bool = True
    """Accept empty content."""
    template: Literal["jinja"] | None = None
    """Render the content before it is used."""
    context: Variables | None = None
    """Variables of the template."""
    defaults: Variables | None = None
    """Variables of the template that `context` does not define."""
    mode: ModeOrKeep | None = None
    """File mode, or `keep` for the mode of a local source. Default: unchanged, 0644 for a new file."""
    replace: bool = True
    """Replace the content of an existing file."""

    @model_validator(mode="before")
    @classmethod
    def _handed_on(cls, given: Any) -> Any:
        """Rename arguments with former names, and pass unknown arguments to the template, as Salt does."""
        if not isinstance(given, dict):
            return given
        known = dict(given)
        for former, name in cls.former_names.items():
            if former in known and name not in known:
                known[name] = known.pop(former)
        more = {key: value for key, value in known.items() if key not in cls.model_fields and key not in cls.refused}
        defaults = known.get("defaults") or {}
        if not more or not known.get(cls.variables_with) or not isinstance(defaults, dict):
            return known
        return {key: value for key, value in known.items() if key not in more} | {"defaults": {**more, **defaults}}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        given = [word for word in CONTENT[:4] if getattr(self, word) not in (None, ())]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other: set only one of them")
        self._demand_hashes()
        if self.mode == "keep" and not any(not url.startswith(content.REMOTE) for url, _ in self.source):
            raise ValueError("mode: keep needs a source on this host")
        return self

    def _demand_hashes(self) -> None:
        """Raise `ValueError` for a remote source that cannot be verified."""
        for url, digest in self.source:
            if url.startswith(content.REMOTE) and not (self.source_hash or digest or self.skip_verify):
                raise ValueError(f"source {shown_url(url)} needs source_hash, or skip_verify: true")

    @property
    def gives_content(self) -> bool:
        """Whether the state declares the content of the file."""
        return self.contents is not None or bool(self.source or self.contents_pillar or self.contents_grains)

    def used_sources(self) -> list[UsedSource]:
        """Return the sources, their modes for `mode: keep`, and the files with hashes."""
        if not self.source:
            return []
        drawn = [UsedSource(url, choice=True, template=self.template is not None) for url, _ in self.source]
        hashes = [digest for _, digest in self.source] + [self.source_hash]
        drawn += [UsedSource(url) for url in hashes if url is not None and url.startswith(content.SCHEMES)]
        return drawn + [UsedSource(url, *MODE, choice=True) for url, _ in self.source if self.mode == "keep"]

    def inline(self) -> tuple[tuple[str, str], ...]:
        """Return the content in the state if it is a template."""
        return () if self.template is None or self.contents is None or self.source else (("contents", self.contents),)
