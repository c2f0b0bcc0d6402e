"""Rules on templates: errors in branches that were not taken this time, and side effects."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import nodes

from holdfast.resources.spelling import nearest
from holdfast.states.errors import Problem
from holdfast.states.helpers.calls import NoSuchCall
from holdfast.states.helpers.table import TABLE
from holdfast.states.lint.rule import Subject, rule
from holdfast.states.template.analysis import (
    Template,
    asked_calls,
    asked_words,
    calls,
    jinja,
    known_names,
    names_of,
    parts_named,
)

EFFECTS = re.compile(
    r"(cmd|event|http|saltutil|state|module)\.(?!(which|which_bin|has_exec|shells)$)"
    r"|mine\.(send|delete|flush|update)|(grains|environ)\.(set|append|remove|del)"
    r"|\w+\.(install|remove|purge|upgrade|refresh_db|hold|unhold|start|stop|restart|reload|enable|disable|mask|unmask"
    r"|add|delete|write|append|prepend|replace|touch|mkdir|makedirs|copy|move|rename|symlink|set_mode|chown|create"
    r"|destroy|kill)$"
)
"""Functions with side effects."""
OWN_GRAIN = "make it a state, or a grain of your own"


@rule
def undefined_names(subject: Subject) -> Iterator[Problem]:
    """Yield undefined names, in branches that were taken or not.

    A name for which the template tests, or that has a default, is not reported.
    """
    found = [(template, names) for template in subject.templates if (names := names_of(template)) is not None]
    handed_on = frozenset().union(*(names.given for _, names in found))
    parts = {part for template in subject.templates for part in parts_named(template)}
    for template, names in found:
        alone = template.path.suffix == ".sls" and parts.isdisjoint((None, template.path.name))
        known = known_names() if alone else known_names() | handed_on
        for name in names.missing(known):
            near = nearest(name.name, (known | names.given) - {name.name} - jinja().globals.keys())
            hint = f"did you mean {near}?" if near else "set it above, give a default, or test whether it 'is defined'"
            if name.name in names.given:
                hint = (
                    "a name that a loop, macro or block sets is undefined after it: set it outside, or use a namespace"
                )
            yield template.problem(name.lineno, name.name, "template-name", f"{name.name!r} is not defined", hint)


@rule
def effects(subject: Subject) -> Iterator[Problem]:
    """Yield calls of functions that have, or may have, side effects."""
    for template in subject.templates:
        for name, line in calls(template):
            if EFFECTS.match(name):
                text, hint = f"{name} has side effects each time that states are compiled", OWN_GRAIN
                if name not in TABLE:
                    text, hint = f"templates cannot call {name}: it has side effects", NoSuchCall(name, TABLE).hint
                yield template.problem(line, name, "template-effect", text, hint)


@rule
def unknown_words(subject: Subject) -> Iterator[Problem]:
    """Yield unknown functions, filters and tests, which stop a template that uses them."""
    for template in subject.templates:
        yield from unknown_in(template)


def unknown_in(template: Template) -> Iterator[Problem]:
    """Yield the unknown functions, filters and tests of one template."""
    asked = asked_calls(template)
    for name, line in calls(template):
        if name not in TABLE and name not in asked and not EFFECTS.match(name):
            near = nearest(name, TABLE)
            hint = f"did you mean {near}?" if near else f"test for it first: {{% if '{name}' in salt %}}"
            yield template.problem(line, name, "template-unknown", f"templates cannot call {name}", hint)
    yield from _unknown(template, "filter")
    yield from _unknown(template, "test")


def _unknown(template: Template, what: str) -> Iterator[Problem]:
    """Yield unknown filters, or tests."""
    known = jinja().filters if what == "filter" else jinja().tests
    asked = asked_words(template, what)
    for node in template.all(nodes.Filter if what == "filter" else nodes.Test):
        if node.name not in known and node.name not in asked:
            near = nearest(node.name, known)
            hint = f"did you mean {near}?" if near else ""
            yield template.problem(
                node.lineno, node.name, "template-unknown", f"there is no {what} {node.name!r}", hint
            )
