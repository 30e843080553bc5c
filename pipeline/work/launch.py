"""The command and environment of a run, as changed by the source fixers for its card. Pure.

A job is started with the laptop's config, which may have overrides and cures or be outside of the project, and not
with the rewritten copy on the host. Therefore the fixers also plan changes for this command and environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fixers.frame.fixed_tree import as_planned
from fixers.plans.site_plan import plan_fixes
from fixers.registry import SOURCE_NAMES
from fixers.sources.yaml_nodes import compose
from fixers.sources.yaml_values import plain
from pipeline.work.fixes import site_of
from pipeline.work.view import View

FILE = "configs/launch.yaml"


@dataclass(frozen=True)
class Launch:
    """The argv of the project's own command (None: the built-in trainer), and what `env:` adds, the host's first."""

    command: tuple[str, ...] | None
    env: Mapping[str, str]


@dataclass(frozen=True)
class OneFile:
    """A tree of one file."""

    path: str
    data: bytes

    def paths(self) -> Iterable[str]:
        return (self.path,)

    def read(self, path: str) -> bytes:
        return self.data


def launch_of(view: View) -> Launch:
    """Return command and environment for the view's card, unchanged if no fixer applies."""
    given = _given(view)
    written = write_launch(given)
    if read_launch(written) != given:
        return given
    tree = OneFile(FILE, written)
    site = replace(site_of(view, None), tree=tree)
    plan = plan_fixes(site, only=SOURCE_NAMES)
    return read_launch(as_planned(tree, plan).read(FILE))


def _given(view: View) -> Launch:
    return Launch(view.config.command, {**view.host.config.env, **view.config.env})


def describe_launch_changes(view: View) -> str:
    """Return the changes, such as 'started with --fp16 instead of --bf16'; empty if there are none."""
    given, launch = _given(view), launch_of(view)
    before, after = given.command or (), launch.command or ()
    swaps = [*zip(before, after, strict=False), *zip(pairs_of(given.env), pairs_of(launch.env), strict=False)]
    words = [f"{now} instead of {was}" for was, now in swaps if was != now and "\n" not in now]
    return f"started with {', '.join(words)}" if words else ""


def pairs_of(env: Mapping[str, str]) -> list[str]:
    return [f"{name}={value}" for name, value in env.items()]


def write_launch(launch: Launch) -> bytes:
    """Return a run config with only command and environment, which fixers can edit."""
    lines = ["command:" if launch.command else "command: null"]
    lines += [f"- {_written(word)}" for word in launch.command or ()]
    lines.append("env:" if launch.env else "env: {}")
    lines += [f"  {_quoted(name)}: {_quoted(value)}" for name, value in launch.env.items()]
    return ("\n".join(lines) + "\n").encode()


def _written(word: str) -> str:
    """Return one YAML item; shell text keeps its lines and quotes, so that fixers can parse it."""
    shown = all(line.isprintable() for line in word.replace("\t", " ").split("\n"))
    if not shown or not any(mark in word for mark in '\n"\\') or not word.strip():
        return _quoted(word)
    lines = word.removesuffix("\n").split("\n")
    return "|2" + ("+" if word.endswith("\n") else "-") + "".join(f"\n  {line}" for line in lines)


def _quoted(text: str) -> str:
    plainly = (one if one.isprintable() and one not in '"\\' else f"\\U{ord(one):08x}" for one in text)
    return f'"{"".join(plainly)}"'


def read_launch(data: bytes) -> Launch:
    """Parse a config that `write_launch` wrote."""
    values: dict[str, Any] = plain(compose(data, tags=False))
    command = values["command"]
    return Launch(None if command is None else tuple(map(str, command)), {k: str(v) for k, v in values["env"].items()})
