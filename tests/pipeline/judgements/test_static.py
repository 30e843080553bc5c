"""What code asks for, judged without running it."""

from __future__ import annotations

import pytest

from pipeline.judgements.static import judge_static
from remote.protocol.exits import ExitCode
from remote.protocol.precision import judge_precision

TURING = judge_precision(capability=(7, 5))
AMPERE = judge_precision(capability=(8, 0))


class Files:
    def __init__(self, **files: str) -> None:
        self._files = {name.replace("_py", ".py"): text.encode() for name, text in files.items()}

    def paths(self):
        return self._files

    def read(self, path):
        return self._files[path]


def told(text, plan=TURING):
    return [(finding.check, finding.where) for finding in judge_static(Files(train_py=text), plan).findings]


@pytest.mark.parametrize(
    ("text", "check", "line"),
    [
        ("import torch\nTrainingArguments('o', fp16=True, max_grad_norm=None)\n", "folk-no-clipping", 2),
        (
            "import torch\nm = load(dtype=torch.float16)\nTrainingArguments('o', fp16=False)\n",
            "folk-autocast-off",
            3,
        ),
        (
            "import torch\nm = load().half()\ns = torch.amp.GradScaler('cuda', enabled=False)\n",
            "folk-autocast-off",
            3,
        ),
        (
            "import torch\nm = load(torch_dtype=torch.float16)\nwith torch.autocast('cuda', enabled=False):\n    m()\n",
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
def test_what_cannot_work_is_told_with_its_line(text, check, line):
    assert told(text) == [(check, f"train.py:{line}")]


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n# max_grad_norm=None is what people try\n",
        "import torch\nTrainingArguments('o', fp16=True, max_grad_norm=1.0)\n",
        "import torch\nm = load(dtype=torch.float32)\nTrainingArguments('o', fp16=False)\n",
        "import torch\ns = GradScaler('cuda')\ns.unscale_(o)\nclip_grad_norm_(p, 1.0)\n",
        "import torch\nGradScaler('cuda')\naccelerator.clip_grad_norm_(p, 1.0)\n",
        "import torch\nmodel.enable_input_require_grads()\ncheckpoint(f, x, use_reentrant=True)\n",
        "import torch\nm = get_peft_model(load(dtype=torch.float16), c)\nTrainingArguments('o', fp16=True)\n",
        "import torch\nwith torch.autocast('cuda', dtype=torch.float16):\n    pass\nGradScaler('cuda')\n",
        "import torch\nthis does not parse\n",
        "max_grad_norm = dict(max_grad_norm=None)\n",
    ],
)
def test_what_is_right_or_only_mentioned_is_left_alone(text):
    assert told(text) == []


def test_the_folk_fixes_are_refused_with_the_exit_code_of_precision():
    report = judge_static(Files(train_py="import torch\nTrainingArguments('o', max_grad_norm=None)\n"), TURING)
    assert not report.ok
    assert report.errors[0].exit_code is ExitCode.PRECISION


def test_a_card_that_needs_no_scaler_may_leave_clipping_out():
    assert told("import torch\nTrainingArguments('o', bf16=True, max_grad_norm=None)\n", AMPERE) == []


def test_the_plans_own_findings_come_first():
    plan = judge_precision(capability=(7, 5), wish="bf16")
    assert [finding.check for finding in judge_static(Files(), plan).findings] == ["bf16-unsupported"]
