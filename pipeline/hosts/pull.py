"""Pull event files, output and adapter of a run, and check that they are complete."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.messages.listener import Listener
from remote.host import Host
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report
from remote.protocol.jobs import RunSurvey
from remote.pull.events import check_mirror, pull_events
from remote.pull.log import pull_log
from remote.pull.report import PullReport
from remote.pull.weights import check_weights, pull_weights


@dataclass(frozen=True)
class Pulled:
    """The size of the pulled data, and its problems."""

    findings: tuple[Finding, ...] = ()
    added_bytes: int = 0


def pull_run(host: Host, project: str, run: RunSurvey, folder: Path, *, weights: bool, listener: Listener) -> Pulled:
    """Pull event files and output of the run, and with `weights` its adapter, into `folder`."""
    listener.progress("pulling the logs")
    reports = [pull_events(host, project, run.run, run.events, folder)]
    if run.job:
        reports.append(PullReport((pull_log(host, project, run.run, run.job, folder),)))
    if weights and run.adapter_sha256:
        listener.progress("pulling the adapter")
        reports.append(pull_weights(host, project, run.run, folder))
    findings = tuple(finding for report in reports for finding in report.findings)
    return Pulled(findings, sum(report.added_bytes for report in reports))


def judge_pulled(folder: Path, run: RunSurvey) -> Report:
    """Return what is missing locally: event files by size and identity, the adapter by digest."""
    report = check_mirror(run.events, folder)
    if run.adapter_sha256 and not check_weights(folder, run.adapter_sha256).ok:
        words = "the adapter was not pulled"
        missing = Finding.error("adapter-missing", words, str(folder), "pipeline pull --weights", ExitCode.PULL)
        report = report.plus(Report((missing,)))
    return report
