"""Find paths of the laptop in a config and its scripts before anything is started on the host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pipeline.judgements.laptop_paths import Laptop, judge_laptop_paths, suspects
from pipeline.judgements.path_literals import option_name
from pipeline.judgements.path_text import is_windows, path_in
from pipeline.judgements.path_uses import PathUse
from pipeline.judgements.started import PathsReached, paths_reached
from pipeline.runs.view import View, data_folder
from remote.host import Host, read_field
from remote.protocol.findings import Report
from remote.protocol.hidden import Identifier


def laptop_paths(host: Host, view: View) -> Report:
    """Return a finding for each path in the config, its scripts and settings files that exists only on the laptop.

    Sends one request to the host, or none if there are no candidates.
    """
    laptop = _laptop_of(view)
    reached = _reached(view)
    found = suspects((*config_paths(view, reached.options_read), *reached.uses), laptop)
    if not found:
        return Report()
    paths = sorted({use.path for use in found if not is_windows(use.path) and not use.path.startswith("../")})
    on_host = (
        read_field(tuple[Identifier, ...], host, host.ask("file.exist", {"paths": paths}), "there") if paths else ()
    )
    return judge_laptop_paths(found, laptop, frozenset(on_host))


def config_paths(view: View, options_read: frozenset[str]) -> Iterator[PathUse]:
    """Yield the paths in `command:` and `env:` of the config, and in `model:` and `data:` of the built-in trainer."""
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
    """Yield each path in a command, and True if the path is certainly read (as program, script or option)."""
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
