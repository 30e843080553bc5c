"""Every model family is trained, answers, and gives an adapter for the plain class of transformers."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from peft import PeftModel

from remote.payload.checkpoints.published import newest_verified
from remote.payload.training.answers import AnswerLog
from remote.payload.training.audio import RATE, decode
from remote.payload.training.base_model import cast_trainable, load_model, read_base, trainable_parameters
from remote.payload.training.collator import SAMPLES
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families.granite_speech import LogMel
from remote.payload.training.families.registry import MODELS, TINY, find_model
from remote.payload.training.generate import Generator
from remote.payload.training.run import train
from remote.payload.training.saving import export_adapter
from remote.payload.training.stop_request import StopRequest
from remote.policy.precision import judge_precision
from remote.protocol.training import FRESH, LoraSpec, ModelSpec

OMNI, VOXTRAL, GRANITE = "tiny/qwen2.5-omni", "tiny/voxtral", "tiny/granite-speech"
FLAMINGO, QWEN2 = "tiny/audio-flamingo-3", "tiny/qwen2-audio"
every = pytest.mark.parametrize("model", sorted(TINY))
PLAN = judge_precision(capability=None)


def batch_of(one: Any, *places: int) -> dict[str, Any]:
    batch = one.collator([one.samples[i] for i in places])
    return {name: value for name, value in batch.items() if name != SAMPLES}


@every
def test_a_family_learns_and_its_adapter_is_loaded_by_plain_peft(
    model: str, made: Callable[[str], Any], tmp_path: Path
) -> None:
    one = made(model)
    torch.manual_seed(0)
    adapter = load_model(one.base, PLAN, FRESH, LoraSpec(r=4, alpha=8, dropout=0.0), "cpu")
    cast_trainable(adapter, PLAN)
    optimizer = torch.optim.AdamW([parameter for _, parameter in trainable_parameters(adapter)], lr=1e-2)
    batch = batch_of(one, 0, 1)
    losses = []
    for _ in range(4):
        loss = adapter(**batch).loss
        loss.backward()
        assert all(p.grad is not None for _, p in trainable_parameters(adapter))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.2
    export_adapter(adapter, str(tmp_path / "adapter"), step=4, base=model)

    plain = getattr(transformers, one.base.family.class_name).from_pretrained(one.base.source, dtype=torch.float32)
    loaded = PeftModel.from_pretrained(plain, str(tmp_path / "adapter")).eval()
    alone = batch_of(one, 0)
    labels, positions = alone.pop("labels"), alone.pop("label_positions")
    with torch.no_grad():
        logits = loaded(**alone).logits.flatten(0, 1)[positions - 1]
        ours = adapter.eval()(**alone, labels=labels, label_positions=positions).loss
    theirs = torch.nn.functional.cross_entropy(logits, labels.flatten()[positions])
    assert theirs.item() == pytest.approx(ours.item(), abs=1e-4)
    assert ours.item() < losses[0] - 0.2


@every
def test_a_batch_of_prompts_is_answered_as_each_prompt_alone(
    model: str, made: Callable[[str], Any], make_spec: Callable[..., Any]
) -> None:
    one, spec = made(model), make_spec(model=model)
    spec = dataclasses.replace(spec, evaluation=dataclasses.replace(spec.evaluation, max_new_tokens=6))
    samples = dataclasses.replace(one.samples, samples=one.samples.samples[:4])
    adapter = load_model(one.base, PLAN, FRESH, LoraSpec(r=4, alpha=8), "cpu")

    def answers_of(run: str, batch_size: int) -> dict[Any, str]:
        evaluation = dataclasses.replace(spec.evaluation, batch_size=batch_size)
        log = AnswerLog(str(Path(spec.paths.run) / run))
        own = dataclasses.replace(spec, evaluation=evaluation)
        Generator(adapter, one.base, one.collator, samples, own, torch.device("cpu")).answer_all("key", log, bool)
        return log.known

    together = answers_of("together", 4)
    assert len(together) == 4
    assert together == answers_of("alone", 1)
    assert any(together.values())


@every
def test_the_four_dimensional_mask_for_older_cards_gives_the_same_loss(model: str, made: Callable[[str], Any]) -> None:
    adapter = load_model(made(model).base, PLAN, FRESH, LoraSpec(r=4, alpha=8), "cpu").eval()
    # One sample: two of a recording would share a row, which has a mask of its own.
    batch = batch_of(made(model), 0)
    length = batch["input_ids"].shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    with torch.no_grad():
        usual, explicit = adapter(**batch).loss, adapter(**{**batch, "attention_mask": causal}).loss
    assert explicit.item() == pytest.approx(usual.item(), abs=1e-5)


@every
def test_a_turing_plan_trains_with_finite_gradients(model: str, made: Callable[[str], Any]) -> None:
    one, plan = made(model), judge_precision(capability=None, requested="fp16-mixed")
    adapter = load_model(one.base, plan, FRESH, LoraSpec(r=4, alpha=8), "cpu")
    cast_trainable(adapter, plan)
    frozen = {parameter.dtype for parameter in adapter.parameters() if not parameter.requires_grad}
    kept = getattr(adapter.get_base_model(), "_keep_in_fp32_modules_strict", None)
    assert frozen == ({torch.float16, torch.float32} if kept else {torch.float16})
    with torch.autocast("cpu", dtype=torch.float16):
        loss = adapter(**batch_of(one, 1)).loss
    loss.backward()
    gradients = [parameter.grad for _, parameter in trainable_parameters(adapter)]
    assert {gradient.dtype for gradient in gradients} == {torch.float32}
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.train
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@every
def test_an_interrupted_training_of_each_family_resumes_to_identical_weights(
    model: str, how: signal.Signals, make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    whole, cut = (make_spec(model=model, run=run, epochs=2, save_steps=2) for run in ("whole", "cut"))
    code, out, err = training(whole).run()
    assert code == 0, out + err
    process = training(cut).start()
    for line in process.stdout:
        if line.startswith("step 4/"):
            process.send_signal(how)
            break
    process.communicate(timeout=300)
    assert process.returncode == (42 if how is signal.SIGTERM else -9)
    run = Path(cut.paths.run)
    checkpoint = newest_verified(str(run))
    assert checkpoint is not None and 2 <= checkpoint.step < 6
    resumed = make_spec(model=model, run="cut", epochs=2, save_steps=2, resume_from=str(run / checkpoint.name))
    code, out, err = training(resumed).run()
    assert code == 0, out + err
    assert training(resumed).sample_ids == training(whole).sample_ids
    one, two = (Path(spec.paths.adapter) / "adapter_model.safetensors" for spec in (whole, resumed))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.train
@pytest.mark.parametrize(("requested", "audio"), [("fp32", "last"), ("fp16-mixed", "first")])
@every
def test_each_family_resumes_with_shared_prefixes_and_with_a_loss_scale(
    model: str, requested: str, audio: str, make_spec: Callable[..., Any]
) -> None:
    def spec_of(run: str, resume_from: str = "") -> Any:
        loop = {"epochs": 2, "save_steps": 2, "keep_checkpoints": 3, "resume_from": resume_from}
        spec = make_spec(model=model, requested=requested, run=run, **loop)
        return dataclasses.replace(spec, data=dataclasses.replace(spec.data, audio_position=audio))

    whole = spec_of("whole")
    train(whole, StopRequest())
    middle = Path(whole.paths.checkpoints) / "checkpoint-4"
    assert (middle / "scaler.pt").exists() == (requested == "fp16-mixed")
    plan = json.loads((Path(whole.paths.run) / "memory.json").read_text())
    assert audio == "first" or plan["shared_length"] > 0
    rest = spec_of("rest", str(middle))
    train(rest, StopRequest())
    one, two = (Path(spec.paths.adapter) / "adapter_model.safetensors" for spec in (whole, rest))
    assert one.read_bytes() == two.read_bytes()
    samples = [Path(spec.paths.run, "samples.jsonl").read_text().splitlines() for spec in (whole, rest)]
    assert samples[0][4:] == samples[1]


def clips_of(one: Any) -> list[Any]:
    return [decode(recording.read())[0] for recording in one.recordings[:4]]


def batch_of_features(one: Any) -> dict[str, torch.Tensor]:
    return one.base.family.pad(one.base.extractor, [one.clip_of(r) for r in one.recordings[:4]])  # type: ignore[no-any-return]


def test_audio_flamingo_batches_equal_those_of_its_processor(made: Callable[[str], Any]) -> None:
    one = made(FLAMINGO)
    processor = transformers.AudioFlamingo3Processor.from_pretrained(one.base.source)
    theirs = processor(text=["<sound>"] * 4, audio=clips_of(one))
    ours = batch_of_features(one)
    assert torch.equal(ours["input_features_mask"], theirs["input_features_mask"])
    assert torch.allclose(ours["input_features"], theirs["input_features"], atol=1e-6)
    counts = (theirs["input_ids"] == processor.audio_token_id).sum(dim=1).tolist()
    assert counts == [one.clip_of(recording).tokens for recording in one.recordings[:4]]


def test_omni_features_equal_those_with_padding_to_300_seconds(made: Callable[[str], Any]) -> None:
    one = made(OMNI)
    ours = batch_of_features(one)
    made_by_theirs = one.base.extractor(
        clips_of(one), sampling_rate=RATE, padding="max_length", return_attention_mask=True, return_tensors="pt"
    )
    frames = ours["input_features"].shape[2]
    mask = made_by_theirs["attention_mask"]
    assert mask[:, frames:].sum() == 0
    assert torch.equal(ours["feature_attention_mask"], mask[:, :frames].long())
    theirs = made_by_theirs["input_features"][:, :, :frames]
    assert torch.allclose(ours["input_features"] * mask[:, None, :frames], theirs * mask[:, None, :frames], atol=1e-6)


def test_voxtral_gets_an_embedding_for_the_whole_window(made: Callable[[str], Any]) -> None:
    one = made(VOXTRAL)
    window = one.base.extractor.n_samples
    theirs = one.base.extractor(
        clips_of(one),
        sampling_rate=RATE,
        padding=True,
        pad_to_multiple_of=window,
        truncation=False,
        return_tensors="pt",
    )
    assert torch.allclose(batch_of_features(one)["input_features"], theirs["input_features"], atol=1e-6)
    assert {one.clip_of(recording).tokens for recording in one.recordings} == {75}


def test_granite_features_equal_those_of_torchaudio() -> None:
    """Values of GraniteSpeechFeatureExtractor with torchaudio 2.11 for this chirp."""
    time = np.arange(16_000 * 2 + 123) / 16_000
    chirp = (0.4 * np.sin(2 * np.pi * (200 + 900 * time) * time) * np.exp(-time / 3)).astype(np.float32)
    features = LogMel()(chirp)
    assert features.shape == (100, 160)
    expected = [
        [1.459944, 0.660703, 0.873585, 0.15195],
        [-0.197502, -0.197502, -0.197502, -0.197502],
        [-0.197502, 0.591625, -0.197502, 0.560177],
        [-0.197502] * 4,
    ]
    assert torch.allclose(features[::25, ::40], torch.tensor(expected), atol=1e-4)
    assert float(features.std()) == pytest.approx(0.410391, abs=1e-5)
    assert LogMel().tokens(len(features)) == 21


def test_the_thinker_is_loaded_from_a_whole_omni_checkpoint_without_its_vision_tower(
    made: Callable[[str], Any], tmp_path: Path
) -> None:
    one = made(OMNI)
    config = transformers.Qwen2_5OmniConfig(thinker_config=one.base.config.to_dict(), enable_audio_output=False)
    whole = transformers.Qwen2_5OmniForConditionalGeneration(config)
    whole.save_pretrained(tmp_path)
    one.base.tokenizer.save_pretrained(tmp_path)
    one.base.extractor.save_pretrained(tmp_path)
    base = read_base(ModelSpec(str(tmp_path)), str(tmp_path))
    assert base.family is TINY[OMNI]
    thinker = load_model(base, PLAN, FRESH, LoraSpec(r=4, alpha=8), "cpu").unload()
    wanted, found = whole.thinker.state_dict(), thinker.state_dict()
    assert {name for name in wanted if name not in found} == {
        name for name in wanted if name.startswith("model.visual")
    }
    assert all(torch.equal(wanted[name], value) for name, value in found.items())


def test_a_clip_that_the_window_would_cut_is_refused(made: Callable[[str], Any], tmp_path: Path) -> None:
    one = made(QWEN2)
    assert one.clip_of.longest_s == 5.0
    assert one.base.family.longest_s(transformers.WhisperFeatureExtractor()) == 30.0
    assert made("tiny/phi4-multimodal").clip_of.longest_s == 30.0


def test_markup_in_a_prompt_is_plain_text_for_a_tokenizer_that_does_not_parse_it(made: Callable[[str], Any]) -> None:
    one = made(VOXTRAL)
    ids = {token: one.base.tokenizer.convert_tokens_to_ids(token) for token in one.base.family.markup}
    prompt = one.samples.samples[0].prompt
    assert prompt[:3] == (ids["<s>"], ids["[INST]"], ids["[BEGIN_AUDIO]"])
    assert prompt[-1] == ids["[/INST]"]
    assert one.samples.samples[0].end == (ids["</s>"],)


def test_an_unknown_family_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        Exception, match=r"does not support 'whisper'; it supports audioflamingo3, granite_speech"
    ) as failed:
        find_model("whisper")
    assert all(name in str(failed.value) for name in MODELS)


def test_a_checkpoint_that_contains_an_adapter_is_refused(made: Callable[[str], Any], tmp_path: Path) -> None:
    source = tmp_path / "model"
    shutil.copytree(made(GRANITE).base.source, source)
    (source / "adapter_config.json").write_text("{}")
    with pytest.raises(TrainingFailed, match="contains an adapter of its own") as failed:
        read_base(ModelSpec(str(source)), str(source))
    assert failed.value.name == "model-unknown"
