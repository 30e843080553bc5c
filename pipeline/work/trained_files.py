"""The digest of the project's files that a training may depend on: all but halfstep's own configs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from fixers.sources.yaml_nodes import YamlProblem, compose
from fixers.sources.yaml_values import plain
from pipeline.config.find import SUFFIXES
from pipeline.config.model import HostConfig, RunConfig
from pipeline.work.view import View
from remote.protocol.tree import Manifest

LARGEST = 256 * 1024


def trained_files_digest(view: View) -> str:
    """Return a digest of the files on the host, with changes by fixers and without halfstep's own configs.

    If the host's tree is not the laptop's, so that its files are unknown, the digest is that of the whole tree.
    """
    there = Manifest({**view.scan.manifest.rows, **view.survey.tree.fixed})
    own = set(_own_configs(view))
    if not own or there.installed_digest() != view.survey.tree.installed_digest:
        return view.survey.tree.installed_digest
    return replace(there, rows={path: row for path, row in there.rows.items() if path not in own}).installed_digest()


def _own_configs(view: View) -> Iterator[str]:
    """Yield the files in configs/ that have only keys of halfstep's configs and are not part of the command."""
    words = view.config.command or ()
    for path, row in view.scan.manifest.rows.items():
        folder, _, name = path.rpartition("/")
        if folder not in ("configs", "configs/hosts") or not name.endswith(SUFFIXES) or row.link or row.size > LARGEST:
            continue
        if any(name in word for word in words):
            continue
        known, needed = (RunConfig, {"project", "command", "model"}) if folder == "configs" else (HostConfig, {"host"})
        keys = _keys_in(_read(view, path))
        if keys & needed and keys <= set(known.model_fields):
            yield path


def _read(view: View, path: str) -> bytes:
    try:
        return view.scan.read(path)
    except OSError:
        return b""


@lru_cache
def _keys_in(data: bytes) -> frozenset[str]:
    # Cached: every stage computes the run's name, and parsing YAML is slow.
    try:
        values = plain(compose(data, tags=False))
    except YamlProblem:
        return frozenset()
    return frozenset(values) if isinstance(values, dict) else frozenset()
