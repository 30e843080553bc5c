"""Hub revisions that can move, such as branches: resolved once, recorded with the run, and kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from remote.payload.training.revisions import known_commits, read_commits
from remote.protocol.evaluation import EvaluationSpec
from remote.protocol.exits import ExitCode
from remote.protocol.training import DataSpec, ModelSpec, TrainingSpec
from remote.protocol.values import dumps
from tests.lab.hub import COMMIT, Hub, Repository, serve
from tests.remote.training.conftest import ENVIRONMENT, ROOT, Training

MODEL, DATA, BRANCH = "lab/speech-model", "lab/speech-data", "refs/pr/70"
MOVED = "b" * 40
PIN = """
import json, logging, sys
from remote.payload.training.revisions import pin_revisions
from remote.protocol.training import TrainingSpec
from remote.protocol.values import decode
logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
spec = pin_revisions(decode(TrainingSpec, json.loads(sys.argv[1])), json.loads(sys.argv[2]))
print(json.dumps([spec.model.revision, spec.data.revision]))
"""


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A hub with a model and a data set, of two commits each; every branch is at the first."""
    refs = {"main": COMMIT, BRANCH: COMMIT}
    model = Repository({"config.json": b"{}"}, commits={MOVED: {"config.json": b"{ }"}}, refs=dict(refs))
    data = Repository({"README.md": b"one"}, commits={MOVED: {"README.md": b"two"}}, refs=dict(refs))
    with serve(Hub({MODEL: model, DATA: data})) as served:
        yield served


@pytest.fixture
def pin(hub: Hub, make_spec: Callable[..., TrainingSpec], tmp_path: Path) -> Callable[..., tuple[Any, str]]:
    """Pins the revisions of a run in a process; returns those of model and data, and what it logged."""

    def run(
        run: str, model: str | None = BRANCH, data: str | None = None, known: Any = None, **more: str
    ) -> tuple[Any, str]:
        spec = replace(make_spec(run=run), model=ModelSpec(MODEL, model), data=DataSpec(dataset=DATA, revision=data))
        done = subprocess.run(
            [sys.executable, "-c", PIN, dumps(spec).decode(), json.dumps(known or {})],
            cwd=ROOT,
            env={**os.environ, **hub.environment, "HF_HOME": str(tmp_path / "home"), **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return json.loads(done.stdout), done.stderr

    return run


def move(hub: Hub) -> None:
    for repository in hub.repositories.values():
        repository.refs = dict.fromkeys(repository.refs, MOVED)


def test_a_run_keeps_the_commits_of_its_first_job_and_a_new_run_takes_the_newest(
    hub: Hub, pin: Callable[..., tuple[Any, str]], tmp_path: Path
) -> None:
    pinned, said = pin("one")
    assert pinned == [COMMIT, COMMIT]
    assert f"model {MODEL}: {BRANCH} is commit {COMMIT}, which this run keeps" in said
    assert f"dataset {DATA}: main is commit {COMMIT}, which this run keeps" in said
    move(hub)
    before = len(hub.requests)
    pinned, said = pin("one")
    assert pinned == [COMMIT, COMMIT]
    assert f"model {MODEL}: {BRANCH} is commit {COMMIT}, as recorded with the run" in said
    assert len(hub.requests) == before, "a recorded commit needs no hub"
    assert pin("two")[0] == [MOVED, MOVED]
    assert read_commits(str(tmp_path / "one")) == {f"model {MODEL}@{BRANCH}": COMMIT, f"dataset {DATA}@main": COMMIT}


def test_an_unreachable_hub_leaves_the_commit_that_the_cache_has(hub: Hub, pin: Callable[..., tuple[Any, str]]) -> None:
    pin("one")
    move(hub)
    assert pin("offline", HF_HUB_OFFLINE="1")[0] == [COMMIT, COMMIT]
    assert pin("unreachable", HF_ENDPOINT="http://127.0.0.1:9")[0] == [COMMIT, COMMIT]


def test_an_unresolvable_revision_is_left_to_the_load_that_follows(
    pin: Callable[..., tuple[Any, str]], tmp_path: Path
) -> None:
    pinned, said = pin("one", model="nowhere")
    assert pinned == ["nowhere", COMMIT]
    assert f"model {MODEL}: nowhere is not resolved to a commit and can move" in said
    assert read_commits(str(tmp_path / "one")) == {f"dataset {DATA}@main": COMMIT}


def test_a_commit_needs_no_hub_and_an_adapter_brings_its_own_commits(
    hub: Hub, pin: Callable[..., tuple[Any, str]]
) -> None:
    assert pin("one", model=MOVED, data=MOVED)[0] == [MOVED, MOVED]
    assert pin("two", data=MOVED, known={f"model {MODEL}@{BRANCH}": MOVED})[0] == [MOVED, MOVED]
    assert hub.requests == []


@pytest.mark.parametrize("record", [None, [], {}, {"revisions": 1}, {"revisions": {"model a@main": "main"}}])
def test_a_record_without_commits_pins_none(record: Any) -> None:
    assert known_commits(record) == {}


@pytest.mark.train
@pytest.mark.timeout(900)
def test_a_resumed_run_and_its_evaluation_load_the_model_that_the_first_job_loaded(
    made: Callable[[str], Any], make_spec: Callable[..., TrainingSpec], tmp_path: Path
) -> None:
    source = Path(made("tiny/phi4-multimodal").base.source)
    files = {path.name: path.read_bytes() for path in source.iterdir() if path.is_file()}
    large = frozenset(name for name in files if name.endswith(".safetensors"))
    # A load of the second commit fails.
    repository = Repository(files, large, commits={MOVED: {"config.json": b'{"model_type": "llama"}'}})
    with serve(Hub({MODEL: repository})) as served:
        environment = {**served.environment, "HF_HOME": str(tmp_path / "home")}
        spec = replace(make_spec(max_steps=2, gradient_accumulation=1, save_steps=1), model=ModelSpec(MODEL))
        code, out, err = Training(spec, environment).run()
        assert code == 0, out + err
        move(served)
        checkpoint = str(Path(spec.paths.checkpoints) / "checkpoint-1")
        again = replace(spec, paths=replace(spec.paths, resume_from=checkpoint))
        code, out, err = Training(again, environment).run()
        assert code == 0, out + err
        assert f"model {MODEL}: main is commit {COMMIT}, as recorded with the run" in out
        adapter = Path(spec.paths.adapter)
        assert json.loads((adapter / "adapter_config.json").read_text())["revision"] == COMMIT
        record = json.loads((adapter / "halfstep-adapter.json").read_text())
        assert record["revisions"] == {f"model {MODEL}@main": COMMIT}
        evaluated = replace(spec, paths=replace(spec.paths, run=str(tmp_path / "evaluated")))
        path = tmp_path / "evaluation.json"
        path.write_bytes(dumps(EvaluationSpec(evaluated, str(adapter), record["sha256"])))
        done = subprocess.run(
            [sys.executable, "-m", "remote.payload", "evaluate", str(path)],
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT, **environment},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        code, _, err = Training(replace(spec, paths=replace(spec.paths, run=str(tmp_path / "new"))), environment).run()
        assert (code, "llama" in err) == (ExitCode.USAGE, True)
