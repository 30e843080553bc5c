"""Stage `sync`: the project's files, and large data apart from them, are on the host."""

from __future__ import annotations

from dataclasses import replace

from pipeline.messages.quantities import count, size
from pipeline.records.inputs import Inputs
from pipeline.stages.stage import Context, Done
from pipeline.work.view import View
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.sync.data import send_data
from remote.sync.plan import edited_finding
from remote.sync.sync import SyncReport, sync_project


class Sync:
    """The host's tree is what the laptop has, save what fixers rewrote."""

    name = "sync"
    exit_code = ExitCode.SYNC

    def inputs(self, view: View) -> Inputs:
        return {"files": view.scan.manifest.source_digest(), "data": view.data_digest or "by name"}

    def check(self, view: View) -> Report:
        """The host's own digests agree with the laptop's, and nobody edited a file there."""
        return _judge_tree(view).and_also(data_report(view))

    def holds(self, view: View) -> str:
        return f"{count(len(view.scan.manifest.rows), 'file')}, {size(view.scan.size_bytes)}, the same on both sides"

    def run(self, context: Context) -> Done:
        """Sends what differs in one stream, deletes what is gone here, then sends large data in chunks."""
        view = context.view
        forced = context.wishes.force == self.name

        def told(done: int, total: int) -> None:
            context.listener.progress("sending the project", done, total)

        synced = sync_project(context.host, view.scan, view.survey.tree, force=forced, progress=told)
        context.view = replace(view, scan=synced.scan)
        data = self._send_data(context)
        return Done(synced.report, _in_words(synced) + data)

    def _send_data(self, context: Context) -> str:
        view = context.view
        if view.data is None or view.data_digest in view.survey.data:
            return ""

        def told(done: int, total: int) -> None:
            context.listener.progress("sending the data", done, total)

        send_data(context.host, view.data, view.layout.key, progress=told)
        return f"; data: {count(len(view.data.files), 'file')}, {size(view.data.size_bytes)}"


def _judge_tree(view: View) -> Report:
    tree = view.survey.tree
    if not view.scan.report.ok:
        return view.scan.report
    here = view.scan.manifest
    nothing_to_have = not here.rows and not tree.exists
    if not nothing_to_have and (not tree.exists or tree.source_digest != here.source_digest()):
        return Report((_behind(view),))
    if tree.pending:
        return Report((_finding("a change of the host's tree was cut and is to be finished"),))
    edited = [deviation for deviation in tree.deviations if deviation.kind in ("edited", "not-regular")]
    if edited:
        return Report(tuple(edited_finding(deviation.path) for deviation in edited))
    if tree.deviations:
        return Report((_finding(f"{tree.deviations[0].path} is {tree.deviations[0].kind} on the host"),))
    if view.data_digest and view.data_digest not in view.survey.data:
        return Report((_finding("the data is not on the host"),))
    return Report()


def data_report(view: View) -> Report:
    """What was found in the data that is sent apart from code."""
    return view.data.report if view.data is not None else Report()


def _behind(view: View) -> Finding:
    tree = view.survey.tree
    if not tree.exists:
        return _finding("the project is not on the host yet")
    return _finding("the host has an older state of the project")


def _finding(message: str) -> Finding:
    return Finding("sync", Severity.ERROR, message, hint="pipeline run", exit_code=ExitCode.SYNC)


def _in_words(report: SyncReport) -> str:
    if not report.sent and not report.deleted:
        return f"{count(report.tree.files, 'file')}, nothing to send"
    deleted = f", {len(report.deleted)} deleted" if report.deleted else ""
    kept = f"; edits overwritten there are kept in {report.kept_in}" if report.kept_in else ""
    return f"{count(len(report.sent), 'file')} sent, {size(report.sent_bytes)}{deleted}{kept}"
