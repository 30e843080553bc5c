"""Compute the digest of a run's input files: all project files except halfstep's configs and excluded files."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace

from fixers.sources.yaml_nodes import YamlProblem, compose
from fixers.sources.yaml_values import plain
from pipeline.config.find import SUFFIXES
from pipeline.config.host_model import HostConfig
from pipeline.config.model import RunConfig
from pipeline.records.inputs import digest
from pipeline.runs.excluded_files import AUTO, code_digest, excluded_files
from pipeline.runs.view import View
from remote.protocol.tree import Manifest, Row

SIMILAR = 0.75
LARGEST = 256 * 1024
LARGEST_NOTEBOOK = 64 * 2**20
TRAINED_FILES = "files as fixed"


def trained_files_digest(view: View) -> str:
    """Return a digest of the input files on the host, including changes by fixers.

    If the host's tree is not the local tree with the known changes, its single files are unknown. The digest of the
    host's whole tree is returned instead.
    """
    if TRAINED_FILES not in view.computed:
        view.computed[TRAINED_FILES] = _compute_digest(view)
    return view.computed[TRAINED_FILES]


def _compute_digest(view: View) -> str:
    on_host = Manifest({**view.scan.manifest.rows, **view.survey.tree.fixed})
    if on_host.installed_digest() != view.survey.tree.installed_digest:
        return view.survey.tree.installed_digest
    return Manifest(_inputs_of(view, on_host.rows)).installed_digest()


def trained_files(view: View) -> dict[str, str]:
    """Return the digest of each local file that is an input, before changes by fixers."""
    return {path: row.source for path, row in _inputs_of(view, view.scan.manifest.rows).items() if row.source}


def not_inputs(view: View) -> tuple[str, ...]:
    """Return the sorted paths of the files that `inputs.exclude` excludes."""
    paths = tuple(view.scan.manifest.rows)
    words = view.config.command or ()
    return tuple(sorted(excluded_files(paths, view.config.inputs.exclude, words, view.scan.untracked)))


def _inputs_of(view: View, rows: dict[str, Row]) -> dict[str, Row]:
    left_out = {*_own_configs(view), *not_inputs(view)}
    strip = AUTO in view.config.inputs.exclude
    return {
        path: _without_outputs(view, path, row) if strip and path.endswith(".ipynb") else row
        for path, row in rows.items()
        if path not in left_out
    }


def _without_outputs(view: View, path: str, row: Row) -> Row:
    """Return a notebook's manifest row, with digests of the code cells instead of the whole file."""
    if row.link or row.size > LARGEST_NOTEBOOK or path not in view.scan.manifest.rows:
        return row
    code = view.scan.derive(path, code_digest)
    if not code:
        return row
    installed = digest([code, row.fixers]) if row.fixers else code
    return replace(row, source=code, installed=installed)


def _own_configs(view: View) -> Iterator[str]:
    """Yield the files in configs/ that contain only keys of halfstep's configs and that `command:` does not name.

    A misspelt key, which makes a config invalid, counts as the key that it resembles.
    """
    words = view.config.command or ()
    for path, row in view.scan.manifest.rows.items():
        folder, _, name = path.rpartition("/")
        if folder not in ("configs", "configs/hosts") or not name.endswith(SUFFIXES) or row.link or row.size > LARGEST:
            continue
        if any(name in word for word in words):
            continue
        known, needed = (RunConfig, {"project", "command", "model"}) if folder == "configs" else (HostConfig, {"host"})
        keys = view.scan.derive(path, _keys_in)
        keys = frozenset(_as_spelt(key, tuple(known.model_fields)) for key in keys)
        if keys & needed and keys <= set(known.model_fields):
            yield path


def _as_spelt(key: str, known: tuple[str, ...]) -> str:
    """Return the known key that `key` resembles, as the message about an invalid config names it, or `key`."""
    return key if key in known else next(iter(difflib.get_close_matches(key, known, n=1, cutoff=SIMILAR)), key)


def _keys_in(data: bytes) -> frozenset[str]:
    try:
        values = plain(compose(data, tags=False))
    except YamlProblem:
        return frozenset()
    return frozenset(map(str, values)) if isinstance(values, dict) else frozenset()
