"""Find paths of the laptop in a config and its scripts before anything is started on the host."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import accumulate, islice
from pathlib import Path, PurePosixPath

from pipeline.judgements.laptop_paths import Laptop, judge_laptop_paths, suspects
from pipeline.judgements.left_out import OUTPUT, LeftOut, is_read, judge_left_out, left_out_suspects
from pipeline.judgements.path_literals import option_name
from pipeline.judgements.path_text import is_windows, path_in
from pipeline.judgements.path_uses import PathUse
from pipeline.judgements.started import PathsReached, paths_reached
from pipeline.runs.view import View, data_folder, data_name
from remote.errors import BadUsage
from remote.host import Host, read_field
from remote.project.included_files import Inclusions
from remote.project.paths import exists, is_file
from remote.project.secrets import secret_by_name
from remote.project.user_folder import home
from remote.protocol.findings import Report
from remote.protocol.hidden import Identifier

INPUTS = frozenset(
    {".arrow", ".bin", ".csv", ".flac", ".gguf", ".json", ".jsonl", ".m4a", ".model", ".mp3", ".ogg", ".opus"}
    | {".npy", ".npz", ".parquet", ".pt", ".pth", ".safetensors", ".tar", ".tsv", ".txt", ".wav", ".zip"}
    | {".yaml", ".yml", ".toml"}
    | {".gz", ".h5", ".hdf5", ".lmdb", ".mdb", ".mp4", ".pickle", ".pkl", ".tfrecord", ".tgz", ".xz", ".zst"}
)
KEY = re.compile(r"[+~]{0,2}[A-Za-z_][\w./@-]*=")
"""Matches an argument of the form `key=value`, as Hydra and OmegaConf read it."""
IMAGES = frozenset({".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"})
"""A folder of images is probably data; a single image is often a plot."""
KEEP_FOLDERS = frozenset({".keep", ".gitkeep", ".gitignore", ".pipelineignore", ".placeholder", "README.md"})
"""Files that git tracks in a folder whose other files are not part of the repository."""
MOST_FOLDERS, MOST_NAMES = 20, 200
MOST_JUDGED = 20_000
"""The maximum number of files for which the lines of hints are tried. The patterns of a file may take long to match."""


def laptop_paths(host: Host, view: View) -> Report:
    """Return a finding for each path in the config, its scripts and settings files that exists only on the laptop.

    A path of the project that an ignore file excludes counts too. Sends one request to the host, or none if there are
    no candidates.
    """
    laptop, project = _laptop_of(view), left_out_of(view)
    reached = _reached(view, lambda text: path_in(text) or project.path_in(text))
    uses = (*config_paths(view, reached.options_read, project), *reached.uses)
    found = suspects((use for use in uses if path_in(use.path)), laptop)
    left_out = tuple(left_out_suspects((use for use in uses if not path_in(use.path)), project, str(view.loaded.path)))
    if not found and not left_out:
        return Report()
    absolute = {use.path: use.path for use in found if not is_windows(use.path) and not use.path.startswith("../")}
    asked = {**absolute, **_on_host_of(view, left_out, project)}
    paths = sorted(asked.values())
    there = read_field(tuple[Identifier, ...], host, host.ask("file.exist", {"paths": paths}), "there") if paths else ()
    on_host = {path for path, at in asked.items() if at in there}
    return judge_laptop_paths(found, laptop, on_host).plus(judge_left_out(left_out, project, on_host))


def require_paths(host: Host, view: View) -> None:
    """Raise BadUsage if the command certainly reads a path that exists only on the laptop."""
    found = laptop_paths(host, view)
    for first in found.errors[:1]:
        raise BadUsage(
            first.message, where=first.where, hint=first.hint, exit_code=first.exit_code, findings=found.findings
        )


def _on_host_of(view: View, left_out: Iterable[PathUse], project: LeftOut) -> dict[str, str]:
    """Return {path in the project: path on the host whose existence shows that the host has it}.

    The host may have a folder with other files than those that are not sent, so one of these files is named instead.
    """
    tree, kept = PurePosixPath(view.workdir, view.layout.tree), _folders_of(view.scan.manifest.rows)
    files = {use.path: project.input_in(use.path) if use.path in kept else use.path for use in left_out}
    return {path: str(tree / file) for path, file in files.items()}


def config_paths(view: View, options_read: frozenset[str], project: LeftOut) -> Iterator[PathUse]:
    """Yield the paths in `command:` and `env:` of the config, and in `model:` and `data:` of the built-in trainer."""
    config, file = view.config, view.loaded.path
    line_of = _line_finder(view.loaded.text)
    for path, certain in _words(config.command or (), options_read, project):
        yield PathUse(path, str(file), line_of(path), certain)
    for value in config.env.values():
        if path := path_in(value):
            yield PathUse(path, str(file), line_of(path))
    if config.command is None and config.model is not None:
        named = [(config.model.id, True), (config.data.dataset or "", False)]
        for value, is_model in named:
            if path := path_in(value):
                yield PathUse(path, str(file), line_of(path), certain=True, model=is_model)


def _words(command: tuple[str, ...], options_read: frozenset[str], project: LeftOut) -> Iterator[tuple[str, bool]]:
    """Yield each path in a command, and True if the path is certainly read (as program, script or option)."""
    for before, word in zip(("", *command), command, strict=False):
        is_pair = word.startswith("-") or (KEY.match(word) and not project.exists(word))
        option, _, value = word.partition("=") if is_pair else (before, "", word)
        name = option_name(option) if is_pair or option.startswith("-") else ""
        if path := path_in(value):
            is_script = not before or (not before.startswith("-") and PurePosixPath(path).suffix in (".py", ".sh"))
            yield path, is_script or name in options_read
        elif path := _left_out_in(value, name, project, is_program=not before):
            yield path, not before or name in options_read or is_read(path, name)


def _left_out_in(value: str, name: str, project: LeftOut, *, is_program: bool) -> str:
    """Return the path that is not sent, or "" for an output, and for a program that the shell finds in $PATH."""
    if OUTPUT.search(name) or (is_program and "/" not in value):
        return ""
    return project.path_in(value)


def _line_finder(text: str) -> Callable[[str], int]:
    """Return a function that returns the number of the first line that contains a path, or 0."""
    starts = list(accumulate(map(len, text.splitlines(keepends=True))))

    def line_of(path: str) -> int:
        at = text.find(path)
        return bisect_right(starts, at) + 1 if at >= 0 else 0

    return line_of


def _reached(view: View, recognise: Callable[[str], str]) -> PathsReached:
    command = view.config.command
    if command is None:
        return PathsReached()
    data = {"HALFSTEP_DATA_DIR"} if view.config.data.path is not None else set()
    names = {*view.host.config.env, *view.config.env, *data}
    return paths_reached(view.scan, command, names, recognise)


def left_out_of(view: View) -> LeftOut:
    """Return the view of the project's files by which paths are found that are not sent."""
    root, data = view.loaded.root, data_name(view.loaded)
    rows = view.scan.manifest.rows
    sent = {*rows, *_folders_of(path for path in rows if PurePosixPath(path).name not in KEEP_FOLDERS)}
    kept = _folders_of(rows) - sent
    inputs_in = cache(lambda path: tuple(_inputs_in(root, path)))

    def input_in(path: str) -> str:
        return next(iter(inputs_in(path)), "")

    def is_sent(path: str) -> bool:
        of_data = data and (f"{path}/".startswith(f"{data}/") or f"{data}/".startswith(f"{path}/"))
        links = path in rows or any(str(above) in rows for above in PurePosixPath(path).parents)
        is_empty = path in kept and not input_in(path)
        return not rows or path in sent or is_empty or bool(of_data) or links or _is_never_sent(root, path)

    rules, judged = Inclusions(view.scan.root), 0

    @cache
    def would_send(path: str, lines: tuple[str, ...]) -> bool | None:
        nonlocal judged
        files = inputs_in(path) or (path,)
        judged += len(files)
        return rules.would_include(files, lines) if judged <= MOST_JUDGED else None

    return LeftOut(is_sent, cache(lambda path: exists(root / path)), input_in, would_send)


