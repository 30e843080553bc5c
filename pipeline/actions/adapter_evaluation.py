"""Evaluate a local adapter: run the stages up to `fix`, upload the adapter, run the evaluation."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from io import FileIO
from pathlib import Path

from pipeline import __version__
from pipeline.actions.adapter_job import AdapterJob, Progress, run_adapter_job
from pipeline.actions.session import exclusive_lock, host_session, refresh_view
from pipeline.messages.listener import Listener
from pipeline.messages.outcome import StageOutcome, StageState
from pipeline.report.compose import environment_of
from pipeline.report.model import RunReport, Verdict
from pipeline.report.saved import save_report
from pipeline.runs.backend import backend_of
from pipeline.runs.consent import own_project
from pipeline.runs.evaluation import Adapter, evaluation_work
from pipeline.runs.resumed import require_typed_again
from pipeline.runs.secrets import require_secrets, secret_values, secrets_of
from pipeline.runs.selection import Selection
from pipeline.runs.start import note_of, start_request
from pipeline.runs.view import View, card_of
from pipeline.stages.environment import Environment
from pipeline.stages.fix import Fix
from pipeline.stages.runner import run_stages
from pipeline.stages.stage import Context, RunOptions, Stage
from pipeline.stages.sync import Sync
from remote.errors import BadUsage, DataUntrusted
from remote.link.prompter import Prompter
from remote.project.data import scan_data
from remote.project.links_out import project_left
from remote.project.paths import expanded, resolved
from remote.project.real_paths import is_inside, real_path_of
from remote.protocol.exits import ExitCode
from remote.protocol.quantities import size
from remote.protocol.regular import open_regular
from remote.protocol.shell import shell_command
from remote.sync.data import send_data

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
FILES = (WEIGHTS, CONFIG, "halfstep-adapter.json")
STAGES: Sequence[Stage] = (Sync(), Environment(), Fix())


def evaluate_folder(
    adapter: Path, selection: Selection, listener: Listener, *, prompter: Prompter | None, detach: bool = False
) -> tuple[AdapterJob, Progress]:
    """Evaluate the adapter in a local folder, with the model and data of a config.

    Raises BadUsage if a file is missing.
    """
    adapter = expanded(adapter).absolute()
    require_typed_again(selection, prompter, str(resolved(adapter)))
    for name in (CONFIG, WEIGHTS):
        if not (adapter / name).is_file():
            raise BadUsage(f"there is no {name} in {adapter}", where="--adapter")
    with _opened_files(adapter, own_project(selection.loaded)) as files:
        require_secrets(selection.host.config, selection.loaded.config)
        return _evaluate(adapter, files, selection, listener, prompter, detach=detach)


def _evaluate(
    adapter: Path,
    files: Mapping[str, FileIO],
    selection: Selection,
    listener: Listener,
    prompter: Prompter | None,
    *,
    detach: bool,
) -> tuple[AdapterJob, Progress]:
    with (
        exclusive_lock(selection, f"evaluate {adapter.name} on {selection.host.name}", prompter=prompter),
        host_session(selection, listener, RunOptions(), prompter=prompter) as context,
    ):
        listener.heading(f"evaluating {adapter} on {selection.host.name}")
        record = context.view.records.checkpoints(selection.host.name, selection.loaded.name)
        built_in(context.view)
        ran = run_stages(context, STAGES, record, refresh_view)
        if ran.exit_code is not ExitCode.OK:
            return _adapter_job(context, adapter, Adapter("", "")), Progress(ran.stages, ran.findings, ran.exit_code)
        sent = _send(context, files)
        ran.stages.append(sent[1])
        listener.stage_ended(sent[1])
        adapter_job = _adapter_job(context, adapter, sent[0])
        view = context.view
        progress = run_adapter_job(
            context.host,
            adapter_job,
            listener,
            detach=detach,
        )
        progress.stages[:0] = ran.stages
        progress.findings[:0] = ran.findings
        if progress.result is not None:
            save_report(adapter_job.folder, report_of(view, adapter_job, progress))
    return adapter_job, progress


@contextlib.contextmanager
def _opened_files(adapter: Path, project: Path) -> Iterator[dict[str, FileIO]]:
    """Open the adapter's files, so that exactly the files that were checked are sent.

    Raises DataUntrusted if a symbolic link points out of the adapter's folder, or out of the project. Otherwise a
    cloned project could upload any file of the user as a part of its adapter. Links from a hub cache to its own blobs
    are allowed.
    """
    # Resolved before the files are opened, because another user could replace the folder with a link in between.
    real = resolved(adapter)
    with contextlib.ExitStack() as opened:
        found = [name for name in FILES if (adapter / name).is_file()]
        files = {name: opened.enter_context(open_regular(adapter / name, follow=True)) for name in found}
        _refuse_links_out(adapter, real, project, files)
        yield files


def _refuse_links_out(adapter: Path, real: Path, project: Path, files: Mapping[str, FileIO]) -> None:
    inside = project if Path(os.path.normpath(adapter)).is_relative_to(project) else project_left(adapter)
    snapshots = next((folder for folder in real.parents if folder.name == "snapshots"), None)
    places = (real, snapshots.parent / "blobs") if snapshots is not None else (real,)
    for name, file in files.items():
        target = real_path_of(file)
        if inside is not None and not is_inside(target, [inside]):
            outside = "the project"
        elif not is_inside(target, places):
            outside = f"{adapter}"
        else:
            continue
        message = f"{adapter / name} is linked to {target}, outside of {outside}; nothing was sent"
        raise DataUntrusted(message, where="--adapter", hint=shell_command("--adapter {}", Path(target).parent))


def built_in(view: View) -> View:
    """Return the view with the built-in trainer as its command.

    Raises BadUsage if the config names no model or no data.
    """
    config = view.loaded.config
    if config.model is None or (config.data.dataset is None and config.data.path is None):
        raise BadUsage(
            f"{view.loaded.path} names no model or no data",
            where="model" if config.model is None else "data",
            hint="write `model: {id: ...}` and `data: {...}` into the config",
        )
    return replace(view, loaded=replace(view.loaded, config=config.model_copy(update={"command": None})))


def _send(context: Context, files: Mapping[str, FileIO]) -> tuple[Adapter, StageOutcome]:
    """Upload the adapter's files, unless the host has them. Other files in the folder are not uploaded."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "adapter")
        folder.mkdir()
        for name, file in files.items():
            with (folder / name).open("wb") as copy:
                shutil.copyfileobj(file, copy)
        scan = scan_data(folder)
        known = scan.digest in context.view.survey.data

        def report_progress(done: int, total: int) -> None:
            context.listener.progress("sending the adapter", done, total)

        path = send_data(context.host, scan, context.view.layout.key, progress=report_progress)
    state = StageState.SKIPPED if known else StageState.DONE
    reason = "already on the host" if known else f"{size(scan.size_bytes)} sent"
    return Adapter(path, scan.files[WEIGHTS][0]), StageOutcome("adapter", state, time.monotonic() - started, reason)


def _adapter_job(context: Context, path: Path, adapter: Adapter) -> AdapterJob:
    view = built_in(context.view)
    host = view.host.config
    job = start_request(view, "evaluation", 1, "").spec
    work = evaluation_work(job, adapter, view.loaded, project=view.layout.key, config=view.loaded.name)
    note = replace(note_of(view, work.run), evaluates=str(path))
    backend = backend_of(host, view.loaded.config)
    return AdapterJob(work, note, view.records, backend, secret_values(host, view.loaded.config))


def report_of(view: View, adapter_job: AdapterJob, progress: Progress) -> RunReport:
    """Return the report of an evaluation whose adapter does not belong to a run of this project."""
    precision = view.precision
    return RunReport(
        run=adapter_job.name,
        config=view.loaded.name,
        host=view.host.name,
        verdict=Verdict.EVALUATED,
        project=str(view.loaded.root),
        card=card_of(view),
        precision=f"{precision.mode.value}: {precision.because}",
        version=__version__,
        stages=tuple(progress.stages),
        findings=tuple(progress.findings),
        environment=environment_of(view),
        config_text=view.loaded.text,
        secrets=secrets_of(view.host.config, view.loaded.config),
    )
