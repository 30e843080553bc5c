"""Steps are counted from the optimizer; whether a job resumed is observed at its first step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remote.payload.proof.hooks.resumed import step_in
from remote.protocol.jobs import Progress
from remote.protocol.values import decode

SCRIPTS = Path(__file__).parent / "scripts"
LOOP = """
import os, torch
model = torch.nn.Linear(4, 1)
optimizer = {optimizer}
{load}
for step in range({steps}):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
{save}
"""
ADAM = "torch.optim.AdamW(model.parameters(), lr=1e-3)"
SGD = "torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)"
SAVE_ONE = "torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict()}, 'last.pt')"
LOAD_ONE = """
state = torch.load('last.pt')
model.load_state_dict(state['model'])
optimizer.load_state_dict(state['optimizer'])
"""
SAVE_PARTS = """
os.makedirs('checkpoint-90', exist_ok=True)
torch.save(model.state_dict(), 'checkpoint-90/model.bin')
torch.save(optimizer.state_dict(), 'checkpoint-90/optimizer.bin')
open('checkpoint-90/trainer_state.json', 'w').write('{"global_step": 90}')
"""
LOAD_PARTS = """
model.load_state_dict(torch.load('checkpoint-90/model.bin'))
optimizer.load_state_dict(torch.load('checkpoint-90/optimizer.bin'))
"""
LOAD_WEIGHTS = "model.load_state_dict(torch.load('checkpoint-90/model.bin'))"
TRAINER = """
import os, sys, torch
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def forward(self, x, labels=None):
        return {{"loss": (self.layer(x) - labels).pow(2).mean()}}

rows = [{{"x": torch.randn(4), "labels": torch.randn(1)}} for _ in range(64)]
args = TrainingArguments("out", per_device_train_batch_size=4, max_steps={steps}, save_steps=5, report_to=[],
                         use_cpu=True, optim="{optim}", disable_tqdm=True)
