"""The verbs: each module of this folder is one verb and has its name.

It declares the command of the command line and, if the verb asks the running agent, the request of the control socket
with its handler. The rest is derived: the list of verbs, `--help`, completion, the manual page, and the requests that
the control socket accepts.

`holdfast --help` and completion import all modules of this folder, the agent those with requests. So a module imports
at its top only the names that describe the verb, and its functions import the rest.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import click

STATES = "States"
AGENT = "The running agent"
HOST = "The agent on this host"
PACKAGES = "Packages of resources"
REFERENCE = "Reference"
SECTIONS = (STATES, AGENT, HOST, PACKAGES, REFERENCE)
"""The sections of the list of verbs, in order."""


C = TypeVar("C", bound=click.Command)
_section_of: dict[str, str] = {}
"""Verb -> its section; written when the module of the verb is imported."""


def verb(section: str) -> Callable[[C], C]:
    """Make a command the verb of its module, listed in this section.

    The command has the name of the module. The first sentence of its help text is the line in the list of verbs.
    """

    def decorate(command: C) -> C:
        _section_of[command.name or ""] = section
        return command

    return decorate


@cache
def names() -> tuple[str, ...]:
    """Return all verbs, in alphabetical order. Imports none of them."""
    return tuple(sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py")))


def asking() -> list[str]:
    """Return the verbs that declare a request, as their source says. Imports none of them.

    The agent imports no others: the commands of all verbs take half a megabyte.
    """
    return [name for name in names() if b"(ControlRequest" in Path(__file__).with_name(f"{name}.py").read_bytes()]


def command(name: str) -> click.Command | None:
    """Return the command of a verb, imported; None if there is no such verb."""
    if name not in names():
        return None
    found: click.Command = getattr(load(f"{__name__}.{name}"), name)
    return found


def sections() -> dict[str, list[click.Command]]:
    """Return the commands of each section. Imports all verbs."""
    found: dict[str, list[click.Command]] = {section: [] for section in SECTIONS}
    for name in names():
        if (each := command(name)) is not None:
            found[_section_of[name]].append(each)
    return found


def load(name: str) -> ModuleType:
    """Import a module without garbage collections: imports create no garbage, and each collection scans everything."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()
