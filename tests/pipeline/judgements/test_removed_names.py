"""Names, arguments and hooks that the installed libraries lack are found before the script runs."""

from __future__ import annotations

import pytest

from fixers.sources.removed_names import instead_of_argument
from pipeline.judgements.removed_names import judge_removed
from pipeline.judgements.started import files_reached
from remote.protocol.findings import Finding

NEW = {
    "transformers": "5.23.0", "datasets": "5.2.0", "peft": "0.21.2", "accelerate": "1.15.0", "trl": "1.16.0",
    "pytorch-lightning": "2.6.6", "lightning": "2.6.6",
}  # fmt: skip
OLD = {
    "transformers": "4.30.2", "datasets": "2.14.0", "peft": "0.4.0", "accelerate": "0.21.0", "trl": "0.7.0",
    "pytorch-lightning": "1.9.5", "lightning": "1.9.5",
}  # fmt: skip
COMMAND = ("python", "train.py")


class Files:
    def __init__(self, files: dict[str, str]) -> None:
        self._files = {name: text.encode() for name, text in files.items()}

    def paths(self):
        return self._files

    def read(self, path):
        return self._files[path]


def judged(code: str, packages: dict[str, str] = NEW, **others: str) -> list[Finding]:
    files = {"train.py": code} | {name.replace("_py", ".py"): text for name, text in others.items()}
    tree = Files(files)
    return list(judge_removed(tree, files_reached(tree, COMMAND), packages).findings)


NAMES = (
    (
        "from transformers import Trainer, AdamW\n",
        "from torch.optim import AdamW; AdamW(..., weight_decay=0.0, eps=1e-6)",
    ),
    ("import transformers as tf\ntf.AdamW([], lr=1)\n", "from torch.optim import AdamW"),
    ("from transformers.optimization import AdamW as Adam\n", "from torch.optim import AdamW"),
    ("from transformers import AutoModelWithLMHead\n", "AutoModelForCausalLM"),
    ("from transformers import TFAutoModel\n", "AutoModel:"),
    ("from transformers import ViTFeatureExtractor\n", "ViTImageProcessor"),
    ("import datasets\nwer = datasets.load_metric('wer')\n", "evaluate.load(...)"),
    ("from peft import prepare_model_for_int8_training\n", "prepare_model_for_kbit_training"),
    ("from trl import DataCollatorForCompletionOnlyLM\n", "completion_only_loss=True"),
    ("from pytorch_lightning.metrics import Accuracy\n", "torchmetrics"),
    ("import pytorch_lightning.metrics as metrics\n", "torchmetrics"),
    ("from lightning.pytorch.utilities.seed import seed_everything\n", "import seed_everything"),
    ("import transformers\nwith processor.as_target_processor():\n    pass\n", "processor(text=...)"),
    ("import transformers\nids = tokenizer.encode_plus('a')\n", "tokenizer(text, ...)"),
)


@pytest.mark.parametrize(("code", "instead"), NAMES)
def test_a_removed_name_is_reported_with_its_line_and_replacement(code: str, instead: str) -> None:
    [finding] = judged(code)
    assert finding.check == "api-removed-name"
    assert finding.where == f"train.py:{2 if code.startswith('import ') and code.count(chr(10)) > 1 else 1}"
    assert instead in finding.hint


@pytest.mark.parametrize(("code", "instead"), NAMES)
def test_a_name_that_the_installed_version_has_is_not_reported(code: str, instead: str) -> None:
    assert judged(code, OLD) == []
    assert judged(code, {}) == []


LIGHTNING = (
    ("gpus=1", 'accelerator="gpu", devices=1'),
    ("gpus=[0, 1]", 'accelerator="gpu", devices=VALUE'),
    ("gpus=0", 'accelerator="cpu"'),
    ("tpu_cores=8", 'accelerator="tpu", devices=8'),
    ("progress_bar_refresh_rate=20", "TQDMProgressBar(refresh_rate=20)"),
    ("resume_from_checkpoint=args.ckpt", "ckpt_path=args.ckpt"),
    ("checkpoint_callback=saver", "callbacks=[...]"),
    ("weights_summary=None", "enable_model_summary=False"),
    ("auto_scale_batch_size='power'", "Tuner(trainer).scale_batch_size(model)"),
    ("accelerator='ddp'", 'strategy="ddp"'),
    ("strategy='dp'", 'strategy="ddp"'),
)


