"""Paths of the laptop that a run would look for on the host, found before anything is started there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pipeline.judgements.laptop_paths import Laptop, judge_laptop_paths, suspects
from pipeline.judgements.path_literals import option_name
from pipeline.judgements.path_text import is_windows, path_in
from pipeline.judgements.path_uses import PathUse
from pipeline.judgements.started import PathsReached, paths_reached
from pipeline.work.view import View, data_folder
from remote.host import Host
from remote.protocol.findings import Report


def laptop_paths(host: Host, view: View) -> Report:
    """A finding for each path in the config, the started scripts and their settings that only the laptop has.

    Asks the host once, and only where there is something to ask.
    """
    laptop = _laptop_of(view)
    reached = _reached(view)
    found = suspects((*config_paths(view, reached.options_read), *reached.uses), laptop)
    if not found:
        return Report()
    asked = sorted({use.path for use in found if not is_windows(use.path) and not use.path.startswith("../")})
    there = host.ask("file.exist", {"paths": asked})["there"] if asked else []
    return judge_laptop_paths(found, laptop, frozenset(map(str, there)))


def config_paths(view: View, options_read: frozenset[str]) -> Iterator[PathUse]:
    """The paths in `command:` and `env:` of the run's config, and in `model:` and `data:` of the built-in trainer."""
    config, file = view.config, view.loaded.path
    text = file.read_text("utf-8", "replace")
    for path, certain in _words(config.command or (), options_read):
        yield PathUse(path, str(file), _line_of(text, path), certain)
    for value in config.env.values():
        if path := path_in(value):
            yield PathUse(path, str(file), _line_of(text, path))
    if config.command is None and config.model is not None:
        named = [(config.model.id, True), (config.data.dataset or "", False)]
        for value, is_model in named:
            if path := path_in(value):
                yield PathUse(path, str(file), _line_of(text, path), certain=True, model=is_model)


def _words(command: tuple[str, ...], options_read: frozenset[str]) -> Iterator[tuple[str, bool]]:
    """The paths among the words of a command, and whether it is certain to read them: its program, script, options."""
    for before, word in zip(("", *command), command, strict=False):
        option, _, value = word.partition("=") if word.startswith("-") else (before, "", word)
        if path := path_in(value):
            name = option_name(option) if option.startswith("-") else ""
            is_script = not before or (not before.startswith("-") and PurePosixPath(path).suffix in (".py", ".sh"))
            yield path, is_script or name in options_read


def _line_of(text: str, path: str) -> int:
    return next((number for number, line in enumerate(text.splitlines(), 1) if path in line), 0)


def _reached(view: View) -> PathsReached:
    command = view.config.command
    if command is None:
        return PathsReached()
    return paths_reached(view.scan, command, {**view.host.config.env, **view.config.env})


def _laptop_of(view: View) -> Laptop:
    data = data_folder(view.loaded)
    return Laptop(str(view.loaded.root), str(Path.home()), os.path.exists, str(data) if data else "")
