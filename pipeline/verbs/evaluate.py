"""`pipeline evaluate`: score an adapter and its base model on the evaluation split, and show published results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.actions.adapter_evaluation import evaluate_folder
from pipeline.actions.adapter_job import AdapterJob, Progress
from pipeline.actions.run_evaluation import evaluate_run
from pipeline.messages.outcome import Outcome
from pipeline.records.runs import artifacts_in
from pipeline.report.evaluation import describe, evaluation_as_json, explain_missing, headings, table
from pipeline.report.published import differences
from pipeline.runs.selection import load_selection
from pipeline.show.screen import Screen
from remote.errors import BadUsage
from remote.protocol.shell import shell_command


def evaluate(
    run: str | None = None,
    adapter: str = "",
    host: str = "",
    config: str = "",
    overrides: Sequence[str] = (),
    detach: bool = False,
    as_json: bool = False,
) -> int:
    """Evaluate the adapter of a run, or an adapter in a local folder, as a job on the host."""
    screen = Screen(as_json=as_json)
    if not adapter and (host or config):
        raise BadUsage(
            "--host and --config need --adapter; a run is evaluated on its own host",
            where="--adapter",
            hint="pipeline evaluate RUN",
        )
    prompter = None if as_json else screen
    with screen:
        if adapter:
            if run or not (host and config):
                raise BadUsage(
                    "--adapter needs --host and --config, and no RUN",
                    where="--adapter",
                    hint=shell_command("pipeline evaluate --adapter {} --host HOST --config NAME", adapter),
                )
            selection = load_selection(host, config, overrides, Path.cwd())
            adapter_job, progress = evaluate_folder(Path(adapter), selection, screen, prompter=prompter, detach=detach)
        else:
            adapter_job, progress = evaluate_run(run, overrides, screen, prompter=prompter, detach=detach)
    outcome = _outcome(adapter_job, progress)
    if progress.result is not None and not as_json:
        screen.note(describe(progress.result))
        screen.table(headings(progress.result), table(progress.result))
        for line in explain_missing(progress.result):
            screen.note(line)
        for difference in differences(progress.result):
            screen.note(f"differs from the paper: {difference}")
    screen.closing(outcome)
    return outcome.exit_code


def _outcome(adapter_job: AdapterJob, progress: Progress) -> Outcome:
    artifacts = {**artifacts_in(adapter_job.trained or adapter_job.folder), **artifacts_in(adapter_job.folder)}
    more = {"evaluation": evaluation_as_json(progress.result)} if progress.result is not None else {}
    return replace(progress.outcome("evaluate", adapter_job), artifacts=artifacts, more=more)
