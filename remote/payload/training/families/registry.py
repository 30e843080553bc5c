"""The table of model families."""

from __future__ import annotations

from typing import Dict

from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families.audio_flamingo3 import AUDIO_FLAMINGO3
from remote.payload.training.families.audio_model import AudioModel
from remote.payload.training.families.granite_speech import GRANITE_SPEECH
from remote.payload.training.families.phi4_multimodal import PHI4_MULTIMODAL
from remote.payload.training.families.qwen2_audio import QWEN2_AUDIO
from remote.payload.training.families.qwen25_omni import QWEN25_OMNI
from remote.payload.training.families.voxtral import VOXTRAL
from remote.protocol.exits import ExitCode

MODELS: Dict[str, AudioModel] = {
    "audioflamingo3": AUDIO_FLAMINGO3,
    "granite_speech": GRANITE_SPEECH,
    "phi4_multimodal": PHI4_MULTIMODAL,
    "qwen2_5_omni": QWEN25_OMNI,
    "qwen2_5_omni_thinker": QWEN25_OMNI,
    "qwen2_audio": QWEN2_AUDIO,
    "voxtral": VOXTRAL,
}
"""Model families by `model_type` in config.json."""
TINY: Dict[str, AudioModel] = {
    "tiny/audio-flamingo-3": AUDIO_FLAMINGO3,
    "tiny/granite-speech": GRANITE_SPEECH,
    "tiny/phi4-multimodal": PHI4_MULTIMODAL,
    "tiny/qwen2-audio": QWEN2_AUDIO,
    "tiny/qwen2.5-omni": QWEN25_OMNI,
    "tiny/voxtral": VOXTRAL,
}
"""Small random checkpoints by `model.id`."""


def find_model(family: str) -> AudioModel:
    """Return the model of a family (`model_type` in config.json). Raises TrainingFailed for an unknown family."""
    if family in MODELS:
        return MODELS[family]
    hint = "set a model.revision whose config.json says phi4_multimodal" if family == "phi4mm" else "command: [...]"
    raise TrainingFailed(
        "model-unknown",
        f"the built-in trainer does not support {family!r}; it supports {', '.join(sorted(MODELS))}",
        hint=hint,
        exit_code=ExitCode.USAGE,
    )
