"""Resolve hub revisions that can move, such as branches, to commits. The first job of a run records the commits."""

from __future__ import annotations

import logging
import os
import re
from dataclasses import replace
from typing import Any, Dict, Mapping, Optional

from huggingface_hub import snapshot_download

from remote.payload.files.lock import take_lock
from remote.payload.files.records import read_record, write_record
from remote.protocol.layout import RunLayout
from remote.protocol.training import TINY_PREFIX, TrainingSpec

COMMIT = re.compile(r"[0-9a-f]{40}")
DEFAULT = "main"
SMALL_FILES = ["config.json", "README.md"]
"""Files that `from_pretrained` and `load_dataset` download first."""
LONGEST_WAIT_S = 600.0
Commits = Dict[str, str]
"""Maps 'model REPOSITORY@REVISION' or 'dataset REPOSITORY@REVISION' to a commit."""
log = logging.getLogger("halfstep")


def pin_revisions(spec: TrainingSpec, known: Optional[Mapping[str, str]] = None) -> TrainingSpec:
    """Return the spec with the commits of its model and data set, which are recorded in the run's folder.

    A recorded commit is used even if its branch has moved since. `known` are the commits of the run that trained the
    adapter, if this run continues or evaluates it. A revision that cannot be resolved is kept.
    """
    model, data, commits = spec.model, spec.data, known or {}
    if not model.id.startswith(TINY_PREFIX) and can_move(model.id, model.revision):
        model = replace(model, revision=_pin(spec, "model", model.id, model.revision, commits))
    if data.dataset and not data.folder and can_move(data.dataset, data.revision):
        data = replace(data, revision=_pin(spec, "dataset", data.dataset, data.revision, commits))
    return replace(spec, model=model, data=data)


def read_commits(run: str) -> Commits:
    """Return the commits that are recorded in a run's folder."""
    return read_record(RunLayout(run).revisions, Commits) or {}


def known_commits(record: Any) -> Commits:
    """Return the valid commits in an adapter's record."""
    recorded = record.get("revisions") if isinstance(record, dict) else None
    pairs = recorded.items() if isinstance(recorded, dict) else ()
    return {name: commit for name, commit in pairs if isinstance(commit, str) and COMMIT.fullmatch(commit)}


def can_move(repository: str, revision: Optional[str]) -> bool:
    """Return True if a revision of a hub repository is a name, such as a branch, and not a commit."""
    return not os.path.exists(repository) and not COMMIT.fullmatch(revision or "")


def _pin(
    spec: TrainingSpec, kind: str, repository: str, revision: Optional[str], known: Mapping[str, str]
) -> Optional[str]:
    name = revision or DEFAULT
    key, path = f"{kind} {repository}@{name}", RunLayout(spec.paths.run).revisions
    # One rank on each host resolves the revision. The other ranks read the record.
    with take_lock(f"{path}.lock", "resolving a revision\n", wait_s=LONGEST_WAIT_S):
        commits = read_commits(spec.paths.run)
        if key in commits:
            log.info("%s: %s is commit %s, as recorded with the run", f"{kind} {repository}", name, commits[key])
            return commits[key]
        commit = known.get(key) or _resolve(kind, repository, name)
        if commit is None:
            log.info("%s: %s is not resolved to a commit and can move", f"{kind} {repository}", name)
            return revision
        write_record(path, {**commits, key: commit})
    log.info("%s: %s is commit %s, which this run keeps", f"{kind} {repository}", name, commit)
    return commit


def _resolve(kind: str, repository: str, revision: str) -> Optional[str]:
    """Return the commit from the hub, or from the cache if the hub is unreachable, or None if neither has the revision.

    Errors are ignored, because loading the model or the data then raises a better error.
    """
    try:
        folder = snapshot_download(repository, repo_type=kind, revision=revision, allow_patterns=SMALL_FILES)
    except (OSError, ValueError):
        return None
    commit = os.path.basename(folder)
    return commit if COMMIT.fullmatch(commit) else None
