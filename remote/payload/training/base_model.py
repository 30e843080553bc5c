"""The base model with its adapter, in the dtypes that the precision plan asks for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Tuple

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, AutoTokenizer

from remote.payload.training.failure import TrainingFailed
from remote.payload.training.label_loss import use_label_loss
from remote.payload.training.registry import AudioModel, find_model
from remote.protocol.exits import ExitCode
from remote.protocol.precision import PrecisionPlan
from remote.protocol.training import FRESH, LoraSpec, ModelSpec


@dataclass(frozen=True)
class BaseModel:
    """What is read before any weight: which family it is, its tokenizer and feature extractor, and where it lies."""

    source: str
    revision: Any
    trust_remote_code: bool
    family: AudioModel
    tokenizer: Any
    extractor: Any

    @property
    def pad_id(self) -> int:
        """What fills short rows; positions of it are never attended to nor labelled."""
        token = self.tokenizer.pad_token_id
        return int(token if token is not None else self.tokenizer.eos_token_id)


def read_base(spec: ModelSpec, source: str) -> BaseModel:
    """Config, tokenizer and feature extractor of the model at `source` (a hub id or folder)."""
    told = {"revision": spec.revision} if spec.revision and not os.path.isdir(source) else {}
    config = AutoConfig.from_pretrained(source, trust_remote_code=spec.trust_remote_code, **told)
    family = find_model(config.model_type)
    tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=spec.trust_remote_code, **told)
    wanted = family.audio_token_id(config)
    got = tokenizer.convert_tokens_to_ids(family.placeholder)
    if got != wanted:
        raise TrainingFailed(
            "tokenizer-audio-token",
            f"{family.placeholder} is token {got} in the tokenizer and {wanted} in config.json",
            hint="pipeline fix --only tokenizer",
            exit_code=ExitCode.ENVIRONMENT,
        )
    extractor = family.extractor_class.from_pretrained(source, **told)
    return BaseModel(source, spec.revision, spec.trust_remote_code, family, tokenizer, extractor)


def load_model(base: BaseModel, plan: PrecisionPlan, adapter: str, lora: LoraSpec, device: str) -> Any:
    """The model on `device` with one trainable adapter. Frozen weights have the plan's dtype.

    Audio becomes embeddings without a graph. Adapter weights get their dtype later, in `cast_trainable`, since a
    resume loads them again.
    """
    told = {"revision": base.revision} if base.revision and not os.path.isdir(base.source) else {}
    model = base.family.model_class.from_pretrained(
        base.source,
        dtype=getattr(torch, plan.frozen_dtype),
        attn_implementation=plan.attention,
        device_map={"": device} if device != "cpu" else None,
        **told,
    )
    model.config.use_cache = False
    use_label_loss(model)
    model.requires_grad_(False)
    for path in base.family.alone:
        encode_alone(model.get_submodule(path))
    for path in base.family.frozen:
        run_without_graph(model.get_submodule(path))
    if adapter == FRESH:
        return get_peft_model(model, lora_config(base, lora))
    where, inside = (adapter, {}) if os.path.isdir(adapter) else (base.source, {"subfolder": f"{adapter}-lora", **told})
    return PeftModel.from_pretrained(model, where, is_trainable=True, **inside)


def lora_config(base: BaseModel, lora: LoraSpec) -> Any:
    """LoRA on the language model's own linear layers, none in the towers, whose layers have the same names."""
    names = "|".join(lora.targets or base.family.targets)
    return LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=rf"{base.family.layers}\.(?:.*\.)?(?:{names})",
        bias="none",
        task_type="CAUSAL_LM",
        revision=base.revision,
    )


def run_without_graph(module: Any) -> None:
    """`module` stays in eval mode for good and its forward records nothing for backward."""
    forward: Callable[..., Any] = module.forward

    def quiet(*inputs: Any, **named: Any) -> Any:
        with torch.no_grad():
            return forward(*inputs, **named)

    module.eval()
    module.forward = quiet
    module.train = lambda mode=True: module


def encode_alone(encoder: Any) -> None:
    """`encoder` gives each clip of a batch what it gives that clip alone.

    transformers adds Phi-4's padding mask (0 and 1) to a bias instead of hiding what is padded
    (modeling_phi4_multimodal.py, `Phi4MultimodalAudioModel.forward`), so in a batch a clip would depend on its
    neighbours, while an answer is mostly asked for one clip.
    """
    forward: Callable[..., Any] = encoder.forward

    def each(features: torch.Tensor, mask: Optional[torch.Tensor] = None, **named: Any) -> torch.Tensor:
        if mask is None:
            out: torch.Tensor = forward(features, mask, **named)
            return out
        lengths = mask.sum(dim=1).tolist()
        rows = [forward(clip[None, :length], None, **named)[0] for clip, length in zip(features, lengths)]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    encoder.forward = each


def cast_trainable(model: Any, plan: PrecisionPlan) -> int:
    """Every trainable parameter has the plan's dtype; how many there are.

    Holds until the optimizer is made, if called after the last load of an adapter. Raises TrainingFailed where nothing
    is trainable, or where a scaler would meet float16 gradients.
    """
    wanted = getattr(torch, plan.trainable_dtype)
    trainable = trainable_parameters(model)
    for _, parameter in trainable:
        if parameter.dtype != wanted:
            parameter.data = parameter.data.to(wanted)
    if not trainable:
        raise TrainingFailed("trainable-set", "no parameter requires a gradient", hint="lora.targets")
    if plan.scaler and wanted != torch.float32:
        raise TrainingFailed("trainable-dtype", f"trainable {wanted} under a loss scaler, wanted float32")
    return sum(parameter.numel() for _, parameter in trainable)


def trainable_parameters(model: Any) -> List[Tuple[str, Any]]:
    """Name and parameter of everything that is trained."""
    return [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
