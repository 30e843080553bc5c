"""The group of all verbs: built from the table when asked for, with the nearest verb for a wrong one."""

from __future__ import annotations

import difflib
from typing import NoReturn

import click

from pipeline.cli.commands import VERBS, command


class Verbs(click.Group):
    """The verbs of the table, built when asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every verb, in the table's order."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of that name; None if there is none."""
        del ctx
        return command(cmd_name) if cmd_name in VERBS else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table, without building a command for each line."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb that was typed. Raises UsageError with the nearest one."""
        if args[0] not in VERBS:
            _refuse(args[0], ctx)
        return super().resolve_command(ctx, args)


def _refuse(word: str, context: click.Context) -> NoReturn:
    near = difflib.get_close_matches(word, VERBS, n=1)
    raise click.UsageError(f"no such verb: {word!r}{f'; did you mean {near[0]}?' if near else ''}", context)
