"""Files that take no part in the training on the card are not changed, and the plan gives the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from fixers.frame.scope import ACCELERATORS, FOREIGN, INFERENCE, LOW_BIT, TESTS
from fixers.frame.site import Site
from tests.fixers.casebook import TITAN_RTX
from tests.fixers.offers import plan_offers

HALF = "import torch\n\nmodel.to(torch.bfloat16)\n"
LAUNCH = "accelerate launch --mixed_precision bf16 train.py\n"
JAX = "import jax\nimport jax.numpy as jnp\n\ndtype = 'bfloat16'\n"
CONVERTS = """import torch
from transformers import AutoModel


def main():
    model = AutoModel.from_pretrained("a/b", torch_dtype=torch.bfloat16)
    model.save_pretrained("out")


if __name__ == "__main__":
    main()
"""
TALKS = 'from asr import Model\n\nmodel = Model(dtype="bfloat16")\nprint(model.generate("a.wav"))\n'
DECODES = "from train import add_options, get_model\n" + CONVERTS
TRAINS = CONVERTS.replace("model.save_pretrained", "optimizer = torch.optim.AdamW(model.parameters())\n    model.save")


def plan_of(root: Path, files: dict[str, str], **config: object) -> tuple[set[str], dict[str, str]]:
    """Return the changed paths, and the reason for each path that is left."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, "utf-8")
    plan = plan_offers(Site(DiskTree(root), gpu=TITAN_RTX, config=config))
    return {change.path for change in plan.changes}, {each.where: each.reason for each in plan.skipped}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("tests/test_model.py", HALF, TESTS),
        ("src/tests_gpu/steps.py", HALF, TESTS),
        ("src/test_model.py", HALF, TESTS),
        ("conftest.py", HALF, TESTS),
        ("tests/fixtures/train.yaml", "bf16: true\n", TESTS),
        ("run_flax.py", JAX, FOREIGN),
        ("data.py", 'import tensorflow as tf\n\npolicy = dict(dtype="bfloat16")\n', FOREIGN),
        ("mlx/launch.sh", LAUNCH, FOREIGN),
        ("launch_tpu.sh", LAUNCH, ACCELERATORS),
        ("scripts/sft_fp8.sh", LAUNCH, LOW_BIT),
        ("examples/ascend/train.yaml", "bf16: true\n", ACCELERATORS),
        ("run.sh", f"export ASCEND_RT_VISIBLE_DEVICES=0,1\n{LAUNCH}", ACCELERATORS),
        ("xla_train.py", f"import torch_xla.core.xla_model as xm\n{HALF}", ACCELERATORS),
        ("cpu.py", f"import intel_extension_for_pytorch as ipex\n{HALF}", ACCELERATORS),
        ("tools/to_hub.py", CONVERTS, INFERENCE),
        ("tools/to_hub.py", f'{CONVERTS}\nDTYPES = {{"bf16": torch.bfloat16, "fp16": torch.float16}}\n', INFERENCE),
        ("tools/convert_model.py", CONVERTS + "\n" + "    # a long block\n" * 300, INFERENCE),
        ("demo.py", TALKS, INFERENCE),
        ("decode.py", DECODES, INFERENCE),
        ("quantize.py", f"import torch.nn as nn\n\n\nclass Int4(nn.Module):\n    pass\n\n\n{CONVERTS}", INFERENCE),
        ("local/decode_stream.py", DECODES, INFERENCE),
    ],
)
def test_a_file_that_no_training_on_the_card_runs_is_unchanged_and_the_reason_is_given(
    tmp_path: Path, path: str, text: str, reason: str
) -> None:
    assert plan_of(tmp_path, {path: text}) == (set(), {path: reason})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/model.py", HALF),
        ("src/attestation/model.py", HALF),
        ("src/latest_model.py", HALF),
        ("train.py", f"try:\n    import torch_npu\nexcept ImportError:\n    torch_npu = None\n{HALF}"),
        ("train.py", f"import tensorflow as tf\n{HALF}"),
        ("train.py", f"def to_jax(x):\n    import jax\n    return jax.numpy.asarray(x)\n\n\n{HALF}"),
        ("run.sh", f"export CUDA_VISIBLE_DEVICES=0  # else ASCEND_RT_VISIBLE_DEVICES\n{LAUNCH}"),
        ("input.sh", LAUNCH),
        ("scripts/sft_fp16.sh", LAUNCH),
        ("finetune.py", TRAINS),
        ("decode.py", TRAINS),
        ("evaluate_later.py", DECODES),
        ("demo_train.py", TALKS),
        ("tools/to_hub.py", f'{CONVERTS}\nSETTINGS = {{"bf16": True}}\n'),
        ("model.py", f"import torch.nn as nn\n\n\nclass Net(nn.Module):\n    pass\n\n\n{CONVERTS}"),
    ],
)
def test_a_file_that_only_resembles_an_excluded_one_is_still_changed(tmp_path: Path, path: str, text: str) -> None:
    changed, left = plan_of(tmp_path, {path: text})
    assert (path in changed, left) == (True, {})


def test_a_launch_script_is_left_if_it_starts_only_jax_scripts(tmp_path: Path) -> None:
    changed, left = plan_of(
        tmp_path,
        {
            "speech/run_asr.py": JAX,
            "speech/scripts/asr.sh": "python run_asr.py --dtype bfloat16\n",
            "speech/scripts/sweep.yaml": "program: run_asr.py\nparameters:\n  dtype:\n    value: bfloat16\n",
            "torch/run_asr.py": HALF,
            "torch/asr.sh": "python run_asr.py --dtype bfloat16\n",
        },
    )
    assert changed == {"torch/run_asr.py", "torch/asr.sh"}
    assert left == dict.fromkeys(("speech/run_asr.py", "speech/scripts/asr.sh", "speech/scripts/sweep.yaml"), FOREIGN)


def test_a_script_that_another_file_imports_is_changed(tmp_path: Path) -> None:
    changed, left = plan_of(tmp_path, {"tools/to_hub.py": CONVERTS, "train.py": "from tools.to_hub import main\n"})
    assert (changed, left) == ({"tools/to_hub.py"}, {})
    (tmp_path / "train.py").write_text("from hub import tools\n", "utf-8")
    assert plan_of(tmp_path, {}) == (set(), {"tools/to_hub.py": INFERENCE})


@pytest.mark.parametrize("command", [["python", "tools/to_hub.py"], ["python", "-m", "tools.to_hub"]])
def test_a_script_that_the_command_names_is_changed(tmp_path: Path, command: list[str]) -> None:
    assert plan_of(tmp_path, {"tools/to_hub.py": CONVERTS}, command=command) == ({"tools/to_hub.py"}, {})


def test_the_reason_is_the_same_from_the_cache(tmp_path: Path) -> None:
    first = plan_of(tmp_path, {"tools/to_hub.py": CONVERTS, "train.py": HALF})
    assert plan_of(tmp_path, {}) == first


def test_a_script_that_only_tests_import_is_left(tmp_path: Path) -> None:
    imports = "from tools.to_hub import main\n"
    assert plan_of(tmp_path / "a", {"tools/to_hub.py": CONVERTS, "tests/test_hub.py": imports})[0] == set()
    assert plan_of(tmp_path / "b", {"tools/to_hub.py": CONVERTS, "train.py": imports})[0] == {"tools/to_hub.py"}
