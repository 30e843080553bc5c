"""The entry point: run a verb. Only this module converts errors to exit codes."""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import io
import os
import signal
import sys
import traceback

import click
from click.shell_completion import shell_complete

from pipeline import __version__
from pipeline.cli.completion import COMPLETE, install_completion
from pipeline.cli.group import Verbs
from pipeline.cli.terminal import restored_terminal
from pipeline.loading import load, uninterrupted
from remote.errors import (
    BadUsage,
    ConnectionLost,
    DeadlineExceeded,
    Defect,
    DiskFull,
    HalfstepError,
    Interrupted,
)
from remote.protocol.exits import ExitCode
from remote.protocol.shell import command_line

HELP = """
Fine-tune an audio LLM with LoRA on a remote GPU: copy the project, prove that it will train, download the adapter.

\b
pipeline init                       create configs
pipeline run --host titan -c NAME   copy, prove, train
pipeline run --host titan -c NAME   again: nothing to do
"""


HELP_OPTIONS = {"-h", "--help"}


@click.group(cls=Verbs, help=HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="halfstep", message="%(prog)s %(version)s")
@click.option(
    "--install-completion",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=install_completion,
    help="Install shell completion for commands, hosts, configs and runs.",
)
def pipeline() -> None:
    """The command `pipeline`."""


def main() -> None:
    """Run the verb and exit with its documented exit code; no error prints a traceback."""
    open_streams()
    try:
        with restored_terminal():
            code = run(sys.argv[1:])
    except KeyboardInterrupt:  # a second Ctrl-C while the first one is reported
        code = int(ExitCode.INTERRUPTED)
    signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    close_streams()
    gc.freeze()  # else the collection at interpreter exit visits all objects: a seventh of the time of a finished run
    sys.exit(code)


def open_streams() -> None:
    """Make the three standard streams accept any text, and redirect closed streams to /dev/null."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            redirect_to_null(fd)
            setattr(sys, name, open(fd, mode, closefd=False))  # noqa: SIM115 - stays open
        stream = getattr(sys, name)
        if mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def close_streams() -> None:
    """Flush the output streams now, because a failing flush at interpreter exit would change the exit code."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            redirect_to_null(1 if stream is sys.stdout else 2)


def redirect_to_null(fd: int) -> None:
    """Redirect the file descriptor to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    if null != fd:
        os.dup2(null, fd)
        os.close(null)


def run(words: list[str]) -> int:
    """Run `pipeline WORDS` and return its exit code."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked during the imports at process start
        if COMPLETE in os.environ:
            return shell_complete(pipeline, {}, "pipeline", COMPLETE, os.environ[COMPLETE])
        if not words or (words[0] == "--install-completion" and HELP_OPTIONS & {*words}):
            words = ["--help"]
        with pipeline.make_context("pipeline", words, obj=words) as context:
            result = pipeline.invoke(context)
        sys.stdout.flush()
        return int(result) if isinstance(result, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        return _report_usage(words, error)
    except HalfstepError as error:
        return _report(words, error)
    except (KeyboardInterrupt, click.Abort):
        return _report(words, Interrupted("interrupted"))
    except SystemExit as done:
        if not isinstance(done.__context__, BrokenPipeError):  # rich exits if the pipe at stdout is closed
            raise
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: a defect of halfstep, reported without a traceback
        return _report(words, _disk_full(error) or _bug(error))


def _disk_full(error: Exception) -> HalfstepError | None:
    if not isinstance(error, OSError) or error.errno != errno.ENOSPC:
        return None
    return DiskFull(f"no space left on device: {error.filename or 'standard output'}", hint="df -h")


def _report_usage(words: list[str], error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    hint = f"{context.command_path} --help" if context else "pipeline --help"
    option = error.param.opts[-1] if isinstance(error, click.MissingParameter) and error.param else ""
    if context and option in ("--host", "--config"):
        hint = load("pipeline.cli.connecting").hint_for_missing(context.info_name, option, words)
    return _report(words, BadUsage(" ".join(error.format_message().split()), hint=hint))


def _report(words: list[str], error: HalfstepError) -> int:
    if isinstance(error, (Interrupted, ConnectionLost, DeadlineExceeded)):
        error.hint = error.hint or command_line(["pipeline", *words])
    # If the JSON object cannot be written to stdout, the error is printed to stderr. If stderr fails too, only the exit
    # code reports the error.
    for shown in (words, [word for word in words if word != "--json"]):
        with contextlib.suppress(OSError, KeyboardInterrupt), uninterrupted():
            importlib.import_module("pipeline.show.failure").show_error(shown, error)
            break
    return error.exit_code


def _bug(error: Exception) -> HalfstepError:
    path = importlib.import_module("pipeline.show.failure").keep_traceback(traceback.format_exception(error))
    return Defect(
        f"internal error: {type(error).__name__}: {error}", where=path, hint="please report it with this file"
    )
