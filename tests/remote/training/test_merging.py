"""A merged checkpoint answers like the base model with its adapter."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from remote.payload.training.base_model import cast_trainable, load_model, read_base, trainable_parameters
from remote.payload.training.collator import SAMPLES
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families.registry import TINY
from remote.payload.training.merging import merge
from remote.payload.training.saving import export_adapter
from remote.policy.precision import judge_precision
from remote.protocol.merging import MergeSpec
from remote.protocol.training import FRESH, DataSpec, LoraSpec, ModelSpec, TrainingPaths, TrainingSpec
from tests.remote.training.conftest import require_bitsandbytes

PLAN = judge_precision(capability=None)
QWEN2, VOXTRAL = "tiny/qwen2-audio", "tiny/voxtral"


def random_adapter(base: Any, lora: LoraSpec, folder: Path) -> Any:
    """Return an adapter that changes what the model answers, and the model that has it."""
    torch.manual_seed(1)
    model = load_model(base, PLAN, FRESH, lora, "cpu")
    cast_trainable(model, PLAN)
    with torch.no_grad():
        for name, parameter in trainable_parameters(model):
            parameter.add_(torch.randn_like(parameter) * (0.05 if "lora_" in name else 0.01))
    export_adapter(model, str(folder), step=1, base="base")
    return model.eval()


def spec_of(base: Any, root: Path, *, dequantize: bool = False) -> MergeSpec:
    model = ModelSpec(base.source, quantization=base.quantization)
    paths = TrainingPaths(str(root), "", "", "", str(root / "cache"))
    return MergeSpec(
        TrainingSpec(model, DataSpec(), PLAN, paths), str(root / "adapter"), "", str(root / "merged"), dequantize
    )


def logits_of(model: Any, one: Any) -> torch.Tensor:
    """Return the logits of one sample, whose clip plain transformers encodes as the trainer does."""
    batch = one.collator([one.samples[1]])
    kept = {name: value for name, value in batch.items() if name not in (SAMPLES, "labels", "label_positions")}
    with torch.no_grad():
        return model(**kept).logits  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        *((name, {}) for name in sorted(TINY)),
        (QWEN2, {"use_dora": True, "use_rslora": True}),
        (VOXTRAL, {"parts": ("decoder", "projector", "encoder"), "targets": None}),
        (VOXTRAL, {"modules_to_save": ("multi_modal_projector",)}),
    ],
)
def test_the_merged_checkpoint_has_the_logits_of_base_and_adapter(
    model: str, changes: dict[str, Any], made: Callable[[str], Any], tmp_path: Path
) -> None:
    one = made(model)
    with_adapter = random_adapter(one.base, LoraSpec(r=4, alpha=8, dropout=0.0, **changes), tmp_path / "adapter")
    merge(spec_of(one.base, tmp_path))
    loaded = getattr(transformers, one.base.family.class_name).from_pretrained(tmp_path / "merged").eval()
    expected, found = logits_of(with_adapter, one), logits_of(loaded, one)
    assert torch.allclose(found, expected, atol=1e-3)
    with with_adapter.disable_adapter():
        assert not torch.allclose(logits_of(with_adapter, one), expected, atol=1e-2)
    record = json.loads((tmp_path / "merged" / "halfstep-merged.json").read_text())
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= record["files"].keys()
    again = read_base(ModelSpec(str(tmp_path / "merged")), str(tmp_path / "merged"))
    assert again.family is one.base.family


def test_weights_are_added_in_float32_and_rounded_once_to_the_precision_of_the_base(
    made: Callable[[str], Any], tmp_path: Path
) -> None:
    one = made(QWEN2)
    half = tmp_path / "half"
    plain = transformers.Qwen2AudioForConditionalGeneration.from_pretrained(one.base.source).to(torch.bfloat16)
    plain.save_pretrained(half)
    one.base.tokenizer.save_pretrained(half)
    one.base.extractor.save_pretrained(half)
    base = read_base(ModelSpec(str(half)), str(half))
    random_adapter(base, LoraSpec(r=4, alpha=8, dropout=0.0), tmp_path / "adapter")
    merge(spec_of(base, tmp_path))
    adapter = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    loaded = transformers.Qwen2AudioForConditionalGeneration.from_pretrained(tmp_path / "merged", dtype="auto")
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}
    path = "model.language_model.layers.2.mlp.up_proj"
    a, b = (adapter[f"base_model.model.{path}.lora_{side}.weight"] for side in "AB")
    wanted = (plain.get_submodule(path).weight.float() + 2.0 * (b @ a)).to(torch.bfloat16)
    assert torch.equal(loaded.get_submodule(path).weight, wanted)
    untouched = "model.audio_tower.layers.0.fc1"
    assert torch.equal(loaded.get_submodule(untouched).weight, plain.get_submodule(untouched).weight)


def test_a_base_in_nf4_is_merged_only_when_it_may_be_dequantized(made: Callable[[str], Any], tmp_path: Path) -> None:
    require_bitsandbytes()
    one = made(QWEN2)
    base = dataclasses.replace(one.base, quantization="nf4")
    with_adapter = random_adapter(base, LoraSpec(r=4, alpha=8, dropout=0.0), tmp_path / "adapter")
    with pytest.raises(TrainingFailed) as failed:
        merge(spec_of(base, tmp_path))
    assert (failed.value.name, failed.value.hint) == ("merge-quantized", "pipeline merge RUN --dequantize")
    merge(spec_of(base, tmp_path, dequantize=True))
    loaded = transformers.Qwen2AudioForConditionalGeneration.from_pretrained(tmp_path / "merged").eval()
    with_adapter.train()  # In eval mode, bitsandbytes may compute in bfloat16 on a CPU.
    assert torch.allclose(logits_of(loaded, one), logits_of(with_adapter, one), atol=2e-3)
    assert not any("absmax" in name for name in load_file(tmp_path / "merged" / "model.safetensors"))


def test_a_second_merge_replaces_the_first_one_completely(made: Callable[[str], Any], tmp_path: Path) -> None:
    one = made(VOXTRAL)
    random_adapter(one.base, LoraSpec(r=4, alpha=8), tmp_path / "adapter")
    merge(spec_of(one.base, tmp_path))
    (tmp_path / "merged" / "stale").write_text("from before")
    merge(spec_of(one.base, tmp_path))
    assert not (tmp_path / "merged" / "stale").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter", "merged"]


def test_an_adapter_that_is_gone_is_named(made: Callable[[str], Any], tmp_path: Path) -> None:
    with pytest.raises(TrainingFailed) as failed:
        merge(spec_of(made(VOXTRAL).base, tmp_path))
    assert failed.value.name == "adapter-missing"
