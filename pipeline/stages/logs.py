"""Stage `logs`: the run's TensorBoard files, its output and its adapter are here, whole; and a page that sums it up."""

from __future__ import annotations

from pipeline.hosts.pull import judge_pulled, pull_run
from pipeline.messages.quantities import moment, size
from pipeline.records.inputs import Inputs
from pipeline.stages.stage import Context, Done
from pipeline.work.run_id import folder_of, run_id, run_of
from pipeline.work.view import View
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.jobs import RunSurvey


class Logs:
    """What a run made is on the laptop."""

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
            return Report((Finding("logs", Severity.ERROR, "there is no run to bring home", exit_code=ExitCode.PULL),))
        return judge_pulled(folder_of(view), run)

    def holds(self, view: View) -> str:
        return f"all here, in {_folder(view)}{_without(run_of(view))}"

    def run(self, context: Context) -> Done:
        """Brings home what is not here yet: event files append-only, the adapter with its digests verified."""
        view = context.view
        run = run_of(view)
        assert run is not None, "train holds before logs is asked"
        pulled = pull_run(context.host, view.layout.key, run, folder_of(view), weights=True, listener=context.listener)
        came = f"{size(pulled.added_bytes)} came to {_folder(view)}{_without(run)}"
        return Done(Report(pulled.findings), came)


def _without(run: RunSurvey | None) -> str:
    """What the run did not make, where that is expected of one."""
    if run is None:
        return ""
    return ("" if run.events else "; it wrote no event files") + ("" if run.adapter_sha256 else "; it saved no adapter")


def _folder(view: View) -> str:
    return str(folder_of(view).relative_to(view.loaded.root))
