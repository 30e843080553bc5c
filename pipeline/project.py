"""Which project a verb without a config is about: the nearest folder upwards that remembers one."""

from __future__ import annotations

from pathlib import Path

from pipeline.memory import FOLDER


def project_here(here: Path) -> Path:
    """The nearest folder with a `.halfstep/`, else `here` itself."""
    return next((folder for folder in (here, *here.parents) if (folder / FOLDER).is_dir()), here).resolve()
