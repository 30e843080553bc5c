"""A task as SkyPilot's task file: https://docs.skypilot.co/en/latest/reference/yaml-spec.html"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pipeline.export.task import FOLDER, NO_GPU, VOLUME, Task
from pipeline.export.yaml_text import block, quoted
from remote.protocol.shell import outside_project

CARDS_OF_24_GB = ("L4:1", "A10G:1", "A10:1", "RTX4090:1", "A100:1", "L40S:1", "A100-80GB:1", "H100:1")


def render_sky(task: Task, file: Path) -> str:
    """Return the text of the task file. `file` is the path of the task file, for the commands in its first lines."""
    return "".join(f"{line}\n" for line in _lines(task, file))


def _lines(task: Task, file: Path) -> Iterator[str]:
    shown = str(file)
    secrets = [word for name in task.secrets for word in ("--secret", name)]
    yield f"# {outside_project('sky', 'launch', '-c', task.name, shown, *secrets)}"
    yield f"# rsync -a {task.name}:{VOLUME if task.volume else FOLDER}/project/.halfstep/runs .   download the results"
    yield f"# {outside_project('sky', 'down', task.name)}"
    yield "#"
    if task.volume:
        yield f"# {outside_project('sky', 'jobs', 'launch', shown, *secrets)}   on spot machines"
        yield "# A restarted task resumes from its newest checkpoint."
    else:
        yield "# To resume on another machine after a preemption, export with --volume NAME (sky volumes apply)."
    yield f"name: {task.name}"
    yield "resources:"
    if task.gpu == NO_GPU:
        yield "  cpus: 4+"
    else:
        cards = [task.gpu] if task.gpu else CARDS_OF_24_GB
        yield f"  accelerators: {{{', '.join(quoted(card) for card in cards)}}}"
    yield f"  disk_size: {task.disk_gb}"
    if task.secrets:
        yield "secrets:"
        yield from (f"  {name}: null" for name in task.secrets)
    yield "file_mounts:"
    for name, path in task.uploads.items():
        yield f"  {quoted(f'~/{FOLDER}/{name}')}: {quoted(str(path))}"
    if task.volume:
        yield "volumes:"
        yield f"  {VOLUME}: {quoted(task.volume)}"
    yield from block("setup", ("cd ~", *task.setup))
    yield from block("run", ("cd ~", *task.run))
