"""The command line: a literal table of verbs, each imported when it is typed, and the one place errors become exits."""

from __future__ import annotations

import contextlib
import difflib
import errno
import importlib
import io
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator
from typing import Any, cast

import typer
from typer._click.core import Command, Context
from typer._click.exceptions import ClickException, UsageError
from typer._click.formatting import HelpFormatter
from typer.core import TyperGroup

from pipeline import __version__
from remote.errors import BadUsage, Defect, DiskFull, HalfstepError, Interrupted
from remote.protocol.exits import ExitCode

VERBS = {
    "init": "write configs/ for this project, asking little",
    "run": "take the project through all stages; again: nothing to do",
    "verify": "look only: is this host and project ready? changes nothing",
    "plan": "what `run` would change, as a diff",
    "fix": "only the fixers, here or there",
    "status": "what runs where, how far, how it ended",
    "list": "every run this project remembers",
    "logs": "the trainer's own output",
    "tail": "live scalars from the host's TensorBoard files",
    "tensorboard": "TensorBoard itself, on the local mirror, kept live",
    "pull": "bring logs (and the adapter) home",
    "stop": "end a run's job, keeping its checkpoint",
    "wait": "until a run's job has ended; its outcome is the exit code",
    "attach": "follow a run that is under way",
    "diagnose": "name the error, its cause, the fix, the folk fix that is wrong",
    "explain": "a fixer, a check, a stage or an error in one page",
    "report": "one self-contained HTML file: stages, fixes, proofs, curves",
    "hosts": "hosts that can be named; `hosts check NAME`: what works",
    "configs": "configs that can be named",
}


class LazyVerbs(TyperGroup):
    """The verbs of the table; `pipeline --help` imports none of them."""

    def list_commands(self, ctx: Context) -> list[str]:
        """Every verb, in the table's order."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The verb, its module imported now; None where there is none."""
        if cmd_name not in VERBS:
            return None
        with uninterrupted():
            module = importlib.import_module(f"pipeline.verbs.{cmd_name.replace('list', 'list_runs')}")
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """The table itself, as `--help` shows it."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(self, ctx: Context, args: list[str]) -> Any:
        """The verb that was typed. Raises UsageError naming the nearest one."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            near = difflib.get_close_matches(args[0], VERBS, n=1)
            raise UsageError(
                f"there is no verb {args[0]!r}{f'; did you mean {near[0]}?' if near else ''}", ctx
            ) from error


app = typer.Typer(
    cls=LazyVerbs,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"halfstep {__version__}")
        raise typer.Exit


@app.callback()
def halfstep(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="say which halfstep this is"
    ),
) -> None:
    """Take an audio-LLM LoRA fine-tune to a far-away GPU, prove that it will train, bring the adapter home.

    pipeline run --host titan --config paper_r64     the whole thing; run it again: nothing to do
    """
    del version


def main() -> None:
    """Runs the verb and exits with its published code; no error ever ends in a traceback on the screen."""
    open_streams()
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # the second one, while the first was being told
        code = int(ExitCode.INTERRUPTED)
    signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    close_streams()
    sys.exit(code)


def open_streams() -> None:
    """All three standard streams are there, and take any text; what is written to one that was closed is gone."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            lead_nowhere(fd)
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115 - a number, for good
        stream = getattr(sys, name)
        if mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def close_streams() -> None:
    """Nothing is left to be written when the interpreter ends, which would complain and change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            lead_nowhere(1 if stream is sys.stdout else 2)


def lead_nowhere(fd: int) -> None:
    """What is written to that file descriptor is gone, and no file of ours takes its number."""
    null = os.open(os.devnull, os.O_RDWR)
    if null != fd:
        os.dup2(null, fd)
        os.close(null)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C comes at the end of the block: libraries whose import is cut short say things that nobody understands."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def run(words: list[str]) -> int:
    """The exit code of `pipeline WORDS`."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held since the command began
        result = app(words or ["--help"], prog_name="pipeline", standalone_mode=False)
        sys.stdout.flush()
        if is_untold_ctrl_c(result):
            raise KeyboardInterrupt
        return int(result) if isinstance(result, int) else 0
    except typer.Exit as done:
        return done.exit_code
    except ClickException as error:
        return _tell_usage(words, error)
    except HalfstepError as error:
        if isinstance(error, Interrupted):
            error.hint = error.hint or shlex.join(["pipeline", *words])
        return _tell(words, error)
    except (KeyboardInterrupt, typer.Abort):
        return _tell(words, Interrupted("interrupted", hint=shlex.join(["pipeline", *words])))
    except SystemExit as done:
        if not isinstance(done.__context__, BrokenPipeError):  # what typer makes of a reader that has gone
            raise
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return ExitCode.INTERRUPTED
    except OSError as error:
        full = DiskFull(f"no space left on device: {error.filename or 'what is printed'}", hint="df -h")
        return _tell(words, full if error.errno == errno.ENOSPC else _bug(error))
    except Exception as error:  # noqa: BLE001 - the last net: a defect of ours, told without a traceback
        return _tell(words, _bug(error))


def is_untold_ctrl_c(result: object) -> bool:
    """It is what typer makes of Ctrl-C, a bare number, and not the code of a verb that has told it already."""
    return result == ExitCode.INTERRUPTED and not isinstance(result, ExitCode)


def help_of(verb: str) -> str:
    """What `pipeline VERB --help` says, at a fixed width."""
    group = typer.main.get_command(app)
    context = Context(group, info_name="pipeline", help_option_names=["-h", "--help"])
    command = cast(LazyVerbs, group).get_command(context, verb)
    assert command is not None, verb
    return command.get_help(Context(command, context, verb, terminal_width=100, max_content_width=100))


def _tell_usage(words: list[str], error: ClickException) -> int:
    context = getattr(error, "ctx", None)
    hint = f"{context.command_path} --help" if context else "pipeline --help"
    return _tell(words, BadUsage(error.format_message(), hint=hint))


def _tell(words: list[str], error: HalfstepError) -> int:
    # An object that stdout does not take is told in words on stderr; where nobody can be told, the exit code still is.
    for told in (words, [word for word in words if word != "--json"]):
        with contextlib.suppress(OSError, KeyboardInterrupt), uninterrupted():
            importlib.import_module("pipeline.show.failure").tell(told, error)
            break
    return error.exit_code


def _bug(error: Exception) -> HalfstepError:
    path = importlib.import_module("pipeline.show.failure").keep_traceback(traceback.format_exception(error))
    return Defect(
        f"a defect of halfstep's: {type(error).__name__}: {error}", where=path, hint="report it with that file"
    )
