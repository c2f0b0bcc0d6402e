"""Formats of `file.serialize`: write data as text and parse text to data, with the options of each format."""

from __future__ import annotations

import configparser
import io
import json
import plistlib
import pprint
import shlex
import tomllib
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.resources.errors import Permanent
from holdfast.resources.kinds.file import toml

FormatName = Literal["yaml", "json", "toml", "configparser", "keyvalue", "plist", "python"]
"""The formats, by Salt's names."""
NOT_WRITTEN = (TypeError, ValueError, OverflowError, RecursionError, configparser.Error)
"""Exceptions of the libraries for data that a format cannot express; `failed` adds YAML's own errors."""


class Format(BaseModel):
    """A format with its options; the fields are the options that `serializer_opts` may set."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)

    readable: ClassVar[bool] = True
    """Whether the format has a parser, so that data can be merged into a file."""

    scalars: ClassVar[frozenset[str]] = frozenset()
    """Types of the format besides text, numbers and booleans, by their names in `CALLED`."""

    def text(self, data: Any) -> str | bytes:
        """Return data as text with a final newline. Raises `Permanent` if the format cannot express the data."""
        try:
            return self.dumped(data)
        except NOT_WRITTEN as error:
            found = next(self._without_form(data, ()), None) or reason(error)
            raise Permanent(f"it cannot be written in this format: {found}") from None

    def _without_form(self, data: Any, keys: tuple[Any, ...]) -> Iterator[str]:
        """Yield a message for each value that the format cannot express, without the value, which may be a secret."""
        if isinstance(data, (Mapping, list, tuple)):
            items = data.items() if isinstance(data, Mapping) else enumerate(data)
            for key, item in items if len(keys) < DEEP else ():
                yield from self._without_form(item, (*keys, key))
        elif (called := name_of(data)) is not None and called not in self.scalars:
            shown = ":".join(map(str, keys)) or "the whole"
            hint = "" if data is None else "; write it in quotes"
            yield f"the value of {shown} is {called}, which the format lacks{hint}"

    def data(self, text: bytes) -> Any:
        """Return the data of a text. Raises `Permanent` if the text is not in this format."""
        try:
            return self.loaded(text)
        except (*NOT_WRITTEN, LookupError, AttributeError) as error:
            raise Permanent(f"it is not in this format: {reason(error)}") from None

    @abstractmethod
    def dumped(self, data: Any) -> str | bytes:
        """Return data as text, or raise any of `NOT_WRITTEN`."""

    def loaded(self, text: bytes) -> Any:
        """Return the data of a text, or raise any of `NOT_WRITTEN`."""
        raise ValueError("there is no parser for it")


NULL, DATE, TIMESTAMP, BINARY, LARGE = "null", "a date", "a timestamp", "binary data", "a number of more than 64 bits"
CALLED: Mapping[type, str | None] = {
    type(None): NULL,
    date: DATE,
    datetime: TIMESTAMP,
    bytes: BINARY,
    str: None,
    bool: None,
    float: None,
}
"""Type of a value -> its name; None if every format has the type."""
DEEP = 50
"""Maximum depth of the search for values that a format cannot express."""


def name_of(value: Any) -> str | None:
    """Return the name of the type of a value, unless all formats have this type."""
    if type(value) is int:
        return None if -(1 << 63) <= value < 1 << 63 else LARGE
    return CALLED.get(type(value), f"a {type(value).__name__}")


def reason(error: Exception) -> str:
    """Return the message of a library's error on one line, without repeating the data."""
    if isinstance(error, RecursionError):
        return "the data are nested too deeply"
    return " ".join(str(error).split())[:200]


