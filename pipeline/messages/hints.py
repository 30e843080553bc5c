"""Complete the commands in hints with `--host`, `--config` and overrides, so that they can be typed unchanged.

Hints are completed in the verb's outcome, because the code that creates a finding has no access to the typed names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from pathlib import Path

from remote.link.host_hints import QUOTED
from remote.project.paths import is_file
from remote.protocol.shell import LONGEST, command_line, on_host, outside_project, outside_quotes, words_in

NEEDS_NAMES = re.compile(r"\bpipeline (run|verify|plan|fix)(?= --|$|[;,.)]| {3}\()")

HOSTS_CHECK = re.compile(r"\bpipeline hosts check(?=$|[;,.)])")

PLACEHOLDERS = "--host HOST --config NAME"
"""The arguments of a command in a catalog entry, which is also shown without a known host."""

CHOICES = ("project", "data", "data.path", "secrets", "host.secrets")
"""The keys of `--set` that select what is sent."""

ON_THE_HOST = "   (on the host)"
"""The end of a hint whose command is typed on the host."""


def complete_hint(hint: str, host: str, config: str, given: tuple[str, ...] = ()) -> str:
    """Add `--host`, `--config` and the arguments `given` to every verb in the hint that needs them.

    PLACEHOLDERS and ON_THE_HOST are replaced. An override of the hint that is also in `given` is written once. A hint
    that names a host or a config, or is a quotation of the host, is returned unchanged; so are quoted words of a hint,
    and a hint that would become too long or contain a word that shells read differently.
    """
    if hint.startswith(QUOTED) or hint.count("'") % 2:
        return hint
    if host:
        place = "" if host == "local" else on_host("", host=host)
        hint = _replaced(hint, lambda text: text.replace(ON_THE_HOST, place))
    if not host or not config:
        return hint
    typed = given if given[:1] == ("--host",) else ("--host", host, "--config", config, *given)
    words, checked = command_line(_without_overrides_of(hint, typed)), command_line(typed[1:2])
    unquoted = outside_quotes(hint)
    if not words or not checked:
        return hint
    if PLACEHOLDERS in unquoted:
        done = _replaced(hint, lambda text: text.replace(PLACEHOLDERS, words))
    elif "--host" in unquoted or "--config" in unquoted:
        return hint
    else:
        done = _replaced(hint, lambda text: HOSTS_CHECK.sub(rf"\g<0> {checked}", text))
        done = _replaced(done, lambda text: NEEDS_NAMES.sub(rf"\g<0> {words}", text))
    return done if len(done) <= LONGEST else hint


def _replaced(hint: str, replace: Callable[[str], str]) -> str:
    """Return the hint with the text outside of its quoted words replaced."""
    return "'".join(part if at % 2 else replace(part) for at, part in enumerate(hint.split("'")))


def _without_overrides_of(hint: str, typed: Sequence[str]) -> list[str]:
    """Return the words without the `--set` options that the hint contains."""
    own = {after.rstrip(";,)") for before, after in pairwise(words_in(hint)) if before == "--set"}
    apart = [part for word in typed for part in (("--set", word[6:]) if word.startswith("--set=") else (word,))]
    repeated = [at for at, word in enumerate(apart) if word == "--set" and command_line(apart[at + 1 : at + 2]) in own]
    return [word for at, word in enumerate(apart) if at not in repeated and at - 1 not in repeated]


def override_arguments(overrides: Sequence[str], card: str = "") -> tuple[str, ...]:
    """Return the overrides as `--set` arguments; `card` becomes `--set host.card=...`, which every verb accepts."""
    named = [*overrides, *([f"host.card={card}"] if card else [])]
    return tuple(word for override in named for word in ("--set", override))


def selection_arguments(host: str, config: str, given: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments that name host and config as they were typed, followed by `given`."""
    return ("--host", host, "--config", config, *given)


def with_absolute_paths(words: Sequence[str]) -> tuple[str, ...]:
    """Make paths of host and config files absolute, because a recorded command may be repeated in another folder."""
    return tuple(
        str(Path(word).absolute()) if _is_file(before, word) else word for before, word in pairwise(("", *words))
    )


def _is_file(before: str, word: str) -> bool:
    path = "/" in word or word.endswith((".yaml", ".yml"))
    return before in ("--host", "--config") and path and is_file(Path(word))


def overrides_in(words: Sequence[str]) -> tuple[str, ...]:
    """Return the `--set` arguments of a command line."""
    return override_arguments(_overrides(words))


def _overrides(words: Sequence[str]) -> list[str]:
    apart = [after for word, after in pairwise(words) if word == "--set"]
    return [*apart, *(word.removeprefix("--set=") for word in words if word.startswith("--set="))]


def corrected_command(words: Sequence[str], wrong: str, right: str) -> str:
    """Return the command line with its last `wrong` argument replaced by `right`, or "" if `wrong` is missing."""
    if wrong in words:
        at = len(words) - 1 - list(reversed(words)).index(wrong)
        return command_line(["pipeline", *words[:at], right, *words[at + 1 :]])
    fixed = [f"{word.partition('=')[0]}={right}" if word.partition("=")[2] == wrong else word for word in words]
    return command_line(["pipeline", *fixed]) if wrong and fixed != list(words) else ""


def without_choices(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words without the options that select what is sent, and these options without their values.

    Such an option was typed for one host. A command that names another host must not repeat it.
    """
    kept: list[str] = []
    left: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name not in ("--set", "--adapter"):
            kept.append(word)
            continue
        following = [] if equals else list(islice(rest, 1))
        option = "".join("".join([value, *following]).partition("=")[0].split())
        if name == "--adapter" or option in CHOICES:
            left.append(name if name == "--adapter" else f"{name} {option}")
        else:
            kept += [word, *following]
    return kept, left


def install_command(package: str, prefix: str, python: str, uv: str | None) -> str:
    """Return the command that adds a package to halfstep's environment, by pipx, uv or pip.

    It runs outside of the project: see `outside_project`.
    """
    by_pip = ["uv", "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    installer = ["pipx", "inject", "halfstep"] if "/pipx/" in prefix else by_pip
    return outside_project(*installer, package)


def option_value(words: Sequence[str], *names: str) -> str:
    """Return the value of an option that was typed as `--option value`, `--option=value` or `-ovalue`, or ""."""
    for at, word in enumerate(words):
        for name in names:
            if word == name and at + 1 < len(words):
                return words[at + 1]
            if word.startswith(f"{name}=" if name.startswith("--") else name):
                return word.removeprefix(name).removeprefix("=")
    return ""
