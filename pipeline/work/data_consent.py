"""Confirmation of a config's data path outside of the project, before it is uploaded."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from pipeline.config.load import LoadedConfig
from pipeline.records.consents import consents, is_confirmed, keep_consent
from pipeline.work.view import data_folder
from remote.errors import DataUntrusted
from remote.link.prompter import Prompter
from remote.project.data import outside_of


def require_data_consent(
    loaded: LoadedConfig,
    prompter: Prompter | None,
    *,
    typed: bool,
    command: str = "pipeline run",
    environment: Mapping[str, str] | None = None,
) -> None:
    """Ask the user to confirm every folder outside of the project from which data is uploaded. Raises DataUntrusted.

    Otherwise a cloned project could upload the user's files unnoticed. The confirmation is stored in the user's
    configuration folder, for this project and this folder. `command` is the one that asks, for the hint.
    """
    folder, named = data_folder(loaded), loaded.config.data.path
    if typed or named is None or folder is None:
        return
    kept = consents("trusted_data", os.environ if environment is None else environment)
    for place in outside_of(folder, loaded.root):
        line = f"{loaded.root}\t{place}"
        if is_confirmed(kept, line):
            continue
        words = f"data.path {named} of {loaded.path} takes data from {_in_words(place)}, outside of the project"
        if prompter is None or not prompter.confirm(f"{words}.\nMay it be sent to the host?"):
            text = f"data.path={Path(named).expanduser()}"
            raise DataUntrusted(
                f"{words}, and you have not confirmed that; nothing was sent",
                where="data.path",
                hint=f"{command} --set {shlex.quote(text)}",
            )
        keep_consent(kept, line)


def _in_words(place: Path) -> str:
    home = Path("~").expanduser().resolve()
    return f"{place} (your home folder)" if place == home or place in home.parents else str(place)
