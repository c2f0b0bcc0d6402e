"""`environ.setenv`: variables for the commands of later states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, model_validator

from holdfast.resources.accepts import accepts
from holdfast.resources.accumulators import SettingVariables
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context
from holdfast.resources.contract import Concern, Resource
from holdfast.resources.effects import EffectVerb
from holdfast.resources.fields import Given, field
from holdfast.resources.kinds._commands import EnvironmentValue, variable


@accepts(dict[str, EnvironmentValue], str, float, Literal[False])
def parse_value(value: object) -> object:
    """Return text, or a mapping of variables in which False stays False. Raises `ValueError`."""
    if isinstance(value, Mapping):
        return {str(name): False if each is False else variable(str(name), each) for name, each in value.items()}
    if value is None:
        raise ValueError("it has no value: write '' for an empty value")
    return value if value is False else variable("x", value)


class SetEnv(SettingVariables, Resource, kind="environ.setenv"):
    """All commands of later states have variables in their environment.

        locale of commands:
          environ.setenv:
            - name: LC_ALL
            - value: de_DE.UTF-8

    In Salt, this state changes the environment of the process that applies the states, until the process ends. An agent
    runs for months and gives each command a clean environment. Therefore, the compiler adds the variables to the `env`
    of all commands that come later in the order of execution (`cmd.run`, `cmd.script`, `cmd.wait`, and their guards).
    `env` of the command itself takes precedence. Programs that other kinds start, and the agent itself, do not get the
    variables. For logins and services, write `/etc/environment` or a unit. Because the states are compiled before
    anything runs, the state cannot have a guard.
    """

    concerns: ClassVar[Mapping[str, Concern]] = {"": "operation"}
    exclusive: ClassVar[bool] = False
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ()
    ignored: ClassVar[Mapping[str, str]] = {
        "update_minion": "commands do not get the agent's own environment",
        "permanent": "Windows only",
    }
    refused: ClassVar[Mapping[str, str]] = {
        "clear_all": "the environment of commands is already clean; name the variables that should be empty"
    }

    name: Given
    """Name of the variable, unless `value` is a mapping."""
    value: Annotated[str | Literal[False] | dict[str, str | Literal[False]], BeforeValidator(parse_value)] = field()
    """Value of the variable, or a mapping of variables. False: empty or, with `false_unsets`, unset."""
    false_unsets: bool = False
    """Unset variables whose value is false, even if an earlier state sets them."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for name, value in self.variables().items():
            variable(name, value)
        return self

    def variables(self) -> Mapping[str, str | None]:
        """Return the variables; None for a variable to unset."""
        given = self.value if isinstance(self.value, dict) else {self.name: self.value}
        none = None if self.false_unsets else ""
        return {name: none if value is False else value for name, value in given.items()}

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Do nothing: the commands already have the variables."""
        ctx.report.comment = f"the commands of later states have {', '.join(self.variables())}"
        return True