Trainer(Model(), args, train_dataset=rows).train({given})
"""


@pytest.fixture
def train(watch, tmp_path):
    """Run a script as one job of a run in `tmp_path`. Return its progress, and the findings about its start."""

    def run(script: str, **environment: str):
        (tmp_path / "watch.jsonl").unlink(missing_ok=True)
        path = tmp_path / "train.py"
        path.write_text(script)
        lines, status, output = watch(path, **environment)
        assert status == 0, output[-2000:]
        progress = decode(Progress, json.loads((tmp_path / "progress.json").read_text()))
        return progress, [(line["severity"], line["message"]) for line in lines if line["check"] == "resume"]

    return run


def loop(optimizer=ADAM, load="", steps=9, save=""):
    return LOOP.format(optimizer=optimizer, load=load, steps=steps, save=save)


def trainer(steps=8, given="", optim="adamw_torch"):
    return TRAINER.format(steps=steps, given=given, optim=optim)


def test_a_script_that_ignores_the_offered_checkpoint_counts_from_0_and_is_warned_of(train) -> None:
    progress, findings = train(loop(), HALFSTEP_RESUME_FROM="/runs/a/checkpoints/checkpoint-90")
    assert (progress.step, progress.began) == (9, 0)
    ((severity, words),) = findings
    assert severity == "warning"
    assert words.startswith("started again at step 0: the optimizer holds no state of checkpoint-90, and none")
    assert "HALFSTEP_RESUME_FROM" in words


def test_a_trainer_without_resume_counts_from_0(train, tmp_path) -> None:
    train(trainer())
    progress, findings = train(trainer(), HALFSTEP_RESUME_FROM=str(tmp_path / "out" / "checkpoint-5"))
    assert (progress.step, progress.began) == (8, 0)
    assert [severity for severity, _ in findings] == ["warning"]


@pytest.mark.parametrize("optim", ["adamw_torch", "sgd"])
def test_a_trainer_that_resumes_from_the_offered_checkpoint_continues_the_step_count(train, tmp_path, optim) -> None:
    train(trainer(optim=optim))
    given = 'os.environ.get("HALFSTEP_RESUME_FROM") or None'
    offered = str(tmp_path / "out" / "checkpoint-5")
    progress, findings = train(trainer(12, given, optim), HALFSTEP_RESUME_FROM=offered)
    assert (progress.step, progress.began) == (12, 5)
    assert findings == [("info", "resumed at step 5, from out/checkpoint-5")]


def test_a_trainer_that_finds_its_newest_checkpoint_itself_continues_the_step_count(train, tmp_path) -> None:
    train(trainer(11))
    offered = str(tmp_path / "out" / "checkpoint-5")
    progress, findings = train(trainer(14, 'get_last_checkpoint("out")'), HALFSTEP_RESUME_FROM=offered)
    assert (progress.step, progress.began) == (14, 11)
    assert findings == [("info", "resumed at step 11, from out/checkpoint-11")]


def test_a_plain_loop_that_loads_its_own_checkpoint_continues_the_step_count(train) -> None:
    first, findings = train(loop(save=SAVE_ONE))
    assert (first.step, first.began, findings) == (9, 0, [])
    progress, findings = train(loop(load=LOAD_ONE, steps=4))
    assert (progress.step, progress.began) == (13, 9)
    assert findings == [("info", "resumed at step 9, from last.pt")]


def test_loading_only_weights_does_not_count_as_a_resume(train, tmp_path) -> None:
    train(loop(save=SAVE_PARTS))
    progress, findings = train(loop(load=LOAD_WEIGHTS), HALFSTEP_RESUME_FROM=str(tmp_path / "checkpoint-90"))
    assert (progress.step, progress.began) == (9, 0)
    ((severity, words),) = findings
    assert severity == "warning"
    assert "and the checkpoint's files were read" in words


def test_steps_that_the_loss_scaler_skipped_before_are_steps_of_the_trainer(train, tmp_path) -> None:
    train(loop(steps=88, save=SAVE_PARTS))
    progress, _ = train(loop(load=LOAD_PARTS), HALFSTEP_RESUME_FROM=str(tmp_path / "checkpoint-90"))
    assert (progress.step, progress.began) == (99, 90)


def test_without_a_count_in_the_optimizer_the_step_comes_from_the_checkpoint_s_name_or_is_unknown(train) -> None:
    train(loop(SGD, save=SAVE_PARTS + SAVE_ONE))
    progress, _ = train(loop(SGD, LOAD_PARTS))
    assert (progress.step, progress.began) == (99, 90)
    progress, findings = train(loop(SGD, LOAD_ONE))
    assert (progress.step, progress.began) == (9, None)
    assert findings == [("info", "resumed at an unknown step (the optimizer has no step count), from last.pt")]


OWN_STATE = """
class Averaging(torch.optim.SGD):
    def train(self):
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter]["average"] = parameter.detach().clone()
optimizer = Averaging(model.parameters(), lr=1e-3)
optimizer.train()
"""
LOAD_WEIGHTS_OF_ONE = "model.load_state_dict(torch.load('last.pt')['model'])"


@pytest.mark.parametrize("load", ["", LOAD_WEIGHTS_OF_ONE], ids=["first-start", "weights-of-an-earlier-run"])
def test_state_that_an_optimizer_created_itself_does_not_count_as_a_resume(load, train) -> None:
    train(loop(save=SAVE_ONE))
    progress, findings = train(loop(load=OWN_STATE + load))
    assert (progress.step, progress.began, findings) == (9, 0, [])


def test_an_optimizer_without_a_count_whose_state_was_loaded_has_resumed(train) -> None:
    train(loop(load=OWN_STATE, save=SAVE_ONE))
    progress, findings = train(loop(load=OWN_STATE + LOAD_ONE))
    assert (progress.step, progress.began) == (9, None)
    assert findings == [("info", "resumed at an unknown step (the optimizer has no step count), from last.pt")]


def test_an_accelerate_loop_that_loads_its_state_continues_the_step_count(train) -> None:
    script = """
import sys, torch
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
{load}
for step in range(6):
    accelerator.backward(model(torch.randn(8, 4)).pow(2).mean())
    optimizer.step()
    optimizer.zero_grad()
accelerator.save_state("state_6")
"""
    train(script.format(load=""))
    progress, findings = train(script.format(load='accelerator.load_state("state_6")'))
    assert (progress.step, progress.began) == (12, 6)
    assert findings == [("info", "resumed at step 6, from state_6")]


def test_a_file_that_the_script_wrote_itself_is_no_checkpoint(train) -> None:
    progress, findings = train(loop(load="torch.save({}, 'optimizer.pt'); torch.load('optimizer.pt')"))
    assert (progress.step, progress.began, findings) == (9, 0, [])


def test_the_step_is_the_number_that_a_checkpoints_name_ends_in() -> None:
    names = ("/x/checkpoint-7/", "step_10.pt", "model-v2.pt", "epoch-3", "")
    assert [step_in(name) for name in names] == [7, 10, 0, 0, 0]
