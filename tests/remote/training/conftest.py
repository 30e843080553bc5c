"""A training spec on the shipped speech set, small enough for a test, and shared results of it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from remote.payload.training.base_model import BaseModel, read_base
from remote.payload.training.collator import Collator
from remote.payload.training.preflight import ClipReader, clip_reader
from remote.payload.training.recordings import Recording, read_recordings
from remote.payload.training.run import model_source
from remote.payload.training.samples import SampleSet, make_samples
from remote.policy.precision import judge_precision
from remote.protocol.training import AnswerSpec, DataSpec, LoopSpec, LoraSpec, ModelSpec, TrainingPaths, TrainingSpec
from remote.protocol.values import dumps
from tests.lab.threads import TELLS_LEFT_THREADS

ROOT = Path(__file__).parents[3]
SPEECH = ROOT / "examples" / "tiny-speech"
# torchrun kills its ranks 30 s after a SIGTERM by default.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "300"}
PHI4, QWEN2 = "tiny/phi4-multimodal", "tiny/qwen2-audio"

torch.set_num_threads(1)


def require_bitsandbytes() -> None:
    """Skip the test without bitsandbytes."""
    if importlib.util.find_spec("bitsandbytes") is None:
        pytest.skip("bitsandbytes is not installed")


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny models and features, created once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def make_spec(tmp_path: Path, cache: Path) -> Callable[..., TrainingSpec]:
    """A spec of 12 clips in 6 steps of 2 x 2, two epochs. Keyword arguments change it."""

    def make(
        *,
        model: str = PHI4,
        requested: str = "fp32",
        run: str = "run",
        resume_from: str = "",
        samples: int = 12,
        **loop: Any,
    ) -> TrainingSpec:
        root = tmp_path / run
        return TrainingSpec(
            model=ModelSpec(model),
            data=DataSpec(folder=str(SPEECH), samples=samples),
            precision=judge_precision(capability=None, requested=requested),
            paths=TrainingPaths(
                run=str(root),
                checkpoints=str(root / "checkpoints"),
                tensorboard=str(root / "tensorboard"),
                adapter=str(root / "adapter"),
                cache=str(cache),
                resume_from=resume_from,
            ),
            lora=LoraSpec(r=8, alpha=16, dropout=0.1),
            evaluation=AnswerSpec(samples=4, resamples=100),
            train=replace(
                LoopSpec(epochs=2, batch_size=2, gradient_accumulation=2, learning_rate=5e-3, evaluate=False), **loop
            ),
        )

    return make


@dataclass(frozen=True)
class Made:
    """One tiny model's tokenizer and extractor with the samples of eight clips."""

    base: BaseModel
    recordings: list[Recording]
    clip_of: ClipReader
    samples: SampleSet
    collator: Collator


@pytest.fixture(scope="session")
def made(cache: Path) -> Callable[[str], Made]:
    """Prepared files for a tiny model, by its id."""
    kept: dict[str, Made] = {}

    def make(model: str) -> Made:
        if model not in kept:
            recordings = read_recordings(DataSpec(folder=str(SPEECH)), "train")[18:26]
            paths = TrainingPaths("", "", "", "", str(cache))
            spec = TrainingSpec(ModelSpec(model), DataSpec(), judge_precision(capability=None), paths)
            base = read_base(spec.model, model_source(spec, recordings))
            clip_of = clip_reader(base, spec)
            samples = make_samples(recordings, ("apa", "mdd"), base.family, base.tokenizer, clip_of, {})
            kept[model] = Made(base, recordings, clip_of, samples, Collator(base.family, base.extractor, base.pad_id))
        return kept[model]

    return make


@dataclass
class Training:
    """Runs `payload train SPEC` as a process."""

    spec: TrainingSpec
    environment: dict[str, str] = field(default_factory=dict)
    python: str = sys.executable

    def start(self, processes: int = 1) -> subprocess.Popen[str]:
        path = Path(self.spec.paths.run).with_suffix(".json")
        path.write_bytes(dumps(self.spec))
        torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        return subprocess.Popen(
            [self.python, *(torchrun if processes > 1 else []), "-m", "remote.payload", "train", str(path)],
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT, **self.environment, **(TELLS_LEFT_THREADS if processes > 1 else {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, processes: int = 1) -> tuple[int, str, str]:
        """Return exit code, stdout and stderr after the process has ended."""
        process = self.start(processes)
        out, err = process.communicate(timeout=600)
        return process.returncode, out, err

    @property
    def sample_ids(self) -> list[list[str]]:
        """The samples of each optimizer step."""
        lines = (Path(self.spec.paths.run) / "samples.jsonl").read_text().splitlines()
        return [json.loads(line)["ids"] for line in lines]


@pytest.fixture
def training() -> Callable[..., Training]:
    return Training
