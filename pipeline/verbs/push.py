"""`pipeline push`: upload a run's adapter to the model hub, with a model card."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.config.load import LoadedConfig, load_config
from pipeline.config.model import ModelConfig
from pipeline.config.overrides import run_overrides
from pipeline.hosts.hub import hub_library, upload_files
from pipeline.messages.hints import overrides_in
from pipeline.records.files import write_atomic
from pipeline.records.find_run import named_run
from pipeline.records.runs import RunNote, artifacts_in
from pipeline.report.model_card import UNNAMED, CardFacts, loading_lines, render_card
from pipeline.report.saved import read_evaluation, read_report
from pipeline.show.screen import Screen
from pipeline.verbs.run_outcome import outcome_for
from remote.errors import BadUsage, HalfstepError
from remote.project.digests import read_json
from remote.project.paths import is_file
from remote.protocol.findings import Finding
from remote.protocol.jobs import JobState
from remote.protocol.layout import ProjectLayout
from remote.protocol.shell import shell_command
from remote.protocol.training import FRESH
from remote.pull.safetensors import read_shapes

CARD = "README.md"
LOCAL_CARD = "model-card.md"
"""The file name of the local card. The card is outside the adapter's folder, whose digests are verified."""
CONFIG = "adapter_config.json"
NOT_ON_HUB = ("tiny/", "/", "~", ".")
WEIGHTS = "adapter_model.safetensors"


def push(run: str | None = None, repo: str = "", private: bool = False, as_json: bool = False) -> int:
    """Upload the adapter, its settings and a card. Without `repo`, only write the card into the run's folder."""
    screen = Screen(as_json=as_json, on_stderr=True)
    if repo:
        hub_library()
    note, records = named_run(run, Path.cwd(), trained=True)
    folder = records.folder_named(note.name)
    if not note.own:
        screen.note(f"the record of {note.name} was not written by you: its adapter may have come with the project")
    # A cloned project may contain a link to any file of the user.
    weights, _ = (records.in_run(note.name, "adapter", name) for name in (WEIGHTS, CONFIG))
    adapter = weights.parent
    if not is_file(weights):
        raise _no_adapter(note, adapter)
    facts = _facts(note, records.root, folder, repo)
    card = render_card(facts).encode()
    write_atomic(folder / LOCAL_CARD, card)
    address = ""
    if repo:
        # The adapter's own settings contain the base model's path on the host.
        settings = json.dumps({**facts.settings, "base_model_name_or_path": facts.base}, indent=2).encode()
        files: dict[str, bytes | Path] = {WEIGHTS: weights, CONFIG: settings, CARD: card}
        screen.note(f"uploading to {repo}")
        address = upload_files(repo, files, private=private, message=f"Adapter of the run {note.name}")
        screen.note(address)
    if facts.place != str(adapter) and not repo:
        screen.note(f"the base model is only on {note.host}, so these lines load the adapter on {note.host}:")
    if not facts.base and not repo:
        screen.note(f"the adapter's settings name no base model: replace {UNNAMED} by the model that the script loads")
    for line in () if as_json else loading_lines(facts):
        screen.raw(f"{line}\n")
    more = {"repo": repo, "commit": address, "load": list(loading_lines(facts))}
    outcome = outcome_for("push", note)
    screen.closing(replace(outcome, findings=_warnings(note, facts, repo), artifacts=artifacts_in(folder), more=more))
    return outcome.exit_code


def _no_adapter(note: RunNote, adapter: Path) -> BadUsage:
    """Return the error for an adapter that was not downloaded. Only a run that succeeded certainly has one."""
    message = f"the adapter of {note.name} is not on this machine"
    pull = shell_command("pipeline pull {} --weights", note.name)
    if note.state in (JobState.SUCCEEDED, JobState.ABSENT):
        return BadUsage(message, where=str(adapter), hint=pull)
    message += f", and the run has not succeeded ({note.state.value}); if it has a checkpoint: {pull}"
    return BadUsage(message, where=str(adapter), hint=_continue(note))


def _continue(note: RunNote) -> str:
    """Return the command after which the run has succeeded."""
    return shell_command("pipeline wait {}", note.name) if note.state is JobState.RUNNING else note.resume_command


def _facts(note: RunNote, root: Path, folder: Path, repo: str) -> CardFacts:
    try:
        settings = _settings(folder / "adapter" / CONFIG)
    except (OSError, ValueError) as error:
        message = f"the settings of the adapter cannot be read: {error}"
        pull = shell_command("pipeline pull {} --weights", note.name)
        raise BadUsage(message, where=str(folder / "adapter"), hint=pull) from None
    loaded = _config(note, root)
    own = loaded is not None and loaded.config.command is not None
    model = loaded.config.model if loaded is not None and not own else None
    data = loaded.config.data.dataset if loaded is not None else None
    local = str(settings.get("base_model_name_or_path") or "")
    base = model.id if model and not model.id.startswith(NOT_ON_HUB) else local
    return CardFacts(
        repo or _place(note, base) or str(folder / "adapter"),
        repo.rpartition("/")[2] or note.name,
        base,
        _revision(model, recorded if isinstance(recorded := settings.get("revision"), str) else None),
        (data,) if data and "/" in data else (),
        settings,
        built_in=model is not None,
        report=read_report(folder),
        evaluation=read_evaluation(folder),
        shapes=read_shapes(folder / "adapter" / WEIGHTS),
    )


def _place(note: RunNote, base: str) -> str:
    """Return the adapter's folder on the host if the base model is in the host's workdir, else ""."""
    layout = ProjectLayout(note.project)
    workdir, inside, _ = base.partition(f"/{layout.root}/")
    return f"{workdir}/{layout.run(note.run).adapter}" if inside else ""


def _settings(path: Path) -> dict[str, Any]:
    """Return the adapter's settings, as downloaded from the host. Raises OSError and ValueError."""
    settings = read_json(path)
    if not isinstance(settings, dict):
        raise ValueError(f"{path}: not an object")
    return settings


def _revision(model: ModelConfig | None, trained: str | None) -> str | None:
    """Return the base model's commit from the adapter's settings, else the revision in the config, else None.

    For a continued adapter, return the revision in the config.
    """
    return model.revision if model and (model.adapter != FRESH or not trained) else trained


def _config(note: RunNote, root: Path) -> LoadedConfig | None:
    """Return the run's config with the recorded overrides, or None if the config was deleted or has become invalid."""
    words = overrides_in(note.given)
    try:
        return load_config(note.config, root, run_overrides([word for word in words if word != "--set"]))
    except HalfstepError:
        return None


def _warnings(note: RunNote, facts: CardFacts, repo: str) -> tuple[Finding, ...]:
    found = []
    if repo and (facts.base.startswith(NOT_ON_HUB) or not facts.base):
        base = f"the base model {facts.base} is on no hub" if facts.base else "the base model is unknown"
        message = f"{base}, so other users cannot load this adapter"
        found.append(
            Finding.warning("base-not-on-hub", message, note.name, "name a model of the hub in `model: {id: ...}`")
        )
    if note.state is not JobState.SUCCEEDED:
        step = f"step {note.step or 0} of {note.steps or '?'}"
        message = f"the run has not succeeded ({note.state.value}): its adapter was saved at {step}"
        found.append(Finding.warning("not-finished", message, note.name, _continue(note)))
    return tuple(found)
