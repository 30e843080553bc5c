"""`pipeline evaluate` as a user types it: over a real sshd with a job that is killed, and with a local adapter."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.test_main_job import tree_of
from tests.e2e.user import User
from tests.lab.sshd import Sshd
from tests.lab.wait import until

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]
SHORT = tuple(
    word
    for override in ("train.max_steps=2", "train.save_steps=2", "data.samples=12", "train.evaluate=false")
    for word in ("--set", override)
)
FEW = ("--set", "evaluation.samples=3", "--set", "evaluation.batch_size=1")
ANSWERS = 12
"""Three recordings, two tasks, with the adapter and without it."""
PATIENCE_S = 300.0


def kept_answers(folder: Path) -> list[tuple[str, str]]:
    """Return the model and sample of each answer that the host keeps."""
    lines = [line for path in folder.glob("answers/*.jsonl") for line in path.read_text().splitlines()]
    return [(row["key"], row["id"]) for row in map(json.loads, lines)]


def kill_evaluation(server: Sshd) -> None:
    """Kill the process of the evaluation."""
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
            if b"evaluate" in words and str((folder / "cwd").readlink()).startswith(str(server.home)):
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            continue


@pytest.mark.ssh
def test_an_evaluation_over_ssh_resumes_after_a_kill_and_is_done_once(user: User, sshd: Sshd) -> None:
    user.write_host_file("titan", sshd)
    trained = user.run_pipeline("run", "--host", "titan", "--config", "tiny", *SHORT, "--json")
    assert trained.code == 0, trained.err + trained.out

    started = user.run_pipeline("evaluate", *FEW, "--detach", "--json")
    assert (started.code, started.states) == (0, {"evaluate": "running"}), started.err + started.out
    name = started.json["run"]
    [folder] = (sshd.home / "halfstep" / "projects").glob(f"*/runs/{name}")
    until(lambda: len(kept_answers(folder)) >= 2, "the first answers", PATIENCE_S)
    kill_evaluation(sshd)
    assert user.run_pipeline("wait", name).code == 40
    before = kept_answers(folder)
    assert len(before) < ANSWERS

    resumed = user.run_pipeline("evaluate", *FEW, "--json")
    assert (resumed.code, resumed.states) == (0, {"evaluate": "done", "logs": "done"}), resumed.err + resumed.out
    assert resumed.json["run"] == name
    after = kept_answers(folder)
    assert after[: len(before)] == before
    assert (len(after), Counter(after).most_common(1)[0][1]) == (ANSWERS, 1)
    evaluation = resumed.json["evaluation"]
    assert [scores["model"] for scores in evaluation["scores"]] == ["adapter", "base"]
    assert evaluation["scores"][0]["metrics"]["mdd/per"]["value"] is not None
    assert (evaluation["data"], evaluation["answers"], evaluation["decoding"]) == ("tiny-speech", ANSWERS, "greedy")
    assert any(row["name"] == "LoRA, 3 epochs" for row in evaluation["published"]["rows"])
    assert any(one.startswith("rank: 16") for one in evaluation["published"]["differs"])
    artifacts = resumed.json["artifacts"]
    assert len(Path(artifacts["answers"]).read_text().splitlines()) == ANSWERS
    assert list(Path(artifacts["tensorboard"]).glob("*tfevents*"))
    assert "LoRA, 3 epochs" in Path(artifacts["report"]).read_text()

    host_before = tree_of(sshd.home)
    again = user.run_pipeline("evaluate", *FEW)
    assert again.code == 0, again.err + again.out
    assert "phone error rate" in again.out and "differs from the paper: rank: 16" in again.out
    assert tree_of(sshd.home) == host_before, "an evaluation that has nothing to do changed the host"
    nothing = user.run_pipeline("run", "--host", "titan", "--config", "tiny", *SHORT)
    assert "nothing to do" in nothing.out


def test_a_local_adapter_is_evaluated_with_the_model_and_data_of_a_config(user: User) -> None:
    trained = user.run_pipeline("run", "--host", "local", "--config", "tiny", *SHORT, "--json")
    assert trained.code == 0, trained.err + trained.out
    of_run = user.run_pipeline("evaluate", trained.json["run"], *FEW, "--json")
    assert of_run.code == 0, of_run.err + of_run.out

    adapter = user.project.parent / "bought"
    adapter.mkdir()
    for path in Path(trained.json["artifacts"]["adapter"]).iterdir():
        (adapter / path.name).write_bytes(path.read_bytes())
    (adapter / "optimizer.pt").write_bytes(b"0" * 1000)
    words = ("evaluate", "--adapter", str(adapter), "--host", "local", "--config", "tiny", *SHORT, *FEW, "--json")
    result = user.run_pipeline(*words)
    assert result.code == 0, result.err + result.out
    assert {"adapter": "done", "evaluate": "skipped"}.items() <= result.states.items(), "the same work has one run"
    assert result.json["evaluation"]["scores"] == of_run.json["evaluation"]["scores"]
    second = user.run_pipeline(*words)
    assert set(second.states.values()) == {"skipped"}
    sent = [path.name for path in (user.home / "halfstep" / "projects").glob("*/data/*/*")]
    assert "adapter_model.safetensors" in sent and "optimizer.pt" not in sent
    assert second.json["run"] == of_run.json["run"]


def test_an_impossible_evaluation_is_an_error_with_a_hint(user: User) -> None:
    assert user.run_pipeline("evaluate").code == 2
    both = user.run_pipeline("evaluate", "--adapter", "nowhere", "--host", "local", "--config", "tiny", "--json")
    assert (both.code, both.json["findings"][0]["where"]) == (2, "--adapter")
    alone = user.run_pipeline("evaluate", "--host", "local", "--json")
    assert (alone.code, alone.json["findings"][0]["hint"]) == (2, "pipeline evaluate RUN")
