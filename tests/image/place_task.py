"""Place the uploads of an exported task in a folder, as the engine would, and its shell commands as step-N.sh.

Arguments: the engine, its file, the folder.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.pipeline.export.engine_file import read_engine_file  # noqa: E402

engine, file, home = sys.argv[1], *map(Path, sys.argv[2:])
task = read_engine_file(engine, file)
task.place_uploads(home)
for number, script in enumerate(task.scripts):
    (home / f"step-{number}.sh").write_text(script)
