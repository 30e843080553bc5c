"""The click commands of all verbs, built on demand. The module of a verb is imported only when the verb runs."""

from __future__ import annotations

import difflib
import gc
from collections.abc import Callable
from typing import Any, NoReturn

import click

from pipeline.cli import options
from pipeline.cli.commands import VERBS
from pipeline.cli.verb import GROUPS, Connects
from pipeline.loading import load
from remote.errors import BadUsage

ON_RUN = (
    "RUN is the name of a run, the beginning of that name, or a config (its newest run). "
    "Default: the run started or resumed last."
)

OTHER_WORDS = {
    "resume": "pipeline run --resume RUN",
    "train": "pipeline run --host HOST --config NAME",
    "compare": "pipeline report RUN OTHER_RUN",
    "clean": "pipeline docs machines",
}
"""Commands that do not exist but are often typed, with the correct command or the page that explains it."""


class Verbs(click.Group):
    """A click group with all verbs, whose commands are built on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all verbs, in the order of the table."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of the verb, or None if there is no verb of that name."""
        del ctx
        return command(cmd_name) if cmd_name in VERBS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs by group, without building their commands."""
        del ctx
        width = max(map(len, VERBS))
        for group in GROUPS:
            with formatter.section(group):
                rows = [(name, verb.summary) for name, verb in VERBS.items() if verb.group == group]
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb that the user typed. Raises BadUsage, which suggests the correct command."""
        if args[0] not in VERBS:
            if args[0] in OTHER_WORDS:
                raise BadUsage(f"no such command: {args[0]!r}", hint=OTHER_WORDS[args[0]])
            _refuse(args[0], ctx)
        return super().resolve_command(ctx, args)


def _refuse(word: str, context: click.Context) -> NoReturn:
    near = difflib.get_close_matches(word, VERBS, n=1)
    message = f"no such command: {word!r}{f'; did you mean {near[0]}?' if near else ''}"
    hint = f"{context.command_path} --help"
    raise BadUsage(message, hint=hint, instead=(word, near[0]) if near else None)


def command(name: str) -> click.Command:
    """Return the click command of a verb."""
    verb = VERBS[name]
    return click.Command(
        name,
        params=[*verb.params, options.no_input(), options.as_json(verb.printed)],
        help=f"{verb.help}\n\n{ON_RUN}" if any(one.name == "run" for one in verb.params) else verb.help,
        callback=_call(verb.module or name, verb.connects),
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def _call(module: str, connects: Connects | None) -> Callable[..., Any]:
    def call(**values: Any) -> Any:
        if connects is not None:
            values = load("pipeline.cli.connecting").select_and_connect(values, connects)
        verb = getattr(load(f"pipeline.verbs.{module}"), module)
        gc.freeze()  # the collector need not visit what was imported
        gc.enable()  # disabled during the imports at process start
        return verb(**values)

    return call


def help_of(name: str) -> str:
    """Return the output of `pipeline VERB --help` at a width of 100 columns."""
    group = click.Context(click.Group("pipeline"), info_name="pipeline")
    return command(name).get_help(
        click.Context(
            command(name),
            group,
            name,
            terminal_width=100,
            max_content_width=100,
            help_option_names=["-h", "--help"],
        )
    )
