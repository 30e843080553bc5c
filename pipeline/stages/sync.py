"""Stage `sync`: the project's files and data set are on the host."""

from __future__ import annotations

from dataclasses import replace

from pipeline.records.inputs import Inputs
from pipeline.runs.view import View
from pipeline.stages.stage import Context, StageResult
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.quantities import count, size
from remote.sync.data import send_data
from remote.sync.plan import edited_finding
from remote.sync.sync import SyncReport, sync_project


class Sync:
    """Makes the host's copy of the project equal to the local project, except for files that fixers rewrote."""

    name = "sync"
    exit_code = ExitCode.SYNC

    def inputs(self, view: View) -> Inputs:
        return {"files": view.scan.manifest.source_digest(), "data": view.data_digest or "by name"}

    def check(self, view: View) -> Report:
        """Check that the host's digests equal the local digests, and that no file was edited on the host."""
        return _judge_tree(view).plus(data_report(view))

    def summary(self, view: View) -> str:
        return (
            f"{count(len(view.scan.manifest.rows), 'file')}, {size(view.scan.size_bytes)}, the same on laptop and host"
        )

    def run(self, context: Context) -> StageResult:
        """Send changed files in one stream, delete locally deleted files, then send the data set in chunks."""
        view = context.view
        forced = context.options.force == self.name

        def report_progress(done: int, total: int) -> None:
            context.listener.progress("sending the project", done, total)

        synced = sync_project(context.host, view.scan, view.survey.tree, force=forced, progress=report_progress)
        context.view = replace(view, scan=synced.scan)
        data = self._send_data(context)
        return StageResult(synced.report, _describe(synced) + data)

    def _send_data(self, context: Context) -> str:
        view = context.view
        if view.data is None or view.data_digest in view.survey.data:
            return ""

        def report_progress(done: int, total: int) -> None:
            context.listener.progress("sending the data", done, total)

        send_data(context.host, view.data, view.layout.key, progress=report_progress)
        return f"; data: {count(len(view.data.files), 'file')}, {size(view.data.size_bytes)}"


def _judge_tree(view: View) -> Report:
    tree = view.survey.tree
    if not view.scan.report.ok:
        return view.scan.report
    source = view.scan.manifest
    both_empty = not source.rows and not tree.exists
    if not both_empty and (not tree.exists or tree.source_digest != source.source_digest()):
        message = "the host has an older state of the project" if tree.exists else "the project is not on the host yet"
        return Report((_finding(message),))
    if tree.pending:
        return Report((_finding("an earlier change of the host's tree was interrupted and must be completed"),))
    edited = [deviation for deviation in tree.deviations if deviation.kind in ("edited", "not-regular")]
    if edited:
        return Report(tuple(edited_finding(deviation.path) for deviation in edited))
    if tree.deviations:
        return Report((_finding(f"{tree.deviations[0].path} is {tree.deviations[0].kind} on the host"),))
    if view.data_digest and view.data_digest not in view.survey.data:
        return Report((_finding("the data is not on the host"),))
    return Report()


def data_report(view: View) -> Report:
    """Return the findings of the scan of the data set."""
    return view.data.report if view.data is not None else Report()


def _finding(message: str) -> Finding:
    return Finding("sync", Severity.ERROR, message, hint="pipeline run", exit_code=ExitCode.SYNC)


def _describe(report: SyncReport) -> str:
    if not report.sent and not report.deleted:
        return f"{count(report.tree.files, 'file')}, nothing to send"
    deleted = f", {len(report.deleted)} deleted" if report.deleted else ""
    kept = f"; overwritten edits are kept in {report.kept_in}" if report.kept_in else ""
    return f"{count(len(report.sent), 'file')} sent, {size(report.sent_bytes)}{deleted}{kept}"
