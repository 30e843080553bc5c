"""`pipeline merge`: merge a run's adapter into its base model, on the run's host."""

from __future__ import annotations

from dataclasses import replace

from pipeline.actions.merge import merge_run
from pipeline.config.host_model import HostConfig
from pipeline.hosts.own_weights import OWN_WEIGHTS, download_command
from pipeline.show.screen import Screen
from remote.protocol.jobs import JobState
from remote.protocol.quantities import size


def merge(run: str | None = None, dequantize: bool = False, as_json: bool = False) -> int:
    """Merge the adapter of a run into its base model, as a job on the host."""
    screen = Screen(as_json=as_json)
    prompter = None if as_json else screen
    with screen:
        adapter_job, progress, folder, written = merge_run(run, screen, dequantize=dequantize, prompter=prompter)
    note, done = adapter_job.note, progress.run is not None and progress.run.state is JobState.SUCCEEDED
    if done:
        screen.note(f"merged checkpoint of {size(written)} in {folder} on {note.host}")
        config, place = HostConfig.model_validate(note.host_config), adapter_job.folder / OWN_WEIGHTS
        screen.note("to download it:", command=download_command(config, [folder], place))
    outcome = replace(progress.outcome("merge", adapter_job), more={"merged": folder} if done else {})
    screen.closing(outcome)
    return outcome.exit_code
