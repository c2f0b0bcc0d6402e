"""`ini.*`: options and sections of ini files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, model_validator

from holdfast.resources.accepts import VALUE, accepts
from holdfast.resources.errors import Permanent
from holdfast.resources.fields import Texts, field, parse_list, parse_text
from holdfast.resources.kinds._ini import COMMENTS, TOP, IniText, Style, changes, plain, values
from holdfast.resources.kinds.file.edit import Edit

Options = dict[str, dict[str, str]]
"""Section -> name -> value."""


def _value(value: object) -> str:
    """Return a value as text; write booleans as Python and Salt do."""
    text = str(value) if isinstance(value, bool) else parse_text(value)
    if not isinstance(text, str):
        raise ValueError(f"{value!r} is not a value of an option; write text, in quotes if necessary")  # noqa: TRY004
    if "\0" in text or "\r" in text:
        raise ValueError("a value cannot contain a NUL character or a carriage return")
    if any(not line.strip() or line.lstrip()[0] in COMMENTS for line in text.split("\n")[1:]):
        raise ValueError("lines of a value after the first cannot be empty or begin like a comment")
    return text.strip(" \t")


def section_name(name: str) -> str:
    """Check the name of a section. Raises `ValueError`."""
    if name and (name != name.strip(" \t") or any(char in name for char in "\n\r\0")):
        raise ValueError(f"{name!r} is not the name of a section: a name is one line without surrounding blanks")
    return name


def option_name(name: object) -> str:
    """Check the name of an option. Raises `ValueError`."""
    text = str(parse_text(name)) if not isinstance(name, bool) else str(name)
    if not text or text != text.strip(" \t") or text[0] in f"{COMMENTS}[" or any(char in text for char in "\n\r\0"):
        raise ValueError(
            f"{text!r} is not the name of an option: a name is one line that does not begin like a comment"
        )
    return text


@accepts(dict[str, dict[str, str | int | float | bool] | str | int | float | bool], None)
def parse_options(value: object) -> object:
    """Return options by section; options without a section are in the section ''. Raises `ValueError`."""
    if not isinstance(value, Mapping):
        return {} if value is None else value
    found: Options = {}
    for section, options in value.items():
        given = options if isinstance(options, Mapping) else {section: options}
        name = section_name(str(parse_text(section))) if isinstance(options, Mapping) else TOP
        found.setdefault(name, {}).update({option_name(key): _value(each) for key, each in given.items()})
    return dict(sorted(found.items(), key=lambda item: item[0] != TOP))


@accepts(dict[str, list[str] | str | None], None)
def parse_names(value: object) -> object:
    """Return names by section; names without a section are in the section ''. Raises `ValueError`."""
    if not isinstance(value, Mapping):
        return {} if value is None else value
    found: dict[str, tuple[str, ...]] = {}
    for section, names in value.items():
        if isinstance(names, (list, tuple)):
            name, given = section_name(str(parse_text(section))), names
        elif names is None or isinstance(names, str):
            name, given = TOP, [section]
        else:
            raise ValueError(f"{names!r} is not a list of names")
        found[name] = (*found.get(name, ()), *(option_name(each) for each in given))
    return found


@accepts(VALUE, dict[str, Any], str, None)
def parse_sections(value: object) -> object:
    """Return names of sections, from a list or the keys of a mapping."""
    return parse_list(list(value) if isinstance(value, Mapping) else value)


def check_sections(value: tuple[str, ...]) -> tuple[str, ...]:
    """Check names of sections. Raises `ValueError`."""
    if not all(map(section_name, value)):
        raise ValueError("the name of a section cannot be empty")
    return value


def check_separator(value: str) -> str:
    """Check a separator. Raises `ValueError`."""
    if not value or any(char in value for char in "\n\r\0[]#;"):
        raise ValueError(f"{value!r} is not a separator: write a sign such as = or :, or a blank")
    return value


Separator = Annotated[str, AfterValidator(check_separator)]
Sections = Annotated[Texts, BeforeValidator(parse_sections), AfterValidator(check_sections)]


class IniFile(Edit):
    """Base of the kinds of options and sections."""

    ignored: ClassVar[Mapping[str, str]] = {
        "encoding": "values are written as UTF-8, and all other bytes of the file stay"
    }

    separator: Separator = "="
    """Sign between name and value, or a blank. Blanks around the separator in the file are kept."""

    def style(self) -> Style:
        """Return the notation of options."""
        return Style(self.separator)

    @abstractmethod
    def edit(self, ini: IniText) -> None:
        """Edit the entries."""

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """Return the edited text. Raises `Permanent` if the file would be read differently from what is declared."""
        ini = IniText(text, self.style())
        self.edit(ini)
        new = ini.text()
        again = IniText(new, self.style())
        self.edit(again)
        if again.text() != new:
            raise Permanent(f"cannot edit {self.name}: a name or value would be read differently in an ini file")
        return new

    def told(self, old: str, new: str, instead: str) -> dict[str, Any]:
        """Return the changed options by section, with their values before and after, as Salt does."""
        before, after = (values(IniText(text, self.style()).entries) for text in (old, new))
        found: dict[str, Any] = {}
        for section, key in changes(before, after):
            pair = {word: each.get(section, {}).get(key) for word, each in (("before", before), ("after", after))}
            hidden = {word: None if value is None else instead or value for word, value in pair.items()}
            (found.setdefault(section, {}) if section else found)[key] = hidden
        for section in before.keys() ^ after.keys():
            if section:
                found.setdefault(section, {})
        return found


class OptionsPresent(IniFile, kind="ini.options_present"):
    """An ini file has options with these values in its sections.

        /etc/php/php.ini:
          ini.options_present:
            - sections:
                PHP:
                  memory_limit: 256M
                Date:
                  date.timezone: Europe/Berlin

    Comments, other options, their order, blank lines and the blanks around separators are kept byte for byte. Names are
    case-sensitive, as in Salt. A new option is put below a comment that shows it (`;memory_limit = 128M`), otherwise at
    the end of its section. An option that is repeated in its section with different values is kept only once. A missing
    file is created.
    """

    sections: Annotated[Options, BeforeValidator(parse_options)] = field({})
    """Section -> name -> value. A name that has a value instead of a mapping is an option before the first section."""
    strict: bool = False
    """Remove all other options and sections, with the comments in these sections."""
    no_spaces: bool = False
    """Write new options without blanks around the separator."""

    @model_validator(mode="after")
    def _readable(self) -> Self:
        sign = self.style().sign
        for key in (key for options in self.sections.values() for key in options):
            if (sign or " ") in key or (not sign and "\t" in key):
                raise ValueError(f"the name {key!r} contains the separator")
        return self

    def style(self) -> Style:
        """Return the notation of options."""
        return Style(self.separator, spaced=not self.no_spaces)

    def makes(self) -> bool:
        """Return True: a missing file is created."""
        return True

    def edit(self, ini: IniText) -> None:
        """Set the options; with `strict`, remove all others."""
        if self.strict:
            for section, options in values(ini.entries).items():
                if section not in self.sections:
                    ini.remove_section(section)
                for key in options.keys() - self.sections.get(section, {}).keys():
                    ini.remove(section, key)
        for section, wanted in self.sections.items():
            ini.add_section(section)
            for key, value in wanted.items():
                ini.put(section, key, value)

    def edited(self, text: str, given: tuple[str, ...]) -> str:
        """Return the edited text. Raises `Permanent` if the file would be read differently from what is declared."""
        new = super().edited(text, given)
        found = values(IniText(new, self.style()).entries)
        for section, wanted in self.sections.items():
            for key, value in wanted.items():
                if plain(found.get(section, {}).get(key, "\0")) != plain(value):
                    raise Permanent(f"cannot edit {self.name}: {key!r} would be read differently in an ini file")
        return new


class OptionsAbsent(IniFile, kind="ini.options_absent"):
    """An ini file does not have these options.

    /etc/php/php.ini:
      ini.options_absent:
        - sections:
            PHP:
              - allow_url_include
    """

    sections: Annotated[dict[str, tuple[str, ...]], BeforeValidator(parse_names)] = field({})
    """Section -> list of names. A name without a list is an option before the first section."""

    def tolerates(self) -> bool:
        """Return True: a missing file has no options."""
        return True

    def edit(self, ini: IniText) -> None:
        """Remove the options."""
        for section, names in self.sections.items():
            for key in names:
                ini.remove(section, key)


class SectionsPresent(IniFile, kind="ini.sections_present"):
    """An ini file has these sections, possibly empty. A missing file is created.

    /etc/app.ini:
      ini.sections_present:
        - sections: [cache, queue]
    """

    sections: Sections = ()
    """Names of the sections."""

    def makes(self) -> bool:
        """Return True: a missing file is created."""
        return True

    def edit(self, ini: IniText) -> None:
        """Add the sections."""
        for section in self.sections:
            ini.add_section(section)


class SectionsAbsent(IniFile, kind="ini.sections_absent"):
    """An ini file does not have these sections; they are removed with all their lines.

    /etc/app.ini:
      ini.sections_absent:
        - sections: [cache]
    """

    sections: Sections = ()
    """Names of the sections."""

    def tolerates(self) -> bool:
        """Return True: a missing file has no sections."""
        return True

    def edit(self, ini: IniText) -> None:
        """Remove the sections."""
        for section in self.sections:
            ini.remove_section(section)
