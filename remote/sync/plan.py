"""The plan of a sync, computed from the local scan, the host's survey and the manifest of the last sync."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from remote.project.included_files import shown
from remote.project.scan import Scan
from remote.protocol.dataclass import dataclass, field
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report
from remote.protocol.tree import FORCE_SYNC, Deviation, Manifest, Row, TreeSurvey, judge_deletion

EDITED = ("edited", "not-regular")


@dataclass(frozen=True)
class SyncPlan:
    """The files to send (with their new rows), to delete, and to skip because they were edited on the host.

    `modes` contains the files of which only the executable bit differs. If `finish` is True, an interrupted change of
    the host's tree must be completed first. An empty plan without findings means that the host's tree is up to date.
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
        """The bytes to send, before compression. Equal contents are sent once."""
        return sum({row.source: row.size for row in self.send.values() if not row.link}.values())


def plan_sync(scan: Scan, tree: TreeSurvey, base: Manifest, *, force: bool = False) -> SyncPlan:
    """Compare the local project with the host's manifest, `base`, whose digest is `tree.source_digest`.

    A file that was edited on the host is changed only with `force`, even if the local file has changed too. A file that
    a fixer created on the host (a row without a `source` digest) is not deleted.
    """
    local, remote = scan.manifest.rows, base.rows
    edited = () if force else tuple(one for one in tree.deviations if one.kind in EDITED)
    kept = dict.fromkeys(one.path for one in edited)
    deviant = {one.path for one in tree.deviations}
    send, modes = _to_send({path: row for path, row in local.items() if path not in kept}, remote, deviant)
    delete = tuple(path for path in _deletable(remote, local) if path not in kept)
    findings = [edited_finding(path, deleted_locally=path not in local) for path in kept]
    mass = None if force else judge_deletion(remote, delete, scan.data_link)
    report = scan.report.plus(Report((*findings, *([mass] if mass else []))))
    return SyncPlan(send, modes, delete, edited, tree.pending, report)


def _to_send(
    local: Mapping[str, Row], remote: Mapping[str, Row], deviant: Set[str]
) -> tuple[dict[str, Row], dict[str, Row]]:
    """Return the files with other contents than on the host, and the files of which only the mode differs."""
    send = {path: row for path, row in local.items() if path in deviant or not _same_content(remote.get(path), row)}
    modes = {path: row for path, row in local.items() if path not in send and remote[path].mode != row.mode}
    return send, modes


def _deletable(remote: Mapping[str, Row], local: Mapping[str, Row]) -> Iterator[str]:
    """Yield the paths that were sent earlier and no longer exist locally."""
    return (path for path, row in remote.items() if path not in local and row.source)


def _same_content(old: Row | None, new: Row) -> bool:
    return old is not None and (old.source, old.link) == (new.source, new.link)


def edited_finding(path: str, *, deleted_locally: bool = False) -> Finding:
    """Return the finding for a file on the host that differs from the sent file and from the result of its fixers."""
    what = "deleted locally and edited on the host" if deleted_locally else "edited on the host"
    return Finding.error(
        "edited-on-host",
        f"{path!r} was {what}; it was left as it is",
        where=shown(path),
        hint=f"copy the edit into the local file by hand, or overwrite it: {FORCE_SYNC}",
        exit_code=ExitCode.SYNC,
    )
