"""`payload evaluate SPEC` as a process: killed, resumed, and with two ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from remote.payload.training.evaluate import as_nested
from remote.protocol.evaluation import EvaluationResult, EvaluationSpec
from remote.protocol.jobs import Progress
from remote.protocol.training import TrainingPaths
from remote.protocol.values import decode, dumps
from tests.lab.wait import until
from tests.remote.training.conftest import ENVIRONMENT, ROOT

pytestmark = [pytest.mark.train, pytest.mark.timeout(600)]
ANSWERS = 16
"""Four recordings, two tasks, with the adapter and without it."""


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a trained adapter, as a process."""

    spec: EvaluationSpec

    @property
    def run_folder(self) -> Path:
        return Path(self.spec.training.paths.run)

    def start(self, processes: int = 1) -> subprocess.Popen[str]:
        self.run_folder.mkdir(exist_ok=True)
        path = self.run_folder / "spec.json"
        path.write_bytes(dumps(self.spec))
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        words = [*(torchrun if processes > 1 else []), "-m", "remote.payload", "evaluate", str(path)]
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, processes: int = 1) -> tuple[int, str, str]:
        process = self.start(processes)
        out, err = process.communicate(timeout=500)
        return process.returncode, out, err

    def kept(self) -> list[tuple[str, str]]:
        """Return the model and sample of each stored answer, in order."""
        lines = [line for path in sorted(self.run_folder.glob("answers/*")) for line in path.read_text().splitlines()]
        return [(row["key"], row["id"]) for row in map(json.loads, lines)]

    def result(self) -> EvaluationResult:
        return decode(EvaluationResult, json.loads((self.run_folder / "evaluation.json").read_text()))

    def answers(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.run_folder / "answers.jsonl").read_text().splitlines()]


@pytest.fixture
def trained(make_spec: Callable[..., Any], training: Callable[..., Any]) -> Any:
    spec = make_spec(evaluate=True, max_steps=2, gradient_accumulation=1)
    code, out, err = training(spec).run()
    assert code == 0, out + err
    return spec


def evaluation_of(spec: Any, run: str) -> Evaluation:
    root = str(Path(spec.paths.run).with_name(run))
    paths = TrainingPaths(root, f"{root}/checkpoints", f"{root}/tensorboard", f"{root}/adapter", spec.paths.cache)
    digest = json.loads((Path(spec.paths.adapter) / "halfstep-adapter.json").read_text())["sha256"]
    return Evaluation(EvaluationSpec(replace(spec, paths=paths), spec.paths.adapter, digest))


def test_an_evaluation_that_was_killed_repeats_no_answer_and_ends_with_the_same_scores(trained: Any) -> None:
    killed = evaluation_of(trained, "killed")
    process = killed.start()
    until(lambda: len(killed.kept()) >= 2, "the first answers", 300)
    process.kill()
    process.communicate()
    before = killed.kept()
    assert len(before) < ANSWERS
    with (killed.run_folder / "answers" / "rank-0.jsonl").open("a") as file:
        file.write('{"key": "half a li')
    code, out, err = killed.run()
    assert (code, err) == (0, ""), out
    assert f"{ANSWERS - len(before)} of {ANSWERS} answers are left" in out
    after = killed.kept()
    assert after[: len(before)] == before
    assert Counter(after).most_common(1)[0][1] == 1 and len(after) == ANSWERS

    rows = killed.answers()
    assert [(row["model"], row["task"]) for row in rows] == [
        (model, task) for model in ("adapter", "base") for _ in range(4) for task in ("apa", "mdd")
    ]
    assert all(row["reference"]["phones_said"] for row in rows)
    result = killed.result()
    assert (result.recordings, result.answers, result.step, result.rank) == (4, ANSWERS, 2, 8)
    assert [scores.model for scores in result.scores] == ["adapter", "base"]
    in_training = json.loads((Path(trained.paths.run) / "metrics.json").read_text())
    assert {"step": 2, **as_nested(result.scores[0].metrics)} == in_training
    progress = decode(Progress, json.loads((killed.run_folder / "progress.json").read_text()))
    assert (progress.step, progress.steps, progress.unit) == (ANSWERS, ANSWERS, "answer")
    events = EventAccumulator(str(killed.run_folder / "tensorboard"))
    events.Reload()
    assert {"eval/mdd/per", "eval_base/mdd/per"} <= set(events.Tags()["scalars"])

    again = killed.run()
    assert again[0] == 0 and f"0 of {ANSWERS} answers are left" in again[1]
    assert killed.result() == result


def test_two_ranks_share_the_samples_and_give_the_answers_of_one(trained: Any) -> None:
    alone, shared = evaluation_of(trained, "alone"), evaluation_of(trained, "shared")
    assert alone.run()[0] == 0
    code, out, err = shared.run(processes=2)
    assert code == 0, out + err
    assert shared.answers() == alone.answers()
    assert shared.result() == alone.result()
    parts = [len(path.read_text().splitlines()) for path in sorted(shared.run_folder.glob("answers/*"))]
    assert parts == [8, 8]


def test_an_adapter_that_has_changed_is_not_evaluated(trained: Any) -> None:
    one = evaluation_of(trained, "changed")
    code, _, err = Evaluation(replace(one.spec, adapter_sha256="0" * 64)).run()
    assert code != 0
    assert "adapter-changed" in err
