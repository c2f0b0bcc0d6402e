"""`file.serialize`: a file with declared data in one of several formats."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, ValidationError, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.context import Context, Watch
from holdfast.resources.contract import Resource
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Text, field, plain_numbers
from holdfast.resources.kinds.file.base import os_errors
from holdfast.resources.kinds.file.disk import FileComparison
from holdfast.resources.kinds.file.formats import FORMATS, Format, FormatName, merged
from holdfast.resources.kinds.file.whole import WholeFile
from holdfast.resources.lookup import lookup_value
from holdfast.resources.refusals import said
from holdfast.resources.spelling import nearest

LARGEST, LARGEST_OF_USERS = 16 << 20, 64 << 10
"""Maximum size, in bytes, of a file to merge data into; the second applies if an untrusted user can write the file.

Data take a hundred times as much memory as their text.
"""


@accepts(str, choices=tuple(FORMATS))
def parse_format(value: object) -> object:
    """Return the name of a format in lower case."""
    return value.lower() if isinstance(value, str) else value


@accepts(dict[str, Any], list[dict[str, Any]], None)
def parse_options(value: object) -> object:
    """Return options as one mapping, from a mapping or a list of mappings."""
    if not isinstance(value, list):
        return {} if value is None else plain_numbers(value)
    found: dict[str, object] = {}
    for item in value:
        if not isinstance(item, dict):
            raise ValueError(f"{item!r} is not an option; write `- name: value`")  # noqa: TRY004 - pydantic's rule
        found |= item
    return plain_numbers(found)


Formatter = Annotated[FormatName, BeforeValidator(parse_format)]
Options = Annotated[dict[str, Any], BeforeValidator(parse_options)]


class Serialize(WholeFile, kind="file.serialize"):
    """A file contains data in a format such as JSON or YAML.

        /etc/app/settings.json:
          file.serialize:
            - serializer: json
            - dataset:
                listen: 8080
                users: [alice, bob]

    For `yaml` and `json`, the text is the same as Salt's. The file is written as by `file.managed`.
    """

    otherwise: ClassVar[str] = "set merge_if_exists: true"

    dataset: Annotated[Any, BeforeValidator(plain_numbers)] = None
    """The data."""
    dataset_pillar: Text | None = None
    """Pillar key (`a:b`) of the data."""
    serializer: Formatter | None = None
    """The format: yaml, json, toml, configparser, keyvalue, plist, python. Default: yaml."""
    formatter: Formatter | None = None
    """Another name of `serializer`."""
    serializer_opts: Options = field({})
    """Options of the format, with the names of Python's libraries: `indent`, `sort_keys`, ..."""
    merge_if_exists: bool = False
    """Keep other data of an existing file: merge the declared mappings into those of the file, recursively.

    An existing file that already has the declared data is not written again, whatever its layout. The maximum size of
    the file is 16 MiB, or 64 KiB if an untrusted user can write it.
    """
    deserializer_opts: Options = field({})
    """Options for reading the existing file, only for `merge_if_exists`."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.serializer and self.formatter:
            raise ValueError("serializer and formatter are the same argument: set only one of them")
        if self.dataset and self.dataset_pillar:
            raise ValueError("dataset and dataset_pillar exclude each other: set only one of them")
        if self.dataset is None and self.dataset_pillar is None:
            raise ValueError("it has no data: set dataset or dataset_pillar")
        writing = self._format("serializer_opts")
        if self.merge_if_exists and not self._format("deserializer_opts").readable:
            raise ValueError(f"merge_if_exists is not possible for {self.format}, which Holdfast cannot read")
        if self.dataset_pillar is None:
            try:
                writing.text(self.dataset)
            except Permanent as error:
                raise ValueError(f"dataset cannot be {self.format}: {error}") from None
        return self

    @property
    def format(self) -> str:
        """The name of the format."""
        return self.serializer or self.formatter or "yaml"

    def _format(self, argument: str) -> Format:
        """Return the format with the options of an argument. Raises `ValueError`."""
        cls, given = FORMATS[self.format], getattr(self, argument)
        usual = {"allow_unicode": True} if self.encoding and self.format == "yaml" else {}
        for name in given:
            if name not in cls.model_fields:
                near = nearest(name, cls.model_fields)
                hint = f"did you mean {near!r}?" if near else f"it takes {', '.join(cls.model_fields) or 'none'}"
                raise ValueError(f"{argument}: {self.format} has no option {name!r}: {hint}")
        try:
            return cls.model_validate({**usual, **given})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            name = ".".join(map(str, first["loc"]))
            raise ValueError(f"{argument}: the option {name!r} is invalid: {said(dict(first))}") from None

    def contradicts(self, other: Resource) -> str | None:
        """Return the field that differs; states that merge different data do not contradict each other."""
        if isinstance(other, Serialize) and self.merge_if_exists and other.merge_if_exists:
            return next((f"{each} differs" for each in ("user", "group", "mode") if self.differs(other, each)), None)
        return super().contradicts(other)

    def watch(self, ctx: Context) -> Watch:
        """Watch the file."""
        return ctx.watch_path(self.name)

    def stated(self) -> str | None:
        """Return the text of the data unless they are merged or come from the pillar."""
        if self.merge_if_exists or self.dataset_pillar is not None:
            return None
        text = self._format("serializer_opts").text(self.dataset)
        return text if isinstance(text, str) else None

    async def wanted(self, ctx: Context, comparison: FileComparison) -> bytes | None:
        """Return the data as text; None if they are merged and the file already has them."""
        data = self.dataset
        if self.dataset_pillar is not None:
            data = lookup_value(ctx.pillar, self.dataset_pillar, ":", "pillar")
        present = await self._present(ctx, comparison) if self.merge_if_exists else None
        if present is None:
            return bytes(await ctx.blocking(self._text, data))
        whole = await ctx.long_blocking(self._text, merged(present, data))
        return None if whole == await ctx.long_blocking(self._text, present) else bytes(whole)

    async def _present(self, ctx: Context, comparison: FileComparison) -> object:
        """Return the data of the existing file, which must be a mapping; None if it is empty."""
        if comparison.place is None or comparison.seen is None:
            return None
        place, seen = comparison.place, comparison.seen
        if seen.st_size > (limit := LARGEST_OF_USERS if place.weakness(seen) else LARGEST):
            raise Permanent(
                f"cannot merge into {comparison.path}: it has more than {limit >> 10} KiB; declare the whole file"
            )
        with os_errors("read", comparison.path):
            text = await ctx.blocking(partial(place.read, limit, published=True, seen=seen))
        try:
            found = await ctx.long_blocking(partial(self._format("deserializer_opts").data, text))
        except Permanent as error:
            raise Permanent(f"cannot merge into {comparison.path} as {self.format}: {error}; correct it") from None
        if found is not None and not isinstance(found, dict):
            raise Permanent(
                f"cannot merge into {comparison.path}: it is not a mapping; remove it, or declare the whole file"
            )
        return found

    def _text(self, data: object) -> bytes:
        try:
            text = self._format("serializer_opts").text(data)
        except Permanent as error:
            raise Permanent(f"cannot write {self.name} as {self.format}: {error}") from None
        return text if isinstance(text, bytes) else self.encoded(text)
