"""Compare the JSON of a `pipeline run` with what it should be: `done` (trained now) or `skipped` (nothing to do)."""

import json
import sys
from pathlib import Path

path, wanted = sys.argv[1:]
answer = json.loads(Path(path).read_text())
states = {stage["name"]: stage["state"] for stage in answer["stages"]}
assert answer["ok"] and answer["exit_code"] == 0, answer
assert len(states) == 6, states
assert set(states.values()) == {wanted}, states
assert answer["job"]["state"] == "succeeded", answer["job"]
print(f"   {answer['run']}: {', '.join(f'{name} {state}' for name, state in states.items())}")