def _folders_of(paths: Iterable[str]) -> set[str]:
    folders: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def _is_never_sent(root: Path, path: str) -> bool:
    """Return True for records, secrets and Python environments, which no rule of the user includes."""
    parts = PurePosixPath(path).parts
    above = (root.joinpath(*parts[:end]) for end in range(1, len(parts) + 1))
    return parts[0] in (".halfstep", ".git") or bool(secret_by_name(path)) or any(map(_is_environment, above))


def _is_environment(folder: Path) -> bool:
    return exists(folder / "pyvenv.cfg")


def _inputs_in(root: Path, path: str) -> Iterator[str]:
    """Yield the path itself if it is a file of data or of a model, or such files among the first ones of the folder.

    In a folder, images count too.
    """
    top = root / path
    if is_file(top):
        yield from [path] if top.suffix.lower() in INPUTS else []
    for folder, _, names in islice(os.walk(top), MOST_FOLDERS):
        for name in names[:MOST_NAMES]:
            if PurePosixPath(name).suffix.lower() in INPUTS | IMAGES:
                yield PurePosixPath(path, os.path.relpath(folder, top), name).as_posix()


def _laptop_of(view: View) -> Laptop:
    data = data_folder(view.loaded)
    return Laptop(str(view.loaded.root), str(home(os.environ)), exists, str(data) if data else "")
