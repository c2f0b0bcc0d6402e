"""Functions on data: merging, reading and writing formats, checksums, and Salt's `test`."""

# ruff: noqa: ARG001, PLR0917 - after the view, a function has the parameters of Salt's, used or not
from __future__ import annotations

import base64
import configparser
import copy
import io
import json
import pprint
import random
import secrets
import string
from collections.abc import Mapping
from typing import Any

from holdfast.states.filters.formats import load_yaml, to_yaml
from holdfast.states.filters.text import hexdigest, hmac_compute, hmac_holds
from holdfast.states.helpers.table import TABLE, helper, looking, plain
from holdfast.states.source import hostfiles
from holdfast.states.view.budget import check, check_data
from holdfast.states.view.host_view import HostView
from holdfast.states.view.values import merge, traverse


def laid(base: Any, over: Any, strategy: str = "smart", renderer: str = "yaml", merge_lists: bool = False) -> Any:
    """Merge the second mapping into the first. Raises `TypeError` unless both are mappings."""
    if not isinstance(base, Mapping) or not isinstance(over, Mapping):
        raise TypeError("only mappings can be merged")
    return merge(base, over, lists=bool(merge_lists), strategy=strategy)


@helper("slsutil.update")
def slsutil_update(
    view: HostView, dest: Any, upd: Any, recursive_update: bool = True, merge_lists: bool = False
) -> Any:
    """Merge `upd` into `dest`, which is changed, as in Salt; without `recursive_update` only its first level."""
    return _into(dest, laid(dest, upd, merge_lists=merge_lists) if recursive_update else {**dest, **upd})


@helper("slsutil.merge_all")
def merge_all(
    view: HostView, lst: list[Any], strategy: str = "smart", renderer: str = "yaml", merge_lists: bool = False
) -> Any:
    """Merge all mappings in order."""
    result: Any = {}
    for item in lst:
        result = laid(result, item, strategy, renderer, merge_lists)
    return result


@helper("defaults.merge")
def defaults_merge(
    view: HostView,
    dest: Any,
    src: Any,
    merge_lists: bool = False,
    in_place: bool = True,
    convert_none: bool = True,
) -> Any:
    """Merge `src` into `dest`, which is changed unless `in_place` is false."""
    if dest is None and convert_none and not in_place:
        dest = {}
    result = laid(dest, {} if src is None and convert_none else src, merge_lists=merge_lists)
    return _into(dest, result) if in_place else result


def _into(target: Any, result: Any) -> Any:
    if isinstance(target, dict):
        target.clear()
        target.update(result)
        return target
    return result


@helper("defaults.update")
def defaults_update(
    view: HostView, dest: Any, defaults: Any, merge_lists: bool = True, in_place: bool = True, convert_none: bool = True
) -> Any:
    """Merge each mapping of `dest` into the defaults."""
    if dest is None and (in_place or not convert_none):
        raise TypeError("there is nothing to update: the first argument is None")
    result = {
        name: defaults_merge(view, copy.deepcopy(defaults or {}), node, merge_lists, convert_none=convert_none)
        for name, node in (dest or {}).items()
    }
    return _into(dest, result) if in_place else result


@helper("defaults.get")
def defaults_get(view: HostView, key: str, default: Any = "") -> Any:
    """Return a value of a formula's `defaults.yaml` (or `.json`): `formula:a:b`."""
    formula, _, rest = key.partition(":")
    for name, load in (("yaml", load_yaml), ("json", json.loads)):
        path = None if view.tree is None else view.tree.template(f"{formula.replace('.', '/')}/defaults.{name}")
        if view.tree is not None and path is not None and hostfiles.is_file(path):
            view.looked = True
            found = load(view.tree.read(path).text) or {}
            return traverse(found, rest, default) if rest else found
    return default if rest else None


def serialize(serializer: str, obj: Any, **options: Any) -> str:
    """Return data as text in a format.

    Raises `ValueError` for an unknown format, `Spent` if the text would be too large.
    """
    check_data((obj,))
    if serializer == "json":
        return json.dumps(
            obj, ensure_ascii=False, **{key: options[key] for key in ("indent", "sort_keys") if key in options}
        )
    if serializer == "yaml":
        return to_yaml(obj, flow_style=options.get("default_flow_style"))
    if serializer == "python":
        return pprint.pformat(obj)
    if serializer == "configparser":
        parser = configparser.RawConfigParser(strict=False)
        parser.read_dict(obj)
        text = io.StringIO()
        parser.write(text)
        return text.getvalue()
    raise ValueError(f"cannot write {serializer}: use yaml, json, configparser or python")


def deserialize(serializer: str, stream_or_string: str, **_: Any) -> Any:
    """Return the data of a text in a format. Raises `ValueError` for an unknown format."""
    if serializer == "json":
        return json.loads(stream_or_string)
    if serializer == "yaml":
        return load_yaml(stream_or_string)
    if serializer == "configparser":
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        parser.read_string(stream_or_string)
        return {name: dict(parser[name]) for name in parser.sections()}
    raise ValueError(f"cannot read {serializer}: use yaml, json or configparser")