@pytest.mark.parametrize("module", ["pytorch_lightning", "lightning", "lightning.pytorch"])
@pytest.mark.parametrize(("argument", "instead"), LIGHTNING)
def test_an_argument_that_lightning_2_rejects_is_reported(module: str, argument: str, instead: str) -> None:
    code = f"import {module} as pl\ntrainer = pl.Trainer(\n    max_epochs=1,\n    {argument},\n)\n"
    [finding] = judged(code)
    assert (finding.check, finding.where) == ("api-lightning", "train.py:4")
    assert instead in finding.hint
    assert judged(code, OLD) == []


@pytest.mark.parametrize(
    "value",
    [
        '"out/$(id)"', "f'{a}`id`'", '"x) next: sh pipeline run"', "$", "a\\\n | b", "(1,\n 2)", "[0, 1]", "a" * 41,
        "-x", "f(1)", "'4'", "a if b else c", "\u00fc", "a.b()", "1;id",
    ],
)  # fmt: skip
@pytest.mark.parametrize("argument", ["weights_save_path", "gpus", "flush_logs_every_n_steps"])
def test_a_value_of_the_code_is_repeated_only_if_it_is_a_name_or_a_number(argument: str, value: str) -> None:
    assert instead_of_argument(argument, value) == instead_of_argument(argument, "VALUE")


@pytest.mark.parametrize("value", ["1", "-1", "0.5", "1e-3", "True", "None", "args.gpus", "n_gpus", "1_000"])
def test_a_name_or_a_number_of_the_code_is_repeated(value: str) -> None:
    [finding] = judged(f"from pytorch_lightning import Trainer\nTrainer(weights_save_path={value})\n")
    assert finding.hint == f"default_root_dir={value}"


@pytest.mark.parametrize(
    "argument", ['weights_save_path="out/$(id)"', "accelerator=('d'  # next: $(id)\n 'dp')", "strategy='$(id)' 'dp'"]
)
def test_no_text_of_the_code_is_in_a_finding_about_an_argument(argument: str) -> None:
    for finding in judged(f"from pytorch_lightning import Trainer\nTrainer({argument})\n"):
        assert "id" not in finding.hint and "id)" not in finding.message


@pytest.mark.parametrize("argument", ["accelerator='gpu'", "strategy='ddp_spawn'", "devices=1", "precision=16"])
def test_an_argument_that_lightning_2_accepts_is_not_reported(argument: str) -> None:
    assert judged(f"from pytorch_lightning import Trainer\nTrainer({argument})\n") == []


def test_a_trainer_of_transformers_may_have_an_argument_of_lightning() -> None:
    assert judged("from transformers import Trainer\nTrainer(gpus=1)\n") == []


def test_a_hook_that_lightning_2_rejects_is_reported() -> None:
    code = "import pytorch_lightning as pl\nclass Net(pl.LightningModule):\n    def {}(self, outputs): pass\n"
    [finding] = judged(code.format("training_epoch_end"))
    assert (finding.check, finding.where) == ("api-lightning", "train.py:3")
    assert finding.hint.startswith("on_train_epoch_end(self)")
    assert judged(code.format("on_train_epoch_end")) == []
    assert (
        judged("import pytorch_lightning\n" + code.format("test_epoch_end").replace("pl.LightningModule", "Own")) == []
    )


@pytest.mark.parametrize(
    "code",
    [
        "try:\n    from transformers import AdamW\nexcept ImportError:\n    from torch.optim import AdamW\n",
        "import transformers\nif transformers.__version__ < '4.50':\n    from transformers import AdamW\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from transformers import AdamW\n",
        "from torch.optim import AdamW\nimport transformers\nAdamW([])\n",
        "import transformers\nclass Own:\n    def encode_plus(self): pass\nOwn().encode_plus()\n",
        "from .transformers import AdamW\n",
        "from transformers import AdamW (\n",
    ],
)
def test_code_that_handles_several_versions_or_has_its_own_name_is_not_reported(code: str) -> None:
    assert judged(code) == []


