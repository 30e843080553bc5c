"""`verify` and `plan`: what `run` would find to do, looked at without changing anything outside a scratch folder."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from fixers.change import FileChange, Plan
from fixers.diff import render_diff
from pipeline.checkpoints import Claims, read_claims
from pipeline.outcome import StageOutcome, StageState
from pipeline.stages.command import SCRATCH_DATA
from pipeline.stages.environment import need_of
from pipeline.stages.fix import acts_of, rewrites_left
from pipeline.stages.fixing import plan_for, tree_as_fixed
from pipeline.stages.order import STAGES
from pipeline.stages.readiness import judge_host
from pipeline.stages.stage import Context, Standing, judge_standing
from pipeline.stages.verify import prove
from pipeline.stages.view import View
from pipeline.static import judge_static
from remote.protocol.findings import Report
from remote.protocol.proof import ProofReport
from remote.sync.agreed import ask_base, known_base
from remote.sync.plan import SyncPlan, plan_sync
from remote.sync.scratch import remove_scratch, send_scratch

LARGEST_SCRATCH_DATA = 64 * 10**6
REST_ON_FILES = ("verify", "train", "logs")


@dataclass(frozen=True)
class Foreseen:
    """What `run` would do: what it would send, what fixers would change."""

    sync: SyncPlan
    fixes: Plan
    stages: tuple[StageOutcome, ...]

    @property
    def diff(self) -> str:
        return render_diff(self.fixes)


def foresee(context: Context) -> Foreseen:
    """Every stage judged, nothing changed."""
    view = context.view
    claims = read_claims(view.memory.checkpoints(view.host.name, view.loaded.name))
    base = known_base(context.host, view.scan, view.survey.tree) or ask_base(context.host, view.scan)[0]
    sync = plan_sync(view.scan, view.survey.tree, base)
    plan = plan_for(view, context.host)
    left = {rewrite.path for rewrite in rewrites_left(plan, view)}
    changes = tuple(change for change in plan.changes if getattr(change, "path", "") in left or change in acts_of(plan))
    stages = stages_foreseen(view, claims, files_change=bool(left) or not sync.empty)
    return Foreseen(sync, Plan(plan.findings, changes), stages)


def stages_foreseen(view: View, claims: Claims, *, files_change: bool) -> tuple[StageOutcome, ...]:
    """For each stage whether `run` would have work to do: a proof of files that will be others is none."""
    outcomes = []
    for stage in STAGES:
        standing = judge_standing(stage, view, claims.of(stage.name))
        if standing.holds and files_change and stage.name in REST_ON_FILES:
            standing = Standing(False, "the files it was done with will change")
        state = StageState.SKIPPED if standing.holds else StageState.PENDING
        outcomes.append(StageOutcome(stage.name, state, reason=standing.reason))
    return tuple(outcomes)


def judge_without_proof(view: View) -> Report:
    """What can be said of host and project before anything is run there."""
    asked = judge_static(tree_as_fixed(view), view.precision)
    return judge_host(view.survey, need_of(view)).and_also(asked).and_also(view.scan.report)


def can_be_proved(view: View) -> str:
    """Why a proof has to wait for `run`, or nothing."""
    if not view.data_digest or view.data_digest in view.survey.data or data_files(view):
        return ""
    return "the data is not on the host yet, and is too large to be sent for a proof alone"


def prove_in_scratch(context: Context, plan: Plan) -> ProofReport:
    """The proof on the project as it would be after the fixers, in a scratch folder that is gone afterwards."""
    view, nonce = context.view, secrets.token_hex(8)
    files = [change for change in plan.changes if isinstance(change, FileChange)]
    if view.data_digest and view.data_digest not in view.survey.data:
        files += [FileChange(f"{SCRATCH_DATA}/{name}", b"", data, {}) for name, data in data_files(view)]
    try:
        source = send_scratch(context.host, view.scan, view.survey.tree, files, nonce)
        return prove(context, source)
    finally:
        remove_scratch(context.host, view.scan, nonce)


def data_files(view: View) -> tuple[tuple[str, bytes], ...]:
    """The data that would be uploaded apart from code, by name; nothing where it is too large to be read at once."""
    data = view.data
    if data is None or data.size_bytes > LARGEST_SCRATCH_DATA or data.root.is_file():
        return ()
    return tuple((name, (data.root / name).read_bytes()) for name in data.files)
