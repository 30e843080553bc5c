"""Pulling what a run made: event files, output, adapter; and judging whether all of it is here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipeline.messages.listener import Listener
from remote.host import Host
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.jobs import RunSurvey
from remote.pull.events import check_mirror, pull_events
from remote.pull.log import pull_log
from remote.pull.report import PullReport
from remote.pull.weights import check_weights, pull_weights


@dataclass(frozen=True)
class Pulled:
    """What came, and what is not as it should be."""

    findings: tuple[Finding, ...] = ()
    added_bytes: int = 0


def pull_run(host: Host, project: str, run: RunSurvey, folder: Path, *, weights: bool, listener: Listener) -> Pulled:
    """`folder` has what the host has of the run, each file whole or append-only; its adapter too where asked for."""
    listener.progress("bringing the logs home")
    reports = [pull_events(host, project, run.run, run.events, folder)]
    if run.job:
        reports.append(PullReport((pull_log(host, project, run.run, run.job, folder),)))
    if weights and run.adapter_sha256:
        listener.progress("bringing the adapter home")
        reports.append(pull_weights(host, project, run.run, folder))
    findings = tuple(finding for report in reports for finding in report.findings)
    return Pulled(findings, sum(report.added_bytes for report in reports))


def judge_pulled(folder: Path, run: RunSurvey) -> Report:
    """Whether everything that the host has of the run is here: event files by size and identity, adapter by digest."""
    report = check_mirror(run.events, folder)
    if run.adapter_sha256 and not check_weights(folder, run.adapter_sha256).ok:
        missing = Finding(
            "adapter-missing",
            Severity.ERROR,
            "the adapter is not here",
            str(folder),
            "pipeline pull --weights",
            ExitCode.PULL,
        )
        report = report.and_also(Report((missing,)))
    return report
