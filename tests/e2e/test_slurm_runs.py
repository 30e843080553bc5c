"""`pipeline run` on a host with `scheduler: slurm`: proofs on a node, an array of runs, a time limit on the way."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.user import QUICK, User
from tests.e2e.waiting_project import WaitingProject, confirm_host_file, write_waiting_project
from tests.lab.slurm import Slurm, slurm_cluster
from tests.lab.wait import until

pytestmark = [pytest.mark.train, pytest.mark.root, pytest.mark.timeout(1500)]
PATIENT_S = 1200


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    with slurm_cluster(tmp_path / "slurm", monkeypatch, nodes=2) as running:
        yield running


@pytest.fixture
def waiting(user: User, cluster: Slurm) -> WaitingProject:
    user.environment.update(cluster.environment)
    waiting = write_waiting_project(user)
    lines = ("host: local", f"python: {sys.executable}", f"workdir: {waiting.workdir}", "scheduler: slurm")
    host = "\n".join((*lines, "slurm: {extra: [--exclusive]}\n"))
    (user.project / "configs" / "hosts" / "cluster.yaml").write_text(host)
    confirm_host_file(user, "cluster")
    return waiting


def jobs_of(waiting: WaitingProject) -> list[Path]:
    return sorted(waiting.workdir.glob("projects/*/runs/*/jobs/*/submitted.json"))


def test_three_configs_are_one_array_of_three_runs_that_were_proved_on_a_node(
    user: User, waiting: WaitingProject
) -> None:
    for name in ("second", "third"):
        text = (user.project / "configs" / "plain.yaml").read_text()
        (user.project / "configs" / f"{name}.yaml").write_text(text.replace("env: {", f"env: {{NAME: {name}, "))
    script = user.project / "train.py"
    lines = (
        'with open(os.environ["HELD"] + "/places", "a") as file:',
        '    print(os.environ.get("SLURM_JOB_ID"), file=file)',
    )
    place = "\n".join(lines) + "\n"
    script.write_text(script.read_text().replace("import torch\n", f"import os\n\nimport torch\n\n{place}", 1))
    words = ("run", "--host", "cluster", "--config", "plain,second,third", "--json")
    started = user.run_pipeline(*words, "--detach", patience_s=PATIENT_S)
    assert started.code == 0, started.err
    numbers = [json.loads(path.read_text())["slurm_job"].partition("_") for path in jobs_of(waiting)]
    assert len({array for array, _, _ in numbers}) == 1
    assert {task for _, _, task in numbers} == {"0", "1", "2"}
    waiting.go()
    ended = user.run_pipeline(*words, patience_s=PATIENT_S)
    assert (ended.code, [row["job"]["state"] for row in ended.json["runs"]]) == (0, ["succeeded"] * 3), ended.err
    places = (waiting.folder / "places").read_text().split()
    assert len(places) == 6
    assert "None" not in places, "the proofs and the jobs ran on a node"
    again = user.run_pipeline(*words, patience_s=PATIENT_S)
    assert {stage["state"] for row in again.json["runs"] for stage in row["stages"]} == {"skipped"}


def test_a_run_that_reached_its_time_limit_ends_with_the_weights_of_one_that_did_not(
    user: User, waiting: WaitingProject, cluster: Slurm
) -> None:
    words = ("--config", "tiny", *QUICK, "--set", "train.max_steps=8", "--json")
    limited = user.run_pipeline("run", "--host", "cluster", *words, "--detach", patience_s=PATIENT_S)
    assert limited.code == 0, limited.err
    run = next(waiting.workdir.glob("projects/*/runs/*"))
    until(lambda: list(run.glob("checkpoints/checkpoint-2/halfstep-manifest.json")), "a checkpoint", seconds=PATIENT_S)
    number = json.loads((run / "jobs" / "1" / "submitted.json").read_text())["slurm_job"]
    cluster.ask("scancel", "--signal=USR1", "--batch", number)
    waited = user.run_pipeline("run", "--host", "cluster", *words, patience_s=PATIENT_S)
    assert (waited.code, waited.json["job"]["state"]) == (0, "succeeded"), waited.err
    first, second = (json.loads((run / "jobs" / job / "result.json").read_text()) for job in ("1", "2"))
    assert (first["preempted"], first["next_job"], second["exit"]) == (True, 2, 0)
    undisturbed = user.run_pipeline(
        "run", "--host", "two", *words, "--set", f"host.python={sys.executable}", patience_s=PATIENT_S
    )
    assert undisturbed.code == 0, undisturbed.err
    one, other = (
        Path(done.json["artifacts"]["adapter"]) / "adapter_model.safetensors" for done in (waited, undisturbed)
    )
    assert one != other
    assert one.read_bytes() == other.read_bytes()
