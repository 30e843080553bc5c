"""Whether data from outside of the project may be sent: a path that a config names is confirmed once."""

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
    loaded: LoadedConfig, ask: Prompter | None, *, typed: bool, environment: Mapping[str, str] | None = None
) -> None:
    """Every folder outside of the project that data is taken from was confirmed. Raises DataUntrusted.

    A project that was cloned must not send the user's own files to a host unnoticed. The confirmation is kept in the
    user's own configuration folder, for this project and this folder.
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
        if ask is None or not ask.confirm(f"{words}.\nMay it be sent to the host?"):
            text = f"data.path={Path(named).expanduser()}"
            raise DataUntrusted(
                f"{words}, and you have not confirmed that; nothing was sent",
                where="data.path",
                hint=f"pipeline run --set {shlex.quote(text)}",
            )
        keep_consent(kept, line)


def _in_words(place: Path) -> str:
    home = Path("~").expanduser().resolve()
    return f"{place} (your home folder)" if place == home or place in home.parents else str(place)
