"""The base model: what is frozen, what is trained, and in which dtype."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import get_peft_model
from transformers import Phi4MultimodalConfig, Phi4MultimodalForCausalLM

from remote.payload.training.base_model import cast_trainable, load_model, read_base, trainable_parameters
from remote.payload.training.collator import SAMPLES
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families.registry import TINY, find_model
from remote.payload.training.label_loss import find_labels
from remote.payload.training.lora import lora_config
from remote.payload.training.saving import export_adapter
from remote.payload.training.tiny_models import tiny_model
from remote.policy.precision import judge_precision
from remote.protocol.exits import ExitCode
from remote.protocol.training import FRESH, LoraSpec, ModelSpec

PHI4, QWEN2 = "tiny/phi4-multimodal", "tiny/qwen2-audio"
both = pytest.mark.parametrize("model", [PHI4, QWEN2])
every = pytest.mark.parametrize("model", sorted(TINY))
FP16 = judge_precision(capability=(7, 5))


@both
def test_frozen_weights_are_float16_and_the_adapter_float32_on_a_turing_plan(
    model: str, made: Callable[[str], Any]
) -> None:
    adapter = load_model(made(model).base, FP16, FRESH, LoraSpec(r=4, alpha=8), "cpu")
    cast_trainable(adapter, FP16)
    dtypes = {parameter.dtype for parameter in adapter.parameters() if not parameter.requires_grad}
    assert dtypes == {torch.float16}
    assert {parameter.dtype for _, parameter in trainable_parameters(adapter)} == {torch.float32}


def test_a_half_precision_adapter_is_cast_to_float32_before_the_optimizer_is_created(
    made: Callable[[str], Any],
) -> None:
    adapter = load_model(made(PHI4).base, FP16, FRESH, LoraSpec(r=4, alpha=8), "cpu").half()
    count = cast_trainable(adapter, FP16)
    assert count == sum(p.numel() for _, p in trainable_parameters(adapter))
    assert {p.dtype for _, p in trainable_parameters(adapter)} == {torch.float32}


def test_float16_trainable_parameters_under_a_scaler_are_refused(made: Callable[[str], Any]) -> None:
    adapter = load_model(made(PHI4).base, FP16, FRESH, LoraSpec(r=4, alpha=8), "cpu")
    with pytest.raises(TrainingFailed) as failed:
        cast_trainable(adapter, replace(FP16, trainable_dtype="float16"))
    assert failed.value.name == "trainable-dtype"


def test_a_model_without_trainables_is_refused(made: Callable[[str], Any]) -> None:
    adapter = load_model(made(PHI4).base, FP16, FRESH, LoraSpec(r=4, alpha=8), "cpu").requires_grad_(False)
    with pytest.raises(TrainingFailed) as failed:
        cast_trainable(adapter, FP16)
    assert failed.value.name == "trainable-set"


@every
def test_audio_is_embedded_without_a_graph_and_deterministically(model: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    adapter = load_model(one.base, judge_precision(capability=None), FRESH, LoraSpec(r=4, alpha=8), "cpu")
    seen: list[torch.Tensor] = []
    for path in one.base.family.audio:
        module = adapter.base_model.model.get_submodule(path)
        module.register_forward_hook(
            lambda module, inputs, output: seen.append(output if torch.is_tensor(output) else output[0])
        )
    adapter.train()
    assert not any(adapter.base_model.model.get_submodule(path).training for path in one.base.family.audio)
    batch = one.collator([one.samples[0], one.samples[1]])
    del batch[SAMPLES]
    adapter(**batch)
    adapter(**batch)
    assert not any(output.requires_grad for output in seen)
    half = len(seen) // 2
    assert all(torch.equal(a, b) for a, b in zip(seen[:half], seen[half:], strict=True))


@every
def test_a_clips_embedding_does_not_depend_on_its_neighbours(model: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    adapter = load_model(one.base, judge_precision(capability=None), FRESH, LoraSpec(r=4, alpha=8), "cpu").eval()
    short, long = sorted(one.samples.samples[::2], key=lambda s: one.clip_of(s.recording).valid)[
        :: len(one.recordings) - 1
    ]
    assert one.clip_of(long.recording).valid > one.clip_of(short.recording).valid

    def loss_of(*samples: Any) -> float:
        batch = one.collator([(sample, one.clip_of(sample.recording)) for sample in samples])
        del batch[SAMPLES]
        batch["labels"][1:] = -100
        batch["label_positions"] = find_labels(batch["labels"])
        with torch.no_grad():
            return float(adapter(**batch).loss)

    assert loss_of(short, long) == pytest.approx(loss_of(short), abs=1e-5)


def test_rank_64_on_the_whole_phi4_is_92_274_688_parameters() -> None:
    """As counted from Microsoft's own adapters: 1,441,792 per rank, none of them in the towers.

    The released checkpoint has 24 attention heads, transformers' default for the class is 32.
    """
    with torch.device("meta"):
        model = Phi4MultimodalForCausalLM(
            Phi4MultimodalConfig(num_attention_heads=24, tie_word_embeddings=True)
        ).requires_grad_(False)
    config = lora_config(type("Base", (), {"family": find_model("phi4_multimodal"), "revision": None}), LoraSpec())
    adapter = get_peft_model(model, config, low_cpu_mem_usage=True)
    assert sum(parameter.numel() for _, parameter in trainable_parameters(adapter)) == 92_274_688


@pytest.mark.parametrize(("family", "word"), [("phi4mm", "phi4_multimodal"), ("llama", "supports")])
def test_a_model_of_another_family_is_refused_by_name(family: str, word: str) -> None:
    with pytest.raises(TrainingFailed, match=word) as failed:
        find_model(family)
    assert (failed.value.name, failed.value.exit_code) == ("model-unknown", ExitCode.USAGE)


def test_a_tokenizer_whose_audio_token_differs_from_the_config_is_refused(
    made: Callable[[str], Any], tmp_path: Path
) -> None:
    source = tmp_path / "model"
    shutil.copytree(made(PHI4).base.source, source)
    config = json.loads((source / "config.json").read_text())
    config["audio_config"]["audio_token_id"] = 3
    (source / "config.json").write_text(json.dumps(config))
    with pytest.raises(TrainingFailed, match=r"is token 6 in the tokenizer and 3 in config\.json"):
        read_base(ModelSpec(str(source)), str(source))


def test_a_tiny_model_is_made_once_and_always_the_same(tmp_path: Path) -> None:
    one = Path(tiny_model(PHI4, str(tmp_path / "a"), ["some words"]))
    two = Path(tiny_model(PHI4, str(tmp_path / "b"), ["some words"]))
    assert one.name == two.name
    assert {p.name: p.read_bytes() for p in one.iterdir()} == {p.name: p.read_bytes() for p in two.iterdir()}
    made_at = (one / "model.safetensors").stat().st_mtime_ns
    assert Path(tiny_model(PHI4, str(tmp_path / "a"), ["some words"])) == one
    assert (one / "model.safetensors").stat().st_mtime_ns == made_at
    assert {"tokenizer.json", "config.json", "preprocessor_config.json"} <= {p.name for p in one.iterdir()}


@both
def test_an_exported_adapter_is_trained_on_from_its_folder(
    model: str, made: Callable[[str], Any], tmp_path: Path
) -> None:
    one, plan = made(model), judge_precision(capability=None)
    adapter = load_model(one.base, plan, FRESH, LoraSpec(r=4, alpha=8, dropout=0.0), "cpu")
    with torch.no_grad():
        for _, parameter in trainable_parameters(adapter):
            parameter.normal_(std=0.1)
    digest = export_adapter(adapter, str(tmp_path / "adapter"), step=3, base=model)
    assert json.loads((tmp_path / "adapter" / "halfstep-adapter.json").read_text())["sha256"] == digest
    again = load_model(one.base, plan, str(tmp_path / "adapter"), LoraSpec(), "cpu")
    before, after = dict(trainable_parameters(adapter)), dict(trainable_parameters(again))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_exporting_again_replaces_the_whole_adapter(made: Callable[[str], Any], tmp_path: Path) -> None:
    adapter = load_model(made(PHI4).base, judge_precision(capability=None), FRESH, LoraSpec(r=4, alpha=8), "cpu")
    folder = tmp_path / "adapter"
    export_adapter(adapter, str(folder), step=1, base=PHI4)
    (folder / "stale").write_text("from before")
    export_adapter(adapter, str(folder), step=2, base=PHI4)
    assert not (folder / "stale").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["adapter"]
