"""`holdfast`: the group of all verbs, and the handling of errors. A used verb is imported without the others."""

from __future__ import annotations

import inspect
import io
import os
import re
import sys
from contextlib import suppress
from typing import NoReturn

import click

from holdfast.agent import verbs
from holdfast.agent.cli.exits import ExitCode, code_of

COMPLETING = "_HOLDFAST_COMPLETE"
"""The variable with which a shell asks for completion."""


class Verbs(click.Group):
    """The group of all verbs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - of click
        """Return all verbs, by section."""
        return [command.name or "" for commands in verbs.sections().values() for command in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - of click
        """Return the command of a verb, imported; None if there is no such verb."""
        return verbs.command(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; for a mistyped verb, suggest the nearest."""
        if args and args[0] not in verbs.names() and not args[0].startswith("-"):
            from holdfast.resources.spelling import nearest

            meant = nearest(args[0], verbs.names())
            hint = f"did you mean {meant!r}?" if meant else "see holdfast --help"
            raise click.UsageError(f"there is no verb {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - of click
        """List the verbs by section, each with the first sentence of its help text."""
        width = max(map(len, verbs.names()))
        for section, commands in verbs.sections().items():
            with formatter.section(section):
                formatter.write_dl([((each.name or "").ljust(width), _first_sentence(each)) for each in commands])


def _first_sentence(command: click.Command) -> str:
    """Return the first sentence of a command's help, which says what the command does."""
    paragraph = " ".join(inspect.cleandoc(command.help or "").partition("\n\n")[0].split())
    return re.split(r"[.;](?: |$)", paragraph, maxsplit=1)[0] + "."


def _show_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the same as the verb `version`: the callback of `--version`."""
    if asked and not ctx.resilient_parsing:
        from holdfast.agent.version import version

        click.echo(f"holdfast {version()}")
        ctx.exit()


@click.group(
    cls=Verbs,
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
        verbs.load("holdfast.agent.cli.completion")
        verbs.load("holdfast.agent.cli.shells").install()
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
            with suppress(OSError, ValueError):  # a closed reader or a full disk was reported before
                stream.flush()
        os._exit(code)
    sys.exit(code)


def _reader_gone() -> int:
    """Handle a reader that has closed our output (`| head`): this is not an error, and nothing more is flushed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _show_usage(error: click.UsageError) -> None:
    """Print an error about the command line, with control characters escaped: it may name files or resources."""
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
        what = f"use {error.filename}" if error.filename else "continue"
        say(f"holdfast: cannot {what}: {error.strerror or error}", err=True)
    else:
        say(f"holdfast: internal error: {type(error).__name__}: {error}", err=True)
        say("This is a bug in Holdfast, or in a kind of your own; `holdfast --debug ...` shows where.", err=True)
    return code_of(error)


if __name__ == "__main__":
    main()
