"""Make the host's tree equal to the project. The differences are one stream, resumed after a lost connection."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from remote.errors import RemoteFault, SyncRefused
from remote.host import Host, Json, garbled, read_answer
from remote.project.included_files import shown
from remote.project.scan import IGNORE_HINT, Scan, scan_again
from remote.protocol.blocks import PACKERS
from remote.protocol.dataclass import dataclass, field
from remote.protocol.findings import Report
from remote.protocol.tree import Manifest, TreeReceived, TreeSurvey
from remote.sync.agreed import cache_host_manifest, fetch_host_manifest, known_host_manifest
from remote.sync.plan import SyncPlan, edited_finding, plan_sync
from remote.sync.retry import retry_lost_connection
from remote.sync.room import require_room
from remote.sync.stream import Progress, contents_of, stream_plan

CHANGES = 3
DAMAGES = 1
DAMAGED_TRANSFERS = 10
"""The number of transfers that may arrive damaged, whichever files are damaged."""
AGAIN = "run the command again"
SETTLE_S = 10.0


@dataclass(frozen=True)
class SyncReport:
    """The result of a sync. `tree` is the host's tree after the sync, `scan` the project that was sent.

    `sent_bytes` counts the bytes of files, `wire_bytes` the compressed bytes of the stream. `kept_in` is the folder on
    the host with copies of the edited files that `force` overwrote.
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
    """Make the host's tree equal to the scan, except for files with findings. Sends nothing if the trees are equal.

    After a lost connection, up to five times, the sync resumes and sends only the contents that have not arrived.
    Raises ConnectionLost after the last attempt, Busy, DiskFull, or SyncRefused. SyncRefused means that a file keeps
    changing, vanishes, or arrives damaged twice, or that files arrive damaged in each of ten transfers.
    """
    if not scan.report.ok:
        return SyncReport(tree, scan, scan.report)
    state = _SyncState(host, scan, tree, force, progress)

    def send(lost: int) -> SyncReport:
        state.survey_outdated = lost > 0
        return replace(state.run(), retries=lost)

    return retry_lost_connection(host, send, wait)


class _SyncState:
    """The state of one sync, which is kept when the connection is lost."""

    def __init__(self, host: Host, scan: Scan, tree: TreeSurvey, force: bool, progress: Progress | None) -> None:
        self.host, self.scan, self.tree, self.force, self.progress = host, scan, tree, force, progress
        self.survey_outdated = False
        self.stale = 0
        self.wire_bytes = 0
        self.torn: Counter[str] = Counter()
        self.damaged_transfers = 0

    def run(self) -> SyncReport:
        while True:
            base, staged = self._read_base()
            plan = plan_sync(self.scan, self.tree, base, force=self.force)
            if plan.empty or any(finding.check == "mass-delete" for finding in plan.report.findings):
                return self._report(plan.report)
            try:
                answer = read_answer(TreeReceived, self.host, self._send(plan, base, staged))
            except RemoteFault as fault:
                if fault.kind != "stale-base" or self.stale == CHANGES:
                    raise
                self.stale += 1
                self.survey_outdated = True
                continue
            if answer.survey is not None and not answer.torn:
                return self._done(plan, staged, answer, answer.survey)
            self._explain_damage(plan, answer.torn)

    def _read_base(self) -> tuple[Manifest, dict[str, int]]:
        """Return the host's manifest and the sizes of staged contents by digest, with as few requests as possible."""
        if self.survey_outdated:
            args = {"project": self.scan.project, "settle_s": SETTLE_S}
            self.tree = read_answer(TreeSurvey, self.host, self.host.ask("tree.survey", args))
            self.survey_outdated = False
        base = known_host_manifest(self.host, self.scan, self.tree)
        if base is not None and not self.tree.staged:
            return base, {}
        return fetch_host_manifest(self.host, self.scan)

    def _send(self, plan: SyncPlan, base: Manifest, staged: Mapping[str, int]) -> Json:
        needed = sum(size for _, size in contents_of(plan, staged).values())
        require_room(self.host, needed, self.tree.free_bytes)
        codec = next((name for name in self.tree.codecs if name in PACKERS), None)
        if codec is None:
            raise garbled(self.host.name, "no name of a compression format that this version of halfstep has")
        args = {
            "project": self.scan.project,
            "owner": self.scan.owner,
            "base": base.source_digest(),
            "force": self.force,
            "data": self.scan.data_link,
            "codec": codec,
        }
        stream = stream_plan(
            self.scan.opened,
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

    def _explain_damage(self, plan: SyncPlan, torn: Sequence[str]) -> None:
        """Scan again after contents arrived damaged.

        Raises SyncRefused if another attempt would fail too, and Garbled if the host names no contents, or contents
        that were not sent.
        """
        paths = {row.source: path for path, row in reversed(plan.send.items())}
        if not torn or not paths.keys() >= set(torn):
            raise garbled(
                self.host.name, "an answer that contains neither the tree after the sync nor the damaged contents"
            )
        self.damaged_transfers += 1
        for path in dict.fromkeys(paths[digest] for digest in torn):
            if not os.path.lexists(self.scan.root / path):
                raise SyncRefused(f"{path!r} vanished while it was being sent", where=shown(path), hint=AGAIN)
            self.torn[path] += 1
        fresh_scan = scan_again(self.scan)
        for path, attempts in self.torn.items():
            changed = fresh_scan.manifest.rows.get(path) != self.scan.manifest.rows.get(path)
            if changed and attempts > CHANGES:
                raise SyncRefused(f"{path!r} changes faster than it can be sent", where=shown(path), hint=IGNORE_HINT)
            if not changed and attempts > DAMAGES:
                raise SyncRefused(
                    f"{path!r} arrived damaged twice: its SHA-256 on the host differs from the local one",
                    where=shown(path),
                    hint="check the disk and the memory of the host",
                )
        if self.damaged_transfers == DAMAGED_TRANSFERS:
            last = paths[torn[-1]]
            message = f"files arrived damaged in each of {DAMAGED_TRANSFERS} transfers, {last!r} in the last"
            raise SyncRefused(message, where=shown(last), hint=IGNORE_HINT)
        self.scan, self.tree = fresh_scan, replace(self.tree, staged=max(1, self.tree.staged))

    def _done(self, plan: SyncPlan, staged: Mapping[str, int], answer: TreeReceived, tree: TreeSurvey) -> SyncReport:
        edited = frozenset(answer.edited)
        if tree.source_digest == self.scan.manifest.source_digest():
            cache_host_manifest(self.host, self.scan)
        late = tuple(
            edited_finding(path, deleted_locally=path not in self.scan.manifest.rows) for path in answer.edited
        )
        sent = tuple(path for path in (*plan.send, *plan.modes) if path not in edited)
        return SyncReport(
            tree,
            self.scan,
            plan.report.plus(Report(late)),
            sent,
            tuple(path for path in plan.delete if path not in edited),
            sum(size for _, size in contents_of(plan, staged).values()),
            self.wire_bytes,
            kept_in=answer.kept_in,
        )

    def _report(self, report: Report) -> SyncReport:
        return SyncReport(self.tree, self.scan, report, wire_bytes=self.wire_bytes)
