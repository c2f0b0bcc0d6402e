"""Prints the arguments of Salt's states from their signatures. Salt's interpreter runs this script.

    python signatures.py < kinds

reads a JSON list of kinds (`file.managed`), and prints JSON: kind -> its arguments. This script does not import
Holdfast.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import pkgutil
import sys

import salt.states

logging.disable(logging.CRITICAL)


def states(family: str) -> object | None:
    """Return the module of a family, whose file may have a longer name: `ini_manage` for `ini`, `linux_acl` for `acl`.

    None if this version has no such family.
    """
    files = [each.name for each in pkgutil.iter_modules(salt.states.__path__)]
    named = [name for name in files if name.startswith(family) or name.endswith(f"_{family}")]
    modules = [importlib.import_module(f"salt.states.{name}") for name in sorted(named)]
    fitting = (each for each in modules if getattr(each, "__virtualname__", each.__name__.rpartition(".")[2]) == family)
    return next(fitting, None)


def arguments(kind: str) -> list[str]:
    """Return the arguments of a state, without its name and without those that accept any other argument."""
    family, _, word = kind.partition(".")
    module = states(family)
    if module is None:
        return []
    names = {said: name for name, said in getattr(module, "__func_alias__", {}).items()}
    parameters = inspect.signature(getattr(module, names.get(word, word))).parameters.values()
    return sorted(
        known.name for known in parameters if known.kind is known.POSITIONAL_OR_KEYWORD and known.name != "name"
    )


if __name__ == "__main__":
    print(json.dumps({kind: arguments(kind) for kind in json.load(sys.stdin)}))  # noqa: T201 - this is the output
