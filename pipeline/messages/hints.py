"""Complete the commands in hints with `--host`, `--config` and overrides, so that they can be typed unchanged.

Hints are completed in the verb's outcome, because the code that creates a finding has no access to the typed names.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from remote.link.host_hints import QUOTED
from remote.protocol.shell import outside_project

NEEDS_NAMES = re.compile(r"\bpipeline (run|verify|plan|fix)(?= --|$|[;,.)])")

HOSTS_CHECK = re.compile(r"\bpipeline hosts check(?=$|[;,.)])")

PLACEHOLDERS = "--host HOST --config NAME"
"""The arguments of a command in a catalog entry, which is also shown without a known host."""

ON_THE_HOST = "   (on the host)"
"""The end of a hint whose command is typed on the host."""


def complete_hint(hint: str, host: str, config: str, given: tuple[str, ...] = ()) -> str:
    """Add `--host`, `--config` and the arguments `given` to every verb in the hint that needs them.

    PLACEHOLDERS and ON_THE_HOST are replaced. An override of the hint that is also in `given` is written once. A hint
    that names a host or a config, or is a quotation of the host, is returned unchanged.
    """
    if hint.startswith(QUOTED):
        return hint
    if host:
        hint = hint.replace(ON_THE_HOST, "" if host == "local" else f"   (on {host})")
    if not host or not config:
        return hint
    typed = given if given[:1] == ("--host",) else ("--host", host, "--config", config, *given)
    words = shlex.join(typed)
    if PLACEHOLDERS in hint:
        return hint.replace(PLACEHOLDERS, words)
    if "--host" in hint or "--config" in hint:
        return hint
    hint = HOSTS_CHECK.sub(lambda match: f"{match.group()} {shlex.quote(typed[1])}", hint)
    if NEEDS_NAMES.search(hint):
        for override in _overrides(given):
            hint = re.sub(rf" --set {re.escape(shlex.quote(override))}(?=$|[\s;,)])", "", hint)
    return NEEDS_NAMES.sub(lambda match: f"{match.group()} {words}", hint)


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
    return before in ("--host", "--config") and path and Path(word).is_file()


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
        return shlex.join(["pipeline", *words[:at], right, *words[at + 1 :]])
    fixed = [f"{word.partition('=')[0]}={right}" if word.partition("=")[2] == wrong else word for word in words]
    return shlex.join(["pipeline", *fixed]) if wrong and fixed != list(words) else ""


def install_command(package: str, prefix: str, python: str, uv: str | None) -> str:
    """Return the command that adds a package to halfstep's environment, by pipx, uv or pip.

    It runs outside of the project: see `outside_project`.
    """
    by_pip = ["uv", "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    installer = ["pipx", "inject", "halfstep"] if "/pipx/" in prefix else by_pip
    return outside_project(shlex.join([*installer, package]))


def option_value(words: Sequence[str], *names: str) -> str:
    """Return the value of an option that was typed as `--option value`, `--option=value` or `-ovalue`, or ""."""
    for at, word in enumerate(words):
        for name in names:
            if word == name and at + 1 < len(words):
                return words[at + 1]
            if word.startswith(f"{name}=" if name.startswith("--") else name):
                return word.removeprefix(name).removeprefix("=")
    return ""
