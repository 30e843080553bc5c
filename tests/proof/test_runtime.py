"""`fixers: {runtime: auto}` applies the precision plan inside the process; without it the same script fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.diagnosis.diagnose import diagnose_text
from remote.policy.precision import judge_precision
from remote.protocol.runtime import runtime_environment

SCRIPTS = Path(__file__).parent / "scripts"
TURING = runtime_environment(judge_precision(capability=(7, 5)))
PACKAGE = """
import mini
import torch

def load():
    return mini.build().half()

def load_tied():
    model = mini.build()
    model.head.weight.requires_grad_(True)
    model.embedding.weight = torch.nn.Parameter(model.head.weight.data)
    model = model.half()
    for layer in model.layers:
        layer.norm.float()
    return model
"""
START = """
import hashlib, json, sys
sys.path.insert(0, "venv/site-packages")
import mini, torch, speechpack
from torch import nn
losses = []
torch.manual_seed(3)
batches = [mini.batch() for _ in range(8)]
"""
END = """
def describe(value):
    content = bytes(value.contiguous().view(torch.uint8).flatten().tolist())
    return [str(value.dtype).removeprefix("torch."), hashlib.sha256(content).hexdigest(), bool(value.isfinite().all())]
weights = {name: describe(value) for name, value in model.state_dict().items()}
json.dump({"losses": losses, "weights": weights}, open("left.json", "w"))
"""
SCALED = """
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for batch in batches:
    with torch.autocast("cpu", {dtype}):
        loss = model(**batch)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    losses.append(float(loss.detach()))
