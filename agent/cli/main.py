"""`holdfast`: the verbs, and the handling of errors. The module of a verb is imported only when the verb is used."""

from __future__ import annotations

import gc
import importlib
import io
import os
import sys
from contextlib import suppress
from types import ModuleType
from typing import NamedTuple, NoReturn

import click

from holdfast.agent.cli.exits import ExitCode, code_of

COMPLETING = "_HOLDFAST_COMPLETE"
"""The variable with which a shell asks for completion."""


class Verb(NamedTuple):
    """The module of a verb, and its line in the list of verbs."""

    module: str
    help: str


VERBS = {
    "run": Verb("service", "Run the agent in the foreground."),
    "apply": Verb("oneshot", "Apply states once and exit."),
    "plan": Verb("oneshot", "Show what apply would change, with diffs; change nothing."),
    "check": Verb("check", "Find errors and probable mistakes in states, without touching the machine."),
    "show": Verb(
        "show", "Show what states compile to: low, high, graph (also as a picture), order, top, pillar, grains."
    ),
    "fmt": Verb("fmt", "Write state files in their canonical form; --check, --diff."),
    "status": Verb("status", "Show resources and health of the running agent; --tree."),
    "why": Verb("why", "Show why a resource ran, what it waits for, and what happens to it next."),
    "watch": Verb("watch", "Show the running agent's graph converging, live."),
    "log": Verb("live", "Show the running agent's log."),
    "pause": Verb("live", "Have the running agent stop repairs, of all or some resources, until resume."),
    "resume": Verb("live", "Have the running agent resume repairs after a pause."),
    "reload": Verb("live", "Have the running agent read settings and states again."),
    "recheck": Verb("live", "Have the running agent check every resource now."),
    "trigger": Verb("live", "Have the running agent run one resource now."),
    "trace": Verb("figures", "Show where a pass spent its time, for ui.perfetto.dev."),
    "metrics": Verb("figures", "Show metrics in Prometheus' text format."),
    "install": Verb("service", "Install the agent as a service of this host."),
    "uninstall": Verb("service", "Remove the service; states are kept."),
    "doc": Verb("reference", "Show all kinds, or the arguments of one."),
    "version": Verb("reference", "Show the version."),
}


class Lazy(click.Group):
    """The group of all verbs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All verbs, in the order of use."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - of click
        """The command of a verb, imported; None if there is no such verb."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = getattr(load(f"holdfast.agent.cli.{VERBS[cmd_name].module}"), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; for a mistyped verb, suggest the nearest."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            meant = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f"did you mean {meant[0]!r}?" if meant else "see holdfast --help"
            raise click.UsageError(f"there is no verb {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - of click
        """List the verbs without importing any."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.help) for name, verb in VERBS.items()])


def load(name: str) -> ModuleType:
    """Import a module without garbage collections: imports create no garbage, and each collection scans everything."""
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def _show_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """The callback of `--version`: the same as the verb."""
    if asked and not ctx.resilient_parsing:
        from holdfast.agent.version import version

        click.echo(f"holdfast {version()}")
        ctx.exit()


@click.group(
    cls=Lazy,
    subcommand_metavar="VERB ...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Keep this machine as declared in its state files."""
    ctx.obj = {"debug": debug}


def main(args: list[str] | None = None) -> None:
    """Run one verb and exit. Tracebacks are shown only with --debug."""
    words = sys.argv[1:] if args is None else args
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # characters that the terminal lacks are escaped
    if COMPLETING in os.environ:
        load("holdfast.agent.cli.shells").install()
    try:
        code = cli(args=words, prog_name="holdfast", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        _show_usage(error)
        code = ExitCode.USAGE
    except click.exceptions.Exit as error:
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = ExitCode.INTERRUPTED
    except (BrokenPipeError, SystemExit):  # click turns BrokenPipeError into SystemExit
        code = _reader_gone()
    except Exception as error:  # noqa: BLE001 - last resort: users get a sentence for every error
        code = _explain(error, debug="--debug" in words)
    _leave(code if isinstance(code, int) else 0, at_once=args is None)


def _leave(code: int, *, at_once: bool) -> NoReturn:
    """Exit with this code.

    `at_once` skips Python's clean-up: all files are closed and all threads have ended by then.
    """
    if at_once:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # the reader is gone or the disk is full, which was reported before
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _reader_gone() -> int:
    """Handle a reader that has closed our output (`| head`): this is not an error, and nothing more is flushed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _show_usage(error: click.UsageError) -> None:
    """The error about the command line, with control characters escaped: it may contain names of files or resources."""
    from holdfast.resources.visible import clean

    text = io.StringIO()
    error.show(text)
    click.echo(clean(text.getvalue()), err=True, nl=False)


def _explain(error: Exception, *, debug: bool) -> int:
    """Print one line about an error; return the exit code."""
    from holdfast.agent.cli.terminal import say
    from holdfast.resources.errors import HoldfastError
    from holdfast.resources.visible import clean

    if debug:
        import traceback

        print(clean("".join(traceback.format_exception(error))), end="", file=sys.stderr)
    if isinstance(error, HoldfastError):
        say(f"holdfast: {error}", err=True)
    elif isinstance(error, OSError):
        what = f"use {error.filename}" if error.filename else "go on"
        say(f"holdfast: cannot {what}: {error.strerror or error}", err=True)
    else:
        say(f"holdfast: internal error: {type(error).__name__}: {error}", err=True)
        say("This is a bug in Holdfast, or in a kind of yours; `holdfast --debug ...` shows where.", err=True)
    return code_of(error)


if __name__ == "__main__":
    main()
