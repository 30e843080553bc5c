"""Calls and overrides that the installed libraries reject are found before the script runs."""

from __future__ import annotations

import pytest

from pipeline.judgements.old_calls import judge_old_calls
from pipeline.judgements.started import files_reached
from remote.protocol.findings import Finding
from tests.pipeline.judgements.test_removed_names import COMMAND, Files

NEW = {"transformers": "5.23.0", "torch": "2.13.0+cpu", "librosa": "0.11.0", "matplotlib": "3.10.1"}
OLD = {"transformers": "4.45.2", "torch": "1.13.1", "librosa": "0.9.2", "matplotlib": "3.9.0"}
CTC = "from transformers import Trainer\nclass CTCTrainer(Trainer):\n"
STEP = f"{CTC}    def training_step(self, model, inputs{{}}):\n        pass\n"
USE = "from own import CTCTrainer\ntrainer = CTCTrainer(model=model, tokenizer=processor)\n"


def judged(code: str, packages: dict[str, str] = NEW, own: str = "") -> list[Finding]:
    files = Files({"train.py": code, "own.py": own})
    return list(judge_old_calls(files, files_reached(files, COMMAND), packages).findings)


REJECTED = [
    ("import matplotlib\ndata = fig.canvas.tostring_rgb()\n", "", 2),
    ("def image(fig):\n    return np.frombuffer(fig.canvas.tostring_rgb(), dtype='uint8')\n", "", 2),
    ("import torch\nspec = torch.stft(wave, 1024)\n", "", 2),
    ("from torch import stft\nspec = stft(wave, n_fft=1024, onesided=True)\n", "", 2),
    ("import librosa\nmel = librosa.filters.mel(22050, 1024, n_mels=80)\n", "", 2),
    ("from librosa.filters import mel as mel_fn\nmel = mel_fn(sr, n_fft)\n", "", 2),
    ("import librosa\ny, sr = librosa.load(path, 16000)\n", "", 2),
    ("import librosa\ny = librosa.resample(y, 48000, 16000)\n", "", 2),
    (STEP.format(""), "", 3),
    (f"{CTC}    def compute_loss(self, model, inputs, return_outputs=False):\n        pass\n", "", 3),
    (
        "from transformers import AutoModel\nm = AutoModel.from_pretrained('x', use_auth_token=True)\n",
        "",
        2,
    ),
    (USE, f"{CTC}    pass\n", 2),
]


@pytest.mark.parametrize(("code", "own", "line"), REJECTED)
def test_a_call_that_the_installed_version_rejects_is_reported(code: str, own: str, line: int) -> None:
    [finding] = judged(code, own=own)
    assert (finding.check, finding.where) == ("api-removed-name", f"train.py:{line}") and finding.hint
    assert judged(code, OLD, own) == []
    assert judged(code, {}, own) == []


@pytest.mark.parametrize(
    ("code", "own"),
    [
        ("import torch\nspec = torch.stft(wave, 1024, return_complex=False)\n", ""),
        ("import torch\nspec = torch.stft(wave, **options)\n", ""),
        ("import torch\nspec = torch.stft(x, 8, 2, 8, w, True, 'reflect', False, True, True)\n", ""),
        ("try:\n    spec = torch.stft(wave, 1024)\nexcept RuntimeError:\n    pass\n", ""),
        ("spec = self.stft(wave, 1024)\n", ""),
        ("import librosa\nmel = librosa.filters.mel(sr=22050, n_fft=1024)\n", ""),
        ("import librosa\ny, sr = librosa.load(path, sr=16000)\nlibrosa.resample(y, orig_sr=1, target_sr=2)\n", ""),
        ("from own import mel\nmel(22050, 1024)\nimport librosa\n", "def mel(sr, n_fft):\n    pass\n"),
        ("data = fig.canvas.buffer_rgba()  # not tostring_rgb\n", ""),
        (STEP.format(", num_items_in_batch=None"), ""),
        (STEP.format(", *args"), ""),
        (STEP.format(", **kwargs"), ""),
        (STEP.format(", items=None"), ""),
        ("class Trainer:\n    def training_step(self, model, inputs):\n        pass\n", ""),
        ("from transformers import AutoConfig\nAutoConfig.from_pretrained('x', use_auth_token=True)\n", ""),
        ("from own import SpeakerModel\nSpeakerModel.from_pretrained('x', use_auth_token=None)\n", ""),
        ("from diffusers import UNetModel\nUNetModel.from_pretrained('x', use_auth_token=True)\n", ""),
        (USE, f"{CTC}    def __init__(self, tokenizer=None, **more):\n        super().__init__(**more)\n"),
        (USE, "class CTCTrainer:\n    pass\n"),
        (f"{CTC}    pass\nCTCTrainer(tokenizer=processor)\n", ""),  # the fixer trainer-arguments renames it
    ],
)
def test_calls_that_the_installed_version_accepts_are_not_reported(code: str, own: str) -> None:
    assert judged(code, own=own) == []


@pytest.mark.parametrize(("version", "warnings"), [("4.45.2", 0), ("4.46.0", 1), ("4.57.1", 1)])
def test_trainer_passes_the_number_of_items_to_both_methods_since_4_46(version: str, warnings: int) -> None:
    step, loss = (
        STEP.format(""),
        f"{CTC}    def compute_loss(self, model, inputs, return_outputs=False):\n        pass\n",
    )
    assert [len(judged(code, {"transformers": version})) for code in (step, loss)] == [warnings, warnings]
    assert len(judged(step + loss.removeprefix(CTC), {"transformers": version})) == warnings, "the step calls the loss"
