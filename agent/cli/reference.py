"""`doc` and `version`: what there is to know without a configuration."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from typing import TYPE_CHECKING, Any

import click

from holdfast.agent.cli.options import Source, output, print_json, reports_problems, source

if TYPE_CHECKING:
    from holdfast.resources.contract import Resource


@click.command()
def version() -> None:
    """Show the version."""
    from holdfast import __version__

    click.echo(f"holdfast {__version__}")


@click.command()
@click.argument("kind", required=False)
@source("config")
@output("text", "json")
@reports_problems
def doc(kind: str | None, source: Source, form: str) -> None:
    """Show what kinds there are, those of a family (`file`), or the arguments of KIND (`file.managed`); your own included."""
    from holdfast.agent.tree import Trees
    from holdfast.resources import registry

    Trees().load_kinds(source.settings().resources)
    if kind is None or kind in registry.families():
        known = {cls.kind: _first_line(cls) for cls in registry.kinds() if kind is None or cls.kind.startswith(f"{kind}.")}
        if form == "json":
            print_json(known)
        else:
            width = max(map(len, known))
            click.echo("\n".join(f"{name:{width}}  {text}" for name, text in known.items()))
        return
    cls = registry.find(kind)
    if cls is None:
        meant = registry.nearest(kind, [known.kind for known in registry.kinds()])
        raise click.UsageError(f"there is no kind {kind!r}" + (f"; did you mean {meant!r}?" if meant else "; holdfast doc lists them"))
    if form == "json":
        print_json(cls.model_json_schema())
    else:
        click.echo(describe(cls))


def describe(cls: type[Resource]) -> str:
    """The reference page of one kind."""
    docs = field_docs(cls)
    lines = [cls.kind, "", inspect.getdoc(cls) or "", "", "Arguments:"]
    for name, info in cls.model_fields.items():
        default = "required" if info.is_required() else f"default {_default(info.get_default(call_default_factory=True))}"
        lines.append(f"  {name} ({default})")
        lines += textwrap.wrap(docs.get(name, ""), 100, initial_indent="      ", subsequent_indent="      ")
    if cls.ignored:
        lines += ["", "Accepted without effect:", *(f"  {name}: {why}" for name, why in cls.ignored.items())]
    lines += ["", "Every state also takes the arguments of all kinds: require, watch, onlyif, unless, creates, retry, noop, ..."]
    return "\n".join(lines)


def field_docs(cls: type[Resource]) -> dict[str, str]:
    """Argument -> the docstring below its declaration, nearest class first."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            continue  # it was not declared in a file
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, text in itertools.pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
                value = text.value.value if isinstance(text.value, ast.Constant) else ""
                found.setdefault(field.target.id, " ".join(str(value).split()))
    return found


def _first_line(cls: type[Any]) -> str:
    return (inspect.getdoc(cls) or "").partition("\n")[0]


def _default(value: Any) -> str:
    """A default as a state file would write it."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "none"}[value]
    return "[]" if value == () else repr(value)
