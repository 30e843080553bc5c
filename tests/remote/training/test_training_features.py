"""Features are computed once, and a batch equals that of the model's own processor."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoProcessor

from remote.payload.training.audio import RATE, decode
from remote.payload.training.features import Clip, FeatureCache, extractor_settings
from remote.payload.training.preflight import ClipReader

PHI4, QWEN2 = "tiny/phi4-multimodal", "tiny/qwen2-audio"


@pytest.fixture
def clip() -> Clip:
    return Clip(torch.arange(12.0).reshape(4, 3), valid=4, tokens=1, fill=-0.5)


def test_a_cached_clip_is_restored_unchanged(tmp_path: Path, clip: Clip) -> None:
    cache = FeatureCache(str(tmp_path), "extractor")
    assert cache.read(b"audio") is None
    cache.write(b"audio", clip)
    kept = cache.read(b"audio")
    assert kept is not None
    assert torch.equal(kept.values, clip.values)
    assert (kept.valid, kept.tokens, kept.fill) == (4, 1, -0.5)


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-1], lambda data: data[:-3] + b"xyz", lambda data: b"", lambda data: b"[]\n"]
)
def test_a_truncated_cache_entry_is_ignored(tmp_path: Path, clip: Clip, spoil: Callable[[bytes], bytes]) -> None:
    cache = FeatureCache(str(tmp_path), "extractor")
    cache.write(b"audio", clip)
    path = Path(cache.path(b"audio"))
    path.write_bytes(spoil(path.read_bytes()))
    assert cache.read(b"audio") is None


def test_a_different_extractor_or_other_audio_is_a_different_cache_entry(tmp_path: Path, clip: Clip) -> None:
    FeatureCache(str(tmp_path), "extractor").write(b"audio", clip)
    assert FeatureCache(str(tmp_path), "other").read(b"audio") is None
    assert FeatureCache(str(tmp_path), "extractor").read(b"audi0") is None


def test_extractors_are_distinguished_by_their_settings(made: Callable[[str], Any]) -> None:
    extractor = made(QWEN2).base.extractor
    before = extractor_settings("a", extractor)
    assert before == extractor_settings("a", extractor)
    assert before != extractor_settings("b", extractor)
    extractor.hop_length += 1
    try:
        assert extractor_settings("a", extractor) != before
    finally:
        extractor.hop_length -= 1


@pytest.mark.parametrize("model", [PHI4, QWEN2])
def test_a_damaged_cache_entry_is_computed_again(model: str, made: Callable[[str], Any], tmp_path: Path) -> None:
    one = made(model)
    reader = ClipReader(one.base, FeatureCache(str(tmp_path), "extractor"))
    recording = one.recordings[0]
    first = reader(recording)
    path = Path(reader.cache.path(recording.read()))
    path.write_bytes(b"{}")
    again = reader(recording)
    assert torch.equal(first.values, again.values)
    assert path.read_bytes() != b"{}"


def samples_of(one: Any) -> list[Any]:
    return [decode(recording.read())[0] for recording in one.recordings[:4]]


def test_phi4_batches_equal_those_of_its_extractor(made: Callable[[str], Any]) -> None:
    one = made(PHI4)
    theirs = one.base.extractor(samples_of(one), sampling_rate=RATE, return_tensors="pt")
    ours = one.base.family.pad(one.base.extractor, [one.clip_of(r) for r in one.recordings[:4]])
    assert torch.equal(ours["audio_embed_sizes"], theirs["audio_embed_sizes"])
    assert torch.equal(ours["audio_attention_mask"], theirs["audio_attention_mask"])
    mask = ours["audio_attention_mask"][..., None]
    assert torch.allclose(ours["audio_input_features"] * mask, theirs["audio_input_features"] * mask, atol=1e-4)


def test_qwen2_audio_batches_equal_those_of_its_processor(made: Callable[[str], Any]) -> None:
    one = made(QWEN2)
    processor = AutoProcessor.from_pretrained(one.base.source)
    chosen = [one.samples.samples[own[0]] for own in one.samples.by_recording[:4]]
    texts = [one.base.tokenizer.decode(sample.prompt) for sample in chosen]
    folded = [text.replace("<|AUDIO|>" * text.count("<|AUDIO|>"), "<|AUDIO|>") for text in texts]
    theirs = processor(text=folded, audio=samples_of(one), sampling_rate=RATE, padding=True, return_tensors="pt")
    ours = one.collator.prompts([(sample, one.clip_of(sample.recording)) for sample in chosen])
    assert torch.equal(ours["input_ids"], theirs["input_ids"])
    assert torch.equal(ours["attention_mask"], theirs["attention_mask"])
    assert torch.equal(ours["feature_attention_mask"], theirs["feature_attention_mask"])
    assert torch.allclose(ours["input_features"], theirs["input_features"], atol=1e-6)
