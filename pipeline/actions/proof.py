"""Run the proof of `verify` on the fixed project, in a scratch folder that is removed afterwards."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator

from fixers.frame.change import FileChange, Plan
from pipeline.runs.command import SCRATCH_DATA
from pipeline.runs.fixes import MADE_ON_HOST
from pipeline.runs.view import View
from pipeline.stages.stage import Context
from pipeline.stages.verify import prove
from remote.protocol.proof import ProofReport
from remote.sync.scratch import remove_scratch, send_scratch

LARGEST_SCRATCH_DATA = 64 * 10**6


def obstacle_to_proof(view: View) -> str:
    """Return the reason why `verify` cannot run the proof, or an empty string if it can."""
    if not view.data_digest or view.data_digest in view.survey.data or data_files(view):
        return ""
    return "the data is not on the host yet, and is too large to be sent only for a proof"


def prove_in_scratch(context: Context, plan: Plan) -> ProofReport:
    """Prove the project as it will be after the fixers, in a scratch folder that is removed afterwards."""
    with scratch_of(context, plan) as source:
        return prove(context, source)


@contextlib.contextmanager
def scratch_of(context: Context, plan: Plan) -> Iterator[str]:
    """Create a scratch folder on the host with the project as changed by `plan`; remove it at the end of the block.

    `plan` must include the changes already made on the host, because the scratch folder is built from the laptop's
    files.
    """
    view, nonce = context.view, secrets.token_hex(8)
    files = [change for change in plan.changes if isinstance(change, FileChange)]
    if view.data_digest and view.data_digest not in view.survey.data:
        files += [FileChange(f"{SCRATCH_DATA}/{name}", b"", data, {}) for name, data in data_files(view)]
    try:
        yield send_scratch(context.host, view.scan, view.survey.tree, files, nonce, host_fixers=MADE_ON_HOST)
    finally:
        remove_scratch(context.host, view.scan, nonce)


def data_files(view: View) -> tuple[tuple[str, bytes], ...]:
    """Return (name, bytes) of each separately uploaded file, or () if the data is too large for a scratch folder."""
    data = view.data
    if data is None or data.size_bytes > LARGEST_SCRATCH_DATA or data.root.is_file():
        return ()
    return tuple((name, data.read_scanned(name)) for name in data.files)
