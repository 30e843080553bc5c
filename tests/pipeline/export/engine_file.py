"""Read an exported task as its engine would, and place its uploads as its engine would."""

from __future__ import annotations

import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pipeline.cli.main import run

ENGINES = ("sky", "dstack")
FILES = {"sky": "task.yaml", "dstack": "task.dstack.yml"}


@dataclass(frozen=True)
class EngineFile:
    """The parsed task. `uploads` maps a path relative to the machine's home folder to a path on this machine."""

    values: dict[str, Any]
    uploads: dict[str, Path]
    scripts: tuple[str, ...]

    def place_uploads(self, home: Path) -> None:
        """Copy every upload to its place under `home`."""
        for name, source in self.uploads.items():
            target = home / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            else:
                shutil.copy(source, target)


def read_engine_file(engine: str, file: Path) -> EngineFile:
    """Parse the file of a `sky` or `dstack` task."""
    values = yaml.safe_load(file.read_text("utf-8"))
    if engine == "sky":
        uploads = {name.removeprefix("~/"): Path(path) for name, path in values["file_mounts"].items()}
        return EngineFile(values, uploads, (values["setup"], values["run"]))
    uploads = {one["path"]: (file.parent / one["local_path"]).resolve() for one in values["files"]}
    return EngineFile(values, uploads, tuple(values["commands"]))


def exported(engine: str, root: Path, *words: str, config: str = "Paper_R64") -> EngineFile:
    """Run `pipeline export` and read the file that it wrote."""
    assert run(["export", engine, "--config", config, *words]) == 0
    name = Path(config).stem
    return read_engine_file(engine, root / ".halfstep" / "export" / f"{engine}-{name}" / FILES[engine])


def archived(task: EngineFile) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(task.uploads["halfstep-task/project.tar.gz"]) as archive:
        return {member.name: member for member in archive}
