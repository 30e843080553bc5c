"""Options and arguments that several verbs share, and the completion of their values."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

import click

from pipeline.loading import load
from remote.errors import BadUsage

INERT = re.compile(r"[\w./:@%+,=-]+")
"""A name without a character that a shell interprets: bash inserts completions unquoted, and a clone chooses names."""


def completes(source: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a completion callback for the names that `pipeline.cli.names.<source>` returns."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        del context, parameter
        names: Iterable[str] = getattr(load("pipeline.cli.names"), source)()
        return sorted(name for name in set(names) if name.startswith(incomplete) and INERT.fullmatch(name))

    return complete


def flag(*names: str, help: str) -> click.Option:
    """Return a switch that is off by default."""
    return click.Option(names, is_flag=True, default=False, help=help)


def text(*names: str, help: str, metavar: str, source: str = "", required: bool = False) -> click.Option:
    """Return an option with one value; the default is an empty string."""
    completion = completes(source) if source else None
    option = click.Option(names, required=required, metavar=metavar, help=help, shell_complete=completion)
    if not required:  # click treats a default of None as a value, and then no longer requires the option
        option.default = ""
    return option


def stage(*names: str, help: str) -> click.Option:
    """Return an option whose value is one of the six stages; the default is an empty string."""
    option = text(*names, metavar="STAGE", help=help, source="stages")
    option.callback = _known_stage
    return option


def _known_stage(context: click.Context, parameter: click.Parameter, name: str) -> str:
    del context
    if name and name not in (stages := tuple(load("pipeline.cli.names").stages())):
        near = difflib.get_close_matches(name, stages, n=1)
        message = f"unknown stage {name!r}; the stages are {', '.join(stages)}"
        raise BadUsage(message, where=parameter.opts[0], instead=(name, near[0]) if near else None)
    return name


def several(*names: str, help: str, metavar: str, source: str = "") -> click.Option:
    """Return an option that may be repeated; its value is a tuple."""
    return click.Option(
        names, multiple=True, metavar=metavar, help=help, shell_complete=completes(source) if source else None
    )


def host(help: str, *, required: bool = False) -> click.Option:
    """`--host NAME`."""
    return text("--host", metavar="NAME", help=help, source="hosts", required=required)


def config(help: str, *, required: bool = False) -> click.Option:
    """`--config NAME`."""
    return text("-c", "--config", metavar="NAME", help=help, source="configs", required=required)


def card(help: str) -> click.Option:
    """`--card NAME`."""
    return text("--card", metavar="CARD", help=help, source="cards")


def overrides(more: str = "", example: str = "train.learning_rate=1e-5 or host.port=2222") -> click.Option:
    """`--set KEY=VALUE`, repeatable."""
    message = f"override a key, such as {example}; repeatable{more}"
    return several("--set", "overrides", metavar="KEY=VALUE", help=message, source="keys")


def as_json(printed: str) -> click.Option:
    """`--json`, which prints `printed`."""
    return flag("--json", "as_json", help=f"print {printed} on stdout; all other text goes to stderr")


def yes() -> click.Option:
    """`--yes`."""
    message = (
        "allow more than 16 runs in one command; ask for no confirmation: the command ends if a host key, host file, "
        "data folder or secret still has to be confirmed; passwords are still prompted for"
    )
    return flag("-y", "--yes", help=message)


def no_input() -> click.Option:
    """`--no-input`, which makes the terminal unavailable to every prompt."""
    message = "never prompt; fail instead (the default without a terminal)"
    return click.Option(["--no-input"], is_flag=True, expose_value=False, callback=_close_terminal, help=message)


def _close_terminal(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    del parameter
    if wanted and not context.resilient_parsing:
        load("remote.link.prompter").close_terminal()


def runs() -> click.Argument:
    """The argument `[RUN]...`; the value is () if it is omitted."""
    return click.Argument(["runs"], nargs=-1, metavar="[RUN]...", shell_complete=completes("runs"))


def run() -> click.Argument:
    """The argument `[RUN]`; the value is None if it is omitted."""
    return click.Argument(["run"], required=False, metavar="[RUN]", shell_complete=completes("runs"))