@helper("slsutil.banner")
def banner(
    view: HostView,
    width: int = 72,
    commentchar: str = "#",
    borderchar: str = "#",
    blockstart: str | None = None,
    blockend: str | None = None,
    title: str | None = None,
    text: str | None = None,
    newline: bool = False,
) -> str:
    """Return a comment that says that the file is managed, in Salt's form."""
    owner = "Salt" if view.options.get("salt_names") else "Holdfast"
    title = f"THIS FILE IS MANAGED BY {owner.upper()} - DO NOT EDIT" if title is None else title
    warning = "Any changes to this file may be overwritten automatically and without warning."
    text = f"The contents of this file are managed by {owner}. {warning}" if text is None else text
    inner = width - 2 * (len(commentchar) + 1)
    rule = commentchar + borderchar * (width - 2 * len(commentchar)) + commentchar

    def line(words: str, *, centred: bool = False) -> str:
        return f"{commentchar} {words.center(inner) if centred else words.ljust(inner)} {commentchar}"

    import textwrap  # noqa: PLC0415 - hardly any template has a banner

    lines = [rule, line(title, centred=True), line(""), *(line(part) for part in textwrap.wrap(text, inner)), rule]
    return "\n".join([*filter(None, [blockstart]), *lines, *filter(None, [blockend])]) + ("\n" if newline else "")


@helper("slsutil.renderer")
def renderer(
    view: HostView,
    path: str | None = None,
    string: str | None = None,
    default_renderer: str = "jinja|yaml",
    **kwargs: Any,
) -> Any:
    """Return the data (or, with `jinja` alone, the text) of a rendered file of the states directory or text."""
    if (path is None) == (string is None):
        raise ValueError("slsutil.renderer takes a path or a string")
    if path is not None:
        if view.tree is None:
            raise ValueError("cannot render a file: there is no states directory")
        view.looked = True
        string = view.tree.read(view.tree.template(path)).text
    pipe = default_renderer.split("|")
    text = string or ""
    if pipe[0] == "jinja":
        if view.render is None:
            raise ValueError("nothing is rendered here")
        text = view.render(
            text,
            name=path or "the text to render",
            variables=kwargs,
            grains=view.grains,
            pillar=view.pillar,
            options=view.options,
            tree=view.tree and view.tree.anew(),
        )
    if pipe[-1] == "jinja":
        return text
    return deserialize(pipe[-1], text)


@looking("random.get_str")
def random_string(
    view: HostView,
    length: int = 20,
    chars: str | None = None,
    lowercase: bool = True,
    uppercase: bool = True,
    digits: bool = True,
    punctuation: bool = True,
    whitespace: bool = False,
    printable: bool = False,
) -> str:
    """Return random characters of the selected kinds, different each time."""
    check(int(length))
    kinds = {
        string.ascii_lowercase: lowercase,
        string.ascii_uppercase: uppercase,
        string.digits: digits,
        string.punctuation: punctuation,
        string.whitespace: whitespace,
        string.printable: printable,
    }
    pool = chars or "".join(kind for kind, wanted in kinds.items() if wanted)
    return "".join(secrets.choice(pool) for _ in range(int(length)))


@looking("random.rand_int")
def random_number(view: HostView, start: int = 1, end: int = 10, seed: Any = None) -> int:
    """Return a random number, different each time."""
    return start + secrets.randbelow(end - start + 1)


@helper("random.seed")
def random_seed(view: HostView, range: int = 10, hash: str | None = None) -> int:
    """Return a number below `range` that is always the same for one host (or one text)."""
    return random.Random(hash or view.minion_id).randrange(range)  # noqa: S311 - the same each time is what is wanted


@helper("test.get_opts")
def get_opts(view: HostView) -> dict[str, Any]:
    """Return all settings."""
    return view.opts()


@helper(
    "log.debug", "log.info", "log.warning", "log.error", "log.trace", "log.critical", "log.profile", "log.exception"
)
def log(view: HostView, *_: Any, **__: Any) -> bool:
    """Accept the call of a template that logs; it has no effect."""
    return True


def _b64(text: str) -> str:
    return base64.b64encode(str(text).encode()).decode()


plain(
    slsutil__merge=laid,
    slsutil__serialize=serialize,
    slsutil__deserialize=deserialize,
    slsutil__boolstr=lambda value, true="true", false="false": true if value else false,
    defaults__deepcopy=copy.deepcopy,
    hashutil__digest=lambda instr, checksum="md5": hexdigest(instr, checksum),
    hashutil__md5_digest=lambda instr: hexdigest(instr, "md5"),
    hashutil__sha256_digest=lambda instr: hexdigest(instr, "sha256"),
    hashutil__sha512_digest=lambda instr: hexdigest(instr, "sha512"),
    hashutil__base64_b64encode=_b64,
    hashutil__base64_b64decode=lambda instr: base64.b64decode(instr).decode(),
    hashutil__base64_encodestring=lambda instr: base64.encodebytes(str(instr).encode()).decode(),
    hashutil__base64_decodestring=lambda instr: base64.decodebytes(str(instr).encode()).decode(),
    hashutil__hmac_signature=hmac_holds,
    hashutil__hmac_compute=hmac_compute,
    random__hash=lambda value, algorithm="sha512": hexdigest(value, algorithm),
    random__str_encode=lambda value, encoder="base64": (
        _b64(value) if encoder == "base64" else str(value).encode().hex()
    ),
    test__ping=lambda: True,
    test__true=lambda: True,
    test__false=lambda: False,
    test__echo=lambda text: text,
    test__arg=lambda *args, **kwargs: {"args": args, "kwargs": kwargs},
    test__kwarg=lambda **kwargs: kwargs,
)
TABLE.entered.update({"test.true_": TABLE["test.true"], "test.false_": TABLE["test.false"]})
