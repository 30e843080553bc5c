"""Stage `logs`: the laptop has the run's complete event files, output and adapter."""

from __future__ import annotations

from pipeline.hosts.own_weights import find_own_weights
from pipeline.hosts.pull import judge_pulled, pull_run
from pipeline.records.inputs import Inputs
from pipeline.runs.run_id import folder_of, run_id, run_of
from pipeline.runs.view import View
from pipeline.stages.stage import Context, StageResult
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.jobs import RunSurvey
from remote.protocol.layout import GPU_EVENTS
from remote.protocol.quantities import moment, size
from remote.protocol.text import one_line


class Logs:
    """Downloads the results of a run."""

    name = "logs"
    exit_code = ExitCode.PULL

    def inputs(self, view: View) -> Inputs:
        run = run_of(view)
        ended = moment(run.result.ended_unix) if run is not None and run.result is not None else "not ended"
        adapter = run.adapter_sha256 if run is not None else ""
        return {"run": run_id(view), "ended": ended, "adapter": adapter}

    def check(self, view: View) -> Report:
        run = run_of(view)
        if run is None:
            return Report(
                (Finding("logs", Severity.ERROR, "there is no run to pull logs from", exit_code=ExitCode.PULL),)
            )
        return judge_pulled(folder_of(view), run)

    def summary(self, view: View) -> str:
        return f"complete in {_folder(view)}{_missing(run_of(view))}"

    def run(self, context: Context) -> StageResult:
        """Download missing data. New data is appended to local event files; the adapter's digests are verified."""
        view = context.view
        run = run_of(view)
        assert run is not None, "the stage logs runs only after the stage train is done"
        pulled = pull_run(context.host, view.layout.key, run, folder_of(view), weights=True, listener=context.listener)
        summary = f"{size(pulled.added_bytes)} downloaded to {_folder(view)}{_missing(run)}"
        own = None
        if not run.adapter_sha256:
            own = find_own_weights(context.host, view.host.config, view.layout.key, run.run, folder_of(view))
        download = (f"to download them:\n{own.command}",) if own and own.command else ()
        follow_up = (one_line(own.message), *download) if own else ()
        return StageResult(Report(pulled.findings), summary, follow_up=follow_up)


def _missing(run: RunSurvey | None) -> str:
    """Return a phrase if the run wrote no event files or saved no adapter, else ""."""
    if run is None:
        return ""
    written = any(not file.name.startswith(f"tensorboard/{GPU_EVENTS}/") for file in run.events)
    return ("" if written else "; it wrote no event files") + ("" if run.adapter_sha256 else "; it saved no adapter")


def _folder(view: View) -> str:
    return str(folder_of(view).relative_to(view.loaded.root))
