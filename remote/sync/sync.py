"""The host's tree is the laptop's: one stream of what differs, retried and resumed where the line is cut."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from remote.errors import RemoteFault, SyncRefused
from remote.host import Host, Json, read_answer
from remote.project.scan import IGNORE_HINT, Scan, scan_again, shown
from remote.protocol.blocks import PACKERS
from remote.protocol.findings import Report
from remote.protocol.tree import Manifest, TreeSurvey
from remote.sync.agreed import ask_base, known_base, remember_agreed
from remote.sync.plan import SyncPlan, edited_finding, plan_sync
from remote.sync.retry import over_cuts
from remote.sync.stream import Progress, contents_of, stream_plan

CHANGES = 3
DAMAGES = 1
AGAIN = "type the same again"
SETTLE_S = 10.0


@dataclass(frozen=True)
class SyncReport:
    """What a sync did. `tree` is the host's tree after it, `scan` the project as it was sent.

    `sent_bytes` counts the files' bytes, `wire_bytes` what went over the line for them. `kept_in`: where on the host
    the files lie that were edited there and overwritten because of `force`.
    """

    tree: TreeSurvey
    scan: Scan
    report: Report = field(default_factory=Report)
    sent: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    sent_bytes: int = 0
    wire_bytes: int = 0
    retries: int = 0
    kept_in: str = ""


def sync_project(
    host: Host,
    scan: Scan,
    tree: TreeSurvey,
    *,
    force: bool = False,
    progress: Progress | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> SyncReport:
    """The host has what the scan saw, save what findings name. Nothing is sent where the survey says that both agree.

    A cut line is taken up again up to five times, without what had arrived. Raises ConnectionLost after that, Busy,
    DiskFull, and SyncRefused where a file keeps changing, vanished, or arrives damaged twice.
    """
    if not scan.report.ok:
        return SyncReport(tree, scan, scan.report)
    attempt = _Attempt(host, scan, tree, force, progress)

    def send(lost: int) -> SyncReport:
        attempt.unsure = lost > 0
        return replace(attempt.go(), retries=lost)

    return over_cuts(host, send, wait)


class _Attempt:
    """One sync until it is done; what it learnt survives a cut line."""

    def __init__(self, host: Host, scan: Scan, tree: TreeSurvey, force: bool, progress: Progress | None) -> None:
        self.host, self.scan, self.tree, self.force, self.progress = host, scan, tree, force, progress
        self.unsure = False
        self.stale = 0
        self.wire_bytes = 0
        self.torn: Counter[str] = Counter()

    def go(self) -> SyncReport:
        while True:
            base, staged = self._look()
            plan = plan_sync(self.scan, self.tree, base, force=self.force)
            if plan.empty or any(finding.check == "mass-delete" for finding in plan.report.findings):
                return self._report(plan.report)
            try:
                answer = self._send(plan, base, staged)
            except RemoteFault as fault:
                if fault.kind != "stale-base" or self.stale == CHANGES:
                    raise
                self.stale += 1
                self.unsure = True
                continue
            if not answer["torn"]:
                return self._done(plan, staged, answer)
            self._learn_from(plan, answer["torn"])

    def _look(self) -> tuple[Manifest, dict[str, int]]:
        """What the host has and what lies staged there, with as few questions as can be."""
        if self.unsure:
            args = {"project": self.scan.project, "settle_s": SETTLE_S}
            self.tree = read_answer(TreeSurvey, self.host, self.host.ask("tree.survey", args))
            self.unsure = False
        base = known_base(self.host, self.scan, self.tree)
        if base is not None and not self.tree.staged:
            return base, {}
        return ask_base(self.host, self.scan)

    def _send(self, plan: SyncPlan, base: Manifest, staged: Mapping[str, int]) -> Json:
        codec = next(name for name in self.tree.codecs if name in PACKERS)
        args = {
            "project": self.scan.project,
            "owner": self.scan.owner,
            "base": base.source_digest(),
            "force": self.force,
            "codec": codec,
        }
        stream = stream_plan(
            self.scan.root,
            plan,
            codec,
            in_flight=lambda: self.host.in_flight,
            staged=staged,
            progress=self.progress,
        )
        return self.host.send("tree.receive", args, self._counted(stream))

    def _counted(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.wire_bytes += len(chunk)
            yield chunk

    def _learn_from(self, plan: SyncPlan, torn: Sequence[str]) -> None:
        """Why contents came torn: the file changed or vanished here, or it was damaged on its way or there."""
        for digest in torn:
            path = next((path for path, row in plan.send.items() if row.source == digest), "")
            if not os.path.lexists(self.scan.root / path):
                raise SyncRefused(f"{path!r} vanished while it was sent", where=shown(path), hint=AGAIN)
            self.torn[path] += 1
        again = scan_again(self.scan)
        for path, times in self.torn.items():
            changed = again.manifest.rows.get(path) != self.scan.manifest.rows.get(path)
            if changed and times > CHANGES:
                raise SyncRefused(f"{path!r} changes faster than it can be sent", where=shown(path), hint=IGNORE_HINT)
            if not changed and times > DAMAGES:
                raise SyncRefused(
                    f"{path!r} arrived damaged twice: its SHA-256 on the host is not the one it has here",
                    where=shown(path),
                    hint="check the disk and the memory of the host",
                )
        self.scan, self.tree = again, replace(self.tree, staged=max(1, self.tree.staged))

    def _done(self, plan: SyncPlan, staged: Mapping[str, int], answer: Json) -> SyncReport:
        tree = read_answer(TreeSurvey, self.host, answer["survey"])
        edited = [str(path) for path in answer["edited"]]
        if tree.source_digest == self.scan.manifest.source_digest():
            remember_agreed(self.host, self.scan)
        late = tuple(edited_finding(path, deleted_locally=path not in self.scan.manifest.rows) for path in edited)
        sent = tuple(path for path in (*plan.send, *plan.modes) if path not in edited)
        return SyncReport(
            tree,
            self.scan,
            plan.report.and_also(Report(late)),
            sent,
            tuple(path for path in plan.delete if path not in edited),
            sum(size for _, size in contents_of(plan, staged).values()),
            self.wire_bytes,
            kept_in=str(answer["kept_in"]),
        )

    def _report(self, report: Report) -> SyncReport:
        return SyncReport(self.tree, self.scan, report, wire_bytes=self.wire_bytes)
