"""What gets an adapter, what is trained in full, and a base model of four bits."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from peft import PeftModel

from remote.payload.checkpoints.published import newest_verified
from remote.payload.training.base_model import cast_trainable, load_model, trainable_parameters
from remote.payload.training.collator import SAMPLES
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families.registry import TINY
from remote.payload.training.memory import Estimator, Shape
from remote.payload.training.saving import export_adapter
from remote.policy.precision import judge_precision
from remote.protocol.training import FRESH, LoraSpec
from tests.remote.training.conftest import require_bitsandbytes
from tests.remote.training.test_training_memory import peak_of_two_steps

PHI4, QWEN2, VOXTRAL = "tiny/phi4-multimodal", "tiny/qwen2-audio", "tiny/voxtral"
PLAN = judge_precision(capability=None)
LORA = LoraSpec(r=4, alpha=8, dropout=0.0)
NF4 = "nf4"


def quantized(base: Any) -> Any:
    require_bitsandbytes()
    return dataclasses.replace(base, quantization=NF4)


def batch_of(one: Any, *places: int) -> dict[str, Any]:
    batch = one.collator([one.samples[i] for i in places])
    return {name: value for name, value in batch.items() if name != SAMPLES}


def adapted(base: Any, lora: LoraSpec, plan: Any = PLAN) -> Any:
    torch.manual_seed(0)
    model = load_model(base, plan, FRESH, lora, "cpu")
    cast_trainable(model, plan)
    return model


@pytest.mark.parametrize("part", ["projector", "encoder"])
@pytest.mark.parametrize("model", sorted(TINY))
def test_gradients_reach_each_layer_of_a_part_and_no_other(model: str, part: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    adapter = adapted(one.base, dataclasses.replace(LORA, parts=(part,)))
    adapter.train()
    with torch.no_grad():
        for name, parameter in trainable_parameters(adapter):
            if "lora_B" in name:
                parameter.normal_(std=0.1)
    adapter(**batch_of(one, 1)).loss.backward()
    trained = trainable_parameters(adapter)
    assert trained
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for _, parameter in trained)
    described = getattr(one.base.family, part)
    assert {name.split(".lora_")[0].rpartition(".")[2] for name, _ in trained} == set(described.linear)
    assert all("layers" not in name or "audio" in name or "encoder" in name or "qformer" in name for name, _ in trained)


def test_a_trained_encoder_stays_in_eval_mode_except_for_the_dropout_of_its_adapter(made: Callable[[str], Any]) -> None:
    one = made("tiny/granite-speech")
    adapter = adapted(one.base, LoraSpec(r=4, alpha=8, dropout=0.5, parts=("encoder",)))
    adapter.train()
    encoder = adapter.get_base_model().get_submodule("model.encoder")
    modes = {type(module).__name__: module.training for module in encoder.modules() if not list(module.children())}
    assert modes["BatchNorm1d"] is False
    own = [module.training for name, module in encoder.named_modules() if name.endswith("lora_dropout.default")]
    assert own and all(own)
    assert not any(m.training for n, m in encoder.named_modules() if n.endswith("attn.dropout"))
    losses = {adapter(**batch_of(one, 1)).loss.item() for _ in range(2)}
    assert len(losses) == 1, "lora_B is zero, so the dropout of the adapter does not show, and there is no other"
    adapter.eval()
    assert not any(module.training for module in encoder.modules())


def test_modules_to_save_are_trained_in_full_and_loaded_by_plain_peft(
    made: Callable[[str], Any], tmp_path: Path
) -> None:
    one = made(VOXTRAL)
    adapter = adapted(one.base, dataclasses.replace(LORA, modules_to_save=("multi_modal_projector",)))
    optimizer = torch.optim.AdamW([parameter for _, parameter in trainable_parameters(adapter)], lr=1e-2)
    for _ in range(2):
        adapter(**batch_of(one, 0, 1)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    export_adapter(adapter, str(tmp_path / "adapter"), step=2, base=VOXTRAL)
    plain = transformers.VoxtralForConditionalGeneration.from_pretrained(one.base.source, dtype=torch.float32)
    before = plain.model.multi_modal_projector.linear_1.weight.clone()
    loaded = PeftModel.from_pretrained(plain, str(tmp_path / "adapter"))
    after = loaded.get_base_model().model.multi_modal_projector.modules_to_save["default"].linear_1.weight
    ours = dict(trainable_parameters(adapter))
    [name] = [name for name in ours if name.endswith("linear_1.weight")]
    assert torch.equal(after, ours[name])
    assert not torch.equal(after, before)


def test_rslora_scales_by_the_root_of_the_rank_and_dora_trains_magnitudes(made: Callable[[str], Any]) -> None:
    one = made(PHI4)
    layer = adapted(one.base, dataclasses.replace(LORA, use_rslora=True)).get_base_model().model.layers[0]
    assert layer.mlp.down_proj.scaling == {"default": 8 / 4**0.5}
    adapter = adapted(one.base, dataclasses.replace(LORA, use_dora=True))
    adapter(**batch_of(one, 1)).loss.backward()
    magnitudes = [parameter for name, parameter in trainable_parameters(adapter) if "magnitude" in name]
    assert len(magnitudes) == 4 * 4
    assert all(parameter.grad.abs().sum() > 0 for parameter in magnitudes)


@pytest.mark.parametrize("model", sorted(TINY))
def test_nf4_packs_the_linear_layers_of_the_decoder_only(model: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    adapter = adapted(quantized(one.base), LORA)
    kinds = {(name, type(module).__name__) for name, module in adapter.get_base_model().named_modules()}
    packed = {name.split(".base_layer")[0] for name, kind in kinds if kind == "Linear4bit"}
    decoder = one.base.family.decoder
    assert {name.rpartition(".")[2] for name in packed} == set(decoder.linear)
    assert len(packed) == 4 * len(decoder.linear)
    adapter.train()
    adapter(**batch_of(one, 1)).loss.backward()
    assert all(parameter.grad.isfinite().all() for _, parameter in trainable_parameters(adapter))


def test_nf4_computes_in_float16_on_a_card_without_bfloat16(made: Callable[[str], Any]) -> None:
    base = quantized(made(QWEN2).base)
    turing, hopper = (judge_precision(capability=capability) for capability in ((7, 5), (9, 0)))
    for plan, wanted in ((turing, torch.float16), (hopper, torch.bfloat16)):
        model = load_model(base, plan, FRESH, LORA, "cpu").get_base_model()
        assert model.model.language_model.layers[0].mlp.up_proj.base_layer.compute_dtype == wanted


@pytest.mark.parametrize(
    ("model", "changes", "quantization"),
    [
        (QWEN2, {}, NF4),
        (PHI4, {"use_dora": True}, None),
        (VOXTRAL, {"modules_to_save": ("multi_modal_projector",)}, None),
        ("tiny/granite-speech", {"parts": ("decoder", "projector")}, None),
        ("tiny/qwen2.5-omni", {"parts": ("projector",)}, NF4),
    ],
)
def test_the_estimate_is_near_the_real_peak(
    model: str, changes: dict[str, Any], quantization: str | None, made: Callable[[str], Any]
) -> None:
    one, lora = made(model), LoraSpec(r=8, alpha=16, dropout=0.1, **changes)
    base = quantized(one.base) if quantization else one.base
    batches = [one.collator([one.samples[i]]) for i in (1, 3)]
    real = peak_of_two_steps(adapted(base, lora), PLAN, batches)
    shape = Shape(1, batches[1]["labels"].shape[1], len(batches[1]["label_positions"]))
    assert Estimator(base, PLAN, FRESH, lora, on_card=False).peak_bytes(shape, 0) == pytest.approx(real, rel=0.06)


@pytest.mark.parametrize(
    ("changes", "quantization", "reason"),
    [({"parts": ("encoder",)}, None, "the encoder is trained"), ({"use_dora": True}, NF4, "DoRA needs")],
)
def test_a_model_that_cannot_be_estimated_is_reported_with_the_reason(
    changes: dict[str, Any], quantization: str | None, reason: str, made: Callable[[str], Any]
) -> None:
    base = quantized(made(PHI4).base) if quantization else made(PHI4).base
    estimator = Estimator(base, PLAN, FRESH, dataclasses.replace(LORA, **changes), on_card=False)
    with pytest.raises(RuntimeError, match=reason):
        estimator.peak_bytes(Shape(1, 8, 2), 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"targets": ("q_proj", "o_prj")}, "lora.targets: o_prj: the decoder has no such layer; did you mean o_proj?"),
        ({"targets": ("fc1",)}, "lora.targets: fc1: the decoder has no such layer"),
        ({"modules_to_save": ("multi_modal_projctor",)}, "no such module; did you mean multi_modal_projector?"),
        ({"modules_to_save": ("embed_tokens",)}, "embed_tokens shares the weights of the token embeddings"),
    ],
)
def test_a_module_that_cannot_be_trained_is_refused_before_weights_are_loaded(
    changes: dict[str, Any], words: str, made: Callable[[str], Any]
) -> None:
    with pytest.raises(TrainingFailed) as failed:
        Estimator(made(QWEN2).base, PLAN, FRESH, dataclasses.replace(LORA, **changes), on_card=False)
    assert failed.value.name == "lora-modules"
    assert words in failed.value.message


@pytest.mark.train
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("model", "changes", "quantization"),
    [
        (PHI4, {"use_dora": True, "use_rslora": True}, None),
        (VOXTRAL, {"modules_to_save": ("multi_modal_projector",)}, None),
        ("tiny/granite-speech", {"parts": ("decoder", "projector", "encoder")}, None),
        (QWEN2, {}, NF4),
    ],
)
def test_a_run_that_was_killed_resumes_to_identical_weights(
    model: str,
    changes: dict[str, Any],
    quantization: str | None,
    make_spec: Callable[..., Any],
    training: Callable[..., Any],
) -> None:
    if quantization:
        require_bitsandbytes()

    def spec_of(run: str, **more: Any) -> Any:
        spec = make_spec(model=model, run=run, epochs=2, save_steps=2, evaluate=True, **more)
        return dataclasses.replace(
            spec,
            lora=dataclasses.replace(spec.lora, **changes),
            model=dataclasses.replace(spec.model, quantization=quantization),
        )

    whole, cut = spec_of("whole"), spec_of("cut")
    code, out, err = training(whole).run()
    assert (code, err) == (0, ""), out
    process = training(cut).start()
    for line in process.stdout:
        if line.startswith("step 4/"):
            process.send_signal(signal.SIGKILL)
            break
    process.communicate(timeout=300)
    checkpoint = newest_verified(cut.paths.run)
    assert checkpoint is not None
    resumed = spec_of("cut", resume_from=str(Path(cut.paths.run) / checkpoint.name))
    code, out, err = training(resumed).run()
    assert (code, err) == (0, ""), out
    one, two = (Path(spec.paths.adapter) / "adapter_model.safetensors" for spec in (whole, resumed))
    assert one.read_bytes() == two.read_bytes()
    assert (Path(resumed.paths.run) / "metrics.json").exists()
