"""`pipeline export`: write a config as a task for SkyPilot or dstack, with all files to upload."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.config.load import load_config
from pipeline.config.overrides import run_overrides
from pipeline.export.compose import scan_for_export, write_task
from pipeline.messages.hints import override_arguments
from pipeline.messages.outcome import Outcome
from pipeline.runs.consent import require_data_consent, require_project_consent, require_secret_consent
from pipeline.runs.selection import DATA_PATH, PROJECT, SECRETS, is_set
from pipeline.show.screen import Screen
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.shell import command_line, shell_command


def export(
    engine: str,
    config: str,
    overrides: Sequence[str] = (),
    gpu: str = "",
    volume: str = "",
    as_json: bool = False,
) -> int:
    """Write the task, the project's archive and a wheel of halfstep to .halfstep/export/.

    The engine is not contacted.
    """
    screen = Screen(as_json=as_json)
    loaded = load_config(config, Path.cwd(), run_overrides(overrides))
    prompter = None if as_json else screen
    command = _repeated(engine, config, overrides, gpu, volume)
    require_project_consent(loaded, prompter, typed=is_set(PROJECT, overrides), host=None, command=command)
    confirmed = require_data_consent(loaded, prompter, typed=is_set(DATA_PATH, overrides), host=None, command=command)
    require_secret_consent(loaded, prompter, typed=is_set(SECRETS, overrides), host=None, command=command)
    scanned = scan_for_export(loaded, confirmed)
    code = exit_code_of(scanned.findings, ExitCode.SYNC)
    if code is not ExitCode.OK:
        screen.closing(Outcome("export", code, config=loaded.name, findings=scanned.findings))
        return code
    written = write_task(scanned, engine, overrides, gpu, volume)
    for line in written.text.splitlines():
        if line.startswith("# "):
            screen.note(line.removeprefix("# "))
    more = {"engine": engine, "uploads": {name: str(path) for name, path in written.uploads.items()}}
    findings = (*scanned.findings, *written.findings)
    screen.closing(
        Outcome("export", config=loaded.name, findings=findings, artifacts={"task": str(written.file)}, more=more)
    )
    return ExitCode.OK


def _repeated(engine: str, config: str, overrides: Sequence[str], gpu: str, volume: str) -> str:
    """Return the command as it was typed, or a shorter one if the shells would not all read the same words."""
    options = [*(("--gpu", gpu) if gpu else ()), *(("--volume", volume) if volume else ())]
    words = ["pipeline", "export", engine, "--config", config, *override_arguments(overrides), *options]
    return command_line(words) or shell_command("pipeline export {} --config NAME", engine)
