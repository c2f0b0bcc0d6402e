"""The page docs/calls.md: all execution functions with the functions that they call, and why others do not exist."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.agent.generators.markdown import table
from holdfast.resources.execution import table as execution
from holdfast.resources.execution.refused import REFUSED
from holdfast.resources.execution.template_functions import MODULES, NAMES

INTRODUCTION = """# Calls

This page lists the execution functions of Salt that exist here. `module.run` and `module.wait` call all of them.
Templates and guards call only those that change nothing, so `plan` changes nothing. An unknown function, wrong
arguments, and a template or guard that calls a function with effects are errors, each with its line, before anything
runs.

`holdfast call` has other names, those of the [interfaces](interfaces): for `pkg.list_pkgs` in a state, write
`holdfast call pkg.list_installed`. The column "maps to" shows these names.
[observing.md](observing.md#calling-functions) explains `holdfast call`.

```yaml
fresh lists:
  module.run:
    - pkg.refresh_db: []

reload nginx:
  module.wait:
    - service.reload:
      - nginx
    - watch:
      - file: /etc/nginx/nginx.conf

/etc/nginx/nginx.conf:
  file.managed:
    - source: salt://nginx.conf
```

```jinja
{% if salt['pkg.version_cmp'](salt['pkg.version']('nginx') or '0', '1.22') >= 0 %}
```

A template's call of `pkg` runs in a thread with an event loop and a provider of its own, and does not use those of the
agent. The call reads files, or runs commands that change nothing, and fails after 30 seconds. A template's call of
`service` reads the unit files where systemd manages services, and asks the provider elsewhere. Where no provider of
`pkg` works, the calls answer as if no package were installed, and compare versions by Debian's rules."""


def calls_page() -> str:
    """Return the page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield from (INTRODUCTION, "", "## Functions of interfaces")
    yield "The [interfaces](interfaces) have further functions and arguments."
    yield ""
    yield from table(
        [
            {
                "function": f"`{name}({function.parameters()})`",
                "maps to": ", ".join(f"`{name}`" for name in _uses(function)) or "a command",
                "in templates": _in_templates(name),
                "what it does": " ".join((function.call.__doc__ or "").split()),
            }
            for name, function in execution.functions().items()
        ]
    )
    yield from ("## Functions of templates", "These change nothing. `module.run` calls them, too.", "")
    yield from table([{"module": f"`{module}`", "functions": names} for module, names in _of_templates()])
    yield from (
        "## Functions that do not exist",
        "A name without a dot means all other functions of the module.",
        "",
    )
    yield from table([{"function": f"`{name}`", "use instead": reason} for name, reason in sorted(REFUSED.items())])


def _uses(function: execution.ExecutionFunction) -> list[str]:
    module = getattr(function.interface, "module", "")
    return [f"{module}.{name}" for name in function.uses]


def _in_templates(name: str) -> str:
    if name.startswith("cmd."):
        return "with `template_commands`"
    return "yes" if name in NAMES else ""


def _of_templates() -> Iterator[tuple[str, str]]:
    """Yield module and functions, without those of the table above."""
    for module in sorted({module for calls in MODULES.values() for module in calls}):
        names = sorted(name for name in NAMES if name.partition(".")[0] == module and not _in_table(name))
        if names:
            yield module, ", ".join(f"`{name.partition('.')[2]}`" for name in names)


def _in_table(name: str) -> bool:
    return name in execution.functions()
