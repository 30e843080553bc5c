"""Place the uploads of a SkyPilot task in a folder, and its shell commands beside them as setup.sh and run.sh."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.pipeline.export.engine_file import read_engine_file  # noqa: E402

file, home = map(Path, sys.argv[1:])
task = read_engine_file("sky", file)
task.place_uploads(home)
for name, script in zip(("setup.sh", "run.sh"), task.scripts, strict=True):
    (home / name).write_text(script)