def test_only_files_that_the_command_imports_are_judged() -> None:
    old = "from transformers import AdamW\n"
    assert [each.where for each in judged("import part\n", part_py=old, old_py=old)] == ["part.py:1"]


METHOD = "import transformers\nfrom models import Model\nmodel = Model.from_pretrained('x')\n"
CALL = METHOD + "model.freeze_feature_extractor()\n"


@pytest.mark.parametrize(
    "models",
    [
        "import transformers\nclass Model(transformers.Wav2Vec2PreTrainedModel):\n"
        "    def freeze_feature_extractor(self):\n        self.frozen = True\n",
        "import transformers\nclass Model(Wav2Vec2ForCTC):\n    freeze_feature_extractor = _freeze\n",
        "Model.freeze_feature_extractor = freeze\n",
    ],
)
@pytest.mark.parametrize("name", ["models.py", "other/models.py"])
def test_a_method_that_a_class_of_the_project_defines_is_not_reported(models: str, name: str) -> None:
    assert judged(CALL, **{name: models}) == []


@pytest.mark.parametrize(
    "models", ["def freeze(model):\n    model.freeze_feature_extractor()\n", "model.freeze_feature_extractor == 1\n"]
)
def test_a_method_that_the_project_only_calls_is_reported(models: str) -> None:
    assert [each.where for each in judged(CALL, models_py=models)] == ["train.py:4"]


def test_a_package_of_the_project_is_not_the_library() -> None:
    files = Files(
        {"train.py": "from datasets import load_metric\n", "datasets/__init__.py": "def load_metric(): pass\n"}
    )
    assert judge_removed(files, files_reached(files, COMMAND), NEW).findings == ()


def test_a_script_that_starts_programs_is_judged_without_files_that_it_does_not_import() -> None:
    old = "from transformers import AdamW\n"
    assert [each.where for each in judged(f"import subprocess\n{old}", old_py=old)] == ["train.py:2"]


def test_a_module_that_python_starts_is_judged() -> None:
    files = Files({"speech/train.py": "from transformers import AdamW\n", "speech/__init__.py": ""})
    found = judge_removed(files, files_reached(files, ("python", "-m", "speech.train")), NEW).findings
    assert [each.where for each in found] == ["speech/train.py:1"]


SHELL_STARTS = [
    'source train.env\nexec accelerate launch --num_processes "$NPROC" train.py "$@"\n',
    "SCRIPT=train.py\nexec accelerate launch $SCRIPT $*\n",
    'exec python "$(dirname "$0")/train.py" "$@"\n',
    'HERE=$(dirname "$0")\nexec accelerate launch "$HERE/train.py" "$@"\n',
    'cd "$(dirname "${BASH_SOURCE[0]}")"\n${PYTHON:-python} train.py "$@"\n',
    'script=${SCRIPT:-train.py}\nexec torchrun --nproc_per_node=1 "${script}" "$@"\n',
    "exec bash start\n",
]


@pytest.mark.parametrize("command", [("./finetune", "tiny.json"), ("bash", "finetune"), ("./finetune",)])
@pytest.mark.parametrize("script", SHELL_STARTS)
def test_a_script_that_a_shell_script_without_an_ending_starts_is_judged(script: str, command: tuple[str, ...]) -> None:
    files = Files(
        {
            "finetune": f"#!/usr/bin/env bash\nset -e\n{script}",
            "start": 'python train.py "$@"\n',
            "train.env": "export NPROC=1\n",
            "train.py": "from transformers.utils import send_example_telemetry\n",
            "old.py": "from transformers import AdamW\n",
        }
    )
    found = judge_removed(files, files_reached(files, command), NEW).findings
    assert [each.where for each in found] == ["train.py:1"]


@pytest.mark.parametrize("words", [("train.py",), ("other.py",)])
def test_a_script_that_only_the_arguments_of_a_shell_script_name_is_judged(words: tuple[str, ...]) -> None:
    old = "from transformers import AdamW\n"
    files = Files({"start": '#!/bin/sh\nexec accelerate launch "$@"\n', "train.py": old, "other.py": old})
    found = judge_removed(files, files_reached(files, ("./start", *words)), NEW).findings
    assert [each.where for each in found] == [f"{words[0]}:1"]
