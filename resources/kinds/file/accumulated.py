"""`file.accumulated`: texts for a file that another state manages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator

from holdfast.resources.accepts import ITEM, VALUE, accepts
from holdfast.resources.accumulators import Contributing, Contribution
from holdfast.resources.assignment import announced
from holdfast.resources.context import Context
from holdfast.resources.contract import Concern, Resource
from holdfast.resources.effects import EffectVerb
from holdfast.resources.fields import AbsPath, field, plain_numbers


@accepts(VALUE, ITEM)
def parse_texts(value: object) -> object:
    """Return texts as a tuple, from a list or a single text. Raises `ValueError` if there is none."""
    if value is None:
        raise ValueError("it has no text")
    items = value if isinstance(value, (list, tuple)) else [value]
    return tuple(plain_numbers(item) for item in items)


class Accumulated(Contributing, Resource, kind="file.accumulated"):
    """Text for the template of a file that another state manages.

        listen on 8080:
          file.accumulated:
            - name: ports
            - filename: /etc/app.conf
            - text: '8080'
            - require_in:
              - file: /etc/app.conf

        /etc/app.conf:
          file.managed:
            - source: salt://app.conf
            - template: jinja

    A template such as `{% for port in accumulator['ports'] %}listen {{ port }}{% endfor %}` gets the texts of all
    accumulators of its file as `accumulator`: a mapping from names to lists, in the order in which the states run,
    without repetitions. `file.blockreplace` adds them to its `content`, one line each; if it requires some of these
    states, it adds only their texts. The states are compiled before anything runs, so the text cannot depend on a
    guard, and a changed text is a change of the file's own state.
    """

    concerns: ClassVar[Mapping[str, Concern]] = {"": "content"}
    exclusive: ClassVar[bool] = False
    effect_verbs: ClassVar[tuple[EffectVerb, ...]] = ()

    filename: AbsPath
    """Path of the file, as its own state names it."""
    text: Annotated[tuple[Any, ...], BeforeValidator(parse_texts)] = field()
    """Text, or a list of texts; for templates, also numbers and mappings."""

    def contribution(self) -> Contribution:
        """Return the texts."""
        return Contribution(self.filename, self.name, self.text)

    @announced
    async def check_apply(self, ctx: Context, apply: bool) -> bool:
        """Do nothing: the state of the file already has the text."""
        ctx.report.comment = f"the state of {self.filename} has the text of {self.name}"
        return True
