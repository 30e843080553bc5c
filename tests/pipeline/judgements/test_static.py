"""Findings about code that is not executed."""

from __future__ import annotations

import pytest

from pipeline.judgements.static import judge_static, without_refuted
from remote.policy.precision import judge_precision
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity

TURING = judge_precision(capability=(7, 5))
AMPERE = judge_precision(capability=(8, 0))


class Files:
    def __init__(self, **files: str) -> None:
        self._files = {name.replace("_py", ".py"): text.encode() for name, text in files.items()}

    def paths(self):
        return self._files

    def read(self, path):
        return self._files[path]


def found_in(text, plan=TURING):
    return [(finding.check, finding.where) for finding in judge_static(Files(train_py=text), plan).findings]


@pytest.mark.parametrize(
    ("text", "check", "line"),
    [
        ("import torch\nTrainingArguments('o', fp16=True, max_grad_norm=None)\n", "folk-no-clipping", 2),
        (
            "import torch\nm = load(dtype=torch.float16)\nTrainer(m, TrainingArguments('o', fp16=False)).train()\n",
            "folk-autocast-off",
            3,
        ),
        (
            "import torch\nm = load().half()\ns = torch.amp.GradScaler('cuda', enabled=False)\nl.backward()\n",
            "folk-autocast-off",
            3,
        ),
        (
            "import torch\nm = load(torch_dtype=torch.float16)\nwith torch.autocast('cuda', enabled=False):\n"
            "    m().backward()\n",
            "folk-autocast-off",
            3,
        ),
        ("import torch\nscaler._unscale_grads_ = lambda *a: None\n", "folk-unscale-patched", 2),
        (
            "import torch\ns = torch.amp.GradScaler('cuda')\ntorch.nn.utils.clip_grad_norm_(p, 1.0)\n",
            "clip-before-unscale",
            3,
        ),
        (
            "import torch\na = TrainingArguments('o', gradient_checkpointing_kwargs={'use_reentrant': True})\n",
            "checkpoint-reentrant",
            2,
        ),
        ("import torch\ncheckpoint(f, x, use_reentrant=True)\n", "checkpoint-reentrant", 2),
        (
            "import torch\nm = load(dtype=torch.float16)\nTrainer(m, TrainingArguments('o', fp16=True))\n",
            "trainable-dtype",
            2,
        ),
    ],
)
def test_code_that_cannot_work_is_reported_with_its_line(text, check, line):
    assert found_in(text) == [(check, f"train.py:{line}")]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n# max_grad_norm=None is what people try\n",
        "import torch\nTrainingArguments('o', fp16=True, max_grad_norm=1.0)\n",
        "import torch\nm = load(dtype=torch.float32)\nTrainingArguments('o', fp16=False)\n",
        "import torch\ns = GradScaler('cuda')\ns.unscale_(o)\nclip_grad_norm_(p, 1.0)\n",
        "import torch\nm = load(dtype=torch.float16)\nTrainer(m, TrainingArguments('o', fp16=False)).evaluate()\n",
        "import torch\nm = load().half()\nwith torch.autocast('cuda', dtype=torch.float16):\n    y = m(x)\n"
        "    with torch.autocast('cuda', enabled=False):\n        ce(y, z).backward()\n",
        "import torch\nm = load().half()\nwith torch.autocast('cuda', enabled=False):\n"
        "    ce(m(x).float(), z).backward()\n",
        "import torch\nclass Norm(M):\n    def forward(self, x):\n        with torch.autocast('cuda', enabled=False):\n"
        "            return self.half()(x)\n",
        "import torch\nGradScaler('cuda')\naccelerator.clip_grad_norm_(p, 1.0)\n",
        "import torch\nmodel.enable_input_require_grads()\ncheckpoint(f, x, use_reentrant=True)\n",
        "import torch\nm = get_peft_model(load(dtype=torch.float16), c)\nTrainingArguments('o', fp16=True)\n",
        "import torch\nwith torch.autocast('cuda', dtype=torch.float16):\n    pass\nGradScaler('cuda')\n",
        "import torch\nthis does not parse\n",
        "max_grad_norm = dict(max_grad_norm=None)\n",
    ],
)
def test_correct_code_and_code_in_comments_is_not_reported(text):
    assert found_in(text) == []


def test_popular_wrong_fixes_are_refused_with_the_exit_code_of_precision():
    report = judge_static(Files(train_py="import torch\nTrainingArguments('o', max_grad_norm=None)\n"), TURING)
    assert not report.ok
    assert report.errors[0].exit_code is ExitCode.PRECISION


def test_a_card_that_needs_no_scaler_may_leave_clipping_out():
    assert found_in("import torch\nTrainingArguments('o', bf16=True, max_grad_norm=None)\n", AMPERE) == []


def test_the_plans_own_findings_come_first():
    plan = judge_precision(capability=(7, 5), requested="bf16")
    assert [finding.check for finding in judge_static(Files(), plan).findings] == ["bf16-unsupported"]


CLIPS = "import torch\ns = torch.amp.GradScaler('cuda')\ntorch.nn.utils.clip_grad_value_(p, 1.0)\n"


def test_gradients_may_be_unscaled_in_another_file():
    helper = "import torch\ndef clip(scaler, optimizer):\n    scaler.unscale_(optimizer)\n"
    assert [finding.check for finding in judge_static(Files(train_py=CLIPS), TURING).findings] == [
        "clip-before-unscale"
    ]
    assert judge_static(Files(train_py=CLIPS, a_py=helper), TURING).findings == ()
    assert judge_static(Files(train_py=CLIPS, z_py=helper), TURING).findings == ()


def test_a_static_warning_does_not_stop_the_proof_and_is_dropped_if_refuted():
    text = CLIPS + "TrainingArguments('o', max_grad_norm=None)\n"
    asked = judge_static(Files(train_py=text), TURING)
    assert [finding.check for finding in asked.errors] == ["folk-no-clipping"]
    well = [Finding(name, Severity.INFO, "well") for name in ("clip-before-unscale", "folk-no-clipping")]
    assert [finding.check for finding in without_refuted(asked, Report(tuple(well))).findings] == ["folk-no-clipping"]
    bad = Finding("clip-before-unscale", Severity.ERROR, "seen")
    assert without_refuted(asked, Report((bad,))) == asked


@pytest.mark.parametrize("message", ["made of a model that cannot be named", "no line can be put here"])
def test_a_warning_of_a_fixer_is_dropped_if_the_proof_refutes_it(message):
    doubt = Report((Finding("trainable-fp32", Severity.WARNING, message, "train.py:7"),))
    well = Finding("trainable-dtype", Severity.INFO, "all 4 trained tensors are float32")
    bad = Finding("trainable-dtype", Severity.ERROR, "4 of 4 trained tensors are float16")
    assert without_refuted(doubt, Report((well,))).findings == ()
    assert without_refuted(doubt, Report((bad,))) == doubt
    refused = Report((Finding("trainable-fp32", Severity.ERROR, "not this"),))
    assert without_refuted(refused, Report((well,))) == refused
