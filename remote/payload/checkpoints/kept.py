"""Keep hard links to the newest verified checkpoint, so that its files remain if the script deletes the checkpoint."""

from __future__ import annotations

import os
import shutil

from remote.payload.checkpoints.files import MANIFEST, list_names, step_of
from remote.payload.checkpoints.found import KEPT
from remote.payload.checkpoints.published import remember_verdict
from remote.protocol.parts import PART


def keep(run_root: str, checkpoint: str) -> None:
    """Replace the run's kept/ with links to the files of a verified checkpoint.

    A script that keeps only one checkpoint deletes the previous checkpoint before the new checkpoint is verified.
    Raises OSError, and keeps the previous links, if the checkpoint is being deleted or hard links are not supported.
    """
    parent = os.path.join(run_root, KEPT)
    name = os.path.basename(checkpoint)
    target = os.path.join(parent, name)
    os.makedirs(parent, exist_ok=True)
    if not os.path.isdir(target):
        part = os.path.join(parent, f"{PART}{name}")
        shutil.rmtree(part, ignore_errors=True)
        try:
            for file in [*list_names(checkpoint), MANIFEST]:
                link = os.path.join(part, file)
                os.makedirs(os.path.dirname(link), exist_ok=True)
                os.link(os.path.join(checkpoint, file), link)
        except OSError:
            shutil.rmtree(part, ignore_errors=True)
            raise
        os.rename(part, target)
        # A new link changes the ctime of its file. Stored verifications compare the ctime, so they are written again.
        remember_verdict(target)
        remember_verdict(checkpoint)
    for other in os.listdir(parent):
        if 0 <= step_of(other) < step_of(name):
            shutil.rmtree(os.path.join(parent, other), ignore_errors=True)


def remove_kept_links(run_root: str) -> None:
    """Remove the links of a run that has succeeded, to free the space of the checkpoints that its script deleted."""
    shutil.rmtree(os.path.join(run_root, KEPT), ignore_errors=True)
