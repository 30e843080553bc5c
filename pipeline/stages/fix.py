"""Stage `fix`: all changes of the fixers are applied to the project's files and the host's setup."""

from __future__ import annotations

from dataclasses import replace

from pipeline.messages.hints import complete_hint
from pipeline.records.inputs import Inputs, digest
from pipeline.report.model import fix_rows
from pipeline.runs.fixes import fixer_settings_of, fixer_versions, host_changes_of, plan_for, rewrites_left
from pipeline.runs.host_changes import apply_host_change
from pipeline.runs.view import View, card_of
from pipeline.stages.stage import Context, StageResult
from pipeline.stages.sync import Sync
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
        target = card_of(view) if view.survey.gpu else "training on the CPU"
        return f"{count(fixed, 'file')} rewritten for {target}" if fixed else "nothing to fix"

    def run(self, context: Context) -> StageResult:
        """Apply the fixers' plan: all rewritten files in one atomic change, then each change of the host's setup."""
        context.listener.progress("planning")
        view = context.view
        plan = plan_for(view, context.host)
        rewrites = rewrites_left(plan, view)
        notes = [describe_rewrite(rewrite) for rewrite in rewrites]
        if rewrites:
            rewrite_tree(context.host, view.scan, rewrites)
        for change in host_changes_of(plan):
            apply_host_change(change, context.host, context.listener)
            notes.append(f"{change.fixer}: {change.summary}")
        for note in notes:
            context.listener.note(note)
        context.evidence = replace(context.evidence, fixes=fix_rows(plan))
        made = describe_made(len(rewrites), len(notes) - len(rewrites), before=len(view.survey.tree.fixed))
        show = complete_hint("pipeline fix --diff", view.host.name, view.loaded.name, view.given)
        follow_up = (f"only the copy on the host was changed; to see the changes: {show}",) if rewrites else ()
        return StageResult(Report(plan.findings), made, tuple(notes), follow_up=follow_up)


def describe_made(files: int, repairs: int, *, before: int = 0) -> str:
    """Return '2 files rewritten, 1 change of the host's setup'; `before` is the number of files rewritten earlier."""
    if before and not files and not repairs:
        return f"nothing more to fix, {count(before, 'file')} rewritten earlier"
    parts = [f"{count(files, 'file')} rewritten"] if files else []
    parts += [f"{count(repairs, 'change')} of the host's setup"] if repairs else []
    return ", ".join(parts) or "nothing to fix"


def describe_rewrite(rewrite: Rewrite) -> str:
    """Return 'src/train.py: bf16-to-fp16, trainable-fp32'."""
    return f"{rewrite.path}: {', '.join(rewrite.fixers) or 'restored, because no fixer changes it any more'}"
