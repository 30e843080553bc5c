"""Inference code that shares a module with a training program: its casts change with the casts of the module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import ACCELERATE, changed, planned

SPEECH = """import torch


class Speech(torch.nn.Linear):
    def generate(self, sound):
        if self.weight.dtype == torch.float16 or self.weight.dtype == torch.bfloat16:
            sound = sound.to(torch.bfloat16)
        return self(sound)
"""
LOADED = """import torch


class Speech(torch.nn.Linear):
    dtype = torch.bfloat16
"""
READS = """import torch
from speech import Speech


def show(text):
    print(text)


model = Speech(2, 2).to(torch.bfloat16)
show(model.generate(sound))
"""
THROUGH = (
    "import torch\n\n\ndef load_model():\n    from speech import Speech\n\n    return Speech(2, 2).to(torch.bfloat16)\n"
)
DATA = "import torch\nimport speech\n\nfor sound in sounds:\n    print(sound.to(torch.bfloat16).shape)\n"
TRAINING = f"from speech import Speech\n{ACCELERATE}\nSpeech(2, 2).generate(batch)\n"


@pytest.mark.parametrize(
    "files",
    [
        {"infer.py": READS},
        {"infer_all.py": "from loading import load_model\n", "loading.py": THROUGH},
        {"notes.py": "", "deep/demo.py": READS},
    ],
)
def test_inference_code_of_a_module_whose_casts_change_is_changed(tmp_path: Path, files: dict[str, str]) -> None:
    found = changed(planned(tmp_path, {"train.py": TRAINING, "speech.py": SPEECH, **files}))
    assert "sound.to(torch.float16)" in found["speech.py"]
    assert set(found) == {"train.py", "speech.py", *(path for path, text in files.items() if "bfloat16" in text)}


@pytest.mark.parametrize(
    "files",
    [
        {"infer.py": READS, "speech.py": LOADED},
        {"infer.py": READS.replace("from speech import", "from other import")},
        {"show.py": DATA},
        {"infer.py": READS, "train.py": ACCELERATE},
    ],
    ids=["no cast changes", "the module is not imported", "no model is named", "no training uses the module"],
)
def test_other_inference_code_stays(tmp_path: Path, files: dict[str, str]) -> None:
    found = changed(planned(tmp_path, {"train.py": TRAINING, "speech.py": SPEECH, **files}))
    assert not {"infer.py", "show.py"} & set(found)


@pytest.mark.parametrize(
    "test",
    ["x.dtype in (torch.float16, torch.bfloat16)", "x.dtype == torch.half or x.dtype == torch.bfloat16"],
)
def test_a_cast_in_a_branch_that_float16_takes_too_is_changed(tmp_path: Path, test: str) -> None:
    body = f"\n\ndef narrow(x):\n    if {test}:\n        x = x.to(torch.bfloat16)\n    return x\n\n\nnarrow(model)\n"
    assert "x = x.to(torch.float16)" in changed(planned(tmp_path, {"train.py": f"{ACCELERATE}{body}"}))["train.py"]


@pytest.mark.parametrize(
    "test",
    [
        "x.dtype == torch.bfloat16",
        "x.dtype == torch.bfloat16 and y.dtype == torch.float16",
    ],
)
def test_a_cast_in_a_branch_for_bfloat16_stays(tmp_path: Path, test: str) -> None:
    body = f"\n\ndef narrow(x):\n    if {test}:\n        x = x.to(torch.bfloat16)\n    return x\n\n\nnarrow(model)\n"
    assert "x = x.to(torch.bfloat16)" in changed(planned(tmp_path, {"train.py": f"{ACCELERATE}{body}"}))["train.py"]


NEVER_CALLED = """import torch


class Speech(torch.nn.Linear):
    def generate(self, sound):
        return self(sound)


def narrow(batch):
    return batch.to(torch.bfloat16)
"""


@pytest.mark.parametrize("reads", [READS, f"{READS}\n\ndef unused():\n    pass\n"])
def test_inference_code_that_does_not_reach_the_changed_casts_stays(tmp_path: Path, reads: str) -> None:
    training = f"from speech import narrow\n{ACCELERATE}\nnarrow(batch)\n"
    found = changed(planned(tmp_path, {"train.py": training, "speech.py": NEVER_CALLED, "infer.py": reads}))
    assert set(found) == {"train.py", "speech.py"}
    reaching = f"{READS.replace('import Speech', 'import Speech, narrow')}\nnarrow(sound)\n"
    assert "infer.py" in changed(planned(tmp_path, {"infer.py": reaching}))


SERVES = """import argparse
import torch
from speech import Speech


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="base")
    args = parser.parse_args()
    model = Speech.from_pretrained(args.name, torch_dtype=torch.bfloat16)
    with torch.no_grad():
        print(model.generate(read(args.name).bfloat16()))


if __name__ == "__main__":
    main()
"""
MERGES = """import torch
from speech import Speech

if __name__ == "__main__":
    model = Speech.from_pretrained("base")
    model.encoder.to(dtype=torch.bfloat16)
    model = add_adapter(model, "out").merge_and_unload()
    model.save_pretrained("merged")
"""


@pytest.mark.parametrize("path", ["app.py", "tools/serve_speech.py", "answer_questions.py"])
def test_a_script_that_never_trains_is_changed_with_the_casts_that_it_runs(tmp_path: Path, path: str) -> None:
    files = {"train.py": TRAINING, "speech.py": SPEECH, path: SERVES}
    plan = planned(tmp_path, files)
    assert set(changed(plan)) == set(files)
    assert "torch_dtype=torch.float16" in changed(plan)[path]
    assert ".half()" in changed(plan)[path]
    assert path not in [each.where for each in plan.skipped]
    again = planned(tmp_path / "again", changed(plan))
    assert changed(again) == {}


@pytest.mark.parametrize(
    "files",
    [
        {"app.py": SERVES, "speech.py": LOADED},
        {"app.py": SERVES.replace("from speech import", "from other import")},
        {"app.py": SERVES, "train.py": ACCELERATE},
        {"tests/test_app.py": SERVES},
    ],
    ids=["no cast changes", "the module is not imported", "no training uses the module", "it is a test"],
)
def test_other_scripts_that_never_train_stay(tmp_path: Path, files: dict[str, str]) -> None:
    found = changed(planned(tmp_path, {"train.py": TRAINING, "speech.py": SPEECH, **files}))
    assert not {"app.py", "tests/test_app.py"} & set(found)


@pytest.mark.parametrize("path", ["merge_adapter.py", "finish.py"])
def test_a_script_that_only_loads_and_saves_a_model_stays(tmp_path: Path, path: str) -> None:
    files = {"train.py": TRAINING, "speech.py": SPEECH}
    assert path not in changed(planned(tmp_path, {**files, path: MERGES}))
    computing = MERGES.replace("    model.save", "    print(model.generate(sound))\n    model.save")
    assert path in changed(planned(tmp_path / "computing", {**files, path: computing}))
