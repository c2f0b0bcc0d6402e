"""`drift adopt`: the change of the states that would make a drift permanent, printed and not made."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from holdfast.agent.cli.drift import GONE, kept_files
from holdfast.agent.cli.options import ConfigurationSource, print_json
from holdfast.agent.cli.state_patch import NoPatchError, as_yaml, patch, state_patch
from holdfast.agent.configuration import ConfigurationCompiler
from holdfast.agent.host.kept import KeptFiles
from holdfast.agent.kept_bounds import KEPT_BOUNDS
from holdfast.agent.records.drifts import demand_drift, find, was_absent
from holdfast.agent.records.history import HistoryRecord
from holdfast.agent.records.reading import RecordReader
from holdfast.resources import paths
from holdfast.resources.accounts import group_name, user_name
from holdfast.resources.diff import hidden
from holdfast.resources.errors import Permanent, refused_call
from holdfast.resources.kinds.file.base import PathResource, octal
from holdfast.resources.kinds.file.managed import Managed
from holdfast.resources.paths.handle import read_whole
from holdfast.resources.secrets import MASK, Redactor
from holdfast.resources.visible import clean
from holdfast.states.compile.check import names
from holdfast.states.data import Call

LOCAL = ("salt://", "tree://")
"""Beginnings of the URLs of files in the states directory."""
RENAMED = {"enabled": "enable"}
"""Property -> argument, where the names differ."""
INSTEAD = {
    ("service", "active", True): "service.running",
    ("service", "active", False): "service.dead",
    ("service", "masked", True): "service.masked",
    ("service", "masked", False): "service.unmasked",
}
"""Family, property and its value -> the state that declares it."""

Values = Mapping[str, Any]


class DriftAdoption(NamedTuple):
    """A drift with the state that declares its resource."""

    drift: HistoryRecord
    call: Call
    states: Path
    """The states directory."""
    kept: KeptFiles
    redactor: Redactor

    def refusal(self, why: str) -> Permanent:
        """Return the error of a drift that cannot be adopted."""
        return Permanent(f"cannot adopt the drift {self.drift.id}: {why}")


class OwnArguments(NamedTuple):
    """Other values for arguments that the state has, or may have."""

    values: Values


Lines = Iterator[str | OwnArguments]
"""Parts of the change: lines, and arguments of the state, which become a patch or YAML."""


def adopt(source: ConfigurationSource, word: str, form: str) -> None:
    """Print how the states would have to change. Raises `HoldfastError` and `CompileError`."""
    records = source.records()
    with RecordReader(records) as reader:
        drift = demand_drift(find(reader, word))
    settings = source.settings()
    compiled = ConfigurationCompiler().compile(settings)
    name = drift.values["resource"]
    call = next((each for each in compiled.compilation.calls if each.identity == name), None)
    if call is None:
        raise Permanent(f"cannot adopt the drift {drift.id}: {name} is no longer declared")
    adoption = DriftAdoption(drift, call, settings.states, kept_files(records), compiled.redactor)
    lines = _with_arguments(adoption, list(_lines(adoption)))
    if not lines:
        raise adoption.refusal(
            f"the record of {name} has no former values; the content, owner and mode of file.managed, and the values "
            "of service, sysctl, pkg, user, group and cron can be adopted"
        )
    place = call.location
    if form == "json":
        known = {"id": drift.id, "resource": name, "file": place.file, "line": place.line}
        print_json({**known, "states": str(settings.states), "change": "\n".join(lines) + "\n"})
        return
    for line in (f"# {call.identity}: {place.file}, line {place.line}", *lines):
        click.echo(clean(line))


def _with_arguments(adoption: DriftAdoption, found: list[str | OwnArguments]) -> list[str]:
    """Return the lines, and after them the arguments of the state: as a patch, or as YAML with the reason."""
    call = adoption.call
    lines = [each for each in found if isinstance(each, str)]
    arguments = {name: value for each in found if isinstance(each, OwnArguments) for name, value in each.values.items()}
    if not arguments:
        return lines
    try:
        return [*lines, f"# patch -p1 -d {adoption.states}", state_patch(call, arguments, adoption.states)]
    except NoPatchError as error:
        return [*lines, f"# no patch: {error}", as_yaml(call.low["__id__"], call.kind, arguments)]


def _lines(adoption: DriftAdoption) -> Lines:
    """Yield the change. Raises `Permanent` if the drift cannot be adopted."""
    values, call = adoption.drift.values, adoption.call
    if was_absent(values):
        yield "# it was absent before the repair: remove this state, or declare that it is absent"
        return
    replaced = [each for each in values.get("replaced") or () if each.get("path")]
    if replaced:
        yield from _of_files(adoption, replaced)
    elif values["result"] != "changed" and isinstance(call.resource, Managed):
        yield from _of_present(adoption, call.resource)
    yield from _of_values(call, values.get("before") or {})
    yield from _of_versions(call, values.get("changes") or {})


# -- files -----------------------------------------------------------------------------------------------------


def _of_files(adoption: DriftAdoption, replaced: list[Values]) -> Lines:
    """Yield what declares the file that was replaced."""
    if len(replaced) > 1:
        raise adoption.refusal(
            "its repair has replaced several files; `drift restore --file PATH` brings each of them back"
        )
    (file,) = replaced
    if file.get("link"):
        yield from _state("file.symlink", adoption.call, {"target": file["link"]})
        return
    if file.get("lost"):
        raise adoption.refusal(f"its content was not kept: {file['lost']}")
    if file.get("sha256"):
        content = adoption.kept.read(file["sha256"])
        if content is None:
            raise adoption.refusal(f"its content is {GONE}")
        yield from _of_content(adoption, content)
    yield from _of_attributes(adoption.call, file)


def _of_present(adoption: DriftAdoption, resource: Managed) -> Lines:
    """Yield what declares the file as it is now, because it was not repaired."""
    path = resource.name
    try:
        handle, info = paths.at(path, follow=True).open()
        content = read_whole(handle.fd, info, KEPT_BOUNDS.largest, path)
    except OSError as error:
        raise refused_call(f"cannot read {path}: {(error.strerror or '').lower()}", error) from None
    text = content.decode(errors="surrogateescape")
    declared = resource.mode if resource.mode != "keep" else None
    if hidden(resource.show_changes, info.st_mode, octal(declared)) or adoption.redactor(text) != text:
        raise adoption.refusal(f"{path} may hold a secret; it was not repaired, so look at it there")
    yield "# it was not repaired: this is what is there now"
    yield from _of_content(adoption, content)
    attributes = {"uid": info.st_uid, "gid": info.st_gid, "mode": stat.S_IMODE(info.st_mode)}
    yield from _of_attributes(adoption.call, attributes)


def _of_content(adoption: DriftAdoption, content: bytes) -> Lines:
    """Yield what declares this content."""
    call = adoption.call
    if isinstance(call.resource, Managed):
        yield from _content_of(call, call.resource, content, adoption.states)
        return
    if isinstance(call.resource, PathResource) and call.resource.removes:
        yield f"# instead of {call.kind}:"
    else:
        yield f"# {call.kind} declares a part of the file; the whole file would be:"
    yield from _state("file.managed", call, {"contents": _text(content, call)})


def _content_of(call: Call, resource: Managed, content: bytes, states: Path) -> Lines:
    """Yield how the source of the content has to change, or what decides it."""
    key = resource.contents_pillar or resource.contents_grains
    url = resource.source[0][0] if resource.source else ""
    if key:
        where = "the pillar" if resource.contents_pillar else "the grains"
        yield f"# the content is that of {', '.join(key)} in {where}: edit it there"
    elif resource.template:
        yield f"# the content is rendered from a template: edit {url or 'contents'} or the values in it"
    elif url and not url.startswith(LOCAL):
        yield f"# the content is that of {url}: change it there"
    elif len(resource.source) > 1:
        yield f"# the source is the first that exists of {', '.join(each for each, _ in resource.source)}: edit that"
    elif url:
        yield from _patch(url, content, states)
    else:
        text = _text(content, call)
        newline = not text or text.endswith("\n")
        if newline and resource.contents_newline and text.count("\n") == 1 < len(text):
            text = text.removesuffix("\n")  # one line; the kind adds the newline
        yield OwnArguments(
            {"contents": text, **({} if newline is resource.contents_newline else {"contents_newline": newline})}
        )


def _patch(url: str, content: bytes, states: Path) -> Lines:
    """Yield a patch of a source, for `patch -p1` in the states directory. Raises `Permanent`."""
    inside = posixpath.normpath(url.split("://", 1)[1].partition("?")[0])
    path = f"{states}/{inside}"
    try:
        present = paths.read(path)
    except OSError as error:
        raise refused_call(f"cannot read {path}: {(error.strerror or '').lower()}", error) from None
    if present == content:
        yield f"# {path} has this content already"
        return
    try:
        made = patch(present, content, inside)
    except NoPatchError as error:
        raise Permanent(f"cannot make a patch: {error}; `holdfast drift restore` writes the file") from None
    yield f"# patch -p1 -d {states}"
    yield made


def _text(content: bytes, call: Call) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Permanent(
            f"cannot adopt the content of {call.identity}: it is not text; use a source, and `holdfast drift restore`"
        ) from None


def _of_attributes(call: Call, file: Values) -> Lines:
    """Yield the arguments for owner and mode that differ from the declared ones."""
    names = {
        "user": user_name(file.get("uid", 0)),
        "group": group_name(file.get("gid", 0)),
        "mode": f"{file.get('mode', 0):04o}",
    }
    declared = {name: getattr(call.resource, name, None) for name in names}
    wrong = {
        name: value for name, value in names.items() if declared[name] not in (None, "keep") and declared[name] != value
    }
    if wrong:
        yield OwnArguments(wrong)


# -- other kinds -----------------------------------------------------------------------------------------------


def _of_values(call: Call, before: Values) -> Lines:
    """Yield the arguments of this state with their former values, or the state that declares these."""
    known = frozenset(names(type(call.resource)))
    arguments: dict[str, Any] = {}
    for name, value in before.items():
        argument = RENAMED.get(name, name)
        if value == MASK:
            yield f"# {name} had another value, which is secret"
        elif instead := INSTEAD.get((call.low["state"], name, value)):
            yield from _state(instead, call, {})
        elif argument in known:
            arguments[argument] = value
        else:
            yield f"# {name} was {value!r}"
    if arguments:
        yield OwnArguments(arguments)


def _of_versions(call: Call, changes: Values) -> Lines:
    """Yield the former versions of packages."""
    if call.low["state"] != "pkg":
        return
    for name, change in changes.items():
        if isinstance(change, Mapping) and "old" in change:
            yield from (
                _state("pkg.installed", call, {"pkgs": [{name: change["old"]}]})
                if change["old"]
                else _state("pkg.removed", call, {"pkgs": [name]})
            )


def _state(kind: str, call: Call, arguments: Values) -> Lines:
    """Yield a state of another kind, or for another name, as YAML."""
    name = call.low["name"]
    named = {"name": name} if kind != call.kind and name != call.low["__id__"] else {}
    yield as_yaml(call.low["__id__"], kind, {**named, **arguments})
