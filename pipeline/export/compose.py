"""Write a config as a task: the file for SkyPilot or dstack, the project as an archive, and halfstep as a wheel."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distribution
from pathlib import Path

from pipeline.config.load import LoadedConfig, folder_of
from pipeline.config.shipped import shipped_configs, shipped_data
from pipeline.export.bundle import own_wheel, pack_project, require_local_room, wheel_name, write_data
from pipeline.export.dstack import render_dstack
from pipeline.export.sky import render_sky
from pipeline.export.task import (
    ARCHIVE,
    DATA,
    DISK_GB,
    REQUIREMENTS,
    UPLOAD_LIMIT_BYTES,
    Task,
    TaskData,
    run_commands,
    setup_commands,
    task_name,
)
from pipeline.records.files import disk_full_as_error, write_atomic
from pipeline.records.layout import Records
from pipeline.runs.view import data_name
from remote.project.data import DataScan, judge_upload_names, scan_data
from remote.project.paths import expanded, resolved
from remote.project.scan import Scan, scan_project
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding, Severity
from remote.protocol.quantities import size

RENDERERS = {"sky": (render_sky, "task.yaml"), "dstack": (render_dstack, "task.dstack.yml")}
OWN_CONFIG = "halfstep-export.yaml"
"""The name of the config in the archive, if the config's file is not one of the project's files."""


@dataclass(frozen=True)
class Export:
    """A project and its data, scanned for upload. An error in `findings` prevents the upload."""

    loaded: LoadedConfig
    scan: Scan
    data: DataScan | None
    findings: tuple[Finding, ...]

    @property
    def config(self) -> str:
        """Return the value of `--config` for `pipeline run` in the unpacked project."""
        if self.loaded.path.parent == shipped_configs():
            return self.loaded.name
        path, root = resolved(self.loaded.path), self.loaded.root
        inside = path.relative_to(root).as_posix() if path.is_relative_to(root) else ""
        return inside if inside in self.scan.manifest.rows else OWN_CONFIG


def scan_for_export(loaded: LoadedConfig, confirmed: tuple[Path, ...] | None = None) -> Export:
    """Scan the project and its data. A path with characters of a shell is an error.

    `confirmed` are the folders from which data may be read; None permits all.
    """
    scan = scan_project(loaded.root, data_link=data_name(loaded))
    named = loaded.config.data.path
    data = scan_data(resolved(loaded.root / expanded(named)), confirmed=confirmed) if named else None
    left_out = data.report.findings if data is not None else ()
    names = judge_upload_names((loaded.root, loaded.path))
    return Export(loaded, scan, data, (*scan.report.findings, *left_out, *names))


@dataclass(frozen=True)
class Written:
    """The files of an exported task on this machine.

    `file` is the task file, `text` its content, and `uploads` are the files that it uploads.
    """

    file: Path
    text: str
    uploads: Mapping[str, Path]
    findings: tuple[Finding, ...] = ()


def write_task(export: Export, engine: str, overrides: Sequence[str], gpu: str, volume: str) -> Written:
    """Write the task and its uploads to `.halfstep/export/ENGINE-CONFIG/`, and replace older files. Raises DiskFull."""
    loaded, data = export.loaded, export.data
    render, name = RENDERERS[engine]
    records = Records(loaded.root)
    folder = records.export(engine, loaded.name)
    records.prepare()
    uploads = _write_uploads(folder, export)
    given = [*overrides, *(["project=."] if export.config == OWN_CONFIG else []), *_confirmed(export)]
    task = Task(
        task_name(loaded.name),
        uploads,
        setup_commands(_wheel(), requirements=REQUIREMENTS in export.scan.manifest.rows),
        run_commands(export.config, given, _task_data(export), volume=bool(volume)),
        loaded.config.secrets,
        gpu,
        volume,
        # The machine holds the archive and the unpacked data.
        disk_gb=DISK_GB + (2 * data.size_bytes // 10**9 if data is not None else 0),
    )
    text = render(task, folder / name)
    write_atomic(folder / name, text.encode())
    return Written(folder / name, text, uploads, _judge_size(uploads) if engine == "dstack" else ())


def _confirmed(export: Export) -> Iterator[str]:
    """Yield the user's confirmations as overrides, because the rented machine cannot prompt the user."""
    loaded, folder = export.loaded, resolved(folder_of(export.loaded.path))
    if loaded.root in folder.parents and export.config not in (OWN_CONFIG, loaded.name):
        yield f"project={os.path.relpath(loaded.root, folder)}"
    if export.loaded.config.secrets:
        yield f"secrets=[{','.join(export.loaded.config.secrets)}]"
    if export.data is not None and (name := data_name(export.loaded)):
        yield f"data.path={name}"


def _wheel() -> str:
    return wheel_name(distribution("halfstep"))


def _write_uploads(folder: Path, export: Export) -> dict[str, Path]:
    uploads = {ARCHIVE: folder / ARCHIVE, _wheel(): folder / _wheel()}
    own = {OWN_CONFIG: export.loaded.content} if export.config == OWN_CONFIG else {}
    write_atomic(uploads[ARCHIVE], pack_project(export.scan, own, data=data_name(export.loaded)))
    builtin = export.loaded.config.data.dataset
    write_atomic(uploads[_wheel()], own_wheel(data=shipped_data(builtin or "") is not None))
    if export.data is None:
        with disk_full_as_error(folder / DATA):
            (folder / DATA).unlink(missing_ok=True)  # of an earlier export
        return uploads
    with disk_full_as_error(folder / DATA):
        require_local_room(folder / DATA, export.data.size_bytes)
        write_data(export.data, folder / DATA)
    return {**uploads, DATA: folder / DATA}


def _task_data(export: Export) -> TaskData | None:
    data = export.data
    if data is None:
        return None
    return TaskData(data_name(export.loaded), data.digest, "" if data.root.is_dir() else data.root.name)


def _judge_size(uploads: Mapping[str, Path]) -> tuple[Finding, ...]:
    sizes = {name: path.stat().st_size for name, path in uploads.items()}
    name = max(sizes, key=lambda one: sizes[one])
    if sizes[name] <= UPLOAD_LIMIT_BYTES:
        return ()
    message = f"{name} has {size(sizes[name])}, but a dstack server accepts {size(UPLOAD_LIMIT_BYTES)} by default"
    hint = f"set DSTACK_SERVER_CODE_UPLOAD_LIMIT={sizes[name] * 2} for the dstack server"
    return (Finding("upload-size", Severity.WARNING, message, str(uploads[name]), hint),)
