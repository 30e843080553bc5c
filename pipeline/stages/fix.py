"""Stage `fix`: no fixer has anything left to do, in the host's tree or on the host itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from fixers.change import FileChange, HostChange, Plan
from pipeline.show.words import count
from pipeline.stages.fixing import fixer_versions, plan_for, wishes_of
from pipeline.stages.stage import Context, Done, Inputs, digest
from pipeline.stages.sync import Sync
from pipeline.stages.view import View
from remote.host import Host
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.tree import Row, TreeSurvey
from remote.sync.rewrite import Rewritten, rewrite_tree


class Fix:
    """The host's files are fix(the laptop's files), and its setup has nothing that a fixer knows better."""

    name = "fix"
    exit_code = ExitCode.FIXER

    def inputs(self, view: View) -> Inputs:
        return {**what_is_fixed(view), "host's files": view.survey.tree.digest_there}

    def check(self, view: View) -> Report:
        return Sync().check(view)

    def holds(self, view: View) -> str:
        fixed = len(view.survey.tree.fixed)
        return f"{count(fixed, 'file')} rewritten for {card_of(view)}" if fixed else "nothing to fix"

    def run(self, context: Context) -> Done:
        """Applies what the fixers plan, each change whole; then plans again, which must find nothing."""
        context.telling.progress("planning")
        plan = plan_for(context.view, context.host)
        pending = pending_changes(plan, context.view)
        notes = tuple(apply(context.host, context.view, pending))
        for note in notes:
            context.telling.note(note)
        return Done(
            Report(plan.findings), f"{count(len(pending), 'change')} made" if pending else "nothing to fix", notes
        )


def what_is_fixed(view: View) -> Inputs:
    """What the fixers' work depends on, known before anything is touched."""
    return {
        "files": view.scan.manifest.digest_here(),
        "fixers": fixer_versions(),
        "card": card_of(view),
        "wishes": digest(wishes_of(view)),
    }


def card_of(view: View) -> str:
    """The card that files are rewritten for."""
    gpu = view.survey.gpu
    return f"{gpu.name} {gpu.capability[0]}.{gpu.capability[1]}" if gpu else "no card"


def pending_changes(plan: Plan, view: View) -> tuple[FileChange | HostChange, ...]:
    """What of a plan is not true yet on the host, and every old rewrite there that no fixer wants any more."""
    tree = view.survey.tree
    wanted = {change.path for change in plan.changes if isinstance(change, FileChange)}
    left = [change for change in plan.changes if not _stands(change, tree)]
    return (*left, *_taken_back(view, wanted))


def _stands(change: FileChange | HostChange, tree: TreeSurvey) -> bool:
    if isinstance(change, HostChange):
        return False
    row = tree.fixed.get(change.path)
    return row is not None and row.there == hashlib.sha256(change.after).hexdigest()


def _taken_back(view: View, wanted: set[str]) -> Iterator[FileChange]:
    for path, row in view.survey.tree.fixed.items():
        here = view.scan.manifest.rows.get(path)
        if path not in wanted and here is not None and _came_from(row, here):
            data = view.scan.read(path)
            yield FileChange(path, b"", data, {}, ("no fixer wants this rewrite any more",))


def _came_from(row: Row, here: Row) -> bool:
    return row.here == here.here


def apply(host: Host, view: View, changes: tuple[FileChange | HostChange, ...]) -> Iterator[str]:
    """Every change is made, files first in one stream; one phrase for each."""
    files = [change for change in changes if isinstance(change, FileChange)]
    if files:
        rewritten = [Rewritten(change.path, change.after, change.fixers) for change in files]
        rewrite_tree(host, view.scan, rewritten)
    for change in files:
        names = ", ".join(change.fixers) or "taken back"
        yield f"{change.path}: {names}"
    for act in (change for change in changes if isinstance(change, HostChange)):
        host.act(act.op, act.args)
        yield f"{act.fixer}: {act.summary}"


def refused(finding: Finding) -> bool:
    """A fixer looked and could not help."""
    return finding.severity is Severity.ERROR
