"""Filters that convert between data and text: YAML, JSON, XML, Python; and the form of printed mappings."""

from __future__ import annotations

import io
import json
import pprint
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import yaml
from jinja2.environment import TemplateModule
from jinja2.runtime import Undefined

from holdfast.states.parse.line_marks import unmark
from holdfast.states.parse.loader import load_text

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


class _Dumper(yaml.CSafeDumper):
    """Writes subclasses of the plain types like these types. Keys are sorted, except those of an `OrderedDict`."""


_Dumper.add_multi_representer(dict, _Dumper.represent_dict)
_Dumper.add_multi_representer(str, _Dumper.represent_str)
_Dumper.add_multi_representer(list, _Dumper.represent_list)
_Dumper.add_multi_representer(tuple, _Dumper.represent_list)
_Dumper.add_multi_representer(
    dict, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items())
)
_Dumper.add_representer(
    OrderedDict, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items())
)


def to_yaml(value: Any, flow_style: bool | None = True) -> str:
    """Return YAML on one line, or on many without `flow_style`; without its document end and last newline."""
    refuse_undefined(value)
    text: str = yaml.dump(value, Dumper=_Dumper, default_flow_style=flow_style, allow_unicode=True)
    return text.strip().removesuffix("\n...")


def to_json(value: Any, sort_keys: bool = True, indent: int | None = None) -> str:
    """Return JSON text, with letters of all languages as they are."""
    refuse_undefined(value)
    return json.dumps(value, sort_keys=sort_keys, indent=indent, ensure_ascii=False)


def to_html_json(value: Any, indent: int | None = None) -> str:
    """Return JSON text that is safe in HTML, keys in their own order."""
    refuse_undefined(value)
    text = json.dumps(value, indent=indent)
    for char in "<>&'":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def refuse_undefined(value: Any) -> None:
    """Raise Jinja's error for an undefined value, which must not become part of a text."""
    if isinstance(value, Undefined):
        str(value)


def source_text(value: Any) -> str:
    """Return the text for a load filter; for an imported template its output."""
    refuse_undefined(value)
    return unmark(str(value))


def load_yaml(value: Any) -> Any:
    """Return the data of a YAML text. A value that is not text is returned unchanged."""
    if not isinstance(value, (str, TemplateModule, Undefined)):
        raise TypeError(f"load_yaml reads text, and this is a {type(value).__name__}")
    return load_text(source_text(value), "the text to load")


def load_json(value: Any) -> Any:
    """Return the data of a JSON text."""
    return json.loads(source_text(value))


def double_quoted(value: Any) -> str:
    """Return a text in double quotes, as YAML reads it."""
    text: str = yaml.dump(
        str(value), Dumper=yaml.CSafeDumper, default_style='"', width=(1 << 31) - 1, allow_unicode=True
    )
    return text.removesuffix("\n")


def single_quoted(value: Any) -> str:
    """Return a text in single quotes, as YAML reads it."""
    stream = io.StringIO()
    emitter: Any = yaml.emitter.Emitter(stream, width=(1 << 31) - 1)
    emitter.write_single_quoted(str(value))
    return stream.getvalue()


def yaml_encode(value: Any) -> str:
    """Return one simple value as YAML. Raises `TypeError` for lists and mappings."""
    refuse_undefined(value)
    if isinstance(value, str):
        return double_quoted(value)
    if isinstance(value, (list, tuple, set, Mapping)):
        raise TypeError("yaml_encode writes one value, not lists or mappings: use yaml")
    return to_yaml(value)


def sls_parameters(value: Mapping[str, Any], flow_style: bool = False) -> str:
    """Return a mapping as the list of arguments of a state."""
    return to_yaml([{key: item} for key, item in value.items()], flow_style)


def to_xml(value: Any) -> str:
    """Return indented XML: simple values of a mapping are attributes, nested ones elements."""
    from xml.dom import minidom  # noqa: PLC0415 - hardly any template writes XML
    from xml.etree import ElementTree as ET  # noqa: PLC0415 - the same

    refuse_undefined(value)
    root = _elements(_pairs(value), None)
    if root is None:
        raise ValueError("an empty mapping has no root element")
    return minidom.parseString(ET.tostring(root)).toprettyxml(indent=" ")  # noqa: S318 - text that was just made here


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """Return the values that become elements: the entries of a mapping, or a (name, content) pair."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, (list, tuple)):
        return [tuple(value)] if len(value) == 2 and isinstance(value[0], str) else []
    raise TypeError("only a mapping or a list can be written as XML")


def _elements(pairs: Iterable[tuple[str, Any]], parent: Element | None) -> Element | None:
    """Add elements to `parent`; returns the last."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415 - hardly any template writes XML

    element = None
    for tag, content in pairs:
        if isinstance(content, list):
            for part in content:
                _elements([(tag, part)], parent)
            continue
        element = ET.Element(tag) if parent is None else ET.SubElement(parent, tag)
        if not isinstance(content, Mapping):
            element.text = str(content)
            continue
        element.attrib.update(
            {key: str(part) for key, part in content.items() if not isinstance(part, (Mapping, list))}
        )
        _elements([(key, part) for key, part in content.items() if isinstance(part, (Mapping, list))], element)
    return element


def readable(value: Any) -> Any:
    """Return the text that `{{ value }}` prints: YAML can read all mappings in it."""
    return _Readable(value) if isinstance(value, (dict, list, tuple, set)) and value else value


class _Readable:
    """Data that a template prints."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __str__(self) -> str:
        """Return the data as Python shows it, except for texts of several lines as values of a mapping."""
        return _shown(self.value)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_shown, value)) + (",)" if len(value) == 1 else ")")
    return repr(value)


def _text(value: Any) -> str:
    several = isinstance(value, str) and any(char in value for char in "\n\r\t")
    return double_quoted(value) if several else _shown(value)


FILTERS: dict[str, Any] = {
    "yaml": to_yaml,
    "json": to_json,
    "tojson": to_html_json,
    "python": lambda value: pprint.pformat(value).strip(),
    "xml": to_xml,
    "dict_to_sls_yaml_params": sls_parameters,
    "load_yaml": load_yaml,
    "load_json": load_json,
    "load_text": lambda value: source_text(value) if isinstance(value, (str, TemplateModule)) else value,
    "yaml_dquote": double_quoted,
    "yaml_squote": single_quoted,
    "yaml_encode": yaml_encode,
}
"""Name in templates -> function."""