class Yaml(Format):
    """YAML, as PyYAML writes it."""

    scalars: ClassVar[frozenset[str]] = frozenset({NULL, DATE, TIMESTAMP, BINARY, LARGE, "a set"})

    default_flow_style: bool | None = False
    """Brackets for all collections; null: only for collections without other collections inside."""
    default_style: Literal["'", '"', "|", ">", ""] | None = None
    """The quotes of all texts."""
    indent: int | None = Field(None, ge=1, le=9)
    width: int | None = None
    """Maximum length of a line, in characters. Default: 80."""
    allow_unicode: bool | None = None
    explicit_start: bool | None = None
    explicit_end: bool | None = None
    sort_keys: bool = True
    canonical: bool | None = None
    line_break: Literal["\n", "\r\n", "\r"] | None = None

    def dumped(self, data: Any) -> str:
        """Return YAML without the document end, which Salt leaves out, too."""
        import yaml  # noqa: PLC0415 - only states with this format need it

        try:
            written: str = yaml.dump(data, Dumper=yaml.CSafeDumper, **self.model_dump())
        except yaml.YAMLError as error:
            raise ValueError(reason(error)) from None
        return written.removesuffix("\n...\n").removesuffix("\n") + "\n"

    def loaded(self, text: bytes) -> Any:
        """Return the data of one document; refuse tags of programming languages."""
        from holdfast.resources.kinds.file import yaml_data  # noqa: PLC0415 - only states with this format need it

        return yaml_data.loaded(text)


class Json(Format):
    """JSON, with sorted keys."""

    scalars: ClassVar[frozenset[str]] = frozenset({NULL, LARGE})

    indent: int | str | None = 2
    separators: tuple[str, str] = (",", ": ")
    sort_keys: bool = True
    ensure_ascii: bool = False
    allow_nan: bool = True
    skipkeys: bool = False

    def dumped(self, data: Any) -> str:
        """Return JSON."""
        return json.dumps(data, **self.model_dump()) + "\n"

    def loaded(self, text: bytes) -> Any:
        """Return the data of a JSON text."""
        return json.loads(text.decode())


class Toml(Format):
    """TOML. Salt needs Python's package `toml` to write it, and its layout differs slightly."""

    scalars: ClassVar[frozenset[str]] = frozenset({DATE, TIMESTAMP, "a time"})

    def dumped(self, data: Any) -> str:
        """Return TOML."""
        return toml.document(data)

    def loaded(self, text: bytes) -> Any:
        """Return the data of a TOML text."""
        return tomllib.loads(text.decode())


class Python(Format):
    """Python's notation."""

    scalars: ClassVar[frozenset[str]] = frozenset({NULL, LARGE})
    readable: ClassVar[bool] = False

    indent: int = Field(1, ge=0)
    width: int = Field(80, ge=1)
    depth: int | None = Field(None, ge=1)
    compact: bool = False
    sort_dicts: bool = True
    underscore_numbers: bool = False

    def dumped(self, data: Any) -> str:
        """Return an expression of Python."""
        plain = json.loads(json.dumps(data))
        return pprint.pformat(plain, **self.model_dump()) + "\n"


class Ini(Format):
    """Sections with `name = value`, as Python's `configparser` writes them."""

    allow_no_value: bool = False
    default_section: str = configparser.DEFAULTSECT
    delimiters: tuple[str, ...] = ("=", ":")
    comment_prefixes: tuple[str, ...] = ("#", ";")
    inline_comment_prefixes: tuple[str, ...] | None = None
    strict: bool = True
    empty_lines_in_values: bool = True

    def _parser(self) -> configparser.ConfigParser:
        return configparser.ConfigParser(**self.model_dump())

    def dumped(self, data: Any) -> str:
        """Return the sections; refuse text that would be read differently."""
        parser, out, seen = self._parser(), io.StringIO(), set[tuple[str, str]]()
        for section, name, value in _settings(data):
            if section != self.default_section and not parser.has_section(section):
                parser.add_section(section)
            if name is not None:
                if (section, parser.optionxform(name)) in seen:
                    raise ValueError(f"{name!r} is given twice, with different case")
                seen.add((section, parser.optionxform(name)))
                parser.set(section, name, value)
        parser.write(out)
        if not self._reads(out.getvalue(), parser):
            raise ValueError("a section, name or value has characters that would be read differently")
        return out.getvalue() + "\n"

    def _reads(self, text: str, written: configparser.ConfigParser) -> bool:
        """Return whether a text has the settings that were written."""
        parser = self._parser()
        try:
            parser.read_string(text)
        except configparser.Error:
            return False
        return _raw(parser) == _raw(written)

    def loaded(self, text: bytes) -> Any:
        """Return the sections with their options."""
        parser = self._parser()
        try:
            parser.read_string(text.decode())
            return {name: dict(parser.items(name)) for name in parser.sections()}
        except configparser.InterpolationError as error:  # its message repeats the value, which may be a secret
            raise ValueError(f"the value of {error.args[0]!r} in [{error.args[1]}] has an invalid %") from None
        except configparser.Error as error:  # its message repeats the line
            lines = [line for line, _ in getattr(error, "errors", ())] or [getattr(error, "lineno", 1)]
            raise ValueError(f"line {lines[0]} is wrong ({type(error).__name__})") from None


