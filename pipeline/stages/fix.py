"""Stage `fix`: no fixer has anything left to do, in the host's tree or on the host itself."""

from __future__ import annotations

from dataclasses import replace

from fixers.change import FileChange, HostChange, Plan
from fixers.registry import SETUP_FIXERS
from pipeline.report.model import Fix as ReportedFix
from pipeline.report.model import fix_of
from pipeline.show.words import count
from pipeline.stages.fixing import fixer_versions, plan_for, wishes_of
from pipeline.stages.readiness import card_name
from pipeline.stages.stage import Context, Done, Inputs, digest
from pipeline.stages.sync import Sync
from pipeline.stages.view import View
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Report
from remote.sync.rewrite import Rewrite, plan_rewrites, rewrite_tree


class Fix:
    """The host's files are fix(the laptop's files), and its setup has nothing that a fixer knows better."""

    name = "fix"
    exit_code = ExitCode.FIXER

    def inputs(self, view: View) -> Inputs:
        return {
            "files": view.scan.manifest.digest_here(),
            "files there": view.survey.tree.digest_there,
            "fixers": fixer_versions(),
            "card": card_of(view),
            "wishes": digest(wishes_of(view)),
        }

    def check(self, view: View) -> Report:
        return Sync().check(view)

    def holds(self, view: View) -> str:
        fixed = len(view.survey.tree.fixed)
        return f"{count(fixed, 'file')} rewritten for {card_of(view)}" if fixed else "nothing to fix"

    def run(self, context: Context) -> Done:
        """Applies what the fixers plan: the tree's files in one stream, all together, then each act on the host."""
        context.telling.progress("planning")
        plan = plan_for(context.view, context.host)
        rewrites = rewrites_left(plan, context.view)
        notes = [in_words(rewrite) for rewrite in rewrites]
        if rewrites:
            rewrite_tree(context.host, context.view.scan, rewrites)
        for change in acts_of(plan):
            context.telling.progress(change.summary)
            context.host.act(change.op, change.args)
            notes.append(f"{change.fixer}: {change.summary}")
        for note in notes:
            context.telling.note(note)
        context.story = replace(context.story, fixes=fixes_of(plan))
        made = f"{count(len(notes), 'change')} made" if notes else "nothing to fix"
        return Done(Report(plan.findings), made, tuple(notes))


def card_of(view: View) -> str:
    """The card that files are rewritten for."""
    gpu = view.survey.gpu
    return card_name(gpu) if gpu else "no card"


def rewrites_left(plan: Plan, view: View) -> tuple[Rewrite, ...]:
    """What of the planned rewrites is not true yet on the host, and old ones there that no fixer wants any more."""
    files = [change for change in plan.changes if isinstance(change, FileChange)]
    return plan_rewrites(view.scan, view.survey.tree, files, {fixer.name for fixer in SETUP_FIXERS})


def acts_of(plan: Plan) -> tuple[HostChange, ...]:
    """What of a plan is not an edit of the tree."""
    return tuple(change for change in plan.changes if isinstance(change, HostChange))


def fixes_of(plan: Plan) -> tuple[ReportedFix, ...]:
    """Every change of the plan as the report tells it."""
    acts = (ReportedFix((change.fixer,), why=(change.summary,)) for change in acts_of(plan))
    return (*(fix_of(change) for change in plan.changes if isinstance(change, FileChange)), *acts)


def in_words(rewrite: Rewrite) -> str:
    """'src/train.py: bf16-to-fp16, trainable-fp32'."""
    return f"{rewrite.path}: {', '.join(rewrite.fixers) or 'put back, no fixer wants it changed any more'}"
