"""Stage `fix`: no fixer has anything left to change, in the project's files on the host or on the host itself."""

from __future__ import annotations

from dataclasses import replace

from pipeline.records.inputs import Inputs, digest
from pipeline.report.model import fix_rows
from pipeline.stages.stage import Context, StageResult
from pipeline.stages.sync import Sync
from pipeline.work.fixes import fixer_settings_of, fixer_versions, host_changes_of, plan_for, rewrites_left
from pipeline.work.host_changes import apply_host_change
from pipeline.work.view import View, card_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Report
from remote.protocol.quantities import count
from remote.sync.rewrite import Rewrite, rewrite_tree


class Fix:
    """Rewrites the host's copy of the project, and repairs the host's setup."""

    name = "fix"
    exit_code = ExitCode.FIXER

    def inputs(self, view: View) -> Inputs:
        return {
            "files": view.scan.manifest.source_digest(),
            "files there": view.survey.tree.installed_digest,
            "fixers": fixer_versions(),
            "card": card_of(view),
            "wishes": digest(fixer_settings_of(view)),
        }

    def check(self, view: View) -> Report:
        return Sync().check(view)

    def summary(self, view: View) -> str:
        fixed = len(view.survey.tree.fixed)
        return f"{count(fixed, 'file')} rewritten for {card_of(view)}" if fixed else "nothing to fix"

    def run(self, context: Context) -> StageResult:
        """Apply the plan of the fixers: all rewritten files in one atomic change, then each repair of the host."""
        context.listener.progress("planning")
        plan = plan_for(context.view, context.host)
        rewrites = rewrites_left(plan, context.view)
        notes = [describe_rewrite(rewrite) for rewrite in rewrites]
        if rewrites:
            rewrite_tree(context.host, context.view.scan, rewrites)
        for change in host_changes_of(plan):
            apply_host_change(change, context.host, context.listener)
            notes.append(f"{change.fixer}: {change.summary}")
        for note in notes:
            context.listener.note(note)
        context.evidence = replace(context.evidence, fixes=fix_rows(plan))
        made = f"{count(len(notes), 'change')} made" if notes else "nothing to fix"
        return StageResult(Report(plan.findings), made, tuple(notes))


def describe_rewrite(rewrite: Rewrite) -> str:
    """Return 'src/train.py: bf16-to-fp16, trainable-fp32'."""
    return f"{rewrite.path}: {', '.join(rewrite.fixers) or 'restored, because no fixer changes it any more'}"