"""
PLAIN = """
optimizer = torch.optim.{optimizer}
for at, batch in enumerate(batches):
    with torch.autocast("cpu", {dtype}):
        loss = model(**batch) * {factor}
    loss.backward()
    if at % {accumulate} == {accumulate} - 1:
        nn.utils.clip_grad_norm_(mini.trained(model), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    losses.append(float(loss.detach()))
"""
ADAMW = "AdamW(mini.trained(model), lr=1e-3)"
CAST = "for p in model.parameters():\n    p.data = p.data.float() if p.requires_grad else p.data\n"


def plain(*, optimizer=ADAMW, dtype="torch.float16", factor="1.0", accumulate=1):
    return PLAIN.format(optimizer=optimizer, dtype=dtype, factor=factor, accumulate=accumulate)


@pytest.fixture
def train(forkserver, tmp_path):
    """A function that runs a script to its end under the watch. Returns exit status, output, losses and weights."""

    def run(body: str, *, runtime: bool, **environment: str):
        folder = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        (folder / "venv" / "site-packages").mkdir(parents=True)
        (folder / "venv" / "site-packages" / "speechpack.py").write_text(PACKAGE)
        (folder / "train.py").write_text(START + body + END)
        given = {"HALFSTEP_PROOF": "", "HALFSTEP_WATCH": str(folder), "HALFSTEP_RUN_DIR": str(folder), **environment}
        order = {"script": str(folder / "train.py"), "folder": str(folder), "path": str(SCRIPTS)}
        status = forkserver({**order, "environment": {**given, **(TURING if runtime else {})}})
        return Ran(folder, status)

    return run


class Ran:
    """The files that a script left in its folder."""

    def __init__(self, folder, status):
        self.folder, self.status = folder, status
        self.output = (folder / "output.log").read_text()

    @property
    def losses(self):
        return json.loads((self.folder / "left.json").read_text())["losses"]

    @property
    def weights(self):
        """Map each name to the dtype, the digest of the values, and whether they are finite."""
        return json.loads((self.folder / "left.json").read_text())["weights"]

    @property
    def notices(self):
        lead = "halfstep runtime: "
        return [line.removeprefix(lead) for line in self.output.splitlines() if line.startswith(lead)]


def test_installed_code_that_loads_half_weights_trains_like_the_script_fixed_by_hand(train):
    loaded = "model = speechpack.load()\n"
    scaled = SCALED.format(dtype="torch.float16")
    without = train(loaded + scaled, runtime=False)
    assert without.status == 1
    assert diagnose_text(without.output)[0].check == "fp16-unscale"
    by_hand = train(loaded + CAST + scaled, runtime=False)
    ran = train(loaded + scaled, runtime=True)
    assert (ran.status, ran.losses) == (0, by_hand.losses), ran.output
    assert ran.weights == by_hand.weights
    assert ran.notices == ["cast 8 trained tensors from float16 to float32 before AdamW was made at train.py:11"]


def test_a_plain_loop_whose_float16_gradients_would_vanish_changes_its_weights(train):
    body = "model = mini.build()\n" + plain(factor="1e-9", optimizer="SGD(mini.trained(model), lr=1e9)")
    start = "model = mini.build()\n"
    first = train(start, runtime=False).weights
    without, ran = train(body, runtime=False), train(body, runtime=True)
    assert (without.status, ran.status) == (0, 0), ran.output
    assert without.weights == first
    assert ran.weights != first
    assert ran.notices[0].startswith("scale the loss by 65536 at first, because no other code scales it at train.py:")


@pytest.mark.parametrize(
    "body",
    [
        "model = mini.build()\n" + SCALED.format(dtype="torch.float16"),
        pytest.param("model = mini.build().float()\n" + plain(dtype="enabled=False")),
    ],
    ids=["float16 with a scaler", "float32"],
)
def test_a_healthy_script_ends_with_the_same_bits(body, train):
    without, ran = train(body, runtime=False), train(body, runtime=True)
    assert (without.status, ran.status, ran.notices) == (0, 0, []), ran.output
    assert ran.losses == without.losses
    assert ran.weights == without.weights


@pytest.mark.parametrize("accumulate", [1, 4])
def test_a_scaled_plain_loop_equals_the_same_loop_with_a_scaler(accumulate, train):
    scaled = plain(accumulate=accumulate).replace("loss.backward()", "scaler.scale(loss).backward()")
    scaled = scaled.replace("        nn.utils.clip", "        scaler.unscale_(optimizer)\n        nn.utils.clip")
    scaled = scaled.replace("optimizer.step()", "scaler.step(optimizer)\n        scaler.update()")
    model = "model = mini.build()\n"
    by_hand = train(model + "scaler = torch.amp.GradScaler('cpu')\n" + scaled, runtime=False)
    ran = train(model + plain(accumulate=accumulate), runtime=True)
    assert (by_hand.status, ran.status) == (0, 0), by_hand.output + ran.output
    assert ran.losses == by_hand.losses
    assert ran.weights == by_hand.weights


def test_a_step_that_overflows_is_skipped_and_the_scale_falls_and_is_kept_for_a_resumed_run(train):
    body = "model = mini.build()\n" + plain(factor="2e2")
    ran = train(body, runtime=True)
    assert ran.status == 0, ran.output
    assert "skipped a step whose gradients overflowed; the loss scale is 32768" in ran.notices
    assert all(finite for _, _, finite in ran.weights.values())
    scale = json.loads((ran.folder / "runtime-scale.json").read_text())["scale"]
    resumed = train(body, runtime=True, HALFSTEP_RESUME_FROM="checkpoint-8", HALFSTEP_RUN_DIR=str(ran.folder))
    assert resumed.notices[0] == f"continue with the loss scale {scale:g} of the previous job"
    assert not any(line.startswith("skipped") for line in resumed.notices)


def test_a_model_in_pure_half_without_autocast_trains(train):
    body = "model = mini.build().to(torch.bfloat16)\n" + plain(dtype="enabled=False")
    ran = train(body, runtime=True)
    assert ran.status == 0, ran.output
    assert any("cast 8 trained tensors from bfloat16 to float32" in line for line in ran.notices)
    assert any("frozen tensors from bfloat16 to float16" in line for line in ran.notices)
    assert any("compute Mini under autocast in float16" in line for line in ran.notices)
    dtypes = {("lora" in name, dtype) for name, (dtype, _, _) in ran.weights.items()}
    assert dtypes == {(True, "float32"), (False, "float16")}


def test_tied_parameters_stay_tied(train):
    body = (
        "model = speechpack.load_tied()\nassert model.head.weight is not model.embedding.weight\n"
        "model.embedding.weight.data = model.head.weight.data\nmodel.embedding.weight.requires_grad_(False)\n"
        + SCALED.format(dtype="torch.float16")
        + "assert model.head.weight.data_ptr() == model.embedding.weight.data_ptr()\n"
    )
    ran = train(body, runtime=True)
    assert ran.status == 0, ran.output
    assert ran.weights["embedding.weight"][0] == "float32"


def test_a_cast_after_the_optimizer_was_made_is_undone_for_trained_tensors(train):
    late = SCALED.format(dtype="torch.float16").replace("scaler =", "model.half()\nscaler =")
    body = "model = mini.build()\n" + late
    assert train(body, runtime=False).status == 1
    ran = train(body, runtime=True)
    assert ran.status == 0, ran.output
    assert ran.notices[0].startswith("undid a cast of 8 trained tensors to half precision at train.py:")


def test_groups_of_parameters_and_generators_are_cast_too(train):
    named = "def named(part):\n    return (p for name, p in model.named_parameters() if part in name)\n"
    groups = "AdamW([{'params': named('_A')}, {'params': named('_B'), 'lr': 1e-2}], lr=1e-3)"
    body = "model = speechpack.load()\n" + named + plain(optimizer=groups)
    ran = train(body, runtime=True)
    assert ran.status == 0, ran.output
    assert {dtype for name, (dtype, _, _) in ran.weights.items() if "lora" in name} == {"float32"}


def test_copies_that_the_command_steps_itself_keep_their_gradients(train):
    """Master weights: gradients of half-precision weights that no optimizer holds are unscaled too."""
    body = (
        "model = mini.build().half()\nheld = mini.trained(model)\n"
        "copies = [nn.Parameter(p.detach().float()) for p in held]\noptimizer = torch.optim.SGD(copies, lr=0.1)\n"
        "for batch in batches:\n    with torch.autocast('cpu', torch.float16):\n        loss = model(**batch)\n"
        "    loss.backward()\n    for copy, p in zip(copies, held):\n        copy.grad = p.grad.float()\n"
        "    losses.append(float(nn.utils.clip_grad_norm_(copies, 1e9)))\n    optimizer.step()\n"
        "    for copy, p in zip(copies, held):\n        p.data.copy_(copy.data)\n        p.grad = None\n"
    )
    without, ran = train(body, runtime=False), train(body, runtime=True)
    assert ran.status == 0, ran.output
    assert ran.losses == pytest.approx(without.losses, rel=0.05)


def test_the_proof_runs_with_the_plan_applied(prove, tmp_path):
    """A bfloat16 autocast whose dtype comes from a TOML file, in a plain loop without a scaler."""
    (tmp_path / "train.toml").write_text('dtype = "bfloat16"\n')
    (tmp_path / "train.py").write_text(
        "import mini, tomllib, torch\ncfg = tomllib.load(open('train.toml', 'rb'))\nmodel = mini.build()\n"
        "optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)\nfor _ in range(8):\n"
        "    with torch.autocast('cpu', getattr(torch, cfg['dtype'])):\n        loss = model(**mini.batch())\n"
        "    loss.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
    )
    report = prove(tmp_path / "train.py", runtime=True)
    assert report.report.errors == (), report.findings
    found = {finding.check: finding.message for finding in report.findings}
    assert found["runtime"].startswith("autocast in float16 instead of bfloat16 at train.py:6; scale the loss by 65536")
    assert found["scaler"] == "the loss is scaled by `fixers: {runtime: auto}`"
    assert [step.scale for step in report.steps] == [65536.0] * len(report.steps)


@pytest.mark.parametrize("library", ["accelerate", "trainer"])
def test_mixed_precision_of_a_library_becomes_float16(library, prove, tmp_path):
    bodies = {
        "accelerate": "from accelerate import Accelerator\nmodel = mini.build().float()\n"
        "optimizer = torch.optim.AdamW(mini.trained(model), lr=1e-3)\naccelerator = Accelerator(cpu=True)\n"
        "model, optimizer = accelerator.prepare(model, optimizer)\nfor _ in range(8):\n"
        "    loss = model(**mini.batch())\n    accelerator.backward(loss)\n    optimizer.step()\n"
        "    optimizer.zero_grad()\n",
        "trainer": "from transformers import Trainer, TrainingArguments\n"
        "class Data(torch.utils.data.Dataset):\n    def __len__(self):\n        return 24\n"
        "    def __getitem__(self, at):\n        return {k: v[0] for k, v in mini.batch(rows=1).items()}\n"
        "class Own(Trainer):\n    def compute_loss(self, model, inputs, **kwargs):\n        return model(**inputs)\n"
        "args = TrainingArguments('out', bf16=True, use_cpu=True, max_steps=6, report_to=[], save_strategy='no',\n"
        "    per_device_train_batch_size=2, remove_unused_columns=False)\n"
        "Own(mini.build().float(), args, train_dataset=Data()).train()\n",
    }
    (tmp_path / "train.py").write_text("import mini, torch\n" + bodies[library])
    environment = {"ACCELERATE_MIXED_PRECISION": "bf16"} if library == "accelerate" else {}
    report = prove(tmp_path / "train.py", runtime=True, environment=environment)
    assert report.report.errors == (), (report.findings, report.output_tail)
    found = {finding.check: finding.message for finding in report.findings}
    words = {
        "accelerate": "ACCELERATE_MIXED_PRECISION is fp16 instead of bf16",
        "trainer": "TrainingArguments uses fp16 instead of bf16 at train.py:11",
    }
    assert words[library] in found["runtime"]
    assert "autocast" in {unseen.check for unseen in report.unseen}


def test_a_plan_that_no_process_applied_is_an_error(prove, tmp_path):
    (tmp_path / "train.py").write_text("print('no torch at all')\n")
    report = prove(tmp_path / "train.py", runtime=True)
    assert "runtime" in {finding.check for finding in report.report.errors}
