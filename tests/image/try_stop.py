"""Kill the laptop's command and stop the container of its job in the middle of a training; the next run finishes it.

Arguments: the host and the container's name. Runs in the folder of the project.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PIPELINE = Path(__file__).resolve().parents[2] / ".venv/bin/pipeline"
PATIENCE_S = 300
STOP_WITHIN_S = 100
"""Docker kills what is left after 120 s."""

host, container = sys.argv[1:]
run = [PIPELINE, "run", "--host", host, "--config", "tiny", "--set", "train.epochs=4", "--set", "train.save_steps=3"]


def answer(*words: object) -> dict[str, Any]:
    done = subprocess.run([*words, "--json"], capture_output=True, timeout=PATIENCE_S, check=False)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        sys.exit(f"{words}: {done.stdout!r} {done.stderr.decode()}")
    return found


def job() -> dict[str, Any]:
    return answer(PIPELINE, "status").get("job", {})


def wait_for(what: str, condition: Any) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"waited {PATIENCE_S} s in vain for {what}")
        time.sleep(0.5)


laptop = subprocess.Popen(
    run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "CI": "1"}
)
records = Path(".halfstep/runs")
wait_for("a run", lambda: list(records.glob("*/run.json")) or laptop.poll() is not None)
wait_for("the first checkpoint", lambda: (job().get("step") or 0) >= 4)
os.killpg(laptop.pid, signal.SIGKILL)
laptop.wait()
assert job()["state"] == "running", job()

began = time.monotonic()
subprocess.run(["docker", "stop", "--time", "120", container], check=True, capture_output=True, timeout=PATIENCE_S)
seconds = time.monotonic() - began
assert seconds < STOP_WITHIN_S, f"docker stop took {seconds:.0f} s: something waited for its time limit"
subprocess.run(["docker", "start", container], check=True, capture_output=True, timeout=60)
wait_for("the host", lambda: answer(PIPELINE, "hosts", "check", host)["exit_code"] == 0)

ended = answer(PIPELINE, "wait")
assert ended["exit_code"] == 42, ended
assert "preempted" in [finding["check"] for finding in ended["findings"]], ended
stopped_at = ended["job"]["step"]
print(f"   {ended['run']}: exit 42 at step {stopped_at}, {seconds:.0f} s after the stop")

finished = answer(*run)
states = {stage["name"]: stage["state"] for stage in finished["stages"]}
assert finished["exit_code"] == 0, finished
assert finished["run"] == ended["run"], (finished["run"], ended["run"])
assert states["train"] == "done", states
assert "resumed at step" in next(stage["reason"] for stage in finished["stages"] if stage["name"] == "train"), finished
again = answer(*run)
assert {stage["state"] for stage in again["stages"]} == {"skipped"}, again
print(f"   {finished['run']}: resumed and finished; run again: nothing to do")
