"""What a sync would do, judged from the local scan, the host's survey and the manifest they last agreed on."""

from __future__ import annotations

from dataclasses import dataclass, field

from remote.project.scan import Scan, shown
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.tree import Deviation, Manifest, Row, TreeSurvey

MASS_DELETE_OVER = 20
EDITED = ("edited", "not-regular")
LOST = ("missing", "damaged")
FORCE_HINT = "pipeline run --force sync --until sync"


@dataclass(frozen=True)
class SyncPlan:
    """What would be sent, with the rows as they would be; what would go; what was edited there and stays as it is.

    `modes` are files whose bytes are there and whose executable bit is not. `finish`: a change of the host's tree was
    cut and would be finished first. An empty plan with no findings means that both sides agree.
    """

    send: dict[str, Row] = field(default_factory=dict)
    modes: dict[str, Row] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    edited: tuple[Deviation, ...] = ()
    finish: bool = False
    report: Report = field(default_factory=Report)

    @property
    def empty(self) -> bool:
        return not (self.send or self.modes or self.delete or self.finish)

    @property
    def send_bytes(self) -> int:
        """Bytes of the files that would be sent, before compression; equal contents travel once."""
        return sum({row.source: row.size for row in self.send.values() if not row.link}.values())


def judge_agreement(scan: Scan, tree: TreeSurvey) -> bool:
    """Nothing is to be sent and nothing was edited there, as far as two digests and the survey tell."""
    agreed = tree.source_digest == scan.manifest.source_digest() and tree.exists
    return agreed and not tree.deviations and not tree.pending and scan.report.ok


def plan_sync(scan: Scan, tree: TreeSurvey, base: Manifest, *, force: bool = False) -> SyncPlan:
    """The plan. `base` is the host's manifest as the laptop knows it: its digest is `tree.source_digest`.

    A file edited on the host is left alone, whether it changed here or not, unless forced. A file that a fixer made
    there (its row has no `source` digest) is not deleted.
    """
    here, there = scan.manifest.rows, base.rows
    deviant = {deviation.path: deviation for deviation in tree.deviations}
    edited = {} if force else {path: d for path, d in deviant.items() if d.kind in EDITED}
    send, modes = {}, {}
    for path, row in here.items():
        old = there.get(path)
        if path in edited:
            continue
        if old is None or (old.source, old.link) != (row.source, row.link) or path in deviant:
            send[path] = row
        elif old.mode != row.mode:
            modes[path] = row
    delete = tuple(path for path, row in there.items() if path not in here and row.source and path not in edited)
    findings = [*_told(edited, here), *([] if force else _guarded(len(there), len(delete)))]
    return SyncPlan(
        send, modes, delete, tuple(edited.values()), tree.pending, scan.report.and_also(Report(tuple(findings)))
    )


def edited_finding(path: str, *, gone_here: bool = False) -> Finding:
    """A file of the host that is neither what was sent nor what a fixer made of it."""
    what = "deleted here and edited on the host" if gone_here else "edited on the host"
    return Finding(
        "edited-on-host",
        Severity.ERROR,
        f"{path!r} was {what}; it was left as it is",
        where=shown(path),
        hint=f"bring the edit home by hand, or overwrite it: {FORCE_HINT}",
        exit_code=ExitCode.SYNC,
    )


def _told(edited: dict[str, Deviation], here: dict[str, Row]) -> list[Finding]:
    return [edited_finding(path, gone_here=path not in here) for path in edited]


def _guarded(tracked: int, going: int) -> list[Finding]:
    if tracked <= MASS_DELETE_OVER or going * 2 <= tracked:
        return []
    return [
        Finding(
            "mass-delete",
            Severity.ERROR,
            f"{going} of the {tracked} files on the host would be deleted",
            hint=f"look at .gitignore and .pipelineignore; if it is meant: {FORCE_HINT}",
            exit_code=ExitCode.SYNC,
        )
    ]
