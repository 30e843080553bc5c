"""Run by the engines' own environment: parse a task as the engine does and print what it understood as JSON."""

import json
import sys
from pathlib import Path

engine, path = sys.argv[1:]
if engine == "sky":
    import sky

    task = sky.Task.from_yaml(path)
    cards = sorted(card for one in task.resources for card in one.accelerators or {})
    understood = {"name": task.name, "cards": cards, "uploads": sorted(task.file_mounts), "volumes": task.volumes}
else:
    import yaml
    from dstack._internal.core.models.configurations import parse_apply_configuration

    task = parse_apply_configuration(yaml.safe_load(Path(path).read_text()))
    gpu = task.resources.gpu
    understood = {
        "name": task.name,
        "cards": gpu.name or [] if gpu else [],
        "uploads": sorted(one.path for one in task.files),
        "volumes": [str(one.path) for one in task.volumes],
    }
print(json.dumps(understood))
