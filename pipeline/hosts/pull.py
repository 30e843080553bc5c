"""Pull event files, output and adapter of a run, and check that they are complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.messages.listener import Listener
from pipeline.records.layout import safe_name
from remote.errors import RemoteFault
from remote.host import Host
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report
from remote.protocol.jobs import Checkpoint, JobState, RunSurvey
from remote.pull.events import check_mirror, pull_events
from remote.pull.log import pull_log
from remote.pull.ranks import split_by_rank
from remote.pull.report import PullReport
from remote.pull.weights import check_weights, pull_weights


@dataclass(frozen=True)
class Pulled:
    """The size and the problems of the pulled data. `checkpoint` is the checkpoint whose adapter was pulled, if any."""

    findings: tuple[Finding, ...] = ()
    added_bytes: int = 0
    checkpoint: Checkpoint | None = None


def pull_run(
    host: Host,
    project: str,
    run: RunSurvey,
    folder: Path,
    *,
    weights: bool,
    listener: Listener,
    checkpoint: Checkpoint | None = None,
) -> Pulled:
    """Pull the event files and the output of the run into `folder`, and with `weights` also its adapter.

    A job that has not begun has no output. If the run has not saved its adapter, the adapter of `checkpoint` is pulled
    instead. If several processes wrote the output, it is also split into one file per rank.
    """
    listener.progress("pulling the logs")
    reports = [pull_events(host, project, run.run, run.events, folder)]
    if run.job and run.has_begun:
        reports.append(PullReport((pull_log(host, project, run.run, run.job, folder),)))
        split_by_rank(folder, run.job, safe_name(host.name))
    source = checkpoint if weights and not run.adapter_sha256 else None
    if weights and (run.adapter_sha256 or source is not None):
        listener.progress("pulling the adapter")
        try:
            reports.append(pull_weights(host, project, run.run, folder, checkpoint=source.name if source else ""))
        except RemoteFault as fault:
            if source is None or fault.kind != "not-found":
                raise
            source = None
    findings = [*judge_adapter(folder, run)] if weights and run.state is not JobState.RUNNING else []
    return Pulled((*_findings(reports), *findings), sum(report.added_bytes for report in reports), source)


def _findings(reports: Iterable[PullReport]) -> Iterator[Finding]:
    return (finding for report in reports for finding in report.findings)


def judge_pulled(folder: Path, run: RunSurvey) -> Report:
    """Return a finding for each event file and adapter that is missing or incomplete in `folder`."""
    return check_mirror(run.events, folder).plus(Report(judge_adapter(folder, run)))


def judge_adapter(folder: Path, run: RunSurvey) -> tuple[Finding, ...]:
    """Return a finding if the weights of the run's adapter are not in `folder`."""
    if not run.adapter_sha256 or check_weights(folder, run.adapter_sha256).ok:
        return ()
    message = "the adapter was not pulled"
    return (Finding.error("adapter-missing", message, str(folder), "pipeline pull --weights", ExitCode.PULL),)
