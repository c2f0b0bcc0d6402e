"""The model contains everything that the classes of all kinds and interfaces declare."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator

from deadline import DEADLINE
from holdfast.agent.model import docstrings
from holdfast.agent.model.annotations import AnnotationReader
from holdfast.agent.model.build import build
from holdfast.agent.model.model import ABSENT, VERSION, Field, SystemModel, plain
from holdfast.agent.model.types import INTEGER, NUMBER, TEXT, Type, members, union, words
from holdfast.agent.settings import Settings
from holdfast.resources import registry
from holdfast.resources.accepts import ITEM, VALUE, accepts
from holdfast.resources.contract import DECLARED, Resource
from holdfast.resources.fields import Mode, Texts, field
from holdfast.resources.interfaces import registry as interfaces
from holdfast.resources.interfaces.base import Interface, not_applicable, replaces, since, supported
from holdfast.resources.interfaces.provider import Confine, Provider
from holdfast.resources.interfaces.results import ChangeSet

ANYTHING = {
    "config": "the package of a plugin declares what configures it",
    "stateful": "a mapping of `test_name` to a command; other keys have no effect, as in Salt",
    "context": "variables of a template have any type",
    "defaults": "variables of a template have any type",
    "onlyif": "a call of a function, with any arguments",
    "unless": "a call of a function, with any arguments",
    "grains": "the operator's own data",
    "nodegroups": "matchers, which have several forms",
    "options": "each provider documents its own",
    "extra": "values that only one platform has",
    "changes": "old and new value of anything",
    "data": "data of an event",
    "dataset": "data that file.serialize writes",
    "serializer_opts": "options differ from format to format; file.serialize checks them",
    "deserializer_opts": "options differ from format to format; file.serialize checks them",
    "sections": "of a mapping, ini.sections_present and sections_absent use only the keys",
    "text": "data that file.accumulated hands to a template",
    "calls": "arguments of any function",
    "runas": "module.run passes it to a function",
    "umask": "module.run passes it to a function",
}
"""Field, parameter or member of a result whose type has a part that can be anything -> the reason."""


@pytest.fixture(scope="module")
def model() -> SystemModel:
    """Return the model of all built-in kinds and interfaces."""
    own = [cls for cls in registry.kinds() if cls.__module__.startswith("holdfast.")]
    return build(own, interfaces.INTERFACES, Settings)


def anything(type_: Type) -> bool:
    """Return whether the type, or a part of it, can be anything."""
    parts = (*type_.members, *filter(None, (type_.items, type_.keys)))
    return type_.type == "any" or any(map(anything, parts))


def all_fields(model: SystemModel) -> Iterable[tuple[str, Field]]:
    """Yield (owner, field) of all fields and parameters in the model."""
    owners = [(kind.name, kind.fields) for kind in model.kinds]
    owners += [("every state", model.meta), ("agent.yaml", model.settings)]
    owners += [(record.name, record.fields) for record in model.records.values()]
    owners += [(f"{each.name}.{one.name}", one.parameters) for each in model.interfaces for one in each.functions]
    for owner, fields in owners:
        for each in fields:
            yield owner, each


def test_every_field_has_a_type_and_only_listed_ones_can_be_anything(model: SystemModel) -> None:
    """A type with a part that can be anything has a reason in ANYTHING, and each of these is still needed."""
    loose = {(owner, each.name) for owner, each in all_fields(model) if anything(each.type)}

    assert {name for _, name in loose} == ANYTHING.keys()
    assert all(words(each.type) for _, each in all_fields(model))


def test_every_argument_and_setting_is_documented(model: SystemModel) -> None:
    """All kinds, arguments, meta parameters, settings, interfaces and functions have a description."""
    owners = [(kind.name, kind.fields) for kind in model.kinds]
    missing = [
        f"{owner}: {each.name}"
        for owner, fields in [*owners, ("every state", model.meta), ("agent.yaml", model.settings)]
        for each in fields
        if not each.doc
    ]
    things = [*model.kinds, *model.interfaces, *model.records.values()]
    missing += [thing.name for thing in things if not thing.docs.summary]
    missing += [
        f"{each.name}.{one.name}" for each in model.interfaces for one in each.functions if not one.docs.summary
    ]

    assert missing == []


def test_every_kind_has_an_example(model: SystemModel) -> None:
    """The documentation of a kind shows at least one state."""
    assert [kind.name for kind in model.kinds if not any(kind.name in text for text in kind.docs.examples)] == []


def test_a_number_of_seconds_or_days_has_its_unit(model: SystemModel) -> None:
    """A number whose description names a unit of time has that unit in the model."""
    missing = [
        f"{owner}: {each.name}"
        for owner, each in all_fields(model)
        if not each.unit
        and each.doc.startswith(("Seconds", "Days", "Period", "Time for", "Time without", "Runs per second"))
        and any(member.type in ("integer", "number") for member in members(each.type))
    ]

    assert missing == []


def test_the_model_is_data_for_json_with_its_version(model: SystemModel) -> None:
    """The data has the version, and no default values; the names of all records exist."""
    data = plain(model)

    def records(part: object) -> Iterable[str]:
        if isinstance(part, dict):
            if isinstance(part.get("record"), str):
                yield part["record"]
            part = list(part.values())
        for each in part if isinstance(part, list) else ():
            yield from records(each)

    assert data["version"] == VERSION
    assert json.loads(json.dumps(data)) == data
    assert set(records(data)) == data["records"].keys()
    motd = next(kind for kind in data["kinds"] if kind["name"] == "file.managed")
    assert next(each for each in motd["fields"] if each["name"] == "makedirs") == {
        "name": "makedirs",
        "type": {"type": "boolean"},
        "doc": "Create missing parent directories, too.",
        "default": False,
    }


def test_a_kind_says_what_it_can_do(model: SystemModel) -> None:
    """Capabilities follow from the mix-ins of a kind, the rest from its declarations and docstrings."""
    kinds = {kind.name: kind for kind in model.kinds}
    run, managed, running = kinds["cmd.run"], kinds["file.managed"], kinds["service.running"]

    assert run.sends["stdout"] == TEXT
    assert (managed.reversible, managed.receives, managed.automatic_edges) == (True, True, True)
    assert (managed.former, managed.variables) == ({"show_diff": "show_changes"}, "template")
    assert running.refresh
    assert not managed.refresh
    assert running.watch == "Watch the signals of the service manager."
    assert kinds["test.nop"].watch == ""
    assert kinds["test.nop"].open
    assert running.effects == ("unmask", "start", "restart", "reload", "enable", "disable")
    assert kinds["pkg.installed"].grouped
    assert kinds["systemd_unit.running"].composite


def test_requisites_say_when_the_state_runs(model: SystemModel) -> None:
    """Each requisite has a sentence, and the name by which a target declares it."""
    found = {each.name: each for each in model.requisites}

    assert found["require_any"].doc == "Runs after all of these states, and only if at least one of them succeeded."
    assert found["watch"].doc.endswith("If one of them has changed something, the state is refreshed.")
    assert (found["watch"].reversed_form, found["onfail_any"].reversed_form) == ("watch_in", "")


def test_an_interface_says_what_is_promised_and_who_provides_it(model: SystemModel) -> None:
    """Functions have parameters with defaults, and results with fields; providers have requirements."""
    pkg = next(each for each in model.interfaces if each.name == "pkg")
    hold = next(each for each in pkg.functions if each.name == "hold")
    apt = next(each for each in pkg.providers if each.tool == "apt")

    assert [each.name for each in hold.parameters] == ["names", "test", "options"]
    assert hold.keyword_only == ("test", "options")
    assert (hold.parameters[0].required, hold.parameters[1].default) == (True, False)
    assert (hold.returns, hold.changes) == (Type("record", record="ChangeSet"), True)
    assert "Debian" in hold.supported["os_family"]
    user = next(each for each in model.interfaces if each.name == "user")
    value = next(each for each in user.functions if each.name == "set_password").parameters[1]
    password = next(each for each in model.records["User"].fields if each.name == "password")

    assert value.secret
    assert password.secret
    assert "reboot_required" in {each.name for each in model.records["ChangeSet"].fields}
    assert apt.commands or apt.grains
    assert "hold" in {each.name for each in apt.functions}


def test_marks_of_an_interface_and_of_a_provider_are_in_the_model() -> None:
    """Versions, former names, platforms, own parameters and open signatures are read from the declarations."""

    class Lamp(Interface, name="lamp_of_the_model", version=2):
        """Lamps."""

        @since(2, "colour")
        @replaces("switch_on")
        async def on(self, name: str, colour: str = "white", *, test: bool = False, **more: str) -> ChangeSet:
            """Turn a lamp on."""
            return ChangeSet()

        @supported(kernel="Linux")
        @not_applicable(os="Plan9")
        def watch(self) -> object:
            """Watch."""

    class Bulb(Provider):
        """A bulb."""

        implements: ClassVar[type[Interface]] = Lamp
        confine: ClassVar[Confine] = Confine(
            grains={"kernel": ("Linux",)}, commands=("bulb",), paths=("/dev/bulb",), unless={"lamp": "tube"}
        )
        tool = "bulb"

        async def on(
            self, name: str, colour: str = "white", *, dim: int = 3, test: bool = False, **more: str
        ) -> ChangeSet:
            """Turn a lamp on. Option `slow`: take time."""
            return ChangeSet()

    try:
        made = build((), ["lamp_of_the_model"]).interfaces[0]
    finally:
        Provider.registered[:] = [offer for offer in Provider.registered if offer.source is not Bulb]
    on, watch = made.functions
    bulb = made.providers[0]

    assert (on.since, on.added, on.replaces, on.open, on.changes) == (2, ("colour",), ("switch_on",), True, True)
    assert (watch.supported, watch.not_applicable) == ({"kernel": ("Linux",)}, {"os": ("Plan9",)})
    assert (bulb.tool, bulb.targets, bulb.commands, bulb.paths) == ("bulb", 2, ("bulb",), ("/dev/bulb",))
    assert bulb.unless == {"lamp": "tube"}
    assert bulb.functions[0].doc == "Turn a lamp on. Option `slow`: take time."
    assert bulb.functions[0].parameters == (Field("dim", INTEGER, default=3),)


def test_the_type_of_a_field_is_what_a_state_may_give() -> None:
    """Conversions, patterns and bounds are part of the type; one that a validator does not declare is anything."""

    @accepts(VALUE, ITEM, int)
    def wide(value: object) -> object:
        return value

    def convert(value: object) -> object:
        return value

    class Sample(BaseModel):
        unsaid: Annotated[int, BeforeValidator(convert)]
        checked: Annotated[int, AfterValidator(convert)]
        mode: Mode
        texts: Texts
        several: Annotated[tuple[bool, ...], BeforeValidator(wide)]
        bounded: int | None = field(None, ge=1, le=9)
        word: Literal["a", "b"] | None = None
        odd: Literal["c", None] = None  # noqa: PYI061 - this spelling is what is tested
        short: str = field("x", min_length=1)
        matched: str = field("x", pattern="^x")

    read, fields = AnnotationReader(), Sample.model_fields
    found = {name: read.of_field(info) for name, info in fields.items()}

    assert (found["unsaid"], found["checked"]) == (Type("any"), INTEGER)
    assert found["mode"].numbers
    assert found["mode"].patterns
    assert words(found["texts"]) == "text or list"
    assert words(found["several"]) == "true/false or number or list"
    assert Type("integer", minimum=1, maximum=9) in members(found["bounded"])
    assert Type("choice", choices=("a", "b")) in members(found["word"])
    assert Type("choice", choices=("c",)) in members(found["odd"])
    assert found["short"].patterns == (r"[\s\S]{1,}",)
    assert found["matched"].patterns == (r"[\s\S]*(?:^x)[\s\S]*",)


def test_a_union_has_no_members_that_others_include() -> None:
    """Unions are flat; a number includes integers, and anything includes all."""
    assert union([INTEGER, union([TEXT, NUMBER])]) == Type("union", members=(TEXT, NUMBER))
    assert union([TEXT]) == TEXT
    assert union([TEXT, Type("any")]) == Type("any")


def test_examples_and_lists_are_parts_of_a_docstring() -> None:
    """A paragraph that is indented, or that has a key above indented lines, is an example; a list keeps its lines."""
    docs = docstrings.parsed("Short.\n\nLong\ntext.\n\n- one\n- two\n\na:\n  b.c:\n    - d\n\ne:\n  f.g\n\nMore.")

    assert docs == docstrings.Docs(
        "Short.", ("Long text.", "- one\n- two", "More."), ("a:\n  b.c:\n    - d\n\ne:\n  f.g",)
    )


def test_a_default_that_depends_on_the_host_is_not_in_the_model(model: SystemModel) -> None:
    """The number of workers has no default in the model; an empty mapping is a default."""
    workers = next(each for each in model.records["EngineOptions"].fields if each.name == "workers")
    grains = next(each for each in model.settings if each.name == "grains")

    assert workers.default is ABSENT
    assert grains.default == {}


def test_a_kind_of_an_operator_is_in_the_model() -> None:
    """A type without a counterpart is anything, and a class without a file has no documentation of its fields."""
    text = (
        "class Odd(Resource, kind='odd.one'):\n"
        "    '''Odd.'''\n"
        "    thing: complex = 1j\n"
        "    async def check_apply(self, ctx, apply):\n"
        "        return True\n"
    )
    exec(text, {"Resource": Resource, "__name__": "nowhere"})
    try:
        kind = build([DECLARED["odd.one"]]).kinds[0]
    finally:
        del DECLARED["odd.one"]

    assert (kind.fields[1].type, kind.fields[1].doc, kind.fields[1].default) == (Type("any"), "", ABSENT)


def test_a_run_does_not_import_the_model() -> None:
    """Neither the agent nor a one-shot run imports it."""
    code = (
        "import sys; import holdfast.agent.daemon, holdfast.agent.once, holdfast.agent.cli.main;"
        "sys.exit(any(name.startswith('holdfast.agent.model') for name in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=DEADLINE).returncode == 0
