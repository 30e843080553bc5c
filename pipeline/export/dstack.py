"""A task as dstack's configuration file: https://dstack.ai/docs/reference/dstack.yml/task"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pipeline.export.task import FOLDER, NO_GPU, VOLUME, Task
from pipeline.export.yaml_text import block, quoted
from remote.protocol.shell import outside_project

GPU = "24GB.."
RETRY = "retry: {on_events: [interruption, no-capacity], duration: 2d}"


def render_dstack(task: Task, file: Path) -> str:
    """Return the text of the configuration. The paths of uploads are relative to the folder of `file`."""
    return "".join(f"{line}\n" for line in _lines(task, file))


def _lines(task: Task, file: Path) -> Iterator[str]:
    yield f"# {outside_project('dstack', 'apply', '-f', file)}"
    yield "#"
    if task.volume:
        yield f"# The results are on the volume, in {VOLUME}/project/.halfstep/runs."
        yield "# An interrupted task is restarted and resumes from its newest checkpoint."
    else:
        yield "# The container is removed when the task ends. To keep the adapter, export with --volume NAME."
    yield "type: task"
    yield f"name: {task.name}"
    yield 'python: "3.12"'
    if task.secrets:
        yield "env:"
        yield from (f"  - {name}" for name in task.secrets)
    yield "files:"
    for name, path in task.uploads.items():
        local = os.path.relpath(path, file.parent)
        yield f"  - {{local_path: {quoted(local)}, path: {quoted(f'{FOLDER}/{name}')}}}"
    if task.volume:
        yield "volumes:"
        yield f"  - {{name: {quoted(task.volume)}, path: {VOLUME}}}"
        yield RETRY
    yield "resources:"
    yield f"  gpu: {0 if task.gpu == NO_GPU else quoted(task.gpu or GPU)}"
    yield f"  disk: {task.disk_gb}GB.."
    yield from block("commands", (*task.setup, *task.run), item=True)