def _settings(data: Any) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the section, name and value of each setting; the name is None for the section itself."""
    if not isinstance(data, Mapping):
        raise ValueError("it needs a mapping of sections")  # noqa: TRY004 - all such errors are ValueErrors
    for section, settings in data.items():
        yield str(section), None, None
        if not isinstance(settings, Mapping):
            raise ValueError(f"section {section!r} needs a mapping of names and values")  # noqa: TRY004 - as above
        for name, value in settings.items():
            yield str(section), str(name), None if value is None else str(value)


def _raw(parser: configparser.ConfigParser) -> dict[str, list[tuple[str, str]]]:
    return {name: parser.items(name, raw=True) for name in parser}


class KeyValue(Format):
    """Lines of `name=value`."""

    separator: str = Field("=", min_length=1, pattern=r"^[^\r\n\x00]+$")
    quoting: bool | None = None
    """When writing: quote values for a shell if necessary. When reading: false removes quotes around a value."""
    line_ending: Literal["\n", "\r\n"] = "\n"

    def dumped(self, data: Any) -> str:
        """Return the lines; refuse text that would be read differently."""
        pairs = data.items() if isinstance(data, Mapping) else data
        if isinstance(pairs, str):
            raise ValueError("it needs a mapping, or a list of pairs")  # noqa: TRY004 - all such errors are ValueErrors
        lines = [self._line(str(name), str(value)) for name, value in pairs]
        return self.line_ending.join(lines) + "\n"

    def _line(self, name: str, value: str) -> str:
        if self.separator in name or any(text and text.splitlines() != [text] for text in (name, value)):
            raise ValueError(f"{name!r} or its value has a line break or the separator")
        return f"{name}{self.separator}{shlex.quote(value) if self.quoting else value}"

    def loaded(self, text: bytes) -> Any:
        """Return names and values."""
        found = {}
        for line in text.decode().splitlines():
            name, separator, value = line.partition(self.separator)
            if not separator:
                raise ValueError(f"a line has no {self.separator!r}")
            quoted = self.quoting is False and len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            found[name] = value[1:-1] if quoted else value
        return found


class Plist(Format):
    """A property list of Apple's systems."""

    scalars: ClassVar[frozenset[str]] = frozenset({TIMESTAMP, BINARY})

    fmt: Literal["FMT_XML", "FMT_BINARY"] = "FMT_XML"
    sort_keys: bool = True
    skipkeys: bool = False

    def dumped(self, data: Any) -> bytes:
        """Return the property list, XML or binary."""
        fmt = plistlib.FMT_BINARY if self.fmt == "FMT_BINARY" else plistlib.FMT_XML
        text = plistlib.dumps(data, fmt=fmt, sort_keys=self.sort_keys, skipkeys=self.skipkeys)
        if not self.skipkeys and self.loaded(text) != data:
            raise ValueError("a value would be read back as a different value, as a timestamp with a time zone would")
        return text

    def loaded(self, text: bytes) -> Any:
        """Return the data of a property list."""
        from xml.parsers.expat import ExpatError  # noqa: PLC0415 - only states with this format need it

        try:
            return plistlib.loads(text)
        except ExpatError as error:
            raise ValueError(str(error)) from None
        except (ValueError, AttributeError) as error:
            if isinstance(error, plistlib.InvalidFileException) or " at line " in str(error):
                raise
            raise ValueError(
                "the content of an element for a number, a date or data is invalid"
            ) from None  # not the value


FORMATS: Mapping[str, type[Format]] = {
    "yaml": Yaml,
    "json": Json,
    "toml": Toml,
    "configparser": Ini,
    "keyvalue": KeyValue,
    "plist": Plist,
    "python": Python,
}


def merged(base: Any, over: Any) -> Any:
    """Merge the second mapping into the first, recursively; lists are replaced, as in Salt."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        return over
    result = dict(base)
    for name, value in over.items():
        result[name] = merged(result[name], value) if name in result else value
    return result
