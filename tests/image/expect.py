"""Holds the JSON of a `pipeline run` against what it should say: `done` (trained now) or `skipped` (nothing to do)."""

import json
import sys
from pathlib import Path

path, wanted = sys.argv[1:]
told = json.loads(Path(path).read_text())
states = {stage["name"]: stage["state"] for stage in told["stages"]}
assert told["ok"] and told["exit_code"] == 0, told
assert len(states) == 6, states
assert set(states.values()) == {wanted}, states
assert told["job"]["state"] == "succeeded", told["job"]
print(f"   {told['run']}: {', '.join(f'{name} {state}' for name, state in states.items())}")
